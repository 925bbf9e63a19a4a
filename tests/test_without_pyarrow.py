"""A plain install has no PyArrow: files and results work without it, and what needs it names the install command."""

import sys

import numpy as np
import pytest

import handful as library
from handful.features import FeatureTable, write
from handful.features.text_table import read_text_table
from handful.project import Project
from handful.utils.csv_file import read_table

INSTALL = 'pip install "handful[parquet]"'


@pytest.fixture
def no_pyarrow(monkeypatch):
    """Every import of PyArrow fails, as if it was not installed."""
    for name in [name for name in sys.modules if name.split(".")[0] == "pyarrow"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "pyarrow", None)


def pile():
    """Two classes with labels in some rows, and a third kind without any."""
    rng = np.random.default_rng(0)
    features = np.repeat(4 * np.eye(8)[:3], 12, axis=0) + rng.normal(scale=0.3, size=(36, 8))
    labels = [name if i < 4 else None for name in ("hen", "owl", None) for i in range(12)]
    return FeatureTable(features, labels, [f"{i}.png" for i in range(36)], others={"id": np.arange(100, 136)})


RIGHT = {f"{i}.png": ("hen", "owl", "unknown")[i // 12] for i in range(36) if i % 12 > 3 or i > 23}


def labels_of(path):
    table = read_table(path)
    return dict(zip(table["path"].tolist(), table["label"].tolist(), strict=True))


def test_a_pile_is_labelled_from_any_file_that_needs_no_pyarrow(no_pyarrow, handful, tmp_path):
    for suffix in (".csv", ".npz", ".safetensors"):
        out = f"out{suffix}"
        write(pile(), tmp_path / f"pile{suffix}")
        done = handful("label", f"pile{suffix}", "-o", out)
        assert done.returncode == 0, done.stderr
        assert INSTALL in done.stdout.replace("\n", " ")
        assert not (tmp_path / out / "labels.parquet").exists()
        assert labels_of(tmp_path / out / "labels.csv") == RIGHT
    done = handful("predict", f"{out}/model.safetensors", "pile.csv", "-o", "new.csv")
    assert done.returncode == 0, done.stderr
    assert labels_of(tmp_path / "new.csv").items() >= RIGHT.items()
    (tmp_path / "t.csv").write_text("id,message,intent\n7,where is my card,card\n8,hello there,\n")
    assert list(read_text_table(tmp_path / "t.csv").texts) == ["where is my card", "hello there"]


def test_results_are_the_same_with_and_without_it_and_are_used_again(handful, tmp_path, request):
    write(pile(), tmp_path / "pile.npz")
    assert handful("label", "pile.npz", "-o", "with").returncode == 0
    from pyarrow import parquet

    exact = parquet.read_table(tmp_path / "with" / "labels.parquet").to_pylist()
    request.getfixturevalue("no_pyarrow")
    assert handful("label", "pile.npz", "-o", "with", "--overwrite").returncode == 0
    assert not (tmp_path / "with" / "labels.parquet").exists()  # it would be that of the earlier results
    assert read_table(tmp_path / "with" / "labels.csv").to_pylist() == exact
    assert {question.name for question in Project(tmp_path / "with").check(100)} == set(RIGHT)
    done = handful("promote", "with", "1=cat", "-o", "more")
    assert done.returncode == 0, done.stderr
    assert "cat" in labels_of(tmp_path / "more" / "labels.csv").values()


def test_what_needs_it_names_the_install_command_before_any_work(no_pyarrow, handful, tmp_path):
    (tmp_path / "parts").mkdir()
    for file in ("pile.parquet", "parts/part-00000.parquet"):
        (tmp_path / file).write_bytes(b"PAR1")
    for command in (("label", "pile.parquet", "-o", "out"), ("info", "parts"), ("bench", "balanced", "--tasks", "1")):
        done = handful(*command)
        assert done.returncode == 1, command
        assert INSTALL in done.stderr.replace("\n", " "), (command, done.stderr)
    with pytest.raises(ImportError, match="to_arrow.* needs pyarrow"):
        library.solve([[0.0, 1.0], [1.0, 0.0]], [0, 1], [[0.1, 0.9]]).to_arrow()
