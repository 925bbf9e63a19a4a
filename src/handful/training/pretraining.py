"""From pictures of base classes to a backbone: train, validate, keep the best epoch, write the files.

If the settings name a head, it is trained together with the network after the best epoch (`joint_training`).

checkpoint.safetensors      the state of the training; the same call continues from it
history.jsonl               a row for each epoch, and for each validation of the joint training
weights.safetensors         the weights of the network, with the names of torch
model.onnx, model.json      the backbone: pictures to features without torch
model.base.safetensors      the mean of the base classes, and the heads of methods that learn from them
card.md                     what it is and how to make it again
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path
from platform import python_version
from typing import TYPE_CHECKING, Any

import numpy as np

import handful
from handful.backbones.preprocessing import Preprocessing
from handful.core.metrics import figures
from handful.features import FeatureTable, Protocol, draw
from handful.solving import solve
from handful.training.datasets import PictureSet
from handful.training.heads.learned_base import DEFAULT_HEADS, check_heads, learn_base
from handful.training.heads.trainer import check_classes
from handful.training.learning import SAVE_EVERY_S, Arrays, Checkpoint, Stage, learn, with_prefix
from handful.training.model_card import write_card
from handful.training.settings import AUTO, NONE, Settings
from handful.utils.extras import TORCH, need
from handful.utils.files import write_whole
from handful.utils.threads import available_threads

if TYPE_CHECKING:
    from handful.training.joint_training import JointTraining
    from handful.training.learner import Learner

MIN_VALIDATION_CLASSES = 10  # if there are enough classes: 5 known and 5 unknown
CLASSES_PER_HELD_OUT = 4  # at most one class in 4 is held out
VALIDATION_TASKS = 200
SHOTS = 1, 5
CHECKPOINT = "checkpoint.safetensors"
HEADS_CHECKPOINT = "heads.safetensors"  # the state of the learning of heads, which is the last part of a training


@dataclass(frozen=True)
class Trained:
    """The result of a training: its folder, the figures of the best epoch, the training time, the files.

    `together` is the report of the joint training, with figures before and after; None if there was none.
    """

    folder: Path
    best: dict[str, Any]
    seconds: float
    files: dict[str, Path]
    together: dict[str, Any] | None = None


def pretrain(
    pictures: PictureSet,
    output: str | Path,
    settings: Settings | None = None,
    *,
    threads: int | None = None,
    device: str = AUTO,
    save_every: float = SAVE_EVERY_S,
    tensorboard: bool = False,
    heads: Sequence[str] = DEFAULT_HEADS,
    command: str = "",
    progress: Callable[[str, int, int], object] = lambda name, done, total: None,
    on_epoch: Callable[[dict[str, Any]], object] = lambda row: None,
) -> Trained:
    """Train on the split "base" of a picture set. The split "val", or held-out base classes, choose the best epoch.

    A training that was interrupted continues, and its weights are those of an uninterrupted run (to the last bit with
    threads=1).

    Parameters
    ----------
    pictures : PictureSet
        The pictures, with labels and splits.
    output : path
        The folder of the result. A training with other settings or pictures in it is an error.
    settings : Settings, optional
        Everything that changes the weights.
    threads : int, optional
        None uses all cores.
    device : str
        "cpu", "cuda", ...; "auto" takes CUDA if there is any.
    save_every : float
        Seconds between two checkpoints.
    tensorboard : bool
        Whether the curves of the history are also written for TensorBoard.
    heads : sequence of str
        Heads to learn at the end, as in `learn_base`.
    command : str
        The command line, for the model card.
    progress : callable
        Called with the name of the stage, the steps done and the number of steps.
    on_epoch : callable
        Called with a row of figures after each epoch, and after each validation of the joint training; only the latter
        has "tasks", the number of tasks learned from.

    Returns
    -------
    Trained
    """
    folder, settings = Path(output), settings or Settings()
    need("torch", "training", TORCH)
    for package in ("onnx", "onnxruntime"):  # checked before the training, not after it
        need(package, "the backbone that training writes")
    from handful.training.joint_training import JointTraining
    from handful.training.learner import Learner, pixel_statistics

    device = _device(device)
    check_heads(heads)
    learning, held_out = split(pictures, settings)
    if len(learning.classes) < 2:
        raise ValueError(
            f"{pictures.name} has {len(learning.classes)} base class: two or more are needed to learn from"
        )
    if settings.together != NONE and settings.together not in heads:
        heads = (*heads, settings.together)  # else what it learns would be lost
    if heads:
        check_classes(learning.labels, None if held_out is None else held_out.labels, pictures.name)
    made_from = settings.plain() | {"pictures": digest(learning), "validation": digest(held_out)}
    folder.mkdir(parents=True, exist_ok=True)
    with locked_folder(folder), _reproducibly(threads or available_threads()):
        learner = Learner(settings, learning, *pixel_statistics(learning.pixels), device)
        backbone, joint = Backbone(learner, held_out, made_from), None
        checkpoint = Checkpoint(folder / CHECKPOINT, save_every)
        with curves(folder, tensorboard) as draw_row:

            def on_validation(row: dict[str, Any]) -> None:
                stages = (backbone,) if joint is None else (backbone, joint)
                rows = [json.dumps(one) + "\n" for stage in stages for one in stage.reached.rows]
                write_whole(folder / "history.jsonl", "".join(rows).encode())
                draw_row(row, row["epoch" if joint is None else "tasks"])
                on_epoch(row)

            learn(backbone, checkpoint, partial(progress, "training"), on_validation)
            if settings.together != NONE:
                head_file = folder / "together.safetensors"
                joint = JointTraining(
                    learner, learning, held_out, backbone.best, made_from, head_file, partial(progress, "head")
                )
                if joint.name not in checkpoint.stages:
                    (folder / HEADS_CHECKPOINT).unlink(missing_ok=True)  # heads that were learned on other features
                learn(joint, checkpoint, partial(progress, "together"), on_validation)
                head_file.unlink(missing_ok=True)
        return _finish(backbone, joint, pictures, learning, folder, heads, command, progress)


def _device(name: str) -> str:
    import torch

    if name == AUTO:
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(1, device=name)
    except (RuntimeError, AssertionError) as error:  # torch built without CUDA asserts
        raise ValueError(
            f"there is no device {name!r} here ({str(error).splitlines()[0]}): give cpu, or auto"
        ) from None
    return name


class Backbone(Stage):
    """A network that learns base classes. A step is a batch, and a validation follows each epoch."""

    name = "backbone"

    def __init__(self, learner: Learner, held_out: PictureSet | None, made_from: dict[str, Any]) -> None:
        super().__init__()
        self.learner, self.held_out, self.steps = learner, held_out, learner.steps
        # The joint training is a later stage: any may be chosen when this one is finished
        self.made_from = {name: value for name, value in made_from.items() if not name.startswith("together")}

    def step(self, number: int) -> float:
        """Learn from a batch."""
        return self.learner.step(number)

    def is_validation_due(self) -> bool:
        """After each epoch."""
        return self.reached.step % self.learner.steps_per_epoch == 0

    def validate(self) -> dict[str, Any]:
        """Return the number of the epoch, its mean loss, and the figures on held-out classes."""
        epoch = self.reached.step // self.learner.steps_per_epoch
        return {"epoch": epoch, "loss": float(np.mean(self.reached.losses))} | self.figures()

    def figures(self) -> dict[str, float]:
        """Return the figures of SimpleShot on held-out classes, if there are any."""
        if self.held_out is None:
            return {}
        features = FeatureTable(self.learner.embed(self.held_out.pixels), self.held_out.labels)
        return validate(features, self.learner.mean_feature(), self.learner.settings.seed)

    def is_better(self, figures: Mapping[str, Any]) -> bool:
        """Of equal epochs the later one is taken."""
        return "figure" not in figures or figures["figure"] >= self.reached.best.get("figure", -1)

    def result(self, figures: Mapping[str, Any]) -> Arrays:
        """Return the weights of the network."""
        return self.learner.weights()

    def is_past_its_best(self) -> bool:
        """Whether the last `patience` epochs gave no better figure. An equal figure is not better."""
        patience, best = self.learner.settings.patience, self.reached.best.get("figure")
        if not (patience and best):
            return False
        first = next(row["epoch"] for row in self.reached.rows if row["figure"] == best)
        return bool(self.reached.rows[-1]["epoch"] - first >= patience)

    def state(self) -> Arrays:
        """Return weights and momenta."""
        return self.learner.state()

    def restore(self, state: Arrays) -> None:
        """Continue from such a state."""
        self.learner.restore(state, self.reached.step)


def _finish(
    backbone: Backbone,
    joint: JointTraining | None,
    pictures: PictureSet,
    learning: PictureSet,
    folder: Path,
    heads: Sequence[str],
    command: str,
    progress: Callable[[str, int, int], object],
) -> Trained:
    """Write the files."""
    import torch
    from safetensors.numpy import save

    from handful.backbones.networks.export import export_onnx
    from handful.training.joint_training import HEAD, NETWORK

    learner, held_out, best, weights = backbone.learner, backbone.held_out, backbone.reached.best, backbone.best
    settings, network, report = learner.settings, learner.network, None if joint is None else joint.report()
    start = None
    if joint is not None and joint.best:
        weights = weights | with_prefix(joint.best, NETWORK)
        start = {settings.together: with_prefix(joint.best, HEAD)}
    learner.load(weights)
    if start is not None:
        best = best | backbone.figures()  # figures of the network that is written
    features = FeatureTable(learner.embed(learning.pixels), learning.labels, name=pictures.name)
    others = None if held_out is None else FeatureTable(learner.embed(held_out.pixels), held_out.labels)
    mean, std = (tuple(np.round(v.flatten().tolist(), 6).tolist()) for v in (learner.mean.cpu(), learner.std.cpu()))
    preprocessing = Preprocessing(learning.pixels.shape[1:3], mean, std, pictures.interpolation, pictures.crop)
    files = {
        "weights": folder / "weights.safetensors",
        "backbone": folder / "model.onnx",
        "base": folder / "model.base.safetensors",
        "card": folder / "card.md",
    }
    about = {"network": settings.network, "channels": network.channels, "options": network.options}
    write_whole(files["weights"], save(weights, metadata={"handful": json.dumps(about, sort_keys=True)}))
    export_onnx(network.cpu().eval(), files["backbone"], preprocessing)
    base = learn_base(
        features, validation=others, heads=heads, seed=settings.seed, start=start,
        checkpoint=folder / HEADS_CHECKPOINT, progress=partial(progress, "heads"),
    )  # fmt: skip
    base.save(files["base"])
    (folder / HEADS_CHECKPOINT).unlink(missing_ok=True)
    versions = {"handful": handful.__version__, "torch": torch.__version__, "Python": python_version()}
    seconds = backbone.reached.seconds + (0 if joint is None else joint.reached.seconds)
    data = {
        "name": pictures.name, "pictures": len(learning.pixels), "classes": learner.n_classes,
        "held_out": 0 if held_out is None else len(held_out.classes), "digest": digest(learning),
        "validation": "of the split val" if "val" in pictures.splits else "held out of its base classes",
    }  # fmt: skip
    write_card(
        files["card"], settings=settings, data=data, size=learning.pixels.shape[1], dimension=features.dimension,
        best=best, epochs=len(backbone.reached.rows), seconds=seconds, threads=torch.get_num_threads(),
        command=command, versions=versions, files=[files["weights"], files["backbone"], files["base"]],
        heads=base.about["heads"], together=report,
    )  # fmt: skip
    return Trained(folder, backbone.reached.best, seconds, files, report)


def split(pictures: PictureSet, settings: Settings) -> tuple[PictureSet, PictureSet | None]:
    """Return the pictures to learn from, and pictures of other classes for validation."""
    base = pictures.select("base")
    if "val" in pictures.splits:
        return base, pictures.select("val")
    n = len(base.classes)
    count = (
        min(max(round(settings.held_out * n), MIN_VALIDATION_CLASSES), n // CLASSES_PER_HELD_OUT)
        if settings.held_out
        else 0
    )
    if count < 4:  # two known and two unknown
        return base, None
    held_out_classes = np.random.default_rng([settings.seed]).choice(base.classes, count, replace=False)
    is_held_out = np.isin(base.labels, held_out_classes)
    return base.take(np.flatnonzero(~is_held_out)), base.take(np.flatnonzero(is_held_out))


def digest(pictures: PictureSet | None) -> str:
    """Return a digest of the pictures, their labels and their order."""
    hasher = blake2b(digest_size=16)
    if pictures is not None:
        hasher.update(f"{pictures.pixels.shape}".encode())
        for i in range(0, len(pictures.pixels), 4096):
            hasher.update(np.ascontiguousarray(pictures.pixels[i : i + 4096]).data)
        hasher.update("\n".join(pictures.labels.tolist()).encode())
    return hasher.hexdigest()


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Lock the folder, because two trainings would overwrite each other; remove files of a killed one."""
    path = folder / ".lock"
    try:
        file = open(path, "a+b")  # noqa: SIM115  # it is closed below
    except OSError as error:
        raise OSError(error.errno, f"the folder cannot be written: {error.strerror}", str(path)) from None
    with file:  # the lock ends with the process
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except ImportError:  # pragma: no cover - not on Windows
            pass
        except BlockingIOError:
            raise OSError(f"{path} is in use by another process: wait for it, or name another folder") from None
        for leftover in folder.glob(".*.tmp"):
            leftover.unlink()
        yield


@contextmanager
def _reproducibly(threads: int) -> Iterator[None]:
    """Let torch use this number of threads and only deterministic algorithms."""
    import torch

    before = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        torch.use_deterministic_algorithms(before[1])


# ---- validation


def fitting_protocol(labels: np.ndarray, shots: int) -> Protocol | None:
    """Return the protocol closest to the paper's (5 ways, 5 outlier classes, 15 queries) that these classes allow.

    None if they allow no task at all.
    """
    counts = np.unique(labels, return_counts=True)[1]
    ways = min(5, len(counts) // 2) if len(counts) < 10 else 5
    queries = min(15, int(counts.min()) - shots)
    return Protocol(ways, shots, queries, min(5, len(counts) - ways), queries) if ways >= 2 and queries >= 1 else None


def validate(features: FeatureTable, base_mean: np.ndarray, seed: int) -> dict[str, float]:
    """Return accuracy and AUROC of SimpleShot in percent, and `figure`, their mean, which early stopping uses.

    The tasks are the same at every call, so that epochs can be compared.
    """
    means: dict[str, float] = {}
    for shots in SHOTS:
        if (protocol := fitting_protocol(features.need_labels(), shots)) is None:
            continue
        episodes = draw(features.features, features.need_labels(), protocol, seed=seed, tasks=VALIDATION_TASKS)
        result = solve(episodes.task, method="simpleshot", base_mean=base_mean)
        values = figures(result.probabilities, result.outlier_scores, episodes.truth)
        means[f"accuracy_{shots}"], means[f"auroc_{shots}"] = (
            100 * float(np.mean(values[k])) for k in ("accuracy", "auroc")
        )
    return means | ({"figure": float(np.mean(list(means.values())))} if means else {})


# ---- curves


@contextmanager
def curves(folder: Path, wanted: bool) -> Iterator[Callable[[Mapping[str, Any], int], None]]:
    """Yield the function that draws rows of figures in TensorBoard, or does nothing."""
    if not wanted:
        yield lambda row, step: None
        return
    need("tensorboard", "curves", "tensorboard")
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(folder / "tensorboard")) as writer:

        def draw_row(row: Mapping[str, Any], step: int) -> None:
            for name, value in row.items():
                if isinstance(value, int | float):
                    writer.add_scalar(name, value, step)

        yield draw_row
