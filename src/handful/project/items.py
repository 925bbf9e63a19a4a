"""Read items from folders of pictures or from tables of features, both as a `FeatureTable`; and tell kinds apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from glob import escape
from pathlib import Path
from typing import Any

import numpy as np

from handful.core.checks import UNKNOWN_NAME, is_no_class, is_no_label, same_columns
from handful.estimators.classifier import FewShotClassifier
from handful.features import FeatureTable, concatenate, is_sharded, read
from handful.features.text_table import is_text_table
from handful.solving import get_solver
from handful.utils.files import class_name
from handful.utils.text import is_blank

NO_TEXT = "has a label but no text: it is no example"


def rows_without_text(items: FeatureTable) -> list[int]:
    """The rows that have no text, where items are texts: they are unknown, and no part of what is solved."""
    return [] if items.texts is None else [row for row, text in enumerate(items.texts) if is_blank(text)]


def highest_score(model: FewShotClassifier, scores: np.ndarray) -> float:
    """An outlier score for rows without a text: above the threshold, and not below any other."""
    if get_solver(model._method).info.score == "probability":
        return 1.0
    return float(np.nextafter(max(scores.max(initial=model.threshold_), model.threshold_), np.inf))


def skip_empty(pile: FeatureTable, rows: Sequence[int]) -> FeatureTable:
    """The pile, which says that rows without a text are no examples."""
    if not rows:
        return pile
    return pile.replace(skipped=[*pile.skipped, *((pile.names[row], NO_TEXT) for row in rows)])


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


Progress = Callable[[str, int, int], None]  # what is being read, items done, all items
# Embeds pictures on other machines: folder, pictures, backbone, what they are, progress, strict
Embedder = Callable[[Path, list[Path], Any, str, Progress, bool], FeatureTable]
TableOptions = Mapping[str, Any]  # options of `features.read`: embedding, label, columns, exclude


def silent(what: str, done: int, total: int) -> None:
    """No progress is shown."""


def class_label(name: str) -> str:
    """The label as it is used: all that say "no class" become the same, and those that say "no label" are refused."""
    if is_no_label(name):
        raise ValueError(f"no class can be called {name!r}, which means that an item has no label: give another name")
    return UNKNOWN_NAME if is_no_class(name) else name


def read_examples(
    folder: Path,
    backbone: Any,
    *,
    progress: Progress = silent,
    strict: bool = False,
    cache: Any = True,
    embedder: Embedder | None = None,
) -> FeatureTable:
    """Read examples: pictures in one folder for each class, `folder/<class>/...`.

    Parameters
    ----------
    folder : Path
        The folder. Its folder `unknown` holds examples of no class.
    backbone : Backbone
        What embeds the pictures.
    progress : callable
        Called with what is done, how many are done, and of how many.
    strict : bool
        Whether a file that cannot be read is an error.
    cache : bool or FeatureCache
        Whether, or where, features are kept.
    embedder : callable, optional
        Embeds the pictures in place of this process.

    Returns
    -------
    FeatureTable
        The examples with their labels.
    """
    from handful.backbones import find_pictures
    from handful.backbones.folders import LITTER

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
        pictures, unused = find_pictures(part, strict=strict, within=folder)
        skipped += unused
        if not pictures:
            why = f" ({unused[0]})" if unused else ""
            raise ValueError(
                f"{str(part)!r} holds no pictures{why}: every class needs at least one example, or no folder"
            )
        paths += pictures
        labels += [class_label(class_name(part.name))] * len(pictures)
    for stray in within:
        if not stray.is_dir():
            skipped.append((str(stray), "is beside the folders of the classes, not in one of them"))
    items = _embed(folder, paths, backbone, "examples", progress, strict, cache, embedder)
    class_of = dict(zip(map(str, paths), labels, strict=True))
    files = items.files or ()
    items = items.replace(
        labels=[class_of[str(file)] for file in files],
        paths=[str(file.relative_to(folder)) for file in files],
        skipped=[*skipped, *items.skipped],
    )
    if lost := sorted(set(labels) - set(items.label_names)):
        why = "; ".join(f"{Path(name).name}: {reason}" for name, reason in items.skipped[:3])
        raise ValueError(f"none of the pictures of class {lost[0]!r} could be read ({why}): give it a good one")
    check_twins(items)
    return items


def add_unknown(
    examples: FeatureTable,
    source: Path,
    place: Path | None,
    backbone: Any = None,
    options: TableOptions | None = None,
    **reading: Any,
) -> FeatureTable:
    """Add examples that belong to none of the classes: the pictures below a folder, or the rows of a table.

    source: where the other examples are from. backbone, reading: as for `read_pile`, for pictures. options: as for
    `read_table`, for tables.
    """
    if place is None:
        return examples
    if of_files(place):
        more = read_pile(place, backbone, what=UNKNOWN_NAME, **reading)
        more = more.replace(paths=[f"{place.name}/{name}" for name in more.names])
    else:
        more = in_order(read_pile_table(place, examples.columns, options, examples.set_aside), examples.columns, place)
        check_widths(source, examples.dimension, place, more.dimension)
    skipped = [*examples.skipped, *more.skipped]
    together = concatenate([examples, more.replace(labels=[UNKNOWN_NAME] * len(more))]).replace(skipped=skipped)
    check_twins(together)
    return together


def read_pile(
    folder: Path,
    backbone: Any,
    *,
    progress: Progress = silent,
    without: Sequence[Path] = (),
    results: Sequence[Path] = (),
    strict: bool = False,
    cache: Any = True,
    embedder: Embedder | None = None,
    what: str = "pile",
) -> FeatureTable:
    """Read all pictures below a folder as a pile.

    Parameters
    ----------
    folder : Path
        The folder.
    backbone : Backbone
        What embeds the pictures.
    progress : callable
        Called with what is done, how many are done, and of how many.
    without : sequence of Path
        Files that are left out, such as examples.
    results : sequence of Path
        Folders of results, whose pictures are left out.
    strict : bool
        Whether a file that cannot be read is an error.
    cache : bool or FeatureCache
        Whether, or where, features are kept.
    embedder : callable, optional
        Embeds the pictures in place of this process.
    what : str
        The name of the progress bar.

    Returns
    -------
    FeatureTable
        The pile.
    """
    from handful.backbones import find_pictures

    pictures, unused = find_pictures(folder, strict=strict)
    examples = {path.resolve() for path in without}
    paths = [path for path in pictures if path.resolve() not in examples]
    within = {place.resolve() for place in results if folder.resolve() in place.resolve().parents}
    if within:
        paths = [path for path in paths if within.isdisjoint((path.parent.resolve() / path.name).parents)]
    items = _embed(folder, paths, backbone, what, progress, strict, cache, embedder)
    if not len(items):
        use = " to label" if what == "pile" else ""
        why = ", none that could be read" if paths else f" ({unused[0]})" if unused else ""
        raise ValueError(f"{str(folder)!r} holds no pictures{use}{why}")
    return items.replace(
        paths=[str(file.relative_to(folder)) for file in items.files or ()],
        skipped=[*unused, *items.skipped],
    )


def read_table(
    path: Path, more: Path | None = None, options: TableOptions | None = None
) -> tuple[FeatureTable, FeatureTable]:
    """Read examples and pile from a table of features: rows with a label, and rows without.

    Parameters
    ----------
    path : Path
        The table.
    more : Path, optional
        A second table. Then the first one has the examples, and all rows of the second one are the pile.
    options : mapping, optional
        Options of `features.read`.

    Returns
    -------
    tuple of two FeatureTable
        The examples and the pile.
    """
    examples, rest = read_labelled(path, options)
    if more is None:
        if not len(rest):
            raise ValueError(
                f"every row of {str(path)!r} has a label: leave the label blank in rows that handful should label"
            )
        return examples, rest
    pile = read_pile_table(more, examples.columns, options, examples.set_aside)
    check_widths(path, examples.dimension, more, pile.dimension)
    return examples, in_order(pile, examples.columns, more)


def read_labelled(path: Path, options: TableOptions | None = None) -> tuple[FeatureTable, FeatureTable]:
    """The rows of a table that have a label, with texts as labels, and the other rows."""
    table = read(path, warn=False, **(options or {}))
    has_label = table.has_label
    if not has_label.any():
        columns = f" (its other columns: {', '.join(map(repr, list(table.others)[:10]))})" if table.others else ""
        raise ValueError(
            f"{str(path)!r} has no row with a label: give a few rows of each class a label in a column 'label', or "
            f"name the column of labels with --label{columns}"
        )
    rest = table.take(~has_label).replace(labels=None)
    has_text = np.ones(len(table), bool)
    has_text[rows_without_text(table)] = False
    skipped = [(table.names[row], NO_TEXT) for row in np.flatnonzero(has_label & ~has_text).tolist()]
    examples = table.take(has_label & has_text).replace(skipped=[*table.skipped, *skipped])
    labels = [class_label(str(name)) for name in examples.label_names]
    return examples.replace(labels=labels), rest


def read_pile_table(
    path: Path,
    columns: Sequence[str] | None,
    options: TableOptions | None = None,
    set_aside: Sequence[str] = (),
) -> FeatureTable:
    """Read all rows of a table as a pile. Its labels, if any, are ignored.

    columns, set_aside: those of the examples. A column is a feature in the pile exactly if it is one in the examples,
    even if its values in the pile look different.
    """
    table_options = dict(options or {})
    if (label := table_options.pop("label", None)) is not None:
        table_options["exclude"] = [
            *table_options.get("exclude", ()),
            escape(label),
        ]  # it is carried along and never a feature
    table = read(path, warn=False, **table_options)
    if columns is not None and table.columns is not None:
        more, fewer = set(table.columns) - set(columns), set(columns) - set(table.columns)
        if (more or fewer) and more <= set(set_aside) and fewer <= set(table.set_aside):
            table = read(path, warn=False, columns=[escape(name) for name in columns])
    return table.replace(labels=None)


def in_order(table: FeatureTable, columns: Sequence[str] | None, path: Path) -> FeatureTable:
    """A table with its feature columns in the order of `columns`."""
    try:
        order = same_columns(columns, table.columns)
    except ValueError as error:
        raise ValueError(f"{str(path)!r}: {error}") from None
    return table if order is None else table.reorder(order)


def check_widths(path: Path, width: int, more: Path, other: int) -> None:
    """Raise ValueError unless two sources have the same number of features."""
    if other != width:
        raise ValueError(
            f"{str(path)!r} has {width} features and {str(more)!r} {other}: both must come from the same backbone"
        )


def _embed(
    folder: Path,
    paths: list[Path],
    backbone: Any,
    what: str,
    progress: Progress,
    strict: bool,
    cache: Any,
    embedder: Embedder | None,
) -> FeatureTable:
    from handful.backbones import embed_pictures

    if embedder is not None:
        embedded = embedder(folder, paths, backbone, what, progress, strict)
    else:
        embedded = embed_pictures(
            paths, backbone, cache=cache, strict=strict, progress=lambda done, total: progress(what, done, total)
        )
    source = {
        "backbone": backbone.name,
        "backbone_fingerprint": backbone.fingerprint,
        "device": getattr(backbone, "device", "cpu"),
    }
    return embedded.replace(files=[Path(path) for path in embedded.names], source=source, base=backbone.base)


def kind_of(path: Path, options: TableOptions | None = None, text: str | None = None) -> str:
    """What the items of a path are: "pictures", "texts", or "embeddings", which are features already.

    Parameters
    ----------
    path : Path
        A folder or a table.
    options : mapping, optional
        The options of `features.read`. Whoever names columns of features has a table of features.
    text : str, optional
        The column of texts that the user named.

    Returns
    -------
    str
        A folder holds pictures, unless it has files of text and no picture. A table holds texts if it has a column that
        looks like language, and few columns of numbers.
    """
    if not of_files(path):
        return "texts" if text is not None or is_text_table(path, options) or is_text_file(path) else "embeddings"
    from handful.backbones.folders import suffix_of, walk
    from handful.backbones.pictures import KNOWN_SUFFIXES
    from handful.backbones.texts import TEXT_SUFFIXES

    has_texts = False
    for parts, reason in walk(str(path)):
        if reason is not None:
            continue
        suffix = suffix_of(parts[-1])
        if suffix in KNOWN_SUFFIXES:
            return "pictures"
        has_texts |= suffix in TEXT_SUFFIXES
    return "texts" if has_texts else "pictures"


def is_text_file(path: Path) -> bool:
    """Whether a path has the suffix of a single text."""
    from handful.backbones.texts import TEXT_SUFFIXES

    return path.suffix.lower() in TEXT_SUFFIXES and not path.is_dir()


def of_files(path: Path) -> bool:
    """Whether a path is a folder of files, each an item. A folder of Parquet parts or of `datasets` is a table."""
    is_dataset = (path / "state.json").is_file() and (path / "dataset_info.json").is_file()
    return path.is_dir() and not is_sharded(path) and not is_dataset


def of_pictures(path: Path) -> bool:
    """Whether a path is a folder of pictures."""
    return of_files(path) and kind_of(path) == "pictures"


def check_twins(items: FeatureTable) -> None:
    """Raise ValueError if the same picture, or the same text, is an example of two classes."""
    seen: dict[str, int] = {}
    labels = items.label_names
    for i, mark in enumerate(items.hashes or ()):
        j = seen.setdefault(mark, i)
        if labels[i] != labels[j]:
            what = "picture" if items.texts is None else "text"
            raise ValueError(
                f"{items.names[j]!r} and {items.names[i]!r} are the same {what} under two classes: remove one of them"
            )
