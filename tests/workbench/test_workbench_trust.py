"""A project that names a model file of its own: the user is asked before it is loaded, and once."""

import json
import os
import sqlite3
import sys
from contextlib import closing

import numpy as np
import pytest
from workbenches import client_of, write_digits

pytest.importorskip("fastapi")

from handful.project.live import LiveProject
from handful.project.trust import is_agreed, model_of, remember


@pytest.fixture
def stranger(tmp_path, monkeypatch):
    """Pictures with a project that names a model which came along."""
    monkeypatch.setenv("HANDFUL_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "pictures"
    write_digits(folder, 6, 2)
    (folder / "digits.parquet").unlink()
    LiveProject(folder, backbone="pixels").close()
    (folder / "evil.onnx").write_bytes(b"a program")
    names(folder, folder / "evil.onnx")
    return folder


def names(folder, backbone):
    with closing(sqlite3.connect(folder / ".handful-workbench" / "project.sqlite", isolation_level=None)) as db:
        (job,) = db.execute("SELECT value FROM meta WHERE key = 'job'").fetchone()
        job = json.dumps(json.loads(job) | {"backbone": str(backbone)})
        db.execute("UPDATE meta SET value = ? WHERE key = 'job'", (job,))


def test_whatever_is_not_built_in_is_asked_for_once(stranger, monkeypatch):
    monkeypatch.chdir(stranger)
    for file in ("EVIL.ONNX", "evil.pth", "../x"):
        (stranger / file).write_bytes(b"a program")
    for name in (
        "evil.onnx", "EVIL.ONNX", "resnet12:evil.pth", "conv4:../x", "timm:hf-hub:stranger/model", "timm:resnet50",
        "timm:local-dir:/tmp", "\x1b[2Jpixels", "x" * 9000,
    ):  # fmt: skip
        names(stranger, name)
        with pytest.raises(ValueError, match="nobody agreed") as refusal:
            LiveProject(stranger)
        assert len(str(refusal.value)) < 1000
        assert str(refusal.value).isprintable()  # a name cannot write to the terminal
        asked = []
        LiveProject(stranger, agree=asked.append).close()
        assert len(asked) == 1
        LiveProject(stranger).close()


def test_built_in_backbones_and_files_that_are_not_there_are_not_asked_for(stranger):
    for name in ("pixels", "omniglot", "efficientnet_lite0", "gone.onnx", stranger / "gone.onnx"):
        names(stranger, name)
        LiveProject(stranger).close()


@pytest.mark.parametrize("kind", ["folder", "pipe"])
@pytest.mark.skipif(sys.platform == "win32", reason="pipes")
def test_a_model_file_that_is_none_is_refused(refuses, stranger, kind):
    (stranger / "evil.onnx").unlink()
    (os.mkdir if kind == "folder" else os.mkfifo)(stranger / "evil.onnx")
    words = "has no tokenizer.json" if kind == "folder" else "cannot be read"  # a folder may be a sentence encoder
    assert words in refuses("workbench", stranger, "--no-browser", "--yes")


def test_who_names_the_file_has_agreed_to_it_until_it_changes(stranger):
    LiveProject(stranger, backbone=str(stranger / "evil.onnx")).close()
    LiveProject(stranger).close()
    (stranger / "evil.onnx").write_bytes(b"another program")
    with pytest.raises(ValueError, match="nobody agreed"):
        LiveProject(stranger)
    LiveProject(stranger, backbone="pixels").close()  # naming another is no agreement
    names(stranger, stranger / "evil.onnx")
    with pytest.raises(ValueError, match="nobody agreed"):
        LiveProject(stranger)
    (stranger / "evil.onnx").write_bytes(b"a program")
    LiveProject(stranger).close()
    (stranger / "evil.json").write_text('{"size": 8}')  # the settings beside a model are part of it
    with pytest.raises(ValueError, match="nobody agreed"):
        LiveProject(stranger)


def test_a_change_of_any_file_that_takes_part_is_seen(tmp_path):
    onnx = pytest.importorskip("onnx")
    weights = onnx.numpy_helper.from_array(np.ones((8, 2), np.float32), "w")
    ends = [onnx.helper.make_tensor_value_info(name, 1, ["n", side]) for name, side in (("x", 8), ("y", 2))]
    node = onnx.helper.make_node("MatMul", ["x", "w"], ["y"])
    model = onnx.helper.make_model(onnx.helper.make_graph([node], "g", ends[:1], ends[1:], [weights]))
    for folder in ("encoder", "exported/onnx"):
        (tmp_path / folder).mkdir(parents=True)
        onnx.save(
            model, tmp_path / folder / "model.onnx", save_as_external_data=True, location="w.bin", size_threshold=0
        )
        (tmp_path / folder.split("/")[0] / "tokenizer.json").write_text("{}")
    settings = ("1_Pooling/config.json", "sentence_bert_config.json", "tokenizer_config.json", "tokenizer.json")
    for backbone, files in {
        "encoder": ("model.onnx", "w.bin", *settings),
        "exported": ("onnx/model.onnx", "onnx/w.bin", *settings),
        "encoder/model.onnx": ("model.onnx", "w.bin", "model.json", "model.base.safetensors"),
    }.items():
        seen = {model_of(str(tmp_path / backbone))}
        for count, name in enumerate(files, start=2):
            file = tmp_path / backbone.split("/")[0] / name
            file.parent.mkdir(exist_ok=True)
            with file.open("ab") as stream:
                stream.write(b"changed" if name != "w.bin" else bytes(8))
            seen.add(model_of(str(tmp_path / backbone)))
            assert len(seen) == count, (backbone, name)
            if file.name == "model.onnx":
                file.write_bytes(file.read_bytes().removesuffix(b"changed"))


def test_what_is_remembered_is_the_users_own(stranger, monkeypatch):
    model = model_of(str(stranger / "evil.onnx"))
    assert not is_agreed(model.name, model.digest)
    remember(model.name, model.digest)
    assert is_agreed(model.name, model.digest)
    assert not is_agreed(model.name, "0" * 64)
    monkeypatch.chdir(stranger)
    monkeypatch.setenv("HANDFUL_CACHE", "cache")  # a folder that may have come along
    remember(model.name, model.digest)
    assert not is_agreed(model.name, model.digest)


def test_a_model_that_is_swapped_after_it_was_agreed_to_is_not_loaded(stranger):
    project = LiveProject(stranger, agree=lambda model: None)
    assert project.worker.wait(60)
    assert project.worker.job.state == "failed"
    assert "changed" not in project.worker.job.message  # it is no model, and that was seen by opening it
    (stranger / "evil.onnx").write_bytes(b"another program")
    client = client_of(project)
    data = (stranger / "d0000.png").read_bytes()
    assert client.post("/upload", files=[("f", ("a.png", data))]).status_code == 200
    assert project.worker.wait(60)
    assert "has changed" in client.get("/project").json()["job"]["message"]
    project.close()
