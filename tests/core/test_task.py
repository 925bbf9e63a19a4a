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
from handful.methods import Solution

METHODS = ("eol", "knn", "simpleshot")
PREPARATIONS = ("none", "task", "base", "power, l2", "task, l2, qr")
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
SUPPORTS = np.stack([SUPPORT, items(LABELS, 2)])  # a batch of two tasks
LABEL_ROWS = np.stack([LABELS, LABELS])
QUERIES = np.stack([QUERY, items(np.where(TRUTH == UNKNOWN, 6, TRUTH), 3)])
TWO_TASKS = SUPPORTS, LABEL_ROWS, QUERIES


def answer(support=SUPPORT, labels=LABELS, query=QUERY, method="eol", **options) -> Result:
    # float64: what is compared below then differs by rounding only, whichever backend "auto" takes
    return solve(support, labels, query, method=method, **{"outlier_share": SHARE, "dtype": "float64"} | options)


def spoiled(x, at, value):
    x = np.array(x)
    x[at] = value
    return x


def assert_same(result, expected, **tolerance):
    """The same decisions, and the same numbers up to rounding."""
    np.testing.assert_array_equal(result.labels, expected.labels)
    np.testing.assert_allclose(result.probabilities, expected.probabilities, **({"atol": 1e-5} | tolerance))
    np.testing.assert_allclose(result.outlier_scores, expected.outlier_scores, **({"atol": 1e-5} | tolerance))


# ---- what is refused


def task(support=SUPPORT, labels=LABELS, query=QUERY, **options):
    return lambda: Task(support, labels, query, **options)


def short(count, *rest):
    """The first rows of the support in two features."""
    return SUPPORT[:count, :2], *rest


EMPTY = ([], np.empty((0, DIMENSION)), pd.DataFrame(columns=list("ab")), pl.DataFrame())
TEXTS = ([["1", "2.5"]], np.array([[b"1", b"2.5"]]), [[1, "2"]])
MISSING_LABELS = [
    ([0, 0, -1, 1, 2, 2], "-1"),
    ([0.0, 0.0, None, 1.0, 2.0, 2.0], "nan"),
    ([0, 0, np.nan, 1, 2, 2], "nan"),
    (pd.Series(["a", "a", pd.NA, "b", "c", "c"], dtype=object), "None"),
    (pd.Series([0, 0, None, 1, 2, 2], dtype="Int64"), "-1|nan"),
    (pl.Series(["a", "a", None, "b", "c", "c"]), "None"),
    *((["a", "a", word, "b", "c", "c"], repr(word)) for word in (" ", "NaN", "<NA>", "-1", "-2", "Unknown")),
]
REFUSALS = [  # the beginning of the sentence, and what it is the answer to
    *[(rf"^{name} contains {said} at row 4, column 2", task(**{name: spoiled(x, (4, 2), value)}))
      for name, x in (("support", SUPPORT), ("query", QUERY))
      for value, said in ((np.nan, "NaN"), (-np.inf, "infinity"))],
    *[(r"^query contains NaN at row 1, column 0", task(*short(6, LABELS, query))) for query in (
        pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "b": [1.0, 2.0]}),
        pl.DataFrame({"a": [1, None], "b": [1.0, 2.0]}), [[1.0, 1.0], [None, 2.0]],
        np.ma.masked_array([[1.0, 1.0], [5.0, 2.0]], mask=[[False, False], [True, False]]),
    )],
    (r"^query contains NaN at task 1, row 3, column 7",
     task(SUPPORTS, LABEL_ROWS, spoiled(QUERIES, (1, 3, 7), np.nan))),
    (r"^query has values so large that their squares overflow",
     task(SUPPORT.astype("f4"), query=np.full((3, DIMENSION), 1e30, "f4"))),
    *[(r"^query is empty.*: it has no items", task(query=nothing)) for nothing in EMPTY],
    (r"^support is empty.*: it has no items", task([], [])),
    (r"^support is empty, shape \(6, 0\): it has no features", task(np.empty((6, 0)), query=np.empty((9, 0)))),
    (r"^support is empty, shape \(0, 6, 8\): it has no tasks", task(np.empty((0, 6, 8)), query=np.empty((0, 9, 8)))),
    (r"^query has 1 dimensions, shape .*: rows of features are needed", task(query=np.ones(8))),
    (r"^query is missing", lambda: solve(SUPPORT, LABELS, None)),
    (r"^query is not a rectangular table of numbers", task(*short(6, LABELS, [[1.0, 2.0], [3.0]]))),
    *[(r"^query is not a rectangular table of numbers: it holds text. Convert", task(*short(6, LABELS, text)))
      for text in TEXTS],
    *[(r"^query has a column 'colour' that is not numeric: leave it out",
       task(*short(6, LABELS, frame({"size": [1.0, 2.0], "colour": ["1", "2"]}))))
      for frame in (pd.DataFrame, pl.DataFrame)],
    (r"^query has dtype date.*: numbers are needed", task(query=np.ones((3, 8), "int64").astype("datetime64[D]"))),
    (r"^support is sparse: .*\.toarray\(\)", task(scipy.sparse.csr_matrix(SUPPORT))),
    (r"^Complex data not supported: support has dtype complex128", task(SUPPORT + 0j)),
    (r"^support has 8 features per item and query has 7: .*same backbone", task(query=QUERY[:, :7])),
    (r"^support has shape \(2, 6, 8\) and query \(3, 9, 8\): ",
     task(SUPPORTS, LABEL_ROWS, np.concatenate([QUERIES, QUERIES[:1]]))),
    # labels
    *[(rf"^support label 2 is ({said}), which means unlabelled or unknown", task(labels=labels))
      for labels, said in MISSING_LABELS],
    (r"^support label 5 of task 1 is -1, ", task(SUPPORTS, spoiled(LABEL_ROWS, (1, 5), -1), QUERIES)),
    (r"^labels are of several types or of an unknown label type \(int\)", task(labels=["a", 1, "b", "b", "c", "c"])),
    (r"^labels are of several types or of an unknown label type \(bytes\)", task(labels=np.array([b"a"] * 6))),
    (r"^labels are a single NoneType: give a list", lambda: solve(SUPPORT, None, QUERY, method="eol")),
    (r"^labels are not one for each item", task(labels=[[0], [0, 1]])),
    (r"^label 1180591620717411303424 does not fit a 64-bit integer", task(labels=[2**70] * 3 + [1] * 3)),
    (r"^labels have shape \(6, 1\) but there are 6 support items: .*\(6,\)", task(labels=LABELS[:, None])),
    (r"^labels have shape \(6, 2\) but there are 2 tasks of 6 .*\(2, 6\)", task(SUPPORTS, LABEL_ROWS.T, QUERIES)),
    (r"^class 2 has no example in the support set of task 1: ",
     task(SUPPORTS, spoiled(LABEL_ROWS, (1, slice(4, 6)), 1), QUERIES, classes=[0, 1, 2])),
    (r"^label 0 in the support set is not among the classes \['ant', 'bee', ", task(classes=NAMES)),
    (r"^task 1 has examples of 2 classes and task 0 of 3: .*solve_each",
     task(SUPPORTS, spoiled(LABEL_ROWS, (1, slice(4, 6)), 1), QUERIES)),
    # calls
    (r"^support is a Task, .*: call handful.solve\(task\)", lambda: solve(Task(SUPPORT, LABELS, QUERY), LABELS)),
    (r"^task 1 is a batch of 2 tasks: call handful.solve on it",
     lambda: solve_each([Task(SUPPORT, LABELS, QUERY), Task(*TWO_TASKS)], method="eol")),
    (r"^task 0 is a tuple: make a handful.Task", lambda: solve_each([(SUPPORT, LABELS, QUERY)], method="eol")),
    (r"^there is no method 'eoll' \(did you mean 'eol'\?\); there are: .*eol.*knn.*simpleshot",
     lambda: answer(method="eoll")),
    (r"^eol has no parameter 'stepz'; it has: .*steps", lambda: answer(stepz=3)),
    *[(r"^outlier_share has 3 values for 2 tasks: give one, or one for each task",
       lambda method=method: answer(*TWO_TASKS, method=method, outlier_share=[0.2, 0.3, 0.4])) for method in METHODS],
]  # fmt: skip


@loop("match, call", REFUSALS)
def test_what_cannot_be_used_is_refused_with_a_sentence(match, call):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises((ValueError, TypeError), match=match):
            call()


def test_tasks_of_a_batch_may_have_their_own_classes():
    result = answer(SUPPORTS, [NAMES[LABELS], np.array(["yak", "elk", "hen"])[LABELS]], QUERIES)
    assert result.classes.tolist() == [["ant", "bee", "cow"], ["elk", "hen", "yak"]]
    assert result.labels[0].tolist() == ["ant", "ant", "bee", "bee", "cow", "cow"] + [UNKNOWN_NAME] * 3
    assert result.labels[1].tolist() == ["yak", "yak", "elk", "elk", "hen", "hen"] + [UNKNOWN_NAME] * 3
    declared = Task(SUPPORT, LABELS, QUERY, classes=[2, 0, 1])
    assert (declared.classes.tolist(), declared.labels.tolist()) == ([0, 1, 2], [LABELS.tolist()])


@loop("method", METHODS)
def test_a_task_without_pile_learns_its_classes_and_says_nothing_of_nobody(method):
    batch = Task.of_examples(np.stack([SUPPORT] * 2), np.stack([LABELS] * 2))
    for task, shape in ((batch, (2, 0)), (batch[0], (0,))):
        result = solve(task, method=method)
        assert result.labels.shape == result.confidence.shape == shape
        assert result.state


def test_torch_tensors_that_cannot_be_used_are_refused_too(torch):
    support, query = torch.tensor(SUPPORT), torch.tensor(QUERY)
    with pytest.raises(TypeError, match=r"^support and query must both be torch tensors, or neither"):
        Task(support, LABELS, QUERY)
    with pytest.raises((ValueError, TypeError), match=r"^query is sparse: .*\.to_dense\(\)"):
        Task(support, LABELS, query.to_sparse())
    with pytest.raises(ValueError, match=r"^query contains NaN at row 4, column 2"):
        Task(support, LABELS, torch.tensor(spoiled(QUERY, (4, 2), np.nan)).bfloat16())


# ---- labels and features of every kind


def test_labels_stay_what_they_are_however_they_are_held():
    strings, unknown = NAMES[LABELS], ["unknown"] * 3
    for labels in (
        strings.tolist(), tuple(strings.tolist()), strings.astype(object), strings.astype(np.dtypes.StringDType()),
        pd.Series(strings), pd.Series(strings, dtype="category"), pd.Categorical(strings), pl.Series(strings),
        pl.Series(strings, dtype=pl.Categorical), pa.array(strings.tolist()),
    ):  # fmt: skip
        result = answer(labels=labels, steps=5)
        assert result.labels.dtype.kind == "U"
        assert result.labels.tolist() == [*NAMES[TRUTH[:6]], *unknown]
    for dtype in ("uint64", "Int64", "category"):
        result = answer(labels=pd.Series(LABELS + 5).astype(dtype), steps=5)
        assert result.labels.dtype.kind == "i"
        assert result.labels.tolist() == [5, 5, 6, 6, 7, 7, -1, -1, -1]
    assert answer(labels=LABELS + 0.5).labels.tolist() == [0.5, 0.5, 1.5, 1.5, 2.5, 2.5, -1, -1, -1]
    assert answer(labels=LABELS - 5).labels.tolist() == [-5, -5, -4, -4, -3, -3, -1, -1, -1]
    assert answer(SUPPORT[:4], LABELS[:4] == 1, QUERY[:4], outlier_share=0.1).labels.tolist() == [0, 0, 1, 1]


def test_features_of_any_number_type_give_what_the_same_numbers_give_as_floats(torch):
    support, query = np.rint(np.abs(SUPPORT) * 63), np.rint(np.abs(QUERY) * 63)
    assert 200 < support.max() < 256  # sums of such bytes do not fit a byte
    plain = answer(support, query=query)
    for dtype in ("uint8", "uint64", "float16", ">f4"):
        assert_same(answer(support.astype(dtype), query=query.astype(dtype)), plain)
    for dtype in ("bfloat16", "uint8"):
        tensors = (torch.tensor(x).to(getattr(torch, dtype)) for x in (support, query))
        assert_same(answer(next(tensors), query=next(tensors)), plain)
    assert_same(answer(SUPPORT > 1, query=QUERY > 1), answer((SUPPORT > 1) * 1.0, query=(QUERY > 1) * 1.0))
    large = Task(np.full((6, 2), 2**40 + 1), LABELS, np.full((3, 2), 2**40))
    assert (large.support[0, 0, 0] - large.query[0, 0, 0]).item() == 1  # large integers keep their last digit
    mixed = Task(SUPPORT.astype("float32"), LABELS, QUERY.astype("float64"))
    assert mixed.support.dtype == mixed.query.dtype == np.float64
    default, double = solve(SUPPORT, LABELS, QUERY, method="eol"), answer(outlier_share="auto")
    assert (default.probabilities.dtype, double.probabilities.dtype) == (np.float32, np.float64)
    assert_same(default, double, atol=1e-3)


def test_every_table_gives_the_result_of_numpy():
    plain = answer()
    for hold in (
        np.ndarray.tolist, pd.DataFrame, pl.DataFrame, lambda x: pa.table(pd.DataFrame(x)), np.asfortranarray,
        lambda x: pd.DataFrame(x).astype("Float64"),
    ):  # fmt: skip
        result = answer(hold(SUPPORT), LABELS, hold(QUERY))
        assert isinstance(result.probabilities, np.ndarray)
        assert_same(result, plain)
    assert_same(answer(pd.DataFrame(SUPPORT), pl.Series(LABELS), QUERY.tolist()), plain)


@loop("hold", [pd.DataFrame, pl.DataFrame, pa.table])
def test_columns_of_frames_are_matched_by_their_names(hold):
    def frame(x, names="abcdefgh", order=slice(None)):
        return hold({name: x[:, i] for i, name in list(enumerate(names))[order]})

    back = slice(None, None, -1)
    for query in (frame(QUERY), frame(QUERY, order=back)):
        assert_same(answer(frame(SUPPORT), query=query), answer())
    assert_same(answer(frame(SUPPORT), unknown=frame(QUERY[6:], order=back)), answer(unknown=QUERY[6:]))
    assert_same(answer(frame(SUPPORT, order=back), query=frame(QUERY)), answer())
    others = {"query": frame(QUERY, "abxdefyh"), "unknown": frame(QUERY, "abxdefyh")}
    for name, other in others.items():
        with pytest.raises(ValueError, match=rf"^{name}: .* not those of the examples, as 'x', 'y'; it lacks 'c', 'g'"):
            Task(frame(SUPPORT), LABELS, **{"query": frame(QUERY), name: other})


@loop("method, many", [("eol", True), ("knn", False)])
def test_torch_in_is_torch_out_with_the_numbers_of_numpy(torch, method, many):
    arrays = TWO_TASKS if many else (SUPPORT, LABELS, QUERY)
    support, labels, query = map(torch.tensor, arrays)
    result, expected = answer(support.requires_grad_(), labels, query, method=method), answer(*arrays, method=method)
    for part in (result.probabilities, result.outlier_scores, result.unknown, result.confidence):
        assert isinstance(part, torch.Tensor)
        assert not part.requires_grad
    assert result.unknown.dtype == torch.bool
    assert isinstance(result.labels, np.ndarray)
    assert_same(result, expected)
    np.testing.assert_allclose(result.confidence, expected.confidence, atol=1e-5)


# ---- the task as a thing


def test_a_task_says_what_it_is_and_gives_its_tasks():
    assert repr(Task(SUPPORT, LABELS, QUERY)) == "<Task: 3 classes with 2 examples each, 9 queries, 8 features>"
    whole = Task(*TWO_TASKS)
    assert repr(whole).startswith("<Task: 2 tasks of 3 classes with 2 examples each, ")
    for i in (1, -1):
        alone = whole[i]
        assert alone.single
        np.testing.assert_array_equal(alone.query, QUERIES[1:])
        assert alone.classes.tolist() == [0, 1, 2]
    assert not whole[:1].single
    with pytest.raises(IndexError, match=r"^there is no task 2: there are 2, counted from 0"):
        whole[2]
    stacked = Task.stack([Task(*parts) for parts in zip(*TWO_TASKS, strict=True)])
    assert_same(solve(stacked, method="eol"), solve(*TWO_TASKS, method="eol"), atol=0)


# ---- the result


@pytest.fixture(scope="module")
def result():
    """A result written by hand, so that what it says can be computed by hand."""
    p = np.array([[0.6, 0.2], [0.1, 0.3], [0.02, 0.08], [0.0, 0.0]])
    return Result(
        Solution(p, np.array([0.2, 0.6, 0.9, 1.0]), threshold=0.7, outlier_share=0.5),
        Task(np.eye(2), ["ant", "bee"], np.ones((4, 2))),
        made_by={"method": "hand", "score": "rank"},
    )


def test_a_result_says_its_labels_confidence_and_table(result):
    assert repr(result) == "<Result: 4 items, 50% unknown, 2 classes, by hand>"
    assert result.closest.tolist() == ["ant", "bee", "bee", "ant"]
    assert result.labels.tolist() == ["ant", "bee", "unknown", "unknown"]
    with warnings.catch_warnings():  # a row without any probability does not warn
        warnings.simplefilter("error")
        np.testing.assert_allclose(result.confidence, [0.75, 0.75, 0.75, 1.0])  # the last two are ranks
    table = result.to_arrow()
    assert table.column_names == ["label", "closest", "unknown", "confidence", "outlier_score", "p_ant", "p_bee"]
    assert table.column("label").to_pylist() == ["ant", "bee", "unknown", "unknown"]
    assert table.column("unknown").to_pylist() == [False, False, True, True]
    assert table.column("outlier_score").to_pylist() == [0.2, 0.6, 0.9, 1.0]
    assert table.column("p_bee").to_pylist() == pytest.approx([0.25, 0.75, 0.8, 0.5])


def test_where_the_score_is_a_probability_confidence_is_that_of_the_decision():
    result = answer(method="eol")
    p, known = result.p_unknown, result.probabilities.sum(axis=-1)
    joint = np.where(result.unknown, p, result.probabilities.max(axis=-1) / known * (1 - p))
    np.testing.assert_allclose(result.confidence, joint, rtol=1e-5)


def test_a_result_is_a_pandas_frame_with_the_callers_labels(torch):
    frame = answer().to_pandas()
    assert frame["label"].tolist() == TRUTH.tolist()
    of_torch = answer(torch.tensor(SUPPORT), LABELS, torch.tensor(QUERY)).to_pandas()
    pd.testing.assert_frame_equal(of_torch, frame, atol=1e-5)


@loop("method", METHODS)
@loop("preparation", [None, "task, l2, qr"])
def test_a_result_of_a_batch_is_indexed_by_task(method, preparation):
    options = {"method": method, "preparation": preparation, "base_mean": np.full(DIMENSION, 0.1)}
    options |= {"history": True, "steps": 4} if method == "eol" else {}
    whole = answer(*TWO_TASKS, **options)
    assert len(whole) == len(list(whole)) == 2
    for i in (0, 1, -1, -2):
        alone = answer(*(part[i] for part in TWO_TASKS), **options)
        assert_same(whole[i], alone)
        assert whole[i].outlier_share == alone.outlier_share
        assert {k: v.shape for k, v in whole[i].state.items()} == {k: v.shape for k, v in alone.state.items()}
        for name in (name for name in alone.state if name.startswith("prepare.")):
            np.testing.assert_allclose(np.abs(whole[i].state[name]), np.abs(alone.state[name]), atol=1e-6)
        if method == "eol":
            assert whole.history.shape == (2, 5)
            np.testing.assert_allclose(whole[i].history, alone.history, rtol=1e-5)
    assert whole[1].to_arrow().num_rows == len(QUERY)
    for call, error, match in [
        (lambda: whole[2], IndexError, r"^there is no task 2: there are 2, counted from 0"),
        (lambda: whole[0][0], TypeError, r"^this is the result of one task"),
        (whole.to_arrow, ValueError, r"^a table is of one task: take result\[i\]"),
    ]:
        with pytest.raises(error, match=match):
            call()


def test_a_given_threshold_or_share_decides():
    scores = answer().outlier_scores
    for threshold in (0.05, 0.5, 0.99):
        np.testing.assert_array_equal(answer(threshold=threshold).unknown, scores > threshold)
    for share in (0.01, 1 / 3, 0.99):
        result, count = answer(method="knn", outlier_share=share), round(share * len(QUERY))
        assert set(np.flatnonzero(result.unknown)) == set(np.argsort(result.outlier_scores)[len(QUERY) - count :])
        assert result.outlier_share == pytest.approx(count / len(QUERY))
    scores = np.array([[4.0, 1.0, 3.0, 2.0], [8.0, 0.0, 0.0, 6.0]])  # halfway between the known and the unknown
    assert decide.threshold(scores, "rank", 0.5).tolist() == [2.5, 3.0]
    assert decide.threshold(scores, "rank", 0.25).tolist() == [3.5, 7.0]
    assert decide.threshold(scores, "probability", 0.25).tolist() == [0.5, 0.5]


# ---- many tasks


@loop("method", METHODS)
def test_solve_each_equals_solving_each_alone(torch, method):
    tasks = [
        Task(*(part[0] for part in TWO_TASKS)),
        Task(SUPPORT[:4], ["x", "x", "y", "y"], QUERY[:5]),
        Task(SUPPORT, NAMES[LABELS], QUERY),  # of the first one's shape, but not of its kind of labels
        Task(torch.tensor(SUPPORT), LABELS, torch.tensor(QUERY)),
        Task(*(part[1] for part in TWO_TASKS)),
    ]
    shares = np.linspace(0.2, 0.6, len(tasks)).tolist()
    results = solve_each(tasks, method=method, outlier_share=shares, dtype="float64")
    for task, share, result in zip(tasks, shares, results, strict=True):
        assert_same(result, solve(task, method=method, outlier_share=share, dtype="float64"))
        assert result.labels.dtype.kind == task.classes.dtype.kind
        assert type(result.probabilities) is type(task.query)
    assert solve_each([], method=method) == []


# ---- parameters


SHARE_RULE = '"auto", or a number between 0 and 1, .*or one for each task'
WRONG = [
    *(("eol", "outlier_share", value, SHARE_RULE) for value in (1, "0.3", None)),
    ("eol", "b", 1.5, "a number between 0 and 1, both excluded, or None, or one for each task"),
    ("eol", "steps", 2.5, "a whole number from 0"),
    ("eol", "lambda_ce", -0.1, "a number from 0"),
    ("eol", "marginal_weight", "way", "one of 'ways', 'shots'"),
    ("eol", "learn", ("eta", "gamma"), "a tuple with some of 'prototypes', 'eta', 'delta'"),
    ("knn", "k", 0, "a whole number from 1, or None"),
    ("solve", "dtype", "float16", "one of 'float32', 'float64'"),
    ("solve", "threshold", np.nan, "a number, or None"),
    ("solve", "threads", 0, "a whole number from 1, or None"),
    ("solve", "outlier_share", 1.5, SHARE_RULE),  # of a method that only ranks
]


@loop(("owner", "parameter", "value", "rule"), WRONG)
def test_a_parameter_out_of_range_is_told_its_range(owner, parameter, value, rule):
    with pytest.raises(ValueError, match=rf"^{parameter} of {owner} must be {rule}.*, got "):
        answer(method="knn" if owner == "solve" else owner, **{parameter: value})


@loop(
    ("rule", "good", "bad"),
    [
        (Number(), [0, -1.5, np.float32(2), np.int64(3)], [None, "1", np.True_, np.nan, np.inf, 1j]),
        (Number(0, 1), [0.5, np.float32(0.1)], [0, 1.0, -0.1]),
        (Number(0, 1, closed=True), [0, 1, 0.5], [-1e-9, 1 + 1e-9, np.nan]),
        (Number(1, closed=True, whole=True), [1, np.int32(4), 10**30], [0, 1.0, True]),
        (Number(0, 1, each_task=True), [0.5, [0.5], np.array([0.2, 0.3])], [[0.5, 2.0], [[0.5]], [True]]),
        (OneOf(("a", True)), ["a", True], ["b", 1, None, np.array(["a"])]),
        (SomeOf(("a", "b")), [("a",), ["b", "a"]], [(), "a", ("c",), None]),
    ],
)
def test_a_rule_accepts_what_it_says(rule, good, bad):
    for value in good:
        check({"p": value}, {"p": rule}, "it")
    for value in bad:
        with pytest.raises(ValueError, match=r"^p of it must be "):
            check({"p": value}, {"p": rule}, "it")
