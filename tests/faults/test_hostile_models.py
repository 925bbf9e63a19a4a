"""Models and bases of strangers: whatever is wrong with one is said in a sentence, before it labels anything."""

import json
import re

import numpy as np
import pytest
from bases import base_for
from safetensors import safe_open
from safetensors.numpy import save, save_file

import handful
from handful.core.base import read_base
from handful.methods.registry import METHODS
from handful.solving import get_solver

DIMENSION = 4
RNG = np.random.default_rng(0)
X = RNG.normal(size=(20, DIMENSION)).astype(np.float32)
Y = ["a", "a", "b", "b"] + [None] * 16
NEW = X[:5] + np.float32(0.1)
DEEP = "[" * 100_000


def contents(path, key="handful"):
    with safe_open(path, framework="np") as file:
        return json.loads(file.metadata()[key]), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


@pytest.fixture(scope="module")
def kdo(sandbox):
    """A model as (header, arrays), and a table for it to label."""
    rows = [",".join(map(str, row)) for row in NEW.tolist()]
    (sandbox.folder / "new.csv").write_text("\n".join(["x,y,z,w", *rows]))
    path = handful.KDO().fit(X, Y).save(sandbox.folder / "whole.safetensors")
    done = sandbox.run("predict", path, "new.csv")
    assert done.code == 0, done.stderr
    return contents(path)


HEADERS = {
    **{f"{name} is {what}": {name: entry} for name, wrong in {
        "format": {"a text": "1", "nothing": None, "yes": True, "a list": [1], "negative": -1, "a fraction": 1.5},
        "method": {"a number": 7, "a list": ["kdo"], "unknown": "nope", "a path": "../kdo", "a megabyte": "x" * 10**6,
                   "another": "eol", "a pair of nothing": "+", "nothing": None},
        "parameters": {"a list": [], "a text": "x", "nothing": None, "strange": {"nope": 1},
                       "of a wrong type": {"passes": "many"}, "endless": {"passes": 1e9},
                       "a share": {"outlier_share": 7},
                       "a file": {"base": "/etc/passwd"}, "a mean": {"base_mean": "x"},
                       "code": {"preparation": "__import__('os')"}, "a dtype": {"dtype": "object"}},
        "used": {"a list": [], "nothing": None, "strange": {"nope": 1}, "of a wrong type": {"passes": None}},
        "classes": {"a text": "ab", "a number": 2, "nothing": None, "empty": [], "mixed": ["a", 1], "twice": ["a", "a"],
                    "in no order": ["b", "a"], "lists": [["a"], ["b"]], "yes and no": [False, True],
                    "too many": ["a", "b", "c"], "too few": ["a"], "objects": [{}, {}]},
        "threshold": {"a text": "0.5", "nothing": None, "no number": float("nan"), "a list": [0.5],
                      "below everything": float("-inf")},
        "outlier_share": {"a text": "auto", "no number": float("nan"), "above 1": 7, "nothing": None, "a list": [0.1]},
        "outlier_share_interval": {"a number": 0.5, "three": [0, 0.5, 1], "exchanged": [0.9, 0.1], "texts": ["a", "b"],
                                   "no numbers": [float("nan"), 1]},
        "n_iter": {"a text": "11", "negative": -1, "nothing": None, "a fraction": 0.5},
        "n_features": {"a text": "4", "zero": 0, "others": 5, "a trillion": 10**12, "nothing": None, "yes": True},
        "feature_names": {"a text": "abcd", "numbers": [1, 2, 3, 4], "too few": ["a"], "nothing": None},
        "made_from": {"a list": [], "a text": "x", "with a backbone of a list": {"backbone": ["x"]},
                      "with options of a text": {"backbone": "x", "backbone_options": "y"},
                      "with a strange option": {"backbone": "x", "backbone_options": {"command": "ls"}}},
        "base": {"a text": "x", "a list": [], "of a wrong type": {"name": 7}, "without arrays": {}},
        "tensors": {"a text": "x", "nothing": None, "numbers": [1], "missing": ["state.nope"], "lists": [["x"]]},
    }.items() for what, entry in wrong.items()},
}  # fmt: skip


def refused(sandbox, tmp_path, about, arrays):
    path = tmp_path / "model.safetensors"
    save_file(arrays, path, metadata={"handful": about if isinstance(about, str) else json.dumps(about)})
    message = sandbox.refuses("predict", path, "new.csv")
    assert "model.safetensors" in message
    assert message.count("\n") == 1, message
    return message


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_of_wrong_types_or_values_is_refused(sandbox, tmp_path, kdo, name):
    about, arrays = kdo
    refused(sandbox, tmp_path, about | HEADERS[name], arrays)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "7", "null", '"x"', DEEP, '{"a": ' * 50_000], ids=lambda t: t[:9] or "-"
)
def test_a_header_that_is_no_object_is_refused(sandbox, tmp_path, kdo, text):
    refused(sandbox, tmp_path, text, kdo[1])


@pytest.mark.parametrize("entry", ["format", "method", "parameters", "used", "classes", "threshold", "outlier_share",
                                   "n_iter", "n_features", "feature_names", "tensors"])  # fmt: skip
def test_a_header_without_an_entry_is_refused(sandbox, tmp_path, kdo, entry):
    about, arrays = kdo
    message = refused(sandbox, tmp_path, {k: v for k, v in about.items() if k != entry}, arrays)
    assert f"incomplete: '{entry}' is missing" in message


CHANGES = {
    "gone": None,
    "NaN": lambda a: np.full_like(a, np.nan, dtype=np.float32),
    "infinite": lambda a: np.full_like(a, np.inf, dtype=np.float32),
    "texts' bytes": lambda a: a.astype(np.uint8),
    "one axis more": lambda a: a[None],
    "one axis": lambda a: a.ravel(),
    "twice as long": lambda a: np.concatenate([a, a], axis=-1),
    "twice as wide": lambda a: np.concatenate([a, a], axis=0),
    "empty": lambda a: a[..., :0],
    "a number": lambda a: a.ravel()[:1].reshape(()),
}


@pytest.mark.parametrize("change", CHANGES)
def test_arrays_that_do_not_fit_are_refused(sandbox, tmp_path, kdo, change):
    """Each array of the model in turn."""
    about, arrays = kdo
    for name, array in arrays.items():
        if array.size == 0:
            continue
        others = {k: np.array(v, order="C") for k, v in arrays.items() if k != name}
        if CHANGES[change] is not None:
            made = np.array(CHANGES[change](array), order="C")
            if made.dtype == array.dtype and made.shape == array.shape and np.array_equal(made, array):
                continue
            others[name] = made
        refused(sandbox, tmp_path, about, others)


def test_arrays_that_no_method_knows_and_steps_that_do_not_exist_are_refused(sandbox, tmp_path, kdo):
    about, arrays = kdo
    step = arrays["state.prepare.0.signed"]
    for more in (
        {"state.nope": step}, {"state.prepare.4.nope": step}, {"state.prepare.9.l2": step[:, 0, :0]},
        {"state.prepare.x.l2": step}, {f"state.{'x' * 10**5}": step}, {"state.prepare.4.qr": np.zeros((1, 5, 5), "f4")},
    ):  # fmt: skip
        refused(sandbox, tmp_path, about | {"tensors": [*about["tensors"]]}, arrays | more)


@pytest.mark.parametrize("kind", [np.float16, np.int64, np.complex64, np.uint8], ids=lambda k: k.__name__)
def test_decisions_of_another_type_are_refused(sandbox, tmp_path, kdo, kind):
    about, arrays = kdo
    refused(sandbox, tmp_path, about, arrays | {"learned.unknown_": arrays["learned.unknown_"].astype(kind)})


@pytest.mark.parametrize("row", [[2, -1], [0.2, 0.2], [np.nan, 1], [np.inf, 0]])
def test_probabilities_that_are_none_are_refused(sandbox, tmp_path, kdo, row):
    about, arrays = kdo
    wrong = arrays["learned.label_distributions_"].copy()
    wrong[3] = row
    assert "not probabilities" in refused(sandbox, tmp_path, about, arrays | {"learned.label_distributions_": wrong})


def test_a_file_that_is_damaged_anywhere_is_refused_or_answers_with_probabilities(tmp_path):
    """Each byte of the header, and some of the numbers, in three ways."""
    path = handful.KNN().fit(X, Y).save(tmp_path / "model.safetensors")
    whole = path.read_bytes()
    refused = 0
    for at in [*range(0, len(whole), 3)]:
        for byte in {0, 0x39, whole[at] ^ 0x40}:
            path.write_bytes(whole[:at] + bytes([byte]) + whole[at + 1 :])
            try:
                model = handful.load(path)
            except ValueError as error:
                refused += len(str(error)) < 1000
                continue
            if model.n_features_in_ == DIMENSION:
                with np.errstate(all="ignore"):  # a support of 1e38 is possible
                    assert np.isfinite(model.predict_proba(NEW)).all()
    assert refused > len(whole) // 3


@pytest.mark.parametrize("method", [*sorted(METHODS), "simpleshot+knn", "eol+entropy"])
def test_every_method_declares_the_arrays_that_its_models_have(tmp_path, method):
    """A model of each method is loaded, and refused with any one of its arrays turned into one of another shape."""
    first = get_solver(method.split("+")[0])
    if first.info.extra == "ood":
        pytest.importorskip("pyod")
    needed = {"base": base_for(DIMENSION)} if first.info.needs == "base" else {}
    path = handful.make_estimator(method, **needed).fit(X, Y).save(tmp_path / "model.safetensors")
    about, arrays = contents(path)
    assert np.isfinite(handful.load(path).score_samples(NEW)).all()
    for name in [name for name in arrays if name.startswith("state.")]:
        for wrong in (None, arrays[name][0], np.concatenate([arrays[name]] * 2)):
            others = {k: v for k, v in arrays.items() if k != name} | ({} if wrong is None else {name: wrong})
            save_file({k: np.array(v, order="C") for k, v in others.items()}, path, {"handful": json.dumps(about)})
            with pytest.raises(ValueError, match=re.escape(str(path))):
                handful.load(path)


# ---- bases

BASES = {
    "no JSON": "{", "a list": "[]", "deep": DEEP, "a number": "7",
    **{f"{name} is {what}": {name: entry} for name, wrong in {
        "format": {"a text": "1", "nothing": None, "yes": True, "a list": [1], "of the future": 99},
        "about": {"a list": [], "a text": "x", "nothing": None, "with a name of a number": {"name": 7},
                  "with classes of a text": {"classes": "three"}},
        "arrays": {"a text": "mean", "nothing": None, "numbers": [1], "missing": ["nope"]},
    }.items() for what, entry in wrong.items()},
}  # fmt: skip


@pytest.mark.parametrize("name", BASES)
def test_a_hostile_base_is_refused(tmp_path, name):
    path = base_for(DIMENSION).save(tmp_path / "base.safetensors")
    about, arrays = contents(path, "handful.base")
    header = BASES[name]
    path.write_bytes(save(arrays, {"handful.base": header if isinstance(header, str) else json.dumps(about | header)}))
    with pytest.raises(ValueError, match=r"base\.safetensors") as refusal:
        read_base(path)
    assert len(str(refusal.value)) < 1000


@pytest.mark.parametrize("change", [name for name in CHANGES if name != "texts' bytes"])
def test_arrays_of_a_base_that_do_not_fit_are_refused(tmp_path, change):
    path = base_for(DIMENSION).save(tmp_path / "base.safetensors")
    about, arrays = contents(path, "handful.base")
    for name, array in arrays.items():
        if name in ("negatives", "head/frob/offsets") and change == "twice as wide":  # as many as one likes
            continue
        others = {k: v for k, v in arrays.items() if k != name}
        if CHANGES[change] is not None:
            made = CHANGES[change](array)
            if np.array_equal(np.atleast_1d(made), array):
                continue
            others[name] = np.array(made, order="C")
        path.write_bytes(save(others, {"handful.base": json.dumps(about)}))
        with pytest.raises(ValueError, match=r"base\.safetensors"):
            read_base(path)


@pytest.mark.parametrize("name", ["head/", "head//", "head/feat", "head/feat/", "head//gain"])
def test_arrays_of_a_base_with_strange_names_are_refused(tmp_path, name):
    path = base_for(DIMENSION).save(tmp_path / "base.safetensors")
    about, arrays = contents(path, "handful.base")
    path.write_bytes(save(arrays | {name: np.zeros(4, np.float32)}, {"handful.base": json.dumps(about)}))
    with pytest.raises(ValueError, match="head/NAME/ARRAY"):
        read_base(path)
