"""`handful bench --engine ray` over one node and over two, one CPU each, in one run. ::

    python benchmarks/scale_bench.py               # about two minutes
    python benchmarks/scale_bench.py --tasks 3000

Thirteen methods on the embedded digits, one contender on a hundred tasks a piece. A Ray cluster of one node is started
here, and a second node joins it halfway. Cold is the first run after that: worker processes start on the new node, and
load what they need. Warm is the fastest of the rounds after it, as whatever else runs on the machine only slows them;
all of them are shown, and where they lie far apart the ratio means little. Beside them the same run without Ray, in one
process. All must write the same tables, byte by byte, or there are no figures.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from typing import Any

import _report

from handful.bench.job import perform
from handful.features import FeatureSet, digits
from handful.scale.benching import Ray
from handful.scale.cluster import need

METHODS = "knn,ocsvm,pca,simpleshot,finetune,laplacianshot,bdcspn,tim_gd,pt_map,proser,ostim,oslo,eol"
WITHOUT = "no Ray, one process"
NODE = {"num_cpus": 1, "object_store_memory": 200 << 20}
PACKAGES = ("handful", "numpy", "numba", "ray")


def timed(tasks: int, engine: Ray | None) -> tuple[float, dict[str, bytes]]:
    """Seconds of a run in an empty folder, and its tables."""
    features = FeatureSet(*digits(), name="digits")
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        found = perform("balanced", features, output=folder, methods=METHODS, tasks=tasks, engine=engine)
        seconds = time.perf_counter() - start
        return seconds, {kind: found.files[kind].read_bytes() for kind in ("md", "csv", "json", "tex")}


def measure(arguments: argparse.Namespace) -> dict[str, list[float]]:
    """Seconds of each round by what ran it; of a cluster the cold one first."""
    need()
    from ray.cluster_utils import Cluster

    timed(100, None)  # a kernel that must be compiled is compiled now
    expected: dict[str, bytes] = {}
    times: dict[str, list[float]] = {WITHOUT: []}
    for _ in range(2):
        seconds, expected = timed(arguments.tasks, None)
        times[WITHOUT].append(seconds)
    cluster: Any = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
    try:
        with Ray(cluster.address) as engine:
            for name in ("one node", "two nodes"):
                if name == "two nodes":
                    cluster.add_node(**NODE)
                    cluster.wait_for_nodes()
                times[name] = []
                for _ in range(1 + arguments.rounds):
                    seconds, tables = timed(arguments.tasks, engine)
                    if tables != expected:
                        different = ", ".join(kind for kind in expected if tables[kind] != expected[kind])
                        raise SystemExit(f"{name}: the tables differ from those of a run without Ray ({different})")
                    times[name].append(seconds)
    finally:
        cluster.shutdown()
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tasks", type=int, default=1000, help="of each run (1000)")
    parser.add_argument("--rounds", type=int, default=4, help="warm ones (4)")
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    times = measure(arguments)
    cold = {name: of[0] for name, of in times.items() if name != WITHOUT}
    warm = {name: min(of[name != WITHOUT :]) for name, of in times.items()}
    rows = []
    for name, of in times.items():
        first = f"{cold[name]:.1f}" if name in cold else ""
        rounds = ", ".join(f"{t:.1f}" for t in of[name != WITHOUT :])
        rows.append((name, first, f"{warm[name]:.1f}", f"{warm['one node'] / warm[name]:.2f}x", rounds))
    title = f"Seconds for {arguments.tasks:,} tasks of {METHODS.count(',') + 1} methods"
    section = _report.Section(title, ("", "cold", "warm", "ratio", "warm rounds"), rows)
    about = " ".join(__doc__.split("\n\n")[-1].split())
    notes = f"{_report.machine(PACKAGES)}; {arguments.rounds} warm rounds; a load of {load:.1f} when it began."
    verdict = (
        f"Two nodes are {warm['one node'] / warm['two nodes']:.2f}x as fast as one, once warm; the tables are the same."
    )
    print(_report.markdown([section], [verdict], [about, notes], "The benchmark over one node and two"))


if __name__ == "__main__":
    main()
