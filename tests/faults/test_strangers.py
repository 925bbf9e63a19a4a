"""Networks of strangers: nothing outside their folder is read, and each fault is a sentence."""

import os

import numpy as np
import pytest
from strangers import OPSET, POOL, N, T, constant, graph_of, onnx, save, value

from handful.backbones import load_backbone

pytest.importorskip("onnxruntime")


def outside(place, **entries):
    """A tensor w that says it is in another file."""
    weights = T(name="w", data_type=T.FLOAT, dims=[3], data_location=T.EXTERNAL)
    for key, text in {"location": place, **entries}.items():
        weights.external_data.add(key=key, value=text)
    return weights


def changed(path, change):
    model = onnx.load_from_string(path.read_bytes())
    change(model)
    path.write_bytes(model.SerializeToString())


W = [*POOL, N("Add", ["flat", "w"], ["y"])]
SAME = [*POOL, N("Identity", ["flat"], ["y"])]
RANGE = [  # whether the picture has more than one colour; the black one that a network is tried on has not
    N("ReduceMax", ["x"], ["most"], keepdims=0),
    N("ReduceMin", ["x"], ["least"], keepdims=0),
    N("Greater", ["most", "least"], ["varied"]),
]
BRANCHES = {
    "then_branch": graph_of([N("Unsqueeze", ["flat", "axis"], ["a"])], "a", [], [value("a", T.FLOAT, None)]),
    "else_branch": graph_of([N("Identity", ["flat"], ["b"])], "b", [], [value("b", T.FLOAT, None)]),
}
FILES = {  # by the fault: nodes, constants, options of `save`, a word of the sentence
    "weights above its folder": (W, [outside("../secret")], {}, "not a file in its folder"),
    "weights behind a link": (W, [outside("link.bin")], {}, "not a file in its folder"),
    "weights in a pipe": (W, [outside("pipe.bin")], {}, "not a file in its folder"),
    "weights of a node anywhere": (
        [*POOL, N("Constant", [], ["w"], value=outside("/etc/passwd")), N("Add", ["flat", "w"], ["y"])], [], {},
        "not a file in its folder",
    ),
    "weights of a function anywhere": (
        SAME, [], {"functions": [onnx.helper.make_function(
            "own", "G", [], ["w"], [N("Constant", [], ["w"], value=outside("/etc/passwd"))], [OPSET])],
            "domains": ["own"]},
        "not a file in its folder",
    ),
    "a custom operation": ([*POOL, N("Run", ["flat"], ["y"], domain="evil.ops")], [], {"domains": ["evil.ops"]}, "Run"),
    "texts": ([*POOL, N("Cast", ["flat"], ["y"], to=T.STRING)], [], {"kind": T.STRING}, "numbers are needed"),
    "another rank with pictures": (
        [*POOL, *RANGE, N("If", ["varied"], ["y"], **BRANCHES)], [constant("axis", [2])], {"shape": None}, "of shape",
    ),
}  # fmt: skip


def test_faults_of_networks_are_sentences_and_nothing_outside_is_read(tmp_path):
    folder = tmp_path / "models"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(bytes(12))
    (folder / "link.bin").symlink_to("/etc/passwd")
    os.mkfifo(folder / "pipe.bin")
    batch = np.random.default_rng(0).normal(size=(3, 3, 8, 8)).astype(np.float32)
    for nodes, constants, options, words in FILES.values():
        path = save(folder / "model.onnx", nodes, constants, **options)
        with pytest.raises(ValueError, match=words) as refusal:
            load_backbone(path).embed(batch)
        assert str(path) in str(refusal.value)
        assert str(refusal.value).count("\n") == 0
        assert len(str(refusal.value)) < 500 + len(str(path))


def test_damaged_files_are_sentences(tmp_path):
    path = save(tmp_path / "model.onnx", SAME)
    whole = path.read_bytes()
    for content in (b"", whole[: len(whole) // 2], b"\x08\x08" + bytes(range(256)) * 40):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="cannot be read as an ONNX network"):
            load_backbone(path)
    path.write_bytes(whole)
    changed(path, lambda model: setattr(model.opset_import[0], "version", 10**6))
    with pytest.raises(ValueError, match="cannot be read as an ONNX network"):
        load_backbone(path)


def test_a_network_behind_a_link_is_read(tmp_path):
    """As a downloaded model is, whose files lie in another folder."""
    (tmp_path / "blobs").mkdir()
    path = save(tmp_path / "blobs" / "x.onnx", SAME)
    (tmp_path / "model.onnx").symlink_to(path)
    backbone = load_backbone(tmp_path / "model.onnx", size=8, mean=0.5, std=0.5)
    batch = np.random.default_rng(0).normal(size=(5, 3, 8, 8)).astype(np.float32)
    np.testing.assert_allclose(backbone.embed(batch), batch.mean(axis=(2, 3)), rtol=1e-5, atol=1e-6)
