"""Where items come from: folders of pictures, or tables of embeddings; in the end both are features with names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from handful.features import is_sharded, read_partly
from handful.features.number_columns import same_columns
from handful.features.partly import Partly
from handful.utils.files import class_name

if TYPE_CHECKING:
    from handful.backbones import Embedded

Progress = Callable[[str, int, int], None]  # of what, how many are done, of how many
# Embeds pictures elsewhere: the folder they lie below, the pictures, the backbone, what they are, progress, strict
Embedder = Callable[[Path, list[Path], Any, str, Progress, bool], "Embedded"]


@dataclass
class Items:
    """Named items with features [n, D]; `files` are their pictures, `hashes` of the content, where there are any.

    Of the base classes, if it is known: their mean [D] as it was stored with the features, and the base file.
    """

    names: list[str]
    features: np.ndarray
    labels: list[str] | None = None
    files: list[Path] | None = None
    hashes: list[str] | None = None
    skipped: list[tuple[str, str]] = field(default_factory=list)  # name and reason
    source: dict[str, Any] = field(default_factory=dict)  # what made the features
    base_mean: np.ndarray | None = None
    base: Path | None = None
    columns: list[str] | None = None  # what the D features are called in a table, if each has a column
    opener: Callable[[str], int] | None = None  # of `files`, where it matters what their names lead to
    folder: Path | None = None  # that the files lie below

    def __len__(self) -> int:
        return len(self.names)

    def take(self, places: Sequence[int]) -> Items:
        """Some of them; what was skipped, and their source, are of all."""
        parts = (self.labels, self.files, self.hashes)
        labels, files, hashes = (None if part is None else [part[i] for i in places] for part in parts)
        names = [self.names[i] for i in places]
        return Items(
            names, self.features[list(places)], labels, files, hashes,  # type: ignore[arg-type]
            self.skipped, self.source, self.base_mean, self.base, self.columns, self.opener, self.folder,
        )  # fmt: skip


def read_examples(
    folder: Path,
    backbone: Any,
    *,
    progress: Progress,
    strict: bool = False,
    cache: Any = True,
    embedder: Embedder | None = None,
) -> Items:
    """Pictures in a folder for each class, `folder/<class>/...`."""
    from handful.backbones import find_pictures
    from handful.backbones.pictures import LITTER

    within = sorted(part for part in folder.iterdir() if part.name[0] != "." and part.name.lower() not in LITTER)
    classes = [part for part in within if part.is_dir()]
    if not classes:
        raise ValueError(
            f"{str(folder)!r} has no folders in it: make one for each class and put a few pictures of the class into it"
        )
    paths: list[Path] = []
    labels: list[str] = []
    skipped: list[tuple[str, str]] = []
    for part in classes:
        found, left = find_pictures(part, strict=strict)
        skipped += [(s.path, s.reason) for s in left]
        if not found:
            why = f" ({left[0]})" if left else ""
            raise ValueError(
                f"{str(part)!r} holds no pictures{why}: every class needs at least one example, or no folder"
            )
        paths += found
        labels += [class_name(part.name)] * len(found)
    for stray in within:
        if not stray.is_dir():
            skipped.append((str(stray), "lies beside the classes' folders, not in one of them"))
    items = _embed(folder, paths, backbone, "examples", progress, strict, cache, embedder)
    of_path = dict(zip(map(str, paths), labels, strict=True))
    items.labels = [of_path[str(file)] for file in items.files or ()]
    items.names = [str(file.relative_to(folder)) for file in items.files or ()]
    items.skipped = skipped + items.skipped
    if lost := sorted(set(labels) - set(items.labels)):
        why = "; ".join(f"{Path(name).name}: {reason}" for name, reason in items.skipped[:3])
        raise ValueError(f"none of the pictures of class {lost[0]!r} could be read ({why}): give it a good one")
    check_twins(items)
    return items


def read_pile(
    folder: Path,
    backbone: Any,
    *,
    progress: Progress,
    without: Sequence[Path] = (),
    results: Sequence[Path] = (),
    strict: bool = False,
    cache: Any = True,
    embedder: Embedder | None = None,
    what: str = "pile",
) -> Items:
    """All pictures below a folder, but for those that are examples already and those in folders of results in it.

    what: they are, for the bar of progress.
    """
    from handful.backbones import find_pictures

    found, left = find_pictures(folder, strict=strict)
    examples = {path.resolve() for path in without}
    paths = [path for path in found if path.resolve() not in examples]
    within = {place.resolve() for place in results if folder.resolve() in place.resolve().parents}
    if within:
        paths = [path for path in paths if within.isdisjoint((path.parent.resolve() / path.name).parents)]
    items = _embed(folder, paths, backbone, what, progress, strict, cache, embedder)
    items.skipped = [(s.path, s.reason) for s in left] + items.skipped
    items.folder = folder
    items.names = [str(file.relative_to(folder)) for file in items.files or ()]
    if not len(items):
        use = " to label" if what == "pile" else ""
        raise ValueError(f"{str(folder)!r} holds no pictures{use}" + (", none that could be read" if paths else ""))
    return items


def read_table(path: Path, more: Path | None = None) -> tuple[Items, Items]:
    """Examples and pile of a table of embeddings: rows with a label, and rows without.

    With a second table the first holds the examples and all of the second is the pile, labelled or not.
    """
    examples, rest = read_labelled(path)
    if more is None:
        if not len(rest):
            raise ValueError(f"every row of {str(path)!r} has a label: leave it blank where it is to be found")
        return examples, rest
    second = read_partly(more)
    check_widths(path, examples.features.shape[1], more, second.features.shape[1])
    second = in_order(second, examples.columns, more)
    return examples, _rows(second, np.ones(len(second.labels), bool), {"features": str(more)})


def read_labelled(path: Path) -> tuple[Items, Items]:
    """The rows of a table that have a label, and the others."""
    table = read_partly(path)
    source = {"features": str(path)}
    given = np.array([label is not None for label in table.labels])
    if not given.any():
        raise ValueError(f"{str(path)!r} has no row with a label: give a few rows of each class a label")
    examples = _rows(table, given, source)
    examples.labels = [label for label in table.labels if label is not None]
    return examples, _rows(table, ~given, source)


def in_order(table: Partly, columns: Sequence[str] | None, path: Path) -> Partly:
    """A table with its columns of numbers in the order of others that they are compared with."""
    try:
        order = same_columns(columns, table.columns)
    except ValueError as error:
        raise ValueError(f"{str(path)!r}: {error}") from None
    if order is None:
        return table
    mean = None if table.base_mean is None else table.base_mean[order]
    return table._replace(features=table.features[:, order], base_mean=mean, columns=list(columns or ()))


def check_widths(path: Path, width: int, more: Path, other: int) -> None:
    if other != width:
        raise ValueError(
            f"{str(path)!r} has {width} features and {str(more)!r} {other}: both must come from the same backbone"
        )


def _rows(table: Partly, keep: np.ndarray, source: dict[str, Any]) -> Items:
    chosen = [name for name, wanted in zip(table.names, keep, strict=True) if wanted]
    return Items(chosen, table.features[keep], source=source, base_mean=table.base_mean, columns=table.columns)


def _embed(
    folder: Path,
    paths: list[Path],
    backbone: Any,
    what: str,
    progress: Progress,
    strict: bool,
    cache: Any,
    embedder: Embedder | None,
) -> Items:
    from handful.backbones import embed_pictures

    if embedder is not None:
        found = embedder(folder, paths, backbone, what, progress, strict)
    else:
        found = embed_pictures(
            paths, backbone, cache=cache, strict=strict, progress=lambda done, total: progress(what, done, total)
        )
    source = {"backbone": backbone.name, "backbone_fingerprint": backbone.fingerprint}
    return Items(
        list(found.paths), found.features, None, [Path(path) for path in found.paths], list(found.hashes),
        [(s.path, s.reason) for s in found.skipped], source, base=backbone.base,
    )  # fmt: skip


def of_pictures(path: Path) -> bool:
    """Whether it is a folder of pictures; one of features is a table."""
    return path.is_dir() and not is_sharded(path)


def check_twins(items: Items) -> None:
    """The same picture under two classes contradicts itself."""
    seen: dict[str, int] = {}
    for i, mark in enumerate(items.hashes or ()):
        j = seen.setdefault(mark, i)
        labels = items.labels or []
        if labels[i] != labels[j]:
            raise ValueError(
                f"{items.names[j]!r} and {items.names[i]!r} are the same picture under two classes: remove one of them"
            )
