"""One pile through every face of handful: the same label, P(unknown) and confidence for every item."""

import csv
import json
import re
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from sklearn.datasets import load_digits

import handful
from handful.core.answers import Answers
from handful.project import label_items, read_items, write_outputs
from handful.project.job import Job
from handful.project.large_pile import label_in_parts

EXPORTS = ("label-studio", "fiftyone", "coco")
METHODS = ("auto", "knn")  # outlier scores that are probabilities, and scores that only rank
CLOSE = {"rel": 0, "abs": 2e-6}  # the workbench stores probabilities in single precision


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Digits as a table: five examples each of 0, 1 and 2, and a pile in which 3 and 4 are unknown."""
    digits = load_digits()
    rows = np.flatnonzero(digits.target < 5)[:150]
    labels = []
    for kind in digits.target[rows]:
        name = f"digit {kind}"
        labels.append(name if kind < 3 and labels.count(name) < 5 else None)
    path = tmp_path_factory.mktemp("digits") / "digits.parquet"
    names = [f"d{i:04}.png" for i in rows]
    columns = {"path": names, "embedding": digits.data[rows].astype(np.float32).tolist(), "label": labels}
    parquet.write_table(pa.table(columns), path)
    return path


@pytest.fixture(scope="module", params=METHODS)
def faces(request, table, tmp_path_factory, own_cache):
    """By face: by item name (label, P(unknown), confidence), as far as the face shows them."""
    folder = tmp_path_factory.mktemp("faces")
    examples, pile = read_items(table)
    labelled = label_items(examples, pile, method=request.param)
    write_outputs(labelled, folder / "out", formats=EXPORTS)
    result = handful.solve(examples.features, examples.labels, pile.features, method=request.param)
    found = {
        "solve": of_answers(pile.names, result),
        "estimator": of_estimator(request.param, examples, pile),
        "label": of_answers(pile.names, labelled),
        "report": of_report(folder / "out" / "report.html"),
        "parts": of_parts(table, examples, pile, request.param, folder),
        "csv": of_rows(csv.DictReader((folder / "out" / "labels.csv").open())),
        "parquet": of_rows(parquet.read_table(folder / "out" / "labels.parquet").to_pylist()),
        **of_exports(folder / "out", ""),
        "server": of_server(examples, pile, request.param),
        **of_workbench(table, folder / "project", request.param),
    }
    return SimpleNamespace(method=request.param, faces=found, labelled=labelled, result=result, examples=examples)


def of_answers(names, answers):
    p = [None] * len(names) if answers.p_unknown is None else answers.p_unknown.tolist()
    rows = zip(names, map(str, answers.labels.tolist()), p, answers.confidence.tolist(), strict=True)
    return {name: row for name, *row in rows}


def of_estimator(method, examples, pile):
    X = np.concatenate([pile.features, examples.features])
    y = np.array([None] * len(pile) + list(examples.labels), dtype=object)
    model = handful.make_estimator(method).fit(X, y)
    answers = of_answers(pile.names, model.answers_.take(slice(0, len(pile))))
    assert model.transduction_[: len(pile)].tolist() == [label for label, _, _ in answers.values()]
    return answers


def of_server(examples, pile, method):
    """POST /solve, without the server around it."""
    pytest.importorskip("pydantic")
    from handful.workbench.server.solve import answer_of

    body = {"support": examples.features.tolist(), "query": pile.features.tolist()}
    status, text = answer_of(
        "application/json", json.dumps(body | {"labels": list(examples.labels), "method": method}).encode()
    )
    assert status == 200, text
    answers = json.loads(text)
    p = answers["p_unknown"] or [None] * len(pile)
    rows = zip(pile.names, answers["labels"], p, answers["confidence"], strict=True)
    return {name: row for name, *row in rows}


def of_report(path):
    data = json.loads(re.search(r'id="data"[^>]*>(.*?)</script>', path.read_text("utf-8"), re.DOTALL)[1])
    rows = {}
    for name, kind, closest, confidence, _, _, _, _, _, p, *_ in data["items"]:
        if kind < 2:
            rows[name] = ["unknown" if kind == 1 else data["classes"][closest], p, confidence]
    return rows


def of_parts(table, examples, pile, method, folder):
    """The pile as a folder of two parts."""
    (folder / "parts").mkdir()
    for number, rows in enumerate(np.array_split(np.arange(len(pile)), 2)):
        embedding = pa.FixedSizeListArray.from_arrays(pa.array(pile.features[rows].ravel()), pile.features.shape[1])
        columns = {"path": [pile.names[i] for i in rows], "embedding": embedding}
        parquet.write_table(pa.table(columns), folder / "parts" / f"part-{number:05}.parquet")
    (folder / "parts" / "shards.json").write_text(json.dumps({"shards": 2}))
    job = Job(table, folder / "parts", {"method": method, "outlier_share": "auto"})
    label_in_parts(job, folder / "labelled")
    return of_rows(parquet.read_table(folder / "labelled" / "labels").to_pylist())


def of_rows(rows):
    """Of a table; numbers of a CSV are text."""
    number = lambda value: None if value in (None, "") else float(value)  # noqa: E731
    return {row["path"]: [row["label"], number(row.get("p_unknown")), number(row["confidence"])] for row in rows}


def of_exports(folder, prefix):
    coco = json.loads((folder / "coco.json").read_text())
    names = {image["id"]: Path(image["file_name"]).name for image in coco["images"]}
    categories = {category["id"]: category["name"] for category in coco["categories"]}
    fiftyone = json.loads((folder / "fiftyone.json").read_text())["labels"]
    tasks = json.loads((folder / "label-studio.json").read_text())
    predictions = {Path(unquote(task["data"]["image"])).name: task["predictions"][0] for task in tasks}
    return {
        f"{prefix}coco": {
            names[a["image_id"]]: [categories[a["category_id"]], "not shown", a["score"]] for a in coco["annotations"]
        },
        f"{prefix}fiftyone": {
            Path(file).name: [one["label"], one["attributes"].get("p_unknown"), one["confidence"]]
            for file, one in fiftyone.items()
        },
        f"{prefix}label studio": {
            name.rpartition("?d=")[2]: [one["result"][0]["value"]["choices"][0], "not shown", one["score"]]
            for name, one in predictions.items()
        },
    }  # fmt: skip


def of_workbench(table, folder, method):
    pytest.importorskip("fastapi")
    pytest.importorskip("httpx")
    from workbenches import opened, run

    project, client = opened(table, folder)
    run(client, project, method=method)
    found = {"workbench": of_api(client)}
    made = client.post("/export", json={"formats": ["csv", "parquet", *EXPORTS]}).json()
    place = Path(made["folder"])
    by_run = lambda rows: of_rows(row for row in rows if row["labelled_by"] == "handful")  # noqa: E731
    found["workbench csv"] = by_run(csv.DictReader((place / "labels.csv").open()))
    found["workbench parquet"] = by_run(parquet.read_table(place / "labels.parquet").to_pylist())
    pile = found["workbench"].keys()
    for name, answers in of_exports(place, "workbench ").items():
        found[name] = {item: answer for item, answer in answers.items() if item in pile}
        assert all(answers[item][2] == 1 for item in answers.keys() - pile)  # a person labelled them
    project.close()
    again, client = opened(table, folder)
    found["workbench, opened again"] = of_api(client)
    again.close()
    return found


def of_api(client):
    names = {0: "unknown"} | {one["id"]: one["name"] for one in client.get("/classes").json()}
    items = [item for item in client.get("/items?limit=1000").json()["items"] if item["class"] is None]
    for item in items[::20]:
        whole = client.get(f"/items/{item['id']}").json()
        assert sum(whole["probabilities"].values()) + (whole["p_unknown"] or 0) == pytest.approx(1)
        if item["decision"] > 0 and item["p_unknown"] is not None:
            assert whole["probabilities"][str(item["decision"])] == pytest.approx(item["confidence"])
    return {item["name"]: [names[item["decision"]], item["p_unknown"], item["confidence"]] for item in items}


def test_every_face_gives_the_same_answer(faces):
    expected = faces.faces["solve"]
    assert {label for label, _, _ in expected.values()} == {"digit 0", "digit 1", "digit 2", "unknown"}
    assert len(faces.faces) == 18
    for face, answers in faces.faces.items():
        assert answers.keys() == expected.keys(), face
        close = CLOSE
        if face == "parts":  # each item is scored by itself, and scores that differ by rounding may change places
            close = {"auto": {"abs": 0.1}, "knn": {"abs": 1.5 / len(expected)}}.get(faces.method, CLOSE)
        for name, (label, p, confidence) in answers.items():
            assert label == expected[name][0], (face, name)
            assert confidence == pytest.approx(expected[name][2], **close), (face, name)
            if p is None or expected[name][1] is None:
                assert p in (expected[name][1], "not shown"), (face, name)
            elif p != "not shown":
                assert p == pytest.approx(expected[name][1], **close), (face, name)


def test_the_numbers_are_as_they_are_defined(faces):
    result = faces.result
    best = result.probabilities.max(axis=1) / result.probabilities.sum(axis=1)
    if faces.method == "knn":
        assert result.p_unknown is None
        rank = (result.outlier_scores[:, None] >= result.outlier_scores).mean(axis=1)
        expected = np.where(result.unknown, rank, best)
    else:
        expected = np.where(result.unknown, result.p_unknown, best * (1 - result.p_unknown))
    np.testing.assert_allclose(result.confidence, expected, atol=1e-6)


def test_answers_at_another_threshold_and_for_some_items():
    rng = np.random.default_rng(0)
    p, scores = rng.random((30, 3)), rng.random(30)
    for is_probability in (True, False):
        whole = Answers(p, scores, np.array([*"abc"]), 0.5, is_probability=is_probability, outlier_share=0.4, shots=2)
        moved, some = whole.at(0.2), whole.take([3, 17, 4])
        closest = (p / p.sum(axis=1, keepdims=True)).max(axis=1) * (1 - scores)
        doubts = scores / (scores + closest) if is_probability else scores
        assert whole.unknown.tolist() == (doubts > 0.5).tolist()
        assert moved.unknown.tolist() == (doubts > 0.2).tolist()
        changed = whole.unknown != moved.unknown
        np.testing.assert_array_equal(moved.confidence[changed], whole.alternative_confidence[changed])
        np.testing.assert_array_equal(moved.confidence[~changed], whole.confidence[~changed])
        np.testing.assert_array_equal(some.confidence, whole.confidence[[3, 17, 4]])
        total = whole.joint_probabilities.sum(axis=1) + (whole.p_unknown if is_probability else 0)
        np.testing.assert_allclose(total, 1)
