"""Draw EOL solving a task step by step, for eol.md. ::

    python docs/descent.py            # a minute; writes descent-steps.png, descent.gif and descent-curves.png
    python docs/descent.py --quick    # some seconds; writes into a temporary folder

Each state is the solver's own, run with `steps=k`: EOL has no random numbers, so a run of k steps is the beginning of
every longer run. The steps and the animation show the toy task of toy.py, the curves show tasks of digits.
"""

from __future__ import annotations

import io
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

import matplotlib
import numpy as np
from PIL import Image

import handful
from handful.core.arrays import one_hot
from handful.core.metrics import figures
from handful.core.prepare import replay
from handful.engines.descent import logits_to
from handful.features import Protocol, digits, draw
from handful.methods.eol import loss_head

matplotlib.use("agg")
from matplotlib import pyplot as plt

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))
import toy
from _script import Parser

DOCS = Path(__file__).resolve().parent
PANELS = (0, 1, 3, 6, 12, 50)
FRAMES = (*range(20), *range(20, 50, 2), 50)
MARKS = (0, 1, 2, 3, 4, 6, 8, 10, 12, 15, 20, 25, 30, 35, 40, 45, 50)  # of the curves
LAST = 50  # steps, the default of EOL
TEMPERATURE = 10.0  # the default of EOL
TERMS = {"CE": (1, 0, 0), "CO / N": (0, 1, 0), "MA": (0, 0, 1)}  # name and the weights that leave this term alone

FINE = (271, 361)  # points of the plane where a prototype may be
BANDS = 10
INK, RED = "0.15", "#c00030"
FRAME_MS, PAUSE_MS = 140, 2500
COLOURS = 96


class State(NamedTuple):
    """What EOL says of the toy task after some steps."""

    steps: int
    scores: np.ndarray  # [H, W], P(outlier) of new items on a grid
    classes: np.ndarray  # [H, W, 3]
    places: np.ndarray  # [3, 2], where the prototypes are in the plane
    decided: np.ndarray  # [100], the label of each item of the pile, -1 where unknown
    share: float  # the mean P(outlier) of the pile


def grid(shape: tuple[int, int]) -> np.ndarray:
    left, right, bottom, top = toy.EXTENT
    x, y = np.meshgrid(np.linspace(left, right, shape[1]), np.linspace(bottom, top, shape[0]))
    return np.column_stack([x.ravel(), y.ravel()])


@cache
def state(steps: int) -> State:
    """Solve the toy task with so many steps, by the estimator that everybody uses."""
    task = toy.toy()
    model = handful.EOL(outlier_share=task.outlier_share, steps=steps, backend="array")
    model.fit(toy.features(task.points), task.labels)
    table = model.transform(toy.features(grid(toy.GRID)))
    pile = task.labels < 0
    return State(
        steps,
        table[:, -1].reshape(toy.GRID),
        table[:, :-1].reshape(*toy.GRID, -1),
        places(model.state_),
        np.where(model.unknown_, -1, model.transduction_)[pile],
        float(model.outlier_scores_[pile].mean()),
    )


def places(learned: dict[str, np.ndarray]) -> np.ndarray:
    """Where in the plane an item would be most similar to each prototype, which is a point in 63 dimensions."""
    points = grid(FINE)
    similarity = logits_to(
        replay(learned, toy.features(points)[None]),
        learned["prototypes"],
        0 * learned["eta"],
        0 * learned["delta"],
        1.0,
    )
    return points[similarity[0].argmax(axis=0)]


def draw_state(axes: plt.Axes, now: State, path: np.ndarray, scale: float = 1.0) -> None:
    """Draw one state; `path` [k, 3, 2] has the places of the prototypes until now."""
    from scipy.ndimage import zoom

    task = toy.toy()
    pile = task.labels < 0
    fine = 4
    scores, classes = zoom(now.scores, fine, order=1), zoom(now.classes, (fine, fine, 1), order=1)
    fade = (np.clip(scores * BANDS, 0, BANDS - 1).astype(int) / (BANDS - 1))[..., None]
    tint = 0.42 * toy.HUES[classes.argmax(axis=-1)] + 0.58
    ground = tint * (1 - fade) + toy.GREY * fade
    axes.imshow(ground, extent=toy.EXTENT, origin="lower", interpolation="nearest", aspect="auto")
    axes.contour(scores, [0.5], extent=toy.EXTENT, colors=INK, linewidths=1.0 * scale)

    points, unknown, wrong = task.points[pile], now.decided < 0, now.decided != task.truth[pile]
    axes.scatter(*points[~unknown].T, s=13 * scale**2, c=toy.HUES[now.decided[~unknown]], linewidths=0)
    axes.scatter(*points[unknown].T, s=19 * scale**2, c="0.25", marker="x", linewidths=1.1 * scale)
    axes.scatter(*points[wrong].T, s=68 * scale**2, facecolors="none", edgecolors=RED, linewidths=0.8 * scale)
    axes.scatter(
        *task.points[~pile].T,
        s=44 * scale**2,
        c=toy.HUES[task.labels[~pile]],
        edgecolors="black",
        linewidths=0.8 * scale,
    )
    for j, hue in enumerate(toy.HUES):
        axes.plot(*path[:, j].T, color="white", lw=3.4 * scale, solid_capstyle="round")
        axes.plot(*path[:, j].T, color=0.75 * hue, lw=1.6 * scale, solid_capstyle="round")
        axes.scatter(
            *path[-1, j], s=150 * scale**2, marker="*", color=hue, edgecolors="white", linewidths=1.0 * scale, zorder=5
        )
    axes.set(xlim=toy.EXTENT[:2], ylim=toy.EXTENT[2:], xticks=[], yticks=[])
    axes.spines[:].set_color("0.75")


def sentence(now: State) -> str:
    task = toy.toy()
    right = np.mean(now.decided == task.truth[task.labels < 0])
    step = "start" if now.steps == 0 else f"step {now.steps}"
    return f"{step}: {now.share:.0%} unknown, {right:.0%} right"


def path_until(steps: int, of: tuple[int, ...]) -> np.ndarray:
    return np.stack([state(k).places for k in sorted({*of, steps}) if k <= steps])


def draw_steps(path: Path, panels: tuple[int, ...], frames: tuple[int, ...]) -> None:
    figure, axes = plt.subplots(2, 3, figsize=(10.5, 5.9), dpi=100, layout="constrained")
    for ax, steps in zip(axes.flat, panels, strict=True):
        draw_state(ax, state(steps), path_until(steps, frames), scale=0.8)
        ax.set_title(sentence(state(steps)), fontsize=10, loc="left", color=INK)
    figure.get_layout_engine().set(w_pad=0.06, h_pad=0.06)
    picture(figure).quantize(128, dither=Image.Dither.NONE).save(path, optimize=True)


def draw_animation(path: Path, frames: tuple[int, ...]) -> None:
    pictures = []
    for steps in frames:
        figure, ax = plt.subplots(figsize=(5.2, 4.1), dpi=100, layout="constrained")
        draw_state(ax, state(steps), path_until(steps, frames), scale=0.9)
        ax.set_title(sentence(state(steps)), fontsize=11, loc="left", color=INK, family="DejaVu Sans")
        pictures.append(picture(figure))
    palette = shared_palette(pictures)
    first, *others = (one.quantize(palette=palette, dither=Image.Dither.NONE) for one in pictures)
    durations = [PAUSE_MS // 2, *[FRAME_MS] * (len(others) - 1), PAUSE_MS]
    first.save(path, save_all=True, append_images=others, duration=durations, loop=0, optimize=True)


def shared_palette(pictures: list[Image.Image]) -> Image.Image:
    """One palette for all frames, which also has the colours of small marks."""
    width, height = pictures[0].size
    marks = [*toy.HUES, *(0.75 * toy.HUES), (0.75, 0, 0.19), (0.15, 0.15, 0.15), (0, 0, 0), (1, 1, 1)]
    sheet = Image.new("RGB", (3 * width, height + len(marks) * 40))
    for i, one in enumerate((pictures[0], pictures[len(pictures) // 3], pictures[-1])):
        sheet.paste(one, (i * width, 0))
    for i, colour in enumerate(marks):
        rgb = tuple(round(255 * part) for part in colour)
        sheet.paste(rgb, (0, height + 40 * i, 3 * width, height + 40 * (i + 1)))
    return sheet.quantize(COLOURS, dither=Image.Dither.NONE)


def picture(figure: plt.Figure) -> Image.Image:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    plt.close(figure)
    return Image.open(buffer).convert("RGB")


def curves(tasks: int, marks: tuple[int, ...]) -> dict[str, np.ndarray]:
    """Means over tasks of digits: each term of the loss, and what the answers are worth, after each number of steps."""
    protocol = Protocol(queries=15, outlier_queries=15)
    drawn = draw(*digits(), protocol, seed=0, tasks=tasks)
    options = {"method": "eol", "outlier_share": 0.5, "backend": "array", "threads": 1}
    onehot = one_hot(drawn.task.labels, protocol.ways, like=drawn.task.support)
    columns: dict[str, list[float]] = {name: [] for name in (*TERMS, "share", "right", "accuracy", "auroc")}
    for steps in marks:
        result = handful.solve(drawn.task, steps=steps, **options)
        for name, weights in TERMS.items():
            columns[name].append(float(term(result, onehot, weights).mean()))
        measured = figures(result.probabilities, result.outlier_scores, drawn.truth)
        decided = np.where(result.unknown, -1, np.asarray(result.probabilities).argmax(axis=-1))
        columns["share"].append(float(result.outlier_scores.mean()))
        columns["right"].append(float(np.mean(decided == drawn.truth)))
        columns["accuracy"].append(float(measured["accuracy"].mean()))
        columns["auroc"].append(float(measured["auroc"].mean()))
    return {name: np.array(values) for name, values in columns.items()}


def term(result: handful.Result, onehot: np.ndarray, weights: tuple[float, float, float]) -> np.ndarray:
    """The loss [B] of EOL with these weights of CE, CO and MA, at the parameters of a result."""
    task, state = result.task, result.state
    affine = state["prototypes"], state["eta"], state["delta"], TEMPERATURE
    support, query = (logits_to(replay(state, x), *affine) for x in (task.support, task.query))
    head, _ = loss_head(task.labels, onehot.shape[-1], result.outlier_share, None, "ways", *weights)
    return head(support, onehot, query)[0]


def draw_curves(path: Path, tasks: int, marks: tuple[int, ...]) -> None:
    columns = curves(tasks, marks)
    blue, orange, green = toy.HUES
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(10.5, 3.3), layout="constrained")
    left.plot(marks, sum(columns[name] for name in TERMS), color=INK, lw=1.2, ls="--", label="sum")
    for name, colour in zip(TERMS, (blue, orange, green), strict=True):
        left.plot(marks, columns[name], color=colour, lw=1.8, label=name)
    left.set_title("Terms of the loss", fontsize=11)
    middle.axhline(50, color="0.6", lw=1, ls=":")
    middle.annotate(
        "share asked for", (LAST, 50), (0, 3), textcoords="offset points", ha="right", color="0.4", fontsize=9
    )
    for name, words, colour in (("share", "mean P(outlier)", orange), ("right", "decisions that are right", blue)):
        middle.plot(marks, 100 * columns[name], color=colour, lw=1.8, label=words)
    middle.set_title("Share, and decisions (%)", fontsize=11)
    for name, words, colour in (("accuracy", "accuracy of knowns", blue), ("auroc", "AUROC of unknowns", green)):
        right.plot(marks, 100 * columns[name], color=colour, lw=1.8, label=words)
    right.set_title("Classes and ranking (%)", fontsize=11)
    for ax in (left, middle, right):
        ax.set(xlabel="steps", xlim=(0, LAST), xticks=range(0, LAST + 1, 10))
        ax.spines[["top", "right"]].set_visible(False)
        ax.spines[["left", "bottom"]].set_color("0.6")
        ax.tick_params(color="0.6", labelcolor="0.3")
    for ax in (left, middle, right):
        ax.legend(frameon=False, fontsize=9, loc="upper right" if ax is left else "lower right")
    picture(figure).quantize(64, dither=Image.Dither.NONE).save(path, optimize=True)
    for name, values in columns.items():
        print(f"{name:9} start {values[0]:.3f}, highest {values.max():.3f}, end {values[-1]:.3f}")


def main() -> None:
    parser = Parser(__doc__, "a minute", DOCS / "pictures")
    parser.add_size("--tasks", 100, 2, "tasks of digits for the curves")
    options = parser.parse()
    frames, marks = ((0, 5, 50), (0, 5, 50)) if options.quick else (FRAMES, MARKS)
    draw_steps(options.output / "descent-steps.png", PANELS, frames)
    draw_animation(options.output / "descent.gif", frames)
    draw_curves(options.output / "descent-curves.png", options.tasks, marks)
    print(f"Written: descent-steps.png, descent.gif and descent-curves.png in {options.output}")


if __name__ == "__main__":
    main()
