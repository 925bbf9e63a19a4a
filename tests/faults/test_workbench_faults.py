"""The workbench killed at random moments: what was acknowledged is there again, and the database is whole."""

import random
import signal
import sqlite3
import sys
import threading
import time

import httpx
import pytest
from servers import Server
from workbenches import client_of, contents, labels_in, run, show, write_digits

pytest.importorskip("fastapi")

from handful.project.said import Change, Store
from handful.workbench import LiveProject

KILLED = (httpx.TransportError,)


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("digits")
    return folder / "digits.parquet", write_digits(folder, pictures=False)


def killed_after(server, seconds):
    timer = threading.Timer(seconds, server.process.send_signal, [signal.SIGKILL])
    timer.start()
    return timer


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_no_acknowledged_label_is_lost_when_the_server_is_killed(digits, tmp_path):
    rng = random.Random(5)
    folder = tmp_path / "p"
    said = {}
    server = Server(digits[0], "--project", folder)
    numbers = [server.client.post("/classes", json={"name": name}).json()["id"] for name in "abc"]
    ids = server.client.get("/ids").json()["ids"]
    for _ in range(3):
        killed_after(server, rng.uniform(0.05, 0.4))
        asked = {}
        try:
            while True:
                items, code = rng.sample(ids, rng.choice((1, 3, 50))), rng.choice([*numbers, 0])
                asked = dict.fromkeys(items, code)
                assert server.client.post("/labels", json={"items": items, "class": code}).status_code == 200
                said |= asked
        except KILLED:
            server.process.wait()
        there = labels_in(server.database)  # which checks that it is whole
        # The last request was not answered: it was done wholly, or not at all
        assert there in (said, said | asked)
        server = Server(digits[0], "--project", folder)
        shown = {i["id"]: i["class"] for i in server.client.get("/items?limit=1000").json()["items"]}
        assert {item: code for item, code in shown.items() if code is not None} == there
        said = there
    assert server.client.post("/undo").status_code == 200  # the history is there too
    assert len(said) > 50
    server.close()


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_run_that_is_killed_leaves_the_one_before(digits, tmp_path):
    rng, folder = random.Random(7), tmp_path / "p"
    project = LiveProject(digits[0], folder)
    client = client_of(project)
    show(client, digits[1], (0, 1, 2))
    before = run(client, project)["run"]
    project.close()
    for _ in range(2):
        server = Server(digits[0], "--project", folder)
        assert server.client.get("/project").json()["run"] == before
        unlabelled = server.client.get("/ids?view=unlabelled").json()["ids"]
        assert server.client.post("/labels", json={"items": unlabelled[:2], "class": 0}).json() == {"changed": 2}
        assert server.client.post("/run", json={}).status_code == 202
        time.sleep(rng.uniform(0, 0.6))
        server.kill()
        there = contents(server.database)
        assert {item for item, code in there["labels"] if code == 0} >= set(unlabelled[:2])
        server = Server(digits[0], "--project", folder)
        after = server.client.get("/project").json()["run"]
        assert after | {"outdated": ""} == before or after["id"] > before["id"]  # none of it, or all
        assert sum(after["counts"][k] for k in ("labelled", "unknown")) >= len(unlabelled) - 2
        before = after | {"outdated": ""}
        if after["outdated"]:  # the next round starts from these labels
            assert server.client.post("/undo").status_code == 200
        server.close()


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_each_step_that_was_acknowledged_is_there_after_a_kill(digits, tmp_path):
    """Runs, examples of no class, answers of a check, their use, undo and redo: killed after each, and reopened."""
    server = Server(digits[0], "--project", tmp_path / "p")
    classes = show(server.client, digits[1], (0, 1))

    def shown():
        body = server.client.get("/project").json()
        del body["job"]
        check = server.client.get("/check").json() if body["run"] else None
        return body, server.client.get("/items?limit=1000").json(), server.client.get("/runs").json(), check

    def run_and_wait():
        before = server.client.get("/run").json()
        assert server.client.post("/run", json={}).status_code == 202
        while (now := server.client.get("/run").json()) is None or (before and now["id"] == before["id"]):
            time.sleep(0.05)

    def post(path, **body):
        return lambda: server.client.post(path, json=body).raise_for_status()

    def answer(value):
        return lambda: server.client.post(
            "/check", json={"run": 2, "item": server.client.get("/check").json()["order"][0], "answer": value}
        ).raise_for_status()

    unknown = [item["id"] for item in server.client.get("/items?limit=1000").json()["items"]][-3:]
    steps = [
        run_and_wait, post("/labels", items=unknown, **{"class": 0}), run_and_wait, post("/threshold", threshold=0.6),
        answer("wrong"), answer(classes[1]), post("/check/use"), post("/undo"), post("/undo"), post("/undo"),
        post("/undo"), post("/undo"), post("/redo"),
    ]  # fmt: skip
    seen = set()
    for step in steps:
        step()
        before = shown()
        server.kill()
        server = Server(digits[0], "--project", tmp_path / "p")
        assert shown() == before
        seen.add((before[0]["run"]["id"], before[0]["run"]["trust"]["checked"], before[0]["undo"]))
    assert {run for run, _, _ in seen} == {1, 2}
    assert {checked for _, checked, _ in seen} == {0, 1}
    server.close()


def test_a_stop_by_ctrl_c_is_quick_even_while_a_page_listens(digits, tmp_path):
    server = Server(digits[0], "--project", tmp_path / "p")
    with server.client.stream("GET", "/events", timeout=20) as stream:
        assert next(stream.iter_lines()) == "event: project"
        begun = time.perf_counter()
        server.process.send_signal(signal.SIGINT)
        server.process.wait(20)
    assert time.perf_counter() - begun < 15
    assert server.process.returncode in (0, 1, 130, -2)
    with pytest.raises(httpx.TransportError):
        server.client.get("/health")


# ---- disks that fail


def test_a_disk_that_fails_changes_nothing_and_says_so(digits, tmp_path):
    project = LiveProject(digits[0], tmp_path / "p")
    client = client_of(project)
    number = client.post("/classes", json={"name": "cat"}).json()["id"]
    client.post("/labels", json={"items": [1, 2], "class": number})
    before, shown = contents(project), client.get("/project").json()
    pages = project.store._writer.execute("PRAGMA page_count").fetchone()[0]
    project.store._writer.execute(f"PRAGMA max_page_count={pages}")  # SQLite's own way to be full
    ids = client.get("/ids").json()["ids"]
    answers = [client.post("/labels", json={"items": ids, "class": 0}) for _ in range(30)]
    full = [a for a in answers if a.status_code == 507]
    for _ in range(300):
        if full:
            break
        answer = client.post("/classes", json={"name": f"{time.perf_counter_ns():0200d}"})
        full = [answer] if answer.status_code == 507 else []
    assert full
    assert "could not be written" in full[0].json()["error"]
    there = labels_in(project.store.path)
    seen = {i["id"]: i["class"] for i in client.get("/items?limit=1000").json()["items"] if i["class"] is not None}
    assert seen == there
    classes = [c["id"] for c in client.get("/project").json()["classes"]]
    assert classes == [row[0] for row in contents(project)["classes"]]
    project.store._writer.execute("PRAGMA max_page_count=1000000")
    while client.get("/project").json()["undo"] != shown["undo"]:
        assert client.post("/undo").status_code == 200
    assert contents(project)["labels"] == before["labels"]
    project.close()


def test_changes_kept_together_are_all_kept_or_none(tmp_path):
    store = Store(tmp_path)
    with store.write():
        store.change(lambda tx: Change("a", ((1, None, 1),)))
        with pytest.raises(ZeroDivisionError):
            store.change(lambda tx: 1 / 0)
        store.change(lambda tx: Change("b", ((2, None, 1),)))
        assert store.steps()[:2] == ("b", None)
    assert dict(store.labels()) == {1: 1, 2: 1}

    def fails():
        with store.write():
            store.change(lambda tx: Change("c", ((3, None, 1),)))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fails()
    assert dict(store.labels()) == {1: 1, 2: 1}
    assert store.steps()[:2] == ("b", None)
    assert store.undo() is not None
    assert dict(store.labels()) == {1: 1}
    store.close()


def test_a_damaged_or_newer_database_is_told_and_left_alone(digits, tmp_path):
    folder = tmp_path / "p"
    folder.mkdir()
    (folder / "project.sqlite").write_bytes(b"no database" * 1000)
    with pytest.raises(ValueError, match="cannot be used"):
        LiveProject(digits[0], folder)
    assert (folder / "project.sqlite").read_bytes() == b"no database" * 1000
    (folder / "project.sqlite").unlink()
    LiveProject(digits[0], folder).close()
    with sqlite3.connect(folder / "project.sqlite") as db:
        db.execute("PRAGMA user_version=99")
    for _ in range(2):  # and the folder is not left locked
        with pytest.raises(ValueError, match="newer handful"):
            LiveProject(digits[0], folder)
