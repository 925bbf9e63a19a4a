"""The scikit-learn face of every method, and fitted models on disk."""

from handful.estimators.classifier import FewShotClassifier
from handful.estimators.factory import make_estimator
from handful.estimators.given_labels import scorer
from handful.estimators.model_reader import load

__all__ = ["FewShotClassifier", "load", "make_estimator", "scorer"]
