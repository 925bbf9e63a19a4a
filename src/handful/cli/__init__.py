"""The command line: parse, call, print. A command imports heavy packages inside its function: --help stays quick."""

from __future__ import annotations

from handful.utils import interrupts

COMMANDS = (  # one file each, in the order of --help: first those of every day
    "demo", "label", "ask", "check", "promote", "predict", "workbench", "serve",
    "embed", "info", "bench", "methods", "backbones", "train", "base",
)  # fmt: skip
with interrupts.quick():
    from importlib import import_module
    from typing import Annotated

    import typer

    from handful.cli._app import app

    for _name in COMMANDS:
        import_module(f"handful.cli.{_name}")  # the import registers the command


def _print_version(wanted: bool) -> None:
    if wanted:
        from handful import __version__

        typer.echo(f"handful {__version__}")
        raise typer.Exit()


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Label a pile from a handful of examples, and set aside what belongs to no class."""


def main() -> None:
    """Run a command; errors that a user can fix are printed as one sentence, others with their traceback."""
    with interrupts.bounded():
        try:
            app()
        except (ValueError, OSError, ImportError) as error:
            if isinstance(
                error.__cause__ or error.__context__, KeyboardInterrupt
            ):  # in a module of C that was imported
                raise SystemExit(interrupts.STOPPED) from None
            typer.secho(f"handful: {error}", err=True, fg="red")
            raise SystemExit(1) from None
        except KeyboardInterrupt:  # before a command began, or while Typer parsed the options
            raise SystemExit(interrupts.STOPPED) from None


if __name__ == "__main__":
    main()
