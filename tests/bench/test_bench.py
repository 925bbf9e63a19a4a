"""The benchmark: what stands in its tables is what draw, solve and the metrics give, task by task."""

import csv
import io
import json
import os
import re
import subprocess
import sys
from textwrap import dedent

import numpy as np
import pytest
from bases import base_for
from hypothesis import given
from hypothesis import strategies as st

from handful.bench import BENCHMARKS, Results, Store, claims, differences, parse_methods, run, table, tables
from handful.bench import processes as workers
from handful.bench.claims import Comparison, Verdict
from handful.bench.report import perform
from handful.bench.runner import FIGURES
from handful.bench.settings import GRID, best_b
from handful.bench.store import Block, code_of, describe, fingerprint, key_of
from handful.bench.tables import write_csv, write_json, write_markdown
from handful.core.metrics import figures
from handful.features import FeatureTable, Protocol, digits, draw, write
from handful.solving import list_methods, solve_task

pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def embedded():
    return FeatureTable(*digits(), name="digits")


def make(name, methods, protocol=None):
    return BENCHMARKS[name][0](protocol or Protocol(), parse_methods(methods) if methods else ())


def command_line(*arguments, cwd):
    command = [sys.executable, "-m", "handful", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=120)


def blocks(folder):
    return {path: path.stat().st_mtime_ns for path in folder.glob("blocks/*/*.parquet")}


def strict(text):
    """JSON as the standard has it: no NaN."""
    return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


# The figures


@pytest.fixture(scope="module")
def imbalanced(embedded, tmp_path_factory):
    """Two seeds of 105 tasks of three classes: a whole block and a part of one each."""
    of = make("imbalanced", "eol,oslo,knn,proser", Protocol(ways=3, outlier_ways=3))
    return run(of, embedded, None, Store(tmp_path_factory.mktemp("store")), seeds=2, tasks=105)


def test_every_method_sees_the_tasks_that_draw_gives(imbalanced):
    """One task alone, by hand: neither its block nor the other methods matter."""
    for cell in imbalanced.benchmark.cells:
        for seed, number in ((0, 7), (1, 99), (1, 100), (0, 104)):
            alone = draw(*digits(), cell.protocol, seed=seed, tasks=[number])
            found = solve_task(alone.task, method=cell.contender.method, threads=1, **cell.contender.parameters)
            by_hand = figures(found.probabilities, found.outlier_scores, alone.truth)
            for name in FIGURES:
                assert imbalanced[cell.column, cell.row][name][seed * 105 + number] == pytest.approx(
                    100 * by_hand[name][0], abs=0.02
                ), (cell.row, cell.column, name)


def test_methods_are_told_what_the_paper_told_them(imbalanced):
    told = {(c.column, c.row): c.contender.parameters for c in imbalanced.benchmark.cells}
    assert [told[column, "EOL"]["b"] for column in ("25 + 5", "15 + 15", "5 + 25")] == [0.3, 0.5, 0.7]
    assert told["25 + 5", "kNN distance"] == {}


def test_a_mean_and_its_half_width_are_those_of_all_tasks(imbalanced):
    row = table(imbalanced, "25 + 5").rows[1]
    values = imbalanced["25 + 5", "OSLO"]["aupr"]
    assert values.shape == (210,)
    assert row.means["aupr"] == pytest.approx(values.mean())
    assert row.half_widths["aupr"] == pytest.approx(1.96 * values.std(ddof=1) / np.sqrt(210))


def test_the_mean_over_ratios_is_taken_task_by_task(imbalanced):
    row = table(imbalanced).rows[0]
    of = [imbalanced[column, "EOL"]["auroc"] for column in ("25 + 5", "15 + 15", "5 + 25")]
    by_task = [sum(three) / 3 for three in zip(*of, strict=True)]
    assert row.means["auroc"] == pytest.approx(np.mean(by_task))
    assert row.half_widths["auroc"] == pytest.approx(1.96 * np.std(by_task, ddof=1) / np.sqrt(210))
    pooled = 1.96 * np.std(of, ddof=1) / np.sqrt(3 * 210)
    assert abs(row.half_widths["auroc"] - pooled) > 0.01


def test_a_task_has_the_same_classes_at_every_ratio(imbalanced):
    first, *others = (
        draw(*digits(), cell.protocol, seed=1, tasks=[5]).task.classes
        for cell in imbalanced.benchmark.cells
        if cell.row == "EOL"
    )
    for classes in others:
        np.testing.assert_array_equal(classes, first)


def test_differences_are_paired(imbalanced):
    found = differences(imbalanced, "knn", "5 + 25")
    assert [row.name for row in found.rows] == ["EOL", "OSLO", "PROSER"]
    apart = imbalanced["5 + 25", "EOL"]["prec@0.9"] - imbalanced["5 + 25", "kNN distance"]["prec@0.9"]
    assert found.rows[0].means["prec@0.9"] == pytest.approx(apart.mean())
    assert found.rows[0].half_widths["prec@0.9"] == pytest.approx(1.96 * apart.std(ddof=1) / np.sqrt(len(apart)))
    assert "**" not in found.to_markdown()  # no difference is the best
    assert re.search(r"\| [+-]\d+\.\d ± ", found.to_markdown())


def test_the_other_of_a_difference_is_named_by_its_row_its_method_or_as_it_was_given(imbalanced):
    of = make("balanced", "knn:k=1,knn:k=3,eol")
    assert of.row("eol") == of.row("EOL") == "EOL"
    assert of.row("knn:k=3") == "kNN distance (k=3)"
    with pytest.raises(ValueError, match="'knn' names several of the rows"):
        of.row("knn")
    with pytest.raises(ValueError, match="'oslo' names none of the rows"):
        of.row("oslo")


def test_jobs_change_nothing(embedded, tmp_path):
    """For every method, those that draw random numbers too."""
    methods = ",".join(list_methods()).replace("iforest", "iforest:trees=10")
    base, made = base_for(embedded.dimension), []
    for jobs in (1, 2):
        store = Store(tmp_path / str(jobs))
        found = tables(run(make("balanced", methods), embedded, base, store, tasks=3, seeds=2, jobs=jobs), "eol")
        made.append(
            [write_csv(found), write_json(found, {}), write_markdown(found, ""), *(t.to_latex() for t in found)]
        )
        assert len(blocks(tmp_path / str(jobs))) == 2 * len(list_methods())
    assert made[0] == made[1]


# What is kept


def test_more_tasks_seeds_and_methods_use_the_blocks_that_are_there(embedded, tmp_path):
    def bench(methods, tasks, seeds):
        return run(make("balanced", methods), embedded, None, Store(tmp_path), tasks=tasks, seeds=seeds)

    first = bench("knn,simpleshot", 200, 1)
    before = blocks(tmp_path)
    assert len(before) == 4
    second = bench("knn,bdcspn,simpleshot", 230, 2)
    after = blocks(tmp_path)
    assert len(after) == 3 * 2 * 3
    assert {path: after[path] for path in before} == before
    for row in ("kNN distance", "SimpleShot"):
        for name in FIGURES:
            np.testing.assert_array_equal(second["15 + 15", row][name][:200], first["15 + 15", row][name])
    bench("knn", 200, 1)
    assert blocks(tmp_path) == after


def test_a_damaged_block_is_made_again(embedded, tmp_path):
    of = make("balanced", "knn")
    whole = run(of, embedded, None, Store(tmp_path), tasks=120)
    path, other = sorted(blocks(tmp_path))
    untouched, content = other.stat().st_mtime_ns, path.read_bytes()
    for size in (0, 3, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:size])
        again = run(of, embedded, None, Store(tmp_path), tasks=120)
        np.testing.assert_array_equal(
            again["15 + 15", "kNN distance"]["auroc"], whole["15 + 15", "kNN distance"]["auroc"]
        )
        assert path.read_bytes() == content
    other.rename(path)  # a whole block of other tasks
    assert Store(tmp_path).read(path.parent.name, Block(0, 0, 100), FIGURES) is None
    run(of, embedded, None, Store(tmp_path), tasks=120)
    assert path.read_bytes() == content
    assert other.stat().st_mtime_ns > untouched


def test_whatever_decides_a_figure_decides_the_configuration(embedded, tmp_path):
    def key(method="knn", protocol=None, features=embedded, base=None):
        cell = make("balanced", method, protocol).cells[0]
        return key_of(describe(cell, fingerprint(features), fingerprint(base) if base else None))

    shifted = embedded.features.copy()
    shifted[17, 3] += 1e-3
    swapped = embedded.labels.copy()
    swapped[[0, 1]] = swapped[[1, 0]]
    others = [
        key("knn:k=2"),
        key("knn:k=3"),
        key("simpleshot+knn"),
        key("simpleshot"),
        key(protocol=Protocol(shots=1)),
        key(protocol=Protocol(broad=True)),
        key(protocol=Protocol(unequal_shots=2)),
        key(protocol=Protocol(unequal_queries=2)),
        key(features=FeatureTable(shifted, embedded.labels)),
        key(features=FeatureTable(embedded.features, swapped)),
        key(features=FeatureTable(embedded.features.astype(np.float64), embedded.labels)),
        key(base=embedded),
    ]
    assert len({key(), *others}) == 1 + len(others)
    assert key(features=FeatureTable(embedded.features, embedded.labels, name="another name")) == key()


def test_numbers_and_their_names_are_different_labels():
    """They sort differently, 10 after 9 and "10" before "2", so other tasks are drawn."""
    x = np.random.default_rng(0).normal(size=(360, 3)).astype(np.float32)
    numbers = np.repeat(np.arange(12), 30)
    sets = FeatureTable(x, numbers), FeatureTable(x, numbers.astype(str))
    drawn = [draw(s.features, s.labels, Protocol(), tasks=3).query_items for s in sets]
    assert (drawn[0] != drawn[1]).any()
    assert fingerprint(sets[0]) != fingerprint(sets[1])


def test_the_configuration_does_not_depend_on_what_is_loaded():
    """In a fresh process, alone and after everything was imported."""
    script = """
        from handful.bench.store import code_of
        print(*(code_of(name) for name in ("knn", "eol", "simpleshot+iforest")))
        import handful.bench.report, handful.cli, handful.estimators.model_reader, handful.solving.solver
        print(*(code_of(name) for name in ("knn", "eol", "simpleshot+iforest")))
        """
    done = subprocess.run([sys.executable, "-c", dedent(script)], capture_output=True, text=True, timeout=60)
    first, second = done.stdout.splitlines()
    assert first == second == " ".join(code_of(name) for name in ("knn", "eol", "simpleshot+iforest"))
    assert len(set(first.split())) == 3


# A method of one's own


SCRIPT = """
    import json
    import sys
    import time

    import numpy as np
    from handful import Info, Solution, register
    from handful.bench import BENCHMARKS, Store, parse_methods, run, table
    from handful.features import FeatureTable, Protocol
    from helper import distances

    output, jobs, scale = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])


    class Odd(ValueError):
        def __init__(self, what, why):
            super().__init__(f"{what} is odd: {why}")


    @register(
        Info(
            "near", title="Nearest", authors="A User", year=2026, setting="detector", preparation=("none",),
            summary="Distance to the nearest example.",
        )
    )
    def near(support, labels, query, *, offset=np.float32(0.5)):
        print("solving")
        if jobs > 1:
            time.sleep(0.7)  # so that others have begun before all is done
        if scale < 0:
            raise Odd("scale", "it is negative")
        away = scale * distances(query, support)  # [B, Q, S]
        nearest = np.take_along_axis(labels, away.argmin(axis=-1), axis=1)
        return Solution(np.eye(labels.max() + 1)[nearest], away.min(axis=-1))


    labels = np.repeat(np.arange(10), 20)
    features = 4 * np.eye(10)[labels] + np.random.default_rng(0).normal(size=(200, 10))
    balanced = BENCHMARKS["balanced"][0](Protocol(), parse_methods("near, knn"))
    found = run(balanced, FeatureTable(features, labels), None, Store(output), tasks=320, jobs=jobs)
    with open("records.json", "w") as file:
        json.dump(table(found, "15 + 15").records(), file)
    """
HELPER = """
    import numpy as np

    def distances(a, b):
        return np.abs(a[:, :, None] - b[:, None]).sum(axis=-1)
    """


@pytest.fixture
def script(tmp_path):
    (tmp_path / "script.py").write_text(dedent(SCRIPT))
    (tmp_path / "helper.py").write_text(dedent(HELPER))
    return tmp_path


def run_script(folder, jobs, scale=1.0, how=("script.py",)):
    command = [sys.executable, *how, "out", str(jobs), str(scale)]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=60)


@pytest.mark.parametrize("how", [("script.py",), ("-m", "script")])
def test_a_method_of_a_script_runs_in_workers_without_a_guard(script, how):
    done = run_script(script, jobs=2, how=how)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) <= {"solving"}  # its own words
    assert set(done.stderr.split()) == {"solving"}  # a worker's words go to stderr
    records = strict((script / "records.json").read_text())
    rows = {(r["method"], r["figure"]): r["mean"] for r in records}
    assert 60 < rows["Nearest", "auroc"] < 99
    assert len(blocks(script / "out")) == 2 * 4


def test_changed_code_is_run_again_and_the_same_code_is_not(script):
    assert run_script(script, jobs=1).returncode == 0
    before = blocks(script / "out")
    assert len(before) == 2 * 4
    assert run_script(script, jobs=1).stdout == ""  # nothing is solved
    assert blocks(script / "out") == before
    with (script / "helper.py").open("a") as file:
        file.write("# changed\n")
    assert "solving" in run_script(script, jobs=1).stdout
    assert len(blocks(script / "out")) == 3 * 4  # not kNN's
    assert {path: time for path, time in blocks(script / "out").items() if path in before} == before


def test_an_error_of_a_method_in_a_worker_is_raised_where_it_was_called(script):
    """Even one that cannot come through a pipe as it is."""
    done = run_script(script, jobs=2, scale=-1)
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith("Odd: scale is odd: it is negative")
    assert not list(script.rglob("*.tmp"))


def run_typed(lines, folder, jobs):
    command = [sys.executable, "-", "out", str(jobs), "1"]
    return subprocess.run(command, input=lines, capture_output=True, text=True, cwd=folder, timeout=60)


def test_a_method_of_an_interactive_session_is_never_taken_for_another(tmp_path):
    """There is no file to compare: what it was yesterday, nobody knows."""
    lines = dedent(SCRIPT).replace("from helper import distances", dedent(HELPER))
    runs = []
    for _ in range(2):
        done = run_typed(lines, tmp_path, jobs=1)
        assert done.returncode == 0, done.stderr
        runs.append(done.stdout.count("solving"))
    assert runs[0] == runs[1] > 0
    done = run_typed(lines, tmp_path, jobs=2)
    assert "registered in an interactive session can only be run with jobs=1" in done.stderr


# The files


@pytest.fixture(scope="module")
def printed(embedded, tmp_path_factory):
    folder = tmp_path_factory.mktemp("printed")
    write(embedded, folder / "set.npz")
    options = ["--methods", "eol, simpleshot+knn, knn:k=5", "--against", "knn:k=5", "--tasks", 30, "--jobs", 2]
    done = command_line("bench", "imbalanced", "--features", "set.npz", *options, "--paper", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    return done, folder / "handful-bench"


def test_json_is_one_document_on_stdout_and_progress_is_elsewhere(printed):
    done, folder = printed
    about = strict(done.stdout)
    assert about == strict((folder / "imbalanced.json").read_text())
    assert (about["benchmark"], about["features"], about["tasks"], about["seeds"]) == ("imbalanced", "set", 30, 1)
    assert "tasks" in done.stderr
    assert about["command"].startswith(
        "handful bench imbalanced --features set.npz --methods 'eol, simpleshot+knn, knn:k=5'"
    )
    rows = {record["method"] for record in about["figures"]}
    assert rows == {"EOL", "SimpleShot + kNN distance", "kNN distance (k=5)"}
    assert {record["tasks"] for record in about["figures"]} == {"mean", "25 + 5", "15 + 15", "5 + 25"}
    for record in about["figures"]:
        assert 0 <= record["half_width_95"] < 20
        assert not any("half_width" in name and name != "half_width_95" for name in record)


def test_csv_says_what_json_says(printed):
    _, folder = printed
    rows = list(csv.DictReader(io.StringIO((folder / "imbalanced.csv").read_text())))
    records = strict((folder / "imbalanced.json").read_text())["figures"]
    assert len(rows) == len(records) == 4 * (3 + 2) * 4
    for row, record in zip(rows, records, strict=True):
        assert row.keys() == record.keys()
        for name, value in record.items():
            shown = "" if value is None else value
            assert row[name] == shown or float(row[name]) == shown


def test_the_best_is_bold_in_markdown_and_latex(printed):
    _, folder = printed
    best = {}
    for record in strict((folder / "imbalanced.json").read_text())["figures"]:
        if record["against"] is None:
            best.setdefault((record["tasks"], record["figure"]), []).append(record)
    markdown, latex = ((folder / f"imbalanced.{suffix}").read_text() for suffix in ("md", "tex"))
    top = [max(records, key=lambda r: r["mean"]) for records in best.values()]
    assert markdown.count("**") == 2 * len(top) == 2 * 16
    assert latex.count(r"\textbf{") == 16
    for record in top:
        assert f"**{record['mean']:.1f} ± {record['half_width_95']:.1f}**" in markdown
        assert rf"\textbf{{{record['mean']:.1f}$\pm${record['half_width_95']:.1f}}}" in latex


def test_latex_has_as_many_cells_as_columns_in_every_line(printed):
    _, folder = printed
    parts = (folder / "imbalanced.tex").read_text().split(r"\begin{tabular}")[1:]
    assert len(parts) == 8
    for part in parts:
        columns = re.match(r"\{(l+r+)\}", part).group(1)
        lines = [line for line in part.splitlines() if line.endswith(r"\\")]
        assert len(lines) in (3, 4)
        assert {len(re.findall(r"(?<!\\)&", line)) for line in lines} == {len(columns) - 1}
        assert part.count("{") == part.count("}")
        assert part.rstrip().split("\n%")[0].rstrip().endswith(r"\end{tabular}")
        assert not re.search(r"(?<!\\)%", part.split(r"\end{tabular}")[0])


def test_the_papers_figures_stand_beside_where_it_has_them(printed):
    _, folder = printed
    records = strict((folder / "imbalanced.json").read_text())["figures"]
    beside = {
        r["figure"]: r["paper"] for r in records if r["method"] == "EOL" and r["tasks"] == "mean" and not r["against"]
    }
    assert all(40 < value < 100 for value in beside.values())
    assert all(r["paper"] is None for r in records if r["tasks"] != "mean" or r["against"])


def test_a_single_task_has_no_half_width(embedded, tmp_path):
    found = perform("balanced", embedded, output=tmp_path, methods="knn,eol", tasks=1, against="knn")
    assert all(record["half_width_95"] is None for record in strict(found.files["json"].read_text())["figures"])
    assert "nan" not in found.files["md"].read_text()


def test_methods_of_a_sweep_are_the_lines_beside_it(embedded, tmp_path):
    found = perform("sweep-b", embedded, output=tmp_path, methods="knn", tasks=2)
    assert list(found.results[0].benchmark.contenders) == [*(f"EOL (b={b})" for b in GRID), "kNN distance"]


def test_a_benchmark_takes_unequal_and_broad_tasks(embedded, tmp_path):
    protocol = Protocol(ways=3, shots=2, broad=True, unequal_shots=1.0, unequal_queries=1.0)
    results = run(make("balanced", "knn", protocol), embedded, embedded, Store(tmp_path), tasks=5)
    alone = draw(*digits(), protocol, seed=0, tasks=[3])
    found = solve_task(alone.task, method="knn", base_mean=embedded.mean)
    by_hand = figures(found.probabilities, found.outlier_scores, alone.truth)["auroc"][0]
    assert results["15 + 15", "kNN distance"]["auroc"][3] == pytest.approx(100 * by_hand)


# Claims


def made_up(name, methods, level, tasks=200, noise=0.5):
    """Results whose truth is known: means of `level(column, row, figure)`, and noise that each cell has of its own."""
    rng = np.random.default_rng(0)
    benchmark = make(name, methods)
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


def test_claims_are_open_where_nothing_is_different():
    def flat(column, row, figure):
        return 70

    found = verdicts(flat, flat, flat, flat)
    compared = [verdict for verdict in found.values() if verdict.comparisons]
    assert [verdict.holds for verdict in compared] == [None] * 8
    assert found["eta with delta beats eta alone"].word == "open (0 of 12 comparisons hold, 12 are open)"


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
    near = found["The best b is about 0.3, 0.5 and 0.7 at 20, 50 and 80 % outliers"]
    assert near.holds is False
    assert "AUROC: b = 0.5, 0.5, 0.5" in near.remark
    assert [best_b(share) for share in (0.1, 0.3, 0.5, 0.9)] == [0.3, 0.3, 0.5, 0.7]


@given(
    st.lists(
        st.tuples(st.floats(-5, 5), st.one_of(st.floats(0, 5), st.just(float("nan")))), min_size=1, max_size=5
    )
)  # fmt: skip
def test_the_comparison_that_is_shown_explains_the_verdict(pairs):
    verdict = Verdict("", [Comparison("", difference, half) for difference, half in pairs])
    assert verdict.narrowest.holds is verdict.holds
    intervals = [(d - h, d + h) for d, h in pairs]
    if any(high < 0 for _, high in intervals):
        assert verdict.holds is False
    else:
        assert verdict.holds is (True if all(low > 0 for low, _ in intervals) else None)


def test_claims_from_the_command_line(embedded, tmp_path):
    write(embedded, tmp_path / "set.npz")
    options = ["--features", "set.npz", "--methods", "knn,simpleshot,bdcspn,oslo,eol", "--tasks", 5, "--jobs", 1]
    done = command_line("bench", "claims", *options, "-o", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said = strict((tmp_path / "out" / "claims.json").read_text())
    assert len(said["claims"]) == 11
    shown = (tmp_path / "out" / "claims.md").read_text()
    for claim in said["claims"]:
        assert f"## {claim['statement']}: **{claims.WORDS[claim['holds']]}" in shown
        for compared in claim["comparisons"]:
            assert f"{compared['difference']:+.1f} ± {compared['half_width_95']:.1f}" in shown
    absent = {claim["statement"]: claim for claim in said["claims"]}["kNN is the best of the plain detectors"]
    assert (absent["holds"], absent["remark"]) == (None, "The methods of this statement were not run.")
    assert "claims.md" in done.stdout
    assert not os.path.exists(tmp_path / "out" / "balanced.md")


def test_claims_of_a_single_task_are_open_and_proper_json(embedded, tmp_path):
    found = perform("claims", embedded, output=tmp_path, methods="knn,pca,eol,bdcspn", tasks=1)
    for claim in strict(found.files["json"].read_text())["claims"]:
        if claim["comparisons"]:
            assert claim["holds"] is None
            assert {compared["half_width_95"] for compared in claim["comparisons"]} == {None}


def test_tables_know_all_that_a_benchmark_says(imbalanced):
    assert [t.column for t in tables(imbalanced, "eol")] == 2 * ["mean", "25 + 5", "15 + 15", "5 + 25"]
    assert [t.against for t in tables(imbalanced, "eol")] == 4 * [None] + 4 * ["EOL"]


class Odd(ValueError):
    def __init__(self, what, why):
        super().__init__(f"{what} is odd: {why}")


def test_an_error_that_cannot_come_through_a_pipe_comes_as_words():
    plain, odd = ValueError("k is 0"), Odd("scale", "it is negative")
    assert workers.picklable_error(plain) is plain
    assert str(workers.picklable_error(odd)) == "Odd: scale is odd: it is negative"


def test_balanced_takes_another_number_of_unknown_queries(embedded, tmp_path):
    found = perform("balanced", embedded, output=tmp_path, methods="knn,eol", tasks=3, outlier_queries=4)
    (protocol,) = {cell.protocol for cell in found.results[0].benchmark.cells}
    assert (protocol.queries, protocol.outlier_queries) == (15, 4)
    (eol,) = (cell for cell in found.results[0].benchmark.cells if cell.contender.method == "eol")
    assert eol.contender.parameters["b"] == 0.3  # a fifth is unknown
    assert "15 + 4" in found.tables[0].to_markdown() + found.tables[0].title


def test_numbers_of_unknown_queries_that_would_not_count_are_refused(embedded, tmp_path):
    with pytest.raises(ValueError, match="would not count"):
        perform("balanced", embedded, output=tmp_path, methods="knn", protocol=Protocol(queries=20, outlier_queries=5))
    with pytest.raises(ValueError, match="only balanced"):
        perform("imbalanced", embedded, output=tmp_path, methods="knn", outlier_queries=5)
