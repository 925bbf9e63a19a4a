"""Ctrl-C ends a command within two seconds: quietly, with its helpers, and with nothing half done left behind.

Real processes on work that would take minutes, one for each kind of work, interrupted as a terminal does it: the whole
process group at once.
"""

import json
import os
import signal
import socket
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from piles import fill, picture, start
from strangers import save_slow_on_white

from handful.features import FeatureTable, digits, write

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name != "posix" or not Path("/proc/self/task").is_dir(), reason="needs /proc and signals"),
]
AIM_SECONDS = 2.0
MAX_SECONDS = 6.0  # on a machine that does much else
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


def leftovers(folder):
    return [path for path in Path(folder).rglob("*") if path.name.endswith(".tmp") or path.name.startswith(".handful-")]


class Running:
    """`handful` at work in a process group of its own."""

    def __init__(self, *arguments, cwd, **environment):
        self.cwd = cwd
        own = {"HANDFUL_CACHE": str(cwd / "cache")}
        self.process = start(*arguments, cwd=cwd, env=os.environ | own | environment)
        self.said = {"stdout": "", "stderr": ""}
        self.readers = [threading.Thread(target=self._read, args=(name,), daemon=True) for name in self.said]
        for reader in self.readers:
            reader.start()

    def _read(self, name):
        for line in getattr(self.process, name):
            self.said[name] += line

    def until(self, happened, seconds=240):  # a busy machine is slow
        end = time.monotonic() + seconds
        while not happened() and self.process.poll() is None and time.monotonic() < end:
            time.sleep(0.02)
        assert self.process.poll() is None, f"it ended with {self.process.returncode} by itself: {self.said}"
        assert happened(), self.said

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

    def interrupt(self, words=None, codes=CODES):
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
        for reader in self.readers:
            reader.join(5)
        if "init_import_site" in self.said["stderr"]:  # Python itself had not started yet
            return took
        print(f"ended after {took:.2f} s, the aim is {AIM_SECONDS:g}: {' '.join(map(str, self.process.args[3:5]))}")
        assert self.process.returncode in codes, self.said
        assert took < MAX_SECONDS
        assert not left, "processes that outlive it"
        assert "Traceback" not in self.said["stderr"], self.said["stderr"]
        lines = [line for line in self.said["stderr"].splitlines() if not line.endswith(" left")]  # but for the bar
        assert len(lines) <= 1, lines
        assert not leftovers(self.cwd)
        if words is not None:
            assert words in self.said["stdout"] + self.said["stderr"], self.said
        return took


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Dark pictures, which a network labels at once, and white ones, on which it would work for an hour."""
    folder = fill(tmp_path_factory.mktemp("interrupts"))
    save_slow_on_white(folder / "model.onnx")
    return folder


@pytest.fixture
def here(pictures, tmp_path):
    os.symlink(pictures / "examples", tmp_path / "examples")
    for name in ("model.onnx", "model.json"):
        os.link(pictures / name, tmp_path / name)
    (tmp_path / "pile").mkdir()
    for file in (pictures / "pile").iterdir():
        os.link(file, tmp_path / "pile" / file.name)
    return tmp_path


def make_white(folder):
    from PIL import Image

    Image.new("RGB", (40, 40), "white").save(folder / "white.png")


NETWORK = ("--backbone", "model.onnx")


# ---- starting


def test_while_it_starts(tmp_path):
    for seconds in (0.2, 0.5):
        running = Running("bench", "balanced", "--tasks", "5000", "-o", "out", cwd=tmp_path)
        running.until(lambda pid=running.process.pid: b"handful" in Path(f"/proc/{pid}/cmdline").read_bytes())
        time.sleep(seconds)
        running.interrupt()


# ---- native code that hears nothing


def test_embed_while_a_network_runs(here):
    make_white(here / "pile")
    running = Running("embed", "pile", *NETWORK, "-o", "out.parquet", cwd=here)
    running.busy(6)
    running.interrupt("Stopped. The features so far are stored")


def test_label_while_a_network_runs(here):
    make_white(here / "pile")
    running = Running("label", "examples", "pile", *NETWORK, "-o", "out", cwd=here)
    running.busy(6)
    running.interrupt("Stopped.")
    assert not (here / "out").exists()


def test_a_second_ctrl_c_ends_it_at_once(here):
    make_white(here / "pile")
    running = Running("embed", "pile", *NETWORK, "-o", "out.parquet", cwd=here)
    running.busy(6)
    os.killpg(running.process.pid, signal.SIGINT)
    time.sleep(0.02)
    running.interrupt()


# ---- numbers


def features(path, n, dimension=64, classes=40):
    rng = np.random.default_rng(0)
    labels = np.arange(n) % classes
    centres = rng.normal(size=(classes, dimension))
    write(
        FeatureTable((centres[labels] + rng.normal(size=(n, dimension))).astype(np.float32), labels.astype(str)), path
    )
    return path


def test_label_while_a_large_table_is_solved(tmp_path):
    features(tmp_path / "examples.parquet", 200, 256)
    features(tmp_path / "pile.parquet", 60_000, 256)
    running = Running(
        "label", "examples.parquet", "pile.parquet", "-o", "out", cwd=tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "nb")
    )
    running.busy(4)
    running.interrupt()
    assert not (tmp_path / "out").exists()


def test_bench_while_its_processes_work(tmp_path):
    running = Running("bench", "balanced", "--tasks", "20000", "--jobs", "2", "-o", "out", cwd=tmp_path)
    running.busy(4)
    running.interrupt("Stopped. Finished tasks are stored in out")


# ---- torch


@pytest.mark.torch
def test_train(tmp_path):
    for label in range(12):
        (tmp_path / "pictures" / f"kind{label}").mkdir(parents=True)
        for i in range(12):
            picture("left", 100 * label + i).save(tmp_path / "pictures" / f"kind{label}" / f"{i}.png")
    command = ["train", "pictures", "-o", "out", "--size", "84", "--batch", "64", "--epochs", "500"]
    running = Running(*command, cwd=tmp_path)
    running.busy(8)
    running.interrupt()


# ---- servers


def test_workbench_while_it_embeds(here):
    make_white(here / "pile")
    running = Running("workbench", "pile", *NETWORK, "--project", "project", "--no-browser", "--json", cwd=here)
    running.until(lambda: running.said["stdout"])
    running.busy(5)
    running.interrupt()


def ask(running, method, where, body):
    """A request whose answer is not waited for."""
    facts = json.loads(running.said["stdout"])
    host, port = facts["address"].removeprefix("http://").rstrip("/").split(":")
    text = json.dumps(body).encode()
    head = (
        f"{method} /api/v1/{where} HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {facts['token']}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n"
    )
    connection = socket.create_connection((host, int(port)))
    connection.sendall(head.encode() + text)
    return connection


def test_serve_while_it_solves(tmp_path):
    running = Running("serve", "--json", cwd=tmp_path)
    running.until(lambda: running.said["stdout"])
    values, labels = digits()
    body = {"support": values[:100].tolist(), "labels": labels[:100].tolist(), "query": values.tolist() * 12}
    body["method"] = "laplacianshot"  # quadratic in the pile: about 15 seconds
    with ask(running, "POST", "solve", body):
        running.busy(6)
        running.interrupt()
