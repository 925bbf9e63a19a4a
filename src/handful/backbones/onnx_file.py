"""The user's own network: any ONNX file that takes pictures and returns features."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from handful.backbones.backbone import Backbone, fingerprint, pooled, ramp
from handful.backbones.onnx_runtime import Session, weights_hash
from handful.backbones.preprocessing import PRESETS, Preprocessing, preprocessing_for
from handful.utils.files import read_json
from handful.utils.text import shortened

KEYS = ("preset", "size", "mean", "std", "interpolation", "crop", "output")
TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16}


class OnnxFile(Backbone):
    """A network in an ONNX file: [n, C, H, W] or [n, H, W, C] to [n, D], or a map [n, D, H, W] to average."""

    def __init__(self, path: Path, options: dict[str, Any], threads: int | None, device: str, name: str | None = None):
        if not path.is_file():
            raise FileNotFoundError(f"there is no ONNX file {path}")
        self.name, self.dimension = name or str(path), 0
        self.base = sidecar if (sidecar := path.with_suffix(".base.safetensors")).is_file() else None
        settings = _read_sidecar(path) | options
        output = settings.pop("output", None)
        weights = weights_hash(path)
        self._session = Session(path, threads, self.name)
        try:
            self.preprocessing = self._read_input(settings)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path}: {shortened(str(error), 500)}") from None
        self._output = self._choose_output(output)
        self.fingerprint = fingerprint(weights, self._output, self.preprocessing.describe())
        picture = ramp(self._input_shape)
        # Running one picture now shows errors of the network before a long run.
        self.dimension = self._embed(np.zeros_like(picture)).shape[1]
        trial = {self._input: self._as_input(np.repeat(picture, self._batch or 1, axis=0))}
        self._session = self._session.on_device(device, trial, path)
        self.device = self._session.device

    def _read_input(self, settings: dict[str, Any]) -> Preprocessing:
        """Return how pictures are prepared, from the settings and the shape of the input."""
        entry, *others = self._session.inputs
        if others:
            raise ValueError(f"it has {len(others) + 1} inputs, and a backbone has one, the picture")
        shape = entry.shape
        if len(shape) != 4 or entry.type not in TYPES:
            raise ValueError(
                f"it takes {entry.type} of shape {shape}, and float pictures [n, channels, height, width] are needed"
            )
        self._input, self._type = entry.name, TYPES[entry.type]
        self._batch = shape[0] if isinstance(shape[0], int) else None  # some graphs take only batches of one size
        self._channels_last = shape[1] not in (1, 3) and shape[3] in (1, 3)
        channels, *sides = (shape[3], *shape[1:3]) if self._channels_last else shape[1:]
        own_size = {"size": tuple(sides)} if all(isinstance(side, int) for side in sides) else {}
        preset = settings.pop("preset", None)
        if preset is not None and preset not in [*PRESETS]:
            raise ValueError(f"there is no preset {str(preset)[:40]!r}: choose from {', '.join(PRESETS)}")
        settings = (PRESETS[preset] if preset else {}) | own_size | settings
        if missing := [key for key in ("size", "mean", "std") if key not in settings]:
            raise ValueError(
                f"the {', '.join(missing)} of its pictures are not known (its input is {shape}): give them or a "
                f"preset ({', '.join(PRESETS)}), or write {Path(self.name).with_suffix('.json')} with "
                '{"size": 224, "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}, the numbers of most '
                "networks trained with torch on ImageNet"
            )
        preprocessing = preprocessing_for(channels if isinstance(channels, int) else 3, settings)
        if any(isinstance(a, int) and a != b for a, b in zip(sides, preprocessing.size, strict=True)):
            raise ValueError(f"it takes pictures of {sides[0]} x {sides[1]}, and size says {settings['size']}")
        return preprocessing

    def _choose_output(self, requested: str | None) -> str:
        names: list[str] = [entry.name for entry in self._session.outputs]
        if requested in names or (requested is None and len(names) == 1):
            return requested or names[0]
        problem = f"no output {requested!r}" if requested is not None else f"{len(names)} outputs"
        raise ValueError(
            f"{self.name} has {problem}: choose from {', '.join(names)}, and write "
            f'{Path(self.name).with_suffix(".json")} with {{"output": "name of the features"}}'
        )

    def _as_input(self, batch: np.ndarray) -> np.ndarray:
        if self._channels_last:
            batch = np.ascontiguousarray(batch.transpose(0, 2, 3, 1))
        return batch.astype(self._type, copy=False)

    def _embed(self, batch: np.ndarray) -> np.ndarray:
        batch = self._as_input(batch)
        n, step = len(batch), self._batch or len(batch)
        if n % step:
            batch = np.concatenate([batch, np.zeros((step - n % step, *batch.shape[1:]), batch.dtype)])
        return np.concatenate([self._run(batch[i : i + step]) for i in range(0, n, step)])[:n]

    def _run(self, batch: np.ndarray) -> np.ndarray:
        (features,) = self._session.run([self._output], {self._input: batch})
        what = f"the output {shortened(self._output, 100)} of {self.name}"
        if not isinstance(features, np.ndarray) or features.dtype.kind not in "fiub":
            raise ValueError(f"{what} is {getattr(features, 'dtype', type(features))}: numbers are needed")
        rows = pooled(features, what)
        if len(rows) != len(batch) or self.dimension not in (0, rows.shape[1]):
            raise ValueError(
                f"{what} has shape {rows.shape} for {len(batch)} pictures: a row of the same length is needed for each"
            )
        return rows


def _read_sidecar(path: Path) -> dict[str, Any]:
    """Return the settings in `model.json`, the file next to `model.onnx`; {} if there is none."""
    sidecar = path.with_suffix(".json")
    if not sidecar.is_file():
        return {}
    settings = read_json(sidecar)
    if unknown := [key for key in settings if key not in KEYS]:
        names = shortened(", ".join(map(repr, unknown)), 200)
        raise ValueError(f"{sidecar} holds {names}: an object with {', '.join(KEYS)} is needed")
    return {key: value for key, value in settings.items() if value is not None or key == "crop"}
