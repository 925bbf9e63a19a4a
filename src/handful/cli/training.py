"""The researcher's other command: train."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from handful.cli._shared import Json, app, as_rows, bars, console_for, say_skipped, stoppable


@app.command()
def train(
    pictures: Annotated[
        Path,
        typer.Argument(help="A data set, see `handful datasets`: its folder or file; or a folder for each class."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for checkpoints and the backbone.")] = Path(
        "handful-train"
    ),
    dataset: Annotated[
        str | None,
        typer.Option(help="Which data set it is, see `handful datasets`. Default: what it looks like."),
    ] = None,
    split: Annotated[
        Path | None, typer.Option(help="Which classes are base, val and novel: .json or .csv, see `handful datasets`.")
    ] = None,
    network: Annotated[str, typer.Option(help="resnet12, conv4 or wrn28_10.")] = "resnet12",
    widths: Annotated[
        str | None, typer.Option(help="Of a ResNet-12. Default: 64,160,320,640; 16,32,64,128 suits small drawings.")
    ] = None,
    size: Annotated[int | None, typer.Option(min=16, help="Pixels a side. Default: the data set's usual.")] = None,
    epochs: Annotated[int, typer.Option(min=1, help="How often each picture is seen, at most.")] = 100,
    batch: Annotated[int, typer.Option(min=2, help="Pictures a step.")] = 128,
    learning_rate: Annotated[float, typer.Option(help="At its height; a cosine brings it to nothing.")] = 0.1,
    weight_decay: Annotated[float, typer.Option(help="How weights are kept small.")] = 5e-4,
    label_smoothing: Annotated[float, typer.Option(help="What part of a label is spread over all classes.")] = 0.1,
    drop: Annotated[float, typer.Option(help="What part DropBlock drops, in the end.")] = 0.1,
    augment: Annotated[
        str, typer.Option(help="pictures: windows, mirrors, colours; drawings: turned and bent a little; none; auto.")
    ] = "auto",
    rotations: Annotated[
        str,
        typer.Option(help="classes: a picture on its side is of another class; predict: learn which way up too; none."),
    ] = "none",
    precision: Annotated[str, typer.Option(help="float32, bfloat16, or auto: what this machine does best.")] = "auto",
    held_out: Annotated[
        float, typer.Option(help="Part of the base classes to validate with, where there is no split val.")
    ] = 0.05,
    patience: Annotated[int, typer.Option(min=0, help="Stop after so many epochs without a better one; 0: never.")] = 0,
    heads: Annotated[
        str, typer.Option(help="What else to learn from the base classes, in the end: feat,peeler; none.")
    ] = "feat,peeler",
    seed: Annotated[int, typer.Option(min=0, help="The same seed, the same weights.")] = 0,
    threads: Annotated[
        int | None, typer.Option(min=1, help="1: weights that are the same bit for bit. Default: all cores.")
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto.")] = "auto",
    save_every: Annotated[float, typer.Option(min=0.0, help="Seconds between two checkpoints within an epoch.")] = 60.0,
    track: Annotated[str, typer.Option(help="tensorboard, mlflow, none, or auto: what is installed.")] = "auto",
    as_json: Json = False,
) -> None:
    """Train a backbone on pictures of base classes, for few-shot tasks of others.

    Classes of the split val, or base classes held out, choose the epoch by few-shot tasks; those of the split novel are
    never looked at. The output holds model.onnx, which `handful embed` and `handful label` take as --backbone and which
    needs no torch; model.base.safetensors with the base classes' mean and the trained heads of FEAT and others; the
    weights, and a card that says how they were made.

    The same command goes on where it was stopped, however it was stopped, and ends with the same weights.

    Example: handful train omniglot/ --widths 16,32,64,128 --rotations classes --epochs 30 -o omniglot-backbone
    """
    from handful.utils.extras import TORCH, need

    need("torch", "handful train", TORCH)
    from handful.training.datasets import read_pictures
    from handful.training.pretraining import pretrain
    from handful.training.settings import Settings

    console = console_for(as_json)
    options: dict[str, Any] = {} if widths is None else {"widths": _widths(widths)}
    with bars(console, "pictures") as show:
        given = read_pictures(
            pictures, dataset, size=size, splits=("base", "val"), split_file=split,
            progress=lambda done, total: show("reading", done, total),
        )  # fmt: skip
    skipped = [(one.path, one.reason) for one in given.skipped]
    say_skipped(console, skipped)
    if augment == "auto":
        augment = "pictures" if given.pixels.shape[-1] == 3 else "drawings"
    settings = Settings(
        network, options, epochs, batch, learning_rate, weight_decay, label_smoothing, drop, augment, rotations,
        precision, held_out, patience, seed,
    )  # fmt: skip
    with stoppable(console, f"The same command goes on from {output}."), bars(console, "steps") as show:
        trained = pretrain(
            given, output, settings, threads=threads, device=device, save_every=save_every, track=track,
            heads=() if heads == "none" else [name.strip() for name in heads.split(",")],
            command=_command(), progress=show,
            told=lambda row: console.print(_row(row), markup=False, soft_wrap=True),
        )  # fmt: skip
    if as_json:
        files = {name: str(path.resolve()) for name, path in trained.files.items()}
        said = {"best": trained.best, "seconds": trained.seconds, "files": files, "skipped": as_rows(skipped)}
        typer.echo(json.dumps(said, indent=2))
        return
    console.print(f"\nThe best epoch: {_row(trained.best)}", markup=False)
    for what, path in trained.files.items():
        console.print(f"The {what}: {path}", markup=False, soft_wrap=True)
    words = ["handful", "embed", "PICTURES/", "--backbone", str(trained.files["backbone"]), "-o", "features.parquet"]
    console.print(f"Features of other pictures: {shlex.join(words)}", markup=False, soft_wrap=True)


def _row(row: dict[str, Any]) -> str:
    """An epoch in a line."""
    said = f"epoch {row['epoch']}: loss {row['loss']:.3f}"
    shown = [
        f"{shots}-shot accuracy {row[f'accuracy_{shots}']:.1f}, AUROC {row[f'auroc_{shots}']:.1f}"
        for shots in (1, 5)
        if f"accuracy_{shots}" in row
    ]
    return "; ".join([said, *shown])


def _widths(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) for part in parts):
        raise typer.BadParameter(f"{text!r}: give four whole numbers, as in 16,32,64,128", param_hint="'--widths'")
    return [int(part) for part in parts]


def _command() -> str:
    return shlex.join(["handful", *sys.argv[1:]])
