"""What base classes leave behind, and the methods that need it: FEAT, SnaTCHer-F, PEELER, POODLE, FROB."""

import json

import numpy as np
import pytest
from bases import base_for
from loops import loop
from random_tasks import random_task
from safetensors.numpy import load_file, save_file

import handful
from handful.bench import BENCHMARKS, parse_methods, run
from handful.bench.report import perform
from handful.core.arrays import one_hot
from handful.core.base import Base, is_base, read_base
from handful.features import FeatureTable, Protocol, write
from handful.methods import poodle
from handful.training.heads.learned_base import HEADS

NEED_BASE = ("conformal", "feat", "flowr", "frob", "meta_bce", "ood_maml", "peeler", "poodle", "snatcher_f")


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Tasks this small are not worth torch's threads."""
    try:
        import torch
    except ImportError:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def task():
    return random_task(np.random.default_rng(4), 3, [4, 5, 3], 12, 10)


def solve(name, task, base, **options):
    return handful.solve(*task, method=name, base=base, preparation="none", dtype="float64", threads=1, **options)


# ---- the base file


def test_a_base_comes_back_bit_for_bit_and_is_read_once_until_it_changes(tmp_path):
    base = base_for(7)
    path = base.save(tmp_path / f"{'b' * 243}.safetensors")  # the longest name
    again = read_base(path)
    assert again.arrays.keys() == base.arrays.keys()
    assert all(np.array_equal(again.arrays[name], value) for name, value in base.arrays.items())
    assert all(value.dtype == np.float32 for value in again.arrays.values())
    assert (again.about, again.mark, repr(again)) == (base.about, base.mark, repr(base))
    assert read_base(str(path)) is again
    base_for(8).save(path)
    assert read_base(path).dimension == 8
    renamed = Base(base.mean, base.heads, base.negatives, {"name": "other"})
    moved = Base(base.mean + np.float32(1e-6), base.heads, base.negatives, base.about)
    assert renamed.mark == base.mark != moved.mark  # it is of the arrays and of nothing else
    assert base.mark[:16] in repr(base)


def test_what_is_no_base_is_refused_in_words(tmp_path):
    base = base_for(5)
    path = base.save(tmp_path / "b.safetensors")
    features = write(FeatureTable(np.eye(3), [0, 1, 2]), tmp_path / "f.safetensors")
    assert is_base(path)
    assert not is_base(features)
    with pytest.raises(ValueError, match=r"not a base: `handful base FEATURES"):
        read_base(features)
    with pytest.raises(FileNotFoundError, match="there is no base file"):
        read_base(tmp_path / "none.safetensors")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="damaged"):
        read_base(path)
    header = {"format": 99, "about": {}, "arrays": []}
    save_file({"mean": base.mean}, path, metadata={"handful.base": json.dumps(header)})
    with pytest.raises(ValueError, match=r"format 99.*upgrade"):
        read_base(path)
    with pytest.raises(ValueError, match="finite"):
        Base(np.array([1.0, np.nan]))
    with pytest.raises(ValueError, match=r"\[items, 2\] is needed"):
        Base(np.zeros(2), negatives=np.zeros((4, 3)))


# ---- what all have


@loop("name", NEED_BASE)
def test_without_a_base_it_says_what_it_is_and_how_it_is_made(name, task):
    with pytest.raises(ValueError, match=rf"{name} needs what .*handful\.methods\.Base.*`handful base FEATURES"):
        handful.solve(*task, method=name)
    with pytest.raises(ValueError, match="for 6 features, and items have 10: give the base of the same backbone"):
        handful.solve(*task, method=name, base=base_for(6))
    with pytest.raises(ValueError, match=r"has no (head|negatives).*it has the mean alone"):
        handful.solve(*task, method=name, base=Base(np.zeros(10)))


@loop("name", [*NEED_BASE, "simpleshot+snatcher_f", "feat+knn"])
def test_its_own_mean_is_what_it_centres_on_and_a_path_will_do(name, task, tmp_path):
    base = base_for(10)
    path = base.save(tmp_path / "b.safetensors")
    found = handful.solve(*task, method=name, base=path, outlier_share=0.5)
    told = handful.solve(*task, method=name, base=base, base_mean=base.mean, outlier_share=0.5)
    other = handful.solve(*task, method=name, base=base, base_mean=base.mean + 1, outlier_share=0.5)
    np.testing.assert_array_equal(found.outlier_scores, told.outlier_scores)
    assert np.abs(found.outlier_scores - other.outlier_scores).max() > 1e-4
    assert found.made_by["parameters"]["base"] == repr(base)
    json.dumps(found.made_by)


@loop("name", [*NEED_BASE, "simpleshot+snatcher_f"])
def test_a_saved_model_needs_the_base_file_no_more(name, tmp_path):
    support, labels, query = random_task(np.random.default_rng(6), 1, [4, 5], 30, 6)
    X, y = np.concatenate([support[0], query[0]]), np.concatenate([labels[0], np.full(30, -1)])
    path = base_for(6).save(tmp_path / "b.safetensors")
    model = handful.make_estimator(name, base=str(path)).fit(X, y)
    model.save(tmp_path / "m.safetensors", items=True)
    path.unlink()
    new = random_task(np.random.default_rng(7), 1, [4, 5], 30, 6)[2][0]
    again = handful.load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(again.score_samples(new), model.score_samples(new))
    np.testing.assert_array_equal(again.partial_fit(new).predict(new), again.predict(new))
    kept = {name for name in load_file(tmp_path / "m.safetensors") if name.startswith("base.")}
    assert not any("peeler" in name for name in kept) or name == "peeler"  # what it does not need is not kept


# ---- each by a computation of its own


def feat_by_hand(prototypes, arrays):
    """FEAT's adapted prototypes, one at a time, by the four projections of which the head keeps the products."""
    D = prototypes.shape[1]
    adapted = []
    for c in prototypes:
        e = np.array([np.exp(D**0.5 * (c @ arrays["attention"] @ k)) for k in prototypes])
        r = c + sum(a * (k @ arrays["output"]) for a, k in zip(e / e.sum(), prototypes, strict=True))
        r = (r - r.mean()) / r.std() / D**0.5  # layer normalisation has length sqrt(D)
        adapted.append(arrays["gain"] * r + arrays["shift"])
    return np.array(adapted)


def means_of(support, labels):
    return np.array([support[labels == j].mean(axis=0) for j in range(labels.max() + 1)])


def test_feat_and_snatcher_item_by_item(task):
    base = base_for(10, strength=0.8)
    arrays = {name: value.astype(np.float64) for name, value in base.heads["feat"].items()}
    found, snatched = solve("feat", task, base), solve("snatcher_f", task, base)
    for i, (support, labels, query) in enumerate(zip(*task, strict=True)):
        means = means_of(support, labels)
        adapted = feat_by_hand(means, arrays)
        for j, q in enumerate(query):
            logits = -((q - adapted) ** 2).sum(axis=1) / np.exp(arrays["log_temperature"][0])
            p = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
            np.testing.assert_allclose(found.probabilities[i, j], p, atol=1e-9)
            np.testing.assert_allclose(found.outlier_scores[i, j], -p.max(), atol=1e-9)
            replaced = means.copy()
            replaced[p.argmax()] = q
            moved = np.linalg.norm(feat_by_hand(replaced, arrays) - adapted) ** 2
            np.testing.assert_allclose(snatched.outlier_scores[i, j], moved, rtol=1e-8)
    np.testing.assert_array_equal(snatched.probabilities, found.probabilities)


def test_peeler_item_by_item(task):
    base = base_for(10, strength=0.5)
    arrays = {name: value.astype(np.float64) for name, value in base.heads["peeler"].items()}
    found = solve("peeler", task, base)
    for i, (support, labels, query) in enumerate(zip(*task, strict=True)):
        spreads = np.array(
            [np.exp(arrays["log_precision"] + np.tanh(z @ arrays["inner"]) @ arrays["outer"]) for z in support]
        )
        means, precision = means_of(support, labels), means_of(spreads, labels)
        for j, q in enumerate(query):
            logits = np.array([-(q - m) @ np.diag(a) @ (q - m) for m, a in zip(means, precision, strict=True)])
            p = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
            np.testing.assert_allclose(found.probabilities[i, j], p, atol=1e-9)
            np.testing.assert_allclose(found.outlier_scores[i, j], -p.max(), atol=1e-9)


@pytest.mark.torch
@loop("shared", [True, False])
def test_the_slopes_of_poodle_are_those_of_autograd(task, shared):
    import torch

    support, labels, _ = (torch.tensor(x) for x in task)
    rng = np.random.default_rng(8)
    negatives = torch.tensor(rng.normal(size=(1 if shared else 3, 9, 10)))
    onehot = one_hot(labels, 3, like=support)
    prototypes = torch.tensor(rng.normal(size=(3, 3, 10)), requires_grad=True)
    scale = torch.tensor(rng.uniform(0.2, 2, size=(3, 1, 1)), requires_grad=True)

    def logits(x):
        return -scale / 2 * ((x[:, :, None] - prototypes[:, None]) ** 2).sum(-1)

    def weighted(l):
        return -(torch.softmax(l, -1).detach() * l).sum(-1).mean(1)

    ce = -(onehot * torch.log_softmax(logits(support), -1)).sum(-1).mean(1)
    loss = ce + 0.7 * weighted(logits(support)) - 0.4 * weighted(logits(negatives.expand(3, -1, -1)))
    wanted = torch.autograd.grad(loss.sum(), (prototypes, scale))
    with torch.no_grad():
        found = poodle.slopes(support, onehot, negatives, prototypes, scale, 0.7, 0.4)
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b)


def test_poodle_without_steps_is_the_nearest_mean_and_negatives_push(task):
    start = solve("poodle", task, base_for(10), steps=0, scale=2.0)
    for support, labels, query, p in zip(*task, start.probabilities, strict=True):
        d = ((query[:, None] - means_of(support, labels)) ** 2).sum(-1)
        np.testing.assert_array_equal(p.argmax(-1), d.argmin(-1))
        np.testing.assert_allclose(np.log(p[:, 0] / p[:, 1]), d[:, 1] - d[:, 0], atol=1e-8)
    beside = Base(np.zeros(10), negatives=task[0][0, :1] + 0.5)  # near one class of the first task
    knobs = {"steps": 50, "learning_rate": 0.01, "preparation": "none"}
    found = [handful.solve(*(x[:1] for x in task), method="poodle", base=beside, beta=b, **knobs) for b in (0.0, 1.0)]
    near = [((r.state["prototypes"][0, 0] - beside.negatives[0]) ** 2).sum() for r in found]
    assert near[1] > near[0]


# ---- learned on classes


def crowded(n_classes=40, n_items=12, seed=0, dimension=16):
    """Classes that differ in a few features only; the rest is the same large noise for all."""
    rng = np.random.default_rng(seed)
    spread = np.where(np.arange(dimension) < 6, 0.5, 3.0)
    centres = np.where(np.arange(dimension) < 6, 1.0, 0.0) * rng.normal(size=(n_classes, dimension))
    features = centres[:, None] + spread * rng.normal(size=(n_classes, n_items, dimension))
    labels = np.repeat(np.arange(n_classes), n_items)
    return FeatureTable(features.reshape(-1, dimension).astype(np.float32), labels, name=f"crowded{seed}")


@pytest.fixture(scope="module")
def learned(torch):
    from handful.training.heads import learn_base

    return learn_base(crowded(), heads=("feat", "peeler"), episodes=6000)


def test_learning_helps_where_the_noise_can_be_told(learned):
    """On held-out base classes as it says, and on classes of another draw as well."""
    from handful.core.metrics import figures
    from handful.features import draw

    for head in ("feat", "peeler"):
        said = learned.about["heads"][head]
        assert said["after"]["accuracy"] > said["before"]["accuracy"] + 5
    novel = crowded(seed=1)
    episodes = draw(novel.features, novel.labels, Protocol(ways=5, shots=5, queries=7, outlier_queries=7), tasks=60)
    accuracy = {}
    for name in ("simpleshot", "feat", "snatcher_f", "peeler"):
        given = {"base": learned} if name != "simpleshot" else {"base_mean": learned.mean}
        result = handful.solve(episodes.task, method=name, outlier_share=0.5, **given)
        accuracy[name] = figures(result.probabilities, result.outlier_scores, episodes.truth)["accuracy"].mean()
    assert min(accuracy["feat"], accuracy["peeler"]) > accuracy["simpleshot"] + 0.05
    assert accuracy["snatcher_f"] == accuracy["feat"]


def test_the_seed_decides_all_of_it_and_what_cannot_be_learned_is_refused(learned):
    from handful.training.heads import learn_base

    few = {"episodes": 320, "heads": ("feat",), "negatives": 20}
    first, again, other = (learn_base(crowded(), seed=seed, **few) for seed in (3, 3, 4))
    assert first.mark == again.mark != other.mark
    assert len(first.negatives) == 20
    assert {tuple(row) for row in first.negatives.tolist()} <= {tuple(row) for row in crowded().features.tolist()}
    plain = learn_base(crowded(4), heads=())
    assert (plain.heads, len(plain.negatives)) == ({}, 48)
    np.testing.assert_allclose(plain.mean, crowded(4).features.mean(axis=0), atol=1e-6)
    for heads, message in ((("x",), "no head 'x'"), (("feat",), "has 4 classes of more than 5 items")):
        with pytest.raises(ValueError, match=message):
            learn_base(crowded(4), heads=heads)


@pytest.mark.torch
def test_a_head_that_gains_nothing_stays_at_the_prototypes():
    """Features without classes in them: a step may be better by chance, and none is kept that is worse."""
    from handful.training.heads import learn_base

    rng = np.random.default_rng(0)
    noise = FeatureTable(rng.normal(size=(240, 8)).astype(np.float32), np.repeat(np.arange(20), 12))
    for said in learn_base(noise, episodes=640).about["heads"].values():
        before, after = (sum(said[when][name] for name in ("accuracy", "auroc")) for when in ("before", "after"))
        assert after >= before


@pytest.mark.torch
def test_the_command_learns_tells_and_writes(tmp_path, handful):
    command = ("base", write(crowded(), tmp_path / "f.npz"), "-o")
    done = handful(*command, tmp_path / "b.safetensors", "--episodes", 320, "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    found = read_base(tmp_path / "b.safetensors")
    assert (said["mark"], said["features"], said["held_out"]) == (found.mark, 16, 10)
    assert set(found.heads) == set(HEADS)
    missing = handful(*command, tmp_path / "no" / "b.safetensors")
    assert missing.returncode == 1
    assert "create it first" in missing.stderr


# ---- the tables

SMALL = {"protocol": Protocol(ways=3, shots=2, queries=4, outlier_ways=3, outlier_queries=4), "tasks": 3}


def test_a_benchmark_says_what_is_missing_in_its_base(tmp_path):
    methods, features, base = "feat,snatcher_f,poodle,simpleshot", crowded(seed=1), crowded()
    for wrong, words in (
        (None, "feat learns from base classes: give --base a base file"),
        (base, "feat learns from base classes: give --base a base file"),
        (Base(base.mean), "has no head 'feat'"),
        (base_for(9), "must come from the same backbone"),
    ):
        with pytest.raises(ValueError, match=words):
            perform("balanced", features, wrong, output=tmp_path, methods=methods, **SMALL)


def test_results_are_kept_by_what_is_in_the_base(tmp_path):
    """Another base of the same name and mean is another configuration, and a method that needs none does not mind."""
    features, store = crowded(seed=1), tmp_path
    one, other = base_for(16), base_for(16)
    other.heads["feat"]["output"][0, 0] += 1
    for base in (one, Base(other.mean, other.heads, other.negatives, other.about)):
        make, _ = BENCHMARKS["balanced"]
        run(make(SMALL["protocol"], parse_methods("feat,simpleshot")), features, base, store, tasks=3)
    kept = [json.loads(path.read_text()) for path in tmp_path.rglob("cell.json")]
    assert sorted(about["method"] for about in kept) == ["feat", "feat", "simpleshot"]
