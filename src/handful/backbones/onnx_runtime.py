"""ONNX Runtime, with limits on time and memory, because the network may come from a stranger."""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from handful.backbones.folders import shown
from handful.utils.extras import need
from handful.utils.interrupts import watched

TIMEOUT_S = 120.0  # to open a network, and for each batch; a slow network gets more time for a batch
TIMEOUT_VARIABLE = "HANDFUL_ONNX_TIMEOUT_S"  # the environment variable that sets another timeout
TIME_FACTOR = 4  # a batch of n pictures may take n times this factor times the time of one picture
MEMORY_SHARE = 0.5  # of the machine's memory: the limit for the weights and maps of a network
NOISE = r"\[ONNXRuntimeError\] : \d+ : \w+ : |/\S*onnxruntime\S* |\S*onnxruntime::\S*\(.*?\) "
CPU_PROVIDER = "CPUExecutionProvider"
MAX_MESSAGE_LENGTH = 300  # characters of a message of ONNX Runtime


class Session:
    """An open network. `run` can be interrupted, and raises ValueError when it takes too long."""

    def __init__(self, session: Any, runtime: Any, name: str) -> None:
        self._session, self._runtime, self.name = session, runtime, name
        self._seconds_a_picture = 0.0  # of the first run
        self.inputs, self.outputs = session.get_inputs(), session.get_outputs()

    def run(self, outputs: list[str] | None, inputs: dict[str, np.ndarray]) -> list[Any]:
        """Return the outputs of these names (None: all outputs) for one batch of inputs."""
        options = self._runtime.RunOptions()
        options.log_severity_level = 4  # none: what is wrong is raised

        def stop() -> None:
            options.terminate = True

        rows = max(1, *(len(batch) for batch in inputs.values()))
        limit_s = max(timeout_s(), TIME_FACTOR * rows * self._seconds_a_picture)
        begun = time.monotonic()
        try:
            results: list[Any] = watched(lambda: self._session.run(outputs, inputs, options), limit_s, stop)
        except TimeoutError:
            sentence = f"{self.name} took longer than {limit_s:g} seconds for a batch of {rows}"
            raise ValueError(_too_long(sentence)) from None
        except Exception as error:  # ONNX Runtime's own errors have no common class
            raise ValueError(f"{self.name} fails on a batch of {rows}: {_message(error)}") from None
        self._seconds_a_picture = self._seconds_a_picture or (time.monotonic() - begun) / rows
        return results


def open_session(
    model: bytes | Path,
    threads: int | None = None,
    *,
    name: str = "",
    trusted: bool = True,
    provider: str = CPU_PROVIDER,
) -> Session:
    """Open a network.

    Parameters
    ----------
    model : bytes or Path
        The path of an ONNX file, or its content.
    threads : int or None
        None: all cores.
    name : str
        The name of the network in error messages. Default: its path.
    trusted : bool
        Whether to compute constant parts of the graph when it is opened. With a file from a stranger this step can
        take any time and cannot be stopped, so it is left to the first run, where it costs little.
    provider : str
        ONNX Runtime's name of what runs it. `devices.on_device` chooses one.

    Returns
    -------
    Session

    Raises
    ------
    ValueError
        If the network cannot be opened, or not in time.
    """
    runtime = need("onnxruntime", "an ONNX backbone")
    options = runtime.SessionOptions()
    options.log_severity_level = 4  # none: what is wrong is raised
    # Waiting threads sleep instead of spinning. This is slightly slower on an idle machine, but slightly faster while
    # other threads decode pictures, which is the usual case, and it leaves more CPU to other programs.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if _bounded_memory(runtime):
        options.add_session_config_entry("session.use_env_allocators", "1")
    if threads is not None:
        options.intra_op_num_threads = threads
    source, label = (model, name) if isinstance(model, bytes) else (str(model), name or str(model))
    extra_options: dict[str, Any] = {} if trusted else {"disabled_optimizers": ["ConstantFolding"]}
    providers = list(dict.fromkeys((provider, CPU_PROVIDER)))  # the CPU runs what the other cannot
    try:
        opened = watched(
            lambda: runtime.InferenceSession(source, options, providers=providers, **extra_options), timeout_s()
        )
    except TimeoutError:
        raise ValueError(_too_long(f"{label} could not be opened in {timeout_s():g} seconds")) from None
    except Exception as error:  # ONNX Runtime's own errors have no common class
        raise ValueError(f"{label} cannot be read as an ONNX network: {_message(error)}") from None
    if provider not in opened.get_providers():  # ONNX Runtime only warns
        raise ValueError(f"{label} cannot run with {provider}: its libraries or drivers are missing")
    return Session(opened, runtime, label)


def timeout_s() -> float:
    """Return the seconds that a network may take: $HANDFUL_ONNX_TIMEOUT_S if it is set."""
    text = os.environ.get(TIMEOUT_VARIABLE)
    if text is None:
        return TIMEOUT_S
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise ValueError(f"{TIMEOUT_VARIABLE}={text!r}: give a number of seconds above 0")
    return seconds


@lru_cache(1)
def _bounded_memory(runtime: Any) -> bool:
    """Register an allocator with a memory limit, once for the process. Return whether that worked."""
    try:
        arena = runtime.OrtArenaCfg({"max_mem": int(MEMORY_SHARE * _memory_bytes())})
        kind, memory = runtime.OrtAllocatorType.ORT_ARENA_ALLOCATOR, runtime.OrtMemType.DEFAULT
        runtime.create_and_register_allocator(runtime.OrtMemoryInfo("Cpu", kind, 0, memory), arena)
    except Exception:  # an older ONNX Runtime, another system, or the program has registered its own allocator
        return False
    return True


def _memory_bytes() -> int:
    """Return the memory of this machine, or the limit of the container in which this process runs."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, ValueError):  # "max": no limit
        total = min(total, int(Path("/sys/fs/cgroup/memory.max").read_text("ascii")))
    return total


def _too_long(sentence: str) -> str:
    return f"{sentence}: if it is a large network on a slow machine, set {TIMEOUT_VARIABLE} to more"


def _message(error: Exception) -> str:
    """Return the message of ONNX Runtime without places in its source, shortened: names in a file can be long."""
    if isinstance(error, MemoryError) or "bad_alloc" in str(error) or "requested bytes" in str(error):
        return "it needs more memory than there is"
    text = " ".join(re.sub(NOISE, "", str(error)[: 4 * MAX_MESSAGE_LENGTH]).split())
    return shown(text if len(text) <= MAX_MESSAGE_LENGTH else f"{text[:MAX_MESSAGE_LENGTH]}…")
