"""The first stage of a training: a network learns base classes. A step is a batch, a validation follows each epoch.

loss = CE(head(network(x)), y), with smoothed labels
+ CE(rotation_head(network(x)), quarter turns), if those are predicted
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from handful.backbones.networks import build
from handful.core.metrics import figures
from handful.features import FeatureTable, Protocol, draw
from handful.solving import solve
from handful.training.datasets import PictureSet
from handful.training.learning import Arrays, Stage, copied, cosine
from handful.training.settings import BFLOAT16, CLASSES, DRAWINGS, PICTURES, PREDICT, Settings

MOMENTUM = 0.9
WARM_UP_SHARE = 0.03  # of the steps, in which the learning rate rises to its maximum
MEAN_SAMPLE_PICTURES = 2000  # for the mean feature during training; at the end all pictures are used
SAMPLE_PIXELS = 5000 * 28 * 28  # pixels
ORDER, AUGMENTATION = 1, 2  # streams of random numbers
VALIDATION_TASKS, SHOTS = 200, (1, 5)
TURN, SHEAR, STRETCH, SHIFT = 15.0, 10.0, 0.15, 0.1  # for drawings: degrees, degrees, and shares of the size
AREA, RATIO = (0.35, 1.0), (3 / 4, 4 / 3)  # of the window that is cut from a photo
JITTER = 0.4  # of its brightness, contrast and saturation


class Learner(Stage):
    """A network that learns the classes of `pictures`; those of `held_out` choose the best epoch."""

    def __init__(
        self,
        settings: Settings,
        pictures: PictureSet,
        held_out: PictureSet | None = None,
        made_from: Mapping[str, Any] | None = None,
        device: str = "cpu",
    ) -> None:
        self.settings, self.pictures, self.held_out = settings, pictures, held_out
        self.pixels, self.device = pictures.pixels, torch.device(device)
        if len(self.pixels) < settings.batch:
            raise ValueError(
                f"{pictures.name} has {len(self.pixels)} pictures to learn from, and a batch {settings.batch}: "
                "give a smaller batch"
            )
        self.steps_per_epoch = len(self.pixels) // settings.batch  # the remaining pictures come in another epoch
        # The joint training is a later stage: any may be chosen when this one is finished
        own = {name: value for name, value in (made_from or {}).items() if not name.startswith("together")}
        super().__init__("backbone", settings.epochs * self.steps_per_epoch, own)
        classes, codes = np.unique(pictures.labels, return_inverse=True)
        self.codes, self.n_classes = torch.from_numpy(codes), len(classes)
        self.mean, self.std = (
            torch.from_numpy(v.astype(np.float32))[:, None, None].to(device) for v in _pixel_statistics(self.pixels)
        )
        torch.manual_seed(settings.seed)
        # The number of features of conv4 depends on the size of pictures
        size = {"size": self.pixels.shape[1]} if settings.network == "conv4" else {}
        self.network = build(settings.network, self.pixels.shape[-1], **(size | dict(settings.options)))
        try:
            with torch.no_grad():
                self.dimension = int(self.network.eval()(self._standardised(self.pixels[:1]).cpu()).shape[1])
        except RuntimeError:  # the map is empty after all poolings
            height, width = self.pixels.shape[1:3]
            raise ValueError(
                f"pictures of {pictures.name} have {height} x {width} pixels, too few for {settings.network}: give a "
                "larger size"
            ) from None
        turns = 4 if settings.rotations == CLASSES else 1
        self.head = nn.Linear(self.dimension, turns * self.n_classes)
        self.rotation_head = nn.Linear(self.dimension, 4) if settings.rotations == PREDICT else None
        self.uses_bfloat16 = settings.precision == BFLOAT16
        layout = torch.channels_last if self.uses_bfloat16 else torch.contiguous_format  # measured to be faster
        self.all = nn.ModuleDict({"network": self.network, "head": self.head})
        if self.rotation_head is not None:
            self.all["rotation_head"] = self.rotation_head
        to: Any = self.all.to  # torch's annotations lack memory_format
        to(device=self.device, memory_format=layout)
        self.tensors = dict(self.all.named_parameters()) | dict(self.all.named_buffers())
        self.optimiser = torch.optim.SGD(
            [{"params": list(self.all.parameters()), "highest": settings.learning_rate}],
            lr=settings.learning_rate, momentum=MOMENTUM, nesterov=True, weight_decay=settings.weight_decay,
        )  # fmt: skip

    def step(self, number: int) -> float:
        """Learn from batch `number`; return the loss before the step."""
        s = self.settings
        rows = self._rows(number)
        rng = np.random.default_rng([s.seed, AUGMENTATION, number])
        torch.manual_seed((s.seed << 32) + number)  # for dropout
        x = augment(self._scaled(self.pixels[rows]), s.augment, rng)
        y = self.codes[rows].to(self.device)
        quarters = np.zeros(len(rows), np.int64)
        if self.rotation_head is not None or s.rotations == CLASSES:
            quarters = rng.integers(0, 4, len(rows))
            x = rotated(x, quarters)
        q = torch.from_numpy(quarters).to(self.device)
        self.set_rate(self._rate_factor(number))
        drop: Any = getattr(self.network, "drop", None)
        if drop is not None:
            drop(s.drop * min(1.0, 2 * number / self.steps))
        self.all.train()
        with self._autocast():
            z = self.network((x - self.mean) / self.std)
            loss = F.cross_entropy(self.head(z), y + q * self.n_classes * (s.rotations == CLASSES),
                                   label_smoothing=s.label_smoothing)  # fmt: skip
            if self.rotation_head is not None:
                loss = loss + F.cross_entropy(self.rotation_head(z), q)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]  # torch has no annotations for it
        self.optimiser.step()
        value = loss.item()
        if not math.isfinite(value):
            raise ValueError(
                f"the loss is {value} at step {number}: give a smaller learning rate than {s.learning_rate:g}"
            )
        return value

    def is_validation_due(self) -> bool:
        """After each epoch."""
        return self.reached.step % self.steps_per_epoch == 0

    def validate(self) -> dict[str, Any]:
        """Return the number of the epoch, its mean loss, and the figures on held-out classes."""
        epoch = self.reached.step // self.steps_per_epoch
        return {"epoch": epoch, "loss": float(np.mean(self.reached.losses))} | self.figures()

    def figures(self) -> dict[str, float]:
        """Return accuracy and AUROC of SimpleShot on the same tasks of held-out classes, and `figure`, their mean."""
        if self.held_out is None:
            return {}
        features, labels, mean = self.embed(self.held_out.pixels), self.held_out.labels, self.mean_feature()
        means: dict[str, float] = {}
        for shots in SHOTS:
            if (protocol := _fitting_protocol(labels, shots)) is None:
                continue
            episodes = draw(features, labels, protocol, seed=self.settings.seed, tasks=VALIDATION_TASKS)
            result = solve(episodes.task, method="simpleshot", base_mean=mean)
            values = figures(result.probabilities, result.outlier_scores, episodes.truth)
            means |= {f"{name}_{shots}": 100 * float(np.mean(values[name])) for name in ("accuracy", "auroc")}
        return means | ({"figure": float(np.mean(list(means.values())))} if means else {})

    def is_better(self, figures: Mapping[str, Any]) -> bool:
        """Of equal epochs the later one is taken."""
        return "figure" not in figures or figures["figure"] >= self.reached.best.get("figure", -1)

    def result(self, figures: Mapping[str, Any]) -> Arrays:
        """Return the weights of the network, without the heads."""
        return copied(self.network.state_dict())

    def is_past_its_best(self) -> bool:
        """Whether the last `patience` epochs gave no better figure. An equal figure is not better."""
        patience, best = self.settings.patience, self.reached.best.get("figure")
        if not (patience and best):
            return False
        first = next(row["epoch"] for row in self.reached.rows if row["figure"] == best)
        return bool(self.reached.rows[-1]["epoch"] - first >= patience)

    def embed(self, pixels: np.ndarray, batch: int = 256) -> np.ndarray:
        """Return the features, float32 [n, D], of pictures uint8 [n, H, W, C], in evaluation mode."""
        self.all.eval()
        with torch.inference_mode():
            parts = [
                self.network(self._standardised(pixels[i : i + batch])).float().cpu()
                for i in range(0, len(pixels), batch)
            ]
        return torch.cat(parts).numpy()

    def table(self, pictures: PictureSet) -> FeatureTable:
        """Return the features of pictures with their labels."""
        return FeatureTable(self.embed(pictures.pixels), pictures.labels, name=pictures.name)

    def features(self, rows: np.ndarray) -> Tensor:
        """Return the features, float32 [n, D], of these rows in evaluation mode; gradients flow to the network."""
        self.all.eval()
        with self._autocast():
            z: Tensor = self.network(self._standardised(self.pixels[rows]))
        return z.float()

    def mean_feature(self) -> np.ndarray:
        """Return the mean feature [D] of a sample of the pictures."""
        sample = self.embed(self.pixels[:: max(1, len(self.pixels) // MEAN_SAMPLE_PICTURES)])
        return np.asarray(sample.mean(axis=0, dtype=np.float64), np.float32)

    def load(self, weights: Mapping[str, np.ndarray]) -> None:
        """Set the weights of the network."""
        self.network.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})

    def _rows(self, number: int) -> np.ndarray:
        epoch, at = divmod(number, self.steps_per_epoch)
        if getattr(self, "_epoch", None) != epoch:
            self._order = np.random.default_rng([self.settings.seed, ORDER, epoch]).permutation(len(self.pixels))
            self._epoch = epoch
        return np.sort(self._order[at * self.settings.batch : (at + 1) * self.settings.batch])  # in the file's order

    def _rate_factor(self, number: int) -> float:
        """Return the factor of the learning rate at a step: it rises linearly, then falls along a cosine."""
        warm = max(1, round(WARM_UP_SHARE * self.steps))
        return (number + 1) / warm if number < warm else cosine((number - warm) / max(1, self.steps - warm))

    def _scaled(self, pixels: np.ndarray) -> Tensor:
        """Return uint8 [n, H, W, C] as [n, C, H, W] with values 0..1."""
        x = torch.from_numpy(np.ascontiguousarray(pixels)).to(self.device)
        return x.permute(0, 3, 1, 2).float().div(255)

    def _standardised(self, pixels: np.ndarray) -> Tensor:
        return (self._scaled(pixels) - self.mean) / self.std

    def _autocast(self) -> Any:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.uses_bfloat16)


def _fitting_protocol(labels: np.ndarray, shots: int) -> Protocol | None:
    """Return the protocol closest to the paper's (5 ways, 5 outlier classes, 15 queries) that these classes allow."""
    counts = np.unique(labels, return_counts=True)[1]
    ways = min(5, len(counts) // 2)
    queries = min(15, int(counts.min()) - shots)
    return Protocol(ways, shots, queries, min(5, len(counts) - ways), queries) if ways >= 2 and queries >= 1 else None


def _pixel_statistics(pixels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation of each channel, of pixels 0..1, over a sample of at most 100 MB."""
    max_pictures = max(100, SAMPLE_PIXELS // (pixels.shape[1] * pixels.shape[2]))
    sample = pixels[:: max(1, len(pixels) // max_pictures)].reshape(-1, pixels.shape[-1]) / 255.0
    return sample.mean(axis=0), np.maximum(sample.std(axis=0), 1e-3)


# ---- random changes of pictures, a batch at a time
# NumPy draws the random numbers: they are the same on every device.


def augment(x: Tensor, how: str, rng: np.random.Generator) -> Tensor:
    """Return changed versions of pictures [n, C, H, W] with values 0..1; `how` is a value of `Settings.augment`."""
    n = len(x)
    if how == PICTURES:
        x = _warp(x, _crop_maps(n, rng))
        return _coloured(x, rng) if x.shape[1] == 3 else x
    if how == DRAWINGS:
        return _warp(x, _affine_maps(n, rng))
    return x


def rotated(x: Tensor, quarters: np.ndarray) -> Tensor:
    """Rotate each picture of [n, C, H, W] by its own number of quarter turns."""
    out = torch.empty_like(x)
    for k in range(4):
        rows = torch.from_numpy(np.flatnonzero(quarters == k)).to(x.device)
        out[rows] = torch.rot90(x[rows], k, dims=(2, 3))
    return out


def _warp(x: Tensor, maps: np.ndarray) -> Tensor:
    """Resample with maps [n, 2, 3] from positions in the new picture to positions in the old one, both -1..1."""
    theta = torch.from_numpy(maps.astype(np.float32)).to(x.device)
    grid = F.affine_grid(theta, list(x.shape), align_corners=False)
    return F.grid_sample(x, grid, padding_mode="border", align_corners=False)


def _affine_maps(n: int, rng: np.random.Generator) -> np.ndarray:
    turn, shear = (np.deg2rad(rng.uniform(-limit, limit, n)) for limit in (TURN, SHEAR))
    wide, high = np.exp(rng.uniform(-STRETCH, STRETCH, (2, n)))
    maps = np.empty((n, 2, 3))
    maps[:, 0, 0], maps[:, 0, 1] = wide * np.cos(turn), -high * np.sin(turn + shear)
    maps[:, 1, 0], maps[:, 1, 1] = wide * np.sin(turn), high * np.cos(turn + shear)
    maps[:, :, 2] = rng.uniform(-2 * SHIFT, 2 * SHIFT, (n, 2))
    return maps


def _crop_maps(n: int, rng: np.random.Generator) -> np.ndarray:
    """Return maps that cut a window of random area and shape from each picture; half of them are mirrored."""
    area, ratio = rng.uniform(*AREA, n), np.exp(rng.uniform(np.log(RATIO[0]), np.log(RATIO[1]), n))
    wide, high = np.minimum(np.sqrt(area * ratio), 1), np.minimum(np.sqrt(area / ratio), 1)
    maps = np.zeros((n, 2, 3))
    maps[:, 0, 0] = wide * rng.choice([-1, 1], n)
    maps[:, 1, 1] = high
    maps[:, 0, 2], maps[:, 1, 2] = rng.uniform(-1, 1, n) * (1 - wide), rng.uniform(-1, 1, n) * (1 - high)
    return maps


def _coloured(x: Tensor, rng: np.random.Generator) -> Tensor:
    brightness, contrast, saturation = (
        torch.from_numpy(rng.uniform(1 - JITTER, 1 + JITTER, (len(x), 1, 1, 1)).astype(np.float32)).to(x.device)
        for _ in range(3)
    )
    x = (x * brightness).clamp(0, 1)
    grey = x.mean(dim=1, keepdim=True)  # [n, 1, H, W]
    x = (grey + (x - grey) * saturation).clamp(0, 1)
    middle = x.mean(dim=(1, 2, 3), keepdim=True)
    return (middle + (x - middle) * contrast).clamp(0, 1)
