"""Groups of unknowns become classes: what is said of their items, and what follows for the next run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from handful.core.parameters import AUTO, is_auto
from handful.project.events import Store
from handful.project.runs import UNKNOWN, Run
from handful.solving.groups import check_names, example_count, lower_share

Names = Mapping[int | str, str]  # of classes, by the number of a group: "2.1" is the first kind in group 2


def promote(store: Store, run: Run, names: Names, examples: int | None = None, join: bool = False) -> int:
    """Say that groups of a run are classes: items that together stand for a group become examples; return how many.

    examples: how many of each group; by default as many as its size and kinds need. join: whether a name may be that of
    a class that exists: the group is added to it.
    """
    labels, groups = store.said.labels, _groups_of(run)
    _check_kinds(names, groups)
    check_names(names, groups, [name for name, _ in store.said.classes.values()] or [""], join)
    decisions = dict(zip(run.ids.tolist(), run.decisions.tolist(), strict=True))
    is_there = {item for item, facts in store.item_facts().items() if facts.state == "there"}
    codes, classes = store.codes_of(names.values())
    new: dict[int, int | None] = {}
    promoted = []
    for key, name in names.items():
        items, kinds = groups[key]
        members = [  # a person may have labelled some of them since the run
            item for item in items
            if item in is_there and labels.get(item, UNKNOWN) == UNKNOWN and decisions.get(item, UNKNOWN) == UNKNOWN
        ]  # fmt: skip
        if not members:
            raise ValueError(f"all items of group {key} have a label already: label the pile again to see new groups")
        promoted.append([codes[name], members])
        count = example_count(len(members), kinds) if examples is None else examples
        new |= {item: None for item in members if item in labels} | dict.fromkeys(members[:count], codes[name])
    how = "added to" if join else "made"
    words = ", ".join(f"{key} {how} class {name}" for key, name in names.items())
    store.label(new, text=f"group {words}", classes=classes, promoted=promoted)
    return sum(code is not None for code in new.values())


def _groups_of(run: Run) -> dict[int | str, tuple[list[int], int]]:
    """By the name of a group, or of a kind in it: the items, those that stand for all first, and how many kinds."""
    groups: dict[int | str, tuple[list[int], int]] = {}
    entries = zip(run.facts["groups"], run.facts["exemplars"], run.facts["parts"], strict=True)
    for number, (items, first, parts) in enumerate(entries, 1):
        groups[number] = [*first, *sorted(set(items) - set(first))], max(1, len(parts))
        groups |= {f"{number}.{k}": (list(part), 1) for k, part in enumerate(parts, 1)}
    return groups


def _check_kinds(names: Names, groups: Mapping[int | str, Any]) -> None:
    """Raise ValueError for a kind that is not there, or that is named beside its group."""
    for key in names:
        whole, _, kind = str(key).partition(".")
        if not kind or not whole.isdecimal() or int(whole) not in groups:
            continue
        if key not in groups:
            kinds = sum(str(other).startswith(f"{whole}.") for other in groups)
            range_of_kinds = f"its kinds are {whole}.1 to {whole}.{kinds}" if kinds else "it looks like one kind"
            raise ValueError(f"there is no {key} in group {whole}: {range_of_kinds}")
        if int(whole) in names:
            raise ValueError(f"group {whole} is named, and {key} in it too: name the group or its kinds")


def share_after(store: Store, run: Run, decision: Mapping[str, Any], examples: int) -> tuple[dict[str, Any], bool]:
    """The shares of unknowns that `label_items` takes after a promotion, and whether one was estimated before.

    decision: the options of the run before. examples: how many items became examples.
    """
    facts = store.item_facts()
    before = [  # items of the pile that were examples at the run
        code for item, code in run.given_labels.items() if item in facts and facts[item].came_as is None
    ]
    unknown = int(run.answers.likely_unknown.sum()) + before.count(UNKNOWN)
    promoted = sum(map(len, store.said.promoted.values())) / max(unknown, 1)
    remaining = 1 - examples / (len(run.ids) + len(before))
    if remaining <= 0:
        raise ValueError("every item of the pile would be an example: nothing is left to label")
    shares = {
        name: lower_share(decision[name], promoted, remaining)
        for name in ("outlier_share", "unknown_rate")
        if isinstance(decision.get(name), int | float)  # else it is "auto", or not asked for
    }
    is_estimated = run.facts["share_low"] is not None and is_auto(decision.get("outlier_share", AUTO))
    if is_estimated:
        shares["outlier_share"] = lower_share(run.facts["share"], promoted, remaining)
    return shares, is_estimated
