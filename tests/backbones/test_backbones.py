"""Backbones: weights are read without running anything, the graph is the published network, errors say what to do."""

import builtins
import collections
import json
import os
import pickle
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tiny_networks import onnx_file

from handful.backbones import Backbone, efficientnet, list_backbones, load_backbone
from handful.backbones.preprocessing import Preprocessing
from handful.backbones.state_dict import read_state_dict
from handful.utils.cache_folder import cache_folder


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A cache folder of the tests' own."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache")
        patch.setenv("HANDFUL_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="module")
def default(cache) -> Backbone:
    for package in ("onnxruntime", "onnx", efficientnet.LITE0.package):
        pytest.importorskip(package)
    return load_backbone("fast")


# --- the reader of state dicts


def old_file(state: bytes, keys: list[str] = (), storages: bytes = b"") -> bytes:
    """A file of torch's old serialisation around the pickle of a state dict."""
    system = {"protocol_version": 1001, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}
    head = b"".join(pickle.dumps(x, 2) for x in (0x1950A86A20F9469CFC6C, 1001, system))
    return head + state + pickle.dumps(list(keys), 2) + storages


def tensor_pickle(shape, strides, count, offset=0) -> bytes:
    """{"w": tensor} with a storage of `count` float32, written out by hand."""

    def number(n):
        return b"J" + struct.pack("<i", n)

    def numbers(values):
        return b"(" + b"".join(map(number, values)) + b"t"

    def text(value):
        return b"X" + struct.pack("<I", len(value)) + value.encode()

    storage = b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text("0") + text("cpu") + number(count) + b"NtQ"
    arguments = b"(" + storage + number(offset) + numbers(shape) + numbers(strides) + b"\x89}t"
    return b"\x80\x02}" + text("w") + b"ctorch._utils\n_rebuild_tensor_v2\n" + arguments + b"Rs."


def written(tmp_path, content: bytes) -> Path:
    path = tmp_path / "weights.pth"
    path.write_bytes(content)
    return path


def floats(values) -> bytes:
    return struct.pack("<q", len(values)) + np.asarray(values, "<f4").tobytes()


@pytest.mark.torch
def test_state_dict_is_what_torch_wrote(tmp_path):
    import torch

    state = collections.OrderedDict(
        plain=torch.arange(6.0).reshape(2, 3),
        strided=torch.arange(24.0).reshape(4, 3, 2).permute(2, 0, 1),
        part=torch.arange(10.0)[3:7],
        steps=torch.tensor(7),
    )
    path = tmp_path / "weights.pth"
    torch.save(state, path, _use_new_zipfile_serialization=False)
    read = read_state_dict(path)
    assert list(read) == list(state)
    for name, tensor in state.items():
        np.testing.assert_array_equal(read[name], tensor.numpy())
        assert read[name].dtype == tensor.numpy().dtype
        assert read[name].flags.c_contiguous


def test_strided_tensor_written_by_hand(tmp_path):
    content = old_file(tensor_pickle((2, 3), (1, 2), 6), ["0"], floats(range(6)))
    np.testing.assert_array_equal(read_state_dict(written(tmp_path, content))["w"], [[0, 2, 4], [1, 3, 5]])


class Evil:
    def __init__(self, *call):
        self.call = call

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("place", ["state", "first"])
def test_evil_pickle_is_refused_and_not_run(tmp_path, protocol, place):
    mark = tmp_path / "ran"
    evil = pickle.dumps({"w": Evil(os.system, (f"touch {mark}",))}, protocol)
    with pytest.raises(ValueError, match="weights.pth"):
        read_state_dict(written(tmp_path, old_file(evil) if place == "state" else evil))
    assert not mark.exists()


def test_refusal_names_what_was_asked_for(tmp_path):
    evil = pickle.dumps({"w": Evil(os.system, ("true",))}, 2)
    with pytest.raises(ValueError, match=r"asks for posix\.system|asks for nt\.system"):
        read_state_dict(written(tmp_path, old_file(evil)))


@pytest.mark.parametrize(
    ("shape", "strides", "count", "offset"),
    [
        ((2**15, 2**15), (0, 0), 1, 0),  # a stride of 0 that stands for gigabytes
        ((4,), (1,), 3, 0),
        ((2,), (2,), 2, 0),
        ((2,), (1,), 2, 1),
        ((2,), (-1,), 2, 1),
        ((2, 1), (1,), 2, 0),
    ],
)
def test_tensor_outside_its_storage_is_refused(tmp_path, shape, strides, count, offset):
    content = old_file(tensor_pickle(shape, strides, count, offset), ["0"], floats(range(count)))
    with pytest.raises(ValueError, match="weights.pth"):
        read_state_dict(written(tmp_path, content))


def test_storage_larger_than_the_file_is_refused(tmp_path):
    lie = struct.pack("<q", 2**31 - 1)
    content = old_file(tensor_pickle((2,), (1,), 2**31 - 1), ["0"], lie + bytes(8))
    with pytest.raises(ValueError, match="storage 0"):
        read_state_dict(written(tmp_path, content))


def test_truncated_and_altered_files_are_refused(tmp_path):
    whole = old_file(tensor_pickle((2, 3), (3, 1), 6), ["0"], floats(range(6)))
    read_state_dict(written(tmp_path, whole))
    for end in range(len(whole)):
        with pytest.raises(ValueError, match="weights.pth"):
            read_state_dict(written(tmp_path, whole[:end]))
    with pytest.raises(ValueError, match="goes on after"):
        read_state_dict(written(tmp_path, whole + b"\0"))


@pytest.mark.parametrize("value", [[1, 2], {"w": 1}, {"w": {}}, {1: None}, "text", None])
def test_anything_but_a_state_dict_is_refused(tmp_path, value):
    with pytest.raises(ValueError, match="weights.pth"):
        read_state_dict(written(tmp_path, old_file(pickle.dumps(value, 2))))


@pytest.mark.torch
def test_zip_format_is_read_too(tmp_path):
    import torch

    path = tmp_path / "weights.pth"
    weights = torch.arange(6.0)
    state = {"w": weights.reshape(2, 3).T, "tail": weights[4:], "half": weights.bfloat16(), "steps": torch.tensor(7)}
    torch.save(state | {"head": torch.nn.Parameter(weights[:2])}, path)
    read = read_state_dict(path)
    np.testing.assert_array_equal(read["w"], [[0, 3], [1, 4], [2, 5]])
    assert [read[name].tolist() for name in ("tail", "half", "steps", "head")] == [
        [4, 5],
        [0, 1, 2, 3, 4, 5],
        7,
        [0, 1],
    ]


# --- what is missing


@pytest.mark.parametrize("missing", ["onnxruntime", "onnx", efficientnet.LITE0.package])
def test_missing_extra_names_the_install_command(missing, tmp_path, monkeypatch):
    monkeypatch.setenv("HANDFUL_CACHE", str(tmp_path))
    monkeypatch.setitem(sys.modules, missing, None)  # an import of it fails
    with pytest.raises(ImportError, match=r'pip install "handful\[images\]"'):
        load_backbone()


def test_missing_timm_names_the_install_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ImportError, match=r'pip install "handful\[torch\]" timm'):
        load_backbone("timm:resnet18")


def test_importing_the_package_imports_nothing_heavy():
    script = (
        "import sys, handful.backbones.catalogue\n"
        "print([m for m in ('onnxruntime', 'onnx', 'torch', 'timm', 'sklearn', 'pyarrow') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


# --- ONNX files


IMAGENET = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}


@pytest.mark.parametrize("output", ["map", "flat"])
@pytest.mark.parametrize("shape", [("n", 3, 8, 8), ("n", 8, 8, 3), (2, 3, 8, 8), ("n", 3, "h", "w")])
def test_onnx_file_gives_the_features_of_its_graph(tmp_path, output, shape):
    backbone = load_backbone(onnx_file(tmp_path / "model.onnx", shape, output=output, size=8, **IMAGENET))
    assert (backbone.dimension, backbone.input_size) == (4, (8, 8))
    batch = np.stack([backbone.prepare(Image.new("RGB", (20, 10), colour)) for colour in ("red", "white", "#102030")])
    rgb = np.array([[255, 0, 0], [255, 255, 255], [16, 32, 48]]) / 255
    expected = (rgb - IMAGENET["mean"]) / IMAGENET["std"] @ np.arange(12).reshape(4, 3).T
    np.testing.assert_allclose(backbone.embed(batch), expected, rtol=1e-5, atol=1e-5)


def test_arguments_win_over_the_file_beside(tmp_path):
    path = onnx_file(tmp_path / "model.onnx", ("n", 3, "h", "w"), size=8, **IMAGENET)
    backbone = load_backbone(str(path), size=6, mean=0.0, std=1.0)
    assert backbone.input_size == (6, 6)
    np.testing.assert_allclose(backbone.prepare(Image.new("RGB", (9, 9), "white")), 1, atol=1e-6)


def test_grey_onnx_file(tmp_path):
    backbone = load_backbone(onnx_file(tmp_path / "model.onnx", ("n", 1, 8, 8)), mean=0, std=1)
    features = backbone.embed(backbone.prepare(Image.new("RGB", (9, 9), "white"))[None])
    np.testing.assert_allclose(features, [[0, 1, 2, 3]], atol=1e-5)


def test_fingerprint_changes_with_weights_and_with_preprocessing(tmp_path):
    path = onnx_file(tmp_path / "model.onnx", ("n", 3, "h", "w"), size=8, **IMAGENET)
    first = load_backbone(path)
    assert load_backbone(path).fingerprint == first.fingerprint
    changed = [load_backbone(path, size=9), load_backbone(path, mean=0.5)]
    onnx_file(path, ("n", 3, "h", "w"), features=5)
    changed.append(load_backbone(path))
    assert len({first.fingerprint, *(b.fingerprint for b in changed)}) == 4


def test_fingerprint_covers_weights_kept_in_another_file(tmp_path):
    onnx = pytest.importorskip("onnx")
    path = onnx_file(tmp_path / "model.onnx", size=8, **IMAGENET)
    options = {"save_as_external_data": True, "location": "model.data", "size_threshold": 0}
    onnx.save(onnx.load(str(path)), str(path), **options)
    first = load_backbone(path)
    (tmp_path / "model.data").write_bytes((tmp_path / "model.data").read_bytes()[::-1])
    assert load_backbone(path).fingerprint != first.fingerprint


@pytest.mark.parametrize(
    ("graph", "beside", "words"),
    [
        ({"inputs": 2}, IMAGENET, "2 inputs"),
        ({"shape": ("n", 3, "h", "w")}, IMAGENET, "size"),
        ({}, {}, "mean and std.*model.json"),
        ({}, {"mean": [0.5] * 3}, "give std"),
        ({}, IMAGENET | {"size": 9}, "8 x 8"),
        ({}, {"mean": [123.7] * 3, "std": [58.4] * 3}, "divide mean and std by 255"),
        ({}, {"mean": [0.5] * 2, "std": [0.5] * 2}, "3 channels"),
        ({}, {"mean": [0.5] * 3, "std": [0.5, 0, 0.5]}, "std positive"),
        ({}, {"mean": "red", "std": 1}, "model.json: mean"),
        ({}, IMAGENET | {"means": 1}, "'means'"),
        ({}, IMAGENET | {"interpolation": "cubic"}, "bicubic"),
        ({}, IMAGENET | {"crop": 2}, "crop"),
        ({}, IMAGENET | {"size": "8"}, "size"),
        ({"output": "map+flat"}, IMAGENET, "2 outputs.*map, flat"),
        ({}, IMAGENET | {"output": "x"}, "no output 'x'"),
        ({"output": "kernel"}, IMAGENET, "rows for 1 pictures"),
    ],
)
def test_onnx_errors_say_what_is_wrong(tmp_path, graph, beside, words):
    path = onnx_file(tmp_path / "model.onnx", **graph)
    if beside:
        path.with_suffix(".json").write_text(json.dumps(beside))
    with pytest.raises(ValueError, match=words):
        load_backbone(path)


def test_output_is_chosen_by_name(tmp_path):
    path = onnx_file(tmp_path / "model.onnx", output="map+flat")
    path.with_suffix(".json").write_text(json.dumps(IMAGENET | {"output": "flat"}))
    assert load_backbone(path).dimension == 4


def test_file_that_is_no_network_is_refused(tmp_path):
    pytest.importorskip("onnxruntime")
    path = tmp_path / "model.onnx"
    path.write_bytes(b"no network at all")
    with pytest.raises(ValueError, match="cannot be read as an ONNX network"):
        load_backbone(path, mean=0.5, std=0.5)
    with pytest.raises(FileNotFoundError, match="other.onnx"):
        load_backbone(tmp_path / "other.onnx")


# --- torch modules, pixels, names


@pytest.mark.torch
def test_torch_module_gives_its_features():
    import torch

    module = torch.nn.Sequential(torch.nn.Conv2d(3, 5, 3), torch.nn.BatchNorm2d(5), torch.nn.Dropout(0.5))
    backbone = load_backbone(module, size=(8, 6), mean=0.5, std=0.5, threads=1)
    assert not module.training
    assert (backbone.dimension, backbone.input_size) == (5, (8, 6))
    threads = torch.get_num_threads()
    batch = np.random.default_rng(0).normal(size=(3, 3, 8, 6)).astype(np.float32)
    with torch.no_grad():
        expected = module(torch.from_numpy(batch)).mean((2, 3)).numpy()
    np.testing.assert_allclose(backbone.embed(batch), expected, atol=1e-6)
    assert torch.get_num_threads() == threads
    again = load_backbone(module, size=(8, 6), mean=0.5, std=0.5)
    assert again.fingerprint == backbone.fingerprint
    with torch.no_grad():
        module[0].bias += 1
    assert load_backbone(module, size=(8, 6), mean=0.5, std=0.5).fingerprint != backbone.fingerprint


@pytest.mark.torch
def test_torch_module_needs_its_preprocessing():
    import torch

    with pytest.raises(ValueError, match="give size, std"):
        load_backbone(torch.nn.Identity(), mean=0.5)
    with pytest.raises(ValueError, match="gives an array of shape"):
        load_backbone(torch.nn.Flatten(0), size=4, mean=0.5, std=0.5)


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


def test_pixels_need_no_extra(monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name.split(".")[0] in ("onnx", "onnxruntime", "torch", efficientnet.LITE0.package):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    assert load_backbone("pixels").dimension == 256


def test_unknown_names_list_the_known_ones():
    with pytest.raises(
        ValueError, match=r"no backbone 'resnet'.*efficientnet_lite0.*pixels, omniglot, <model>.onnx, timm:<model>"
    ):
        load_backbone("resnet")
    with pytest.raises(TypeError, match="int"):
        load_backbone(3)
    with pytest.raises(ValueError, match="threads is 0"):
        load_backbone("pixels", threads=0)


def test_list_agrees_with_what_is_loaded(default):
    info = {entry.name: entry for entry in list_backbones()}
    assert next(iter(info)) == default.name == "efficientnet_lite0"
    for backbone in (default, load_backbone("pixels")):
        entry = info[backbone.name]
        assert (entry.dimension, entry.input_size) == (backbone.dimension, backbone.input_size[0])
    assert info[default.name].megabytes == pytest.approx(
        efficientnet.weights_file(efficientnet.LITE0).stat().st_size / 1e6, abs=0.1
    )


@pytest.mark.parametrize("side", [*range(225, 600, 7), 464])
def test_the_largest_window_lies_in_the_picture(side):
    """Rounding must not put it outside, which Pillow refuses."""
    prepared = Preprocessing((224, 224), crop=1.0)(Image.new("RGB", (side, side + 30), "white"))
    np.testing.assert_allclose(prepared, 1, atol=1e-6)


def test_large_pictures_are_prepared_like_small_ones():
    """The shortcut for large pictures changes next to nothing."""
    rng = np.random.default_rng(0)
    picture = Image.fromarray(rng.integers(0, 256, (40, 50, 3), dtype=np.uint8)).resize((2000, 1600))
    prepare = Preprocessing((64, 64), crop=1.0)
    window = picture.resize((64, 64), Image.Resampling.BICUBIC, box=(200, 0, 1800, 1600))
    plain = np.asarray(window, np.float32).transpose(2, 0, 1) / 255
    assert np.abs(prepare(picture) - plain).mean() < 0.005


def test_cache_folder_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("HANDFUL_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"
    monkeypatch.delenv("HANDFUL_CACHE")
    if sys.platform.startswith("linux"):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert cache_folder() == tmp_path / "handful"
        monkeypatch.setenv("XDG_CACHE_HOME", "relative")
        assert cache_folder() == Path.home() / ".cache" / "handful"
