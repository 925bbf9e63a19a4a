"""The job of earlier results, to go on from it: groups become classes, or somebody has corrected labels.

A record may come from anyone. Before a file outside of the folder of results is read, the user must agree, unless one
of the user's own runs wrote the record.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from handful.features import FeatureTable
from handful.project.job import RECORD, Job, Mark, Record, marks, read_record
from handful.project.provenance import Agree, Request, refuse
from handful.utils.files import in_brief, printable

MAX_LISTED_PATHS = 20  # paths that the question to the user lists
MAX_LISTED_ITEMS = 3  # items that an error names


def is_results(folder: Path) -> bool:
    """Whether a folder holds results of `handful label`."""
    return (folder / RECORD).is_file()


def trusted_job(record: Record, agree: Agree = refuse) -> Job:
    """The job that a record names, whose files are there.

    Parameters
    ----------
    record : Record
        What `handful label` or `handful promote` wrote.
    agree : callable
        Called before a file outside of its folder is read, unless one of the user's own runs wrote the record.
    """
    job, folder = record.job, record.path.parent
    if job is None:
        raise ValueError(f"{in_brief(record.path)} does not say what was labelled: use `handful label` first")
    if not record.own and (outside_paths := list(_outside_paths(job, folder))):
        places = ", ".join(f"{in_brief(place)} ({what})" for what, place in outside_paths[:4])
        more = f" and {len(outside_paths) - 4} more" if len(outside_paths) > 4 else ""
        details = [f"    {what}: {place!r}" for what, place in outside_paths[:MAX_LISTED_PATHS]]
        if len(outside_paths) > MAX_LISTED_PATHS:
            details.append(f"    and {len(outside_paths) - MAX_LISTED_PATHS} more")
        agree(Request(record.path, f"use {places}{more}", details))
    for path in filter(None, (job.examples, job.pile, job.base, job.unknown)):
        if not path.exists():
            raise FileNotFoundError(f"{in_brief(path)}, which these results were made from, is gone: put it back")
    return job


def job_again(
    folder: Path,
    output: Path,
    *,
    formats: Sequence[str] = (),
    sort: str | None = None,
    unknown: Path | None = None,
    agree: Agree = refuse,
) -> Job:
    """The job that made the results in a folder, once more.

    Parameters
    ----------
    folder : Path
        What `handful label` or `handful promote` wrote.
    output : Path
        Where the new results will be written. Pictures in it are not labelled.
    formats : sequence of str
        Exports for other tools; by default those of before.
    sort : str, optional
        How to sort the pictures. The value in the record is not used.
    unknown : Path, optional
        Examples of no class; by default those of before.
    agree : callable
        As for `trusted_job`.
    """
    job = trusted_job(read_record(folder), agree)
    return replace(
        job, results=[*job.results, output], formats=formats or job.formats, sort=sort, unknown=unknown or job.unknown
    )


def apply_corrections(job: Job, pile: FeatureTable, corrections: Mapping[str, str]) -> Job:
    """The job with corrected items of the pile as examples.

    Parameters
    ----------
    job : Job
        What to label and how.
    pile : FeatureTable
        Its pile, as it was read.
    corrections : mapping of str to str
        The class of items, by their name in labels.csv; "unknown": of no class.

    Returns
    -------
    Job
        The same job, whose `promoted` has the corrections too. A correction replaces what was said of an item before.
    """
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(pile.names):
        rows.setdefault(printable(name), []).append(row)
    if missing := [item for item in corrections if item not in rows]:
        some = ", ".join(in_brief(item) for item in missing[:MAX_LISTED_ITEMS])
        more = f" and {len(missing) - MAX_LISTED_ITEMS} more" if len(missing) > MAX_LISTED_ITEMS else ""
        are = "is" if len(missing) == 1 else "are"
        raise ValueError(
            f"{some}{more}, which the corrections name, {are} not in the pile: items are named by the column path of "
            "labels.csv; give the corrections of this pile"
        )
    marked = marks(pile)
    own = {item: [marked[row] for row in rows[item]] for item in corrections}
    promoted = without_marks(job.promoted, {mark for some in own.values() for mark in some})
    for item, label in corrections.items():
        promoted.setdefault(label, []).extend(own[item])
    return replace(job, promoted=promoted)


def without_marks(promoted: Mapping[str, Sequence[Mark]], some: Collection[Mark]) -> dict[str, list[Mark]]:
    """The items that are examples, without some of them; classes that lose all are left out."""
    kept = {name: [mark for mark in items if mark not in some] for name, items in promoted.items()}
    return {name: items for name, items in kept.items() if items}


def _outside_paths(job: Job, folder: Path) -> Iterator[tuple[str, str]]:
    """The paths in a record that are outside the folder of results, each with what it is.

    A backbone that is a file, or that is downloaded, is always listed: it is a program that will be run.
    """
    from handful.backbones.catalogue import is_built_in

    if job.backbone and not is_built_in(job.backbone):
        yield "backbone", job.backbone
    places = [("examples", job.examples), ("pile", job.pile), ("base file", job.base)]
    places.append(("examples of no class", job.unknown))
    places += [("earlier results", place) for place in job.results]
    yield from ((what, str(place)) for what, place in places if place is not None and not _is_within(place, folder))


def _is_within(place: Path, folder: Path) -> bool:
    """Whether a place is in a folder, also with links resolved. A path that is outside as text is not looked up."""
    for whole in (os.path.abspath, os.path.realpath):
        here, there = Path(whole(folder)), Path(whole(place))
        if here not in (there, *there.parents):
            return False
    return True
