"""How fast pictures become features, beside the same network in torch. ::

    python benchmarks/embed.py             # a minute or two; writes benchmarks/results/embed.md
    python benchmarks/embed.py --quick     # some seconds; writes into a temporary folder
    python benchmarks/embed.py --photos 10000 --output FOLDER  # 30 GB of photos in the folder for temporary files

EfficientNet-Lite0, pictures of 224 px that are ready in memory: the network alone, not the reading of files. 1x is
`_twin.py`, the network in torch from the same weights as a user would run it: evaluation mode, no gradients, torch's
own choice of threads. The other is `handful.backbones.load_backbone`: batch norms folded away, ONNX Runtime, its own
choice of threads. Contenders take turns, round after round, so that whatever else the machine is doing meets them
both; a turn during which other processes were busy is taken again. A ratio is that of the medians over the rounds.
Torch suffers more than ONNX Runtime from other processes, so a disturbed run flatters us: "undisturbed" is the ratio
over the rounds in which others left both alone, and how many these were. Photos are JPEG files of 12 megapixels and
3 MB, 40 different ones, each copy with bytes of its own: "decode" is decoding and resizing on a thread for each core,
"network" the networks alone, and "all" is `embed_pictures` without its cache. "CPU" is the processor time of decoding
one photo, which other processes change little. At 3x is how handful decoded before.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import _report
import numpy as np
import torch
from _clock import QUIET, Run, Times, disturbance, race, turn_size
from _pictures import photo, pictures, with_comment
from _report import Section
from _script import Parser
from _twin import twin
from rich.console import Console

from handful.backbones import efficientnet, embedding, load_backbone
from handful.backbones.embedding import DECODE_SCALE
from handful.backbones.pictures import decode

TORCH, OURS = "torch", "handful, ONNX Runtime"
TARGET, TOLERANCE = 3.0, 1e-4
MAX_SLOW_PHOTOS = 400  # that are decoded in the slower ways
PACKAGES = ("handful", "numpy", "onnxruntime", "torch", "pillow")

SIZES = {"full": (4000, 3000), "quick": (1200, 900)}  # of a photo
DISTINCT_PHOTOS = 40
DECODE_SCALES = {
    "at full size": None,
    "at 3x the input or more": 3,
    f"at {DECODE_SCALE}x or more, as handful does": DECODE_SCALE,
}
LEVELS = ("fast", "good")

Results = dict[int, dict[str, Times]]  # by batch size and contender: seconds a picture


class Effort(NamedTuple):
    batches: tuple[int, ...]
    rounds: int
    seconds: float  # that a contender's turn should last
    patience: int  # how often a disturbed turn is taken again


FULL, QUICK = Effort((1, 8, 32), 7, 1.0, 4), Effort((1, 2), 1, 0.01, 0)


def in_batches(embed: Callable, batch: int) -> Run:
    """Embed n pictures, `batch` at a time."""
    return lambda n: [embed(batch) for _ in range(n // batch)]


def turn_sizes(run: dict[str, Run], batch: int, effort: Effort) -> dict[str, int]:
    """Pictures in a turn of each, long enough to be timed; both are warm afterwards."""
    sizes = {}
    for name, work in run.items():
        work(2 * batch)
        sizes[name] = turn_size(work, batch, effort.seconds)
    return sizes


def undisturbed(times: dict[str, Times]) -> tuple[float | None, int]:
    """The ratio of medians over the rounds in which others left both alone, and how many these were."""
    calm = [k for k in range(len(times[OURS].rounds)) if all(t.others[k] <= QUIET for t in times.values())]
    if not calm:
        return None, 0
    torch_s, ours_s = (np.median([times[name].rounds[k] for k in calm]) for name in (TORCH, OURS))
    return float(torch_s / ours_s), len(calm)


def speed_section(batch: int, times: dict[str, Times]) -> Section:
    rows = []
    for name, t in times.items():
        span = f"{1 / max(t.rounds):.3g}-{1 / min(t.rounds):.3g}"
        rows.append((name, f"{1 / t.median:.3g}", span, f"{t.ratio(times[TORCH]):.1f}x", f"{t.quiet}/{len(t.rounds)}"))
    ratio, calm = undisturbed(times)
    title = f"Batches of {batch}; undisturbed: " + (f"{ratio:.1f}x in {calm} rounds" if ratio else "no round")
    return Section(title, ("", "pictures a second", "rounds", "ratio", "quiet"), rows)


def start_section() -> Section:
    """What loading the backbone costs, beyond imports."""
    rows = []
    for what in ("the first time", "again in the same process"):
        start = time.perf_counter()
        load_backbone("efficientnet_lite0")
        rows.append((what, f"{time.perf_counter() - start:.2f}"))
    return Section("Loading the backbone", ("", "seconds"), rows)


def write_photos(folder: Path, count: int, size: tuple[int, int]) -> list[Path]:
    """JPEG files of which no two have the same bytes."""
    rng = np.random.default_rng(0)
    distinct = [photo(rng, size) for _ in range(min(count, DISTINCT_PHOTOS))]
    paths = [folder / f"{i}.jpg" for i in range(count)]
    for i, path in enumerate(paths):
        path.write_bytes(with_comment(distinct[i % len(distinct)], str(i).encode()))
    return paths


def photo_section(level: str, paths: list[Path]) -> Section:
    """Photos a second of decoding in each way, of the network and of both together; cosines to exact features."""
    backbone = load_backbone(level)
    some = [path.read_bytes() for path in paths[:DISTINCT_PHOTOS]]
    exact, rows = np.empty(0), []
    for what, scale in DECODE_SCALES.items():
        at_least = None if scale is None else scale * max(backbone.input_size)

        def prepare(data: bytes, at_least: int | None = at_least) -> np.ndarray:
            return backbone.prepare(decode(data, "photo", at_least=at_least))

        start, before = time.perf_counter(), time.process_time()
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            ready = np.stack(list(pool.map(prepare, some)))
        seconds, cpu = time.perf_counter() - start, time.process_time() - before
        features = backbone.embed(ready)
        features /= np.linalg.norm(features, axis=1, keepdims=True)
        exact = exact if len(exact) else features
        cosine = (features * exact).sum(axis=1).min()
        rows.append(
            (f"decode {what}", f"{len(some) / seconds:.3g}", f"{1000 * cpu / len(some):.0f} ms", f"{cosine:.4f}")
        )
    start = time.perf_counter()
    backbone.embed(ready)
    rows.append(("network", f"{len(ready) / (time.perf_counter() - start):.3g}", "", ""))
    for what, scale in DECODE_SCALES.items():
        chosen = paths if scale == DECODE_SCALE else paths[:MAX_SLOW_PHOTOS]
        large = 10**6 if scale is None else scale  # no picture is that large: decoded at full size
        with patch.object(embedding, "DECODE_SCALE", large):
            start = time.perf_counter()
            table = embedding.embed_pictures(chosen, backbone, cache=False)
        if len(table) < len(chosen):
            raise SystemExit(f"{len(chosen) - len(table)} photos were skipped: {table.skipped[0]}")
        rows.append(
            (f"all, {what}", f"{len(chosen) / (time.perf_counter() - start):.3g}", "", f"{len(chosen):,} photos")
        )
    return Section(f"Photos of 12 megapixels, backbone {level}", ("", "photos a second", "CPU", "least cosine"), rows)


def photo_sections(count: int, size: tuple[int, int]) -> list[Section]:
    with tempfile.TemporaryDirectory() as folder:
        paths = write_photos(Path(folder), count, size)
        return [photo_section(level, paths) for level in LEVELS]


def verdicts(results: Results, difference: float) -> list[str]:
    """A sentence for each batch size, and one for each contender at the batch size that suits it best."""
    sentences = []
    for batch, times in results.items():
        ratio, calm = undisturbed(times)
        over = f"{calm} undisturbed rounds" if ratio else "rounds of which none was undisturbed"
        ratio = ratio or times[OURS].ratio(times[TORCH])
        met = "met" if ratio >= TARGET else "missed"
        sentences.append(f"Batches of {batch}: {ratio:.1f}x over {over}, target of at least {TARGET:g}x {met}.")
    best = {name: max(1 / times[name].median for times in results.values()) for name in (TORCH, OURS)}
    ratio, met = best[OURS] / best[TORCH], "met" if best[OURS] >= TARGET * best[TORCH] else "missed"
    sentences += [
        f"Each at its best batch size: {best[OURS]:.0f} pictures a second against {best[TORCH]:.0f}, {ratio:.1f}x, "
        f"target of at least {TARGET:g}x {met}.",
        f"Features differ by {difference:.1e} of their length at most; {TOLERANCE:g} is allowed.",
    ]
    return sentences


def main() -> None:
    parser = Parser(__doc__, "some minutes")
    parser.add_size("--photos", 200, 3, "photos of 12 megapixels that are embedded")
    given = parser.parse()
    effort = QUICK if given.quick else FULL
    console = Console()

    backbone = load_backbone("efficientnet_lite0")
    network = twin(efficientnet.read_weights(efficientnet.LITE0))
    ready = np.stack([backbone.prepare(picture) for picture in pictures(effort.batches[-1])])
    tensor = torch.from_numpy(ready)

    def in_torch(n: int) -> np.ndarray:
        with torch.no_grad():
            return network(tensor[:n]).numpy()

    def ours(n: int) -> np.ndarray:
        return backbone.embed(ready[:n])

    a, b = in_torch(len(ready)), ours(len(ready))
    difference = float((np.linalg.norm(a - b, axis=1) / np.linalg.norm(a, axis=1)).max())
    if not difference <= TOLERANCE:
        raise SystemExit(f"the features differ by {difference:.1e} of their length: at most {TOLERANCE:g} is allowed")

    results: Results = {}
    for batch in effort.batches:
        run = {TORCH: in_batches(in_torch, batch), OURS: in_batches(ours, batch)}
        results[batch] = race(run, turn_sizes(run, batch, effort), effort.rounds, effort.patience)
        _report.show(console, speed_section(batch, results[batch]))
    start = start_section()
    _report.show(console, start)
    photos = photo_sections(given.photos, SIZES["quick" if given.quick else "full"])
    for section in photos:
        _report.show(console, section)
    noise = disturbance(t for times in results.values() for t in times.values())
    notes = f"{_report.machine(PACKAGES)}; {effort.rounds} rounds, {noise}; torch on {torch.get_num_threads()} threads."
    sentences = verdicts(results, difference)
    console.print(*sentences, notes, sep="\n")
    sections = [*(speed_section(batch, times) for batch, times in results.items()), start, *photos]
    path = given.output / "embed.md"
    _report.write(console, path, "Embedding pictures", sections, sentences, [_report.about(__doc__), notes])


if __name__ == "__main__":
    main()
