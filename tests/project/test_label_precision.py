"""`handful label --precision`: which labels are kept, what is said of them, and that models and records hold to it."""

import json

import numpy as np
import pytest
from piles import assert_refused

from handful import load
from handful.features import FeatureTable, digits, write
from handful.project.labelling import label_items, predict_items

NAMES = np.array(["zero", "one", "two", "three", "four"])


@pytest.fixture(scope="module")
def tables():
    """Three examples each of 0 to 4, 150 digits of all kinds, and their truth."""
    features, digit = digits()
    rows = np.random.default_rng(0).permutation(len(digit))
    shown = np.concatenate([rows[digit[rows] == k][:3] for k in range(5)])
    rest = np.setdiff1d(rows, shown, assume_unique=True)[:150]
    examples = FeatureTable(features[shown], NAMES[digit[shown]].tolist())
    pile = FeatureTable(features[rest], paths=[f"item {i}" for i in range(150)])
    truth = np.where(digit[rest] < 5, NAMES[np.minimum(digit[rest], 4)], "unknown")
    return examples, pile, truth


@pytest.fixture(scope="module")
def plain(tables):
    return label_items(*tables[:2])


@pytest.fixture
def folder(tables, tmp_path):
    write(tables[0], tmp_path / "examples.parquet")
    write(tables[1], tmp_path / "pile.parquet")
    return tmp_path


def label(handful, *options, out="out"):
    done = handful("label", "examples.parquet", "pile.parquet", "-o", out, *options)
    assert done.returncode == 0, done.stderr
    return done


def words(text):
    return " ".join(text.split())


# What is said


def test_every_labelling_says_how_many_labels_should_be_right(folder, handful, plain):
    done = label(handful)
    labels, right = int((~plain.unknown).sum()), plain.confidence[~plain.unknown].sum()
    assert f"Of {labels} labels about {right:.0f} should be right." in words(done.stdout)
    lines = [words(line) for line in done.stdout.splitlines()]
    page = (folder / "out/report.html").read_text()
    for name, expected in plain.expected_precision_by_class.items():
        number = f"{expected.right:.0f}" if expected.right >= 10 else f"{expected.right:.1f}"
        assert f"{name} {expected.labels} about {number} {100 * expected.precision:.0f} %" in lines
        assert f'<th scope="row">{name}' in page
    assert f'<span dir="auto">Of {labels} labels about {right:.0f} should be right.</span>' in page


def test_where_nothing_reaches_it_nothing_is_labelled_and_it_says_what_to_do(tables, plain):
    found = label_items(*tables[:2], precision=0.9999)
    said = " ".join(found.sentences)
    surest = plain.p_closest[~plain.unknown].max()
    assert f"the surest is right with a probability of {100 * surest:.0f} %, so nothing is labelled" in said
    assert "Give more examples of each class, or ask for less." in said
    assert found.unknown.all()


# Models, records and parts


def test_a_model_holds_to_it(tables, tmp_path):
    strict = label_items(*tables[:2], precision=0.9)
    strict.model.save(tmp_path / "model.safetensors")
    model = load(tmp_path / "model.safetensors")
    assert model.min_confidence_ == strict.min_confidence > 0
    new = predict_items(model, tables[1])
    np.testing.assert_array_equal(new.unknown, new.likely_unknown | (new.p_closest < strict.min_confidence))
    assert new.set_aside.any()
    assert model.predict(tables[1].features).tolist() == new.labels.tolist()
    assert "or when its label is right with a probability below" in new.decision
    assert label_items(*tables[:2]).model.min_confidence_ == 0


def test_predict_takes_a_precision_of_its_own(folder, handful):
    label(handful)
    arguments = ("predict", "out/model.safetensors", "pile.parquet")
    strict = json.loads(handful(*arguments, "--precision", 0.95, "--json").stdout)
    kept = [row["confidence"] for row in strict["items"] if row["label"] != "unknown"]
    assert np.mean(kept) == pytest.approx(strict["expected_precision"])
    assert 0.95 <= strict["expected_precision"] < 1
    assert_refused(handful(*arguments, "--precision", 2), "the precision is 2")


def test_promote_asks_for_the_same_precision(folder, handful):
    label(handful, "--precision", 0.9, "--outlier-share", 0.4)
    record = json.loads((folder / "out/results.json").read_text())
    assert sum(group["size"] for group in record["groups"]) <= record["unknown"] - record["set_aside"]
    done = handful("promote", "out", "1=new", "-o", "out2", "--json")
    said = json.loads(done.stdout)
    assert said["expected_precision"] >= 0.9
    again = json.loads((folder / "out2/results.json").read_text())["job"]["decision"]
    assert again["precision"] == 0.9
    part = record["groups"][0]["size"] / (record["unknown"] - record["set_aside"])
    assert again["outlier_share"] == pytest.approx(0.4 * (1 - part), abs=0.03)
