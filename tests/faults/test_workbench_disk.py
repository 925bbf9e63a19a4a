"""The workbench and its disk: killed, full, its file deleted under it. What was acknowledged is there again."""

import os
import random
import shutil
import signal
import sys
import threading
from contextlib import closing, suppress
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from servers import Server
from workbenches import contents, labels_in, opened, run, show, write_digits

pytest.importorskip("fastapi")

from handful.project.events import Store
from handful.project.live import LiveProject

posix = pytest.mark.skipif(sys.platform == "win32", reason="signals; an open file cannot be deleted on Windows")


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("digits")
    return folder / "digits.parquet", write_digits(folder, pictures=False)


@pytest.fixture
def pictures(tmp_path, monkeypatch):
    monkeypatch.setenv("HANDFUL_CACHE", str(tmp_path / "cache"))
    write_digits(tmp_path / "pictures", 6, 2)
    (tmp_path / "pictures" / "digits.parquet").unlink()
    return tmp_path / "pictures"


# ---- killed


@posix
def test_no_acknowledged_label_is_lost_when_the_server_is_killed(digits, tmp_path):
    rng, said = random.Random(5), {}
    server = Server(digits[0], "--project", tmp_path / "p")
    numbers = [server.client.post("/classes", json={"name": name}).json()["id"] for name in "abc"]
    ids = server.client.get("/ids").json()["ids"]
    for _ in range(2):
        threading.Timer(rng.uniform(0.05, 0.4), server.process.send_signal, [signal.SIGKILL]).start()
        asked = {}
        try:
            while True:
                items, code = rng.sample(ids, rng.choice((1, 3, 50))), rng.choice([*numbers, 0])
                asked = dict.fromkeys(items, code)
                assert server.client.post("/labels", json={"items": items, "class": code}).status_code == 200
                said |= asked
        except httpx.TransportError:
            server.process.wait()
        there = labels_in(server.database)  # which checks that it is whole
        # The last request was not answered: it was done wholly, or not at all
        assert there in (said, said | asked)
        server = Server(digits[0], "--project", tmp_path / "p")
        shown = {i["id"]: i["class"] for i in server.client.get("/items?limit=1000").json()["items"]}
        assert {item: code for item, code in shown.items() if code is not None} == there
        said = there
    assert server.client.post("/undo").status_code == 200  # the steps are there too
    assert len(said) > 50
    server.close()


def test_what_a_kill_left_of_uploads_and_exports_goes_at_the_start(pictures):
    LiveProject(pictures, backbone="pixels").close()
    folder, outside = pictures / ".handful-workbench", pictures.parent / "outside"
    outside.mkdir()
    (outside / "mine.png").write_bytes(b"mine")
    for name in ("uploads/.incoming-abc", "exports/.making-xyz"):
        (folder / name / "made").mkdir(parents=True)
        (folder / name / "0").write_bytes(b"half a picture")
        (folder / name / "link").symlink_to(outside)
    (folder / "uploads" / ".incoming-link").symlink_to(outside)
    (folder / "exports" / "2026-01-01").mkdir()
    LiveProject(pictures).close()
    assert not list((folder / "uploads").glob(".incoming-[!l]*"))
    assert [path.name for path in (folder / "exports").iterdir()] == ["2026-01-01"]
    assert (outside / "mine.png").read_bytes() == b"mine"


def test_events_added_together_are_all_kept_or_none(tmp_path):
    with closing(Store(tmp_path)) as store:
        with store.write():
            store.say({1: "cat"}, "a")
            with suppress(ZeroDivisionError), store.write():
                store.say({2: "dog"}, "b")
                raise ZeroDivisionError
            store.say({3: "cat"}, "c")
        with suppress(KeyboardInterrupt), store.write():
            store.say({4: "cat"}, "d")
            raise KeyboardInterrupt
        assert [step.text for step in store.said.steps] == ["a", "c"]
        said = store.said
    with closing(Store(tmp_path)) as store:
        assert store.said == said
        assert store.undo() == "c"
        assert store.said.labels == {1: 1}


# ---- the file is deleted or replaced


def replace_by_copy(path):
    shutil.copy(path, path.with_name("copy"))
    os.replace(path.with_name("copy"), path)


def replace_by_link(path):
    path.rename(path.with_name("aside"))
    path.symlink_to("aside")


@posix
def test_nothing_is_acknowledged_once_the_file_is_another(digits, tmp_path):
    attacks = (Path.unlink, replace_by_copy, replace_by_link)
    for number, attack in enumerate(attacks):
        project, client = opened(digits[0], tmp_path / str(number))
        show(client, digits[1], (0, 1))
        before = client.get("/project").json()
        attack(project.store.path)
        for path, body in (("/labels", {"items": [5], "class": 0}), ("/classes", {"name": "owl"}), ("/undo", None)):
            answer = client.post(path, json=body)
            assert answer.status_code == 503, (number, answer.text)
            assert "deleted or replaced" in answer.json()["error"]
        after = run(client, project)
        assert "deleted or replaced" in after["job"]["message"]
        assert {k: after[k] for k in ("classes", "undo", "redo")} == {k: before[k] for k in ("classes", "undo", "redo")}
        exported = client.post("/export", json={"formats": ["csv"]}).json()  # as the sentence says
        assert Path(exported["folder"], "labels.csv").read_text().count("person") == 10
        project.close()


# ---- the disk is full


def fill(project):
    """SQLite's own way to be full: not a page more."""
    db = project.store.db
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.execute(f"PRAGMA max_page_count={db.execute('PRAGMA page_count').fetchone()[0]}")


def test_a_full_disk_changes_nothing_and_says_so(digits, tmp_path):
    project, client = opened(digits[0], tmp_path / "p")
    show(client, digits[1], (0, 1, 2))
    before = run(client, project)["run"]
    fill(project)
    for k in range(3000):
        answer = client.post("/classes", json={"name": f"{k:0200d}"})
        if answer.status_code != 200:
            break
    assert (answer.status_code, "could not be written" in answer.json()["error"]) == (507, True)
    kept, shown = contents(project), client.get("/project").json()
    assert [one["id"] for one in shown["classes"]] == [*kept["classes"]]
    after = run(client, project)
    assert after["job"]["state"] == "failed"
    assert "could not be stored" in after["job"]["message"]
    assert "free some space on the disk" in after["job"]["message"]
    assert after["run"] == before
    assert contents(project) == kept
    project.store.db.execute("PRAGMA max_page_count=1000000")
    assert run(client, project)["run"]["id"] > before["id"]
    project.close()


def test_uploads_leave_space_on_the_disk(pictures, monkeypatch):
    from handful.workbench.server import uploads

    project, client = opened(pictures, backbone="pixels")
    data = (pictures / "d0000.png").read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(uploads, "MIN_FREE_BYTES", shutil.disk_usage(project.folder).free * 2)
        answer = client.post("/upload", files=[("f", ("a.png", data))])
    assert (answer.status_code, "free some space" in answer.json()["error"]) == (507, True)
    assert list(project.source.uploads.iterdir()) == []
    project.close()


def test_the_space_that_an_upload_takes_itself_counts(pictures, monkeypatch):
    from handful.workbench.server import uploads

    project, client = opened(pictures, backbone="pixels")
    free = SimpleNamespace(free=uploads.MIN_FREE_BYTES + 10)
    monkeypatch.setattr(uploads.shutil, "disk_usage", lambda _: free)
    files = [("f", ("a.png", (pictures / "d0000.png").read_bytes()))]
    assert client.post("/upload", files=files).status_code == 507
    free.free += 10**6
    assert client.post("/upload", files=files).json()["added"] == 1
    assert project.worker.wait(60)
    project.close()
