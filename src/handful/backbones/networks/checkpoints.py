"""Published weights: recognise the network in a file, and load its weights into ours.

A checkpoint is a state dict somewhere in a file. Its names may have a prefix ("module.", "encoder.", "feature.") and
follow the naming of some published code. The place, the prefix and the naming are chosen by the best fit to a
network, not from a list of known files. A file is read only as tensors and plain containers. A file that asks for more
is refused, and nothing in it is run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from handful.backbones.networks import NETWORKS, build
from handful.utils.extras import TORCH, need
from handful.utils.text import one_line, shortened
from handful.utils.unpickling import load_plain

if TYPE_CHECKING:
    from torch import nn

State = Mapping[str, np.ndarray]
Shapes = Mapping[str, tuple[int, ...]]  # by our names
MAX_DEPTH = 3  # of nested containers that are searched for state dicts
COUNTER = "num_batches_tracked"  # of a batch norm: counts training steps, does not change features


@dataclass(frozen=True)
class Loaded:
    """How a checkpoint fits the network."""

    matched: int  # number of parameters and buffers that were loaded
    unused: list[str]  # names in the file that belong to no part of the network: classifiers, attention, ...
    prefix: str  # before the names of the network
    layout: str  # the published code whose names it uses
    place: str  # of the state dict in the file, such as "params"; "" if the file itself is one


def load_network(path: str | Path, name: str | None = None, **options: Any) -> tuple[nn.Module, str, Loaded]:
    """Return the network of a checkpoint in evaluation mode, its name, and how it fits; `options` add what it lacks."""
    torch = need("torch", "a checkpoint", TORCH)
    states, about = _state_dicts(Path(path))
    state, names, options_of_shapes, layout, fit = _best_reading(path, states)
    kind = layout.network
    if name not in (None, kind):
        raise ValueError(f"{path} holds a {kind}, not a {name}")
    # A file of `handful train` stores more options than shapes can show; if they contradict, the shapes count.
    stored = about.get("options") if about.get("network") == kind else None
    network = build(kind, **((stored if isinstance(stored, dict) else {}) | options_of_shapes | options))
    # Old files lack the counters.
    tensors = {own: value for own, value in network.state_dict().items() if own.endswith(COUNTER)}
    for own, in_file in names.items():
        array = state[in_file]  # copied: it is a view of the file
        tensors[own] = torch.from_numpy(np.array(array, array.dtype.newbyteorder("="), order="C"))
    try:
        network.load_state_dict(tensors)
    except RuntimeError as error:
        raise ValueError(f"{path} does not fit the {kind}: {one_line(str(error), 500)}") from None
    return network.eval(), kind, fit


def _best_reading(
    path: str | Path, states: dict[str, State]
) -> tuple[State, dict[str, str], dict[str, Any], Layout, Loaded]:
    """Try every state dict with every prefix in every layout, and return the reading in which most names fit."""
    best = None
    for place, state in states.items():
        prefixes = {name[: match.end()] for name in state for match in re.finditer(r"\.|^", name)}
        for prefix, layout in product(sorted(prefixes, key=lambda text: (len(text), text)), LAYOUTS):
            names: dict[str, str] = {}  # ours -> in the file
            for name in state:
                if name.startswith(prefix) and (own := layout.own_name(name[len(prefix) :])):
                    names.setdefault(own, name)
            try:
                options = _READERS[layout.network]({own: state[name].shape for own, name in names.items()})
            except KeyError:  # a required parameter is missing
                continue
            if options is not None and (best is None or len(names) > len(best[1])):
                used = set(names.values())
                fit = Loaded(len(names), [name for name in state if name not in used], prefix, layout.code, place)
                best = state, names, options | layout.options, layout, fit
    if best is None:
        raise ValueError(
            f"{path} holds none of the supported networks ({', '.join(NETWORKS)}): export it to ONNX with the code "
            "that made it, and give handful the .onnx file"
        )
    return best


# ---- files


def _state_dicts(path: Path) -> tuple[dict[str, State], dict[str, Any]]:
    """Return {place in the file: arrays by name} for every container of arrays, and what `handful train` has stored."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no checkpoint {path}")
    content, about = _safetensors(path) if path.suffix.lower() == ".safetensors" else (_pickled(path), {})
    states: dict[str, State] = {}

    def search(container: Any, place: str, depth: int) -> None:
        if not isinstance(container, Mapping) or depth > MAX_DEPTH:
            return
        items = {key: value for key, value in container.items() if isinstance(key, str)}
        is_array = {key: isinstance(value, np.ndarray) and value.dtype.kind in "fiub" for key, value in items.items()}
        if any(is_array.values()):
            states[place] = {key: value for key, value in items.items() if is_array[key]}
        for key, value in items.items():
            search(value, f"{place}.{shortened(key)}".removeprefix("."), depth + 1)

    search(content, "", 0)
    if not states:
        raise ValueError(
            f"{path} holds no state dict: a dictionary of parameters by name is needed, not a {type(content).__name__}"
        )
    return states, about


def _safetensors(path: Path) -> tuple[State, dict[str, Any]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "numpy") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
            text = (file.metadata() or {}).get("handful", "{}")
    except (SafetensorError, TypeError, AttributeError) as error:  # a type that NumPy does not have
        raise ValueError(f"{path} cannot be read as safetensors: {error}") from None
    try:
        return arrays, dict(json.loads(text))
    except (TypeError, ValueError, RecursionError):  # written by another program
        return arrays, {}


def _pickled(path: Path) -> Any:
    try:
        return load_plain(path, "its author can save only the state dict: torch.save(model.state_dict(), ...)")
    except ValueError as error:
        raise ValueError(f"{path} cannot be read as a checkpoint of torch: {error}") from None


# ---- layouts: how published codes name the parameters of a network, and which options follow from the shapes.
# Where two codes compute different features from the same parameters, their names differ, and the layout holds the
# option that this code needs.


class Layout(NamedTuple):
    """The parameter names of one published code, and what they are here."""

    code: str
    network: str
    names: dict[str, str]  # a pattern of whole published names -> our name, with \\1 for the first group
    options: dict[str, Any] = {}  # noqa: RUF012 - never changed

    def own_name(self, name: str) -> str | None:
        """Return our name of a parameter; None if it is not one of this code's network."""
        matches = ((re.fullmatch(pattern, name), own) for pattern, own in self.names.items())
        return next((match.expand(own) for match, own in matches if match), None)


def _of_blocks(count: int, names: dict[str, str]) -> dict[str, str]:
    """Return the names of all blocks: {0} stands for the number of a block from 0, {1} for that from 1."""
    return {
        name.format(block, block + 1): own.format(block, block + 1)
        for block in range(count)
        for name, own in names.items()
    }


# If two layouts fit equally well, the first is used.
LAYOUTS = (
    Layout("FEAT, RFS, MetaOptNet", "resnet12", {r"(layer[1-4]\.\d+\..+)": r"\1"}),
    Layout("Meta-Baseline", "resnet12", {r"(layer[1-4])\.((?!\d).+)": r"\1.0.\2"}),
    Layout("EASY", "resnet12", _of_blocks(4, {
        r"layers\.{0}\.shortcut(.+)": r"layer{1}.0.downsample\1", r"layers\.{0}\.(.+)": r"layer{1}.0.\1",
    })),
    Layout("S2M2", "wrn28_10", {r"(block\d\.layer\.\d+\..+|conv1\.(?:weight|bias)|bn1\..+)": r"\1"}),
    Layout("FEAT, RFS", "wrn28_10", {
        r"layer([1-3])\.(\d+)\.shortcut\.0(.+)": r"block\1.layer.\2.convShortcut\3",
        r"layer([1-3])\.(\d+)\.(.+)": r"block\1.layer.\2.\3", r"((?:conv1|bn1)\..+)": r"\1",
    }),
    Layout("handful", "conv4", {r"(blocks\.[0-3]\..+)": r"\1"}),
    Layout("FEAT", "conv4", _of_blocks(4, {
        r"encoder\.encoder\.{0}\.0(.+)": r"blocks.{0}.conv\1", r"encoder\.encoder\.{0}\.1(.+)": r"blocks.{0}.bn\1",
    }), {"pool": "max"}),
    Layout("Prototypical Networks", "conv4", _of_blocks(4, {
        r"encoder\.{0}\.0(.+)": r"blocks.{0}.conv\1", r"encoder\.{0}\.1(.+)": r"blocks.{0}.bn\1",
    })),
    Layout("S2M2, A Closer Look", "conv4", _of_blocks(4, {  # each of its parameters has two names
        r"trunk\.{0}\.(?:C|trunk\.0)(\..+)": r"blocks.{0}.conv\1",
        r"trunk\.{0}\.(?:BN|trunk\.1)(\..+)": r"blocks.{0}.bn\1",
    })),
    Layout("RFS", "conv4", _of_blocks(4, {
        r"layer{1}\.0(\.[^.]+)": r"blocks.{0}.conv\1", r"layer{1}\.1(\.[^.]+)": r"blocks.{0}.bn\1",
    }), {"pool": "mean", "halvings": 3}),
)  # fmt: skip


def _resnet12(shapes: Shapes) -> dict[str, Any] | None:
    kernels = [shapes[f"layer{i}.0.conv{k}.weight"] for i in range(1, 5) for k in (1, 2, 3)]
    shortcuts = [shapes[f"layer{i}.0.downsample.0.weight"] for i in range(1, 5)]
    if any(shape[2:] != (3, 3) for shape in kernels) or any(shape[2:] != (1, 1) for shape in shortcuts):
        return None
    return {"channels": kernels[0][1], "widths": [shape[0] for shape in shortcuts]}


def _wrn(shapes: Shapes) -> dict[str, Any] | None:
    first, wide = shapes["conv1.weight"], shapes["block1.layer.0.conv1.weight"]
    blocks = sum(re.fullmatch(r"block1\.layer\.\d+\.conv2\.weight", name) is not None for name in shapes)
    if first[0] != 16 or first[2:] != (3, 3) or wide[0] % 16 or "block3.layer.0.convShortcut.weight" not in shapes:
        return None
    variant = "feat" if "conv1.bias" in shapes else "s2m2"  # only one of them has biases
    return {"channels": first[1], "depth": 6 * blocks + 4, "widen": wide[0] // 16, "variant": variant}


def _conv4(shapes: Shapes) -> dict[str, Any] | None:
    kernels = [shapes[f"blocks.{i}.conv.weight"] for i in range(4)]
    if any(shape[2:] != (3, 3) for shape in kernels):
        return None
    return {"channels": kernels[0][1], "width": kernels[0][0]}


_READERS: dict[str, Callable[[Shapes], dict[str, Any] | None]] = {
    "resnet12": _resnet12,
    "wrn28_10": _wrn,
    "conv4": _conv4,
}
