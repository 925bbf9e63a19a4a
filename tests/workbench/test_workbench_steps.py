"""What is done in the workbench is a step: labels, classes, runs, groups, checks; undo goes back by any of them."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from workbenches import client_of, contents, labels_in, opened, run, show, write_digits

pytest.importorskip("fastapi")
pytest.importorskip("httpx")

from handful.project import events as stores
from handful.project import views
from handful.project.live import LiveProject
from handful.project.pile import Pile


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


@pytest.fixture
def classes(client, project, digits):
    """After a run with two kinds of four shown: the numbers of their classes by kind."""
    classes = show(client, digits[1], (0, 1))
    run(client, project)
    return classes


def items_of(client):
    return {item["id"]: item for item in client.get("/items?limit=1000").json()["items"]}


def ids(client, view):
    return client.get("/ids", params={"view": view}).json()["ids"]


def stored_runs(project):
    return [row[0] for row in contents(project)["runs"]]


# ---- labels and classes


def test_labels_are_kept_changed_and_taken_away(client, project):
    a, b = (client.post("/classes", json={"name": name}).json() for name in ("cat", "dog"))
    assert (a["key"], b["key"]) == (1, 2)
    for items, code, changed in (([1, 2, 3, 3], a["id"], 3), ([3, 4], b["id"], 2), ([4], b["id"], 0), ([5], 0, 1),
                                 ([1], None, 1)):  # fmt: skip
        assert client.post("/labels", json={"items": items, "class": code}).json() == {"changed": changed}
    assert labels_in(project.store.path) == {2: a["id"], 3: b["id"], 4: b["id"], 5: 0}
    assert client.post("/labels", json={"items": [1], "class": 77}).status_code == 404
    assert client.post("/labels", json={"items": [1, 10**6], "class": 0}).status_code == 404
    assert labels_in(project.store.path) == {2: a["id"], 3: b["id"], 4: b["id"], 5: 0}
    every, before = ids(client, "all"), len(contents(project)["events"])
    assert client.post("/labels", json={"items": every, "class": a["id"]}).json() == {"changed": 119}
    assert labels_in(project.store.path) == dict.fromkeys(every, a["id"])
    assert len(contents(project)["events"]) == before + 1  # one change
    assert client.post("/undo").json() == {"text": "119 items labelled cat"}


def test_classes_are_named_keyed_and_deleted(client, project):
    a, b = (client.post("/classes", json={"name": name}).json()["id"] for name in ("cat", "dog"))
    assert client.post("/classes", json={"name": " CAT "}).status_code == 409
    for name, why in {"Unknown": "of no class", "-2": "of no class", "-1": "without a label", "nan": "without"}.items():
        refused = client.post("/classes", json={"name": name})
        assert refused.status_code == 400
        assert f'"{name}" is the name' in refused.json()["error"]
        assert why in refused.json()["error"]
    for name in (" \n ", "a\nb", "a\x00b", "\x1b[31mred", "x" * 201, "\u202e", "a\u2028b"):
        assert client.post("/classes", json={"name": name}).status_code in (400, 422), repr(name)
    assert client.patch(f"/classes/{b}", json={"name": "hound", "key": 1}).json()["key"] == 1
    assert [(c["name"], c["key"]) for c in client.get("/classes").json()] == [("cat", None), ("hound", 1)]
    assert client.patch(f"/classes/{b}", json={"name": "dog", "key": 1}).json()["key"] == 1  # it keeps its own key
    assert client.patch(f"/classes/{b}", json={"name": "wolf"}).json()["key"] == 1  # also if none is given
    assert client.patch(f"/classes/{b}", json={"key": None}).json()["key"] is None
    assert client.patch(f"/classes/{b}", json={"key": 10}).status_code == 422
    client.post("/labels", json={"items": [1, 2], "class": a})
    assert client.delete(f"/classes/{a}").json() == {"changed": 2}
    assert labels_in(project.store.path) == {}
    assert client.get(f"/ids?view=class:{a}").status_code == 404
    client.post("/undo")
    assert labels_in(project.store.path) == {1: a, 2: a}
    names = ["<script>alert(1)</script>", "'; DROP TABLE items; --", "{{7*7}}", "é 名"]
    for name in names:
        made = client.post("/classes", json={"name": name}).json()
        assert made["name"] == name
        assert made["id"] not in (a, b)
    assert [name for name, _ in contents(project)["classes"].values()][2:] == names  # markup is text


def test_every_change_can_be_undone_and_done_again_in_any_number_of_steps(client, project, digits, tmp_path):
    classes = show(client, digits[1], (0, 1))
    before_any = client.get("/project").json()["classes"]
    run(client, project)

    def shown(client):
        body = client.get("/project").json()
        return {k: body[k] for k in ("classes", "run", "undo")}, client.get("/items?limit=1000").json()

    moments = [shown(client)]
    unsure = ids(client, "unsure")
    steps = [
        ("POST", "/labels", {"items": unsure[:7], "class": classes[0]}),
        ("PATCH", f"/classes/{classes[1]}", {"name": "eins", "key": 1}),
        ("POST", "/threshold", {"threshold": 0.8}),
        ("POST", "/accept", {"items": unsure[5:30]}),
        ("POST", "/groups/1/promote", {"name": "a new class", "examples": 4}),
        ("DELETE", f"/classes/{classes[0]}", None),
        ("POST", "/run", {}),
        ("POST", "/labels", {"items": unsure[5:30], "class": None}),
    ]
    for method, path, body in steps:
        answer = client.request(method, path, json=body)
        assert answer.is_success, answer.text
        if path == "/accept":  # two of them have a label, which stays
            labels = labels_in(project.store.path)
            assert answer.json()["changed"] < 24
            assert [labels[item] for item in unsure[5:7]] == [classes[0]] * 2
        assert project.worker.wait(60)
        moments.append(shown(client))
        assert moments[-1] != moments[-2]
    texts = [moment[0]["undo"] for moment in moments]
    for moment, text in zip(moments[-2::-1], texts[:0:-1], strict=True):
        assert client.post("/undo").json() == {"text": text}
        assert shown(client) == moment
    assert texts[2].endswith("renamed eins")
    assert client.post("/undo").json() == {"text": "run 1"}
    assert (client.get("/run").json(), client.get("/project").json()["classes"]) == (None, before_any)
    for moment in moments:
        assert client.post("/redo").status_code == 200
        assert shown(client) == moment
    assert client.post("/redo").status_code == 409
    # It is all on the disk: another process could go on
    project.close()
    project, client = opened(digits[0] / "digits.parquet", tmp_path / "project")
    assert shown(client) == moments[-1]
    for k in range(1, 4):  # over the second run
        assert client.post("/undo").status_code == 200
        assert shown(client) == moments[-1 - k]
    client.post("/labels", json={"items": unsure[:1], "class": 0})
    assert client.post("/redo").status_code == 409  # a new change ends what could be done again
    project.close()


def test_reading_goes_on_while_labels_are_written(client, project):
    """Many threads at once: no error, and the last state is what the database says."""
    from concurrent.futures import ThreadPoolExecutor

    numbers = [client.post("/classes", json={"name": name}).json()["id"] for name in "abc"]
    every = ids(client, "all")

    def work(k):
        for i, item in enumerate(every[k::8]):
            assert client.post("/labels", json={"items": [item], "class": numbers[(i + k) % 3]}).status_code == 200
            assert client.get("/items?view=examples&limit=5").status_code == 200

    with client, ThreadPoolExecutor(8) as pool:  # one loop for all, as in a server
        list(pool.map(work, range(8)))
    shown = {item: one["class"] for item, one in items_of(client).items()}
    assert labels_in(project.store.path) == shown
    assert len(shown) == 120


# ---- runs


def test_a_run_needs_examples_and_leaves_out_classes_without(client, project, digits):
    assert "no classes" in client.post("/run", json={}).json()["error"]
    empty = client.post("/classes", json={"name": "owl"}).json()["id"]
    assert "no class has an example" in client.post("/run", json={}).json()["error"]
    assert client.post("/threshold", json={"threshold": 0.5}).status_code == 409
    assert client.get("/check").status_code == 409
    assert ids(client, "ask") == []
    show(client, digits[1], (0, 1))
    after = run(client, project)
    assert "owl" in after["run"]["sentence"]
    assert next(c for c in after["classes"] if c["id"] == empty)["count"] == 0
    assert client.post("/run", json={"method": "no such"}).status_code == 400
    assert client.post("/run", json={"outlier_share": 1.5}).status_code == 422
    told = run(client, project, method="eol", outlier_share=0.4)
    assert (told["run"]["method"], told["run"]["share"], told["run"]["share_told"]) == ("eol", 0.4, True)


def test_the_threshold_moves_decisions_at_once(client, project, classes):
    for threshold in (0.0, 0.3, 0.9, 2.0):
        said = client.post("/threshold", json={"threshold": threshold}).json()
        items = client.get("/items?view=unlabelled&limit=1000").json()["items"]
        assert [item["decision"] == 0 for item in items] == [item["score"] > threshold for item in items]
        assert said["counts"]["unknown"] == sum(item["score"] > threshold for item in items)
    assert client.get("/groups").json() == []
    assert said["expected_precision"] < 0.7
    assert said["trust"]["sentence"].startswith("Only about ")
    nothing = client.post("/threshold", json={"threshold": -1.0}).json()
    assert (nothing["expected_precision"], nothing["trust"]["sentence"]) == (None, "")
    assert [one["labels"] for one in nothing["expected"]] == [0, 0]


def test_a_cancelled_run_leaves_the_one_before(client, project, classes):
    with project._lock:  # the run cannot take its labels yet: it is cancelled for certain before it is done
        project.run()
        assert client.delete("/job").json()["state"] in ("running", "cancelled")
    assert project.worker.wait(60)
    after = client.get("/project").json()
    assert (after["job"]["state"], after["run"]["id"]) == ("cancelled", 1)
    assert stored_runs(project) == [1]
    assert run(client, project)["run"]["id"] == 2


def test_runs_that_no_step_leads_to_are_deleted(client, project, classes, monkeypatch):
    for _ in range(2):
        run(client, project)
    client.post("/undo")
    client.post("/undo")
    assert stored_runs(project) == [1, 2, 3]  # redo leads to them
    client.post("/classes", json={"name": "more"})
    assert stored_runs(project) == [1]
    monkeypatch.setattr(stores, "MAX_STORED_BYTES", 1)
    for _ in range(3):
        run(client, project)
    assert stored_runs(project) == [5, 6]
    assert [client.post("/undo").json()["text"] for _ in range(2)] == ["run 6", "run 5"]
    assert client.get("/run").json() is None  # the run before is forgotten, but nothing that was said
    assert [client.post("/undo").json()["text"] for _ in range(3)][1:] == ["class more added", "run 1"]


def test_two_runs_are_compared_by_what_moved_where(client, project, classes, digits):
    before = items_of(client)
    third = client.post("/classes", json={"name": "digit 2"}).json()["id"]
    examples = [item for item, one in before.items() if digits[1][one["name"]] == 2][:5]
    client.post("/labels", json={"items": examples, "class": third})
    assert " changed since the last run" in run(client, project)["run"]["sentence"]
    after = items_of(client)

    def settled(item):
        return item["decision"] if item["class"] is None else item["class"]

    moved = {}
    for item in before:
        pair = settled(before[item]), settled(after[item])
        if pair[0] != pair[1]:
            moved.setdefault(pair, []).append(item)
    changed = {item for items in moved.values() for item in items} - set(examples)
    assert set(ids(client, "changed")) == changed == {item for item, one in after.items() if one["changed"]}
    runs = [{"id": 1, "is_shown": False}, {"id": 2, "is_shown": True}]
    assert [{name: one[name] for name in ("id", "is_shown")} for one in client.get("/runs").json()] == runs
    found = client.get("/compare?first=1&second=2").json()
    assert {(one["from"], one["to"]): one["count"] for one in found["moves"]} == {k: len(v) for k, v in moved.items()}
    assert found["same"] + found["moved"] == len(before)
    assert (0, third) in moved
    for (start, end), items in moved.items():
        assert ids(client, f"moved:1:2:{start}:{end}") == sorted(items)
    assert ids(client, f"moved:2:1:{third}:0") == sorted(moved[0, third])
    assert len(ids(client, "moved:1:2")) == found["moved"]
    assert client.get("/compare?first=1&second=9").status_code == 404
    assert client.get("/ids?view=moved:1:2:x:y").status_code == 400
    client.post("/undo")
    assert client.get("/compare?first=1&second=2").json() == found  # redo leads to the second


def test_the_largest_move_between_two_runs_comes_first():
    pile = Pile.of([(k, "pile", f"{k}.png") for k in range(6)])
    runs = {1: dict.fromkeys(range(6), 0), 2: {0: 1, 1: 2, 2: 2, 3: 2, 4: 3, 5: 3}}
    store = SimpleNamespace(stored_run=lambda number: SimpleNamespace(codes=runs[number]))
    found = views.compare(SimpleNamespace(state=SimpleNamespace(pile=pile), store=store), 1, 2)
    assert [(move["to"], move["count"]) for move in found["moves"]] == [(2, 3), (3, 2), (1, 1)]


# ---- groups


def test_groups_are_found_anew_joined_and_split(client, project, classes, digits, tmp_path):
    first = client.get("/groups").json()
    fine, coarse = (client.post("/groups", json={"detail": detail}).json() for detail in (2, -2))
    assert len(coarse) <= len(first) <= len(fine)
    assert len(coarse) < len(fine)
    assert client.post("/groups", json={"detail": 3}).status_code == 422
    assert run(client, project)["run"]["group_detail"] == -2  # the next run has that detail
    groups = client.post("/groups", json={"detail": 2}).json()
    joined = client.post("/groups/1/join", json={"other": 2}).json()
    assert len(joined) == len(groups) - 1
    assert set(joined[0]["items"]) == {*groups[0]["items"], *groups[1]["items"]}
    assert joined[0]["kinds"] == 2
    parts = client.post("/groups/1/split").json()
    assert {frozenset(part["items"]) for part in parts} == {frozenset(group["items"]) for group in groups}
    single = next(group["number"] for group in parts if group["kinds"] == 1)
    for path, body, status in (("99/split", None, 404), ("1/join", {"other": 1}, 409), (f"{single}/split", None, 409)):
        assert client.post(f"/groups/{path}", json=body).status_code == status
    project.close()
    again = LiveProject(digits[0] / "digits.parquet", tmp_path / "project")
    assert client_of(again).get("/groups").json() == parts
    again.close()


def test_a_group_is_promoted_by_pictures_that_span_it_or_added_to_a_class(client, project, classes):
    group = client.get("/groups").json()[0]
    assert group["examples"] == max(5, -(-group["size"] * min(3, group["kinds"]) // 3))
    before = client.get("/project").json()["classes"]
    added = client.post("/groups/1/promote", json={"class": classes[0]}).json()
    assert (added["id"], added["examples"]) == (classes[0], 5 + group["examples"])
    assert "added to class" in client.get("/project").json()["undo"]
    client.post("/undo")
    assert client.get("/project").json()["classes"] == before
    for body in ({}, {"name": "new", "class": classes[0]}, {"class": 999}, {"name": before[0]["name"]}):
        assert client.post("/groups/1/promote", json=body).status_code in (400, 404, 409), body
    assert client.post("/groups/99/promote", json={"name": "x"}).status_code == 404
    made = client.post("/groups/1/promote", json={"name": "of the group"}).json()
    assert made["examples"] == group["examples"]
    run(client, project)
    items = items_of(client)
    labels = {item: one["decision"] if one["class"] is None else one["class"] for item, one in items.items()}
    assert np.mean([labels[item] == made["id"] for item in group["items"]]) > 0.9


def test_a_run_after_a_promotion_that_swings_says_so_and_is_taken_back(client, project, classes):
    first = client.get("/run").json()
    for _ in client.get("/groups").json()[1:]:
        client.post("/groups/1/join", json={"other": 2})
    (everything,) = client.get("/groups").json()
    client.post("/groups/1/promote", json={"name": "all that is new", "examples": 1})
    swung = run(client, project)["run"]
    assert f"items are unknown now; about 0 were expected, which is {everything['size']} less" in swung["notice"]
    assert swung["can_take_back"]
    assert client.post("/take-back").json()["text"].startswith("group 1 made class")
    now = client.get("/project").json()
    assert (now["run"]["id"], now["run"]["counts"], len(now["classes"])) == (first["id"], first["counts"], 2)
    assert client.post("/take-back").status_code == 409
    client.post("/redo")
    client.post("/redo")
    assert client.get("/run").json() == swung


# ---- checks: answers belong to their run, and are no labels until somebody says so


@pytest.fixture
def truth(client, classes, digits):
    """The right class of each item by its number, 0 for none."""
    return {item: classes.get(digits[1][one["name"]], 0) for item, one in items_of(client).items()}


def check(client, truth, count=10):
    """Answer the first items truly; give what the check asks."""
    asked = client.get(f"/check?count={count}").json()
    for item in asked["order"]:
        answer = client.post("/check", json={"run": asked["run"], "item": item, "answer": truth[item]})
        assert answer.status_code == 200, answer.text
    return asked


def test_answers_turn_the_trust_from_expected_to_measured_and_are_undone(client, project, truth, digits, tmp_path):
    before = client.get("/run").json()["trust"]
    assert "should be right" in before["sentence"]
    assert (before["is_measured"], before["checked"]) == (False, 0)
    asked = check(client, truth)
    after = client.get("/run").json()["trust"]
    assert after["sentence"].startswith("Checked 10 of 110: ")
    assert after["is_measured"]
    assert after["more_to_halve"] > 0
    assert all(0 <= one["low"] <= one["value"] <= one["high"] <= 1 for one in after["classes"])
    assert contents(project)["checks"] == sorted((1, item, truth[item]) for item in asked["order"])
    longer = client.get("/check?count=15").json()
    assert longer["order"][:10] == asked["order"]
    assert {one["item"] for one in longer["answers"]} == set(asked["order"])
    assert client.post("/undo").json()["text"].startswith("check: d")
    assert client.get("/run").json()["trust"]["checked"] == 9
    client.post("/redo")
    run(client, project)
    assert not client.get("/run").json()["trust"]["is_measured"]
    client.post("/undo")
    project.close()
    again = LiveProject(digits[0] / "digits.parquet", tmp_path / "project")
    assert client_of(again).get("/run").json()["trust"] == after
    again.close()


def test_right_and_wrong_are_of_the_label_of_the_run_and_others_are_refused(client, project, classes):
    first, second = client.get("/check").json()["order"][:2]
    decided = items_of(client)[first]["decision"]
    one, two = (1, first, decided), (1, second, -1)
    answers = (first, "right", [one]), (second, "wrong", sorted([one, two])), (second, None, [one])
    for item, answer, stored in answers:
        client.post("/check", json={"run": 1, "item": item, "answer": answer})
        assert contents(project)["checks"] == stored
    example = ids(client, "examples")[0]
    refused = [(1, second, 99, 404), (1, 10**9, 0, 404), (1, example, 0, 409), (2, second, 0, 409),
               (1, second, "maybe", 422), (1, second, -1, 422)]  # fmt: skip
    for number, item, answer, status in refused:
        assert client.post("/check", json={"run": number, "item": item, "answer": answer}).status_code == status
    assert json.dumps(contents(project)["checks"]) == json.dumps([(1, first, decided)])
