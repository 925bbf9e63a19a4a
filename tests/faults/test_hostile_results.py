"""Results of strangers: what they ask for is checked, named and agreed to, and nothing is changed before.

What the user's own runs wrote is obeyed without a question. The file itself is attacked in test_hostile_projects.py.
"""

import io
import json
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from piles import contents, finish, start

from handful.features import practice
from handful.project import Project

LABEL = ("label", "table.csv", "-o", "out", "--outlier-share", 0.46, "--method", "kdo")
FILE = "project.sqlite"


@pytest.fixture(scope="module")
def results(tmp_path_factory, own_cache):
    """A labelled table, and the table beside it."""
    folder = tmp_path_factory.mktemp("results")
    practice("embeddings", folder)
    Project(folder / "out", examples=folder / "table.csv", outlier_share=0.46, method="kdo").label()
    return folder / "out"


def job_of(folder):
    with closing(sqlite3.connect(folder / FILE)) as db:
        return json.loads(db.execute("SELECT value FROM meta WHERE key = 'job'").fetchone()[0])


def stranger(results, folder, job=None):
    """A copy of results that nobody here has written; its job is changed."""
    shutil.copytree(results, folder)
    content = job if isinstance(job, str) else json.dumps(job_of(results) | {"id": "0" * 32} | (job or {}))
    with closing(sqlite3.connect(folder / FILE)) as db, db:
        db.execute("UPDATE meta SET value = ? WHERE key = 'job'", (content,))
    return folder


DAMAGED = {
    "no JSON": "{",
    "20,000 lists deep": "[" * 20_000,
    "an unknown entry": {"command": "rm -rf ~"},
    "examples with a NUL": {"examples": "/tmp\0/etc"},
    "the pile is a list": {"pile": ["/"]},
    "the decision names a file": {"decision": {"base": "/etc/passwd"}},
    "the backbone's threads": {"backbone_options": {"threads": 100_000}},
    "an export of another name": {"formats": ["../../autostart"]},
}
NEAR = {"examples": "OUT/table.csv", "results": ["OUT"]}  # all of them are in the folder
STRANGE = {
    "examples": ({"examples": "/home/me/private"}, "'/home/me/private' (examples)"),
    "pile": ({"pile": "/home/me/private"}, "'/home/me/private' (pile)"),
    "base": ({"base": "/home/me/x.base.safetensors"}, "'/home/me/x.base.safetensors' (base file)"),
    "results": ({"results": ["/home/me"]}, "'/home/me' (earlier results)"),
    "network": ({"backbone": "model.onnx"}, "'model.onnx' (backbone)"),
    "download": ({"backbone": "timm:hf_hub:me/evil"}, "'timm:hf_hub:me/evil' (backbone)"),
    "parents": ({"pile": "OUT/../../private"}, "private' (pile)"),
    "link": ({"pile": "OUT/link"}, "link' (pile)"),
}


def refusal(handful, *arguments):
    """The sentence with which a command is refused."""
    done = handful(*arguments)
    assert done.returncode == 1, done
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def test_a_job_that_no_run_stored_is_refused_even_if_the_user_agrees(results, handful, tmp_path):
    for number, (what, job) in enumerate(DAMAGED.items()):
        folder = stranger(results, tmp_path / f"{number}", job)
        before = contents(folder)
        said = refusal(handful, "label", folder, "--yes")
        assert "cannot be used: what it says of the pile is damaged" in said, what
        assert contents(folder) == before, what


def test_paths_of_a_stranger_are_named_and_asked_for(results, handful, tmp_path):
    for number, (what, (entries, sentence)) in enumerate(STRANGE.items()):
        folder = tmp_path / f"{number}"
        job = json.loads(json.dumps(NEAR | entries).replace("OUT", str(folder)))
        stranger(results, folder, job)
        shutil.copy(results.parent / "table.csv", folder)
        (folder / "link").symlink_to("/etc")
        said = refusal(handful, *(("label", folder) if number % 2 else ("promote", folder, "1=hen")))
        assert "was not written by a run of yours on this machine, and asks to use" in said, what
        assert sentence in said, what
        assert said.count("(") == 1, what
        assert "give --yes if that is right" in said, what
    job = {"examples": str(tmp_path / "out/table.csv"), "results": [str(tmp_path / "out")]}
    out = stranger(results, tmp_path / "out", job)
    shutil.copy(results.parent / "table.csv", out)  # all that it names is in its folder
    assert handful("promote", out, "1=hen", "-o", tmp_path / "second").returncode == 0
    assert (tmp_path / "second" / "labels.csv").is_file()


def test_at_a_terminal_the_user_sees_what_would_be_read_and_is_asked_once(results, tmp_path, handful):
    pty = pytest.importorskip("pty")
    out, path = stranger(results, tmp_path / "out", {"id": "1" * 32}), str(results.parent / "table.csv")
    for answer, code in ((b"n\n", 1), (b"y\n", 0)):
        master, slave = pty.openpty()
        process = start("label", out, cwd=tmp_path, stdin=slave)
        os.close(slave)
        os.write(master, answer)
        done = finish(process)
        os.close(master)
        assert done.returncode == code, done.stderr
        assert f"    examples: {path!r}\n" in done.stderr
        assert done.stderr.endswith("handful: nothing was done\n") is (code == 1)
    assert handful("label", out).returncode == 0  # it is remembered


def test_from_python_nobody_agrees_to_the_files_of_a_stranger(results, tmp_path, own_cache):
    folder = stranger(results, tmp_path / "out", {"cache": False})
    for project in (Project(folder), Project(folder)):
        with pytest.raises(ValueError, match="because nobody agreed to it"):
            project.label()


def test_ones_own_results_need_no_question_until_the_job_is_changed(tmp_path, handful):
    practice("embeddings", tmp_path)
    assert handful(*LABEL).returncode == 0
    Path("out").rename("elsewhere")
    assert handful("promote", "elsewhere", "1=hen", "-o", "second").returncode == 0
    with closing(sqlite3.connect("elsewhere/project.sqlite")) as db, db:
        db.execute("UPDATE meta SET value = ? WHERE key = 'job'", (json.dumps(job_of(Path("elsewhere")) | {"id": ""}),))
    done = handful("promote", "elsewhere", "1=hen", "-o", "third")
    assert done.returncode == 1
    assert "give --yes if that is right" in done.stderr
    assert not Path("third").exists()


def test_what_is_shown_beside_a_question_may_be_damaged(results, handful, tmp_path, monkeypatch):
    """labels.csv is only shown: the answers are stored elsewhere."""
    for number, content in enumerate([b"", b"PAR1" * 100, b"path\n\xff\n", b'path,label\n"a', b"label\ncat\n"]):
        folder = Path(shutil.copytree(results, tmp_path / f"{number}"))
        (folder / "labels.csv").write_bytes(content)
        monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
        done = handful("check", folder)
        assert done.returncode == 0, done.stderr
        assert "Checked 1 of" in done.stdout
