"""The few-shot networks as ONNX files, beside torch. ::

    python benchmarks/networks.py             # some minutes; writes benchmarks/results/networks.md
    python benchmarks/networks.py --quick     # some seconds; writes into a temporary folder

ResNet-12, Conv4 and WRN-28-10 at their published widths, random weights, pictures of 84 px that are ready in memory. 1x
is the network in torch as it is trained: evaluation mode, no gradients, torch's own choice of threads. The other is the
file that `handful export` writes: batch norms folded away, ONNX Runtime, its own choice of threads. Both take turns,
round after round; a turn during which other processes were busy is taken again. A ratio is that of the medians over the
rounds.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import _report
import numpy as np
import torch
from _clock import Run, Times, disturbance, race
from _report import Section
from _script import Parser
from rich.console import Console

from handful.backbones import load_backbone
from handful.backbones.networks import build
from handful.backbones.networks.export import TOLERANCE, Agreement, write_onnx
from handful.backbones.preprocessing import Preprocessing

NAMES = ("resnet12", "conv4", "wrn28_10")
PACKAGES = ("handful", "numpy", "onnx", "onnxruntime", "torch")


class Effort(NamedTuple):
    pixels: int
    batches: tuple[int, ...]  # pictures; few where a picture takes a second
    options: tuple[dict[str, Any], ...]  # of the networks, at their published widths without
    rounds: int
    patience: int  # how often a disturbed turn is taken again


NARROW = {"widths": [4, 4, 8, 8]}, {"width": 8}, {"depth": 10, "widen": 1}
FULL, QUICK = Effort(84, (8, 32, 2), ({}, {}, {}), 7, 4), Effort(32, (1, 1, 1), NARROW, 1, 0)


class Outcome(NamedTuple):
    batch: int
    found: Agreement
    megabytes: float
    torch: Times
    onnx: Times


def measure(name: str, size: int, options: dict[str, Any], effort: Effort, folder: Path) -> Outcome:
    torch.manual_seed(0)
    network = build(name, **options).eval()
    path = folder / f"{name}.onnx"
    found = write_onnx(network, path, Preprocessing((effort.pixels, effort.pixels)))
    backbone = load_backbone(path)
    batch = np.random.default_rng(1).standard_normal((size, 3, effort.pixels, effort.pixels), dtype=np.float32)
    tensor = torch.from_numpy(batch)

    def in_torch(n: int) -> None:
        with torch.inference_mode():
            for _ in range(n // len(batch)):
                network(tensor)

    def ours(n: int) -> None:
        for _ in range(n // len(batch)):
            backbone.embed(batch)

    run: dict[str, Run] = {"torch": in_torch, "onnx": ours}
    for work in run.values():
        work(size)  # warm
    times = race(run, dict.fromkeys(run, size), effort.rounds, effort.patience)
    return Outcome(size, found, path.stat().st_size / 1e6, **times)


def sections(results: dict[str, Outcome]) -> list[Section]:
    same = [
        (n, f"{r.found.relative:.1e}", f"{r.found.elementwise:.1e}", f"{r.megabytes:.1f}") for n, r in results.items()
    ]
    speed = [
        (
            f"{name}, batches of {r.batch}",
            f"{1 / r.torch.median:.3g}",
            f"{1 / r.onnx.median:.3g}",
            f"{r.onnx.ratio(r.torch):.1f}x",
            f"{r.torch.quiet}/{len(r.torch.rounds)}, {r.onnx.quiet}/{len(r.onnx.rounds)}",
        )
        for name, r in results.items()
    ]
    return [
        Section("The same features", ("", "of the largest feature", "of the feature itself", "MB"), same),
        Section("Pictures a second", ("", "torch", "ONNX Runtime", "ratio", "quiet rounds of both"), speed),
    ]


def main() -> None:
    given = Parser(__doc__, "some minutes").parse()
    effort = QUICK if given.quick else FULL
    console = Console()
    with tempfile.TemporaryDirectory() as folder:
        kinds = zip(NAMES, effort.batches, effort.options, strict=True)
        results = {name: measure(name, size, options, effort, Path(folder)) for name, size, options in kinds}
    for section in sections(results):
        _report.show(console, section)
    worst = max(r.found.relative for r in results.values())
    ratios = ", ".join(f"{name} {r.onnx.ratio(r.torch):.1f}x" for name, r in results.items())
    sentences = [
        f"Features differ by {worst:.1e} of the largest one at most; {TOLERANCE:g} is allowed.",
        f"Pictures a second as an ONNX file, beside torch: {ratios}.",
    ]
    noise = disturbance(t for r in results.values() for t in (r.torch, r.onnx))
    notes = f"{_report.machine(PACKAGES)}; {effort.rounds} rounds, {noise}; torch on {torch.get_num_threads()} threads."
    console.print(*sentences, notes, sep="\n")
    path, title = given.output / "networks.md", "Few-shot networks as ONNX files"
    _report.write(console, path, title, sections(results), sentences, [_report.about(__doc__), notes])


if __name__ == "__main__":
    main()
