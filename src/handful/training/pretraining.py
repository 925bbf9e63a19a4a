"""From pictures of base classes to a backbone: train, validate, keep the best epoch, write the files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b, sha256
from pathlib import Path
from platform import python_version
from typing import TYPE_CHECKING, Any

import numpy as np

import handful
from handful.backbones.preprocessing import Preprocessing
from handful.core.base import Base
from handful.training.datasets import PictureSet
from handful.training.heads.learned_base import DEFAULT_HEADS, check_heads, learn_base
from handful.training.heads.trainer import known_classes
from handful.training.learning import SAVE_EVERY_S, Checkpoint, Stage, learn, with_prefix
from handful.training.settings import AUTO, NONE, Settings
from handful.utils.extras import TORCH, need
from handful.utils.files import write_whole
from handful.utils.threads import available_threads

if TYPE_CHECKING:
    from handful.training.joint_training import JointTraining
    from handful.training.learner import Learner

MIN_VALIDATION_CLASSES = 10  # if there are enough classes: 5 known and 5 unknown
CLASSES_PER_HELD_OUT = 4  # at most one class in 4 is held out
CHECKPOINT = "checkpoint.safetensors"
HEADS_CHECKPOINT = "heads.safetensors"  # the state of the learning of heads, which is the last part of a training


@dataclass(frozen=True)
class Trained:
    """The result of a training: its folder, the figures of the best epoch, the training time, the files."""

    folder: Path
    best: dict[str, Any]
    seconds: float
    files: dict[str, Path]
    together: dict[str, Any] | None = None  # the report of the joint training, with figures before and after


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
    import torch

    from handful.training.joint_training import JointTraining
    from handful.training.learner import Learner

    if device == AUTO:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:  # torch built without CUDA asserts
        reason = str(error).splitlines()[0]
        raise ValueError(f"there is no device {device!r} here ({reason}): give cpu, or auto") from None
    check_heads(heads)
    learning, held_out = split(pictures, settings)
    if len(learning.classes) < 2:
        raise ValueError(
            f"{pictures.name} has {len(learning.classes)} base class: two or more are needed to learn from"
        )
    if settings.together != NONE and settings.together not in heads:
        heads = (*heads, settings.together)  # else what it learns would be lost
    if heads:
        known_classes(learning.labels, None if held_out is None else held_out.labels, pictures.name)
    made_from = settings.plain() | {"pictures": digest(learning), "validation": digest(held_out)}
    folder.mkdir(parents=True, exist_ok=True)
    with locked_folder(folder), _reproducibly(threads or available_threads()), ExitStack() as stack:
        writer: Any = None
        if tensorboard:
            need("tensorboard", "curves", "tensorboard")
            from torch.utils.tensorboard import SummaryWriter

            writer = stack.enter_context(SummaryWriter(str(folder / "tensorboard")))
        learner = Learner(settings, learning, held_out, made_from, device)
        stages: list[Stage] = [learner]
        joint: JointTraining | None = None
        checkpoint = Checkpoint(folder / CHECKPOINT, save_every)

        def on_validation(row: dict[str, Any]) -> None:
            rows = [json.dumps(one) + "\n" for stage in stages for one in stage.reached.rows]
            write_whole(folder / "history.jsonl", "".join(rows).encode())
            for name, value in row.items() if writer else ():
                writer.add_scalar(name, value, row["epoch"] if joint is None else row["tasks"])
            on_epoch(row)

        learn(learner, checkpoint, partial(progress, "training"), on_validation)
        if settings.together != NONE:
            head_file = folder / "together.safetensors"
            joint = JointTraining(learner, made_from, head_file, partial(progress, "head"))
            if joint.name not in checkpoint.stages:
                (folder / HEADS_CHECKPOINT).unlink(missing_ok=True)  # heads that were learned on other features
            stages.append(joint)
            learn(joint, checkpoint, partial(progress, "together"), on_validation)
            head_file.unlink(missing_ok=True)
        return _finish(learner, joint, pictures, folder, heads, command, partial(progress, "heads"))


def _finish(
    learner: Learner,
    joint: JointTraining | None,
    pictures: PictureSet,
    folder: Path,
    heads: Sequence[str],
    command: str,
    progress: Callable[[int, int], object],
) -> Trained:
    """Write the files."""
    import torch
    from safetensors.numpy import save

    from handful.backbones.networks.export import export_onnx
    from handful.training.joint_training import HEAD, NETWORK

    settings, network, best, weights = learner.settings, learner.network, learner.reached.best, learner.best
    start = None
    if joint is not None and joint.best:
        weights = weights | with_prefix(joint.best, NETWORK)
        start = {settings.together: with_prefix(joint.best, HEAD)}
    learner.load(weights)
    if start is not None:
        best = best | learner.figures()  # figures of the network that is written
    features = learner.table(learner.pictures)
    others = None if learner.held_out is None else learner.table(learner.held_out)
    mean, std = (tuple(np.round(v.flatten().tolist(), 6).tolist()) for v in (learner.mean.cpu(), learner.std.cpu()))
    preprocessing = Preprocessing(learner.pixels.shape[1:3], mean, std, pictures.interpolation, pictures.crop)
    names = {"weights": "weights.safetensors", "backbone": "model.onnx", "base": "model.base.safetensors"}
    files = {what: folder / name for what, name in names.items()}
    about = {"network": settings.network, "channels": network.channels, "options": network.options}
    write_whole(files["weights"], save(weights, metadata={"handful": json.dumps(about, sort_keys=True)}))
    export_onnx(network.cpu().eval(), files["backbone"], preprocessing)
    base = learn_base(
        features, validation=others, heads=heads, seed=settings.seed, start=start,
        checkpoint=folder / HEADS_CHECKPOINT, progress=progress,
    )  # fmt: skip
    base.save(files["base"])
    (folder / HEADS_CHECKPOINT).unlink(missing_ok=True)
    seconds = learner.reached.seconds + (0 if joint is None else joint.reached.seconds)
    report = None if joint is None else joint.report()
    validation = "of the split val" if "val" in pictures.splits else "held out of its base classes"
    facts = {
        "settings": settings, "together": report,
        "data": learner.pictures, "digest": digest(learner.pictures), "classes": learner.n_classes,
        "held_out": 0 if learner.held_out is None else len(learner.held_out.classes), "validation": validation,
        "side": learner.pixels.shape[1], "dimension": features.dimension, "command": command,
        "best_epoch": best.get("epoch", 0), "epochs": len(learner.reached.rows), "minutes": seconds / 60,
        "threads": torch.get_num_threads(), "python": python_version(), "torch": torch.__version__,
    }  # fmt: skip
    card = folder / "card.md"
    card.write_text(_card(facts, best, base, files.values()), "utf-8")
    return Trained(folder, learner.reached.best, seconds, files | {"card": card}, report)


def split(pictures: PictureSet, settings: Settings) -> tuple[PictureSet, PictureSet | None]:
    """Return the pictures to learn from, and pictures of other classes for validation."""
    base = pictures.select("base")
    if "val" in pictures.splits:
        return base, pictures.select("val")
    n = len(base.classes)
    count = min(max(round(settings.held_out * n), MIN_VALIDATION_CLASSES), n // CLASSES_PER_HELD_OUT)
    if not settings.held_out or count < 4:  # two known and two unknown
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
        with open(path, "a+b") as file:  # the lock ends with the process
            with suppress(ImportError):  # Windows has no fcntl
                import fcntl

                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for leftover in folder.glob(".*.tmp"):
                leftover.unlink()
            yield
    except BlockingIOError:
        raise OSError(f"{path} is in use by another process: wait for it, or name another folder") from None


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


# ---- the model card

CARD = """# {settings.network} trained on {data.name}

A backbone for few-shot open-set recognition: pictures of {side} x {side} pixels to {dimension} features ({options}).

## Made from

{pictures:,} pictures of {classes:,} classes of {data.name}; {held_out:,} other classes \
({validation}) chose the epoch. Digest of the pixels: `{digest}`. The licence of these pictures decides \
what may be done with the weights.

Best of {epochs} epochs: {best_epoch}. {minutes:.1f} minutes of training on {threads} thread{plural}.

{figures}## Use

    handful embed PICTURES/ --backbone model.onnx -o features.parquet

`model.json` says how pictures are prepared. `model.base.safetensors` holds the mean feature of the base classes, for \
methods that centre on it, a sample of their items, and what methods learned from them: {heads}. The backbone only \
knows its training classes: expect worse results on other kinds of pictures.

{gains}{joint}## Make it again

    {command}

handful {version}, torch {torch}, Python {python}. On one thread of one machine the weights are the same to the \
last bit.

| setting | |
|---|---|
{settings_rows}
| file | bytes | SHA-256 |
|---|---|---|
{file_rows}"""

JOINT = """## Trained together

After the best epoch, the network and the head of {head} were trained together on {tasks:,} tasks of base classes \
(highest learning rate of the network: {rate:g}). {kept}. The figures are those of the head on tasks of {held_out:,} \
held-out classes, which chose the step. Before: the head had learned on fixed features.

| | accuracy | AUROC |
|---|---|---|
| before | {before[accuracy]:.2f} | {before[auroc]:.2f} |
| after | {after[accuracy]:.2f} | {after[auroc]:.2f} |

"""


def _card(facts: dict[str, Any], best: Mapping[str, Any], base: Base, files: Iterable[Path]) -> str:
    """Return the model card as Markdown: what it is, which data it was trained on, how to train it again."""
    settings, together, heads = facts["settings"], facts["together"], base.about["heads"]
    figures = [
        f"| {shots}-shot | {best[f'accuracy_{shots}']:.2f} | {best[f'auroc_{shots}']:.2f} |"
        for shots in (1, 5)
        if f"accuracy_{shots}" in best
    ]
    gains = []
    for name, head in heads.items():
        before, after = head["before"], head["after"]
        both = (f"{before[figure]:.2f} -> {after[figure]:.2f}" for figure in ("accuracy", "auroc"))
        gains.append(f"| {name} | {' | '.join(both)} |")
    joint = ""
    if together is not None:
        kept = "No step was better than the start, so the network is that of the best epoch"
        if together["gained"]:
            kept = f"The step after {together['best']:,} tasks was the best one and is kept"
        joint = JOINT.format(kept=kept, rate=settings.together_rate, **together)
    digests = [(file, sha256(file.read_bytes()).hexdigest()) for file in files]
    return CARD.format(
        **facts, joint=joint, pictures=len(facts["data"]), version=handful.__version__,
        plural="" if facts["threads"] == 1 else "s",
        options=", ".join(f"{k} {v}" for k, v in settings.options.items()) or "as published",
        figures=_table(
            "SimpleShot on tasks of the validation classes (they chose the epoch: expect a little less on others):\n\n"
            "| tasks | accuracy | AUROC |",
            figures,
        ),
        gains=_table("| head, before and after learning | accuracy | AUROC |", gains),
        heads=", ".join(heads) or "nothing",
        settings_rows="".join(f"| {name} | {value} |\n" for name, value in settings.plain().items()),
        file_rows="".join(f"| {file.name} | {file.stat().st_size:,} | `{digest}` |\n" for file, digest in digests),
    )  # fmt: skip


def _table(head: str, rows: Sequence[str]) -> str:
    """A table of three columns and a blank line; nothing without rows."""
    return "\n".join([head, "|---|---|---|", *rows, "", ""]) if rows else ""
