"""Groups of unknowns: found, told of, made into classes, from Python and from the command line."""

import json
import re
import shutil
import sqlite3
from contextlib import closing

import numpy as np
import pytest
from PIL import Image
from piles import PIXELS, assert_refused, contents, fill, rows_of
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

import handful as package
from handful.features import FeatureTable, Protocol, digits, draw, read, write
from handful.project import Job, Labelled, Project, label_items
from handful.project.summary import compare
from handful.solving.groups import (
    Group,
    find_groups,
    group_unknowns,
    join_groups,
    joined_classes,
    make_groups,
    split_group,
)
from handful.solving.promotion import lower_share


def clouds(rng, sizes, dimension=32, noise=0.5):
    centres = 2 * rng.normal(size=(len(sizes), dimension))
    kinds = np.repeat(np.arange(len(sizes)), sizes)
    return centres[kinds] + noise * rng.normal(size=(len(kinds), dimension)), kinds


def of_outliers(episodes, result):
    """Over the tasks: how well the groups of the outliers that were found fit their classes, and how many there are."""
    for i, kinds in enumerate(episodes):
        one = result[i]
        codes = np.full(len(one), -1)
        for group in one.groups:
            codes[group.items] = group.number
        yield kinds, codes, len(one.groups)


# Finding


def test_clear_groups_are_found_with_their_number_and_the_largest_comes_first():
    for sizes in [(30,), (20, 20), (40, 15, 8, 5), (12,) * 9]:
        fits, counts = [], []
        for seed in range(10):
            rng = np.random.default_rng(seed)
            x, kinds = clouds(rng, sizes)
            shuffled = rng.permutation(len(x))
            codes = find_groups(x[shuffled], 2 * rng.normal(size=(40, 32)))
            fits.append(adjusted_rand_score(kinds[shuffled], codes))
            counts.append(codes.max() + 1)
            size = np.bincount(codes[codes >= 0])
            assert size.tolist() == sorted(size, reverse=True)
        assert np.mean(fits) > 0.97
        assert np.mean(np.array(counts) == len(sizes)) >= 0.8


def test_classes_that_a_method_opened_are_groups_of_its_unknown_items():
    """An item that joined a known class, or is not unknown, is in no group; a class may be a single item."""
    rng = np.random.default_rng(0)
    task = package.Task(rng.normal(size=(3, 6)), ["a", "b", "c"], rng.normal(size=(12, 6)))
    joined = np.array([3, 9, 9, 0, 4, 9, 3, 2, 9, 4, 9, 5])
    unknown = np.array([1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 1, 1], bool)
    groups = group_unknowns(task, unknown, joined=joined)
    assert [sorted(group.items.tolist()) for group in groups] == [[1, 2, 5, 10], [0, 6], [4], [11]]
    assert [group.number for group in groups] == [1, 2, 3, 4]
    assert groups[2].cohesion == 1
    assert group_unknowns(task, unknown, joined=np.zeros(12, int)) == []
    assert group_unknowns(task, np.zeros(12, bool), joined=joined) == []


def test_classes_that_were_opened_in_a_sample_do_not_speak_for_the_pile():
    state = {"labels": np.zeros((1, 4), int), "detector/joined": np.arange(5.0)[None]}  # floats, as a method may write
    assert joined_classes(state, 5).tolist() == [0, 1, 2, 3, 4]
    assert joined_classes(state, 6) is None
    assert joined_classes({"labels": state["labels"]}, 4) is None


def test_most_strangers_among_them_are_in_no_group_and_no_member_is_lost():
    left_out = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        x, kinds = clouds(rng, (15, 15))
        strangers = 2 * rng.normal(size=(4, 32))
        codes = find_groups(np.concatenate([x, strangers]), 2 * rng.normal(size=(40, 32)))
        assert adjusted_rand_score(kinds, codes[:30]) == 1
        assert codes[:30].min() == 0
        left_out.append(np.mean(codes[30:] < 0))
    assert np.mean(left_out) > 0.75


def test_items_that_have_nothing_in_common_are_no_group():
    x = np.random.default_rng(0).normal(size=(40, 256))
    assert find_groups(x).tolist() == [-1] * 40


def test_the_order_of_the_items_changes_nothing():
    x, _ = clouds(np.random.default_rng(3), (15, 14, 9), noise=1.5)
    back = np.arange(len(x))[::-1]
    assert adjusted_rand_score(find_groups(x), find_groups(x[back])[back]) == 1
    assert find_groups(x).tolist() == find_groups(x).tolist()


def test_fewer_than_three_items_are_no_group():
    for n in [0, 1, 2]:
        assert find_groups(np.ones((n, 4)), np.eye(4)).tolist() == [-1] * n


def test_identical_items_are_one_group():
    for context in [None, np.eye(4)]:
        assert find_groups(np.ones((7, 4)), context).tolist() == [0] * 7
        twins = np.repeat(np.eye(4), 6, axis=0)
        assert adjusted_rand_score(np.repeat(range(4), 6), find_groups(twins, context)) == 1


def test_features_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="give \\[n, D\\] and \\[m, D\\]"):
        find_groups(np.ones((5, 3)), np.ones((5, 4)))
    with pytest.raises(ValueError, match="NaN"):
        find_groups(np.full((5, 3), np.nan))


def test_a_large_pile_is_grouped_by_a_sample_and_all_its_items_are_in():
    x, kinds = clouds(np.random.default_rng(0), (2500, 1500, 1000), dimension=16)
    codes = find_groups(x)
    assert len(codes) == 5000
    assert adjusted_rand_score(kinds, codes) > 0.99


def test_on_digits_the_groups_are_about_as_good_as_k_means_that_is_told_their_number():
    x, y = digits()
    episodes = draw(x, y, Protocol(), seed=5, tasks=10)
    result = package.solve(episodes.task, method="eol_kdo", outlier_share=0.5)
    own, told, counts = [], [], []
    for i, (kinds, codes, count) in enumerate(of_outliers(y[episodes.query_items], result)):
        here = np.asarray(result[i].unknown) & episodes.outlier[i]
        pile = episodes.task.query[i][here]
        own.append(adjusted_rand_score(kinds[here], codes[here]))
        told.append(adjusted_rand_score(kinds[here], KMeans(5, n_init=3, random_state=0).fit_predict(pile)))
        counts.append(count)
    assert np.mean(own) > np.mean(told) - 0.05, (np.mean(own), np.mean(told))
    assert 4 <= np.mean(counts) <= 6


def test_on_pictures_the_groups_fit_the_classes(shared):
    features = read(shared / "data" / "tiny_imagenet_val.npz")
    episodes = draw(features.features, features.labels, Protocol(), tasks=10)
    result = package.solve(episodes.task, method="eol_kdo", outlier_share=0.5)
    fits, counts = [], []
    for i, (kinds, codes, count) in enumerate(of_outliers(features.labels[episodes.query_items], result)):
        here = np.asarray(result[i].unknown) & episodes.outlier[i]
        fits.append(adjusted_rand_score(kinds[here], codes[here]))
        counts.append(count)
    assert np.mean(fits) > 0.65
    assert 4 <= np.mean(counts) <= 6


# From a result


@pytest.fixture(scope="module")
def solved():
    """Two known kinds; of the pile 20 are of these, 12 and 8 of two others."""
    x, kinds = clouds(np.random.default_rng(1), (15, 15, 12, 8))
    shown = np.r_[0:5, 15:20]
    pile = np.setdiff1d(np.arange(50), shown)
    labels = np.array(["cat", "dog"])[kinds[shown]]
    return package.solve(x[shown], labels, x[pile], method="kdo", outlier_share=0.5), kinds[pile]


def test_a_result_tells_its_groups_by_place_in_the_pile(solved):
    result, kinds = solved
    first, second = result.groups
    assert (first.number, first.name, first.size) == (1, "group 1", 12)
    assert sorted(first.items) == np.flatnonzero(kinds == 2).tolist()
    assert sorted(second.items) == np.flatnonzero(kinds == 3).tolist()
    assert 0.15 < first.cohesion <= 1
    assert repr(first) == f"<Group 1: 12 items, item {first.representative} the most central>"


def test_the_most_central_items_come_first(solved):
    result, _ = solved
    for group in result.groups:
        x = result.task.query[0][group.items]
        far = np.linalg.norm(x - x.mean(axis=0), axis=1)
        assert far[: group.size // 2].mean() < far[group.size // 2 :].mean()
        assert group.representative == group.items[0]


def test_a_batch_is_told_to_take_one_task():
    episodes = draw(*digits(), Protocol(ways=2, outlier_ways=2), tasks=3)
    result = package.solve(episodes.task, method="kdo")
    with pytest.raises(ValueError, match="take result\\[i\\]"):
        _ = result.groups
    np.testing.assert_array_equal(result[1].task.query[0], episodes.task.query[1])
    alone = package.solve(episodes.task[1], method="kdo")
    assert [g.items.tolist() for g in result[1].groups] == [g.items.tolist() for g in alone.groups]


def test_a_result_always_holds_its_task_and_one_without_unknowns_has_no_groups(solved):
    result, _ = solved
    with pytest.raises(TypeError, match="task"):
        package.Result(result.probabilities, result.outlier_scores, result.classes, result.threshold, 0.5)
    nobody = package.solve(result.task, method="kdo", threshold=1e9)
    assert nobody.groups == []


def test_a_promoted_group_is_a_class_of_the_next_task(solved):
    result, kinds = solved
    new = result.promote({1: "hen"}, examples=4)
    assert new.task.classes.tolist() == ["cat", "dog", "hen"]
    assert new.task.shots.tolist() == [[5, 5, 4]]
    taken = np.setdiff1d(np.arange(40), new.rest)
    assert sorted(taken) == sorted(result.groups[0].exemplars(4))
    np.testing.assert_array_equal(new.task.query[0], result.task.query[0][new.rest])
    assert new.outlier_share == pytest.approx(0.5 * (8 / 20) / (36 / 40))
    again = package.solve(new.task, method="kdo", outlier_share=new.outlier_share)
    names = np.array(["cat", "dog", "hen", "unknown"])
    assert again.labels.tolist() == names[kinds[new.rest]].tolist()
    last = again.promote({1: "owl"})
    assert last.task.classes.tolist() == ["cat", "dog", "hen", "owl"]
    assert last.outlier_share == 0.01


def test_a_share_that_was_estimated_is_kept_less_the_group(solved):
    task, kinds = solved[0].task, solved[1]
    result = package.solve(task)
    assert result.outlier_share_interval is not None
    new = result.promote({1: "hen"}, examples=4)
    assert new.outlier_share == pytest.approx(result.outlier_share * (8 / 20) / (36 / 40))
    again = package.solve(new.task, outlier_share=new.outlier_share)
    assert again.labels.tolist() == np.array(["cat", "dog", "hen", "unknown"])[kinds[new.rest]].tolist()


def mixture(seed, size=20):
    """One loose cloud made of three near ones, and the kind of each item."""
    rng = np.random.default_rng(seed)
    centre, offsets = 3 * rng.normal(size=32), 2 * rng.normal(size=(3, 32))
    kinds = np.repeat(range(3), size)
    return centre + offsets[kinds] + 0.5 * rng.normal(size=(len(kinds), 32)), kinds


def test_the_exemplars_of_a_mixed_group_are_of_all_its_kinds_in_their_measure():
    for seed in range(5):
        x, kinds = mixture(seed)
        x = np.concatenate([x, x[:1] + 1e-6 * np.random.default_rng(seed).normal(size=(15, 32))])  # near-duplicates
        kinds = np.append(kinds, [0] * 15)
        (group,) = make_groups(x, np.arange(len(x)), 3 * np.random.default_rng(seed).normal(size=(40, 32)), detail=-2)[
            :1
        ]
        here = kinds[group.items]
        few = kinds[group.exemplars(6)]
        assert set(few) == set(here), seed
        count = -(-group.size * min(group.kinds, 3) // 3)
        assert len(set(group.exemplars().tolist())) == len(group.exemplars()) == count
        assert set(group.exemplars(1000).tolist()) == set(group.items.tolist())


def test_detail_makes_groups_coarser_and_finer():
    x, y = digits()
    x = np.concatenate([x[y == k][:40] for k in range(10)])
    counts = [find_groups(x, detail=detail).max() for detail in (-2, -1, 0, 1, 2)]
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]
    np.testing.assert_array_equal(find_groups(x, detail=0), find_groups(x))


def test_a_detail_out_of_its_range_is_refused():
    for detail in [-2.1, 3, np.nan, "fine", True]:
        with pytest.raises(ValueError, match="detail is .*: give a number from -2"):
            find_groups(np.eye(4), detail=detail)


@pytest.fixture(scope="module")
def mixed_digits():
    """Digits 0, 1, 2 and 4 are known; threes and nines are found as one group, the largest."""
    x, y = digits()
    shown = np.concatenate([np.flatnonzero(y == k)[:5] for k in (0, 1, 2, 4)])
    pile = np.concatenate([np.flatnonzero(y == k)[5:30] for k in range(10)])
    return package.solve(x[shown], y[shown], x[pile]), y[pile]


def test_a_mixed_group_says_how_many_kinds_it_looks_like_and_is_split_into_them(mixed_digits):
    result, truth = mixed_digits
    groups = result.groups
    assert sorted(np.bincount(truth[groups[0].items]).argsort()[-2:]) == [3, 9]
    assert groups[0].kinds == 2
    assert repr(groups[0]).endswith("looks like 2 kinds>")
    parts = split_group(groups, 1)
    assert [part.number for part in parts] == [*range(1, len(groups) + 2)]
    assert [part.size for part in parts] == sorted((part.size for part in parts), reverse=True)
    assert sorted(np.concatenate([p.items for p in parts])) == sorted(np.concatenate([g.items for g in groups]))
    kinds = groups[0].split()
    assert sorted(np.bincount(truth[kind.items]).argmax() for kind in kinds) == [3, 9]
    assert min(np.bincount(truth[kind.items]).max() / kind.size for kind in kinds) > 0.85
    for kind in kinds:
        assert set(kind.exemplars().tolist()) <= set(kind.items.tolist())
    (joined, *others) = join_groups([*kinds, *groups[1:]][:2], [1, 2])
    assert not others
    assert sorted(joined.items) == sorted(groups[0].items)
    assert set(truth[joined.exemplars(2)]) == {3, 9}


def test_one_kind_is_not_split(solved):
    groups = solved[0].groups
    assert [group.kinds for group in groups] == [1, 1]
    assert groups[0].split() == [groups[0]]
    with pytest.raises(ValueError, match="looks like one kind"):
        split_group(groups, 1)
    with pytest.raises(ValueError, match="there is no group 3"):
        split_group(groups, 3)
    with pytest.raises(ValueError, match="name two or more"):
        join_groups(groups, [1, 1])


def test_groups_of_another_detail_and_joined_ones_are_promoted_too(solved):
    result, _ = solved
    joined = join_groups(result.find_groups(detail=1), [1, 2])
    new = result.promote({1: "bird"}, groups=joined)
    assert new.task.shots.tolist() == [[14, 5, 5]]  # two kinds: two thirds of 20


def test_a_group_joins_a_class_only_if_that_is_said(solved):
    with pytest.raises(ValueError, match="join=True"):
        solved[0].promote({1: "cat"})
    new = solved[0].promote({1: "cat"}, examples=3, join=True)
    assert new.task.classes.tolist() == ["cat", "dog"]
    assert new.task.shots.tolist() == [[8, 5]]


def test_a_promoted_mixed_group_is_found_again(mixed_digits):
    """Three digits as one class: the five most central items of the first one do not find the others."""
    result, _ = mixed_digits
    joined = join_groups(result.groups, [1, 3])[0]
    assert 70 < joined.size < 80
    found = []
    for items in (joined.exemplars(), result.groups[0].items[:5]):
        rest = np.setdiff1d(np.arange(len(result)), items)
        query, support = result.task.query[0], result.task.support[0]
        labels = [*result.task.classes[result.task.labels[0]].tolist(), *[99] * len(items)]
        again = package.solve(np.concatenate([support, query[items]]), labels, query[rest])
        found.append(np.mean(again.labels[np.isin(rest, joined.items)] == 99))
    assert found[0] > 0.75
    assert found[0] > found[1] + 0.1


@pytest.mark.parametrize(("share", "part", "kept", "left"), [(0.9, 0.05, 0.8, 0.99), (0.3, 1, 0.9, 0.01)])
def test_a_share_that_is_lowered_stays_one_that_a_method_takes(solved, share, part, kept, left):
    assert lower_share(share, part, kept) == left
    assert package.solve(solved[0].task, method="kdo", outlier_share=left).outlier_share == left


def test_two_groups_of_one_name_are_one_class(solved):
    new = solved[0].promote({1: "bird", 2: "bird"}, examples=3)
    assert new.task.shots.tolist() == [[6, 5, 5]]


@pytest.mark.torch
def test_torch_in_torch_out(solved):
    import torch

    task = solved[0].task
    names = task.classes[task.labels[0]]
    result = package.solve(torch.tensor(task.support[0]), names, torch.tensor(task.query[0]), method="kdo")
    assert torch.is_tensor(result.promote({1: "hen"}).task.query)
    assert [g.size for g in result.groups] == [12, 8]


def test_names_that_do_not_do_are_refused(solved):
    for names, error, sentence in [
        ({3: "hen"}, ValueError, "there is no group 3: they are numbered 1 to 2"),
        ({1: "cat"}, ValueError, "there is a class 'cat' already"),
        *(({1: name}, ValueError, "means unknown") for name in ("unknown", " Unknown", "-2", "-1", "", " ", "nan")),
        ({1: 7}, TypeError, "the classes are text"),
        ({}, ValueError, "no group is named"),
    ]:
        with pytest.raises(error, match=sentence):
            solved[0].promote(names)


def test_numbered_classes_need_a_number(solved):
    task = solved[0].task
    result = package.solve(task.support[0], task.labels[0], task.query[0], method="kdo")
    assert result.promote({1: 7}).task.classes.tolist() == [0, 1, 7]
    with pytest.raises(TypeError, match="the classes are numbers"):
        result.promote({1: "hen"})
    with pytest.raises(ValueError, match="there is a class 1 already"):
        result.promote({1: 1})
    with pytest.raises(ValueError, match="at least 1"):
        result.promote({1: 7}, examples=0)


# Labelled piles


def table(path, seed=2, sizes=(16, 15, 12, 8), shown=4):
    """Embeddings of four kinds, of which two have a few labels."""
    x, kinds = clouds(np.random.default_rng(seed), sizes)
    names = np.array(["cat", "dog", "hen", "owl"])[kinds]
    lines = ["path,label," + ",".join(f"x{j}" for j in range(x.shape[1]))]
    for i, (row, kind, name) in enumerate(zip(x, kinds, names, strict=True)):
        place = i - int(np.flatnonzero(kinds == kind)[0])
        label = name if kind < 2 and place < shown else ""
        lines.append(f"{name}{place:02},{label}," + ",".join(f"{v:.6f}" for v in row))
    path.write_text("\n".join(lines) + "\n")


def kind_of(row):
    return row["path"].removesuffix(".png").rstrip("0123456789")


LABEL = ("label", "t.csv", "-o", "out", "--outlier-share", 0.46, "--method", "kdo")


@pytest.fixture
def out(tmp_path, handful):
    table(tmp_path / "t.csv")
    done = handful(*LABEL)
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "The 20 unknowns fall into about 2 groups of 12 and 8." in said
    assert "handful promote out 1=NAME" in said
    return tmp_path / "out"


def test_the_tables_and_the_record_hold_the_groups(out, handful):
    number = {"hen": "1", "owl": "2"}
    for row in rows_of(out / "labels.csv"):
        assert row["group"] == number.get(kind_of(row), ""), row
    said = json.loads(handful(*LABEL, "--overwrite", "--json").stdout)
    assert [(g["number"], g["size"]) for g in said["groups"]] == [(1, 12), (2, 8)]
    assert {name.rstrip("0123456789") for name in said["groups"][1]["items"]} == {"owl"}
    record = json.loads((out / "results.json").read_text())
    assert [[name for name, _ in g["items"]] for g in record["groups"]] == [g["items"] for g in said["groups"]]


def test_sentences_count_the_groups_and_those_in_none(solved):
    """Whatever the groups are: these are given."""
    for sizes, unknown, sentence in [
        ([12], 12, "The 12 unknowns fall into one group of 12."),
        ([12], 13, "The 13 unknowns fall into one group of 12; 1 belongs to none."),
        ([41, 22, 20, 9], 97, "The 97 unknowns fall into about 4 groups of 41, 22, 20 and 9; 5 belong to none."),
        ([*range(20, 4, -1)], 200, "The 200 unknowns fall into about 16 groups of 5 to 20."),
        ([], 3, None),
    ]:
        task = solved[0].task
        x = np.concatenate([task.support[0], np.repeat(task.query[0], 6, axis=0)])
        shown = FeatureTable(x[:10], [*"aaaaabbbbb"], list("abcdefghij"))
        pile = FeatureTable(x[10:], paths=[*map(str, range(240))])
        found = label_items(shown, pile, method="kdo", unknown_rate=0.5)
        found.model.threshold_ = 0.5
        scores = np.where(np.arange(240) < unknown, 1.0, 0.0)
        found = Labelled(pile, shown, found.model, found.probabilities, scores, found.decision)
        ends = np.cumsum([0, *sizes])
        found.groups = [Group(k + 1, np.arange(ends[k], ends[k + 1]), 0.5) for k in range(len(sizes))]
        said = [line for line in found.sentences if "fall into" in line]
        assert said == ([sentence] if sentence else [])


def test_a_group_of_a_table_becomes_a_class_and_the_next_one_keeps_it(out, handful):
    before = contents(out)
    done = handful("promote", "out", "2=owl", "-o", "second")
    assert done.returncode == 0, done.stderr
    assert "3 classes were shown by 4 to 5 examples each; the pile holds 43 items." in " ".join(done.stdout.split())
    assert "5 items of the pile are examples of owl." in done.stdout
    for row in rows_of("second/labels.csv"):
        assert row["label"] == {"hen": "unknown"}.get(kind_of(row), kind_of(row)), row
    assert contents(out) == before
    said = json.loads(handful("promote", "second", "1=hen", "--json", "--examples", 3).stdout)
    assert said["unknown"] == 0
    assert said["labels"] == {"cat": 12, "dog": 11, "hen": 12, "owl": 8}
    assert said["files"]["labels.csv"].endswith("/second/labels.csv")  # in the same folder, where nothing else is said
    record = json.loads((out.parent / "second" / "results.json").read_text())
    assert {name: len(items) for name, items in record["job"]["promoted"].items()} == {"owl": 5, "hen": 3}
    said = json.loads(handful("label", "second", "--undo", "--json").stdout)
    assert said["unknown"] == 12
    record = json.loads((out.parent / "second" / "results.json").read_text())
    assert {name: len(items) for name, items in record["job"]["promoted"].items()} == {"owl": 5}


def test_the_share_of_unknowns_is_lowered_by_what_was_promoted_unless_another_is_given(out):
    for number, (share, expected) in enumerate(
        [(None, pytest.approx(0.46 * (8 / 20) / (38 / 43))), (0.3, 0.3), ("auto", "auto")]
    ):
        Project(out).promote({1: "hen"}, outlier_share=share, output=out.parent / f"promoted{number}")
        record = json.loads((out.parent / f"promoted{number}" / "results.json").read_text())
        assert record["job"]["decision"]["outlier_share"] == expected


def test_promote_keeps_the_share_that_label_estimated_less_the_group(tmp_path, handful):
    table(tmp_path / "t.csv")
    first = json.loads(handful("label", "t.csv", "-o", "out", "--json").stdout)
    low, high = first["outlier_share_interval"]
    assert low < 20 / 43 < high
    assert [group["size"] for group in first["groups"]] == [12, 8]
    done = handful("promote", "out", "1=hen", "-o", "second")
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "of the pile look unknown, as before the groups became classes, less them." in said
    assert "Warning" not in said
    assert "5 items of the pile are examples of hen." in said
    second = json.loads((tmp_path / "second" / "results.json").read_text())
    share = second["job"]["decision"]["outlier_share"]
    assert share == pytest.approx(first["outlier_share"] * (8 / 20) / (38 / 43))
    assert (second["outlier_share"], second["outlier_share_told"]) == (share, False)
    found = {"hen": {"found": 12, "size": 12}}
    assert second["comparison"] == {
        "unknown_before": 20,
        "unknown_after": 8,
        "changed": 0,
        "found": found,
        "warnings": [],
    }
    anew = json.loads(handful("promote", "out", "1=hen", "-o", "anew", "--outlier-share", "auto", "--json").stdout)
    low, high = anew["outlier_share_interval"]
    assert low < 8 / 38 < high
    for row in rows_of("second/labels.csv"):
        assert row["label"] == {"owl": "unknown"}.get(kind_of(row), kind_of(row)), row
    third = json.loads(handful("promote", "second", "1=owl", "--json", "--outlier-share", 0.02).stdout)
    assert (third["outlier_share"], third["outlier_share_told"], third["unknown"]) == (0.02, True, 0)


def digit_table(path):
    """Digits 0, 1, 2 and 4 have examples; threes and nines of the pile are found as one group, the largest."""
    x, y = digits()
    rows = np.concatenate([np.flatnonzero(y == k)[:30] for k in range(10)])
    place = np.arange(len(rows)) % 30
    labels = [str(y[i]) if y[i] in (0, 1, 2, 4) and k < 5 else None for i, k in zip(rows, place, strict=True)]
    paths = [f"{y[i]}-{k:02}" for i, k in zip(rows, place, strict=True)]
    keep = [n for n, i in enumerate(rows) if labels[n] or place[n] >= 5]
    write(FeatureTable(x[rows], labels, paths).take(keep), path)


def digits_labelled(name, folder):
    """The digit of each item that has this label."""
    return [row["path"][0] for row in rows_of(f"{folder}/labels.csv") if row["label"] == name]


def test_a_group_of_several_kinds_is_said_and_each_kind_becomes_a_class(tmp_path, handful):
    digit_table(tmp_path / "d.parquet")
    said = " ".join(handful("label", "d.parquet", "-o", "out").stdout.split())
    assert re.search(r"Group 1 looks like 2 kinds, of \d+ and \d+\.", said)
    assert "To split group 1 into its kinds: handful promote out 1.1=NAME1 1.2=NAME2" in said
    done = handful("promote", "out", "1.1=first", "1.2=second", "-o", "second", "--json")
    answer = json.loads(done.stdout)
    assert set(answer["comparison"]["found"]) == {"first", "second"}
    kinds = [max(set(there), key=there.count) for there in (digits_labelled(n, "second") for n in ("first", "second"))]
    assert sorted(kinds) == ["3", "9"]
    assert json.loads((tmp_path / "second" / "results.json").read_text())["comparison"] == answer["comparison"]
    assert_refused(handful("promote", "out", "1=x", "1.2=y"), "group 1 is named, and 1.2 in it too")
    assert_refused(handful("promote", "out", "1.7=x"), "there is no 1.7 in group 1: its kinds are 1.1 to 1.2")


def test_group_detail_is_kept_in_the_record_and_promoted_from(tmp_path, handful):
    digit_table(tmp_path / "d.parquet")
    counts = {}
    for detail in (-2, 2):
        answer = json.loads(
            handful("label", "d.parquet", "-o", f"out{detail}", "--set", f"group_detail={detail}", "--json").stdout
        )
        counts[detail] = len(answer["groups"])
        record = json.loads((tmp_path / f"out{detail}" / "results.json").read_text())
        assert record["job"]["decision"]["group_detail"] == detail
    assert counts[-2] < counts[2]
    answer = json.loads(handful("promote", "out2", "1=new", "-o", "next", "--json").stdout)
    assert answer["comparison"]["found"]["new"]["found"] > 0
    assert json.loads((tmp_path / "next" / "results.json").read_text())["job"]["decision"]["group_detail"] == 2
    assert handful("label", "d.parquet", "-o", "out9", "--set", "group_detail=9").returncode != 0


def test_a_group_joins_a_class_on_the_command_line(out, handful):
    done = handful("promote", "out", "1=cat", "--join", "-o", "joined")
    assert done.returncode == 0, done.stderr
    labels = {row["path"]: row["label"] for row in rows_of("joined/labels.csv")}
    assert {label for path, label in labels.items() if path.startswith("hen")} == {"cat"}
    assert "5 items of the pile are examples of cat." in " ".join(done.stdout.split())


def test_a_promotion_that_swings_is_warned_of_with_the_way_back(tmp_path, handful):
    digit_table(tmp_path / "d.parquet")
    groups = json.loads(handful("label", "d.parquet", "-o", "out", "--json").stdout)["groups"]
    names = [f"{group['number']}=all" for group in groups]
    done = handful("promote", "out", *names, "--examples", 1, "--outlier-share", 0.6, "-o", "second")
    said = " ".join(done.stdout.split())
    assert "Warning: " in said
    assert "To go back to the labels of before: handful label second --undo" in said
    warnings = json.loads((tmp_path / "second" / "results.json").read_text())["comparison"]["warnings"]
    assert f"Warning: {warnings[0]}" in said
    assert warnings[0].split(":")[0] in (tmp_path / "second" / "report.html").read_text()


def test_what_has_changed_by_a_promotion_is_counted():
    before = ["cat"] * 60 + ["dog"] * 20 + ["unknown"] * 20
    calm = compare(before, ["cat"] * 60 + ["dog"] * 20 + ["hen"] * 12 + ["unknown"] * 8, {"hen": range(80, 92)})
    assert (calm.changed, calm.found, calm.warnings) == (0, {"hen": (12, 12)}, [])
    after = ["cat"] * 50 + ["unknown"] * 10 + ["dog"] * 20 + ["hen"] * 5 + ["unknown"] * 15
    swing = compare(before, after, {"hen": range(80, 92)})
    assert (swing.changed, swing.unknown_after, swing.found["hen"]) == (10, 25, (5, 12))
    assert swing.warnings == [
        "Only 5 of the 12 items that should be hen were labelled so.",
        "25 items are unknown now; about 8 were expected, which is 20 less the groups that are classes now.",
        "10 items that are in none of these groups have another label now (10 % of the pile).",
    ]


def test_what_cannot_be_promoted_is_refused_in_a_sentence(out, handful):
    for words, sentence in [
        (("out", "3=hen"), "there is no group 3: they are numbered 1 to 2"),
        (("out", "1=cat"), "there is a class 'cat' already"),
        (("out", "1=unknown"), "means unknown"),
        (("out", "hen"), "'hen': give the number of a group and a name for its class, as 2=mushroom"),
        (("out", "1="), "give the number of a group"),
        (("out", "1=hen", "1=owl"), "group 1 is named twice"),
        (("none", "1=hen"), "there is no folder 'none'"),
        ((".", "1=hen"), "has no project.sqlite"),
        (("out", "1.1=hen"), "there is no 1.1 in group 1: it looks like one kind"),
        (("out", "1.x=hen"), "give the number of a group"),
        (("out", "1=hen", "--outlier-share", "3"), "between 0 and 1"),
        (("out", "1=hen", "--outlier-share", "few"), "--outlier-share 'few': give auto, or a number between 0 and 1"),
    ]:
        before = contents(out.parent)
        assert_refused(handful("promote", *words), sentence)
        assert contents(out.parent) == before


def test_a_name_that_was_promoted_is_taken(out, handful):
    assert handful("promote", "out", "2=owl", "-o", "second").returncode == 0
    assert_refused(handful("promote", "second", "1=owl"), "there is a class 'owl' already")


def test_results_without_groups_or_damaged_are_told_of(out, handful):
    groups = {"groups": [], "exemplars": [], "parts": []}
    with closing(sqlite3.connect(out / "project.sqlite")) as db, db:
        (facts,) = db.execute("SELECT facts FROM runs").fetchone()
        db.execute("UPDATE runs SET facts = ?", (json.dumps(json.loads(facts) | groups),))
    assert_refused(handful("promote", "out", "1=hen"), "form no groups")
    with closing(sqlite3.connect(out / "project.sqlite")) as db, db:
        db.execute("DELETE FROM meta WHERE key = 'job'")
    assert_refused(handful("promote", "out", "1=hen"), "does not say what was labelled")
    (out / "project.sqlite").write_bytes(b"no database" * 1000)
    assert_refused(handful("promote", "out", "1=hen"), "cannot be used")


def test_a_table_that_changed_or_went_is_told_of(out, handful):
    table(out.parent / "t.csv", seed=3)
    assert_refused(handful("promote", "out", "1=hen"), "an example of 'hen', has changed since")
    (out.parent / "t.csv").unlink()
    assert_refused(handful("promote", "out", "1=hen"), "which these results were made from, is gone")


# Pictures


def draw_picture(kind, seed):
    rng = np.random.default_rng([len(kind), seed])
    pixels = rng.integers(0, 60, (40, 48, 3))
    {"top": pixels[:12], "grid": pixels[::8, ::2]}[kind][:] += 150
    return Image.fromarray(pixels.astype(np.uint8))


@pytest.fixture
def pictures(tmp_path):
    fill(tmp_path, count=8, kinds=("left", "right"))
    for kind, count in (("top", 10), ("grid", 7)):
        for i in range(count):
            draw_picture(kind, i).save(tmp_path / "pile" / f"{kind}{i}.png")
    return tmp_path


def test_groups_of_pictures_are_promoted_twice_and_the_users_folders_stay_as_they_were(pictures, handful):
    before = contents(pictures / "examples"), contents(pictures / "pile")
    done = handful("label", "examples", "pile", "-o", "pile/out", "--outlier-share", 0.5, "--sort", "copy", *PIXELS)
    assert done.returncode == 0, done.stderr
    groups = json.loads((pictures / "pile" / "out" / "results.json").read_text())["groups"]
    kinds = [{kind_of({"path": name}) for name, _ in group["items"]} for group in groups]
    assert kinds == [{"top"}, {"grid"}]
    done = handful("promote", "pile/out", "1=<b>top</b>", "--out", "pile/out2", "--sort", "copy")
    assert done.returncode == 0, done.stderr
    rows = rows_of("pile/out2/labels.csv")
    assert len(rows) == 33  # the copies in pile/out are no pile
    assert {row["label"] for row in rows if kind_of(row) == "top"} == {"<b>top</b>"}
    page = (pictures / "pile" / "out2" / "report.html").read_text()
    assert "<b>top</b>" not in page
    assert len(list((pictures / "pile" / "out2" / "sorted").rglob("top*.png"))) == 10
    done = handful("promote", "pile/out2", "1=grid", "--out", "third", "--json")
    assert json.loads(done.stdout)["labels"] == {"<b>top</b>": 10, "grid": 7, "left": 8, "right": 8}
    shutil.rmtree(pictures / "pile" / "out")
    shutil.rmtree(pictures / "pile" / "out2")
    assert (contents(pictures / "examples"), contents(pictures / "pile")) == before


def test_pictures_that_went_or_changed_are_told_of(pictures, handful):
    done = handful("label", "examples", "pile", "-o", "out", *PIXELS, "--json")
    first = json.loads(done.stdout)["groups"][0]["items"][0]
    draw_picture("grid", 99).save(pictures / "pile" / first)
    assert_refused(handful("promote", "out", "1=top"), f"{first!r}, an example of 'top', has changed")
    (pictures / "pile" / first).unlink()
    assert_refused(handful("promote", "out", "1=top"), f"{first!r}, an example of 'top', is gone")


def test_a_job_reads_as_label_does(pictures, own_cache):
    job = Job(pictures / "examples", pictures / "pile", {}, "pixels")
    shown, found = job.read(lambda *_: None)
    assert (len(shown), len(found)) == (6, 33)
