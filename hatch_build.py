"""Compile the kernels in C into one shared library beside their sources, when the package is built or installed.

`python hatch_build.py` does the same in a checkout. The compiler is $CC, cc, clang or gcc, whichever works; where none
does, pip installs that of the package `ziglang` for the build. Without any compiler the package is pure Python, which
gives the same results with NumPy, more slowly. HANDFUL_KERNELS=none leaves the kernels out.
"""

from __future__ import annotations

import ctypes
import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from zlib import crc32

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # `python hatch_build.py`
    BuildHookInterface = object

KERNELS = Path(__file__).parent / "src" / "handful" / "engines" / "kernels"
LIBRARY = KERNELS / ("kernels.dll" if sys.platform == "win32" else "kernels.so")
ZIGLANG = "ziglang>=0.13"
FLAGS = [
    "-O3",
    "-g0",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=fast",
    "-fvisibility=hidden",
    "-Wno-psabi",
]
FLAGS += [] if sys.platform == "win32" else ["-fPIC"]
MAC_VERSION = "11.0"
# What a level of x86-64 adds to the one before it, in names that compilers without -march=x86-64-v3 know as well
V2 = ["-msse3", "-mssse3", "-msse4.1", "-msse4.2", "-mpopcnt"]
V3 = [*V2, "-mavx", "-mavx2", "-mfma", "-mf16c", "-mbmi", "-mbmi2", "-mlzcnt"]
V4 = [*V3, "-mavx512f", "-mavx512bw", "-mavx512cd", "-mavx512dq", "-mavx512vl"]
LEVELS = {"v2": V2, "v3": V3, "v4": V4} if platform.machine().lower() in ("x86_64", "amd64") else {"plain": []}
PROBE = (
    "typedef float v __attribute__((vector_size(64)));\n#include <math.h>\nfloat f(v *x) { return sqrtf((*x)[0]); }\n"
)


def compilers() -> list[list[str]]:
    """Commands that may compile C, the machine's own first; on Windows GCC cannot align what the kernels need."""
    names = ["clang"] if sys.platform == "win32" else [os.environ.get("CC", ""), "cc", "clang", "gcc"]
    return [command for command in map(shlex.split, names) if command and shutil.which(command[0])]


def works(command: list[str]) -> bool:
    """Whether a compiler makes a shared library."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.c")
        source.write_text(PROBE)
        made = subprocess.run(
            [*command, "-shared", str(source), "-o", str(source.with_suffix(".so"))], capture_output=True
        )
    return made.returncode == 0


def find_compiler() -> list[str] | None:
    """The first compiler that works."""
    found = next(filter(works, compilers()), None)
    zig = [sys.executable, "-m", "ziglang", "cc"]
    return found or (zig if find_spec("ziglang") and works(zig) else None)


def build(compiler: list[str], library: Path = LIBRARY) -> None:
    """Compile the library. Zig would compile for this very processor, if its flags did not name another."""
    flags = list(FLAGS)
    zig = "ziglang" in compiler
    if sys.platform == "darwin":
        flags.append(f"-mmacosx-version-min={MAC_VERSION}")
    with tempfile.TemporaryDirectory() as folder:
        sources = crc32(b"".join(file.read_bytes() for file in sorted(KERNELS.glob("*.[ch]"))))
        baseline = ["-mcpu=baseline"] if zig else []
        jobs = {Path(folder, "level.o"): [str(KERNELS / "level.c"), f"-DSOURCES={sources}u", *baseline]}
        for level, options in LEVELS.items():
            cpu = [f"-mcpu={'baseline' if level == 'plain' else f'x86_64_{level}'}"] if zig else options
            for kind in ("float", "double"):
                defined = [f"-DREAL={kind}", f"-DLEVEL={level}"]
                jobs[Path(folder, f"{kind}_{level}.o")] = [str(KERNELS / "kernels.c"), *cpu, *defined]

        def run(*arguments: str) -> None:
            subprocess.run([*compiler, *arguments], check=True, capture_output=True, text=True)

        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda job: run("-c", *flags, *job[1], "-o", str(job[0])), jobs.items()))
        made = Path(folder, library.name)
        run("-shared", *map(str, jobs), "-o", str(made), *([] if sys.platform == "win32" else ["-lm"]))
        part = library.with_suffix(f".{os.getpid()}.part")
        shutil.copyfile(made, part)
        os.replace(part, library)  # processes that have loaded the old one keep it


def wheel_tag() -> str:
    """py3-none-linux_x86_64 and so on: one library serves every Python."""
    if sys.platform == "darwin":
        return f"py3-none-macosx_{MAC_VERSION.replace('.', '_')}_{platform.machine()}"
    return "py3-none-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")


class KernelsHook(BuildHookInterface):
    """Compile when a wheel is built, also the one of `pip install -e .`."""

    def dependencies(self) -> list[str]:
        """Ask for a compiler where there is none."""
        return [] if is_left_out() or any(map(works, compilers())) else [ZIGLANG]

    def initialize(self, version: str, build_data: dict) -> None:
        """Compile, and give the wheel the name of its platform; without a compiler it stays pure Python."""
        if version == "editable" and is_up_to_date() and not is_left_out():
            return
        if try_to_build():
            build_data["pure_python"] = False
            build_data["tag"] = wheel_tag()
            build_data["artifacts"].append(LIBRARY.relative_to(Path(__file__).parent).as_posix())


def is_up_to_date() -> bool:
    """Whether a checkout has a library that is younger than its sources and can be loaded here."""
    sources = [Path(__file__), *KERNELS.glob("*.[ch]")]
    if not LIBRARY.exists() or LIBRARY.stat().st_mtime < max(source.stat().st_mtime for source in sources):
        return False
    try:
        ctypes.CDLL(str(LIBRARY))
    except OSError:
        return False
    return True


def is_left_out() -> bool:
    """Whether nobody wants the kernels."""
    return os.environ.get("HANDFUL_KERNELS", "").lower() == "none"


def try_to_build() -> bool:
    """Whether the library could be compiled. Where not, one of an earlier build goes: it might not fit the sources."""
    compiler = None if is_left_out() else find_compiler()
    error = "" if is_left_out() else "no compiler of C works here"
    if compiler is not None:
        try:
            build(compiler)
        except (subprocess.CalledProcessError, OSError) as failure:
            error = getattr(failure, "stderr", None) or str(failure)
        else:
            print(f"handful: {LIBRARY} was compiled by {shlex.join(compiler)}")
            return True
    LIBRARY.unlink(missing_ok=True)
    print(f"handful: the kernels are left out. {error}".strip())
    return False


if __name__ == "__main__":
    sys.exit(0 if try_to_build() or is_left_out() else 1)
