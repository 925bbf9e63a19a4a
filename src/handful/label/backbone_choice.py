"""The backbone for a kind of items: the default one, and a refusal of one that is for another kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def default_backbone(kind: str) -> str:
    """The name of the default backbone for "pictures" or "texts"; "" for embeddings, which need none."""
    from handful.backbones.catalogue import DEFAULT, DEFAULT_TEXT

    return {"pictures": DEFAULT, "texts": DEFAULT_TEXT}.get(kind, "")


def lasting_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that belong to the features. The device belongs to a machine: records and models leave it out."""
    return {name: value for name, value in options.items() if name != "device"}


def load_for(kind: str, name: Any = "", options: Mapping[str, Any] | None = None) -> Any:
    """Load a backbone for "pictures" or "texts".

    Parameters
    ----------
    kind : str
        What the items are.
    name : str or callable
        What `load_backbone` takes; "" is the default for this kind.
    options : mapping, optional
        The other arguments of `load_backbone`.

    Raises
    ------
    ValueError
        If the backbone is for another kind of items.
    """
    from handful.backbones import load_backbone
    from handful.backbones.catalogue import kind_of_backbone

    name = name or default_backbone(kind)
    own = kind_of_backbone(name) if isinstance(name, str) else None
    if own is None or own == kind:
        net = load_backbone(name, **(options or {}))
        own = net.kind
    if own != kind:
        shown = repr(name) if isinstance(name, str) else net.name
        raise ValueError(
            f"the backbone {shown} is for {own}, but the items are {kind}: leave --backbone out, or give one for "
            f"{kind} (`handful backbones` lists them)"
        )
    return net
