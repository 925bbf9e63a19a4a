"""A run: the answers for the pile from the labels so far, with decisions at any threshold, and how it is stored."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from handful.core.answers import Answers, ExpectedLabels
from handful.core.checks import UNKNOWN_NAME
from handful.core.decide import MIN_PILE_ITEMS
from handful.project.summary import swings
from handful.solving import check
from handful.solving.groups import Group
from handful.utils.shares_in_words import about, is_low, percent, right_in_words, span

if TYPE_CHECKING:
    from handful.project.events import Said
    from handful.project.labelling import Labelled

NONE = -1  # no label, no decision
UNKNOWN = 0  # the code of items that belong to no class
WRONG = -1  # an answer to a check: the label is wrong, and nothing says what is right
HISTOGRAM_BINS = 40
MAX_ASKED_ITEMS = 100  # items that are worth asking about
GroupFacts = dict[str, list[Any]]  # groups, exemplars and parts of groups, by id


@dataclass(frozen=True, eq=False)
class Run:
    """The answers for the n items that had no label, from the N classes that had examples."""

    id: int
    made: str
    facts: dict[str, Any]  # method, share and its interval, groups, classes without examples
    ids: np.ndarray  # [n]
    answers: Answers  # of n items; classes by their numbers
    previous: np.ndarray  # [n] the decision of the run before, or NONE
    map_ids: np.ndarray  # [m]
    flat: np.ndarray  # [m, 2] places on a plane
    given_ids: np.ndarray  # [k] the items that had a label
    given: np.ndarray  # [k] their labels, UNKNOWN too

    @property
    def threshold(self) -> float:
        """The doubt (`Answers.doubts`) above which an item is unknown."""
        return float(self.answers.threshold)

    @cached_property
    def decisions(self) -> np.ndarray:
        """[n] the number of the class, or UNKNOWN."""
        return np.where(self.answers.unknown, UNKNOWN, self.answers.closest)

    @property
    def changed(self) -> np.ndarray:
        """[n] whether the decision of the run before was another one."""
        return np.asarray((self.previous != NONE) & (self.previous != self.decisions))

    def grouped(self, groups: GroupFacts, **facts: Any) -> Run:
        """The same run with other groups."""
        return replace(self, facts=self.facts | groups | facts)

    @cached_property
    def given_labels(self) -> dict[int, int]:
        """The label of each item that had one before the run."""
        return dict(zip(self.given_ids.tolist(), self.given.tolist(), strict=True))

    @cached_property
    def codes(self) -> dict[int, int]:
        """The label or the decision of each item."""
        return dict(zip(self.ids.tolist(), self.decisions.tolist(), strict=True)) | self.given_labels

    def at(self, threshold: float) -> Run:
        """The same run with another threshold."""
        return replace(self, answers=self.answers.at(threshold))

    def packed(self) -> tuple[str, float, str, bytes]:
        """The run as it is stored: when it was made, threshold, facts as JSON, arrays as an .npz file."""
        answers = self.answers
        p = np.full(len(self.ids), np.nan) if answers.p_unknown is None else answers.p_unknown
        own = {"classes": answers.classes, "probabilities": answers.probabilities, "scores": answers.outlier_scores}
        arrays = vars(self) | own | {"p_unknown": p}
        file = io.BytesIO()
        np.savez(file, **{name: arrays[name] for name in SHAPES})
        return self.made, self.threshold, json.dumps(self.facts), file.getvalue()

    @classmethod
    def unpacked(cls, number: int, made: str, threshold: float, facts_text: str, data: bytes) -> Run:
        """Read a stored run; raise ValueError for data that `packed` does not give."""
        facts, arrays = _read_facts(facts_text), _read_arrays(data)
        probabilities, p_unknown = (np.clip(arrays[name], 0, 1) for name in ("probabilities", "p_unknown"))  # rounded
        answers = Answers(
            probabilities, arrays["scores"], arrays["classes"], threshold, is_probability=facts["is_probability"],
            outlier_share=facts["share"], p_unknown=p_unknown, min_confidence=facts["min_confidence"],
        )  # fmt: skip
        own = {name: arrays[name] for name in ("ids", "previous", "map_ids", "flat", "given_ids", "given")}
        return cls(number, made, facts, answers=answers, **own)

    def histogram(self) -> dict[str, Any]:
        """The numbers of known and of unknown items by outlier score."""
        scores, is_unknown = self.answers.doubts, self.answers.unknown
        low, high = float(scores.min()), float(scores.max())
        if self.facts["is_probability"]:
            low, high = 0.0, 1.0
        elif low == high:
            low, high = low - 0.5, high + 0.5
        edges = np.linspace(low, high, HISTOGRAM_BINS + 1)
        known, unknown = (np.histogram(scores[x], edges)[0].tolist() for x in (~is_unknown, is_unknown))
        return {"edges": edges.tolist(), "known": known, "unknown": unknown, "threshold": self.threshold}

    def counts(self) -> dict[str, int]:
        """How many items are labelled, unknown, and changed since the run before."""
        unknown = int(self.answers.unknown.sum())
        return {"labelled": len(self.ids) - unknown, "unknown": unknown, "changed": int(self.changed.sum())}

    @property
    def expected(self) -> dict[int, ExpectedLabels]:
        """By the number of the class, how many items got it and how many of these should be right; else empty."""
        return self.answers.expected_precision_by_class or {}

    def expected_in_words(self) -> str:
        """How many labels should be right; "" if nothing is known of that."""
        total = [sum(numbers) for numbers in zip(*self.expected.values(), strict=True)]
        if not total or not total[0]:
            return ""
        return right_in_words(*total) + ": check the least sure ones" * is_low(*total) + "."

    def sentence(self) -> str:
        """The result in words."""
        count, facts = self.counts(), self.facts
        parts = [f"{count['labelled']:,} labelled, {count['unknown']:,} unknown"]
        if facts["again"]:
            parts[0] += f", {count['changed']:,} changed since the last run"
        share, interval = facts["share"], (facts["share_low"], facts["share_high"])
        if facts["share_told"]:
            parts.append(f"You said that {about(share)} of the pile are unknown")
        elif len(self.ids) < MIN_PILE_ITEMS:
            parts.append(f"The pile is too small to show how much of it is unknown: {percent(share)} is assumed")
        else:
            between = "" if None in interval else span(share, interval, len(self.ids))
            parts.append(f"{about(share)[0].upper()}{about(share)[1:]} of the pile look unknown{between}")
        if facts["left_out"]:
            names, one = ", ".join(facts["left_out"]), len(facts["left_out"]) == 1
            parts.append(f"Left out, because {'it has' if one else 'they have'} no example: {names}")
        return ". ".join(parts) + "."


def now() -> str:
    """The time, as it is stored with a run, an event or a check."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


@lru_cache(maxsize=2)
def check_order(run: Run, seed: int = 0) -> list[int]:
    """All items of a run in the order in which a check asks for them. It does not depend on the answers."""
    order: list[int] = run.ids[check.draw_sample(run.answers, len(run.ids), seed=seed)].tolist()
    return order


@lru_cache(maxsize=2)
def checked(run: Run, answers: frozenset[tuple[int, int]]) -> check.Checked:
    """How many labels are right, by the (item, answer) of a check; classes are given by their numbers."""
    place = {item: k for k, item in enumerate(run.ids.tolist())}
    words: dict[int, Any] = {WRONG: check.WRONG, UNKNOWN: UNKNOWN_NAME}
    truth = {place[item]: words.get(answer, answer) for item, answer in answers if item in place}
    return check.check_answers(run.answers, truth)


def run_of(labelled: Labelled, ids: np.ndarray, said: Said, before: Run | None, **facts: Any) -> Run:
    """The answers of a labelled pile, to be stored; `labelled.warnings` say what a promotion has changed.

    ids: [n] the number of each item of its pile; those that are examples or have no text are left out. before: the run
    before. facts: what else is stored beside the arrays.
    """
    number = {name: code for code, name in said.names().items()}
    columns = [number[str(name)] for name in labelled.classes.tolist()]
    is_free = np.ones(len(ids), bool)
    is_free[[*labelled.pile_labels, *labelled.without_text]] = False
    share, interval = labelled.share, labelled.share["outlier_share_interval"] or (None, None)
    own = facts_of([group.at(ids) for group in labelled.groups]) | {
        "method": labelled.model._method, "is_probability": labelled.is_probability,
        "share": float(share["outlier_share"]), "share_low": interval[0], "share_high": interval[1],
        "share_told": share["outlier_share_told"], "min_confidence": float(labelled.min_confidence),
        "asking": ids[labelled.ask(MAX_ASKED_ITEMS)].tolist(), "again": before is not None,
        "left_out": [name for code, (name, _) in said.classes.items() if code not in columns],
        "decision": {} if before is None else before.facts["decision"],
        "share_kept": before is not None and before.facts["share_kept"],
    }  # fmt: skip
    answers = Answers(
        labelled.probabilities[is_free].astype(np.float32), np.asarray(labelled.outlier_scores, np.float64)[is_free],
        np.array(columns, np.int64), labelled.threshold, is_probability=labelled.is_probability,
        outlier_share=own["share"], p_unknown=None if labelled.p_unknown is None else labelled.p_unknown[is_free],
        min_confidence=labelled.min_confidence,
    )  # fmt: skip
    decided = {} if before is None else dict(zip(before.ids.tolist(), before.decisions.tolist(), strict=True))
    run = Run(
        0, now(), {**own, **facts}, ids[is_free], answers,
        np.array([decided.get(item, NONE) for item in ids[is_free].tolist()], np.int64), np.zeros(0, np.int64),
        np.zeros((0, 2), np.float32), np.array([*said.labels], np.int64), np.array([*said.labels.values()], np.int64),
    )  # fmt: skip
    labelled.warnings = [] if before is None else _swings_since(before, run, said)
    return run.grouped({}, notice=" ".join(labelled.warnings))


def _swings_since(before: Run, run: Run, said: Said) -> list[str]:
    """What has changed too much since the run before, if groups became classes since."""
    names = said.names()
    place = {item: k for k, item in enumerate(item for item in before.ids.tolist() if item in run.codes)}
    groups = {
        said.classes[number][0]: [place[item] for item in items if item in place]
        for number, items in said.promoted.items()
        if number in said.classes
    }
    old, new = ([names.get(one.codes[item], UNKNOWN_NAME) for item in place] for one in (before, run))
    return swings(old, new, groups) if groups else []


def facts_of(groups: Sequence[Group]) -> GroupFacts:
    """Groups whose items are ids, as facts of a run."""
    return {
        "groups": [group.items.tolist() for group in groups],
        "exemplars": [group.exemplars().tolist() for group in groups],
        "parts": [
            [part.exemplars(part.size).tolist() for part in group.split()] * (group.kinds > 1) for group in groups
        ],
    }


def groups_of(facts: Mapping[str, Any]) -> list[Group]:
    """The groups that `facts_of` made facts of."""
    entries = zip(facts["groups"], facts["exemplars"], facts["parts"], strict=True)

    def group(number: int, items: Any, span: Any, kinds: Sequence[Any] = ()) -> Group:
        parts = [group(k, kind, kind) for k, kind in enumerate(kinds, 1)]
        return Group(number, np.array(items), 1.0, np.array(span), parts)

    return [group(k, *entry) for k, entry in enumerate(entries, 1)]


# ---- how the arrays and facts of a run are stored. The file may come from anyone: types and shapes are checked

# Kind of number, and the shape: n items, N classes, m items on the map, k labels
SHAPES: dict[str, tuple[str, tuple[str | int, ...]]] = {
    "classes": ("i", ("N",)), "ids": ("i", ("n",)), "probabilities": ("f", ("n", "N")), "scores": ("f", ("n",)),
    "p_unknown": ("f", ("n",)), "previous": ("i", ("n",)), "map_ids": ("i", ("m",)), "flat": ("f", ("m", 2)),
    "given_ids": ("i", ("k",)), "given": ("i", ("k",)),
}  # fmt: skip
NUMBER = int | float
FACTS: dict[str, Any] = {
    "method": str, "is_probability": bool, "share": NUMBER, "share_low": NUMBER | None, "share_high": NUMBER | None,
    "share_told": bool, "groups": list, "exemplars": list, "parts": list, "left_out": list, "again": bool,
    "detail": NUMBER, "notice": str, "min_confidence": NUMBER, "asking": list, "decision": dict, "share_kept": bool,
}  # fmt: skip


def _read_arrays(data: bytes) -> dict[str, np.ndarray]:
    """Read an .npz file with the arrays of a run; raise ValueError for anything else."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            arrays = {name: np.asarray(file[name]) for name in SHAPES}
    except (zipfile.BadZipFile, EOFError, OSError, KeyError, ValueError, TypeError, AttributeError):
        raise ValueError("its arrays are damaged") from None
    sizes: dict[str | int, int] = {2: 2}
    for name, array in arrays.items():
        kind, shape = SHAPES[name]
        fits = array.dtype.kind == kind and array.ndim == len(shape)
        if not fits or any(sizes.setdefault(side, n) != n for side, n in zip(shape, array.shape, strict=True)):
            raise ValueError(f"its array {name} does not fit the others")
    if not sizes["n"] or not sizes["N"] or not np.isfinite(arrays["scores"]).all():
        raise ValueError("it has no items, no classes, or scores that are no numbers")
    return arrays


def _read_facts(text: str) -> dict[str, Any]:
    """Read the facts of a run; raise ValueError if one is of another type."""
    try:
        facts: dict[str, Any] = json.loads(text)
        wrong = [name for name, kind in FACTS.items() if not isinstance(facts[name], kind)]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise ValueError("its facts are damaged") from None
    if wrong:
        raise ValueError(f"its fact {wrong[0]} has a value that no run gives")
    return facts
