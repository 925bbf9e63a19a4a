"""`handful predict` on what users have: one picture, several, folders, or a table."""

import json

import pytest
from piles import PIXELS, assert_refused, fill, picture, rows_of

MODEL = "out/model.safetensors"


@pytest.fixture
def here(handful, tmp_path):
    """A folder with a model in out/, labels of a pile, and pictures that the model has not seen."""
    fill(tmp_path)
    done = handful("label", "examples", "pile", "-o", "out", "--outlier-share", 0.33, *PIXELS)
    assert done.returncode == 0, done.stderr
    for kind in ("left", "right", "across"):
        picture(kind, 77).save(tmp_path / f"new-{kind}.png")
    return tmp_path


def printed(done):
    assert done.returncode == 0, done.stderr
    return {path: label for label, _, path in (line.split("\t") for line in done.stdout.splitlines())}


def test_one_picture_gets_its_label(here, handful):
    for kind, label in {"left": "left", "right": "right", "across": "unknown"}.items():
        assert printed(handful("predict", MODEL, f"new-{kind}.png")) == {f"new-{kind}.png": label}


def test_several_pictures_and_folders_go_together(here, handful):
    done = handful("predict", MODEL, "new-left.png", "pile", "new-across.png")
    labels = printed(done)
    assert labels.pop("new-left.png") == "left"
    assert labels.pop("new-across.png") == "unknown"
    assert labels == {f"pile/{row['path']}": row["label"] for row in rows_of("out/labels.csv")}
    assert list(labels) == list(printed(handful("predict", MODEL, "pile", "new-left.png")))[:-1]


def test_one_picture_is_labelled_as_it_is_among_others(here, handful):
    alone = json.loads(handful("predict", MODEL, "pile/left0.png", "--json").stdout)["items"][0]
    among = json.loads(handful("predict", MODEL, "pile", "--json").stdout)["items"]
    same = next(row for row in among if row["path"] == "left0.png")
    assert alone["path"] == "pile/left0.png"
    assert alone["label"] == same["label"]
    assert alone["confidence"] == pytest.approx(same["confidence"], abs=1e-6)


def test_labels_of_one_picture_can_be_written(here, handful):
    done = handful("predict", MODEL, "new-right.png", "-o", "new.csv")
    assert done.returncode == 0, done.stderr
    assert [(row["path"], row["label"]) for row in rows_of("new.csv")] == [("new-right.png", "right")]


def test_a_bad_picture_is_skipped_beside_good_ones_and_named_alone(here, handful):
    (here / "bad.png").write_bytes((here / "new-left.png").read_bytes()[:200])
    done = handful("predict", MODEL, "bad.png", "new-left.png", "--json")
    document = json.loads(done.stdout)
    assert [row["path"] for row in document["items"]] == ["new-left.png"]
    assert [row["path"] for row in document["skipped"]] == ["bad.png"]
    alone = handful("predict", MODEL, "bad.png")
    assert alone.returncode == 1
    message = alone.stderr.splitlines()[-1]  # after the bar of progress
    assert message.startswith("handful: there is no picture that could be read: 'bad.png' is cut short")
    strict = handful("predict", MODEL, "bad.png", "new-left.png", "--strict")
    assert strict.returncode == 1
    assert strict.stderr.splitlines()[-1].startswith("handful: bad.png is cut short")


def test_what_cannot_be_labelled_is_refused_in_a_sentence(here, handful):
    (here / "notes.txt").write_text("not a picture")
    (here / "empty").mkdir()
    assert_refused(handful("predict", MODEL, "gone.png"), "there is no file or folder 'gone.png'")
    assert_refused(handful("predict", MODEL, "new-left.png", "notes.txt"), "'notes.txt' is not a picture")
    assert_refused(handful("predict", MODEL, "out/labels.csv", "out/labels.parquet"), "one single table of embeddings")
    assert_refused(handful("predict", MODEL, "new-left.png", "gone.png"), "there is no file or folder 'gone.png'")
    assert_refused(handful("predict", MODEL, "notes.txt"), "notes.txt")
