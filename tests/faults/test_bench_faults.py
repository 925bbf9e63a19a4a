"""The benchmark when things go wrong: killed, interrupted, run twice at once, given bad input, out of space.

Real processes on real folders. Whatever happens, the same command then makes the very files of a run that nothing
happened to.
"""

import os
import pickle
import random
import re
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from piles import assert_refused, finish, start

from handful.bench import Store
from handful.features import FeatureTable, digits, write

parquet = pytest.importorskip("pyarrow.parquet")

METHODS = "knn,simpleshot,bdcspn,laplacianshot,soft_kmeans,openmax"  # no kernel that is loaded once there is time
LONG = (
    "bench", "imbalanced", "--methods", METHODS, "--features", "small.npz", "--tasks", 110, "-o", "out", "--jobs", 3,
)  # fmt: skip
BLOCKS = 3 * 6 * 2  # of the long one: 100 tasks and 10 of each row and column
QUICK = ("bench", "ablation", "--features", "small.npz", "--tasks", 2, "-o", "out", "--jobs", 1)


def run(*arguments, cwd, **options):
    return finish(start(*arguments, cwd=cwd, **options))


def tables(folder):
    """Whatever stands beside the blocks, but for the picture."""
    return {
        path.name: path.read_bytes() for path in (folder / "out").glob("*.*") if path.suffix not in (".png", ".tmp")
    }


def blocks(folder):
    return sorted((folder / "out" / "blocks").glob("*/*.parquet"))


def temporary(folder):
    return [path.name for path in folder.rglob("*.tmp")]


def assert_whole(path):
    table = parquet.read_table(path, partitioning=None)
    first, last = map(int, path.stem.split("tasks")[1].split("-"))
    assert table["task"].to_pylist() == list(range(first, last + 1))


def wait_for_blocks(process, folder, number):
    """Until there are so many blocks or the process has ended; every one is whole from the moment it has its name."""
    seen = set()
    while process.poll() is None and len(seen) < number:
        for path in set(blocks(folder)) - seen:
            assert_whole(path)
            seen.add(path)
        time.sleep(0.01)
    return len(seen)


def children(process):
    """The pids of its workers, where the system tells."""
    try:
        return [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
    except OSError:
        return []


def wait_for_workers(process, number=2):
    end = time.monotonic() + 30
    while process.poll() is None and len(children(process)) < number and time.monotonic() < end:
        time.sleep(0.01)
    return children(process)


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


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The tables of a run that nothing happened to."""
    folder = tmp_path_factory.mktemp("undisturbed")
    write(FeatureTable(*digits()), folder / "small.npz")
    done = run(*LONG, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert len(blocks(folder)) == BLOCKS
    assert not temporary(folder)
    made = tables(folder)
    assert sorted(made) == [f"imbalanced.{suffix}" for suffix in ("csv", "json", "md", "tex")]
    return made


# Killed, interrupted, at once


def test_killed_again_and_again_a_run_resumes_and_makes_the_same_tables(undisturbed, here):
    chance = random.Random(5)
    partly, workers = [], []
    for attempt in range(2):
        process = start(*LONG, cwd=here)
        if attempt == 0:
            time.sleep(chance.uniform(0.2, 1.2))  # perhaps before there is any block
        else:
            wait_for_blocks(process, here, len(blocks(here)) + chance.randint(1, 6))
            time.sleep(chance.uniform(0, 0.1))
        workers += children(process)
        os.kill(process.pid, signal.SIGKILL)
        finish(process)
        partly.append(0 < len(blocks(here)) < BLOCKS)
        assert not tables(here)
    assert any(partly)

    end = time.monotonic() + 20
    while any(map(is_running, workers)) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(map(is_running, workers)), "workers outlive the conductor that was killed"
    if Path("/proc/self/task").is_dir():
        assert len(workers) >= 2

    before = {path: path.stat().st_mtime_ns for path in blocks(here)}
    for path in before:
        assert_whole(path)
    done = run(*LONG, cwd=here)
    assert done.returncode == 0, done.stderr
    assert tables(here) == undisturbed
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert len(blocks(here)) == BLOCKS > len(before)


def test_ctrl_c_keeps_what_is_finished_and_says_how_to_go_on(here):
    process = start(*LONG, cwd=here)
    assert 0 < wait_for_blocks(process, here, 7) < BLOCKS
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers too
    done = finish(process)
    assert done.returncode == 130, done.stderr
    assert "stored in out: the same command continues from there" in done.stdout
    assert done.stderr == ""
    assert not temporary(here)
    assert not tables(here)


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs /proc to see the workers start")
def test_ctrl_c_while_the_workers_start_makes_no_noise(here):
    process = start(*LONG, cwd=here)
    assert wait_for_workers(process)
    os.killpg(process.pid, signal.SIGINT)
    done = finish(process)
    assert done.returncode == 130, done.stderr
    assert "the same command continues" in done.stdout
    assert done.stderr == ""
    assert not temporary(here)


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs /proc to find a worker")
def test_a_worker_that_is_killed_is_told_of(here):
    process = start(*LONG, cwd=here)
    workers = wait_for_workers(process)
    assert 0 < wait_for_blocks(process, here, 3) < BLOCKS
    os.kill(workers[1], signal.SIGKILL)
    done = finish(process)
    assert_refused(done, "a worker process ended (exit code -9, killed: out of memory?): finished results are kept")
    assert not any(map(is_running, workers))
    assert not temporary(here)
    assert not tables(here)


def test_two_runs_at_once_in_one_folder_make_the_same_tables(undisturbed, here):
    both = [start(*LONG, cwd=here) for _ in range(2)]
    for done in map(finish, both):
        assert done.returncode == 0, done.stderr
    assert tables(here) == undisturbed
    assert len(blocks(here)) == BLOCKS
    for path in blocks(here):
        assert_whole(path)
    assert not temporary(here)


def test_what_a_run_left_behind_long_ago_is_cleared_away(tmp_path):
    old, new = (tmp_path / f".features.npy.{name}.tmp" for name in ("old", "new"))
    for path in (old, new):
        path.touch()
    os.utime(old, (time.time() - 7200,) * 2)
    Store(tmp_path).open()
    assert temporary(tmp_path) == [new.name]  # perhaps somebody's who is at work


# No space


def limited(size):
    """No file may grow beyond so many bytes, as on a full disk."""
    resource = pytest.importorskip("resource")
    return {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))}


def test_a_full_disk_is_told_of_and_the_same_command_goes_on(here):
    command = (
        "bench", "balanced", "--methods", "knn,simpleshot", "--features", "small.npz", "--tasks", 110, "-o", "out",
    )  # fmt: skip
    for jobs, size in ((2, 100_000), (1, 2000)):  # too little for the workers' features, and for a block
        done = run(*command, "--jobs", jobs, cwd=here, **limited(size))
        assert_refused(done, "the results were not written: ", "the same command continues from there: 'out'")
        assert not tables(here)
        assert not blocks(here)
        assert not temporary(here)
    assert run(*command, "--jobs", 1, cwd=here).returncode == 0
    before = tables(here)
    done = run(*command, "--jobs", 1, "--against", "knn", cwd=here, **limited(300))  # too little for a table
    assert_refused(done, "the results were not written: File too large")
    assert tables(here) == before
    assert not temporary(here)


def test_a_folder_that_cannot_be_written_is_found_out_first(here, handful):
    (here / "file").write_text("mine")
    outputs = ["file/out", "file"] + ["/proc/handful"] * Path("/proc/self").exists()
    for output in outputs:
        assert_refused(handful(*QUICK, "-o", output), "results cannot be written there: ", output)
    assert (here / "file").read_text() == "mine"


# Bad input


class Trap:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def features(folder, name="set.npz", counts=(30,) * 10, dimension=4, damage=None):
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(len(counts)), counts)
    x = rng.normal(size=(len(labels), dimension))
    if damage is not None:
        x[damage] = np.nan
    np.savez(folder / name, features=x, labels=labels)
    return name


def table(folder, columns, cut=None):
    import pyarrow as pa

    parquet.write_table(pa.table(columns), folder / "set.parquet")
    if cut:
        os.truncate(folder / "set.parquet", cut)
    return "set.parquet"


def trap(folder):
    with (folder / "set.pkl").open("wb") as file:
        pickle.dump(Trap(folder / "sprung"), file)
    return "set.pkl"


ROWS = {"embedding": [[1.0, 2.0]] * 4, "label": ["hen", "hen", "owl", "owl"]}
BAD_FEATURES = {
    "features with NaN": (lambda d: features(d, damage=(7, 2)), "'set.npz': .*NaN at row 7, column 2"),
    "too few items of a class": (
        lambda d: features(d, counts=(30,) * 9 + (19,)),
        "class 9 has 19 items, but .* need 20",
    ),
    "one class only": (lambda d: features(d, counts=(90,)), "need 10 classes, but there are 1"),
    "no labels": (lambda d: table(d, {"embedding": ROWS["embedding"]}), "set has no labels: .*--label"),
    "a table cut short": (lambda d: table(d, ROWS, cut=400), "'set.parquet': "),
    "a pickle with a trap": (trap, "'set.pkl': .*system"),
    "a file that is not there": (lambda d: "none.npz", "there is no file or folder 'none.npz'"),
}


def test_bad_features_are_refused_in_a_sentence(here, handful):
    for what, (make, sentence) in BAD_FEATURES.items():
        done = handful("bench", "balanced", "--methods", "knn", "--tasks", 2, "--features", make(here), "-o", "out")
        assert_refused(done)
        assert re.search(sentence, done.stderr), what
        assert not (here / "out").exists(), what
        assert not (here / "sprung").exists(), what
    features(here, "base.npz")
    words = "base has 4 features and small 64: the base set must come from the same backbone"
    assert_refused(handful(*QUICK, "--base", "base.npz"), words)
    assert not (here / "out").exists()


BAD_OPTIONS = {
    "unknown benchmark": (["nonsense"], "no benchmark 'nonsense'; there are: balanced, imbalanced, sweep-b"),
    "unknown method": (
        ["balanced", "--methods", "eol,nonsense"],
        "there is no method 'nonsense'; there are: auto, bdcspn",
    ),
    "unknown detector": (["balanced", "--methods", "eol+nonsense"], "'nonsense' gives no outlier score; use"),
    "unknown parameter": (["balanced", "--methods", "knn:kk=5"], "'knn:kk=5': knn has no parameter 'kk'; it has: k"),
    "parameter without a value": (["balanced", "--methods", "knn:k"], "'knn:k': k has no value: write k=..."),
    "bad value": (["balanced", "--methods", "knn:k=0"], "k of knn must be a whole number from 1, or None, got 0"),
    "word for a number": (["balanced", "--methods", "eol:steps=many"], "steps of eol must be .*, got 'many'"),
    "no method": (["balanced", "--methods", " , "], "no method is named"),
    "method twice": (["balanced", "--methods", "eol,knn,eol"], "EOL is there twice"),
    "methods of an ablation": (["ablation", "--methods", "knn"], "ablation is about EOL alone"),
    "unknown against": (["balanced", "--methods", "eol,knn", "--against", "oslo"], "'oslo' names none of .*: EOL, kNN"),
    "two against": (
        ["balanced", "--methods", "knn:k=1,knn:k=3", "--against", "knn"],
        r"'knn' names several of the rows to compare with: kNN distance \(k=1\), kNN distance \(k=3\)",
    ),
    "more classes than there are": (["ablation", "--ways", "9"], "9 known and 5 outlier classes need 14 classes"),
    "more queries than there are": (["ablation", "--queries", "200"], "class 0 has 178 items, but tasks need 325"),
    "more examples than there are": (["ablation", "--shots", "170"], "class 0 has 178 items, but tasks need 194"),
    "claims against": (["claims", "--against", "eol"], "claims has comparisons of its own"),
    "unequal without measure": (["balanced", "--unequal", "0"], "unequal_shots is 0.0: give a concentration above 0"),
    "unequal to infinity": (["balanced", "--unequal", "inf"], "unequal_shots is inf"),
}


def test_bad_options_are_refused_before_anything_is_solved(tmp_path, handful):
    for what, (options, sentence) in BAD_OPTIONS.items():
        done = handful("bench", *options, "-o", "out")
        assert_refused(done)
        assert re.search(sentence, done.stderr), what
        assert not (tmp_path / "out").exists(), what
