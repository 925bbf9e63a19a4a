"""Piles to practise on: the same on every call, never over other files, and good enough to label."""

import pytest

from handful import KDO
from handful.features import practice, read

FIRST = {"pictures": "examples/disc/disc0.png", "texts": "tickets.csv", "embeddings": "table.csv"}


def test_a_second_call_writes_the_same_and_replaces_nothing_else(tmp_path):
    for kind, first in FIRST.items():
        paths = practice(kind, tmp_path)
        before = {path: path.read_bytes() for path in paths}
        assert tmp_path / first in before
        assert {path: path.read_bytes() for path in practice(kind, tmp_path)} == before
        (tmp_path / first).write_bytes(b"mine")
        with pytest.raises(FileExistsError, match="something else"):
            practice(kind, tmp_path)
        assert (tmp_path / first).read_bytes() == b"mine"


def test_a_file_where_a_folder_should_be_is_named_and_nothing_is_written(tmp_path):
    (tmp_path / "pile").write_text("mine")
    with pytest.raises(FileExistsError, match="pile is a file"):
        practice("pictures", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["pile"]
    with pytest.raises(FileExistsError, match="pile is a file"):
        practice("texts", tmp_path / "pile")


def test_the_command_says_what_it_wrote_and_what_comes_next(handful, tmp_path):
    told = handful("demo", "--practice", "texts")
    assert "tickets.csv (1 file)" in told.stdout
    assert "handful label tickets.csv -o out" in told.stdout
    assert "pictures, texts, embeddings" in handful("demo", "--practice", "sounds").stderr


def test_the_table_of_digits_has_five_labels_of_five_digits_and_unknowns(tmp_path):
    practice("embeddings", tmp_path)
    table = read(tmp_path / "table.csv")
    assert table.features.shape == (300, 64)
    assert sorted(set(table.labels) - {None}) == ["four", "one", "three", "two", "zero"]
    assert sum(label is not None for label in table.labels) == 25
    model = KDO().fit(table.features, table.labels)
    truth = [kind if kind in model.classes_ else "unknown" for kind in table.others["truth"]]
    assert (model.transduction_ == truth).mean() > 0.85
    assert read(tmp_path / "embeddings.npz").features.shape == (1797, 64)
