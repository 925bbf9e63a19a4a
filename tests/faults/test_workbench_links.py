"""Links in the opened folder and in that of the project: what lies outside of them is never shown."""

import io
import os
import shutil
import sys
from contextlib import suppress

import numpy as np
import pytest
from workbenches import client_of

pytest.importorskip("fastapi")
pytest.importorskip("httpx")

from PIL import Image

from handful.project.live import LiveProject
from handful.project.pile import LeadsOut, open_below

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="symbolic links")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """White pictures in a folder and in one below it, beside a secret that is all red."""
    monkeypatch.setenv("HANDFUL_CACHE", str(tmp_path / "cache"))
    pictures, secret = tmp_path / "pictures", tmp_path / "secret"
    (pictures / "below").mkdir(parents=True)
    secret.mkdir()
    Image.new("RGB", (20, 20), "red").save(secret / "a.png")
    for name in ("a.png", "below/a.png"):
        Image.new("RGB", (40, 30), "white").save(pictures / name)
    (pictures / "link.png").symlink_to("below/a.png")
    return pictures, secret


@pytest.fixture
def project(place):
    project = LiveProject(place[0], backbone="pixels")
    assert project.worker.wait(60)
    yield project
    project.close()


def ids_of(project):
    pile = project.state.pile
    return dict(zip(pile.names, pile.ids.tolist(), strict=True))


def is_secret(answer):
    """Whether a picture that was sent is the red one."""
    if answer.status_code != 200:
        assert answer.status_code == 404, answer.text
        return False
    red, green, _ = np.asarray(Image.open(io.BytesIO(answer.content))).reshape(-1, 3).mean(axis=0)
    assert red > 200
    return green < 100


def test_links_that_stay_in_the_folder_are_served(place, project):
    client, ids = client_of(project), ids_of(project)
    assert set(ids) == {"a.png", "below/a.png", "link.png"}
    for item in ids.values():
        assert not is_secret(client.get(f"/pictures/{item}?size=96"))
        assert client.get(f"/pictures/{item}?size=96").status_code == 200
        assert client.get(f"/items/{item}").json()["width"] == 40


def test_thumbnails_that_came_with_the_project_cannot_lead_out(place, project):
    secret = place[1]
    client, item = client_of(project), ids_of(project)["a.png"]
    assert client.get(f"/pictures/{item}?size=96").status_code == 200
    (kept,) = (project.folder / "thumbnails" / "96").rglob("*.jpg")
    good = kept.read_bytes()
    (secret / "key").write_text("a private key")
    for content in (None, b"<script>alert(1)</script>", b""):
        kept.unlink()
        if content is None:
            kept.symlink_to(secret / "key")
        else:
            kept.write_bytes(content)
        assert client.get(f"/pictures/{item}?size=96").content == good
    shutil.rmtree(project.folder / "thumbnails")
    (project.folder / "thumbnails").mkdir()
    (project.folder / "thumbnails" / "96").symlink_to(secret)
    assert client.get(f"/pictures/{item}?size=96").content == good
    assert sorted(path.name for path in secret.rglob("*") if path.is_file()) == ["a.png", "key"]


def test_only_regular_files_below_the_folder_are_opened(place, tmp_path):
    pictures, secret = place
    os.mkfifo(pictures / "pipe.png")
    (pictures / "out").symlink_to(secret)
    (pictures / "loop.png").symlink_to("loop.png")
    for name in ("../secret/a.png", str(secret / "a.png"), "out/a.png", "below/../../secret/a.png", "", ".", "/"):
        with pytest.raises(LeadsOut):
            open_below(pictures, name)
    for name in ("pipe.png", "loop.png", "nothing.png", "below", "a.png/b.png"):
        with pytest.raises(OSError, match=r".+"):
            open_below(pictures, name)
    with pytest.raises(ValueError, match="null"):
        open_below(pictures, "a\0b.png")
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for name in ("a.png", "below/a.png", "link.png", str(pictures / "a.png"), "below/../a.png"):
        os.close(open_below(pictures, name))
        with suppress(OSError):
            open_below(pictures, "out/a.png")
    assert not before or len(os.listdir("/proc/self/fd")) == before  # none is left open


def test_a_picture_that_was_painted_over_is_shown_anew(place, project):
    client, item = client_of(project), ids_of(project)["a.png"]
    shades = []
    for k, colour in enumerate(("white", "black")):
        Image.new("RGB", (40, 30), colour).save(place[0] / "a.png")
        data = (place[0] / "a.png").read_bytes()
        (place[0] / "a.png").write_bytes(data.ljust(2000, b"\0"))  # of the same size
        os.utime(place[0] / "a.png", (k, k))
        answer = client.get(f"/pictures/{item}?size=96")
        shades.append(np.asarray(Image.open(io.BytesIO(answer.content))).mean())
    assert shades[0] > 200
    assert shades[1] < 50
