"""The few-shot networks: published sizes, published files, and ONNX files that give what torch gives."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from contextlib import suppress
from functools import partial

import numpy as np
import pytest
from PIL import Image

with suppress(ImportError):  # where torch is absent, the marker skips all of this
    import torch

    torch.set_num_threads(1)  # small networks: threads would only wait for one another
    from safetensors.torch import save_file
    from torch import nn
    from torch.nn import functional as F

    from handful.backbones import load_backbone
    from handful.backbones.networks import build
    from handful.backbones.networks.checkpoints import load_network
    from handful.backbones.networks.export import export_onnx
    from handful.backbones.preprocessing import Preprocessing
    from handful.features import read

pytestmark = pytest.mark.torch

SMALL = {"widths": [4, 6, 8, 10]}


class Weights(dict):
    """The state dict of a network that is written down below: each weight is drawn when the network first needs it.

    All are random, statistics too, so that one in the wrong place shows in the features.
    """

    def __init__(self, seed=4):
        self._draw = torch.Generator().manual_seed(seed)

    def of(self, name, *shape):
        if name not in self:
            positive = name.endswith("running_var") or (len(shape) == 1 and name.endswith("weight"))
            scale = max(1, np.prod(shape[1:])) ** 0.5
            draw = (torch.rand if positive else torch.randn)(shape, generator=self._draw)
            self[name] = 0.5 + draw if positive else draw / scale
        return self[name]

    def conv(self, x, at, out, kernel=3, bias=False, **how):
        kernels = self.of(f"{at}.weight", out, x.shape[1], kernel, kernel)
        return F.conv2d(x, kernels, self.of(f"{at}.bias", out) if bias else None, padding=kernel // 2, **how)

    def norm(self, x, at):
        self[f"{at}.num_batches_tracked"] = torch.tensor(100)
        parts = ("running_mean", "running_var", "weight", "bias")
        return F.batch_norm(x, *(self.of(f"{at}.{part}", x.shape[1]) for part in parts))


def random_weights(network: nn.Module) -> nn.Module:
    weights = Weights()
    for name, tensor in network.state_dict().items():
        weights.of(name, *tensor.shape)
    network.load_state_dict(weights)
    return network.eval()


def pictures(size: int, channels: int = 3, n: int = 3) -> torch.Tensor:
    return torch.randn(n, channels, size, size, generator=torch.Generator().manual_seed(9))


def features(network: nn.Module, x: torch.Tensor) -> np.ndarray:
    with torch.no_grad():
        return network(x).numpy()


# ---------------------------------------------------------------- the networks


def test_networks_have_the_published_sizes_and_other_options_are_refused():
    for name, options, dimension, parameters in (
        ("resnet12", {}, 640, 12_424_320),
        ("resnet12", {"widths": [64, 128, 256, 512]}, 512, 7_996_800),  # Meta-Baseline: 8.0 million
        ("conv4", {}, 1600, 113_088),
        ("conv4", {"pool": "max"}, 64, 113_088),  # FEAT's
        ("wrn28_10", {}, 640, 36_479_194 - 640 * 10 - 10),  # the count for CIFAR-10, without its classifier
        ("wrn28_10", {"depth": 16}, 640, 17_116_634 - 640 * 10 - 10),
    ):
        with torch.device("meta"):  # sizes, without the numbers
            network = build(name, **options)
            assert network(torch.zeros(2, 3, 84, 84)).shape == (2, dimension)
        assert sum(p.numel() for p in network.parameters()) == parameters
        assert network.dimension == dimension
    for name, options, words in (
        ("conv4", {"pool": "none"}, "choose from flatten, max, mean"),
        ("conv4", {"size": 8}, "leave something"),
        ("wrn28_10", {"depth": 12}, r"6 n \+ 4"),
        ("wrn28_10", {"wide": 2}, "cannot be built with these options"),
        ("vgg", {}, "choose from resnet12, conv4, wrn28_10"),
    ):
        with pytest.raises(ValueError, match=words):
            build(name, **options)


# ---------------------------------------------------------------- published networks, written down from their papers
# and from the names in their checkpoints, as functions of weights and pictures.

WIDTHS = [4, 6, 8, 10]


def resnet12(w, x, block="layer{1}.0", around="downsample"):
    for i, out in enumerate(WIDTHS):
        at, y = block.format(i, i + 1), x
        for k in (1, 2, 3):
            y = w.norm(w.conv(y, f"{at}.conv{k}", out), f"{at}.bn{k}")
            y = y if k == 3 else F.leaky_relu(y, 0.1)
        x = y + w.norm(w.conv(x, f"{at}.{around}.0", out, 1), f"{at}.{around}.1")
        x = F.max_pool2d(F.leaky_relu(x, 0.1), 2)
    return x.mean((2, 3))


def conv4(w, x, conv="encoder.{0}.0", norm="encoder.{0}.1", last="flatten"):
    for i in range(4):
        x = F.relu(w.norm(w.conv(x, conv.format(i, i + 1), 8, bias=True), norm.format(i, i + 1)))
        if i < 3 or last != "rfs":
            x = F.max_pool2d(x, 2)
    return {"flatten": x.reshape(len(x), -1), "max": x.flatten(2).amax(2), "rfs": x.mean((2, 3))}[last]


def wrn(w, x, group, around, bias):
    x = w.conv(x, "conv1", 16, bias=bias)
    for i, out in enumerate((32, 64, 128)):
        for j in range(2):
            at, stride = group.format(i + 1, j), 2 if i and not j else 1
            strides = (1, stride) if bias else (stride, 1)  # FEAT's code has biases and halves later
            ready = F.relu(w.norm(x, f"{at}.bn1"))
            y = w.conv(ready, f"{at}.conv1", out, bias=bias, stride=strides[0])
            y = w.conv(F.relu(w.norm(y, f"{at}.bn2")), f"{at}.conv2", out, bias=bias, stride=strides[1])
            x = y + (x if j else w.conv(x if bias else ready, f"{at}.{around}", out, 1, bias, stride=stride))
    return F.relu(w.norm(x, "bn1")).mean((2, 3))


ATTENTION = {f"slf_attn.{part}.weight": (4, 4) for part in ("w_qs", "w_ks", "w_vs", "layer_norm", "fc")}
RESNET, CONV = {"channels": 3, "widths": WIDTHS}, {"channels": 3, "width": 8}
WRN = {"channels": 3, "depth": 16, "widen": 2}
# (code, network, options that the file shows, how it is written, prefix, place in the file, what else is there)
PUBLISHED = (
    ("FEAT", "resnet12", RESNET, resnet12, "encoder.", "params", ATTENTION),
    ("RFS", "resnet12", RESNET, resnet12, "", "model", {"classifier.weight": (5, 10)}),
    ("Meta-Baseline", "resnet12", RESNET, partial(resnet12, block="layer{1}"), "encoder.", "model_sd",
     {"classifier.linear.weight": (5, 10)}),
    ("EASY", "resnet12", RESNET, partial(resnet12, block="layers.{0}", around="shortcut"), "", "",
     {"linear.weight": (5, 10), "linear_rot.weight": (4, 10)}),
    ("FEAT", "resnet12", RESNET | {"channels": 1}, resnet12, "backbone.", "state_dict", {}),
    ("S2M2", "wrn28_10", WRN | {"variant": "s2m2"},
     partial(wrn, group="block{}.layer.{}", around="convShortcut", bias=False), "module.", "state",
     {"linear.L.weight_g": (5, 1), "linear.L.weight_v": (5, 8)}),
    ("FEAT", "wrn28_10", WRN | {"variant": "feat"}, partial(wrn, group="layer{}.{}", around="shortcut.0", bias=True),
     "encoder.", "params", ATTENTION),
    ("FEAT", "conv4", CONV | {"pool": "max"},  # its layout begins with encoder.encoder.
     partial(conv4, conv="encoder.encoder.{0}.0", norm="encoder.encoder.{0}.1", last="max"), "", "params", ATTENTION),
    ("Prototypical Networks", "conv4", CONV | {"channels": 1}, conv4, "", "", {}),
    ("S2M2", "conv4", CONV, partial(conv4, conv="trunk.{0}.C", norm="trunk.{0}.BN"), "feature.", "state",
     {"classifier.L.weight_g": (5, 1)}),
    ("RFS", "conv4", CONV | {"pool": "mean", "halvings": 3},
     partial(conv4, conv="layer{1}.0", norm="layer{1}.1", last="rfs"), "module.", "model", {}),
)  # fmt: skip


def save_published(published, path):
    """Save a file as that code writes it; return pictures and their features."""
    code, kind, options, run, prefix, place, beside = published
    weights, others = Weights(), Weights()
    x = pictures(84 if kind == "conv4" else 32, options["channels"], n=2)
    expected = run(weights, x).numpy()
    state = {prefix + name: tensor for name, tensor in weights.items()}
    state |= {name: others.of(name, *shape) for name, shape in beside.items()}
    if "trunk.0.C.weight" in weights:  # there each parameter is saved under two names
        state |= {name.replace(".C.", ".trunk.0.").replace(".BN.", ".trunk.1."): state[name] for name in state}
    content = {"epoch": 7, place: state} if place else state
    if code == "RFS":
        content["opt"] = argparse.Namespace(model="resnet12", learning_rate=0.05)
    if code == "Meta-Baseline":
        content |= {"model": "classifier", "training": {"optimizer_sd": {"state": {0: {"step": torch.zeros(1)}}}}}
    if path.suffix == ".safetensors":
        save_file({name: tensor.contiguous().clone() for name, tensor in state.items()}, path)
    else:
        torch.save(content, path, _use_new_zipfile_serialization=path.suffix != ".tar")
    return x, expected


def test_published_checkpoints_are_recognised_and_give_their_features(tmp_path):
    for published, file in (*((each, "a.pth") for each in PUBLISHED), (PUBLISHED[0], "a.tar")):
        code, kind, options, _, prefix, place, beside = published
        x, expected = save_published(published, tmp_path / file)
        network, name, loaded = load_network(tmp_path / file)
        assert (name, loaded.prefix, loaded.place) == (kind, prefix, place)
        assert (network.options | {"channels": network.channels}).items() >= options.items()
        np.testing.assert_allclose(features(network, x), expected, atol=1e-5 * np.abs(expected).max())
        assert code in loaded.layout
        assert set(beside) <= set(loaded.unused)
        assert loaded.matched == len(network.state_dict())
    x, expected = save_published(PUBLISHED[0], tmp_path / "a.safetensors")
    found = features(load_network(tmp_path / "a.safetensors")[0], x)
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())


def test_weights_of_our_own_come_back_whole_and_shapes_are_believed_before_words(tmp_path):
    path = tmp_path / "weights.safetensors"
    for name, options in (
        ("conv4", {"width": 4, "pool": "mean", "halvings": 2}),
        ("wrn28_10", {"depth": 10, "widen": 1, "variant": "feat"}),
        ("resnet12", SMALL),
    ):
        network = random_weights(build(name, 1, **options))
        about = {"network": name, "channels": 3, "options": {**network.options, "width": 10**9, "widen": 10**9}}
        about["options"] = {key: about["options"][key] for key in network.options}
        save_file(network.state_dict(), path, metadata={"handful": json.dumps(about)})
        again, kind, _ = load_network(path)
        assert (kind, again.options) == (name, network.options)
        np.testing.assert_array_equal(features(again, pictures(20, 1)), features(network, pictures(20, 1)))
    for header in ("[1]", "NaN"):
        save_file(network.state_dict(), path, metadata={"handful": header})
        assert load_network(path)[1] == "resnet12"


# ---------------------------------------------------------------- files that do not fit


def test_files_that_do_not_fit_say_why_and_what_is_left_over_is_listed(tmp_path):
    """RFS' squeeze-and-excitation and its ResNet-18 have all the parameters of a ResNet-12."""
    state, path = Weights(), tmp_path / "a.pth"
    resnet12(state, pictures(32))
    left_over = {"mystery.weight": torch.zeros(2), "fc.weight": torch.zeros(3, 10)}
    before_torch_04 = {name: a for name, a in state.items() if not name.endswith("num_batches_tracked")}
    torch.save(before_torch_04 | left_over, path)
    assert load_network(path)[2].unused == list(left_over)
    for content, words in (
        ({n: a for n, a in state.items() if n != "layer2.0.bn3.bias"}, r"Missing key.*layer2\.0\.bn3\.bias"),
        (state | {"layer4.0.bn1.weight": torch.zeros(3)}, r"size mismatch for layer4\.0\.bn1\.weight.*\[3\].*\[10\]"),
        (state | {"layer1.0.se.fc.0.weight": torch.zeros(1, 4)}, r"Unexpected key.*layer1\.0\.se\.fc"),
        (state | {"layer3.1.conv1.weight": torch.zeros(8, 8, 3, 3)}, r"Unexpected key.*layer3\.1\.conv1"),
        (nn.Linear(3, 2).state_dict(), "none of the supported networks"),
        ([1], "no state dict"),
    ):
        torch.save(dict(content) if content != [1] else content, path)
        with pytest.raises(ValueError, match=rf"a\.pth .*{words}"):
            load_network(path)
    for name in ("a.pth", "a.safetensors"):
        (tmp_path / name).write_bytes(b"PK\x03\x04 no zip")
        with pytest.raises(ValueError, match="cannot be read as"):
            load_network(tmp_path / name)


def test_hostile_files_are_refused_and_not_run(tmp_path):
    flag = tmp_path / "ran"
    hostile = type("Hostile", (), {"__reduce__": lambda self: (os.system, (f"touch {flag}",))})
    hostile.__module__, hostile.__qualname__ = __name__, "hostile"
    torch.save({"params": {}, "extra": hostile()}, tmp_path / "a.pth")
    with pytest.raises(ValueError, match=r"asks for \w+\.system.*nothing was read"):
        load_network(tmp_path / "a.pth")
    assert not flag.exists()


# ---------------------------------------------------------------- ONNX


def test_onnx_files_give_the_features_of_torch(tmp_path):
    for name, options, channels, size in (
        ("resnet12", SMALL, 1, 28),
        ("conv4", {"width": 8, "pool": "max"}, 3, 28),
        ("wrn28_10", {"depth": 16, "widen": 2, "variant": "feat"}, 3, 33),
        ("wrn28_10", {"depth": 10, "widen": 1}, 1, 28),
    ):
        network = random_weights(build(name, channels, **options))
        preprocessing = Preprocessing((size, size), (0.4,) * channels, (0.3,) * channels, "bilinear", 0.9)
        assert export_onnx(network, tmp_path / "model.onnx", preprocessing) <= 1e-4
        backbone = load_backbone(tmp_path / "model.onnx")
        assert backbone.preprocessing == preprocessing
        x = pictures(size, channels)
        expected = features(network, x)
        np.testing.assert_allclose(backbone.embed(x.numpy()), expected, atol=1e-4 * np.abs(expected).max())
        assert expected.std() > 1e-3  # not equal for being nothing


def test_exporting_changes_nothing_and_gives_the_same_bytes_and_nothing_that_differs_is_written(tmp_path):
    network = random_weights(build("resnet12", **SMALL)).train()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    first, second = tmp_path / "a.onnx", tmp_path / "b.onnx"
    for path in (first, second):
        export_onnx(network, path, Preprocessing((32, 32)), about={"seed": 3})
    assert first.read_bytes() == second.read_bytes()
    assert network.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())
    model = pytest.importorskip("onnx").load(first)
    assert {p.key: json.loads(p.value) for p in model.metadata_props} == {"about": {"seed": 3}}
    assert "BatchNormalization" not in {node.op_type for node in model.graph.node}  # folded away
    network.layer1[0].conv1.weight.data[0] = float("nan")
    with pytest.raises(ValueError, match="was not written"):
        export_onnx(network, tmp_path / "c.onnx", Preprocessing((32, 32)))
    assert not (tmp_path / "c.onnx").exists()
    with pytest.raises(ValueError, match=r"3 channels, and the network takes 1"):
        export_onnx(build("conv4", 1), tmp_path / "c.onnx", Preprocessing((84, 84)))


# ---------------------------------------------------------------- from a checkpoint to features


def test_a_checkpoint_is_a_backbone(tmp_path):
    x, expected = save_published(PUBLISHED[0], tmp_path / "max_acc.pth")
    name = f"resnet12:{tmp_path / 'max_acc.pth'}"
    backbone = load_backbone(name, size=32, mean=0.5, std=0.25)
    np.testing.assert_allclose(backbone.embed(x.numpy()), expected, rtol=1e-4, atol=1e-5)
    assert backbone.input_size == (32, 32)
    usual = Preprocessing((84, 84), (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), "bilinear", 84 / 92)
    assert load_backbone(name).preprocessing == usual
    with pytest.raises(ValueError, match="holds a resnet12, not a conv4"):
        load_backbone(f"conv4:{tmp_path / 'max_acc.pth'}")
    (tmp_path / "max_acc.pth").rename(tmp_path / "renamed.pth")
    moved = load_backbone(f"resnet12:{tmp_path / 'renamed.pth'}", size=32, mean=0.5, std=0.25)
    assert moved.fingerprint == backbone.fingerprint
    with pytest.raises(FileNotFoundError, match="no checkpoint"):
        load_backbone(name)
    prints = set()
    for pool in ("max", "mean"):  # of the same weights: their features differ, and a cache goes by the fingerprint
        network = random_weights(build("conv4", width=4, pool=pool))
        about = {"network": "conv4", "channels": 3, "options": network.options}
        save_file(network.state_dict(), tmp_path / f"{pool}.safetensors", metadata={"handful": json.dumps(about)})
        prints.add(load_backbone(f"conv4:{tmp_path / pool}.safetensors", size=16).fingerprint)
    assert len(prints) == 2


def test_export_then_embed_without_torch(handful, tmp_path):
    for name in ("cat/0", "cat/1", "dog/0"):
        (tmp_path / "pictures" / name).parent.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(len(name)).integers(0, 256, (50, 60, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "pictures" / f"{name}.png")
    save_published(PUBLISHED[0], tmp_path / "max_acc.pth")
    export = ("backbones", "export", "max_acc.pth", "-o", "net.onnx", "--size", 32)
    done = handful(*export, "--json")
    assert done.returncode == 0, done.stderr
    about = json.loads(done.stdout)
    assert (about["network"], about["prefix"], about["place"]) == ("resnet12", "encoder.", "params")
    assert (about["options"], about["unused"]) == ({"widths": WIDTHS}, list(ATTENTION))
    assert about["relative"] <= 1e-4
    done = handful("embed", "pictures", "-o", "t.npz", "--backbone", "resnet12:max_acc.pth", "--size", 32, "--no-cache")
    assert done.returncode == 0, done.stderr
    code = (
        "import sys\n"
        "sys.argv = 'handful embed pictures -o onnx.npz --backbone net.onnx --no-cache'.split()\n"
        "from handful.cli import main\n"
        "try: main()\n"
        "except SystemExit as left: assert not left.code\n"
        "assert 'torch' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    a, b = read(tmp_path / "t.npz"), read(tmp_path / "onnx.npz")
    np.testing.assert_allclose(b.features, a.features, atol=1e-4 * np.abs(a.features).max())
    assert list(b.labels) == ["cat", "cat", "dog"]
    assert "already" in handful(*export).stderr
    assert "ends in .onnx" in handful(*export[:3], "-o", "b.pt").stderr
    save_published(PUBLISHED[7], tmp_path / "max_acc.pth")
    done = handful(*export, "--overwrite", "--pool", "flatten")
    for words in ("conv4", "with the names of FEAT; in the file under params", "slf_attn.w_qs.weight"):
        assert words in done.stdout
    assert load_backbone(tmp_path / "net.onnx").dimension == 8 * 2 * 2
    assert "pixels" in handful("backbones").stdout
