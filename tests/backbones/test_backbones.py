"""Backbones: weights are read without running anything, names are told apart, errors say what to do."""

import collections
import os
import pickle
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from handful.backbones import efficientnet, list_backbones, load_backbone
from handful.backbones.efficientnet import read_state_dict
from handful.backbones.preprocessing import Preprocessing
from handful.utils.cache_folder import cache_folder

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


def test_strided_tensor_written_by_hand(tmp_path):
    content = old_file(tensor_pickle((2, 3), (1, 2), 6), ["0"], floats(range(6)))
    np.testing.assert_array_equal(read_state_dict(written(tmp_path, content))["w"], [[0, 2, 4], [1, 3, 5]])


class Evil:
    def __init__(self, *call):
        self.call = call

    def __reduce__(self):
        return self.call


def test_an_evil_pickle_is_refused_and_not_run(tmp_path):
    mark = tmp_path / "ran"
    for protocol in range(6):
        evil = pickle.dumps({"w": Evil(os.system, (f"touch {mark}",))}, protocol)
        for content in (old_file(evil), evil):
            with pytest.raises(ValueError, match=r"weights.pth") as refusal:
                read_state_dict(written(tmp_path, content))
    assert "asks for" in str(refusal.value)
    assert not mark.exists()


def test_anything_but_a_whole_state_dict_is_refused(tmp_path):
    whole = old_file(tensor_pickle((2, 3), (3, 1), 6), ["0"], floats(range(6)))
    read_state_dict(written(tmp_path, whole))
    contents = [whole[:end] for end in range(0, len(whole), 7)] + [whole + b"\0"]
    contents += [old_file(pickle.dumps(value, 2)) for value in ([1, 2], {"w": 1}, {"w": {}}, {1: None}, "text", None)]
    contents += [
        old_file(tensor_pickle(shape, strides, count, offset), ["0"], floats(range(count)))  # outside its storage
        for shape, strides, count, offset in (
            ((2**15, 2**15), (0, 0), 1, 0),  # a stride of 0 that stands for gigabytes
            ((4,), (1,), 3, 0),
            ((2,), (2,), 2, 0),
            ((2,), (1,), 2, 1),
            ((2,), (-1,), 2, 1),
            ((2, 1), (1,), 2, 0),
        )
    ]
    lie = struct.pack("<q", 2**31 - 1)  # a storage larger than the file
    contents.append(old_file(tensor_pickle((2,), (1,), 2**31 - 1), ["0"], lie + bytes(8)))
    for content in contents:
        with pytest.raises(ValueError, match="weights.pth"):
            read_state_dict(written(tmp_path, content))


@pytest.mark.torch
def test_a_state_dict_is_what_torch_wrote(tmp_path):
    import torch

    state = collections.OrderedDict(
        plain=torch.arange(6.0).reshape(2, 3),
        strided=torch.arange(24.0).reshape(4, 3, 2).permute(2, 0, 1),
        part=torch.arange(10.0)[3:7],
        steps=torch.tensor(7),
    )
    path = tmp_path / "weights.pth"
    for zipped in (False, True):
        torch.save(state, path, _use_new_zipfile_serialization=zipped)
        read = read_state_dict(path)
        assert list(read) == list(state)
        for name, tensor in state.items():
            np.testing.assert_array_equal(read[name], tensor.numpy())
            assert read[name].dtype == tensor.numpy().dtype
            assert read[name].flags.c_contiguous


# --- what is missing


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


def test_importing_the_package_imports_nothing_heavy():
    script = (
        "import sys, handful.backbones.catalogue\n"
        "print([m for m in ('onnxruntime', 'onnx', 'torch', 'timm', 'sklearn', 'pyarrow') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


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
    with pytest.raises(ValueError, match="preset='clip' is for an ONNX file: give size, mean and std of the module"):
        load_backbone(torch.nn.Identity(), preset="clip")
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


def test_unknown_names_list_the_known_ones():
    with pytest.raises(
        ValueError, match=r"no backbone 'resnet'.*efficientnet_lite0.*pixels, omniglot, <model>.onnx, timm:<model>"
    ):
        load_backbone("resnet")
    with pytest.raises(TypeError, match="int"):
        load_backbone(3)
    with pytest.raises(ValueError, match="threads is 0"):
        load_backbone("pixels", threads=0)


def test_the_list_agrees_with_what_is_loaded():
    info = {entry.name: entry for entry in list_backbones()}
    assert next(iter(info)) == "efficientnet_lite0"
    for name in ("pixels", "omniglot"):
        backbone = load_backbone(name)
        assert (info[name].dimension, info[name].input_size) == (backbone.dimension, backbone.input_size[0])


def test_the_largest_window_lies_in_the_picture():
    """Rounding must not put it outside, which Pillow refuses."""
    for side in (*range(225, 600, 7), 464):
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
