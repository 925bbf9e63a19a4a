"""Open what `handful label` wrote: its pile with its examples, and the items that were promoted as labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from handful.project.provenance import Agree

TABLES = ("labels.csv", "labels.parquet")


class EarlierResults(NamedTuple):
    """What to open: see the arguments of `Project`."""

    opened: Path
    examples: Path | None
    given: Mapping[str, str]
    without: Sequence[Path]
    backbone: str | None
    text: str | None = None
    label: str | None = None


def is_results(path: Path) -> bool:
    """Whether a folder holds results of `handful label`."""
    from handful.project.job import RECORD

    return (path / RECORD).is_file() and any((path / name).is_file() for name in TABLES)


def earlier_results(folder: Path, agree: Agree) -> EarlierResults:
    """Read the record of a folder of results.

    Parameters
    ----------
    folder : Path
        What `handful label` or `handful promote` wrote.
    agree : callable
        Called before a file outside of `folder` is used, unless one of the user's own runs wrote the record.

    Returns
    -------
    EarlierResults
        What to open.
    """
    from handful.project.items import kind_of, of_files, of_pictures
    from handful.project.job import read_record
    from handful.project.results_job import trusted_job
    from handful.utils.files import in_brief

    job = trusted_job(read_record(folder), agree)
    if job.unknown is not None:
        raise ValueError(
            f"{in_brief(folder)} was made with --unknown {in_brief(job.unknown)}: put these {job.kind} into a folder "
            "`unknown` of the examples, and open the pile with --examples"
        )
    given = {name: label for label, items in job.promoted.items() for name, _ in items}
    if job.pile is not None and of_pictures(job.examples) and of_pictures(job.pile):
        return EarlierResults(job.pile, job.examples, given, [folder, *job.results], job.backbone or None)
    if job.kind == "texts" and not set(job.table) - {"label"}:
        pile, examples = (job.examples, None) if job.pile is None else (job.pile, job.examples)
        if pile.exists() and (examples is None or (of_files(examples) and kind_of(pile, text=job.text) == "texts")):
            without = [folder, *job.results]
            label = job.table.get("label")
            return EarlierResults(pile, examples, given, without, job.backbone or None, job.text, label)
    if job.pile is None and job.examples.is_file() and not job.table:
        return EarlierResults(job.examples, None, {}, (), None)
    raise ValueError(
        f"{in_brief(folder)} was made from several tables, or with options for them: open the table with "
        "`handful workbench TABLE`"
    )
