"""Learning on base classes: backbones and heads. Needs torch, which is imported with the module that uses it."""
