"""ONNX files of the user: features, what is said about them, presets, and devices. Only the CPU can be run here."""

import json

import numpy as np
import pytest
from PIL import Image
from tiny_networks import onnx_file

from handful.backbones import embed_pictures, load_backbone
from handful.backbones.onnx_runtime import Session, candidates, check_device
from handful.backbones.preprocessing import PRESETS

IMAGENET = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}


def test_an_onnx_file_gives_the_features_of_its_graph(tmp_path):
    rgb = np.array([[255, 0, 0], [255, 255, 255], [16, 32, 48]]) / 255
    expected = (rgb - IMAGENET["mean"]) / IMAGENET["std"] @ np.arange(12).reshape(4, 3).T
    for output in ("map", "flat"):
        for shape in (("n", 3, 8, 8), ("n", 8, 8, 3), (2, 3, 8, 8), ("n", 3, "h", "w")):
            backbone = load_backbone(onnx_file(tmp_path / "model.onnx", shape, output=output, size=8, **IMAGENET))
            assert (backbone.dimension, backbone.input_size) == (4, (8, 8))
            colours = [Image.new("RGB", (20, 10), colour) for colour in ("red", "white", "#102030")]
            features = backbone.embed(np.stack([backbone.prepare(colour) for colour in colours]))
            np.testing.assert_allclose(features, expected, rtol=1e-5, atol=1e-5)
    grey = load_backbone(onnx_file(tmp_path / "grey.onnx", ("n", 1, 8, 8)), mean=0, std=1)
    features = grey.embed(grey.prepare(Image.new("RGB", (9, 9), "white"))[None])
    np.testing.assert_allclose(features, [[0, 1, 2, 3]], atol=1e-5)


def test_the_fingerprint_changes_with_weights_and_with_preprocessing(tmp_path):
    onnx = pytest.importorskip("onnx")
    path = onnx_file(tmp_path / "model.onnx", ("n", 3, "h", "w"), size=8, **IMAGENET)
    first = load_backbone(path)
    assert load_backbone(path).fingerprint == first.fingerprint
    changed = [load_backbone(path, size=9), load_backbone(path, mean=0.5)]
    onnx_file(path, ("n", 3, "h", "w"), features=5)
    changed.append(load_backbone(path))
    onnx.save(onnx.load(str(path)), str(path), save_as_external_data=True, location="model.data", size_threshold=0)
    changed.append(load_backbone(path))
    (tmp_path / "model.data").write_bytes((tmp_path / "model.data").read_bytes()[::-1])
    changed.append(load_backbone(path))
    assert len({first.fingerprint, *(backbone.fingerprint for backbone in changed)}) == 6


def test_errors_say_what_is_wrong(tmp_path):
    path = tmp_path / "model.onnx"
    with pytest.raises(FileNotFoundError, match="model.onnx"):
        load_backbone(path)
    for graph, beside, words in (
        ({"inputs": 2}, IMAGENET, "2 inputs"),
        ({"shape": ("n", 3, "h", "w")}, IMAGENET, "size"),
        ({}, {"mean": [0.5] * 3}, r"the std of its pictures .*or a preset \(imagenet, clip.*model.json"),
        ({}, IMAGENET | {"size": 9}, "8 x 8"),
        ({}, {"mean": [123.7] * 3, "std": [58.4] * 3}, "divide mean and std by 255"),
        ({}, {"mean": [0.5] * 2, "std": [0.5] * 2}, "three numbers each are needed"),
        ({}, {"mean": "red", "std": 1}, "model.onnx: mean is 'red'"),
        ({}, IMAGENET | {"means": 1}, "'means'"),
        ({}, IMAGENET | {"interpolation": "cubic"}, "bicubic"),
        ({}, IMAGENET | {"crop": 2}, "crop"),
        ({}, {"preset": "vit"}, "no preset 'vit': choose from imagenet, clip, dinov2, siglip"),
        ({"output": "map+flat"}, IMAGENET, "2 outputs.*map, flat"),
        ({}, IMAGENET | {"output": "x"}, "no output 'x'"),
        ({"output": "kernel"}, IMAGENET, "for 1 pictures"),
    ):
        onnx_file(path, **graph).with_suffix(".json").write_text(json.dumps(beside))
        with pytest.raises(ValueError, match=words):
            load_backbone(path)
    onnx_file(path, output="map+flat").with_suffix(".json").write_text(json.dumps(IMAGENET | {"output": "flat"}))
    assert load_backbone(path).dimension == 4
    path.write_bytes(b"no network at all")
    with pytest.raises(ValueError, match="cannot be read as an ONNX network"):
        load_backbone(path)


# ---- presets

# The files that their authors publish with the weights, as they stand on Hugging Face: size of the shorter side (or of
# both), of the crop, Pillow's number of the interpolation (2: bilinear, 3: bicubic), mean and std.
PUBLISHED = {
    "clip": {  # openai/clip-vit-base-patch32, preprocessor_config.json
        "size": 224, "crop_size": 224, "resample": 3,
        "image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711],
    },
    "dinov2": {  # facebook/dinov2-small, preprocessor_config.json
        "size": 256, "crop_size": 224, "resample": 3,
        "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225],
    },
    "siglip": {  # google/siglip-base-patch16-224, preprocessor_config.json: height and width 224, no crop
        "size": (224, 224), "crop_size": None, "resample": 3,
        "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5],
    },
    "imagenet": {  # torchvision.transforms._presets.ImageClassification: crop_size=224, resize_size=256
        "size": 256, "crop_size": 224, "resample": 2,
        "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225],
    },
}  # fmt: skip


def published_pixels(image: Image.Image, settings: dict) -> np.ndarray:
    """The steps of the published preprocessing, one by one: resize, crop, scale, normalise."""
    size, crop = settings["size"], settings["crop_size"]
    if isinstance(size, tuple):
        image = image.resize(size, settings["resample"])
    else:
        scale = size / min(image.size)
        image = image.resize([round(side * scale) for side in image.size], settings["resample"])
        left, upper = (image.width - crop) // 2, (image.height - crop) // 2
        image = image.crop((left, upper, left + crop, upper + crop))
    pixels = np.asarray(image, np.float64) / 255
    return ((pixels - settings["image_mean"]) / settings["image_std"]).transpose(2, 0, 1)


def test_presets_prepare_pictures_as_published(tmp_path):
    assert set(PRESETS) == set(PUBLISHED)
    path = onnx_file(tmp_path / "model.onnx", ("n", 3, "h", "w"))
    rng = np.random.default_rng(0)
    image = Image.fromarray(rng.integers(0, 256, (12, 16, 3), dtype=np.uint8)).resize((560, 448))
    for name, settings in PUBLISHED.items():
        backbone = load_backbone(path, preset=name)
        expected, prepared = published_pixels(image, settings), backbone.prepare(image)
        assert prepared.shape == (3, 224, 224)
        # In one pass here, in two there, so rounding to whole pixel values differs: by less than two of 255.
        assert np.abs(prepared - expected).mean() < 2 / 255 / min(settings["image_std"])
        np.testing.assert_allclose(backbone.embed(prepared[None])[0, 0], expected.mean((1, 2)) @ [0, 1, 2], atol=0.02)


def test_arguments_win_over_the_file_beside_and_that_over_a_preset(tmp_path):
    path = onnx_file(tmp_path / "model.onnx", ("n", 3, "h", "w"), preset="clip")
    from_file = load_backbone(path)
    assert (from_file.input_size, from_file.preprocessing.crop) == ((224, 224), 1.0)
    assert from_file.fingerprint == load_backbone(path, preset="clip").fingerprint
    assert load_backbone(path, preset="siglip").preprocessing.crop is None  # an argument wins
    assert load_backbone(path, size=336).input_size == (336, 336)
    path.with_suffix(".json").write_text(json.dumps({"preset": "clip", "size": 64, "crop": 0.9}))
    assert (load_backbone(path).input_size, load_backbone(path).preprocessing.crop) == ((64, 64), 0.9)
    fixed = onnx_file(tmp_path / "fixed.onnx", ("n", 3, 8, 8))
    assert load_backbone(fixed, preset="dinov2").input_size == (8, 8)  # the size in the network wins
    with pytest.raises(ValueError, match="is for an ONNX file, not for pixels"):
        load_backbone("pixels", preset="clip")


# ---- devices

CPU, CUDA, DML = "CPUExecutionProvider", "CUDAExecutionProvider", "DmlExecutionProvider"


def test_the_order_in_which_devices_are_tried(monkeypatch):
    for device, available, order in (
        ("auto", [CPU, "AzureExecutionProvider"], ["cpu"]),
        ("auto", [CPU, DML, CUDA], ["cuda", "directml", "cpu"]),
        ("directml", [CUDA, DML, CPU], ["directml"]),
    ):
        assert candidates(device, available) == order
    for device, package in (("cuda", "onnxruntime-gpu"), ("directml", "onnxruntime-directml"), ("coreml", "on a Mac")):
        with pytest.raises(ValueError, match=rf"'{device}' is not one .*\(cpu\): .*pip install .*{package}"):
            candidates(device, [CPU])
    monkeypatch.setenv("HANDFUL_DEVICE", "gpu")
    with pytest.raises(ValueError, match="no device 'gpu': choose from auto, cpu, cuda, directml, coreml"):
        load_backbone("pixels")
    assert check_device("cpu") == "cpu"  # an argument wins over the environment


def test_a_device_is_taken_only_if_it_gives_the_features_of_the_cpu(tmp_path, monkeypatch):
    runtime, path = pytest.importorskip("onnxruntime"), onnx_file(tmp_path / "network.onnx")
    trial = {"picture": np.random.default_rng(0).normal(size=(1, 3, 8, 8)).astype(np.float32)}
    cpu, error = Session(path), 0.0
    monkeypatch.setattr(runtime, "get_available_providers", lambda: [CUDA, CPU])

    class OtherDevice(runtime.InferenceSession):
        """Stands for CUDA: the CPU with an error."""

        def __init__(self, source, options, providers):
            self.provider = providers[0]
            if error is None:
                raise RuntimeError("its libraries are missing")
            super().__init__(source, options, providers=[CPU])

        def get_providers(self):
            return [self.provider, CPU]

        def run(self, *arguments):
            return [(1 + error) * output for output in super().run(*arguments)]

    monkeypatch.setattr(runtime, "InferenceSession", OtherDevice)
    error = 0.0005
    assert cpu.on_device("auto", trial, path).device == "cuda"
    assert cpu.on_device("cpu", trial, path) is cpu
    for error, words in (  # noqa: B007  # OtherDevice reads it
        (0.1, "its features differ by 10.0%"), (np.nan, "features differ"), (None, "are missing"),
    ):  # fmt: skip
        assert cpu.on_device("auto", trial, path) is cpu
        with pytest.raises(ValueError, match=rf"network.onnx cannot run on 'cuda': .*{words}.* use the device 'cpu'"):
            cpu.on_device("cuda", trial, path)


def test_a_provider_that_onnx_runtime_does_not_have_is_not_replaced_in_silence(tmp_path, monkeypatch):
    """ONNX Runtime warns and takes the CPU; here it is an error, which "auto" answers with the CPU."""
    runtime, path = pytest.importorskip("onnxruntime"), onnx_file(tmp_path / "network.onnx", **IMAGENET)
    if CUDA in runtime.get_available_providers():
        pytest.skip("there is CUDA here")
    monkeypatch.setattr(runtime, "get_available_providers", lambda: [CUDA, CPU])
    with pytest.raises(ValueError, match=r"network.onnx cannot run on 'cuda'"):
        load_backbone(path, device="cuda")
    backbone = load_backbone(path)
    assert backbone.fingerprint == load_backbone(path, device="cpu").fingerprint  # the device is no part of it
    Image.new("RGB", (20, 20), "red").save(tmp_path / "a.png")
    assert embed_pictures([tmp_path / "a.png"], backbone, cache=False).source["device"] == "cpu"
