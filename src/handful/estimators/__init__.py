"""The scikit-learn face of every method, and fitted models on disk."""
