"""Training a backbone: the pieces against independent computation, and the whole through interruptions."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import load_file, save

from handful.backbones import load_backbone
from handful.core.base import read_base
from handful.training.datasets import PictureSet

with suppress(ImportError):  # where torch is absent, the marker skips all of this
    import torch

    from handful.backbones.networks import build
    from handful.backbones.networks.architectures import drop_block
    from handful.backbones.networks.checkpoints import load_network
    from handful.training import checkpoint
    from handful.training import learner as learning
    from handful.training.learner import Learner, augment, bfloat16_works, pixel_statistics, rotated
    from handful.training.pretraining import pretrain, split
    from handful.training.settings import Settings

pytestmark = pytest.mark.torch

SMALL = {"network": "resnet12", "options": {"widths": [4, 4, 8, 8]}, "batch": 32, "augment": "drawings", "epochs": 3,
         "precision": "float32"}  # fmt: skip


def shapes(classes=24, each=8, size=16, seed=0, channels=1, splits=None):
    """Classes that a network can learn: each its own blotch, with noise."""
    rng = np.random.default_rng(seed)
    blotches = rng.integers(0, 256, (classes, 4, 4, channels)).repeat(size // 4, 1).repeat(size // 4, 2)
    pixels = np.clip(blotches.repeat(each, 0) + rng.normal(0, 20, (classes * each, size, size, channels)), 0, 255)
    labels = np.repeat([f"shape{i:02}" for i in range(classes)], each)
    splits = np.full(len(labels), "base") if splits is None else np.repeat(splits, each)
    return PictureSet("shapes", pixels.astype(np.uint8), labels, splits)


def learner(pictures, **changes):
    return Learner(Settings(**(SMALL | changes)), pictures, *pixel_statistics(pictures.pixels), "cpu")


@pytest.fixture
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


# The pieces


def test_drop_block_drops_whole_squares_about_as_often_as_told():
    torch.manual_seed(0)
    x = torch.ones(64, 16, 12, 12)
    y = drop_block(x, 0.1, 5)
    dropped = (y == 0).float()
    assert dropped.mean().item() == pytest.approx(0.1, abs=0.02)  # squares overlap: a little less
    assert y.mean().item() == pytest.approx(1, abs=1e-4)
    # every dropped place lies in a 5 x 5 square that is dropped whole: opening changes nothing
    whole = torch.nn.functional.unfold(dropped.flatten(0, 1)[:, None], 5).amin(1).reshape(-1, 1, 8, 8)
    again = torch.nn.functional.max_pool2d(torch.nn.functional.pad(whole, [4] * 4), 5, 1)
    assert torch.equal(again.reshape_as(dropped), dropped)

    channels = drop_block(torch.ones(1000, 10, 1, 1), 0.2, 5)  # a map of one place: whole channels are dropped
    assert (channels == 0).float().mean().item() == pytest.approx(0.2, abs=0.02)
    network = build("resnet12", 1, widths=[4, 4, 8, 8])
    network.drop(0.5)
    x = torch.randn(3, 1, 16, 16)
    assert torch.equal(network.eval()(x), network(x))  # a network that is used drops nothing
    network.train()
    assert not torch.equal(network(x), network(x))


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
    plain = torch.full((16, 1, 20, 20), 0.7)
    for how in ("pictures", "drawings", "none"):
        assert torch.allclose(augment(plain, how, np.random.default_rng(0)), plain, atol=1e-6)


def test_the_loss_is_cross_entropy_with_smoothed_labels(one_thread):
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
    assert pace[top + (made.steps - top) // 2] == pytest.approx(0.5, abs=0.02)
    each = made.steps_per_epoch
    epochs = [np.concatenate([made._rows(e * each + i) for i in range(each)]) for e in (0, 1)]
    for rows in epochs:
        assert len(set(rows.tolist())) == len(rows) == each * 32
    assert not np.array_equal(*epochs)


def test_training_teaches_and_the_seed_decides_the_weights(one_thread):
    for rotations, outputs in (("none", 24), ("classes", 96), ("predict", 24)):
        made = learner(shapes(), rotations=rotations, epochs=20, label_smoothing=0.0, drop=0.0)
        losses = [made.step(i) for i in range(made.steps)]
        assert np.mean(losses[-6:]) < 0.75 * np.mean(losses[:3])
        assert made.head.out_features == outputs

    def weights(seed):
        made = learner(shapes(), seed=seed)
        for i in range(4):
            made.step(i)
        return made.weights()

    first, same, other = weights(1), weights(1), weights(2)
    assert all(torch.equal(first[k], same[k]) for k in first)
    assert not all(torch.equal(first[k], other[k]) for k in first)


def test_a_restored_learner_goes_on_as_if_nothing_had_been(one_thread):
    for precision in ("float32", "bfloat16") if bfloat16_works() else ("float32",):
        made = learner(shapes(), precision=precision, rotations="predict")
        for i in range(3):
            made.step(i)
        state = made.state()
        again = learner(shapes(), precision=precision, rotations="predict")
        again.restore(state)
        for i in range(3, 6):
            made.step(i)
            again.step(i)
        for name, value in made.state().items():
            assert torch.equal(value, again.state()[name]), name


def test_a_machine_that_fails_at_bfloat16_trains_in_float32_or_says_so(tmp_path, monkeypatch):
    """As some virtual machines do: the process that tries it dies."""
    monkeypatch.setattr(learning, "_capabilities", lambda: {"avx512_bf16": True, "amx_bf16": True})
    monkeypatch.setattr(sys, "executable", "/bin/false")
    bfloat16_works.cache_clear()
    try:
        assert not learning.native_bfloat16("cpu")
        with pytest.raises(ValueError, match="train with precision float32"):
            pretrain(shapes(), tmp_path / "b", Settings(**(SMALL | {"precision": "bfloat16"})))
        assert not (tmp_path / "b").exists()
    finally:
        bfloat16_works.cache_clear()


# Splits


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


# The whole


def test_a_training_leaves_a_backbone_that_can_be_used(tmp_path):
    pictures = shapes(classes=40, each=12)
    rows = []
    done = pretrain(pictures, tmp_path, Settings(**SMALL), threads=1, track="none", heads=(), on_epoch=rows.append)
    assert [row["epoch"] for row in rows] == [1, 2, 3]
    assert done.best["figure"] == max(row["figure"] for row in rows)
    history = [json.loads(line) for line in (tmp_path / "history.jsonl").read_text().splitlines()]
    assert history == rows

    network = build("resnet12", 1, widths=[4, 4, 8, 8])
    network.load_state_dict({k: torch.from_numpy(v) for k, v in load_file(tmp_path / "weights.safetensors").items()})
    backbone = load_backbone(tmp_path / "model.onnx")
    picture = Image.fromarray(pictures.pixels[3, :, :, 0])
    ready = backbone.prepare(picture.convert("RGB"))[None]
    with torch.no_grad():
        wanted = network.eval()(torch.from_numpy(ready)).numpy()
    assert np.abs(backbone.embed(ready) - wanted).max() < 1e-4 * np.abs(wanted).max()

    learning, _ = split(pictures, Settings(**SMALL))
    features = backbone.embed(np.stack([backbone.prepare(Image.fromarray(p[:, :, 0])) for p in learning.pixels]))
    assert np.allclose(read_base(tmp_path / "model.base.safetensors").mean, features.mean(0), atol=1e-4)
    card = (tmp_path / "card.md").read_text()
    assert "resnet12 trained on shapes" in card
    assert "widths [4, 4, 8, 8]" in card
    assert f"{done.best['accuracy_5']:.2f}" in card


def test_the_other_networks_are_trained_and_found_again_alike(tmp_path):
    for network, options, wanted in (("conv4", {"width": 8}, 8), ("wrn28_10", {"depth": 10, "widen": 1}, 64)):
        settings = Settings(**(SMALL | {"network": network, "options": options, "epochs": 1}))
        pretrain(shapes(), tmp_path / network, settings, threads=1, track="none", heads=())
        backbone = load_backbone(tmp_path / network / "model.onnx")
        again, name, _ = load_network(tmp_path / network / "weights.safetensors")
        assert (backbone.dimension, again.dimension, name) == (wanted, wanted, network)
        x = np.random.default_rng(0).random((2, 1, 16, 16), np.float32)
        with torch.no_grad():
            features = again.eval()(torch.from_numpy(x)).numpy()
        assert np.allclose(backbone.embed(x), features, atol=1e-4 * np.abs(features).max())


def test_training_stops_early_when_validation_does_not_improve(tmp_path):
    # weights that hardly move: whatever validation says first it goes on saying
    settings = Settings(**(SMALL | {"epochs": 30, "learning_rate": 1e-12, "weight_decay": 0.0, "patience": 2}))
    rows = []
    pretrain(shapes(classes=40), tmp_path, settings, threads=1, track="none", heads=(), on_epoch=rows.append)
    assert 3 <= len(rows) < 30


def test_other_settings_or_pictures_are_refused_and_the_checkpoint_stays(tmp_path):
    pretrain(shapes(), tmp_path, Settings(**(SMALL | {"epochs": 1})), threads=1, track="none", heads=())
    before = (tmp_path / checkpoint.NAME).read_bytes()
    with pytest.raises(ValueError, match="seed 0 there and 5 here"):
        pretrain(shapes(), tmp_path, Settings(**(SMALL | {"epochs": 1, "seed": 5})), track="none", heads=())
    with pytest.raises(ValueError, match="other pictures"):
        pretrain(shapes(seed=1), tmp_path, Settings(**(SMALL | {"epochs": 1})), track="none", heads=())
    assert (tmp_path / checkpoint.NAME).read_bytes() == before


def test_two_trainings_in_one_folder_are_refused_and_what_a_kill_left_is_removed(tmp_path):
    (tmp_path / f".{checkpoint.NAME}..0123abcd.tmp").write_bytes(b"half")
    with checkpoint.locked_folder(tmp_path):
        assert not list(tmp_path.glob(".*.tmp"))
        with pytest.raises(OSError, match="in use by another process"):
            pretrain(shapes(), tmp_path, Settings(**SMALL), track="none", heads=())


def test_a_damaged_checkpoint_is_named_and_not_replaced(tmp_path):
    path, whole = tmp_path / checkpoint.NAME, {"format": checkpoint.FORMAT, "made_from": checkpoint.MADE_FROM}
    damaged = [{"made_from": {}}, {"made_from": 1}, {"step": "x"}, {"history": {}}, {"state": {}}]
    headers = ["1", "NaN", "[" * 100_000, '{"made_from": {}}', *(json.dumps(whole | damage) for damage in damaged)]
    for content in (b"nonsense", *(save({}, {"handful": header}) for header in headers)):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="damaged.*remove it to start again"):
            pretrain(shapes(), tmp_path, Settings(**SMALL), track="none", heads=())
        assert path.read_bytes() == content
    path.write_bytes(save({}, {"handful": json.dumps(whole | {"format": 99})}))
    with pytest.raises(ValueError, match="written by another version of handful"):
        checkpoint.read(tmp_path)
    path.write_bytes(save({}, {"handful": json.dumps(whole)}))
    assert checkpoint.read(tmp_path).step == 0
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(ValueError, match="not a regular file"):
        checkpoint.read(tmp_path)


WRONG = [
    ({"learning_rate": 0}, "learning_rate of the training must be a number above 0"),
    ({"rotations": "often"}, "rotations of the training must be one of"),
    ({"batch": 5000}, "give a smaller batch"),
    ({"network": "resnet13"}, "choose from resnet12, conv4, wrn28_10"),
    ({"options": {"depth": 3}}, "cannot be built with these options"),
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
            pretrain(shapes(**pictures), tmp_path / "out", Settings(**(SMALL | settings)), track="none", **other)
    assert {path.name for path in (tmp_path / "out").glob("*")} <= {".lock"}


def test_curves_go_to_tensorboard(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    rows = []
    pretrain(shapes(), tmp_path, Settings(**SMALL), threads=1, track="tensorboard", heads=(), on_epoch=rows.append)
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [e.value for e in events.Scalars("loss")] == pytest.approx([row["loss"] for row in rows], rel=1e-5)


# From the command line, through kill -9


EPOCHS, TASKS = 8, 120  # some seconds of each, of which a stop takes half a second at most
FEW_TASKS = """
import runpy
from functools import partial
from handful.training import joint_training, pretraining
for module in (joint_training, pretraining):
    module.learn_base = partial(module.learn_base, episodes=64)
runpy.run_module("handful", run_name="__main__", alter_sys=True)
"""  # the command, whose heads learn on fixed features from few tasks


def picture_folder(folder, classes=24, each=10):
    pictures = shapes(classes, each, channels=3)
    for i, (pixels, label) in enumerate(zip(pictures.pixels, pictures.labels, strict=True)):
        (folder / label).mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(folder / label / f"{i:04}.png")
    (folder / label / "broken.png").write_bytes(b"no picture")
    return folder


def test_stopped_and_resumed_it_ends_with_the_same_bytes(tmp_path):
    """By kill -9 between epochs and in the joint training, and by Ctrl-C, which may come in the middle of a step."""
    folder = picture_folder(tmp_path / "pictures")
    environment = os.environ | {"HANDFUL_CACHE": str(tmp_path / "cache")}
    moments = random.Random()

    def start(out):
        words = ["train", folder, "-o", tmp_path / out, "--widths", "4,4,8,8", "--size", 16, "--batch", 16]
        words += ["--epochs", EPOCHS, "--threads", 1, "--save-every", 0, "--heads", "none", "--track", "none"]
        words += ["--seed", 7, "--together", "peeler", "--together-tasks", TASKS, "--together-rate", "1e-3"]
        command = [sys.executable, "-c", FEW_TASKS, *map(str, words)]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    whole = start("whole")
    output = whole.communicate()[0].decode()
    assert whole.returncode == 0, output
    assert "Skipped (1):" in output
    assert "broken.png" in output
    assert f"Network and head peeler trained together on {TASKS:,} tasks" in output.replace("\n", " ")
    file, steps = tmp_path / "stopped" / checkpoint.NAME, []
    stops = ((signal.SIGKILL, -9, False), (signal.SIGINT, 130, False), (signal.SIGKILL, -9, True), (None, 0, True))
    for stop, code, is_joint in stops:
        before = file.stat().st_mtime_ns if file.exists() else None
        process = start("stopped")
        if stop is not None:
            while process.poll() is None and (not file.exists() or file.stat().st_mtime_ns == before):
                time.sleep(0.01)  # until it writes, since its start is mostly imports
            while is_joint and process.poll() is None and not checkpoint.read(file.parent).together:
                time.sleep(0.02)
            time.sleep(moments.uniform(0, 0.3))
            process.send_signal(stop)
        output = process.communicate()[0].decode()
        assert process.returncode == code, output
        at = checkpoint.read(file.parent)
        steps.append((at.step, at.together.get("step", -1)))
    assert steps == sorted(steps)
    assert steps[0][0] < steps[-1][0]  # else it was stopped when all was done
    assert 0 <= steps[2][1] < steps[3][1] == TASKS // 4
    for name in ("weights.safetensors", "model.onnx", "model.base.safetensors", "history.jsonl"):
        assert (file.parent / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
    wanted = checkpoint.read(tmp_path / "whole")
    assert at.together == wanted.together
    for name, value in wanted.together_state.items():  # also of the last step, which may not be the best one
        assert torch.equal(value, at.together_state[name]), name
