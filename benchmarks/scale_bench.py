"""`handful bench --engine ray` over one node and over two, one CPU each, in one run. ::

    python benchmarks/scale_bench.py               # about two minutes; writes benchmarks/results/scale_bench.md
    python benchmarks/scale_bench.py --quick       # some seconds; writes into a temporary folder

Thirteen methods (two with --quick) on the embedded digits, one contender on a hundred tasks a piece. A Ray cluster of
one node is started here, and a second node joins it halfway. Cold is the first run after that: worker processes start
on the new node, and load what they need. Warm is the fastest of the rounds after it, as whatever else runs on the
machine only slows them; all of them are shown, and where they lie far apart the ratio means little. Beside them the
same run without Ray, in one process. All must write the same tables, byte by byte, or there are no figures.
"""

from __future__ import annotations

import os
import tempfile
import time
from typing import Any

import _report
from _cluster import NODE
from _script import Parser
from rich.console import Console

from handful.bench.report import perform
from handful.cluster.bench import Ray
from handful.cluster.connection import need
from handful.features import FeatureTable, digits

METHODS = "knn,ocsvm,pca,simpleshot,finetune,laplacianshot,bdcspn,tim_gd,pt_map,proser,ostim,oslo,eol"
QUICK_METHODS = "knn,simpleshot"  # no kernel to load in every process
WITHOUT = "no Ray, one process"
PACKAGES = ("handful", "numpy", "numba", "ray")


def timed(methods: str, tasks: int, engine: Ray | None) -> tuple[float, dict[str, bytes]]:
    """Seconds of a run in an empty folder, and its tables."""
    features = FeatureTable(*digits(), name="digits")
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        found = perform("balanced", features, output=folder, methods=methods, tasks=tasks, engine=engine)
        seconds = time.perf_counter() - start
        return seconds, {kind: found.files[kind].read_bytes() for kind in ("md", "csv", "json", "tex")}


def measure(methods: str, tasks: int, rounds: int) -> dict[str, list[float]]:
    """Seconds of each round by what ran it; of a cluster the cold one first."""
    need()
    from ray.cluster_utils import Cluster

    timed(methods, min(tasks, 100), None)  # a kernel that must be compiled is compiled now
    expected: dict[str, bytes] = {}
    times: dict[str, list[float]] = {WITHOUT: []}
    for _ in range(2):
        seconds, expected = timed(methods, tasks, None)
        times[WITHOUT].append(seconds)
    cluster: Any = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
    try:
        with Ray(cluster.address) as engine:
            for name in ("one node", "two nodes"):
                if name == "two nodes":
                    cluster.add_node(**NODE)
                    cluster.wait_for_nodes()
                times[name] = []
                for _ in range(1 + rounds):
                    seconds, tables = timed(methods, tasks, engine)
                    if tables != expected:
                        different = ", ".join(kind for kind in expected if tables[kind] != expected[kind])
                        raise SystemExit(f"{name}: the tables differ from those of a run without Ray ({different})")
                    times[name].append(seconds)
    finally:
        cluster.shutdown()
    return times


def main() -> None:
    parser = Parser(__doc__, "about two minutes")
    parser.add_size("--tasks", 1000, 110, "tasks of each run")
    parser.add_size("--rounds", 4, 1, "warm rounds")
    given = parser.parse()
    methods = QUICK_METHODS if given.quick else METHODS
    load = os.getloadavg()[0]
    times = measure(methods, given.tasks, given.rounds)
    cold = {name: of[0] for name, of in times.items() if name != WITHOUT}
    warm = {name: min(of[name != WITHOUT :]) for name, of in times.items()}
    rows = []
    for name, of in times.items():
        first = f"{cold[name]:.1f}" if name in cold else ""
        rounds = ", ".join(f"{t:.1f}" for t in of[name != WITHOUT :])
        rows.append((name, first, f"{warm[name]:.1f}", f"{warm['one node'] / warm[name]:.2f}x", rounds))
    title = f"Seconds for {given.tasks:,} tasks of {methods.count(',') + 1} methods"
    section = _report.Section(title, ("", "cold", "warm", "ratio", "warm rounds"), rows)
    notes = f"{_report.machine(PACKAGES)}; {given.rounds} warm rounds; a load of {load:.1f} when it began."
    verdict = (
        f"Two nodes are {warm['one node'] / warm['two nodes']:.2f}x as fast as one, once warm; the tables are the same."
    )
    console = Console()
    _report.show(console, section)
    console.print(verdict, notes, sep="\n")
    path, title = given.output / "scale_bench.md", "The benchmark over one node and two"
    _report.write(console, path, title, [section], [verdict], [_report.about(__doc__), notes])


if __name__ == "__main__":
    main()
