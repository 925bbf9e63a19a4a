"""The benchmark: what stands in its tables is what draw, solve and the metrics give, task by task."""

import csv
import io
import json
import re
import shutil
import subprocess
import sys
from textwrap import dedent

import numpy as np
import pytest
from bases import base_for
from sklearn.metrics import f1_score, recall_score

from handful.bench import BENCHMARKS, Benchmark, Cell, differences, parse_methods, run, table, tables
from handful.bench.report import perform
from handful.bench.settings import FIGURES, Contender
from handful.bench.store import describe, fingerprint, key_of
from handful.bench.tables import write_csv, write_json, write_markdown
from handful.core.metrics import figures
from handful.features import FeatureTable, Protocol, digits, draw, write
from handful.solving import solve

pytest.importorskip("pyarrow")


def make(name, methods, protocol=None):
    return BENCHMARKS[name][0](protocol or Protocol(), parse_methods(methods) if methods else ())


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
    return run(of, embedded, None, tmp_path_factory.mktemp("store"), seeds=2, tasks=105)


def test_every_method_sees_the_tasks_that_draw_gives_and_what_the_paper_told_it(imbalanced):
    """One task alone, by hand: neither its block nor the other methods matter."""
    for cell in imbalanced.benchmark.cells:
        for seed, number in ((1, 99), (0, 104)):
            alone = draw(*digits(), cell.protocol, seed=seed, tasks=[number])
            found = solve(alone.task, method=cell.contender.method, threads=1, **cell.contender.parameters)
            by_hand = figures(found.probabilities, found.outlier_scores, alone.truth)
            for name in FIGURES:
                assert imbalanced[cell.column, cell.row][name][seed * 105 + number] == pytest.approx(
                    100 * by_hand[name][0], abs=0.02
                ), (cell.row, cell.column, name)
    told = {(c.column, c.row): c.contender.parameters for c in imbalanced.benchmark.cells}
    assert [told[column, "EOL"]["b"] for column in ("25 + 5", "15 + 15", "5 + 25")] == [0.3, 0.5, 0.7]
    assert told["25 + 5", "kNN distance"] == {}
    assert [t.column for t in tables(imbalanced, "eol")] == 2 * ["mean", "25 + 5", "15 + 15", "5 + 25"]
    assert [t.against for t in tables(imbalanced, "eol")] == 4 * [None] + 4 * ["EOL"]


def test_a_method_that_estimates_the_share_is_told_nothing():
    rows = [Contender("Auto", "auto", {}), Contender("Pair", "simpleshot+auto", {})]
    rows += [Contender(name, name, {"outlier_share": "auto"}) for name in ("eol", "kdo")]
    for make_one, _ in (BENCHMARKS["balanced"], BENCHMARKS["imbalanced"]):
        given = [cell.contender for cell in make_one(Protocol(), rows).cells]
        assert given == rows * (len(given) // len(rows))


def test_other_figures_are_measured_as_scikit_learn_does(embedded, tmp_path):
    """Decisions and the error of the share, for a benchmark of one's own; they have a place of their own in a store."""
    names = ("balanced_accuracy", "unknown_f1", "false_unknown", "share_error", "covered")
    plain = make("balanced", "knn")
    cells = (Cell("half", Protocol(), Contender("kdo", "kdo", {})), *plain.cells)
    of = Benchmark("mine", "Mine", cells, names)
    found = run(of, embedded, None, tmp_path, tasks=3)
    run(plain, embedded, None, tmp_path, tasks=3)
    assert len(blocks(tmp_path)) == 3
    for cell in of.cells:
        alone = draw(*digits(), cell.protocol, tasks=3)
        told = {} if cell.row == "kdo" else {"outlier_share": 0.5}
        result = solve(alone.task, method=cell.contender.method, threads=1, **told)
        measured = found[cell.column, cell.row]
        for i, (truth, outlier) in enumerate(zip(alone.truth, alone.outlier, strict=True)):
            decided = np.where(result.unknown[i], -1, np.asarray(result.probabilities)[i].argmax(axis=-1))
            expected = {
                "balanced_accuracy": recall_score(truth, decided, average="macro"),
                "unknown_f1": f1_score(outlier, result.unknown[i]),
                "false_unknown": result.unknown[i][~outlier].mean(),
                "share_error": result.outlier_share[i] - outlier.mean(),
            }
            for name, value in expected.items():
                assert measured[name][i] == pytest.approx(100 * value, abs=0.7), (cell.row, name)
        assert np.isnan(measured["covered"]).all() == (cell.row != "kdo")  # only an estimate has an interval


def test_means_and_half_widths_are_those_of_all_tasks_and_ratios_are_averaged_task_by_task(imbalanced):
    row, values = table(imbalanced, "25 + 5").rows[1], imbalanced["25 + 5", "OSLO"]["aupr"]
    assert values.shape == (210,)
    assert row.means["aupr"] == pytest.approx(values.mean())
    assert row.half_widths["aupr"] == pytest.approx(1.96 * values.std(ddof=1) / np.sqrt(210))
    row = table(imbalanced).rows[0]
    of = [imbalanced[column, "EOL"]["auroc"] for column in ("25 + 5", "15 + 15", "5 + 25")]
    by_task = [sum(three) / 3 for three in zip(*of, strict=True)]
    assert row.means["auroc"] == pytest.approx(np.mean(by_task))
    assert row.half_widths["auroc"] == pytest.approx(1.96 * np.std(by_task, ddof=1) / np.sqrt(210))


def test_differences_are_paired(imbalanced):
    found = differences(imbalanced, "knn", "5 + 25")
    assert [row.name for row in found.rows] == ["EOL", "OSLO", "PROSER"]
    apart = imbalanced["5 + 25", "EOL"]["prec@0.9"] - imbalanced["5 + 25", "kNN distance"]["prec@0.9"]
    assert found.rows[0].means["prec@0.9"] == pytest.approx(apart.mean())
    assert found.rows[0].half_widths["prec@0.9"] == pytest.approx(1.96 * apart.std(ddof=1) / np.sqrt(len(apart)))
    assert "**" not in found.to_markdown()  # no difference is the best


def test_jobs_change_nothing(embedded, tmp_path):
    """For a method of each kind, and those that draw random numbers or learn from a base."""
    methods = "eol,knn,simpleshot+iforest,iforest:trees=10,proser,finetune,feat,laplacianshot"
    base, made = base_for(embedded.dimension), []
    for jobs in (1, 2):
        of = make("balanced", methods)
        found = tables(run(of, embedded, base, tmp_path / str(jobs), tasks=2, seeds=2, jobs=jobs), "eol")
        made.append([write_csv(found), write_json(found, {}), write_markdown(found, "")])
    assert made[0] == made[1]


# What is kept


def test_more_tasks_seeds_and_methods_use_the_blocks_that_are_there(embedded, tmp_path):
    def bench(methods, tasks, seeds):
        return run(make("balanced", methods), embedded, None, tmp_path, tasks=tasks, seeds=seeds)

    first = bench("knn,simpleshot", 200, 1)
    before = blocks(tmp_path)
    assert len(before) == 4
    second = bench("knn,bdcspn,simpleshot", 230, 2)
    after = blocks(tmp_path)
    assert len(after) == 3 * 2 * 3
    assert {path: after[path] for path in before} == before
    for row in ("kNN distance", "SimpleShot"):
        np.testing.assert_array_equal(second["15 + 15", row]["auroc"][:200], first["15 + 15", row]["auroc"])


def test_a_damaged_block_is_made_again(embedded, tmp_path):
    of = make("balanced", "knn")
    whole = run(of, embedded, None, tmp_path, tasks=120)["15 + 15", "kNN distance"]["auroc"]
    path, other = sorted(blocks(tmp_path))
    content = path.read_bytes()
    for damaged in (b"", content[:-1], other.read_bytes()):  # the last one has other tasks
        path.write_bytes(damaged)
        again = run(of, embedded, None, tmp_path, tasks=120)
        np.testing.assert_array_equal(again["15 + 15", "kNN distance"]["auroc"], whole)
        assert path.read_bytes() == content


def test_whatever_decides_a_figure_decides_the_configuration(embedded, tmp_path):
    def key(method="knn", protocol=None, features=embedded, base=None):
        cell = make("balanced", method, protocol).cells[0]
        return key_of(describe(cell, fingerprint(features), fingerprint(base) if base else None))

    shifted = embedded.features.copy()
    shifted[17, 3] += 1e-3
    swapped = embedded.labels.copy()
    swapped[[0, 1]] = swapped[[1, 0]]
    others = [key(method) for method in ("knn:k=2", "knn:k=3", "simpleshot+knn", "simpleshot")]
    for changes in ({"shots": 1}, {"broad": True}, {"unequal_shots": 2}, {"unequal_queries": 2}):
        others.append(key(protocol=Protocol(**changes)))
    for features, labels in (
        (shifted, embedded.labels),
        (embedded.features, swapped),
        (embedded.features.astype(np.float64), embedded.labels),
        (embedded.features, embedded.labels.astype(str)),  # "10" is before "2": other tasks
    ):
        others.append(key(features=FeatureTable(features, labels)))
    others.append(key(base=embedded))
    assert len({key(), *others}) == 1 + len(others)
    assert key(features=FeatureTable(embedded.features, embedded.labels, name="another name")) == key()


# A method of one's own


SCRIPT = """
    import json
    import sys

    import numpy as np
    from handful import register
    from handful.methods import Info, Solution
    from handful.bench import BENCHMARKS, parse_methods, run, table
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
        if scale < 0:
            raise Odd("scale", "it is negative")
        away = scale * distances(query, support)  # [B, Q, S]
        nearest = np.take_along_axis(labels, away.argmin(axis=-1), axis=1)
        return Solution(np.eye(labels.max() + 1)[nearest], away.min(axis=-1))


    labels = np.repeat(np.arange(10), 20)
    features = 4 * np.eye(10)[labels] + np.random.default_rng(0).normal(size=(200, 10))
    balanced = BENCHMARKS["balanced"][0](Protocol(), parse_methods("near, knn"))
    found = run(balanced, FeatureTable(features, labels), None, output, tasks=320, jobs=jobs)
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


def run_script(folder, jobs, scale=1.0):
    command = [sys.executable, "script.py", "out", str(jobs), str(scale)]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=60)


def test_a_method_of_a_script_runs_in_workers_without_a_guard_and_again_when_its_code_changes(script):
    done = run_script(script, jobs=2)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) == {"solving"}
    assert not done.stderr
    records = strict((script / "records.json").read_text())
    rows = {(r["method"], r["figure"]): r["mean"] for r in records}
    assert 60 < rows["Nearest", "auroc"] < 99
    before = blocks(script / "out")
    assert len(before) == 2 * 4
    assert run_script(script, jobs=1).stdout == ""  # nothing is solved
    assert blocks(script / "out") == before
    with (script / "helper.py").open("a") as file:
        file.write("# changed\n")
    assert "solving" in run_script(script, jobs=1).stdout
    assert len(blocks(script / "out")) == 3 * 4  # not kNN's
    assert {path: time for path, time in blocks(script / "out").items() if path in before} == before
    shutil.rmtree(script / "out")
    done = run_script(script, jobs=2, scale=-1)  # an error that cannot come through a pipe as it is
    assert done.returncode == 1
    assert any(line.endswith("Odd: scale is odd: it is negative") for line in done.stderr.splitlines())
    assert not list(script.rglob("*.tmp"))


def test_a_method_of_an_interactive_session_is_never_taken_for_another(tmp_path):
    """There is no file to compare: what it was yesterday, nobody knows."""
    lines = dedent(SCRIPT).replace("from helper import distances", dedent(HELPER))
    for _ in range(2):
        command = [sys.executable, "-", "out", "2", "1"]
        done = subprocess.run(command, input=lines, capture_output=True, text=True, cwd=tmp_path, timeout=60)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("solving") == 4


# The files


@pytest.fixture
def written(imbalanced, tmp_path):
    """The tables of stored figures, and those of the paper beside."""
    found = tables(imbalanced, "knn", with_paper=True)
    return {"csv": write_csv(found), "json": write_json(found, {}), "md": write_markdown(found, ""),
            "tex": "\n".join(t.to_latex() for t in found)}  # fmt: skip


def test_the_command_writes_what_it_prints(handful, embedded, tmp_path):
    write(embedded, tmp_path / "set.npz")
    options = ["--methods", "eol, simpleshot+knn, knn:k=5", "--against", "knn:k=5", "--tasks", 3, "--jobs", 1]
    done = handful("bench", "imbalanced", "--features", "set.npz", *options, "--paper", "--json")
    assert done.returncode == 0, done.stderr
    about = strict(done.stdout)
    assert about == strict((tmp_path / "handful-bench/imbalanced.json").read_text())
    assert (about["benchmark"], about["features"], about["tasks"], about["seeds"]) == ("imbalanced", "set", 3, 1)
    assert "tasks" in done.stderr
    begin = "handful bench imbalanced --features set.npz --methods 'eol, simpleshot+knn, knn:k=5'"
    assert about["command"].startswith(begin)
    assert {r["method"] for r in about["figures"]} == {"EOL", "SimpleShot + kNN distance", "kNN distance (k=5)"}
    assert {r["tasks"] for r in about["figures"]} == {"mean", "25 + 5", "15 + 15", "5 + 25"}


def test_csv_says_what_json_says_and_the_papers_figures_stand_where_it_has_them(written):
    rows = list(csv.DictReader(io.StringIO(written["csv"])))
    records = strict(written["json"])["figures"]
    assert len(rows) == len(records) == 4 * (4 + 3) * 4
    for row, record in zip(rows, records, strict=True):
        assert row.keys() == record.keys()
        for name, value in record.items():
            shown = "" if value is None else value
            assert row[name] == shown or float(row[name]) == shown
    of_eol = [r["paper"] for r in records if r["method"] == "EOL" and r["tasks"] == "mean" and not r["against"]]
    assert all(40 < value < 100 for value in of_eol)
    assert all(r["paper"] is None for r in records if r["tasks"] != "mean" or r["against"])


def test_the_best_is_bold_and_every_line_of_latex_has_a_cell_for_each_column(written):
    best = {}
    for record in strict(written["json"])["figures"]:
        if record["against"] is None:
            best.setdefault((record["tasks"], record["figure"]), []).append(record)
    markdown, latex = written["md"], written["tex"]
    top = [max(records, key=lambda r: r["mean"]) for records in best.values()]
    assert markdown.count("**") == 2 * len(top) == 2 * 16
    assert latex.count(r"\textbf{") == 16
    for record in top:
        assert f"**{record['mean']:.1f} ± {record['half_width_95']:.1f}**" in markdown
        assert rf"\textbf{{{record['mean']:.1f}$\pm${record['half_width_95']:.1f}}}" in latex
    parts = latex.split(r"\begin{tabular}")[1:]
    assert len(parts) == 8
    for part in parts:
        columns = re.match(r"\{(l+r+)\}", part).group(1)
        lines = [line for line in part.splitlines() if line.endswith(r"\\")]
        assert len(lines) in (4, 5)
        assert {len(re.findall(r"(?<!\\)&", line)) for line in lines} == {len(columns) - 1}


def test_a_single_task_has_no_half_width_and_leaves_claims_open(embedded, tmp_path):
    found = perform("claims", embedded, output=tmp_path, methods="knn,pca,eol,bdcspn", tasks=1)
    compared = [c for c in strict(found.files["json"].read_text())["claims"] if c["comparisons"]]
    assert {claim["holds"] for claim in compared} == {None}
    assert {one["half_width_95"] for claim in compared for one in claim["comparisons"]} == {None}
    found = perform("balanced", embedded, output=tmp_path, methods="knn,eol", tasks=1, against="knn")
    assert all(record["half_width_95"] is None for record in strict(found.files["json"].read_text())["figures"])
    assert "nan" not in found.files["md"].read_text()


def test_a_benchmark_takes_unequal_and_broad_tasks_and_another_number_of_unknown_queries(embedded, tmp_path):
    protocol = Protocol(ways=3, shots=2, broad=True, unequal_shots=1.0, unequal_queries=1.0)
    results = run(make("balanced", "knn", protocol), embedded, embedded, tmp_path, tasks=5)
    alone = draw(*digits(), protocol, seed=0, tasks=[3])
    result = solve(alone.task, method="knn", base_mean=embedded.mean)
    by_hand = figures(result.probabilities, result.outlier_scores, alone.truth)["auroc"][0]
    assert results["15 + 15", "kNN distance"]["auroc"][3] == pytest.approx(100 * by_hand)
    few = make("balanced", "knn,eol", Protocol(outlier_queries=4))
    assert few.columns == ["15 + 4"]
    assert few.contenders["EOL"].parameters["b"] == 0.3  # a fifth is unknown
