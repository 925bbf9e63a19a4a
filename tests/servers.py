"""`handful serve` and `handful workbench` in processes of their own, and sockets that talk to them."""

import json
import os
import re
import signal
import socket
import tempfile
import time
from pathlib import Path

import httpx
from forks import Forked

MEGABYTE = 2**20
SMALL = {"support": [[0, 1], [1, 0]], "labels": ["a", "b"], "query": [[0.1, 0.9], [0.9, 0.2], [0.2, 0.8]]}
UNREADABLE = b"Invalid HTTP request received."  # what uvicorn says by itself
POST = b"POST /api/v1/solve HTTP/1.1"
KIND = b"Content-Type: application/json"
HEADERS = ("content-security-policy", "x-content-type-options", "referrer-policy", "cross-origin-resource-policy",
           "cross-origin-opener-policy", "x-frame-options")  # fmt: skip


class Server:
    """`handful workbench`, or another command that serves, in a process of its own, which can be killed."""

    def __init__(self, *arguments, command="workbench"):
        line, environment = [command, *arguments, "--json"], os.environ | {"OMP_NUM_THREADS": "1"}
        if command == "workbench":
            line.append("--no-browser")
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - a pipe that nobody reads would stop the server
        self.process = Forked(*line, stderr=self.log, env=environment)
        first = self.process.stdout.readline()
        assert first, self.logged()
        self.facts = json.loads(first)
        self.address, self.token = self.facts["address"], self.facts["token"]
        self.port = int(re.search(r":(\d+)/", self.address).group(1))
        self.key = f"Authorization: Bearer {self.token}\r\n".encode()
        self.host = f"Host: 127.0.0.1:{self.port}\r\n".encode()
        self.client = self.open_client()

    @property
    def database(self):
        return Path(self.facts["project"]) / "project.sqlite"

    def open_client(self):
        own = {"authorization": f"Bearer {self.token}"}
        return httpx.Client(base_url=f"{self.address}api/v1", headers=own, timeout=120)

    def connect(self, data=b"", timeout=20):
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=timeout)
        if data:
            connection.sendall(data)
        return connection

    def ask(self, data, timeout=20):
        """All that comes back for these bytes until the server ends the connection."""
        with self.connect(data, timeout) as connection:
            return read_all(connection)

    def children(self):
        """The processes that it started, by number (Linux)."""
        pids = []
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            pids += map(int, (task / "children").read_text().split())
        return [pid for pid in pids if "spawn_main" in Path(f"/proc/{pid}/cmdline").read_text()]

    def logged(self):
        self.log.seek(0)
        return self.log.read()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        """Ends it, and sees that nothing went wrong that it did not expect."""
        self.client.close()
        self.process.send_signal(signal.SIGINT)
        self.process.wait(30)
        self.process.stdout.close()
        text = self.logged()
        self.log.close()
        assert "Traceback" not in text, text[-3000:]


def read_all(connection):
    parts = []
    try:
        while part := connection.recv(2**16):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def answers_in(data):
    """(status, headers, body) of each answer in what a server sent."""
    found = []
    for text in re.split(rb"(?=HTTP/1\.1 \d\d\d )", data):
        if not text or text.startswith(b"HTTP/1.1 100 "):
            continue
        head, _, body = text.partition(b"\r\n\r\n")
        status, *lines = head.decode("latin-1").split("\r\n")
        names = [line.partition(":")[0].lower() for line in lines]
        headers = dict(zip(names, (line.partition(":")[2].strip() for line in lines), strict=True))
        assert UNREADABLE in body or all(names.count(name) == 1 for name in HEADERS), (status, names)
        found.append((int(status.split()[1]), headers, body))
    return found


def request(service, line, *lines, body=b"", host=True, key=True):
    own = (service.host if host else b"") + (service.key if key else b"")
    return line + b"\r\n" + own + b"".join(one + b"\r\n" for one in lines) + b"Connection: close\r\n\r\n" + body


def is_answered_quickly(service, seconds=2.0):
    begun = time.perf_counter()
    with service.open_client() as client:
        answer = client.get("/health")
    assert answer.status_code == 200, answer.text
    assert time.perf_counter() - begun < seconds


def wait_until(true, seconds):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.05)
