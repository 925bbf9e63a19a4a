"""Checks of the paths that a user gives, before any file is read; and names for new folders of results."""

from __future__ import annotations

from pathlib import Path

from handful.features import is_sharded
from handful.label.items import of_pictures


def check_paths(
    examples: Path, pile: Path | None, output: Path, sort: str | None, engine: str, unknown: Path | None = None
) -> None:
    """Raise an error for paths that do not fit together. unknown: examples of no class."""
    for path in filter(None, (examples, pile, unknown)):
        if not path.exists():
            raise FileNotFoundError(f"there is no file or folder {str(path)!r}")
    if of_pictures(examples) and pile is None:
        raise ValueError("name the folder of pictures to label too: handful label EXAMPLES/ PILE/")
    if pile is not None and of_pictures(examples) != of_pictures(pile):
        raise ValueError("give two folders of pictures, or tables of embeddings, not one of each")
    if unknown is not None and of_pictures(examples) != of_pictures(unknown):
        kind = "a folder of pictures" if of_pictures(examples) else "a table"
        raise ValueError(f"--unknown {str(unknown)!r}: give {kind}, as the examples are")
    if sort is not None and not of_pictures(examples):
        raise ValueError("--sort sorts pictures, but a table has none: leave it out")
    if engine != "local" and not of_pictures(examples) and (pile is None or not is_sharded(pile)):
        raise ValueError(f"--engine {engine} embeds pictures, but a table has none: leave it out")
    if of_pictures(examples) and examples.resolve() in (output.resolve(), *output.resolve().parents):
        raise ValueError(
            f"{str(output)!r} is in the folder of examples, where each folder is a class: give another folder"
        )


def next_results(results: Path) -> Path:
    """The folder for results that follow others: out -> out-2 -> out-3, the first that does not exist."""
    whole = results.absolute()
    stem, _, last = whole.name.rpartition("-")
    stem, number = (stem, int(last)) if stem and last.isdecimal() else (whole.name, 1)
    while (place := results.parent / f"{stem}-{number + 1}").exists() or place.absolute() == whole:
        number += 1
    return place
