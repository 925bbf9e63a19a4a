"""Pictures and texts to features: in order, none embedded twice, what was done is kept, the cache never stops a run."""

import multiprocessing
import os
import sqlite3
import threading
from contextlib import closing

import numpy as np
import pytest
from PIL import Image

from handful.backbones import cache as cache_module
from handful.backbones import embedding, load_backbone
from handful.backbones.backbone import Backbone
from handful.backbones.cache import FeatureCache, content_hash
from handful.backbones.embedding import embed_pictures, embed_texts
from handful.backbones.pictures import BadPicture, find_pictures, open_picture
from handful.backbones.preprocessing import Preprocessing


class Grid(Backbone):
    """The colours of a 4 x 4 grid; it counts what it embeds."""

    def __init__(self, fingerprint="aa", stop_after=None):
        self.name, self.dimension, self.fingerprint = "grid", 48, fingerprint
        self.preprocessing = Preprocessing((4, 4), crop=None)
        self.embedded, self.batches, self.stop_after = 0, 0, stop_after

    def _embed(self, batch):
        if self.batches == self.stop_after:
            raise KeyboardInterrupt
        self.batches += 1
        self.embedded += len(batch)
        return batch.reshape(len(batch), -1)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HANDFUL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache_module, "MIN_AGE_NS", 0)  # or pictures made just now would be read again


def picture(path, seed):
    colours = np.random.default_rng(seed).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    Image.fromarray(colours).resize((32, 32), Image.Resampling.NEAREST).save(path)
    return path


@pytest.fixture
def pile(tmp_path):
    """Twenty pictures; the name of the last is no text."""
    (tmp_path / "pile").mkdir()
    names = [*(f"{seed:02}.png" for seed in range(19)), os.fsdecode(b"z\xff\n.png")]
    return [picture(tmp_path / "a.png", seed).rename(tmp_path / "pile" / name) for seed, name in enumerate(names)]


def one_by_one(paths):
    return np.concatenate([Grid().embed(Grid().prepare(open_picture(path))[None]) for path in paths])


# ---- features


def test_features_are_those_of_each_picture_alone_in_the_order_given(tmp_path, pile):
    """Equal contents are embedded once."""
    (tmp_path / "twin.png").write_bytes(pile[3].read_bytes())
    paths = [*pile[::-1], tmp_path / "twin.png", pile[0], pile[0]]
    for batch, threads in ((1, 1), (7, 5), (100, 8)):
        backbone = Grid()
        table = embed_pictures(paths, backbone, batch=batch, threads=threads, cache=False)
        np.testing.assert_array_equal(table.features, one_by_one(paths))
        assert table.names == [str(path) for path in paths]
        assert table.hashes == [content_hash(path.read_bytes()) for path in paths]
        assert (table.skipped, table.source["cached"], backbone.embedded) == ([], 0, 20)
    assert not (tmp_path / "cache").exists()
    assert embed_pictures([], Grid()).features.shape == (0, 48)


def test_equal_texts_are_embedded_once_and_kept_in_the_cache(tmp_path):
    asked, steps = [], []

    def lengths(texts):
        asked.extend(texts)
        return [[len(text), text.count("a")] for text in texts]

    texts = ["a hen", "an owl", "", "a hen", "half \ud800"]
    for cached in (0, 5):
        backbone = load_backbone(lengths)
        backbone.fingerprint = "ff"  # that of a function is not known, so its features are not kept
        asked.clear()
        table = embed_texts(texts, backbone, batch=2, progress=lambda *step: steps.append(step))
        assert sorted(asked) == (sorted(set(texts)) if not cached else [])
        assert table.features.tolist() == [[len(text), text.count("a")] for text in texts]
        assert (list(table.texts), table.source["cached"]) == (texts, cached)
        assert table.hashes[0] == content_hash(b"a hen")
    assert steps == [(0, 5), (3, 5), (5, 5), (5, 5)]


def test_progress_rises_to_the_total(tmp_path, pile):
    (tmp_path / "bad.png").write_bytes(b"")
    paths = [*pile, tmp_path / "bad.png", pile[0]]
    for steps in ([0, 5, 9, 13, 17, 21, 22], [21, 22]):  # the first picture is there twice; the second run: the cache
        calls = []
        embed_pictures(paths, Grid(), batch=4, progress=lambda *step, calls=calls: calls.append(step))
        assert calls == [(done, 22) for done in steps]


# ---- pictures that cannot be used


def test_bad_pictures_are_skipped_in_order_and_named_or_raised(tmp_path, pile):
    bad = [tmp_path / "b.jpg", tmp_path / "gone.jpg", tmp_path / "a.jpg"]
    bad[0].write_bytes(b"")
    bad[2].write_bytes(b"text")
    with pytest.raises(BadPicture, match=r"b\.jpg is an empty file"):
        embed_pictures([*pile[:10], bad[0], bad[2], *pile[10:]], Grid(), batch=5, threads=4, strict=True)
    found = embed_pictures([bad[0], *pile[:3], bad[1], *pile[3:], bad[2]], Grid(), batch=4)
    np.testing.assert_array_equal(found.features, one_by_one(pile))
    assert found.source["cached"] == 10  # what was done before the bad one is kept
    assert [s.path for s in found.skipped] == [str(path) for path in bad]
    for word, one in zip(["empty", "cannot be read", "is not a JPEG"], found.skipped, strict=True):
        assert word in one.reason
    assert embed_pictures(bad, Grid()).features.shape == (0, 48)


def test_features_that_are_no_numbers_are_skipped_and_not_kept(pile):
    class Overflows(Grid):
        def _embed(self, batch):
            features = super()._embed(batch).copy()
            features[0, 0] = np.nan
            return features

    found = embed_pictures([*pile, pile[0]], Overflows(), batch=20)
    assert [s.path for s in found.skipped] == [str(pile[0]), str(pile[0])]
    assert "not finite" in found.skipped[0].reason
    np.testing.assert_array_equal(found.features, one_by_one(pile[1:]))
    assert embed_pictures(pile, Grid()).source["cached"] == 19
    with pytest.raises(BadPicture, match=r"00\.png has features"):
        embed_pictures(pile, Overflows("other"), strict=True)


def test_wrong_arguments_and_faults_of_a_backbone_are_not_taken_for_bad_pictures(pile):
    backbone = Grid()
    backbone.dimension = 47
    with pytest.raises(ValueError, match=r"shape \(20, 48\) for 20 pictures, not \(20, 47\)"):
        embed_pictures(pile, backbone)
    for options in ({"batch": 0}, {"batch": 2.5}, {"threads": 0}):
        with pytest.raises(ValueError, match="must be a whole number from 1"):
            embed_pictures(pile, Grid(), **options)
    with pytest.raises(TypeError, match="give a list of paths"):
        embed_pictures(str(pile[0]), Grid())


# ---- the cache


def test_pictures_are_known_by_their_content_and_read_only_where_they_changed(tmp_path, pile, monkeypatch):
    first = embed_pictures(pile, Grid())
    (tmp_path / "pile").rename(tmp_path / "moved")
    moved = find_pictures(tmp_path / "moved")[0]
    picture(moved[5], seed=1000)
    os.utime(moved[0], ns=(1, 1))
    backbone = Grid()
    table = embed_pictures(moved, backbone)  # all are read again, and one is embedded again
    assert (backbone.embedded, table.source["cached"]) == (1, 19)
    np.testing.assert_array_equal(table.features, one_by_one(moved))
    assert sum(a != b for a, b in zip(table.hashes, first.hashes, strict=True)) == 1
    monkeypatch.setattr(embedding, "read", lambda path, opener: pytest.fail(f"{path} was read"))
    assert embed_pictures(moved, backbone).source["cached"] == 20
    os.utime(moved[0], ns=(2, 2))
    with pytest.raises(pytest.fail.Exception, match=r"00\.png was read"):
        embed_pictures(moved, backbone)


def test_pictures_of_one_size_and_time_that_change_names_are_noticed(tmp_path):
    a, b = (picture(tmp_path / f"{name}.bmp", seed) for seed, name in enumerate("ab"))
    for path in (a, b):
        os.utime(path, ns=(10**18, 10**18))  # as archives unpack them
    assert a.stat().st_size == b.stat().st_size
    embed_pictures([a, b], Grid())
    a.rename(tmp_path / "c.bmp")
    b.rename(a)
    (tmp_path / "c.bmp").rename(b)
    np.testing.assert_array_equal(embed_pictures([a, b], Grid()).features, one_by_one([a, b]))


def test_a_picture_changed_a_moment_ago_is_not_trusted_to_stay(pile, monkeypatch):
    monkeypatch.setattr(cache_module, "MIN_AGE_NS", 10**12)
    for cached in (0, 20):  # read again, and known by their content
        assert embed_pictures(pile, Grid(stop_after=1)).source["cached"] == cached
        assert FeatureCache().known([str(path) for path in pile]) == {}


def test_another_backbone_or_loading_embeds_again(pile, monkeypatch):
    embed_pictures(pile, Grid())
    assert embed_pictures(pile, Grid("bb")).source["cached"] == 0
    assert embed_pictures(pile, Grid()).source["cached"] == 20  # the first's are still there
    monkeypatch.setattr(embedding, "LOADING_VERSION", embedding.LOADING_VERSION + 1)
    assert embed_pictures(pile, Grid()).source["cached"] == 0


def test_an_interrupted_run_goes_on_where_it_was(pile):
    with pytest.raises(KeyboardInterrupt):
        embed_pictures(pile, Grid(stop_after=3), batch=4)
    backbone = Grid()
    table = embed_pictures(pile, backbone, batch=4)
    assert (backbone.embedded, table.source["cached"]) == (8, 12)
    np.testing.assert_array_equal(table.features, one_by_one(pile))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("handful-pictures")]


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no forks here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_processes_share_the_cache_at_once(pile):
    def embed(start, results):
        start.wait()
        table = embed_pictures(pile, Grid(), batch=1, threads=2)
        results.put((len(table), float(table.features.sum())))

    context = multiprocessing.get_context("fork")
    start, results = context.Event(), context.Queue()
    running = [context.Process(target=embed, args=(start, results)) for _ in range(3)]
    for process in running:
        process.start()
    start.set()  # now all at once, the making of the cache too
    assert {results.get(timeout=60) for _ in running} == {(20, float(one_by_one(pile).sum()))}
    for process in running:
        process.join(30)
    assert embed_pictures(pile, Grid()).source["cached"] == 20


def test_a_damaged_cache_is_replaced(pile):
    cache = FeatureCache()
    embed_pictures(pile, Grid(), cache=cache)
    whole = cache.path.read_bytes()
    for content in (b"this is no database" * 1000, whole[:4096] + b"\xa5" * (len(whole) - 4096)):
        cache.path.write_bytes(content)
        with pytest.warns(UserWarning, match="is damaged .*a new one was started"):
            table = embed_pictures(pile, Grid(), cache=cache)
        np.testing.assert_array_equal(table.features, one_by_one(pile))
        assert embed_pictures(pile, Grid()).source["cached"] == 20


def test_where_no_cache_can_be_used_it_works_without(tmp_path, pile, monkeypatch):
    cache = FeatureCache()
    cache.put({"00" * 20: np.ones(3, np.float32)}, "f")
    monkeypatch.setattr(cache_module, "LOCK_TIMEOUT_S", 0.1)
    with closing(sqlite3.connect(cache.path, isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        with pytest.warns(UserWarning, match="locked"):
            locked = embed_pictures(pile, Grid())
    monkeypatch.setenv("HANDFUL_CACHE", str(tmp_path / "pile" / "00.png" / "cache"))
    with pytest.warns(UserWarning, match="cannot be used .*set HANDFUL_CACHE") as caught:
        table = embed_pictures(pile, Grid(), batch=4)
    assert len(caught) == 1
    for each in (locked, table):
        np.testing.assert_array_equal(each.features, one_by_one(pile))
