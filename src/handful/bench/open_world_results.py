"""The figures of the continuing process, from the answers that were given at arrival, and the tables of them.

In percent, for each block and over all items of a stream:

context       accuracy on items of the context's classes
named         accuracy on items of new classes that were named before the item arrived
unknown       the part of the items of classes that were not yet named that is called unknown
auroc         of the outlier score, items of classes not yet named against all others. Scores of two blocks cannot be
              compared, as the model was fitted again: over all, it is the mean over the blocks that have both kinds

and `classes`, the number of new classes named so far; `told`, the number of answers that the person gave; `mistakes`,
those among them that told a class which had a name already; `seconds`, the median over the blocks.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from handful.bench.stream import MAX_NAMED, MIN_GROUP
from handful.core.metrics import auroc, mean_and_half_width
from handful.utils.files import write_whole

if TYPE_CHECKING:
    from handful.bench.open_world import Run

TITLES = {
    "context": "Accuracy, context classes",
    "named": "Accuracy, classes named later",
    "unknown": "Not yet named, called unknown",
    "auroc": "AUROC of not yet named",
}
COUNTS = {
    "classes": "New classes named",
    "told": "Answers of the person",
    "mistakes": "For classes with a name",
    "seconds": "Seconds for a block",
}
PARTS = 4  # of the stream, in the tables along it
NONE = "\N{EN DASH}"
PROTOCOL = (
    "Items arrive in blocks, and new classes keep appearing. The answers are those at arrival. After each block a "
    f"person gives the true class of the most typical item of each group of at least {MIN_GROUP} unknown items, at "
    f"most {MAX_NAMED} groups for a block, and the model is taught."
)


@dataclass(frozen=True, eq=False)
class OpenWorldResults:
    """The runs of all methods on all streams.

    Parameters
    ----------
    runs : sequence of Run
        One for each method, context and seed.
    name : str
        What the features are called.
    """

    runs: Sequence[Run]
    name: str = "features"

    @property
    def methods(self) -> list[str]:
        """The rows of the tables."""
        return list(dict.fromkeys(run.method for run in self.runs))

    @property
    def contexts(self) -> list[str]:
        """The contexts, in order."""
        return list(dict.fromkeys(run.context for run in self.runs))

    def records(self) -> list[dict[str, Any]]:
        """The figures of each block of each run."""
        return [
            {"method": run.method, "context": run.context, "seed": run.seed, "block": block, **figures(run, [block])}
            for run in self.runs for block in range(len(run.seconds))
        ]  # fmt: skip

    def overall(self) -> list[dict[str, Any]]:
        """The figures of each run over all of its blocks."""
        return [
            {"method": run.method, "context": run.context, "seed": run.seed, **figures(run, range(len(run.seconds)))}
            for run in self.runs
        ]

    def of(self, method: str, context: str) -> list[Run]:
        """The runs of one method in one context, a run for each seed."""
        return [run for run in self.runs if (run.method, run.context) == (method, context)]

    def markdown(self, command: str) -> str:
        """All tables as text."""
        lines = ["# The continuing process", "", f"    {command}", "", PROTOCOL, ""]
        for context in self.contexts:
            runs = self.of(self.methods[0], context)
            lines += [f"## {context.capitalize()} context", "", self._described(runs), ""]
            rows = [[method, *self._cells(self.of(method, context))] for method in self.methods]
            lines += [*_table(["Method", *TITLES.values(), *COUNTS.values()], rows), ""]
            for figure, title in TITLES.items():
                lines += [f"### {title}, along the stream", "", *self._along(context, figure), ""]
        return "\n".join(lines)

    def summary(self) -> list[str]:
        """A line for each method and context."""
        lines = []
        for context in self.contexts:
            for method in self.methods:
                cells = self._cells(self.of(method, context))
                titles = [title.lower() if title[:2] != "AU" else title for title in (TITLES | COUNTS).values()]
                parts = ", ".join(f"{title} {cell}" for title, cell in zip(titles, cells, strict=True))
                lines.append(f"{method}, {context} context: {parts}")
        return lines

    def write(self, folder: Path, command: str) -> dict[str, Path]:
        """Write the tables, the figures of every block, and every answer; return the files."""
        folder.mkdir(parents=True, exist_ok=True)
        files = {kind: folder / f"open_world.{kind}" for kind in ("md", "csv", "json")}
        write_whole(files["md"], self.markdown(command).encode())
        records, text = self.records(), io.StringIO()
        writer = csv.DictWriter(text, list(records[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)
        write_whole(files["csv"], text.getvalue().encode())
        document = {
            "command": command,
            "records": [_without_nan(record) for record in records],
            "overall": [_without_nan(record) for record in self.overall()],
            "runs": [_answers_of(run) for run in self.runs],
        }
        write_whole(files["json"], (json.dumps(document) + "\n").encode())
        return files

    def _described(self, runs: Sequence[Run]) -> str:
        """A sentence about the streams of a context."""
        stream = runs[0].stream
        count = "1 stream" if len(runs) == 1 else f"{len(runs)} streams"
        spread = " Means over the streams, with the half-width of the 95 % interval." if len(runs) > 1 else ""
        return (
            f"{self.name}: {stream.classes} classes, {len(stream.context)} of them in the context, with "
            f"{len(stream.examples)} examples together; {len(stream.arrivals)} items arrive, {runs[0].every} in a "
            f"block; {count}.{spread} In percent but for counts and seconds."
        )

    def _cells(self, runs: Sequence[Run]) -> list[str]:
        """The figures over all blocks as text, in the order of the titles."""
        found = [figures(run, range(len(run.seconds))) for run in runs]
        return [_text([f[name] for f in found], 2 if name == "seconds" else 1) for name in (*TITLES, *COUNTS)]

    def _along(self, context: str, figure: str) -> list[str]:
        """A table of one figure in each part of the stream."""
        first = self.of(self.methods[0], context)[0]
        parts = [part for part in np.array_split(np.arange(len(first.seconds)), PARTS) if len(part)]
        last = [min((part[-1] + 1) * first.every, len(first.answers)) for part in parts]
        heads = [f"{low + 1} to {high}" for low, high in zip([0, *last], last, strict=False)]
        rows = [
            [method, *(_text([figures(run, part)[figure] for run in self.of(method, context)]) for part in parts)]
            for method in self.methods
        ]
        return _table(["Method", *heads], rows)


def figures(run: Run, blocks: Sequence[int] | np.ndarray | range) -> dict[str, float]:
    """The figures of some blocks of a run, and how many items of each kind they have."""
    blocks = np.asarray(blocks)
    truth, named_in = run.stream.truth, _named_in(run)
    is_here = np.isin(run.blocks, blocks)
    of_context = np.isin(truth, run.stream.context)
    is_named = ~of_context & (named_in[truth] < run.blocks)
    is_new = ~of_context & ~is_named
    is_right = run.answers == truth
    ranks = [
        auroc(run.scores[run.blocks == block], is_new[run.blocks == block])
        for block in blocks.tolist() if len(np.unique(is_new[run.blocks == block])) == 2
    ]  # fmt: skip
    told = [(truth[place], block) for place, block in run.told if block in blocks]
    repeated = [kind for kind, block in told if kind in run.stream.context or named_in[kind] < block]
    return {
        "items": int(is_here.sum()),
        "context_items": int((of_context & is_here).sum()),
        "named_items": int((is_named & is_here).sum()),
        "new_items": int((is_new & is_here).sum()),
        "context": _percent(is_right[of_context & is_here]),
        "named": _percent(is_right[is_named & is_here]),
        "unknown": _percent(run.answers[is_new & is_here] < 0),
        "auroc": 100 * float(np.mean(ranks)) if ranks else float("nan"),
        "classes": int((named_in <= blocks.max()).sum()),
        "told": len(told),
        "mistakes": len(repeated),
        "seconds": float(np.median([run.seconds[block] for block in blocks])),
    }


def _named_in(run: Run) -> np.ndarray:
    """The block after which each class that is not in the context was first named, [classes]; infinity if never."""
    named_in = np.full(run.stream.codes.max() + 1, np.inf)
    for place, block in run.told:
        kind = run.stream.truth[place]
        if kind not in run.stream.context:
            named_in[kind] = min(named_in[kind], block)
    return named_in


def _answers_of(run: Run) -> dict[str, Any]:
    """What is needed to compute the figures of a run again."""
    return {
        "method": run.method, "context": run.context, "seed": run.seed, "every": run.every,
        "context_classes": run.stream.context.tolist(), "truth": run.stream.truth.tolist(),
        "answers": run.answers.tolist(), "outlier_scores": [float(f"{score:.6g}") for score in run.scores],
        "told": [list(pair) for pair in run.told], "seconds": [round(value, 3) for value in run.seconds],
    }  # fmt: skip


def _percent(is_so: np.ndarray) -> float:
    return 100 * float(is_so.mean()) if len(is_so) else float("nan")


def _text(values: Sequence[float], digits: int = 1) -> str:
    """The mean over seeds with its half-width; of one seed the number alone."""
    if np.isnan(values).all():
        return NONE
    mean, half_width = mean_and_half_width(np.array(values, float))
    return f"{mean:.{digits}f}" + ("" if np.isnan(half_width) or len(values) < 2 else f" ± {half_width:.{digits}f}")


def _without_nan(record: dict[str, Any]) -> dict[str, Any]:
    return {name: None if value != value else value for name, value in record.items()}  # NaN is no JSON


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]
