"""Presets: the numbers that CLIP, DINOv2, SigLIP and torchvision's networks were published with."""

import json

import numpy as np
import pytest
from PIL import Image
from tiny_networks import onnx_file

from handful.backbones import load_backbone
from handful.backbones.presets import PRESETS

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


def test_every_preset_has_published_numbers():
    assert set(PRESETS) == set(PUBLISHED)


@pytest.mark.parametrize("name", PUBLISHED)
def test_pictures_are_prepared_as_published(tmp_path, name):
    backbone = load_backbone(onnx_file(tmp_path / "model.onnx", ("n", 3, "h", "w")), preset=name)
    rng = np.random.default_rng(0)
    image = Image.fromarray(rng.integers(0, 256, (12, 16, 3), dtype=np.uint8)).resize((560, 448))
    expected = published_pixels(image, PUBLISHED[name])
    prepared = backbone.prepare(image)
    assert prepared.shape == (3, 224, 224)
    # In one pass here, in two there, so rounding to whole pixel values differs: by less than two of 255.
    assert np.abs(prepared - expected).mean() < 2 / 255 / min(PUBLISHED[name]["image_std"])
    np.testing.assert_allclose(backbone.embed(prepared[None])[0, 0], expected.mean((1, 2)) @ [0, 1, 2], atol=0.02)


def test_a_preset_in_the_file_beside_and_what_wins_over_it(tmp_path):
    path = onnx_file(tmp_path / "model.onnx", ("n", 3, "h", "w"), preset="clip")
    from_file = load_backbone(path)
    assert (from_file.input_size, from_file.preprocessing.crop) == ((224, 224), 1.0)
    assert from_file.fingerprint == load_backbone(path, preset="clip").fingerprint
    assert load_backbone(path, preset="siglip").preprocessing.crop is None  # an argument wins
    assert load_backbone(path, size=336).input_size == (336, 336)
    path.with_suffix(".json").write_text(json.dumps({"preset": "clip", "size": 64, "crop": 0.9}))
    assert (load_backbone(path).input_size, load_backbone(path).preprocessing.crop) == ((64, 64), 0.9)


def test_a_size_fixed_in_the_network_wins_over_that_of_the_preset(tmp_path):
    assert load_backbone(onnx_file(tmp_path / "model.onnx", ("n", 3, 8, 8)), preset="dinov2").input_size == (8, 8)


def test_wrong_presets_are_refused(tmp_path):
    path = onnx_file(tmp_path / "model.onnx", ("n", 3, 8, 8))
    with pytest.raises(ValueError, match="no preset 'vit': choose from imagenet, clip, dinov2, siglip"):
        load_backbone(path, preset="vit")
    with pytest.raises(ValueError, match="is for an ONNX file, not for pixels"):
        load_backbone("pixels", preset="clip")
    path.with_suffix(".json").write_text(json.dumps({"preset": ["clip"]}))
    with pytest.raises(ValueError, match=r"model.onnx: there is no preset"):
        load_backbone(path)
    with pytest.raises(ValueError, match=r"give mean and std or a preset \(imagenet, clip"):
        load_backbone(onnx_file(tmp_path / "plain.onnx"))
