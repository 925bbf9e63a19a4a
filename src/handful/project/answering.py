"""From a project to its answers: what a command says first, the labelled pile, and what is stored of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from handful.core.checks import UNKNOWN_NAME
from handful.core.parameters import AUTO, is_auto
from handful.project.items import Embedder, Progress
from handful.project.job import Job, stored_job
from handful.project.labelling import Labelled, label_items
from handful.project.loading import item_places, place_items
from handful.project.outputs import marks
from handful.project.pile import PILE, UPLOADS
from handful.project.runs import MAX_ASKED_ITEMS, UNKNOWN, Run, by_id, facts_of, run_of
from handful.project.said import Store
from handful.project.steps import PROMOTED
from handful.project.summary import compare, label_texts
from handful.solving.groups import example_count
from handful.solving.promotion import check_names, lower_share
from handful.utils.files import in_brief, printable

MAX_LISTED_ITEMS = 3  # items that an error names
Groups = dict[int | str, tuple[list[int], int]]  # by number: the items, those that stand for all first; kinds


@dataclass(frozen=True)
class Saying:
    """What a command says before the pile is labelled."""

    decision: Mapping[str, Any] = field(default_factory=dict)  # options of `label_items` that are other ones now
    share_kept: bool | None = None  # whether the outlier share is that of before, less groups; None: as before
    groups: Mapping[str, Sequence[int]] = field(default_factory=dict)  # items of groups that became a class, by name


def use_checks(store: Store, run: Run | None) -> Saying:
    """Make labels of the answers to the check of a run."""
    if run is not None:
        store.use_checks(run.id)
    return Saying()


def not_in_pile(missing: Sequence[str]) -> ValueError:
    """The error for names that no item of the pile has."""
    some = ", ".join(in_brief(item) for item in missing[:MAX_LISTED_ITEMS])
    more = f" and {len(missing) - MAX_LISTED_ITEMS} more" if len(missing) > MAX_LISTED_ITEMS else ""
    are = "is" if len(missing) == 1 else "are"
    return ValueError(
        f"{some}{more}, which the corrections name, {are} not in the pile: items are named by the column path of "
        "labels.csv; give the corrections of this pile"
    )


def solve_project(
    store: Store,
    job: Job,
    decision: Mapping[str, Any],
    corrections: Mapping[str, str],
    folder: Path,
    embedder: Embedder | None,
    progress: Progress,
) -> tuple[Labelled, np.ndarray]:
    """The labelled pile and the number of each of its items."""
    examples, pile = job.read(progress, embedder, folder / UPLOADS)
    all_ids = place_items(
        store, item_places(job, examples, pile), [*map(str, examples.label_names), *[None] * len(pile)]
    )
    example_ids, ids = all_ids[: len(examples)], all_ids[len(examples) :]
    said_now: set[int] = set()
    if corrections:
        rows: dict[str, list[int]] = {}
        for row, name in enumerate(pile.names):
            rows.setdefault(printable(name), []).append(row)
        if missing := [item for item in corrections if item not in rows]:
            raise not_in_pile(missing)
        new_labels = {int(ids[row]): label for item, label in corrections.items() for row in rows[item]}
        said_now |= new_labels.keys()
        store.say(new_labels)
    labels = dict(store.labels())
    names = {UNKNOWN: UNKNOWN_NAME} | {number: name for number, (name, _) in store.classes().items()}
    found = dict(zip(ids.tolist(), marks(pile), strict=True))
    _check_examples(store, {item: labels[item] for item in labels.keys() - said_now}, names, found)
    is_example = np.array([item in labels for item in example_ids.tolist()], bool)
    examples = examples.take(is_example) if not is_example.all() else examples
    new = [names[labels[item]] for item in example_ids[is_example].tolist()]
    examples = examples.replace(labels=new) if new != examples.label_names else examples
    pile_labels = {row: names[labels[item]] for row, item in enumerate(ids.tolist()) if item in labels}
    store.describe_items({item: (printable(name), mark) for item, (name, mark) in found.items()})
    return label_items(examples, pile, pile_labels=pile_labels, **decision), ids


def _check_examples(
    store: Store, labels: Mapping[int, int], names: Mapping[int, str], found: Mapping[int, tuple[str, str]]
) -> None:
    """Raise ValueError if an item that a person made an example has changed or is gone."""
    for item, (origin, title, _, mark, came_as) in store.item_facts().items():
        if item not in labels or origin != PILE or came_as is not None:
            continue
        if item not in found or (mark is not None and mark != found[item][1]):
            now = "has changed" if item in found else "is gone"
            raise ValueError(
                f"{in_brief(title)}, an example of {in_brief(names[labels[item]])}, {now} since "
                "the pile was labelled: put it back, or label the pile again with `handful label`"
            )


def stored_run(
    store: Store,
    labelled: Labelled,
    ids: np.ndarray,
    before: Run | None,
    said: Saying,
    decision: Mapping[str, Any],
) -> Run:
    """The answers as they are stored, and what has changed by a promotion."""
    classes = {number: name for number, (name, _) in store.classes().items()}
    if said.groups and before is not None:
        row_of = {item: row for row, item in enumerate(ids.tolist())}
        old = before.labels(classes)
        rows = {name: [row_of[i] for i in items if i in row_of] for name, items in said.groups.items()}
        texts = [old.get(item, UNKNOWN_NAME) for item in ids.tolist()]
        labelled.comparison = compare(texts, label_texts(labelled), rows)
    facts = facts_of([by_id(group, ids) for group in labelled.groups]) | {
        "asking": ids[labelled.ask(MAX_ASKED_ITEMS)].tolist(), "decision": dict(decision),
        "share_kept": labelled.is_share_kept, "detail": float(decision.get("group_detail", 0.0)),
        "notice": " ".join([] if labelled.comparison is None else labelled.comparison.warnings),
    }  # fmt: skip
    return run_of(labelled, ids, dict(store.labels()), classes, before, facts)


# ---- groups that become classes


def say_promotion(
    store: Store,
    run: Run | None,
    folder: Path,
    names: Mapping[int | str, str],
    examples: int | None,
    join: bool,
    outlier_share: float | str | None,
) -> Saying:
    """Say that groups are classes; what follows for the share of unknowns."""
    if run is None or not run.facts["groups"]:
        raise ValueError(f"the unknowns of {in_brief(folder)} form no groups: there is no group to make a class of")
    job, _ = stored_job(store, folder)
    labelled, facts = dict(store.labels()), store.item_facts()
    groups = _named_groups(run, names, [name for name, _ in store.classes().values()], join)
    for key in names:  # a person may have labelled some of them since the run
        groups[key] = [item for item in groups[key][0] if labelled.get(item, UNKNOWN) == UNKNOWN], groups[key][1]
        if not groups[key][0]:
            raise ValueError(f"all items of group {key} have a label already: label the pile again to see new groups")
    labels: dict[int, str | None] = {}
    for key, name in names.items():
        items, kinds = groups[key]
        count = example_count(len(items), kinds) if examples is None else examples
        labels |= dict.fromkeys(items[:count], name)
    in_groups = {item for key in names for item in groups[key][0]}
    no_class = [item for item in in_groups if labelled.get(item) == UNKNOWN]
    how = "added to" if join else "made"
    words = ", ".join(f"{key} {how} class {name}" for key, name in names.items())
    store.say({**dict.fromkeys(no_class), **labels}, f"{PROMOTED}{words}")
    promoted = [  # items of the pile that were examples at the run
        (item, code)
        for item, code in zip(run.given_ids.tolist(), run.given.tolist(), strict=True)
        if item in facts and facts[item].came_as is None
    ]
    unknown = int(run.answers.likely_unknown.sum()) + sum(code == UNKNOWN for _, code in promoted)
    promoted_share = sum(len(groups[key][0]) for key in names) / max(unknown, 1)
    remaining_share = 1 - len(labels) / (len(run.ids) + len(promoted))
    if remaining_share <= 0:
        raise ValueError("every item of the pile would be an example: nothing is left to label")
    before = {**job.decision, **run.facts["decision"]}
    decision: dict[str, Any] = {}
    for option in ("outlier_share", "unknown_rate"):
        if isinstance(before.get(option), int | float):  # else it is "auto", or not asked for
            decision[option] = lower_share(before[option], promoted_share, remaining_share)
    share_kept = None
    if outlier_share is not None:
        decision["outlier_share"], share_kept = outlier_share, False
    elif run.facts["share_low"] is not None and is_auto(before.get("outlier_share", AUTO)):
        share = lower_share(run.facts["share"], promoted_share, remaining_share)
        decision["outlier_share"], share_kept = share, True
    by_class: dict[str, list[int]] = {}
    for key, name in names.items():
        by_class.setdefault(name, []).extend(groups[key][0])
    return Saying(decision, share_kept, by_class)


def _named_groups(run: Run, names: Mapping[int | str, str], classes: list[str], join: bool) -> Groups:
    """The groups, or kinds in groups, that are named; ValueError if a name or a number is wrong."""
    groups: Groups = {}
    facts = run.facts
    for number, (items, first, parts) in enumerate(
        zip(facts["groups"], facts["exemplars"], facts["parts"], strict=True), 1
    ):
        order = [*first, *sorted(set(items) - set(first))]
        groups[number] = order, max(1, len(parts))
        groups |= {f"{number}.{k}": (list(part), 1) for k, part in enumerate(parts, 1)}
    for key in names:
        whole = int(str(key).partition(".")[0])
        if key not in groups and whole in groups:
            kinds = len(facts["parts"][whole - 1])
            range_of_kinds = f"its kinds are {whole}.1 to {whole}.{kinds}" if kinds else "it looks like one kind"
            raise ValueError(f"there is no {key} in group {whole}: {range_of_kinds}")
        if isinstance(key, str) and whole in names:
            raise ValueError(f"group {whole} is named, and {key} in it too: name the group or its kinds")
    check_names(names, groups, classes or [""], join)
    return groups
