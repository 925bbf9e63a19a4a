"""Networks of strangers: each attack is refused in a sentence, quickly, and with little memory."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import strangers
from piles import fill

from handful.backbones import load_backbone
from handful.utils.interrupts import stuck, watched

pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return fill(tmp_path_factory.mktemp("strangers"))


def arguments(folder, make):
    place = folder / "models" / make.__name__
    place.mkdir(parents=True, exist_ok=True)
    out = place / "out.parquet"
    return ["embed", folder / "pile", "--backbone", make(place / "model.onnx"), "-o", out, "--no-cache"], out


@pytest.mark.parametrize("make", strangers.ATTACKS, ids=lambda make: make.__name__)
def test_an_attack_is_refused(make, folder, sandbox):
    command, out = arguments(folder, make)
    sandbox.refuses(*command)
    assert not out.exists()


def test_networks_that_only_look_strange_are_read(tmp_path):
    """Ten thousand constants, branches, functions, and a model that lies elsewhere behind a link."""
    opsets = [strangers.OPSET, strangers.onnx.helper.make_opsetid("own", 1)]
    double = strangers.make_function("own", "Twice", ["a"], ["b"], [strangers.N("Add", ["a", "a"], ["b"])], opsets)
    branches = {
        f"{side}_branch": strangers.graph_of(
            [strangers.N(kind, ["doubled"], [kind])], side, [], [strangers.value(kind, strangers.T.FLOAT, None)]
        )
        for side, kind in (("then", "Neg"), ("else", "Relu"))
    }
    nodes = [
        *strangers.POOL, strangers.N("Twice", ["flat"], ["doubled"], domain="own"),
        strangers.N("If", ["true"], ["y"], **branches),
    ]  # fmt: skip
    constants = [strangers.constant("true", True, bool)]
    constants += [strangers.constant(f"c{i}", i, np.float32) for i in range(10_000)]
    (tmp_path / "blobs").mkdir()
    path = strangers.save(tmp_path / "blobs" / "x.onnx", nodes, constants, domains=["own"], functions=[double])
    (tmp_path / "snapshot").mkdir()
    (tmp_path / "snapshot" / "model.onnx").symlink_to(path)
    backbone = load_backbone(tmp_path / "snapshot" / "model.onnx", size=8, mean=0.5, std=0.5)
    batch = np.random.default_rng(0).normal(size=(5, 3, 8, 8)).astype(np.float32)
    np.testing.assert_allclose(backbone.embed(batch), -2 * batch.mean(axis=(2, 3)), rtol=1e-5, atol=1e-6)


def test_the_time_limit_grows_with_the_batch_and_can_be_set(tmp_path, monkeypatch):
    """What a network takes for one picture shows what it may take for many."""
    path = strangers.save_slow(tmp_path / "model.onnx", side=1000, steps=5)
    monkeypatch.setenv("HANDFUL_ONNX_TIMEOUT_S", "30")
    session = load_backbone(path)._session
    session.run(None, {"x": np.zeros((2, 3, 8, 8), np.float32)})
    monkeypatch.setenv("HANDFUL_ONNX_TIMEOUT_S", "0.001")
    session.run(None, {"x": np.zeros((100, 3, 8, 8), np.float32)})
    with pytest.raises(ValueError, match="(opened in|longer than) 0.001 seconds.*set HANDFUL_ONNX_TIMEOUT_S to more"):
        load_backbone(path)
    monkeypatch.setenv("HANDFUL_ONNX_TIMEOUT_S", "soon")
    with pytest.raises(ValueError, match="HANDFUL_ONNX_TIMEOUT_S='soon': give a number of seconds above 0"):
        load_backbone(path)


def test_what_is_interrupted_is_told_to_stop():
    import _thread

    asked = threading.Event()

    def work():
        _thread.interrupt_main()
        asked.wait(30)

    with pytest.raises(KeyboardInterrupt):
        watched(work, 30, asked.set)
    assert asked.is_set()
    assert not stuck()


def test_what_a_watched_function_raises_is_raised():
    with pytest.raises(ZeroDivisionError):
        watched(lambda: 1 / 0, 30)


@pytest.mark.parametrize("make", strangers.ENDLESS, ids=lambda make: make.__name__)
def test_a_network_without_an_end_is_given_up(make, folder):
    command, out = arguments(folder, make)
    done = subprocess.run(
        [sys.executable, "-m", "handful", *map(str, command)],
        capture_output=True, text=True, timeout=60,
        env=os.environ | {"HANDFUL_ONNX_TIMEOUT_S": "1"},
    )  # fmt: skip
    assert done.returncode == 1, done
    assert "longer than 1 seconds" in done.stderr
    assert "HANDFUL_ONNX_TIMEOUT_S" in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert not out.exists()
