"""Project folders out of a stranger's archive: refused in a sentence before the workbench listens, and unchanged."""

import io
import json
import os
import re
import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from workbenches import opened, run, show, write_digits

pytest.importorskip("fastapi")

from handful.project.events import Store
from handful.project.live import LiveProject
from handful.project.runs import SHAPES

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links and pipes")
FOLDER, FILE = ".handful-workbench", "project.sqlite"
VICTIM = b"what the user would miss\n"
TRIGGER = "CREATE TRIGGER evil AFTER INSERT ON events BEGIN DELETE FROM items; END"


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A folder of pictures with a project in it, after a run: what each attack begins with."""
    base = tmp_path_factory.mktemp("sound")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HANDFUL_CACHE", str(base / "cache"))
        truth = write_digits(base / "pictures", 30, 3)
        (base / "pictures" / "digits.parquet").unlink()
        project, client = opened(base / "pictures", backbone="pixels")
        show(client, truth, (0, 1), shots=3)
        assert run(client, project)["run"]["counts"]["labelled"]
        project.close()
    return base / "pictures"


@pytest.fixture
def pictures(sound, tmp_path):
    """A copy of it, beside a file that nobody may touch."""
    (tmp_path / "victim").write_bytes(VICTIM)
    return Path(shutil.copytree(sound, tmp_path / "pictures"))


def snapshot(folder, without=".lock.sqlite"):
    """Kinds and bytes of all that there is; SQLite's own shared memory and the lock say nothing."""
    found = {}
    for path in sorted(folder.rglob("*")):
        is_link = path.is_symlink()
        found[str(path.relative_to(folder))] = (
            os.readlink(path) if is_link else path.read_bytes() if path.is_file() else path.stat().st_mode
        )
    return {name: kind for name, kind in found.items() if not name.endswith(("-shm", ".lock.sqlite", without))}


def refuse_all(sound, tmp_path, cases, sentence="cannot be used", without=".lock.sqlite"):
    """Each case spoils a copy, which is refused in one line that says so, and not changed."""
    for number, (what, spoil) in enumerate(cases.items()):
        pictures = Path(shutil.copytree(sound, tmp_path / f"{number}" / "pictures"))
        (pictures.parent / "victim").write_bytes(VICTIM)
        spoil(pictures)
        before = snapshot(pictures.parent, without)
        for _ in range(2):  # it is not left locked
            with pytest.raises(ValueError, match=sentence) as refusal:
                LiveProject(pictures, backbone="pixels")
        assert len(str(refusal.value)) < 1000, what
        assert "\n" not in str(refusal.value), what
        assert snapshot(pictures.parent, without) == before, what


def change(pictures, *statements, pragma="writable_schema=OFF"):
    """Do something to the database that handful would not do."""
    with closing(sqlite3.connect(pictures / FOLDER / FILE, isolation_level=None)) as db:
        db.execute(f"PRAGMA {pragma}")
        for statement in statements:
            db.execute(*statement) if isinstance(statement, tuple) else db.execute(statement)
        db.execute("PRAGMA journal_mode=DELETE")


def changes(cases, **options):
    """Cases of `refuse_all` that run SQL."""

    def case(statements):
        some = [statements] if isinstance(statements, str | tuple) else statements
        return lambda pictures: change(pictures, *some, **options)

    return {name: case(statements) for name, statements in cases.items()}


def test_the_folder_that_the_attacks_begin_with_is_opened(pictures, own_cache):
    project = LiveProject(pictures)
    assert project.worker.wait(60)
    assert project.state.run is not None
    assert project.summary()["ready"] == 30
    project.close()


# ---- what the files are


def test_files_and_folders_of_a_project_that_are_none(sound, tmp_path):
    makers = {
        "a folder": lambda path: path.mkdir(),
        "a pipe": os.mkfifo,
        "a link": lambda path: path.symlink_to(path.parents[2] / "victim"),
        "a link to nothing": lambda path: path.symlink_to(path.parents[2] / "made by the attack"),
    }

    def case(name, make):
        def spoil(pictures):
            path = pictures / FOLDER / name
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
            make(path)

        return spoil

    for name in (FILE, f"{FILE}-wal", f"{FILE}-journal", ".lock.sqlite"):
        cases = {kind: case(name, make) for kind, make in makers.items() if name != FILE or kind != "a pipe"}
        refuse_all(sound, tmp_path / name, cases, re.escape(name))
    links = {name: case(name, makers["a link"]) for name in ("uploads", "exports")}
    refuse_all(sound, tmp_path / "folders", links, "is a link")
    assert not list(tmp_path.rglob("made by the attack"))


def test_a_project_folder_that_is_a_link_or_a_file(refuses, pictures):
    (pictures / FOLDER).rename(pictures.parent / "elsewhere")
    (pictures / FOLDER).symlink_to(pictures.parent / "elsewhere")
    assert "--project" in refuses("workbench", pictures, "--no-browser")
    (pictures / FOLDER).unlink()
    (pictures / FOLDER).write_bytes(b"a file")
    assert "not a folder" in refuses("workbench", pictures, "--no-browser")
    assert (pictures.parent / "victim").read_bytes() == VICTIM


DAMAGED = {
    "no database": lambda data: b"no database" * 1000,
    "cut short": lambda data: data[: len(data) // 2],
    "holes": lambda data: data[:4096] + b"\0" * (len(data) - 4096),
    "noise": lambda data: data[:2000] + b"\xa5" * 3000 + data[5000:],
}


def test_damaged_databases(refuses, sound, pictures, tmp_path):
    def case(damage):
        def spoil(folder):
            path = folder / FOLDER / FILE
            path.write_bytes(damage(path.read_bytes()))

        return spoil

    refuse_all(sound, tmp_path / "each", {name: case(damage) for name, damage in DAMAGED.items()})
    case(DAMAGED["holes"])(pictures)
    assert "cannot be used" in refuses("workbench", pictures, "--no-browser")  # by the command too


def test_a_log_that_brings_a_trigger(sound, tmp_path):
    def with_log(pictures):
        path = pictures / FOLDER / FILE
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute("PRAGMA journal_mode=WAL")
            db.execute(TRIGGER)
            copies = {end: Path(f"{path}{end}").read_bytes() for end in ("", "-wal")}
        for end, data in copies.items():
            Path(f"{path}{end}").write_bytes(data)

    refuse_all(sound, tmp_path / "log", {"log": with_log}, "trigger evil")


# ---- what the schema is

SCHEMAS = {
    "a missing table": "DROP TABLE runs",
    "one column more": "ALTER TABLE events ADD COLUMN note TEXT",
    "a trigger": TRIGGER,
    "a view in place of a table": ["DROP TABLE meta", "CREATE VIEW meta AS SELECT 'backbone' AS key, 'x' AS value"],
    "a view with a function": "CREATE VIEW peek AS SELECT load_extension('/tmp/evil.so')",
    "a virtual table": "CREATE VIRTUAL TABLE words USING fts5(text)",
    "another program's version": "PRAGMA user_version=0",
}


def test_schemas_that_are_not_ours(sound, tmp_path):
    refuse_all(sound, tmp_path / "each", changes(SCHEMAS))
    forged = {"a forged table": "UPDATE sqlite_master SET sql = 'CREATE TABLE runs (item' WHERE name = 'runs'"}
    refuse_all(sound, tmp_path / "forged", changes(forged, pragma="writable_schema=ON"))
    refuse_all(sound, tmp_path / "new", changes({"newer": "PRAGMA user_version=7"}), "newer handful")


# ---- what the rows are

ROWS = {
    "an item of another place": "UPDATE items SET origin = '../..' WHERE id = 3",
    "an item's name that is a blob": "UPDATE items SET name = zeroblob(10) WHERE id = 3",
    "a threshold that is infinite": "UPDATE runs SET threshold = 9e999",
    "arrays that are text": "UPDATE runs SET arrays = 'text'",
    "an event that is half undone": "UPDATE events SET is_undone = 'maybe'",
}
EVENTS = ["", "{", "[]", "[" * 100_000, *map(json.dumps, (
    {"labels": [["a", 0]]}, {"labels": 5}, {"labels": [[1]]}, {"classes": [[9, ["x"], None]]},
    {"classes": [[9, "x", 99]]}, {"checks": [[[], 1, 0]]}, {"threshold": [[1, "much"]]}, {"promoted": [[1, ["a"]]]},
))]  # fmt: skip


def test_rows_that_handful_does_not_write(sound, tmp_path):
    refuse_all(sound, tmp_path / "rows", changes(ROWS, pragma="ignore_check_constraints=ON"))
    texts = {text: ("UPDATE events SET what = ? WHERE id = 2", (text,)) for text in EVENTS}
    refuse_all(sound, tmp_path / "events", changes(texts), without=FILE)  # which has another journal mode now


def test_names_of_items_lead_nowhere(pictures, own_cache):
    """Only names that are found on the disk are items; others of the file are gone."""
    for number, name in enumerate(("../victim", "/etc/passwd", "a/../../victim", "", "a\0b.png"), 3):
        change(pictures, ("UPDATE items SET name = ? WHERE id = ?", (name, number)))
    project, client = opened(pictures)
    assert client.get("/project").json()["items"] == 30
    assert all(client.get(f"/pictures/{number}").status_code == 404 for number in range(3, 8))
    project.close()


# ---- what the last run is


def arrays_of(pictures):
    with closing(sqlite3.connect(pictures / FOLDER / FILE)) as db:
        (data,) = db.execute("SELECT arrays FROM runs").fetchone()
    with np.load(io.BytesIO(data)) as file:
        return {name: file[name] for name in SHAPES}


def packed(arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


RUNS = {
    "a pickle": lambda a: packed(a | {"scores": np.array([print], object)}),
    "no zip file": lambda a: b"\0" * 100,
    "cut short": lambda a: packed(a)[:-100],
    "an entry less": lambda a: packed({name: a[name] for name in list(a)[1:]}),
    "no item": lambda a: packed({name: array[:0] if name != "classes" else array for name, array in a.items()}),
    "numbers that are none": lambda a: packed(a | {"scores": a["scores"] * np.nan}),
    "one score less": lambda a: packed(a | {"scores": a["scores"][1:]}),
    "numbers that are text": lambda a: packed(a | {"ids": a["ids"].astype(str)}),
}
FACTS = [("groups", "all"), ("share", None), ("method", 5), ("again", "yes"), ("decision", "auto")]


def test_runs_that_no_method_made(sound, tmp_path, own_cache):
    cases = {name: ("UPDATE runs SET arrays = ?", (make(arrays_of(sound)),)) for name, make in RUNS.items()}
    with closing(sqlite3.connect(sound / FOLDER / FILE)) as db:
        facts = json.loads(db.execute("SELECT facts FROM runs").fetchone()[0])
    for fact, value in FACTS:
        cases[f"{fact}: {value}"] = "UPDATE runs SET facts = ?", (json.dumps(facts | {fact: value}),)
    for number, (name, spoil) in enumerate(changes(cases).items()):
        pictures = Path(shutil.copytree(sound, tmp_path / str(number)))
        spoil(pictures)
        with pytest.raises(ValueError, match=r"run 1 in .* is damaged") as refusal:
            LiveProject(pictures)
        assert len(str(refusal.value)) < 1000, name
        with closing(Store(pictures / FOLDER)) as store:  # what was said can be read all the same
            assert len(store.said.labels) == 6
