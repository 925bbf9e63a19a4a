"""`handful base`: what methods need to know about the base classes."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from handful.cli._app import command
from handful.cli._console import console_for, print_json, print_lines, progress_bars, stoppable
from handful.cli._options import ALL_HEADS, Heads, Json, TableOptions, parse_heads


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
    heads: Heads = ALL_HEADS,
    negatives: Annotated[int, typer.Option(min=0, help="How many of the items to keep, for POODLE.")] = 1000,
    episodes: Annotated[int, typer.Option(min=1, help="How many tasks a head learns from, at most.")] = 20_000,
    seed: Annotated[int, typer.Option(min=0, help="The seed of the tasks, the start and the held-out classes.")] = 0,
    *,
    table: TableOptions,
    as_json: Json = False,
) -> None:
    """Learn what methods need to know about a backbone's base classes: their mean, learned heads, and some items.

    Methods that learn from base classes take the file as base=, and `handful bench` takes it as --base. Some classes
    are held out; the command prints how good a head is on them before and after learning. If the command is stopped,
    the same command continues and writes the same file.

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
    checkpoint = output.with_name(f"{output.name}.learning")
    with stoppable(console, "The same command continues."), progress_bars(console, "tasks") as progress:
        learned = learn_base(
            base_classes, validation=validation, heads=parse_heads(heads), negatives=negatives, episodes=episodes,
            seed=seed, checkpoint=checkpoint, progress=partial(progress, "learning"),
        )  # fmt: skip
    learned.save(output)
    checkpoint.unlink(missing_ok=True)
    about = learned.about
    if as_json:
        print_json(about | {"features": learned.dimension, "file": str(output), "mark": learned.mark})
        return
    for name, figures in about["heads"].items():
        before, after = figures["before"], figures["after"]
        console.print(
            f"{', '.join(titles(name))}: accuracy {before['accuracy']:.1f} -> {after['accuracy']:.1f}, "
            f"AUROC {before['auroc']:.1f} -> {after['auroc']:.1f} on {about['held_out']} held-out classes"
        )
    count = 0 if learned.negatives is None else len(learned.negatives)
    print_lines(
        console,
        [f"Written: {output}, of {about['classes']} base classes, {learned.dimension} features, {count} items kept"],
    )


def titles(head: str) -> list[str]:
    """The titles of the methods that take a head."""
    from handful.solving import describe, list_methods

    infos = [describe(name) for name in list_methods()]
    return [info.title.split(" (")[0] for info in infos if info.base_part == head]
