"""ONNX Runtime on the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from handful.images.extras import need


def open_session(model: bytes | Path, threads: int | None = None) -> Any:
    """An `onnxruntime.InferenceSession` on the CPU; `threads=None` uses all cores."""
    runtime = need("onnxruntime", "an ONNX backbone")
    options = runtime.SessionOptions()
    options.log_severity_level = 3  # errors only: warnings about a graph's unused parts help nobody here
    # Waiting threads sleep instead of spinning: some per cent slower alone on an idle machine, some per cent faster
    # beside the threads that decode pictures, which is how it is used, and kinder to other programs.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if threads is not None:
        options.intra_op_num_threads = threads
    source = model if isinstance(model, bytes) else str(model)
    return runtime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
