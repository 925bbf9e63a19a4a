"""fast, good and best: what they stand for, and networks side by side."""

import numpy as np
import pytest
from PIL import Image

from handful.backbones import efficientnet, list_backbones, load_backbone
from handful.backbones.catalogue import DEFAULT, LEVELS, concrete_name, is_built_in, kind_of_backbone
from handful.backbones.lite_backbones import Concatenation, network_names


@pytest.fixture(scope="module")
def networks():
    for package in ("onnxruntime", "onnx", *(network.package for network in efficientnet.NETWORKS.values())):
        pytest.importorskip(package)


@pytest.fixture(scope="module")
def picture():
    rng = np.random.default_rng(1)
    return Image.fromarray(rng.integers(0, 256, (5, 7, 3), dtype=np.uint8)).resize((400, 300))


def test_levels_stand_for_networks_that_are_listed():
    names = {info.name for info in list_backbones()}
    assert list(LEVELS) == ["fast", "good", "best"]
    for level, (name, sentence) in LEVELS.items():
        assert set(network_names(name)) <= names
        assert concrete_name(level) == name
        assert is_built_in(level)
        assert is_built_in(name)
        assert kind_of_backbone(level) == kind_of_backbone(name) == "pictures"
        assert sentence
    assert LEVELS["good"][0] == DEFAULT == load_backbone().name == "efficientnet_lite0+efficientnet_lite2"
    assert LEVELS["fast"][0] == "efficientnet_lite0"


def test_other_names_stay_as_they_are():
    for name in ("pixels", "efficientnet_lite1", "my.onnx"):
        assert concrete_name(name) == name
    for name in ("efficientnet_lite0+pixels", "efficientnet_lite0+efficientnet_lite0", "+", ""):
        assert network_names(name) is None
    with pytest.raises(ValueError, match=r"no backbone 'efficientnet_lite0\+pixels': choose from fast, good, best"):
        load_backbone("efficientnet_lite0+pixels")


@pytest.mark.parametrize("level", LEVELS)
def test_a_level_is_the_network_that_it_stands_for(networks, picture, level):
    backbone = load_backbone(level)
    named = load_backbone(LEVELS[level][0])
    assert (backbone.name, backbone.fingerprint) == (LEVELS[level][0], named.fingerprint)
    assert backbone.embed(backbone.prepare(picture)[None]).shape == (1, backbone.dimension)


def test_networks_side_by_side_give_the_features_of_each_at_length_one(networks, picture):
    names = ["efficientnet_lite0", "efficientnet_lite2"]
    both = load_backbone("+".join(names))
    assert isinstance(both, Concatenation)
    assert (both.dimension, both.input_size) == (2560, (260, 260))
    batch = np.stack([both.prepare(picture), both.prepare(picture.rotate(90))])
    features = both.embed(batch)
    for k, name in enumerate(names):
        alone = load_backbone(name)
        rows = alone.embed(np.stack([alone.prepare(picture), alone.prepare(picture.rotate(90))]))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        np.testing.assert_allclose(features[:, 1280 * k : 1280 * (k + 1)], rows, atol=1e-5)
    assert load_backbone("efficientnet_lite2+efficientnet_lite0").fingerprint != both.fingerprint
    assert both.embed(np.empty((0, batch.shape[1]), np.float32)).shape == (0, 2560)
    with pytest.raises(ValueError, match="stack the arrays that `prepare` returns"):
        both.embed(batch[:, :-1])


def test_weights_of_networks_side_by_side_cannot_be_given_other_pixels(networks):
    with pytest.raises(ValueError, match="size of efficientnet_lite0.* cannot be changed"):
        load_backbone("best", size=100)


def test_a_project_of_the_workbench_keeps_the_names_of_the_networks(tmp_path, picture):
    """What "good" stands for may change, and the features of a project must stay comparable."""
    pytest.importorskip("fastapi")
    from handful.project.live import LiveProject

    picture.save(tmp_path / "a.png")
    for named in ("good", None):
        project = LiveProject(tmp_path, tmp_path / "project", backbone=named)
        try:
            assert project.backbone == "efficientnet_lite0+efficientnet_lite2"
        finally:
            project.close()
