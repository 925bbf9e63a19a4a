"""The command line, run as a user runs it: in a process of its own."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest
from forks import run as handful


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """What the demo printed, in one line, and its folder."""
    folder = tmp_path_factory.mktemp("demo")
    done = handful("demo", "--tasks", 20, "--seed", 4, cwd=folder)
    assert done.returncode == 0, done.stderr
    return " ".join(done.stdout.split()), folder / "handful-demo"


def test_demo_says_what_happened_and_where_the_report_is(demo):
    printed, folder = demo
    counts = re.search(r"It called (\d+) unknown: (\d+) of the (\d+) that really are", printed).groups()
    called, right, of = map(int, counts)
    assert of == 150
    assert 110 < right <= called
    assert re.search(
        r"EOL \+ KDO, not told .* 9\d\.\d ± .* EOL, told the share .* 9\d\.\d ± .* kNN .* nearest", printed
    )
    estimate = re.search(r"Its estimate: about (\d+) % \((between|at least|at most) \d.*?\); in truth 50 %\.", printed)
    assert 25 < int(estimate[1]) < 75
    assert re.search(r"50 % of each pile is unknown; the estimate was off by \d+ points on average", printed)
    assert str(folder / "report.html") in printed

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
    shares = a["outlier_share"]
    assert (shares["true"], len(shares["estimated"])) == (0.5, 5)
    assert np.mean(shares["estimated"]) == pytest.approx(0.5, abs=0.2)


def test_what_is_wrong_is_said_in_a_sentence(tmp_path):
    (tmp_path / "taken").write_text("mine")
    (tmp_path / "set.parquet").write_bytes(b"PAR1 but no more")
    (tmp_path / "t.csv").write_text("a,b\n")
    for command, words in (
        (("demo", "--tasks", 2, "-o", "taken"), "taken"),
        (("info", "set.parquet"), "set.parquet"),
        (("label", "t.csv", "--method", "EOLL"), "did you mean 'eol'?"),
        (("label", "t.csv", "--set", "limit=1"), "where NAME is one of unknown_rate"),
    ):
        done = handful(*command, cwd=tmp_path)
        assert done.returncode == 1
        assert words in done.stderr
        assert "Traceback" not in done.stderr
    assert (tmp_path / "taken").read_text() == "mine"


def test_info_says_what_a_file_holds_and_without_a_file_whether_there_are_kernels(tmp_path):
    from handful.engines.kernels import levels

    rng = np.random.default_rng(0)
    names = np.repeat([f"kind{i}" for i in range(8)], 30)
    np.savez(tmp_path / "set.npz", features=rng.normal(size=(240, 6)), labels=names)
    printed = " ".join(handful("info", tmp_path / "set.npz").stdout.split())
    assert "set: 240 items, 8 classes" in printed
    assert "kind3 30" in printed
    facts = json.loads(handful("info", tmp_path / "set.npz", "--json").stdout)
    assert (facts["dimension"], facts["ways"]) == (6, {"1": 3, "5": 3, "10": 3})

    facts = json.loads(handful("info", "--json").stdout)
    assert ("NumPy does their work" in facts["kernels in C"]) == (not levels())
    assert f"NumPy: {facts['NumPy']}" in handful("info").stdout


def test_version_help_and_methods():
    eol = next(row for row in json.loads(handful("methods", "--json").stdout) if row["name"] == "eol")
    assert (eol["paradigm"], eol["parameters"]["outlier_share"]) == ("transductive", "auto")
    assert "auto, the default, is eol_kdo." in handful("methods").stdout
    import handful as package

    command = [sys.executable, "-m", "handful", "--version"]  # from its very start, as the others are not
    printed = subprocess.run(command, capture_output=True, text=True, timeout=120).stdout
    assert printed.strip() == f"handful {package.__version__}"
    printed = handful("label", "--help").stdout  # options stand under headings
    headings = ["Results", "What else you know", "How the pile is labelled", "Many machines"]
    places = [printed.index(f"─ {heading} ─") for heading in headings]
    assert places == sorted(places)
    assert printed.index("--outlier-share") > places[1]
    assert "--no-overwrite" not in printed
