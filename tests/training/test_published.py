"""From what others published to a table: a checkpoint of FEAT's code and the pickled caches of miniImageNet."""

import json
import pickle
from contextlib import suppress

import numpy as np
import pytest
from PIL import Image

from handful.backbones import load_backbone
from handful.features import read
from handful.training.datasets import read_pictures

with suppress(ImportError):  # where torch is absent, the marker skips all of this
    import torch

pytestmark = pytest.mark.torch
BASE = ["n01532829", "n01558993", "n01704323", "n01749939", "n01770081", "n01843383", "n01910747", "n02074367",
        "n02089867", "n02091831", "n02101006", "n02105505"]  # fmt: skip  # of Ravi and Larochelle's 64
NOVEL = ["n01930112", "n01981276", "n02099601", "n02110063", "n02110341", "n02116738", "n02129165", "n02219486"]
EACH = 8


def feats_checkpoint(path, rng):
    """As FEAT's code saves it: {"params": {"encoder.layer1.0.conv1.weight": ...}}, its attention beside; full width."""
    state, into = {}, 3

    def norm(name, n):
        state.update({
            f"{name}.weight": 1 + 0.1 * rng.random(n), f"{name}.bias": 0.1 * rng.standard_normal(n),
            f"{name}.running_mean": 0.1 * rng.standard_normal(n), f"{name}.running_var": 1 + 0.1 * rng.random(n),
        })  # fmt: skip

    def conv(name, n, m, k):
        state[f"{name}.weight"] = rng.standard_normal((n, m, k, k)) * (2 / (m * k * k)) ** 0.5

    for i, width in enumerate((64, 160, 320, 640), start=1):
        layer = f"encoder.layer{i}.0"
        for j, m in ((1, into), (2, width), (3, width)):
            conv(f"{layer}.conv{j}", width, m, 3)
            norm(f"{layer}.bn{j}", width)
        conv(f"{layer}.downsample.0", width, into, 1)
        norm(f"{layer}.downsample.1", width)
        into = width
    state["slf_attn.w_qs.weight"] = rng.standard_normal((640, 640))
    counts = {
        f"{name.removesuffix('.running_var')}.num_batches_tracked" for name in state if name.endswith("running_var")
    }
    tensors = {name: torch.from_numpy(np.asarray(value, np.float32)) for name, value in state.items()}
    torch.save({"params": tensors | {name: torch.tensor(1000) for name in counts}}, path)
    return path


def cache(path, names, rng):
    """As the common miniImageNet caches are: pictures of a class look a little alike."""
    looks = rng.integers(0, 256, (len(names), 1, 6, 6, 3))
    pictures = np.clip(looks + rng.integers(-60, 60, (len(names), EACH, 6, 6, 3)), 0, 255)
    pixels = pictures.reshape(-1, 6, 6, 3).repeat(14, 1).repeat(14, 2).astype(np.uint8)
    rows = {name: list(range(i * EACH, (i + 1) * EACH)) for i, name in enumerate(names)}
    path.write_bytes(pickle.dumps({"image_data": pixels, "class_dict": rows}, protocol=2))
    return pixels


def test_a_published_checkpoint_and_cache_run_from_end_to_end(tmp_path, handful):
    def cli(*arguments):
        done = handful(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    rng = np.random.default_rng(0)
    checkpoint = feats_checkpoint(tmp_path / "max_acc.pth", rng)
    folder = tmp_path / "mini"
    folder.mkdir()
    cache(folder / "mini-imagenet-cache-train.pkl", BASE, rng)
    novel = cache(folder / "mini-imagenet-cache-test.pkl", NOVEL, rng)
    read_back = read_pictures(folder, splits=["novel"])
    assert np.array_equal(read_back.pixels, novel)

    said = json.loads(cli("backbones", "export", checkpoint, "-o", tmp_path / "model.onnx", "--json"))
    assert said["network"] == "resnet12"
    assert "slf_attn.w_qs.weight" in said["unused"]

    model = ("--dataset", "miniimagenet", "--backbone", tmp_path / "model.onnx")
    cli("embed", folder, *model, "--split", "base", "-o", tmp_path / "base.parquet")
    cli(
        "embed",
        folder,
        *model,
        "--split",
        "novel",
        "--base",
        tmp_path / "base.parquet",
        "-o",
        tmp_path / "novel.parquet",
    )
    features = read(tmp_path / "novel.parquet")
    assert features.features.shape == (len(NOVEL) * EACH, 640)
    assert sorted(features.counts) == NOVEL
    assert np.allclose(features.base_mean, read(tmp_path / "base.parquet").mean)
    with_torch = load_backbone(f"resnet12:{checkpoint}")
    ready = np.stack([with_torch.prepare(Image.fromarray(p)) for p in novel[:3]])
    wanted = with_torch.embed(ready)
    assert np.abs(features.features[:3] - wanted).max() < 1e-4 * np.abs(wanted).max()

    tasks = ("--ways", 3, "--shots", 1, "--queries", 5, "--outlier-ways", 3, "--tasks", 20)
    cli("base", tmp_path / "base.parquet", "-o", tmp_path / "base.safetensors", "--episodes", 64)
    cli(
        "bench", "balanced", "--features", tmp_path / "novel.parquet", "--base", tmp_path / "base.safetensors",
        "--methods", "simpleshot,eol,feat,snatcher_f,peeler,poodle", *tasks, "-o", tmp_path / "out",
    )  # fmt: skip
    table = (tmp_path / "out" / "balanced.md").read_text()
    for title in ("SimpleShot", "EOL", "FEAT", "SnaTCHer-F", "PEELER", "POODLE"):
        assert f"| {title}" in table
