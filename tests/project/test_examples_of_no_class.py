"""Examples that belong to none of the classes: a folder `unknown`, the label "unknown", --unknown."""

import numpy as np
import pytest
from piles import PIXELS, assert_refused, fill, picture, rows_of

SENTENCE = "2 classes were shown by 3 examples each, and 2 examples of none of them; the pile holds 15 items."


@pytest.fixture
def folder(tmp_path):
    """Examples and a pile, and beside them pictures of no class in others/."""
    fill(tmp_path)
    (tmp_path / "others").mkdir()
    for i in range(2):
        picture("across", 200 + i).save(tmp_path / "others" / f"a{i}.png")
    return tmp_path


def words(text):
    return " ".join(text.split())


def test_a_folder_called_unknown_anywhere_holds_examples_of_no_class(folder, handful):
    for number, (place, options) in enumerate(
        [("others", ("--unknown", "others")), ("pile/others", ("--unknown", "pile/others")),
         ("examples/unknown", ()), ("examples/UNKNOWN", ())]
    ):  # fmt: skip
        next(path for path in folder.rglob("*") if path.name.casefold() in ("others", "unknown")).rename(folder / place)
        done = handful("label", "examples", "pile", "-o", f"out{number}", *PIXELS, *options)
        assert done.returncode == 0, done.stderr
        assert SENTENCE in words(done.stdout)
        rows = rows_of(folder / f"out{number}" / "labels.csv")
        assert {row["closest"] for row in rows} == {"left", "right"}
        assert [row["label"] for row in rows if row["path"].startswith("across")] == ["unknown"] * 5
        first = rows_of(folder / "out0" / "labels.csv")
        assert [row["outlier_score"] for row in rows] == [row["outlier_score"] for row in first]
        for results in folder.glob(f"out{number}/*"):  # of the next runs these are no examples
            if results.name != "labels.csv":
                results.unlink()
    (folder / "examples" / "UNKNOWN").rename(folder / "examples" / "nan")
    done = handful("label", "examples", "pile", "-o", "out", *PIXELS)
    assert_refused(done, "no class can be called 'nan', which means that an item has no label")


def table(path, examples, pile=()):
    rows = [f"{x},{y},{label}" for label, x, y in examples] + [f"{x},{y}," for x, y in pile]
    path.write_text("\n".join(["f1,f2,label", *rows]) + "\n")


PILE = [(0.01 * i, 1) for i in range(5)] + [(1, 0.01 * i) for i in range(5)] + [(-1, -1 + 0.01 * i) for i in range(5)]
SHOWN = [("a", 0, 1), ("a", 0.1, 1), ("b", 1, 0), ("b", 1, 0.1)]


def test_a_second_table_gives_examples_of_no_class(tmp_path, handful):
    table(tmp_path / "t.csv", SHOWN, PILE)
    (tmp_path / "u.csv").write_text("f2,f1\n-1.1,-1\n-1.2,-1\n")  # its columns in another order
    done = handful("label", "t.csv", "-o", "out", "--unknown", "u.csv", "--json")
    assert done.returncode == 0, done.stderr
    table(tmp_path / "one.csv", [*SHOWN, ("unknown", -1, -1.1), ("unknown", -1, -1.2)], PILE)
    assert handful("label", "one.csv", "-o", "second").returncode == 0
    first, second = (rows_of(tmp_path / name / "labels.csv") for name in ("out", "second"))
    assert [row["outlier_score"] for row in first] == [row["outlier_score"] for row in second]
    np.save(tmp_path / "u.npy", np.ones((3, 5), np.float32))
    assert_refused(handful("label", "t.csv", "-o", "out2", "--unknown", "u.npy"), "'u.npy'")


def test_a_wrong_place_is_told(folder, handful):
    table(folder / "t.csv", SHOWN, PILE)
    (folder / "empty").mkdir()
    (folder / "others" / "left0.png").write_bytes((folder / "examples" / "left" / "left0.png").read_bytes())
    for unknown, sentence in [
        ("gone", "there is no file or folder 'gone'"),
        ("t.csv", "--unknown 't.csv': give a folder of pictures, as the examples are"),
        ("empty", "'empty' holds no pictures"),
        ("others", "are the same picture under two classes"),
    ]:
        assert_refused(handful("label", "examples", "pile", "-o", "out", *PIXELS, "--unknown", unknown), sentence)
