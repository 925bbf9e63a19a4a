"""Precision promised against precision found, on piles whose truth is known."""

import numpy as np
import pytest

import handful
from handful.bench import promises
from handful.bench.piles import Source
from handful.core.answers import Answers
from handful.features import FeatureTable, digits

TOLERANCE = {"80": 9, "90": 6, "95": 5}  # in points: digits are easier than most features, more labels are right


@pytest.fixture(scope="module")
def records():
    rows = []
    for number, pile in enumerate(Source(FeatureTable(*digits(), name="digits")).piles(40)):
        counts = promises.count_labels(handful.solve_task(pile.task, threads=1), pile.truth)
        rows.append({"domain": "digits", "method": "auto", "pile": number, "items": len(pile.truth), **counts})
    return rows


@pytest.mark.parametrize("ending", TOLERANCE)
def test_labels_are_as_often_right_as_was_promised(records, ending):
    numbers = promises.promised_and_found(records, ending)
    assert numbers["promised"] >= float(ending)
    assert numbers["found"] == pytest.approx(numbers["promised"], abs=TOLERANCE[ending])
    assert numbers["labelled"] > 5


def test_more_precision_is_fewer_labels(records):
    labelled = [promises.promised_and_found(records, ending)["labelled"] for ending in promises.LEVELS]
    assert labelled == sorted(labelled, reverse=True)
    assert len(set(labelled)) == 4


def test_labels_are_counted_by_hand():
    answers = Answers(
        np.array([[0.9, 0.1], [0.4, 0.6], [0.8, 0.2], [0.3, 0.3]]), np.array([0.05, 0.1, 0.1, 0.9]),
        np.array([0, 1]), 0.5, is_probability=True,
    )  # fmt: skip
    counts = promises.count_labels(answers, np.array([0, 0, -1, -1]))
    assert [counts[f"{name}_at_none"] for name in ("labels", "right")] == [3, 1]
    assert counts["expected_at_none"] == pytest.approx(0.95 * 0.9 + 0.9 * 0.6 + 0.9 * 0.8)
    assert [counts[f"{name}_at_80"] for name in ("labels", "right")] == [1, 1]  # (0.855 + 0.72) / 2 is below 0.8
    assert counts["labels_at_95"] == 0


def test_labels_count_alike_whichever_pile_they_are_of():
    rows = [
        {"items": 10, "labels_at_80": n, "expected_at_80": e, "right_at_80": r} for n, e, r in [(8, 7, 8), (2, 2, 0)]
    ]
    assert promises.promised_and_found(rows, "80") == {"promised": 90, "found": 80, "labelled": 50}
    none = promises.promised_and_found([{**rows[0], "labels_at_80": 0, "expected_at_80": 0, "right_at_80": 0}], "80")
    assert np.isnan(none["found"])
    assert none["labelled"] == 0


def test_a_method_that_only_ranks_has_no_row(records):
    ranked = [{**r, "method": "knn", **dict.fromkeys((k for k in r if "_at_" in k), np.nan)} for r in records]
    assert promises.tables(records + ranked) == promises.tables(records)
    assert "| none |" in "\n".join(promises.tables(records))
    pile = next(Source(FeatureTable(*digits())).piles(1))
    counts = promises.count_labels(handful.solve_task(pile.task, method="knn"), pile.truth)
    assert np.isnan(list(counts.values())).all()
