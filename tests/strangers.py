"""ONNX networks as strangers may write them, made of a few nodes each."""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
T, make_function = onnx.TensorProto, onnx.helper.make_function
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


def slow_nodes(side, steps):
    """z [side, side] after so many products of matrices, each of 2 side^3 operations. `side` is a name."""
    nodes = [N("Concat", [side, side], ["square"], axis=0), N("Expand", ["zero", "square"], ["z0"])]
    nodes += [N("MatMul", [f"z{i}", f"z{i}"], [f"z{i + 1}"]) for i in range(steps)]
    return [*nodes, N("Identity", [f"z{steps}"], ["z"])]


def save_slow(path, side=4000, steps=200) -> Path:
    return save(path, [*POOL, *slow_nodes("side", steps), *ADDED], [ZERO, constant("side", [side])])


def save_slow_on_white(path, side=7000, steps=50) -> Path:
    """Quick on dark pictures; if there is a white one in the batch, it takes minutes."""
    nodes = [
        N("ReduceMax", ["flat"], ["brightest"], keepdims=0),
        N("Greater", ["brightest", "bright"], ["white"]),
        N("Where", ["white", "side", "one"], ["chosen"]),
    ]
    constants = [ZERO, constant("bright", 0.95, np.float32), constant("side", [side]), constant("one", [1])]
    return save(path, [*POOL, *nodes, *slow_nodes("chosen", steps), *ADDED], constants)


# ---- attacks: each writes a file and gives its path


def endless_loop(path):
    body = _loop_body([N("Identity", ["carried"], ["next"])])
    return save(path, [*POOL, N("Loop", ["times", "true", "flat"], ["y"], body=body)], LOOP_CONSTANTS)


def loops_in_loops(path):
    inner = N(
        "Loop", ["times", "true", "carried"], ["next"], body=_loop_body([N("Identity", ["carried"], ["next"])], "i")
    )
    return save(path, [*POOL, N("Loop", ["times", "true", "flat"], ["y"], body=_loop_body([inner]))], LOOP_CONSTANTS)


def a_loop_in_a_branch(path):
    loop = N("Loop", ["times", "true", "flat"], ["out"], body=_loop_body([N("Identity", ["carried"], ["next"])]))
    branch = graph_of([loop], "branch", [], [value("out", T.FLOAT, None)])
    other = graph_of([N("Identity", ["flat"], ["out2"])], "other", [], [value("out2", T.FLOAT, None)])
    return save(path, [*POOL, N("If", ["true"], ["y"], then_branch=branch, else_branch=other)], LOOP_CONSTANTS)


def a_loop_in_a_function(path):
    loop = N("Loop", ["a", "b", "c"], ["out"], body=_loop_body([N("Identity", ["carried"], ["next"])]))
    function = make_function("own", "Harmless", ["a", "b", "c"], ["out"], [loop], [OPSET])
    nodes = [*POOL, N("Harmless", ["times", "true", "flat"], ["y"], domain="own")]
    return save(path, nodes, LOOP_CONSTANTS, domains=["own"], functions=[function])


def an_endless_scan(path):
    body = graph_of(
        [N("Identity", ["state"], ["next"]), N("Identity", ["part"], ["row"])], "body",
        [value("state", T.FLOAT, None), value("part", T.FLOAT, None)],
        [value("next", T.FLOAT, None), value("row", T.FLOAT, None)],
    )  # fmt: skip
    nodes = [N("Scan", ["flat", "z"], ["y", "rows"], body=body, num_scan_inputs=1)]
    size = constant("size", [10**11])
    return save(path, [*POOL, N("ConstantOfShape", ["size"], ["z"]), *nodes], [size])


def _loop_body(nodes, mark=""):
    inputs = [value(f"i{mark}", T.INT64, []), value(f"go{mark}", T.BOOL, []), value("carried", T.FLOAT, None)]
    outputs = [value(f"on{mark}", T.BOOL, []), value("next", T.FLOAT, None)]
    return graph_of([N("Identity", [f"go{mark}"], [f"on{mark}"]), *nodes], "body", inputs, outputs)


LOOP_CONSTANTS = [constant("times", 2**62), constant("true", True, bool)]


def a_constant_of_terabytes(path):
    size = constant("size", [10**6, 10**6])
    return save(path, [*POOL, N("ConstantOfShape", ["size"], ["z"]), *ADDED], [ZERO, size])


def a_constant_larger_than_numbers(path):
    size = constant("size", [2**40, 2**40])
    return save(path, [*POOL, N("ConstantOfShape", ["size"], ["z"]), *ADDED], [ZERO, size])


def an_expansion_to_terabytes(path):
    return save(path, [*POOL, N("Expand", ["zero", "size"], ["z"]), *ADDED], [ZERO, constant("size", [10**6, 10**6])])


def a_tile_of_terabytes(path):
    return save(path, [*POOL, N("Tile", ["flat", "size"], ["z"]), *ADDED], [ZERO, constant("size", [10**6, 10**6])])


def a_range_of_terabytes(path):
    nodes = [N("Range", ["from", "to", "step"], ["long"]), N("Cast", ["long"], ["z"], to=T.FLOAT)]
    ends = [constant("from", 0), constant("to", 10**12), constant("step", 1)]
    return save(path, [*POOL, *nodes, *ADDED], [ZERO, *ends])


def padding_of_terabytes(path):
    pads = constant("pads", [0, 0, 10**6, 10**6])
    return save(path, [*POOL, N("Pad", ["flat", "pads"], ["z"]), *ADDED], [ZERO, pads])


def enlarging_to_terabytes(path):
    sizes = constant("sizes", [1, 3, 10**6, 10**6])
    return save(path, [*POOL, N("Resize", ["x", "", "", "sizes"], ["z"]), *ADDED], [ZERO, sizes])


def one_hot_of_terabytes(path):
    nodes = [
        N("Cast", ["flat"], ["whole"], to=T.INT64),
        N("OneHot", ["whole", "depth", "values"], ["z"]),
    ]
    constants = [ZERO, constant("depth", 10**12), constant("values", [0, 1], np.float32)]
    return save(path, [*POOL, *nodes, *ADDED], constants)


def terabytes_only_with_pictures(path):
    """Nothing on the black picture that a network is tried on."""
    nodes = [
        N("ReduceSum", ["x"], ["ink"], keepdims=0),
        N("Abs", ["ink"], ["much"]),
        N("Mul", ["much", "huge"], ["size1"]),
        N("Cast", ["size1"], ["size2"], to=T.INT64),
        N("Concat", ["one", "side"], ["size"], axis=0),
        N("Unsqueeze", ["size2", "axis"], ["side"]),
        N("Expand", ["zero", "size"], ["z"]),
    ]
    nodes[4], nodes[5] = nodes[5], nodes[4]
    constants = [ZERO, constant("huge", 1e12, np.float32), constant("one", [1]), constant("axis", [0])]
    return save(path, [*POOL, *nodes, *ADDED], constants)


def hours_of_products_when_opened(path):
    """They do not depend on the picture: an optimiser would do them at once."""
    return save_slow(path)


def hours_of_products_when_run(path):
    nodes = [N("ReduceSum", ["x"], ["ink"], keepdims=0), *slow_nodes("side", 200)]
    nodes[2] = N("Expand", ["ink", "square"], ["z0"])
    return save(path, [*POOL, *nodes, *ADDED], [ZERO, constant("side", [4000])])


def hours_only_with_pictures(path):
    nodes = [
        N("ReduceMax", ["x"], ["brightest"], keepdims=0),
        N("ReduceMin", ["x"], ["darkest"], keepdims=0),
        N("Greater", ["brightest", "darkest"], ["shown"]),
        N("Where", ["shown", "side", "one"], ["chosen"]),
        *slow_nodes("chosen", 200),
    ]
    return save(path, [*POOL, *nodes, *ADDED], [ZERO, constant("side", [4000]), constant("one", [1])])


def functions_of_functions(path):
    """Thirty of them, each calls the next twice: a billion operations from a file of two kilobytes."""
    opsets = [OPSET, onnx.helper.make_opsetid("own", 1)]
    functions = [make_function("own", "F30", ["a"], ["c"], [N("Relu", ["a"], ["c"])], opsets)]
    for i in range(30):
        twice = [N(f"F{i + 1}", ["a"], ["b"], domain="own"), N(f"F{i + 1}", ["b"], ["c"], domain="own")]
        functions.append(make_function("own", f"F{i}", ["a"], ["c"], twice, opsets))
    return save(path, [*POOL, N("F0", ["flat"], ["y"], domain="own")], domains=["own"], functions=functions)


def a_function_that_calls_itself(path):
    opsets = [OPSET, onnx.helper.make_opsetid("own", 1)]
    function = make_function("own", "F", ["a"], ["b"], [N("F", ["a"], ["b"], domain="own")], opsets)
    return save(path, [*POOL, N("F", ["flat"], ["y"], domain="own")], domains=["own"], functions=[function])


def a_custom_operation(path):
    return save(path, [*POOL, N("Run", ["flat"], ["y"], domain="evil.ops")], domains=["evil.ops"])


def an_operation_with_a_long_name(path):
    return save(path, [*POOL, N("A" * 10**6, ["flat"], ["y"])])


def an_output_with_a_long_name(path):
    made = save(path, [*POOL, N("Cast", ["flat"], ["y" * 10**5], to=T.STRING)], kind=T.STRING)
    model = onnx.load_from_string(made.read_bytes())
    model.graph.output[0].name = "y" * 10**5
    path.write_bytes(model.SerializeToString())
    return path


def a_hundred_thousand_operations(path):
    names = ["flat", *(f"n{i}" for i in range(10**5 - 1)), "y"]
    return save(path, [*POOL, *(N("Relu", [a], [b]) for a, b in pairwise(names))])


def a_hundred_thousand_constants(path):
    constants = [T(name=f"c{i}", data_type=T.FLOAT, dims=[1], float_data=[1.0]) for i in range(10**5)]
    return save(path, [*POOL, N("Identity", ["flat"], ["y"])], constants)


def branches_in_branches(path):
    """As deep as protobuf reads them."""
    inner = graph_of([N("Identity", ["flat"], ["last"])], "g", [], [value("last", T.FLOAT, None)])
    for i in range(28):
        other = graph_of([N("Identity", ["flat"], [f"other{i}"])], "h", [], [value(f"other{i}", T.FLOAT, None)])
        node = N("If", ["true"], [f"out{i}"], then_branch=inner, else_branch=other)
        inner = graph_of([node, *(N("Relu", ["flat"], [f"r{i}x{k}"]) for k in range(3000))], "g", [],
                         [value(f"out{i}", T.FLOAT, None)])  # fmt: skip
    top = inner.node[0]
    top.output[0] = "y"
    return save(path, [*POOL, top], [constant("true", True, bool)])


def texts(path):
    return save(path, [*POOL, N("Cast", ["flat"], ["y"], to=T.STRING)], kind=T.STRING)


def a_sequence(path):
    made = save(path, [*POOL, N("SequenceConstruct", ["flat"], ["y"])])
    model = onnx.load_from_string(made.read_bytes())
    kind = onnx.helper.make_tensor_type_proto(T.FLOAT, ["n", 3])
    model.graph.output[0].CopyFrom(onnx.helper.make_value_info("y", onnx.helper.make_sequence_type_proto(kind)))
    path.write_bytes(model.SerializeToString())
    return path


def a_single_number(path):
    return save(path, [N("ReduceSum", ["x"], ["y"], keepdims=0)], shape=())


def five_axes(path):
    return save(path, [N("Unsqueeze", ["x", "axis"], ["y"])], [constant("axis", [4])], shape=("n", 3, 8, 8, 1))


def no_features(path):
    ends = [constant(name, [n]) for name, n in (("from", 0), ("to", 0), ("axis", 1))]
    return save(path, [*POOL, N("Slice", ["flat", "from", "to", "axis"], ["y"])], ends, shape=("n", 0))


def one_row_for_all(path):
    return save(path, [*POOL, N("ReduceMean", ["flat"], ["y"], axes=[0])], shape=(1, 3))


def no_numbers(path):
    return save(path, [*POOL, N("Sub", ["flat", "flat"], ["z"]), N("Div", ["z", "z"], ["y"])])


def infinite_numbers(path):
    return save(path, [*POOL, N("Abs", ["flat"], ["z"]), N("Add", ["z", "one"], ["p"]), N("Div", ["p", "zero"], ["y"])],
                [ZERO, constant("one", 1, np.float32)])  # fmt: skip


def more_features_with_pictures(path):
    nodes = [
        N("ReduceMax", ["x"], ["most"], keepdims=0),
        N("ReduceMin", ["x"], ["least"], keepdims=0),
        N("Greater", ["most", "least"], ["shown"]),
        N("Where", ["shown", "three", "one"], ["times"]),
        N("Tile", ["flat", "times"], ["y"]),
    ]
    return save(path, [*POOL, *nodes], [constant("three", [1, 3]), constant("one", [1, 1])], shape=("n", None))


def another_rank_with_pictures(path):
    nodes = [
        N("ReduceMax", ["x"], ["most"], keepdims=0),
        N("ReduceMin", ["x"], ["least"], keepdims=0),
        N("Greater", ["most", "least"], ["shown"]),
        N("If", ["shown"], ["y"],
          then_branch=graph_of([N("Unsqueeze", ["flat", "axis"], ["a"])], "a", [], [value("a", T.FLOAT, None)]),
          else_branch=graph_of([N("Identity", ["flat"], ["b"])], "b", [], [value("b", T.FLOAT, None)])),
    ]  # fmt: skip
    return save(path, [*POOL, *nodes], [constant("axis", [2])], shape=None)


def it_fails_with_pictures(path):
    nodes = [
        N("ReduceMax", ["x"], ["most"], keepdims=0),
        N("ReduceMin", ["x"], ["least"], keepdims=0),
        N("Sub", ["most", "least"], ["range"]),
        N("Sign", ["range"], ["sign"]),
        N("Cast", ["sign"], ["row"], to=T.INT64),
        N("Gather", ["only", "row"], ["z"]),
        N("Add", ["flat", "z"], ["y"]),
    ]
    return save(path, [*POOL, *nodes], [constant("only", [1], np.float32)])


def _outside(path, place, **entries):
    weights = T(name="w", data_type=T.FLOAT, dims=[3], data_location=T.EXTERNAL)
    for key, text in {"location": place, **entries}.items():
        weights.external_data.add(key=key, value=text)
    return weights


def weights_above_its_folder(path):
    (path.parent.parent / "secret").write_bytes(bytes(12))
    return save(path, [*POOL, N("Add", ["flat", "w"], ["y"])], [_outside(path, "../secret")])


def weights_anywhere(path):
    return save(path, [*POOL, N("Add", ["flat", "w"], ["y"])], [_outside(path, "/etc/passwd")])


def weights_of_a_device(path):
    return save(path, [*POOL, N("Add", ["flat", "w"], ["y"])], [_outside(path, "/dev/zero")])


def weights_behind_a_link(path):
    link = path.with_name("weights.bin")
    link.unlink(missing_ok=True)
    link.symlink_to("/etc/passwd")
    return save(path, [*POOL, N("Add", ["flat", "w"], ["y"])], [_outside(path, "weights.bin")])


def weights_in_a_pipe(path):
    import os

    pipe = path.with_name("weights.pipe")
    if not pipe.exists():
        os.mkfifo(pipe)
    return save(path, [*POOL, N("Add", ["flat", "w"], ["y"])], [_outside(path, "weights.pipe")])


def weights_of_a_node_anywhere(path):
    node = N("Constant", [], ["w"], value=_outside(path, "/etc/passwd"))
    return save(path, [*POOL, node, N("Add", ["flat", "w"], ["y"])])


def weights_beyond_the_end_of_their_file(path):
    path.with_name("short.bin").write_bytes(bytes(12))
    weights = _outside(path, "short.bin", offset="1000000000000", length="12")
    return save(path, [*POOL, N("Add", ["flat", "w"], ["y"])], [weights])


def weights_with_no_name(path):
    return save(path, [*POOL, N("Add", ["flat", "w"], ["y"])], [_outside(path, "\0")])


def weights_smaller_than_they_say(path):
    weights = T(name="w", data_type=T.FLOAT, dims=[10**12, 3], raw_data=bytes(12))
    return save(path, [*POOL, N("ReduceSum", ["w"], ["z"]), N("Add", ["flat", "z"], ["y"])], [weights])


def half_a_file(path):
    whole = save_slow(path).read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    return path


def another_file(path):
    path.write_bytes(b"\x08\x08" + bytes(range(256)) * 40)
    return path


def an_empty_file(path):
    path.write_bytes(b"")
    return path


def an_operation_of_the_future(path):
    made = save(path, [*POOL, N("Identity", ["flat"], ["y"])])
    model = onnx.load_from_string(made.read_bytes())
    model.opset_import[0].version = 10**6
    path.write_bytes(model.SerializeToString())
    return path


ATTACKS = [
    endless_loop, loops_in_loops, a_loop_in_a_branch, a_loop_in_a_function, an_endless_scan, a_constant_of_terabytes,
    a_constant_larger_than_numbers, an_expansion_to_terabytes, a_tile_of_terabytes, a_range_of_terabytes,
    padding_of_terabytes, enlarging_to_terabytes, one_hot_of_terabytes, terabytes_only_with_pictures,
    functions_of_functions, a_function_that_calls_itself, a_custom_operation, an_operation_with_a_long_name,
    an_output_with_a_long_name, a_hundred_thousand_operations, a_hundred_thousand_constants, branches_in_branches,
    texts, a_sequence, a_single_number, five_axes, no_features, one_row_for_all, no_numbers, infinite_numbers,
    more_features_with_pictures, another_rank_with_pictures, it_fails_with_pictures, weights_above_its_folder,
    weights_anywhere, weights_of_a_device, weights_behind_a_link, weights_in_a_pipe, weights_of_a_node_anywhere,
    weights_beyond_the_end_of_their_file, weights_with_no_name, weights_smaller_than_they_say, half_a_file,
    another_file, an_empty_file, an_operation_of_the_future,
]  # fmt: skip
ENDLESS = [hours_of_products_when_opened, hours_of_products_when_run, hours_only_with_pictures]
