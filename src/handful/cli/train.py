"""`handful train`: a backbone from pictures of base classes."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from handful.cli._app import command
from handful.cli._console import (
    absolute,
    console_for,
    print_lines,
    print_skipped,
    progress_bars,
    skipped_rows,
    stoppable,
)
from handful.cli._options import ALL_HEADS, Heads, Json, parse_heads


@dataclass(frozen=True)
class PictureOptions:
    """What is learned from."""

    PANEL: ClassVar[str] = "Pictures"

    dataset: Annotated[
        str | None,
        typer.Option(help="The data set that it is, see `handful datasets`. Default: found by its files."),
    ] = None
    split: Annotated[
        Path | None, typer.Option(help="Which classes are base, val and novel: .json or .csv, see `handful datasets`.")
    ] = None
    size: Annotated[
        int | None, typer.Option(min=16, help="Pixels per side. Default: the usual size of the data set.")
    ] = None
    held_out: Annotated[
        float, typer.Option(help="The share of base classes to validate with, if there is no split val.")
    ] = 0.05


@dataclass(frozen=True)
class NetworkOptions:
    """What is trained."""

    PANEL: ClassVar[str] = "Network"

    network: Annotated[str, typer.Option(help="resnet12, conv4 or wrn28_10.")] = "resnet12"
    widths: Annotated[
        str | None,
        typer.Option(help="Widths of a ResNet-12. Default: 64,160,320,640; for small drawings: 16,32,64,128."),
    ] = None
    heads: Heads = ALL_HEADS


@dataclass(frozen=True)
class LearningOptions:
    """How it learns."""

    PANEL: ClassVar[str] = "Learning"

    epochs: Annotated[int, typer.Option(min=1, help="How often each picture is seen, at most.")] = 100
    batch: Annotated[int, typer.Option(min=2, help="Pictures per step.")] = 128
    learning_rate: Annotated[float, typer.Option(help="The highest learning rate; it falls to 0 along a cosine.")] = 0.1
    weight_decay: Annotated[float, typer.Option(help="How strongly weights are kept small.")] = 5e-4
    label_smoothing: Annotated[float, typer.Option(help="Which part of a label is spread over all classes.")] = 0.1
    drop: Annotated[float, typer.Option(help="Which part of a map DropBlock drops, at the end.")] = 0.1
    augment: Annotated[
        str,
        typer.Option(
            help="pictures: windows, mirrors, colours; drawings: turned and bent a little; none; or auto: by the "
            "number of colours."
        ),
    ] = "auto"
    rotations: Annotated[
        str,
        typer.Option(help="classes: a turned picture is another class; predict: also learn how it is turned; none."),
    ] = "none"
    patience: Annotated[
        int, typer.Option(min=0, help="Stop after this many epochs without a better one; 0: never.")
    ] = 0
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same weights.")] = 0
    together: Annotated[
        str,
        typer.Option(
            help="A head, such as feat: after the best epoch, the network is trained together with it, and is kept "
            "if that is better on held-out classes. none: the network is not."
        ),
    ] = "none"
    together_tasks: Annotated[int, typer.Option(min=1, help="How many tasks network and head learn from together.")] = (
        2000
    )
    together_rate: Annotated[
        float, typer.Option(help="The highest learning rate of the network while it is trained with a head.")
    ] = 1e-4


@dataclass(frozen=True)
class MachineOptions:
    """Where it runs, and what it reports."""

    PANEL: ClassVar[str] = "Machine"

    precision: Annotated[str, typer.Option(help="float32, bfloat16, or auto: the best for this machine.")] = "auto"
    threads: Annotated[
        int | None, typer.Option(min=1, help="With 1, weights are the same bit for bit. Default: all cores.")
    ] = None
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto.")] = "auto"
    save_every: Annotated[float, typer.Option(min=0.0, help="Seconds between two checkpoints within an epoch.")] = 60.0
    track: Annotated[str, typer.Option(help="tensorboard, mlflow, none, or auto: what is installed.")] = "auto"


@command()
def train(
    pictures: Annotated[
        Path,
        typer.Argument(
            help="A data set, see `handful datasets`: its folder or file; or a folder with one folder for each class."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for checkpoints and the backbone.")] = Path(
        "handful-train"
    ),
    *,
    data: PictureOptions,
    model: NetworkOptions,
    learning: LearningOptions,
    machine: MachineOptions,
    as_json: Json = False,
) -> None:
    """Train a backbone on pictures of base classes, for few-shot tasks with other classes.

    The best epoch is chosen by few-shot tasks on the classes of the split val, or on base classes that are held out.
    Classes of the split novel are never read. The output folder holds model.onnx, which `handful embed` and `handful
    label` take as --backbone and which needs no torch; model.base.safetensors with the mean of the base classes and the
    trained heads of FEAT and others; the weights; and a model card that says how they were made.

    If the command is stopped, the same command continues and ends with the same weights.

    Example: handful train omniglot/ --widths 16,32,64,128 --rotations classes --epochs 30 -o omniglot-backbone
    """
    from handful.utils.extras import TORCH, need

    need("torch", "handful train", TORCH)
    from handful.training.datasets import read_pictures
    from handful.training.pretraining import pretrain
    from handful.training.settings import Settings

    console = console_for(as_json)
    options: dict[str, Any] = {} if model.widths is None else {"widths": _widths(model.widths)}
    with progress_bars(console, "pictures") as progress:
        picture_set = read_pictures(
            pictures, data.dataset, size=data.size, splits=("base", "val"), split_file=data.split,
            progress=lambda done, total: progress("reading", done, total),
        )  # fmt: skip
    skipped = [(one.path, one.reason) for one in picture_set.skipped]
    print_skipped(console, skipped)
    suited = "pictures" if picture_set.pixels.shape[-1] == 3 else "drawings"
    augment = suited if learning.augment == "auto" else learning.augment
    own = {"augment": augment, "precision": machine.precision, "held_out": data.held_out}
    settings = Settings(model.network, options, **vars(learning) | own)
    with stoppable(console, f"The same command continues from {output}."), progress_bars(console, "steps") as progress:
        trained = pretrain(
            picture_set, output, settings, threads=machine.threads, device=machine.device,
            save_every=machine.save_every, track=machine.track, heads=parse_heads(model.heads),
            command=shlex.join(["handful", *sys.argv[1:]]), progress=progress,
            on_epoch=lambda row: print_lines(console, [_row_in_words(row)]),
        )  # fmt: skip
    if as_json:
        document = {
            "best": trained.best, "seconds": trained.seconds, "files": absolute(trained.files),
            "skipped": skipped_rows(skipped), "together": trained.together,
        }  # fmt: skip
        typer.echo(json.dumps(document, indent=2))
        return
    console.print(f"\nThe best epoch: {_row_in_words(trained.best)}", markup=False)
    if trained.together is not None:
        print_lines(console, [_joint_in_words(trained.together)])
    words = ["handful", "embed", "PICTURES/", "--backbone", str(trained.files["backbone"]), "-o", "features.parquet"]
    print_lines(console, [f"The {what}: {path}" for what, path in trained.files.items()])
    print_lines(console, [f"To embed other pictures: {shlex.join(words)}"])


def _row_in_words(row: dict[str, Any]) -> str:
    """One epoch, or one validation of the joint training, in one line."""
    if "tasks" in row:
        both = f"accuracy {row['accuracy']:.1f}, AUROC {row['auroc']:.1f}"
        return f"together, {row['tasks']:,} tasks: loss {row['loss']:.3f}; {both}"
    figures = [
        f"{shots}-shot accuracy {row[f'accuracy_{shots}']:.1f}, AUROC {row[f'auroc_{shots}']:.1f}"
        for shots in (1, 5)
        if f"accuracy_{shots}" in row
    ]
    return "; ".join([f"epoch {row['epoch']}: loss {row['loss']:.3f}", *figures])


def _joint_in_words(report: dict[str, Any]) -> str:
    """What was gained by training network and head together, in one sentence."""
    before, after = report["before"], report["after"]
    what = f"Network and head {report['head']} trained together on {report['tasks']:,} tasks"
    if not report["gained"]:
        return (
            f"{what}: nothing was gained on {report['held_out']} held-out classes (accuracy {before['accuracy']:.1f}, "
            f"AUROC {before['auroc']:.1f} before), so the network is that of the best epoch"
        )
    return (
        f"{what}: accuracy {before['accuracy']:.1f} -> {after['accuracy']:.1f}, AUROC {before['auroc']:.1f} -> "
        f"{after['auroc']:.1f} on {report['held_out']} held-out classes, best after {report['best']:,} tasks"
    )


def _widths(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) for part in parts):
        raise typer.BadParameter(f"{text!r}: give four whole numbers, as in 16,32,64,128", param_hint="'--widths'")
    return [int(part) for part in parts]
