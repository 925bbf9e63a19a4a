"""Exports to a folder of the user's choice and downloads: whole, never over anything, never elsewhere."""

import csv
import io
import os
import zipfile

import pytest
from workbenches import opened, run, show, write_digits

pytest.importorskip("fastapi")
pytest.importorskip("httpx")


@pytest.fixture(scope="module")
def solved(tmp_path_factory):
    """A table of digits beside their pictures, after a run: the client, the folder, and the kind of each picture."""
    base = tmp_path_factory.mktemp("base")
    truth = write_digits(base / "work" / "pictures", 60, 3)
    project, client = opened(base / "work" / "pictures" / "digits.parquet", base / "work" / "project")
    show(client, truth, (0, 1), shots=3)
    run(client, project)
    yield client, base / "work" / "pictures", truth
    project.close()


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def export(client, folder, *formats):
    return client.post("/export", json={"formats": list(formats or ["csv"]), "folder": str(folder)})


def settled(client):
    """The label of each item, by name."""
    names = {one["id"]: one["name"] for one in client.get("/project").json()["classes"]} | {0: "unknown"}
    items = client.get("/items?limit=1000").json()["items"]
    return {one["name"]: names[one["decision"] if one["class"] is None else one["class"]] for one in items}


def test_an_export_goes_into_a_new_folder_at_home_or_beside_what_was_opened(solved, home):
    client, pictures, truth = solved
    for typed, place in [("~/labels", home / "labels"), ("beside", pictures / "beside"), (home / "b", home / "b")]:
        answer = export(client, typed, "csv", "coco")
        assert answer.status_code == 200, answer.text
        assert answer.json()["folder"] == str(place.resolve())
        assert sorted(path.name for path in place.iterdir()) == ["coco.json", "labels.csv"] == answer.json()["files"]
    with (home / "labels" / "labels.csv").open(newline="") as file:
        assert {row["path"]: row["label"] for row in csv.DictReader(file)} == settled(client)
    assert set(truth) == settled(client).keys()
    (home / "empty").mkdir()
    assert export(client, "~/empty").status_code == 200
    assert not list(home.glob(".making-*"))


def test_an_export_overwrites_nothing_and_follows_no_link_out(solved, home, tmp_path):
    client, _, _ = solved
    outside = tmp_path / "outside"
    outside.mkdir()
    (home / "full").mkdir()
    (home / "full" / "mine.txt").write_text("mine")
    (home / "file").write_text("mine")
    (home / "link").symlink_to(outside)
    (home / "dangling").symlink_to(tmp_path / "made")
    refused = [("~/full", 409), ("~/file", 409), ("~/link", 409), ("~/dangling", 409), ("~/link/new", 403),
               (outside / "new", 403), ("/etc/new", 403), ("~/../outside/new", 403), ("~/no/such", 404),
               ("~/a\0b", 422), (f"~/{'n' * 300}", 422), ("..", 404), ("/", 404)]  # fmt: skip
    before = sorted(os.walk(tmp_path))
    for typed, status in refused:
        answer = export(client, typed)
        assert answer.status_code == status, (typed, answer.text)
    assert sorted(os.walk(tmp_path)) == before
    assert (home / "full" / "mine.txt").read_text() == "mine"


def test_an_export_is_not_put_among_the_pictures_of_a_folder(home, tmp_path):
    truth = write_digits(tmp_path / "pictures", 12, 2)
    (tmp_path / "pictures" / "digits.parquet").unlink()
    project, client = opened(tmp_path / "pictures", backbone="pixels")
    show(client, truth, (0, 1), shots=2)
    answer = export(client, tmp_path / "pictures" / "sorted", "sorted")
    assert (answer.status_code, "among the pictures" in answer.json()["error"]) == (409, True)
    assert export(client, tmp_path / "sorted", "sorted").status_code == 200
    assert len(list((tmp_path / "sorted").rglob("*.png"))) == 4  # those that have a label
    project.close()


def test_sorted_folders_hold_a_copy_of_each_picture(solved, home):
    client, pictures, truth = solved
    answer = export(client, "~/sorted", "sorted").json()
    assert (answer["files"], answer["missing"]) == (["sorted/"], 0)
    found = {path.name: path for path in (home / "sorted").rglob("*.png")}
    assert {name: path.parent.name for name, path in found.items()} == settled(client)
    assert all(path.read_bytes() == (pictures / name).read_bytes() for name, path in found.items())
    assert len(found) == len(truth)


def test_a_picture_that_is_gone_is_counted_and_the_rest_is_there(solved, home):
    client, pictures, truth = solved
    name = next(iter(truth))
    (pictures / name).rename(pictures / "away")
    try:
        assert export(client, "~/rest", "sorted").json()["missing"] == 1
        data = client.get("/download?formats=sorted").content
    finally:
        (pictures / "away").rename(pictures / name)
    assert len(list((home / "rest").rglob("*.png"))) == len(truth) - 1
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.read("missing.txt").decode().strip().endswith(name)


def test_a_download_is_one_file_or_an_archive(solved):
    client, pictures, truth = solved
    one = client.get("/download?formats=csv")
    assert one.headers["content-disposition"] == 'attachment; filename="labels.csv"'
    assert {row["path"]: row["label"] for row in csv.DictReader(io.StringIO(one.text))} == settled(client)
    many = client.get("/download?formats=csv,coco,sorted")
    assert many.headers["content-disposition"] == 'attachment; filename="digits-labels.zip"'
    with zipfile.ZipFile(io.BytesIO(many.content)) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        labels = settled(client)
        assert set(names) == {"labels.csv", "coco.json", *(f"sorted/{label}/{name}" for name, label in labels.items())}
        assert archive.read("labels.csv").decode() == one.text
        name = next(iter(truth))
        assert archive.read(f"sorted/{labels[name]}/{name}") == (pictures / name).read_bytes()
    for formats in ("", "exe", "csv,,", "csv," * 40):
        assert client.get("/download", params={"formats": formats}).status_code == 422
    assert not list((pictures.parent / "project" / "exports").glob(".making-*"))
