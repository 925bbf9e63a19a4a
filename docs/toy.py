"""The toy task of the documentation, and a picture of it for each method. ::

    python docs/toy.py             # a minute; writes docs/pictures/methods (with every extra)
    python docs/toy.py eol knn     # only these, without the picture of all, into a temporary folder

Three classes of the plane with five examples each; a pile of sixty items of these classes and forty outliers: two
clusters and some strays. The methods expect features of a backbone, most compare directions, and PT-MAP takes roots,
so they see the plane through Gaussian bumps on a grid: as after a ReLU no feature is negative, near points share
features and far ones do not. Every method gets the same features and prepares them its own way.
"""

from __future__ import annotations

import io
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZE = (480, 360)  # pixels
DPI = 100
EXTENT = (-3.6, 3.6, -2.7, 2.7)  # of the plane
CENTRES = np.array([(-1.7, 0.9), (1.6, 1.1), (0.1, -1.5)])
CLUSTERS = np.array([(-2.5, -1.0), (2.3, -1.0)])  # of outliers
SPREAD, CLUSTER_SPREAD, CLEARANCE = 0.45, 0.3, 1.3  # strays keep the clearance from the classes
SHOTS, QUERIES, CLUSTERED, STRAYS, SEED = 5, 20, 14, 12, 3
BASE_CLASSES = 100
GRID = (91, 121)  # where new items are scored

HUES = np.array([(0, 114, 178), (213, 94, 0), (0, 140, 100)]) / 255  # colour-blind readers can distinguish them
GREY = np.array([0.94, 0.94, 0.94])
BANDS = 10
COLOURS = 128  # of the palette: the files stay small


class Toy(NamedTuple):
    points: np.ndarray  # [n, 2], the examples first
    labels: np.ndarray  # [n], -1 in the pile
    truth: np.ndarray  # [n], -1 for an outlier

    @property
    def outlier_share(self) -> float:
        return float(np.mean(self.truth[self.labels < 0] < 0))


@cache
def toy() -> Toy:
    rng = np.random.default_rng(SEED)
    examples, known = (CENTRES[:, None] + rng.normal(scale=SPREAD, size=(3, n, 2)) for n in (SHOTS, QUERIES))
    clustered = CLUSTERS[:, None] + rng.normal(scale=CLUSTER_SPREAD, size=(2, CLUSTERED, 2))
    left, right, bottom, top = EXTENT
    strays = rng.uniform((left, bottom), (right, top), size=(1000, 2)) * 0.97
    clear = np.linalg.norm(strays[:, None] - CENTRES, axis=-1).min(axis=1) > CLEARANCE
    outliers = np.concatenate([clustered.reshape(-1, 2), strays[clear][:STRAYS]])
    classes = np.repeat(np.arange(3), SHOTS), np.repeat(np.arange(3), QUERIES)
    return Toy(
        np.concatenate([examples.reshape(-1, 2), known.reshape(-1, 2), outliers]),
        np.concatenate([classes[0], np.full(len(classes[1]) + len(outliers), -1)]),
        np.concatenate([*classes, np.full(len(outliers), -1)]),
    )


def features(points: np.ndarray) -> np.ndarray:
    """[n, 2] to [n, 63]: one Gaussian bump of width 1 on each point of a 9 x 7 grid."""
    x, y = np.meshgrid(np.arange(-4, 5), np.arange(-3, 4))
    bumps = np.column_stack([x.ravel(), y.ravel()])
    return np.exp(-((points[:, None] - bumps) ** 2).sum(axis=-1) / 2)


@cache
def base():
    """A base learned from clusters all over the plane, and beyond its edges."""
    from handful.features import FeatureTable
    from handful.training.heads import learn_base

    rng = np.random.default_rng(SEED)
    points = rng.uniform((-4, -3), (4, 3), size=(BASE_CLASSES, 1, 2)) + rng.normal(
        scale=SPREAD, size=(BASE_CLASSES, 20, 2)
    )
    labels = np.repeat(np.arange(BASE_CLASSES), 20)
    return learn_base(FeatureTable(features(points.reshape(-1, 2)), labels, name="the plane"))


@cache
def answer(method: str) -> tuple:
    """The model fitted on the toy task, and its answers for new items on a grid: scores [H, W], classes [H, W, N]."""
    import handful
    from handful.solving import get_solver

    task = toy()
    extra = {"base": base()} if get_solver(method).info.needs else {}
    model = handful.make_estimator(method, outlier_share=task.outlier_share, **extra)
    model.fit(features(task.points), task.labels)
    left, right, bottom, top = EXTENT
    x, y = np.meshgrid(np.linspace(left, right, GRID[1]), np.linspace(bottom, top, GRID[0]))
    table = model.transform(features(np.column_stack([x.ravel(), y.ravel()])))
    classes, scores = table[:, :-1], table[:, -1]
    return model, scores.reshape(GRID), (classes / classes.sum(axis=1, keepdims=True)).reshape(*GRID, -1)


def draw(axes: Axes, method: str, scale: float = 1.0) -> None:
    """Draw the picture of one method; `scale` is that of markers and lines."""
    from scipy.ndimage import zoom

    task, (model, scores, classes) = toy(), answer(method)
    fine = SIZE[1] / GRID[0], SIZE[0] / GRID[1]
    scores, classes = zoom(scores, fine, order=1), zoom(classes, (*fine, 1), order=1)
    pile = task.labels < 0
    ranked = np.sort(model.outlier_scores_[pile])
    rank = np.interp(scores, ranked, np.linspace(0, 1, len(ranked)))  # the share of the pile that scores lower
    fade = (np.minimum(rank * BANDS, BANDS - 1).astype(int) / (BANDS - 1))[..., None]
    tint = 0.5 * HUES[classes.argmax(axis=-1)] + 0.5
    axes.imshow(tint * (1 - fade) + GREY * fade, extent=EXTENT, origin="lower", interpolation="nearest", aspect="auto")
    axes.contour(
        scores, [model.threshold_], extent=EXTENT, colors="0.15", linewidths=1.1 * scale, linestyles="solid"
    )  # fmt: skip

    unknown, decided = model.unknown_, model.transduction_
    labelled = pile & ~unknown
    wrong = pile & (np.where(unknown, -1, decided) != task.truth)
    points = task.points
    axes.scatter(*points[labelled].T, s=15 * scale**2, c=HUES[decided[labelled]], linewidths=0)
    axes.scatter(*points[unknown].T, s=22 * scale**2, c="0.2", marker="x", linewidths=1.2 * scale)
    axes.scatter(*points[wrong].T, s=75 * scale**2, facecolors="none", edgecolors="#c00030", linewidths=0.9 * scale)
    edge = {"edgecolors": "black", "linewidths": 1.0 * scale}
    axes.scatter(*points[~pile].T, s=62 * scale**2, c=HUES[task.labels[~pile]], **edge)
    axes.set(xlim=EXTENT[:2], ylim=EXTENT[2:], xticks=[], yticks=[])


def write(folder: Path, methods: list[str]) -> None:
    """Write <method>.png for each method."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    for method in methods:
        figure = plt.figure(figsize=(SIZE[0] / DPI, SIZE[1] / DPI), dpi=DPI)
        axes = figure.add_axes((0, 0, 1, 1))
        draw(axes, method)
        axes.set_axis_off()
        _save(figure, folder / f"{method}.png")


def write_all(folder: Path, methods: list[str]) -> None:
    """Write all.png with a small picture of each method."""
    from matplotlib import pyplot as plt

    columns = 5
    rows = -(-len(methods) // columns)
    figure, grid = plt.subplots(rows, columns, figsize=(12, 2.05 * rows), dpi=DPI, layout="constrained")
    for axes in grid.ravel()[len(methods) :]:
        axes.set_axis_off()
    for axes, method in zip(grid.ravel(), methods, strict=False):
        draw(axes, method, scale=0.5)
        axes.set_title(method, fontsize=10, family="DejaVu Sans Mono")
    _save(figure, folder / "all.png")


def _save(figure, path: Path) -> None:
    from matplotlib import pyplot as plt
    from PIL import Image

    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    plt.close(figure)
    picture = Image.open(buffer).convert("RGB")
    picture.quantize(COLOURS, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE).save(path, optimize=True)


def main() -> None:
    root = Path(__file__).resolve().parents[1]
    sys.path.append(str(root / "benchmarks"))
    import site_methods
    from _script import Parser

    parser = Parser(__doc__, "a minute", root / "docs" / "pictures" / "methods")
    parser.add_part("methods", nargs="*", help="the methods to draw (all; with --quick eol and knn)")
    options = parser.parse()
    names = ["eol", "knn"] if options.quick else [info.name for info in site_methods.own_methods()]
    write(options.output, options.methods or names)
    if not options.methods:
        write_all(options.output, names)


if __name__ == "__main__":
    main()
