"""Training on base classes: backbones and heads. Needs torch, which is imported only when it is used.

from handful.training import Settings, pretrain

pretrain(read_pictures("omniglot/"), "backbone", Settings(epochs=40, options={"widths": [16, 32, 64, 128]}))
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from handful.training.heads import learn_base
    from handful.training.pretraining import pretrain
    from handful.training.settings import Settings

__all__ = ["Settings", "learn_base", "pretrain"]
_HOMES = {"Settings": "settings", "learn_base": "heads", "pretrain": "pretraining"}


def __getattr__(name: str) -> Any:
    if name == "datasets":
        return import_module("handful.training.datasets")
    if name not in _HOMES:
        raise AttributeError(f"module 'handful.training' has no attribute {name!r}")
    return getattr(import_module(f"handful.training.{_HOMES[name]}"), name)
