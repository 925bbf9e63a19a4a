"""`handful promote` and `check` on files of strangers: refused in a sentence, and nothing is changed.

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

from handful.project.promotion import promote_groups

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


@pytest.mark.parametrize("what", CONTRADICTORY)
def test_what_a_record_asks_for_is_checked_as_if_the_user_had_asked(what, record, sandbox, tmp_path):
    change, sentence = CONTRADICTORY[what]
    write_record(tmp_path / "out", change(record))
    sort = ("--sort", "copy") if "sort" in sentence else ()
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


@pytest.mark.parametrize("run", ["../../t.csv", "OUT/t.csv", "\0", "", "x" * 100])
def test_the_id_of_a_strangers_record_is_no_path(run, record, sandbox, tmp_path):
    write_record(tmp_path / "out", changed(run=run.replace("OUT", str(sandbox.folder))[:100])(record))
    assert "was not written by a run of yours" in sandbox.refuses("promote", tmp_path / "out", "1=hen")


def test_at_a_terminal_the_user_sees_what_would_be_read_and_is_asked(record, sandbox, tmp_path):
    pty = pytest.importorskip("pty")
    out, table = write_record(tmp_path / "out", without("run")(record)), str(sandbox.folder / "t.csv")
    for answer, code in ((b"n\n", 1), (b"y\n", 0)):
        master, slave = pty.openpty()
        process = start("promote", out, "1=hen", cwd=tmp_path, stdin=slave)
        os.close(slave)
        os.write(master, answer)
        done = finish(process)
        os.close(master)
        assert done.returncode == code, done.stderr
        assert f"    examples: {table!r}\n" in done.stderr
        assert done.stderr.endswith("handful: nothing was done\n") is (code == 1)
        assert sorted(os.listdir(tmp_path)) == ["out"] + ["out-2"] * (code == 0)


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


def test_no_record_has_pictures_sorted(tmp_path, handful):
    fill(tmp_path, count=12)
    done = handful("label", "examples", "pile", "-o", "out", "--outlier-share", 0.33, *PIXELS, "--json")
    assert json.loads(done.stdout)["groups"], done.stderr
    record = json.loads(Path("out/results.json").read_text())
    Path("out/results.json").write_text(json.dumps(with_job(sort="copy")(record)))
    before = contents("pile")
    done = handful("promote", "out", "1=across", "-o", "second", "--yes")
    assert done.returncode == 0, done.stderr
    assert contents("pile") == before
    assert not Path("second/sorted").exists()
    assert json.loads(Path("second/results.json").read_text())["job"]["sort"] is None
    done = handful("promote", "out", "1=across", "-o", "third", "--yes", "--sort", "link")
    assert done.returncode == 0, done.stderr
    assert contents("pile") == before
    assert len(list(Path("third/sorted").glob("*/*"))) == len(before)
