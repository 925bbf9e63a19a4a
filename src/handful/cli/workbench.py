"""`handful workbench`: label pictures or texts on a page in the browser."""

from __future__ import annotations

import json
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from handful.cli._app import command
from handful.cli._console import ask_user, console_for
from handful.cli._options import Host, Json, Port, need_web


@command()
def workbench(
    items: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER_TABLE_OR_RESULTS",
            help="A folder of pictures or of .txt files; a table of texts (.csv, .tsv, .jsonl, .parquet); a table of "
            "embeddings (.parquet, .csv) with a column `path`; or what `handful label` wrote.",
        ),
    ],
    examples: Annotated[
        Path | None,
        typer.Option(
            help="A folder of examples, with a folder for each class; those in `unknown` are of no class. Give it each "
            "time."
        ),
    ] = None,
    text: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column of texts in a table; found by default.")
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="The column of labels in a table of texts; found by default."),
    ] = None,
    project: Annotated[
        Path | None,
        typer.Option(help="Folder that keeps your work. Default: FOLDER/.handful-workbench, or TABLE.workbench."),
    ] = None,
    backbone: Annotated[
        str | None,
        typer.Option(
            help="fast, good or best, a name that `handful backbones` lists, or an .onnx file. Default: the backbone "
            "used before, or the default for pictures or for texts."
        ),
    ] = None,
    yes: Annotated[
        bool,
        typer.Option("--yes", help="Load the model that the project names, or the files that results name, unasked."),
    ] = False,
    port: Port = 0,
    host: Host = "127.0.0.1",
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Do not open the page; print its address.")] = False,
    as_json: Json = False,
) -> None:
    """Label pictures or texts on a page in your browser, from a handful of examples.

    Add a class, click a few items of it, press Run: the other items get labels, and those that belong to no class are
    set aside and grouped. Correct labels, accept them, make a class of a group, run again. Export as CSV, Parquet or
    Label Studio, and pictures also as COCO or FiftyOne. (In the CSV, text that begins with = + - @ gets an apostrophe
    in front, because a spreadsheet would read it as a formula.)

    Your files never leave this machine, and they are not changed. Every click is saved at once: stop with Ctrl-C and
    continue another day with the same command.

    What `handful label` wrote is opened with its pile, its examples, its labels and all that was said. Afterwards
    `handful label`, `check` and `ask` go on from there.

    Example: handful workbench holiday-pictures/
    Texts: handful workbench tickets.csv
    With examples in folders: handful workbench pile/ --examples examples/
    From results: handful workbench out/
    """
    need_web("the workbench")
    from handful.project.live import LiveProject
    from handful.workbench.server.app import make_app
    from handful.workbench.server.serve import bind, serve

    console = console_for(as_json)
    socket = bind(host, port)
    try:
        opened = LiveProject(
            items, project, backbone=backbone, agree=ask_user(yes),
            examples=examples, text=text, label=label,
        )  # fmt: skip
    except BaseException:
        socket.close()
        raise

    def ready(address: str, token: str) -> None:
        url = f"{address}?token={token}"
        if as_json:
            facts = {"url": url, "address": address, "token": token, "project": str(opened.folder.resolve())}
            typer.echo(json.dumps(facts | {"items": opened.summary()["items"]}))
        else:
            for note in opened.table.notes:
                console.print(note, markup=False)
            count = f"{opened.summary()['items']:,} {'texts' if opened.source.kind == 'texts' else 'pictures'}"
            console.print(f"{count}; your work is kept in {opened.folder}", markup=False)
            console.print(f"\nThe workbench: {url}", markup=False, soft_wrap=True, style="bold")
            console.print("\nStop it with Ctrl-C; continue with the same command.", markup=False)
        if not no_browser:
            webbrowser.open(url)

    try:
        serve(lambda token, number: make_app(opened, token=token, port=number), socket, ready)
    finally:
        opened.close()
