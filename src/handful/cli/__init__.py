"""The command line: parse, call, print. Heavy imports happen inside the commands, so that --help is quick."""

from __future__ import annotations

from handful.utils import interrupts

COMMANDS = (  # in the order of --help
    "general", "pictures", "groups", "embedding", "workbench", "bench", "base", "datasets", "training", "networks",
)  # fmt: skip
with interrupts.quick():
    from importlib import import_module
    from typing import Annotated

    import typer

    from handful.cli._shared import app

    for _name in COMMANDS:
        import_module(f"handful.cli.{_name}")  # it registers its own


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
    """Errors that a user can mend are told in a sentence; the rest keep their traceback. Ctrl-C ends it soon."""
    with interrupts.bounded():
        try:
            app()
        except (ValueError, OSError, ImportError) as error:
            typer.secho(f"handful: {error}", err=True, fg="red")
            if interrupts.stuck():
                interrupts.leave(1)
            raise SystemExit(1) from None
        except KeyboardInterrupt:  # before a command began, or while typer looked for it
            raise SystemExit(interrupts.STOPPED) from None


if __name__ == "__main__":
    main()
