"""EfficientNet-Lite as a backbone, alone or several networks together."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from handful.backbones import efficientnet
from handful.backbones.backbone import Backbone, fingerprint
from handful.backbones.devices import on_device
from handful.backbones.onnx_runtime import Session, open_session

if TYPE_CHECKING:
    from PIL.Image import Image

PLUS = "+"  # between the names of networks that are used together


class EfficientNetLite(Backbone):
    """1280 features from a network trained on ImageNet, through ONNX Runtime."""

    dimension = efficientnet.DIMENSION

    def __init__(self, network: efficientnet.Network, threads: int | None = None, device: str | None = None):
        self.name, self.preprocessing = network.name, network.preprocessing
        graph, weights = efficientnet.load_graph(network)
        self.fingerprint = fingerprint(self.name, str(efficientnet.FORMAT), weights, self.preprocessing.describe())
        reopen = partial(_open_with, graph, threads, self.name)
        trial = {"pictures": efficientnet.probe(network.size)}
        self._session, self.device = on_device(open_session(graph, threads, name=self.name), reopen, device, trial)

    def _embed(self, batch: np.ndarray) -> np.ndarray:
        features: np.ndarray = self._session.run(["features"], {"pictures": batch})[0]
        return features


class Concatenation(Backbone):
    """The features of several backbones side by side, each part scaled to length 1 so that all count alike."""

    def __init__(self, parts: Sequence[Backbone]):
        self.parts = tuple(parts)
        self.name = PLUS.join(part.name for part in parts)
        self.dimension = sum(part.dimension for part in parts)
        self.preprocessing = max((part.preprocessing for part in parts), key=lambda p: p.size)
        self.fingerprint = fingerprint("concatenation", *(part.fingerprint for part in parts))
        self.device = next((part.device for part in parts if part.device != "cpu"), "cpu")
        shapes = [(len(part.preprocessing.mean), *part.input_size) for part in parts]
        self._shapes, self._ends = shapes, np.cumsum([int(np.prod(shape)) for shape in shapes])

    def prepare(self, image: Image) -> np.ndarray:
        """Return what the parts need, one after the other: float32 [N]."""
        return np.concatenate([part.prepare(image).ravel() for part in self.parts])

    def embed(self, batch: np.ndarray) -> np.ndarray:
        """Return the features, float32 [n, D], of prepared pictures, float32 [n, N]."""
        batch = np.asarray(batch, np.float32)
        if batch.ndim != 2 or batch.shape[1] != self._ends[-1]:
            raise ValueError(
                f"a batch has shape {batch.shape}, and the backbone {self.name} takes [n, {self._ends[-1]}]: stack the "
                "arrays that `prepare` returns"
            )
        return self._embed(batch)

    def _embed(self, batch: np.ndarray) -> np.ndarray:
        rows = []
        for part, shape, inputs in zip(self.parts, self._shapes, np.split(batch, self._ends[:-1], axis=1), strict=True):
            features = part.embed(inputs.reshape(len(batch), *shape))
            lengths = np.linalg.norm(features, axis=1, keepdims=True)
            rows.append(features / np.maximum(lengths, np.finfo(np.float32).tiny))
        return np.concatenate(rows, axis=1)


def network_names(name: str) -> list[str] | None:
    """Return the networks of a name like "efficientnet_lite0+efficientnet_lite2"; None if it is not such a name."""
    names = name.split(PLUS)
    known = all(part in efficientnet.NETWORKS for part in names) and len(set(names)) == len(names)
    return names if known else None


def lite_backbone(names: Sequence[str], threads: int | None = None, device: str | None = None) -> Backbone:
    """Return the network of this name, or several side by side."""
    parts = [EfficientNetLite(efficientnet.NETWORKS[name], threads, device) for name in names]
    return parts[0] if len(parts) == 1 else Concatenation(parts)


def _open_with(graph: bytes, threads: int | None, name: str, provider: str) -> Session:
    return open_session(graph, threads, name=name, provider=provider)
