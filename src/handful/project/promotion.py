"""Groups of unknowns become classes: the job of a record, with some items of the pile as examples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from handful.core.checks import UNKNOWN_NAME
from handful.core.parameters import AUTO, is_auto
from handful.features import FeatureTable
from handful.features.text_table import read_text_table
from handful.project.items import of_files
from handful.project.job import Group, Job, Mark, Record, marks, read_record
from handful.project.labelling import Labelled, label_items
from handful.project.provenance import Agree, refuse
from handful.project.results_job import trusted_job, without_marks
from handful.project.summary import Comparison, compare, label_texts
from handful.solving.promotion import check_examples, check_names, lower_share
from handful.utils.files import class_name, in_brief


def promote_groups(
    folder: Path,
    names: Mapping[int | str, str],
    output: Path,
    *,
    examples: int | None = None,
    join: bool = False,
    outlier_share: float | str | None = None,
    sort: str | None = None,
    agree: Agree = refuse,
) -> Job:
    """Return the job that made the results in a folder, with groups of unknowns as new classes.

    Parameters
    ----------
    folder : Path
        What `handful label` or `handful promote` wrote.
    names : mapping of int or str to str
        The new classes by the numbers of the groups, as in {2: "mushroom"}; "2.1" is the first kind in group 2.
    output : Path
        Where the results of the new job will be written. Pictures in it are not labelled.
    examples : int, optional
        How many items of a group become examples. Those that together stand for all come first. By default a third
        of it, at least 5 and at most 100; if it looks like two kinds two thirds, if like more all.
    join : bool
        Whether a name may be that of a class that exists: the group is added to it.
    outlier_share : float or "auto", optional
        The share of unknowns. By default, the share of before is lowered by that of the promoted groups; "auto"
        estimates it again.
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
    if record.job is not None and not record.groups:
        raise ValueError(f"the unknowns of {in_brief(folder)} form no groups: there is no group to make a class of")
    job = trusted_job(record, agree)
    check_examples(examples)
    named = named_groups(record, names, _classes(job), join)
    in_groups = {mark for group in named.values() for mark in group.items}
    promoted = without_marks(job.promoted, in_groups)  # examples of no class may be in a group
    example_total = 0
    for key, name in names.items():
        own = named[key].examples(examples)
        promoted.setdefault(name, []).extend(own)
        example_total += len(own)
    unknown = record.unknown - record.set_aside - record.without_text
    promoted_share = sum(group.size for group in named.values()) / unknown
    remaining_share = 1 - example_total / (record.items - record.without_text)
    if remaining_share <= 0:
        raise ValueError("every item of the pile would be an example: nothing is left to label")
    decision = dict(job.decision)
    for name in ("outlier_share", "unknown_rate"):
        if isinstance(decision.get(name), int | float):  # else it is "auto", or not asked for
            decision[name] = lower_share(decision[name], promoted_share, remaining_share)
    is_kept = job.is_share_kept
    if outlier_share is not None:
        decision["outlier_share"], is_kept = outlier_share, False
    elif record.estimated_share is not None and is_auto(decision.get("outlier_share", AUTO)):
        decision["outlier_share"], is_kept = lower_share(record.estimated_share, promoted_share, remaining_share), True
    results = [*job.results, output]
    return replace(job, decision=decision, promoted=promoted, sort=sort, results=results, is_share_kept=is_kept)


def named_groups(
    record: Record, names: Mapping[int | str, str], classes: list[str], join: bool = False
) -> dict[int | str, Group]:
    """The groups, or kinds in groups, that are named; ValueError if a name or a number is wrong."""
    groups: dict[int | str, Group] = {}
    for number, group in record.groups.items():
        groups[number] = group
        groups |= {f"{number}.{k}": part for k, part in enumerate(group.parts, 1)}
    for key in names:
        whole = int(str(key).partition(".")[0])
        if key not in groups and whole in groups:
            kinds = len(record.groups[whole].parts)
            range_of_kinds = f"its kinds are {whole}.1 to {whole}.{kinds}" if kinds else "it looks like one kind"
            raise ValueError(f"there is no {key} in group {whole}: {range_of_kinds}")
        if isinstance(key, str) and whole in names:
            raise ValueError(f"group {whole} is named, and {key} in it too: name the group or its kinds")
    check_names(names, groups, classes, join)
    return {key: groups[key] for key in names}


def rows_of_groups(folder: Path, names: Mapping[int | str, str], pile: FeatureTable) -> dict[str, list[int]]:
    """The rows of the pile that are in the named groups, by the name of their class."""
    record = read_record(folder)
    places: dict[Mark, list[int]] = {}
    for row, mark in enumerate(marks(pile)):
        places.setdefault(mark, []).append(row)
    rows: dict[str, list[int]] = {}
    for key, group in named_groups(record, names, [UNKNOWN_NAME], True).items():
        rows.setdefault(names[key], []).extend(places[mark].pop(0) for mark in group.items if places.get(mark))
    return rows


def _classes(job: Job) -> list[str]:
    """The names of the existing classes, without embedding an item."""
    from handful.features import read

    if of_files(job.examples):
        names = [class_name(folder.name) for folder in job.examples.iterdir() if folder.is_dir()]
    elif job.kind == "texts":
        table = read_text_table(job.examples, text=job.text, label=job.table.get("label"))
        names = list(map(str, table.counts))
    else:
        names = list(map(str, read(job.examples, warn=False, **job.table).counts))
    if not names and not job.promoted:
        raise ValueError(f"{in_brief(job.examples)} has no examples of any class: label the pile again")
    return [*names, *job.promoted]


def compare_results(
    labelled: Labelled, examples: FeatureTable, folder: Path, names: Mapping[int | str, str]
) -> Comparison | None:
    """Compare a pile with the results in a folder, some of whose groups are classes now.

    The earlier job is solved again on the features that are in memory: a table in the folder may have been edited.
    """
    job = read_record(folder).job
    if job is None:
        return None
    pile = labelled.pile
    before = label_items(examples, pile, pile_labels=job.find_promoted(pile), **job.decision)
    return compare(label_texts(before), label_texts(labelled), rows_of_groups(folder, names, pile))
