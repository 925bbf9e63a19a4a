"""ONNX Runtime: what it needs of a file of weights, which device runs a network, and errors in one sentence.

Features are kept in caches and in models, and are compared with features from other machines. So a device is used only
if it gives the features of the CPU: both get the same trial input when the network is opened.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from handful.utils.extras import need
from handful.utils.text import shortened

AUTO, CPU = "auto", "cpu"
VARIABLE = "HANDFUL_DEVICE"  # the environment variable that replaces "auto"
PROVIDERS = {  # ONNX Runtime's names, the fastest first
    "cuda": "CUDAExecutionProvider",
    "directml": "DmlExecutionProvider",
    "coreml": "CoreMLExecutionProvider",
    CPU: "CPUExecutionProvider",
}
PACKAGES = {  # each replaces onnxruntime
    "cuda": "pip uninstall onnxruntime, then pip install onnxruntime-gpu (NVIDIA, Linux or Windows)",
    "directml": "pip uninstall onnxruntime, then pip install onnxruntime-directml (Windows)",
    "coreml": "pip install onnxruntime on a Mac",
}
DEVICES = (AUTO, CPU, *PACKAGES)
TOLERANCE = 1e-2  # of the length of the features: half precision is near 1e-3, a broken driver far from it
NOISE = r"\[ONNXRuntimeError\] : \d+ : \w+ : |/\S*onnxruntime\S* |\S*onnxruntime::\S*\(.*?\) "
MAX_MESSAGE_LENGTH = 300  # characters of a message of ONNX Runtime


class Session:
    """An open network, from the path or content of a file; `name` is for messages, `device` a key of `PROVIDERS`."""

    def __init__(self, model: bytes | Path, threads: int | None = None, name: str = "", device: str = CPU) -> None:
        self._runtime = runtime = need("onnxruntime", "an ONNX backbone")
        options = runtime.SessionOptions()
        options.log_severity_level = 4  # none: what is wrong is raised
        # Waiting threads sleep instead of spinning. This is slightly slower on an idle machine, but slightly faster
        # while other threads decode pictures, which is the usual case, and it leaves more CPU to other programs.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.intra_op_num_threads = threads or 0  # 0: all cores
        source, self.name = (model, name) if isinstance(model, bytes) else (str(model), name or str(model))
        provider = PROVIDERS[device]
        providers = list(dict.fromkeys((provider, PROVIDERS[CPU])))  # the CPU runs what the other cannot
        try:
            session = runtime.InferenceSession(source, options, providers=providers)
        except Exception as error:  # ONNX Runtime's own errors have no common class
            raise ValueError(f"{self.name} cannot be read as an ONNX network: {_message(error)}") from None
        if provider not in session.get_providers():  # ONNX Runtime only warns
            raise ValueError(f"{self.name} cannot run with {provider}: its libraries or drivers are missing")
        self._session, self._threads, self.device = session, threads, device
        self.inputs, self.outputs = session.get_inputs(), session.get_outputs()

    def run(self, outputs: list[str] | None, inputs: dict[str, np.ndarray]) -> list[Any]:
        """Return the outputs of these names (None: all outputs) for one batch of inputs."""
        options = self._runtime.RunOptions()
        options.log_severity_level = 4
        try:
            results: list[Any] = self._session.run(outputs, inputs, options)
        except Exception as error:
            rows = max(len(batch) for batch in inputs.values())
            raise ValueError(f"{self.name} fails on a batch of {rows}: {_message(error)}") from None
        return results

    def on_device(self, device: str, trial: dict[str, np.ndarray], model: bytes | Path) -> Session:
        """Return this network on the best or the named device that gives the features of the CPU for `trial`."""
        for name in candidates(device, self._runtime.get_available_providers()):
            if name == CPU:
                break
            try:
                session = Session(model, self._threads, self.name, name)
                pairs = zip(self.run(None, trial), session.run(None, trial), strict=True)
                difference = max(np.linalg.norm(a - b) / (np.linalg.norm(a) or 1.0) for a, b in pairs)
                if difference <= TOLERANCE:  # NaN must not pass
                    return session
                problem = f"its features differ by {difference:.1%} from those of the CPU"
            except ValueError as error:
                problem = str(error)
            if device != AUTO:
                raise ValueError(f"{self.name} cannot run on {name!r}: {problem}; use the device 'cpu'")
        return self


def check_device(device: str | None) -> str:
    """Return the device; None is $HANDFUL_DEVICE, or "auto". Raise ValueError if there is no such device."""
    chosen = device if device is not None else os.environ.get(VARIABLE) or AUTO
    if chosen not in DEVICES:
        raise ValueError(f"there is no device {chosen!r}: choose from {', '.join(DEVICES)}")
    return chosen


def candidates(device: str, available: Sequence[str]) -> list[str]:
    """Return the devices to try, in order, if ONNX Runtime has these providers. The CPU is always there."""
    usable = [name for name, provider in PROVIDERS.items() if provider in available or name == CPU]
    if device not in (AUTO, *usable):
        raise ValueError(
            f"the device {device!r} is not one that the installed ONNX Runtime can use ({', '.join(usable)}): "
            f"{PACKAGES[device]}, or leave the device out"
        )
    return usable if device == AUTO else [device]


def weights_hash(path: Path) -> str:
    """Return a hash of an ONNX file and of the other files that hold its weights."""
    digest = hashlib.sha256()
    for file in (path, *other_weights(path)):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def other_weights(path: Path) -> list[Path]:
    """Return the other files that hold weights of an ONNX file, which must be in its folder, sorted by name."""
    onnx = need("onnx", "an ONNX backbone")
    try:
        model = onnx.load(str(path), load_external_data=False)
    except Exception as error:
        raise ValueError(f"{path} cannot be read as an ONNX network: {_message(error)}") from None
    tensors = _tensors(model, onnx.TensorProto)
    names = {entry.value for tensor in tensors for entry in tensor.external_data if entry.key == "location"}
    for name in names:
        file = path.parent / name
        if "\0" in name or not file.resolve().is_relative_to(path.parent.resolve()) or not file.is_file():
            raise ValueError(f"{path} keeps weights in {shortened(name)}, which is not a file in its folder")
    return [path.parent / name for name in sorted(names)]


def _tensors(message: Any, kind: type) -> Iterator[Any]:
    """Yield all tensors in a message of protobuf, in functions, branches and attributes of nodes too."""
    if isinstance(message, kind):
        yield message
        return
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in [value] if hasattr(value, "ListFields") else value:
                yield from _tensors(inner, kind)


def _message(error: Exception) -> str:
    """Return the message of ONNX Runtime without places in its source, shortened: names in a file can be long."""
    return shortened(" ".join(re.sub(NOISE, "", str(error)).split()), MAX_MESSAGE_LENGTH)
