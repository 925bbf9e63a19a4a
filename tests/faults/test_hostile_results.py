"""`handful undo`, `promote` and `check` on files of strangers: refused in a sentence, nothing is moved.

What the user's own runs wrote is obeyed without a question; what is well formed and of others only if the user agrees.
"""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from piles import PIXELS, contents, fill, finish, start
from test_groups import table

from handful.label.move_journal import undo
from handful.label.promotion import promote_groups
from handful.label.subtree import Subtree

LABEL = ("label", "t.csv", "-o", "out", "--outlier-share", 0.46, "--method", "kdo")


# Records


@pytest.fixture(scope="module")
def record(sandbox):
    """What `handful label` writes, of a table."""
    table(sandbox.folder / "t.csv")
    done = sandbox.run(*LABEL)
    assert done.code == 0, done.stderr
    return json.loads((sandbox.folder / "out" / "results.json").read_text())


def changed(**entries):
    return lambda record: record | entries


def with_job(**entries):
    return lambda record: record | {"job": record["job"] | entries}


def with_decision(**entries):
    return lambda record: with_job(decision=record["job"]["decision"] | entries)(record)


def with_group(**entries):
    return lambda record: record | {"groups": [record["groups"][0] | entries, *record["groups"][1:]]}


def without(name):
    return lambda record: {key: entry for key, entry in record.items() if key != name}


def as_text(find, replacement):
    """Written by hand, as Python's writer would not."""
    return lambda record: json.dumps(record).replace(find, replacement)


def nested(depth, space=""):
    return f'{{{space}"a": ' * depth + "1" + "}" * depth


DAMAGED = {
    "no JSON": lambda _: "{",
    "empty": lambda _: "",
    "a list": lambda _: "[]",
    "a number": lambda _: "7",
    "null": lambda _: "null",
    "not UTF-8": lambda _: b'{"items": "\xff\xfe"}',
    "200,000 lists deep": lambda _: "[" * 200_000,
    "200,000 objects deep": lambda _: nested(200_000),
    "deep with room between": lambda _: nested(100_000, " " * 20),
    "deep in the decision": lambda record: json.dumps(record).replace('"auto"', nested(5000, " " * 20)).replace(
        '"outlier_share": 0.46', '"outlier_share": ' + nested(5000, " " * 20)
    ),
    "five million brackets": lambda _: "[" + "[],[],[],[],[]," * 333_333 + "[]]",
    "no groups entry": without("groups"),
    "no job entry": without("job"),
    "an unknown entry": changed(__class__="os.system"),
    "items is NaN": changed(items=float("nan")),
    "items is infinite": changed(items=float("inf")),
    "items is negative": changed(items=-5),
    "items is text": changed(items="43"),
    "items is true": changed(items=True),
    "items is a list": changed(items=[43]),
    "items has 400 digits": as_text('"items": 43', '"items": 1' + "0" * 400),
    "items has 5,000 digits": as_text('"items": 43', '"items": 1' + "0" * 5000),
    "nothing is unknown, and yet in groups": changed(unknown=0),
    "more unknown than items": changed(unknown=44),
    "the id is a list": changed(run=[1]),
    "groups are an object": changed(groups={"1": {}}),
    "groups are numbers": changed(groups=[1, 2]),
    "200,000 groups": changed(groups=[0] * 200_000),
    "a group's number is a list": with_group(number=[1]),
    "a group's number is 0": with_group(number=0),
    "two groups of one number": with_group(number=2),
    "a group's size is infinite": with_group(size=float("inf")),
    "a group's size is not that of its items": with_group(size=2),
    "a group's items are numbers": with_group(items=[1, 2]),
    "a group's items are triples": with_group(items=[["a", "b", "c"]] * 12),
    "a group's items are lists": with_group(items=[[["a"], ["b"]]] * 12),
    "a group's cohesion is 1e999": as_text('"cohesion": 0', '"cohesion": 1e999, "cohesion": 1e9990'),
    "exemplars are text": with_group(exemplars="all"),
    "an exemplar that is no item": with_group(exemplars=[12]),
    "an exemplar that is below 0": with_group(exemplars=[-1]),
    "an exemplar twice": with_group(exemplars=[1, 1]),
    "parts are numbers": with_group(parts=[1, 2]),
    "a part with a stranger": with_group(parts=[[0, 1], [2, 99]]),
    "parts that are not all": with_group(parts=[[0, 1], [2, 3]]),
    "an item in two parts": with_group(parts=[[*range(12)], [3]]),
    "a detail of 7": with_decision(group_detail=7),
    "the job is a list": changed(job=[]),
    "the job is text": changed(job="rm -rf"),
    "the job without results": lambda record: changed(job=without("results")(record["job"]))(record),
    "a job's unknown entry": with_job(command="rm -rf ~"),
    "examples are a number": with_job(examples=7),
    "examples are missing": with_job(examples=None),
    "examples with a NUL": with_job(examples="/tmp\0/etc"),
    "examples with half a character": as_text('"examples": "', '"examples": "\\ud800'),
    "examples of 100,000 characters": with_job(examples="/" + "x" * 100_000),
    "examples without a character": with_job(examples=""),
    "the pile is a list": with_job(pile=["/"]),
    "the base is an object": with_job(base={"path": "/"}),
    "the decision is a list": with_job(decision=[]),
    "the decision names a file": with_decision(base="/etc/passwd"),
    "the method is a list": with_decision(method=["kdo"]),
    "the share is an object": with_decision(outlier_share={}),
    "the share is 7": with_decision(outlier_share=7),
    "the share is NaN": with_decision(outlier_share=float("nan")),
    "the threshold is 1e999": with_decision(threshold=float("inf")),
    "the rate is text": with_decision(unknown_rate="1"),
    "the backbone is a number": with_job(backbone=3),
    "the backbone's threads": with_job(backbone_options={"threads": 100_000}),
    "the backbone's size is a billion": with_job(backbone_options={"size": 10**9}),
    "the backbone's mean is long": with_job(backbone_options={"mean": [0.5] * 100_000}),
    "an export of another name": with_job(formats=["../../autostart"]),
    "sorted by burning": with_job(sort="burn"),
    "results are text": with_job(results="/"),
    "promoted is a list": with_job(promoted=[["owl", []]]),
    "a promoted name of a million characters": with_job(promoted={"x" * 1_000_000: []}),
    "promoted items are text": with_job(promoted={"owl": "abc"}),
    "an engine that is none": with_job(engine="nuclear"),
    "strict is text": with_job(strict="no"),
}  # fmt: skip


def write_record(folder, content):
    folder.mkdir()
    place = folder / "results.json"
    if isinstance(content, bytes):
        place.write_bytes(content)
    else:
        place.write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


@pytest.mark.parametrize("what", DAMAGED)
def test_a_record_that_no_run_wrote_is_damaged_even_if_the_user_agrees(what, record, sandbox, tmp_path):
    write_record(tmp_path / "out", DAMAGED[what](record))
    before = contents(tmp_path)
    said = sandbox.refuses("promote", tmp_path / "out", "1=hen", "--yes")
    assert "is damaged (" in said
    assert said.count("\n") == 1
    assert contents(tmp_path) == before
    assert os.listdir(tmp_path) == ["out"]


def test_a_record_that_is_too_large_or_no_file_is_refused_unread(sandbox, tmp_path):
    write_record(tmp_path / "large", "{")
    os.truncate(tmp_path / "large" / "results.json", 2**40)
    assert "has more than 67,108,864 bytes" in sandbox.refuses("promote", tmp_path / "large", "1=hen")
    for name, make in (("folder", os.mkdir), ("pipe", os.mkfifo), ("device", lambda p: p.symlink_to("/dev/zero"))):
        (tmp_path / name).mkdir()
        make(tmp_path / name / "results.json")
        assert "has no results.json" in sandbox.refuses("promote", tmp_path / name, "1=hen")


# Answers of a check


@pytest.fixture(scope="module")
def names(record, sandbox):
    """The names of the items in the table of labels."""
    parquet = pytest.importorskip("pyarrow.parquet")
    return parquet.read_table(sandbox.folder / "out" / "labels.parquet")["path"].to_pylist()


def an_answer(**entries):
    return lambda name: {"answers": [{"item": name, "says": "cat", "label": None} | entries]}


BAD_ANSWERS = {
    "no JSON": lambda _: "{",
    "a list": lambda _: [],
    "null": lambda _: None,
    "not UTF-8": lambda _: b'{"answers": "\xff\xfe"}',
    "200,000 lists deep": lambda _: "[" * 200_000,
    "deep in an entry": lambda _: '{"answers": ' + nested(100_000, " " * 20) + "}",
    "answers are an object": lambda _: {"answers": {}},
    "answers are text": lambda _: {"answers": "all"},
    "an answer is a list": lambda name: {"answers": [[name, "cat", None]]},
    "200,000 answers": lambda name: {"answers": [{"item": name, "says": "cat", "label": None}] * 200_000},
    "an item that is no item of the pile": an_answer(item="../../etc/passwd"),
    "an item that is a number": an_answer(item=3),
    "an item of a million characters": an_answer(item="x" * 1_000_000),
    "a label that is a list": an_answer(label=["cat"]),
    "a label of a million characters": an_answer(label="x" * 1_000_000),
    "an answer without a label": lambda name: {"answers": [{"item": name, "says": "cat"}]},
    "an answer with another entry": an_answer(command="rm -rf ~"),
    "a correction of another pile": lambda _: {"corrections": [{"item": "elsewhere", "label": "cat"}]},
    "skipped items of another pile": lambda _: {"skipped": ["elsewhere"]},
    "skipped is a number": lambda _: {"skipped": 7},
    "a seed below 0": lambda _: {"seed": -1},
    "a seed that is infinite": lambda _: '{"seed": 1e999}',
    "a seed that is true": lambda _: {"seed": True},
}


@pytest.mark.parametrize("what", BAD_ANSWERS)
def test_answers_that_no_check_stored_are_refused_and_stay(what, names, sandbox, tmp_path):
    shutil.copytree(sandbox.folder / "out", tmp_path / "out")
    content = BAD_ANSWERS[what](names[0])
    if not isinstance(content, bytes):
        content = (content if isinstance(content, str) else json.dumps(content)).encode()
    (tmp_path / "out" / "checked.json").write_bytes(content)
    before = contents(tmp_path)
    said = sandbox.refuses("check", tmp_path / "out", stdin="y\n")
    assert "checked.json' cannot be used (" in said
    assert "move it away" in said
    assert contents(tmp_path) == before


def test_answers_that_are_too_many_bytes_are_refused_unread(names, sandbox, tmp_path):
    shutil.copytree(sandbox.folder / "out", tmp_path / "out")
    (tmp_path / "out" / "checked.json").write_text("{")
    os.truncate(tmp_path / "out" / "checked.json", 2**40)
    assert "has more than 67,108,864 bytes" in sandbox.refuses("check", tmp_path / "out")


def a_label(table, name, values):
    return table.set_column(table.column_names.index(name), name, [values])


BAD_TABLES = {
    "no labels": lambda t: t.drop_columns(["label"]),
    "labels that are numbers": lambda t: a_label(t, "label", [1] * len(t)),
    "another label": lambda t: a_label(t, "label", ["nobody", *t["label"].to_pylist()[1:]]),
    "fewer items": lambda t: t.slice(1),
    "a name twice": lambda t: a_label(t, "path", t["path"].to_pylist()[:1] * len(t)),
    "no names": lambda t: a_label(t, "path", [None] * len(t)),
    "P(unknown) of 7": lambda t: a_label(t, "p_unknown", [7.0] * len(t)),
    "P(unknown) of NaN": lambda t: a_label(t, "p_unknown", [float("nan")] * len(t)),
    "no probabilities": lambda t: t.select([name for name in t.column_names if not name.startswith("p_")]),
    "scores that are text": lambda t: a_label(t, "outlier_score", ["high"] * len(t)),
    "no columns": lambda t: t.select([]),
}


@pytest.mark.parametrize("what", BAD_TABLES)
def test_a_table_of_labels_that_no_run_wrote_is_damaged(what, names, sandbox, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    shutil.copytree(sandbox.folder / "out", tmp_path / "out")
    path = tmp_path / "out" / "labels.parquet"
    parquet.write_table(BAD_TABLES[what](parquet.read_table(path)), path)
    said = sandbox.refuses("check", tmp_path / "out", stdin="y\n")
    assert "labels.parquet' is damaged (" in said
    assert not (tmp_path / "out" / "checked.json").exists()


def test_a_table_of_labels_that_is_no_table_is_damaged(names, sandbox, tmp_path):
    shutil.copytree(sandbox.folder / "out", tmp_path / "out")
    (tmp_path / "out" / "labels.parquet").write_bytes(b"PAR1" * 100)
    assert "is damaged (" in sandbox.refuses("check", tmp_path / "out", stdin="y\n")


CONTRADICTORY = {
    "a method that is none": (with_decision(method="x" * 150), "there is no method"),
    "examples that are gone": (with_job(examples="/nowhere/at/all"), "is gone: put it back"),
    "a table and a folder": (with_job(pile="/tmp"), "not one of each"),
    "examples that are a program": (with_job(examples=sys.executable), "python"),
    "sorting a table": (lambda record: record, "--sort sorts pictures"),
    "items that are not in the pile": (
        with_group(items=[["x" * 4000, "y" * 4000]] * 12), "an example of 'hen', is gone"
    ),
}  # fmt: skip


@pytest.mark.parametrize("depth", [880, 920, 960, 980])
def test_entries_about_as_deep_as_python_reads_are_no_trouble(depth, record, sandbox, tmp_path):
    write_record(tmp_path / "out", json.dumps(record)[:-1] + ', "made_by": ' + nested(depth, " " * 20) + "}")
    sandbox.refuses("promote", tmp_path / "out", "1=hen")
    (tmp_path / "undo.jsonl").write_text('{"format": ' + nested(depth) + "}\n")
    sandbox.refuses("undo", tmp_path / "undo.jsonl")


@pytest.mark.parametrize("what", CONTRADICTORY)
def test_what_a_record_asks_for_is_checked_as_if_the_user_had_asked(what, record, sandbox, tmp_path):
    change, sentence = CONTRADICTORY[what]
    write_record(tmp_path / "out", change(record))
    sort = ("--sort", "move") if "sort" in sentence else ()
    assert sentence in sandbox.refuses("promote", tmp_path / "out", "1=hen", "--yes", *sort)
    assert os.listdir(tmp_path) == ["out"]


def test_a_group_that_is_the_whole_pile_leaves_nothing_to_label(record, sandbox, tmp_path):
    group = record["groups"][0] | {"size": 3, "items": record["groups"][0]["items"][:3], "exemplars": []}
    write_record(tmp_path / "out", record | {"items": 3, "unknown": 3, "groups": [group], "worth_asking": [0]})
    assert "nothing is left to label" in sandbox.refuses("promote", tmp_path / "out", "1=hen", "--yes")


STRANGE_PATHS = {
    "examples": ({"examples": "/home/me/private"}, "'/home/me/private' (examples)"),
    "pile": ({"pile": "/home/me/private"}, "'/home/me/private' (pile)"),
    "base": ({"base": "/home/me/x.base.safetensors"}, "'/home/me/x.base.safetensors' (base file)"),
    "results": ({"results": ["/home/me"]}, "'/home/me' (earlier results)"),
    "network": ({"backbone": "model.onnx"}, "'model.onnx' (backbone)"),
    "checkpoint": ({"backbone": "resnet12:weights.pth"}, "'resnet12:weights.pth' (backbone)"),
    "download": ({"backbone": "timm:hf_hub:me/evil"}, "'timm:hf_hub:me/evil' (backbone)"),
    "parents": ({"pile": "OUT/../../private"}, "private' (pile)"),
    "link": ({"pile": "OUT/link"}, "link' (pile)"),
}


@pytest.mark.parametrize("what", STRANGE_PATHS)
def test_paths_of_a_strangers_record_are_named_and_asked_for(what, record, sandbox, tmp_path):
    """All the others lie in the folder of results."""
    entries, sentence = STRANGE_PATHS[what]
    out = tmp_path / "out"
    near = {"examples": str(out / "t.csv"), "results": [str(out)]}
    entries = {name: entry.replace("OUT", str(out)) if name == "pile" else entry for name, entry in entries.items()}
    write_record(out, with_job(**near | entries)(record))
    shutil.copy(sandbox.folder / "t.csv", out)
    (out / "link").symlink_to("/etc")
    said = sandbox.refuses("promote", out, "1=hen")
    assert "was not written by a run of yours on this machine, and asks to use" in said
    assert sentence in said
    assert said.count("(") == 1
    assert "give --yes if that is right" in said
    assert os.listdir(tmp_path) == ["out"]


def test_a_record_that_names_nothing_outside_its_folder_is_promoted(record, sandbox, tmp_path):
    out = tmp_path / "out"
    write_record(out, with_job(examples=str(out / "t.csv"), results=[str(out)])(record))
    shutil.copy(sandbox.folder / "t.csv", out)
    done = sandbox.run("promote", out, "1=hen", "-o", tmp_path / "second")
    assert done.code == 0, done.stderr
    assert (tmp_path / "second" / "labels.csv").is_file()


def test_a_record_of_the_first_version_is_promoted_if_the_user_agrees(record, sandbox, tmp_path):
    write_record(tmp_path / "out", without("run")(record))
    assert "t.csv' (examples)" in sandbox.refuses("promote", tmp_path / "out", "1=hen")
    assert sandbox.run("promote", tmp_path / "out", "1=hen", "--yes").code == 0
    assert (tmp_path / "out-2" / "labels.csv").is_file()


def test_from_python_nobody_agrees_to_a_strangers_record(record, tmp_path):
    write_record(tmp_path / "out", without("run")(record))
    with pytest.raises(ValueError, match="because nobody agreed to it"):
        promote_groups(tmp_path / "out", {1: "hen"}, tmp_path / "second")


def test_ones_own_record_needs_no_question_until_it_is_changed(tmp_path, handful):
    table(tmp_path / "t.csv")
    assert handful(*LABEL).returncode == 0
    Path("out").rename("elsewhere")
    assert handful("promote", "elsewhere", "1=hen", "-o", "second").returncode == 0
    record = json.loads(Path("elsewhere/results.json").read_text())
    Path("elsewhere/results.json").write_text(json.dumps(with_job(sort="copy")(record)))
    done = handful("promote", "elsewhere", "1=hen", "-o", "third")
    assert done.returncode == 1
    assert "give --yes if that is right" in done.stderr
    assert not Path("third").exists()


def test_no_record_has_pictures_moved(tmp_path, handful):
    fill(tmp_path, count=12)
    done = handful("label", "examples", "pile", "-o", "out", "--outlier-share", 0.33, *PIXELS, "--json")
    assert json.loads(done.stdout)["groups"], done.stderr
    record = json.loads(Path("out/results.json").read_text())
    Path("out/results.json").write_text(json.dumps(with_job(sort="move")(record)))
    before = contents("pile")
    done = handful("promote", "out", "1=across", "-o", "second", "--yes")
    assert done.returncode == 0, done.stderr
    assert contents("pile") == before
    assert not Path("second/sorted").exists()
    assert json.loads(Path("second/results.json").read_text())["job"]["sort"] is None
    done = handful("promote", "out", "1=across", "-o", "third", "--yes", "--sort", "move")
    assert done.returncode == 0, done.stderr
    assert contents("pile") == {}
    assert handful("undo", "third/sorted/undo.jsonl").returncode == 0
    assert contents("pile") == before


# Journals


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def head(box, **entries):
    return {"handful": "0.1.0", "format": 2, "run": "0" * 32, "from": str(box / "pile")} | entries


def move(source="a.png", to="left/a.png"):
    return {"from": source, "to": to}


def new(source="a.png", to="left/a.png", **entries):
    """A journal of this version, as a stranger would write it."""
    return lambda box: lines(head(box, **entries), move(source, to))


def old(source="pile/a.png", to="left/a.png"):
    """A journal of the first version: whole paths."""
    return lambda box: lines(move(str(box / source), to))


def planted(link, target, journal):
    """A stranger's archive may hold links too, and a user's folders do."""

    def make(box):
        place = box / link
        shutil.rmtree(place, ignore_errors=True)
        place.unlink(missing_ok=True)
        place.symlink_to(box / target)
        return journal(box)

    return make


JOURNALS = {
    "takes from outside": (new(to="../outside/secret.png"), "not a place in a folder of sorted pictures"),
    "takes from outside by a whole path": (
        lambda box: new(to=str(box / "outside" / "secret.png"))(box), "not a place in a folder of sorted pictures"
    ),
    "takes from outside by detours": (new(to="left/../../outside/secret.png"), "not a place in a folder of sorted"),
    "old, takes from outside": (old(to="../outside/secret.png"), "not a place in a folder of sorted pictures"),
    "takes a link": (planted("sorted/left/a.png", "outside/secret.png", new()), "is a link, not a picture"),
    "takes from a folder that is a link": (
        planted("sorted/left", "outside", new("a.png", "left/secret.png")), "leads out of"
    ),
    "takes the journal": (new("undo.jsonl", "undo.jsonl"), "not a place in a folder of sorted pictures"),
    "takes from too deep": (new(to="left/right/a.png"), "not a place in a folder of sorted pictures"),
    "takes no name": (new(to=""), "not a place in a folder of sorted pictures"),
    "takes a name with a NUL": (new(to="left/a\0.png"), "not a place in a folder of sorted pictures"),
    "puts above": (new("../outside/a.png"), "not a place below"),
    "puts anywhere": (new("/etc/a.png"), "not a place below"),
    "puts above by detours": (new("sub/../../outside/a.png"), "not a place below"),
    "puts through a link": (planted("pile/sub", "outside", new("sub/a.png")), "leads out of"),
    "old, puts through a link": (
        planted("pile/sub", "outside", lambda box: old("pile/sub/a.png")(box) + old("pile/b.png", "left/b.png")(box)),
        "leads out of",
    ),
    "old, puts above": (old("pile/../outside/a.png"), "not a place that a picture came from"),
    "old, relative": (lambda _: lines(move("a.png")), "not a place that a picture came from"),
    "old, everywhere": (lambda _: lines(move("/etc/a.png"), move("/home/a.png")), "no folder in common"),
    "puts a program": (new("autostart/evil.desktop", "left/evil.desktop"), "is not a picture that handful sorts"),
    "old, puts a program": (old(".config/autostart/evil.desktop", "left/evil.desktop"), "is not a picture that"),
    "puts a picture as a program": (new("evil.sh", "left/a.png"), "is not a picture that handful sorts"),
    "puts a program as a picture": (new("a.png", "left/evil.desktop"), "is not a picture that handful sorts"),
    "puts a hidden file": (new(".a.png"), "is not a picture that handful sorts"),
    "puts into a hidden folder": (new(".ssh/a.png"), "is not a picture that handful sorts"),
    "puts half a character": (new("\ud800.png"), "not a place below"),
    "puts a NUL": (new("a\0.png"), "not a place below"),
    "puts 5,000 characters": (new("x" * 5000 + ".png"), "not a place below"),
    "the second of two is bad": (
        lambda box: lines(head(box), move(), move("b.png", "../outside/secret.png")), "not a place in a folder"
    ),
    "came from a relative folder": (new(**{"from": "pile"}), "does not say which folder"),
    "came from nowhere": (new(**{"from": None}), "does not say which folder"),
    "came from a NUL": (new(**{"from": "/tmp\0"}), "does not say which folder"),
    "came from detours": (new(**{"from": "/tmp/../etc"}), "does not say which folder"),
    "came from a folder that is gone": (new(**{"from": "/nowhere/at/all"}), "is gone: make it"),
    "came from a file": (lambda box: new(**{"from": str(box / "outside/secret.png")})(box), "is gone: make it"),
    "of a later format": (new(format=99), "has a format that"),
    "of a format that is a list": (new(format=[[2]] * 1000), "has a format that"),
    "200,000 deep": (lambda _: "[" * 200_000, "names no pictures"),
    "200,000 deep before moves": (lambda box: nested(200_000) + "\n" + old()(box), "its lines are damaged"),
    "a head that is deep": (lambda _: '{"format": ' + "[" * 50_000 + "\n", "names no pictures"),
    "a line of 10 MB": (lambda _: '{"from": "' + "x" * 10_000_000, "its lines are damaged"),
    "noise": (lambda _: bytes(range(256)) * 1000, "is not a journal of handful"),
    "empty": (lambda _: "", "names no pictures"),
    "a million empty lines": (lambda _: "\n" * 1_000_000, "its lines are damaged"),
    "lists for paths": (lambda _: lines({"from": ["/a"], "to": {"b": 1}}), "names no pictures"),
    "numbers for rows": (lambda _: "1\n2\n3\n", "names no pictures"),
}  # fmt: skip


@pytest.fixture
def box(tmp_path):
    """A sorted folder of a stranger's, the user's pile, and what is neither."""
    for name in ("sorted/left/a.png", "sorted/left/evil.desktop", "pile/c.png", "outside/secret.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


def journal_in(box, content):
    place = box / "sorted" / "undo.jsonl"
    place.write_bytes(content) if isinstance(content, bytes) else place.write_text(content)
    return place


@pytest.mark.parametrize("what", JOURNALS)
def test_a_journal_that_reaches_elsewhere_moves_nothing_even_if_the_user_agrees(what, box, sandbox):
    make, sentence = JOURNALS[what]
    journal = journal_in(box, make(box))
    before = contents(box)
    said = sandbox.refuses("undo", journal, "--yes")
    assert sentence in said
    assert said.count("\n") == 1
    assert contents(box) == before


def test_a_journal_that_is_too_large_or_no_file_is_refused_unread(box, sandbox):
    journal = journal_in(box, "{")
    os.truncate(journal, 2**40)
    assert "is not a journal of handful: it has 1,099,511,627,776 bytes" in sandbox.refuses("undo", journal, "--yes")
    journal.unlink()
    os.mkfifo(journal)
    assert "there is no file" in sandbox.refuses("undo", journal, "--yes")
    assert "there is no file" in sandbox.refuses("undo", box / "sorted", "--yes")


@pytest.mark.parametrize("make", [new(), old()], ids=["new", "old"])
def test_a_well_formed_journal_of_others_says_what_it_would_do_and_does_it_if_the_user_agrees(make, box, sandbox):
    journal = journal_in(box, make(box))
    before = contents(box)
    said = sandbox.refuses("undo", journal)
    assert "was not written by a run of yours on this machine, and asks to move 1 picture from" in said
    assert "/sorted' to '" in said
    assert "/pile': give --yes if that is right" in said
    assert contents(box) == before
    done = sandbox.run("undo", journal, "--yes")
    assert (done.code, done.stdout) == (0, "Pictures moved back to where they were: 1.\n"), done.stderr
    assert (box / "pile" / "a.png").read_text() == "sorted/left/a.png"
    assert sandbox.run("undo", journal).code == 0  # nothing is left to ask for


@pytest.mark.parametrize("run", ["../../pile/c.png", "PILE/c.png", None, 7, ["x"], "\0", "", "x" * 5000])
def test_the_id_of_a_strangers_journal_is_no_path(run, box, sandbox):
    run = run.replace("PILE", str(box / "pile")) if isinstance(run, str) else run
    (sandbox.folder / "cache" / "runs").mkdir(parents=True, exist_ok=True)
    done = sandbox.run("undo", journal_in(box, new(run=run)(box)), "--yes")
    assert done.code == 0, done.stderr
    assert sorted(os.listdir(box / "pile")) == ["a.png", "c.png"]


def test_from_python_nobody_agrees_to_a_strangers_journal(box):
    with pytest.raises(ValueError, match="because nobody agreed to it"):
        undo(journal_in(box, new()(box)))


def test_folders_that_are_gone_are_made_only_below_the_one_that_was_sorted(box, sandbox):
    done = sandbox.run("undo", journal_in(box, new("sub/deep/a.png")(box)), "--yes")
    assert done.code == 0, done.stderr
    assert (box / "pile" / "sub" / "deep" / "a.png").is_file()


def test_ones_own_journal_is_known_until_it_is_changed_copied_after_use_or_forgotten(tmp_path, handful, own_cache):
    fill(tmp_path, count=2)
    before = contents("pile")
    command = ("label", "examples", "pile", "-o", "out", "--sort", "move", *PIXELS)
    assert handful(*command).returncode == 0
    journal = Path("out/sorted/undo.jsonl")
    first = journal.read_text()
    journal.write_text(first.replace("left0.png", "left7.png", 1))
    assert "asks to move 6 pictures" in handful("undo", journal).stderr
    journal.write_text(first)
    (kept,) = (path for path in (own_cache / "runs").iterdir() if path.name in first)
    kept.rename(tmp_path / "away")
    assert "asks to move 6 pictures" in handful("undo", journal).stderr
    (tmp_path / "away").rename(kept)
    assert handful("undo", journal).returncode == 0
    assert contents("pile") == before
    shutil.copytree("pile", "out/sorted/left")  # as if a stranger sent it again, with pictures of his own
    for path in Path("pile").iterdir():
        path.unlink()
    assert "asks to move" in handful("undo", journal).stderr
    assert contents("pile") == {}


def test_a_strangers_journal_does_not_become_part_of_ones_own(box, handful):
    """Moves of the next run are written to a journal of their own; the other one is kept, and not obeyed."""
    fill(box, count=2)
    (box / "out" / "sorted").mkdir(parents=True)
    (box / "out" / "sorted" / "undo.jsonl").write_text(lines(move(str(box / "b.png"), "../../outside/secret.png")))
    assert handful("label", "examples", "pile", "-o", "out", "--sort", "move", *PIXELS).returncode == 0
    assert "secret" in (box / "out" / "sorted" / "undo-1.jsonl").read_text()
    assert handful("undo", "out/sorted/undo.jsonl").returncode == 0
    assert (box / "outside" / "secret.png").is_file()


def test_a_link_that_is_put_in_the_way_after_the_check_is_not_followed(box):
    with Subtree(box / "sorted") as tree, Subtree(box / "pile") as homes:
        (box / "pile" / "sub").mkdir()
        assert homes.check(["sub", "a.png"]) == ("sub", "a.png")
        (box / "pile" / "sub").rmdir()
        (box / "pile" / "sub").symlink_to(box / "outside")
        before = contents(box)
        with pytest.raises(OSError):
            tree.move(["left", "a.png"], homes, ["sub", "a.png"])
        (box / "sorted" / "left").rename(box / "left")
        (box / "sorted" / "left").symlink_to(box / "outside")
        with pytest.raises(OSError):
            tree.move(["left", "secret.png"], homes, ["a.png"])
        (box / "sorted" / "left").unlink()
        (box / "left").rename(box / "sorted" / "left")
        assert contents(box) == before


def answered(answer, *arguments, cwd):
    """A command at a terminal, with an answer typed."""
    pty = pytest.importorskip("pty")
    master, slave = pty.openpty()
    process = start(*arguments, cwd=cwd, stdin=slave)
    os.close(slave)
    os.write(master, answer)
    done = finish(process)
    os.close(master)
    return done


def test_at_a_terminal_the_user_sees_what_would_be_moved_and_is_asked(box, own_cache):
    journal = journal_in(box, new()(box))
    before = contents(box)
    done = answered(b"n\n", "undo", journal, cwd=box)
    assert done.returncode == 1
    assert f"From: '{box / 'sorted'}'\nTo:   '{box / 'pile'}'\n    'left/a.png' becomes 'a.png'\n" in done.stderr
    assert done.stderr.endswith("handful: nothing was done\n")
    assert contents(box) == before
    assert answered(b"y\n", "undo", journal, cwd=box).returncode == 0
    assert (box / "pile" / "a.png").is_file()
