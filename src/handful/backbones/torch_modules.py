"""Networks that run in torch: a module of the user, a network of timm, or one of the few-shot literature."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from handful.backbones.backbone import Backbone, fingerprint, pooled
from handful.backbones.preprocessing import IMAGENET_MEAN, IMAGENET_STD, Preprocessing, preprocessing_for
from handful.utils.extras import TORCH, need


def module_backbone(module: Any, options: dict[str, Any], threads: int | None) -> Backbone:
    """Return a backbone for a `torch.nn.Module` that takes [n, C, H, W]. It is switched to evaluation mode."""
    name = f"{type(module).__module__}.{type(module).__qualname__}"
    if missing := [key for key in ("size", "mean", "std") if key not in options]:
        raise ValueError(f"the input of the module {name} is not known: give {', '.join(missing)}")
    count = next((part.in_channels for part in module.modules() if hasattr(part, "in_channels")), 3)
    return TorchBackbone(name, module, preprocessing_for(count, options), threads)


def timm_backbone(name: str, model: str, options: dict[str, Any], threads: int | None) -> Backbone:
    """Return a pretrained network of timm. timm downloads missing weights from the Hugging Face hub."""
    timm = need("timm", f"the backbone {name}", f"{TORCH} timm")
    try:
        network = timm.create_model(model, pretrained=True, num_classes=0)
    except Exception as error:  # no such model, no pretrained weights, no network
        raise ValueError(f"timm cannot make {model!r} with its pretrained weights: {error}") from error
    config = timm.data.resolve_model_data_config(network)
    channels, *size = config["input_size"]
    usual = {key: config[key] for key in ("mean", "std", "interpolation")} | {"size": size, "crop": config["crop_pct"]}
    return TorchBackbone(name, network, preprocessing_for(channels, usual | options), threads)


def network_backbone(name: str, options: dict[str, Any], threads: int | None) -> Backbone:
    """Return NETWORK:FILE, a network of the few-shot literature with the weights of a checkpoint."""
    need("torch", f"the backbone {name}", TORCH)
    from handful.backbones.networks.checkpoints import load_network

    network, _, checkpoint = name.partition(":")
    module, kind, _ = load_network(Path(checkpoint), network)
    what = f"{kind} {module.options}"  # without the path: a moved file gives the same features
    backbone = TorchBackbone(what, module, few_shot_preprocessing(module.channels, options), threads)
    backbone.name = name
    return backbone


def few_shot_preprocessing(channels: Any, options: dict[str, Any]) -> Preprocessing:
    """Return that of the published networks, unless `options` change it: the middle 84 of 92 pixels, as ImageNet."""
    mean, std = (IMAGENET_MEAN, IMAGENET_STD) if channels == 3 else (0.449, 0.226)
    usual = {"size": 84, "mean": mean, "std": std, "interpolation": "bilinear", "crop": 84 / 92}
    return preprocessing_for(channels, usual | options)


class TorchBackbone(Backbone):
    """A torch module as a backbone. The features are its output."""

    def __init__(self, name: str, module: Any, preprocessing: Preprocessing, threads: int | None):
        self._torch = need("torch", f"the backbone {name}", TORCH)
        self.name, self.preprocessing = name, preprocessing
        self._module, self._threads = module.eval(), threads
        first = next(iter(module.parameters()), None)
        self._as = {} if first is None else {"device": first.device, "dtype": first.dtype}
        self.fingerprint = fingerprint(name, repr(module), self._weights_hash(), preprocessing.describe())
        self.dimension = self._embed(np.zeros((1, *self._input_shape), np.float32)).shape[1]

    def _embed(self, batch: np.ndarray) -> np.ndarray:
        torch, before = self._torch, self._torch.get_num_threads()
        try:
            torch.set_num_threads(self._threads or before)
            with torch.inference_mode():
                features = self._module(torch.from_numpy(np.require(batch, requirements="W")).to(**self._as))
        finally:
            torch.set_num_threads(before)
        if not isinstance(features, torch.Tensor):
            raise ValueError(f"the module {self.name} gives a {type(features).__name__}: a tensor is needed")
        return pooled(features.float().cpu().numpy(), f"the module {self.name}")

    def _weights_hash(self) -> str:
        digest = hashlib.sha256()
        for name, tensor in self._module.state_dict().items():
            plain = tensor.detach().cpu().contiguous()
            digest.update(f"{name} {tuple(plain.shape)} {plain.dtype}".encode())
            digest.update(plain.reshape(-1).view(self._torch.uint8).numpy().tobytes())
        return digest.hexdigest()
