"""The names of classes as one more example each."""

import json
from dataclasses import replace

import numpy as np
import pytest
from text_piles import fill_texts, write_tickets

from handful.features import FeatureTable
from handful.project.job import Job, check_paths, job_entries, read_job
from handful.project.text_items import with_class_names


def examples(labels, texts):
    return FeatureTable(np.empty((len(texts), 0), np.float32), labels, texts=texts, others={"id": [*range(len(texts))]})


def test_each_name_is_one_more_example():
    more = with_class_names(examples(["lost_card", "weather", "unknown"], ["where is it", "will it rain", "hello"]))
    assert list(more.texts[3:]) == ["lost card", "weather"]
    assert more.label_names[3:] == ["lost_card", "weather"]
    assert more.others["id"].tolist() == [0, 1, 2, None, None]
    assert more.notes[-1] == "The names of 2 classes count as one example each."


def test_names_that_would_contradict_or_say_nothing_are_left_out():
    for labels, texts in [
        (["weather", "card"], ["card", "weather"]),  # a name is the text of another class
        (["a_b", "a-b"], ["x", "y"]),  # two names with the same words
        (["--", "!"], ["x", "y"]),  # no words
    ]:
        assert len(with_class_names(examples(labels, texts))) == len(texts)


def words(texts):
    vocabulary = ["card", "weather", "rain", "cook", "recipe", "bank", "snow", "how", "my"]
    return np.array([[text.count(word) for word in vocabulary] for text in texts], np.float32) + 0.01


@pytest.mark.parametrize("kind", ["table", "folder"])
def test_a_job_reads_them_and_its_record_keeps_the_wish(tmp_path, kind):
    if kind == "table":
        job = Job(write_tickets(tmp_path / "t.csv"), backbone=words, class_names=True)
    else:
        fill_texts(tmp_path)
        job = Job(tmp_path / "examples", tmp_path / "pile", backbone=words, class_names=True)
    assert read_job(json.dumps({**job_entries(replace(job, backbone="")), "id": ""})).class_names is True
    found, pile = job.read(lambda *at: None)
    plain, same_pile = Job(job.examples, job.pile, backbone=words).read(lambda *at: None)
    assert list(found.texts[-2:]) == ["card", "weather"]
    assert len(found) == len(plain) + 2
    np.testing.assert_array_equal(pile.features, same_pile.features)


def test_they_are_for_texts_only(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("a,b,label\n1,2,x\n3,4,\n")
    with pytest.raises(ValueError, match="--set class_names=true needs texts, but the items are embeddings"):
        check_paths(Job(table, class_names=True), tmp_path / "out")
