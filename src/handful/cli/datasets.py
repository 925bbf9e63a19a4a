"""`handful datasets`: the picture data sets, how to get one, and whether a copy can be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from handful.cli._app import command
from handful.cli._console import console_for, progress_bars
from handful.cli._options import Json

if TYPE_CHECKING:
    from handful.training.datasets import DatasetInfo


@command()
def datasets(
    name: Annotated[
        str | None, typer.Argument(help="The name of one data set: how to get it, and what its folder looks like.")
    ] = None,
    check: Annotated[Path | None, typer.Option(help="Read this copy and say what it holds.")] = None,
    as_json: Json = False,
) -> None:
    """List the picture data sets that `handful train` can learn from, or describe one. Nothing is downloaded.

    Example: handful datasets omniglot --check omniglot/
    """
    from handful.training.datasets import dataset_info, list_datasets

    if check is not None:
        _check(name, check, as_json)
    elif name is not None:
        _describe(dataset_info(name), as_json)
    else:
        _list(list_datasets(), as_json)


def _list(infos: list[DatasetInfo], as_json: bool) -> None:
    from dataclasses import asdict

    if as_json:
        typer.echo(json.dumps([asdict(info) for info in infos], indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(caption="Classes in each split. `handful datasets NAME` says how to get one.", caption_justify="left")
    for column in ("name", "data set", "base", "val", "novel", "pictures", "size"):
        table.add_column(
            column, no_wrap=column == "name", justify="left" if column in ("name", "data set") else "right"
        )
    for info in infos:
        classes = [str(info.classes.get(split, "")) for split in ("base", "val", "novel")]
        pictures = f"{sum(info.pictures.values()):,}" if info.pictures else ""
        table.add_row(info.name, info.title, *classes, pictures, f"{info.size} x {info.size}")
    Console().print(table)


def _describe(info: DatasetInfo, as_json: bool) -> None:
    from dataclasses import asdict

    if as_json:
        typer.echo(json.dumps(asdict(info), indent=2))
        return
    from rich.console import Console
    from rich.markup import escape

    console = Console(highlight=False, soft_wrap=True)
    console.print(f"[bold]{escape(info.title)}[/bold]")
    for text in (info.paper, info.about):
        if text:
            console.print(escape(text))
    for split, classes in info.classes.items():
        pictures = f", {info.pictures[split]:,} pictures" if split in info.pictures else ""
        console.print(f"  {split}: {classes} classes{pictures}")
    console.print(
        f"Pictures become {info.size} x {info.size}: {escape(info.preparation)}. `handful train --size` changes that."
    )
    console.print(f"Licence: {escape(info.licence)}.")
    if info.url:
        console.print(f"\n[bold]Get it[/bold] from {info.url}")
    for archive, digest in info.archives.items():
        console.print(f"  {archive}  MD5 {digest}")
    console.print("\n[bold]What is read[/bold], any of:")
    for layout in info.layouts:
        console.print(f"  · {escape(layout)}")
    console.print("\n[bold]Then[/bold]")
    console.print(f"  handful datasets {info.name} --check {info.example}")
    console.print(f"  handful train {info.example} --dataset {info.name} -o {info.name}-backbone")


def _check(name: str | None, path: Path, as_json: bool) -> None:
    from handful.training.datasets.reading import check_copy

    with progress_bars(console_for(as_json), "pictures") as progress:
        report = check_copy(path, name, progress=lambda done, total: progress("reading", done, total))
    if as_json:
        typer.echo(json.dumps(report, indent=2))
    else:
        _print_report(report, path)
    if not all(report["archives"].values()):
        raise typer.Exit(1)


def _print_report(report: dict[str, Any], path: Path) -> None:
    from rich.console import Console
    from rich.markup import escape

    console = Console(highlight=False, soft_wrap=True)
    for archive, good in report["archives"].items():
        verdict = "is the published file" if good else "is NOT the published file, by its MD5: download it again"
        console.print(f"{archive} {verdict}")
    if "name" not in report:
        console.print(f"Unpack it and check the folder: tar xzf {escape(str(path))}")
        return
    height, width = report["size"]
    console.print(
        f"{report['name']}: {report['pictures']:,} pictures of {report['classes']} classes, "
        f"{height} x {width}, {'grey' if report['channels'] == 1 else 'colour'}"
    )
    for split, counts in report["splits"].items():
        least, most = counts["pictures_per_class"]
        each = f"{least}" if least == most else f"{least} to {most}"
        good = (report["as_published"] or {}).get(split)
        remark = "" if good is None else ", as published" if good else ", NOT as many as published"
        console.print(
            f"  {split}: {counts['classes']} classes, {counts['pictures']:,} pictures, {each} per class{remark}"
        )
    for line in report["passed_over"]:
        console.print(f"Skipped: {escape(line)}")
