"""The command line, run as a user runs it: in a process of its own."""

import csv
import json
import re
import subprocess
import sys

import pytest
from forks import run as handful


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    return handful("demo", "--tasks", 20, "--seed", 4, cwd=folder), folder / "handful-demo"


def test_demo_says_what_happened_and_where_the_report_is(demo):
    done, folder = demo
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    called, right, of = map(
        int, re.search(r"It called (\d+) unknown: (\d+) of the (\d+) that really are", said).groups()
    )
    assert of == 150
    assert right <= called
    assert right > 110
    assert re.search(r"EOL \+ KDO, not told .* 9\d\.\d ± .* EOL, told the share .* 9\d\.\d ± .* kNN .* nearest", said)
    estimate = re.search(r"Its estimate: about (\d+) % \((.*?)\); in truth 50 %\.", said)
    assert 25 < int(estimate[1]) < 75
    assert re.match(r"(between|at (least|most)) \d", estimate[2])
    assert re.search(r"50 % of each pile is unknown; the estimate was off by \d+ points on average", said)
    assert (folder / "report.html").is_file()
    assert "report.html" in said


def test_demo_tables_agree_with_each_other_and_with_its_words(demo):
    parquet = pytest.importorskip("pyarrow.parquet")
    done, folder = demo
    rows = parquet.read_table(folder / "labels.parquet").to_pylist()
    with (folder / "labels.csv").open() as file:
        text = list(csv.DictReader(file))
    assert [str(r["label"]) for r in rows] == [t["label"] for t in text]
    unknown = sum(r["label"] == -1 for r in rows)
    assert f"It called {unknown} unknown" in " ".join(done.stdout.split())
    for row in rows:
        classes = {name: p for name, p in row.items() if re.match(r"p_\d", name)}
        is_more_probable = row["p_unknown"] > max(classes.values()) * (1 - row["p_unknown"])
        assert row["unknown"] == (row["label"] == -1) == is_more_probable
        assert sum(classes.values()) == pytest.approx(1, abs=1e-6)  # P(class | known)
        assert max(classes, key=classes.get) == f"p_{row['closest']}"
        best, p = max(classes.values()) / max(sum(classes.values()), 1e-12), row["p_unknown"]
        assert row["confidence"] == pytest.approx(p if row["unknown"] else best * (1 - p), abs=1e-6)
    order = sorted(rows, key=lambda row: row["outlier_score"])
    assert [row["p_unknown"] for row in order] == sorted(row["p_unknown"] for row in rows)


def test_demo_report_shows_every_drawing_of_the_pile_once(demo):
    _, folder = demo
    page = (folder / "report.html").read_text()
    pictures = json.loads(re.search(r'id="pictures">(.*?)</script>', page)[1])
    assert len(pictures) == 300 + 25
    assert all(picture.startswith("iVBOR") for picture in pictures)
    assert "in truth 50 %." in page
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", page)


def test_demo_for_machines_is_one_json_document_and_reproducible(tmp_path):
    first, second = (handful("demo", "--json", "--tasks", 5, "-o", tmp_path / str(i)) for i in range(2))
    a, b = json.loads(first.stdout), json.loads(second.stdout)
    assert a["figures"] == b["figures"]
    assert list(a["figures"]) == ["auto", "eol", "knn", "simpleshot"]
    assert 80 < a["figures"]["auto"]["auroc"]["mean"] <= 100
    assert a["outlier_share"]["true"] == 0.5
    assert len(a["outlier_share"]["estimated"]) == 5
    assert sum(a["outlier_share"]["estimated"]) / 5 == pytest.approx(0.5, abs=0.2)


def test_demo_into_a_file_is_refused_in_a_sentence(tmp_path):
    (tmp_path / "taken").write_text("mine")
    done = handful("demo", "--tasks", 2, "-o", tmp_path / "taken")
    assert done.returncode == 1
    assert "taken" in done.stderr
    assert "Traceback" not in done.stderr
    assert (tmp_path / "taken").read_text() == "mine"


def test_methods_as_a_table_and_as_json():
    said = handful("methods").stdout
    assert "simpleshot" in said
    assert "auto, the default, is eol_kdo." in said
    rows = json.loads(handful("methods", "--json").stdout)
    eol = next(row for row in rows if row["name"] == "eol")
    assert eol["paradigm"] == "transductive"
    assert eol["parameters"]["outlier_share"] == "auto"


def test_info_says_what_a_file_holds(tmp_path):
    import numpy as np

    rng = np.random.default_rng(0)
    names = np.repeat([f"kind{i}" for i in range(8)], 30)
    np.savez(tmp_path / "set.npz", features=rng.normal(size=(240, 6)), labels=names)
    said = " ".join(handful("info", tmp_path / "set.npz").stdout.split())
    assert "set: 240 items, 8 classes" in said
    assert "kind3 30" in said
    found = json.loads(handful("info", tmp_path / "set.npz", "--json").stdout)
    assert found["dimension"] == 6
    assert found["ways"] == {"1": 3, "5": 3, "10": 3}


def test_info_without_a_file_says_whether_there_are_kernels():
    from handful.engines.kernels import levels

    facts = json.loads(handful("info", "--json").stdout)
    assert ("NumPy does their work" in facts["kernels in C"]) == (not levels())
    assert f"NumPy: {facts['NumPy']}" in handful("info").stdout


def test_info_on_a_broken_file_is_one_sentence(tmp_path):
    (tmp_path / "set.parquet").write_bytes(b"PAR1 but no more")
    done = handful("info", tmp_path / "set.parquet")
    assert done.returncode == 1
    assert "set.parquet" in done.stderr
    assert "Traceback" not in done.stderr


def test_version_and_help():
    import handful as package

    command = [sys.executable, "-m", "handful", "--version"]  # from its very start, as the others are not
    said = subprocess.run(command, capture_output=True, text=True, timeout=120).stdout
    assert said.strip() == f"handful {package.__version__}"
    shown = handful("demo", "--help").stdout
    assert "--output" in shown
    assert "report.html" in shown


def test_options_of_a_command_stand_under_headings():
    shown = handful("label", "--help").stdout
    headings = ["Results", "What else you know", "How the pile is labelled", "Many machines"]
    places = [shown.index(f"─ {heading} ─") for heading in headings]
    assert places == sorted(places)
    assert shown.index("--outlier-share") > places[1]


def test_a_mistyped_method_gets_the_nearest_name(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n")
    done = handful("label", tmp_path / "t.csv", "--method", "EOLL", cwd=tmp_path)
    assert done.returncode == 1
    assert "did you mean 'eol'?" in done.stderr
    assert "Traceback" not in done.stderr


def test_methods_are_found_in_capital_letters_too(tmp_path):
    import numpy as np

    rng = np.random.default_rng(0)
    rows = [[*(rng.normal(size=4) + 5 * np.eye(4)[k % 3]), f"kind{k % 3}" if k < 6 else ""] for k in range(30)]
    with (tmp_path / "t.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["x1", "x2", "x3", "x4", "label"], *rows])
    labels = []
    for name in ("eol", "EOL"):
        done = handful("label", "t.csv", "--method", name, "-o", name, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        labels.append((tmp_path / name / "labels.csv").read_text())
    assert labels[0] == labels[1]
