"""`handful check`, run as a user runs it: answers come from standard input, one in each line."""

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
from piles import PIXELS, fill, finish, start
from typer.testing import CliRunner

from handful.cli import app
from handful.cli.questions import parse_answer
from handful.project.sitting import Sitting


@pytest.fixture(scope="module")
def results(own_cache, tmp_path_factory):
    """A folder of pictures, labelled."""
    folder = fill(tmp_path_factory.mktemp("checked"), 6)
    done = finish(start("label", "examples", "pile", "-o", "out", *PIXELS, cwd=folder))
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def folder(results):
    shutil.rmtree(results / "copy", ignore_errors=True)
    shutil.copytree(results / "out", results / "copy")
    return results


@pytest.fixture
def check(folder, monkeypatch):
    """The command in this process: `check("y\\nn\\n", "--answers", 2)`."""
    monkeypatch.chdir(folder)

    def run(answers, *options):
        return CliRunner().invoke(app, ["check", "copy", *map(str, options)], input=answers)

    return run


def stored(folder):
    with closing(Sitting(folder / "copy", "check")) as sitting:
        return sitting.document()


def events_in(folder):
    """How many things were said, as another process has stored them."""
    with closing(sqlite3.connect(folder / "copy" / "project.sqlite")) as db:
        return db.execute("SELECT count(*) FROM events WHERE text LIKE 'check:%'").fetchone()[0]


def test_it_asks_stores_and_says_how_many_labels_are_right(folder, check):
    done = check("y\n" * 8, "--answers", 8)
    assert done.exit_code == 0, done.stderr
    assert "1 of 8: " in done.stdout
    assert "Right? [y]es, [n]o, [s]kip, [q]uit, or the class" in done.stdout
    assert "Checked 8 of 18: " in done.stdout
    assert "more answers would halve" in done.stdout
    assert "To use them as examples: handful label copy" in done.stdout
    document = stored(folder)
    assert len(document["answers"]) == 8
    assert all(answer["label"] == answer["says"] for answer in document["answers"])


def test_it_goes_on_where_it_stopped(folder, check):
    first = check("y\nq\n")
    assert "Checked 1 of 18" in first.stdout
    assert len(stored(folder)["answers"]) == 1
    check("n\ns\n")  # then the input ends
    document = stored(folder)
    assert sorted(answer["label"] is None for answer in document["answers"]) == [False, True]
    assert len(document["skipped"]) == 1
    named = [answer["item"] for answer in document["answers"]] + document["skipped"]
    assert len(set(named)) == 3


def test_json_is_all_that_standard_output_gets(folder, check):
    done = check("left\nu\n+lizard\n", "--answers", 3, "--json")
    document = json.loads(done.stdout)
    assert sorted(answer["label"] for answer in document["answers"]) == ["left", "lizard", "unknown"]
    assert document["checked"]["answers"] == 3
    assert set(document["checked"]["by_class"]) == {"left", "right"}
    assert "1 of 3: " in done.stderr


def test_an_answer_that_means_nothing_is_asked_for_again(folder, check):
    done = check("lefft\n\nleft\n", "--answers", 1)
    assert "there is no class 'lefft'" in done.stdout
    assert [answer["label"] for answer in stored(folder)["answers"]] == ["left"]


def test_all_items_can_be_looked_at(folder, check):
    done = check("y\n" * 18, "--answers", 100)
    assert "18 of 18: " in done.stdout
    assert "Checked 18 of 18: 100 % of the labels are right." in done.stdout
    assert "There is no item left to ask about." in check("", "--answers", 5).stdout


def test_two_checks_at_once_are_refused_and_what_was_stored_survives_a_kill(folder, check):
    before = events_in(folder)
    process = start("check", "copy", "--answers", "6", cwd=folder, stdin=subprocess.PIPE)
    process.stdin.write("y\nn\n")
    process.stdin.flush()
    end = time.monotonic() + 60
    while events_in(folder) < before + 2:
        assert time.monotonic() < end
        time.sleep(0.05)
    second = check("y\n")
    assert second.exit_code == 1
    assert "is in use by another process" in str(second.exception)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert len(stored(folder)["answers"]) == 2
    assert "Checked 3 of 18" in check("y\n").stdout


@pytest.mark.skipif(sys.platform != "linux", reason="a viewer of this test is a script")
def test_a_picture_opens_where_a_person_sits_at_a_terminal(folder, tmp_path):
    import pty

    (tmp_path / "xdg-open").write_text(f'#!/bin/sh\necho "$1" >> {tmp_path}/opened\n')
    (tmp_path / "xdg-open").chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "DISPLAY": ":99"}
    terminal, end = pty.openpty()
    os.write(terminal, b"y\n" * 2)
    process = start("check", "copy", "--answers", "2", cwd=folder, stdin=end, env=environment)
    assert finish(process).returncode == 0
    os.close(terminal)
    os.close(end)
    limit = time.monotonic() + 20
    while time.monotonic() < limit and len(opened(tmp_path)) < 2:
        time.sleep(0.05)
    assert len(opened(tmp_path)) == 2
    items = {answer["item"] for answer in stored(folder)["answers"]}
    assert {Path(path).name for path in opened(tmp_path)} == items


def opened(folder):
    path = folder / "opened"
    return path.read_text().split() if path.exists() else []


WHAT_A_PERSON_TYPES_CASES = [
    ("y", "hen"),
    ("YES", "hen"),
    ("n", None),
    ("no", None),
    ("s", ""),
    ("u", "unknown"),
    ("Unknown", "unknown"),
    ("1", "cat"),
    ("cat", "cat"),
    ("+emu", "emu"),
    ("+ unknown", "unknown"),
    ("+cat", "cat"),
]


def test_what_a_person_types():
    for text, said in WHAT_A_PERSON_TYPES_CASES:
        assert parse_answer(text, "hen", ["cat", "hen"], {"cat": 1, "hen": 2}) == said


def test_what_means_nothing_is_refused():
    for text in ["", "3", "0", "ca", "+", "+ -1", "+nan", "yess"]:
        with pytest.raises(ValueError, match="there is no class"):
            parse_answer(text, "hen", ["cat", "hen"], {"cat": 1, "hen": 2})


def test_a_class_whose_name_is_a_key_or_a_number_is_meant_by_its_name():
    assert parse_answer("y", "n", ["n", "y"], {}) == "y"
    assert parse_answer("7", "3", ["3", "7"], {}) == "7"
