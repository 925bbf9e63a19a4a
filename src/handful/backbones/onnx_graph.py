"""Checks of an ONNX file before ONNX Runtime opens it: its operations, and the files that it names.

A network that turns pictures into features is a list of operations. A file from a stranger can also hold endless
loops, functions that call other functions thirty levels deep, custom operations (machine code), and names of files
anywhere on the disk.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from handful.backbones.folders import shown
from handful.utils.limits import check_bytes

MAX_NODES = 50_000  # operations; those of a function count for each call. A ViT-g has some thousands
MAX_TENSORS = 50_000  # constants
MAX_DEPTH = 32  # graphs within branches of graphs, and functions that functions call
WIDEST_NUMBER_BYTES = 8
MAX_NAME = 100  # characters of a name in a message
LOOPS = {"Loop", "Scan", "SequenceMap"}
DOMAINS = {"", "ai.onnx", "ai.onnx.ml", "com.microsoft"}  # domains of the built-in operations of ONNX Runtime


class _Size(NamedTuple):
    nodes: int
    tensors: int


def check_model(model: Any, path: Path) -> None:
    """Raise ValueError unless all operations are built into ONNX Runtime, without loops, and not too many."""
    checker = _Checker(model, path)
    size = checker.size(model.graph, 0)
    for count, limit, what in ((size.nodes, MAX_NODES, "operations"), (size.tensors, MAX_TENSORS, "constants")):
        if count > limit:
            raise ValueError(f"{path} has {count:,} {what}: a backbone has at most {limit:,}")


def weight_files(model: Any, path: Path) -> list[Path]:
    """Return the other files that hold weights of a network, sorted by name.

    Raises ValueError if a file is not in the folder of the network, or if the weights need too much memory.
    """
    names = set()
    for tensor in _tensors(model):
        check_bytes(math.prod(max(side, 0) for side in tensor.dims) * WIDEST_NUMBER_BYTES, f"a tensor of {path}")
        names |= {entry.value for entry in tensor.external_data if entry.key == "location"}
    folder = path.parent
    for name in sorted(names):
        try:
            inside = (folder / name).resolve().is_relative_to(folder.resolve()) and (folder / name).is_file()
        except (OSError, ValueError):  # not a valid file name
            inside = False
        if not inside:
            raise ValueError(f"{path} keeps weights in {shown(name[:MAX_NAME])}, which is not a file in its folder")
    files = [folder / name for name in sorted(names)]
    check_bytes(sum(file.stat().st_size for file in files), f"the weights of {path}")
    return files


class _Checker:
    """Counts the operations of a graph with each call of a function replaced by its body, as ONNX Runtime does."""

    def __init__(self, model: Any, path: Path) -> None:
        self.path = path
        self.functions = {(function.domain, function.name): function for function in model.functions}
        self.sizes: dict[tuple[str, str], _Size | None] = {}  # None while it is being counted

    def size(self, graph: Any, depth: int) -> _Size:
        """Return the size of a graph or of the body of a function, including inner graphs."""
        if depth > MAX_DEPTH:
            raise ValueError(f"{self.path} has graphs within graphs, more than {MAX_DEPTH} deep: a backbone is flat")
        constants = getattr(graph, "initializer", ()), getattr(graph, "sparse_initializer", ())
        nodes, tensors = 0, sum(map(len, constants))
        for node in graph.node:
            inner = self.called(node, depth)
            nodes, tensors = nodes + 1 + inner.nodes, tensors + inner.tensors
        return _Size(nodes, tensors)

    def called(self, node: Any, depth: int) -> _Size:
        """Return the size of the functions and graphs that a node uses."""
        key, name = (node.domain, node.op_type), shown(node.op_type[:MAX_NAME])
        if node.op_type in LOOPS and key not in self.functions:
            raise ValueError(f"{self.path} has a loop ({name}), which may never end: a backbone has none")
        total = _Size(0, 0)
        if key in self.functions:
            total = self.function(key, depth)
        elif node.domain not in DOMAINS:
            raise ValueError(
                f"{self.path} asks for the operation {name} of {shown(node.domain[:MAX_NAME])}, which is not built "
                "into ONNX Runtime: export the network without custom operations"
            )
        for attribute in node.attribute:
            for graph in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs):
                inner = self.size(graph, depth + 1)
                total = _Size(total.nodes + inner.nodes, total.tensors + inner.tensors)
            total = _Size(total.nodes, total.tensors + attribute.HasField("t") + len(attribute.tensors))
        return total

    def function(self, key: tuple[str, str], depth: int) -> _Size:
        if key not in self.sizes:
            self.sizes[key] = None
            self.sizes[key] = self.size(self.functions[key], depth + 1)
        size = self.sizes[key]
        if size is None:
            raise ValueError(f"{self.path} has a function that calls itself, {shown(key[1][:MAX_NAME])}")
        return size


def _tensors(model: Any) -> Iterator[Any]:
    for graph in _graphs(model):
        yield from getattr(graph, "initializer", ())
        for sparse in getattr(graph, "sparse_initializer", ()):
            yield from (sparse.values, sparse.indices)
        for node in graph.node:
            for attribute in node.attribute:
                yield from (attribute.t, *attribute.tensors)
                yield from (attribute.sparse_tensor.values, attribute.sparse_tensor.indices)
                for sparse in attribute.sparse_tensors:
                    yield from (sparse.values, sparse.indices)


def _graphs(model: Any) -> Iterator[Any]:
    """Yield the graph, the functions, and all inner graphs."""
    todo = [model.graph, *model.functions]
    while todo:
        graph = todo.pop()
        yield graph
        for node in graph.node:
            for attribute in node.attribute:
                todo += [attribute.g] if attribute.HasField("g") else []
                todo += attribute.graphs
