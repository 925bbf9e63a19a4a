"""The death of a machine, again and again: of two nodes one is killed, at any moment of an embed or a solve. ::

    python benchmarks/scale_faults.py                     # 20 times each; writes benchmarks/results/scale_faults.md
    python benchmarks/scale_faults.py --quick             # once each, in small; writes into a temporary folder
    python benchmarks/scale_faults.py --times 3 --only solve

A local cluster (`ray.cluster_utils.Cluster`) of two nodes, one CPU each. What is to be done is done once undisturbed,
which is the reference and tells how long it takes; then with the second node killed (SIGKILL, no farewell) after a
random part of that time. Each must finish, with the same result: the parts of the embed to the byte, in no part a row
twice or none; the probabilities of the solve to 1e-5. The node is replaced before the next turn. Exit code 1 if one
differs.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import _report
import numpy as np
import pyarrow.parquet as parquet
import ray
from _cluster import NODE
from _script import Parser
from PIL import Image
from ray.cluster_utils import Cluster
from rich.console import Console

import handful
from handful.backbones import load_backbone
from handful.cluster import Actors
from handful.cluster.embedding import embed_folder
from handful.cluster.embedding_part import Recipe
from handful.features.parts import part_numbers

BACKBONE = "efficientnet_lite0"


class Sizes(NamedTuple):
    pictures: int  # of an embed
    rows: int  # of a solve


FULL, QUICK = Sizes(240, 240_000), Sizes(16, 20_000)


class Turn(NamedTuple):
    at: float  # seconds after its start that the node was killed
    took: float
    usual: float  # undisturbed
    same: bool


class TwoNodes:
    def __init__(self) -> None:
        quick = {"health_check_initial_delay_ms": 1000, "health_check_period_ms": 500, "health_check_timeout_ms": 2000}
        head = {**NODE, "include_dashboard": False, "_system_config": quick}
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        self.node = None
        self.revive()
        ray.init(address=self.cluster.address, log_to_driver=False)

    def kill(self) -> None:
        self.cluster.remove_node(self.node, allow_graceful=False)
        self.node = None

    def revive(self) -> None:
        """Replace the second node, if it is dead."""
        if self.node is None:
            self.node = self.cluster.add_node(**NODE)
            self.cluster.wait_for_nodes()

    def close(self) -> None:
        ray.shutdown()
        self.cluster.shutdown()


def embed(folder: Path, sizes: Sizes) -> Callable[[str], list[bytes]]:
    """Pictures by the default backbone, in parts of 8."""
    pictures = folder / "pictures"
    pictures.mkdir()
    rng = np.random.default_rng(0)
    for i in range(sizes.pictures):
        Image.fromarray(rng.integers(0, 256, (64, 64, 3), np.uint8)).save(pictures / f"{i:03}.png")
    net = load_backbone(BACKBONE)

    def run(name: str) -> list[bytes]:
        embed_folder(pictures, Recipe(BACKBONE), folder / name, net, size=8)
        parts = [folder / name / f"part-{number:05}.parquet" for number in part_numbers(folder / name)]
        paths = [path for part in parts for path in parquet.read_table(part)["path"].to_pylist()]
        assert paths == [f"{i:03}.png" for i in range(sizes.pictures)], "rows are missing, twice or in another order"
        return [part.read_bytes() for part in parts]

    return run


def solve(folder: Path, sizes: Sizes) -> Callable[[str], list[np.ndarray]]:
    """EOL on a pile in files of 10,000."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(10, 64))
    labels = np.repeat(np.arange(5), 5)
    support = (centres[labels] + rng.normal(size=(25, 64))).astype(np.float32)
    (folder / "pile").mkdir()
    for i in range(sizes.rows // 10_000):
        rows = (centres[rng.integers(0, 10, 10_000)] + rng.normal(size=(10_000, 64))).astype(np.float32)
        np.save(folder / "pile" / f"part-{i}.npy", rows)

    def run(name: str) -> list[np.ndarray]:
        found = handful.solve(
            support,
            labels,
            folder / "pile",
            method="eol",
            outlier_share=0.5,
            streaming=handful.Streaming(engine=Actors()),
        )
        return [found.probabilities, found.outlier_scores]

    return run


KINDS = {"embed": embed, "solve": solve}


def same(one: list, other: list) -> bool:
    if isinstance(one[0], bytes):
        return one == other
    return all(a.shape == b.shape and np.abs(a - b).max() <= 1e-5 for a, b in zip(one, other, strict=True))


def turns(
    run: Callable[[str], list], nodes: TwoNodes, times: int, rng: np.random.Generator, say: Callable
) -> list[Turn]:
    nodes.revive()
    run("first")  # workers are started, models are loaded
    start = time.monotonic()
    reference = run("reference")
    usual = time.monotonic() - start
    found: list[Turn] = []
    number = 0
    while len(found) < times:
        nodes.revive()
        number += 1
        at = float(rng.uniform(0.05, 0.95) * usual)
        killer = threading.Timer(at, nodes.kill)
        start = time.monotonic()
        killer.start()
        result = run(f"turn{number}")
        took = time.monotonic() - start
        killer.join()
        if at >= took:  # it was quicker than the first time
            say(f"  the node died when all was done, after {took:.1f} s: not counted")
            usual = took
            continue
        found.append(Turn(at, took, usual, same(result, reference)))
        say(f"  {len(found)}: killed after {at:.1f} s, done after {took:.1f} s, same result: {found[-1].same}")
    return found


def main() -> None:
    parser = Parser(__doc__, "half an hour")
    parser.add_size("--times", 20, 1, "deaths of each kind")
    parser.add_part("--only", choices=KINDS, help="this kind of work only")
    parser.add_argument("--seed", type=int, default=0, help="of the moments of death (0)")
    given = parser.parse()
    sizes = QUICK if given.quick else FULL
    console = Console()
    rng = np.random.default_rng(given.seed)
    rows, wrong = [], 0
    kinds = [given.only] if given.only else list(KINDS)
    nodes = TwoNodes()
    try:
        for kind in kinds:
            console.print(f"{kind}:")
            with tempfile.TemporaryDirectory() as folder:
                found = turns(KINDS[kind](Path(folder), sizes), nodes, given.times, rng, console.print)
            wrong += sum(not turn.same for turn in found)
            rows.append((
                kind, str(len(found)), str(sum(turn.same for turn in found)), f"{found[0].usual:.1f} s",
                f"{statistics.median(turn.took for turn in found):.1f} s", f"{max(turn.took for turn in found):.1f} s",
            ))  # fmt: skip
    finally:
        nodes.close()
    header = ("", "deaths before the end", "same result", "undisturbed", "median with a death", "longest")
    section = _report.Section("One of two nodes is killed", header, rows)
    _report.show(console, section)
    notes = [
        "`python benchmarks/scale_faults.py`: what is done is said at its top.",
        _report.machine(("handful", "ray")),
    ]
    _report.write(console, given.output / "scale_faults.md", "Deaths of a machine", [section], [], notes)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
