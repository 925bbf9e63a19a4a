"""A model on disk is the model; a file that is not one is refused with a reason, and a failed save costs nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

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
        b=0.3,
        steps=7,
        temperature=5.0,
        learn=("eta", "delta"),
        marginal_weight="shots",
        dtype="float64",
        threshold=0.7,
        **more,
    ),
    "knn": lambda **more: handful.estimators.KNN(k=2, **more),
    "simpleshot": lambda **more: handful.estimators.SimpleShot(outlier_share=0.3, temperature=4.0, **more),
}
PREPARATIONS = [None, "none", "l2, power(0.3), task", ("task", "l2", "qr")]


def items(kinds, seed):
    noise = np.random.default_rng(seed).normal(scale=0.3, size=(len(kinds), DIMENSION))
    return (2 * np.eye(DIMENSION)[kinds] + noise).astype("float32")


KINDS = [0, 0, 1, 1, 2, 0, 1, 1, 2, 5, 5, 6]
X = items(KINDS, seed=0)
Y = np.array([0, 0, 1, 1, 2] + [-1] * 7)
NEW = items([0, 1, 2, 5, 6, 7], seed=1)
NAMES = [None if k == -1 else ("ant", "bee", "a very long name of a cow")[k] for k in Y]


def assert_same_model(loaded, model, new=NEW):
    assert type(loaded) is type(model)
    for answer in ("predict", "predict_proba", "score_samples", "transform"):
        np.testing.assert_array_equal(getattr(loaded, answer)(new), getattr(model, answer)(new), strict=True)
    for fitted in ("classes_", "transduction_", "label_distributions_", "outlier_scores_", "unknown_"):
        np.testing.assert_array_equal(getattr(loaded, fitted), getattr(model, fitted), strict=True)
    for number in ("threshold_", "outlier_share_", "n_iter_", "n_features_in_"):
        assert getattr(loaded, number) == getattr(model, number)
    ours, theirs = loaded.get_params(), model.get_params()
    np.testing.assert_array_equal(ours.pop("base_mean"), theirs.pop("base_mean"))
    assert ours == theirs


def rewrite(path, *, without=(), **changes) -> Path:
    """The same file with some tensors left out or entries of its header changed."""
    with safe_open(path, framework="np") as file:
        about = json.loads(file.metadata()["handful"]) | changes
        arrays = {name: file.get_tensor(name) for name in file.keys() if name not in without}  # noqa: SIM118
    save_file(arrays, path, metadata={"handful": json.dumps(about)})
    return path


@pytest.fixture
def saved(tmp_path) -> Path:
    return handful.EOL(base_mean=np.full(DIMENSION, 0.1)).fit(X, Y).save(tmp_path / "model.safetensors")


# --- there and back ---


def test_a_loaded_model_is_the_saved_one(tmp_path):
    for name in MODELS:
        for y in [Y, NAMES, Y.astype(float)]:
            for base_mean in [None, np.linspace(0, 1, DIMENSION)]:
                model = MODELS[name](base_mean=base_mean).fit(X, y)
                assert_same_model(handful.load(model.save(tmp_path / "model.safetensors")), model)


def test_every_preparation_comes_back(tmp_path):
    for name in MODELS:
        for preparation in PREPARATIONS:
            model = MODELS[name](preparation=preparation).fit(X, Y)
            assert_same_model(handful.load(model.save(tmp_path / "model")), model)


def test_a_model_that_never_saw_a_pile_comes_back(tmp_path):
    for name in MODELS:
        model = MODELS[name]().fit(X[:5], Y[:5])
        assert_same_model(handful.load(model.save(tmp_path / "model")), model)


def test_strings_stay_strings_and_unknown_stays_unknown(tmp_path):
    loaded = handful.load(handful.EOL(outlier_share=0.4).fit(X, NAMES).save(tmp_path / "model"))
    assert loaded.classes_.tolist() == ["a very long name of a cow", "ant", "bee"]
    assert loaded.predict(NEW).tolist() == ["ant", "bee", "a very long name of a cow"] + ["unknown"] * 3


def test_feature_names_come_back_and_are_checked(tmp_path):
    columns = [f"f{i}" for i in range(DIMENSION)]
    model = handful.estimators.KNN().fit(pd.DataFrame(X, columns=columns), Y)
    loaded = handful.load(model.save(tmp_path / "model"))
    assert_same_model(loaded, model, pd.DataFrame(NEW, columns=columns))
    assert loaded.feature_names_in_.tolist() == columns
    with pytest.raises(ValueError, match=r"feature names should match"):
        loaded.predict(pd.DataFrame(NEW, columns=columns[::-1]))


def test_a_model_without_feature_names_comes_back_without(saved):
    assert not hasattr(handful.load(saved), "feature_names_in_")


def test_a_loaded_model_refuses_items_of_another_dimension(saved):
    with pytest.raises(ValueError, match=r"X has 3 features, but EOL is expecting 8"):
        handful.load(saved).predict(NEW[:, :3])


def test_numpy_numbers_as_parameters_come_back_as_numbers(tmp_path):
    model = handful.EOL(outlier_share=np.float64(0.4), steps=np.int64(5)).fit(X, Y)
    loaded = handful.load(model.save(tmp_path / "model"))
    assert loaded.get_params()["steps"] == 5
    assert_same_model(loaded, model)


@pytest.mark.parametrize("hold", [np.ndarray.tolist, pd.Series], ids=["list", "pandas"])
def test_a_base_mean_comes_back_as_an_array_however_it_was_held(tmp_path, hold):
    mean = np.linspace(0, 1, DIMENSION)
    model = handful.estimators.KNN(base_mean=hold(mean)).fit(X, Y)
    loaded = handful.load(model.save(tmp_path / "model"))
    np.testing.assert_array_equal(loaded.base_mean, mean)
    np.testing.assert_array_equal(loaded.predict_proba(NEW), model.predict_proba(NEW))


def test_a_loaded_model_can_be_saved_again_and_fitted_again(saved, tmp_path):
    loaded = handful.load(saved)
    again = loaded.save(tmp_path / "again.safetensors")
    assert again.read_bytes() == saved.read_bytes()
    np.testing.assert_array_equal(loaded.fit(X, Y).transduction_, handful.load(again).transduction_)


def test_paths_may_be_text_and_the_path_is_given_back(tmp_path):
    model = handful.estimators.KNN().fit(X, Y)
    path = model.save(str(tmp_path / "model"))
    assert path == tmp_path / "model"
    assert_same_model(handful.load(str(path)), model)


def test_saving_replaces_an_older_model(saved):
    model = handful.estimators.KNN().fit(X, Y)
    model.save(saved)
    assert_same_model(handful.load(saved), model)
    assert [p.name for p in saved.parent.iterdir()] == [saved.name]


def test_a_model_file_is_plain_safetensors(saved):
    with safe_open(saved, framework="np") as file:
        about = json.loads(file.metadata()["handful"])
        assert file.get_tensor("state.prototypes").shape == (1, 3, DIMENSION)
    assert (about["method"], about["classes"], about["handful"]) == ("eol", [0, 1, 2], handful.__version__)


# --- files that are no models ---


def test_a_damaged_file_is_refused_by_name(saved):
    whole = saved.read_bytes()
    for content in [
        lambda data: b"",
        lambda data: b"abc",
        lambda data: b"a letter, not a model\n" * 20,
        lambda data: data[:-40],
        lambda data: data[:100],
        lambda data: data + b"more",
        lambda data: data[:200] + b"\xff" * 20 + data[220:],
    ]:
        saved.write_bytes(content(whole))
        with pytest.raises(ValueError, match=r"model\.safetensors' is not a safetensors file, or is damaged: "):
            handful.load(saved)


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}])
def test_a_safetensors_file_of_another_origin_is_refused(tmp_path, metadata):
    save_file({"weight": np.zeros(3)}, tmp_path / "resnet", metadata=metadata)
    with pytest.raises(ValueError, match=r"resnet' is a safetensors file, but not one that handful wrote"):
        handful.load(tmp_path / "resnet")


def test_a_header_that_is_not_ours_is_refused(tmp_path):
    save_file({"weight": np.zeros(3)}, tmp_path / "odd", metadata={"handful": "hello"})
    with pytest.raises(ValueError, match=r"odd' is damaged: its header is not JSON"):
        handful.load(tmp_path / "odd")
    save_file({"weight": np.zeros(3)}, tmp_path / "odd", metadata={"handful": "{}"})
    with pytest.raises(ValueError, match=r"odd' is incomplete: 'format' is missing"):
        handful.load(tmp_path / "odd")


def test_a_file_of_a_newer_format_asks_for_an_upgrade(saved):
    rewrite(saved, format=99, handful="9.8.7")
    with pytest.raises(ValueError, match=r"written by handful 9\.8\.7 in format 99; .*pip install -U handful"):
        handful.load(saved)


def test_a_file_of_a_newer_format_need_not_look_like_ours(saved):
    save_file({"weight": np.zeros(3)}, saved, metadata={"handful": json.dumps({"format": 99, "handful": "2.0"})})
    with pytest.raises(ValueError, match=r"pip install -U handful"):
        handful.load(saved)


def test_a_missing_tensor_is_named(saved):
    before, whole = handful.load(saved), saved.read_bytes()
    assert_same_model(handful.load(rewrite(saved)), before)  # rewriting alone does no harm
    for tensor in [
        "state.prototypes",
        "state.b",
        "state.prepare.0.base",
        "learned.unknown_",
        "learned.outlier_scores_",
        "parameter.base_mean",
    ]:
        saved.write_bytes(whole)
        with pytest.raises(ValueError, match=rf"model\.safetensors' is incomplete: '{tensor}' is missing"):
            handful.load(rewrite(saved, without=(tensor,)))


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no model file '.*nothing\.safetensors'"):
        handful.load(tmp_path / "nothing.safetensors")
    with pytest.raises(FileNotFoundError, match=r"there is no model file"):
        handful.load(tmp_path)


# --- saving that fails ---


def test_an_unfitted_model_is_not_saved(tmp_path):
    with pytest.raises(NotFittedError, match=r"EOL instance is not fitted yet"):
        handful.EOL().save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_saving_into_a_folder_that_is_not_there_says_so(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"the model was not saved: .*nowhere.model'$"):
        handful.estimators.KNN().fit(X, Y).save(tmp_path / "nowhere" / "model")
    assert list(tmp_path.iterdir()) == []


def test_saving_below_a_file_says_so_and_keeps_the_file(saved):
    before = saved.read_bytes()
    with pytest.raises(OSError, match=r"the model was not saved: .*model\.safetensors.new'$"):
        handful.estimators.KNN().fit(X, Y).save(saved / "new")
    assert saved.read_bytes() == before
    assert [p.name for p in saved.parent.iterdir()] == [saved.name]


def test_saving_over_a_folder_says_so_and_leaves_no_temporary_file(tmp_path):
    (tmp_path / "model").mkdir()
    with pytest.raises(OSError, match=r"the model was not saved: .*model'$"):
        handful.estimators.KNN().fit(X, Y).save(tmp_path / "model")
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_a_parameter_that_cannot_be_written_is_refused_and_the_older_file_kept(saved):
    before = saved.read_bytes()
    model = handful.estimators.KNN().fit(X, Y).set_params(threshold=object())
    with pytest.raises(TypeError, match=r"^a parameter of type object cannot be written to a model file"):
        model.save(saved)
    assert saved.read_bytes() == before
    assert [p.name for p in saved.parent.iterdir()] == [saved.name]


def test_a_disk_that_fills_while_saving_keeps_the_older_file_and_leaves_nothing(saved):
    """A limit on the size of files stands for the full disk; in a process of its own, as it cannot be lifted again."""
    pytest.importorskip("resource")
    before = saved.read_bytes()
    program = """
import resource, sys
import handful
model = handful.load(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))
try:
    model.save(sys.argv[1])
except OSError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-B", "-c", program, str(saved)], capture_output=True, text=True, check=True)
    assert "the model was not saved: File too large" in done.stdout
    assert saved.read_bytes() == before
    assert [p.name for p in saved.parent.iterdir()] == [saved.name]
