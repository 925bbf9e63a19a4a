"""The heads that can be learned, by the name that `handful base --heads` takes."""

from __future__ import annotations

from collections.abc import Sequence

from handful.training.heads import conformal, feat, flowr, frob, meta_bce, ood_maml, peeler
from handful.training.heads.head import Head

HEADS: dict[str, Head] = {
    "feat": feat.HEAD,
    "peeler": peeler.HEAD,
    "flowr": flowr.HEAD,
    "meta_bce": meta_bce.HEAD,
    "ood_maml": ood_maml.HEAD,
    "frob": frob.HEAD,
    "conformal": conformal.HEAD,
}


def check_heads(names: Sequence[str]) -> None:
    """Raise ValueError listing the heads that can be learned if a name is not one of them."""
    for name in names:
        if name not in HEADS:
            raise ValueError(f"there is no head {name!r} to learn; there are: {', '.join(HEADS)}")
