"""What flows into a method and out of it: right answers for odd but honest input, clear refusals for the rest."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from loops import loop

from handful import UNKNOWN, Result, Task, solve, solve_each
from handful.core import decide
from handful.core.checks import UNKNOWN_NAME
from handful.core.parameters import Number, OneOf, SomeOf, check

METHODS = ("eol", "knn", "simpleshot")
PREPARATIONS = ("none", "task", "base", "l2", "power", "qr", "task, l2", "base, l2", "power, l2", "task, l2, qr")
NAMES = np.array(["ant", "bee", "cow"])
DIMENSION = 8


def items(kinds, seed):
    """Items around one axis for each kind, [n, D]."""
    noise = np.random.default_rng(seed).normal(scale=0.2, size=(len(kinds), DIMENSION))
    return 3 * np.eye(DIMENSION)[kinds] + noise


LABELS = np.array([0, 0, 1, 1, 2, 2])
TRUTH = np.array([0, 0, 1, 1, 2, 2, UNKNOWN, UNKNOWN, UNKNOWN])
SUPPORT = items(LABELS, seed=0)
QUERY = items(np.where(TRUTH == UNKNOWN, 5, TRUTH), seed=1)
SHARE = 1 / 3


def answer(support=SUPPORT, labels=LABELS, query=QUERY, method="eol", **options) -> Result:
    # float64: what is compared below then differs by rounding only, whichever backend "auto" takes
    return solve(support, labels, query, method=method, **{"outlier_share": SHARE, "dtype": "float64"} | options)


def batch(*tasks):
    """Arrays of single tasks, stacked."""
    return tuple(np.stack(part) for part in zip(*tasks, strict=True))


def two_tasks():
    return batch((SUPPORT, LABELS, QUERY), (items(LABELS, 2), LABELS, items(np.where(TRUTH == UNKNOWN, 6, TRUTH), 3)))


def spoiled(x, at, value):
    x = np.array(x)
    x[at] = value
    return x


def assert_same(result, expected, **tolerance):
    """The same decisions, and the same numbers up to rounding."""
    np.testing.assert_array_equal(result.labels, expected.labels)
    np.testing.assert_allclose(result.probabilities, expected.probabilities, **({"atol": 1e-5} | tolerance))
    np.testing.assert_allclose(result.outlier_scores, expected.outlier_scores, **({"atol": 1e-5} | tolerance))


# --- the task that all variants are compared with ---


@loop("method", METHODS)
def test_the_plain_task_is_answered_rightly(method):
    np.testing.assert_array_equal(answer(method=method).labels, TRUTH)


# --- rows that are not numbers ---


@loop(("value", "said"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
@loop("where", ["support", "query"])
def test_a_value_that_is_no_number_is_refused_with_its_place(where, value, said):
    support, query = SUPPORT, QUERY
    if where == "support":
        support = spoiled(support, (4, 2), value)
    else:
        query = spoiled(query, (4, 2), value)
    with pytest.raises(ValueError, match=rf"^{where} contains {said} at row 4, column 2"):
        Task(support, LABELS, query)


SUPPORTS, LABEL_ROWS, QUERIES = two_tasks()
REFUSALS = {  # the beginning of the sentence, and what it is the answer to
    r"^query contains NaN at task 1, row 3, column 7": lambda: Task(
        SUPPORTS, LABEL_ROWS, spoiled(QUERIES, (1, 3, 7), np.nan)
    ),
    r"^class 'dog' has no example in the support set: ": lambda: Task(
        SUPPORT, NAMES[LABELS], QUERY, classes=[*NAMES, "dog"]
    ),
    r"^class 3 has no example in the support set: ": lambda: Task(SUPPORT, LABELS, QUERY, classes=range(4)),
    r"^class 2 has no example in the support set of task 1: ": lambda: Task(
        SUPPORTS, spoiled(LABEL_ROWS, (1, slice(4, 6)), 1), QUERIES, classes=[0, 1, 2]
    ),
    r"^label 2 in the support set is not among the classes \[0, 1\]": lambda: Task(
        SUPPORT, LABELS, QUERY, classes=[0, 1]
    ),
    r"^label 0 in the support set is not among the classes \['ant', 'bee', ": lambda: Task(
        SUPPORT, LABELS, QUERY, classes=NAMES
    ),
    r"^task 1 has examples of 2 classes and task 0 of 3: .*solve_each": lambda: Task(
        SUPPORTS, spoiled(LABEL_ROWS, (1, slice(4, 6)), 1), QUERIES
    ),
    r"^support is empty, shape \(6, 0\): it has no features": lambda: Task(np.empty((6, 0)), LABELS, np.empty((9, 0))),
    r"^support is empty, shape \(0, 6, 8\): it has no tasks": lambda: Task(
        np.empty((0, 6, 8)), LABELS, np.empty((0, 9, 8))
    ),
    r"^query is missing": lambda: solve(SUPPORT, LABELS, None),
    r"^support is a Task, .*: call handful.solve\(task\)": lambda: solve(Task(SUPPORT, LABELS, QUERY), LABELS),
    r"^labels are a single NoneType: give a list": lambda: solve(SUPPORT, None, QUERY, method="eol"),
    r"^support has 8 features per item and query has 7: .*same backbone": lambda: Task(SUPPORT, LABELS, QUERY[:, :7]),
    r"^support has shape \(2, 6, 8\) and query \(3, 9, 8\): ": lambda: Task(
        SUPPORTS, LABEL_ROWS, np.concatenate([QUERIES, QUERIES[:1]])
    ),
    r"^support has shape \(2, 6, 8\) and query \(9, 8\): ": lambda: Task(SUPPORTS, LABEL_ROWS, QUERY),
    r"^query is not a rectangular table of numbers": lambda: Task(SUPPORT[:, :2], LABELS, [[1.0, 2.0], [3.0]]),
    r"^support label 5 of task 1 is -1, ": lambda: Task(SUPPORTS, spoiled(LABEL_ROWS, (1, 5), -1), QUERIES),
    r"^task 1 is a batch of 2 tasks: call handful.solve on it": lambda: solve_each(
        [Task(SUPPORT, LABELS, QUERY), Task(*two_tasks())], method="eol"
    ),
    r"^task 0 is a tuple: make a handful.Task": lambda: solve_each([(SUPPORT, LABELS, QUERY)], method="eol"),
    r"^there is no method 'eoll' \(did you mean 'eol'\?\); there are: .*eol.*knn.*simpleshot": lambda: answer(
        method="eoll"
    ),
    r"^eol has no parameter 'stepz'; it has: .*steps": lambda: answer(stepz=3),
    r"^outlier_share has 3 values for 2 tasks: give one, or one for each task": lambda: answer(
        *two_tasks(), outlier_share=[0.2, 0.3, 0.4]
    ),
    r"^outlier_share has 0 values for 2 tasks": lambda: answer(*two_tasks(), outlier_share=[]),
}


@loop("match, call", REFUSALS.items())
def test_what_cannot_be_used_is_refused_with_a_sentence(match, call):
    with pytest.raises((ValueError, TypeError), match=match):
        call()


def test_opposite_infinities_do_not_warn_before_they_are_refused():
    query = spoiled(spoiled(QUERY, (1, 0), np.inf), (2, 0), -np.inf)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=r"infinity at row 1, column 0"):
            Task(SUPPORT, LABELS, query)


@loop(("value", "dtype"), [(1e308, np.float64), (1e30, np.float32)])
def test_values_whose_squares_overflow_are_refused_rather_than_mislabelled(value, dtype):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="query has values so large that their squares overflow"):
            Task(SUPPORT.astype(dtype), LABELS, np.full((3, DIMENSION), value, dtype))


@loop(
    "query",
    [
        pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "b": [1.0, 2.0]}),
        pd.DataFrame({"a": [1.0, None], "b": [1.0, 2.0]}),
        pl.DataFrame({"a": [1, None], "b": [1.0, 2.0]}),
        [[1.0, 1.0], [None, 2.0]],
        np.ma.masked_array([[1.0, 1.0], [5.0, 2.0]], mask=[[False, False], [True, False]]),
    ],
)
def test_a_missing_feature_is_refused_with_its_place(query):
    with pytest.raises(ValueError, match=r"^query contains NaN at row 1, column 0"):
        Task(SUPPORT[:, :2], LABELS, query)


# --- rows without a direction ---


@loop("method", METHODS)
@loop("preparation", PREPARATIONS)
def test_zero_rows_get_a_finite_answer_and_leave_the_others_theirs(method, preparation):
    support = np.concatenate([SUPPORT, np.zeros((1, DIMENSION))])
    query = np.concatenate([QUERY[:6], np.zeros((2, DIMENSION))])
    result = answer(support, [*LABELS, 0], query, method=method, preparation=preparation, outlier_share=0.1)
    assert np.isfinite(result.probabilities).all()
    assert np.isfinite(result.outlier_scores).all()
    assert np.isfinite(result.confidence).all()
    np.testing.assert_array_equal(result.closest[:6], TRUTH[:6])
    np.testing.assert_allclose(result.probabilities[-1], result.probabilities[-2], rtol=1e-5)


@loop("method", METHODS)
def test_a_row_equal_to_the_task_mean_is_as_near_to_all_classes_as_a_zero_row(method):
    support = np.repeat(np.eye(DIMENSION)[:3], 2, axis=0) - 1 / 3 * np.eye(DIMENSION)[:3].sum(axis=0)
    query = np.concatenate([support, np.zeros((1, DIMENSION))])  # the mean of all these is exactly zero, up to rounding
    result = answer(support, LABELS, query, method=method, preparation="task, l2", dtype="float64")
    assert np.isfinite(result.probabilities).all()
    np.testing.assert_array_equal(result.closest[:6], LABELS)
    assert result.outlier_scores[-1] == result.outlier_scores.max()


@loop("method", METHODS)
@loop("preparation", PREPARATIONS)
def test_a_class_of_zeros_gets_finite_answers_and_does_not_disturb_the_other_classes(method, preparation):
    support = spoiled(SUPPORT, slice(0, 2), 0.0)
    result = answer(support, method=method, preparation=preparation)
    assert np.isfinite(result.probabilities).all()
    assert np.isfinite(result.outlier_scores).all()
    if method == "eol":  # a prototype at zero may be drawn to any item: look before it moves
        result = answer(support, method=method, preparation=preparation, steps=0)
    np.testing.assert_array_equal(result.closest[2:6], TRUTH[2:6])


def test_a_task_of_zeros_prefers_no_class():
    result = answer(SUPPORT * 0, LABELS, QUERY * 0)
    np.testing.assert_allclose(result.probabilities, result.probabilities[0, 0], rtol=1e-5)


# --- how many classes, shots, queries ---


@loop("method", METHODS)
def test_one_class_alone_has_all_the_probability_of_being_known(method):
    result = answer(SUPPORT[:2], ["ant", "ant"], QUERY, method=method)
    known = 1 - result.outlier_scores if method == "eol" else np.ones(len(QUERY))
    np.testing.assert_allclose(result.probabilities[:, 0], known, atol=1e-6)
    assert result.closest.tolist() == ["ant"] * len(QUERY)


@loop("method", ["eol", "knn"])
def test_one_class_is_told_from_what_is_not_it(method):
    query = np.concatenate([QUERY[:2], QUERY[6:]])
    result = answer(SUPPORT[:2], [7, 7], query, method=method, outlier_share=0.6)
    assert result.labels.tolist() == [7, 7, UNKNOWN, UNKNOWN, UNKNOWN]


def test_declared_classes_in_any_order_change_nothing():
    declared = Task(SUPPORT, LABELS, QUERY, classes=[2, 0, 1])
    assert declared.classes.tolist() == [0, 1, 2]
    assert declared.labels.tolist() == [LABELS.tolist()]


def test_tasks_of_a_batch_may_have_their_own_classes():
    support, _, query = two_tasks()
    result = answer(support, [NAMES[LABELS], np.array(["yak", "elk", "hen"])[LABELS]], query)
    assert result.classes.tolist() == [["ant", "bee", "cow"], ["elk", "hen", "yak"]]
    assert result.labels[0].tolist() == ["ant", "ant", "bee", "bee", "cow", "cow"] + [UNKNOWN_NAME] * 3
    assert result.labels[1].tolist() == ["yak", "yak", "elk", "elk", "hen", "hen"] + [UNKNOWN_NAME] * 3


@loop(
    "nothing",
    [[], np.empty((0, DIMENSION)), pd.DataFrame(), pd.DataFrame(columns=list("ab")), pl.DataFrame(),
     pl.DataFrame({"a": []}, schema={"a": pl.Float64})],
)  # fmt: skip
def test_no_items_are_refused(nothing):
    with pytest.raises(ValueError, match=r"^query is empty.*: it has no items"):
        Task(SUPPORT, LABELS, nothing)
    with pytest.raises(ValueError, match=r"^support is empty.*: it has no items"):
        Task(nothing, [], QUERY)


def test_no_items_in_torch_are_refused(torch):
    with pytest.raises(ValueError, match=r"^query is empty, shape \(0, 8\): it has no items"):
        Task(torch.ones(6, 8), LABELS, torch.ones(0, 8))


@loop("method", METHODS)
@loop("size", [1, 2])
def test_a_task_without_pile_learns_its_classes_and_says_nothing_of_nobody(method, size):
    task = Task.of_examples(np.stack([SUPPORT] * size), np.stack([LABELS] * size))
    task = task[0] if size == 1 else task
    result = solve(task, method=method)
    assert result.labels.shape == result.confidence.shape == ((0,) if size == 1 else (2, 0))
    assert "0 items, 3 classes" in repr(result)
    assert result.state


@loop("method", METHODS)
def test_unequal_shots_flow(method):
    support = np.concatenate([SUPPORT, items([0, 0, 0], seed=7)])
    task = Task(support, [*LABELS, 0, 0, 0], QUERY)
    assert task.shots.tolist() == [[5, 2, 2]]
    np.testing.assert_array_equal(solve(task, method=method, outlier_share=SHARE).labels, TRUTH)


# --- shapes ---


@loop("shape", [(8,), (1, 1, 9, 8), ()])
def test_features_of_one_or_four_dimensions_are_refused(shape):
    with pytest.raises(ValueError, match=rf"^query has {len(shape)} dimensions, shape .*: rows of features are needed"):
        Task(SUPPORT, LABELS, np.ones(shape))


@loop("count", [0, 5, 7])
def test_a_wrong_number_of_labels_is_refused_with_both_numbers(count):
    with pytest.raises(ValueError, match=rf"^labels have shape \({count},\) but there are 6 support items"):
        Task(SUPPORT, [0] * count, QUERY)


def test_labels_of_the_wrong_shape_are_refused_with_the_right_one():
    with pytest.raises(ValueError, match=r"^labels have shape \(6, 1\) but there are 6 support items: .*\(6,\)"):
        Task(SUPPORT, LABELS[:, None], QUERY)
    support, labels, query = two_tasks()
    with pytest.raises(ValueError, match=r"^labels have shape \(6,\) but there are 2 tasks of 6 .*: .*\(2, 6\)"):
        Task(support, LABELS, query)
    with pytest.raises(ValueError, match=r"^labels have shape \(6, 2\) but there are 2 tasks of 6 .*\(2, 6\)"):
        Task(support, labels.T, query)


# --- labels ---


@loop(
    ("missing", "said"),
    [
        ([0, 0, -1, 1, 2, 2], "-1"),
        ([0, 0, None, 1, 2, 2], "-1"),
        ([0.0, 0.0, None, 1.0, 2.0, 2.0], "nan"),
        ([0, 0, np.nan, 1, 2, 2], "nan"),
        (["a", "a", None, "b", "c", "c"], "None"),
        (["a", "a", np.nan, "b", "c", "c"], "None"),
        (["a", "a", "unknown", "b", "c", "c"], "'unknown'"),
        (np.array(["a", "a", "unknown", "b", "c", "c"]), "'unknown'"),
        (pd.Series(["a", "a", None, "b", "c", "c"]), "None"),
        (pd.Series(["a", "a", pd.NA, "b", "c", "c"], dtype=object), "None"),
        (pd.Series([0, 0, None, 1, 2, 2], dtype="Int64"), "-1|nan"),
        (pl.Series(["a", "a", None, "b", "c", "c"]), "None"),
        (pl.Series([0, 0, None, 1, 2, 2]), "nan"),
        *(
            (["a", "a", word, "b", "c", "c"], repr(word))
            for word in ("", " ", "nan", "NaN", "<NA>", "-1", "-2", "Unknown")
        ),
        (["a", "a", -1, "b", "c", "c"], "None"),
    ],
)
def test_a_missing_support_label_is_refused_with_its_place(missing, said):
    with pytest.raises(ValueError, match=rf"^support label 2 is ({said}), which means unlabelled or unknown"):
        Task(SUPPORT, missing, QUERY)


@loop(
    ("mixed", "culprit"),
    [
        (["a", 1, "b", "b", "c", "c"], "int"),
        (["a", 1.5, "b", "b", "c", "c"], "float"),
        (pd.Series(["a", 1, "b", "b", "c", "c"]), "int"),
        (np.array([b"a", b"a", b"b", b"b", b"c", b"c"]), "bytes"),
    ],
)
def test_labels_of_mixed_types_are_refused_with_the_type(mixed, culprit):
    with pytest.raises(ValueError, match=rf"^labels are of several types or of an unknown label type \({culprit}\)"):
        Task(SUPPORT, mixed, QUERY)


@loop(
    ("strange", "message"),
    [
        ("abcabc", r"^labels are a single str"),
        (iter(LABELS), r"^labels are a single .*iterator"),
        ([[0], [0, 1]], r"^labels are not one for each item"),
        (np.array(["2020-01-01"] * 6, dtype="datetime64[D]"), r"^labels have dtype datetime64"),
        (np.array([1j] * 6), r"^labels have dtype complex128"),
        (np.array([2**63] * 3 + [1] * 3, dtype=np.uint64), r"^label 9223372036854775808 does not fit a 64-bit integer"),
        ([2**70] * 3 + [1] * 3, r"^label 1180591620717411303424 does not fit a 64-bit integer"),
    ],
)
def test_what_is_no_sequence_of_labels_is_refused(strange, message):
    with pytest.raises(ValueError, match=message):
        Task(SUPPORT, strange, QUERY)


@loop(
    "labels",
    [
        NAMES[LABELS].tolist(),
        tuple(NAMES[LABELS].tolist()),
        NAMES[LABELS].astype(object),
        NAMES[LABELS].astype(np.dtypes.StringDType()),
        pd.Series(NAMES[LABELS]),
        pd.Series(NAMES[LABELS], dtype="category"),
        pd.Categorical(NAMES[LABELS]),
        pl.Series(NAMES[LABELS]),
        pl.Series(NAMES[LABELS], dtype=pl.Categorical),
        pa.array(NAMES[LABELS].tolist()),
    ],
)
def test_strings_stay_strings_however_they_are_held(labels):
    result = answer(labels=labels)
    assert result.labels.dtype.kind == "U"
    assert result.labels.tolist() == [*NAMES[TRUTH[:6]], "unknown", "unknown", "unknown"]


@loop("dtype", ["int8", "uint8", "int64", "uint64", "Int64", "category"])
def test_ints_stay_ints_however_they_are_held(dtype):
    labels = pd.Series(LABELS + 5).astype(dtype)
    result = answer(labels=labels)
    assert result.labels.dtype.kind == "i"
    assert result.labels.tolist() == [5, 5, 6, 6, 7, 7, -1, -1, -1]


def test_floats_stay_floats_and_booleans_count():
    result = answer(labels=LABELS + 0.5)
    assert result.labels.tolist() == [0.5, 0.5, 1.5, 1.5, 2.5, 2.5, -1, -1, -1]
    result = answer(SUPPORT[:4], LABELS[:4] == 1, QUERY[:4], outlier_share=0.1)
    assert result.labels.tolist() == [0, 0, 1, 1]


def test_negative_integers_other_than_minus_one_and_two_are_classes():
    assert answer(labels=LABELS - 5).labels.tolist() == [-5, -5, -4, -4, -3, -3, -1, -1, -1]


# --- features of every kind ---


@loop("method", METHODS)
def test_duplicate_rows_get_one_answer_each(method):
    doubled = answer(np.repeat(SUPPORT, 2, axis=0), np.repeat(LABELS, 2), np.repeat(QUERY, 2, axis=0), method=method)
    np.testing.assert_array_equal(doubled.labels, np.repeat(TRUTH, 2))
    np.testing.assert_allclose(doubled.probabilities[::2], doubled.probabilities[1::2], rtol=1e-5)
    np.testing.assert_allclose(doubled.outlier_scores[::2], doubled.outlier_scores[1::2], rtol=1e-5)


@loop("method", ["eol", "simpleshot"])
def test_doubling_every_row_changes_no_number(method):
    doubled = answer(np.repeat(SUPPORT, 2, axis=0), np.repeat(LABELS, 2), np.repeat(QUERY, 2, axis=0), method=method)
    np.testing.assert_allclose(doubled.probabilities[::2], answer(method=method).probabilities, atol=1e-5)


@loop("dtype", ["int8", "uint8", "int32", "int64", "uint64", "float16", "float32", "float64", ">f4"])
def test_features_of_any_number_type_give_what_the_same_numbers_give_as_floats(dtype):
    support, query = np.rint(np.abs(SUPPORT) * 20), np.rint(np.abs(QUERY) * 20)
    result = answer(support.astype(dtype), query=query.astype(dtype))
    assert result.probabilities.dtype == np.float64
    assert_same(result, answer(support, query=query))


def test_large_integers_keep_their_last_digit():
    task = Task(np.full((6, 2), 2**40 + 1), LABELS, np.full((3, 2), 2**40))
    assert (task.support[0, 0, 0] - task.query[0, 0, 0]).item() == 1


def test_uint8_features_do_not_wrap_around():
    support, query = (np.clip(np.rint(x * 60 + 70), 0, 255) for x in (SUPPORT, QUERY))
    assert support.max() > 200  # sums of such bytes do not fit a byte
    np.testing.assert_array_equal(answer(support.astype("uint8"), query=query.astype("uint8")).labels, TRUTH)


def test_boolean_features_count_as_zero_and_one():
    support, query = SUPPORT > 1, QUERY > 1
    assert_same(answer(support, query=query), answer(support * 1.0, query=query * 1.0))


def test_support_and_query_of_different_precision_meet_in_the_finer_one():
    task = Task(SUPPORT.astype("float32"), LABELS, QUERY.astype("float64"))
    assert task.support.dtype == task.query.dtype == np.float64


@loop("method", METHODS)
def test_the_computation_runs_in_the_asked_precision_single_by_default(method):
    default, double = (
        solve(SUPPORT, LABELS, QUERY, method=method),
        solve(SUPPORT, LABELS, QUERY, method=method, dtype="float64"),
    )
    assert (default.probabilities.dtype, double.probabilities.dtype) == (np.float32, np.float64)
    assert_same(default, double, atol=1e-3)


@loop("method", METHODS)
@loop(
    "hold",
    [np.ndarray.tolist, pd.DataFrame, pl.DataFrame, lambda x: pa.table(pd.DataFrame(x)), np.asfortranarray,
     lambda x: pd.DataFrame(x).astype("Float64")],
)  # fmt: skip
def test_every_table_gives_the_result_of_numpy(hold, method):
    result = answer(hold(SUPPORT), LABELS, hold(QUERY), method=method)
    assert isinstance(result.probabilities, np.ndarray)
    assert_same(result, answer(method=method))


@loop("hold", [pd.DataFrame, pl.DataFrame, pa.table])
def test_columns_of_frames_are_matched_by_their_names(hold):
    def frame(x, names="abcdefgh", order=slice(None)):
        return hold({name: x[:, i] for i, name in list(enumerate(names))[order]})

    back = slice(None, None, -1)
    for query in (frame(QUERY), frame(QUERY, order=back)):
        assert_same(answer(frame(SUPPORT), query=query), answer())
    of_no_class = answer(unknown=QUERY[6:], method="eol")
    assert_same(answer(frame(SUPPORT), unknown=frame(QUERY[6:], order=back), method="eol"), of_no_class)
    assert_same(answer(frame(SUPPORT, order=back), query=frame(QUERY)), answer())
    assert_same(answer(SUPPORT, query=frame(QUERY)), answer())  # only one has names
    others = {"query": frame(QUERY, "abxdefyh"), "unknown": frame(QUERY, "abxdefyh")}
    for name, other in others.items():
        with pytest.raises(ValueError, match=rf"^{name}: .* not those of the examples, as 'x', 'y'; it lacks 'c', 'g'"):
            Task(frame(SUPPORT), LABELS, **{"query": frame(QUERY), name: other})


def test_columns_whose_names_are_numbers_are_matched_by_their_places():
    reverse = pd.DataFrame(QUERY, columns=range(7, -1, -1))
    assert_same(answer(pd.DataFrame(SUPPORT), query=reverse), answer())


def test_support_and_query_may_be_held_differently():
    assert_same(answer(pd.DataFrame(SUPPORT), pl.Series(LABELS), QUERY.tolist()), answer())


@loop("method", METHODS)
@loop("many", [False, True])
def test_torch_in_is_torch_out_with_the_numbers_of_numpy(torch, method, many):
    arrays = two_tasks() if many else (SUPPORT, LABELS, QUERY)
    result, expected = answer(*map(torch.tensor, arrays), method=method), answer(*arrays, method=method)
    for part in (result.probabilities, result.outlier_scores, result.unknown, result.confidence):
        assert isinstance(part, torch.Tensor)
    assert result.unknown.dtype == torch.bool
    assert isinstance(result.labels, np.ndarray)
    assert_same(result, expected)
    np.testing.assert_allclose(result.confidence, expected.confidence, atol=1e-5)


@loop("dtype", ["float16", "bfloat16", "uint8", "int64", "bool"])
def test_torch_features_of_any_number_type_flow(torch, dtype):
    support, query = (torch.tensor(np.rint(np.abs(x))).to(getattr(torch, dtype)) for x in (SUPPORT, QUERY))
    result = answer(support, LABELS, query)
    assert result.probabilities.dtype == torch.float64
    assert_same(result, answer(support.double().numpy(), LABELS, query.double().numpy()))


def test_torch_tensors_with_a_graph_are_taken_without_it(torch):
    result = answer(torch.tensor(SUPPORT, requires_grad=True), LABELS, torch.tensor(QUERY, requires_grad=True))
    assert not result.probabilities.requires_grad
    assert_same(result, answer())


def test_a_nan_in_torch_is_refused_with_its_place(torch):
    with pytest.raises(ValueError, match=r"^query contains NaN at row 4, column 2"):
        Task(torch.tensor(SUPPORT), LABELS, torch.tensor(spoiled(QUERY, (4, 2), np.nan)).bfloat16())


def test_torch_beside_numpy_is_refused(torch):
    with pytest.raises(TypeError, match=r"^support and query must both be torch tensors, or neither"):
        Task(torch.tensor(SUPPORT), LABELS, QUERY)


@loop("frame", [pd.DataFrame, pl.DataFrame])
@loop("column", [["x", "y"], ["1", "2"], [[1.0], [2.0]], np.ones(2, "datetime64[ms]")])
def test_a_column_that_is_not_numeric_is_refused_by_name(frame, column):
    query = frame({"size": [1.0, 2.0], "colour": column})
    with pytest.raises(ValueError, match=r"^query has a column 'colour' that is not numeric: leave it out"):
        Task(SUPPORT[:, :2], LABELS, query)


def test_text_instead_of_numbers_is_refused():
    numbers = np.array([["1", "2.5"]])
    for query in (numbers, numbers.astype(bytes), numbers.astype(object), numbers.tolist(), [["1", "red"]], [[1, "2"]]):
        with pytest.raises(ValueError, match=r"^query is not a rectangular table of numbers: it holds text. Convert"):
            Task(SUPPORT[:, :2], LABELS, query)


@loop("dtype", ["datetime64[D]", "timedelta64[D]"])
def test_dates_instead_of_numbers_are_refused(dtype):
    with pytest.raises(ValueError, match=r"^query has dtype (date|time).*: numbers are needed"):
        Task(SUPPORT[:, :2], LABELS, np.ones((3, 2), dtype="int64").astype(dtype))


@loop("sparse", [scipy.sparse.csr_matrix, scipy.sparse.coo_array])
def test_sparse_matrices_are_refused_with_the_way_out(sparse):
    with pytest.raises(TypeError, match=r"^support is sparse: .*\.toarray\(\)"):
        Task(sparse(SUPPORT), LABELS, QUERY)


def test_sparse_torch_tensors_are_refused_with_the_way_out(torch):
    with pytest.raises(TypeError, match=r"^query is sparse: .*\.to_dense\(\)"):
        Task(torch.tensor(SUPPORT), LABELS, torch.tensor(QUERY).to_sparse())


def test_complex_features_are_refused(torch):
    with pytest.raises(ValueError, match=r"Complex data not supported: support has dtype complex128"):
        Task(SUPPORT + 0j, LABELS, QUERY)
    with pytest.raises(ValueError, match=r"Complex data not supported: query has dtype torch.complex128"):
        Task(torch.tensor(SUPPORT), LABELS, torch.tensor(QUERY + 0j))


def test_the_callers_arrays_are_left_as_they_were():
    support, labels, query = SUPPORT.astype("float32"), LABELS.copy(), QUERY.astype("float32")
    before = support.copy(), labels.copy(), query.copy()
    answer(support, labels, query, preparation="none")
    for now, then in zip((support, labels, query), before, strict=True):
        np.testing.assert_array_equal(now, then)


# --- the task as a thing ---


def test_a_task_says_what_it_is():
    support, labels, query = two_tasks()
    assert repr(Task(SUPPORT, LABELS, QUERY)) == "<Task: 3 classes with 2 examples each, 9 queries, 8 features>"
    assert repr(Task(SUPPORT, [0, 0, 0, 1, 1, 2], QUERY)).startswith("<Task: 3 classes with 1 to 3 examples each, ")
    assert repr(Task(support, labels, query)).startswith("<Task: 2 tasks of 3 classes with 2 examples each, ")


def test_one_task_of_a_batch_is_that_task_alone():
    support, labels, query = two_tasks()
    whole = Task(support, labels, query)
    for i in (1, -1):
        alone = whole[i]
        assert alone.single
        np.testing.assert_array_equal(alone.query, query[1:])
        assert alone.classes.tolist() == [0, 1, 2]
    assert not whole[:1].single
    with pytest.raises(IndexError, match=r"^there is no task 2: there are 2, counted from 0"):
        whole[2]


def test_stacked_tasks_are_the_batch():
    support, labels, query = two_tasks()
    stacked = Task.stack([Task(*parts) for parts in zip(support, labels, query, strict=True)])
    assert_same(solve(stacked, method="eol"), solve(support, labels, query, method="eol"), atol=0)


# --- the result ---


@pytest.fixture(scope="module")
def result():
    """A result written by hand, so that what it says can be computed by hand."""
    return Result(
        probabilities=np.array([[0.6, 0.2], [0.1, 0.3], [0.02, 0.08], [0.0, 0.0]]),
        outlier_scores=np.array([0.2, 0.6, 0.9, 1.0]),
        classes=np.array(["ant", "bee"]),
        threshold=0.7,
        outlier_share=0.5,
        task=Task(np.eye(2), ["ant", "bee"], np.ones((4, 2))),
        made_by={"method": "hand", "score": "rank"},
        state={},
    )


def test_labels_are_the_closest_class_or_unknown(result):
    assert result.closest.tolist() == ["ant", "bee", "bee", "ant"]
    assert result.labels.tolist() == ["ant", "bee", "unknown", "unknown"]


def test_confidence_is_conditional_for_the_known_and_a_rank_for_the_unknown(result):
    np.testing.assert_allclose(result.confidence, [0.75, 0.75, 0.75, 1.0])


def test_where_the_score_is_a_probability_confidence_is_that_of_the_decision():
    result = answer(method="eol")
    assert result.unknown.any()
    assert not result.unknown.all()
    p, known = result.p_unknown, result.probabilities.sum(axis=-1)
    joint = np.where(result.unknown, p, result.probabilities.max(axis=-1) / known * (1 - p))
    np.testing.assert_allclose(result.confidence, joint, rtol=1e-5)


def test_a_row_without_any_probability_does_not_warn(result):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(result.confidence).all()


def test_a_result_is_a_table(result):
    table = result.to_arrow()
    assert table.column_names == ["label", "closest", "unknown", "confidence", "outlier_score", "p_ant", "p_bee"]
    assert table.column("label").to_pylist() == ["ant", "bee", "unknown", "unknown"]
    assert table.column("unknown").to_pylist() == [False, False, True, True]
    assert table.column("outlier_score").to_pylist() == [0.2, 0.6, 0.9, 1.0]
    assert table.column("p_bee").to_pylist() == pytest.approx([0.25, 0.75, 0.8, 0.5])


def test_a_result_is_a_pandas_frame_with_the_callers_labels(torch):
    frame = answer().to_pandas()
    assert frame["label"].tolist() == TRUTH.tolist()
    assert frame["unknown"].tolist() == (TRUTH == UNKNOWN).tolist()
    assert list(frame.columns[-3:]) == ["p_0", "p_1", "p_2"]
    of_torch = answer(torch.tensor(SUPPORT), LABELS, torch.tensor(QUERY)).to_pandas()
    pd.testing.assert_frame_equal(of_torch, frame, atol=1e-5)


def test_a_batch_has_no_table_but_its_tasks_have():
    whole = answer(*two_tasks())
    with pytest.raises(ValueError, match=r"^a table is of one task: take result\[i\]"):
        whole.to_arrow()
    assert whole[1].to_arrow().num_rows == len(QUERY)


@loop("method", METHODS)
@loop("preparation", [None, "task, l2, qr"])
def test_a_result_of_a_batch_is_indexed_by_task(method, preparation):
    arrays = two_tasks()
    options = {"method": method, "preparation": preparation, "base_mean": np.full(DIMENSION, 0.1)}
    whole = answer(*arrays, **options)
    assert len(whole) == 2
    for i in (0, 1, -1, -2):
        alone = answer(*(part[i] for part in arrays), **options)
        assert_same(whole[i], alone)
        assert whole[i].outlier_share == alone.outlier_share
        assert {name: value.shape for name, value in whole[i].state.items()} == {
            name: value.shape for name, value in alone.state.items()
        }
        for name in (name for name in alone.state if name.startswith("prepare.")):
            np.testing.assert_allclose(np.abs(whole[i].state[name]), np.abs(alone.state[name]), atol=1e-6)
    assert len(list(whole)) == 2


def test_the_history_of_a_batch_is_indexed_by_task():
    arrays = two_tasks()
    whole = answer(*arrays, history=True, steps=4)
    assert whole.history.shape == (2, 5)
    alone = answer(*(x[1] for x in arrays), history=True, steps=4)
    np.testing.assert_allclose(whole[1].history, alone.history, rtol=1e-5)


def test_an_index_that_is_no_task_is_refused():
    whole = answer(*two_tasks())
    with pytest.raises(IndexError, match=r"^there is no task 2: there are 2, counted from 0"):
        whole[2]
    with pytest.raises(TypeError, match=r"'slice' object cannot be interpreted as an integer"):
        whole[0:1]
    with pytest.raises(TypeError, match=r"^this is the result of one task"):
        whole[0][0]


def test_a_result_says_what_it_is(result):
    assert repr(result) == "<Result: 4 items, 50% unknown, 2 classes, by hand>"
    assert repr(answer(*two_tasks())) == "<Result: 2 tasks of 9 items, 33% unknown, 3 classes, by eol>"


def test_a_result_carries_what_made_it():
    made_by = answer(steps=7, preparation="task, l2").made_by
    assert made_by["method"] == "eol"
    assert made_by["steps"] == made_by["parameters"]["steps"] == 7
    assert made_by["preparation"] == ["task", "l2"]
    assert made_by["versions"]["numpy"] == np.__version__


def test_a_given_threshold_decides():
    scores = answer().outlier_scores
    for threshold in (0.05, 0.5, 0.99):
        np.testing.assert_array_equal(answer(threshold=threshold).unknown, scores > threshold)


@loop("method", ["knn", "simpleshot"])
@loop("share", [0.01, 0.2, 1 / 3, 0.7, 0.99])
def test_a_method_that_only_ranks_calls_the_asked_share_unknown(method, share):
    result = answer(method=method, outlier_share=share)
    count = round(share * len(QUERY))
    assert result.unknown.sum() == count
    assert set(np.flatnonzero(result.unknown)) == set(np.argsort(result.outlier_scores)[len(QUERY) - count :])
    assert result.outlier_share == pytest.approx(count / len(QUERY))


def test_the_threshold_of_a_ranking_lies_halfway_between_the_known_and_the_unknown():
    scores = np.array([[4.0, 1.0, 3.0, 2.0], [8.0, 0.0, 0.0, 6.0]])
    assert decide.threshold(scores, "rank", 0.5).tolist() == [2.5, 3.0]
    assert decide.threshold(scores, "rank", 0.25).tolist() == [3.5, 7.0]
    assert decide.threshold(scores, "probability", 0.25).tolist() == [0.5, 0.5]


# --- many tasks ---


@loop("method", METHODS)
def test_solve_each_equals_solving_each_alone(method):
    arrays = two_tasks()
    tasks = [
        Task(*(part[0] for part in arrays)),
        Task(SUPPORT[:4], ["x", "x", "y", "y"], QUERY[:5]),
        Task(SUPPORT, NAMES[LABELS], QUERY),  # of the first one's shape, but not of its kind of labels
        Task(SUPPORT.astype("float32"), LABELS, QUERY.astype("float32")),
        Task(SUPPORT[[0, 2]], [3, 4], QUERY[:1]),
        Task(*(part[1] for part in arrays)),
    ]
    results = solve_each(tasks, method=method, outlier_share=SHARE, dtype="float64")
    assert len(results) == len(tasks)
    for task, result in zip(tasks, results, strict=True):
        assert_same(result, solve(task, method=method, outlier_share=SHARE, dtype="float64"))
        assert result.labels.dtype.kind == task.classes.dtype.kind


def test_solve_each_takes_torch_and_numpy_tasks_together(torch):
    tasks = [Task(SUPPORT, LABELS, QUERY), Task(torch.tensor(SUPPORT), LABELS, torch.tensor(QUERY))]
    plain, tensor = solve_each(tasks, method="eol", outlier_share=SHARE, dtype="float64")
    assert isinstance(tensor.probabilities, torch.Tensor)
    assert_same(tensor, plain)


def test_solve_each_gives_each_task_its_own_share():
    tasks = [Task(SUPPORT, LABELS, QUERY), Task(SUPPORT[:4], LABELS[:4], QUERY), Task(SUPPORT, LABELS, QUERY)]
    shares = [0.2, 0.3, 0.6]
    results = solve_each(tasks, method="eol", outlier_share=shares, dtype="float64")
    for task, share, result in zip(tasks, shares, results, strict=True):
        assert result.outlier_share == share
        assert_same(result, solve(task, method="eol", outlier_share=share, dtype="float64"))
    with pytest.raises(ValueError, match=r"^outlier_share has 2 values for 3 tasks"):
        solve_each(tasks, method="eol", outlier_share=shares[:2])


def test_solve_each_of_nothing_is_nothing():
    assert solve_each([], method="eol") == []


@loop("threads", [1, 3])
def test_a_batch_cut_into_chunks_equals_its_tasks_alone(threads):
    rng = np.random.default_rng(0)
    n, queries = 20, 3000  # a few chunks
    support, query = rng.normal(size=(n, 6, 32)), rng.normal(size=(n, queries, 32))
    labels = np.stack([rng.permutation(LABELS) for _ in range(n)])
    shares = np.linspace(0.1, 0.9, n)
    options = {"steps": 3, "backend": "array", "preparation": "task, l2", "dtype": "float64"}
    whole = solve(support, labels, query, method="eol", outlier_share=shares, threads=threads, **options)
    for i in (0, 6, 19):
        alone = solve(support[i], labels[i], query[i], method="eol", outlier_share=shares[i], **options)
        assert_same(whole[i], alone)
        assert whole[i].outlier_share == shares[i]
        name = "prepare.0.task"
        np.testing.assert_allclose(whole[i].state[name], alone.state[name], rtol=1e-6)


# --- names and parameters ---


@loop(
    ("method", "parameter", "value", "rule"),
    [
        ("eol", "outlier_share", 0.0, '"auto", or a number between 0 and 1, both excluded, or one for each task'),
        ("eol", "outlier_share", 1, '"auto", or a number between 0 and 1'),
        ("eol", "outlier_share", np.nan, '"auto", or a number between 0 and 1'),
        ("eol", "outlier_share", "0.3", '"auto", or a number between 0 and 1'),
        ("eol", "outlier_share", None, '"auto", or a number between 0 and 1'),
        ("eol", "outlier_share", True, '"auto", or a number between 0 and 1'),
        ("eol", "b", 1.5, "a number between 0 and 1, both excluded, or None, or one for each task"),
        ("eol", "temperature", 0, "a number above 0"),
        ("eol", "temperature", np.inf, "a number above 0"),
        ("eol", "steps", -1, "a whole number from 0"),
        ("eol", "steps", 2.5, "a whole number from 0"),
        ("eol", "steps", True, "a whole number from 0"),
        ("eol", "lambda_ce", -0.1, "a number from 0"),
        ("eol", "lambda_ce", np.inf, "a number from 0"),
        ("eol", "marginal_weight", "way", "one of 'ways', 'shots'"),
        ("eol", "learn", (), "a tuple with some of 'prototypes', 'eta', 'delta'"),
        ("eol", "learn", "eta", "a tuple with some of 'prototypes', 'eta', 'delta'"),
        ("eol", "learn", ("eta", "gamma"), "a tuple with some of"),
        ("eol", "history", 1, "one of True, False"),
        ("eol", "backend", "gpu", "one of 'auto', 'array'"),
        ("knn", "k", 0, "a whole number from 1, or None"),
        ("simpleshot", "temperature", -1.0, "a number above 0"),
    ],
)
def test_a_parameter_out_of_range_is_told_its_range(method, parameter, value, rule):
    with pytest.raises(ValueError, match=rf"^{parameter} of {method} must be {rule}.*, got "):
        answer(method=method, **{parameter: value})


@loop(
    ("option", "value", "rule"),
    [
        ("dtype", "float16", "one of 'float32', 'float64'"),
        ("threshold", np.nan, "a number, or None"),
        ("threads", 0, "a whole number from 1, or None"),
    ],
)
def test_an_option_out_of_range_is_told_its_range(option, value, rule):
    with pytest.raises(ValueError, match=rf"^{option} of solve must be {rule}, got "):
        answer(**{option: value})


@loop("method", ["knn", "simpleshot"])
def test_the_share_of_a_method_that_only_ranks_is_checked_too(method):
    with pytest.raises(
        ValueError, match=r'^outlier_share of .* must be "auto", or a number between 0 and 1, .*got 1\.5'
    ):
        answer(method=method, outlier_share=1.5)


@loop(
    ("rule", "good", "bad"),
    [
        (Number(), [0, -1.5, np.float32(2), np.int64(3)], [None, "1", True, np.True_, np.nan, np.inf, 1j, [1.0]]),
        (Number(0, 1), [0.5, np.float32(0.1)], [0, 1, 0.0, 1.0, -0.1]),
        (Number(0, 1, closed=True), [0, 1, 0.5], [-1e-9, 1 + 1e-9, np.nan]),
        (Number(0, closed=True), [0, 1e300], [-1e-9, np.inf]),
        (Number(1, closed=True, whole=True), [1, np.int32(4), 10**30], [0, 1.0, True]),
        (Number(0, optional=True), [None, 1], [0]),
        (Number(0, 1, each_task=True), [0.5, [0.5], (0.1, 0.9), np.array([0.2, 0.3])], [[0.5, 2.0], [[0.5]], [True]]),
        (OneOf(("a", True)), ["a", True], ["b", 1, None, np.array(["a"])]),
        (SomeOf(("a", "b")), [("a",), ["b", "a"]], [(), "a", ("c",), None, {"a"}]),
    ],
)
def test_a_rule_accepts_what_it_says(rule, good, bad):
    for value in good:
        assert rule.accepts(value), value
        check({"p": value}, {"p": rule}, "it")
    for value in bad:
        assert not rule.accepts(value), value
        with pytest.raises(ValueError, match=r"^p of it must be "):
            check({"p": value}, {"p": rule}, "it")


def test_each_task_of_a_batch_may_have_its_own_share():
    arrays = two_tasks()
    whole = answer(*arrays, outlier_share=[0.2, 0.6])
    assert whole.outlier_share.tolist() == [0.2, 0.6]
    for i, share in enumerate((0.2, 0.6)):
        assert_same(whole[i], answer(*(x[i] for x in arrays), outlier_share=share))
    assert not np.allclose(whole[1].outlier_scores, answer(*arrays, outlier_share=0.2)[1].outlier_scores, atol=1e-3)
