"""A plain install has no PyArrow: files and results work without it, and what needs it names the install command."""

import json
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


RIGHT = {f"{i}.png": name for k, name in enumerate(["hen", "owl", "unknown"]) for i in range(12 * k, 12 * k + 12)}
RIGHT = {name: label for name, label in RIGHT.items() if name not in {f"{i}.png" for i in (0, 1, 2, 3, 12, 13, 14, 15)}}


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
        assert (tmp_path / out / "report.html").is_file()
        assert labels_of(tmp_path / out / "labels.csv") == RIGHT
    done = handful("predict", f"{out}/model.safetensors", "pile.csv", "-o", "new.csv")
    assert done.returncode == 0, done.stderr
    assert labels_of(tmp_path / "new.csv").items() >= RIGHT.items()


def test_results_are_the_same_with_and_without_it_and_are_used_again(handful, tmp_path, request):
    write(pile(), tmp_path / "pile.npz")
    assert handful("label", "pile.npz", "-o", "with").returncode == 0
    from pyarrow import parquet

    exact = parquet.read_table(tmp_path / "with" / "labels.parquet").to_pylist()
    written = (tmp_path / "with" / "labels.csv").read_bytes()
    request.getfixturevalue("no_pyarrow")
    assert handful("label", "pile.npz", "-o", "with", "--overwrite").returncode == 0
    assert not (tmp_path / "with" / "labels.parquet").exists()  # it would be that of the earlier results
    assert (tmp_path / "with" / "labels.csv").read_bytes() == written
    assert read_table(tmp_path / "with" / "labels.csv").to_pylist() == exact
    assert {question.name for question in Project(tmp_path / "with").check(100)} == set(RIGHT)
    done = handful("promote", "with", "1=cat", "-o", "more")
    assert done.returncode == 0, done.stderr
    assert "cat" in labels_of(tmp_path / "more" / "labels.csv").values()


def test_tables_of_texts_are_read(no_pyarrow, tmp_path):
    (tmp_path / "t.csv").write_text("id,message,intent\n7,where is my card,card\n8,hello there,\n")
    (tmp_path / "t.tsv").write_text("id\tmessage\tintent\n7\twhere is my card\tcard\n8\thello there\t\n")
    row = {"id": "7", "message": "where is my card", "intent": "card"}
    (tmp_path / "t.jsonl").write_text(f'{json.dumps(row)}\n{{"id": "8", "message": "hello there"}}\n')
    for name in ("t.csv", "t.tsv", "t.jsonl"):
        table = read_text_table(tmp_path / name)
        assert list(table.texts) == ["where is my card", "hello there"]
        assert table.label_names == ["card", None]


def test_what_needs_it_names_the_install_command_before_any_work(no_pyarrow, handful, tmp_path):
    write(pile(), tmp_path / "pile.npz")
    (tmp_path / "pile.parquet").write_bytes(b"PAR1")
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "part-00000.parquet").write_bytes(b"PAR1")
    assert handful("label", "pile.npz", "-o", "out").returncode == 0
    for command in (
        ("label", "pile.parquet", "-o", "out2"), ("info", "pile.parquet"), ("info", "parts"),
        ("predict", "out/model.safetensors", "pile.npz", "-o", "new.parquet"), ("bench", "balanced", "--tasks", "1"),
    ):  # fmt: skip
        done = handful(*command)
        assert done.returncode == 1, command
        assert INSTALL in done.stderr.replace("\n", " "), (command, done.stderr)
    result = library.solve([[0.0, 1.0], [1.0, 0.0]], [0, 1], [[0.1, 0.9]])
    with pytest.raises(ImportError, match="to_arrow.* needs pyarrow"):
        result.to_arrow()
    assert result.to_pandas()["closest"].tolist() == [0]
