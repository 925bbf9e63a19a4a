"""Small projects for the tests of the workbench: digits as pictures with a table of their pixels, and a client."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import httpx
import numpy as np
from forks import Forked
from PIL import Image

TOKEN, PORT = "t" * 43, 8321
OWN = {"authorization": f"Bearer {TOKEN}"}
API = f"http://127.0.0.1:{PORT}/api/v1"


def write_digits(folder, count=180, kinds=5, pictures=True):
    """PNGs of a few kinds of digits, and digits.parquet with their pixels; gives the kind of each file name."""
    import pyarrow as pa
    from pyarrow import parquet
    from sklearn.datasets import load_digits

    digits = load_digits()
    chosen = np.flatnonzero(digits.target < kinds)[:count]
    names = [f"d{i:04d}.png" for i in chosen]
    folder.mkdir(parents=True, exist_ok=True)
    for name, i in zip(names, chosen, strict=True) if pictures else ():
        pixels = np.kron(255 - 15 * digits.images[i], np.ones((4, 4)))
        Image.fromarray(pixels.astype(np.uint8)).save(folder / name)
    table = pa.table({"path": names, "embedding": digits.data[chosen].astype(np.float32).tolist()})
    parquet.write_table(table, folder / "digits.parquet")
    return dict(zip(names, digits.target[chosen].tolist(), strict=True))


def client_of(project, token=TOKEN):
    from starlette.testclient import TestClient

    from handful.workbench.server.app import make_app

    app = make_app(project, token=TOKEN, port=PORT)
    headers = {"authorization": f"Bearer {token}"} if token else {}
    return TestClient(app, base_url=API, headers=headers, follow_redirects=False, raise_server_exceptions=False)


def contents(project):
    """Everything in the database, as one could see it with another program; labels and classes follow from events."""
    path = project.store.path if hasattr(project, "store") else project
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        found = {name: db.execute(f"SELECT * FROM {name} ORDER BY 1").fetchall() for name in ("items", "events")}
        events = db.execute("SELECT what FROM events WHERE NOT is_undone ORDER BY id").fetchall()
        found["runs"] = db.execute("SELECT id, made FROM runs").fetchall()
    labels, classes, checks = {}, {}, {}
    for event in (json.loads(what) for (what,) in events):
        for number, name, key in event.get("classes", ()):
            classes[number] = name, key
            if name is None:
                labels = {item: code for item, code in labels.items() if code != number}
        labels |= dict(event.get("labels", ()))
        checks |= {(run, item): answer for run, item, answer in event.get("checks", ())}
    return found | {
        "labels": {item: code for item, code in sorted(labels.items()) if code is not None},
        "classes": {number: row for number, row in classes.items() if row[0] is not None},
        "checks": sorted((*of, answer) for of, answer in checks.items() if answer is not None),
    }


def labels_in(path):
    return contents(path)["labels"]


def show(client, truth, kinds, shots=5):
    """A class for each of some kinds, with examples; gives their numbers by kind."""
    by_name = {item["name"]: item["id"] for item in client.get("/items?limit=1000").json()["items"]}
    classes = {}
    for kind in kinds:
        classes[kind] = client.post("/classes", json={"name": f"digit {kind}"}).json()["id"]
        items = [by_name[name] for name, of in truth.items() if of == kind][:shots]
        answer = client.post("/labels", json={"items": items, "class": classes[kind]})
        assert answer.json() == {"changed": shots}, answer.text
    return classes


def run(client, project, **options):
    answer = client.post("/run", json=options)
    assert answer.status_code == 202, answer.text
    assert project.worker.wait(60)
    return client.get("/project").json()


class Server:
    """`handful workbench` in a process of its own, which can be killed."""

    def __init__(self, *arguments, command="workbench", before=()):
        own = [] if command == "serve" else ["--no-browser"]
        line, environment = [command, *map(str, arguments), *own, "--json"], os.environ | {"OMP_NUM_THREADS": "1"}
        if before:
            line = [*before, sys.executable, "-m", "handful", *line]
            self.process = subprocess.Popen(
                line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
            )
        else:
            self.process = Forked(*line, env=environment)
        first = self.process.stdout.readline()
        assert first, self.process.stderr.read()
        self.facts = json.loads(first)
        headers = {"authorization": f"Bearer {self.facts['token']}"}
        self.client = httpx.Client(base_url=f"{self.facts['address']}api/v1", headers=headers, timeout=30)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def close(self):
        self.client.close()
        self.process.send_signal(signal.SIGINT)
        said = self.process.communicate(timeout=30)[1]
        assert "Traceback" not in said, said

    @property
    def database(self):
        return Path(self.facts["project"]) / "project.sqlite"
