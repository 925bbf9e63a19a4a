"""Learning heads can be killed at any moment: the same command continues, and the base file is the same to the byte."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from handful.features import FeatureTable, write
from handful.training.heads import learn_base
from handful.training.heads.trainer import KEY

pytestmark = pytest.mark.torch
EPISODES = 6400  # so many that no run ends before it is stopped


def base_classes(seed=0):
    rng = np.random.default_rng(seed)
    features = (rng.normal(size=(40, 1, 12)) + rng.normal(size=(40, 12, 12))).reshape(-1, 12)
    return FeatureTable(features.astype(np.float32), np.repeat(np.arange(40), 12), name="blobs")


def command(features, out, save_every):
    words = ["base", features, "-o", out, "--heads", "feat,peeler", "--episodes", EPISODES, "--save-every", save_every]
    return [sys.executable, "-m", "handful", *map(str, words)]


def steps_in(path):
    """The head that is being learned, its step, and the finished heads, as the file says."""
    with safe_open(path, framework="np") as file:
        about = json.loads(file.metadata()[KEY])
    return about["state"] and (about["state"]["name"], about["state"]["step"]), list(about["finished"])


def test_killed_at_random_moments_and_resumed_it_ends_with_the_same_bytes(tmp_path):
    features, environment = write(base_classes(), tmp_path / "f.npz"), os.environ | {"OMP_NUM_THREADS": "1"}
    whole = subprocess.run(
        command(features, tmp_path / "whole.st", 1000), env=environment, capture_output=True, text=True
    )
    assert whole.returncode == 0, whole.stderr
    state, moments, seen = tmp_path / "killed.st.learning", random.Random(), []
    for stop, code in ((signal.SIGKILL, -9), (signal.SIGINT, 130), (None, 0)):
        before = state.stat().st_mtime_ns if state.exists() else None
        process = subprocess.Popen(
            command(features, tmp_path / "killed.st", 0), env=environment, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
        if stop is not None:
            while process.poll() is None and (not state.exists() or state.stat().st_mtime_ns == before):
                time.sleep(0.01)
            time.sleep(moments.uniform(0, 0.15))
            process.send_signal(stop)
        output = process.communicate()[0].decode()
        assert process.returncode == code, output
        if stop is not None:
            seen.append(steps_in(state))
            assert not (tmp_path / "killed.st").exists()
    assert seen[0] != seen[-1]  # it went on, and did not begin again
    assert (tmp_path / "killed.st").read_bytes() == (tmp_path / "whole.st").read_bytes()
    assert not state.exists()


def test_a_state_of_other_features_or_options_is_refused_and_kept(tmp_path):
    path = tmp_path / "state.safetensors"
    learn_base(base_classes(), heads=["feat"], episodes=320, checkpoint=path)
    content = path.read_bytes()
    for features, options in ((base_classes(1), {}), (base_classes(), {"seed": 1}), (base_classes(), {"order": 1})):
        with pytest.raises(ValueError, match="a learning from other features or with other options"):
            learn_base(features, heads=["feat"], checkpoint=path, **({"episodes": 320} | options))
    assert path.read_bytes() == content


def test_features_that_teach_a_head_nothing_are_refused_but_not_other_parts():
    for features in (base_classes().features[:, :1], np.ones((480, 12), np.float32)):
        table = FeatureTable(features, base_classes().labels)
        for head in ("feat", "frob"):
            with pytest.raises(ValueError, match=f"one column, or all rows are the same: head '{head}' cannot be"):
                learn_base(table, heads=[head], episodes=64)
        assert list(learn_base(table, heads=["conformal"]).heads) == ["conformal"]


def test_a_finished_head_is_not_learned_again(tmp_path):
    path = tmp_path / "state.safetensors"
    first = learn_base(base_classes(), heads=["feat"], episodes=320, checkpoint=path)
    again = learn_base(base_classes(), heads=["feat", "peeler"], episodes=320, checkpoint=path)
    for name, array in first.heads["feat"].items():
        np.testing.assert_array_equal(again.heads["feat"][name], array)
    assert again.about["heads"]["feat"] == first.about["heads"]["feat"]
    assert steps_in(path) == (None, ["feat", "peeler"])


def test_a_file_that_is_no_state_or_lacks_its_arrays_is_refused_in_words(tmp_path):
    path = tmp_path / "state.safetensors"
    learn_base(base_classes(), heads=["feat"], episodes=320, checkpoint=path)
    with safe_open(path, framework="np") as file:
        about = json.loads(file.metadata()[KEY])
    state = {"name": "peeler", "step": 3, "best_step": 0, "before": {}, "best": {}}
    headers = [
        (None, "does not hold a learning"),
        ("[]", "not an object"),
        ("made up", "not JSON"),
        ('{"made_from": 1}', "other features or with other options"),
        *((json.dumps(about | {"state": damage}), "damaged") for damage in (state, state | {"more": 1}, "text")),
    ]
    for header, message in headers:
        save_file({"x": np.zeros(1)}, path, metadata={} if header is None else {KEY: header})
        with pytest.raises(ValueError, match=message):
            learn_base(base_classes(), heads=["feat"], episodes=320, checkpoint=path)
