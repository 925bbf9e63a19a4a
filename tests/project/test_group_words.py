"""Groups of unknown texts are called by their telling words, wherever a group is named."""

import csv
import json

import numpy as np
import pytest

from handful.cli.label import _document
from handful.features import FeatureTable
from handful.project.labelling import label_items, predict_items
from handful.project.outputs import table_of, words_of_classes, write_outputs

TEXTS = [
    ["the exchange rate in {}", "exchange rate for {} please", "is the exchange rate good"],
    ["lights in the {} off", "dim the lights please", "are the lights on in {}"],
    ["play the next song by {}", "next song please", "is the next song good"],
    ["a taxi to the {} please", "call me a taxi", "is the taxi in {}"],
]
PLACES = ["kenya", "rome", "york", "bonn", "lyon"]


def items(kinds, count, **more):
    rows = [(kind, k) for kind in kinds for k in range(count)]
    rng = np.random.default_rng(len(kinds))
    features = rng.normal(scale=0.2, size=(len(rows), 8)) + 2 * np.eye(8)[[kind for kind, _ in rows]]
    texts = [TEXTS[kind][k % 3].format(PLACES[k % 5]) for kind, k in rows]
    return FeatureTable(features.astype(np.float32), texts=texts, **more)


@pytest.fixture(scope="module")
def labelled():
    return label_items(items([0, 1], 4, labels=["money"] * 4 + ["light"] * 4), items(range(4), 18))


def test_groups_are_called_by_their_words(labelled):
    names = [group.name for group in labelled.groups]
    assert len(names) == 2
    assert sorted(name.split(": ")[0] for name in names) == ["group 1", "group 2"]
    assert {name.split(": ")[1].split(", ")[0].split()[-1] for name in names} == {"song", "taxi"}
    line = next(line for line in labelled.sentences if line.startswith("By their words: group 1 ("))
    assert "next song" in line
    assert "taxi" in line


def test_tables_record_and_json_have_the_names(labelled, tmp_path):
    names = {group.number: group.name for group in labelled.groups}
    rows = table_of(labelled).to_pylist()
    assert {row["group"]: row["group_name"] for row in rows if row["group"]} == names
    assert all(row["group_name"] is None for row in rows if not row["group"])
    files = write_outputs(labelled, tmp_path / "out", title="Tickets")
    record = json.loads(files["results.json"].read_text("utf-8"))
    assert {group["number"]: group["name"] for group in record["groups"]} == names
    assert [group["name"] for group in _document(labelled, {})["groups"]] == list(names.values())
    with files["labels.csv"].open(encoding="utf-8", newline="") as file:
        assert {row["group_name"] for row in csv.DictReader(file)} == {*names.values(), ""}


def test_words_of_classes_come_from_labels_and_examples(labelled):
    words = words_of_classes(labelled)
    assert list(words) == ["light", "money"]
    assert (words["money"][0], words["light"][0]) == ("exchange rate", "lights")
    again = predict_items(labelled.model, labelled.pile)  # it has no examples, but its labels have words
    assert again.groups == []
    assert words_of_classes(again)["money"][0] == "exchange rate"
