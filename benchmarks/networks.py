"""The few-shot networks as ONNX files, beside torch. ::

    python benchmarks/networks.py             # some minutes; writes benchmarks/results/networks.md
    python benchmarks/networks.py --quick     # under a minute; writes nothing unless --out says where

ResNet-12, Conv4 and WRN-28-10 at their published widths, random weights, pictures of 84 px that are ready in memory. 1x
is the network in torch as it is trained: evaluation mode, no gradients, torch's own choice of threads. The other is the
file that `handful export` writes: batch norms folded away, ONNX Runtime, its own choice of threads. Both take turns,
round after round; a turn during which other processes were busy is taken again. A ratio is that of the medians over the
rounds.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import NamedTuple

import _report
import numpy as np
import torch
from _clock import QUIET, Times
from _report import Section
from rich.console import Console

from handful.images import load_backbone
from handful.images.preprocessing import Preprocessing
from handful.networks import build
from handful.networks.export import TOLERANCE, Agreement, write_onnx

SIZE = 84
BATCH = {"resnet12": 8, "conv4": 32, "wrn28_10": 2}  # pictures; few where a picture takes a second
PACKAGES = ("handful", "numpy", "onnx", "onnxruntime", "torch")


class Effort(NamedTuple):
    rounds: int
    patience: int  # how often a disturbed turn is taken again


FULL, QUICK = Effort(7, 4), Effort(2, 0)


class Outcome(NamedTuple):
    found: Agreement
    megabytes: float
    torch: Times
    onnx: Times


def measure(name: str, effort: Effort, folder: Path) -> Outcome:
    torch.manual_seed(0)
    network = build(name).eval()
    path = folder / f"{name}.onnx"
    found = write_onnx(network, path, Preprocessing((SIZE, SIZE)))
    backbone = load_backbone(path)
    batch = np.random.default_rng(1).standard_normal((BATCH[name], 3, SIZE, SIZE), dtype=np.float32)
    tensor = torch.from_numpy(batch)

    def in_torch(n: int) -> None:
        with torch.inference_mode():
            for _ in range(n // len(batch)):
                network(tensor)

    def ours(n: int) -> None:
        for _ in range(n // len(batch)):
            backbone.embed(batch)

    outcome = Outcome(found, path.stat().st_size / 1e6, Times(), Times())
    in_torch(len(batch))
    ours(len(batch))
    for _ in range(effort.rounds):
        outcome.torch.add(in_torch, len(batch), effort.patience)
        outcome.onnx.add(ours, len(batch), effort.patience)
    return outcome


def sections(results: dict[str, Outcome]) -> list[Section]:
    same = [
        (n, f"{r.found.relative:.1e}", f"{r.found.elementwise:.1e}", f"{r.megabytes:.1f}") for n, r in results.items()
    ]
    speed = [
        (
            f"{name}, batches of {BATCH[name]}",
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
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--out", type=Path, help="folder of networks.md (benchmarks/results)")
    arguments = parser.parse_args()
    effort = QUICK if arguments.quick else FULL
    out = arguments.out or (None if arguments.quick else Path(__file__).parent / "results")
    console = Console()
    with tempfile.TemporaryDirectory() as folder:
        results = {name: measure(name, effort, Path(folder)) for name in BATCH}
    for section in sections(results):
        _report.show(console, section)
    worst = max(r.found.relative for r in results.values())
    ratios = ", ".join(f"{name} {r.onnx.ratio(r.torch):.1f}x" for name, r in results.items())
    sentences = [
        f"Features differ by {worst:.1e} of the largest one at most; {TOLERANCE:g} is allowed.",
        f"Pictures a second as an ONNX file, beside torch: {ratios}.",
    ]
    others = np.array([t.others for r in results.values() for t in (r.torch, r.onnx)])
    noise = f"other processes took over {QUIET:.0%} of a core in {np.mean(others > QUIET):.0%} of the turns"
    notes = f"{_report.machine(PACKAGES)}; {effort.rounds} rounds, {noise}; torch on {torch.get_num_threads()} threads."
    console.print(*sentences, notes, sep="\n")
    if out:
        out.mkdir(parents=True, exist_ok=True)
        about = __doc__.split("\n\n")[-1].strip()
        text = _report.markdown(sections(results), sentences, [about, notes], title="Few-shot networks as ONNX files")
        (out / "networks.md").write_text(text, "utf-8")
        console.print(f"Written: {out / 'networks.md'}")


if __name__ == "__main__":
    main()
