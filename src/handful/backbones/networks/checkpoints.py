"""Published weights: recognise the network in a file, and load its weights into ours.

A checkpoint is a state dict somewhere in a file. Its names may have a prefix ("module.", "encoder.", "feature.") and
follow the naming of some published code. The place, the prefix and the naming are chosen by the best fit to the
network, not from a list of known files. A file is read only as tensors and plain containers. A file that asks for more
is refused, and nothing in it is run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from handful.backbones.networks import NETWORKS, build
from handful.backbones.networks.layouts import LAYOUTS, Layout, options_of
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
    for name, (_, kind) in NETWORKS.items():
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
            _check_names(path, tensors)
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


def _check_names(path: Path, names: Iterable[str]) -> None:
    names = list(names)
    if len(names) > MAX_PARAMETERS or max(map(len, names)) > MAX_NAME:
        raise ValueError(
            f"{path} has {len(names):,} parameters in a state dict, the longest name has {max(map(len, names)):,} "
            f"characters: at most {MAX_PARAMETERS:,} of {MAX_NAME} are read"
        )


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
