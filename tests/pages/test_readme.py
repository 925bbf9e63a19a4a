"""The README's Python runs as it stands, on data as it describes it."""

import re
from pathlib import Path

import numpy as np
import pytest

PAGE = Path(__file__).resolve().parents[2] / "README.md"
if not PAGE.exists():
    pytest.skip("the documentation is not part of this copy", allow_module_level=True)
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.M | re.S)
KINDS = np.repeat([0, 1, 2], (30, 30, 40))  # the last kind is not shown


@pytest.fixture
def names(tmp_path, monkeypatch):
    """What the blocks take for granted."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    x = 2 * np.eye(3, 16)[KINDS] + 0.4 * rng.normal(size=(100, 16))
    shown = np.r_[0:5, 30:35]
    y = np.full(100, -1)
    y[shown] = KINDS[shown]
    return {
        "support": x[shown], "labels": np.array(["box", "disc"])[KINDS[shown]], "query": np.delete(x, shown, axis=0),
        "X": x, "y": y, "X_new": x[[0, 30, 99]],
    }  # fmt: skip


def test_the_first_block_needs_neither_a_method_nor_a_share(names):
    pytest.importorskip("pandas")
    exec(BLOCKS[0], names)
    assert "outlier_share=" not in BLOCKS[0]
    truth = np.array(["box", "disc", "unknown"])[np.delete(KINDS, np.r_[0:5, 30:35])]
    assert np.mean(names["result"].labels == truth) > 0.95
    low, high = names["result"].outlier_share_interval
    assert low - 0.05 <= 40 / 90 <= high + 0.05  # it holds the truth four times in five


def test_the_estimator_block_fits_saves_and_loads(names):
    exec(BLOCKS[1], names)
    model = names["model"]
    assert model.predict(names["X_new"]).tolist() == [0, 1, -1]
    assert Path("fruit.safetensors").is_file()
    assert model.outlier_share_ == pytest.approx(0.44, abs=0.1)


def test_all_blocks_are_run_here():
    assert len(BLOCKS) == 2


def test_every_call_that_stands_in_a_sentence_runs(names):
    import handful

    text = " ".join(re.sub(r"^```.*?^```", "", PAGE.read_text("utf-8"), flags=re.M | re.S).split())
    told = re.search(r"`(handful\.solve\(support, labels, query, method=\"eol\", [^`]*)`", text)[1]
    assert eval(told, names | {"handful": handful}).outlier_share == 0.3
    result = handful.solve(names["support"], names["labels"], names["query"])
    assert [group.size for group in result.groups] == [40]
    given = names | {"handful": handful, "result": result}
    again = re.search(r"`new = (result\.promote\([^`]*\))`", text)[1].replace("{2:", "{1:")  # there is one group here
    given["new"] = eval(again, given)
    second = eval(re.search(r"`(handful\.solve_task\(new\.task[^`]*)`", text)[1], given)
    assert second.classes.tolist() == ["box", "disc", "mushroom"]
