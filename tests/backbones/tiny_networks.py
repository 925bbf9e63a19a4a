"""ONNX files of small networks, for tests."""

import json
from pathlib import Path

import numpy as np
import pytest


def onnx_file(path: Path, shape=("n", 3, 8, 8), inputs=1, output="map", features=4, **beside) -> Path:
    """A network that gives 4 mixtures of the channels: as a map, averaged, or as several outputs."""
    onnx, _ = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    node, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    channels = next(n for n in (shape[1], shape[3]) if n in (1, 3))
    weight = np.arange(features * channels, dtype=np.float32).reshape(features, channels, 1, 1)
    turned = [node("Transpose", ["picture"], ["first"], perm=[0, 3, 1, 2])] if shape[1] != channels else []
    nodes = [
        *turned,
        node("Conv", ["first" if turned else "picture", "w"], ["map"]),
        node("ReduceMean", ["map"], ["flat"], axes=[2, 3], keepdims=0),
        node("Identity", ["w"], ["kernel"]),
    ]
    ranks = {"map": 4, "flat": 2, "kernel": 4}
    names = [("picture", *(f"other{i}" for i in range(1, inputs))), output.split("+")]
    ins = [value(name, onnx.TensorProto.FLOAT, list(shape)) for name in names[0]]
    outs = [value(name, onnx.TensorProto.FLOAT, [None] * ranks[name]) for name in names[1]]
    graph = onnx.helper.make_graph(nodes, "tiny", ins, outs, [onnx.numpy_helper.from_array(weight, "w")])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), str(path))
    if beside:
        path.with_suffix(".json").write_text(json.dumps(beside))
    return path
