"""`handful serve`: labels for other programs on this machine."""

from __future__ import annotations

import json
import shlex

import typer

from handful.cli._app import command
from handful.cli._console import console_for
from handful.cli._options import Host, Json, Port, need_web


@command()
def serve(port: Port = 0, host: Host = "127.0.0.1", as_json: Json = False) -> None:
    """Answer requests of other programs on this machine: they send examples and a pile as JSON and get labels.

    POST /api/v1/solve {"support": [[..]], "labels": [..], "query": [[..]]} and GET /api/v1/health. Every request needs
    the header `Authorization: Bearer TOKEN`, with the token that is printed. /api/v1/openapi.json describes both.

    Example: handful serve --port 8123
    """
    need_web("handful serve")
    from handful.workbench.server.serve import bind, make_service
    from handful.workbench.server.serve import serve as run

    console = console_for(as_json)

    def ready(address: str, token: str) -> None:
        if as_json:
            typer.echo(json.dumps({"address": address, "token": token}))
            return
        header = shlex.quote(f"Authorization: Bearer {token}")
        console.print(f"Listening at {address}; stop with Ctrl-C. To test it:\n", markup=False)
        console.print(f"curl -H {header} {address}api/v1/health", markup=False, soft_wrap=True)

    run(lambda token, number: make_service(token=token, port=number), bind(host, port), ready)
