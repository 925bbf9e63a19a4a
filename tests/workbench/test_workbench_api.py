"""The workbench through its API: from an unlabelled pile to exported labels, and back by undo."""

import csv
import json
import re
import subprocess
import sys
import time

import numpy as np
import pytest
from servers import Server
from workbenches import client_of, contents, labels_in, run, show, write_digits

pytest.importorskip("fastapi")
pytest.importorskip("httpx")

from handful.workbench import LiveProject

ITEM = {"id", "name", "class", "decision", "confidence", "p_unknown", "score", "group", "changed"}


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("digits")
    return folder, write_digits(folder)


@pytest.fixture
def project(digits, tmp_path):
    opened = LiveProject(digits[0] / "digits.parquet", tmp_path / "project")
    yield opened
    opened.close()


@pytest.fixture
def client(project):
    return client_of(project)


@pytest.fixture(scope="module")
def solved(digits, tmp_path_factory):
    """After one run with three kinds of five shown: (project, client, truth, classes). Tests leave it as it is."""
    project = LiveProject(digits[0] / "digits.parquet", tmp_path_factory.mktemp("solved"))
    client = client_of(project)
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
    right = [item["decision"] == classes.get(truth[item["name"]], 0) for item in pile]
    assert np.mean(right) > 0.9
    assert all(item["decision"] is None for item in items if item["class"] is not None)
    for item in pile:
        assert 0 <= item["p_unknown"] <= 1
        assert 0 < item["confidence"] <= 1
        assert item["group"] is None or item["decision"] == 0


def test_the_project_counts_agree_with_the_items(solved):
    _, client, truth, _ = solved
    project = client.get("/project").json()
    items = client.get("/items?limit=1000").json()["items"]
    assert project["items"] == project["ready"] == len(truth) == len(items)
    said = [item["class"] if item["class"] is not None else item["decision"] for item in items]
    for one in project["classes"]:
        assert one["examples"] == 5
        assert one["count"] == said.count(one["id"])
    counts = project["run"]["counts"]
    assert counts == {"labelled": sum(x != 0 for x in said) - 15, "unknown": said.count(0), "changed": 0}
    assert f"{counts['labelled']} labelled, {counts['unknown']} unknown." in project["run"]["sentence"]
    assert project["run"]["share_low"] <= project["run"]["share"] <= project["run"]["share_high"]
    assert project["job"]["state"] == "done"


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


def test_similar_items_come_by_cosine(solved):
    project, client, _, _ = solved
    order = client.get("/ids?similar=20").json()["ids"]
    pile = project.state.pile
    x = pile.features - pile.features.mean(axis=0)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    cosine = x @ x[pile.row[20]]
    assert order[0] == 20
    ours = cosine[[pile.row[i] for i in order]]
    np.testing.assert_allclose(ours, np.sort(cosine)[::-1], atol=1e-4)
    unknown = client.get("/ids?similar=20&view=unknown").json()["ids"]
    assert unknown == [i for i in order if i in set(unknown)]


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


def test_pictures_are_small_jpegs_kept_by_the_browser(solved):
    import io

    from PIL import Image

    _, client, _, _ = solved
    answer = client.get("/pictures/3?size=96")
    assert answer.headers["content-type"] == "image/jpeg"
    assert "immutable" in answer.headers["cache-control"]
    assert "private" in answer.headers["cache-control"]
    assert Image.open(io.BytesIO(answer.content)).size == (64, 64)
    assert client.get("/pictures/3?size=96").content == answer.content
    assert client.get("/pictures/99999").status_code == 404
    assert client.get("/pictures/3?size=97").status_code == 400


def test_the_map_and_the_histogram_hold_every_item(solved):
    _, client, truth, _ = solved
    flat = client.get("/map").json()
    assert sorted(flat["ids"]) == sorted(client.get("/ids").json()["ids"])
    assert len(flat["x"]) == len(flat["y"]) == len(truth)
    histogram = client.get("/histogram").json()
    counts = client.get("/project").json()["run"]["counts"]
    assert (sum(histogram["known"]), sum(histogram["unknown"])) == (counts["labelled"], counts["unknown"])
    assert len(histogram["edges"]) == len(histogram["known"]) + 1


def test_groups_are_of_unknowns_and_the_largest_first(solved):
    _, client, truth, _ = solved
    groups = client.get("/groups").json()
    sizes = [group["size"] for group in groups]
    assert sizes == sorted(sizes, reverse=True)
    unknown = set(client.get("/ids?view=unknown").json()["ids"])
    names = {item["id"]: item["name"] for item in client.get("/items?limit=1000").json()["items"]}
    for group in groups:
        assert set(group["items"]) <= unknown
        assert group["representative"] == group["items"][0]
        assert client.get(f"/ids?view=group:{group['number']}").json()["ids"] == group["items"]
    kinds = [truth[names[item]] for item in groups[0]["items"]]
    assert max(kinds.count(kind) for kind in set(kinds)) > 0.8 * len(kinds)


def test_labels_are_kept_changed_and_taken_away(client, project):
    a, b = (client.post("/classes", json={"name": name}).json() for name in ("cat", "dog"))
    assert (a["key"], b["key"]) == (1, 2)
    assert client.post("/labels", json={"items": [1, 2, 3, 3], "class": a["id"]}).json() == {"changed": 3}
    assert client.post("/labels", json={"items": [3, 4], "class": b["id"]}).json() == {"changed": 2}
    assert client.post("/labels", json={"items": [4], "class": b["id"]}).json() == {"changed": 0}
    assert client.post("/labels", json={"items": [5], "class": 0}).json() == {"changed": 1}
    assert client.post("/labels", json={"items": [1], "class": None}).json() == {"changed": 1}
    assert labels_in(project.store.path) == {2: a["id"], 3: b["id"], 4: b["id"], 5: 0}
    assert client.post("/labels", json={"items": [1], "class": 77}).status_code == 404
    assert client.post("/labels", json={"items": [1, 10**6], "class": 0}).status_code == 404
    assert labels_in(project.store.path) == {2: a["id"], 3: b["id"], 4: b["id"], 5: 0}


def test_classes_are_named_keyed_and_deleted(client, project):
    a, b = (client.post("/classes", json={"name": name}).json()["id"] for name in ("cat", "dog"))
    assert client.post("/classes", json={"name": " CAT "}).status_code == 409
    for name, why in {"Unknown": "of no class", "-2": "of no class", "-1": "without a label", "nan": "without"}.items():
        refused = client.post("/classes", json={"name": name})
        assert refused.status_code == 400
        assert f'"{name}" is the name' in refused.json()["error"]
        assert why in refused.json()["error"]
    assert client.post("/classes", json={"name": " \n "}).status_code == 400
    assert client.patch(f"/classes/{b}", json={"name": "hound", "key": 1}).json()["key"] == 1
    classes = client.get("/classes").json()
    assert [(c["name"], c["key"]) for c in classes] == [("cat", None), ("hound", 1)]
    assert client.patch(f"/classes/{b}", json={"key": None}).json()["key"] is None
    assert client.patch(f"/classes/{b}", json={"key": 10}).status_code == 422
    client.post("/labels", json={"items": [1, 2], "class": a})
    assert client.delete(f"/classes/{a}").json() == {"changed": 2}
    assert labels_in(project.store.path) == {}
    assert client.get(f"/ids?view=class:{a}").status_code == 404
    client.post("/undo")
    assert labels_in(project.store.path) == {1: a, 2: a}
    c = client.post("/classes", json={"name": "new"}).json()["id"]
    assert c not in (a, b)


def test_every_change_can_be_undone_and_done_again_in_any_number_of_steps(digits, tmp_path):
    project = LiveProject(digits[0] / "digits.parquet", tmp_path / "p")
    client = client_of(project)
    classes = show(client, digits[1], (0, 1, 2))
    run(client, project)

    def seen():
        found = contents(project)
        return {name: found[name] for name in ("classes", "labels")}

    def shown():
        body = client.get("/project").json()
        return {k: body[k] for k in ("classes", "run")}, client.get("/items?limit=1000").json()

    moments = [(seen(), shown())]
    unsure = client.get("/ids?view=unsure").json()["ids"]
    steps = [
        ("POST", "/labels", {"items": unsure[:7], "class": classes[0]}),
        ("PATCH", f"/classes/{classes[1]}", {"name": "eins", "key": 1}),
        ("POST", "/threshold", {"threshold": 0.8}),
        ("POST", "/accept", {"items": unsure[5:30]}),
        ("POST", "/groups/1/promote", {"name": "a new class", "examples": 4}),
        ("DELETE", f"/classes/{classes[2]}", None),
        ("POST", "/labels", {"items": unsure[:3], "class": None}),
    ]
    for method, path, body in steps:
        answer = client.request(method, path, json=body)
        assert answer.status_code == 200, answer.text
        moments.append((seen(), shown()))
        assert moments[-1] != moments[-2]
    said = [client.get("/project").json()["undo"]]
    for moment in reversed(moments[:-1]):
        assert client.post("/undo").json() == {"text": said[-1]}
        assert (seen(), shown()) == moment
        said.append(client.get("/project").json()["undo"])
    assert "eins" in " ".join(filter(None, said))
    for moment in moments[1:]:
        assert client.post("/redo").status_code == 200
        assert (seen(), shown()) == moment
    assert client.post("/redo").status_code == 409
    # It is all on the disk: another process could go on
    project.close()
    project = LiveProject(digits[0] / "digits.parquet", tmp_path / "p")
    client = client_of(project)
    assert (seen(), shown()) == moments[-1]
    assert client.post("/undo").status_code == 200
    assert (seen(), shown()) == moments[-2]
    client.post("/labels", json={"items": unsure[:1], "class": 0})
    assert client.post("/redo").status_code == 409  # a new change ends what could be done again
    project.close()


def test_a_run_says_how_many_labels_should_be_right(solved):
    _, client, _, classes = solved
    said = client.get("/project").json()["run"]
    pile = [item for item in client.get("/items?limit=1000").json()["items"] if item["class"] is None]
    labels = [item for item in pile if item["decision"]]
    right = sum(item["confidence"] for item in labels)
    assert said["expected_precision"] == pytest.approx(right / len(labels))
    assert f"Of {len(labels)} labels about {right:.0f} should be right." == said["trust"]["sentence"]
    assert not said["trust"]["is_measured"]
    assert {one["class"] for one in said["expected"]} == set(classes.values())
    for one in said["expected"]:
        own = [item["confidence"] for item in labels if item["decision"] == one["class"]]
        assert one["labels"] == len(own)
        assert one["right"] == pytest.approx(sum(own))


def test_without_labels_no_precision_is_promised(digits, tmp_path):
    project = LiveProject(digits[0] / "digits.parquet", tmp_path / "p")
    client = client_of(project)
    show(client, digits[1], (0, 1, 2))
    run(client, project)
    nothing = client.post("/threshold", json={"threshold": -1.0}).json()
    assert nothing["expected_precision"] is None
    assert [one["labels"] for one in nothing["expected"]] == [0, 0, 0]
    assert nothing["trust"]["sentence"] == ""
    every = client.post("/threshold", json={"threshold": 2.0}).json()
    assert every["expected_precision"] < 0.7
    words = r"Only about \d+ of \d+ labels should be right: check the least sure ones\."
    assert re.fullmatch(words, every["trust"]["sentence"])
    project.close()


def test_the_threshold_moves_decisions_at_once(digits, tmp_path):
    project = LiveProject(digits[0] / "digits.parquet", tmp_path / "p")
    client = client_of(project)
    assert client.post("/threshold", json={"threshold": 0.5}).status_code == 409
    show(client, digits[1], (0, 1, 2))
    run(client, project)
    for threshold in (0.0, 0.3, 0.9, 2.0):
        said = client.post("/threshold", json={"threshold": threshold}).json()
        items = client.get("/items?view=unlabelled&limit=1000").json()["items"]
        assert [item["decision"] == 0 for item in items] == [item["score"] > threshold for item in items]
        assert said["counts"]["unknown"] == sum(item["score"] > threshold for item in items)
    assert client.get("/groups").json() == []
    project.close()


def test_the_second_run_says_what_changed(digits, tmp_path):
    truth = digits[1]
    project = LiveProject(digits[0] / "digits.parquet", tmp_path / "p")
    client = client_of(project)
    show(client, truth, (0, 1, 2))
    run(client, project)
    before = {i["id"]: i["decision"] for i in client.get("/items?view=unlabelled&limit=1000").json()["items"]}
    promoted = client.post("/groups/1/promote", json={"name": "of the group", "examples": 5}).json()
    assert promoted["examples"] == 5
    after = run(client, project)
    items = client.get("/items?view=unlabelled&limit=1000").json()["items"]
    assert len(items) == len(before) - 5
    assert all(i["changed"] == (before[i["id"]] != i["decision"]) for i in items)
    changed = sum(i["changed"] for i in items)
    assert changed > 10
    assert after["run"]["counts"]["changed"] == changed
    assert f"{changed} changed since the last run" in after["run"]["sentence"]
    assert {i["id"] for i in items if i["changed"]} == set(client.get("/ids?view=changed").json()["ids"])
    project.close()


def test_an_item_said_to_be_unknown_stays_out_of_the_pile_and_unknown(client, project, digits):
    show(client, digits[1], (0, 1))
    odd = client.get("/ids?view=unlabelled").json()["ids"][:3]
    client.post("/labels", json={"items": odd, "class": 0})
    run(client, project)
    items = client.get(f"/items?ids={','.join(map(str, odd))}").json()["items"]
    assert [(i["class"], i["decision"]) for i in items] == [(0, None)] * 3
    assert set(odd) <= set(client.get("/ids?view=unknown").json()["ids"])


def test_a_run_needs_examples_and_leaves_out_classes_without(client, project, digits):
    assert "no classes" in client.post("/run", json={}).json()["error"]
    empty = client.post("/classes", json={"name": "owl"}).json()["id"]
    answer = client.post("/run", json={})
    assert answer.status_code == 400
    assert "no class has an example" in answer.json()["error"]
    show(client, digits[1], (0, 1))
    after = run(client, project)
    assert "owl" in after["run"]["sentence"]
    assert next(c for c in after["classes"] if c["id"] == empty)["count"] == 0
    assert client.post("/run", json={"method": "no such"}).status_code == 400
    assert client.post("/run", json={"outlier_share": 1.5}).status_code == 422
    told = run(client, project, method="eol", outlier_share=0.4)
    assert (told["run"]["method"], told["run"]["share"], told["run"]["share_told"]) == ("eol", 0.4, True)


def test_a_cancelled_run_leaves_the_one_before(client, project, digits):
    show(client, digits[1], (0, 1, 2))
    first = run(client, project)["run"]
    client.post("/labels", json={"items": client.get("/ids?view=unsure").json()["ids"][:20], "class": 0})
    before = contents(project)["runs"]
    with project._lock:  # the run cannot take its labels yet: it is cancelled for certain before it is done
        project.run()
        assert client.delete("/job").json()["state"] in ("running", "cancelled")
    assert project.worker.wait(60)
    after = client.get("/project").json()
    assert after["job"]["state"] == "cancelled"
    assert after["run"]["id"] == first["id"]
    assert contents(project)["runs"] == before
    assert run(client, project)["run"]["id"] == first["id"] + 1


def test_the_decisions_on_a_deleted_class_go_with_it(client, project, digits):
    classes = show(client, digits[1], (0, 1, 2))
    run(client, project)
    mine = {i["id"] for i in client.get("/items?limit=1000").json()["items"] if i["decision"] == classes[2]}
    assert mine
    client.delete(f"/classes/{classes[2]}")
    assert {i["decision"] for i in client.get("/items?limit=1000").json()["items"] if i["id"] in mine} == {None}
    client.post("/undo")
    assert {i["decision"] for i in client.get("/items?limit=1000").json()["items"] if i["id"] in mine} == {classes[2]}


def test_five_thousand_labels_are_one_change(tmp_path):
    import pyarrow as pa
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    table = pa.table({"embedding": rng.normal(size=(5000, 4)).astype(np.float32).tolist()})
    parquet.write_table(table, tmp_path / "many.parquet")
    project = LiveProject(tmp_path / "many.parquet")
    client = client_of(project)
    number = client.post("/classes", json={"name": "all"}).json()["id"]
    ids = client.get("/ids").json()["ids"]
    assert client.post("/labels", json={"items": ids, "class": number}).json() == {"changed": 5000}
    assert labels_in(project.store.path) == dict.fromkeys(ids, number)
    assert len(contents(project)["events"]) == 2
    client.post("/undo")
    assert labels_in(project.store.path) == {}
    project.close()


def test_exports_agree_with_the_database(digits, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    from pathlib import Path

    project = LiveProject(digits[0] / "digits.parquet", tmp_path / "p")
    client = client_of(project)
    classes = show(client, digits[1], (0, 1, 2))
    run(client, project)
    client.post("/labels", json={"items": client.get("/ids?view=unknown").json()["ids"][:2], "class": 0})
    client.delete(f"/classes/{classes[1]}")
    every = ["csv", "parquet", "coco", "fiftyone", "label-studio"]
    said = client.post("/export", json={"formats": every}).json()
    folder = Path(said["folder"])
    assert folder.parent == tmp_path / "p" / "exports"
    assert set(said["files"]) == {"labels.csv", "labels.parquet", "coco.json", "fiftyone.json", "label-studio.json"}
    items = {item["name"]: item for item in client.get("/items?limit=1000").json()["items"]}
    names = {0: "unknown", None: ""} | {c["id"]: c["name"] for c in client.get("/classes").json()}
    given = {name: labels_in(project.store.path).get(item["id"]) for name, item in items.items()}
    wanted = {n: names[given[n] if given[n] is not None else items[n]["decision"]] for n in items}
    with open(folder / "labels.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["path"]: row["label"] for row in rows} == wanted
    assert {row["path"] for row in rows if row["labelled_by"] == "person"} == {n for n in given if given[n] is not None}
    table = parquet.read_table(folder / "labels.parquet").to_pylist()
    assert {row["path"]: row["label"] for row in table} == wanted
    labelled = {name: label for name, label in wanted.items() if label}
    assert len(labelled) < len(wanted)  # those of the deleted class have none
    coco = json.loads((folder / "coco.json").read_text())
    category = {c["id"]: c["name"] for c in coco["categories"]}
    files = {i["id"]: Path(i["file_name"]).name for i in coco["images"]}
    assert {files[a["image_id"]]: category[a["category_id"]] for a in coco["annotations"]} == labelled
    fiftyone = json.loads((folder / "fiftyone.json").read_text())["labels"]
    assert {Path(path).name: one["label"] for path, one in fiftyone.items()} == labelled
    assert len(json.loads((folder / "label-studio.json").read_text())) == len(labelled)
    again = client.post("/export", json={"formats": ["csv"]}).json()
    assert again["folder"] != said["folder"]
    assert client.post("/export", json={"formats": ["exe"]}).status_code == 422
    project.close()


@pytest.mark.parametrize(
    "labels", [["cat", None, "unknown", "dog"], ["cat", " ", "-2", "dog"], [3, -1, -2, 7]], ids=str
)
def test_labels_of_a_table_are_given_ones(tmp_path, labels):
    import pyarrow as pa
    from pyarrow import parquet

    rows = {"path": ["a", "b", "c", "d"], "embedding": [[0.0, 1], [1, 0], [1, 1], [2, 1]]}
    parquet.write_table(pa.table(rows | {"label": labels}), tmp_path / "t.parquet")
    for _ in range(2):  # once, and not again when it is opened again
        project = LiveProject(tmp_path / "t.parquet")
        client = client_of(project)
        classes = {c["id"]: c["name"] for c in client.get("/classes").json()}
        items = client.get("/items").json()["items"]
        assert [classes.get(i["class"], i["class"]) for i in items] == [str(labels[0]), None, 0, str(labels[3])]
        assert project.folder == tmp_path / "t.workbench"
        project.close()


# ---- folders of pictures


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HANDFUL_CACHE", str(tmp_path / "cache"))
    pictures = tmp_path / "pictures"
    truth = write_digits(pictures, 60, 3)
    (pictures / "digits.parquet").unlink()
    (pictures / "broken.png").write_bytes(b"no picture")
    return pictures, truth


def test_a_folder_is_embedded_before_it_is_solved(folder):
    pictures, truth = folder
    project = LiveProject(pictures, backbone="pixels")
    client = client_of(project)
    classes = show(client, truth, (0, 1), shots=4)
    answer = client.post("/run", json={})  # at once, whether or not all is embedded
    assert answer.status_code == 202
    assert project.worker.wait(60)
    after = client.get("/project").json()
    assert (after["items"], after["ready"], after["skipped"]) == (60, 60, 1)
    assert after["run"]["counts"]["labelled"] + after["run"]["counts"]["unknown"] == 52
    (broken,) = client.get("/skipped").json()
    assert broken["name"] == "broken.png"
    assert client.get(f"/ids?view=class:{classes[0]}").json()["ids"]
    project.close()
    # Opened again: no backbone need be named, and what was known is known
    project = LiveProject(pictures)
    client = client_of(project)
    assert project.worker.wait(60)
    again = client.get("/project").json()
    assert {k: again[k] for k in ("items", "ready", "run", "classes")} == {
        k: after[k] for k in ("items", "ready", "run", "classes")
    }
    project.close()


def test_a_picture_that_is_gone_keeps_its_label_for_when_it_is_back(folder):
    pictures, _ = folder
    project = LiveProject(pictures, backbone="pixels")
    client = client_of(project)
    item = client.get("/items?search=d0001").json()["items"][0]
    number = client.post("/classes", json={"name": "cat"}).json()["id"]
    client.post("/labels", json={"items": [item["id"]], "class": number})
    project.close()
    (pictures / item["name"]).rename(pictures.parent / "aside.png")
    project = LiveProject(pictures)
    assert client_of(project).get("/project").json()["classes"][0]["examples"] == 0
    assert client_of(project).get(f"/pictures/{item['id']}").status_code == 404
    project.close()
    (pictures.parent / "aside.png").rename(pictures / item["name"])
    project = LiveProject(pictures)
    back = client_of(project).get(f"/items/{item['id']}").json()
    assert (back["name"], back["class"]) == (item["name"], number)
    project.close()


def test_uploads_join_the_pile(folder):
    pictures, _ = folder
    project = LiveProject(pictures, backbone="pixels")
    client = client_of(project)
    assert project.worker.wait(60)
    data = (pictures / "d0000.png").read_bytes()
    files = [("files", ("one.png", data)), ("files", ("one.png", data)), ("files", ("two.jpg", b"<html>"))]
    said = client.post("/upload", files=files).json()
    assert said["added"] == 2
    assert [one["name"] for one in said["refused"]] == ["two.jpg"]
    assert project.worker.wait(60)
    assert client.get("/project").json()["ready"] == 62
    found = client.get("/items?search=one").json()["items"]
    assert sorted(item["name"] for item in found) == ["one (2).png", "one.png"]
    assert client.get(f"/pictures/{found[0]['id']}").status_code == 200
    project.close()
    project = LiveProject(pictures)
    assert project.worker.wait(60)
    assert len(client_of(project).get("/items?search=one").json()["items"]) == 2
    project.close()


def test_a_project_is_open_in_one_workbench_at_a_time(project, digits):
    with pytest.raises(ValueError, match="is in use by another process"):
        LiveProject(digits[0] / "digits.parquet", project.folder)


def test_a_backbone_that_is_not_there_is_told_and_labelling_goes_on(folder):
    project = LiveProject(folder[0], backbone="nonsense")
    client = client_of(project)
    assert project.worker.wait(60)
    job = client.get("/project").json()["job"]
    assert job["state"] == "failed"
    assert "no backbone 'nonsense'" in job["message"]
    assert client.post("/labels", json={"items": [1], "class": 0}).json() == {"changed": 1}
    project.close()


# ---- as it is started


def test_the_command_serves_the_page_and_tells_of_changes(digits, tmp_path):
    server = Server(digits[0] / "digits.parquet", "--project", tmp_path / "p")
    try:
        import httpx

        with httpx.Client() as browser:
            welcome = browser.get(server.facts["url"])
            assert (welcome.status_code, welcome.headers["location"]) == (303, "/")
            assert "httponly" in welcome.headers["set-cookie"].lower()
            assert "samesite=strict" in welcome.headers["set-cookie"].lower()
            page = browser.get(server.facts["address"])
            assert page.headers["content-type"].startswith("text/html")
            assert (
                browser.get(f"{server.facts['address']}static/style.css").headers["content-type"].startswith("text/css")
            )
            module = browser.get(f"{server.facts['address']}static/main.js")
            assert module.headers["content-type"].startswith("text/javascript")
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


def test_serve_solves_and_nothing_else():
    server = Server(command="serve")
    try:
        rng = np.random.default_rng(0)
        cats, dogs, hens = (rng.normal(scale=0.3, size=(15, 8)) + 2 * np.eye(8)[k] for k in range(3))
        support = np.concatenate([cats[:5], dogs[:5]])
        query = np.concatenate([cats[5:], dogs[5:], hens])
        labels = ["cat"] * 5 + ["dog"] * 5
        body = {"support": support.tolist(), "labels": labels, "query": query.tolist()}
        said = server.client.post("/solve", json=body).json()
        import handful

        result = handful.solve(support, labels, query)
        assert said["labels"] == result.labels.tolist()
        assert said["classes"] == ["cat", "dog"]
        np.testing.assert_allclose(said["p_unknown"], result.p_unknown, rtol=1e-6)
        np.testing.assert_allclose(said["probabilities"], result.probabilities, rtol=1e-5, atol=1e-7)
        assert said["outlier_share"] == pytest.approx(float(result.outlier_share))
        assert server.client.get("/health").json()["ok"] is True
        assert server.client.get("/project").status_code == 404
        paths = server.client.get("/openapi.json").json()["paths"]
        assert set(paths) == {"/api/v1/solve", "/api/v1/health"}
    finally:
        server.close()


def test_without_the_extra_the_command_names_what_to_install(tmp_path):
    script = (
        "import sys; sys.modules['fastapi'] = None; sys.argv = ['handful', 'workbench', '.']\n"
        "from handful.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1
    assert 'pip install "handful[web]"' in done.stderr


def test_only_this_machine_is_listened_to(digits):
    table = digits[0] / "digits.parquet"
    command = [sys.executable, "-m", "handful", "workbench", str(table), "--host", "0.0.0.0", "--no-browser"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "this machine only" in done.stderr


def test_the_openapi_document_describes_every_route(client):
    paths = client.get("/openapi.json").json()["paths"]
    assert {"/api/v1/items", "/api/v1/labels", "/api/v1/run", "/api/v1/events", "/api/v1/solve"} <= set(paths)
    for path, methods in paths.items():
        for method, about in methods.items():
            assert "401" in about["responses"], (method, path)


def test_reading_goes_on_while_labels_are_written(client, project):
    """Many threads at once: no error, and the last state is what the database says."""
    from concurrent.futures import ThreadPoolExecutor

    numbers = [client.post("/classes", json={"name": name}).json()["id"] for name in "abc"]
    ids = client.get("/ids").json()["ids"]

    def work(k):
        own = ids[k::8]
        for i, item in enumerate(own):
            assert client.post("/labels", json={"items": [item], "class": numbers[(i + k) % 3]}).status_code == 200
            assert client.get("/items?view=examples&limit=5").status_code == 200

    begun = time.perf_counter()
    with client, ThreadPoolExecutor(8) as pool:  # one loop for all, as in a server
        list(pool.map(work, range(8)))
    assert time.perf_counter() - begun < 60
    shown = {i["id"]: i["class"] for i in client.get("/items?limit=1000").json()["items"]}
    assert labels_in(project.store.path) == shown
    assert len(shown) == 180


def test_groups_are_found_anew_coarser_or_finer_and_the_next_run_has_that_detail(project, client, digits):
    assert client.post("/groups", json={"detail": 1}).status_code == 409
    show(client, digits[1], (0, 1, 2))
    run(client, project)
    first = client.get("/groups").json()
    fine = client.post("/groups", json={"detail": 2}).json()
    coarse = client.post("/groups", json={"detail": -2}).json()
    assert len(coarse) <= len(first) <= len(fine)
    assert len(coarse) < len(fine)
    assert client.get("/groups").json() == coarse
    assert client.get("/project").json()["run"]["group_detail"] == -2
    assert client.post("/groups", json={"detail": 3}).status_code == 422
    assert run(client, project)["run"]["group_detail"] == -2
    folder = project.folder
    project.close()
    again = LiveProject(digits[0] / "digits.parquet", folder)
    assert len(client_of(again).get("/groups").json()) == len(coarse)
    again.close()


def test_groups_are_joined_and_split(project, client, digits):
    show(client, digits[1], (0, 1, 2))
    run(client, project)
    first, second, *_ = groups = client.get("/groups").json()
    joined = client.post("/groups/1/join", json={"other": 2}).json()
    assert len(joined) == len(groups) - 1
    assert set(joined[0]["items"]) == {*first["items"], *second["items"]}
    assert joined[0]["kinds"] == 2
    parts = client.post("/groups/1/split").json()
    assert sorted(map(len, (part["items"] for part in parts))) == sorted(group["size"] for group in groups)
    assert {frozenset(part["items"]) for part in parts} == {frozenset(group["items"]) for group in groups}
    assert client.post("/groups/99/split").status_code == 404
    assert client.post("/groups/1/join", json={"other": 1}).status_code == 409
    single = next(group["number"] for group in parts if group["kinds"] == 1)
    assert client.post(f"/groups/{single}/split").status_code == 409


def test_a_group_is_promoted_by_pictures_that_span_it_or_added_to_a_class(project, client, digits):
    classes = show(client, digits[1], (0, 1, 2))
    run(client, project)
    group = client.get("/groups").json()[0]
    assert group["examples"] == max(5, -(-group["size"] * min(3, group["kinds"]) // 3))
    before = client.get("/project").json()["classes"]
    added = client.post("/groups/1/promote", json={"class": classes[0]}).json()
    assert added["id"] == classes[0]
    assert added["examples"] == 5 + group["examples"]
    assert "added to class" in client.get("/project").json()["undo"]
    client.post("/undo")
    assert client.get("/project").json()["classes"] == before
    for body in ({}, {"name": "new", "class": classes[0]}, {"class": 999}, {"name": before[0]["name"]}):
        assert client.post("/groups/1/promote", json=body).status_code in (400, 404, 409), body
    made = client.post("/groups/1/promote", json={"name": "of the group"}).json()
    assert made["examples"] == group["examples"]
    run(client, project)
    labels = {
        i["id"]: i["decision"] if i["class"] is None else i["class"]
        for i in client.get("/items?limit=1000").json()["items"]
    }
    assert np.mean([labels[item] == made["id"] for item in group["items"]]) > 0.9


def test_a_run_after_a_promotion_that_swings_says_so_and_undo_takes_it_back(project, client, digits):
    show(client, digits[1], (0, 1, 2))
    first = run(client, project)
    numbers = [group["number"] for group in client.get("/groups").json()]
    for _ in numbers[1:]:
        client.post("/groups/1/join", json={"other": 2})
    (everything,) = client.get("/groups").json()
    client.post("/groups/1/promote", json={"name": "all that is new", "examples": 1})
    notice = run(client, project)["run"]["notice"]
    assert f"items are unknown now; about 0 were expected, which is {everything['size']} less" in notice
    swung = client.get("/run").json()
    assert swung["can_take_back"]
    assert client.post("/take-back").json()["text"].startswith("group 1 made class")
    now = client.get("/project").json()
    assert (now["run"]["id"], now["run"]["counts"]) == (first["run"]["id"], first["run"]["counts"])
    assert len(now["classes"]) == 3
    assert client.post("/take-back").status_code == 409
    client.post("/redo")
    client.post("/redo")
    assert client.get("/run").json() == swung
