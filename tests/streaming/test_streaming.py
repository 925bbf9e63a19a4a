"""A pile in pieces: the same results as in memory, whatever the pieces; bounded memory; killed solves go on."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

import handful
from handful.streaming import descent as descending
from handful.streaming import solve as streaming
from handful.streaming.passes import Journal, Pass, Threads, View
from handful.streaming.pile import InMemory, InParquet, OnDisk, Pile

pytestmark = pytest.mark.usefixtures("however_small")
STREAMED = ("eol", "oslo", "ostim", "tim_gd", "simpleshot", "knn")
FEWER = {"tim_gd": {"steps": 40}}  # of 1000, which do the same again


@pytest.fixture
def however_small(monkeypatch):
    """A small pile is loaded and solved as any: here it is not."""
    monkeypatch.setattr(streaming, "SMALL_PILE_ROWS", 0)


def some_task(seed, ways, shots, count, dimension, dtype=np.float32):
    """Rectified clusters, half of them of no class shown."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(2 * ways, dimension))
    labels = np.repeat(np.arange(ways), shots)

    def items(of):
        return np.maximum(centres[of] + 0.8 * rng.normal(size=(len(of), dimension)), 0).astype(dtype)

    return items(labels), labels, items(rng.integers(0, 2 * ways, count))


def write_parquet(path, rows, group):
    embedding = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), rows.shape[1])
    parquet.write_table(
        pa.table({"name": pa.array(["x"] * len(rows)), "embedding": embedding}), path, row_group_size=group
    )


def in_pieces(rows, cuts, kinds, folder):
    """The rows cut at `cuts`, each part of one of the `kinds`."""
    pieces = []
    for i, part in enumerate(np.split(rows, sorted(cuts))):
        kind = kinds[i % len(kinds)]
        path = Path(folder) / f"part-{i}.{kind}"
        if kind == "npy":
            np.save(path, part)
        elif kind == "parquet":
            write_parquet(path, part, max(1, len(part) // 3))
        pieces.append(part if kind == "array" else path)
    return Pile(pieces)


def furthest(one, other):
    return max(
        np.abs(np.asarray(a, np.float64) - b).max()
        for a, b in ((one.probabilities, other.probabilities), (one.outlier_scores, other.outlier_scores))
    )


@pytest.mark.parametrize("method", STREAMED)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=12, deadline=None)
@given(data=st.data())
def test_any_pieces_and_any_chunk_give_what_one_array_gives(method, data):
    count, ways = data.draw(st.integers(1, 3000)), data.draw(st.integers(2, 10))
    support, labels, query = some_task(data.draw(st.integers(0, 2**32 - 1)), ways, 3, count, 48)
    cuts = data.draw(st.lists(st.integers(0, count), max_size=5))
    kinds = data.draw(st.lists(st.sampled_from(["array", "npy", "parquet"]), min_size=1, max_size=3))
    chunk, threads = data.draw(st.integers(1, count + 5)), data.draw(st.integers(1, 3))
    options = {"outlier_share": 0.5, **FEWER.get(method, {})}
    whole = handful.solve(support, labels, query, method=method, **options)
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            streaming, "SMALL_PILE_ROWS", 1000
        )  # few queries leave EOL room to run away from a rounding error
        pile = in_pieces(query, cuts, kinds, folder)
        found = handful.solve(
            support,
            labels,
            pile,
            method=method,
            threads=threads,
            streaming=handful.streaming.Streaming(block_rows=chunk),
            **options,
        )
    assert furthest(found, whole) <= 1e-5
    assert found.classes.tolist() == whole.classes.tolist()
    assert found.probabilities.shape == (count, ways)


@pytest.mark.parametrize("method", STREAMED)
@pytest.mark.parametrize("ways", [3, 12])
def test_in_double_precision_nothing_but_the_order_of_sums_differs(method, ways):
    support, labels, query = some_task(5, ways, 5, 700, 32, np.float64)
    options = {"outlier_share": 0.4, "dtype": "float64", **FEWER.get(method, {})}
    whole = handful.solve(support, labels, query, method=method, **options)
    found = handful.solve(
        support,
        labels,
        Pile([query[:333], query[333:]]),
        method=method,
        **options,
        streaming=handful.streaming.Streaming(block_rows=50),
    )
    assert furthest(found, whole) <= 1e-10


@pytest.mark.parametrize("backend", ["array", "fast"])
@pytest.mark.parametrize("method", ["eol", "ostim", "tim_gd"])  # a constant outlier logit, a mean one, none
def test_one_pass_a_step_and_two_are_the_same_descent(method, backend, monkeypatch):
    support, labels, query = some_task(2, 4, 5, 300, 24, np.float64)
    found, made = {}, {}
    for outputs in (0, 99):
        monkeypatch.setattr(descending, "PAIRED", outputs)
        passes = []
        found[outputs] = handful.solve(
            support,
            labels,
            Pile(query),
            method=method,
            outlier_share=0.5,
            dtype="float64",
            steps=20,
            backend=backend,
            streaming=handful.streaming.Streaming(
                progress=lambda done, total, passes=passes: passes.append((done, total))
            ),
        )
        made[outputs] = len(passes)
        assert passes[-1][0] == passes[-1][1]
    assert made[0] - made[99] == 20
    assert furthest(found[0], found[99]) <= 1e-10
    whole = handful.solve(support, labels, query, method=method, outlier_share=0.5, dtype="float64", steps=20)
    assert furthest(found[0], whole) <= 1e-10


@pytest.mark.parametrize("method", ["eol", "ostim", "tim_gd"])
@pytest.mark.parametrize("ways", [2, 7, 30])  # all that fits a tile, one pass, two passes
def test_the_fused_passes_give_what_one_array_gives(method, ways):
    support, labels, query = some_task(7, ways, 5, 2100, 37)
    options = {"outlier_share": 0.3, "preparation": "signed(0.6), l2, task, l2", **FEWER.get(method, {})}
    whole = handful.solve(support, labels, query, method=method, **options)
    for pile, chunk in ((Pile(query), None), (Pile([query[:1001], query[1001:]]), 300)):
        found = handful.solve(
            support,
            labels,
            pile,
            method=method,
            backend="fast",
            **options,
            streaming=handful.streaming.Streaming(block_rows=chunk),
        )
        assert furthest(found, whole) <= 1e-5


def test_the_default_estimates_its_share_from_the_same_sample(tmp_path):
    support, labels, query = some_task(1, 5, 5, 5000, 32)
    np.save(tmp_path / "pile.npy", query)
    for method in ("auto", "eol", "simpleshot"):
        whole = handful.solve(support, labels, query, method=method)
        found = handful.solve(support, labels, np.load(tmp_path / "pile.npy", mmap_mode="r"), method=method)
        assert furthest(found, whole) <= 2e-4  # ranks move by a place where scores differ by rounding
        assert abs(found.outlier_share - whole.outlier_share) < 1e-6
        np.testing.assert_allclose(found.outlier_share_interval, whole.outlier_share_interval, atol=1e-6)
        assert (found.labels == whole.labels).mean() > 0.999


def test_other_inductive_methods_and_base_centring_stream_too():
    support, labels, query = some_task(3, 3, 5, 200, 16)
    mean = support.mean(axis=0) / 2
    for method in ("openmax", "pca", "eol"):
        whole = handful.solve(support, labels, query, method=method, base_mean=mean, outlier_share=0.5)
        found = handful.solve(
            support,
            labels,
            Pile(query),
            method=method,
            base_mean=mean,
            outlier_share=0.5,
            streaming=handful.streaming.Streaming(block_rows=64),
        )
        assert furthest(found, whole) <= 1e-5


def test_other_preparations_stream_too():
    support, labels, query = some_task(4, 3, 5, 300, 16, np.float64)
    for steps in ("none", "l2", "power, l2, task", "signed(0.6), l2, task, l2", "task, signed, task"):
        options = {"preparation": steps, "outlier_share": 0.5, "dtype": "float64"}
        whole = handful.solve(support, labels, query, method="eol", **options)
        assert furthest(handful.solve(support, labels, Pile(query), method="eol", **options), whole) <= 1e-9


def test_a_large_array_is_not_copied_but_gone_through(monkeypatch):
    support, labels, query = some_task(6, 5, 5, 2000, 64)
    whole = handful.solve(support, labels, query, method="eol", outlier_share=0.5)
    monkeypatch.setattr(sys.modules["handful.solving.solve"], "LARGE_PILE_BYTES", query.nbytes)
    made, sums = [], Threads.sums
    monkeypatch.setattr(Threads, "sums", lambda self, each: made.append(each) or sums(self, each))
    found = handful.solve(support, labels, query, method="eol", outlier_share=0.5)
    assert len(made) == 52  # the mean, fifty steps, the refinement
    assert furthest(found, whole) <= 1e-5
    assert found.task.query.shape == (1, 2000, 64)
    handful.solve(support, labels, query, method="eol", outlier_share=0.5, backend="array")
    handful.solve(support, labels, query, method="eol", outlier_share=0.5, history=True, steps=2)
    assert len(made) == 52  # whoever wants an engine of their own gets it


def test_a_small_pile_is_loaded_and_solved_to_the_last_bit_as_in_memory(tmp_path, monkeypatch):
    monkeypatch.undo()
    support, labels, query = some_task(6, 5, 5, 1000, 16)
    whole = handful.solve(support, labels, query, method="eol")
    found = handful.solve(
        support,
        labels,
        in_pieces(query, [3, 500], ["npy", "parquet"], tmp_path),
        method="eol",
        streaming=handful.streaming.Streaming(block_rows=7),
    )
    np.testing.assert_array_equal(found.probabilities, whole.probabilities)
    assert [group.size for group in found.groups] == [group.size for group in whole.groups]


# ---- what a pile can be made of


def test_folders_patterns_paths_and_maps_are_read_in_the_order_of_their_names(tmp_path):
    rows = np.arange(60, dtype=np.float32).reshape(20, 3)
    for i in range(4):
        write_parquet(tmp_path / f"part-{i}.parquet", rows[5 * i : 5 * i + 5], 2)
    np.save(tmp_path / "all.npy", rows)
    mapped = np.load(tmp_path / "all.npy", mmap_mode="r")
    for source in (
        [tmp_path / f"part-{i}.parquet" for i in range(4)],
        str(tmp_path / "part-*.parquet"),
        tmp_path / "all.npy",
        mapped,
        [mapped[:7], mapped[7:]],
        mapped[::1],
        [rows[:3], tmp_path / "all.npy"],
    ):
        pile = Pile(source)
        expected = np.concatenate([rows[:3], rows]) if len(pile) == 23 else rows
        np.testing.assert_array_equal(pile.take(np.arange(len(pile))), expected)
    assert {type(p) for p in Pile(mapped[4:9]).pieces} == {OnDisk}
    assert {type(p) for p in Pile(mapped[::2]).pieces} == {InMemory}  # its rows do not follow each other
    np.testing.assert_array_equal(Pile(mapped[4:9]).take([0, 4]), rows[[4, 8]])
    (tmp_path / "all.npy").unlink()
    folder = Pile(tmp_path)
    assert {type(p) for p in folder.pieces} == {InParquet}
    np.testing.assert_array_equal(folder.take([1, 18]), rows[[1, 18]])


def test_options_of_a_pile_in_pieces_go_with_whatever_holds_one_task(tmp_path):
    support, labels, query = some_task(12, 3, 5, 1500, 16)
    whole = handful.solve(support, labels, query, method="eol", outlier_share=0.5)
    task = handful.Task(support, labels, query)
    for held in ((support, labels, query.tolist()), (task,), (support, labels, query)):
        seen = []
        found = (handful.solve_task if len(held) == 1 else handful.solve)(
            *held,
            method="eol",
            outlier_share=0.5,
            streaming=handful.streaming.Streaming(progress=lambda *at, seen=seen: seen.append(at)),
        )
        assert furthest(found, whole) <= 1e-5
        assert seen[-1] == (52, 52)
    again = handful.solve_task(
        handful.solve(support, labels, Pile(query), method="eol").task, method="eol", outlier_share=0.5
    )
    assert furthest(again, whole) <= 1e-5
    with pytest.raises(ValueError, match="for one task"):
        handful.solve_task(
            handful.Task(support[None], labels[None], query[None]),
            method="eol",
            streaming=handful.streaming.Streaming(checkpoint=tmp_path / "kept"),
        )
    with pytest.raises(ValueError, match="block_rows"):
        handful.solve(support, labels, Pile(query), method="eol", streaming=handful.streaming.Streaming(block_rows=0))


def test_numbers_of_other_kinds_are_widened_as_in_memory():
    support, labels, query = some_task(8, 3, 5, 100, 16)
    for dtype in (np.float16, np.int8, np.int64, ">f4"):
        other = (query * 10).astype(dtype)
        whole = handful.solve(10 * support, labels, other, method="eol", outlier_share=0.5)
        assert (
            furthest(handful.solve(10 * support, labels, Pile(other), method="eol", outlier_share=0.5), whole) <= 1e-5
        )


def refusals(folder):
    rows = np.ones((4, 3), np.float32)
    np.save(folder / "good.npy", rows)
    np.save(folder / "flat.npy", rows[0])
    np.save(folder / "text.npy", np.array([["a", "b"]]))
    np.save(folder / "wide.npy", np.ones((4, 5), np.float32))
    (folder / "broken.npy").write_bytes(b"no array")
    (folder / "broken.parquet").write_bytes(b"no table")
    (folder / "notes.txt").write_text("")
    (folder / "mixed").mkdir()
    (folder / "empty").mkdir()
    np.save(folder / "mixed" / "a.npy", rows)
    write_parquet(folder / "mixed" / "a.parquet", rows, 2)
    yield folder / "none.npy", FileNotFoundError, "none.npy"
    yield folder / "*.nothing", FileNotFoundError, "nothing"
    yield folder / "flat.npy", ValueError, "rows of features"
    yield folder / "text.npy", ValueError, "numbers are needed"
    yield folder / "broken.npy", ValueError, "broken.npy"
    yield folder / "broken.parquet", ValueError, "broken.parquet"
    yield folder / "notes.txt", ValueError, "only these are read in pieces"
    yield folder / "mixed", ValueError, "both kinds"
    yield folder / "empty", ValueError, "no files"
    yield [folder / "good.npy", folder / "wide.npy"], ValueError, "different numbers of features, 3 .* and 5"
    yield [rows[:0]], ValueError, "empty"
    yield [3], TypeError, "int"


def test_what_is_no_pile_is_refused_with_its_name(tmp_path):
    for source, kind, words in refusals(tmp_path):
        with pytest.raises(kind, match=words):
            Pile(source)
    write_parquet(tmp_path / "table.parquet", np.ones((2, 3), np.float32), 2)
    with pytest.raises(ValueError, match="no column 'vector'; it has: name, embedding"):
        Pile(tmp_path / "table.parquet", column="vector")


def test_a_number_that_is_none_is_found_in_its_row():
    support, labels, query = some_task(9, 3, 5, 500, 8)
    query[321, 5] = np.nan
    with pytest.raises(ValueError, match="NaN at row 321, column 5"):
        handful.solve(
            support,
            labels,
            Pile([query[:200], query[200:]]),
            method="eol",
            streaming=handful.streaming.Streaming(block_rows=17),
        )
    query[321, 5] = -np.inf
    with pytest.raises(ValueError, match="infinity at row 321, column 5"):
        handful.solve(support, labels, Pile([query[:200], query[200:]]), method="simpleshot")


@pytest.mark.torch
def test_what_cannot_be_streamed_says_so_and_what_can():
    support, labels, query = some_task(9, 3, 5, 50, 8)
    pile = Pile(query)
    with pytest.raises(ValueError, match="pt_map needs the whole pile in memory.*eol.*oslo"):
        handful.solve(support, labels, pile, method="pt_map")
    with pytest.raises(ValueError, match="qr needs all features"):
        handful.solve(support, labels, pile, method="eol", preparation="task, l2, qr")
    with pytest.raises(ValueError, match="history"):
        handful.solve(support, labels, pile, method="eol", history=True)
    with pytest.raises(ValueError, match="8 features per item and the pile has 4"):
        handful.solve(support, labels, Pile(query[:, :4].copy()), method="eol")
    with pytest.raises(ValueError, match="a batch of tasks"):
        handful.solve(support[None], labels[None], pile, method="eol")
    with pytest.raises(TypeError, match="take"):
        handful.solve(support, labels, pile, method="eol", outlier_share=0.5).groups  # noqa: B018
    import torch

    with pytest.raises(TypeError, match="torch"):
        handful.solve(torch.tensor(support), labels, pile, method="eol")


def test_a_file_that_is_cut_short_while_it_is_read_is_noticed(tmp_path):
    support, labels, query = some_task(9, 3, 5, 500, 8)
    np.save(tmp_path / "pile.npy", query)
    pile = Pile(tmp_path / "pile.npy")
    os.truncate(tmp_path / "pile.npy", 4000)
    with pytest.raises(OSError, match="ends too early"):
        handful.solve(support, labels, pile, method="eol")


# ---- memory


def test_parquet_is_decoded_once_where_there_is_a_place_for_it(tmp_path, monkeypatch):
    support, labels, query = some_task(7, 4, 5, 3000, 16)
    pile = in_pieces(query, [1000, 1700], ["parquet", "npy"], tmp_path)
    whole = handful.solve(support, labels, query, method="eol", outlier_share=0.5)
    read, blocks = [], InParquet.blocks
    monkeypatch.setattr(InParquet, "blocks", lambda self, *given: read.append(self) or blocks(self, *given))
    found = handful.solve(
        support,
        labels,
        pile,
        method="eol",
        outlier_share=0.5,
        streaming=handful.streaming.Streaming(out=tmp_path / "out"),
    )
    assert len(read) == 2  # once each
    assert furthest(found, whole) <= 1e-5
    assert sorted(os.listdir(tmp_path / "out")) == ["outlier_scores.npy", "probabilities.npy"]
    monkeypatch.setattr(streaming, "disk_usage", lambda path: SimpleNamespace(free=100))
    again = handful.solve(
        support,
        labels,
        pile,
        method="eol",
        outlier_share=0.5,
        streaming=handful.streaming.Streaming(out=tmp_path / "out"),
    )
    assert len(read) > 50
    assert furthest(again, whole) <= 1e-5


def test_results_can_go_to_files_instead_of_memory(tmp_path):
    support, labels, query = some_task(7, 4, 5, 3000, 16)
    for method in ("eol", "auto"):
        whole = handful.solve(support, labels, query, method=method, dtype="float64")
        found = handful.solve(
            support,
            labels,
            Pile(query),
            method=method,
            dtype="float64",
            streaming=handful.streaming.Streaming(out=tmp_path / method, block_rows=100),
        )
        assert isinstance(found.probabilities.base, np.memmap) or isinstance(found.probabilities, np.memmap)
        assert furthest(found, whole) <= 1e-6
        np.testing.assert_array_equal(np.load(tmp_path / method / "outlier_scores.npy"), found.outlier_scores)


PEAK = """
import resource, sys
import numpy as np, handful
path, mapped = sys.argv[1], sys.argv[2] == "mapped"
support, labels = np.random.default_rng(0).normal(size=(10, 256)).astype(np.float32), np.repeat([0, 1], 5)
handful.solve(support, labels, handful.streaming.Pile(support), method="eol", outlier_share=0.5, steps=1)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
query = np.load(path, mmap_mode="r" if mapped else None)
pile = query if mapped else handful.streaming.Pile(query)
handful.solve(support, labels, pile, method="eol", outlier_share=0.5, steps=2)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / query.nbytes)
"""


@pytest.mark.parametrize(("mode", "most"), [("mapped", 0.3), ("loaded", 1.3)])
def test_memory_does_not_grow_with_a_pile_on_disk_nor_twice_with_one_in_memory(tmp_path, mode, most):
    path = tmp_path / "pile.npy"
    np.save(path, np.random.default_rng(0).random((200_000, 256), np.float32))
    run = subprocess.run([sys.executable, "-c", PEAK, path, mode], capture_output=True, text=True, check=True)
    assert float(run.stdout) < most  # of the pile's bytes; 205 MB


# ---- checkpoints

KILLED = """
import os, signal, sys
import numpy as np, handful
folder, when = sys.argv[1], int(sys.argv[2])
given = np.load(folder + "/task.npz")

def progress(done, total):
    if done == when:
        os.kill(os.getpid(), signal.SIGKILL)

streaming = handful.streaming.Streaming(checkpoint=folder + "/kept", progress=progress)
handful.solve(given["support"], given["labels"], folder + "/pile.npy", method="eol", steps=20, streaming=streaming)
"""


@pytest.fixture
def on_disk(tmp_path):
    support, labels, query = some_task(11, 5, 5, 4000, 32)
    np.savez(tmp_path / "task.npz", support=support, labels=labels)
    np.save(tmp_path / "pile.npy", query)
    return support, labels, tmp_path / "pile.npy"


def test_a_solve_that_was_killed_goes_on_where_it_was_bit_for_bit(on_disk, tmp_path, monkeypatch):
    undisturbed = handful.solve(*on_disk, method="eol", steps=20)
    for when in (3, 12):  # the second goes on from the first, and is killed again
        killed = subprocess.run([sys.executable, "-c", KILLED, tmp_path, str(when)], check=False)
        assert killed.returncode == -signal.SIGKILL
    made, sums = [], Threads.sums
    monkeypatch.setattr(Threads, "sums", lambda self, each: made.append(each) or sums(self, each))
    found = handful.solve(
        *on_disk, method="eol", steps=20, streaming=handful.streaming.Streaming(checkpoint=tmp_path / "kept")
    )
    np.testing.assert_array_equal(found.probabilities, undisturbed.probabilities)
    np.testing.assert_array_equal(found.outlier_scores, undisturbed.outlier_scores)
    assert len(made) == 22 - 12  # a look, twenty steps, the refinement
    assert not (tmp_path / "kept").exists()


def test_a_checkpoint_that_was_cut_off_is_good_up_to_there(tmp_path):
    sums = [{"a": np.arange(3.0) + i, "b": np.full((2, 2), i)} for i in range(3)]
    journal = Journal(tmp_path / "kept", b"this")
    for each in sums:
        journal.keep(each)
    journal.close(finished=False)
    size = (tmp_path / "kept").stat().st_size
    os.truncate(tmp_path / "kept", size - 1)
    again = Journal(tmp_path / "kept", b"this")
    assert again.kept == 2
    for kept, each in zip(again.replay(), sums, strict=False):
        np.testing.assert_array_equal(kept["a"], each["a"])
    again.keep(sums[2])
    again.close(finished=False)
    assert (tmp_path / "kept").stat().st_size == size
    with open(tmp_path / "kept", "r+b") as file:
        file.seek(size // 2)
        file.write(b"\xff\xff\xff\xff")
    assert Journal(tmp_path / "kept", b"this").kept < 2


def test_a_checkpoint_of_something_else_or_in_use_is_left_alone(on_disk, tmp_path):
    support, labels, path = on_disk
    subprocess.run([sys.executable, "-c", KILLED, tmp_path, "5"], check=False)
    before = (tmp_path / "kept").read_bytes()
    with pytest.raises(ValueError, match="kept is of another solve"):
        handful.solve(
            support + 1,
            labels,
            path,
            method="eol",
            steps=20,
            streaming=handful.streaming.Streaming(checkpoint=tmp_path / "kept"),
        )
    with pytest.raises(ValueError, match="kept is of another solve"):
        handful.solve(
            support,
            labels,
            path,
            method="eol",
            steps=21,
            streaming=handful.streaming.Streaming(checkpoint=tmp_path / "kept"),
        )
    assert (tmp_path / "kept").read_bytes() == before
    holder = Journal(tmp_path / "held", b"this")
    with pytest.raises(OSError, match="in use by another process"):
        Journal(tmp_path / "held", b"this")
    holder.close(finished=True)
    with pytest.raises(OSError, match="the checkpoint cannot be written"):
        handful.solve(
            support,
            labels,
            path,
            method="eol",
            streaming=handful.streaming.Streaming(checkpoint=tmp_path / "none" / "kept"),
        )


def test_sums_do_not_depend_on_which_thread_was_first():
    rows = np.random.default_rng(0).normal(size=(5000, 8)).astype(np.float32)
    each = Pass(_moments, {}, View((("l2", np.empty((1, 0))),), "float32"))
    found = []
    for threads in (1, 2, 2, 3):
        crew = Threads(Pile([rows[:1700], rows[1700:]]), threads, chunk=64)
        found.append(crew.sums(each)["sums"])
        crew.close()
    np.testing.assert_array_equal(found[1], found[2])
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    for sums in found:
        np.testing.assert_allclose(sums[0], unit.sum(axis=0), atol=1e-3)


def _moments(rows):
    return {"sums": rows.sums(np.ones((1, len(rows)), np.float32))}
