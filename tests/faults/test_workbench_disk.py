"""The workbench and its disk: full, its file deleted under it, and what a kill leaves."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from servers import Server
from workbenches import client_of, contents, labels_in, run, show, write_digits

pytest.importorskip("fastapi")

from handful.project.said import Change
from handful.workbench import LiveProject, Refusal

posix = pytest.mark.skipif(sys.platform == "win32", reason="an open file cannot be deleted on Windows")


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


# ---- the file is deleted or replaced


def delete(path):
    path.unlink()


def replace_by_copy(path):
    shutil.copy(path, path.with_name("copy"))
    os.replace(path.with_name("copy"), path)


def replace_by_link(path):
    path.rename(path.with_name("aside"))
    path.symlink_to("aside")


def delete_log(path):
    Path(f"{path}-wal").unlink()


def delete_folder(path):
    shutil.rmtree(path.parent)


@posix
def test_nothing_is_acknowledged_once_the_file_is_another(digits, tmp_path):
    for attack in (delete, replace_by_copy, replace_by_link, delete_log, delete_folder):
        project = LiveProject(digits[0], tmp_path / attack.__name__)
        client = client_of(project)
        classes = show(client, digits[1], (0, 1))
        before = client.get("/project").json()
        attack(project.store.path)
        for path, body in (
            ("/labels", {"items": [5], "class": 0}),
            ("/classes", {"name": "owl"}),
            ("/undo", None),
            ("/labels", {"items": [6, 7], "class": classes[0]}),
        ):
            answer = client.post(path, json=body)
            assert answer.status_code == 503, (attack, answer.text)
            assert "deleted or replaced" in answer.json()["error"]
        after = client.get("/project").json()
        assert {k: after[k] for k in ("classes", "undo", "redo")} == {k: before[k] for k in ("classes", "undo", "redo")}
        exported = client.post("/export", json={"formats": ["csv"]}).json()  # as the sentence says
        assert Path(exported["folder"], "labels.csv").read_text().count("person") == 10
        project.close()


@posix
def test_a_file_deleted_in_the_midst_of_a_change_is_noticed_before_that_is_acknowledged(digits, tmp_path):
    project = LiveProject(digits[0], tmp_path / "p")

    def make(tx):
        project.store.path.unlink()
        return Change("labelled", ((1, None, 0),))

    with pytest.raises(Refusal) as refusal:
        project._do(make)
    assert refusal.value.status == 503
    assert (project.state.labels == -1).all()
    project.close()


@posix
def test_a_run_whose_file_was_deleted_says_so(digits, tmp_path):
    project = LiveProject(digits[0], tmp_path / "p")
    client = client_of(project)
    show(client, digits[1], (0, 1))
    with project._lock:  # it is asked for, and cannot end before the file is gone
        project.run()
        project.store.path.unlink()
    assert project.worker.wait(60)
    job = client.get("/project").json()["job"]
    assert job["state"] == "failed"
    assert "deleted or replaced" in job["message"]
    project.close()


# ---- the disk is full


def fill(project):
    """SQLite's own way to be full: not a page more."""
    db = project.store._writer
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.execute(f"PRAGMA max_page_count={db.execute('PRAGMA page_count').fetchone()[0]}")


def test_a_run_that_a_full_disk_cannot_keep_says_so_and_the_one_before_stays(digits, tmp_path):
    project = LiveProject(digits[0], tmp_path / "p")
    client = client_of(project)
    show(client, digits[1], (0, 1, 2))
    before = run(client, project)["run"]
    kept = contents(project)
    fill(project)
    after = run(client, project)
    assert after["job"]["state"] == "failed"
    assert "could not be stored" in after["job"]["message"]
    assert "disk" in after["job"]["message"]
    assert "report" not in after["job"]["message"]
    assert after["run"] == before
    assert contents(project) == kept
    project.store._writer.execute("PRAGMA max_page_count=1000000")
    assert run(client, project)["run"]["id"] > before["id"]
    project.close()


def test_uploads_that_a_full_disk_cannot_keep_leave_no_file(pictures):
    project = LiveProject(pictures, backbone="pixels")
    client = client_of(project)
    assert project.worker.wait(60)
    fill(project)
    data = (pictures / "d0000.png").read_bytes()
    for _ in range(40):
        files = [("f", (f"{'x' * 70}{i}.png", data)) for i in range(20)]
        answer = client.post("/upload", files=files)
        if answer.status_code != 200:
            break
    assert answer.status_code == 507, answer.text
    names = {row[2] for row in contents(project)["items"] if row[1] == "uploads"}
    assert {path.name for path in project.source.uploads.iterdir()} == names
    assert client.get("/project").json()["items"] == 6 + len(names)
    project.close()


def tmpfs(folder, size):
    """What runs a program with a small disk of its own at `folder`; None where that is not allowed."""
    if sys.platform != "linux" or shutil.which("unshare") is None:
        return None
    command = f'mount -t tmpfs -o size={size} tmpfs "{folder}" && exec "$@"'
    before = ["unshare", "-Urm", "sh", "-c", command, "sh"]
    return before if subprocess.run([*before, "true"], capture_output=True).returncode == 0 else None


def test_what_a_really_full_disk_acknowledged_is_there(digits, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    before = tmpfs(disk, "1500k")
    if before is None:
        pytest.skip("needs a small disk of its own")
    server = Server(digits[0], "--project", disk / "p", before=before)
    number = server.client.post("/classes", json={"name": "cat"}).json()["id"]
    ids = server.client.get("/ids").json()["ids"]
    said, answer = {}, None
    for k in range(400):
        code = (number, 0)[k % 2]
        items = ids[k % 7 :]
        answer = server.client.post("/labels", json={"items": items, "class": code})
        if answer.status_code != 200:
            break
        said |= dict.fromkeys(items, code)
    assert answer.status_code == 507, answer.text
    assert "could not be written" in answer.json()["error"]
    shown = {i["id"]: i["class"] for i in server.client.get("/items?limit=1000").json()["items"]}
    assert shown == said
    exported = server.client.post("/export", json={"formats": ["csv", "parquet", "coco"]})
    assert exported.status_code in (200, 507)
    inside = Path(f"/proc/{server.process.pid}/root{disk}/p")
    for end in ("", "-wal"):  # as a kill would leave it
        shutil.copy(f"{inside / 'project.sqlite'}{end}", f"{tmp_path / 'kept.sqlite'}{end}")
    left = [path.name for path in (inside / "exports").iterdir()] if (inside / "exports").exists() else []
    assert not [name for name in left if name.startswith(".")]
    server.kill()
    assert labels_in(tmp_path / "kept.sqlite") == said


# ---- what a kill leaves


def test_what_a_kill_left_of_uploads_and_exports_goes_at_the_start(pictures):
    LiveProject(pictures, backbone="pixels").close()
    folder = pictures / ".handful-workbench"
    outside = pictures.parent / "outside"
    outside.mkdir()
    (outside / "mine.png").write_bytes(b"mine")
    for name in ("uploads/.incoming-abc", "exports/.making-xyz"):
        (folder / name / "made").mkdir(parents=True)
        (folder / name / "0").write_bytes(b"half a picture")
        (folder / name / "link").symlink_to(outside)
    (folder / "uploads" / ".incoming-link").symlink_to(outside)
    (folder / "exports" / "2026-01-01").mkdir()
    project = LiveProject(pictures)
    assert not list((folder / "uploads").glob(".incoming-[!l]*"))
    assert [path.name for path in (folder / "exports").iterdir()] == ["2026-01-01"]
    assert (outside / "mine.png").read_bytes() == b"mine"
    project.close()


def test_uploads_leave_some_of_the_disk_free(pictures, monkeypatch):
    from handful.workbench.server import uploads

    project = LiveProject(pictures, backbone="pixels")
    client = client_of(project)
    files = [("f", ("a.png", (pictures / "d0000.png").read_bytes()))]
    free = shutil.disk_usage(project.folder).free
    with monkeypatch.context() as patch:
        patch.setattr(uploads, "MIN_FREE_BYTES", free * 2)
        answer = client.post("/upload", files=files)
    assert answer.status_code == 507, answer.text
    assert "free some space" in answer.json()["error"]
    assert list(project.source.uploads.iterdir()) == []
    assert client.post("/upload", files=files).json() == {"added": 1, "refused": []}
    project.close()
