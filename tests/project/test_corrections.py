"""`handful label --corrections`: what a person says of single items makes examples of them, run after run."""

import json
import os
from shutil import copytree

import pytest
from piles import PIXELS, assert_refused, fill, rows_of

from handful.project import Project
from handful.project.corrections import read_corrections

SHARE = ("--outlier-share", 0.33)


@pytest.fixture(scope="module")
def results(own_cache, tmp_path_factory):
    """Results in out/, made from folders of pictures; `across` is a kind that no example shows."""
    folder = fill(tmp_path_factory.mktemp("results"))
    options = {"backbone": "pixels", "outlier_share": 0.33}
    Project(folder / "out", folder / "examples", folder / "pile", **options).label()
    return folder / "out"


@pytest.fixture
def folder(results, tmp_path):
    """A folder with a copy of them in out/."""
    copytree(results, tmp_path / "out")
    return tmp_path


def write_json(path, **labels):
    entries = [{"item": f"{name}.png", "label": label} for name, label in labels.items()]
    path.write_text(json.dumps({"handful": "0.2.0", "made": "by hand", "corrections": entries}))
    return path


def labels_of(path):
    return {row["path"].removesuffix(".png"): row["label"] for row in rows_of(path / "labels.csv")}


def promoted(path):
    record = json.loads((path / "results.json").read_text())
    return {name: sorted(item for item, _ in items) for name, items in record["job"]["promoted"].items()}


def test_corrected_items_become_examples_of_old_and_new_classes_and_of_none(folder, handful):
    file = write_json(folder / "c.json", left0="right", across0="across", across1="across", right0="Unknown")
    done = handful("label", "out", "--corrections", file, "-o", "second", "--json")
    assert done.returncode == 0, done.stderr
    labels = labels_of(folder / "second")
    assert (labels["left0"], labels["right0"]) == ("right", "unknown")
    assert labels["across2"] == labels["across3"] == "across"  # of items that nobody corrected
    assert promoted(folder / "second") == {
        "right": ["left0.png"], "across": ["across0.png", "across1.png"], "unknown": ["right0.png"]
    }  # fmt: skip
    page = (folder / "second" / "report.html").read_text("utf-8")
    assert "3 classes were shown by 2 to 4 examples each, and 1 example of none of them; the pile holds 15" in page
    assert labels_of(folder / "out")["left0"] == "left"  # the earlier results stay


def test_further_corrections_keep_the_earlier_ones_and_replace_what_they_contradict(folder, handful):
    first = write_json(folder / "first.json", across0="across", across1="across", left0="unknown")
    second = write_json(folder / "second.json", left0="left", across1="unknown")
    assert handful("label", "out", "--corrections", first).returncode == 0
    done = handful("label", "out", "--corrections", second)
    assert done.returncode == 0, done.stderr
    assert promoted(folder / "out") == {"across": ["across0.png"], "left": ["left0.png"], "unknown": ["across1.png"]}
    assert labels_of(folder / "out")["left0"] == "left"
    assert handful("label", "out", "--undo").stdout.startswith("Taken back: 2 items labelled.")
    assert promoted(folder / "out") == {"across": ["across0.png", "across1.png"], "unknown": ["left0.png"]}
    assert handful("label", "out", "--undo").returncode == 0
    assert_refused(handful("label", "out", "--undo"), "nothing to take back")
    assert_refused(handful("label", "examples", "pile", "--undo"), "--undo takes back")


def test_files_of_corrections_are_read_as_they_were_meant(tmp_path):
    path = tmp_path / "checked.json"
    path.write_text(json.dumps({"corrections": [{"item": "a", "label": None}, {"item": "b", "label": "cat"}]}))
    assert read_corrections([path]) == {"b": "cat"}  # a label that is only called wrong is left out
    path = tmp_path / "c.csv"  # with cells that would be formulas, and names with quotes
    path.write_text('\ufeffpath,label,note\n\'=1+1.png,\'-cat,x\n"two\nlines, and """,  cafe\u0301 ,y\n', "utf-8")
    assert read_corrections([path]) == {"=1+1.png": "-cat", 'two\nlines, and "': "caf\u00e9"}


def test_names_that_are_no_text_are_found_by_what_the_tables_call_them(tmp_path, handful):
    fill(tmp_path)
    os.rename(tmp_path / "pile" / "across0.png", os.fsencode(tmp_path / "pile") + b"/caf\xe9.png")
    (tmp_path / "c.csv").write_text("path,label\ncaf\\udce9.png,across\nacross1.png,across\n")
    done = handful("label", "examples", "pile", "-o", "out", *PIXELS, *SHARE, "--corrections", "c.csv")
    assert done.returncode == 0, done.stderr
    assert {row["path"]: row["label"] for row in rows_of(tmp_path / "out" / "labels.csv")}["caf\\udce9.png"] == "across"


def test_corrections_that_cannot_be_used_are_refused_and_nothing_is_said(folder, handful):
    write_json(folder / "c.json", left0="right")
    write_json(folder / "all.json", **dict.fromkeys(labels_of(folder / "out"), "left"))
    for options, sentence in [
        (("c.json", "--method", "eol"), "--method: the pile of 'out' is labelled again"),
        (("c.json", "--outlier-share", 0.5), "--outlier-share: the pile of 'out'"),
        (("c.json", "--set", "base=x"), "--set: the pile of 'out'"),
        (("gone.json",), "there is no file 'gone.json'"),
        (("all.json",), "nothing is left to label"),
    ]:
        assert_refused(handful("label", "out", "--corrections", *options), sentence)
    assert promoted(folder / "out") == {}


def test_a_table_of_corrections_that_names_a_column_twice_is_refused(tmp_path):
    path = tmp_path / "c.csv"
    for head in ("path,label,label", "path,label,path"):
        path.write_text(f"{head}\na,cat,hen\n")
        with pytest.raises(ValueError, match=r"it must have one column '(path|label)'"):
            read_corrections([path])
