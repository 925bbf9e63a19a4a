"""`handful workbench`: label pictures or texts on a page in the browser. `handful serve`: labels for other programs."""

from __future__ import annotations

import json
import shlex
import webbrowser
from pathlib import Path

import typer

from handful.cli._console import Console, ask_user
from handful.cli._options import JSON, argument, command, option

PORT = option("The port to listen on; 0 takes any free port.", 0, min=0, max=65535)
HOST = option("The address to listen on; only addresses of this machine are allowed.", "127.0.0.1")


def need_web(purpose: str) -> None:
    """Raise ImportError with the install command if the packages of the web server are missing."""
    from handful.utils.extras import need

    for module in ("fastapi", "uvicorn", "python_multipart"):
        need(module, purpose, '"handful[web]"')


@command()
def workbench(
    items: Path = argument(
        "A folder of pictures or of .txt files; a table of texts (.csv, .tsv, .jsonl, .parquet); a table of embeddings "
        "(.parquet, .csv) with a column `path`; or what `handful label` wrote.",
        metavar="FOLDER_TABLE_OR_RESULTS",
    ),
    examples: Path | None = option(
        "A folder of examples, with a folder for each class; those in `unknown` are of no class. Give it each time."
    ),
    text: str | None = option("The column of texts in a table; found by default.", metavar="COLUMN"),
    label: str | None = option("The column of labels in a table of texts; found by default.", metavar="COLUMN"),
    project: Path | None = option(
        "Folder that keeps your work. Default: FOLDER/.handful-workbench, or TABLE.workbench."
    ),
    backbone: str | None = option(
        "fast, good or best, a name that `handful backbones` lists, or an .onnx file. Default: the backbone used "
        "before, or the default for pictures or for texts."
    ),
    yes: bool = option("Load the model that the project names, or the files that results name, unasked.", False),
    port: int = PORT,
    host: str = HOST,
    no_browser: bool = option("Do not open the page; print its address.", False),
    as_json: bool = JSON,
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
    from handful.workbench.server.serve import bind
    from handful.workbench.server.serve import serve as run

    socket, agree = bind(host, port), ask_user(yes)
    try:
        opened = LiveProject(items, project, backbone=backbone, agree=agree, examples=examples, text=text, label=label)
    except BaseException:
        socket.close()
        raise

    def ready(address: str, token: str) -> None:
        url, count = f"{address}?token={token}", opened.summary()["items"]
        if as_json:
            facts = {"url": url, "address": address, "token": token, "project": str(opened.folder.resolve())}
            typer.echo(json.dumps(facts | {"items": count}))
        else:
            console = Console()
            kind = "texts" if opened.source.kind == "texts" else "pictures"
            console.print(*opened.table.notes, f"{count:,} {kind}; your work is kept in {opened.folder}", wrap=True)
            console.print(f"\nThe workbench: {url}", style="bold")
            console.print("\nStop it with Ctrl-C; continue with the same command.")
        if not no_browser:
            webbrowser.open(url)

    try:
        run(lambda token, number: make_app(opened, token=token, port=number), socket, ready)
    finally:
        opened.close()


@command()
def serve(port: int = PORT, host: str = HOST, as_json: bool = JSON) -> None:
    """Answer requests of other programs on this machine: they send examples and a pile as JSON and get labels.

    POST /api/v1/solve {"support": [[..]], "labels": [..], "query": [[..]]} and GET /api/v1/health. Every request needs
    the header `Authorization: Bearer TOKEN`, with the token that is printed. /api/v1/openapi.json describes both.

    Example: handful serve --port 8123
    """
    need_web("handful serve")
    from handful.workbench.server.serve import bind, make_service
    from handful.workbench.server.serve import serve as run

    def ready(address: str, token: str) -> None:
        if as_json:
            typer.echo(json.dumps({"address": address, "token": token}))
        else:
            header, console = shlex.quote(f"Authorization: Bearer {token}"), Console()
            console.print(f"Listening at {address}; stop with Ctrl-C. To test it:\n", wrap=True)
            console.print(f"curl -H {header} {address}api/v1/health")

    run(lambda token, number: make_service(token=token, port=number), bind(host, port), ready)
