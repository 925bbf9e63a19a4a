"""The command that learns what methods need of the base classes: base."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from handful.cli._shared import Json, app, bars, console_for

WHAT = {"feat": "FEAT, SnaTCHer-F", "peeler": "PEELER"}


@app.command()
def base(
    features: Annotated[Path, typer.Argument(help="Features with labels of the classes the backbone was trained on.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")] = Path("base.safetensors"),
    val: Annotated[
        Path | None,
        typer.Option(
            help="Features of other classes, that neither the backbone nor a head learns from: they choose the step. "
            "Default: the split val of FEATURES, or a quarter of its classes."
        ),
    ] = None,
    heads: Annotated[
        str, typer.Option(help="What to learn: feat (for FEAT and SnaTCHer-F), peeler; or none, which needs no torch.")
    ] = "feat,peeler",
    negatives: Annotated[int, typer.Option(min=0, help="How many of the items to keep, for POODLE.")] = 1000,
    episodes: Annotated[int, typer.Option(min=1, help="Tasks that a head learns from, at most.")] = 20_000,
    seed: Annotated[int, typer.Option(min=0, help="Of the tasks, the start and the held-out classes.")] = 0,
    as_json: Json = False,
) -> None:
    """Learn what methods need of a backbone's base classes: their mean, learned heads, and some items.

    FEAT, SnaTCHer-F, PEELER and POODLE take the file as base=, and `handful bench` as --base. Some classes
    are held out: what a head is worth on them, before learning (plain prototypes) and after, is told.

    Example: handful base base.parquet -o base.safetensors
    """
    from handful.features import read
    from handful.training.heads import learn_base

    if not output.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {str(output.parent)!r} to write {output.name} to: make it first")
    wanted = [] if heads.strip() == "none" else [name.strip() for name in heads.split(",") if name.strip()]
    whole = read(features)
    given = whole.of_split("base") or whole  # novel classes, if they are in it, must not teach anything
    others = whole.of_split("val") if val is None else read(val)
    console = console_for(as_json)
    with bars(console, "tasks") as show:
        found = learn_base(
            given,
            validation=others,
            heads=wanted,
            negatives=negatives,
            episodes=episodes,
            seed=seed,
            progress=partial(show, "learning"),
        )
    found.save(output)
    if as_json:
        typer.echo(json.dumps(found.about | {"features": found.dimension, "file": str(output), "mark": found.mark}))
        return
    for name, said in found.about["heads"].items():
        before, after = said["before"], said["after"]
        console.print(
            f"{WHAT[name]}: accuracy {before['accuracy']:.1f} -> {after['accuracy']:.1f}, "
            f"AUROC {before['auroc']:.1f} -> {after['auroc']:.1f} on {found.about['held_out']} held-out classes"
        )
    count = 0 if found.negatives is None else len(found.negatives)
    console.print(
        f"Written: {output}, of {found.about['classes']} base classes, {found.dimension} features, {count} items kept",
        markup=False, soft_wrap=True,
    )  # fmt: skip
