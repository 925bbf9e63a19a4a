"""Runs are steps: undo goes back to the run before, the page says when a run is out of date, and runs are compared."""

import sqlite3
from contextlib import closing

import pytest
from workbenches import client_of, contents, run, show, write_digits

pytest.importorskip("fastapi")
pytest.importorskip("httpx")

from handful.project import said as stores
from handful.workbench import LiveProject


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("digits")
    return folder, write_digits(folder, 120, 4, pictures=False)


@pytest.fixture
def project(digits, tmp_path):
    opened = LiveProject(digits[0] / "digits.parquet", tmp_path / "project")
    yield opened
    opened.close()


@pytest.fixture
def client(project):
    return client_of(project)


def shown(client):
    """What the page shows, without the progress."""
    body = client.get("/project").json()
    return {name: body[name] for name in ("classes", "run", "undo", "redo")}, client.get("/items?limit=1000").json()


def stored_runs(project):
    return [row[0] for row in contents(project)["runs"]]


def test_undo_goes_back_to_the_run_before_and_redo_returns(client, project, digits):
    classes = show(client, digits[1], (0, 1))
    before_any = shown(client)
    run(client, project)
    assert client.post("/threshold", json={"threshold": 0.7}).status_code == 200
    first = shown(client)
    unsure = client.get("/ids?view=unsure").json()["ids"][:3]
    client.post("/labels", json={"items": unsure, "class": classes[1]})
    labelled = shown(client)
    second = run(client, project)
    assert second["undo"] == "run 2"
    second = shown(client)

    def assert_shown(moment):
        now = shown(client)
        assert {k: now[0][k] for k in ("classes", "run")} == {k: moment[0][k] for k in ("classes", "run")}
        assert now[1] == moment[1]

    assert client.post("/undo").json() == {"text": "run 2"}
    assert_shown(labelled)
    assert client.get("/project").json()["redo"] == "run 2"
    for _ in range(2):  # the labels, and the threshold of the first run
        client.post("/undo")
    assert client.get("/run").json()["threshold"] != first[0]["run"]["threshold"]
    assert client.post("/undo").json() == {"text": "run 1"}
    assert_shown(before_any)
    assert client.get("/run").json() is None
    for _ in range(4):
        assert client.post("/redo").status_code == 200
    assert shown(client) == second


def test_what_undo_leads_to_is_there_after_reopening(client, project, digits, tmp_path):
    classes = show(client, digits[1], (0, 1))
    run(client, project)
    first = shown(client)
    client.post("/labels", json={"items": client.get("/ids?view=unsure").json()["ids"][:2], "class": classes[0]})
    run(client, project)
    client.post("/undo")
    client.post("/undo")
    project.close()
    again = LiveProject(digits[0] / "digits.parquet", tmp_path / "project")
    client = client_of(again)
    now = shown(client)
    assert (now[0]["run"], now[1]) == (first[0]["run"], first[1])
    client.post("/redo")
    client.post("/redo")
    assert client.get("/run").json()["id"] == 2
    again.close()


def test_runs_that_no_step_leads_to_are_deleted(client, project, digits, monkeypatch):
    show(client, digits[1], (0, 1))
    for _ in range(3):
        run(client, project)
    assert stored_runs(project) == [1, 2, 3]
    client.post("/undo")
    client.post("/undo")
    assert stored_runs(project) == [1, 2, 3]  # redo leads to them
    client.post("/classes", json={"name": "more"})
    assert stored_runs(project) == [1]
    monkeypatch.setattr(stores, "MAX_STORED_BYTES", 1)
    for _ in range(3):
        run(client, project)
    assert stored_runs(project) == [5, 6]
    assert client.post("/undo").json() == {"text": "run 6"}
    assert client.get("/run").json()["id"] == 5
    assert client.post("/undo").json() == {"text": "run 5"}
    assert client.get("/run").json() is None  # the run before is forgotten, but nothing that was said
    assert [client.post("/undo").status_code for _ in range(4)] == [200] * 4
    assert client.post("/undo").json()["text"] == "class digit 1 added"


def test_a_run_is_out_of_date_until_the_labels_are_again_those_of_the_run(client, project, digits):
    classes = show(client, digits[1], (0, 1))
    run(client, project)

    def said():
        return client.get("/run").json()["outdated"]

    assert said() == ""
    unsure = client.get("/ids?view=unsure").json()["ids"]
    client.post("/labels", json={"items": unsure[:3], "class": classes[0]})
    assert said() == "3 labels have changed since this run."
    client.post("/labels", json={"items": unsure[:1], "class": 0})
    assert said() == "3 labels have changed since this run."
    client.post("/labels", json={"items": unsure[1:3], "class": None})
    assert said() == "1 label has changed since this run."
    for _ in range(3):
        client.post("/undo")
    assert said() == ""
    client.post("/classes", json={"name": "without examples"})
    assert said() == ""
    client.delete(f"/classes/{classes[1]}")
    assert said() == "5 labels have changed since this run."
    run(client, project)
    assert said() == ""
    client.post("/undo")
    assert said() == "5 labels have changed since this run."


def test_a_stored_run_that_is_damaged_is_told_and_the_step_stays(client, project, digits):
    show(client, digits[1], (0, 1))
    run(client, project)
    run(client, project)
    with closing(sqlite3.connect(project.store.path)) as db:
        db.execute("UPDATE runs SET arrays = zeroblob(100) WHERE id = 1")
        db.commit()
    answer = client.post("/undo")
    assert (answer.status_code, "run 1 is damaged" in answer.json()["error"]) == (409, True)
    assert client.get("/project").json()["undo"] == "run 2"
    assert client.get("/run").json()["id"] == 2


# ---- what moved between two runs


def test_two_runs_are_compared_by_what_moved_where(client, project, digits):
    classes = show(client, digits[1], (0, 1))
    run(client, project)
    before = {item["id"]: item for item in client.get("/items?limit=1000").json()["items"]}
    third = client.post("/classes", json={"name": "digit 2"}).json()["id"]
    examples = [item for item, one in before.items() if digits[1][one["name"]] == 2][:5]
    client.post("/labels", json={"items": examples, "class": third})
    run(client, project)
    after = {item["id"]: item for item in client.get("/items?limit=1000").json()["items"]}

    def settled(item):
        return item["decision"] if item["class"] is None else item["class"]

    moved = {}
    for item in before:
        pair = settled(before[item]), settled(after[item])
        if pair[0] != pair[1]:
            moved.setdefault(pair, []).append(item)
    assert [one["id"] for one in client.get("/runs").json()] == [1, 2]
    assert [one["is_shown"] for one in client.get("/runs").json()] == [False, True]
    found = client.get("/compare?first=1&second=2").json()
    assert {(one["from"], one["to"]): one["count"] for one in found["moves"]} == {k: len(v) for k, v in moved.items()}
    assert found["same"] + found["moved"] == len(before)
    assert (0, third) in moved
    for (start, end), items in moved.items():
        assert client.get(f"/ids?view=moved:1:2:{start}:{end}").json()["ids"] == sorted(items)
    back = client.get(f"/ids?view=moved:2:1:{third}:0").json()["ids"]
    assert back == sorted(moved[0, third])
    assert len(client.get("/ids?view=moved:1:2").json()["ids"]) == found["moved"]
    assert client.get("/compare?first=1&second=9").status_code == 404
    assert client.get("/ids?view=moved:1:2:x:y").status_code == 400
    client.post("/undo")
    assert client.get("/compare?first=1&second=2").json() == found  # redo leads to the second
    assert classes


# ---- none of these


def test_pictures_of_none_of_the_classes_teach_the_next_run(client, project, digits):
    show(client, digits[1], (0, 1))
    first = run(client, project)
    items = {item["id"]: item for item in client.get("/items?limit=1000").json()["items"]}
    unknown = [item for item, one in items.items() if digits[1][one["name"]] == 2]
    marked = unknown[:8]
    client.post("/labels", json={"items": marked, "class": 0})
    assert client.get("/project").json()["unknown_examples"] == 8
    second = run(client, project)
    assert second["run"]["outdated"] == ""
    after = {item["id"]: item for item in client.get("/items?limit=1000").json()["items"]}
    assert all(after[item]["decision"] is None for item in marked)
    assert set(marked) <= set(client.get("/map").json()["ids"])
    rest = [item for item in unknown if item not in marked]

    def p(found):
        return sum(found[item]["p_unknown"] for item in rest) / len(rest)

    assert p(after) > p(items)  # pictures like them are unknown too
    assert {one["id"] for one in first["classes"]} == {one["id"] for one in second["classes"]}


def test_the_pictures_worth_asking_for_have_no_label_and_an_answer(client, project, digits):
    assert client.get("/ids?view=ask").json()["ids"] == []
    show(client, digits[1], (0, 1))
    run(client, project)
    ids = client.get("/ids?view=ask").json()["ids"]
    free = set(client.get("/ids?view=unlabelled").json()["ids"])
    assert 0 < len(ids) == len(set(ids)) <= 100
    assert set(ids) <= free
    client.post("/labels", json={"items": ids[:1], "class": 0})
    assert ids[0] not in client.get("/ids?view=ask").json()["ids"]
