"""Ctrl-C ends a command within seconds, with one sentence, whatever it does, and nothing is left behind.

Real processes on work that would take minutes, one for each kind of work, interrupted as a terminal does it: the whole
process group at once.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from piles import fill
from strangers import save_slow_on_white

from handful.features import FeatureTable, write

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name != "posix" or not Path("/proc/self/task").is_dir(), reason="needs /proc and signals"),
]
READS = ("src/handful/utils/interrupts.py", "src/handful/cli/__init__.py", "src/handful/cli/_console.py")
MAX_SECONDS = 6.0  # two on a machine that does nothing else
CODES = (130, -signal.SIGINT)  # a shell says 130 of both


def group(leader):
    """The processes of a process group that still run."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                state, _, pgrp = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
            except OSError:
                continue
            if int(pgrp) == leader and state != "Z":
                found.append(int(entry.name))
    return found


class Running:
    """`handful` at work in a process group of its own."""

    def __init__(self, folder, *arguments):
        self.folder = folder
        self.places = {name: folder / f"{name}.said" for name in ("stdout", "stderr")}
        with self.places["stdout"].open("w") as out, self.places["stderr"].open("w") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "handful", *map(str, arguments)], cwd=folder, stdout=out, stderr=err,
                start_new_session=True, env=os.environ | {"HANDFUL_CACHE": str(folder / "cache")},
            )  # fmt: skip

    def said(self, name):
        return self.places[name].read_text()

    def until(self, happened, seconds=240):  # a busy machine is slow
        end = time.monotonic() + seconds
        while not happened() and self.process.poll() is None and time.monotonic() < end:
            time.sleep(0.02)
        assert self.process.poll() is None, f"it ended with {self.process.returncode} by itself: {self.said('stderr')}"
        assert happened(), self.said("stderr")

    def busy(self, cpu_seconds):
        """Until it has used so much processor time, with its helpers; loading a network takes up to three seconds."""

        def used():
            total = 0
            for pid in group(self.process.pid):
                try:
                    total += sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]))
                except OSError:
                    continue
            return total / os.sysconf("SC_CLK_TCK")

        self.until(lambda: used() > cpu_seconds)

    def interrupt(self, words=""):
        """Ctrl-C, and what must be true afterwards."""
        begun = time.monotonic()
        os.killpg(self.process.pid, signal.SIGINT)
        try:
            self.process.wait(4 * MAX_SECONDS)
        finally:
            took = time.monotonic() - begun
            while (left := group(self.process.pid)) and time.monotonic() < begun + took + 0.5:
                time.sleep(0.02)  # what only waits for its end, as Python's tracker of resources does
            for pid in left:
                os.kill(pid, signal.SIGKILL)
        errors = self.said("stderr")
        if "init_import_site" in errors:  # Python itself had not started yet
            return
        assert self.process.returncode in CODES, errors
        assert took < MAX_SECONDS
        assert not left, "processes that outlive it"
        assert "Traceback" not in errors, errors
        assert len([line for line in errors.splitlines() if not line.endswith(" left")]) <= 1, errors  # but for the bar
        names = [path.name for path in self.folder.rglob("*")]
        assert not [name for name in names if name.endswith(".tmp") or name.startswith(".handful-")]
        assert words in self.said("stdout") + errors


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    return save_slow_on_white(tmp_path_factory.mktemp("interrupts") / "model.onnx")


@pytest.fixture
def white(network, tmp_path):
    """Dark pictures, which a network embeds at once, and a white one, on which it would work for an hour."""
    from PIL import Image

    fill(tmp_path)
    for name in ("model.onnx", "model.json"):
        os.link(network.with_name(name), tmp_path / name)
    Image.new("RGB", (40, 40), "white").save(tmp_path / "pile" / "white.png")
    return tmp_path


def test_while_a_network_runs_once_or_twice(white):
    for seconds, words in ((None, "Stopped. The features so far are stored"), (0.02, "")):
        running = Running(white, "embed", "pile", "--backbone", "model.onnx", "-o", "out.parquet")
        running.busy(6)
        if seconds is not None:  # a second Ctrl-C ends it at once
            os.killpg(running.process.pid, signal.SIGINT)
            time.sleep(seconds)
        running.interrupt(words)


def test_while_the_workbench_embeds(white):
    options = ("--backbone", "model.onnx", "--project", "project", "--no-browser", "--json")
    running = Running(white, "workbench", "pile", *options)
    running.until(lambda: running.said("stdout"))
    running.busy(5)
    running.interrupt()


def test_while_a_large_table_is_solved(tmp_path):
    rng = np.random.default_rng(0)
    for name, n in (("examples", 200), ("pile", 60_000)):
        features = np.eye(40, 256)[np.arange(n) % 40] + rng.normal(size=(n, 256))
        write(FeatureTable(features.astype(np.float32), (np.arange(n) % 40).astype(str)), tmp_path / f"{name}.parquet")
    running = Running(tmp_path, "label", "examples.parquet", "pile.parquet", "-o", "out")
    running.busy(4)
    running.interrupt()
    assert not (tmp_path / "out").exists()


def test_while_processes_of_the_benchmark_work(tmp_path):
    running = Running(tmp_path, "bench", "balanced", "--tasks", "20000", "--jobs", "2", "-o", "out")
    running.busy(4)
    running.interrupt("Stopped. Finished tasks are stored in out")
