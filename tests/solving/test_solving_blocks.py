"""Large piles: a model learns from a sample and scores all rows in blocks, whatever the blocks and the parts are."""

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import handful
from handful.core.metrics import auroc
from handful.solving import blocks
from handful.solving.blocks import PileParts, read_blocks

COUNT = 3000


@pytest.fixture(scope="module")
def pile():
    """Five classes with five examples each, and a pile of which half belongs to none of them."""
    rng = np.random.default_rng(3)
    centres = rng.normal(size=(10, 32))
    labels, kinds = np.repeat(np.arange(5), 5), rng.integers(0, 10, COUNT)
    support, query = (np.maximum(centres[k] + 0.8 * rng.normal(size=(len(k), 32)), 0) for k in (labels, kinds))
    return support.astype(np.float32), labels, query.astype(np.float32), kinds


@pytest.fixture
def mapped(pile, tmp_path, monkeypatch):
    """The pile as a memory-mapped array, of which a model sees 1,500 rows."""
    monkeypatch.setattr(blocks, "SAMPLE_ROWS", 1500)
    np.save(tmp_path / "pile.npy", pile[2])
    return np.load(tmp_path / "pile.npy", mmap_mode="r")


def write_part(folder, number, rows, **others):
    embedding = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), rows.shape[1])
    parquet.write_table(pa.table({"embedding": embedding, **others}), folder / f"part-{number:05d}.parquet")


def test_a_sample_is_learned_from_and_all_rows_are_scored(pile, mapped, monkeypatch):
    support, labels, query, kinds = pile
    for method in ("auto", "eol", "simpleshot+knn", "pt_map"):
        whole = handful.solve(support, labels, query, method=method)
        found = handful.solve(support, labels, mapped, method=method)
        assert len(found) == COUNT
        ranks = [auroc(np.asarray(each.outlier_scores), kinds >= 5) for each in (found, whole)]
        assert ranks[0] > ranks[1] - 0.02, method
        assert np.mean(found.labels == whole.labels) > 0.9, method
        assert abs(found.outlier_share - whole.outlier_share) < 0.05, method
        with monkeypatch.context() as patch:
            patch.setattr(blocks, "BLOCK_ROWS", 233)
            again = handful.solve(support, labels, mapped, method=method, threads=1)
        np.testing.assert_allclose(again.probabilities, found.probabilities, atol=1e-4, err_msg=method)
        rank = np.argsort(np.argsort(found.outlier_scores)) - np.argsort(np.argsort(again.outlier_scores))
        assert np.abs(rank).mean() < 1, method


def test_a_large_array_is_not_copied_and_is_loaded_if_all_of_it_is_needed(pile, monkeypatch):
    support, labels, query, _ = pile
    monkeypatch.setattr(blocks, "SAMPLE_ROWS", 1500)
    whole = handful.solve(support, labels, query, method="eol", outlier_share=0.5)
    monkeypatch.setattr("handful.core.task.LARGE_PILE_BYTES", query.nbytes)
    found = handful.solve(support, labels, query, method="eol", outlier_share=0.5)
    assert np.shares_memory(found.task.query, query)
    assert 0 < np.abs(found.outlier_scores - whole.outlier_scores).max() < 0.2
    for options in ({"backend": "array"}, {"history": True}):
        found = handful.solve(support, labels, query, method="eol", outlier_share=0.5, **options)
        np.testing.assert_allclose(found.outlier_scores, whole.outlier_scores, atol=1e-5)


def test_examples_of_no_class_a_threshold_and_a_share_do_what_they_do_in_memory(pile, mapped):
    support, labels, query, kinds = pile
    others = query[kinds >= 8][:6]
    for method in ("auto", "knn"):
        whole = handful.solve(support, labels, query, unknown=others, method=method)
        found = handful.solve(support, labels, mapped, unknown=others, method=method)
        assert np.mean(found.labels == whole.labels) > 0.9
    found = handful.solve(support, labels, mapped, method="knn", outlier_share=0.3)
    assert found.unknown.mean() == pytest.approx(0.3)
    found = handful.solve(support, labels, mapped, method="eol", threshold=0.9)
    assert found.unknown.tolist() == (found.doubts > 0.9).tolist()


def test_numbers_of_other_kinds_are_widened(pile, tmp_path, monkeypatch):
    support, labels, query, _ = pile
    monkeypatch.setattr(blocks, "SAMPLE_ROWS", 1500)
    for dtype in (np.float16, np.int8, ">f4"):
        rows = (10 * query[:3000]).astype(dtype)
        np.save(tmp_path / "pile.npy", rows)
        whole = handful.solve(10 * support, labels, rows, method="knn", outlier_share=0.5)
        mapped = np.load(tmp_path / "pile.npy", mmap_mode="r")
        found = handful.solve(10 * support, labels, mapped, method="knn", outlier_share=0.5)
        assert np.mean(found.labels == whole.labels) > 0.97


def test_a_row_that_is_no_row_of_numbers_is_named(pile, mapped, tmp_path):
    support, labels, query, _ = pile
    query = query.copy()
    unseen = np.setdiff1d(np.arange(COUNT), blocks.sample_rows(COUNT))[234]
    query[unseen, 6] = np.inf
    np.save(tmp_path / "pile.npy", query)
    with pytest.raises(ValueError, match=f"^query contains infinity at row {unseen}, column 6: remove or repair"):
        handful.solve(support, labels, np.load(tmp_path / "pile.npy", mmap_mode="r"), method="knn")
    with pytest.raises(ValueError, match="support has 30 features per item and query has 32"):
        handful.solve(support[:, :30], labels, mapped)
    with pytest.raises(TypeError, match=r"query is the path .*: give an array, as np.load"):
        handful.solve(support, labels, tmp_path / "pile.npy")
    with pytest.raises(ValueError, match="a large pile belongs to one task"):
        handful.solve(support[None], labels[None], mapped)


# ---- folders of parts


SIZES = (1300, 0, 1, 1400, 299)


@pytest.fixture
def parts(pile, tmp_path):
    starts = np.cumsum((0, *SIZES))
    for number, start in enumerate(starts[:-1]):
        rows = pile[2][start : starts[number + 1]]
        write_part(
            tmp_path, number, rows, name=pa.array([f"item {i}" for i in range(start, start + len(rows))], pa.string())
        )
    return tmp_path


def test_parts_are_the_rows_of_the_pile_in_their_order(pile, parts, monkeypatch):
    found = PileParts.of(parts)
    assert (found.rows, found.dimension) == (COUNT, 32)
    rows, names = [], []
    for part in found.parts:
        for block in read_blocks(part, 32, ["name"]):
            assert block.start == sum(map(len, rows))
            rows.append(block.features)
            names += block.others[0].to_pylist()
    np.testing.assert_array_equal(np.concatenate(rows), pile[2])
    assert names == [f"item {i}" for i in range(COUNT)]
    monkeypatch.setattr(blocks, "SAMPLE_ROWS", 700)
    sample = found.sample()
    np.testing.assert_array_equal(sample, pile[2][blocks.sample_rows(COUNT)])
    assert len(sample) == 700


def test_folders_that_hold_no_pile_are_refused(pile, parts):
    first = parts / "part-00001.parquet"
    write_part(parts, 1, pile[2][:3, :30].copy())
    with pytest.raises(ValueError, match=r"part-00001.parquet has 30 features in row 0, and the parts"):
        PileParts.of(parts).sample()
    for write, message in (
        (lambda: parquet.write_table(pa.table({"vector": [1.0]}), first), "has no column 'embedding'; it has: vector"),
        (lambda: parquet.write_table(pa.table({"embedding": [1.0]}), first), "a list of numbers in each row is needed"),
        (lambda: first.write_bytes(b"no table"), "part-00001.parquet"),
        (first.unlink, "part-00001.parquet is missing, of 5 parts"),
    ):
        write()
        with pytest.raises(ValueError, match=message):
            PileParts.of(parts)


def test_a_part_that_changes_while_it_is_read_is_refused(parts, pile):
    part = PileParts.of(parts).parts[0]
    write_part(parts, 0, pile[2][:1600])
    with pytest.raises(OSError, match="has changed while it was read: run the same command again"):
        list(read_blocks(part, 32))
    (parts / "part-00000.parquet").write_bytes(b"cut off")
    with pytest.raises(OSError, match="part-00000.parquet cannot be read"):
        list(read_blocks(part, 32))
