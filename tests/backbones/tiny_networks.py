"""ONNX files of small networks, for tests."""

import json
from pathlib import Path

import numpy as np
import pytest


def onnx_file(path: Path, shape=("n", 3, 8, 8), inputs=1, output="map", features=4, **beside) -> Path:
    """A network that gives 4 mixtures of the channels: as a map, averaged, or as several outputs."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    helper, value = onnx.helper, onnx.helper.make_tensor_value_info
    channels = next(n for n in (shape[1], shape[3]) if n in (1, 3))
    weight = np.arange(features * channels, dtype=np.float32).reshape(features, channels, 1, 1)
    nodes, x = [], "picture"
    if shape[1] != channels:
        nodes.append(helper.make_node("Transpose", [x], ["first"], perm=[0, 3, 1, 2]))
        x = "first"
    nodes.append(helper.make_node("Conv", [x, "w"], ["map"]))
    nodes.append(helper.make_node("GlobalAveragePool", ["map"], ["pool"]))
    nodes.append(helper.make_node("Flatten", ["pool"], ["flat"]))
    nodes.append(helper.make_node("Identity", ["w"], ["kernel"]))
    ranks = {"map": 4, "flat": 2, "kernel": 4}
    names = output.split("+")
    graph = helper.make_graph(
        nodes,
        "tiny",
        [value("picture" if i == 0 else f"other{i}", onnx.TensorProto.FLOAT, list(shape)) for i in range(inputs)],
        [value(name, onnx.TensorProto.FLOAT, [None] * ranks[name]) for name in names],
        [onnx.numpy_helper.from_array(weight, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(path))
    if beside:
        path.with_suffix(".json").write_text(json.dumps(beside))
    return path
