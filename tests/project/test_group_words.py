"""Groups of unknown texts are called by their telling words, wherever a group is named."""

import csv
import json

import numpy as np
import pytest

from handful.cli.label import _document
from handful.features import FeatureTable
from handful.project.labelling import label_items, predict_items
from handful.project.outputs import table_of, words_of_classes, write_outputs
from handful.project.summary import groups_in_words
from handful.solving.groups import Group, join_groups, split_group, with_words

TEXTS = [
    ["the exchange rate in {}", "exchange rate for {} please", "is the exchange rate good"],
    ["lights in the {} off", "dim the lights please", "are the lights on in {}"],
    ["play the next song by {}", "next song please", "is the next song good"],
    ["a taxi to the {} please", "call me a taxi", "is the taxi in {}"],
]
PLACES = ["kenya", "rome", "york", "bonn", "lyon"]


def items(kind, count, texts=True, **more):
    rng = np.random.default_rng(kind)
    features = (rng.normal(scale=0.2, size=(count, 8)) + 2 * np.eye(8)[kind]).astype(np.float32)
    own = [TEXTS[kind][k % 3].format(PLACES[k % 5]) for k in range(count)]
    return FeatureTable(features, texts=own if texts else None, **more)


def stacked(tables, **more):
    texts = None if tables[0].texts is None else [text for table in tables for text in table.texts]
    return FeatureTable(np.concatenate([table.features for table in tables]), texts=texts, **more)


def label(texts=True):
    examples = stacked([items(0, 4, texts), items(1, 4, texts)], labels=["money"] * 4 + ["light"] * 4)
    return label_items(examples, stacked([items(kind, 18, texts) for kind in range(4)]))


@pytest.fixture(scope="module")
def labelled():
    return label()


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


def test_a_group_without_telling_words_keeps_its_number():
    assert with_words([Group(1, np.array([0, 1]), 0.5)], ["", "\0", "other"])[0].name == "group 1"


def test_groups_that_are_split_or_joined_get_words_of_their_own():
    texts = ["taxi now"] * 3 + ["next song"] * 3 + ["lights off"] * 6
    kinds = [Group(1, np.arange(3), 0.5), Group(2, np.arange(3, 6), 0.5)]
    named = with_words([Group(1, np.arange(6), 0.5, parts=kinds, words=["taxi now", "next song"])], texts)
    assert groups_in_words(named, 6)[2] == "Group 1 looks like 2 kinds, of 3 (taxi now) and 3 (next song)."
    parts = split_group(named, 1)
    assert [group.name for group in parts] == ["group 1: taxi now", "group 2: next song"]
    assert join_groups(parts, [1, 2])[0].words == ()
