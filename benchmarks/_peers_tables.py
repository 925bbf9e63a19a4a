"""The tables, sentences and curves of `peers.py`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from _report import Section

from handful.core.metrics import mean_and_half_width

DEFAULT, EOL_TOLD = "handful, default", "handful EOL, told the share"
TUNED, TOLD, BEST = "tuned", "told the share", "best threshold"
FIGURES = {
    "balanced_accuracy": "balanced accuracy over classes and unknown",
    "macro_f1": "macro F1 over classes and unknown",
    "precision": "precision of labels",
    "recall": "recall of labels",
}
IN_DOMAINS = (
    DEFAULT, EOL_TOLD, "PyOD KNN", "LocalOutlierFactor", f"OneClassSVM, {TUNED}", f"Nearest mean, {TUNED}",
    f"Logistic regression, {TUNED}", f"OneClassSVM, {TOLD}", f"OneClassSVM, {BEST}",
)  # fmt: skip
MANY_FIGURES = {"accuracy": "Accuracy of knowns", "auroc": "AUROC", "balanced_accuracy": "Balanced accuracy"}


def is_told(method: str) -> bool:
    return method.endswith((TOLD, BEST))


class Records:
    """What was measured of each pile and method."""

    def __init__(self, records: Iterable[Mapping[str, Any]]) -> None:
        self.records = list(records)

    def of(self, part: str) -> Records:
        return Records(r for r in self.records if r["part"] == part)

    def where(self, **wanted: Any) -> Records:
        return Records(r for r in self.records if all(r[name] == value for name, value in wanted.items()))

    def __bool__(self) -> bool:
        return bool(self.records)

    def kinds(self, name: str) -> list[Any]:
        """The different values, in the order in which they came."""
        return list(dict.fromkeys(r[name] for r in self.records))

    def values(self, method: str, figure: str) -> dict[tuple[Any, ...], float]:
        """By pile."""
        own = (r for r in self.records if r["method"] == method)
        return {(r["domain"], r["shots"], r["share"], r["pile"]): r[figure] for r in own}

    def mean(self, method: str, figure: str, against: str | None = None) -> tuple[float, float]:
        """Mean and half-width over piles; against: of the differences to another method, pile by pile.

        Piles of one number have the same known classes, whatever their share, so they count as one.
        """
        own = self.values(method, figure)
        other = self.values(against, figure) if against else dict.fromkeys(own, 0.0)
        of_number: dict[tuple[str, int], list[float]] = {}
        for (domain, shots, share, number), value in own.items():
            difference = value - other[domain, shots, share, number]
            if not np.isnan(difference):
                of_number.setdefault((domain, number), []).append(difference)
        if not of_number:
            return np.nan, np.nan
        mean, half_width = mean_and_half_width([np.mean(values) for values in of_number.values()])
        return float(mean), float(half_width)


def cell(mean: float, half_width: float, sign: str = "") -> str:
    if np.isnan(mean):
        return "\N{EN DASH}"
    return f"{mean:{sign}.1f}" if np.isnan(half_width) else f"{mean:{sign}.1f} ± {half_width:.1f}"


def share_name(share: float) -> str:
    return "no unknowns" if share == 0 else f"{100 * share:.0f} %"


def scenarios(records: Records) -> dict[str, Records]:
    return {
        f"{shots}-shot, {share_name(share)}": records.where(shots=shots, share=share)
        for shots in records.kinds("shots")
        for share in records.kinds("share")
        if records.where(shots=shots, share=share)
    }


def sections(records: Records) -> list[Section]:
    usual = records.of("usual")
    of_kind = scenarios(usual)
    tables = [by_kind("Decision: " + title, usual, of_kind, figure) for figure, title in FIGURES.items()]
    for place, figure in ((1, "balanced_accuracy"), (3, "macro_f1")):
        title = f"Decision: {FIGURES[figure].partition(' over')[0]} minus that of the default, pile by pile"
        tables.insert(place, by_kind(title, usual, of_kind, figure, DEFAULT))
    tables.insert(0, ranking(usual, of_kind))
    tables.append(by_domain(usual.where(shots=5)))
    many = records.of("many")
    if many:
        tables += [by_shots(many, figure, title) for figure, title in MANY_FIGURES.items()]
        tables.append(catching_up(many))
    one = records.of("one class")
    if one:
        title = "One known class: balanced accuracy over the class and unknown"
        tables.append(by_kind(title, one, scenarios(one), "balanced_accuracy"))
        with_unknowns = {name: part for name, part in scenarios(one).items() if part.records[0]["share"]}
        tables.append(by_kind("One known class: AUROC of unknowns", one, with_unknowns, "auroc"))
    return tables


def ranking(usual: Records, of_kind: Mapping[str, Records]) -> Section:
    """Accuracy, AUROC and time."""
    with_unknowns = {name: part for name, part in of_kind.items() if part.records[0]["share"]}
    rows = []
    for method in usual.kinds("method"):
        if method.endswith((f", {BEST}", f", {TOLD}")) and method != EOL_TOLD:
            continue  # the same ranking
        accuracies = [cell(*usual.where(shots=s).mean(method, "accuracy")) for s in usual.kinds("shots")]
        aurocs = [cell(*part.mean(method, "auroc")) for part in with_unknowns.values()]
        difference = cell(*usual.mean(method, "auroc", DEFAULT), sign="+")
        seconds = 1000 * usual.mean(method, "seconds")[0]
        rows.append((method, *accuracies, *aurocs, difference, f"{seconds:.0f}" if seconds >= 10 else f"{seconds:.1f}"))
    header = (
        "method", *(f"accuracy, {s}-shot" for s in usual.kinds("shots")), *(f"AUROC, {name}" for name in with_unknowns),
        "AUROC minus default", "ms a pile",
    )  # fmt: skip
    return Section("Ranking: accuracy of knowns, AUROC of unknowns, and time", header, rows)


def by_kind(
    title: str, records: Records, of_kind: Mapping[str, Records], figure: str, against: str | None = None
) -> Section:
    parts = {"all": records, **of_kind} if len(of_kind) > 2 else of_kind
    rows = [
        (method, *(cell(*part.mean(method, figure, against), sign="+" if against else "") for part in parts.values()))
        for method in records.kinds("method")
        if method != against
    ]
    return Section(title, ("method", *parts), rows)


def by_domain(records: Records) -> Section:
    rows = []
    for domain in records.kinds("domain"):
        part = records.where(domain=domain)
        rows.append((domain, *(cell(*part.mean(method, "balanced_accuracy")) for method in IN_DOMAINS)))
    title = "Every feature set: balanced accuracy, 5-shot, all shares of unknowns together"
    return Section(title, ("feature set", *IN_DOMAINS), rows)


def by_shots(many: Records, figure: str, title: str) -> Section:
    parts = {shots: many.where(shots=shots) for shots in many.kinds("shots")}
    rows = [(method, *(cell(*part.mean(method, figure)) for part in parts.values())) for method in many.kinds("method")]
    count = len(many.kinds("domain"))
    title = f"{title} by the number of examples of a class ({count} feature sets, 5 classes, 30 % unknowns)"
    return Section(title, ("method", *map(str, parts)), rows)


def catching_up(many: Records) -> Section:
    """The probe minus the default, and EOL that is told the share minus the default."""
    probe = "Logistic regression"
    compared = [(f"{title}, {TUNED}", f"{probe}, {TUNED}", figure) for figure, title in MANY_FIGURES.items()]
    compared.append((f"Balanced accuracy, {BEST}", f"{probe}, {BEST}", "balanced_accuracy"))
    compared.append(("Balanced accuracy, EOL told the share", EOL_TOLD, "balanced_accuracy"))
    parts = {shots: many.where(shots=shots) for shots in many.kinds("shots")}
    rows = [
        (title, *(cell(*part.mean(method, figure, DEFAULT), sign="+") for part in parts.values()))
        for title, method, figure in compared
    ]
    title = "Logistic regression, and EOL, minus handful's default, by the number of examples of a class"
    return Section(title, ("figure", *map(str, parts)), rows)


def sentences(records: Records) -> list[str]:
    """For each kind of pile, the best of the methods that are told nothing, and what is surely better than handful."""
    said = []
    usual = records.of("usual")
    for name, part in scenarios(usual).items():
        others = [m for m in part.kinds("method") if m != DEFAULT and not is_told(m)]
        best = max(others, key=lambda m, part=part: part.mean(m, "balanced_accuracy")[0])
        difference = cell(*part.mean(best, "balanced_accuracy", DEFAULT), sign="+")
        said.append(
            f"{name}: balanced accuracy {cell(*part.mean(DEFAULT, 'balanced_accuracy'))} by the default; the best "
            f"other that is told nothing is {best}, {difference} against the default."
        )
    for part_name in ("usual", "many", "one class"):
        for name, part in scenarios(records.of(part_name)).items():
            for figure in ("accuracy", "auroc", "balanced_accuracy", "precision"):
                said += _better(f"{name}{'' if part_name == 'usual' else f' ({part_name})'}", part, figure)
    return said


def _better(name: str, part: Records, figure: str) -> list[str]:
    better = []
    for method in part.kinds("method"):
        mean, half_width = part.mean(method, figure, DEFAULT)
        if method != DEFAULT and not is_told(method) and mean > half_width:
            recall = f", at a recall of {part.mean(method, 'recall')[0]:.1f}" if figure == "precision" else ""
            better.append(f"{method} ({cell(mean, half_width, '+')}{recall})")
    words = {"auroc": "AUROC", "balanced_accuracy": "balanced accuracy", "precision": "precision of labels"}
    return [f"{name}: better than the default in {words.get(figure, figure)}: {', '.join(better)}."] if better else []


def draw_curves(records: Records, path: Path) -> None:
    """Figures by the number of examples of a class."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    many = records.of("many")
    lines = {
        DEFAULT: "o-", f"Logistic regression, {TUNED}": "s--", f"Logistic regression, {BEST}": "s:",
        f"Nearest mean, {TUNED}": "^--", "PyOD KNN": "d--",
    }  # fmt: skip
    shots = many.kinds("shots")
    figure, axes = plt.subplots(1, len(MANY_FIGURES), figsize=(11, 3.8), layout="constrained")
    for ax, (name, title) in zip(axes, MANY_FIGURES.items(), strict=True):
        for k, (method, style) in enumerate(lines.items()):
            if method.endswith(BEST) and name != "balanced_accuracy":
                continue  # the same ranking
            points = [many.where(shots=s).mean(method, name) for s in shots]
            means, half_widths = np.array(points).T
            ax.errorbar(shots, means, half_widths, fmt=style, ms=4, lw=1.5, capsize=2, color=f"C{k}", label=method)
        ax.set(xscale="log", xlabel="examples of a class", title=f"{title}, %", xticks=shots, xticklabels=shots)
        ax.minorticks_off()
        ax.spines[["top", "right"]].set_visible(False)
    axes[-1].legend(frameon=False, fontsize=8, loc="lower right")
    figure.savefig(path, dpi=100)
    plt.close(figure)
