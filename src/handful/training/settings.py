"""The settings of a training: every choice that changes the weights, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from handful.core.parameters import Number, OneOf, Rule, check
from handful.training.heads.learned_base import HEADS

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
    "precision": OneOf((FLOAT32, BFLOAT16)),
    "seed": Number(0, 2**31, closed=True, whole=True),
    "together": OneOf((NONE, *(name for name, head in HEADS.items() if head.loss is not None))),
    "together_tasks": Number(1, closed=True, whole=True),
    "together_rate": Number(0),
}


@dataclass(frozen=True)
class Settings:
    """The settings of a training.

    The same settings and pictures give the same weights, to the last bit with one thread on one machine.

    Parameters
    ----------
    network : str
        The network: "resnet12" or another one of `handful.backbones.networks`.
    epochs : int
        How often each picture is seen.
    batch : int
        Pictures in a batch.
    learning_rate : float
        The highest learning rate. It rises linearly first, and then falls to 0 along a cosine.
    weight_decay : float
        The weight decay.
    label_smoothing : float
        The part of each label that is spread over all classes.
    augment : {"pictures", "drawings", "none"}
        How pictures are changed at random: cropped, mirrored and coloured; moved and turned a little; not at all.
    seed : int
        The seed of everything that is random.
    options : mapping
        Options of the network, such as {"widths": [16, 32, 64, 128]}.
    drop : float
        The rate of DropBlock at the end of training. It rises from 0 over the first half.
    rotations : str
        "classes": a rotated picture belongs to another class (characters have an up and a down). "predict": the network
        also predicts the rotation, which is self-supervision without labels. "none": neither.
    precision : str
        "float32"; or "bfloat16", which is faster on a GPU or processor that computes in it. Sums stay float32.
    held_out : float
        The share of the base classes that is used for validation if the data set has no split "val".
    patience : int
        Training stops after this many validations without a better one. 0: never before the last epoch.
    together : str
        The name of a head that is trained together with the network after the best epoch; "none": the network stays as
        it is then.
    together_tasks : int
        How many tasks they learn from.
    together_rate : float
        The highest learning rate of the network then; it falls to 0 along a cosine.
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
    precision: str = FLOAT32
    held_out: float = 0.05
    patience: int = 0
    seed: int = 0
    together: str = NONE
    together_tasks: int = 2000
    together_rate: float = 1e-4

    def __post_init__(self) -> None:
        check({name: getattr(self, name) for name in RULES}, RULES, "the training")

    def plain(self) -> dict[str, Any]:
        """Return the settings as plain data for JSON, for checkpoints and model cards."""
        return asdict(self) | {"options": dict(self.options)}
