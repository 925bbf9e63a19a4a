"""Checks of the paths that a user gives, before any file is read; and names for new folders of results."""

from __future__ import annotations

from pathlib import Path

from handful.features import is_sharded
from handful.label.exports import check_formats
from handful.label.items import of_files
from handful.label.record import Job
from handful.label.text_items import may_hold_texts


def check_paths(job: Job, output: Path) -> None:
    """Raise an error for paths and options of a job that do not fit together, before the work begins."""
    examples, pile, unknown = job.examples, job.pile, job.unknown
    for path in filter(None, (examples, pile, unknown)):
        if not path.exists():
            raise FileNotFoundError(f"there is no file or folder {str(path)!r}")
    kind = job.kind
    if of_files(examples) and pile is None:
        raise ValueError(f"name the folder of {kind} to label too: handful label EXAMPLES/ PILE/")
    if kind == "texts":
        _check_texts(job)
    else:
        is_folder = of_files(examples)
        if pile is not None and is_folder != of_files(pile):
            raise ValueError("give two folders of pictures, or tables of embeddings, not one of each")
        if unknown is not None and is_folder != of_files(unknown):
            what = "a folder of pictures" if is_folder else "a table"
            raise ValueError(f"--unknown {str(unknown)!r}: give {what}, as the examples are")
        if job.text is not None:
            raise ValueError(f"--text {job.text}: a folder of pictures has no column of texts: leave it out")
        if job.class_names:
            raise ValueError(f"--class-names needs texts, but the items are {kind}: leave it out")
        if job.sort is not None and not is_folder:
            raise ValueError("--sort sorts pictures, but a table has none: leave it out")
        if job.engine != "local" and not is_folder and (pile is None or not is_sharded(pile)):
            raise ValueError(f"--engine {job.engine} embeds pictures, but a table has none: leave it out")
    if of_files(examples) and examples.resolve() in (output.resolve(), *output.resolve().parents):
        raise ValueError(
            f"{str(output)!r} is in the folder of examples, where each folder is a class: give another folder"
        )


def _check_texts(job: Job) -> None:
    for path in filter(None, (job.pile, job.unknown)):
        if not may_hold_texts(path):
            raise ValueError(
                f"{str(path)!r} holds no texts, but the examples do: give a table of texts, or a folder of .txt files"
            )
    if job.sort is not None and not of_files(job.pile or job.examples):
        raise ValueError("--sort sorts files, but the texts are in a table: leave it out")
    if job.engine != "local":
        raise ValueError(f"--engine {job.engine} embeds pictures, but the items are texts: leave it out")
    check_formats(job.formats, of_texts=True)


def next_results(results: Path) -> Path:
    """The folder for results that follow others: out -> out-2 -> out-3, the first that does not exist."""
    whole = results.absolute()
    stem, _, last = whole.name.rpartition("-")
    stem, number = (stem, int(last)) if stem and last.isdecimal() else (whole.name, 1)
    while (place := results.parent / f"{stem}-{number + 1}").exists() or place.absolute() == whole:
        number += 1
    return place
