"""The few-shot networks: published sizes, published files, and ONNX files that give what torch gives."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from contextlib import suppress

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


def weights_of(shapes, seed=4):
    """Every parameter and statistic at random, so that one in the wrong place shows in the features."""
    make = torch.Generator().manual_seed(seed)
    made = {}
    for name, shape in shapes.items():
        if name.endswith("num_batches_tracked"):
            made[name] = torch.tensor(100)
        elif "running_var" in name or (len(shape) == 1 and name.endswith("weight")):
            made[name] = 0.5 + torch.rand(shape, generator=make)
        else:
            made[name] = torch.randn(shape, generator=make) / max(1, np.prod(shape[1:])) ** 0.5
    return made


def random_weights(network: nn.Module) -> nn.Module:
    network.load_state_dict(weights_of({name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}))
    return network.eval()


def pictures(size: int, channels: int = 3, n: int = 3) -> torch.Tensor:
    return torch.randn(n, channels, size, size, generator=torch.Generator().manual_seed(9))


def features(network: nn.Module, x: torch.Tensor) -> np.ndarray:
    with torch.no_grad():
        return network(x).numpy()


# ---------------------------------------------------------------- the networks


def test_networks_have_the_published_sizes():
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
            again = build(name, network.channels, **json.loads(json.dumps(network.options)))
        assert sum(p.numel() for p in network.parameters()) == parameters
        assert network.dimension == dimension
        assert [tuple(p.shape) for p in again.parameters()] == [tuple(p.shape) for p in network.parameters()]


def test_options_that_no_network_has_are_refused():
    for name, options, words in (
        ("conv4", {"pool": "none"}, "choose from flatten, max, mean"),
        ("conv4", {"size": 8}, "leave nothing"),
        ("wrn28_10", {"depth": 12}, r"6 n \+ 4"),
        ("wrn28_10", {"variant": "x"}, "choose from s2m2, feat"),
        ("wrn28_10", {"wide": 2}, "cannot be built with these options"),
        ("vgg", {}, "choose from resnet12, conv4, wrn28_10"),
    ):
        with pytest.raises(ValueError, match=words):
            build(name, **options)


# ---------------------------------------------------------------- published networks, written down from their papers
# and from the names in their checkpoints, as functions of a state dict.


def normed(x, w, at):
    return F.batch_norm(x, *(w[f"{at}.{part}"] for part in ("running_mean", "running_var", "weight", "bias")))


def norm_shapes(at, width):
    return {f"{at}.{part}": (width,) for part in ("weight", "bias", "running_mean", "running_var")} | {
        f"{at}.num_batches_tracked": ()
    }


def resnet12_shapes(block, around, widths, channels=3):
    shapes = {}
    for i, (into, out) in enumerate(zip([channels, *widths[:-1]], widths, strict=True)):
        at = block.format(i, i + 1)
        for k in (1, 2, 3):
            shapes |= {f"{at}.conv{k}.weight": (out, into if k == 1 else out, 3, 3)} | norm_shapes(f"{at}.bn{k}", out)
        shapes |= {f"{at}.{around}.0.weight": (out, into, 1, 1)} | norm_shapes(f"{at}.{around}.1", out)
    return shapes


def resnet12_features(block, around):
    def run(w, x):
        for i in range(4):
            at, y = block.format(i, i + 1), x
            for k in (1, 2, 3):
                y = normed(F.conv2d(y, w[f"{at}.conv{k}.weight"], padding=1), w, f"{at}.bn{k}")
                y = y if k == 3 else F.leaky_relu(y, 0.1)
            x = y + normed(F.conv2d(x, w[f"{at}.{around}.0.weight"]), w, f"{at}.{around}.1")
            x = F.max_pool2d(F.leaky_relu(x, 0.1), 2)
        return x.mean((2, 3))

    return run


def conv4_shapes(conv, norm, channels=3, width=8):
    shapes = {}
    for i in range(4):
        at = conv.format(i, i + 1)
        shapes |= {f"{at}.weight": (width, width if i else channels, 3, 3), f"{at}.bias": (width,)}
        shapes |= norm_shapes(norm.format(i, i + 1), width)
    return shapes


def conv4_features(conv, norm, last):
    def run(w, x):
        for i in range(4):
            at = conv.format(i, i + 1)
            x = F.conv2d(x, w[f"{at}.weight"], w[f"{at}.bias"], padding=1)
            x = F.relu(normed(x, w, norm.format(i, i + 1)))
            if i < 3 or last != "rfs":
                x = F.max_pool2d(x, 2)
        return {"flatten": x.reshape(len(x), -1), "max": x.flatten(2).amax(2), "rfs": x.mean((2, 3))}[last]

    return run


def wrn_shapes(group, around, bias, channels=3, n=2, widen=2):
    def conv(at, *shape):
        return {f"{at}.weight": shape} | ({f"{at}.bias": shape[:1]} if bias else {})

    widths = [16, 16 * widen, 32 * widen, 64 * widen]
    shapes = conv("conv1", 16, channels, 3, 3)
    for i in range(3):
        for j in range(n):
            at, into, out = group.format(i + 1, j), widths[i] if j == 0 else widths[i + 1], widths[i + 1]
            shapes |= norm_shapes(f"{at}.bn1", into) | conv(f"{at}.conv1", out, into, 3, 3)
            shapes |= norm_shapes(f"{at}.bn2", out) | conv(f"{at}.conv2", out, out, 3, 3)
            shapes |= conv(f"{at}.{around}", out, into, 1, 1) if j == 0 else {}
    return shapes | norm_shapes("bn1", widths[-1])


def wrn_features(group, around, bias, n=2):
    def run(w, x):
        def conv(x, at, **how):
            return F.conv2d(x, w[f"{at}.weight"], w[f"{at}.bias"] if bias else None, **how)

        x = conv(x, "conv1", padding=1)
        for i in range(3):
            for j in range(n):
                at, stride = group.format(i + 1, j), 2 if i and not j else 1
                strides = (1, stride) if bias else (stride, 1)  # FEAT's code has biases and halves later
                ready = F.relu(normed(x, w, f"{at}.bn1"))
                y = conv(ready, f"{at}.conv1", stride=strides[0], padding=1)
                y = conv(F.relu(normed(y, w, f"{at}.bn2")), f"{at}.conv2", stride=strides[1], padding=1)
                x = y + (x if j else conv(x if bias else ready, f"{at}.{around}", stride=stride))
        return F.relu(normed(x, w, "bn1")).mean((2, 3))

    return run


WIDTHS = [4, 6, 8, 10]
RES, META, EASY = ("layer{1}.0", "downsample"), ("layer{1}", "downsample"), ("layers.{0}", "shortcut")
NESTED, TRUNK = ("encoder.{0}.0", "encoder.{0}.1"), ("trunk.{0}.C", "trunk.{0}.BN")
LAYERS = "layer{1}.0", "layer{1}.1"
S2M2, FEAT_WRN = ("block{}.layer.{}", "convShortcut", False), ("layer{}.{}", "shortcut.0", True)
ATTENTION = {f"slf_attn.{part}.weight": (4, 4) for part in ("w_qs", "w_ks", "w_vs", "layer_norm", "fc")}
# code: (shapes by its names, its features, prefix, where in the file, what else is in the state dict, what it is)
PUBLISHED = {
    "FEAT": (resnet12_shapes(*RES, WIDTHS), resnet12_features(*RES), "encoder.", "params", ATTENTION,
             ("resnet12", {"channels": 3, "widths": WIDTHS})),
    "RFS": (resnet12_shapes(*RES, WIDTHS), resnet12_features(*RES), "", "model", {"classifier.weight": (5, 10)},
            ("resnet12", {"channels": 3, "widths": WIDTHS})),
    "Meta-Baseline": (resnet12_shapes(*META, WIDTHS), resnet12_features(*META), "encoder.", "model_sd",
                      {"classifier.linear.weight": (5, 10)}, ("resnet12", {"channels": 3, "widths": WIDTHS})),
    "EASY": (resnet12_shapes(*EASY, WIDTHS), resnet12_features(*EASY), "", "",
             {"linear.weight": (5, 10), "linear_rot.weight": (4, 10)}, ("resnet12", {"channels": 3, "widths": WIDTHS})),
    "grey": (resnet12_shapes(*RES, WIDTHS, channels=1), resnet12_features(*RES), "backbone.", "state_dict", {},
             ("resnet12", {"channels": 1, "widths": WIDTHS})),
    "S2M2": (wrn_shapes(*S2M2), wrn_features(*S2M2), "module.", "state",
             {"linear.L.weight_g": (5, 1), "linear.L.weight_v": (5, 8)},
             ("wrn28_10", {"channels": 3, "depth": 16, "widen": 2, "variant": "s2m2"})),
    "FEAT, WRN": (wrn_shapes(*FEAT_WRN), wrn_features(*FEAT_WRN), "encoder.", "params", ATTENTION,
                  ("wrn28_10", {"channels": 3, "depth": 16, "widen": 2, "variant": "feat"})),
    "FEAT, ConvNet": (conv4_shapes(*NESTED), conv4_features(*NESTED, "max"), "encoder.", "params", ATTENTION,
                      ("conv4", {"channels": 3, "width": 8, "pool": "max"})),
    "ProtoNet": (conv4_shapes(*NESTED, channels=1), conv4_features(*NESTED, "flatten"), "", "", {},
                 ("conv4", {"channels": 1, "width": 8})),
    "S2M2, Conv4": (conv4_shapes(*TRUNK), conv4_features(*TRUNK, "flatten"), "feature.", "state",
                    {"classifier.L.weight_g": (5, 1)}, ("conv4", {"channels": 3, "width": 8})),
    "RFS, ConvNet": (conv4_shapes(*LAYERS), conv4_features(*LAYERS, "rfs"), "module.", "model", {},
                     ("conv4", {"channels": 3, "width": 8, "pool": "mean", "halvings": 3})),
}  # fmt: skip


def save_published(code, path):
    """A file as that code writes it, and the state dict of the network in it, by that code's names."""
    shapes, _, prefix, place, beside, _ = PUBLISHED[code]
    weights = weights_of(shapes)
    state = {prefix + name: tensor for name, tensor in weights.items()} | weights_of(beside)
    if code == "S2M2, Conv4":  # there each parameter is saved under two names
        state |= {name.replace(".C.", ".trunk.0.").replace(".BN.", ".trunk.1."): state[name] for name in state}
    content = {"epoch": 7, place: state} if place else state
    if code == "RFS":
        content["opt"] = argparse.Namespace(model="resnet12", learning_rate=0.05)
    if code == "Meta-Baseline":
        content |= {"model": "classifier", "training": {"optimizer_sd": {"state": {0: {"step": torch.zeros(1)}}}}}
    if path.suffix == ".safetensors":
        save_file({name: tensor.contiguous().clone() for name, tensor in state.items()}, path)
    else:
        torch.save(content, path)
    return weights


def test_published_checkpoints_are_recognised_and_give_their_features(tmp_path):
    for code, (_, run, prefix, place, beside, (name, options)) in PUBLISHED.items():
        path = tmp_path / "max_acc.pth"
        weights = save_published(code, path)
        network, kind, loaded = load_network(path)
        assert (network.options | {"channels": network.channels}).items() >= options.items()
        x = pictures(84 if name == "conv4" else 32, options["channels"], n=2)
        expected = run(weights, x).numpy()
        assert kind == name
        np.testing.assert_allclose(features(network, x), expected, atol=1e-5 * np.abs(expected).max())
        prefix = "" if code == "FEAT, ConvNet" else prefix  # its layout begins with encoder.encoder.
        assert (loaded.prefix, loaded.place) == (prefix, place)
        assert code.split(",")[0].replace("ProtoNet", "Prototypical Networks").replace("grey", "") in loaded.layout
        assert set(beside) <= set(loaded.unused)
        assert loaded.matched == len(weights) == len(network.state_dict())


def test_safetensors_and_old_files_of_torch_are_read_too(tmp_path):
    weights = save_published("FEAT", tmp_path / "a.safetensors")
    wanted = resnet12_features(*RES)(weights, pictures(32)).numpy()
    torch.save({"params": weights}, tmp_path / "b.tar", _use_new_zipfile_serialization=False)
    for file in ("a.safetensors", "b.tar"):
        found = features(load_network(tmp_path / file)[0], pictures(32))
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_weights_of_our_own_come_back_whole_and_shapes_are_believed_before_words(tmp_path):
    for name, options in (
        ("conv4", {"width": 4, "pool": "mean", "halvings": 2}),
        ("wrn28_10", {"depth": 10, "widen": 1, "variant": "feat"}),
        ("resnet12", SMALL),
    ):
        network = random_weights(build(name, 1, **options))
        about = {"network": name, "channels": 1, "options": network.options}
        save_file(network.state_dict(), tmp_path / "weights.safetensors", metadata={"handful": json.dumps(about)})
        again, kind, _ = load_network(tmp_path / "weights.safetensors")
        assert (kind, again.options) == (name, network.options)
        np.testing.assert_array_equal(features(again, pictures(20, 1)), features(network, pictures(20, 1)))
    weights = random_weights(build("conv4", 1, width=4)).state_dict()
    about = {"network": "conv4", "channels": 3, "options": {"width": 10**9, "pool": "max"}}
    for header, pool in ((json.dumps(about), "max"), ("[1]", "flatten"), ("NaN", "flatten")):
        save_file(weights, tmp_path / "b.safetensors", metadata={"handful": header})
        again, kind, _ = load_network(tmp_path / "b.safetensors")
        assert (kind, again.channels, again.options["width"], again.options["pool"]) == ("conv4", 1, 4, pool)


# ---------------------------------------------------------------- files that do not fit


def state(**changes):
    """A published state dict with changes: None takes a parameter away."""
    made = weights_of(resnet12_shapes(*RES, WIDTHS)) | {name.replace("__", "."): a for name, a in changes.items()}
    return {name: tensor for name, tensor in made.items() if tensor is not None}


def test_files_that_do_not_fit_say_why(tmp_path):
    """RFS' squeeze-and-excitation and its ResNet-18 have all the parameters of a ResNet-12."""
    torch.save(state(), tmp_path / "a.pth")
    with pytest.raises(ValueError, match="holds a resnet12, not a conv4"):
        load_network(tmp_path / "a.pth", "conv4")
    for changes, words in (
        ({"layer2__0__bn3__bias": None}, r"Missing key.*layer2\.0\.bn3\.bias"),
        ({"layer4__0__bn1__weight": torch.zeros(3)}, r"size mismatch for layer4\.0\.bn1\.weight.*\[3\].*\[10\]"),
        ({"layer1__0__se__fc__0__weight": torch.zeros(1, 4)}, r"Unexpected key.*layer1\.0\.se\.fc"),
        ({"layer3__1__conv1__weight": torch.zeros(8, 8, 3, 3)}, r"Unexpected key.*layer3\.1\.conv1"),
    ):
        torch.save(state(**changes), tmp_path / "a.pth")
        with pytest.raises(ValueError, match=rf"a\.pth does not fit the resnet12: .*{words}"):
            load_network(tmp_path / "a.pth")


def test_what_is_left_over_is_told_and_counters_may_be_missing(tmp_path):
    made = state() | {"mystery.weight": torch.zeros(2), "fc.weight": torch.zeros(3, 10)}
    before_torch_04 = {name: tensor for name, tensor in made.items() if not name.endswith("num_batches_tracked")}
    torch.save(before_torch_04, tmp_path / "a.pth")
    assert load_network(tmp_path / "a.pth")[2].unused == ["mystery.weight", "fc.weight"]


def test_hostile_files_are_refused_and_not_run(tmp_path):
    flag = tmp_path / "ran"
    hostile = type("Hostile", (), {"__reduce__": lambda self: (os.system, (f"touch {flag}",))})
    hostile.__module__, hostile.__qualname__ = __name__, "hostile"
    torch.save({"params": state(), "extra": hostile()}, tmp_path / "a.pth")
    with pytest.raises(ValueError, match=r"asks for \w+\.system.*nothing of it was run"):
        load_network(tmp_path / "a.pth")
    assert not flag.exists()


def test_files_without_a_network_are_told_in_a_sentence(tmp_path):
    for name in ("a.pth", "a.safetensors"):
        (tmp_path / name).write_bytes(b"PK\x03\x04 no zip")
        with pytest.raises(ValueError, match="cannot be read as"):
            load_network(tmp_path / name)
    for content, words in ((nn.Linear(3, 2).state_dict(), "none of the supported networks"), ([1], "no state dict")):
        torch.save(content, tmp_path / "b.pth")
        with pytest.raises(ValueError, match=words):
            load_network(tmp_path / "b.pth")


# ---------------------------------------------------------------- ONNX


def test_onnx_files_give_the_features_of_torch(tmp_path):
    for name, options, channels, size in (
        ("resnet12", SMALL, 1, 28),
        ("conv4", {"width": 8, "pool": "max"}, 3, 28),
        ("conv4", {"width": 8, "pool": "mean", "halvings": 3}, 3, 32),
        ("wrn28_10", {"depth": 16, "widen": 2, "variant": "feat"}, 3, 33),
        ("wrn28_10", {"depth": 10, "widen": 1}, 1, 28),
    ):
        network = random_weights(build(name, channels, **options))
        preprocessing = Preprocessing((size, size), (0.4,) * channels, (0.3,) * channels, "bilinear", 0.9)
        assert export_onnx(network, tmp_path / "model.onnx", preprocessing) <= 1e-4
        backbone = load_backbone(tmp_path / "model.onnx")
        assert backbone.preprocessing == preprocessing
        x = pictures(size, channels, n=3)
        expected, measured = features(network, x), backbone.embed(x.numpy())
        assert measured.shape == expected.shape == (3, backbone.dimension)
        assert np.abs(measured - expected).max() <= 1e-4 * np.abs(expected).max()
        assert expected.std() > 1e-3  # not equal for being nothing


def test_exporting_changes_nothing_and_gives_the_same_bytes(tmp_path):
    network = random_weights(build("resnet12", **SMALL)).train()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    preprocessing = Preprocessing((32, 32))
    first, second = tmp_path / "a.onnx", tmp_path / "b.onnx"
    for path in (first, second):
        export_onnx(network, path, preprocessing, about={"seed": 3})
    assert first.read_bytes() == second.read_bytes()
    assert network.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())
    model = pytest.importorskip("onnx").load(first)
    assert {p.key: json.loads(p.value) for p in model.metadata_props} == {"about": {"seed": 3}}
    kinds = {node.op_type for node in model.graph.node}
    assert "BatchNormalization" not in kinds  # folded away


def test_a_graph_that_differs_is_not_written(tmp_path):
    network = random_weights(build("resnet12", **SMALL))
    network.layer1[0].conv1.weight.data[0] = float("nan")
    with pytest.raises(ValueError, match="was not written"):
        export_onnx(network, tmp_path / "a.onnx", Preprocessing((32, 32)))
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match=r"3 channels, and the network takes 1"):
        export_onnx(build("conv4", 1), tmp_path / "a.onnx", Preprocessing((84, 84)))
    with pytest.raises(ValueError, match=r"ends in \.onnx"):
        export_onnx(network, tmp_path / "a.pt", Preprocessing((32, 32)))


def test_pools_of_the_same_weights_are_told_apart(tmp_path):
    """Their features differ, and a cache goes by the fingerprint."""
    prints = set()
    for pool in ("max", "mean"):
        network = random_weights(build("conv4", width=4, pool=pool))
        about = {"network": "conv4", "channels": 3, "options": network.options}
        save_file(network.state_dict(), tmp_path / f"{pool}.safetensors", metadata={"handful": json.dumps(about)})
        prints.add(load_backbone(f"conv4:{tmp_path / pool}.safetensors", size=16).fingerprint)
    assert len(prints) == 2


# ---------------------------------------------------------------- from a checkpoint to features


def test_a_checkpoint_is_a_backbone(tmp_path):
    weights = save_published("FEAT", tmp_path / "max_acc.pth")
    name = f"resnet12:{tmp_path / 'max_acc.pth'}"
    backbone = load_backbone(name, size=40, mean=0.5, std=0.25)
    ready = pictures(40, n=2)
    wanted = resnet12_features(*RES)(weights, ready).numpy()
    np.testing.assert_allclose(backbone.embed(ready.numpy()), wanted, rtol=1e-4, atol=1e-5)
    assert backbone.input_size == (40, 40)
    usual = Preprocessing((84, 84), (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), "bilinear", 84 / 92)
    assert load_backbone(name).preprocessing == usual
    with pytest.raises(ValueError, match="holds a resnet12, not a conv4"):
        load_backbone(f"conv4:{tmp_path / 'max_acc.pth'}")
    (tmp_path / "max_acc.pth").rename(tmp_path / "renamed.pth")
    moved = load_backbone(f"resnet12:{tmp_path / 'renamed.pth'}", size=40, mean=0.5, std=0.25)
    assert moved.fingerprint == backbone.fingerprint
    with pytest.raises(FileNotFoundError, match="no checkpoint"):
        load_backbone(name)


def test_export_then_embed_without_torch(handful, tmp_path):
    rng = np.random.default_rng(2)
    for name in ("cat/0", "cat/1", "dog/0", "dog/1"):
        (tmp_path / "pictures" / name).parent.mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 256, (50, 60, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "pictures" / f"{name}.png")
    save_published("FEAT", tmp_path / "max_acc.pth")
    done = handful("backbones", "export", "max_acc.pth", "-o", "net.onnx", "--size", 32, "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["network"], said["prefix"], said["place"]) == ("resnet12", "encoder.", "params")
    assert (said["options"], said["unused"]) == ({"widths": WIDTHS}, list(ATTENTION))
    assert said["relative"] <= 1e-4
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
    assert a.features.shape == (4, WIDTHS[-1])
    np.testing.assert_allclose(b.features, a.features, atol=1e-4 * np.abs(a.features).max())
    assert list(b.labels) == ["cat", "cat", "dog", "dog"]


def test_export_says_what_it_found_and_overwrites_nothing(handful, tmp_path):
    save_published("FEAT, ConvNet", tmp_path / "a.pth")
    done = handful("backbones", "export", "a.pth")
    assert done.returncode == 0, done.stderr
    for words in ("conv4", "with the names of FEAT; in the file under params", "slf_attn.w_qs.weight"):
        assert words in done.stdout
    assert "already" in handful("backbones", "export", "a.pth").stderr
    assert handful("backbones", "export", "a.pth", "--overwrite", "--pool", "flatten").returncode == 0
    assert load_backbone(tmp_path / "model.onnx").dimension == 8 * 5 * 5
    assert "ends in .onnx" in handful("backbones", "export", "a.pth", "-o", "b.pt").stderr
    assert "pixels" in handful("backbones").stdout
