"""Models and bases of strangers: whatever is wrong with one is said in a sentence, before it labels anything."""

import json
import re
from importlib.util import find_spec

import numpy as np
import pytest
from bases import base_for
from safetensors import safe_open
from safetensors.numpy import save, save_file

from handful import load, make_estimator
from handful.core.base import read_base
from handful.methods.registry import METHODS
from handful.solving import get_solver

DIMENSION = 4
RNG = np.random.default_rng(0)
X = RNG.normal(size=(20, DIMENSION)).astype(np.float32)
Y = ["a", "a", "b", "b"] + [None] * 16
NEW = X[:5] + np.float32(0.1)


def contents(path, key="handful"):
    with safe_open(path, framework="np") as file:
        return json.loads(file.metadata()[key]), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


@pytest.fixture(scope="module")
def kdo(tmp_path_factory):
    """A model as (header, arrays)."""
    path = make_estimator("kdo").fit(X, Y).save(tmp_path_factory.mktemp("model") / "whole.safetensors")
    assert np.isfinite(load(path).predict_proba(NEW)).all()
    return contents(path)


@pytest.fixture
def refused(tmp_path):
    """Load a model, and see that it is refused with a sentence that names its file."""
    path = tmp_path / "model.safetensors"

    def refuse(about, arrays, case):
        save_file(arrays, path, metadata={"handful": about if isinstance(about, str) else json.dumps(about)})
        with pytest.raises(ValueError, match=re.escape(str(path))) as refusal:
            load(path)
        message = str(refusal.value)
        assert "\n" not in message, (case, message)
        assert len(message) < 1000, case
        return message

    return refuse


NAN = float("nan")
HEADERS = {  # entries of the header, each with wrong values
    "format": ["1", None, -1],
    "method": [7, "nope", "../kdo", "eol", None],
    "parameters": [[], {"nope": 1}, {"passes": "many"}, {"outlier_share": 7}, {"base": "/etc/passwd"},
                   {"base_mean": "x"}, {"preparation": "__import__('os')"}],
    "used": [None, {"nope": 1}, {"passes": None}],
    "classes": ["ab", None, [], ["a", 1], ["a", "a"], ["b", "a"], [False, True], ["a"], [{}, {}]],
    "threshold": ["0.5", None, NAN, float("-inf")],
    "outlier_share": ["auto", NAN, 7],
    "outlier_share_interval": [0.5, [0.9, 0.1], [NAN, 1]],
    "n_iter": ["11", -1, 0.5],
    "n_features": ["4", 0, 5, 10**12],
    "feature_names": ["abcd", [1, 2, 3, 4], ["a"], None],
    "made_from": [[], {"backbone": ["x"]}, {"backbone": "x", "backbone_options": {"command": "ls"}}],
    "base": ["x", {"name": 7}, {}],
    "tensors": ["x", None, ["state.nope"]],
}  # fmt: skip


def test_a_header_of_wrong_types_or_values_is_refused(refused, kdo):
    about, arrays = kdo
    for name, values in HEADERS.items():
        for value in values:
            refused(about | {name: value}, arrays, f"{name} = {str(value)[:40]}")
    for text in ("", "{", "[]", "7"):
        refused(text, arrays, text)
    for entry in (
        *(name for name in HEADERS if name not in ("outlier_share_interval", "base", "made_from")),
        "handful",
    ):
        message = refused({k: v for k, v in about.items() if k != entry}, arrays, entry)
        assert f"incomplete: '{entry}' is missing" in message


def test_arrays_that_do_not_fit_are_refused(refused, kdo):
    """Each array of the model in turn; steps of preparation, decisions and probabilities that are none."""
    about, arrays = kdo
    for name, array in arrays.items():
        others = {k: np.array(v, order="C") for k, v in arrays.items() if k != name}
        refused(about, others, (name, "gone"))
        changes = [np.full_like(array, NAN, dtype=np.float32), array[None], np.concatenate([array, array], axis=-1)]
        for made in changes if array.size else ():
            refused(about, others | {name: np.array(made, order="C")}, (name, made.shape))
    step = arrays["state.prepare.0.signed"]
    for more in (
        {"state.prepare.4.nope": step}, {"state.prepare.x.l2": step}, {"state.prepare.4.qr": np.zeros((1, 5, 5), "f4")},
    ):  # fmt: skip
        refused(about, arrays | more, next(iter(more))[:40])
    for row in ([2, -1], [0.2, 0.2]):
        wrong = arrays["learned.label_distributions_"].copy()
        wrong[3] = row
        assert "not probabilities" in refused(about, arrays | {"learned.label_distributions_": wrong}, row)


def test_a_file_that_is_damaged_anywhere_is_refused_or_answers_with_probabilities(tmp_path):
    """Bytes all over the file, of the header and of the numbers, in three ways."""
    path = make_estimator("knn").fit(X, Y).save(tmp_path / "model.safetensors")
    whole = path.read_bytes()
    refused = 0
    for at in range(0, len(whole), 41):
        for byte in {0, 0x39, whole[at] ^ 0x40}:
            path.write_bytes(whole[:at] + bytes([byte]) + whole[at + 1 :])
            try:
                model = load(path)
            except ValueError as error:
                refused += len(str(error)) < 1000
                continue
            if model.n_features_in_ == DIMENSION:
                with np.errstate(all="ignore"):  # a support of 1e38 is possible
                    assert np.isfinite(model.predict_proba(NEW)).all(), (at, byte)
    assert refused > len(whole) // 41


def test_every_method_declares_the_arrays_that_its_models_have(tmp_path):
    """A model of each method is loaded, and refused with any one of its arrays turned into one of another shape."""
    for method in (*sorted(METHODS), "simpleshot+knn", "eol+entropy"):
        first = get_solver(method.split("+")[0])
        if first.info.extra == "ood" and find_spec("pyod") is None:
            continue
        needed = {"base": base_for(DIMENSION)} if first.info.needs == "base" else {}
        path = make_estimator(method, **needed).fit(X, Y).save(tmp_path / "model.safetensors")
        about, arrays = contents(path)
        assert np.isfinite(load(path).score_samples(NEW)).all(), method
        for name in [name for name in arrays if name.startswith("state.")]:
            for wrong in (None, np.concatenate([arrays[name]] * 2)):
                others = {k: v for k, v in arrays.items() if k != name} | ({} if wrong is None else {name: wrong})
                save_file({k: np.array(v, order="C") for k, v in others.items()}, path, {"handful": json.dumps(about)})
                with pytest.raises(ValueError, match=re.escape(str(path))):
                    load(path)


# ---- bases


def test_a_hostile_base_is_refused(tmp_path):
    path = base_for(DIMENSION).save(tmp_path / "base.safetensors")
    about, arrays = contents(path, "handful.base")

    def refused(header, arrays):
        path.write_bytes(save(arrays, {"handful.base": header if isinstance(header, str) else json.dumps(header)}))
        with pytest.raises(ValueError, match=r"base\.safetensors") as refusal:
            read_base(path)
        assert len(str(refusal.value)) < 1000
        return str(refusal.value)

    for header in ("{", "[]", {"format": 99}, {"about": {"name": 7}}, {"about": []}, {"arrays": None}):
        refused(about | header if isinstance(header, dict) else header, arrays)
    for name, array in arrays.items():
        others = {k: v for k, v in arrays.items() if k != name}
        refused(about, others)
        refused(about, others | {name: np.full_like(array, np.nan, dtype=np.float32)})
        refused(about, others | {name: np.array(array[None], order="C")})
    for name in ("head/", "head/feat"):
        assert "head/NAME/ARRAY" in refused(about, arrays | {name: np.zeros(4, np.float32)})
