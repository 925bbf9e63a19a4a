"""The workbench under load and under fire: no label that was acknowledged may be lost. ::

    python benchmarks/workbench_load.py             # half an hour; writes benchmarks/results/workbench_load.md
    python benchmarks/workbench_load.py --quick     # some seconds; writes into a temporary folder

50 clients post labels for 30 s at once, beside the same clients at an empty FastAPI route; then the database is
compared with what was acknowledged. Then the program is killed (SIGKILL) at 200 random moments, while four clients of
a server or the command line say what items are, and started again: every acknowledged label must be there, and
`PRAGMA integrity_check` must say ok.
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
from contextlib import suppress
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

TELL = """
import random, sys
import handful
project, rng = handful.Project(sys.argv[1]), random.Random(sys.argv[2])
names = sys.argv[3:]
while True:
    label = rng.choice(("a", "b", "c"))
    for name in rng.sample(names, 3):
        print("asks", name, label, flush=True)
        project.say({name: label})
        print("said", name, label, flush=True)
"""


class Labels:
    """What one teller said of its own items: what was acknowledged, and what was asked for and not answered."""

    def __init__(self, items: list[int]) -> None:
        self.items = items
        self.said: dict[int, int] = {}
        self.maybe: dict[int, int] = {}
        self.acknowledged = 0  # requests, since the last check

    def ask(self, items: list[int], code: int) -> None:
        self.maybe = dict.fromkeys(items, code)

    def acknowledge(self) -> None:
        self.said |= self.maybe
        self.maybe = {}
        self.acknowledged += 1

    def check(self, kill: int, there: dict[int, int]) -> None:
        """Stop with an error if an acknowledged label is gone; go on from what is there."""
        for item, code in self.said.items():
            if there.get(item) not in (code, self.maybe.get(item, code)):
                raise SystemExit(f"kill {kill}: item {item} is {there.get(item)}, and {code} was acknowledged")
        of_request = {there.get(item) == code for item, code in self.maybe.items() if self.said.get(item) != code}
        if len(of_request) > 1:
            raise SystemExit(f"kill {kill}: a request was stored in part: {self.maybe}")
        self.said, self.maybe = {item: there[item] for item in self.items if item in there}, {}
        self.acknowledged = 0


def post_until_killed(server: Server, teller: Labels, classes: list[int], seed: str, runs: bool) -> None:
    import httpx

    rng = random.Random(seed)
    with suppress(httpx.TransportError):  # the kill; any other answer than a good one is a fault
        while True:
            items, code = rng.sample(teller.items, rng.choice((1, 5, 100))), rng.choice(classes)
            teller.ask(items, code)
            server.ask("POST", "/labels", {"items": items, "class": code})
            teller.acknowledge()
            if runs:
                try:
                    server.ask("POST", "/run", {})
                except httpx.HTTPStatusError as error:
                    if error.response.status_code != 409:  # one run at a time
                        raise


def first_answers(table: Path) -> tuple[Path, dict[int, str], dict[str, int]]:
    """Label a pile for the first time; returns the database, the names of items and the numbers of classes."""
    server = Server(table)
    classes = {name: server.ask("POST", "/classes", {"name": name})["id"] for name in "abc"}
    names = {item["id"]: item["name"] for item in server.ask("GET", "/items?limit=1000")["items"]}
    for k, number in enumerate(classes.values()):
        server.ask("POST", "/labels", {"items": list(names)[k::50], "class": number})
    server.ask("POST", "/run", {})
    while server.ask("GET", "/project")["run"] is None:
        time.sleep(0.1)
    server.kill()
    return server.database, names, classes


def measure_kills(folder: Path, kills: int, longest: float, seed: int) -> list[str]:
    """Kill four clients' server and, every third time, the command line; each says things of items of its own."""
    rng, table = random.Random(seed), write_table(folder, 1500)
    database, names, classes = first_answers(table)
    tellers = [Labels(list(names)[k::5]) for k in range(5)]
    acknowledged = refused = 0
    for number in range(kills):
        for teller in tellers:
            teller.check(number, labels_in(database))
        if number % 3 == 2:
            tell_until_killed(database.parent, tellers[-1], names, classes, f"{seed}-{number}", rng.uniform(1, 4))
        else:
            seconds = rng.uniform(0.05, longest if number % 3 else longest / 4)
            refused += kill_server(table, tellers[:4], list(classes.values()), f"{seed}-{number}", seconds)
        acknowledged += sum(teller.acknowledged for teller in tellers)
    for teller in tellers:
        teller.check(kills, labels_in(database))
    with sqlite3.connect(database) as db:
        (runs,) = db.execute("SELECT max(id) FROM runs").fetchone()
    return [
        f"{kills} kills at random moments while four clients of the workbench, or the command line, said what items "
        f"are: {acknowledged:,} requests were acknowledged, {runs} runs stored. Every acknowledged label was there "
        "again, each request was stored as a whole or not at all, and the database was whole, each time. "
        f"Beside the server, another process was told {refused} times that the project is in use."
    ]


def kill_server(table: Path, tellers: list[Labels], classes: list[int], seed: str, seconds: float) -> bool:
    """Whether another process was told meanwhile that the project is in use; later it would find no server."""
    server = Server(table)
    command = [sys.executable, "-m", "handful", "label", str(server.database.parent)]
    other = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    clients = [
        threading.Thread(target=post_until_killed, args=(server, teller, classes, f"{seed}-{k}", k == 0))
        for k, teller in enumerate(tellers)
    ]
    for client in clients:
        client.start()
    time.sleep(seconds)
    server.kill()
    for client in clients:
        client.join()
    other.kill()
    return "in use by another process" in other.communicate()[1]


def tell_until_killed(
    folder: Path, teller: Labels, names: dict[int, str], classes: dict[str, int], seed: str, seconds: float
) -> None:
    """`Project.say` in a process of its own."""
    items = {names[item]: item for item in teller.items}
    command = [sys.executable, "-c", TELL, str(folder), seed, *items]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    threading.Timer(seconds, process.kill).start()
    assert process.stdout is not None
    for line in process.stdout:
        word, name, label = line.split()
        if word == "asks":
            teller.ask([items[name]], classes[label])
        else:
            teller.acknowledge()
    if process.wait() != -signal.SIGKILL:
        raise SystemExit("the command line ended before it was killed")


def main() -> None:
    parser = Parser(__doc__, "about half an hour")
    parser.add_size("--clients", 50, 5, "clients at once")
    parser.add_size("--seconds", 30.0, 0.3, "how long they post labels")
    parser.add_size("--kills", 200, 3, "deaths")
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
