"""The benchmark when things go wrong: killed, interrupted, run twice at once, given bad input, out of space.

Real processes on real folders. Whatever happens, the same command then makes the very files of a run that nothing
happened to.
"""

import os
import re
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from piles import assert_refused, finish, start

from handful.features import FeatureTable, digits, write

parquet = pytest.importorskip("pyarrow.parquet")

LONG = (  # no kernels, for which threads are enough
    "bench", "imbalanced", "--methods", "knn,bdcspn,laplacianshot", "--features", "small.npz", "--tasks", 110,
    "-o", "out", "--jobs", 2,
)  # fmt: skip
BLOCKS = 3 * 3 * 2  # 100 tasks and 10 of each row and column
QUICK = ("bench", "ablation", "--features", "small.npz", "--tasks", 2, "-o", "out", "--jobs", 1)


def run(*arguments, cwd, **options):
    return finish(start(*arguments, cwd=cwd, **options))


def tables(folder):
    """Whatever stands beside the blocks, but for the picture."""
    return {
        path.name: path.read_bytes() for path in (folder / "out").glob("*.*") if path.suffix not in (".png", ".tmp")
    }


def blocks(folder):
    """The blocks, each of which is whole."""
    paths = sorted((folder / "out" / "blocks").glob("*/*.parquet"))
    for path in paths:
        first, last = map(int, path.stem.split("tasks")[1].split("-"))
        assert parquet.read_table(path, partitioning=None)["task"].to_pylist() == list(range(first, last + 1))
    return paths


def temporary(folder):
    return [path.name for path in folder.rglob("*.tmp")]


def stopped_after(folder, number, stop):
    """Start the long run, and stop it when there are so many blocks."""
    process = start(*LONG, cwd=folder)
    while process.poll() is None and len(list((folder / "out" / "blocks").glob("*/*.parquet"))) < number:
        time.sleep(0.01)
    stop(process)
    return finish(process)


def workers_of(process):
    try:
        pids = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        return [int(pid) for pid in pids if "LokyProcess" in Path(f"/proc/{pid}/cmdline").read_text()]
    except OSError:
        return []


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.fixture
def here(tmp_path):
    """A folder with the digits in a file: scikit-learn, where they come from, takes a second to import."""
    write(FeatureTable(*digits()), tmp_path / "small.npz")
    return tmp_path


# Killed, interrupted, at once, out of space


def test_killed_a_run_resumes_and_two_at_once_make_the_same_tables(here, tmp_path_factory):
    other, workers = tmp_path_factory.mktemp("at-once"), []

    def kill(process):
        workers.extend(workers_of(process))
        os.kill(process.pid, signal.SIGKILL)

    stopped_after(here, 5, kill)
    before = {path: path.stat().st_mtime_ns for path in blocks(here)}
    assert 0 < len(before) < BLOCKS
    assert not tables(here)
    end = time.monotonic() + 20
    while any(map(is_running, workers)) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(map(is_running, workers)), "workers outlive the process that was killed"
    assert run(*LONG, cwd=here).returncode == 0
    assert len(blocks(here)) == BLOCKS
    assert {path: path.stat().st_mtime_ns for path in before} == before
    write(FeatureTable(*digits()), other / "small.npz")
    for done in map(finish, [start(*LONG, cwd=other) for _ in range(2)]):
        assert done.returncode == 0, done.stderr
    assert tables(other) == tables(here)
    assert sorted(tables(here)) == [f"imbalanced.{suffix}" for suffix in ("csv", "json", "md", "tex")]
    assert len(blocks(other)) == BLOCKS
    assert not temporary(other)


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs /proc to find a worker")
def test_after_ctrl_c_or_a_killed_worker_what_is_finished_is_kept_and_it_says_how_to_go_on(here):
    done = stopped_after(here, 3, lambda process: os.kill(workers_of(process)[0], signal.SIGKILL))
    assert_refused(done, "a worker process ended (killed: out of memory?): finished results are kept")
    assert not temporary(here)
    assert not tables(here)
    before = len(blocks(here))
    done = stopped_after(here, before + 1, lambda process: os.killpg(process.pid, signal.SIGINT))  # as a terminal does
    assert done.returncode == 130, done.stderr
    assert "stored in out: the same command continues from there" in done.stdout
    assert done.stderr == ""
    assert before < len(blocks(here)) < BLOCKS
    assert not temporary(here)
    assert not tables(here)


def limited(size):
    """No file may grow beyond so many bytes, as on a full disk."""
    resource = pytest.importorskip("resource")
    return {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))}


def test_a_full_disk_is_told_of_and_the_same_command_goes_on(here):
    options = ("--methods", "knn,simpleshot", "--features", "small.npz", "--tasks", 110, "-o", "out")
    command = ("bench", "balanced", *options)
    done = run(*command, "--jobs", 2, cwd=here, **limited(2000))  # too little for a block
    assert_refused(done, "the results were not written: ", "the same command continues from there: ", "out'")
    assert not tables(here)
    assert not blocks(here)
    assert not temporary(here)
    assert run(*command, "--jobs", 1, cwd=here).returncode == 0
    before = tables(here)
    done = run(*command, "--jobs", 1, "--against", "knn", cwd=here, **limited(300))  # too little for a table
    assert_refused(done, "the results were not written: File too large")
    assert tables(here) == before
    assert not temporary(here)


# Bad input


def test_a_folder_that_cannot_be_written_is_found_out_first(here, handful):
    (here / "file").write_text("mine")
    assert_refused(handful(*QUICK, "-o", "file/out"), "results cannot be written there: ", "file/out")
    assert (here / "file").read_text() == "mine"


def test_bad_features_are_refused_in_a_sentence(here, handful):
    command = ("bench", "balanced", "--methods", "knn", "--tasks", 2, "-o", "out", "--features")
    rng = np.random.default_rng(0)
    few, unlabelled = np.repeat(np.arange(10), [30] * 9 + [19]), rng.normal(size=(90, 4))
    np.savez(here / "few.npz", features=rng.normal(size=(len(few), 4)), labels=few)
    np.savez(here / "unlabelled.npz", features=unlabelled)
    assert_refused(handful(*command, "few.npz"), "class 9 has 19 items, but ", " need 20")
    assert_refused(handful(*command, "unlabelled.npz"), "unlabelled has no labels: ", "--label")
    assert_refused(handful(*command, "none.npz"), "there is no file or folder 'none.npz'")
    words = "few has 4 features and small 64: the base set must come from the same backbone"
    assert_refused(handful(*QUICK, "--base", "few.npz"), words)
    assert not (here / "out").exists()


BAD_OPTIONS = (
    (["nonsense"], "no benchmark 'nonsense'; there are: balanced, imbalanced, sweep-b"),
    (["balanced", "--methods", "eol,nonsense"], "there is no method 'nonsense'; there are: auto, bdcspn"),
    (["balanced", "--methods", "eol+nonsense"], "'nonsense' gives no outlier score; use"),
    (["balanced", "--methods", "knn:kk=5"], "'knn:kk=5': knn has no parameter 'kk'; it has: k"),
    (["balanced", "--methods", "knn:k=0"], "k of knn must be a whole number from 1, or None, got 0"),
    (["balanced", "--methods", " , "], "no method is named"),
    (["balanced", "--methods", "eol,knn,eol"], "EOL is there twice"),
    (["ablation", "--methods", "knn"], "ablation is about EOL alone"),
    (["balanced", "--methods", "eol,knn", "--against", "oslo"], "'oslo' names none of .*: EOL, kNN"),
    (["balanced", "--methods", "knn:k=1,knn:k=3", "--against", "knn"], r"several of .*: kNN distance \(k=1\), kNN"),
    (["ablation", "--ways", "9"], "9 known and 5 outlier classes need 14 classes"),
    (["ablation", "--queries", "200"], "class 0 has 178 items, but tasks need 325"),
    (["claims", "--against", "eol"], "claims has comparisons of its own"),
    (["balanced", "--unequal", "0"], "unequal_shots is 0.0: give a concentration above 0"),
)


def test_bad_options_are_refused_before_anything_is_solved(tmp_path, handful):
    for options, sentence in BAD_OPTIONS:
        done = handful("bench", *options, "-o", "out")
        assert_refused(done)
        assert re.search(sentence, done.stderr), options
        assert not (tmp_path / "out").exists(), options
