"""ONNX networks as strangers may write them, made of a few nodes each."""

import json
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
T = onnx.TensorProto
N, value, graph_of = onnx.helper.make_node, onnx.helper.make_tensor_value_info, onnx.helper.make_graph
OPSET = onnx.helper.make_opsetid("", 17)
POOL = [N("GlobalAveragePool", ["x"], ["pool"]), N("Flatten", ["pool"], ["flat"])]  # the colours of a picture [n, 3]
NOTHING = [N("ReduceSum", ["z"], ["sum"], keepdims=0), N("Mul", ["sum", "zero"], ["none"])]
ADDED = [*NOTHING, N("Add", ["flat", "none"], ["y"])]  # the colours, once z is there


def constant(name, array, dtype=np.int64):
    return onnx.numpy_helper.from_array(np.array(array, dtype), name)


ZERO = constant("zero", 0, np.float32)


def save(path, nodes, constants=(), *, kind=T.FLOAT, shape=("n", 3), domains=(), functions=()) -> Path:
    """A network from x [n, 3, 8, 8] to y, with what `handful` wants to know beside it."""
    inputs, outputs = [value("x", T.FLOAT, ["n", 3, 8, 8])], [value("y", kind, shape)]
    graph = graph_of(list(nodes), "stranger", inputs, outputs, list(constants))
    opsets = [OPSET, *(onnx.helper.make_opsetid(domain, 1) for domain in domains)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8, functions=list(functions))
    path.write_bytes(model.SerializeToString())
    path.with_suffix(".json").write_text(json.dumps({"size": 8, "mean": [0.5] * 3, "std": [0.5] * 3}))
    return path


def save_slow_on_white(path, side=7000, steps=50) -> Path:
    """Quick on dark pictures; if there is a white one in the batch, it takes minutes."""
    nodes = [
        N("ReduceMax", ["flat"], ["brightest"], keepdims=0),
        N("Greater", ["brightest", "bright"], ["white"]),
        N("Where", ["white", "side", "one"], ["chosen"]),
        N("Concat", ["chosen", "chosen"], ["square"], axis=0),
        N("Expand", ["zero", "square"], ["z0"]),
        *(N("MatMul", [f"z{i}", f"z{i}"], [f"z{i + 1}"]) for i in range(steps)),  # each of 2 side^3 operations
        N("Identity", [f"z{steps}"], ["z"]),
    ]
    constants = [ZERO, constant("bright", 0.95, np.float32), constant("side", [side]), constant("one", [1])]
    return save(path, [*POOL, *nodes, *ADDED], constants)
