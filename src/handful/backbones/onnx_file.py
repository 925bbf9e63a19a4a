"""The user's own network: any ONNX file that takes pictures and returns features."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from handful.backbones.backbone import Backbone, fingerprint, pooled
from handful.backbones.onnx_runtime import Session, weights_hash
from handful.backbones.preprocessing import PRESETS, Preprocessing, as_numbers, as_size, preset_settings
from handful.utils.limits import JSON_BYTES, check_bytes, in_units
from handful.utils.text import shortened

KEYS = ("preset", "size", "mean", "std", "interpolation", "crop", "output")
NUMBERS = "fiub"  # kinds of NumPy's: floats, whole numbers, booleans
TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16}


class OnnxFile(Backbone):
    """A network in an ONNX file.

    It has one input [n, C, H, W] or [n, H, W, C] with C = 1 or 3. It returns features [n, D], or a map [n, D, H, W],
    which is averaged. If `model.base.safetensors` is next to `model.onnx`, it is the base file of the network.
    """

    def __init__(
        self,
        path: Path,
        options: dict[str, Any],
        threads: int | None = None,
        name: str | None = None,
        device: str | None = None,
    ):
        if not path.is_file():
            raise FileNotFoundError(f"there is no ONNX file {path}")
        self.name = name or str(path)
        self.base = sidecar if (sidecar := path.with_suffix(".base.safetensors")).is_file() else None
        settings = _read_sidecar(path) | options
        output, preset = settings.pop("output", None), settings.pop("preset", None)
        weights = weights_hash(path)
        self._session = Session(path, threads, self.name)
        self._read_input(settings, {} if preset is None else _preset(preset, path))
        self._output = self._choose_output(output)
        try:
            self.preprocessing = Preprocessing(**settings)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path}: {error}") from None
        self.fingerprint = fingerprint(weights, self._output, self.preprocessing.describe())
        self.dimension = self._trial()
        # The trial is a grey ramp: zeros would hide differences.
        sides = (len(self.preprocessing.mean), *self.input_size)
        ramp = np.linspace(-1, 1, math.prod(sides), dtype=np.float32).reshape(1, *sides)
        trial = {self._input: self._as_input(np.repeat(ramp, self._batch or 1, axis=0))}
        self._session = self._session.on_device(device, trial, partial(Session, path, threads, self.name))
        self.device = self._session.device

    def _read_input(self, settings: dict[str, Any], preset: dict[str, Any]) -> None:
        """Fill in the size and check the channels. Raise ValueError if something is missing."""
        inputs = self._session.inputs
        if len(inputs) != 1:
            names = ", ".join(i.name for i in inputs)
            raise ValueError(f"{self.name} has {len(inputs)} inputs ({names}): a backbone has one, the picture")
        (entry,) = inputs
        shape = entry.shape
        if len(shape) != 4 or entry.type not in TYPES:
            raise ValueError(
                f"{self.name} takes {entry.type} of shape {shape}: "
                "float pictures [n, channels, height, width] are needed"
            )
        self._input, self._type = entry.name, TYPES[entry.type]
        self._channels_last = shape[1] not in (1, 3) and shape[3] in (1, 3)
        channels, *sides = (shape[3], *shape[1:3]) if self._channels_last else shape[1:]
        self._batch = shape[0] if isinstance(shape[0], int) else None  # some graphs take only batches of one size
        fixed = [side if isinstance(side, int) else None for side in sides]
        if None not in fixed:
            preset = preset | {"size": tuple(fixed)}
        for key, value in ({"size": None} | preset).items():
            settings.setdefault(key, value)
        if settings["size"] is None:
            raise ValueError(
                f"the file {self.name} does not contain the input size ({shape}): give size=, or write "
                f'{Path(self.name).with_suffix(".json")} with {{"size": 224, "mean": [..], "std": [..]}}'
            )
        if any(f not in (None, side) for f, side in zip(fixed, settings["size"], strict=True)):
            raise ValueError(f"{self.name} takes pictures of {fixed[0]} x {fixed[1]}, and size says {settings['size']}")
        if missing := [key for key in ("mean", "std") if key not in settings]:
            raise ValueError(
                f"the scale of the pixels for {self.name} is not known: give {' and '.join(missing)} or a preset "
                f"({', '.join(PRESETS)}), or write "
                f'{Path(self.name).with_suffix(".json")} with {{"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, '
                "0.225]}, the numbers of most networks trained with torch on ImageNet"
            )
        count = channels if isinstance(channels, int) else 3
        for key in ("mean", "std"):
            if len(settings[key]) == 1:
                settings[key] = settings[key] * count
        if len(settings["mean"]) != count or count not in (1, 3):
            raise ValueError(f"{self.name} takes {channels} channels, and mean has {len(settings['mean'])} numbers")

    def _choose_output(self, requested: str | None) -> str:
        names: list[str] = [entry.name for entry in self._session.outputs]
        if requested is None and len(names) == 1:
            return names[0]
        if requested is None or requested not in names:
            problem = f"no output {requested!r}" if requested is not None else f"{len(names)} outputs"
            raise ValueError(
                f"{self.name} has {problem}: choose from {', '.join(names)}, and write "
                f'{Path(self.name).with_suffix(".json")} with {{"output": "name of the features"}}'
            )
        return requested

    def _trial(self) -> int:
        """Return the number of features. Running one picture now shows errors of the network before a long run."""
        check_bytes(4 * len(self.preprocessing.mean) * math.prod(self.input_size), f"a picture for {self.name}")
        features = self._embed(np.zeros((1, len(self.preprocessing.mean), *self.input_size), np.float32))
        return int(features.shape[1])

    def _as_input(self, batch: np.ndarray) -> np.ndarray:
        if self._channels_last:
            batch = np.ascontiguousarray(batch.transpose(0, 2, 3, 1))
        return batch.astype(self._type, copy=False)

    def _embed(self, batch: np.ndarray) -> np.ndarray:
        batch = self._as_input(batch)
        n, step = len(batch), self._batch or len(batch)
        if n % step:
            batch = np.concatenate([batch, np.zeros((step - n % step, *batch.shape[1:]), batch.dtype)])
        rows = [self._run(batch[i : i + step]) for i in range(0, n, step)]
        return (rows[0] if len(rows) == 1 else np.concatenate(rows))[:n]

    def _run(self, batch: np.ndarray) -> np.ndarray:
        (features,) = self._session.run([self._output], {self._input: batch})
        what = f"the output {shortened(self._output, 100)} of {self.name}"
        if not isinstance(features, np.ndarray) or features.dtype.kind not in NUMBERS:
            kind = features.dtype if isinstance(features, np.ndarray) else type(features).__name__
            raise ValueError(f"{what} is of type {kind}: numbers are needed")
        if features.ndim and len(features) != len(batch):
            raise ValueError(f"{self.name} gives {len(features)} rows for {len(batch)} pictures: one each is needed")
        rows = pooled(features, what)
        if rows.shape[1] != (before := getattr(self, "dimension", rows.shape[1])):
            raise ValueError(f"{what} has {rows.shape[1]} features for some pictures and {before} for others")
        return rows


def _preset(name: Any, path: Path) -> dict[str, Any]:
    try:
        return preset_settings(name)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _read_sidecar(path: Path) -> dict[str, Any]:
    """Return the settings in `model.json`, the file next to `model.onnx`; {} if there is none."""
    sidecar = path.with_suffix(".json")
    if not sidecar.is_file():
        return {}
    settings = read_json(sidecar)
    if not isinstance(settings, dict) or (unknown := [key for key in settings if key not in KEYS]):
        wrong = (
            shortened(", ".join(map(repr, unknown)), 200)
            if isinstance(settings, dict)
            else f"a {type(settings).__name__}"
        )
        raise ValueError(f"{sidecar} holds {wrong}: an object with {', '.join(KEYS)} is needed")
    checked: dict[str, Callable[[Any], Any]] = {"size": as_size} | {
        name: partial(as_numbers, what=name) for name in ("mean", "std")
    }
    try:
        return {key: checked[key](value) if key in checked else value for key, value in settings.items()}
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{sidecar}: {shortened(str(error), 200)}") from None


def read_json(file: Path) -> Any:
    """Return the content of a JSON file that lies beside a network."""
    if file.stat().st_size > JSON_BYTES:
        raise ValueError(f"{file} has more than {in_units(JSON_BYTES)}: a few settings are needed")
    try:
        return json.loads(file.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file} is not JSON: {shortened(str(error), 200)}") from None
