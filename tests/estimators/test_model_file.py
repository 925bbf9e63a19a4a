"""A model on disk is the model; a file that is not one is refused with a reason, and a failed save costs nothing.

Files that somebody has tampered with are in tests/faults/test_hostile_models.py.
"""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file
from sklearn.exceptions import NotFittedError

import handful

DIMENSION = 8
MODELS = {
    "eol": lambda **more: handful.EOL(outlier_share=0.4, **more),
    "eol-tuned": lambda **more: handful.EOL(
        b=0.3, steps=7, temperature=5.0, learn=("eta", "delta"), marginal_weight="shots", dtype="float64",
        threshold=0.7, **more,
    ),
    "knn": lambda **more: handful.estimators.KNN(k=2, **more),
    "simpleshot": lambda **more: handful.estimators.SimpleShot(outlier_share=0.3, temperature=4.0, **more),
}  # fmt: skip
PREPARATIONS = ["none", "l2, power(0.3), task", ("task", "l2", "qr")]


def items(kinds, seed):
    noise = np.random.default_rng(seed).normal(scale=0.3, size=(len(kinds), DIMENSION))
    return (2 * np.eye(DIMENSION)[kinds] + noise).astype("float32")


X = items([0, 0, 1, 1, 2, 0, 1, 1, 2, 5, 5, 6], seed=0)
Y = np.array([0, 0, 1, 1, 2] + [-1] * 7)
NEW = items([0, 1, 2, 5, 6, 7], seed=1)
NAMES = [None if k == -1 else ("ant", "bee", "a very long name of a cow")[k] for k in Y]


def assert_same_model(loaded, model, new=NEW):
    assert type(loaded) is type(model)
    for answer in ("predict", "predict_proba", "score_samples", "transform"):
        np.testing.assert_array_equal(getattr(loaded, answer)(new), getattr(model, answer)(new), strict=True)
    for fitted in ("classes_", "transduction_", "label_distributions_", "outlier_scores_", "unknown_"):
        np.testing.assert_array_equal(getattr(loaded, fitted), getattr(model, fitted), strict=True)
    for number in ("threshold_", "outlier_share_", "outlier_share_interval_", "n_iter_", "n_features_in_"):
        assert getattr(loaded, number) == getattr(model, number)
    ours, theirs = loaded.get_params(), model.get_params()
    np.testing.assert_array_equal(ours.pop("base_mean"), theirs.pop("base_mean"))
    assert ours == theirs


def there_and_back(model, path):
    assert model.save(str(path)) == path  # paths may be text
    return handful.load(path)


@pytest.fixture
def saved(tmp_path):
    return handful.EOL(base_mean=np.full(DIMENSION, 0.1)).fit(X, Y).save(tmp_path / "model.safetensors")


def test_a_loaded_model_is_the_saved_one(tmp_path):
    """With labels of any kind, a base mean, another preparation, and without a pile."""
    for make in MODELS.values():
        cases = [(X, y, {"base_mean": mean}) for y in (Y, NAMES, Y.astype(float)) for mean in (None, X.mean(axis=0))]
        cases += [(X, Y, {"preparation": steps}) for steps in PREPARATIONS] + [(X[:5], Y[:5], {})]
        for x, y, more in cases:
            model = make(**more).fit(x, y)
            loaded = there_and_back(model, tmp_path / "model.safetensors")
            assert_same_model(loaded, model)
            assert not hasattr(loaded, "feature_names_in_")
    named = there_and_back(handful.EOL(outlier_share=0.4).fit(X, NAMES), tmp_path / "named")
    assert named.predict(NEW).tolist() == ["ant", "bee", "a very long name of a cow"] + ["unknown"] * 3
    with pytest.raises(ValueError, match=r"X has 3 features, but EOL is expecting 8"):
        named.predict(NEW[:, :3])


def test_parameters_come_back_as_what_they_mean(tmp_path):
    """Numbers of NumPy as numbers, a base mean as an array however it was held; what cannot be written is refused."""
    mean = np.linspace(0, 1, DIMENSION)
    model = handful.EOL(outlier_share=np.float64(0.4), steps=np.int64(5), base_mean=pd.Series(mean)).fit(X, Y)
    loaded = there_and_back(model, tmp_path / "model")
    assert loaded.get_params()["steps"] == 5
    np.testing.assert_array_equal(loaded.base_mean, mean)
    assert_same_model(loaded, model)


def test_a_model_file_is_plain_safetensors_and_replaces_an_older_one(saved):
    with safe_open(saved, framework="np") as file:
        about = json.loads(file.metadata()["handful"])
        assert file.get_tensor("state.prototypes").shape == (1, 3, DIMENSION)
    assert (about["method"], about["classes"], about["handful"]) == ("eol", [0, 1, 2], handful.__version__)
    model = handful.estimators.KNN().fit(X, Y)
    assert_same_model(there_and_back(model, saved), model)
    assert [p.name for p in saved.parent.iterdir()] == [saved.name]


# ---- files that are no models


def test_files_that_are_no_models_are_refused_by_name(saved, tmp_path):
    whole, weight = saved.read_bytes(), {"weight": np.zeros(3)}
    for content in (b"", b"a letter, not a model\n" * 20, whole[:-40], whole[:100], whole + b"more"):
        saved.write_bytes(content)
        with pytest.raises(ValueError, match=r"model\.safetensors' is not a safetensors file, or is damaged: "):
            handful.load(saved)
    for metadata, message in [
        (None, "is a safetensors file, but not one that handful wrote"),
        ({"format": "pt"}, "is a safetensors file, but not one that handful wrote"),
        ({"handful": "hello"}, "is damaged: its header is not JSON"),
        ({"handful": "{}"}, "is incomplete: 'format' is missing"),
        ({"handful": json.dumps({"format": 99, "handful": "9.8.7"})},
         r"written by handful 9\.8\.7 in format 99; .*pip install -U handful"),
    ]:  # fmt: skip
        save_file(weight, tmp_path / "odd", metadata=metadata)
        with pytest.raises(ValueError, match=rf"odd' .*{message}"):
            handful.load(tmp_path / "odd")
    for path in (tmp_path / "nothing.safetensors", tmp_path):
        with pytest.raises(FileNotFoundError, match=rf"there is no model file '.*{path.name}'"):
            handful.load(path)


# ---- saving that fails


def test_a_save_that_fails_says_so_keeps_an_older_file_and_leaves_nothing_behind(saved):
    before, folder = saved.read_bytes(), saved.parent
    (folder / "taken").mkdir()
    model, odd = handful.estimators.KNN().fit(X, Y), handful.estimators.KNN().fit(X, Y).set_params(threshold=object())
    for one, path, error, message in [
        (handful.EOL(), folder / "new", NotFittedError, "EOL instance is not fitted yet"),
        (model, folder / "nowhere" / "model", FileNotFoundError, r"the model was not saved: .*nowhere.model'$"),
        (model, saved / "new", OSError, r"the model was not saved: .*model\.safetensors.new'$"),
        (model, folder / "taken", OSError, r"the model was not saved: .*taken'$"),
        (odd, saved, TypeError, "^a parameter of type object cannot be written to a model file"),
    ]:
        with pytest.raises(error, match=message):
            one.save(path)
        assert saved.read_bytes() == before
        assert sorted(p.name for p in folder.iterdir()) == [saved.name, "taken"]
