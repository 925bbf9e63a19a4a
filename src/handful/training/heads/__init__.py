"""Heads of methods, learned on tasks of base classes: `learn_base` makes a `handful.methods.Base` from features."""

from handful.training.heads.learned_base import learn_base

__all__ = ["learn_base"]
