"""Groups of unknowns become classes: the job of a record, with some items of the pile as examples."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from handful.label.items import of_pictures
from handful.label.provenance import Agree, Request, refuse
from handful.label.record import Job, read_record
from handful.solving.groups import check_names, lower_share
from handful.utils.files import class_name, in_brief

DETAILS = 20  # paths that are shown to the user, what is read or run first


def promote_groups(
    folder: Path,
    names: Mapping[int, str],
    output: Path,
    *,
    examples: int = 5,
    outlier_share: float | str | None = None,
    sort: str | None = None,
    agree: Agree = refuse,
) -> Job:
    """The job that made the results in a folder, with new classes made of groups of unknowns.

    Parameters
    ----------
    folder : Path
        What `handful label` or `handful promote` wrote.
    names : mapping of int to str
        The new classes by the numbers of the groups, as in {2: "mushroom"}.
    output : Path
        Where the results of the new job will be written; they are no pile.
    examples : int
        How many items of a group become examples, the most central first.
    outlier_share : float or "auto", optional
        The share of unknowns. By default a share that was told is lowered by what the groups were of the unknowns, and
        one that was estimated is estimated again.
    sort : str, optional
        How to sort the pictures: only this counts, never what the record says.
    agree : callable
        Asked before anything is read that the record names outside of `folder`, if the record is not known to be of
        the user's own runs.

    Returns
    -------
    Job
        What to label next: `Job.read` gives its items.
    """
    record = read_record(folder)
    job, groups = record.job, record.groups
    if job is None:
        raise ValueError(f"{in_brief(record.path)} does not say what was labelled: use `handful label` first")
    if not groups:
        raise ValueError(f"the unknowns of {in_brief(folder)} fall into no groups: there is none to make a class of")
    if not record.own and (strange := list(_strange_paths(job, folder))):
        places = ", ".join(f"{in_brief(place)} ({what})" for what, place in strange[:4])
        more = f" and {len(strange) - 4} more" if len(strange) > 4 else ""
        details = [f"    {what}: {place!r}" for what, place in strange[:DETAILS]]
        details += [f"    and {len(strange) - DETAILS} more"] if len(strange) > DETAILS else []
        agree(Request(record.path, f"use {places}{more}", details))
    for path in filter(None, (job.examples, job.pile, job.base)):
        if not path.exists():
            raise FileNotFoundError(f"{in_brief(path)}, which these results were made from, is gone: put it back")
    check_names(dict(names), dict(groups), _classes(job))
    promoted = {name: list(items) for name, items in job.promoted.items()}
    for number, name in names.items():
        promoted.setdefault(name, []).extend(groups[number].items[:examples])
    part = sum(groups[number].size for number in names) / record.unknown
    kept = 1 - sum(min(examples, groups[number].size) for number in names) / record.items
    if kept <= 0:
        raise ValueError("every item of the pile would be an example: nothing is left to label")
    decision = dict(job.decision)
    for name in ("outlier_share", "unknown_rate"):
        if isinstance(decision.get(name), int | float):  # else it is "auto", or not asked for
            decision[name] = lower_share(decision[name], part, kept)
    if outlier_share is not None:
        decision["outlier_share"] = outlier_share
    return replace(job, decision=decision, promoted=promoted, sort=sort, results=[*job.results, output])


def _strange_paths(job: Job, folder: Path) -> Iterator[tuple[str, str]]:
    """What a record names that does not lie in the folder of results, and what it is.

    A backbone that is a file, or that is fetched from elsewhere, is always named: it is run.
    """
    from handful.backbones.catalogue import DEFAULT, OMNIGLOT, PIXELS

    if job.backbone not in ("", DEFAULT, OMNIGLOT, PIXELS):
        yield "backbone", job.backbone
    places = [("examples", job.examples), ("pile", job.pile), ("base file", job.base)]
    places += [("earlier results", place) for place in job.results]
    yield from ((what, str(place)) for what, place in places if place is not None and not _is_within(place, folder))


def _is_within(place: Path, folder: Path) -> bool:
    """Links resolved; a path that is elsewhere by its name is not even looked at."""
    for whole in (os.path.abspath, os.path.realpath):
        here, there = Path(whole(folder)), Path(whole(place))
        if here not in (there, *there.parents):
            return False
    return True


def _classes(job: Job) -> list[str]:
    """Names that are taken, found without looking at a picture."""
    from handful.features import read

    if of_pictures(job.examples):
        names = [class_name(part.name) for part in job.examples.iterdir() if part.is_dir()]
    else:
        names = list(map(str, read(job.examples, warn=False, **job.table).counts))
    if not names and not job.promoted:
        raise ValueError(f"{in_brief(job.examples)} has no examples of any class: label the pile anew")
    return [*names, *job.promoted]
