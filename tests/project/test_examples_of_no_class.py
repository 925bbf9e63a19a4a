"""Examples that belong to none of the classes: a folder `unknown`, the label "unknown", --unknown."""

import json

import numpy as np
import pytest
from piles import PIXELS, assert_refused, fill, picture, rows_of

from handful.features import FeatureTable
from handful.project import label_items

SENTENCE = "2 classes were shown by 3 examples each, and 2 examples of none of them; the pile holds 15 items."


@pytest.fixture
def folder(tmp_path):
    """Examples and a pile, and beside them pictures of no class in others/."""
    fill(tmp_path)
    (tmp_path / "others").mkdir()
    for i in range(2):
        picture("across", 200 + i).save(tmp_path / "others" / f"a{i}.png")
    return tmp_path


def job(path):
    return json.loads((path / "results.json").read_text())["job"]


def words(text):
    return " ".join(text.split())


@pytest.mark.parametrize("name", ["unknown", "Unknown", "UNKNOWN"])
def test_a_folder_called_unknown_holds_examples_of_no_class(folder, handful, name):
    (folder / "others").rename(folder / "examples" / name)
    done = handful("label", "examples", "pile", "-o", "out", *PIXELS)
    assert done.returncode == 0, done.stderr
    assert SENTENCE in words(done.stdout)
    assert {row["closest"] for row in rows_of(folder / "out" / "labels.csv")} == {"left", "right"}
    across = [row["label"] for row in rows_of(folder / "out" / "labels.csv") if row["path"].startswith("across")]
    assert across == ["unknown"] * 5


@pytest.mark.parametrize("name", ["-1", "nan"])
def test_no_folder_of_a_class_has_a_name_that_means_no_label(folder, handful, name):
    (folder / "others").rename(folder / "examples" / name)
    done = handful("label", "examples", "pile", "-o", "out", *PIXELS)
    assert done.returncode == 1
    assert f"no class can be called '{name}', which means that an item has no label" in words(done.stderr)


def test_a_folder_anywhere_does_the_same_and_is_kept_in_the_record(folder, handful):
    done = handful("label", "examples", "pile", "-o", "out", *PIXELS, "--unknown", "others")
    assert done.returncode == 0, done.stderr
    assert SENTENCE in words(done.stdout)
    assert job(folder / "out")["unknown"] == str(folder / "others")
    (folder / "others").rename(folder / "examples" / "unknown")
    assert handful("label", "examples", "pile", "-o", "second", *PIXELS).returncode == 0
    first, second = (rows_of(folder / name / "labels.csv") for name in ("out", "second"))
    assert [row["outlier_score"] for row in first] == [row["outlier_score"] for row in second]


def test_pictures_of_the_pile_that_are_given_as_of_no_class_are_not_labelled(folder, handful):
    (folder / "others").rename(folder / "pile" / "others")
    done = handful("label", "examples", "pile", "-o", "out", *PIXELS, "--unknown", "pile/others")
    assert done.returncode == 0, done.stderr
    assert SENTENCE in words(done.stdout)


def test_results_are_labelled_again_and_promoted_with_their_examples_of_no_class(folder, handful):
    assert handful("label", "examples", "pile", "-o", "out", *PIXELS).returncode == 0
    done = handful("label", "out", "--unknown", "others", "--json")
    assert done.returncode == 0, done.stderr
    assert job(folder / "out")["unknown"] == str(folder / "others")
    done = handful("promote", "out", "1=across")
    assert done.returncode == 0, done.stderr
    assert job(folder / "out")["unknown"] == str(folder / "others")


def test_the_report_shows_examples_of_no_class_among_the_unknowns(folder, handful):
    assert handful("label", "examples", "pile", "-o", "out", *PIXELS, "--unknown", "others").returncode == 0
    page = (folder / "out" / "report.html").read_text("utf-8")
    data = page.split('id="data">')[1].split("</script>")[0]
    assert ["others/a0.png", 2, 2] in [row[:3] for row in json.loads(data)["items"]]  # an example of no class


def table(path, examples, pile=()):
    rows = [f"{x},{y},{label}" for label, x, y in examples] + [f"{x},{y}," for x, y in pile]
    path.write_text("\n".join(["f1,f2,label", *rows]) + "\n")


PILE = [(0.01 * i, 1) for i in range(5)] + [(1, 0.01 * i) for i in range(5)] + [(-1, -1 + 0.01 * i) for i in range(5)]
SHOWN = [("a", 0, 1), ("a", 0.1, 1), ("b", 1, 0), ("b", 1, 0.1)]


def test_rows_of_a_table_labelled_unknown_are_examples_of_no_class(tmp_path, handful):
    table(tmp_path / "t.csv", [*SHOWN, ("Unknown", -1, -1.1), ("unknown", -1, -1.2)], PILE)
    done = handful("label", "t.csv", "-o", "out")
    assert done.returncode == 0, done.stderr
    assert "2 classes were shown by 2 examples each, and 2 examples of none of them;" in words(done.stdout)
    labels = [row["label"] for row in rows_of(tmp_path / "out" / "labels.csv")]
    assert labels == ["a"] * 5 + ["b"] * 5 + ["unknown"] * 5


def test_a_second_table_gives_examples_of_no_class(tmp_path, handful):
    table(tmp_path / "t.csv", SHOWN, PILE)
    (tmp_path / "u.csv").write_text("f2,f1\n-1.1,-1\n-1.2,-1\n")  # its columns in another order
    done = handful("label", "t.csv", "-o", "out", "--unknown", "u.csv", "--json")
    assert done.returncode == 0, done.stderr
    table(tmp_path / "one.csv", [*SHOWN, ("unknown", -1, -1.1), ("unknown", -1, -1.2)], PILE)
    assert handful("label", "one.csv", "-o", "second").returncode == 0
    first, second = (rows_of(tmp_path / name / "labels.csv") for name in ("out", "second"))
    assert [row["outlier_score"] for row in first] == [row["outlier_score"] for row in second]


def test_a_table_of_another_width_is_refused(tmp_path, handful):
    table(tmp_path / "t.csv", SHOWN, PILE)
    np.save(tmp_path / "u.npy", np.ones((3, 5), np.float32))
    assert_refused(handful("label", "t.csv", "-o", "out", "--unknown", "u.npy"), "'u.npy'")


def test_examples_of_no_class_alone_are_too_little(folder, handful):
    for kind in ("left", "right"):
        for file in (folder / "examples" / kind).iterdir():
            file.unlink()
        (folder / "examples" / kind).rmdir()
    (folder / "others").rename(folder / "examples" / "unknown")
    done = handful("label", "examples", "pile", "-o", "out", *PIXELS)
    assert_refused(done, "only examples of no class: give a few examples of at least one class too")


@pytest.mark.parametrize(
    ("unknown", "sentence"),
    [
        ("gone", "there is no file or folder 'gone'"),
        ("t.csv", "--unknown 't.csv': give a folder of pictures, as the examples are"),
        ("empty", "'empty' holds no pictures"),
    ],
)
def test_a_wrong_place_is_told_before_the_work_or_when_it_is_read(folder, handful, unknown, sentence):
    table(folder / "t.csv", SHOWN, PILE)
    (folder / "empty").mkdir()
    assert_refused(handful("label", "examples", "pile", "-o", "out", *PIXELS, "--unknown", unknown), sentence)


def test_a_picture_that_is_of_a_class_and_of_none_is_refused(folder, handful):
    (folder / "others" / "left0.png").write_bytes((folder / "examples" / "left" / "left0.png").read_bytes())
    done = handful("label", "examples", "pile", "-o", "out", *PIXELS, "--unknown", "others")
    assert_refused(done, "are the same picture under two classes")


def test_one_class_and_examples_of_no_class_are_said_in_words():
    rng = np.random.default_rng(0)
    cats, owls = (rng.normal(scale=0.3, size=(20, 8)) + 2 * np.eye(8)[k] for k in range(2))
    examples = FeatureTable(np.concatenate([cats[:3], owls[:1]]), ["cat"] * 3 + ["Unknown"])
    labelled = label_items(examples, FeatureTable(np.concatenate([cats[3:], owls[1:]])))
    said = "1 class was shown by 3 examples, and 1 example of other things; the pile holds 36 items."
    assert labelled.sentences[0] == said
