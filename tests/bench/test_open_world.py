"""The continuing process: streams, the person, and figures computed again from the recorded answers."""

import csv
import json

import numpy as np
import pytest
from bases import base_for
from piles import assert_refused
from sklearn.metrics import roc_auc_score

from handful.bench import open_world, open_world_picture
from handful.bench.open_world import Run, follow, looked_at
from handful.bench.open_world_results import OpenWorldResults, figures
from handful.bench.stream import class_codes, draw_stream
from handful.core.arrays import class_count, one_hot, softmax, squared_distances
from handful.features import FeatureTable, digits, write
from handful.methods import registry
from handful.methods.contract import Info, Solution
from handful.solving.groups import Group

# --- streams


@pytest.mark.parametrize(("context", "ways"), [("small", 5), ("large", 15)])
def test_a_stream_has_each_item_once_and_new_classes(context, ways):
    codes = np.random.default_rng(0).permutation(np.repeat(np.arange(30), np.arange(2, 32)))
    codes[codes == 7] = -1
    codes[codes == 29] = 7
    stream = draw_stream(codes, context, seed=3)
    assert stream.classes == 29
    assert len(stream.context) == (5 if context == "small" else 14)
    both = np.concatenate([stream.examples, stream.arrivals])
    assert sorted(both.tolist()) == np.flatnonzero(codes >= 0).tolist()
    for k in stream.context:
        count = np.sum(codes == k)
        assert np.sum(codes[stream.examples] == k) == min(5, count - 1)
        assert k in stream.truth
    assert set(codes[stream.examples]) == set(stream.context)
    np.testing.assert_array_equal(stream.truth, codes[stream.arrivals])


def test_a_seed_is_a_stream_and_sizes_are_kept():
    codes = np.repeat(np.arange(40), 20)
    one, same, other = (draw_stream(codes, items=200, classes=12, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.arrivals, same.arrivals)
    assert one.arrivals.tolist() != other.arrivals.tolist()
    assert len(one.arrivals) == 200
    assert one.classes == 12
    assert len(set(one.truth) | set(one.context)) <= 12
    assert set(one.codes) - {-1} == set(one.truth) | set(one.context)
    assert set(one.codes) != set(other.codes)
    assert len(draw_stream(codes, "large", classes=None).context) == 20


def test_new_classes_appear_at_uniform_moments():
    """Of new classes alone, a part (1 - t) log(1 - t) + t of the items has arrived when the part t has begun."""
    codes = np.repeat(np.arange(605), 100)
    stream = draw_stream(codes, items=10**6)
    kinds, first = np.unique(stream.truth, return_index=True)
    is_new = ~np.isin(kinds, stream.context)
    new_place = np.cumsum(~np.isin(stream.truth, stream.context)) / np.sum(~np.isin(stream.truth, stream.context))
    for t in (0.25, 0.5, 0.75):
        arrived = np.quantile(new_place[first[is_new]], t)
        assert arrived == pytest.approx((1 - t) * np.log(1 - t) + t, abs=0.04)
    of_context = np.flatnonzero(np.isin(stream.truth, stream.context))
    assert of_context.max() > 0.9 * len(stream.truth)  # they come to the end


def test_too_few_classes_are_refused():
    with pytest.raises(ValueError, match="there are 5 classes, 5 of them with two items or more: a small context"):
        draw_stream(np.repeat(np.arange(5), 9))
    with pytest.raises(ValueError, match="there are 8 classes, 2 of them"):
        draw_stream(np.concatenate([[0, 0, 1, 1], np.arange(2, 8)]), "large")
    with pytest.raises(ValueError, match="give one of small, large"):
        draw_stream(np.repeat(np.arange(9), 9), "huge")


def test_rows_without_a_class_are_left_out():
    table = FeatureTable(np.eye(6), ["b", None, "oos", "a", "b", ""])
    assert class_codes(table).tolist() == [1, -1, -1, 0, 1, -1]
    assert class_codes(FeatureTable(np.eye(3), [9, -1, 4])).tolist() == [1, -1, 0]


# --- the person and the order of things


def test_a_person_looks_at_the_first_item_of_the_ten_largest_groups():
    groups = [Group(k, np.arange(100 * k, 100 * k + size), 0.5) for k, size in enumerate([2, 3, 9, *[4] * 12])]
    assert looked_at(groups) == [200, *range(300, 1200, 100)]
    assert looked_at(groups[:2]) == [100]


class Notebook:
    """Stands for a model: notes what it is given, calls everything unknown and shows four groups."""

    def __init__(self, examples):
        self.examples, self.calls, self.items, self.labels = examples, [], np.zeros((0, 1)), []

    def partial_fit(self, X, y=None):
        self.calls.append(("items", X[:, 0].tolist(), None if y is None else y.tolist()))
        self.items = np.concatenate([self.items, X])
        self.transduction_ = np.full(len(self.items), -1)
        self.outlier_scores_ = self.items[:, 0].astype(float)
        free = [row for row in range(self.examples, len(self.items)) if row not in self.labels]
        self.groups_ = [Group(k + 1, np.array(free[k::4]), 1.0) for k in range(4)]

    def teach(self, answers):
        self.calls.append(("answers", answers))
        self.labels += list(answers)


def test_a_model_is_told_only_what_has_come():
    codes = np.random.default_rng(5).permutation(np.repeat(np.arange(6), [3, 3, 3, 3, 12, 12]))
    stream = draw_stream(codes, "small", items=16, seed=1)
    n = len(stream.examples)
    features = np.arange(len(codes), dtype=float)[:, None]
    run = Run("notebook", "small", 1, stream, 6, np.zeros(16, int), np.zeros(16))
    model = Notebook(n)
    assert list(follow(run, model, features)) == [0, 1, 2]
    assert model.calls[0] == ("items", stream.examples.tolist(), codes[stream.examples].tolist())
    blocks = [call[1:] for call in model.calls[1:] if call[0] == "items"]
    assert blocks == [(stream.arrivals[low : low + 6].tolist(), None) for low in (0, 6, 12)]
    assert run.scores.tolist() == stream.arrivals.tolist()
    assert (run.answers == -1).all()
    order, seen = np.concatenate([stream.examples, stream.arrivals]), n
    assert any(call[0] == "answers" for call in model.calls)
    for call in model.calls[1:]:
        if call[0] == "items":
            seen += len(call[1])
        else:
            assert max(call[1]) < seen
            assert call[1] == {row: codes[order[row]] for row in call[1]}
    assert [place + n for place, _ in run.told] == model.labels
    assert len(run.seconds) == 3


# --- the figures


def recomputed(stored, blocks):
    """The figures of some blocks from the recorded answers of a run, item by item."""
    named = dict.fromkeys(stored["context_classes"], -1)  # the block after which a class has a name
    told = sorted(stored["told"], key=lambda pair: pair[1])
    answers = mistakes = 0
    for place, block in told:
        kind = stored["truth"][place]
        answers += block in blocks
        mistakes += block in blocks and named.get(kind, block) < block
        named.setdefault(kind, block)
    right = {"context": [], "named": [], "unknown": []}
    ranks = []
    for block in blocks:
        low = block * stored["every"]
        scores, is_new = [], []
        for place in range(low, min(low + stored["every"], len(stored["truth"]))):
            kind, answer = stored["truth"][place], stored["answers"][place]
            has_name = kind in named and named[kind] < block
            scores.append(stored["outlier_scores"][place])
            is_new.append(not has_name)
            if not has_name:
                right["unknown"].append(answer == -1)
            else:
                right["context" if kind in stored["context_classes"] else "named"].append(answer == kind)
        if len(set(is_new)) == 2:
            ranks.append(roc_auc_score(is_new, scores))
    expected = {name: 100 * np.mean(values) if values else None for name, values in right.items()}
    new = [kind for kind, block in named.items() if 0 <= block <= max(blocks)]
    return expected | {
        "auroc": 100 * np.mean(ranks) if ranks else None, "classes": len(new), "told": answers, "mistakes": mistakes,
        "seconds": np.median([stored["seconds"][block] for block in blocks]),
    }  # fmt: skip


def test_the_command_writes_figures_that_the_recorded_answers_give(handful, tmp_path):
    done = handful(
        "bench", "open-world", "--methods", "auto, simpleshot", "--items", 300, "--every", 75, "--seeds", 2,
        "-o", tmp_path / "out",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "SimpleShot, small context: accuracy, context classes" in done.stdout
    document = json.loads((tmp_path / "out/open_world.json").read_text())
    assert [(run["method"], run["seed"]) for run in document["runs"]] == [
        ("EOL + KDO", 0), ("SimpleShot", 0), ("EOL + KDO", 1), ("SimpleShot", 1),
    ]  # fmt: skip
    assert document["runs"][0]["truth"] == document["runs"][1]["truth"] != document["runs"][2]["truth"]
    by_run = {(r["method"], r["seed"]): r for r in document["runs"]}
    compared = 0
    for record in (*document["records"], *document["overall"]):
        stored = by_run[record["method"], record["seed"]]
        blocks = [record["block"]] if "block" in record else range(4)
        for name, value in recomputed(stored, blocks).items():
            if value is None:
                assert record[name] is None, name
            else:
                assert record[name] == pytest.approx(value, abs=0.002), (record, name)
                compared += 1
    assert compared > 100
    assert all(run["told"] for run in document["runs"])
    overall = {(r["method"], r["seed"]): r for r in document["overall"]}
    assert overall["EOL + KDO", 0]["context"] > 80
    with open(tmp_path / "out/open_world.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 2 * 4
    text = (tmp_path / "out/open_world.md").read_text("utf-8")
    mean = np.mean([overall["SimpleShot", seed]["context"] for seed in (0, 1)])
    assert f"| SimpleShot | {mean:.1f} ± " in text
    assert "digits: 10 classes, 5 of them in the context, with 25 examples together; 300 items arrive, 75 in a" in text
    assert "| Method | 1 to 75 | 76 to 150 | 151 to 225 | 226 to 300 |" in text


def test_figures_of_a_small_case_by_hand():
    """Classes 0 to 4 are known; 5 is named after block 0 and 6 never."""
    codes = np.array([0, 1, 2, 3, 4, 0, 5, 6, 1, 5, 5, 6, 0])
    stream = draw_stream(np.repeat(np.arange(7), 2))
    object.__setattr__(stream, "codes", codes)
    object.__setattr__(stream, "context", np.arange(5))
    object.__setattr__(stream, "arrivals", np.arange(5, 13))  # 0 5 6 1 | 5 5 6 0
    answers, scores = np.array([0, -1, 2, 3, 5, -1, -1, 0]), np.array([1, 3, 0, 2, 0, 1, 9, 1.0])
    run = Run("m", "small", 0, stream, 4, answers, scores, [(1, 0), (3, 0), (5, 1)], [1.0, 3.0])
    first, second, both = figures(run, [0]), figures(run, [1]), figures(run, [0, 1])
    assert (first["context"], second["context"], both["context"]) == (50, 100, pytest.approx(200 / 3))
    assert (second["named"], both["named"]) == (50, 50)
    assert np.isnan(first["named"])
    assert (first["unknown"], second["unknown"], both["unknown"]) == (50, 100, pytest.approx(200 / 3))
    assert (first["auroc"], second["auroc"], both["auroc"]) == (50, 100, 75)
    assert [f["classes"] for f in (first, second, both)] == [1, 1, 1]
    assert [(f["told"], f["mistakes"]) for f in (first, second, both)] == [(2, 1), (1, 1), (3, 2)]
    assert [f["seconds"] for f in (first, second, both)] == [1, 3, 2]
    records = OpenWorldResults([run]).records()
    assert [(r["items"], r["context_items"], r["named_items"], r["new_items"]) for r in records] == [
        (4, 2, 0, 2), (4, 1, 2, 1),
    ]  # fmt: skip


# --- methods of all kinds


@pytest.fixture
def opening():
    """A method that opens a class for each largest feature of items that are far from all examples."""

    @registry.register(Info("opening", preparation=("l2",), score="probability"), score_new=lambda state, items: (
        softmax(np.ones((*items.shape[:2], class_count(state["labels"])))), np.zeros(items.shape[:2])))  # fmt: skip
    def opening(support, labels, query):
        squares = squared_distances(query, support)
        is_class = one_hot(labels, class_count(labels), like=support)
        nearest = np.where(is_class[:, None] > 0, squares[..., None], np.inf).min(axis=2)
        is_far = nearest.min(axis=-1) > 1.0
        joined = np.where(is_far, class_count(labels) + query.argmax(axis=-1), nearest.argmin(axis=-1))
        return Solution(softmax(-9 * nearest), is_far * 1.0, state={"labels": labels, "joined": joined})

    yield "opening"
    registry.METHODS.pop("opening")


def test_a_method_that_opens_classes_is_asked_about_them(opening):
    """Classes are axes, so the opened classes are true ones: each is named once, and all that follows is right."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(12), 20)
    table = FeatureTable(np.eye(12)[labels] + rng.normal(scale=0.03, size=(240, 12)), labels)
    results = open_world.run(table, opening, items=300, every=20, seeds=2)
    for run in results.runs:
        overall = figures(run, range(len(run.seconds)))
        assert (overall["context"], overall["named"], overall["unknown"], overall["auroc"]) == (100, 100, 100, 100)
        assert overall["mistakes"] == 0
        assert 4 <= overall["told"] == overall["classes"] <= 7
    text = results.markdown("command")
    assert "| 100.0 ± 0.0 | 100.0 ± 0.0 | 100.0 ± 0.0 | 100.0 ± 0.0 |" in text


def test_methods_that_need_a_base_get_it_and_say_so_without():
    features, labels = digits()
    table = FeatureTable(features[:400], labels[:400])
    with pytest.raises(ValueError, match="peeler learns from base classes: give --base, a base file"):
        open_world.run(table, "peeler", items=40, every=20, seeds=1)
    with pytest.raises(ValueError, match="peeler learns from base classes"):
        open_world.run(table, "peeler", base=table, items=40, every=20, seeds=1)
    base = base_for(64)
    results = open_world.run(table, "peeler, simpleshot", base=base, items=40, every=20, seeds=1)
    assert results.methods == ["PEELER", "SimpleShot"]
    plain = open_world.run(table, "simpleshot", items=40, every=20, seeds=1)
    assert results.runs[1].scores.tolist() != plain.runs[0].scores.tolist()  # centred on the mean of the base


def test_the_picture_has_a_line_for_each_method_and_a_row_for_each_context():
    pytest.importorskip("matplotlib")
    table = FeatureTable(*digits())
    results = open_world.run(
        table, "simpleshot, knn", contexts=("small", "large"), items=90, every=30, seeds=2, classes=10
    )
    panels = open_world_picture.draw(results).axes
    assert len(panels) == 2 * 5
    assert all(len(axes.lines) == 2 for axes in panels)
    line = panels[0].lines[0]
    assert line.get_xdata().tolist() == [30, 60, 90]
    expected = [
        np.mean([figures(run, [block])["context"] for run in results.of("SimpleShot", "small")]) for block in range(3)
    ]
    np.testing.assert_allclose(line.get_ydata(), expected)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("bench", "open-world", "."), "only domains takes a folder"),
        (("bench", "open-world", "--context", "tiny"), "give one of small, large"),
        (("bench", "open-world", "--classes", "5"), "there are 5 classes"),
        (("bench", "open-world", "--methods", "feat"), "feat learns from base classes"),
    ],
)
def test_wrong_arguments_are_refused_with_a_sentence(handful, arguments, sentence):
    assert_refused(handful(*arguments), sentence)


def test_a_feature_file_of_which_some_rows_have_labels(handful, tmp_path):
    features, labels = digits()
    names = [None if i % 3 else f"digit {k}" for i, k in enumerate(labels[:600])]
    write(FeatureTable(features[:600], names), tmp_path / "some.npz")
    done = handful(
        "bench", "open-world", "--features", tmp_path / "some.npz", "--methods", "knn", "--context", "large", "--items",
        50, "--every", 25, "-o", tmp_path / "out", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert len(document["runs"][0]["truth"]) == 50
    assert "--context large --items 50 --every 25" in document["command"]
