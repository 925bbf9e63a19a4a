"""What the page shows of a project beside its items: classes, the run, and how far to trust it."""

from __future__ import annotations

from typing import Any

import numpy as np

from handful.workbench.domain.runs import NONE, UNKNOWN
from handful.workbench.domain.state import State
from handful.workbench.domain.undoable import can_take_back


def describe_state(state: State) -> dict[str, Any]:
    """The part of GET /project that follows from the state."""
    usable, labels = state.pile.usable, state.labels
    examples, counts = _count_classes(labels[usable]), _count_classes(_settled(state)[usable])
    return {
        "items": int(usable.sum()), "ready": int((state.pile.ready & usable).sum()), "skipped": len(state.skipped),
        "classes": [
            {"id": i, "name": name, "key": key, "examples": examples.get(i, 0), "count": counts.get(i, 0)}
            for i, (name, key) in state.classes.items()
        ],
        "unknown_examples": examples.get(UNKNOWN, 0),
        "run": None if state.run is None else describe_run(state),
        "undo": state.steps.undo, "redo": state.steps.redo,
    }  # fmt: skip


def describe_run(state: State) -> dict[str, Any]:
    """Return the facts of the run that is shown, for JSON."""
    run = state.run
    assert run is not None
    facts = {name: run.facts[name] for name in ("method", "share", "share_low", "share_high", "share_told")}
    own = {"id": run.id, "made": run.made, "sentence": run.sentence(), "threshold": run.threshold}
    own |= {"group_detail": run.facts["detail"], "notice": run.facts["notice"]}
    own |= {"can_take_back": bool(run.facts["notice"]) and can_take_back(state), "outdated": outdated(state)}
    precision, expected = run.answers.expected_precision, run.expected
    own |= {
        "expected_precision": None if precision is None or np.isnan(precision) else precision,
        "expected": [{"class": n, **expected[n]._asdict()} for n in state.classes if n in expected],
    }
    assert state.checks is not None
    return own | facts | {"counts": run.counts(), "trust": state.checks.trust()}


def outdated(state: State) -> str:
    """What has changed since the run, in words; "" if a new run would start from the same.

    A class without examples changes nothing, and neither does another name.
    """
    if state.run is None:
        return ""
    given, now, usable = state.row_answers.given, state.labels, state.pile.usable
    is_changed = usable & (now != given)
    is_new = usable & (state.row_answers.place == NONE) & (given == NONE) & (now == NONE)
    labels, new = int(is_changed.sum()), int(is_new.sum())
    parts = [f"{labels:,} label{' has' if labels == 1 else 's have'} changed"] * bool(labels)
    parts += [f"{new:,} {state.pile.noun}{' is' if new == 1 else 's are'} new"] * bool(new)
    return f"{' and '.join(parts)} since this run." if parts else ""


def _count_classes(codes: np.ndarray) -> dict[int, int]:
    """The number of items of each class, and of UNKNOWN."""
    numbers, counts = np.unique(codes[codes >= UNKNOWN], return_counts=True)
    return dict(zip(numbers.tolist(), counts.tolist(), strict=True))


def _settled(state: State) -> np.ndarray:
    """The class of each item: its label, or the decision of the run."""
    return np.where(state.labels != NONE, state.labels, state.row_answers.decision)
