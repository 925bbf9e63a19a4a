"""Methods compared on random piles of every feature set of a folder.

What is learned is never judged on what it was learned from: the posterior of the share, which methods that are not told
the share use, is learned for each feature set from the piles of all other sources. Feature sets whose file names begin
alike, up to the first underscore, are one source: two embeddings of the same items.

Every method solves the same piles, so differences are paired. A figure is averaged over the piles of a feature set, and
those means over the feature sets.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from handful.bench import promises
from handful.bench.piles import KINDS, NEVER_KNOWN, RandomPile, Source
from handful.bench.posterior import Shown, leave_one_out, piles_to_learn_from
from handful.bench.runner import measure
from handful.bench.settings import Contender, parse_methods, with_engine
from handful.core.metrics import label_precision
from handful.engines.posterior import Posterior, using
from handful.features import read
from handful.solving import get_solver, solve_task
from handful.utils.files import write_whole

AUTO, TOLD, HALF = "Auto (not told)", "EOL (told)", "EOL (0.5)"
OTHER_METHODS = ("kdo", "eol", "oslo", "ostim", "knn", "simpleshot")
SHARE_LIMITS = (0.01, 0.99)  # of a share that is told
MEASURED = ("auroc", "accuracy", "unknown_f1", "balanced_accuracy", "false_unknown", "share_error", "covered")
TITLES = {
    "auroc": "AUROC",
    "accuracy": "Accuracy of knowns",
    "unknown_f1": "F1 of unknown",
    "balanced_accuracy": "Balanced accuracy over classes and unknown",
    "label_precision": "Precision of labels",
    "false_unknown": "Knowns called unknown",
    "absolute_error": "Error of the share",
    "covered": "Interval holds the share",
}
SUMMARISED = ("auroc", "accuracy", "label_precision", "absolute_error", "covered")
SUFFIXES = (".npz", ".parquet", ".safetensors", ".csv")
GROUPS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "Examples of a class": lambda f: "1" if f["shots"] == 1 else "2 to 3" if f["shots"] <= 3 else "4 and more",
    "Share of unknowns": lambda f: (
        "none" if not f["share"] else "to 20 %" if f["share"] <= 0.2 else "to 50 %" if f["share"] <= 0.5
        else "to 80 %" if f["share"] <= 0.8 else "over 80 %"
    ),
    "Unknown classes": lambda f: "nearest" if f["is_near"] else "no class" if f["has_never_known"] else "random",
    "Number of unknown classes": lambda f: "0 or 1" if f["unknown_ways"] < 2 else "2 to 4" if f["unknown_ways"] < 5
    else "5 and more",
    "Items": lambda f: "to 60" if f["items"] <= 60 else "to 150" if f["items"] <= 150 else "over 150",
    "Sizes of known classes": lambda f: "equal" if f["known_sizes"] is None else f"unequal ({f['known_sizes']:g})",
}  # fmt: skip


@dataclass(frozen=True)
class DomainResults:
    """The figures of every method on every pile.

    Parameters
    ----------
    records : list of dict
        For each pile and method: domain, pile, method, what kind of pile it is, and the figures in percent.
    piles : int
        Piles of each feature set.
    """

    records: list[dict[str, Any]]
    piles: int

    @property
    def methods(self) -> list[str]:
        """The rows of the tables."""
        return list(dict.fromkeys(record["method"] for record in self.records))

    @property
    def domains(self) -> list[str]:
        """The feature sets."""
        return list(dict.fromkeys(record["domain"] for record in self.records))

    def values(self, method: str, figure: str) -> dict[tuple[str, int], float]:
        """One figure of one method, by feature set and pile."""
        return {(r["domain"], r["pile"]): r[figure] for r in self.records if r["method"] == method}

    def by_domain(self, method: str, figure: str, against: str | None = None) -> dict[str, float]:
        """The mean of each feature set; against: of the differences to another method, pile by pile."""
        own = self.values(method, figure)
        other = self.values(against, figure) if against else dict.fromkeys(own, 0.0)
        differences = {key: own[key] - other[key] for key in own}
        return {
            name: _mean([value for (domain, _), value in differences.items() if domain == name])
            for name in self.domains
        }

    def markdown(self, command: str) -> str:
        """All tables as text."""
        count = len(self.domains)
        lines = [
            "# Random piles of many feature sets", "", f"    {command}", "",
            f"{self.piles} piles of each of {count} feature sets. Figures are in percent: the mean over the piles of a "
            "feature set, averaged over the feature sets. What is learned was learned from the other sources.", "",
        ]  # fmt: skip
        reference = TOLD if TOLD in self.methods else self.methods[0]
        for figure, title in TITLES.items():
            every = [self._row(method, figure, reference) for method in self.methods]
            rows = [row for row in every if row is not None]
            if rows:
                head = ["Method", "Mean", f"Minus {reference}", "Worst feature set", "Its mean", "Its difference"]
                lines += [f"## {title}", "", *_table(head, rows), ""]
        lines += promises.tables(self.records)
        lines += ["## Where it is right, and where it is not", "", f"{AUTO}; in brackets, minus {reference}.", ""]
        for title, group in GROUPS.items():
            lines += [f"### {title}", "", *self._groups(group, reference), ""]
        lines += ["## Every feature set", "", *self._every(reference), ""]
        return "\n".join(lines)

    def summary(self) -> list[str]:
        """AUROC, accuracy and the error of the share in a line for each method."""
        lines = []
        for method in self.methods:
            parts = [f"{TITLES[f]} {_text(_mean(list(self.by_domain(method, f).values())))}" for f in SUMMARISED]
            lines.append(f"{method}: " + ", ".join(parts))
        return lines + promises.summary(self.records)

    def _row(self, method: str, figure: str, reference: str) -> list[str] | None:
        means = self.by_domain(method, figure)
        if np.isnan(list(means.values())).all():
            return None
        differences = self.by_domain(method, figure, reference)
        fewer_is_better = figure in ("absolute_error", "false_unknown")
        scores = differences if method != reference and not np.isnan(list(differences.values())).all() else means
        worst = (max if fewer_is_better else min)(
            (name for name in scores if not np.isnan(scores[name])), key=lambda n: scores[n]
        )
        return [
            method, _text(_mean(list(means.values()))), _text(_mean(list(differences.values())), "+"), worst,
            _text(means[worst]), _text(differences[worst], "+"),
        ]  # fmt: skip

    def _groups(self, group: Callable[[Mapping[str, Any]], str], reference: str) -> list[str]:
        names = [r for r in self.records if r["method"] == self.methods[0]]
        of_pile = {(r["domain"], r["pile"]): group(r) for r in names}
        rows = []
        for name in sorted(set(of_pile.values())):
            keys = [key for key, value in of_pile.items() if value == name]
            row = [name, str(len(keys))]
            for figure in ("auroc", "accuracy", "unknown_f1", "label_precision", "absolute_error", "covered"):
                own = self.values(self.methods[0], figure)
                other = self.values(reference, figure)
                text = _text(_mean([own[key] for key in keys]))
                if figure in ("auroc", "accuracy"):
                    text += f" ({_text(_mean([own[key] - other[key] for key in keys]), '+')})"
                row.append(text)
            rows.append(row)
        return _table(
            [
                "",
                "Piles",
                "AUROC",
                "Accuracy",
                "F1 of unknown",
                "Precision of labels",
                "Error of the share",
                "Interval",
            ],
            rows,
        )

    def _every(self, reference: str) -> list[str]:
        figures = ("auroc", "accuracy", "label_precision", "absolute_error", "covered")
        first = self.methods[0]
        own = {figure: self.by_domain(first, figure) for figure in figures}
        differences = self.by_domain(first, "auroc", reference)
        rows = [
            [name, _text(own["auroc"][name]), _text(differences[name], "+")]
            + [_text(own[figure][name]) for figure in figures[1:]]
            for name in self.domains
        ]
        head = ["Feature set", "AUROC", f"Minus {reference}", "Accuracy", "Precision of labels", "Error of the share"]
        return _table([*head, "Interval"], rows)

    def write(self, folder: Path, command: str) -> dict[str, Path]:
        """Write the tables and every record; return the files."""
        folder.mkdir(parents=True, exist_ok=True)
        files = {kind: folder / f"domains.{kind}" for kind in ("md", "csv", "json")}
        write_whole(files["md"], self.markdown(command).encode())
        text = io.StringIO()
        writer = csv.DictWriter(text, list(self.records[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.records)
        write_whole(files["csv"], text.getvalue().encode())
        plain = [_without_nan(record) for record in self.records]
        found = [_without_nan(row) for row in promises.figures(self.records)]
        document = {"command": command, "records": plain, "promises": found}
        write_whole(files["json"], (json.dumps(document) + "\n").encode())
        return files


def contenders(methods: str | Iterable[str] | None = None) -> list[Contender]:
    """Return Auto, the two versions of EOL, and `methods`, which are not told the share."""
    others = parse_methods(OTHER_METHODS if methods is None else methods)
    fixed = [Contender(AUTO, "auto", {}), Contender(TOLD, "eol", {}), Contender(HALF, "eol", {"outlier_share": 0.5})]
    return [with_engine(c) for c in (*fixed, *others)]


def find_feature_sets(folder: Path) -> list[Path]:
    """The feature sets of a folder, sorted by name.

    Raises
    ------
    ValueError
        If there are none.
    """
    paths = sorted(p for p in folder.iterdir() if p.suffix in SUFFIXES) if folder.is_dir() else []
    if not paths:
        raise ValueError(f"{folder} holds no feature sets: give a folder with {', '.join(SUFFIXES)} files with labels")
    return paths


def run(
    paths: Sequence[Path],
    rows: Sequence[Contender],
    *,
    piles: int = 150,
    seed: int = 0,
    kind: str = "random",
    progress: Callable[[str, int, int], None] = lambda name, done, total: None,
    arguments: Mapping[str, Any] | None = None,
) -> DomainResults:
    """Solve random piles of every feature set with every method.

    Parameters
    ----------
    paths : sequence of Path
        The feature sets.
    rows : sequence of Contender
        The methods.
    piles : int
        Piles of each feature set.
    seed : int
        The seed of the piles. Posteriors are learned from piles of another seed.
    kind : str
        A name in `handful.bench.piles.KINDS`. For "no-class", only feature sets with such items are solved. Posteriors
        are always learned from random piles of all feature sets.
    progress : callable
        Called with what is done, the number of finished piles and of all piles.
    arguments : mapping, optional
        For `handful.features.read`.

    Returns
    -------
    DomainResults
    """
    tables = {path.stem: read(path, warn=False, **(arguments or {})) for path in paths}
    sources = {name: Source(table, KINDS[kind]) for name, table in tables.items()}
    posteriors: dict[str, Posterior | None] = dict.fromkeys(sources)
    origin = {name: name.partition("_")[0] for name in sources}
    if len(set(origin.values())) > 1:
        shown, total = {}, 2 * piles * len(sources)
        for name, table in tables.items():
            shown[name] = Shown.of(piles_to_learn_from(table, 2 * piles, seed + 1))
            progress("learning", 2 * piles * len(shown), total)
        posteriors = {**leave_one_out(shown, origin)}
    if kind == "no-class":
        sources = {name: source for name, source in sources.items() if len(source.never_known)}
        if not sources:
            raise ValueError(f"no feature set has items of no class: they are labelled {', '.join(NEVER_KNOWN)}")
    records, total = [], piles * len(sources)
    for name, source in sources.items():
        with using(posteriors[name]):
            for number, pile in enumerate(source.piles(piles, seed)):
                records += [{"domain": name, "pile": number, **_solve(row, pile)} for row in rows]
                progress("solving", len(records) // len(rows), total)
    return DomainResults(records, piles)


def _solve(row: Contender, pile: RandomPile) -> dict[str, Any]:
    parameters = dict(row.parameters)
    if row.row == TOLD:
        parameters["outlier_share"] = float(np.clip(pile.share, *SHARE_LIMITS))
    elif "outlier_share" not in get_solver(row.method).defaults:
        parameters.setdefault("outlier_share", 0.5)  # it only ranks: half of the pile is called unknown
    result = solve_task(pile.task, method=row.method, threads=1, **parameters)
    figures = {name: 100 * float(value) for name, value in measure(result, pile.truth, MEASURED).items()}
    figures["label_precision"] = 100 * float(label_precision(result.probabilities, result.unknown, pile.truth))
    figures["absolute_error"] = abs(figures["share_error"]) if not np.isnan(figures["covered"]) else np.nan
    return {"method": row.row, **pile.facts, **figures, **promises.count_labels(result, pile.truth)}


def _without_nan(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: None if value != value else value for name, value in record.items()}  # NaN is no JSON


def _mean(values: Sequence[float]) -> float:
    numbers = [value for value in values if not np.isnan(value)]
    return float(np.mean(numbers)) if numbers else float("nan")


def _text(value: float, sign: str = "") -> str:
    return "\N{EN DASH}" if np.isnan(value) else f"{value:{sign}.1f}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]
