"""Backbones: names are told apart, errors say what to do, pictures are prepared as a network wants them."""

import hashlib
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from handful import solve
from handful.backbones import efficientnet, list_backbones, load_backbone
from handful.backbones.catalogue import SHIPPED
from handful.backbones.preprocessing import Preprocessing
from handful.core.base import HEADS, read_base
from handful.core.metrics import figures
from handful.features import Protocol, draw
from handful.training.datasets import read_pictures
from handful.training.datasets.picture_set import embed_set
from handful.utils.cache_folder import cache_folder


def test_a_missing_extra_names_the_install_command(monkeypatch):
    for missing in ("onnxruntime", "onnx", efficientnet.LITE0.package):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, missing, None)  # an import of it fails
            with pytest.raises(ImportError, match=r'pip install "handful\[images\]"'):
                load_backbone()
            assert load_backbone("pixels").dimension == 256
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ImportError, match=r'pip install "handful\[torch\]" timm'):
        load_backbone("timm:resnet18")


def test_torch_module_gives_its_features_and_needs_its_preprocessing(torch):
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 5, 3), torch.nn.BatchNorm2d(5), torch.nn.Dropout(0.5))
    of_inputs = {"size": (8, 6), "mean": 0.5, "std": 0.5}
    backbone, threads = load_backbone(module, **of_inputs, threads=1), torch.get_num_threads()
    assert not module.training
    assert (backbone.dimension, backbone.input_size) == (5, (8, 6))
    batch = np.random.default_rng(0).normal(size=(3, 3, 8, 6)).astype(np.float32)
    with torch.no_grad():
        expected = module(torch.from_numpy(batch)).mean((2, 3)).numpy()
    np.testing.assert_allclose(backbone.embed(batch), expected, atol=1e-6)
    assert torch.get_num_threads() == threads
    assert load_backbone(module, **of_inputs).fingerprint == backbone.fingerprint
    with torch.no_grad():
        module[0].bias += 1
    assert load_backbone(module, **of_inputs).fingerprint != backbone.fingerprint
    with pytest.raises(ValueError, match="give size, std"):
        load_backbone(module, mean=0.5)
    with pytest.raises(ValueError, match="gives an array of shape"):
        load_backbone(torch.nn.Flatten(0), **of_inputs)


def test_pixels_are_the_grey_values_of_the_whole_picture():
    backbone = load_backbone("pixels")
    picture = Image.fromarray(np.arange(256, dtype=np.uint8).reshape(16, 16)).convert("RGB")
    np.testing.assert_allclose(backbone.embed(backbone.prepare(picture)[None])[0], np.arange(256) / 255, atol=1e-6)
    wide = Image.new("L", (64, 16), 0)
    wide.paste(255, (48, 0, 64, 16))
    grey = backbone.embed(backbone.prepare(wide.convert("RGB"))[None]).reshape(16, 16)
    np.testing.assert_allclose(grey[:, [0, 8, 15]], [[0, 0, 1]] * 16, atol=1e-6)
    assert load_backbone("pixels", size=8).dimension == 64
    assert load_backbone("pixels", size=8).fingerprint != backbone.fingerprint


def test_unknown_names_list_the_known_ones():
    with pytest.raises(
        ValueError, match=r"no backbone 'resnet'.*efficientnet_lite0.*pixels, omniglot, <model>.onnx, timm:<model>"
    ):
        load_backbone("resnet")
    with pytest.raises(TypeError, match="int"):
        load_backbone(3)
    with pytest.raises(ValueError, match="threads is 0"):
        load_backbone("pixels", threads=0)
    info = {entry.name: entry for entry in list_backbones()}
    assert next(iter(info)) == "efficientnet_lite0"
    for name in ("pixels", "omniglot"):
        backbone = load_backbone(name)
        assert (info[name].dimension, info[name].input_size) == (backbone.dimension, backbone.input_size[0])


def test_the_largest_window_lies_in_the_picture():
    """Rounding must not put it outside, which Pillow refuses."""
    for side in (*range(225, 600, 7), 464):
        Preprocessing((224, 224), crop=1.0)(Image.new("RGB", (side, side + 30)))


def test_cache_folder_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("HANDFUL_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"
    monkeypatch.delenv("HANDFUL_CACHE")
    if sys.platform.startswith("linux"):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert cache_folder() == tmp_path / "handful"
        monkeypatch.setenv("XDG_CACHE_HOME", "relative")
        assert cache_folder() == Path.home() / ".cache" / "handful"


# ---- the backbone for drawn characters that comes with handful: what its card says, and what it is worth

CARD = (SHIPPED / "omniglot.md").read_text("utf-8")


def test_the_files_are_those_of_the_card_and_bring_their_base():
    rows = re.findall(r"^\| (omniglot\.\S+) \| ([\d,]+) \| `(\w{64})` \|$", CARD, re.M)
    assert {name for name, _, _ in rows} == {"omniglot.onnx", "omniglot.base.safetensors"}
    for name, size, digest in rows:
        data = (SHIPPED / name).read_bytes()
        assert len(data) == int(size.replace(",", ""))
        assert hashlib.sha256(data).hexdigest() == digest
    backbone = load_backbone("omniglot")
    assert (backbone.name, backbone.dimension, backbone.input_size) == ("omniglot", 128, (28, 28))
    base = read_base(backbone.base)
    assert (base.dimension, set(base.heads)) == (128, set(HEADS))
    with pytest.raises(ValueError, match="size of omniglot cannot be changed"):
        load_backbone("omniglot", size=32)


def test_characters_that_it_never_saw_are_told_apart(shared):
    pictures = read_pictures(shared / "data" / "omniglot.npz", splits=["novel"])
    rng = np.random.default_rng(0)
    some = pictures.take(np.flatnonzero(np.isin(pictures.labels, rng.choice(pictures.classes, 40, replace=False))))
    backbone = load_backbone("omniglot")
    features = embed_set(some, backbone)
    episodes = draw(features.features, features.labels, Protocol(), seed=0, tasks=100)
    result = solve(episodes.task, method="simpleshot", base_mean=read_base(backbone.base).mean)
    found = figures(result.probabilities, result.outlier_scores, episodes.truth)
    assert found["accuracy"].mean() > 0.97
    assert found["auroc"].mean() > 0.95


def test_it_was_made_from_background_characters_alone(shared, torch):
    from handful.training.pretraining import digest, split
    from handful.training.settings import Settings

    background = read_pictures(shared / "data" / "omniglot.npz", splits=["base"])
    learning, held_out = split(background, Settings())
    assert f"Digest of the pixels: `{digest(learning)}`" in CARD
    assert (len(learning.classes), len(held_out.classes)) == (916, 48)
