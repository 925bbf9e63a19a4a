"""The README fits on a screen, and what it says is so."""

import re
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "README.md"
if not PAGE.exists():
    pytest.skip("the documentation is not part of this copy", allow_module_level=True)
TEXT = PAGE.read_text("utf-8")


def test_it_fits_on_one_screen():
    assert len(TEXT.splitlines()) <= 70
    assert len(re.findall(r"!\[", TEXT)) == 1, "one picture"
    assert len(re.findall(r"^\|[-:| ]+\|$", TEXT, re.M)) == 1, "one table"


def test_its_python_labels_the_digits_and_says_how_far_to_trust_it():
    (block,) = re.findall(r"^```python\n(.*?)^```", TEXT, re.M | re.S)
    names = {}
    exec(block, names)
    from handful.features import Protocol, digits, draw

    codes = draw(*digits(), Protocol(queries=20, outlier_queries=10), tasks=[0]).truth[0]
    result = names["result"]
    truth = np.where(codes >= 0, result.classes[codes], -1)
    right = result.labels == truth
    assert right.mean() > 0.75
    assert 0 < result.expected_precision < 1
    low, high = result.outlier_share_interval
    assert low - 0.05 <= np.mean(codes < 0) <= high + 0.05


def test_its_table_is_what_the_demo_measures():
    from handful.project.demo import run

    figures = run(tasks=200).figures
    rows = {row[0].strip(" *"): row[1:] for row in re.findall(r"^\| (.*?)\|(.*?)\|(.*?)\|(.*?)\|(.*?)\|$", TEXT, re.M)}
    for name, method in (("EOL + KDO", "auto"), ("EOL, told", "eol"), ("kNN", "knn"), ("nearest mean", "simpleshot")):
        (row,) = [cells for title, cells in rows.items() if title.startswith(name)]
        shown = [float(cell.split("±")[0]) for cell in row]
        assert shown == pytest.approx([mean for mean, _ in figures[method].values()], abs=0.15), name
