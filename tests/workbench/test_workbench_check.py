"""A check of a run: answers are stored at once, belong to their run, and are no labels until somebody says so."""

import pytest
from workbenches import client_of, contents, labels_in, run, show, write_digits

pytest.importorskip("fastapi")
pytest.importorskip("httpx")

from handful.workbench import LiveProject


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("digits")
    return folder, write_digits(folder, 120, 4, pictures=False)


@pytest.fixture
def solved(digits, tmp_path):
    """After a run: the project, a client, and the right class of each item by its number, 0 for none."""
    project = LiveProject(digits[0] / "digits.parquet", tmp_path / "project")
    client = client_of(project)
    classes = show(client, digits[1], (0, 1))
    run(client, project)
    items = client.get("/items?limit=1000").json()["items"]
    yield project, client, {item["id"]: classes.get(digits[1][item["name"]], 0) for item in items}
    project.close()


def answers_in(project):
    return contents(project)["checks"]


def check(client, truth, count=10):
    """Answer the first items truly; give what the check asks."""
    asked = client.get(f"/check?count={count}").json()
    for item in asked["order"]:
        answer = client.post("/check", json={"run": asked["run"], "item": item, "answer": truth[item]})
        assert answer.status_code == 200, answer.text
    return asked


def test_answers_turn_the_trust_from_expected_to_measured(solved):
    project, client, truth = solved
    before = client.get("/run").json()["trust"]
    assert "should be right" in before["sentence"]
    assert (before["is_measured"], before["checked"]) == (False, 0)
    asked = check(client, truth)
    assert len(asked["order"]) == 10
    after = client.get("/run").json()["trust"]
    assert after["sentence"].startswith("Checked 10 of 110: ")
    assert after["is_measured"]
    assert after["more_to_halve"] > 0
    for one in after["classes"]:
        assert 0 <= one["low"] <= one["value"] <= one["high"] <= 1
    assert answers_in(project) == sorted((1, item, truth[item]) for item in asked["order"])
    longer = client.get("/check?count=15").json()
    assert longer["order"][:10] == asked["order"]
    assert {one["item"] for one in longer["answers"]} == set(asked["order"])


def test_answers_are_no_labels_until_they_are_used_in_one_step(solved):
    project, client, truth = solved
    labels = labels_in(project.store.path)
    asked = check(client, truth)
    wrong = asked["order"][0]
    client.post("/check", json={"run": 1, "item": wrong, "answer": "wrong"})
    assert labels_in(project.store.path) == labels
    assert client.get("/run").json()["outdated"] == ""
    assert client.get("/check").json()["usable"] == 9
    assert client.post("/check/use").json() == {"changed": 9}
    assert labels_in(project.store.path) == labels | {item: truth[item] for item in asked["order"][1:]}
    assert client.get("/run").json()["outdated"] == "9 labels have changed since this run."
    assert client.post("/check/use").json() == {"changed": 0}
    assert client.post("/undo").json() == {"text": "9 items labelled by the check"}
    assert labels_in(project.store.path) == labels


def test_right_and_wrong_are_of_the_label_of_the_run(solved):
    project, client, _ = solved
    first, second = client.get("/check").json()["order"][:2]
    decided = {item["id"]: item["decision"] for item in client.get(f"/items?ids={first},{second}").json()["items"]}
    client.post("/check", json={"run": 1, "item": first, "answer": "right"})
    client.post("/check", json={"run": 1, "item": second, "answer": "wrong"})
    assert answers_in(project) == sorted([(1, first, decided[first]), (1, second, -1)])
    client.post("/check", json={"run": 1, "item": second, "answer": None})
    assert answers_in(project) == [(1, first, decided[first])]


def test_answers_are_undone_and_belong_to_their_run(solved, tmp_path, digits):
    project, client, truth = solved
    check(client, truth)
    measured = client.get("/run").json()["trust"]
    assert client.post("/undo").json()["text"].startswith("check: d")
    assert client.get("/run").json()["trust"]["checked"] == 9
    client.post("/redo")
    assert client.get("/run").json()["trust"] == measured
    run(client, project)
    assert not client.get("/run").json()["trust"]["is_measured"]
    assert client.post("/check", json={"run": 1, "item": 1, "answer": 0}).status_code == 409
    client.post("/undo")
    assert client.get("/run").json()["trust"] == measured
    project.close()
    again = LiveProject(digits[0] / "digits.parquet", tmp_path / "project")
    assert client_of(again).get("/run").json()["trust"] == measured
    again.close()


def test_an_answer_that_cannot_be_is_refused(solved):
    project, client, _ = solved
    item = client.get("/check").json()["order"][0]
    example = client.get("/ids?view=examples").json()["ids"][0]
    for body, status in [
        ({"run": 1, "item": item, "answer": 99}, 404), ({"run": 1, "item": 10**9, "answer": 0}, 404),
        ({"run": 1, "item": example, "answer": 0}, 409), ({"run": 2, "item": item, "answer": 0}, 409),
        ({"run": 1, "item": item, "answer": "maybe"}, 422), ({"run": 1, "item": item, "answer": -1}, 422),
    ]:  # fmt: skip
        assert client.post("/check", json=body).status_code == status, body
    assert answers_in(project) == []
