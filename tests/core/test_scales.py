"""Features of any size: times 1e150 or 1e-150, every method says the same of them, or one sentence says why not."""

import sys

import numpy as np
import pytest
from bases import base_for
from loops import loop

import handful
from handful.core.base import Base
from handful.core.task import Task
from handful.estimators import load
from handful.methods.registry import METHODS
from handful.solving import get_solver, list_methods, solve

DIMENSION, SHOTS = 16, 3
SCALES = {"float64": (1e150, 1e-20, 1e-300), "float32": (1e16, 1e-35)}
NAMES = list_methods()
PAIRS = ["simpleshot+knn", "tim_gd+entropy"]


def classes(seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(scale=0.3, size=(20, DIMENSION)) + 2 * np.eye(DIMENSION)[k] + 1 for k in range(3)]


def task(scale=1.0, dtype="float64"):
    """Two classes and a third that nobody showed."""
    a, b, c = classes()
    support, query = np.concatenate([a[:SHOTS], b[:SHOTS]]), np.concatenate([a[SHOTS:], b[SHOTS:], c])
    labels = ["a"] * SHOTS + ["b"] * SHOTS
    return (support * scale).astype(dtype), labels, (query * scale).astype(dtype)


def base_at(scale):
    """The base of features that are multiplied: heads see unit features, but the mean and samples are features."""
    base, samples = base_for(DIMENSION), ("mean", "negatives", "head/conformal/items")
    arrays = {name: value * (scale if name in samples else 1) for name, value in base.arrays.items()}
    return Base.of(arrays, base.about)


def needed(name, scale):
    return {"base": base_at(scale)} if get_solver(name).info.needs == "base" else {}


@loop("name", [*NAMES, *PAIRS])
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_every_method_says_the_same_of_features_of_any_size(name):
    if name in ("copod", "iforest", "ocsvm", "pca"):
        pytest.importorskip("pyod")
    for dtype in SCALES:
        usual = solve(*task(dtype=dtype), method=name, **needed(name, 1))
        for scale in SCALES[dtype]:
            if needed(name, 1) and not 1e-30 < scale < 1e15:
                continue  # a base file holds float32
            result = solve(*task(scale, dtype), method=name, **needed(name, scale))
            assert np.isfinite(result.probabilities).all(), scale
            assert np.isfinite(result.outlier_scores).all(), scale
            known = result.probabilities.sum(axis=1)
            own = usual.probabilities.sum(axis=1)  # 1, or P(known) where that is how a method has it
            np.testing.assert_allclose(known, own, atol=2e-3, err_msg=str(scale))
            assert result.labels.tolist() == usual.labels.tolist(), scale


def test_a_pile_scored_in_blocks_is_scaled_like_one_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("handful.solving.blocks.SAMPLE_ROWS", 30)

    def in_blocks(scale, name):
        support, labels, query = task(scale)
        np.save(tmp_path / "pile.npy", query)
        return solve(support, labels, np.load(tmp_path / "pile.npy", mmap_mode="r"), method=name)

    for name in ("eol", "kdo", "knn", "tim_gd"):
        usual = in_blocks(1, name)
        for scale in (1e150, 1e-150):
            result = in_blocks(scale, name)
            assert np.isfinite(result.outlier_scores).all()
            assert result.labels.tolist() == usual.labels.tolist(), (name, scale)


def test_tasks_of_a_batch_keep_their_own_scale(monkeypatch):
    (s, y, q), (_, _, tiny) = task(), task(1e-40)
    batch = Task(np.stack([s, s * 1e-40, s]), [y] * 3, np.stack([q, tiny, q]))
    whole = solve(batch, method="eol")
    monkeypatch.setattr(sys.modules["handful.solving.solve"], "CHUNK_BYTES", (1, 1))  # each task by itself
    each = solve(batch, method="eol")
    alone = solve(s, y, q, method="eol")
    for result in (whole, each):
        for i in range(3):
            assert result[i].labels.tolist() == alone.labels.tolist()
        np.testing.assert_allclose(result[0].probabilities, alone.probabilities, atol=1e-6)


def test_a_given_base_mean_is_of_the_same_scale():
    support, labels, query = task()
    mean = support.mean(axis=0) * 0.5
    usual = solve(support, labels, query, method="simpleshot", base_mean=mean)
    small = solve(support * 1e-20, labels, query * 1e-20, method="simpleshot", base_mean=mean * 1e-20)
    np.testing.assert_allclose(small.probabilities, usual.probabilities, atol=1e-5)


@loop("name, scale", [("kdo", 1e150), ("ostim", 1e-150), ("simpleshot+knn", 1e150)])
def test_a_saved_model_scales_new_items_as_its_own(name, scale, tmp_path):
    (s, y, q), (small_s, _, small_q) = task(), task(scale)
    X, y = np.concatenate([s, q]), [*y, *[None] * len(q)]
    usual = handful.make_estimator(name).fit(X, y)
    model = handful.make_estimator(name).fit(np.concatenate([small_s, small_q]), y)
    again = load(model.save(tmp_path / "model.safetensors"))
    new = classes(1)[0]
    assert again.predict(new * scale).tolist() == usual.predict(new).tolist()
    # OSTIM's steps are of one length, whatever the scale
    np.testing.assert_allclose(again.predict_proba(new * scale), usual.predict_proba(new), atol=0.01)


def test_an_item_that_float32_cannot_hold_beside_the_others_is_refused(tmp_path, monkeypatch):
    support, labels, query = task()
    query[5] *= 1e150
    np.save(tmp_path / "pile.npy", query)
    monkeypatch.setattr("handful.solving.blocks.SAMPLE_ROWS", 30)
    for pile in (query, np.load(tmp_path / "pile.npy", mmap_mode="r")):
        with pytest.raises(ValueError, match="so much larger than the features of the examples"):
            solve(support, labels, pile, method="ostim")
    model = handful.make_estimator("ostim").fit(support, labels)
    with pytest.raises(ValueError, match="so much larger than the features of the examples"):
        model.predict(query[:10])
    support, labels, query = task(1e-30, "float32")
    for name in (name for name in NAMES if METHODS[name].info.preparation[0] == "base" and needed(name, 1)):
        with pytest.raises(ValueError, match="the base mean has values so much larger than the features of the exam"):
            solve(support, labels, query, method=name, base=base_for(DIMENSION))


def test_a_table_of_tiny_features_is_labelled_like_any_other(handful, tmp_path):
    import pyarrow as pa
    from pyarrow import parquet

    tables = []
    for scale in (1, 1e-30, 1e120):
        s, y, q = task(scale)
        columns = {"embedding": [*s, *q], "label": [*y, *[None] * len(q)]}
        parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
        done = handful("label", tmp_path / "t.parquet", "-o", f"out{scale}")
        assert done.returncode == 0, done.stderr
        tables.append(parquet.read_table(tmp_path / f"out{scale}" / "labels.parquet"))
    for name in ("label", "group", "nearest_1", "nearest_2", "nearest_3"):
        assert tables[0][name].equals(tables[1][name]), name
        assert tables[0][name].equals(tables[2][name]), name
