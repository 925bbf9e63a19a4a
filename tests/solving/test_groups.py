"""Groups of unknowns: found, split, joined, and made into classes of a new task. The commands: test_promote.py."""

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

import handful as package
from handful.features import Protocol, digits, draw
from handful.solving.clusters import find_clusters
from handful.solving.groups import Group, group_unknowns, join_groups, make_groups, split_group, with_words


def clouds(rng, sizes, dimension=32, noise=0.5):
    centres = 2 * rng.normal(size=(len(sizes), dimension))
    kinds = np.repeat(np.arange(len(sizes)), sizes)
    return centres[kinds] + noise * rng.normal(size=(len(kinds), dimension)), kinds


# ---- finding


def find_groups(*arguments, **options):
    """The number of the group of each item, from 0 for the largest; -1 for items in none."""
    return find_clusters(*arguments, **options).codes


def test_clear_groups_are_found_with_their_number_and_the_largest_comes_first():
    for sizes in [(30,), (40, 15, 8, 5), (12,) * 9]:
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


def test_most_strangers_among_them_are_in_no_group_and_no_member_is_lost():
    left_out = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        x, kinds = clouds(rng, (15, 15))
        codes = find_groups(np.concatenate([x, 2 * rng.normal(size=(4, 32))]), 2 * rng.normal(size=(40, 32)))
        assert adjusted_rand_score(kinds, codes[:30]) == 1
        assert codes[:30].min() == 0
        left_out.append(np.mean(codes[30:] < 0))
    assert np.mean(left_out) > 0.75


def test_piles_at_the_edges():
    """Nothing in common, too few, all alike, and in another order."""
    assert find_groups(np.random.default_rng(0).normal(size=(40, 256))).tolist() == [-1] * 40
    for n in (0, 1, 2):
        assert find_groups(np.ones((n, 4)), np.eye(4)).tolist() == [-1] * n
    twins = np.repeat(np.eye(4), 6, axis=0)
    for context in (None, np.eye(4)):
        assert find_groups(np.ones((7, 4)), context).tolist() == [0] * 7
        assert adjusted_rand_score(np.repeat(range(4), 6), find_groups(twins, context)) == 1
    x, _ = clouds(np.random.default_rng(3), (15, 14, 9), noise=1.5)
    assert adjusted_rand_score(find_groups(x), find_groups(x[::-1])[::-1]) == 1


def test_detail_makes_groups_coarser_and_finer():
    x, y = digits()
    x = np.concatenate([x[y == k][:40] for k in range(10)])
    counts = [find_groups(x, detail=detail).max() for detail in (-2, -1, 0, 1, 2)]
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]
    for detail in [-2.1, np.nan, "fine"]:
        with pytest.raises(ValueError, match="detail is .*: give a number from -2"):
            find_groups(np.eye(4), detail=detail)


def test_on_digits_the_groups_are_about_as_good_as_k_means_that_is_told_their_number():
    """Over ten tasks: how well groups of unknowns fit their classes, and 5-means, and how many groups there are."""
    features, labels = digits()
    episodes = draw(features, labels, Protocol(), seed=5, tasks=10)
    result = package.solve(episodes.task, method="eol_kdo", outlier_share=0.5)
    rows = []
    for i, kinds in enumerate(labels[episodes.query_items]):
        codes = np.full(len(kinds), -1)
        for group in result[i].groups:
            codes[group.items] = group.number
        here = np.asarray(result[i].unknown) & episodes.outlier[i]
        of_means = KMeans(5, n_init=3, random_state=0).fit_predict(episodes.task.query[i][here])
        own, other = (adjusted_rand_score(kinds[here], found) for found in (codes[here], of_means))
        rows.append((own, other, len(result[i].groups)))
    own, other, count = np.mean(rows, axis=0)
    assert own > other - 0.05
    assert 4 <= count <= 6


# ---- of a result


@pytest.fixture(scope="module")
def solved():
    """Two known kinds; of the pile 20 are of these, 12 and 8 of two others."""
    x, kinds = clouds(np.random.default_rng(1), (15, 15, 12, 8))
    shown = np.r_[0:5, 15:20]
    pile, labels = np.setdiff1d(np.arange(50), shown), np.array(["cat", "dog"])[kinds[shown]]
    return package.solve(x[shown], labels, x[pile], method="kdo", outlier_share=0.5), kinds[pile]


def test_a_result_tells_its_groups_by_place_in_the_pile_the_most_central_first(solved):
    result, kinds = solved
    first, second = result.groups
    assert (first.number, first.name, first.size) == (1, "group 1", 12)
    assert sorted(first.items) == np.flatnonzero(kinds == 2).tolist()
    assert sorted(second.items) == np.flatnonzero(kinds == 3).tolist()
    assert 0.15 < first.cohesion <= 1
    assert repr(first) == f"<Group 1: 12 items, item {first.representative} the most central>"
    for group in result.groups:
        x = result.task.query[0][group.items]
        far = np.linalg.norm(x - x.mean(axis=0), axis=1)
        assert far[: group.size // 2].mean() < far[group.size // 2 :].mean()
        assert group.representative == group.items[0]
    assert package.solve(result.task, method="kdo", threshold=1e9).groups == []


def test_classes_that_a_method_opened_are_groups_of_its_unknown_items():
    """An item that joined a known class, or is not unknown, is in no group; a class may be a single item."""
    rng = np.random.default_rng(0)
    task = package.Task(rng.normal(size=(3, 6)), ["a", "b", "c"], rng.normal(size=(12, 6)))
    joined = np.array([[3, 9, 9, 0, 4, 9, 3, 2, 9, 4, 9, 5.0]])  # floats, as a method may write
    unknown = np.array([1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 1, 1], bool)
    for name in ("joined", "detector/joined"):
        groups = group_unknowns(task, unknown, state={name: joined, "labels": np.zeros((1, 12))})
        assert [sorted(group.items.tolist()) for group in groups] == [[1, 2, 5, 10], [0, 6], [4], [11]]
        assert [group.number for group in groups] == [1, 2, 3, 4]
        assert groups[2].cohesion == 1
    assert group_unknowns(task, unknown, state={"joined": np.zeros((1, 12))}) == []
    assert group_unknowns(task, np.zeros(12, bool), state={"joined": joined}) == []
    of_a_sample = group_unknowns(task, unknown, state={"joined": joined[:, :9]})  # says nothing of the pile
    assert [g.items.tolist() for g in of_a_sample] == [g.items.tolist() for g in group_unknowns(task, unknown)]


# ---- changing them


def test_the_exemplars_of_a_mixed_group_are_of_all_its_kinds_in_their_measure():
    """One loose cloud made of three near ones, and 15 near-duplicates of one item."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        centre, offsets = 3 * rng.normal(size=32), 2 * rng.normal(size=(3, 32))
        kinds = np.repeat(range(3), 20)
        x = centre + offsets[kinds] + 0.5 * rng.normal(size=(60, 32))
        x = np.concatenate([x, x[:1] + 1e-6 * rng.normal(size=(15, 32))])
        kinds = np.append(kinds, [0] * 15)
        group = make_groups(x, np.arange(len(x)), 3 * rng.normal(size=(40, 32)), detail=-2)[0]
        assert set(kinds[group.exemplars(6)]) == set(kinds[group.items]), seed
        count = -(-group.size * min(group.kinds, 3) // 3)
        assert len(set(group.exemplars().tolist())) == len(group.exemplars()) == count
        assert set(group.exemplars(1000).tolist()) == set(group.items.tolist())


def test_a_mixed_group_says_how_many_kinds_it_looks_like_and_is_split_into_them():
    """Digits 0, 1, 2 and 4 are known; threes and nines are found as one group, the largest."""
    x, y = digits()
    shown = np.concatenate([np.flatnonzero(y == k)[:5] for k in (0, 1, 2, 4)])
    pile = np.concatenate([np.flatnonzero(y == k)[5:30] for k in range(10)])
    groups, truth = package.solve(x[shown], y[shown], x[pile]).groups, y[pile]
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
    (joined,) = join_groups(kinds, [1, 2])
    assert sorted(joined.items) == sorted(groups[0].items)


def test_one_kind_is_not_split_and_one_group_not_joined(solved):
    groups = solved[0].groups
    assert groups[0].split() == [groups[0]]
    for change, wrong, message in [
        (split_group, 1, "looks like one kind"), (split_group, 3, "there is no group 3: they are numbered 1 to 2"),
        (join_groups, [1, 1], "name two or more"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=message):
            change(groups, wrong)


# ---- making classes of them


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
    estimated = package.solve(result.task)  # a share that was estimated is kept, less the group
    share = estimated.promote({1: "hen"}, examples=4).outlier_share
    assert share == pytest.approx(estimated.outlier_share * (8 / 20) / (36 / 40))


def test_a_group_joins_a_class_and_two_groups_become_one_if_that_is_said(solved):
    result = solved[0]
    new = result.promote({1: "cat"}, examples=3, join=True)
    assert (new.task.classes.tolist(), new.task.shots.tolist()) == (["cat", "dog"], [[8, 5]])
    assert result.promote({1: "bird", 2: "bird"}, examples=3).task.shots.tolist() == [[6, 5, 5]]
    joined = join_groups(result.find_groups(detail=1), [1, 2])
    assert result.promote({1: "bird"}, groups=joined).task.shots.tolist() == [[14, 5, 5]]  # two kinds: two thirds of 20


@pytest.mark.torch
def test_torch_in_torch_out(solved):
    import torch

    task = solved[0].task
    names = task.classes[task.labels[0]]
    result = package.solve(torch.tensor(task.support[0]), names, torch.tensor(task.query[0]), method="kdo")
    assert torch.is_tensor(result.promote({1: "hen"}).task.query)
    assert [g.size for g in result.groups] == [12, 8]


def test_names_that_do_not_do_are_refused(solved):
    task = solved[0].task
    numbered = package.solve(task.support[0], task.labels[0], task.query[0], method="kdo")
    assert numbered.promote({1: 7}).task.classes.tolist() == [0, 1, 7]
    no_names = (" Unknown", "-2", "", "nan")
    for result, names, error, sentence in [
        (solved[0], {3: "hen"}, ValueError, "there is no group 3: they are numbered 1 to 2"),
        (solved[0], {1: "cat"}, ValueError, "there is a class 'cat' already.*join=True"),
        *((solved[0], {1: name}, ValueError, "means unknown") for name in no_names),
        (solved[0], {1: 7}, TypeError, "the classes are text"),
        (solved[0], {}, ValueError, "no group is named"),
        (numbered, {1: "hen"}, TypeError, "the classes are numbers"),
    ]:
        with pytest.raises(error, match=sentence):
            result.promote(names)


def test_the_words_of_a_kind_are_none_that_another_kind_of_the_group_has():
    lost = ["lost card in rome", "my card is lost", "the card got lost"] * 4
    texts = [*lost, *(text.replace("lost", "stolen") for text in lost)]
    texts += ["play the next song", "is the song good", "the time in rome"] * 8
    kinds = [Group(k + 1, np.arange(12 * k, 12 * k + 12), 1.0) for k in range(2)]
    (group,) = with_words([Group(1, np.arange(24), 1.0, parts=kinds)], texts)
    assert "card" in group.words
    assert [kind.words for kind in group.parts] == [["lost"], ["stolen"]]
