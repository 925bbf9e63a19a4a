"""`handful base`: what methods need to know about the base classes."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from handful.cli._app import command
from handful.cli._console import console_for, print_lines, progress_bars
from handful.cli._options import Json, TableOptions, parse_names

METHODS_OF_HEAD = {"feat": "FEAT, SnaTCHer-F", "peeler": "PEELER"}


@command()
def base(
    features: Annotated[
        Path, typer.Argument(help="Features and labels of the classes that the backbone was trained on.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")] = Path("base.safetensors"),
    val: Annotated[
        Path | None,
        typer.Option(
            help="Features of other classes, which neither the backbone nor a head learns from: they choose the step. "
            "Default: the split val of FEATURES, or a quarter of its classes."
        ),
    ] = None,
    heads: Annotated[
        str, typer.Option(help="What to learn: feat (for FEAT and SnaTCHer-F), peeler; or none, which needs no torch.")
    ] = "feat,peeler",
    negatives: Annotated[int, typer.Option(min=0, help="How many of the items to keep, for POODLE.")] = 1000,
    episodes: Annotated[int, typer.Option(min=1, help="How many tasks a head learns from, at most.")] = 20_000,
    seed: Annotated[int, typer.Option(min=0, help="The seed of the tasks, the start and the held-out classes.")] = 0,
    *,
    table: TableOptions,
    as_json: Json = False,
) -> None:
    """Learn what methods need to know about a backbone's base classes: their mean, learned heads, and some items.

    FEAT, SnaTCHer-F, PEELER and POODLE take the file as base=, and `handful bench` takes it as --base. Some classes
    are held out; the command prints how good a head is on them before learning (plain prototypes) and after.

    Example: handful base base.parquet -o base.safetensors
    """
    from handful.features import read
    from handful.training.heads import learn_base

    if not output.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {str(output.parent)!r} to write {output.name} to: create it first")
    data = read(features, **table.arguments())
    base_classes = data.of_split("base") or data  # a head must not learn from novel classes that are in the file
    validation = data.of_split("val") if val is None else read(val, **table.arguments())
    console = console_for(as_json)
    with progress_bars(console, "tasks") as progress:
        learned = learn_base(
            base_classes,
            validation=validation,
            heads=parse_names(heads),
            negatives=negatives,
            episodes=episodes,
            seed=seed,
            progress=partial(progress, "learning"),
        )
    learned.save(output)
    about = learned.about
    if as_json:
        typer.echo(json.dumps(about | {"features": learned.dimension, "file": str(output), "mark": learned.mark}))
        return
    for name, figures in about["heads"].items():
        before, after = figures["before"], figures["after"]
        console.print(
            f"{METHODS_OF_HEAD[name]}: accuracy {before['accuracy']:.1f} -> {after['accuracy']:.1f}, "
            f"AUROC {before['auroc']:.1f} -> {after['auroc']:.1f} on {about['held_out']} held-out classes"
        )
    count = 0 if learned.negatives is None else len(learned.negatives)
    print_lines(
        console,
        [f"Written: {output}, of {about['classes']} base classes, {learned.dimension} features, {count} items kept"],
    )
