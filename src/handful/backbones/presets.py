"""How well-known networks want their pictures: what to give with one's own ONNX file.

The numbers are those that the networks were published with; tests/backbones/test_presets.py holds the sources.
"""

from __future__ import annotations

from typing import Any

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

PRESETS: dict[str, dict[str, Any]] = {
    "imagenet": {  # torchvision's networks
        "size": (224, 224), "mean": IMAGENET_MEAN, "std": IMAGENET_STD, "interpolation": "bilinear", "crop": 224 / 256,
    },
    "clip": {  # OpenAI's and OpenCLIP's: the whole shorter side
        "size": (224, 224), "mean": (0.48145466, 0.4578275, 0.40821073), "std": (0.26862954, 0.26130258, 0.27577711),
        "interpolation": "bicubic", "crop": 1.0,
    },
    "dinov2": {
        "size": (224, 224), "mean": IMAGENET_MEAN, "std": IMAGENET_STD, "interpolation": "bicubic", "crop": 224 / 256,
    },
    "siglip": {  # the whole picture, squeezed into a square
        "size": (224, 224), "mean": (0.5,) * 3, "std": (0.5,) * 3, "interpolation": "bicubic", "crop": None,
    },
}  # fmt: skip


def preset_settings(name: Any) -> dict[str, Any]:
    """Return size, mean, std, interpolation and crop. Raise ValueError listing the presets for another name."""
    if not isinstance(name, str) or name not in PRESETS:
        raise ValueError(f"there is no preset {str(name)[:40]!r}: choose from {', '.join(PRESETS)}")
    return dict(PRESETS[name])
