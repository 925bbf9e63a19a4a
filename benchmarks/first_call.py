"""How fast handful is from the first call on, in a fresh process whose kernels were never compiled. ::

    python benchmarks/first_call.py             # about ten minutes; writes benchmarks/results/first_call.md
    python benchmarks/first_call.py --quick     # some seconds; writes into a temporary folder

Each row is a process of its own, which calls `handful.solve` again and again with 64 tasks: 5-way 5-shot, 150 queries,
640 features, Gaussian clusters. "First result" counts from the start of the process, with all imports. "Kernel after"
is when the first call was solved by the fused kernels alone. "Cold": the cache folder is empty. "Stored": an earlier
process has compiled. "Read-only": handful is installed where its user cannot write, and the cache is empty as well.
"Without numba": as if the extra `fast` were not installed. "Warm" is a second of calls with the kernels in memory.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import _report
from _script import Parser
from rich.console import Console

import handful

ROOT = Path(handful.__file__).parent
TASKS = 64
METHODS = {"default, not told": {}, "EOL, told": {"method": "eol", "outlier_share": 0.5}}
CALLS = """
import json, sys, time
began = float(sys.argv[1])
seconds, options, without = float(sys.argv[2]), json.loads(sys.argv[3]), sys.argv[4] == "without"
quick = seconds < 10  # a compilation takes longer
if without:
    sys.modules["numba"] = None
import numpy as np
import handful
from handful.engines import compiling
from handful.methods.registry import find_method

rng = np.random.default_rng(0)
centres = rng.standard_normal((64, 10, 640), dtype=np.float32)
def draw(classes):
    return centres[:, classes] + 2 * rng.standard_normal((64, len(classes), 640), dtype=np.float32)
labels = np.arange(25) % 5
tasks = draw(labels), np.tile(labels, (64, 1)), draw(np.arange(150) % 10)
kernels = find_method(options.get("method", "auto")).kernels

def is_fast():
    return all(compiling.is_ready(name, 5, "float32") for name in kernels)

calls, kernel_after = [], None
handful.solve(*(x[:1] for x in tasks), **options)
first = time.time() - began
start = time.time()
while time.time() < start + seconds:
    fast, before = is_fast(), time.time()
    handful.solve(*tasks, **options)
    calls.append((before - start, time.time() - before))
    if fast and kernel_after is None:
        kernel_after = before - start
warm = None
if not without and not quick:
    for name in kernels:
        compiling.make_now(compiling.Kernel.of(name, 5, "float32"))
    handful.solve(*tasks, **options)
    before, rounds = time.time(), 0
    while time.time() < before + 1 or rounds < 3:
        handful.solve(*tasks, **options)
        rounds += 1
    warm = (time.time() - before) / rounds
found = {"first": first, "calls": calls, "kernel_after": kernel_after, "warm": warm, "file": handful.__file__}
print(json.dumps(found))
"""


def run(
    seconds: float, options: dict[str, Any], cache: Path, *, package: Path | None = None, without: bool = False
) -> dict[str, Any]:
    """What one process measured; with `package`, by a copy of handful that it cannot write to."""
    unset = ("HANDFUL_BACKEND", "NUMBA_CACHE_DIR")
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    environment |= {"HANDFUL_CACHE": str(cache)}
    command = [sys.executable]
    if package is not None:
        environment["PYTHONPATH"] = str(package)
        if os.getuid() == 0:  # root may write anywhere, unless this is taken away
            command = ["setpriv", "--bounding-set=-dac_override", "--inh-caps=-dac_override", sys.executable]
    arguments = [str(time.time()), str(seconds), json.dumps(options), "without" if without else "with"]
    done = subprocess.run(
        [*command, "-c", CALLS, *arguments], env=environment, cwd="/", capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"the process failed:\n{done.stderr}")
    return json.loads(done.stdout)


def read_only_copy(folder: Path) -> Path:
    """A copy of handful that only its owner could write to, and not even he."""
    shutil.copytree(ROOT, folder / "handful", ignore=shutil.ignore_patterns("__pycache__"))
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    return folder


def row(name: str, found: dict[str, Any], span: float) -> tuple[str, ...]:
    calls = found["calls"]

    def mean(chosen: list[tuple[float, float]]) -> str:
        return f"{1e3 * sum(seconds for _, seconds in chosen) / len(chosen) / TASKS:.2f}" if chosen else ""

    end = calls[-1][0] + calls[-1][1]
    after = found["kernel_after"]
    return (
        name,
        f"{found['first']:.2f}",
        mean([call for call in calls if call[0] < span]),
        mean(calls),
        mean([call for call in calls if call[0] > end - span]),
        "" if after is None else f"{after:.1f}",
        "" if found["warm"] is None else f"{1e3 * found['warm'] / TASKS:.2f}",
        f"{end:.0f}",
    )


def main() -> None:
    parser = Parser(__doc__, "about ten minutes")
    parser.add_size("--seconds", 120.0, 0.5, "how long a process with an empty cache calls")
    parser.add_size("--seconds-of-others", 20.0, 0.2, "how long the other processes call")
    given = parser.parse()
    console = Console()
    span = given.seconds / 12
    header = (
        "", "first result, s", f"ms a task, first {span:g} s", "all", f"last {span:g} s", "kernel after, s",
        "warm, ms a task", "s in all",
    )  # fmt: skip
    sections = []
    for method, options in list(METHODS.items())[given.quick :]:
        with tempfile.TemporaryDirectory() as folder:
            cold, other = Path(folder, "cold"), Path(folder, "other")
            cold.mkdir()
            other.mkdir()
            rows = [row("cold", run(given.seconds, options, cold), span)]
            rows.append(row("stored", run(given.seconds_of_others, options, cold), span))
            rows.append(row("without numba", run(given.seconds_of_others, options, cold, without=True), span))
            copy = read_only_copy(Path(folder, "site-packages"))
            found = run(given.seconds / 2, options, other, package=copy)
            assert found["file"].startswith(str(copy)), found["file"]
            rows.append(row("read-only, cold", found, span))
            rows.append(row("read-only, stored", run(given.seconds_of_others, options, other, package=copy), span))
            for path in (copy, *copy.rglob("*")):
                path.chmod(0o755)
        sections.append(_report.Section(f"The {method}" if method.startswith("d") else method, header, rows))
        _report.show(console, sections[-1])
    notes = [_report.about(__doc__), _report.machine()]
    _report.write(console, given.output / "first_call.md", "From the first call on", sections, [], notes)


if __name__ == "__main__":
    main()
