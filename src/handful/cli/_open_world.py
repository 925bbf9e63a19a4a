"""`handful bench open-world`: methods compared on streams of items in which new classes keep appearing."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from handful.cli._console import console_for, print_lines, progress_bars, stoppable
from handful.cli._options import TableOptions


@dataclass(frozen=True)
class OpenWorldOptions:
    """What a stream of open-world looks like."""

    PANEL: ClassVar[str] = "Streams of open-world"

    context: Annotated[
        str,
        typer.Option(
            help="Classes that have examples from the start: small (5), or large (half of all, at most 100); both with "
            "5 examples each."
        ),
    ] = "small"
    items: Annotated[int, typer.Option(min=1, help="Items that arrive, at most.")] = 2000
    every: Annotated[int, typer.Option(min=1, help="Items of a block, after which a person names groups.")] = 100
    classes: Annotated[
        int | None, typer.Option(min=2, help="Classes of a stream, drawn at random. Default: all.", show_default=False)
    ] = None


def bench_open_world(
    features: Path | None, split: str | None, base: Path | None, methods: str | None, seeds: int,
    world: OpenWorldOptions, table: TableOptions, output: Path, as_json: bool,
) -> None:  # fmt: skip
    """Run the process, write tables and, with matplotlib, a picture."""
    from handful.bench import open_world, open_world_picture, plots
    from handful.core.base import is_base, read_base
    from handful.features import FeatureTable, digits, read
    from handful.utils.files import write_whole

    given: Any = None
    if base is not None:
        given = read_base(base) if is_base(base) else read(base, warn=False, **table.arguments())
    if isinstance(given, FeatureTable):
        given = given.of_split("base") or given
    items = FeatureTable(*digits(), name="digits")
    if features is not None:
        items = read(features, warn=False, **table.arguments())
    if split is not None:
        items = items.select(split=split)
    values = {"features": features, "split": split, "base": base, "methods": methods, "seeds": seeds, **vars(table)}
    values |= {one.name: getattr(world, one.name) for one in fields(world)}
    words = ["handful", "bench", "open-world"]
    words += [word for key, value in values.items() if value is not None for word in (f"--{key}", str(value))]
    console = console_for(as_json)
    with stoppable(console, "Nothing was written."), progress_bars(console, "blocks") as progress:
        results = open_world.run(
            items, methods or open_world.METHODS, base=given, contexts=(world.context,), items=world.items,
            every=world.every, seeds=seeds, classes=world.classes, progress=progress,
        )  # fmt: skip
    files = results.write(output, shlex.join(words))
    if plots.available():
        files["png"] = output / "open_world.png"
        write_whole(files["png"], plots.png(open_world_picture.draw(results)))
    if as_json:
        typer.echo(files["json"].read_text("utf-8"), nl=False)
        return
    print_lines(console, results.summary())
    print_lines(console, ["Written: " + ", ".join(str(path) for path in files.values())])
