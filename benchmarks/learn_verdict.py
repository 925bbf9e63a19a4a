"""Learn the weights of the verdict (`handful.engines.verdict`) from folders of feature sets, and judge them. ::

    python benchmarks/learn_verdict.py FOLDER [FOLDER ...]

Every feature set gives random piles of the kinds that people have (`_random_piles.py`) and wider ones: up to 20
classes, 40 unknown kinds, 1,500 items, some with examples of no class, some with bursts of near-duplicates. Feature
sets whose names begin alike, up to the first underscore, are one source. A source is judged by weights that were
learned from all others, and so is the posterior of the share that the first opinion takes. The weights that come with
handful do not know scikit-learn's digits, which the demo and the README show. verdict.json goes into handful/engines.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from _random_piles import (
    PileRanges,
    RandomPile,
    Source,
    learn_posterior,
    posterior_as_json,
    posteriors_without,
    source_of,
)
from _script import Parser
from scipy.optimize import minimize
from sklearn.datasets import load_digits

from handful.core.answers import Answers
from handful.core.arrays import sigmoid
from handful.core.decide import at_precision
from handful.core.metrics import auroc
from handful.core.prepare import prepare
from handful.engines import verdict
from handful.engines.hidden import Hidden
from handful.engines.share import PREPARATION, Share
from handful.engines.share_posterior import Posterior, using
from handful.engines.share_statistics import TRIED_SHARES
from handful.engines.verdict import (
    COLUMNS,
    MAX_LOG_POWER,
    POWERS,
    SPREADS,
    Weights,
    judge,
    modifiers,
    power_columns,
    sharpened,
    spread_columns,
)
from handful.features import FeatureTable, read
from handful.methods.eol_kdo import opinion

WIDE = PileRanges(
    ways=(1, 20),
    shots=(1, 2, 3, 5, 10, 20),
    unknown_ways=(1, 40),
    items=(20, 1500),
    share=(0.0, 0.97),
    no_unknowns=0.12,
)
RIDGE, POWER_RIDGE, ITEMS_LEARNED = 30.0, 5.0, 80  # of each pile so many items are learned from
WITH_NONE, WITH_BURSTS = 0.25, 0.1  # parts of the wide piles
LEVEL = (
    0.45  # added to the log-odds, which piles of easy sources draw down: the best of those tried on sources left out
)
CORNER = 0.05  # of the pinball loss


@dataclass
class Pile:
    """One pile as the verdict sees it, and the truth."""

    source: str
    name: str
    items: np.ndarray  # [Q, F]
    pile: np.ndarray  # [P]
    classes: np.ndarray  # [Q, N]
    first: np.ndarray  # [Q], P(unknown) by the first opinion
    hidden: Hidden  # of a batch of one
    above: np.ndarray  # [G]
    truth: np.ndarray  # [Q]
    facts: dict[str, Any]

    @property
    def share(self) -> float:
        """The true share."""
        return float((self.truth < 0).mean())


def tables_of(folders: Iterable[Path]) -> dict[str, FeatureTable]:
    """Every feature set of the folders, by name, and scikit-learn's digits."""
    files = [path for folder in folders for path in ([folder] if folder.is_file() else sorted(folder.glob("*.npz")))]
    digits = load_digits()
    table = FeatureTable(digits.data.astype(np.float32), [f"digit {n}" for n in digits.target], name="digits")
    return {path.stem: read(path) for path in files} | {"digits": table}


def see(pile: RandomPile, name: str, rng: np.random.Generator | None) -> Pile:
    """What a pile shows. rng: also give examples of no class and bursts to some."""
    task, truth = pile.task, pile.truth
    support, labels, query = task.support[0], task.labels[0], task.query[0]
    unknown = query[:0]
    if rng is not None and rng.random() < WITH_NONE and (truth < 0).sum() > 12:
        rows = rng.choice(np.flatnonzero(truth < 0), int(rng.integers(1, 11)), replace=False)
        unknown, query, truth = query[rows], np.delete(query, rows, axis=0), np.delete(truth, rows)
    if rng is not None and rng.random() < WITH_BURSTS:
        rows = np.repeat(rng.integers(0, len(query), 5), int(rng.integers(2, 8)))
        noise = 0.02 * np.abs(query).mean() * rng.normal(size=query[rows].shape)
        query, truth = np.concatenate([query, query[rows] + noise.astype(query.dtype)]), np.append(truth, truth[rows])
    examples = np.concatenate([support, unknown])
    prepared = prepare(examples[None], query[None], PREPARATION)
    given = prepared.support[:, : len(support)], prepared.support[:, len(support) :]
    seen = opinion(given[0], labels[None], prepared.query, given[1])
    assert seen.belief.above is not None
    return Pile(
        source_of(name), name, seen.evidence.items[0].astype(np.float32), seen.pile[0], seen.classes[0],
        seen.p_unknown[0], seen.hidden, seen.belief.above[0], truth, pile.facts,
    )  # fmt: skip


def _piles_of(job: tuple[str, FeatureTable, Posterior | None, int, int, int]) -> list[Pile]:
    name, table, posterior, usual, wide, seed = job
    rng = np.random.default_rng([seed, 1])
    with using(posterior):
        piles = [see(pile, name, None) for pile in Source(table).piles(usual, seed)]
        return piles + [see(pile, name, rng) for pile in Source(table, WIDE).piles(wide, seed + 1)]


def draw(tables: dict[str, FeatureTable], usual: int, wide: int, shares: int, seed: int, jobs: int) -> list[Pile]:
    """Piles of every feature set, each seen with a posterior of the share that was learned from the other sources."""
    posteriors = posteriors_without(tables, shares, seed + 2)
    work = [(name, table, posteriors[name], usual, wide, seed) for name, table in tables.items()]
    with get_context("fork").Pool(jobs) as pool:
        return [pile for part in pool.imap_unordered(_piles_of, work) for pile in part]


def learn(piles: Sequence[Pile]) -> Weights:
    """The weights that fit these piles."""
    rng = np.random.default_rng(0)
    sets = {source: len({p.name for p in piles if p.source == source}) for source in {p.source for p in piles}}
    rows, unknown, importance = [], [], []
    for p in piles:
        some = rng.permutation(len(p.truth))[:ITEMS_LEARNED]
        rows.append(_columns(p.items[some].astype(np.float64), p.pile))
        unknown.append(p.truth[some] < 0)
        importance.append(np.full(len(some), 1 / len(some) / sets[p.source] ** 0.5))
    constant, columns = _logistic(np.concatenate(rows), np.concatenate(unknown), np.concatenate(importance))
    constant += LEVEL
    nothing = Posterior((), 0.0, *np.zeros((3, 0)))
    draft = Weights(constant, columns, np.zeros(len(POWERS)), np.zeros((2, len(SPREADS))), nothing)
    odds = [p_unknown(p, draft) for p in piles]
    powers = _powers(piles, odds)
    seen = [
        verdict.share_columns(p.pile[None], u[None], p.above[None], p.hidden) for p, u in zip(piles, odds, strict=True)
    ]
    joined = {name: np.concatenate([part[name] for part in seen]) for name in seen[0]}
    posterior = learn_posterior(joined, np.array([p.share for p in piles]), np.array(TRIED_SHARES))
    believed = posterior.above(joined)
    return Weights(constant, columns, powers, _spreads(piles, odds, powers, believed), posterior)


def as_json(weights: Weights, about: Mapping[str, Any]) -> str:
    """The weights as a document."""

    def named(names: Sequence[str], values: np.ndarray) -> dict[str, float]:
        return {name: float(f"{value:.6g}") for name, value in zip(names, values, strict=True)}

    content = {
        **about, "constant": float(f"{weights.constant:.6g}"), "weights": named(COLUMNS, weights.columns),
        "power": named(POWERS, weights.powers), "low": named(SPREADS, weights.spreads[0]),
        "high": named(SPREADS, weights.spreads[1]), "share": json.loads(posterior_as_json(weights.share, {})),
    }  # fmt: skip
    return json.dumps(content, indent=1) + "\n"


def p_unknown(pile: Pile, weights: Weights) -> np.ndarray:
    """P(unknown) of each item."""
    by, constant = weights.of_pile(pile.pile[None])
    p: np.ndarray = sigmoid(pile.items @ by[0] + constant[0])
    return p


def _columns(items: np.ndarray, pile: np.ndarray) -> np.ndarray:
    factors = modifiers(pile[None])[0]
    whole = np.broadcast_to(pile, (len(items), len(pile)))
    return np.concatenate([items, whole, *(items * factor for factor in factors)], axis=1)


def _logistic(x: np.ndarray, truth: np.ndarray, importance: np.ndarray) -> tuple[float, np.ndarray]:
    means = np.average(x, axis=0, weights=importance)
    scales = np.maximum(np.sqrt(np.average((x - means) ** 2, axis=0, weights=importance)), 1e-9)
    z = np.concatenate([np.ones((len(x), 1)), (x - means) / scales], axis=1)
    penalty = np.diag([0.0, *[RIDGE] * x.shape[1]])
    w = np.zeros(z.shape[1])
    for _ in range(20):
        p = sigmoid(z @ w)
        curvature = importance * np.maximum(p * (1 - p), 1e-3)
        step = np.linalg.solve((z * curvature[:, None]).T @ z + penalty, z.T @ (importance * (truth - p)) - penalty @ w)
        w += step
        if np.abs(step).max() < 1e-4:
            break
    columns = w[1:] / scales
    return float(w[0] - columns @ means), columns


def _powers(piles: Sequence[Pile], unknown: Sequence[np.ndarray]) -> np.ndarray:
    """The powers of P(class | known) that make labels as often right as they are sure."""
    most = max(p.classes.shape[1] for p in piles)
    logs, chances, right, of, importance = [], [], [], [], []
    for i, (p, u) in enumerate(zip(piles, unknown, strict=True)):
        best = p.classes.max(axis=1)
        rows = np.flatnonzero(u < best * (1 - u))[:ITEMS_LEARNED]
        relative = np.full((len(rows), most), -60.0)
        relative[:, : p.classes.shape[1]] = np.log(np.maximum(p.classes[rows] / best[rows, None], 1e-12))
        logs.append(relative)
        chances.append(1 - u[rows])
        right.append(p.classes[rows].argmax(axis=1) == p.truth[rows])
        of.append(np.full(len(rows), i))
        importance.append(np.full(len(rows), 1 / max(len(rows), 1) ** 0.5))
    x = np.concatenate([power_columns(p.pile[None], p.hidden) for p in piles])[np.concatenate(of)]
    log, known, hit = np.concatenate(logs), np.concatenate(chances), np.concatenate(right).astype(float)
    weight = np.concatenate(importance)

    def loss(w: np.ndarray) -> tuple[float, np.ndarray]:
        power = np.exp(np.clip(x @ w, -MAX_LOG_POWER, MAX_LOG_POWER))
        raised = np.exp(power[:, None] * log)
        total = raised.sum(axis=1)
        chance = np.clip(known / total, 1e-6, 1 - 1e-6)
        slope = -known * (raised * log).sum(axis=1) / total**2 * power
        likelihood = hit * np.log(chance) + (1 - hit) * np.log(1 - chance)
        by_chance = weight * (hit / chance - (1 - hit) / (1 - chance))
        keep = np.append(0.0, np.ones(len(w) - 1))
        return -(weight * likelihood).sum() + POWER_RIDGE * (w[1:] ** 2).sum(), -(
            (by_chance * slope) @ x
        ) + 2 * POWER_RIDGE * keep * w

    return np.asarray(minimize(loss, np.zeros(len(POWERS)), jac=True, method="L-BFGS-B").x)


def _spreads(
    piles: Sequence[Pile], unknown: Sequence[np.ndarray], powers: np.ndarray, believed: np.ndarray
) -> np.ndarray:
    """How far the precision of labels is below and above the expected one in log-odds: its 10 and 90 % quantiles."""
    x, gap = [], []
    for p, u, above in zip(piles, unknown, believed, strict=True):
        shown = power_columns(p.pile[None], p.hidden)
        classes = sharpened(p.classes[None], np.exp(np.clip(shown @ powers, -MAX_LOG_POWER, MAX_LOG_POWER)))[0]
        sure = classes.max(axis=1) * (1 - u)
        label = u <= sure
        if label.sum() < 3:
            continue
        right, expected = (classes.argmax(axis=1) == p.truth)[label], float(np.clip(sure[label].mean(), 0.005, 0.995))
        x.append(spread_columns(shown, above[None])[0])
        found = float(np.clip(right.mean(), 0.005, 0.995))
        gap.append(np.log(found / (1 - found)) - np.log(expected / (1 - expected)))
    columns, gaps = np.array(x), np.array(gap)

    def loss(w: np.ndarray, level: float) -> tuple[float, np.ndarray]:
        """The pinball loss, rounded at its corner."""
        rest = gaps - columns @ w
        value = level * rest + CORNER * np.logaddexp(0, -rest / CORNER)
        return float(value.sum() + (w[1:] ** 2).sum() / 2), np.append(0, w[1:]) - columns.T @ (
            level - sigmoid(-rest / CORNER)
        )

    ends = [minimize(loss, np.zeros(len(SPREADS)), (level,), "L-BFGS-B", True).x for level in (0.1, 0.9)]
    return np.array(ends)


# Judging


def figures(
    pile: Pile, p: np.ndarray, classes: np.ndarray, share: float, interval: Any, half: bool, spread: Any = None
) -> dict[str, float]:
    """The figures of one pile. half: labels are given where P(unknown) <= 1/2, not where a class is more probable."""
    is_out, sure = pile.truth < 0, classes.max(axis=1) * (1 - p)
    unknown = p > 0.5 if half else p > sure
    label, right = ~unknown, ~unknown & (classes.argmax(axis=1) == pile.truth)
    both = unknown.sum() + is_out.sum()
    nan = float("nan")
    found = {
        "AUROC": auroc(p, is_out) if 0 < is_out.sum() < len(p) else nan,
        "accuracy over N + 1": (right | (unknown & is_out)).mean(),
        "precision of labels": right.sum() / label.sum() if label.any() else nan,
        "F1 of unknown": 2 * (unknown & is_out).sum() / both if is_out.any() else nan,
        "knowns found": right.sum() / (~is_out).sum() if (~is_out).any() else nan,
        "knowns set aside": (unknown & ~is_out).sum() / (~is_out).sum() if (~is_out).any() else nan,
        "error of the share": abs(share - pile.share),
        "interval holds": float(interval[0] - 1e-9 <= pile.share <= interval[1] + 1e-9),
    }
    if spread is not None and label.any():
        answers = Answers(
            classes * (1 - p)[:, None],
            p,
            np.arange(classes.shape[1]),
            0.5,
            is_probability=True,
            precision_spread=spread,
        )
        low, high = answers.expected_precision_interval
        found["precision in its interval"] = float(low <= found["precision of labels"] <= high)
    for level in (0.8, 0.9, 0.95):
        kept = label & (sure >= at_precision(sure, level, label))
        found[f"promised {level}"] = sure[kept].mean() if kept.any() else nan
        found[f"found {level}"] = (right & kept).sum() / kept.sum() if kept.any() else nan
    return {name: 100 * float(value) for name, value in found.items()}


def judge_all(piles: Sequence[Pile], learned_from: Sequence[Pile]) -> list[tuple[Pile, dict[str, Any], dict[str, Any]]]:
    """For every pile the figures of the first opinion, cut at one half, and of the verdict without its source."""
    rows = []
    for source in sorted({p.source for p in piles}):
        weights = learn([p for p in learned_from if p.source != source])
        with verdict.using(weights):
            for p in (p for p in piles if p.source == source):
                answer = judge(
                    p.items[None].astype(float), p.pile[None], p.classes[None], p.hidden, p.above[None], None
                )
                before = Share(p.above[None])
                assert answer.interval is not None
                rows.append((
                    p,
                    figures(p, p.first, p.classes, float(before.estimate[0]), before.interval[0], True),
                    figures(
                        p, answer.p_unknown[0], answer.classes[0], float(answer.share[0]), answer.interval[0], False,
                        answer.spread[0],
                    ),
                ))  # fmt: skip
    return rows


def _mean(values: Iterable[float]) -> float:
    finite = [v for v in values if np.isfinite(v)]
    return float(np.mean(finite)) if finite else float("nan")


def table(rows: Sequence[tuple[Pile, dict[str, Any], dict[str, Any]]]) -> list[str]:
    """Means over feature sets, before and after, the difference with its 95 % interval over sets, and the worst set."""
    names = sorted({p.name for p, *_ in rows})
    held = [b["precision in its interval"] for _, _, b in rows if "precision in its interval" in b]
    lines = [f"The precision of labels is in its interval in {_mean(held):.0f} % of the piles.", ""]
    lines += ["| figure | before | now | difference | worst feature set |", "| --- | ---: | ---: | ---: | --- |"]
    for figure in rows[0][1]:
        sets = {
            name: np.array(
                [[a[figure], b[figure]] for p, a, b in rows if p.name == name and np.isfinite(a[figure] + b[figure])]
            )
            for name in names
        }
        means = {name: part.mean(axis=0) for name, part in sets.items() if len(part)}
        if not means:
            continue
        pairs = np.array(list(means.values()))
        gap = pairs[:, 1] - pairs[:, 0]
        half = 1.96 * gap.std(ddof=1) / len(gap) ** 0.5 if len(gap) > 1 else float("nan")
        is_bad_high = figure in ("error of the share", "knowns set aside")
        worst = (max if is_bad_high else min)(means, key=lambda name: means[name][1] - means[name][0])
        before, now = pairs.mean(axis=0)
        lines.append(
            f"| {figure} | {before:.1f} | {now:.1f} | {gap.mean():+.2f} ± {half:.2f} | "
            f"{worst}: {means[worst][0]:.1f}, {means[worst][1]:.1f} |"
        )
    return lines


def _group_of(number: float, ends: Sequence[float], names: Sequence[str]) -> str:
    return next((name for end, name in zip(ends, names, strict=False) if number <= end), names[-1])


GROUPS = {
    "Examples of a class": lambda p: str(p.facts["shots"]) if p.facts["shots"] in (1, 2, 3, 5, 10) else "other",
    "Share of unknowns": lambda p: _group_of(
        p.share, (0, 0.2, 0.5, 0.8, 0.9), ("0", "to 0.2", "to 0.5", "to 0.8", "to 0.9", "above 0.9")
    ),
    "Unknown kinds": lambda p: (
        "nearest" if p.facts["is_near"] else "no class" if p.facts["has_never_known"] else "random"
    ),
    "Number of unknown kinds": lambda p: _group_of(p.facts["unknown_ways"], (1, 4), ("0 or 1", "2 to 4", "5 to 12")),
}
SHORT = (
    "AUROC", "accuracy over N + 1", "precision of labels", "F1 of unknown", "knowns set aside", "error of the share",
    "interval holds",
)  # fmt: skip


def grouped(rows: Sequence[tuple[Pile, dict[str, Any], dict[str, Any]]]) -> list[str]:
    """The figures by kinds of piles: before -> now."""
    lines: list[str] = []
    for title, group in GROUPS.items():
        keys = sorted({group(p) for p, *_ in rows})
        lines += ["", f"| {title} | piles | " + " | ".join(SHORT) + " |", "| --- " + "| ---: " * (len(SHORT) + 1) + "|"]
        for key in keys:
            part = [(a, b) for p, a, b in rows if group(p) == key]
            cells = [f"{_mean(a[f] for a, _ in part):.1f} -> {_mean(b[f] for _, b in part):.1f}" for f in SHORT]
            lines.append(f"| {key} | {len(part)} | " + " | ".join(cells) + " |")
    return lines


def main() -> None:
    """Draw piles, judge every source by the others, and learn from all."""
    parser = Parser(__doc__ or "", "six minutes")
    parser.add_argument("folders", nargs="*", type=Path, help="folders of feature sets, or single ones")
    parser.add_size("--usual", 100, 4, "usual piles of each feature set, to learn from")
    parser.add_size("--wide", 70, 2, "wide piles of each feature set, to learn from")
    parser.add_size("--judged", 150, 4, "usual piles of each feature set, of another seed, to judge")
    parser.add_size("--shares", 150, 8, "piles of each feature set that posteriors of the share are learned from")
    parser.add_argument("--aside", default="digits", help="a source that the written weights do not learn from")
    parser.add_argument("--seed", type=int, default=34)
    given = parser.parse()
    tables = tables_of(given.folders)
    if len(tables) == 1:  # two halves of the digits, so that one can be left out
        (whole,) = tables.values()
        is_low = np.isin(whole.labels, [f"digit {n}" for n in range(5)])
        tables = {"low_digits": whole.take(np.flatnonzero(is_low)), "high_digits": whole.take(np.flatnonzero(~is_low))}
    learned_from = draw(tables, given.usual, given.wide, given.shares, given.seed, 2)
    rows = judge_all(draw(tables, given.judged, 0, given.shares, given.seed + 100, 2), learned_from)
    text = "\n".join(["# The verdict, judged by the other sources", "", *table(rows), *grouped(rows), ""])
    given.output.mkdir(parents=True, exist_ok=True)
    (given.output / "learn_verdict.md").write_text(text, encoding="utf-8")
    used = [p for p in learned_from if p.source != given.aside]
    about = {
        "about": "Weights of handful.engines.verdict, learned by benchmarks/learn_verdict.py",
        "sources": sorted({p.source for p in used}), "piles": len(used),
    }  # fmt: skip
    (given.output / "verdict.json").write_text(as_json(learn(used), about), encoding="utf-8")
    print(text)
    print(f"The weights: {given.output / 'verdict.json'}, learned from {len(used)} piles")


if __name__ == "__main__":
    main()
