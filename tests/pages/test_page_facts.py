"""Pages that are written by hand say what the code does and what was measured."""

import importlib.util
import re
import subprocess
import sys

import numpy as np
import pytest
from doc_pages import DOCS, ROOT

import handful
from handful.backbones import list_backbones
from handful.backbones.catalogue import LEVELS
from handful.backbones.onnx_runtime import DEVICES
from handful.backbones.preprocessing import PRESETS
from handful.core.arrays import one_hot
from handful.features import Protocol, digits, draw

if not DOCS.exists():
    pytest.skip("the documentation is not part of this copy", allow_module_level=True)


def text_of(name):
    return (ROOT / name).read_text("utf-8")


def block_with(name, words):
    """The one Python block of a page that has these words."""
    (block,) = [one for one in re.findall(r"^```python\n(.*?)^```", text_of(name), re.M | re.S) if words in one]
    return block


# ---- README.md


def test_the_python_of_the_readme_labels_the_digits_and_says_how_far_to_trust_it():
    names = {}
    exec(block_with("README.md", "handful"), names)
    codes = draw(*digits(), Protocol(queries=20, outlier_queries=10), tasks=[0]).truth[0]
    result = names["result"]
    truth = np.where(codes >= 0, result.classes[codes], -1)
    assert (result.labels == truth).mean() > 0.75
    assert 0 < result.expected_precision < 1
    low, high = result.outlier_share_interval
    assert low - 0.05 <= np.mean(codes < 0) <= high + 0.05


def test_the_table_of_the_readme_is_what_the_demo_measures():
    from handful.project.demo import run

    figures = run(tasks=200).figures
    lines = re.findall(r"^\| (.*?)\|(.*?)\|(.*?)\|(.*?)\|(.*?)\|$", text_of("README.md"), re.M)
    rows = {row[0].strip(" *"): row[1:] for row in lines}
    for name, method in (("EOL + KDO", "auto"), ("EOL, told", "eol"), ("kNN", "knn"), ("nearest mean", "simpleshot")):
        (row,) = [cells for title, cells in rows.items() if title.startswith(name)]
        measured = [mean for mean, _ in figures[method].values()]
        assert [float(cell.split("±")[0]) for cell in row] == pytest.approx(measured, abs=0.15), name


# ---- docs/reference/backbones.md, docs/how-to


def test_the_tables_of_backbones_name_what_there_is():
    text = text_of("docs/reference/backbones.md")

    def first_column(heading):
        (table,) = re.findall(rf"^\| `?(?:--)?{heading}`? \|.*\n((?:\|.*\n)+)", text, re.M)
        return set(re.findall(r"^\| `(\w+)`", table, re.M))

    assert first_column("backbone") == set(LEVELS)
    assert [one.name for one in list_backbones() if "<" not in one.name and f"`{one.name}`" not in text] == []
    assert first_column("preset") == set(PRESETS)
    assert first_column("device") == set(DEVICES) - {"auto", "cpu"}


# ---- docs/explanation


def rows_of(text):
    """The cells of each row of the tables of a text."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines]


def test_every_figure_of_the_comparison_was_measured_and_it_says_where_handful_loses():
    paths = [ROOT / "benchmarks" / "results" / f"{name}.md" for name in ("peers", "peers_setfit")]
    if not all(path.exists() for path in paths):
        pytest.skip("the results are not part of this copy")
    text, results = text_of("docs/explanation/comparison.md"), "\n".join(path.read_text("utf-8") for path in paths)
    figures = set(re.findall(r"\d+\.\d+", text))
    assert len(figures) > 20
    assert figures <= set(re.findall(r"\d+\.\d+", results))
    for name, *cells in rows_of(text):
        of_method = {cell for row in rows_of(results) if row[0] == name for cell in row[1:]}
        assert not of_method or {cell for cell in cells if re.search(r"\d\.\d", cell)} <= of_method, name
    tools = ("PyOD", "easyfsl", "SetFit", "cleanlab", "FiftyOne", "BERTopic", "semantic-router")
    assert [tool for tool in tools if not re.search(rf"^\*\*{tool}\*\*", text, re.M)] == []
    assert "## Where handful loses" in text


def test_the_curves_and_pictures_of_eol_are_of_the_solver_itself(monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.syspath_prepend(DOCS)  # it imports its neighbours, as a script does
    spec = importlib.util.spec_from_file_location("docs_descent", DOCS / "descent.py")
    descent = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(descent)
    tasks = draw(*digits(), Protocol(queries=15, outlier_queries=15), seed=3, tasks=2).task
    options = {"method": "eol", "outlier_share": 0.5, "backend": "array", "threads": 1}
    losses = handful.solve(tasks, steps=50, history=True, **options).history
    for steps in (0, 6, 50):
        result = handful.solve(tasks, steps=steps, history=True, **options)
        assert np.array_equal(result.history, losses[:, : steps + 1])  # a short run is the beginning of a longer one
        onehot = one_hot(tasks.labels, 5, like=tasks.support)
        terms = [descent.term(result, onehot, weights) for weights in descent.TERMS.values()]
        assert sum(terms) == pytest.approx(losses[:, steps], abs=1e-5)

    start, toy = descent.state(0), descent.toy.toy()
    means = np.stack([toy.points[toy.labels == j].mean(axis=0) for j in range(3)])
    assert np.linalg.norm(start.places - means, axis=1).max() < 0.5  # prototypes begin at the mean of the examples
    assert start.share < descent.state(12).share == pytest.approx(toy.outlier_share, abs=0.05)


# ---- docs/building


def test_files_of_the_walk_through_the_house_exist():
    (walk,) = re.findall(r"^## A walk through the house\n(.*?)^## ", text_of("docs/building/index.md"), re.M | re.S)
    files = re.findall(r"`([a-z_]+/\w+\.(?:py|js))`", walk)
    assert len(files) > 40
    source = ROOT / "src" / "handful"
    places = [ROOT, source, source / "workbench"]
    assert [file for file in files if not any((place / file).is_file() for place in places)] == []


def test_the_method_that_is_walked_through_works_everywhere(tmp_path):
    (tmp_path / "nearest.py").write_text(block_with("docs/building/extend.md", '"nearest"'), "utf-8")
    use = """
import nearest, numpy as np, handful
x = 2 * np.repeat(np.eye(8)[:3], 20, axis=0) + 0.3 * np.random.default_rng(0).normal(size=(60, 8))
support, labels = x[[*range(5), *range(20, 25)]], ["a"] * 5 + ["b"] * 5
for method in ("nearest", "simpleshot+nearest"):
    print(handful.solve(support, labels, x, method=method, outlier_share=1 / 3).labels[[0, 20, 59]].tolist())
model = handful.make_estimator("nearest", temperature=5.0).fit(np.r_[support, x], labels + [None] * 60)
model.save("model.safetensors")
print(handful.load("model.safetensors").predict(x[[0, 20, 59]]).tolist(), handful.describe("nearest").title)
"""
    done = subprocess.run([sys.executable, "-c", use], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("['a', 'b', 'unknown']") == 3
    assert "Nearest example" in done.stdout
