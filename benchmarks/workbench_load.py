"""The workbench under load and under fire: no label that was acknowledged may be lost. ::

    python benchmarks/workbench_load.py             # three minutes; writes benchmarks/results/workbench_load.md
    python benchmarks/workbench_load.py --quick     # some seconds; writes into a temporary folder

50 clients post labels for 30 s at once, beside the same clients at an empty FastAPI route; then the database is
compared with what was acknowledged. Then a server is killed (SIGKILL) at random moments, while it labels and while it
runs, and started again: every acknowledged label must be there, and `PRAGMA integrity_check` must say ok.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from _report import Section, machine, show, write
from _script import Parser
from rich.console import Console

from handful.project.events import Said

EMPTY = """
import socket, sys, uvicorn
from fastapi import FastAPI
app = FastAPI()
@app.post("/api/v1/labels")
def empty() -> dict: return {}
listening = socket.socket(); listening.bind(("127.0.0.1", 0)); listening.listen(128)
print(listening.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off")).run(sockets=[listening])
"""


def write_table(folder: Path, items: int) -> Path:
    """Random embeddings of four kinds."""
    import pyarrow as pa
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    features = rng.normal(size=(items, 16)) + 4 * np.eye(16)[rng.integers(0, 4, items)]
    names = [f"{i:06d}.png" for i in range(items)]
    path = folder / "pile.parquet"
    parquet.write_table(pa.table({"path": names, "embedding": features.astype(np.float32).tolist()}), path)
    return path


class Server:
    """`handful workbench` on a table, in a process of its own."""

    def __init__(self, table: Path) -> None:
        command = [sys.executable, "-m", "handful", "workbench", str(table), "--no-browser", "--json"]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        log = (table.parent / "server.log").open("a")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment)
        assert self.process.stdout is not None
        self.facts = json.loads(self.process.stdout.readline())
        self.port = int(self.facts["address"].rsplit(":", 1)[1].strip("/"))

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        import httpx

        headers = {"authorization": f"Bearer {self.facts['token']}"}
        answer = httpx.request(method, f"{self.facts['address']}api/v1{path}", json=body, headers=headers, timeout=60)
        answer.raise_for_status()
        return answer.json()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    @property
    def database(self) -> Path:
        return Path(self.facts["project"]) / "project.sqlite"


def labels_in(database: Path) -> dict[int, int]:
    with sqlite3.connect(database) as db:
        (verdict,) = db.execute("PRAGMA integrity_check").fetchone()
        if verdict != "ok":
            raise SystemExit(f"the database is damaged: {verdict}")
        said = Said()
        for (what,) in db.execute("SELECT what FROM events WHERE NOT is_undone ORDER BY id"):
            said.add(json.loads(what))
        return said.labels


# ---- load


async def client(port: int, token: str, requests: Any, end: float, times: list[float]) -> int:
    """Requests on one connection, one after another; gives how many were not answered with 200."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    wrong = 0
    while time.perf_counter() < end:
        body, acknowledged = next(requests)
        head = (
            f"POST /api/v1/labels HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: Bearer {token}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        begun = time.perf_counter()
        writer.write(head.encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = next(int(x.split(b":")[1]) for x in answer.lower().split(b"\r\n") if x.startswith(b"content-length"))
        await reader.readexactly(length)
        times.append(time.perf_counter() - begun)
        if answer.startswith(b"HTTP/1.1 200"):
            acknowledged()
        else:
            wrong += 1
    writer.close()
    return wrong


def requests_of(number: int, items: list[int], classes: list[int], said: dict[int, int]) -> Any:
    """Endless labels by one client, on items of its own: the last that was acknowledged counts."""
    rng = random.Random(number)
    while True:
        item, code = rng.choice(items), rng.choice(classes)
        body = json.dumps({"items": [item], "class": code}).encode()
        yield body, lambda item=item, code=code: said.__setitem__(item, code)


def load(port: int, token: str, clients: int, seconds: float, shares: list[list[int]], classes: list[int]) -> Any:
    said: dict[int, int] = {}
    times: list[float] = []

    async def run() -> int:
        end = time.perf_counter() + seconds
        each = (client(port, token, requests_of(k, shares[k], classes, said), end, times) for k in range(clients))
        return sum(await asyncio.gather(*each))

    wrong = asyncio.run(run())
    return said, np.array(times), wrong


def measure_load(folder: Path, clients: int, seconds: float) -> tuple[Section, list[str]]:
    server = Server(write_table(folder, 5000))
    empty = subprocess.Popen([sys.executable, "-c", EMPTY], stdout=subprocess.PIPE, text=True)
    try:
        classes = [server.ask("POST", "/classes", {"name": name})["id"] for name in "abc"]
        ids = server.ask("GET", "/ids")["ids"]
        shares = [ids[k::clients] for k in range(clients)]
        assert empty.stdout is not None
        port = int(empty.stdout.readline())
        time.sleep(min(1, seconds))
        rows, all_times, wrong_ones = [], {}, 0
        for name, where in (("empty route", port), ("label", server.port), ("empty route again", port)):
            part = seconds if name == "label" else seconds / 3
            said, times, wrong = load(where, server.facts["token"], clients, part, shares, classes)
            all_times[name] = times
            p50, p99 = np.quantile(times, (0.5, 0.99)) * 1e3
            rows.append((name, f"{len(times):,}", f"{len(times) / part:,.0f}", f"{p50:.1f}", f"{p99:.1f}", str(wrong)))
            if name == "label":
                acknowledged, wrong_ones = said, wrong
        begun = time.perf_counter()
        server.ask("POST", "/labels", {"items": ids, "class": classes[0]})
        bulk = time.perf_counter() - begun
        server.ask("POST", "/undo")
        found = labels_in(server.database)
    finally:
        server.kill()
        empty.kill()
        empty.wait()
    lost = sum(found.get(item) != code for item, code in acknowledged.items()) + len(found.keys() - acknowledged.keys())
    ratio = np.quantile(all_times["label"], 0.99) / np.quantile(all_times["empty route"], 0.99)
    header = ("request", "answered", "a second", "median ms", "p99 ms", "errors")
    sentences = [
        f"{clients} clients at once for {seconds:g} s: {wrong_ones} errors, {lost} of {len(acknowledged):,} labels "
        "differ between the database and what was acknowledged.",
        f"The p99 of a label, on the disk when it is answered, is {ratio:.1f} times that of an empty route.",
        f"5,000 items labelled in one request: {bulk * 1e3:.0f} ms.",
    ]
    if lost or wrong_ones:
        raise SystemExit("\n".join(sentences))
    return Section(f"{clients} clients at once", header, rows), sentences


# ---- kills


def check_kept(number: int, there: dict[int, int], said: dict[int, int], maybe: dict[int, set[int]]) -> None:
    for item, code in said.items():
        if there.get(item) != code and there.get(item) not in maybe.get(item, ()):
            raise SystemExit(f"kill {number}: item {item} is {there.get(item)}, and {code} was acknowledged")


def measure_kills(folder: Path, kills: int, longest: float, seed: int) -> list[str]:
    import httpx

    rng, table = random.Random(seed), write_table(folder, 1500)
    said: dict[int, int] = {}
    maybe: dict[int, set[int]] = {}  # asked for, and killed before the answer: either is right
    runs = waits = 0
    for number in range(kills):
        server = Server(table)
        there = labels_in(server.database)
        check_kept(number, there, said, maybe)
        said, maybe = dict(there), {}
        if number == 0:
            for name in "abc":
                server.ask("POST", "/classes", {"name": name})
        project = server.ask("GET", "/project")
        classes, ids = [c["id"] for c in project["classes"]], server.ask("GET", "/ids")["ids"]
        if project["run"] is not None:
            runs = max(runs, project["run"]["id"])
        threading.Timer(rng.uniform(0.05, longest if number % 2 else longest / 4), server.kill).start()
        try:
            while True:
                items, code = rng.sample(ids, rng.choice((1, 5, 100))), rng.choice(classes)
                maybe = {item: {code} for item in items}
                server.ask("POST", "/labels", {"items": items, "class": code})
                said |= dict.fromkeys(items, code)
                maybe = {}
                if number % 2:
                    try:
                        server.ask("POST", "/run", {})
                        waits += 1
                    except httpx.HTTPStatusError as error:
                        if error.response.status_code != 409:  # one run at a time
                            raise
        except httpx.TransportError:  # the kill; any other answer than a good one is a fault
            server.process.wait()
    check_kept(kills, labels_in(server.database), said, maybe)
    return [
        f"{kills} kills at random moments, {kills // 2} of them with runs under way ({waits} begun, {runs} kept): "
        "every acknowledged label was there again, and the database whole, each time."
    ]


def main() -> None:
    parser = Parser(__doc__, "about three minutes")
    parser.add_size("--clients", 50, 5, "clients at once")
    parser.add_size("--seconds", 30.0, 0.3, "how long they post labels")
    parser.add_size("--kills", 20, 2, "deaths of a server")
    parser.add_size("--longest", 6.0, 1.0, "most seconds until a death")
    parser.add_argument("--seed", type=int, default=0, help="of the moments of death (0)")
    given = parser.parse()
    console = Console()
    with TemporaryDirectory() as one, TemporaryDirectory() as two:
        section, sentences = measure_load(Path(one), given.clients, given.seconds)
        show(console, section)
        sentences += measure_kills(Path(two), given.kills, given.longest, given.seed)
    for sentence in sentences:
        console.print(sentence)
    path, title = given.output / "workbench_load.md", "The workbench under load"
    write(console, path, title, [section], sentences, [machine()])


if __name__ == "__main__":
    main()
