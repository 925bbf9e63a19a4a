"""When the fused kernels are compiled: beside the work, in a process of their own, and only if there is enough of it.

A kernel takes some ten seconds to compile, once on a machine. Nobody waits for that. Work begins with the array engine.
Once it has taken a second or two in this process, another process compiles, or what was compiled before is loaded; what
is solved after that uses the kernel. So both engines may take part in one batch. They agree to about 1e-6. Who needs
the same last bits every time names the engine: `backend=`, or the environment variable HANDFUL_BACKEND.

A thread starts the other process, waits for it, and loads what it has compiled. The compiler itself is no work for a
thread: Python's lock would hold up both, and LLVM does not survive the end of its process while it is at work.

What was compiled is kept in the cache folder of the user, and a small file beside it says which kernels are there: to
know that, numba itself need not be imported. `handful warm` compiles everything beforehand.

A process that ends in the meantime ends the compiler. Processes that want the same kernel take turns, so that one
compiles and the others load.
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path

from handful.utils.cache_folder import cache_folder
from handful.utils.version import __version__

KERNELS = {  # modules with a function `warm(ways, dtype)`, which runs their compiled functions on a tiny task
    "prepare": "handful.engines.prepare_numba",
    "descent": "handful.engines.descent_numba",
    "density": "handful.engines.density_numba",
}
FOR_ANY_WAYS = ("prepare", "density")  # compiled once, not for each number of prototypes
MAX_TILE = 6  # prototypes that are multiplied with at once: 4 x 6 sums, 4 loads and a spare fit 32 registers
USUAL_TILE = 5  # of tasks of five or ten classes
ENOUGH_TO_COMPILE, ENOUGH_TO_LOAD = 2.0, 0.2  # seconds of work with the array engine
UNUSED_DAYS = 60  # after which kernels of other versions are removed
VARIABLE = "HANDFUL_BACKEND"
COMPILE = """
import sys
from handful.engines import compiling
name, tile, dtype, module = sys.argv[1:]
compiling.KERNELS[name] = module
compiling.Kernel(name, int(tile), dtype).make()
"""


def tile_ways(ways: int) -> int:
    """Prototypes that are multiplied with at once: the fewest tiles, and among those the least padding."""
    return -(-ways // -(-ways // MAX_TILE))


@dataclass(frozen=True)
class Kernel:
    """One kernel as numba compiles it: for a number of prototypes at once, and for a type of numbers."""

    name: str
    tile: int
    dtype: str

    @classmethod
    def of(cls, name: str, ways: int, dtype: str) -> Kernel:
        """The kernel that tasks of so many classes need."""
        return cls(name, 1 if name in FOR_ANY_WAYS else tile_ways(ways), dtype)

    @property
    def mark(self) -> Path | None:
        """The file that says that this kernel was compiled; None if there is no folder for it."""
        folder = kernel_folder()
        return None if folder is None else folder / f"{self.name}-{self.tile}-{self.dtype}.ready"

    @property
    def is_stored(self) -> bool:
        """Whether it was compiled earlier and only has to be loaded."""
        return self.mark is not None and self.mark.exists()

    @property
    def enough(self) -> float:
        """The seconds of work after which it is made."""
        return ENOUGH_TO_LOAD if self.is_stored else ENOUGH_TO_COMPILE

    def make(self) -> None:
        """Compile the kernel, or load it. Another process that is at it is waited for."""
        with _turn(self.mark):
            import_module(KERNELS[self.name]).warm(self.tile, self.dtype)
            if self.mark is not None:
                with suppress(OSError):
                    self.mark.touch()


@dataclass
class _Compiler:
    """The thread that makes kernels, what it has made, and the work that was done without them."""

    ready: set[Kernel] = field(default_factory=set)
    failed: dict[Kernel, Exception] = field(default_factory=dict)
    seconds: dict[Kernel, float] = field(default_factory=dict)
    waiting: deque[Kernel] = field(default_factory=deque)
    wanted: set[Kernel] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)
    thread: threading.Thread | None = None
    process: subprocess.Popen[str] | None = None
    is_ended: bool = False

    def note(self, kernels: Sequence[Kernel], seconds: float) -> None:
        """Work of so many seconds was done without these kernels; begin to make them once there is enough of it."""
        with self.lock:
            for kernel in kernels:
                self.seconds[kernel] = self.seconds.get(kernel, 0.0) + seconds
            self._begin([kernel for kernel in kernels if self.seconds[kernel] >= kernel.enough])

    def begin(self, kernels: Sequence[Kernel]) -> None:
        """Let the thread make these kernels, if it has not been asked to before."""
        with self.lock:
            self._begin(kernels)

    def _begin(self, kernels: Sequence[Kernel]) -> None:
        new = [kernel for kernel in kernels if kernel not in self.wanted | self.ready]
        self.wanted.update(new)
        self.waiting.extend(new)
        if self.waiting and self.thread is None and not self.is_ended:
            atexit.unregister(self.end)
            atexit.register(self.end)
            self.thread = threading.Thread(target=self._work, name="handful-compiler", daemon=True)
            self.thread.start()

    def _work(self) -> None:
        while True:
            with self.lock:
                if not self.waiting or self.is_ended:
                    self.thread = None
                    return
                kernel = self.waiting.popleft()
            try:
                if not kernel.is_stored:
                    self._compile(kernel)
                if not self.is_ended:
                    kernel.make()
                    self.ready.add(kernel)
            except Exception as error:  # the array engine does the work; `handful warm` shows the error
                self.failed[kernel] = error

    def _compile(self, kernel: Kernel) -> None:
        folder = kernel_folder()
        if folder is None:
            raise OSError("there is no folder for compiled kernels")
        # modules are found as here, but not in the current folder, which may be a stranger's
        path = os.pathsep.join(entry for entry in sys.path if os.path.isabs(entry))
        command = [sys.executable, "-c", COMPILE, kernel.name, str(kernel.tile), kernel.dtype, KERNELS[kernel.name]]
        with self.lock:
            if self.is_ended:
                return
            self.process = subprocess.Popen(
                command, cwd=folder, env={**os.environ, "PYTHONPATH": path}, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace",
            )  # fmt: skip
        _, said = self.process.communicate()
        if self.process.returncode and not self.is_ended:
            raise RuntimeError((said.strip().splitlines() or ["the compiler ended without a word"])[-1])

    def end(self) -> None:
        """End the compiler, and wait until a kernel that is being loaded is there: this process ends."""
        with self.lock:
            self.is_ended = True
            if self.process is not None and self.process.poll() is None:
                self.process.kill()
        thread = self.thread
        if thread is not None:
            thread.join()


_compiler = _Compiler()


@contextmanager
def chosen_backend(kernels: Sequence[Kernel]) -> Iterator[str]:
    """The engine for the work inside: "fast" if these kernels are there, "array" if none is, "auto" between.

    "auto" leaves it to each part of the work whether its kernel is there. The time that the work takes without all of
    them is counted, and decides when they are compiled.
    """
    fixed = fixed_backend()
    if fixed is not None or not kernels or find_spec("numba") is None:
        yield "array" if fixed is None or not kernels else fixed
        return
    missing = [kernel for kernel in kernels if kernel not in _compiler.ready]
    if not missing:
        yield "fast"
        return
    start = time.perf_counter()
    yield "array" if len(missing) == len(kernels) else "auto"
    _compiler.note(missing, time.perf_counter() - start)


def fixed_backend() -> str | None:
    """The engine that HANDFUL_BACKEND names, if it names one.

    Raises
    ------
    ValueError
        If it names something else.
    """
    name = os.environ.get(VARIABLE, "").strip().lower()
    if name in ("", "auto"):
        return None
    if name not in ("array", "fast"):
        raise ValueError(f'{VARIABLE} is {name!r}: set it to "array" or "fast", or leave it out')
    return name


def is_ready(name: str, ways: int, dtype: str) -> bool:
    """Whether a kernel can be called without compiling or loading anything."""
    return Kernel.of(name, ways, dtype) in _compiler.ready


def make_now(kernel: Kernel) -> float:
    """Compile or load a kernel while the caller waits; returns the seconds that it took."""
    start = time.perf_counter()
    if kernel not in _compiler.ready:
        kernel.make()
        _compiler.ready.add(kernel)
    return time.perf_counter() - start


def is_at_work() -> bool:
    """Whether a kernel is being compiled, which takes a core."""
    return _compiler.process is not None and _compiler.process.poll() is None


def all_kernels(dtype: str = "float32") -> list[Kernel]:
    """Every kernel for numbers of one type, the one for most tasks first."""
    tiles = sorted(range(1, MAX_TILE + 1), key=lambda tile: (tile != USUAL_TILE, tile))
    return list(dict.fromkeys(Kernel.of(name, tile, dtype) for tile in tiles for name in KERNELS))


def load_stored() -> None:
    """Begin to load all kernels that were compiled earlier: for a server, which is started to be used."""
    if fixed_backend() != "array" and find_spec("numba") is not None:
        _compiler.begin([kernel for kernel in all_kernels() if kernel.is_stored])


def wait(seconds: float | None = None) -> bool:
    """Wait until the thread has made all that was wanted so far; whether it has."""
    thread = _compiler.thread
    if thread is not None:
        thread.join(seconds)
    return _compiler.thread is None


@cache
def source_digest() -> str:
    """A digest of all files that kernels are compiled from."""
    package = Path(__file__).parents[1]
    files = [*sorted(package.glob("engines/*.py")), package / "core/arrays.py"]
    digest = blake2b(digest_size=16)
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()


@cache
def kernel_folder() -> Path | None:
    """The folder of compiled kernels for this version of handful, numba and Python; None if it cannot be used.

    What lies there is run, so nobody else may be able to write to it, and it is not looked for beside a user's files.
    """
    root = Path(os.environ.get("NUMBA_CACHE_DIR") or cache_folder() / "kernels")
    if not root.is_absolute():
        return None
    python = f"py{sys.version_info.major}{sys.version_info.minor}"
    folder = root / f"handful-{__version__}-{source_digest()[:12]}-numba-{metadata.version('numba')}-{python}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        about = folder.stat()
        if hasattr(os, "getuid") and (about.st_uid != os.getuid() or about.st_mode & 0o022):
            return None
        os.utime(folder)  # it is used; this fails where it cannot be written to
    except OSError:
        return None
    _remove_unused(root, folder)
    return folder


def _remove_unused(root: Path, own: Path) -> None:
    oldest = time.time() - UNUSED_DAYS * 86400
    with suppress(OSError):
        for other in root.glob("handful-*-numba-*"):
            if other != own and other.stat().st_mtime < oldest:
                shutil.rmtree(other, ignore_errors=True)


@contextmanager
def _turn(mark: Path | None) -> Iterator[None]:
    """The only process that makes this kernel, where the platform has locks."""
    try:
        import fcntl
    except ImportError:  # pragma: no cover - Windows: several may compile the same
        fcntl = None  # type: ignore[assignment]
    if mark is None or fcntl is None:
        yield
        return
    with open(mark.with_suffix(".lock"), "w") as file:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
