"""A plain install has no PyArrow: files and results work without it, and what needs it names the install command."""

import csv
import json
import sys

import numpy as np
import pytest

import handful as library
from handful.features import FeatureTable, read, write
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
    return dict(zip(table["path"].to_pylist(), table["label"].to_pylist(), strict=True))


@pytest.mark.parametrize("suffix", [".csv", ".npz", ".safetensors"])
def test_a_pile_is_labelled_from_any_file_that_needs_no_pyarrow(no_pyarrow, handful, tmp_path, suffix):
    write(pile(), tmp_path / f"pile{suffix}")
    done = handful("label", f"pile{suffix}", "-o", "out")
    assert done.returncode == 0, done.stderr
    assert INSTALL in done.stdout.replace("\n", " ")
    assert not (tmp_path / "out" / "labels.parquet").exists()
    assert (tmp_path / "out" / "report.html").is_file()
    assert labels_of(tmp_path / "out" / "labels.csv") == RIGHT
    done = handful("predict", "out/model.safetensors", f"pile{suffix}", "-o", "new.csv")
    assert done.returncode == 0, done.stderr
    assert labels_of(tmp_path / "new.csv").items() >= RIGHT.items()


def test_results_are_the_same_with_and_without_it(handful, tmp_path, request):
    write(pile(), tmp_path / "pile.npz")
    assert handful("label", "pile.npz", "-o", "with").returncode == 0
    from pyarrow import parquet

    exact = parquet.read_table(tmp_path / "with" / "labels.parquet").to_pylist()
    request.getfixturevalue("no_pyarrow")
    assert handful("label", "pile.npz", "-o", "without").returncode == 0
    assert (tmp_path / "without" / "labels.csv").read_bytes() == (tmp_path / "with" / "labels.csv").read_bytes()
    again = read_table(tmp_path / "without" / "labels.csv").to_pylist()
    assert again == exact


def test_new_results_leave_no_earlier_parquet_table(handful, tmp_path, request):
    write(pile(), tmp_path / "pile.npz")
    assert handful("label", "pile.npz", "-o", "out").returncode == 0
    assert (tmp_path / "out" / "labels.parquet").is_file()
    request.getfixturevalue("no_pyarrow")
    assert handful("label", "pile.npz", "-o", "out", "--overwrite").returncode == 0
    assert not (tmp_path / "out" / "labels.parquet").exists()


def test_results_are_used_again(no_pyarrow, handful, tmp_path):
    write(pile(), tmp_path / "pile.npz")
    assert handful("label", "pile.npz", "-o", "out").returncode == 0
    assert labels_of(tmp_path / "out" / "labels.csv") == RIGHT
    assert {question.name for question in Project(tmp_path / "out").check(100)} == set(RIGHT)
    done = handful("promote", "out", "1=cat", "-o", "more")
    assert done.returncode == 0, done.stderr
    assert "cat" in labels_of(tmp_path / "more" / "labels.csv").values()


@pytest.mark.parametrize("name", ["tickets.csv", "tickets.tsv", "tickets.jsonl"])
def test_tables_of_texts_are_read(no_pyarrow, tmp_path, name):
    rows = [{"id": "7", "message": "where is my card", "intent": "card"}, {"id": "8", "message": "hello", "intent": ""}]
    with (tmp_path / name).open("w", newline="") as file:
        if name.endswith("jsonl"):
            file.writelines(json.dumps(row) + "\n" for row in rows)
        else:
            writer = csv.DictWriter(file, list(rows[0]), delimiter="\t" if name.endswith("tsv") else ",")
            writer.writeheader()
            writer.writerows(rows)
    table = read_text_table(tmp_path / name)
    assert table.texts == ["where is my card", "hello"]
    assert table.label_names == ["card", None]


def test_what_needs_it_names_the_install_command_before_any_work(no_pyarrow, handful, tmp_path):
    write(pile(), tmp_path / "pile.npz")
    (tmp_path / "pile.parquet").write_bytes(b"PAR1")
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "part-00000.parquet").write_bytes(b"PAR1")
    (tmp_path / "dataset").mkdir()
    assert handful("label", "pile.npz", "-o", "out").returncode == 0
    for command in (
        ("label", "pile.parquet", "-o", "out2"), ("info", "pile.parquet"), ("info", "parts"), ("info", "dataset"),
        ("predict", "out/model.safetensors", "pile.npz", "-o", "new.parquet"), ("bench", "balanced", "--tasks", "1"),
    ):  # fmt: skip
        done = handful(*command)
        assert done.returncode == 1, command
        assert INSTALL in done.stderr.replace("\n", " "), (command, done.stderr)
    result = library.solve([[0.0, 1.0], [1.0, 0.0]], [0, 1], [[0.1, 0.9]])
    with pytest.raises(ImportError, match="to_arrow.* needs pyarrow"):
        result.to_arrow()
    assert result.to_pandas()["closest"].tolist() == [0]


def test_the_demo_runs(no_pyarrow, handful, tmp_path):
    done = handful("demo", "-o", "demo", "--tasks", "2")
    assert done.returncode == 0, done.stderr
    assert read_table(tmp_path / "demo" / "labels.csv").num_rows == 300
    assert not (tmp_path / "demo" / "labels.parquet").exists()


TABLES = {
    "columns": "path,f0,f1,label\na.png,1,0.5,hen\nb.png,2,1e-3,\nc.png,-3,7,owl\n",
    "whole numbers": "f0,f1,label\n1,2,7\n3,4,8\n5,-6,\n",
    "quotes and line breaks": 'path,f0,label\n"a ""b"", c",1.5,"two\nlines"\n"d",2.5,x\n',
    "lists": 'embedding,label\n"[1, 2.5]",a\n"[3, 4]",b\n',
    "an index, an id and dates": ",id,day,f0\n0,007,2024-01-02,0.5\n1,008,2024-01-03,0.25\n",
    "a byte order mark, carriage returns, empty lines": "\ufefff0,label\r\n1.5,a\r\n\r\n2.5,b\r\n",
    "blanks around numbers": "f0,f1,note\n 1.5 ,2,\n3,4 ,x\n",
    "truth values and missing notes": "f0,ok,note\n1.5,true,NA\n2.5,false,\n",
    "large whole numbers": "f0,f1\n1,12345678901234567890\n2,3\n",
    "a number missing": "f0,f1\n1,2\n3,\n",
    "a word among numbers": "f0,f1\n1,2\nx,3\n4,5\n6,7\n",
    "decimal commas": 'f0,f1\n"1,5",2\n"2,5",3\n',
    "inf": "f0,f1\n1,inf\n2,3\n",
    "no header": "1,2\n3,4\n",
    "short line": "f0,f1\n1,2\n3\n",
    "no rows": "f0,f1\n",
    "empty": "",
    "only text": "a,b\nx,y\n",
    "two columns of one name": "f0,f0,label\n1,2,a\n3,4,b\n",
}


def content(path):
    try:
        table = read(path, warn=False)
    except ValueError as error:
        return "an error", str(error).split(":")[1][:25]
    rows = (table.labels, table.paths, *table.others.values())
    return (
        table.features,
        table.columns,
        list(table.others),
        table.set_aside,
        [None if x is None else list(x) for x in rows],
    )


@pytest.mark.parametrize("name", TABLES)
def test_a_csv_file_is_read_alike_with_and_without_it(tmp_path, request, name):
    path = tmp_path / "table.csv"
    path.write_bytes(TABLES[name].encode())
    expected = content(path)
    request.getfixturevalue("no_pyarrow")
    features, *rest = content(path)
    assert rest == list(expected[1:])
    np.testing.assert_array_equal(features, expected[0])


def test_a_quote_that_is_never_closed_is_refused(tmp_path, no_pyarrow):
    (tmp_path / "t.csv").write_text('f0,label\n1,"a\n')
    with pytest.raises(ValueError, match="line 2 cannot be read .a quote is never closed"):
        read(tmp_path / "t.csv")


def test_a_long_csv_file_may_have_its_first_word_late(tmp_path, no_pyarrow):
    rows = [f"{i / 7},{i}" for i in range(5000)] + ["0.5,late"]
    (tmp_path / "t.csv").write_text("f0,note\n" + "\n".join(rows) + "\n")
    with pytest.raises(ValueError, match="'note' holds numbers, but 'late' in row 5000"):
        read(tmp_path / "t.csv")
    table = read(tmp_path / "t.csv", columns=["f0"])
    np.testing.assert_allclose(table.features[:5000, 0], np.arange(5000) / 7)
    assert table.others["note"].tolist()[-2:] == ["4999", "late"]


def test_a_feature_table_is_the_same_csv_file_as_before(tmp_path, no_pyarrow):
    path = write(FeatureTable(np.array([[0.1, 2.0]], np.float32), ["a"], ["x.png"]), tmp_path / "t.csv")
    assert path.read_text() == '"label","path","f0","f1"\n"a","x.png","0.1","2.0"\n'
