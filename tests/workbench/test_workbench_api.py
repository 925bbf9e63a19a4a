"""The workbench through its API: from an unlabelled pile to exported labels, and back by undo."""

import csv
import io
import json
import os
import sys
import zipfile

import numpy as np
import pytest
from PIL import Image
from servers import SMALL, Server
from workbenches import opened, run, show, write_digits

pytest.importorskip("fastapi")
pytest.importorskip("httpx")

import handful
from handful.project.live import LiveProject

ITEM = {"id", "name", "class", "decision", "confidence", "p_unknown", "score", "group", "changed"}


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("digits")
    return folder, write_digits(folder)


@pytest.fixture(scope="module")
def solved(digits, tmp_path_factory):
    """After one run with three kinds of five shown: (project, client, truth, classes). Tests leave it as it is."""
    project, client = opened(digits[0] / "digits.parquet", tmp_path_factory.mktemp("solved"))
    classes = show(client, digits[1], (0, 1, 2))
    run(client, project)
    yield project, client, digits[1], classes
    project.close()


def test_a_run_labels_the_pile_and_sets_unknowns_aside(solved):
    _, client, truth, classes = solved
    items = client.get("/items?limit=1000").json()["items"]
    assert all(set(item) == ITEM for item in items)
    pile = [item for item in items if item["class"] is None]
    assert len(pile) == len(truth) - 15
    assert np.mean([item["decision"] == classes.get(truth[item["name"]], 0) for item in pile]) > 0.9
    assert all(item["decision"] is None for item in items if item["class"] is not None)
    for item in pile:
        assert 0 <= item["p_unknown"] <= 1
        assert 0 < item["confidence"] <= 1
        assert item["group"] is None or item["decision"] == 0
    project = client.get("/project").json()
    assert project["items"] == project["ready"] == len(truth) == len(items)
    said = [item["class"] if item["class"] is not None else item["decision"] for item in items]
    assert [(one["examples"], one["count"]) for one in project["classes"]] == [
        (5, said.count(one["id"])) for one in project["classes"]
    ]
    shown, labels = project["run"], [item for item in pile if item["decision"]]
    assert shown["counts"] == {"labelled": len(labels), "unknown": said.count(0), "changed": 0}
    assert f"{len(labels)} labelled, {said.count(0)} unknown." in shown["sentence"]
    assert shown["share_low"] <= shown["share"] <= shown["share_high"]
    right = sum(item["confidence"] for item in labels)
    assert shown["expected_precision"] == pytest.approx(right / len(labels))
    assert f"Of {len(labels)} labels about {right:.0f} should be right." == shown["trust"]["sentence"]
    for one in shown["expected"]:
        own = [item["confidence"] for item in labels if item["decision"] == one["class"]]
        assert (one["labels"], one["right"]) == (len(own), pytest.approx(sum(own)))
    flat, histogram = client.get("/map").json(), client.get("/histogram").json()
    assert sorted(flat["ids"]) == sorted(item["id"] for item in items)
    assert len(flat["x"]) == len(flat["y"]) == len(truth)
    assert (sum(histogram["known"]), sum(histogram["unknown"])) == (len(labels), said.count(0))


def test_views_hold_what_they_say_in_their_order(solved):
    _, client, _, classes = solved
    items = {item["id"]: item for item in client.get("/items?limit=1000").json()["items"]}

    def view(name):
        return [items[i] for i in client.get("/ids", params={"view": name}).json()["ids"]]

    names = [item["name"] for item in view("all")]
    assert names == sorted(items[i]["name"] for i in items)
    assert {item["id"] for item in view("unlabelled")} == {i for i in items if items[i]["class"] is None}
    assert {item["id"] for item in view("examples")} == {i for i in items if items[i]["class"] is not None}
    for number in classes.values():
        members = view(f"class:{number}")
        assert {item["id"] for item in members} == {
            i for i in items if items[i]["class"] == number or items[i]["decision"] == number
        }
        sure = [item["confidence"] for item in members if item["class"] is None]
        assert sure == sorted(sure, reverse=True)
    p = [item["p_unknown"] for item in view("unknown")]
    assert p == sorted(p, reverse=True)
    assert {item["id"] for item in view("unknown")} == {i for i in items if items[i]["decision"] == 0}
    sure = [item["confidence"] for item in view("unsure")]
    assert sure == sorted(sure)
    assert len(sure) == len(view("unlabelled"))
    assert view("changed") == []


def test_pages_search_and_ids_agree(solved):
    _, client, truth, _ = solved
    order = client.get("/ids").json()["ids"]
    pages = [client.get(f"/items?offset={at}&limit=50").json() for at in range(0, len(order) + 50, 50)]
    assert [item["id"] for page in pages for item in page["items"]] == order
    assert {page["total"] for page in pages} == {len(order)}
    some = [order[7], order[3], 10**9]
    assert [item["id"] for item in client.get(f"/items?ids={','.join(map(str, some))}").json()["items"]] == some[:2]
    found = client.get("/items", params={"search": "D001", "limit": 1000}).json()
    assert {item["name"] for item in found["items"]} == {name for name in truth if "d001" in name}


def test_an_item_in_full_tells_its_probabilities_and_nearest_examples(solved):
    _, client, _, classes = solved
    item = client.get("/ids?view=unsure").json()["ids"][-1]
    full = client.get(f"/items/{item}").json()
    assert sum(full["probabilities"].values()) + full["p_unknown"] == pytest.approx(1, abs=1e-5)
    assert set(full["probabilities"]) == {str(number) for number in classes.values()}
    assert (full["width"], full["height"]) == (64, 64)
    shown = set(client.get("/ids?view=examples").json()["ids"])
    assert len(full["nearest"]) == 5
    assert set(full["nearest"]) <= shown
    for example in list(shown)[:3]:
        assert example not in client.get(f"/items/{example}").json()["nearest"]  # it is not its own neighbour


# ---- exports and downloads: whole, never over anything, never elsewhere


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def export(client, folder, *formats):
    return client.post("/export", json={"formats": list(formats or ["csv"]), "folder": str(folder)})


def settled(client):
    """The label of each item, by name."""
    names = {one["id"]: one["name"] for one in client.get("/classes").json()} | {0: "unknown"}
    items = client.get("/items?limit=1000").json()["items"]
    return {one["name"]: names[one["decision"] if one["class"] is None else one["class"]] for one in items}


def test_an_export_goes_into_a_new_folder_at_home_or_beside_what_was_opened(solved, digits, home):
    (_, client, truth, _), (pictures, _) = solved, digits
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
    _, client, _, _ = solved
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


def test_a_picture_that_is_gone_is_counted_and_the_rest_is_there(solved, digits, home):
    (_, client, truth, _), (pictures, _) = solved, digits
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


def test_a_download_is_one_file_or_an_archive(solved, digits):
    (project, client, truth, _), (pictures, _) = solved, digits
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
    assert not list((project.folder / "exports").glob(".making-*"))


def test_sorted_files_alone_are_downloaded_as_a_zip(solved):
    answer = solved[1].get("/download?formats=sorted")
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert {name.split("/")[0] for name in archive.namelist()} == {"sorted"}


# ---- tables and folders


@pytest.mark.parametrize(
    "labels", [["cat", None, "unknown", "dog"], ["cat", " ", "-2", "dog"], [3, -1, -2, 7]], ids=str
)
def test_labels_of_a_table_are_given_ones(tmp_path, labels):
    import pyarrow as pa
    from pyarrow import parquet

    rows = {"path": ["a", "b", "c", "d"], "embedding": [[0.0, 1], [1, 0], [1, 1], [2, 1]]}
    parquet.write_table(pa.table(rows | {"label": labels}), tmp_path / "t.parquet")
    for _ in range(2):  # once, and not again when it is opened again
        project, client = opened(tmp_path / "t.parquet")
        classes = {c["id"]: c["name"] for c in client.get("/classes").json()}
        items = client.get("/items").json()["items"]
        assert [classes.get(i["class"], i["class"]) for i in items] == [str(labels[0]), None, 0, str(labels[3])]
        assert project.folder == tmp_path / "t.workbench"
        project.close()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HANDFUL_CACHE", str(tmp_path / "cache"))
    pictures = tmp_path / "pictures"
    truth = write_digits(pictures, 60, 3)
    (pictures / "digits.parquet").unlink()
    (pictures / "broken.png").write_bytes(b"no picture")
    return pictures, truth


def test_a_folder_is_embedded_before_it_is_solved_and_keeps_labels_of_pictures_that_are_gone(folder):
    pictures, truth = folder
    project, client = opened(pictures, backbone="pixels")
    with pytest.raises(ValueError, match="is in use by another process"):
        LiveProject(pictures)
    classes = show(client, truth, (0, 1), shots=4)
    assert client.post("/run", json={}).status_code == 202  # at once, whether or not all is embedded
    assert project.worker.wait(60)
    after = client.get("/project").json()
    assert (after["items"], after["ready"], after["skipped"]) == (60, 60, 1)
    assert after["run"]["counts"]["labelled"] + after["run"]["counts"]["unknown"] == 52
    assert [one["name"] for one in client.get("/skipped").json()] == ["broken.png"]
    example = client.get("/items?view=examples").json()["items"][0]
    answer = client.get(f"/pictures/{example['id']}?size=96")
    assert answer.headers["content-type"] == "image/jpeg"
    assert "immutable" in answer.headers["cache-control"]
    assert "private" in answer.headers["cache-control"]
    assert Image.open(io.BytesIO(answer.content)).size == (64, 64)
    assert client.get(f"/pictures/{example['id']}?size=97").status_code == 400
    project.close()
    (pictures / example["name"]).rename(pictures.parent / "aside.png")
    project, client = opened(pictures)  # no backbone need be named, and what was known is known
    again = client.get("/project").json()
    assert (again["ready"], again["run"]["id"]) == (59, after["run"]["id"])
    assert sum(one["examples"] for one in again["classes"]) == 7
    assert client.get(f"/pictures/{example['id']}").status_code == 404
    project.close()
    (pictures.parent / "aside.png").rename(pictures / example["name"])
    project, client = opened(pictures, backbone="nonsense")
    assert client.get(f"/items/{example['id']}").json()["class"] == example["class"] in classes.values()
    job = client.get("/project").json()["job"]
    assert (job["state"], "no backbone 'nonsense'" in job["message"]) == ("failed", True)
    assert client.post("/labels", json={"items": [example["id"]], "class": 0}).json() == {"changed": 1}
    project.close()


# ---- as it is started


def test_the_command_serves_the_page_and_tells_of_changes(digits, tmp_path):
    server = Server(digits[0] / "digits.parquet", "--project", tmp_path / "p")
    try:
        import httpx

        with httpx.Client() as browser:
            welcome = browser.get(server.facts["url"])
            assert (welcome.status_code, welcome.headers["location"]) == (303, "/")
            for file, kind in {"": "html", "static/style.css": "css", "static/main.js": "javascript"}.items():
                answer = browser.get(server.facts["address"] + file)
                assert answer.headers["content-type"].startswith(f"text/{kind}")
            project = browser.get(f"{server.facts['address']}api/v1/project").json()
            assert project["items"] == server.facts["items"] == 180
        with server.client.stream("GET", "/events", timeout=20) as stream:
            lines = stream.iter_lines()
            assert next(lines) == "event: project"
            assert json.loads(next(lines).removeprefix("data: ")) == project
            server.client.post("/classes", json={"name": "<b>owl</b>"})
            told = next(line for line in lines if line.startswith("data: ") and "owl" in line)
            assert json.loads(told[6:])["classes"][0]["name"] == "<b>owl</b>"
    finally:
        server.close()


def test_serve_solves_and_nothing_else(service):
    with service.open_client() as client:
        said = client.post("/solve", json=SMALL).json()
        assert said["labels"] == handful.solve(SMALL["support"], SMALL["labels"], SMALL["query"]).labels.tolist()
        assert client.get("/health").json()["ok"] is True
        assert client.get("/project").status_code == 404
        assert set(client.get("/openapi.json").json()["paths"]) == {"/api/v1/solve", "/api/v1/health"}


def test_what_cannot_be_started_is_told(digits, handful, monkeypatch):
    refused = handful("workbench", digits[0] / "digits.parquet", "--host", "0.0.0.0", "--no-browser")
    assert (refused.returncode, "this machine only" in refused.stderr) == (1, True)
    monkeypatch.setitem(sys.modules, "fastapi", None)
    refused = handful("workbench", digits[0])
    assert (refused.returncode, 'pip install "handful[web]"' in refused.stderr) == (1, True)
