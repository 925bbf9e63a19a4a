"""Small projects for the tests of the workbench: digits as pictures with a table of their pixels, and a client."""

import json
import sqlite3
from contextlib import closing

import numpy as np
from PIL import Image

from handful.features import digits

TOKEN, PORT = "t" * 43, 8321
API = f"http://127.0.0.1:{PORT}/api/v1"


def write_pile(folder, names, which, table="pile.parquet", pictures=True):
    """PNGs of some of scikit-learn's digits, and a table of their pixels: no backbone is needed."""
    import pyarrow as pa
    from pyarrow import parquet

    features = np.asarray(digits()[0], np.float32)[which]
    folder.mkdir(parents=True, exist_ok=True)
    for name, drawing in zip(names, features, strict=True) if pictures else ():
        grey = 255 - np.kron(drawing.reshape(8, 8) / max(1.0, drawing.max()) * 255, np.ones((8, 8)))
        Image.fromarray(grey.astype(np.uint8)).save(folder / name)
    parquet.write_table(pa.table({"path": names, "embedding": list(features)}), folder / table)
    return folder / table


def write_digits(folder, count=180, kinds=5, pictures=True):
    """PNGs of a few kinds of digits, and digits.parquet with their pixels; gives the kind of each file name."""
    labels = np.asarray(digits()[1])
    chosen = np.flatnonzero(labels < kinds)[:count]
    names = [f"d{i:04d}.png" for i in chosen]
    write_pile(folder, names, chosen, "digits.parquet", pictures)
    return dict(zip(names, labels[chosen].tolist(), strict=True))


def client_of(project, token=TOKEN):
    from starlette.testclient import TestClient

    from handful.workbench.server.app import make_app

    app = make_app(project, token=TOKEN, port=PORT)
    headers = {"authorization": f"Bearer {token}"} if token else {}
    return TestClient(app, base_url=API, headers=headers, follow_redirects=False, raise_server_exceptions=False)


def opened(*arguments, **options):
    """A project in the workbench after its items are embedded, and a client of it."""
    from handful.project.live import LiveProject

    project = LiveProject(*arguments, **options)
    assert project.worker.wait(60)
    return project, client_of(project)


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
