"""The command line: parse, call, print. A command imports heavy packages inside its function: --help stays quick."""

from __future__ import annotations

from handful.utils import interrupts

FILES = (  # in the order of the commands in --help: first those of every day
    "demo", "label", "questions", "promote", "predict", "workbench",
    "embed", "info", "bench", "methods", "backbones", "train", "base",
)  # fmt: skip
with interrupts.quick():
    from importlib import import_module

    import typer

    from handful.cli._options import app, option

    for _name in FILES:
        import_module(f"handful.cli.{_name}")  # the import registers the command


def _print_version(wanted: bool) -> None:
    if wanted:
        from handful import __version__

        typer.echo(f"handful {__version__}")
        raise typer.Exit()


@app.callback()
def root(
    version: bool = option(
        "Print the version and exit.", False, names=("--version",), callback=_print_version, is_eager=True
    ),
) -> None:
    """Label a pile from a handful of examples, and set aside what belongs to no class."""


def main() -> None:
    """Run a command; errors that a user can fix are printed as one sentence, others with their traceback."""
    with interrupts.bounded():
        try:
            app()
        except (ValueError, OSError, ImportError) as error:
            cause = error.__cause__ or error.__context__
            if isinstance(cause, KeyboardInterrupt):  # in a module of C that was imported
                raise SystemExit(interrupts.STOPPED) from None
            typer.secho(f"handful: {error}", err=True, fg="red")
            raise SystemExit(1) from None
        except KeyboardInterrupt:  # before a command began, or while Typer parsed the options
            raise SystemExit(interrupts.STOPPED) from None


if __name__ == "__main__":
    main()
