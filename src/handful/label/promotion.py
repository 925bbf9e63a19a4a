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

MAX_LISTED_PATHS = 20  # paths that the question to the user lists


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
    """Return the job that made the results in a folder, with groups of unknowns as new classes.

    Parameters
    ----------
    folder : Path
        What `handful label` or `handful promote` wrote.
    names : mapping of int to str
        The new classes by the numbers of the groups, as in {2: "mushroom"}.
    output : Path
        Where the results of the new job will be written. Pictures in it are not labelled.
    examples : int
        How many items of a group become examples, the most central first.
    outlier_share : float or "auto", optional
        The share of unknowns. By default, a share that the user set is lowered by the share of the promoted groups,
        and an estimated share is estimated again.
    sort : str, optional
        How to sort the pictures. The value in the record is not used.
    agree : callable
        Called before a file outside of `folder` is read, unless one of the user's own runs wrote the record.

    Returns
    -------
    Job
        The new job. `Job.read` reads its items.
    """
    record = read_record(folder)
    job, groups = record.job, record.groups
    if job is None:
        raise ValueError(f"{in_brief(record.path)} does not say what was labelled: use `handful label` first")
    if not groups:
        raise ValueError(f"the unknowns of {in_brief(folder)} form no groups: there is no group to make a class of")
    if not record.own and (outside_paths := list(_outside_paths(job, folder))):
        places = ", ".join(f"{in_brief(place)} ({what})" for what, place in outside_paths[:4])
        more = f" and {len(outside_paths) - 4} more" if len(outside_paths) > 4 else ""
        details = [f"    {what}: {place!r}" for what, place in outside_paths[:MAX_LISTED_PATHS]]
        if len(outside_paths) > MAX_LISTED_PATHS:
            details.append(f"    and {len(outside_paths) - MAX_LISTED_PATHS} more")
        agree(Request(record.path, f"use {places}{more}", details))
    for path in filter(None, (job.examples, job.pile, job.base)):
        if not path.exists():
            raise FileNotFoundError(f"{in_brief(path)}, which these results were made from, is gone: put it back")
    check_names(dict(names), dict(groups), _classes(job))
    promoted = {name: list(items) for name, items in job.promoted.items()}
    for number, name in names.items():
        promoted.setdefault(name, []).extend(groups[number].items[:examples])
    promoted_share = sum(groups[number].size for number in names) / (record.unknown - record.set_aside)
    remaining_share = 1 - sum(min(examples, groups[number].size) for number in names) / record.items
    if remaining_share <= 0:
        raise ValueError("every item of the pile would be an example: nothing is left to label")
    decision = dict(job.decision)
    for name in ("outlier_share", "unknown_rate"):
        if isinstance(decision.get(name), int | float):  # else it is "auto", or not asked for
            decision[name] = lower_share(decision[name], promoted_share, remaining_share)
    if outlier_share is not None:
        decision["outlier_share"] = outlier_share
    return replace(job, decision=decision, promoted=promoted, sort=sort, results=[*job.results, output])


def _outside_paths(job: Job, folder: Path) -> Iterator[tuple[str, str]]:
    """The paths in a record that are outside the folder of results, each with what it is.

    A backbone that is a file, or that is downloaded, is always listed: it is a program that will be run.
    """
    from handful.backbones.catalogue import DEFAULT, OMNIGLOT, PIXELS

    if job.backbone not in ("", DEFAULT, OMNIGLOT, PIXELS):
        yield "backbone", job.backbone
    places = [("examples", job.examples), ("pile", job.pile), ("base file", job.base)]
    places += [("earlier results", place) for place in job.results]
    yield from ((what, str(place)) for what, place in places if place is not None and not _is_within(place, folder))


def _is_within(place: Path, folder: Path) -> bool:
    """Whether a place is in a folder, also with links resolved. A path that is outside as text is not looked up."""
    for whole in (os.path.abspath, os.path.realpath):
        here, there = Path(whole(folder)), Path(whole(place))
        if here not in (there, *there.parents):
            return False
    return True


def _classes(job: Job) -> list[str]:
    """The names of the existing classes, without reading a picture."""
    from handful.features import read

    if of_pictures(job.examples):
        names = [class_name(folder.name) for folder in job.examples.iterdir() if folder.is_dir()]
    else:
        names = list(map(str, read(job.examples, warn=False, **job.table).counts))
    if not names and not job.promoted:
        raise ValueError(f"{in_brief(job.examples)} has no examples of any class: label the pile again")
    return [*names, *job.promoted]
