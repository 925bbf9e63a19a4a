"""`FeatureTable` in memory: what it takes, selects and tells."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest

from handful.cli.info import describe
from handful.features import FeatureTable, write


@pytest.fixture
def birds() -> FeatureTable:
    features = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    paths, splits = [f"birds/{i}.jpg" for i in range(6)], ["train", "train", "test", "test", "train", "test"]
    return FeatureTable(features, ["hen", "owl", "hen", "tit", "owl", "hen"], paths, splits, "birds", [1.0, 2, 3, 4])


def test_labels_of_every_kind():
    def labels(values) -> list:
        return FeatureTable(np.eye(2), values).labels.tolist()

    assert labels([b"hen", "owl"]) == ["hen", "owl"]
    assert labels(np.array([1.0, 2.0])) == [1, 2]
    assert labels([True, False]) == [1, 0]
    assert labels(pd.Series(["a", "b"], dtype="category")) == ["a", "b"]
    assert labels(pl.Series(["a", "b"])) == ["a", "b"]
    assert labels(np.array(["a", "b"], dtype=np.dtypes.StringDType())) == ["a", "b"]
    for missing in ([1, None], np.array([1, np.nan]), [1, -1]):
        assert labels(missing) == [1, -1]
    for missing in (["a", None], pd.Series(["a", pd.NA]), ["a", ""], ["a ", " "], ["a", "-1"]):
        assert labels(missing) == ["a", None]
    infinite = np.array([1, np.inf]), "label of row 1 is inf"
    for wrong, said in (
        infinite,
        (["a", 1], "several types"),
        ([2**70, 1], "64-bit"),
        ([(1,), (2,)], "shape"),
        ("ab", "shape"),
    ):
        with pytest.raises(ValueError, match=said):
            labels(wrong)


def test_missing_paths_are_empty_and_features_must_be_rows():
    assert FeatureTable(np.eye(3), [1, 2, 3], ["a", None, b"c"]).paths.tolist() == ["a", "", "c"]
    with pytest.raises(ValueError, match="path of row 1 is a list"):
        FeatureTable(np.eye(2), [1, 2], np.array(["a", ["b"]], dtype=object))
    with pytest.raises(ValueError, match=r"shape \(2, 2, 2\): rows of features"):
        FeatureTable(np.ones((2, 2, 2)), [1, 2])
    with pytest.raises(ValueError, match="is empty"):
        FeatureTable([], [])


def test_classes_and_counts_agree_with_a_count_by_hand(birds):
    assert birds.classes.tolist() == ["hen", "owl", "tit"]
    assert birds.counts == {"hen": 3, "owl": 2, "tit": 1}
    assert len(birds) == 6
    assert birds.dimension == 4
    assert repr(birds) == "<FeatureTable birds: 6 items of 3 classes, 4 features>"


def test_the_mean_is_summed_in_double_precision():
    """A float32 running sum of 2^24 and ones stays at 2^24."""
    features = np.ones((5001, 1), np.float32)
    features[0] = 2.0**24
    mean = FeatureTable(features, np.zeros(5001, int)).mean
    assert mean.dtype == np.float32
    assert mean[0] == np.float32((2.0**24 + 5000) / 5001)


def test_a_split_keeps_its_rows_together(birds):
    part = birds.of_split("train")
    assert part.paths.tolist() == ["birds/0.jpg", "birds/1.jpg", "birds/4.jpg"]
    np.testing.assert_array_equal(part.features, birds.features[[0, 1, 4]])
    assert part.base_mean.tolist() == birds.base_mean.tolist()
    assert birds.of_split("val") is None
    assert FeatureTable(np.eye(2), [1, 2]).of_split("train") is None


def test_a_split_that_is_not_there_is_named(birds, handful, tmp_path):
    write(birds, tmp_path / "birds.npz")
    done = handful("bench", "balanced", "--features", "birds.npz", "--split", "val")
    assert "birds has no split 'val': there are 'test', 'train'" in " ".join(done.stderr.split())


def test_describe_counts_what_was_put_in():
    many = FeatureTable(np.eye(140), np.repeat(range(7), 20))
    assert describe(many)["ways"] == {1: 2, 5: 2, 10: 0}  # classes beside five outlier classes, with 15 queries each
    features = np.array([[3.0, 4.0], [0.0, 0.0], [3.0, 4.0], [-0.0, 0.0], [6.0, 8.0]])
    others = {"id": np.arange(5)}
    labels, splits = ["a", "a", "b", "c", "a"], ["x", "x", "y", "y", "y"]
    said = describe(FeatureTable(features, labels, splits=splits, name="n", base_mean=[5.0, 12.0], others=others))
    assert said == {
        "name": "n",
        "items": 5,
        "unlabelled": 0,
        "classes": 3,
        "counts": {"a": 3, "b": 1, "c": 1},
        "items_per_class": {"min": 1, "median": 1.0, "max": 3},
        "dimension": 2,
        "dtype": "float64",
        "norms": {"min": 0.0, "median": 5.0, "max": 10.0},
        "mean_norm": pytest.approx(np.hypot(12 / 5, 16 / 5)),
        "base_mean_norm": 13.0,
        "zero_rows": 2,
        "duplicate_rows": 2,  # zero is zero, whatever its sign
        "ways": {1: 0, 5: 0, 10: 0},
        "paths": False,
        "splits": {"x": 2, "y": 3},
        "columns": None,
        "others": ["id"],
        "set_aside": [],
    }
    assert json.loads(json.dumps(said))["items"] == 5
