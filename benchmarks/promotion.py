"""What making a class of a group of unknowns does to the labels of a pile. ::

    python benchmarks/promotion.py FEATURES... # some minutes; writes benchmarks/results/promotion.md
    python benchmarks/promotion.py --quick     # some seconds, the digits; writes into a temporary folder

FEATURES are files of features, or folders of photos, <Class>/*.jpg, for the default backbone. A pile has about 200
items: of 5 to 8 known classes, shown by 5 examples each, and of 3 to 7 unknown ones, which are 30 to 60 % of it in
unequal parts. It is solved by the default method that is told nothing. Each of its three largest groups becomes a class
in turn, named by the true class of most of its items, and the pile is solved again with the default number of examples.

An item is right if it is labelled with its true class, or as unknown if its class is not known. Where a group is mixed,
the items of every class that is at least a fifth of it are right with the name of the new class too. A group is pure if
there is one such class; it joins a class where most of its items are of a known one. "before" and "after" are the share
of the pile that is right, in percent. "judged alike" is the change if the labels before are judged by the classes
after, so that an unknown item of the new class was wrong. "all named": every group that is mostly of that class gets
the name, as a person would do who looks at all groups. "if no more" is the change if the items of the group got the
name and no other label changed: it falls where items of the new class are in another group or in none, because these
were right as unknown. "found" is the share of the group that has the name after, examples among them. "5 central": the
five most central items as examples, and the share estimated again. "kinds > 1" is how often a group is said to be
several kinds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import _report
import numpy as np
from _report import Section
from _script import Parser
from grocery import read_photos
from rich.console import Console

import handful
from handful.features import FeatureTable, digits
from handful.project.summary import compare
from handful.solving.groups import Group

ITEMS, SHOTS, GROUPS = 200, 5, 3
MIN_CLASS = 12  # items of a class that is drawn
MADE_OF = 0.2  # of a group: the part of a class that it is made of
NEVER_KNOWN = ("oos", "uncategorised", "BACKGROUND_Google")
MAX_FALL = 2.0  # points


def draw(labels: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the examples and of the pile."""
    rng = np.random.default_rng(seed)
    names, counts = np.unique(labels, return_counts=True)
    names = rng.permutation(names[(counts >= MIN_CLASS) & ~np.isin(names, NEVER_KNOWN)])
    ways = min(int(rng.integers(5, 9)), len(names) - 3)
    others = min(int(rng.integers(3, 8)), len(names) - ways)
    unknown_share = rng.uniform(0.3, 0.6)
    examples, pile = [], []
    for name in names[:ways]:
        rows = rng.permutation(np.flatnonzero(labels == name))
        examples.append(rows[:SHOTS])
        pile.append(rows[SHOTS:][: max(5, round(ITEMS * (1 - unknown_share) / ways))])
    parts = rng.dirichlet(np.full(others, 3.0))
    for name, part in zip(names[ways : ways + others], parts, strict=True):
        rows = rng.permutation(np.flatnonzero(labels == name))
        pile.append(rows[: max(5, round(ITEMS * unknown_share * part))])
    return np.concatenate(examples), np.concatenate(pile)


def right(labels: np.ndarray, truth: np.ndarray, known: np.ndarray, made_of: Any = (), name: str = "") -> float:
    """The share of the pile that is right, in percent."""
    is_right = np.where(np.isin(truth, known), labels == truth, labels == "unknown")
    is_right |= np.isin(truth, made_of) & (labels == name)
    return float(100 * is_right.mean())


def promoted_labels(
    features: FeatureTable, examples: np.ndarray, pile: np.ndarray, chosen: np.ndarray, name: str, share: float | str
) -> np.ndarray:
    rest = np.setdiff1d(np.arange(len(pile)), chosen)
    support = features.features[np.concatenate([examples, pile[chosen]])]
    labels = [*features.labels[examples].astype(str), *[name] * len(chosen)]
    labels_now = np.full(len(pile), name, dtype=object)
    labels_now[rest] = handful.solve(support, labels, features.features[pile[rest]], outlier_share=share).labels
    return labels_now


def measure(features: FeatureTable, piles: int) -> Iterator[dict[str, Any]]:
    for seed in range(piles):
        truth_of_all = features.labels.astype(str)
        examples, pile = draw(truth_of_all, seed)
        truth, known = truth_of_all[pile], np.unique(truth_of_all[examples])
        result = handful.solve(features.features[examples], truth_of_all[examples], features.features[pile])
        labels = result.labels.astype(object)
        for group in result.groups[:GROUPS]:
            yield {"data": features.name, "pile": seed} | of_group(
                features, examples, pile, result, labels, truth, known, group
            )


def of_group(
    features: FeatureTable,
    examples: np.ndarray,
    pile: np.ndarray,
    result: handful.Result,
    labels: np.ndarray,
    truth: np.ndarray,
    known: np.ndarray,
    group: Group,
) -> dict[str, Any]:
    names, counts = np.unique(truth[group.items], return_counts=True)
    name, made_of = truth_of_most(truth, group), names[counts >= MADE_OF * group.size]
    new = result.promote({group.number: name}, join=True)
    after = promoted_labels(features, examples, pile, group.exemplars(), name, new.outlier_share)
    same = [g for g in result.groups if truth_of_most(truth, g) == name]
    by_name = result.promote({g.number: name for g in same}, join=True)
    every = promoted_labels(
        features, examples, pile, np.concatenate([g.exemplars() for g in same]), name, by_name.outlier_share
    )
    earlier = promoted_labels(features, examples, pile, group.items[:5], name, "auto")
    no_more = labels.copy()
    no_more[group.items] = name
    now_known = np.append(known, name)
    before = right(labels, truth, known)
    figures = {key: right(x, truth, now_known, made_of, name) for key, x in
               (("judged_alike", labels), ("after", after),
                ("every", every), ("no_more", no_more), ("earlier", earlier))}  # fmt: skip
    kind = "joins" if name in known else "pure" if len(made_of) == 1 else "mixed"
    return {
        "group": group.number, "size": group.size, "kind": kind,
        "kinds": group.kinds, "before": before, **figures, "found": float(100 * np.mean(after[group.items] == name)),
        "earlier_found": float(100 * np.mean(earlier[group.items] == name)),
        "warned": bool(compare(labels.tolist(), after.tolist(), {name: group.items.tolist()}).warnings),
    }  # fmt: skip


def truth_of_most(truth: np.ndarray, group: Group) -> str:
    names, counts = np.unique(truth[group.items], return_counts=True)
    return str(names[counts.argmax()])


def row_of(title: str, rows: list[dict[str, Any]]) -> tuple[str, ...]:
    values = {key: np.array([row[key] for row in rows], float) for key in rows[0] if key not in ("data", "kind")}
    change = values["after"] - values["before"]
    falls = int((change < -MAX_FALL).sum())
    every = values["every"] - values["before"]
    several = f"{100 * np.mean(values['kinds'] > 1):.0f} %"
    return (
        title, str(len(rows)), f"{values['before'].mean():.1f}", f"{values['after'].mean():.1f}",
        f"{change.mean():+.1f}", f"{change.min():+.1f}", str(falls),
        f"{(values['after'] - values['judged_alike']).mean():+.1f}",
        f"{(values['after'] - values['judged_alike']).min():+.1f}", f"{every.mean():+.1f}", f"{every.min():+.1f}",
        str(int((every < -MAX_FALL).sum())), f"{(values['no_more'] - values['before']).mean():+.1f}",
        f"{(values['earlier'] - values['before']).mean():+.1f}", f"{(values['earlier'] - values['before']).min():+.1f}",
        f"{values['found'].mean():.0f}", f"{values['earlier_found'].mean():.0f}", several,
        f"{100 * values['warned'].mean():.0f} %",
    )  # fmt: skip


def main() -> None:
    parser = Parser(__doc__, "some minutes")
    parser.add_argument("features", type=Path, nargs="*", help="feature sets or folders of photos")
    parser.add_size("--piles", 6, 1, "piles of each feature set")
    parser.add_part("--json", type=Path, metavar="FILE", help="also write a row for each group there")
    given = parser.parse()
    if not given.features and not given.quick:
        parser.error("FEATURES must be given; --quick runs without")
    console = Console()
    rows: list[dict[str, Any]] = []
    sections = []
    header = ("", "groups", "before", "after", "change", "worst", f"below -{MAX_FALL:g}",
              "judged alike", "worst", "all named", "worst",
              f"below -{MAX_FALL:g}", "if no more", "5 central",
              "worst", "found", "5 central", "kinds > 1", "warned")  # fmt: skip
    sets = [_open(parser, path, console) for path in given.features] or [FeatureTable(*digits(), name="digits")]
    for features in sets:
        with console.status(f"Solving {features.name} …"):
            rows += (own := list(measure(features, given.piles)))
        kinds = [(kind, [row for row in own if row["kind"] == kind]) for kind in ("pure", "mixed", "joins")]
        sections.append(Section(features.name, header, [row_of(kind, some) for kind, some in kinds if some]))
        _report.show(console, sections[-1])
    kinds = [(kind, [row for row in rows if row["kind"] == kind]) for kind in ("pure", "mixed", "joins")]
    sections.append(Section("All", header, [row_of(kind, some) for kind, some in kinds if some]))
    _report.show(console, sections[-1])
    if given.json is not None:
        given.json.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
    notes = [*__doc__.split("\n\n")[2:], f"{given.piles} piles of each feature set."]
    _report.write(console, given.output / "promotion.md", "Groups made classes", sections, [], notes)


def _open(parser: Parser, path: Path, console: Console) -> FeatureTable:
    if path.is_dir():
        return read_photos(path, "efficientnet_lite0", console)
    table = parser.feature_set(path, lambda: FeatureTable(*digits()))
    return table.replace(name=path.stem)


if __name__ == "__main__":
    main()
