"""The command line: parse, call, print. Heavy imports happen inside the commands, so that --help is quick."""

from __future__ import annotations

from typing import Annotated

import typer

from handful.cli import bench as _bench  # noqa: F401
from handful.cli import general, groups, pictures, workbench  # noqa: F401  # they register their commands, in the order of --help
from handful.cli.shared import app


def _version(wanted: bool) -> None:
    if wanted:
        from handful import __version__

        typer.echo(f"handful {__version__}")
        raise typer.Exit()


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None: ...


def main() -> None:
    """Errors that a user can mend are told in a sentence; the rest keep their traceback."""
    try:
        app()
    except (ValueError, OSError, ImportError) as error:
        typer.secho(f"handful: {error}", err=True, fg="red")
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
