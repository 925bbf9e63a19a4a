"""How a network is trained: every choice that changes its weights, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from handful.core.parameters import Number, OneOf, Rule, check

PICTURES, DRAWINGS, NONE = "pictures", "drawings", "none"
CLASSES, PREDICT = "classes", "predict"
AUTO, FLOAT32, BFLOAT16 = "auto", "float32", "bfloat16"
RULES: dict[str, Rule] = {
    "epochs": Number(1, closed=True, whole=True),
    "batch": Number(2, closed=True, whole=True),
    "learning_rate": Number(0),
    "weight_decay": Number(0, closed=True),
    "label_smoothing": Number(0, 1, closed=True),
    "drop": Number(0, 0.9, closed=True),
    "held_out": Number(0, 0.5, closed=True),
    "patience": Number(0, closed=True, whole=True),
    "augment": OneOf((PICTURES, DRAWINGS, NONE)),
    "rotations": OneOf((NONE, CLASSES, PREDICT)),
    "precision": OneOf((AUTO, FLOAT32, BFLOAT16)),
    "seed": Number(0, 2**31, closed=True, whole=True),
}


@dataclass(frozen=True)
class Settings:
    """The same settings on the same pictures give the same weights, bit for bit on one thread of one machine.

    options: of the network, as {"widths": [16, 32, 64, 128]}.
    drop: how much DropBlock drops at the end of training; it is raised from nothing over the first half.
    rotations: "classes" takes a picture on its side for one of another class (characters have an up and a down);
    "predict" also asks the network which way up a picture is, self-supervision that needs no labels.
    precision: "auto" is bfloat16 where the processor computes in it, else float32; the sums stay float32.
    held_out: what part of the base classes is set aside for validation where the data set has no such split.
    patience: after so many validations without a better one training stops; 0: never before its last epoch.
    """

    network: str = "resnet12"
    options: Mapping[str, Any] = field(default_factory=dict)
    epochs: int = 100
    batch: int = 128
    learning_rate: float = 0.1
    weight_decay: float = 5e-4
    label_smoothing: float = 0.1
    drop: float = 0.1
    augment: str = PICTURES
    rotations: str = NONE
    precision: str = AUTO
    held_out: float = 0.05
    patience: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        check({name: getattr(self, name) for name in RULES}, RULES, "the training")

    def plain(self) -> dict[str, Any]:
        """For JSON: what a checkpoint and a model card hold."""
        return asdict(self) | {"options": dict(self.options)}
