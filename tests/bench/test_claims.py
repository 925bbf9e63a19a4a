"""The statements of the paper: each holds, fails or stays open as the figures say."""

import json

import numpy as np
import pytest

from handful.bench import BENCHMARKS, Results, claims, parse_methods
from handful.bench.claims import Comparison, Verdict
from handful.bench.report import perform
from handful.bench.settings import FIGURES
from handful.features import Protocol

pytest.importorskip("pyarrow")


def made_up(name, methods, level, tasks=200, noise=0.5):
    """Results whose truth is known: means of `level(column, row, figure)`, and noise that each cell has of its own."""
    rng = np.random.default_rng(0)
    benchmark = BENCHMARKS[name][0](Protocol(), parse_methods(methods) if methods else ())
    found = {}
    for cell in benchmark.cells:
        apart = {figure: noise * rng.normal(size=tasks) for figure in FIGURES}
        found[cell.column, cell.row] = {
            figure: level(cell.column, cell.row, figure) + x - x.mean() for figure, x in apart.items()
        }
    return Results(benchmark, found, 1, tasks, "made up", None)


METHODS = "knn,pca,simpleshot,laplacianshot,bdcspn,openmax,ostim,oslo,eol"
AS_IN_THE_PAPER = {
    "EOL": 90, "OSLO": 80, "OSTIM": 78, "BD-CSPN": 60, "LaplacianShot": 55, "kNN distance": 70,
    "Principal components": 50, "SimpleShot": 52, "OpenMax": 60,
}  # fmt: skip


def paper_level(column, row, figure):
    level = next(value for name, value in AS_IN_THE_PAPER.items() if row.startswith(name))
    transductive = row.startswith(("EOL", "OSLO", "OSTIM", "BD-CSPN"))
    lost = {"15 + 15": 0, "25 + 5": 6 if transductive else 2, "5 + 25": 6 if transductive else 2}[column]
    return level - (0 if row == "LaplacianShot" else lost)


def sweep_level(column, row, figure):
    if not row.startswith("EOL"):
        return 50
    best = {"20%": 0.3, "50%": 0.5, "80%": 0.7}[column]
    return 80 - 50 * abs(float(row[7:-1]) - best)


def ablation_level(column, row, figure):
    return {"none": 60, "eta": 65, "delta": 75, "eta, delta": 80}[row]


def verdicts(balanced=paper_level, imbalanced=paper_level, sweep=sweep_level, ablation=ablation_level, **options):
    of = [
        made_up("balanced", METHODS, balanced, **options),
        made_up("imbalanced", METHODS, imbalanced, **options),
        made_up("sweep-b", "ostim,oslo", sweep, **options),
        made_up("ablation", None, ablation, **options),
    ]
    return {verdict.statement: verdict for verdict in claims.check(*of)}


def test_every_claim_holds_where_things_are_as_the_paper_says():
    found = verdicts()
    assert len(found) == 11
    assert {name: verdict.word for name, verdict in found.items()} == dict.fromkeys(found, "holds")


def test_claims_fail_where_the_contrary_is_true():
    def upside_down(level):
        return lambda column, row, figure: 100 - level(column, row, figure)

    def fragile(column, row, figure):
        return 100 - paper_level(column, row, figure) - 5 * (row == "LaplacianShot")

    found = verdicts(upside_down(paper_level), fragile, upside_down(sweep_level), upside_down(ablation_level))
    assert [verdict.holds for verdict in found.values()] == [False] * 11


def test_one_comparison_that_fails_is_enough_and_is_counted():
    def weak_in_accuracy(column, row, figure):
        return ablation_level(column, row, figure) - 20 * (
            row == "eta, delta" and (column, figure) == ("50%", "accuracy")
        )

    found = verdicts(ablation=weak_in_accuracy)["eta with delta beats delta alone"]
    assert found.holds is False
    assert found.word == "does not hold (11 of 12 comparisons hold, 0 are open)"
    assert found.narrowest.what == "Acc at 50% outliers"
    assert found.narrowest.difference == pytest.approx(-15, abs=0.5)


def test_the_best_b_is_told_for_each_share():
    found = verdicts(sweep=lambda column, row, figure: sweep_level("50%", row, figure))
    assert found["The best b rises with the outlier share"].holds is False
    assert "AUROC: b = 0.5, 0.5, 0.5" in found["The best b rises with the outlier share"].remark


def test_the_comparison_that_is_shown_explains_the_verdict():
    for pairs, holds in (([(1, 0.5), (2, 0.1)], True), ([(1, 2), (3, 1)], None), ([(1, 2), (-3, 1), (2, 1)], False)):
        verdict = Verdict("", [Comparison("", difference, half) for difference, half in pairs])
        assert verdict.narrowest.holds is verdict.holds is holds


def test_claims_are_written_as_a_page_and_as_json(embedded, tmp_path):
    found = perform("claims", embedded, output=tmp_path, methods="knn,simpleshot,bdcspn,oslo,eol", tasks=5)
    said, shown = json.loads(found.files["json"].read_text()), found.files["md"].read_text()
    assert len(said["claims"]) == 11
    for claim in said["claims"]:
        assert f"## {claim['statement']}: **{claims.WORDS[claim['holds']]}" in shown
        for compared in claim["comparisons"]:
            assert f"{compared['difference']:+.1f} ± {compared['half_width_95']:.1f}" in shown
    absent = {claim["statement"]: claim for claim in said["claims"]}["kNN is the best of the plain detectors"]
    assert (absent["holds"], absent["remark"]) == (None, "The methods of this statement were not run.")
