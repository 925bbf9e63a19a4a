"""Where a network runs: on the CPU, or on what this build of ONNX Runtime can use besides.

Features are kept in caches and in models, and are compared with features from other machines. So a device is used only
if it gives the features of the CPU: both get the same trial picture when the network is opened.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import numpy as np

from handful.backbones.onnx_runtime import CPU_PROVIDER, Session
from handful.utils.extras import need

AUTO, CPU = "auto", "cpu"
VARIABLE = "HANDFUL_DEVICE"  # the environment variable that replaces "auto"
PROVIDERS = {  # ONNX Runtime's names, the fastest first
    "cuda": "CUDAExecutionProvider",
    "directml": "DmlExecutionProvider",
    "coreml": "CoreMLExecutionProvider",
    CPU: CPU_PROVIDER,
}
PACKAGES = {  # each replaces onnxruntime
    "cuda": "pip uninstall onnxruntime, then pip install onnxruntime-gpu (NVIDIA, Linux or Windows)",
    "directml": "pip uninstall onnxruntime, then pip install onnxruntime-directml (Windows)",
    "coreml": "pip install onnxruntime on a Mac",
}
DEVICES = (AUTO, CPU, *PACKAGES)
TOLERANCE = 1e-2  # of the length of the features: half precision is near 1e-3, a broken driver far from it


def check_device(device: str | None) -> str:
    """Return the device; None is $HANDFUL_DEVICE, or "auto". Raise ValueError if there is no such device."""
    chosen = device if device is not None else os.environ.get(VARIABLE) or AUTO
    if chosen not in DEVICES:
        raise ValueError(f"there is no device {chosen!r}: choose from {', '.join(DEVICES)}")
    return chosen


def candidates(device: str, available: Sequence[str]) -> list[str]:
    """Return the devices to try, in order, if ONNX Runtime has these providers. The CPU is always there.

    >>> candidates("auto", ["CUDAExecutionProvider", "CPUExecutionProvider"])
    ['cuda', 'cpu']
    """
    usable = [name for name, provider in PROVIDERS.items() if provider in available or name == CPU]
    if device == AUTO:
        return usable
    if device not in usable:
        raise ValueError(
            f"the device {device!r} is not one that the installed ONNX Runtime can use ({', '.join(usable)}): "
            f"{PACKAGES[device]}, or leave the device out"
        )
    return [device]


def on_device(
    cpu: Session, reopen: Callable[[str], Session], device: str | None, trial: dict[str, np.ndarray]
) -> tuple[Session, str]:
    """Return the network on the best device that gives the features of the CPU, and the name of the device.

    Parameters
    ----------
    cpu : Session
        The network, open on the CPU.
    reopen : callable
        Opens the network with the provider of this name.
    device : str or None
        "auto", or a device, which must then work.
    trial : dict
        Inputs for a trial.

    Raises
    ------
    ValueError
        If a device was named that is missing, cannot open the network, or gives other features.
    """
    chosen = check_device(device)
    if chosen == CPU:
        return cpu, CPU
    for name in candidates(chosen, need("onnxruntime", "an ONNX backbone").get_available_providers()):
        if name == CPU:
            break
        try:
            session = reopen(PROVIDERS[name])
            difference = _difference(cpu, session, trial)
            if difference <= TOLERANCE:  # NaN must not pass
                return session, name
            problem = f"its features differ by {difference:.1%} from those of the CPU"
        except ValueError as error:
            problem = str(error)
        if chosen != AUTO:
            raise ValueError(f"{cpu.name} cannot run on {name!r}: {problem}; use the device 'cpu'") from None
    return cpu, CPU


def _difference(a: Session, b: Session, trial: dict[str, np.ndarray]) -> float:
    """Return how far the outputs are apart, as a part of their length."""
    norm = np.linalg.norm
    pairs = zip(a.run(None, trial), b.run(None, trial), strict=True)
    return max(float(norm(x - y) / max(norm(x), 1e-12)) for x, y in pairs)
