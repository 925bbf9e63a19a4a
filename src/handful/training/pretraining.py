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
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
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
from handful.training import checkpoint
from handful.training.checkpoint import Checkpoint
from handful.training.datasets import PictureSet
from handful.training.heads.learned_base import DEFAULT_HEADS, check_heads, learn_base
from handful.training.heads.trainer import check_classes
from handful.training.model_card import write_card
from handful.training.settings import AUTO, BFLOAT16, FLOAT32, NONE, Settings
from handful.utils.extras import TORCH, need
from handful.utils.files import write_whole
from handful.utils.threads import available_threads

if TYPE_CHECKING:
    from handful.training.joint_training import Joint
    from handful.training.learner import Learner

MIN_VALIDATION_CLASSES = 10  # if there are enough classes: 5 known and 5 unknown
CLASSES_PER_HELD_OUT = 4  # at most one class in 4 is held out
SAVE_EVERY_S = 60.0
TOGETHER = "together"  # the settings of the joint training begin with it
VALIDATION_TASKS = 200
SHOTS = 1, 5
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
    from handful.training.joint_training import train_together
    from handful.training.learner import Learner, bfloat16_works, native_bfloat16, pixel_statistics

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
    mean, std = pixel_statistics(learning.pixels)
    if settings.precision == AUTO:
        settings = replace(settings, precision=BFLOAT16 if native_bfloat16(device) else FLOAT32)
    elif settings.precision == BFLOAT16 and device == "cpu" and not bfloat16_works():
        raise ValueError(
            "this machine claims to compute in bfloat16, but torch fails at it: train with precision float32, or "
            "set the environment variable ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16"
        )
    made_from = {"settings": settings.plain(), "pictures": digest(learning), "validation": digest(held_out)}
    folder.mkdir(parents=True, exist_ok=True)
    with checkpoint.locked_folder(folder), _reproducibly(threads or available_threads()):
        learner = Learner(settings, learning, mean, std, device)
        at = checkpoint.read(folder) or Checkpoint(made_from)
        _check_same(at, made_from, folder)
        at.made_from = made_from
        if at.state:
            learner.restore(at.state)
        with curves(folder, tensorboard) as tracked:
            _learn(learner, at, held_out, folder, save_every, tracked, progress, on_epoch)
            joint = None
            if settings.together != NONE:

                def on_validation(row: dict[str, float]) -> None:
                    tracked({f"together/{name}": value for name, value in row.items()}, int(row["tasks"]))
                    on_epoch(row)

                if not at.together:  # heads that were learned on other features
                    (folder / HEADS_CHECKPOINT).unlink(missing_ok=True)
                joint = train_together(learner, at, learning, held_out, folder, save_every, progress, on_validation)
                _write_history(at, folder)
        return _finish(learner, at, joint, pictures, learning, held_out, folder, heads, command, progress)


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


def _learn(
    learner: Learner,
    at: Checkpoint,
    held_out: PictureSet | None,
    folder: Path,
    save_every: float,
    tracked: Callable[..., None],
    progress: Callable[[str, int, int], object],
    on_epoch: Callable[[dict[str, Any]], object],
) -> None:
    """Train, with a checkpoint after each epoch and every `save_every` seconds.

    Ctrl-C saves nothing: it may come in the middle of a step, and the last checkpoint is complete.
    """
    begun, before = time.monotonic(), at.seconds
    saved = begun

    def save() -> None:
        at.state, at.seconds = learner.state(), before + time.monotonic() - begun
        checkpoint.write(at, folder)

    progress("training", at.step, learner.steps)
    while at.step < learner.steps and not _is_finished(at, learner.settings.patience):
        at.losses.append(learner.step(at.step))
        at.step += 1
        progress("training", at.step, learner.steps)
        if at.step % learner.steps_per_epoch == 0:
            row = {"epoch": at.step // learner.steps_per_epoch, "loss": float(np.mean(at.losses))}
            row |= _validated(learner, held_out)
            at.history.append(row)
            at.losses = []
            if row.get("figure", row["epoch"]) >= at.best.get("figure", -1):  # of equal epochs the later one is taken
                at.best, at.weights = row, learner.weights()
            tracked(row, row["epoch"])
            on_epoch(row)
            _write_history(at, folder)
        elif time.monotonic() - saved < save_every:
            continue
        save()
        saved = time.monotonic()


def _is_finished(at: Checkpoint, patience: int) -> bool:
    """Return whether the last `patience` epochs gave no better figure. An equal figure is not better."""
    if not (patience and at.best.get("figure")):
        return False
    first = next(row["epoch"] for row in at.history if row["figure"] == at.best["figure"])
    return bool(at.history[-1]["epoch"] - first >= patience)


def _validated(learner: Learner, held_out: PictureSet | None) -> dict[str, float]:
    if held_out is None:
        return {}
    features = FeatureTable(learner.embed(held_out.pixels), held_out.labels)
    return validate(features, learner.mean_feature(), learner.settings.seed)


def _finish(
    learner: Learner,
    at: Checkpoint,
    joint: Joint | None,
    pictures: PictureSet,
    learning: PictureSet,
    held_out: PictureSet | None,
    folder: Path,
    heads: Sequence[str],
    command: str,
    progress: Callable[[str, int, int], object],
) -> Trained:
    import torch
    from safetensors.torch import save

    from handful.backbones.networks.export import export_onnx

    settings, best = learner.settings, at.best
    weights = at.weights if joint is None else joint.weights
    learner.network.load_state_dict(weights)
    if joint is not None and joint.report["gained"]:
        best = best | _validated(learner, held_out)  # figures of the network that is written
    features = FeatureTable(learner.embed(learning.pixels), learning.labels, name=pictures.name)
    others = None if held_out is None else FeatureTable(learner.embed(held_out.pixels), held_out.labels)
    network = learner.network.cpu().eval()
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
    export_onnx(network, files["backbone"], preprocessing)
    base = learn_base(
        features,
        validation=others,
        heads=heads,
        seed=settings.seed,
        start={settings.together: joint.arrays} if joint is not None and joint.arrays else None,
        checkpoint=folder / HEADS_CHECKPOINT,
        progress=lambda done, total: progress("heads", done, total),
    )
    base.save(files["base"])
    (folder / HEADS_CHECKPOINT).unlink(missing_ok=True)
    versions = {"handful": handful.__version__, "torch": torch.__version__, "Python": python_version()}
    data = {
        "name": pictures.name, "pictures": len(learning.pixels), "classes": learner.n_classes,
        "held_out": 0 if held_out is None else len(held_out.classes), "digest": digest(learning),
        "validation": "of the split val" if "val" in pictures.splits else "held out of its base classes",
    }  # fmt: skip
    write_card(
        files["card"], settings=settings, data=data, preprocessing=asdict(preprocessing), dimension=features.dimension,
        best=best, epochs=len(at.history), seconds=at.seconds, threads=torch.get_num_threads(), command=command,
        versions=versions, files=[files["weights"], files["backbone"], files["base"]], heads=base.about["heads"],
        together=None if joint is None else joint.report,
    )  # fmt: skip
    return Trained(folder, at.best, at.seconds, files, None if joint is None else joint.report)


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


def _check_same(at: Checkpoint, now: dict[str, Any], folder: Path) -> None:
    """Raise ValueError if the checkpoint is of other settings or pictures.

    The joint training is the last stage: before it begins, any other one may be chosen.
    """
    before = at.made_from
    settings = before["settings"]
    differences = [
        f"{name} {settings.get(name)} there and {value} here"
        for name, value in now["settings"].items()
        if settings.get(name) != value and (at.together or not name.startswith(TOGETHER))
    ]
    differences += ["other pictures"] if any(before[k] != now[k] for k in ("pictures", "validation")) else []
    if differences:
        raise ValueError(
            f"{folder} holds a training with other settings or pictures ({'; '.join(differences)}): continue with the "
            "same ones, or give another folder"
        )


def _write_history(at: Checkpoint, folder: Path) -> None:
    rows = [*at.history, *at.together.get("rows", [])]
    write_whole(folder / "history.jsonl", "".join(json.dumps(row) + "\n" for row in rows).encode())


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
