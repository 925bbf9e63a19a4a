"""Published weights: recognise the network in a file, and load its weights into ours.

A checkpoint is a state dict somewhere in a file. Its names may have a prefix ("module.", "encoder.", "feature.") and
follow the naming of some published code. The place, the prefix and the naming are chosen by the best fit to the
network, not from a list of known files. A file is read only as tensors and plain containers. A file that asks for more
is refused, and nothing in it is run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from handful.backbones.networks import NETWORKS, build
from handful.utils.extras import TORCH, need
from handful.utils.text import shortened
from handful.utils.unpickling import Refused, load_torch

if TYPE_CHECKING:
    from torch import nn

State = Mapping[str, Any]  # arrays of a file of torch, tensors of a safetensors file
MAX_DEPTH = 3  # of nested containers that are searched for state dicts
COUNTER = "num_batches_tracked"  # of a batch norm: counts training steps, does not change features
HEADS = re.compile(r"(^|\.)(fc|linear\w*|L|classifier\w*|rot\w*|slf_attn|head|temp|temperature|scale\w*)(\.|$)")
MAX_LISTED_NAMES = 6
MAX_PARAMETERS = 4_000  # of one state dict; a WRN-28-10 has 170
MAX_NAME = 300  # characters of a parameter's name
MAX_PREFIX = 8  # components of a prefix


@dataclass(frozen=True)
class Loaded:
    """How a checkpoint fits the network. Names in `unexpected` and `ignored` are those of the file."""

    missing: list[str]  # not in the file, but harmless: counters of batch norms
    unexpected: list[str]  # in the file, but not in the network, and not a known extra
    ignored: list[str]  # known extras that only training needs: classifiers, attention, ...
    matched: int  # number of parameters and buffers that were loaded
    prefix: str  # before the names of the network
    layout: str  # the published code whose names it uses
    place: str  # of the state dict in the file, such as "params"; "" if the file itself is one


@dataclass(frozen=True)
class _Reading:
    """A state dict under one prefix in one layout."""

    place: str
    prefix: str
    layout: Layout
    names: dict[str, str]  # our name -> name in the file
    state: State

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {own_name: tuple(self.state[name].shape) for own_name, name in self.names.items()}


def load_network(
    path: str | Path, name: str | None = None, *, channels: int | None = None, **options: Any
) -> tuple[nn.Module, str, Loaded]:
    """Return the network of a checkpoint in evaluation mode, its name, and how the file fits.

    A missing name or number of channels is read from the file. `options` are for what the file cannot show.
    """
    kind, file_options = network_of(path)
    if name not in (None, kind):
        raise ValueError(f"{path} holds a {kind}, not a {name}")
    if channels not in (None, file_options["channels"]):
        raise ValueError(
            f"{path} takes pictures of {file_options['channels']} channels, not {channels}: see its first kernels"
        )
    network = build(kind, **(file_options | options))
    return network.eval(), kind, load_checkpoint(network, path)


def network_of(path: str | Path) -> tuple[str, dict[str, Any]]:
    """Return name and options of the network in a file, such as ("resnet12", {"channels": 3, ...}).

    They follow from the names and shapes of its parameters. A file of `handful train` stores more options; if they
    contradict the shapes, the shapes count.
    """
    match = _recognise(_state_dicts(Path(path)))
    if match is None:
        raise ValueError(
            f"{path} holds none of the supported networks ({', '.join(NETWORKS)}): export it to ONNX with the code "
            "that made it, and give handful the .onnx file"
        )
    name, options = match
    return name, _saved_options(Path(path), name) | options


def load_checkpoint(network: nn.Module, path: str | Path) -> Loaded:
    """Load the weights of a file into a network that `build` made, and return how they fit.

    Raises ValueError if parameters are missing, have another shape, or belong to layers that the network does not have.
    Then the network is not changed.
    """
    kind, states = _kind(network), _state_dicts(Path(path))
    parameters = network.state_dict()
    readings = [r for r in _readings(states) if r.layout.network == kind]
    best = max(readings, key=lambda r: len(r.names.keys() & parameters.keys()), default=None)
    if best is None:
        raise ValueError(f"{path} holds no parameters of a {kind}{_hint(states)}")
    missing = [name for name in parameters if name not in best.names]
    lacking = [name for name in missing if not name.endswith(COUNTER)]
    too_much = [name for name_here, name in best.names.items() if name_here not in parameters]
    shapes = best.shapes()
    common = [name for name in parameters if name in best.names]
    mismatched = [
        f"{best.names[name]} {list(shapes[name])}, not {list(parameters[name].shape)}"
        for name in common
        if shapes[name] != tuple(parameters[name].shape)
    ]
    for wrong, what in (
        (mismatched, "has parameters of another shape"),
        (lacking, f"lacks parameters of the {kind}"),
        (too_much, f"is of a network with more parts than the {kind}"),
    ):
        if wrong:
            raise ValueError(f"{path} {what}: {_listed(wrong)}{_hint(states)}")
    network.load_state_dict({name: _tensor(best.state[best.names[name]]) for name in common}, strict=False)
    leftover = [name for name in best.state if name not in set(best.names.values())]
    twins = {name for name in leftover if best.layout.rename(name.removeprefix(best.prefix)) in best.names}
    ignored = [name for name in leftover if name in twins or HEADS.search(name)]
    unexpected = [name for name in leftover if name not in ignored]
    return Loaded(missing, unexpected, ignored, len(common), best.prefix, best.layout.name, best.place)


def _kind(network: nn.Module) -> str:
    for name, kind in NETWORKS.items():
        if type(network).__name__ == kind:
            return name
    raise ValueError(f"a {type(network).__name__} is none of the networks that `build` makes: {', '.join(NETWORKS)}")


def _state_dicts(path: Path) -> dict[str, State]:
    """Return {place in the file: state dict} for every container that holds tensors."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no checkpoint {path}")
    torch = need("torch", "a checkpoint", TORCH)
    content = _safetensors(path) if path.suffix.lower() == ".safetensors" else _pickled(path)
    states: dict[str, State] = {}
    seen: set[int] = set()  # a container may contain itself

    def search(container: Any, place: str, depth: int) -> None:
        if not isinstance(container, Mapping) or id(container) in seen:
            return
        seen.add(id(container))
        tensors = {
            key: value for key, value in container.items() if isinstance(key, str) and _has_numbers(torch, value)
        }
        if tensors:
            longest = max(map(len, tensors))
            if len(tensors) > MAX_PARAMETERS or longest > MAX_NAME:
                raise ValueError(
                    f"{path} has {len(tensors):,} parameters in a state dict, the longest name has {longest:,} "
                    f"characters: at most {MAX_PARAMETERS:,} of {MAX_NAME} are read"
                )
            states[place] = tensors
        if depth < MAX_DEPTH:
            for key, value in container.items():
                search(value, f"{place}.{shortened(str(key))}".removeprefix("."), depth + 1)

    search(content, "", 0)
    if not states:
        raise ValueError(
            f"{path} holds no state dict: a dictionary of parameters by name is needed, not a {type(content).__name__}"
        )
    return states


def _has_numbers(torch: Any, value: Any) -> bool:
    return torch.is_tensor(value) or (isinstance(value, np.ndarray) and value.dtype.kind in "fiub")


def _tensor(value: Any) -> Any:
    """Return a tensor. An array is copied, because it is a view of the file."""
    if not isinstance(value, np.ndarray):
        return value
    torch = need("torch", "a checkpoint", TORCH)
    return torch.from_numpy(np.array(value, value.dtype.newbyteorder("="), order="C"))


def _saved_options(path: Path, network: str) -> dict[str, Any]:
    """Return the options of the network that `handful train` stored in the file; {} for other files."""
    if path.suffix.lower() != ".safetensors":
        return {}
    from safetensors import safe_open

    with safe_open(path, "numpy") as file:
        text = (file.metadata() or {}).get("handful", "{}")
    try:
        about = json.loads(text)
        return dict(about["options"]) if about["network"] == network else {}
    except (KeyError, TypeError, ValueError, RecursionError):  # written by another program
        return {}


def _safetensors(path: Path) -> Any:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except SafetensorError as error:
        raise ValueError(f"{path} cannot be read as safetensors: {error}") from None


def _pickled(path: Path) -> Any:
    try:
        return load_torch(path)
    except Refused as error:
        alone = ". Its author can save only the state dict: torch.save(model.state_dict(), ...)"
        raise ValueError(
            f"{path} cannot be read as a checkpoint of torch: it {error}; nothing of it was run"
            + (alone if error.advise else "")
        ) from None


def _readings(states: dict[str, State]) -> Iterator[_Reading]:
    """Yield every state dict with every prefix in every layout in which any name fits. The caller takes the best."""
    for place, state in states.items():
        inside: dict[str, list[str]] = {}  # names by their prefix
        for name in state:
            words = name.split(".")
            for n in range(min(len(words), MAX_PREFIX + 1)):
                inside.setdefault("".join(f"{word}." for word in words[:n]), []).append(name)
        for prefix in sorted(inside, key=lambda text: (len(text), text)):
            for layout in LAYOUTS:
                names: dict[str, str] = {}
                for name in inside[prefix]:
                    if (own_name := layout.rename(name[len(prefix) :])) is not None:
                        names.setdefault(own_name, name)
                if names:
                    yield _Reading(place, prefix, layout, names, state)


def _recognise(states: dict[str, State]) -> tuple[str, dict[str, Any]] | None:
    best: tuple[int, str, dict[str, Any]] | None = None
    for reading in _readings(states):
        options = options_of(reading.layout.network, reading.shapes())
        if options is not None and (best is None or len(reading.names) > best[0]):
            best = len(reading.names), reading.layout.network, options | reading.layout.options
    return best and best[1:]


def _hint(states: dict[str, State]) -> str:
    match = _recognise(states)
    if match is None:
        return ""
    options = ", ".join(f"{key}={value!r}" for key, value in match[1].items())
    return f"; by its shapes it is build({match[0]!r}, {options})"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MAX_LISTED_NAMES} more" if len(names) > MAX_LISTED_NAMES else ""
    return ", ".join(names[:MAX_LISTED_NAMES]) + more


# ---- layouts: how published codes name the parameters of a network, and which options follow from the shapes.
# Where two codes compute different features from the same parameters, their names differ, and the layout holds the
# option that this code needs.

Shapes = dict[str, tuple[int, ...]]  # by our names


@dataclass(frozen=True)
class Layout:
    """The parameter names of one published code, and how to turn them into ours."""

    name: str  # of the published code
    network: str
    pattern: str  # matches a whole published name
    ours: str | Callable[[re.Match[str]], str]  # the replacement that gives our name
    options: dict[str, Any] = field(default_factory=dict)

    def rename(self, name: str) -> str | None:
        """Return our name of a parameter; None if the name does not belong to this layout."""
        match = re.fullmatch(self.pattern, name)
        if match is None:
            return None
        return match.expand(self.ours) if isinstance(self.ours, str) else self.ours(match)


def _easy(match: re.Match[str]) -> str:
    return f"layer{int(match[1]) + 1}.0.{match[2].replace('shortcut', 'downsample')}"


def _wrn_of_feat(match: re.Match[str]) -> str:
    if match[1] is None:
        return match[0]
    return f"block{match[1]}.layer.{match[2]}.{match[3].replace('shortcut.0', 'convShortcut')}"


_S2M2_WRN = r"(block\d\.layer\.\d+\..+|conv1\.(?:weight|bias)|bn1\..+)"
_PARTS = {"C": "conv", "BN": "bn", "0": "conv", "1": "bn"}

# If two layouts fit equally well, the first is used.
LAYOUTS = (
    Layout("FEAT, RFS, MetaOptNet", "resnet12", r"(layer[1-4]\.\d+\..+)", r"\1"),
    Layout("Meta-Baseline", "resnet12", r"(layer[1-4])\.((?!\d).+)", r"\1.0.\2"),
    Layout("EASY", "resnet12", r"layers\.([0-3])\.(.+)", _easy),
    Layout("S2M2", "wrn28_10", _S2M2_WRN, r"\1"),
    Layout("FEAT, RFS", "wrn28_10", r"layer([1-3])\.(\d+)\.(.+)|(?:conv1|bn1)\..+", _wrn_of_feat),
    Layout("handful", "conv4", r"(blocks\.[0-3]\..+)", r"\1"),
    Layout(
        "FEAT", "conv4", r"encoder\.encoder\.([0-3])\.([01])\.(.+)",
        lambda m: f"blocks.{m[1]}.{_PARTS[m[2]]}.{m[3]}", {"pool": "max"},
    ),
    Layout(
        "Prototypical Networks", "conv4", r"encoder\.([0-3])\.([01])\.(.+)",
        lambda m: f"blocks.{m[1]}.{_PARTS[m[2]]}.{m[3]}",
    ),
    Layout(
        "S2M2, A Closer Look", "conv4", r"trunk\.([0-3])\.(C|BN|trunk\.[01])\.(.+)",  # each parameter has two names
        lambda m: f"blocks.{m[1]}.{_PARTS[m[2].removeprefix('trunk.')]}.{m[3]}",
    ),
    Layout(
        "RFS", "conv4", r"layer([1-4])\.([01])\.([^.]+)",
        lambda m: f"blocks.{int(m[1]) - 1}.{_PARTS[m[2]]}.{m[3]}", {"pool": "mean", "halvings": 3},
    ),
)  # fmt: skip


def options_of(network: str, shapes: Shapes) -> dict[str, Any] | None:
    """Return the options of `build` for a network of these shapes; None if it is not this kind of network."""
    try:
        return _READERS[network](shapes)
    except KeyError:  # a required parameter is missing
        return None


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
