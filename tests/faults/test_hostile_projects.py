"""Project folders out of a stranger's archive: refused in a sentence before the workbench listens, and unchanged."""

import io
import json
import os
import re
import shutil
import sqlite3
import sys
import zipfile
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from workbenches import client_of, run, show, write_digits

pytest.importorskip("fastapi")

from handful.project.runs import SHAPES
from handful.project.said import Store
from handful.workbench import LiveProject

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="forks, links and pipes")
FOLDER, FILE = ".handful-workbench", "project.sqlite"
VICTIM = b"what the user would miss\n"


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A folder of pictures with a project in it, after a run: what each attack begins with."""
    base = tmp_path_factory.mktemp("sound")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HANDFUL_CACHE", str(base / "cache"))
        truth = write_digits(base / "pictures", 30, 3)
        (base / "pictures" / "digits.parquet").unlink()
        project = LiveProject(base / "pictures", backbone="pixels")
        client = client_of(project)
        assert project.worker.wait(60)
        show(client, truth, (0, 1), shots=3)
        assert run(client, project)["run"]["counts"]["labelled"]
        project.close()
    return base / "pictures"


@pytest.fixture
def pictures(sound, tmp_path):
    """A copy of it, beside a file that nobody may touch."""
    (tmp_path / "victim").write_bytes(VICTIM)
    return Path(shutil.copytree(sound, tmp_path / "pictures"))


def snapshot(folder):
    """Kinds and bytes of all that there is; SQLite's own shared memory and the lock say nothing."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = os.readlink(path)
        elif path.is_file():
            found[name] = path.read_bytes()
        else:
            found[name] = path.stat().st_mode
    return {name: kind for name, kind in found.items() if not name.endswith(("-shm", ".lock.sqlite"))}


def refused(sandbox, pictures, *options):
    """The sentence; nothing has changed, and nothing was written elsewhere."""
    before = snapshot(pictures)
    sentence = sandbox.refuses("workbench", pictures, "--no-browser", "--json", *options)
    assert sentence.startswith("handful: ")
    assert sentence.count("\n") == 1, sentence
    assert snapshot(pictures) == before
    assert (pictures.parent / "victim").read_bytes() == VICTIM
    return sentence


def refuse_all(sound, tmp_path, cases, sentence="cannot be used"):
    """Each case spoils a copy, which is refused in one line that says so, and not changed."""
    for number, (what, spoil) in enumerate(cases.items()):
        pictures = Path(shutil.copytree(sound, tmp_path / f"{number}" / "pictures"))
        (pictures.parent / "victim").write_bytes(VICTIM)
        spoil(pictures)
        before = snapshot(pictures.parent)
        with pytest.raises(ValueError, match=sentence) as refusal:
            Store(pictures / FOLDER)
        assert len(str(refusal.value)) < 1000, what
        assert "\n" not in str(refusal.value), what
        assert snapshot(pictures.parent) == before, what


def changes(cases, **options):
    """Cases of `refuse_all` that run SQL."""

    def case(statements):
        some = [statements] if isinstance(statements, str | tuple) else statements
        return lambda pictures: change(pictures, *some, **options)

    return {name: case(statements) for name, statements in cases.items()}


def change(pictures, *statements, defensive=True):
    """Do something to the database that handful would not do."""
    with closing(sqlite3.connect(pictures / FOLDER / FILE, isolation_level=None)) as db:
        if not defensive:
            db.execute("PRAGMA writable_schema=ON")
        for statement in statements:
            db.execute(*statement) if isinstance(statement, tuple) else db.execute(statement)
        db.execute("PRAGMA journal_mode=DELETE")


def test_the_folder_that_the_attacks_begin_with_is_opened(pictures, own_cache):
    project = LiveProject(pictures)
    assert project.worker.wait(60)
    assert project.state.run is not None
    assert project.summary()["ready"] == 30
    project.close()


# ---- what the files are


def as_folder(path):
    path.mkdir()


def as_pipe(path):
    os.mkfifo(path)


def as_link(path):
    path.symlink_to(path.parents[2] / "victim")


def as_link_to_nothing(path):
    path.symlink_to(path.parents[2] / "made by the attack")


def test_files_of_the_database_that_are_none(sound, tmp_path):
    def case(name, make):
        def spoil(pictures):
            path = pictures / FOLDER / name
            path.unlink(missing_ok=True)
            make(path)

        return spoil

    for name in (FILE, f"{FILE}-wal", f"{FILE}-journal", ".lock.sqlite", ".lock.sqlite-journal"):
        makers = (as_folder, as_pipe, as_link, as_link_to_nothing)
        refuse_all(sound, tmp_path / name, {make.__name__: case(name, make) for make in makers}, re.escape(name))
    assert not list(tmp_path.rglob("made by the attack"))


@pytest.mark.parametrize("name", ["uploads"])
def test_folders_that_lead_elsewhere(sandbox, pictures, name):
    outside = pictures.parent / "outside"
    (outside / ".incoming-mine").mkdir(parents=True)
    (outside / ".making-mine").mkdir()
    shutil.rmtree(pictures / FOLDER / name, ignore_errors=True)
    (pictures / FOLDER / name).symlink_to(outside)
    assert "is a link" in refused(sandbox, pictures)
    assert len(list(outside.iterdir())) == 2


def test_a_project_folder_that_is_a_link_or_a_file(sandbox, pictures):
    (pictures / FOLDER).rename(pictures.parent / "elsewhere")
    (pictures / FOLDER).symlink_to(pictures.parent / "elsewhere")
    assert "--project" in refused(sandbox, pictures)
    (pictures / FOLDER).unlink()
    (pictures / FOLDER).write_bytes(b"a file")
    assert "not a folder" in refused(sandbox, pictures)


DAMAGED = {
    "no database": lambda data: b"no database" * 1000,
    "cut short": lambda data: data[: len(data) // 2],
    "only its header": lambda data: data[:100],
    "holes": lambda data: data[:4096] + b"\0" * (len(data) - 4096),
    "noise": lambda data: data[:2000] + b"\xa5" * 3000 + data[5000:],
    "another page size": lambda data: data[:16] + b"\x02\x00" + data[18:],
    "a huge count of pages": lambda data: data[:28] + b"\x7f\xff\xff\xff" + data[32:],
    "a newer SQLite": lambda data: data[:18] + b"\x09\x09" + data[20:],
}


def test_damaged_databases(sandbox, sound, pictures, tmp_path):
    def case(damage):
        def spoil(folder):
            path = folder / FOLDER / FILE
            path.write_bytes(damage(path.read_bytes()))

        return spoil

    refuse_all(sound, tmp_path / "each", {name: case(damage) for name, damage in DAMAGED.items()})
    case(DAMAGED["holes"])(pictures)
    assert "cannot be used" in refused(sandbox, pictures)  # by the command too


def test_a_lock_that_is_no_database(sandbox, pictures):
    (pictures / FOLDER / ".lock.sqlite").write_bytes(b"no lock" * 1000)
    assert ".lock.sqlite" in refused(sandbox, pictures)


def test_a_journal_that_would_change_the_database_after_it_was_looked_at(sandbox, pictures):
    path = pictures / FOLDER / FILE
    change(pictures)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("CREATE TRIGGER evil AFTER INSERT ON labels BEGIN DELETE FROM items; END")
        db.execute("PRAGMA cache_size=1")
        db.execute("PRAGMA cache_spill=1")
        db.execute("BEGIN")
        db.execute("DROP TRIGGER evil")
        db.execute("UPDATE items SET reason = zeroblob(5000)")
        shutil.copy(path, pictures.parent / "main")
        shutil.copy(f"{path}-journal", pictures.parent / "journal")
        db.execute("ROLLBACK")
    shutil.move(pictures.parent / "main", path)
    shutil.move(pictures.parent / "journal", f"{path}-journal")
    assert "-journal" in refused(sandbox, pictures)


def test_a_log_that_brings_a_trigger(sandbox, pictures):
    path = pictures / FOLDER / FILE
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("CREATE TRIGGER evil AFTER INSERT ON labels BEGIN DELETE FROM items; END")
        for end in ("", "-wal"):
            shutil.copy(f"{path}{end}", f"{pictures.parent / 'copy'}{end}")
    for end in ("", "-wal"):
        shutil.copy(f"{pictures.parent / 'copy'}{end}", f"{path}{end}")
    assert "trigger evil" in refused(sandbox, pictures)


# ---- what the schema is

SCHEMAS = {
    "a missing table": ["DROP TABLE labels"],
    "another missing table": ["DROP TABLE history"],
    "no table at all": [*(f"DROP TABLE {name}" for name in ("meta", "items", "classes", "labels", "runs", "history"))],
    "a missing index": ["DROP INDEX labels_of_class"],
    "a missing column": ["ALTER TABLE classes DROP COLUMN key"],
    "one column more": ["ALTER TABLE labels ADD COLUMN note TEXT"],
    "a renamed column": ["ALTER TABLE items RENAME COLUMN name TO path"],
    "a trigger": ["CREATE TRIGGER evil AFTER INSERT ON labels BEGIN DELETE FROM items; END"],
    "a trigger in place of a view": ["ALTER TABLE labels RENAME TO kept", "CREATE VIEW labels AS SELECT * FROM kept",
                                     "CREATE TRIGGER evil INSTEAD OF INSERT ON labels BEGIN SELECT 1; END"],
    "a view in place of a table": ["DROP TABLE meta", "CREATE VIEW meta AS SELECT 'backbone' AS key, 'x' AS value"],
    "a view with a function": ["CREATE VIEW peek AS SELECT load_extension('/tmp/evil.so')"],
    "a table of another program": ["CREATE TABLE bookmarks (url TEXT)"],
    "a virtual table": ["CREATE VIRTUAL TABLE words USING fts5(text)"],
    "an index on an expression": ["CREATE INDEX odd ON items (upper(name))"],
    "a column that is computed": ["DROP TABLE labels", "CREATE TABLE labels (item INTEGER PRIMARY KEY, class INTEGER "
                                  "GENERATED ALWAYS AS (item % 2) VIRTUAL)"],
    "a check that calls": ["DROP TABLE labels", "CREATE TABLE labels (item INTEGER PRIMARY KEY, class INTEGER NOT NULL "
                           "CHECK (class < 10))", "CREATE INDEX labels_of_class ON labels (class)"],
    "another program's version": ["PRAGMA user_version=0"],
    "a version below zero": ["PRAGMA user_version=-1"],
}  # fmt: skip


def test_schemas_that_are_not_ours(sandbox, sound, pictures, tmp_path):
    refuse_all(sound, tmp_path / "each", changes(SCHEMAS))
    change(pictures, *SCHEMAS["a trigger"])
    assert "trigger evil" in refused(sandbox, pictures)  # by the command too


def test_a_newer_format(sandbox, pictures):
    change(pictures, "PRAGMA user_version=7")
    assert "newer handful" in refused(sandbox, pictures)


FORGED = [
    "UPDATE sqlite_master SET sql = 'CREATE TABLE labels (item' WHERE name = 'labels'",
    "UPDATE sqlite_master SET rootpage = 99999 WHERE name = 'labels'",
    "UPDATE sqlite_master SET rootpage = (SELECT rootpage FROM sqlite_master WHERE name = 'items') WHERE name = 'runs'",
    "UPDATE sqlite_master SET sql = sql || '/*' || hex(zeroblob(3000000)) || '*/' WHERE name = 'labels'",
    "UPDATE sqlite_master SET name = 'items' WHERE name = 'labels'",
    "DELETE FROM sqlite_master WHERE name = 'sqlite_sequence'",
]


def test_schemas_that_were_forged(sound, tmp_path):
    refuse_all(sound, tmp_path, changes({statement: statement for statement in FORGED}, defensive=False))


# ---- what the rows are

TEXT_THAT_IS_NONE = "CAST(X'c328ff' AS TEXT)"
ROWS = {
    "an item of another place": "UPDATE items SET origin = '../..' WHERE id = 3",
    "an item's place that is a number": "UPDATE items SET origin = 5 WHERE id = 3",
    "an item's place that is a blob": "UPDATE items SET origin = CAST('pile' AS BLOB) WHERE id = 3",
    "an item above the folder": "UPDATE items SET name = '../victim' WHERE id = 3",
    "an item in the middle above": "UPDATE items SET name = 'a/../../victim' WHERE id = 3",
    "an item by its whole path": "UPDATE items SET name = '/etc/passwd' WHERE id = 3",
    "an item with a zero": "UPDATE items SET name = 'a' || char(0) || 'b.png' WHERE id = 3",
    "an item without a name": "UPDATE items SET name = '' WHERE id = 3",
    "an item's name that is no text": f"UPDATE items SET name = {TEXT_THAT_IS_NONE} WHERE id = 3",
    "an item's name that is a blob": "UPDATE items SET name = zeroblob(10) WHERE id = 3",
    "an item's name of a megabyte": "UPDATE items SET name = hex(zeroblob(500000)) WHERE id = 3",
    "an item with a negative number": "UPDATE items SET id = -3 WHERE id = 3",
    "an item with a number beyond JavaScript's": "UPDATE items SET id = 9223372036854775807 WHERE id = 3",
    "an item in no state": "UPDATE items SET state = 'evil' WHERE id = 3",
    "a reason that is a blob": "UPDATE items SET reason = zeroblob(100) WHERE id = 3",
    "a class's name that is a blob": "UPDATE classes SET name = zeroblob(10) WHERE id = 1",
    "a class's name that is a number": "UPDATE classes SET name = CAST(5 AS BLOB) WHERE id = 1",
    "a class without a name": "UPDATE classes SET name = '' WHERE id = 1",
    "a class with a negative number": "UPDATE classes SET id = -1 WHERE id = 1",
    "the class zero": "UPDATE classes SET id = 0 WHERE id = 1",
    "a key that is text": "UPDATE classes SET key = 'x' WHERE id = 1",
    "a key of twelve": "UPDATE classes SET key = 12 WHERE id = 1",
    "a label of no class": "UPDATE labels SET class = 77",
    "a label that is text": "UPDATE labels SET class = 'cat'",
    "a negative label": "UPDATE labels SET class = -1",
    "a label that is a fraction": "UPDATE labels SET class = 1.5",
    "a label of a negative item": "INSERT INTO labels VALUES (-5, 1)",
    "a threshold that is text": "UPDATE runs SET threshold = 'nan'",
    "a threshold that is infinite": "UPDATE runs SET threshold = 9e999",
    "a threshold that is a blob": "UPDATE runs SET threshold = zeroblob(8)",
    "a time of a megabyte": "UPDATE runs SET made = hex(zeroblob(500000))",
    "arrays that are text": "UPDATE runs SET arrays = 'text'",
    "arrays that are zeros": "UPDATE runs SET arrays = zeroblob(50000000)",
    "arrays that are empty": "UPDATE runs SET arrays = zeroblob(0)",
    "facts that are a blob": "UPDATE runs SET facts = zeroblob(10)",
    "facts that are no JSON": "UPDATE runs SET facts = '{'",
    "facts that are a list": "UPDATE runs SET facts = '[]'",
    "facts of a thousand depths": "UPDATE runs SET facts = replace(hex(zeroblob(50000)), '0', '[')",
    "a history that is a blob": "UPDATE history SET change = zeroblob(10)",
    "a step's text that is none": f"UPDATE history SET text = {TEXT_THAT_IS_NONE}",
    "a step that is half undone": "UPDATE history SET undone = 'maybe'",
    "a count that is text": "UPDATE sqlite_sequence SET seq = 'many'",
    "a count that is full": "UPDATE sqlite_sequence SET seq = 9223372036854775807",
    "a count that would give numbers again": "UPDATE sqlite_sequence SET seq = 0 WHERE name = 'classes'",
    "a run before that is text": "UPDATE history SET run_before = 'all'",
    "a run that is shown and is not there": "UPDATE meta SET value = '99' WHERE key = 'run'",
    "a run that is shown and is no number": "UPDATE meta SET value = '1e0' WHERE key = 'run'",
    "an answer for a run that is not there": "INSERT INTO checks VALUES (99, 1, 0)",
    "an answer that is text": "INSERT INTO checks VALUES (1, 1, 'right')",
    "an answer below all": "INSERT INTO checks VALUES (1, 1, -2)",
    "an answer for a negative item": "INSERT INTO checks VALUES (1, -1, 0)",
    "a skipped question of nobody": "INSERT INTO skipped VALUES (1, 1, 'me')",
    "a skipped question of a run that is not there": "INSERT INTO skipped VALUES (99, 1, 'ask')",
    "a mark that is a blob": "UPDATE items SET mark = zeroblob(10) WHERE id = 3",
    "a title that is no text": f"UPDATE items SET title = {TEXT_THAT_IS_NONE} WHERE id = 3",
    "a class that an item came with that is a number": "UPDATE items SET came_as = zeroblob(3) WHERE id = 3",
    "settings that are a blob": "UPDATE meta SET value = zeroblob(10)",
    "settings of a megabyte": "UPDATE meta SET value = hex(zeroblob(500000))",
}


def test_rows_that_handful_does_not_write(sound, tmp_path):
    refuse_all(sound, tmp_path, changes(ROWS))


def test_nothing_where_something_must_be(sound, tmp_path):
    """The schema says NOT NULL; a forger takes that away, and puts it back."""

    def case(column):
        table, name = column.split(".")

        def spoil(pictures):
            with closing(sqlite3.connect(pictures / FOLDER / FILE, isolation_level=None)) as db:
                (sql,) = db.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,)).fetchone()
                db.execute("PRAGMA writable_schema=ON")
                db.execute("UPDATE sqlite_master SET sql = replace(sql, 'NOT NULL', '') WHERE name = ?", (table,))
            change(pictures, f"UPDATE {table} SET {name} = NULL")
            change(pictures, ("UPDATE sqlite_master SET sql = ? WHERE name = ?", (sql, table)), defensive=False)

        return spoil

    columns = ("items.name", "items.state", "labels.class", "runs.threshold", "runs.arrays")
    refuse_all(sound, tmp_path, {column: case(column) for column in columns})


# ---- what the last run is


def arrays_of(pictures):
    with closing(sqlite3.connect(pictures / FOLDER / FILE)) as db:
        (data,) = db.execute("SELECT arrays FROM runs").fetchone()
    with np.load(io.BytesIO(data)) as file:
        return {name: file[name] for name in SHAPES}


def packed(arrays, save=np.savez):
    file = io.BytesIO()
    save(file, **arrays)
    return file.getvalue()


def npy_of(shape, dtype="<f8"):
    """A header that promises an array, and nothing after it."""
    header = repr({"descr": dtype, "fortran_order": False, "shape": shape}).encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


def with_entry(arrays, name, content):
    """The archive with one entry put in place of another."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(packed(arrays))) as old, zipfile.ZipFile(file, "w") as new:
        for entry in old.infolist():
            new.writestr(entry.filename, content if entry.filename == name else old.read(entry))
    return file.getvalue()


def object_array():
    file = io.BytesIO()
    np.save(file, np.array([print], object), allow_pickle=True)
    return file.getvalue()


RUNS = {
    "a bomb": lambda a: packed(a | {"scores": np.zeros(30_000_000)}, np.savez_compressed),
    "a terabyte promised": lambda a: with_entry(a, "scores.npy", npy_of((2**37,))),
    "more than there can be": lambda a: with_entry(a, "scores.npy", npy_of((2**62, 2**62))),
    "a negative length": lambda a: with_entry(a, "scores.npy", npy_of((-5,))),
    "a pickle": lambda a: with_entry(a, "scores.npy", object_array()),
    "an entry more": lambda a: packed(a | {"more": np.zeros(3)}),
    "an entry less": lambda a: packed({name: a[name] for name in list(a)[1:]}),
    "no item": lambda a: packed({name: array[:0] if name != "classes" else array for name, array in a.items()}),
    "no class": lambda a: packed(a | {"classes": a["classes"][:0], "probabilities": a["probabilities"][:, :0]}),
    "a class of minus one": lambda a: packed(a | {"classes": -a["classes"]}),
    "numbers that are none": lambda a: packed(a | {"scores": a["scores"] * np.nan}),
    "places that are infinite": lambda a: packed(a | {"flat": a["flat"] + np.inf}),
    "one score less": lambda a: packed(a | {"scores": a["scores"][1:]}),
    "numbers that are text": lambda a: packed(a | {"ids": a["ids"].astype(str)}),
    "numbers that are fractions": lambda a: packed(a | {"ids": a["ids"] + 0.5}),
    "a table turned": lambda a: packed(a | {"probabilities": a["probabilities"].T}),
    "labels of negative items": lambda a: packed(a | {"given_ids": -a["given_ids"]}),
    "labels that are none": lambda a: packed(a | {"given": a["given"] - 9}),
    "one label less": lambda a: packed(a | {"given": a["given"][1:]}),
    "negative items": lambda a: packed(a | {"map_ids": -a["map_ids"]}),
}  # fmt: skip


def test_runs_that_no_method_made(sound, tmp_path):
    cases = {name: ("UPDATE runs SET arrays = ?", (make(arrays_of(sound)),)) for name, make in RUNS.items()}
    refuse_all(sound, tmp_path, changes(cases), "last run")


FACTS = [("groups", "all"), ("groups", [["a"]]), ("groups", [[1.5]]), ("share", float("nan")), ("share", 10**40),
     ("share", None), ("share_low", "x"), ("left_out", [1]), ("method", 5), ("again", "yes"), ("share", 7),
     ("exemplars", "all"), ("exemplars", [[1.5]]), ("parts", [["a"]]), ("parts", [[[1]]] * 99), ("detail", 9),
     ("detail", "fine"), ("notice", 5), ("notice", None),
    ("asking", "all"), ("asking", ["a"]), ("min_confidence", 7), ("decision", "auto"), ("share_kept", 1),
]  # fmt: skip


def test_facts_that_no_method_gave(sound, tmp_path):
    with closing(sqlite3.connect(sound / FOLDER / FILE)) as db:
        facts = json.loads(db.execute("SELECT facts FROM runs").fetchone()[0])
    texts = {f"{fact}: {value}": json.dumps(facts | {fact: value}) for fact, value in FACTS}
    cases = {name: ("UPDATE runs SET facts = ?", (text,)) for name, text in texts.items()}
    refuse_all(sound, tmp_path, changes(cases), "last run")


# ---- what the history is


STEPS = ["", "{", "[]", "[[],[]]", '[[["a",1,2]],[],null]', "[[[1,-5,-6]],[],null]", "[5,5,5]",
     '[[],[[1,["x"],null]],null]', '[[],[[1,null,["x",99]]],null]', "[[],[],[1,NaN,NaN]]", "[[],[],[1,2]]",
     "[" * 100_000, "[[[1,99,null]],[],null]", "[[],[[1,null,[5,1]]],null]", "[[],[],null,[99,1],[]]",
     "[[],[],null,[1],[]]", "[[],[],null,5,[]]", "[[],[],null,null,[[[99,1],0,1]]]", "[[],[],null,null,[[[1],0,1]]]",
     "[[],[],null,null,[[[1,1],-2,0]]]", "[[],[],null,null]"]  # fmt: skip


def test_steps_that_nobody_took_cannot_be_undone(pictures, own_cache):
    project = LiveProject(pictures)
    client = client_of(project)
    before = client.get("/project").json()["classes"]
    for entry in STEPS:
        with project.store.write() as tx:
            tx.execute("UPDATE history SET change = ?", (entry,))
        answer = client.post("/undo")
        assert answer.status_code == 409, entry
        assert "damaged" in answer.json()["error"], entry
        assert client.get("/project").json()["classes"] == before, entry
    assert client.post("/export", json={"formats": ["csv", "coco"]}).status_code == 200
    project.close()
