"""A check of a folder of results: what is asked, what is kept in checked.json, and what follows from it."""

import json
import shutil

import numpy as np
import pytest
from piles import PIXELS, fill, rows_of

from handful.features import FeatureTable
from handful.project import Job, label_items, write_outputs
from handful.project.sitting import CHECKED_FILE, Answer, Check, update_report
from handful.project.stored_answers import read_answers
from handful.solving.check import WRONG, check_answers, draw_sample

KINDS = ("cat", "dog", "hen")


@pytest.fixture(scope="module")
def labelled():
    """A pile of three kinds, of which two are known; names say what items are."""
    rng = np.random.default_rng(0)
    kinds = {name: rng.normal(scale=0.9, size=(45, 8)) + 2 * np.eye(8)[k] for k, name in enumerate(KINDS)}
    examples = FeatureTable(np.concatenate([kinds["cat"][:5], kinds["dog"][:5]]), ["cat"] * 5 + ["dog"] * 5)
    pile = FeatureTable(
        np.concatenate([items[5:] for items in kinds.values()]),
        paths=[f"{name}{k}" for name in KINDS for k in range(40)],
        others={"weight": np.arange(120), "p_value": np.linspace(0, 1, 120)},
    )
    return lambda **options: label_items(examples, pile, **options)


@pytest.fixture(scope="module")
def results(labelled, tmp_path_factory):
    folder = tmp_path_factory.mktemp("results") / "out"
    write_outputs(labelled(), folder, job=Job(folder / "examples.csv", folder / "pile.csv", {"method": "auto"}))
    return folder


@pytest.fixture
def folder(results, tmp_path):
    """A copy of it without answers."""
    return shutil.copytree(results, tmp_path / "out")


def truth_of(name):
    kind = name.rstrip("0123456789")
    return "unknown" if kind == "hen" else kind


@pytest.mark.parametrize("options", [{}, {"precision": 0.97}, {"method": "knn", "outlier_share": 0.4}])
def test_answers_that_are_read_are_those_that_were_written(labelled, tmp_path, options):
    made = labelled(**options)
    write_outputs(made, tmp_path / "out", job=None)
    stored = read_answers(tmp_path / "out")
    assert stored.names == list(made.pile.names)
    assert stored.answers.labels.tolist() == made.labels.tolist()
    assert stored.answers.classes.tolist() == ["cat", "dog"]
    assert stored.answers.is_probability == made.is_probability
    np.testing.assert_allclose(stored.answers.confidence, made.confidence)
    assert list(stored.others) == ["weight", "p_value"]
    assert draw_sample(stored.answers, 20).tolist() == draw_sample(made, 20).tolist()
    said = {int(row): truth_of(stored.names[row]) for row in draw_sample(made, 20)}
    assert check_answers(stored.answers, said) == check_answers(made, said)


def test_examples_in_the_pile_are_not_asked(labelled, tmp_path):
    made = labelled(pile_labels={0: "cat", 1: "cat", 90: "bird"})
    marks = {"cat": [("cat0", "x"), ("cat1", "x")], "bird": [("hen10", "x")]}
    write_outputs(made, tmp_path / "out", job=Job(tmp_path / "e.csv", promoted=marks))
    check = Check(tmp_path / "out")
    assert check.stored.answers.is_given.nonzero()[0].tolist() == [0, 1, 90]
    asked = {question.item for question in check.questions(1000)}
    assert len(asked) == 117
    assert not asked & {"cat0", "cat1", "hen10"}


def test_each_answer_is_in_the_file_at_once_and_the_next_check_goes_on(folder):
    check = Check(folder, seed=4)
    order = [question.item for question in check.questions(30)]
    for k, question in enumerate(check.questions(12)):
        if k == 3:
            check.skip(question)
        else:
            check.answer(question, truth_of(question.item))
        document = json.loads((folder / CHECKED_FILE).read_text())
        assert len(document["answers"]) + len(document["skipped"]) == k + 1
    again = Check(folder)
    assert again.seed == 4
    assert again.answers == check.answers
    assert again.checked == check.checked
    assert again.checked.answers == 11
    assert [question.item for question in again.questions(18)] == order[12:]


def test_the_file_is_a_file_of_corrections(folder):
    check = Check(folder)
    first, second, third = check.questions(3)
    check.answer(first, "cat")
    check.answer(second, None)
    check.answer(third, "Unknown")
    document = json.loads((folder / CHECKED_FILE).read_text())
    assert document["corrections"] == [{"item": first.item, "label": "cat"}, {"item": third.item, "label": "unknown"}]
    assert document["checked"] == Check(folder).checked.as_json()
    assert {row["path"] for row in rows_of(folder / "labels.csv")} >= {first.item, third.item}


def test_corrections_from_elsewhere_stay_and_are_no_answers(folder):
    content = {"handful": "9", "corrections": [{"item": "cat7", "label": "dog"}], "more": {"any": "thing"}}
    (folder / CHECKED_FILE).write_text(json.dumps(content))
    check = Check(folder)
    assert not check.answers
    check.answer(check.questions(1)[0], None)
    assert json.loads((folder / CHECKED_FILE).read_text())["corrections"] == content["corrections"]


def test_that_a_label_was_wrong_says_nothing_of_another_label(folder):
    check = Check(folder)
    kept, changed = [question for question in check.questions(60) if question.says == "cat"][:2]
    check.answer(kept, None)
    check.answer(changed._replace(says="dog"), None)  # as if the pile was labelled again since
    assert set(check.truth.values()) == {WRONG}
    assert list(check.truth) == [kept.row]


def test_the_table_counts_what_was_looked_at(folder):
    check = Check(folder)
    for question in check.questions(1000):
        check.answers[question.item] = Answer(question.says, truth_of(question.item))
    counts = check.rows_by_class()
    labels = check.stored.answers.labels
    for name, (items, seen, right) in counts.items():
        assert items == seen == (labels == name).sum()
        assert right == sum(truth_of(check.stored.names[row]) == name for row in np.flatnonzero(labels == name))


def test_the_next_command_labels_the_same_pile_with_the_answers(folder):
    check = Check(folder)
    assert check.next_command() is None  # nothing to use yet
    check.answer(check.questions(1)[0], "cat")
    words = check.next_command().split()
    assert words[:3] == ["handful", "label", str(folder)]
    assert words[3:] == ["--corrections", str(folder / CHECKED_FILE), "-o", f"{folder}-2"]


def test_results_of_a_pile_in_parts_are_refused_with_a_sentence(folder):
    (folder / "labels.parquet").unlink()
    (folder / "labels.csv").unlink()
    with pytest.raises(ValueError, match=r"has no labels\.csv: label the pile again"):
        Check(folder)


def test_a_folder_without_a_report_needs_no_update(tmp_path):
    assert update_report(tmp_path, {"checked": {}, "made": ""}) == ""


@pytest.mark.parametrize("name", ["../secret.png", "/etc/passwd", "sub/../../x.png", "run.sh", "gone.png"])
def test_only_pictures_in_the_pile_are_opened(tmp_path, name):
    fill(tmp_path, 1)
    (tmp_path / "secret.png").write_bytes(b"x")
    (tmp_path / "pile" / "run.sh").write_bytes(b"x")
    rng = np.random.default_rng(0)
    examples = FeatureTable(rng.normal(size=(4, 3)), ["a", "a", "b", "b"])
    pile = FeatureTable(rng.normal(size=(2, 3)), paths=[name, "left0.png"])
    job = Job(tmp_path / "examples", tmp_path / "pile", backbone=PIXELS[1])
    write_outputs(label_items(examples, pile), tmp_path / "out", job=job)
    pictures = {question.item: question.picture for question in Check(tmp_path / "out").questions(2)}
    assert pictures == {name: None, "left0.png": (tmp_path / "pile" / "left0.png").resolve()}


def test_pictures_of_results_that_others_made_are_not_opened(tmp_path, monkeypatch):
    fill(tmp_path, 1)
    rng = np.random.default_rng(0)
    examples = FeatureTable(rng.normal(size=(4, 3)), ["a", "a", "b", "b"])
    job = Job(tmp_path / "examples", tmp_path / "pile")
    pile = FeatureTable(rng.normal(size=(1, 3)), paths=["left0.png"])
    write_outputs(label_items(examples, pile), tmp_path / "out", job=job)
    assert Check(tmp_path / "out").questions(1)[0].picture is not None
    monkeypatch.setenv("HANDFUL_CACHE", str(tmp_path / "another"))  # the cache of somebody else
    assert Check(tmp_path / "out").questions(1)[0].picture is None
