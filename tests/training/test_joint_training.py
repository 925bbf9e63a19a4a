"""Training of network and head together: the loss against an independent computation, and the whole through kills."""

import json
from contextlib import suppress
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from test_train import SMALL, learner, one_thread, shapes  # noqa: F401 - a fixture

from handful.core.base import read_base
from handful.training.heads.learned_base import HEADS, learn_base

with suppress(ImportError):  # where torch is absent, the marker skips all of this
    import torch

    from handful.training import joint_training, pretraining
    from handful.training.heads import trainer
    from handful.training.joint_training import TASKS_PER_STEP, JointTraining
    from handful.training.pretraining import pretrain, split
    from handful.training.settings import Settings

pytestmark = pytest.mark.torch

TOGETHER = SMALL | {"epochs": 1, "together": "feat", "together_tasks": 8, "together_rate": 1e-3}


@pytest.fixture(autouse=True)
def few_tasks(monkeypatch):
    """Heads learn on fixed features from few tasks, and few tasks validate."""
    for module in (joint_training, pretraining):
        monkeypatch.setattr(module, "learn_base", partial(learn_base, episodes=64))
    for module in (trainer, pretraining):
        monkeypatch.setattr(module, "VALIDATION_TASKS", 10)


def joint(head="feat", held_out=True, **changes):
    """A joint training of a network that has not been trained."""
    pictures = shapes(classes=40, each=12)
    learning, others = split(pictures, Settings(**SMALL))
    if not held_out:
        learning, others = pictures, None
    made = learner(learning, **({"together": head, "together_tasks": 200} | changes))
    training = JointTraining(made, learning, others, made.weights())
    training.start(None, lambda done, total: None)
    return training


def run(folder, heads=(), **changes):
    rows = []
    done = pretrain(
        shapes(classes=40, each=12), folder, Settings(**(TOGETHER | changes)), threads=1, heads=heads,
        on_epoch=rows.append, save_every=0,
    )  # fmt: skip
    return done, rows


# The pieces


def test_the_loss_is_that_of_prototypes_of_centred_features_of_length_one(one_thread):  # noqa: F811
    """FEAT whose attention gives 0 is a softmax over the distances to the means of the examples."""
    training = joint()
    with torch.no_grad():
        for name, array in training._arrays().items():
            array.copy_(torch.full_like(array, {"gain": 1.0, "log_temperature": np.log(0.2)}.get(name, 0.0)))
    drawn = training.sampler.draw(np.random.default_rng(5), 1, 2)
    mean = training.learner.mean_feature().astype(float)

    def prepared(rows):
        z = training.learner.embed(training.learning.pixels[rows]).astype(float) - mean
        return z / np.linalg.norm(z, axis=1, keepdims=True)

    prototypes = prepared(drawn.support[0]).reshape(training.trainer.ways, 2, -1).mean(1)
    losses = []
    for row, own in zip(prepared(drawn.query[0][: drawn.known]), drawn.truth[0], strict=False):
        arrays = {name: array.detach().double().numpy() for name, array in training._arrays().items()}
        logits = HEADS["feat"].score(arrays, prototypes[None], np.arange(len(prototypes))[None], row[None, None])[0]
        losses.append(np.log(np.exp(logits[0, 0]).sum()) - logits[0, 0, own])
    loss = training._loss(drawn.support[0], drawn.labels[0], drawn.query[0], drawn.known, drawn.truth[0])
    assert loss.item() == pytest.approx(np.mean(losses), rel=1e-4)


def test_the_gradient_reaches_network_and_head_but_no_statistic_of_a_batch_norm(one_thread):  # noqa: F811
    for head in ("feat", "flowr", "ood_maml"):  # the base of each kind: prototypes, densities, an inner descent
        training = joint(head)
        network = training.learner.network
        before = {name: value.clone() for name, value in network.state_dict().items()}
        arrays = {name: value.detach().clone() for name, value in training._arrays().items()}
        for _ in range(3):
            training.step()
        parameters = {name for name, _ in network.named_parameters()}
        for name, value in network.state_dict().items():
            assert torch.equal(value, before[name]) == (name not in parameters), name
        assert any(not torch.equal(value, arrays[name]) for name, value in training._arrays().items())


def test_a_step_of_the_network_is_that_of_adam_and_steps_teach(one_thread):  # noqa: F811
    """The first step of Adam moves each weight by the learning rate, against the sign of its gradient."""
    training = joint("peeler", together_rate=3e-3)
    network = training.learner.network
    before = {name: value.detach().clone() for name, value in network.named_parameters()}
    losses = [training.step()]
    for name, value in network.named_parameters():
        moved, clear = value.detach() - before[name], value.grad.abs() > 1e-5
        assert torch.allclose(moved[clear], -3e-3 * value.grad[clear].sign(), rtol=0.01, atol=1e-6), name
    losses += [training.step() for _ in range(39)]
    assert np.mean(losses[-8:]) < 0.9 * np.mean(losses[:8])


def test_classes_of_validation_are_never_learned_from():
    for held_out in (True, False):
        training = joint(held_out=held_out)
        rng = np.random.default_rng(0)
        drawn = training.sampler.draw(rng, 50, 1)
        learned = set(training.learning.labels[np.r_[drawn.support.ravel(), drawn.query.ravel()]].tolist())
        if held_out:
            assert training.validation_rows.min() >= len(training.learning)
            validated = set(training.held_out.labels[training.validation_rows - len(training.learning)].tolist())
        else:
            validated = set(training.learning.labels[training.validation_rows].tolist())
        assert not learned & validated


def test_validation_uses_the_features_of_the_network_as_it_is(one_thread):  # noqa: F811
    """The trainer of `learn_base` on the features of the moved network gives the same figures."""
    training = joint(together_rate=1e-2)
    for _ in range(3):
        training.step()
    result = training._validate()
    made = training.learner
    tables = [
        joint_training.FeatureTable(made.embed(p.pixels), p.labels) for p in (training.learning, training.held_out)
    ]
    again = joint_training.HeadTrainer(*tables, made.mean_feature(), 5, (1, 5), 0)
    arrays = {name: value.detach().numpy() for name, value in training._arrays().items()}
    assert result == pytest.approx(again.validate(training.head, arrays), abs=1e-3)


def test_a_restored_joint_training_goes_on_as_if_nothing_had_been(one_thread):  # noqa: F811
    training = joint(together_tasks=6 * TASKS_PER_STEP)
    for _ in range(3):
        training.step()
    training.validate()
    progress, state = joint_training.asdict(training.progress), training.state()
    for _ in range(3):
        training.step()
    wanted = training.state()
    again = JointTraining(training.learner, training.learning, training.held_out, training.weights)
    again.restore(progress, state)
    for _ in range(3):
        again.step()
    assert again.progress == training.progress
    for name, value in again.state().items():
        assert torch.equal(value, wanted[name]), name


def test_a_base_is_learned_from_the_arrays_of_a_start_which_stay_if_nothing_is_better():
    rng = np.random.default_rng(0)
    table = joint_training.FeatureTable(rng.normal(size=(20 * 12, 6)), np.repeat(np.arange(20), 12))
    first = learn_base(table, heads=("feat",), episodes=640).heads["feat"]
    start = {name: array + np.float32(0.5) for name, array in first.items()}
    base = learn_base(table, heads=("feat",), episodes=32, start={"feat": start})
    moved = np.abs(base.heads["feat"]["attention"] - start["attention"]).max()
    assert moved <= 0.4 / 6 + 1e-6  # one step of Adam at most
    with pytest.raises(ValueError, match="a start for head 'peeler', which is not learned here"):
        learn_base(table, heads=("feat",), start={"peeler": {}})
    with pytest.raises(ValueError, match="the start of head 'feat' has no array 'attention'"):
        learn_base(table, heads=("feat",), start={"feat": {}})
    with pytest.raises(ValueError, match="the start of head 'feat': 'gain' has shape"):
        learn_base(table, heads=("feat",), start={"feat": start | {"gain": np.ones(5)}})


# The whole


def test_a_gain_is_kept_and_reported_before_and_after(tmp_path, monkeypatch):
    """Validation is replaced by one that finds every step better than the one before."""
    monkeypatch.setattr(joint_training, "TASKS_PER_VALIDATION", TASKS_PER_STEP)
    results = iter([{"heat": 1.0, "accuracy": 50.0 + i, "auroc": 60.0 + i} for i in range(3)])
    monkeypatch.setattr(JointTraining, "_validate", lambda self: self_with_mean(self, next(results)))
    plain, _ = run(tmp_path / "plain", together="none", heads=("feat",))
    done, rows = run(tmp_path / "tuned")
    assert (done.together["before"]["accuracy"], done.together["after"]["auroc"]) == (50.0, 62.0)
    assert (done.together["best"], done.together["tasks"], done.together["gained"]) == (8, 8, True)
    assert [row["tasks"] for row in rows[1:]] == [4, 8]
    assert [json.loads(line) for line in (tmp_path / "tuned" / "history.jsonl").read_text().splitlines()] == rows
    card = (tmp_path / "tuned" / "card.md").read_text()
    assert "| before | 50.00 | 60.00 |\n| after | 52.00 | 62.00 |" in card
    assert "the head of feat were trained together on 8 tasks" in card
    assert plain.files["weights"].read_bytes() != done.files["weights"].read_bytes()
    assert list(read_base(done.files["base"]).heads) == ["feat"]
    assert plain.together is None
    assert "Trained together" not in (tmp_path / "plain" / "card.md").read_text()


def self_with_mean(training, result):
    training.mean = torch.from_numpy(training.learner.mean_feature())
    return result


def test_the_backbone_keeps_its_bytes_if_nothing_is_gained(tmp_path, monkeypatch):
    monkeypatch.setattr(joint_training, "HEAD_RATE_SHARE", 0.0)
    plain, _ = run(tmp_path / "plain", together="none", heads=("feat",))
    done, _ = run(tmp_path / "kept", together_rate=1e-12)  # nothing moves: no figure can rise
    assert not done.together["gained"]
    assert done.together["before"] == done.together["after"]
    for name in ("weights", "backbone", "base"):
        assert done.files[name].read_bytes() == plain.files[name].read_bytes(), name
    assert "No step was better than the start" in done.files["card"].read_text()


def test_a_finished_training_may_get_the_stage_later_but_one_that_has_begun_may_not_change(tmp_path):
    run(tmp_path, together="none")
    done, rows = run(tmp_path)
    assert done.together["tasks"] == 8
    assert [row.get("tasks") for row in rows] == [8]  # nothing else was trained again
    with pytest.raises(ValueError, match="together_tasks 8 there and 12 here"):
        run(tmp_path, together_tasks=12)
    with pytest.raises(ValueError, match="together feat there and none here"):
        run(tmp_path, together="none")
    again, rows = run(tmp_path)
    assert (again.together, rows) == (done.together, [])


def test_a_wrong_head_is_refused_before_the_training(tmp_path, monkeypatch):
    monkeypatch.setitem(HEADS, "fixed", replace(HEADS["feat"], loss=None))
    for name in ("hydra", "fixed"):
        with pytest.raises(ValueError, match=f"together of the training must be one of 'none', 'feat'.*{name}"):
            Settings(together=name)
    with pytest.raises(ValueError, match="together_rate of the training must be a number above 0"):
        Settings(together_rate=0)
    with pytest.raises(ValueError, match="a head needs 6 or more.*no --together"):
        pretrain(shapes(classes=5, each=40), tmp_path, Settings(**TOGETHER), heads=())
    assert not list(tmp_path.iterdir())


def test_a_loss_that_is_not_finite_is_an_error_with_advice(one_thread):  # noqa: F811
    training = joint()
    with torch.no_grad():
        training._arrays()["gain"].fill_(float("nan"))
    with pytest.raises(ValueError, match="give a smaller rate than.*--together-rate"):
        training.step()
