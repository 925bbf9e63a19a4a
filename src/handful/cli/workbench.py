"""`handful workbench` and `handful serve`: servers for this machine alone."""

from __future__ import annotations

import json
import shlex
import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from handful.cli._shared import Json, app, console_for

if TYPE_CHECKING:
    from handful.workbench.domain.trust import Agree, Model

Port = Annotated[int, typer.Option(min=0, max=65535, help="Where to listen; 0 takes any port that is free.")]
Host = Annotated[str, typer.Option(help="Only this machine's own address: others are refused.")]


@app.command()
def workbench(
    pictures: Annotated[
        Path,
        typer.Argument(
            metavar="PICTURES_OR_TABLE",
            help="A folder of pictures; or a table of embeddings (.parquet, .csv) with a column `path`.",
        ),
    ],
    project: Annotated[
        Path | None,
        typer.Option(help="Folder that keeps your work. Default: PICTURES/.handful-workbench, or TABLE.workbench."),
    ] = None,
    backbone: Annotated[
        str | None, typer.Option(help="See `handful backbones`. Default: the one used before, or efficientnet_lite0.")
    ] = None,
    max_upload: Annotated[
        float, typer.Option(min=0, max=1e6, metavar="GB", help="How much may be uploaded on the page, in all.")
    ] = 20,
    yes: Annotated[
        bool, typer.Option("--yes", help="Load the model file that the project names, without being asked.")
    ] = False,
    port: Port = 0,
    host: Host = "127.0.0.1",
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Do not open the page; print its address.")] = False,
    as_json: Json = False,
) -> None:
    """Label a folder of pictures on a page in your browser, from a handful of examples.

    Add a class, click a few pictures of it, press Run: the rest is labelled, what belongs to no class is set aside and
    grouped. Correct, accept, make a class of a group, run again; export as CSV, Parquet, COCO, FiftyOne, Label Studio.
    (In the CSV, text that begins with = + - @ has an apostrophe before it: a spreadsheet would take it for a formula.)

    Your pictures are not touched and leave your machine by no way. Every click is kept at once: stop with Ctrl-C and go
    on another day with the same command.

    Example: handful workbench holiday-pictures/
    """
    _need_web("the workbench")
    from handful.workbench import Project
    from handful.workbench.server.app import make_app
    from handful.workbench.server.serve import bind, serve

    console = console_for(as_json)
    listening = bind(host, port)
    try:
        size = int(max_upload * 10**9)
        opened = Project(pictures, project, backbone=backbone, agree=_agree(yes), max_upload=size)
    except BaseException:
        listening.close()
        raise

    def ready(address: str, token: str) -> None:
        url = f"{address}?token={token}"
        if as_json:
            facts = {"url": url, "address": address, "token": token, "project": str(opened.folder.resolve())}
            typer.echo(json.dumps(facts | {"items": opened.summary()["items"]}))
        else:
            console.print(f"{opened.summary()['items']:,} pictures; your work is kept in {opened.folder}", markup=False)
            console.print(f"\nThe workbench: {url}", markup=False, soft_wrap=True, style="bold")
            console.print("\nStop it with Ctrl-C; go on with the same command.", markup=False)
        if not no_browser:
            webbrowser.open(url)

    try:
        serve(lambda token, number: make_app(opened, token=token, port=number), listening, ready)
    finally:
        opened.close()


@app.command()
def serve(
    port: Port = 0,
    host: Host = "127.0.0.1",
    as_json: Json = False,
) -> None:
    """Answer requests of other programs on this machine: examples and a pile as JSON in, labels out.

    POST /api/v1/solve {"support": [[..]], "labels": [..], "query": [[..]]} and GET /api/v1/health; every request needs
    the header `Authorization: Bearer TOKEN` with the token that is printed. /api/v1/openapi.json describes both.

    Example: handful serve --port 8123
    """
    _need_web("handful serve")
    from handful.workbench.server.serve import bind, make_service
    from handful.workbench.server.serve import serve as run

    console = console_for(as_json)

    def ready(address: str, token: str) -> None:
        if as_json:
            typer.echo(json.dumps({"address": address, "token": token}))
            return
        header = shlex.quote(f"Authorization: Bearer {token}")
        console.print(f"Listening at {address}; stop with Ctrl-C. To see that it does:\n", markup=False)
        console.print(f"curl -H {header} {address}api/v1/health", markup=False, soft_wrap=True)

    run(lambda token, number: make_service(token=token, port=number), bind(host, port), ready)


def _agree(yes: bool) -> Agree:
    """Ask in the terminal, if there is one, whether a model that the project names shall be loaded."""
    from handful.workbench.domain.trust import refuse

    def ask(model: Model) -> None:
        if yes:
            return
        if not sys.stdin.isatty():
            refuse(model)
        typer.echo(f"The project asks for the model {model}, which you did not name.", err=True)
        typer.echo("A model file can hold anything: load it only if you trust it. Load it? [y/N] ", err=True, nl=False)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise ValueError("the model was not loaded: name a backbone with --backbone, see `handful backbones`")

    return ask


def _need_web(purpose: str) -> None:
    from handful.utils.extras import need

    for module in ("fastapi", "uvicorn", "python_multipart"):
        need(module, purpose, '"handful[web]"')
