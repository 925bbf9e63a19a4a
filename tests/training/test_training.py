"""Training a backbone, a head, and both together: steps against independent computation, the whole through breaks."""

import json
import os
import pickle
import random
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import load_file

from handful.backbones import load_backbone
from handful.core.base import read_base
from handful.features import FeatureTable, read, write
from handful.training.datasets import PictureSet
from handful.training.datasets.catalogue import published
from handful.training.heads.learned_base import HEADS, learn_base
from handful.training.learning import Checkpoint

with suppress(ImportError):  # where torch is absent, the marker skips all of this
    import torch

    from handful.backbones.networks import build
    from handful.backbones.networks.architectures import drop_block
    from handful.training import joint_training, pretraining
    from handful.training import learner as backbone_training
    from handful.training.heads import trainer
    from handful.training.joint_training import JointTraining
    from handful.training.learner import Learner, augment, rotated
    from handful.training.pretraining import CHECKPOINT, locked_folder, pretrain, split
    from handful.training.settings import Settings

pytestmark = pytest.mark.torch

SMALL = {"network": "resnet12", "options": {"widths": [4, 4, 8, 8]}, "batch": 32, "augment": "drawings", "epochs": 3}
TOGETHER = SMALL | {"epochs": 1, "together": "feat", "together_tasks": 8, "together_rate": 1e-3}


def shapes(classes=24, each=8, size=16, seed=0, channels=1, splits=None, noise=20):
    """Classes that a network can learn: each its own blotch, with noise."""
    rng = np.random.default_rng(seed)
    blotches = rng.integers(0, 256, (classes, 4, 4, channels)).repeat(size // 4, 1).repeat(size // 4, 2)
    pixels = np.clip(blotches.repeat(each, 0) + rng.normal(0, noise, (classes * each, size, size, channels)), 0, 255)
    labels = np.repeat([f"shape{i:02}" for i in range(classes)], each)
    splits = np.full(len(labels), "base") if splits is None else np.repeat(splits, each)
    return PictureSet("shapes", pixels.astype(np.uint8), labels, splits)


def learner(pictures, **changes):
    return Learner(Settings(**(SMALL | changes)), pictures)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """One thread; heads learn on fixed features from few tasks, and few tasks validate."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    for module in (joint_training, pretraining):
        monkeypatch.setattr(module, "learn_base", partial(learn_base, episodes=64))
    for module in (trainer, backbone_training):
        monkeypatch.setattr(module, "VALIDATION_TASKS", 10)
    yield
    torch.set_num_threads(before)


def assert_same(first, second):
    assert first.keys() == second.keys()
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name], err_msg=name)


# ---- a step of the backbone


def test_drop_block_drops_whole_squares_about_as_often_as_told_and_nothing_in_use():
    torch.manual_seed(0)
    y = drop_block(torch.ones(64, 16, 12, 12), 0.1, 5)
    dropped = (y == 0).float()
    assert dropped.mean().item() == pytest.approx(0.1, abs=0.02)  # squares overlap: a little less
    assert y.mean().item() == pytest.approx(1, abs=1e-4)
    # every dropped place lies in a 5 x 5 square that is dropped whole: opening changes nothing
    whole = torch.nn.functional.unfold(dropped.flatten(0, 1)[:, None], 5).amin(1).reshape(-1, 1, 8, 8)
    again = torch.nn.functional.max_pool2d(torch.nn.functional.pad(whole, [4] * 4), 5, 1)
    assert torch.equal(again.reshape(dropped.shape), dropped)
    network = build("resnet12", 1, widths=[4, 4, 8, 8])
    network.drop(0.5)
    x = torch.randn(3, 1, 16, 16)
    assert torch.equal(network.eval()(x), network(x))


def test_pictures_are_turned_as_by_numpy_and_changed_but_stay_pictures():
    x = np.random.default_rng(0).random((8, 2, 5, 5), np.float32)
    quarters = np.array([0, 1, 2, 3, 3, 2, 1, 0])
    wanted = np.stack([np.rot90(picture, k, axes=(1, 2)) for picture, k in zip(x, quarters, strict=True)])
    assert np.array_equal(rotated(torch.from_numpy(x), quarters), wanted)
    for how, channels in (("pictures", 3), ("pictures", 1), ("drawings", 1)):
        x = torch.rand(32, channels, 20, 20)
        y = augment(x, how, np.random.default_rng(3))
        assert y.shape == x.shape
        assert 0 <= y.min() <= y.max() <= 1
        assert ((y - x).abs().mean(dim=(1, 2, 3)) > 0.01).all()
        assert torch.equal(y, augment(x, how, np.random.default_rng(3)))


def test_the_loss_is_cross_entropy_with_smoothed_labels():
    made = learner(shapes(), augment="none", drop=0.0, label_smoothing=0.2, weight_decay=0.0)
    rows = made._rows(0)
    x = made.pixels[rows].astype(np.float64).transpose(0, 3, 1, 2) / 255
    made.all.train()
    with torch.no_grad():
        z = (torch.from_numpy(x.astype(np.float32)) - made.mean) / made.std
        logits = made.head(made.network(z)).double().numpy()
    log_p = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    smooth = np.full(log_p.shape, 0.2 / log_p.shape[1])
    smooth[np.arange(len(rows)), made.codes.numpy()[rows]] += 0.8
    fresh = learner(shapes(), augment="none", drop=0.0, label_smoothing=0.2, weight_decay=0.0)
    assert fresh.step(0) == pytest.approx(-(smooth * log_p).sum(1).mean(), rel=1e-4)


def test_each_epoch_has_another_order_and_the_learning_rate_rises_then_falls_to_nothing():
    made = learner(shapes(), epochs=40)
    pace = np.array([made._rate_factor(i) for i in range(made.steps)])
    top = pace.argmax()
    assert pace[top] == pytest.approx(1)
    assert (np.diff(pace[: top + 1]) > 0).all()
    assert (np.diff(pace[top:]) <= 0).all()
    assert pace[-1] < 0.01
    each = made.steps_per_epoch
    epochs = [np.concatenate([made._rows(e * each + i) for i in range(each)]) for e in (0, 1)]
    for rows in epochs:
        assert len(set(rows.tolist())) == len(rows) == each * 32
    assert not np.array_equal(*epochs)


def test_training_teaches_and_the_seed_decides_the_weights():
    for rotations, outputs in (("none", 24), ("classes", 96), ("predict", 24)):
        made = learner(shapes(), rotations=rotations, epochs=20, label_smoothing=0.0, drop=0.0)
        losses = [made.step(i) for i in range(made.steps)]
        assert np.mean(losses[-6:]) < 0.75 * np.mean(losses[:3])
        assert made.head.out_features == outputs

    def weights(seed):
        made = learner(shapes(), seed=seed)
        for i in range(4):
            made.step(i)
        return made.result({})

    assert np.isfinite(learner(shapes(), precision="bfloat16").step(0))
    first, other = weights(1), weights(2)
    assert_same(first, weights(1))
    assert not all(np.array_equal(first[name], other[name]) for name in first)


def test_classes_held_out_are_never_learned_from():
    pictures = shapes(classes=60)
    learned, held_out = split(pictures, Settings(held_out=0.2))
    assert len(held_out.classes) == 12
    assert not set(learned.classes) & set(held_out.classes)
    assert len(learned.pixels) + len(held_out.pixels) == len(pictures.pixels)
    pictures = shapes(classes=24, splits=["base"] * 12 + ["val"] * 6 + ["novel"] * 6)  # with a split of its own
    learned, held_out = split(pictures, Settings())
    assert learned.classes == [f"shape{i:02}" for i in range(12)]
    assert held_out.classes == [f"shape{i:02}" for i in range(12, 18)]


# ---- a step of network and head together


def joint(head="feat", held_out=True, **changes):
    """A joint training of a network that has not been trained."""
    pictures = shapes(classes=40, each=12)
    learning, others = split(pictures, Settings(**SMALL))
    if not held_out:
        learning, others = pictures, None
    settings = Settings(**(SMALL | {"together": head, "together_tasks": 200} | changes))
    training = JointTraining(Learner(settings, learning, others))
    training.start()
    return training


def test_the_loss_together_is_that_of_prototypes_of_centred_features_of_length_one():
    """FEAT whose attention gives 0 is a softmax over the distances to the means of the examples."""
    training = joint()
    with torch.no_grad():
        for name, array in training.head_arrays.items():
            array.copy_(torch.full_like(array, {"gain": 1.0, "log_temperature": np.log(0.2)}.get(name, 0.0)))
    drawn = training.sampler.draw(np.random.default_rng(5), 1, 2)
    mean = training.learner.mean_feature().astype(float)

    def prepared(rows):
        z = training.learner.embed(training.learner.pictures.pixels[rows]).astype(float) - mean
        return z / np.linalg.norm(z, axis=1, keepdims=True)

    prototypes = prepared(drawn.support[0]).reshape(training.tasks.ways, 2, -1).mean(1)
    arrays = {name: array.detach().double().numpy() for name, array in training.head_arrays.items()}
    losses = []
    for row, own in zip(prepared(drawn.query[0][: drawn.known]), drawn.truth[0], strict=False):
        logits = HEADS["feat"].score(arrays, prototypes[None], np.arange(len(prototypes))[None], row[None, None])[0]
        losses.append(np.log(np.exp(logits[0, 0]).sum()) - logits[0, 0, own])
    loss = training.loss(drawn.support[0], drawn.labels[0], drawn.query[0], drawn.known, drawn.truth[0])
    assert loss.item() == pytest.approx(np.mean(losses), rel=1e-4)


def test_steps_reach_network_and_head_but_no_statistic_of_a_batch_norm_and_teach():
    """The first step of Adam moves each weight by the learning rate, against the sign of its gradient."""
    for head in ("peeler", "flowr", "ood_maml"):  # the base of each kind: prototypes, densities, an inner descent
        training = joint(head, together_rate=3e-3)
        network = training.learner.network
        before = {name: value.clone() for name, value in network.state_dict().items()}
        arrays = {name: value.detach().clone() for name, value in training.head_arrays.items()}
        losses = [training.step(0)]
        parameters = dict(network.named_parameters())
        for name, value in network.state_dict().items():
            assert torch.equal(value, before[name]) == (name not in parameters), name
        for name, value in parameters.items():
            moved, clear = value.detach() - before[name], value.grad.abs() > 1e-5
            assert torch.allclose(moved[clear], -3e-3 * value.grad[clear].sign(), rtol=0.01, atol=1e-6), name
        assert any(not torch.equal(value, arrays[name]) for name, value in training.head_arrays.items())
        if head == "peeler":
            losses += [training.step(number) for number in range(1, 40)]
            assert np.mean(losses[-8:]) < 0.9 * np.mean(losses[:8])


def test_validation_is_on_other_classes_by_the_features_of_the_network_as_it_is():
    """Tasks on features of the moved network give the same figures."""
    for held_out in (True, False):
        training = joint(held_out=held_out, together_rate=1e-2)
        drawn = training.sampler.draw(np.random.default_rng(0), 50, 1)
        learned = set(training.learner.pictures.labels[np.r_[drawn.support.ravel(), drawn.query.ravel()]].tolist())
        rows, source = training.validation_rows, training.learner.pictures
        if held_out:
            rows, source = rows - len(source), training.learner.held_out
        assert rows.min() >= 0
        assert not learned & set(source.labels[rows].tolist())
    training = joint(together_rate=1e-2)
    for number in range(3):
        training.step(number)
    made = training.learner
    tables = [made.table(pictures) for pictures in (made.pictures, made.held_out)]
    again = trainer.HeadTasks(*tables, made.mean_feature(), 5, (1, 5), 0)
    arrays = {name: value.detach().numpy() for name, value in training.head_arrays.items()}
    assert training.figures() == pytest.approx(again.validate(training.head, arrays), abs=1e-3)


# ---- the whole


def run(folder, heads=(), pictures=None, **changes):
    rows = []
    pictures = pictures or shapes(classes=40, each=12)
    done = pretrain(pictures, folder, Settings(**(SMALL | changes)), threads=1, heads=heads, on_epoch=rows.append)
    return done, rows


def test_a_training_leaves_a_backbone_that_can_be_used(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    pictures, rows = shapes(classes=40, each=12), []
    settings = Settings(**SMALL)
    done = pretrain(pictures, tmp_path, settings, threads=1, heads=(), tensorboard=True, on_epoch=rows.append)
    assert [row["epoch"] for row in rows] == [1, 2, 3]
    assert done.best["figure"] == max(row["figure"] for row in rows)
    assert [json.loads(line) for line in (tmp_path / "history.jsonl").read_text().splitlines()] == rows
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [e.value for e in events.Scalars("loss")] == pytest.approx([row["loss"] for row in rows], rel=1e-5)
    network = build("resnet12", 1, widths=[4, 4, 8, 8])
    network.load_state_dict({k: torch.from_numpy(v) for k, v in load_file(tmp_path / "weights.safetensors").items()})
    backbone = load_backbone(tmp_path / "model.onnx")
    learned = split(pictures, settings)[0]
    ready = np.stack([backbone.prepare(Image.fromarray(p[:, :, 0]).convert("RGB")) for p in learned.pixels])
    with torch.no_grad():
        wanted = network.eval()(torch.from_numpy(ready)).numpy()
    found = backbone.embed(ready)
    assert np.abs(found - wanted).max() < 1e-4 * np.abs(wanted).max()
    assert np.allclose(read_base(tmp_path / "model.base.safetensors").mean, found.mean(0), atol=1e-4)
    card = (tmp_path / "card.md").read_text()
    for words in ("resnet12 trained on shapes", "widths [4, 4, 8, 8]", f"{done.best['accuracy_5']:.2f}"):
        assert words in card


def test_training_stops_early_when_validation_does_not_improve(tmp_path):
    # weights that hardly move: whatever validation says first it goes on saying
    _, rows = run(tmp_path, pictures=shapes(40), epochs=30, learning_rate=1e-12, weight_decay=0.0, patience=2)
    assert 3 <= len(rows) < 30


def test_a_gain_is_kept_and_reported_before_and_after(tmp_path, monkeypatch):
    """From a network that has hardly learned anything yet."""
    monkeypatch.setattr(joint_training, "TASKS_PER_VALIDATION", 40)
    noisy = shapes(classes=40, each=12, noise=90)
    start = {"epochs": 1, "learning_rate": 1e-8}
    plain, _ = run(tmp_path / "plain", pictures=noisy, heads=("feat",), **start)
    tuning = TOGETHER | start | {"together_tasks": 160, "together_rate": 1e-2}
    done, rows = run(tmp_path / "tuned", pictures=noisy, **tuning)
    together = done.together
    before, after = (together[when]["accuracy"] + together[when]["auroc"] for when in ("before", "after"))
    assert together["gained"]
    assert after > before
    assert together["best"] in [row["tasks"] for row in rows[1:]] == [40, 80, 120, 160]
    assert [json.loads(line) for line in (tmp_path / "tuned" / "history.jsonl").read_text().splitlines()] == rows
    card = (tmp_path / "tuned" / "card.md").read_text()
    for when in ("before", "after"):
        assert f"| {when} | {together[when]['accuracy']:.2f} | {together[when]['auroc']:.2f} |" in card
    assert "the head of feat were trained together on 160 tasks" in card
    assert plain.files["weights"].read_bytes() != done.files["weights"].read_bytes()
    assert list(read_base(done.files["base"]).heads) == ["feat"]
    assert "Trained together" not in (tmp_path / "plain" / "card.md").read_text()


def test_the_backbone_keeps_its_bytes_if_nothing_is_gained_and_the_stage_may_come_later(tmp_path, monkeypatch):
    monkeypatch.setattr(joint_training, "HEAD_RATE_SHARE", 0.0)
    plain, _ = run(tmp_path, epochs=1, heads=("feat",))
    before = {name: plain.files[name].read_bytes() for name in ("weights", "backbone", "base")}
    nothing = TOGETHER | {"together_rate": 1e-12}  # nothing moves: no figure can rise
    done, rows = run(tmp_path, **nothing)
    assert not done.together["gained"]
    assert done.together["before"] == done.together["after"]
    assert {name: done.files[name].read_bytes() for name in before} == before
    assert "No step was better than the start" in done.files["card"].read_text()
    assert [row.get("tasks") for row in rows] == [8]  # nothing else was trained again
    with pytest.raises(ValueError, match="together_tasks 8 there and 12 here"):
        run(tmp_path, **nothing | {"together_tasks": 12})
    again, rows = run(tmp_path, **nothing)
    assert (again.together, rows) == (done.together, [])


class Stop(Exception):
    pass


def test_stopped_anywhere_and_resumed_a_training_ends_with_the_same_bytes(tmp_path):
    """Stopped in an epoch, while the head learns on fixed features, in the joint training, while heads learn."""
    pictures, settings = shapes(classes=40, each=12), Settings(**(TOGETHER | {"rotations": "predict"}))

    def train(folder, stop=(None, 0)):
        def progress(name, done, total):
            if name == stop[0] and done >= stop[1]:
                raise Stop

        heads = ("feat", "peeler")
        return pretrain(pictures, folder, settings, threads=1, heads=heads, save_every=0, progress=progress)

    train(tmp_path / "whole")
    folder, stages = tmp_path / "stopped", []
    for stop in (("training", 3), ("training", 7), ("head", 1), ("together", 1), ("together", 2), ("heads", 70)):
        with pytest.raises(Stop):
            train(folder, stop)
        saved = Checkpoint(folder / CHECKPOINT).stages
        stages.append([(name, stage.reached["step"]) for name, stage in saved.items()])
    assert stages[0] == [("backbone", 2)]  # it is told of a step before the state is written
    assert stages[1] == [("backbone", 6)]
    assert [name for name, _ in stages[-1]] == ["backbone", "together"]
    train(folder)
    for name in ("weights.safetensors", "model.onnx", "model.base.safetensors", "history.jsonl"):
        assert (folder / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
    ends = [Checkpoint(tmp_path / one / CHECKPOINT).stages for one in ("whole", "stopped")]
    for name, stage in ends[0].items():
        assert_same(stage.arrays, ends[1][name].arrays)


def test_other_settings_or_pictures_and_a_second_training_are_refused_and_the_checkpoint_stays(tmp_path):
    run(tmp_path, epochs=1, pictures=shapes())
    before = (tmp_path / CHECKPOINT).read_bytes()
    with pytest.raises(ValueError, match="seed 0 there and 5 here"):
        run(tmp_path, epochs=1, seed=5, pictures=shapes())
    with pytest.raises(ValueError, match="pictures .* there and"):
        run(tmp_path, epochs=1, pictures=shapes(seed=1))
    assert (tmp_path / CHECKPOINT).read_bytes() == before
    (tmp_path / f".{CHECKPOINT}..0123abcd.tmp").write_bytes(b"half")  # a kill left it
    with locked_folder(tmp_path):
        assert not list(tmp_path.glob(".*.tmp"))
        with pytest.raises(OSError, match="in use by another process"):
            run(tmp_path)
    (tmp_path / CHECKPOINT).write_bytes(b"nonsense")
    with pytest.raises(ValueError, match="damaged.*remove it to start again"):
        run(tmp_path, epochs=1, pictures=shapes())


WRONG = [
    ({"learning_rate": 0}, "learning_rate of the training must be a number above 0"),
    ({"together": "hydra"}, "together of the training must be one of 'none', 'feat'.*hydra"),
    ({"batch": 5000}, "give a smaller batch"),
    ({"network": "resnet13"}, "choose from resnet12, conv4, wrn28_10"),
    ({"options": {"widths": [4, 4]}}, "a ResNet-12 has four"),
    ({"device": "abacus"}, "there is no device 'abacus' here.*give cpu, or auto"),
    ({"heads": ["hydra"]}, "there is no head 'hydra' to learn; there are: feat, peeler"),
    ({"size": 8}, "8 x 8 pixels, too few for resnet12: give a larger size"),
    ({"classes": 1, "each": 40}, "1 base class: two or more"),
    ({"classes": 5, "each": 40, "heads": ["feat"]}, "a head needs 6 or more.*leave the heads out"),
    ({"learning_rate": 1e30}, "give a smaller learning rate"),
]


def test_what_cannot_be_trained_is_said_before_the_training(tmp_path):
    for changes, words in WRONG:
        pictures = {name: changes[name] for name in ("size", "classes", "each") if name in changes}
        other = {"heads": ()} | {name: value for name, value in changes.items() if name in ("device", "heads")}
        settings = {name: value for name, value in changes.items() if name not in pictures | other}
        with pytest.raises(ValueError, match=words):
            pretrain(shapes(**pictures), tmp_path / "out", Settings(**(SMALL | settings)), **other)
    assert {path.name for path in (tmp_path / "out").glob("*")} <= {".lock"}


def test_the_commands_lead_from_pictures_to_a_table_of_methods_with_heads(tmp_path, handful):
    """train on class folders, embed a published cache of miniImageNet, learn heads on its base classes, compare."""

    def cli(*words):
        done = handful(*words)
        assert done.returncode == 0, done.stderr
        return " ".join(done.stdout.split())

    pictures = shapes(10, 10, channels=3)
    for i, (pixels, label) in enumerate(zip(pictures.pixels, pictures.labels, strict=True)):
        (tmp_path / "pictures" / label).mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(tmp_path / "pictures" / label / f"{i:04}.png")
    (tmp_path / "pictures" / label / "broken.png").write_bytes(b"no picture")
    options = ("--widths", "4,4,8,8", "--size", 16, "--batch", 16, "--epochs", 1, "--heads", "none")
    text = cli("train", "pictures", "-o", "out", *options)
    for words in ("Skipped (1):", "broken.png", "epoch 1: loss", "The best epoch", "embed PICTURES/ --backbone"):
        assert words in text

    names = {split: [n for n, s in published("miniimagenet").items() if s == split] for split in ("base", "novel")}
    for split, file, count in (("base", "train", 12), ("novel", "test", 8)):
        pixels = shapes(count, 8, 84, channels=3).pixels
        rows = {name: list(range(8 * i, 8 * i + 8)) for i, name in enumerate(names[split][:count])}
        content = pickle.dumps({"image_data": pixels, "class_dict": rows}, protocol=2)
        (tmp_path / "out" / f"mini-imagenet-cache-{file}.pkl").write_bytes(content)
        centred = ("--base", "base.parquet") if split == "novel" else ()
        model = ("--dataset", "miniimagenet", "--backbone", tmp_path / "out" / "model.onnx")
        cli("embed", "out", *model, "--split", split, *centred, "-o", f"{split}.parquet")
    novel = read(tmp_path / "novel.parquet")
    assert sorted(novel.counts) == sorted(names["novel"][:8])
    assert np.allclose(novel.base_mean, read(tmp_path / "base.parquet").mean)
    cli("base", "base.parquet", "-o", "base.safetensors", "--episodes", 64, "--heads", "feat,peeler")
    tasks = ("--ways", 3, "--shots", 1, "--queries", 5, "--outlier-ways", 3, "--tasks", 20)
    methods = ("--methods", "simpleshot,eol,feat,snatcher_f,peeler,poodle")
    cli("bench", "balanced", "--features", "novel.parquet", "--base", "base.safetensors", *methods, *tasks, "-o", "out")
    table = (tmp_path / "out" / "balanced.md").read_text()
    for title in ("SimpleShot", "EOL", "FEAT", "SnaTCHer-F", "PEELER", "POODLE"):
        assert f"| {title}" in table


# ---- heads on fixed features


def base_classes(seed=0):
    rng = np.random.default_rng(seed)
    features = (rng.normal(size=(40, 1, 12)) + rng.normal(size=(40, 12, 12))).reshape(-1, 12)
    return FeatureTable(features.astype(np.float32), np.repeat(np.arange(40), 12), name="blobs")


def test_a_base_killed_and_resumed_ends_with_the_same_bytes(tmp_path):
    """By kill -9, at a moment of chance."""
    features, environment = write(base_classes(), tmp_path / "f.npz"), os.environ | {"OMP_NUM_THREADS": "1"}
    code = (  # the command, which writes its state after each step
        "import runpy; from handful.training.heads import learned_base\n"
        "learned_base.learn_base.__kwdefaults__['save_every'] = 0\n"
        "runpy.run_module('handful', run_name='__main__', alter_sys=True)"
    )

    def start(out):
        words = ["base", features, "-o", tmp_path / out, "--heads", "feat,peeler", "--episodes", 1600]
        return subprocess.Popen([sys.executable, "-c", code, *map(str, words)], env=environment)

    assert start("whole").wait(120) == 0
    state, process = tmp_path / "killed.learning", start("killed")
    while process.poll() is None and not (state.exists() and "feat" in Checkpoint(state).stages):
        time.sleep(0.01)
    time.sleep(random.uniform(0, 0.05))
    process.kill()
    process.wait()
    assert Checkpoint(state).stages["feat"].reached["step"] > 0
    assert not (tmp_path / "killed").exists()
    assert start("killed").wait(120) == 0
    assert (tmp_path / "killed").read_bytes() == (tmp_path / "whole").read_bytes()
    assert not state.exists()


def test_a_finished_head_is_not_learned_again_and_other_features_or_options_are_refused(tmp_path):
    path = tmp_path / "state.safetensors"
    first = learn_base(base_classes(), heads=["feat"], episodes=320, checkpoint=path)
    content = path.read_bytes()
    for features, options in ((base_classes(1), {}), (base_classes(), {"seed": 1})):
        with pytest.raises(ValueError, match="holds a training with other settings or data"):
            learn_base(features, heads=["feat"], checkpoint=path, **({"episodes": 320} | options))
    assert path.read_bytes() == content
    again = learn_base(base_classes(), heads=["feat", "peeler"], episodes=320, checkpoint=path)
    assert_same(first.heads["feat"], again.heads["feat"])
    assert again.about["heads"]["feat"] == first.about["heads"]["feat"]
    assert list(Checkpoint(path).stages) == ["feat", "peeler"]


def test_features_that_teach_a_head_nothing_are_refused_but_not_other_parts():
    table = FeatureTable(np.ones((480, 12), np.float32), base_classes().labels)
    with pytest.raises(ValueError, match="one column, or all rows are the same: head 'feat' cannot be"):
        learn_base(table, heads=["feat"], episodes=64)
    assert list(learn_base(table, heads=["conformal"]).heads) == ["conformal"]
