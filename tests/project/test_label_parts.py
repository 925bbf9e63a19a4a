"""A pile in parts, labelled part by part: as plain `label` labels one table, killed or not, here or on a cluster."""

import json
import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import forks
import numpy as np
import pyarrow as pa
import pytest
from piles import assert_refused, contents
from pyarrow import parquet

from handful import load
from handful.features import digits
from handful.features.parquet_file import arrow_table
from handful.project import large_pile as in_parts
from handful.project.items import silent
from handful.project.job import Job
from handful.project.labelling import label_items, predict_items
from handful.project.outputs import table_of_answers

RAY = ("--engine", "ray")
SIZES = (500, 0, 1, 1099, 400)  # rows of the parts


def write(path, features, labels=None, paths=None):
    embedding = pa.FixedSizeListArray.from_arrays(pa.array(features.ravel()), features.shape[1])
    columns = {"embedding": embedding, "label": labels, "path": paths}
    parquet.write_table(
        pa.table({name: pa.array(x) for name, x in columns.items() if x is not None}), path, row_group_size=300
    )


@pytest.fixture(scope="module")
def rows():
    """Five examples each of 0 to 4 with their names, and 2,000 digits of all kinds, shaken."""
    features, digit = digits()
    rng = np.random.default_rng(2)
    shown = np.concatenate([np.flatnonzero(digit == k)[:5] for k in range(5)])
    rest = rng.choice(np.setdiff1d(np.arange(len(digit)), shown), sum(SIZES))
    pile = (features[rest] + 0.3 * rng.normal(size=(len(rest), features.shape[1]))).astype(np.float32)
    return features[shown].astype(np.float32), [f"digit {k}" for k in digit[shown]], pile


@pytest.fixture
def folder(rows, tmp_path, monkeypatch):
    """examples.parquet, the pile as a table and in parts; a pile of some thousand rows counts as large."""
    monkeypatch.setattr(in_parts, "MIN_LARGE_PILE_ROWS", 1000)
    examples, labels, pile = rows
    write(tmp_path / "examples.parquet", examples, labels)
    names = [None if i % 400 == 7 else f"scans/{i}.png" for i in range(len(pile))]
    write(tmp_path / "pile.parquet", pile, paths=names)
    (tmp_path / "parts").mkdir()
    at = 0
    for number, size in enumerate(SIZES):
        here = slice(at, at + size)
        write(tmp_path / f"parts/part-{number:05d}.parquet", pile[here], paths=pa.array(names[here], pa.string()))
        at += size
    (tmp_path / "parts/shards.json").write_text(json.dumps({"shards": len(SIZES)}))
    return tmp_path


def label(handful, *options, pile="parts", out="out"):
    done = handful("label", "examples.parquet", pile, "-o", out, *options)
    assert done.returncode == 0, done.stderr
    return done


def labels_in(out):
    return [parquet.read_table(path) for path in sorted((out / "labels").iterdir())]


OPTIONS = [
    {},
    {"method": "eol", "unknown_rate": 0.25},
    {"precision": 0.9, "unknown": Path("others.parquet")},
    {"method": "knn"},  # its scores only rank
]


def test_parts_are_labelled_as_by_the_model_of_one_table(folder, rows, monkeypatch):
    """Of a pile that is smaller than the sample, the model is that of one table; it labels each item alone."""
    monkeypatch.chdir(folder)
    write("others.parquet", rows[2][[3, 60, 200, 900]])
    for number, options in enumerate(OPTIONS):
        decision = {name: value for name, value in options.items() if name != "unknown"}
        job = Job(Path("examples.parquet"), Path("pile.parquet"), decision, unknown=options.get("unknown"))
        examples, pile = job.read(silent)
        plain, out = label_items(examples, pile, **decision), Path(f"out{number}")
        outcome, _ = in_parts.label_in_parts(replace(job, pile=Path("parts")), out)
        assert outcome.sentences[0] == plain.outcome.sentences[0], options  # the examples
        parts = labels_in(out)
        assert [len(part) for part in parts] == list(SIZES)
        found, whole = pa.concat_tables(parts), arrow_table(table_of_answers(plain, pile.names))
        assert found.schema.equals(whole.schema.remove_metadata()), options
        assert found["path"].equals(whole["path"])
        assert np.mean(found["label"].to_numpy() == plain.labels) > 0.93, options
        alone = predict_items(load(out / "model.safetensors"), pile)
        assert found["label"].to_pylist() == alone.labels.tolist(), options
        np.testing.assert_allclose(found["outlier_score"], alone.outlier_scores, atol=2e-4)
        record, labels = json.loads((out / "results.json").read_text()), found["label"].to_pylist()
        assert record["unknown"] == labels.count("unknown")
        assert record["labels"] == {name: labels.count(name) for name in record["labels"]}
        expected = plain.outcome.numbers
        assert record["outlier_share"] == pytest.approx(expected["outlier_share"], abs=1e-6), options
        if record["expected_precision"] is not None:
            assert record["expected_precision"] == pytest.approx(expected["expected_precision"], abs=0.05), options


def test_all_that_is_left_are_labels_a_model_and_a_record(folder, handful):
    done = label(handful, "--method", "simpleshot")
    parts = [f"labels/part-{i:05d}.parquet" for i in range(len(SIZES))]
    assert sorted(contents(folder / "out")) == [*parts, "model.safetensors", "results.json"]
    said = " ".join(done.stdout.split())
    assert "The labels: out/labels, one part for each part of the pile" in said
    assert "handful label examples.parquet parts/part-00000.parquet -o one-part" in said
    assert_refused(handful("promote", "out", "1=five"), "the labels of a pile in parts cannot be used here")
    said = json.loads(label(handful, "--json", "--method", "simpleshot", "--overwrite").stdout)
    record = json.loads((folder / "out/results.json").read_text())
    assert said["items"] == sum(SIZES) == said["unknown"] + sum(said["labels"].values())
    assert Path(said["files"]["labels"]) == folder / "out/labels"
    assert {name: record[name] for name in said if name in record} == {k: v for k, v in said.items() if k in record}


def test_parts_without_paths_are_named_by_their_rows_and_carry_other_columns(folder, handful, rows):
    write(folder / "parts/part-00003.parquet", rows[2][501:1600])
    for number, size in enumerate(SIZES):
        path, at = folder / f"parts/part-{number:05d}.parquet", sum(SIZES[:number])
        part = parquet.read_table(path).append_column("id", pa.array(range(at, at + size), pa.int64()))
        mine = pa.array(["mine"] * size, pa.string())
        parquet.write_table(part.append_column("closest", mine), path)  # a name that handful uses too
    label(handful, "--method", "simpleshot")
    parts = labels_in(folder / "out")
    assert parts[3]["path"].to_pylist() == [f"row {i}" for i in range(501, 1600)]
    assert parts[4]["path"].to_pylist()[:8] == [*(f"scans/{i}.png" for i in range(1600, 1607)), "row 1607"]
    labels = pa.concat_tables(parts)
    assert labels["id"].to_pylist() == list(range(sum(SIZES)))
    assert labels["closest_2"].to_pylist() == ["mine"] * sum(SIZES)


# Runs that do not come to their end

KILLED = """
import os, signal, sys
from handful.cli import main
from handful.project import large_pile as in_parts

in_parts.MIN_LARGE_PILE_ROWS = 1000
what, when = sys.argv.pop(1), int(sys.argv.pop(1))
label = in_parts.label_in_parts

def progress(doing, done, total):
    if (doing, done) == (what, when):
        os.kill(os.getpid(), signal.SIGKILL)

in_parts.label_in_parts = lambda job, output, engine, _: label(job, output, engine, progress)
main()
"""


def kill(folder, what, when, *options):
    command = [what, when, "label", "examples.parquet", "parts", "-o", "out", *options]
    done = forks.run(*command, code=KILLED, cwd=folder)
    assert done.returncode == -signal.SIGKILL, done.stderr


def written(out):
    return {path.name: path.stat().st_mtime_ns for path in out.glob("**/*") if path.is_file()}


@pytest.mark.parametrize(("what", "when"), [("reading", 2), ("writing", 3)])
def test_a_run_that_was_killed_goes_on(folder, handful, what, when):
    options = ("--method", "eol", "--outlier-share", 0.5)
    label(handful, *options, out="undisturbed")
    kill(folder, what, when, *options)
    (unfinished,) = (folder / "out").iterdir()
    assert unfinished.name.startswith(".handful-parts-")
    before = {name: time for name, time in written(unfinished).items() if not name.endswith((".tmp", ".json"))}
    assert ("model.safetensors" in before) == (what == "writing")
    assert sum(name.startswith("part-") for name in before) >= when * (what == "writing")
    label(handful, *options)
    after = written(folder / "out")
    assert {name: after[name] for name in before} == before  # nothing is made twice
    for found, expected in zip(labels_in(folder / "out"), labels_in(folder / "undisturbed"), strict=True):
        assert found.equals(expected)
    assert sorted(os.listdir(folder / "out")) == ["labels", "model.safetensors", "results.json"]
    records = [json.loads((folder / out / "results.json").read_text()) for out in ("out", "undisturbed")]
    assert [{**record, "job": None} for record in records[:1]] == [{**records[1], "job": None}]


def test_what_was_asked_otherwise_is_not_gone_on_from(folder, handful):
    kill(folder, "writing", 1, "--method", "eol", "--outlier-share", "0.5")
    label(handful, "--method", "eol", "--outlier-share", 0.2, out="fresh")
    label(handful, "--method", "eol", "--outlier-share", 0.2)
    for found, expected in zip(labels_in(folder / "out"), labels_in(folder / "fresh"), strict=True):
        assert found.equals(expected)
    assert sorted(os.listdir(folder / "out")) == ["labels", "model.safetensors", "results.json"]


def test_a_run_that_fails_leaves_nothing(folder, handful, rows):
    damaged = rows[2][1600:].copy()
    damaged[250, 3] = np.nan
    write(folder / "parts/part-00004.parquet", damaged)
    assert_refused(handful("label", "examples.parquet", "parts", "-o", "out", "--method", "eol"), "NaN at row 1850")
    assert not (folder / "out").exists()


# Results that are there already


def test_results_are_replaced_only_if_asked_also_by_those_of_the_other_kind(folder, handful):
    label(handful, "--method", "simpleshot")
    before, part = contents(folder / "out"), "parts/part-00002.parquet"
    for pile in ("parts", part):
        assert_refused(handful("label", "examples.parquet", pile, "-o", "out"), "exists already", "--overwrite")
    assert contents(folder / "out") == before
    (folder / "parts/shards.json").unlink()
    (folder / "parts/part-00004.parquet").unlink()
    label(handful, "--overwrite", "--method", "simpleshot")
    assert [len(part) for part in labels_in(folder / "out")] == list(SIZES[:-1])
    label(handful, "--method", "simpleshot", "--overwrite", pile=part)
    names = {"labels.csv", "labels.parquet", "model.safetensors", "report.html", "results.json"}
    assert {*os.listdir(folder / "out")} == {*names, "project.sqlite", ".lock.sqlite"}
    label(handful, "--method", "simpleshot", "--overwrite")
    assert {*os.listdir(folder / "out")} == {"labels", "model.safetensors", "results.json", ".lock.sqlite"}


def test_a_folder_of_somebody_else_is_not_taken_for_labels(folder, handful):
    (folder / "parts").rename(folder / "labels")
    mine = folder / "out/labels/mine.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    before = contents(folder)
    for out, sentence in (
        (".", "'labels' is where the labels will be written: give another folder"),
        ("out", "'out/labels' exists and is not a folder of labels that handful wrote: give another folder"),
    ):
        assert_refused(handful("label", "examples.parquet", "labels", "-o", out, "--overwrite"), sentence)
    assert contents(folder) == before


# What cannot be done


def test_what_cannot_be_done_in_parts_is_refused(folder, handful, rows):
    write(folder / "narrow.parquet", rows[0][:, :32].copy(), rows[1])
    for examples, options, words in [
        ("examples", ("--export", "coco"), "--export needs the pile in memory, but this pile is labelled in parts"),
        ("examples", ("--sort", "copy"), "--sort sorts pictures, but a table has none: leave it out"),
        ("examples", ("--corrections", "c.json"), "--corrections needs the pile in memory"),
        ("examples", ("--set", "fdr=0.01"), "auto does not decide by a false-discovery rate"),
        ("examples", ("--set", "embedding=X"), "from the column 'embedding'"),
        ("narrow", (), "'narrow.parquet' has 32 features and 'parts' 64: both must come from the same backbone"),
    ]:
        assert_refused(handful("label", f"{examples}.parquet", "parts", "-o", "out", *options), words)
        assert not (folder / "out").exists()
    (folder / "parts/part-00003.parquet").unlink()
    for engine in ((), RAY):
        done = handful("label", "examples.parquet", "parts", "-o", "out", *engine)
        assert_refused(done, "'parts': part-00003.parquet is missing, of 5 parts")


# On a cluster


@pytest.mark.ray
def test_two_nodes_label_as_one_machine_does_also_if_one_is_killed(folder, handful, nodes):
    options = ("--set", "max_false_unknown=0.05")
    label(handful, *options, out="here")
    remote = ("--engine", f"ray:{nodes.address}")
    label(handful, *options, *remote, out="there")
    finished = threading.Event()

    def kill_a_node():
        parts = (folder / "killed").glob(".handful-parts-*/labels/part-*")
        while not finished.is_set() and not any(parts):
            time.sleep(0.01)
        nodes.kill()

    thread = threading.Thread(target=kill_a_node)
    thread.start()
    try:
        label(handful, *options, *remote, out="killed")
    finally:
        finished.set()
        thread.join()
        nodes.revive()
    for out in ("there", "killed"):
        for found, expected in zip(labels_in(folder / out), labels_in(folder / "here"), strict=True):
            assert found.equals(expected)  # to the last bit
        assert sorted(os.listdir(folder / out)) == ["labels", "model.safetensors", "results.json"]
