"""`handful bench share`: what its tables say of a method that is not told the share of unknowns.

Figures are computed again by scikit-learn and by hand from what draw and solve give. A method of the test's own, whose
estimate and interval are known, stands for one that finds the share itself.
"""

import csv
import io
import json
import os
import re
import signal
import time
from dataclasses import replace

import numpy as np
import pytest
from piles import finish, start
from sklearn.metrics import f1_score, recall_score, roc_auc_score

from handful import Task, register
from handful.bench import Results, Store, aims, run, share
from handful.bench.report import perform
from handful.bench.runner import FIGURES, measure
from handful.bench.settings import BENCHMARKS, Contender, parse_methods, with_true_share
from handful.bench.share import AUTO, FIGURE_TITLES, HALF, MEASURED, TOLD
from handful.features import FeatureTable, Protocol, digits, draw, read, write
from handful.methods import Info, Solution
from handful.methods.registry import METHODS
from handful.solving import Result, solve_task

pytest.importorskip("pyarrow")

TASKS = 8  # of each of two seeds
SHARES = ["0%", "17%", "33%", "50%", "67%", "83%"]


@pytest.fixture(scope="module")
def embedded():
    return FeatureTable(*digits(), name="digits")


@pytest.fixture(scope="module")
def found(embedded, tmp_path_factory):
    """Two numbers of shots, a few methods."""
    folder = tmp_path_factory.mktemp("share")
    return perform("share", embedded, output=folder, methods="oslo,knn,simpleshot", shots=(1, 5), tasks=TASKS, seeds=2)


def strict(text):
    """JSON as the standard has it: no NaN."""
    return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def cells_of(found):
    return [(of, cell) for of in found.results for cell in of.benchmark.cells]


# The tasks and who is told what


def test_queries_stay_as_many_while_more_of_them_are_unknown():
    of = share.benchmark(Protocol(), share.contenders())
    assert of.columns == SHARES
    pairs = {cell.column: (cell.protocol.queries, cell.protocol.outlier_queries) for cell in of.cells}
    assert list(pairs.values()) == [(30, 0), (25, 5), (20, 10), (15, 15), (10, 20), (5, 25)]


@pytest.mark.parametrize(
    ("ways", "outlier_ways", "queries"), [(5, 5, 3), (5, 5, 4), (15, 5, 6), (3, 7, 9), (10, 2, 15)]
)
def test_shares_are_near_the_sixths_whatever_the_number_of_classes(ways, outlier_ways, queries):
    base = Protocol(ways=ways, outlier_ways=outlier_ways, queries=queries)
    of = share.benchmark(base, share.contenders("knn"))
    shares = list(dict.fromkeys(cell.protocol.outlier_share for cell in of.cells))
    assert np.abs(np.array(shares) - np.arange(6) / 6).max() < 0.06
    for cell in of.cells:
        missing = cell.protocol.inliers + cell.protocol.outliers - queries * (ways + outlier_ways)
        assert abs(missing) <= (ways + outlier_ways) / 2  # half a query of each class
    assert [cell.column for cell in of.cells if cell.row == AUTO] == [f"{s:.0%}" for s in shares]


def test_known_classes_of_a_task_are_the_same_at_every_share(embedded):
    of = share.benchmark(Protocol(shots=2), share.contenders("knn"))
    drawn = [draw(*digits(), c.protocol, seed=3, tasks=[8]) for c in of.cells if c.row == AUTO]
    for other in drawn[1:]:
        np.testing.assert_array_equal(other.task.classes, drawn[0].task.classes)
    assert [d.outlier.mean() for d in drawn] == pytest.approx(np.arange(6) / 6)


def test_only_eol_is_told_and_within_what_it_takes():
    given = {(c.column, c.row): c.contender.parameters for c in share.benchmark(Protocol(), share.contenders()).cells}
    assert list(dict.fromkeys(row for _, row in given)) == [
        AUTO, TOLD, HALF, "OSLO", "OSTIM", "kNN distance", "SimpleShot",
    ]  # fmt: skip
    told_to_eol = [given[column, TOLD]["outlier_share"] for column in SHARES]
    assert told_to_eol == pytest.approx([0.01, 1 / 6, 1 / 3, 1 / 2, 2 / 3, 5 / 6])
    for row in {row for _, row in given} - {TOLD}:
        assert len({repr(given[column, row]) for column in SHARES}) == 1, row
    assert given["83%", HALF]["outlier_share"] == 0.5


def test_methods_are_those_beside_auto_and_the_two_eols():
    rows = [c.row for c in share.contenders("kdo, knn:k=5")]
    assert rows == [AUTO, TOLD, HALF, "KDO", "kNN distance (k=5)"]


@pytest.fixture
def auto():
    """A method of the name `auto` whose answer is known, if there is none yet: its estimate is 0.3 +- 0.1."""
    before = METHODS.get("auto")
    METHODS.pop("auto", None)

    @register(Info("auto", title="Auto", preparation=("none",), score="probability"))
    def fixed(support, labels, query, *, outlier_share="auto", b=None):
        n = query.shape[:2]
        return Solution(np.full((*n, labels.max() + 1), 0.1), np.full(n, 0.2), outlier_share=np.full(n[0], 0.3))

    yield
    METHODS.pop("auto")
    if before is not None:
        METHODS["auto"] = before


def test_auto_is_told_nothing_in_any_benchmark(auto):
    rows = [Contender("Auto", "auto", {}), Contender("Pair", "simpleshot+auto", {})]
    for make, _ in (BENCHMARKS["balanced"], BENCHMARKS["imbalanced"], BENCHMARKS["sweep-b"]):
        given = [c.contender.parameters for c in make(Protocol(), rows).cells if c.row in ("Auto", "Pair")]
        assert given
        assert not any({"outlier_share", "b"} & set(parameters) for parameters in given)
    assert share.contenders()[0] == Contender(AUTO, "auto", {})
    assert [c.row for c in share.contenders("auto,knn")] == [AUTO, TOLD, HALF, "kNN distance"]


def test_a_method_that_is_to_find_the_share_is_left_to_it():
    for method in ("eol", "kdo", "eol_kdo"):
        given = Contender("x", method, {"outlier_share": "auto"})
        assert with_true_share(given, Protocol()) == given
        assert share.estimates(given)
        assert with_true_share(replace(given, parameters={}), Protocol()).parameters
        assert not share.estimates(replace(given, parameters={"outlier_share": 0.5}))


# The figures


def test_figures_of_single_tasks_are_those_of_scikit_learn(found):
    """One task of every method, share and number of shots, drawn and solved alone."""
    for of, cell in cells_of(found):
        alone = draw(*digits(), cell.protocol, seed=1, tasks=[5])
        result = solve_task(alone.task, method=cell.contender.method, threads=1, **cell.contender.parameters)
        truth, outlier = alone.truth[0], alone.outlier[0]
        closest = np.asarray(result.probabilities)[0].argmax(axis=-1)
        decided = np.where(result.unknown[0], -1, closest)
        expected = {
            "accuracy": (closest == truth)[~outlier].mean(),
            "balanced_accuracy": recall_score(truth, decided, labels=np.unique(truth), average="macro"),
            "false_unknown": result.unknown[0][~outlier].mean(),
            "unknown_f1": f1_score(outlier, result.unknown[0], zero_division=1.0),
            "auroc": roc_auc_score(outlier, result.outlier_scores[0]) if outlier.any() else np.nan,
            "share_error": result.outlier_share[0] - outlier.mean(),
        }
        for name, value in expected.items():
            measured = of[cell.column, cell.row][name][TASKS + 5]
            assert measured == pytest.approx(100 * value, abs=0.7, nan_ok=True), (cell.column, cell.row, name)


def test_what_a_task_without_unknowns_does_not_define_is_a_dash_and_no_nan(found):
    text = found.files["md"].read_text("utf-8")
    assert "nan" not in text
    assert "nan" not in found.files["tex"].read_text("utf-8")
    table = next(t for t in found.tables if t.title.startswith("AUROC") and t.shots == 5 and not t.against)
    assert [row[2] for row in table.cells()] == ["\N{EN DASH}"] * 6
    assert all("±" in cell for row in table.cells() for cell in row[3:])
    for figure in ("auroc", "aupr", "prec@0.9"):
        means = [r["mean"] for r in records(found) if r["figure"] == figure and r["share"] == 0]
        assert means
        assert set(means) == {None}


def records(found):
    return strict(found.files["json"].read_text("utf-8"))["figures"]


def test_every_mean_is_that_of_the_tasks_and_every_lead_is_paired(found):
    by_shots = dict(zip((1, 5), found.results, strict=True))
    counted = 0
    for record in records(found):
        of, column = by_shots[record["shots"]], f"{record['share']:.0%}"
        if record["figure"] not in FIGURE_TITLES or record["mean"] is None:
            continue
        values = of[column, record["method"]][record["figure"]]
        if record["against"]:
            values = values - of[column, record["against"]][record["figure"]]
            low, high = (record["mean"] + side * record["half_width_95"] for side in (-1, 1))
            assert record["excludes_0"] == (low > 0 or high < 0)
        assert record["mean"] == pytest.approx(values.mean())
        assert record["half_width_95"] == pytest.approx(1.96 * values.std(ddof=1) / np.sqrt(2 * TASKS))
        counted += 1
    assert counted == 2 * (4 * 6 + 3 * 5) * (6 + 5)  # shots, figures at shares where they are defined, rows and leads


def test_leads_whose_interval_excludes_zero_are_marked_and_no_others(found):
    table = next(t for t in found.tables if t.against and t.figure == "unknown_f1" and t.shots == 5)
    marks = [cell.endswith(" *") for row in table.cells() for cell in row[2:]]
    sure = [abs(row.means[c]) > row.half_widths[c] for row in table.rows for c in SHARES]
    assert marks == sure
    assert True in sure
    assert "*: the interval excludes 0" in table.to_markdown()


def test_the_fewest_knowns_called_unknown_are_the_best(found):
    table = next(t for t in found.tables if getattr(t, "figure", "") == "false_unknown" and not t.against)
    for column in SHARES:
        assert table.best[column] == min(row.means[column] for row in table.rows)
    assert "**" in table.to_markdown()


def test_csv_says_what_json_says(found):
    rows = list(csv.DictReader(io.StringIO(found.files["csv"].read_text("utf-8"))))
    said = records(found)
    assert len(rows) == len(said)
    for row, record in zip(rows, said, strict=True):
        assert row.keys() == record.keys()
        assert row["mean"] == ("" if record["mean"] is None else repr(record["mean"]))


def test_latex_has_as_many_cells_as_columns_in_every_line(found):
    parts = found.files["tex"].read_text("utf-8").split(r"\begin{tabular}")[1:]
    assert len(parts) == len(found.tables)
    for part in parts:
        columns = re.match(r"\{(l+r+)\}", part).group(1)
        lines = [line for line in part.splitlines() if line.endswith(r"\\")]
        assert {len(re.findall(r"(?<!\\)&", line)) for line in lines} == {len(columns) - 1}


# The estimate


def answer(share_of, interval, batch=4):
    """A result with an estimate, and perhaps an interval."""
    truth = np.tile([0, 1, -1, -1, 0, 1, 0, 1, 0, 1], (batch, 1))  # a fifth unknown
    p = np.tile(np.eye(2)[np.maximum(truth[0], 0)], (batch, 1, 1))
    task = Task(np.tile(np.eye(2), (batch, 1, 1)), [[0, 1]] * batch, np.ones((batch, 10, 2)))
    result = Result(
        p, (truth == -1).astype(float), np.tile([0, 1], (batch, 1)), 0.5, share_of, task=task, state={},
        made_by={"method": "hand", "score": "probability"}, outlier_share_interval=interval,
    )  # fmt: skip
    return result, truth


def test_the_error_is_signed_and_an_interval_covers_or_does_not():
    estimate = np.array([0.2, 0.5, 0.0, 0.3])
    interval = np.array([[0.1, 0.3], [0.25, 0.9], [0.0, 0.2], [0.2, 0.4]])
    measured = measure(*answer(estimate, interval), MEASURED)
    np.testing.assert_allclose(measured["share_error"], [0.0, 0.3, -0.2, 0.1], atol=1e-12)
    np.testing.assert_array_equal(measured["covered"], [1, 0, 1, 1])
    np.testing.assert_array_equal(measured["unknown_f1"], 1.0)
    assert tuple(measured) == MEASURED
    assert np.isnan(measure(*answer(estimate, None), MEASURED)["covered"]).all()
    assert tuple(measure(*answer(estimate, interval), FIGURES)) == FIGURES


def made_up(level, tasks=400, shots=5, methods="simpleshot,knn"):
    """Results whose truth is known: `level(column, row, figure)` in percent, and noise of each cell's own."""
    rng = np.random.default_rng(0)
    of = share.benchmark(Protocol(shots=shots), share.contenders(methods))
    values = {}
    for cell in of.cells:
        noise = {figure: rng.normal(size=tasks) for figure in MEASURED}
        values[cell.column, cell.row] = {
            figure: level(cell.column, cell.row, figure) + (x - x.mean()) for figure, x in noise.items()
        }
    return Results(of, values, 1, tasks, "made up", None)


def good(column, row, figure):
    if figure in ("auroc", "aupr", "prec@0.9") and column == "0%":
        return np.nan
    return {"share_error": 2.0, "covered": 90.0, "false_unknown": 3.0}.get(figure, 80 + 5 * (row == AUTO))


def test_the_estimate_has_its_mean_bias_absolute_error_and_coverage():
    of = made_up(good)
    table = share.estimate_table(of, AUTO)
    assert [row.name for row in table.rows] == ["0.0", "16.7", "33.3", "50.0", "66.7", "83.3"]
    error = of["33%", AUTO]["share_error"]
    row = table.rows[2]
    assert row.means["share"] == pytest.approx(100 / 3 + 2.0)
    assert row.means["share_error"] == pytest.approx(2.0)
    assert row.means["absolute_error"] == pytest.approx(np.abs(error).mean())
    assert row.means["absolute_error"] > 2.0  # errors of both signs
    assert row.means["covered"] == pytest.approx(90)
    assert row.half_widths["share"] == row.half_widths["share_error"] == pytest.approx(1.96 * error.std(ddof=1) / 20)
    assert "| +2.0 ± 0.1 |" in table.to_markdown()
    assert "**" not in table.to_markdown()


def test_coverage_has_a_column_only_where_there_are_intervals():
    without = made_up(lambda c, r, f: np.nan if f == "covered" else good(c, r, f))
    assert "covered" not in share.estimate_table(without, AUTO).titles
    assert "covered" in share.estimate_table(made_up(good), AUTO).titles


# The aims


def verdicts(*results):
    return {aim.statement: aim for aim in aims.check_aims(results)}


def all_shots(level):
    return [made_up(level, shots=shots) for shots in (1, 5, 10)]


def test_every_aim_is_met_where_things_are_good():
    said = verdicts(*all_shots(good))
    assert {aim.met for aim in said.values()} == {True}
    assert [len(aim.lines) for aim in said.values()] == [15, 18, 6, 6, 3]


@pytest.mark.parametrize(
    ("column", "row", "figure", "level", "place"),
    [
        ("83%", TOLD, "auroc", 86.0, 0),
        ("0%", "SimpleShot", "accuracy", 86.0, 1),
        ("67%", AUTO, "share_error", -6.5, 2),
        ("0%", AUTO, "false_unknown", 5.5, 4),
    ],
)
def test_an_aim_is_missed_where_one_line_is(column, row, figure, level, place):
    changed = made_up(lambda c, r, f: level if (c, r, f) == (column, row, figure) else good(c, r, f))
    said = verdicts(changed)
    missed = [i for i, aim in enumerate(said.values()) if aim.met is False]
    assert missed == [place]
    aim = list(said.values())[place]
    assert [line.met for line in aim.lines].count(False) == 1
    assert f"{aim.worst.share:.0%}" == column
    text = aims.to_markdown(list(said.values()))
    assert text.count("- missed: 5-shot") == 1
    assert f"**missed ({len(aim.lines) - 1} of {len(aim.lines)} met)**" in text


def test_a_lead_below_zero_by_less_than_its_interval_is_no_miss():
    level = {"auroc": 85.04}
    near = made_up(lambda c, r, f: level.get(f, 80) if r == TOLD and c != "0%" else good(c, r, f))
    aim = next(iter(verdicts(near).values()))
    assert all(line.mean < 0 for line in aim.lines)
    assert aim.met is True


def test_within_ten_points_is_enough_at_one_shot_and_not_at_five():
    def eight(column, row, figure):
        return 8.0 if figure == "share_error" else good(column, row, figure)

    one, five = made_up(eight, shots=1), made_up(eight, shots=5)
    by_limit = {aim.lines[0].limit: aim.met for aim in verdicts(one, five).values() if aim.lines[0].limit in (6, 10)}
    assert by_limit == {10: True, 6: False}


def test_what_was_not_run_is_neither_met_nor_missed():
    said = verdicts(made_up(good, shots=10, methods="knn"))
    words = [aim.word for aim in said.values()]
    assert words[1:4] == ["not measured"] * 3


# From the command line


@pytest.fixture
def here(tmp_path, embedded):
    write(embedded, tmp_path / "small.npz")
    return tmp_path


QUICK = ("bench", "share", "--features", "small.npz", "--tasks", 4, "--methods", "knn,simpleshot", "--jobs", 1)


def test_json_is_one_document_and_the_command_makes_it_again(here, handful):
    done = handful(*QUICK, "--shots", "1,5", "--json", "-o", "out")
    assert done.returncode == 0, done.stderr
    about = strict(done.stdout)
    assert about == strict((here / "out" / "share.json").read_text("utf-8"))
    assert (about["benchmark"], about["tasks"], len(about["aims"])) == ("share", 4, 5)
    assert about["command"].endswith("--shots 1,5")
    assert {r["shots"] for r in about["figures"]} == {1, 5}
    again = handful(*about["command"].split()[1:], "--json", "-o", "again")
    assert again.stdout == done.stdout


def test_the_terminal_has_the_estimates_auroc_and_the_aims(here, handful):
    done = handful(*QUICK, "-o", "out")
    assert done.returncode == 0, done.stderr
    for shots in (1, 5, 10):
        assert f"AUROC at each share of unknowns, 5-way {shots}-shot" in done.stdout
    assert re.search(r"(met|missed) \(\d+ of 3 met\): At most 5 %", done.stdout)
    assert "share.md" in done.stdout
    before = {path: path.stat().st_mtime_ns for path in (here / "out").glob("blocks/*/*")}
    assert handful(*QUICK, "-o", "out").returncode == 0
    assert {path: path.stat().st_mtime_ns for path in (here / "out").glob("blocks/*/*")} == before


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--queries", 2], "2 queries a class are too few for 5 known and 5 outlier classes"),
        (["--ways", 9], "1-shot tasks with 17% unknowns .* cannot be drawn: 9 known and 5 outlier classes need 14"),
        (["--queries", 90], r"with 0% unknowns \(180 \+ 0 queries .* class 0 has 178 items, .* give fewer --queries"),
        (["--shots", "1,150"], "150-shot tasks with 0% unknowns"),
        (["--against", "knn"], "share has comparisons of its own: leave --against out"),
        (["--paper"], "leave --paper out"),
    ],
)  # fmt: skip
def test_what_cannot_be_run_is_refused_in_a_sentence(options, sentence, here, handful):
    done = handful(*QUICK, *options, "-o", "out")
    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith("handful: ")
    assert re.search(sentence, done.stderr), done.stderr
    assert not (here / "out").exists()


@pytest.mark.parametrize(
    ("name", "shots", "sentence"),
    [
        ("share", "1,0", "at least 1"),
        ("share", "a few", "at least 1"),
        ("balanced", "1,5", "only share runs at several"),
    ],
)
def test_shots_that_are_none_are_refused(name, shots, sentence, here, handful):
    done = handful("bench", name, "--features", "small.npz", "--shots", shots, "-o", "out")
    assert done.returncode == 2
    assert sentence in " ".join(done.stderr.replace("│", " ").split())
    assert not (here / "out").exists()


def test_fewer_classes_and_queries_fit_a_smaller_set(tmp_path):
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(6), (20, 25, 30, 22, 40, 21))  # uneven
    small = FeatureTable(3 * np.eye(8)[labels] + rng.normal(size=(len(labels), 8)), labels, name="small")
    protocol = Protocol(ways=4, outlier_ways=2, queries=6)
    found = perform("share", small, output=tmp_path, methods="knn", shots=(1,), protocol=protocol, tasks=3)
    shares = sorted({r["share"] for r in records(found)})
    assert shares == pytest.approx([0, 6 / 38, 1 / 3, 18 / 34, 2 / 3, 30 / 38])


# Kept, and the same however it was run


def test_other_figures_of_the_same_tasks_have_a_place_of_their_own(embedded, tmp_path):
    """So that neither of two benchmarks in one folder undoes what the other has kept."""
    of = share.benchmark(Protocol(), [Contender("kNN", "knn", {})])
    plain = replace(of, figures=FIGURES)
    first = run(of, embedded, None, Store(tmp_path), tasks=3)
    second = run(plain, embedded, None, Store(tmp_path), tasks=3)
    assert len(list(tmp_path.glob("blocks/*"))) == 2 * 6
    assert tuple(first["17%", "kNN"]) == MEASURED
    for name in FIGURES:
        np.testing.assert_array_equal(second["17%", "kNN"][name], first["17%", "kNN"][name])


def tables(folder):
    return {path.name: path.read_bytes() for path in folder.glob("share.*") if path.suffix != ".png"}


def test_killed_a_run_goes_on_and_jobs_change_nothing(here):
    size = ("--tasks", 104, "--shots", 1, "--ways", 3, "--outlier-ways", 3, "--queries", 6, "--methods", "ostim,knn")
    command = ("bench", "share", "--features", "small.npz", *size)
    process = start(*command, "-o", "killed", "--jobs", 2, cwd=here)
    while process.poll() is None and len(list((here / "killed").glob("blocks/*/*.parquet"))) < 5:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    finish(process)
    before = {path: path.stat().st_mtime_ns for path in (here / "killed").glob("blocks/*/*.parquet")}
    assert 0 < len(before) < 6 * 5 * 2
    assert not tables(here / "killed")
    assert finish(start(*command, "-o", "killed", "--jobs", 2, cwd=here)).returncode == 0
    assert finish(start(*command, "-o", "whole", "--jobs", 1, cwd=here)).returncode == 0
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert tables(here / "killed") == tables(here / "whole")
    assert len(tables(here / "whole")) == 4


# The picture, and real features


def test_the_picture_has_the_estimates_and_a_panel_for_each_number_of_shots(found):
    pytest.importorskip("matplotlib")
    from handful.bench import plots

    left, *panels = plots.shares(found.results).axes
    assert [axes.get_title() for axes in panels] == ["5-way 1-shot", "5-way 5-shot"]
    for of, line in zip(found.results, left.lines[1::3], strict=True):  # after the diagonal; each with two caps
        means = [100 * s + of[c, AUTO]["share_error"].mean() for s, c in zip(np.arange(6) / 6, SHARES, strict=True)]
        np.testing.assert_allclose(line.get_ydata(), means)
    for of, axes in zip(found.results, panels, strict=True):
        drawn = {line.get_label(): line.get_data() for line in axes.lines}
        assert set(drawn) == set(of.benchmark.contenders)
        np.testing.assert_allclose(drawn[TOLD][1], [of[c, TOLD]["auroc"].mean() for c in SHARES[1:]])
    assert found.files["png"].read_bytes()[:4] == b"\x89PNG"


def test_it_runs_on_features_of_photographs(shared, tmp_path):
    features = read(shared / "data" / "tiny_imagenet_val.npz")
    found = perform("share", features, output=tmp_path, methods="simpleshot", shots=(5,), tasks=20)
    of = found.results[0]
    for column in SHARES[1:]:
        assert of[column, TOLD]["auroc"].mean() > 70
    assert of["0%", TOLD]["false_unknown"].mean() < of["0%", HALF]["false_unknown"].mean() - 10
    assert parse_methods("simpleshot")[0].row in of.benchmark.contenders
