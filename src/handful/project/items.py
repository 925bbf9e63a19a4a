"""Read items: folders of pictures or of texts, tables of texts or of embeddings. All become a `FeatureTable`.

`read_items` reads the examples and the pile of a job, whatever their kind; `Reading` says how. Without a backbone texts
have no features yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from glob import escape
from pathlib import Path
from typing import Any

import numpy as np

from handful.core.checks import UNKNOWN_NAME, is_no_class, is_no_label, same_columns
from handful.features import FeatureTable, concatenate, read
from handful.features.parts import is_sharded
from handful.features.text_table import SUFFIXES, is_text_table, peek_cells, read_text_table
from handful.project.text_items import embed_items, read_text_files, with_class_names
from handful.utils.files import class_name, first_folder, printable
from handful.utils.text import is_blank, shortened

NO_TEXT = "has a label but no text: it is no example"
PICTURES, TEXTS, EMBEDDINGS = "pictures", "texts", "embeddings"  # what items are
Progress = Callable[[str, int, int], None]  # what is being read, items done, all items
# Embeds pictures on other machines: folder, pictures, backbone, what they are, progress, strict
Embedder = Callable[[Path, list[Path], Any, str, Progress, bool], FeatureTable]
TableOptions = Mapping[str, Any]  # options of `features.read`: embedding, label, columns, exclude


def silent(what: str, done: int, total: int) -> None:
    """No progress is shown."""


@dataclass(frozen=True)
class Reading:
    """How items are read.

    Parameters
    ----------
    kind : {"pictures", "texts", "embeddings"}
        What they are.
    backbone : Backbone or TextBackbone, optional
        What turns pictures or texts into features. Without one they have none yet.
    table : mapping
        Options of `handful.features.read`, for tables. For tables of texts only "label" counts.
    text : str, optional
        The column of texts.
    strict : bool
        Whether a file that cannot be read is an error. Otherwise it is skipped.
    cache : bool or FeatureCache
        Whether, or where, features are kept.
    results : sequence of Path
        Folders of results: files in them are no part of a pile.
    class_names : bool
        Whether the name of each class is one more example of it, where items are texts.
    lenient : bool
        Whether there may be no examples and no pile, as in the workbench, where both can be added later.
    embedder : callable, optional
        Embeds the pictures in place of this process.
    progress : callable
        Called with what is read, how many are done and how many there are.
    """

    kind: str
    backbone: Any = None
    table: TableOptions = field(default_factory=dict)
    text: str | None = None
    strict: bool = False
    cache: Any = True
    results: Sequence[Path] = ()
    class_names: bool = False
    lenient: bool = False
    embedder: Embedder | None = None
    progress: Progress = silent

    @property
    def noun(self) -> str:
        """What one item is called."""
        return self.kind[:-1]


# ---- what a path holds


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
        return TEXTS if text is not None or is_text_table(path, options) or is_text_file(path) else EMBEDDINGS
    from handful.backbones.folders import suffix_of, walk
    from handful.backbones.pictures import KNOWN_SUFFIXES
    from handful.backbones.texts import TEXT_SUFFIXES

    suffixes = {suffix_of(parts[-1]) for parts, reason in walk(str(path)) if reason is None}
    return TEXTS if suffixes & TEXT_SUFFIXES and not suffixes & set(KNOWN_SUFFIXES) else PICTURES


def is_text_file(path: Path) -> bool:
    """Whether a path has the suffix of a single text."""
    from handful.backbones.texts import TEXT_SUFFIXES

    return path.suffix.lower() in TEXT_SUFFIXES and not path.is_dir()


def of_files(path: Path) -> bool:
    """Whether a path is a folder of files, each an item. A folder of Parquet parts or of `datasets` is a table."""
    is_dataset = (path / "state.json").is_file() and (path / "dataset_info.json").is_file()
    return path.is_dir() and not is_sharded(path) and not is_dataset


def may_hold_texts(path: Path) -> bool:
    """Whether texts are read from such a path: a folder of files, a text file, or a table with a known suffix."""
    return of_files(path) or is_text_file(path) or (path.is_file() and path.suffix.lower() in SUFFIXES)


# ---- backbones


def default_backbone(kind: str) -> str:
    """The name of the default backbone for "pictures" or "texts"; "" for embeddings, which need none."""
    from handful.backbones.catalogue import DEFAULT, DEFAULT_TEXT

    return {PICTURES: DEFAULT, TEXTS: DEFAULT_TEXT}.get(kind, "")


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


# ---- examples and a pile


def read_items(
    examples: Path, pile: Path | None, how: Reading, unknown: Path | None = None
) -> tuple[FeatureTable, FeatureTable]:
    """Read examples and a pile of any kind.

    Parameters
    ----------
    examples : Path
        A folder with a folder for each class, or a table with labels. If it is the pile there are no examples.
    pile : Path, optional
        A folder, or a table whose labels do not count. Without it the pile are the rows of the first table that have
        no label.
    how : Reading
        What they are, and how they are read.
    unknown : Path, optional
        Examples of no class: a folder of files, or a table.

    Returns
    -------
    examples, pile : FeatureTable
        Rows without a text are no examples. They stay in the pile.
    """
    if examples == pile:
        items = embedded(read_unlabelled(pile, how, f"{how.kind} to label"), how, "pile")
        return items.take([]).replace(labels=[], skipped=(), notes=()), items
    shown, rest = read_labelled(examples, how, unknown)
    if pile is not None:
        folders = [place for place in (examples, unknown) if place is not None and of_files(place)]
        of_pile = replace(how, results=[*how.results, *folders])
        rest = read_unlabelled(pile, of_pile, f"{how.kind} to label", shown, examples, without=shown.files or ())
    if rest is None:
        raise ValueError(f"name the folder of {how.kind} to label too: handful label EXAMPLES/ PILE/")
    if not len(rest) and not how.lenient:
        raise ValueError(
            f"every row of {str(pile or examples)!r} has a label: leave the label blank in rows that handful should "
            "label"
        )
    if how.kind == TEXTS and all(map(is_blank, rest.texts or ())) and not how.lenient:
        raise ValueError(f"no row of {str(pile or examples)!r} that should be labelled has a text")
    if how.class_names:
        shown = with_class_names(shown)
    shown = embedded(shown, how, "examples")
    check_twins(shown)
    return shown, embedded(rest, how, "pile")


def read_labelled(path: Path, how: Reading, unknown: Path | None = None) -> tuple[FeatureTable, FeatureTable | None]:
    """Read examples, and those of no class. For a table its rows without a label are second.

    path, how, unknown: as for `read_items`. Texts get no features here.
    """
    shown, rest = _read_labelled(path, how)
    if unknown is not None:
        more = read_unlabelled(unknown, how, how.kind, shown, path, bar=UNKNOWN_NAME)
        names = [f"{unknown.name}/{name}" for name in more.names]
        more = more.replace(labels=[UNKNOWN_NAME] * len(more), paths=names)
        skipped, notes = [*shown.skipped, *more.skipped], [*shown.notes, *more.notes]
        shown = concatenate([shown, more]).replace(skipped=skipped, notes=notes)
    return shown if how.lenient else _with_text(shown), rest


def read_unlabelled(
    path: Path,
    how: Reading,
    what: str,
    like: FeatureTable | None = None,
    source: Path | None = None,
    *,
    without: Iterable[Path] = (),
    bar: str = "pile",
) -> FeatureTable:
    """Read all files below a folder, one text file, or all rows of a table. Labels, if any, are ignored.

    Parameters
    ----------
    path : Path
        The folder, file or table.
    how : Reading
        What the items are. Texts get no features here.
    what : str
        What is missing if there is nothing, as in "pictures to label".
    like : FeatureTable, optional
        Examples. A column is a feature, or the text, exactly if it is that in them.
    source : Path, optional
        Where these examples are from, for messages.
    without : iterable of Path
        Files that are left out, such as examples.
    bar : str
        The name of the progress bar.
    """
    if how.kind == TEXTS and path.is_dir() and not of_files(path):
        raise ValueError(
            f"{str(path)!r} is a folder of features, not of texts: give a table, or a folder of .txt files"
        )
    if of_files(path):
        return _read_folder(path, how, what, without, bar)
    if how.kind == TEXTS and is_text_file(path):
        return read_text_files([path], strict=True).replace(paths=[path.name])
    if how.kind == TEXTS:
        label = how.table.get("label")
        label = label if label is not None and label in peek_cells(path) else None
        items = read_text_table(path, text=how.text, label=label)
        column = None if like is None or of_files(source or path) else like.source["text"]
        if column is not None and items.source["text"] != column and column in items.others:
            items = read_text_table(path, text=column, label=label)
        return items.replace(labels=None)
    if like is None:
        return read_pile_table(path, how.table)
    items = read_pile_table(path, how.table, like.columns, like.set_aside)
    check_widths(source or path, like.dimension, path, items.dimension)
    return in_order(items, like.columns, path)


def read_rows(path: Path, how: Reading) -> FeatureTable:
    """All rows of a table, with their labels if there are any. Texts get no features here."""
    if how.kind == TEXTS:
        return read_text_table(path, text=how.text, label=how.table.get("label"))
    return read(path, warn=False, **how.table)


def read_labelled_texts(path: Path, how: Reading) -> FeatureTable:
    """Read all texts of a table or a folder, with their labels: those of the table, or the first folder of a file."""
    if not of_files(path) and not is_text_file(path):
        table = read_rows(path, how)
        others = {name: cells for name, cells in table.others.items() if name != table.source.get("label")}
        return embedded(table.replace(others=others), how, how.kind)
    items = read_unlabelled(path, how, how.kind)
    names = [printable(name) for name in items.names]
    items = items.replace(labels=[first_folder(name) for name in names], paths=names, name=path.name)
    return embedded(items, how, how.kind)


def read_files(files: list[Path], how: Reading, folder: Path, bar: str) -> FeatureTable:
    """Read files, each named by its path as given: pictures with features, texts without."""
    if how.kind == TEXTS:
        return read_text_files(files, how.strict)
    net = how.backbone
    if net is None:
        return FeatureTable(np.empty((len(files), 0)), paths=[str(file) for file in files], files=files)
    from handful.backbones import embed_pictures

    if how.embedder is not None:
        embedded = how.embedder(folder, files, net, bar, how.progress, how.strict)
    else:
        embedded = embed_pictures(
            files, net, cache=how.cache, strict=how.strict, progress=lambda done, total: how.progress(bar, done, total)
        )
    source = {
        "backbone": net.name, "backbone_fingerprint": net.fingerprint, "device": getattr(net, "device", "cpu"),
    }  # fmt: skip
    return embedded.replace(files=[Path(name) for name in embedded.names], source=source, base=net.base)


def find_files(folder: Path, how: Reading, within: Path | None = None) -> tuple[list[Path], list[Any]]:
    """The pictures or texts below a folder, and what is skipped."""
    from handful.backbones import find_pictures
    from handful.backbones.texts import find_texts

    return (find_texts if how.kind == TEXTS else find_pictures)(folder, strict=how.strict, within=within)


def _read_folder(folder: Path, how: Reading, what: str, without: Iterable[Path], bar: str) -> FeatureTable:
    found, unused = find_files(folder, how)
    left_out = {path.resolve() for path in without}
    files = [file for file in found if file.resolve() not in left_out] if left_out else found
    results = {place.resolve() for place in how.results if folder.resolve() in place.resolve().parents}
    if results:
        parts = {file.parent for file in files}  # each is resolved once: there may be many thousand files
        inside = {part for part in parts if results & {part.resolve(), *part.resolve().parents}}
        files = [file for file in files if file.parent not in inside]
    items = read_files(files, how, folder, bar)
    if not len(items) and not how.lenient:
        why = ", none that could be read" if files else f" ({unused[0]})" if unused else ""
        raise ValueError(f"{str(folder)!r} holds no {what}{why}")
    return _named_below(folder, items, unused)


def _read_classes(folder: Path, how: Reading) -> FeatureTable:
    """Files in one folder for each class, `folder/<class>/...`; the folder `unknown` holds examples of no class."""
    from handful.backbones.folders import LITTER

    within = sorted(part for part in folder.iterdir() if part.name[0] != "." and part.name.lower() not in LITTER)
    if not any(part.is_dir() for part in within) and not how.lenient:
        raise ValueError(
            f"{str(folder)!r} has no folders in it: make one for each class and put a few {how.kind} of the class "
            "into it"
        )
    class_of: dict[str, str] = {}
    skipped: list[tuple[str, str]] = []
    for part in within:
        if not part.is_dir():
            skipped.append((str(part), "is beside the folders of the classes, not in one of them"))
            continue
        files, unused = find_files(part, how, within=folder)
        skipped += unused
        if not files and not how.lenient:
            why = f" ({unused[0]})" if unused else ""
            raise ValueError(
                f"{str(part)!r} holds no {how.kind}{why}: every class needs at least one example, or no folder"
            )
        class_of |= dict.fromkeys(map(str, files), class_label(class_name(part.name)))
    items = read_files([*map(Path, class_of)], how, folder, "examples")
    labels = [class_of[str(file)] for file in items.files or ()]
    if (lost := sorted(set(class_of.values()) - set(labels))) and not how.lenient:
        why = "; ".join(f"{Path(name).name}: {reason}" for name, reason in items.skipped[:3])
        raise ValueError(f"none of the {how.kind} of class {lost[0]!r} could be read ({why}): give it a good one")
    return _named_below(folder, items.replace(labels=labels), skipped)


def _named_below(folder: Path, items: FeatureTable, skipped: Sequence[tuple[str, str]]) -> FeatureTable:
    names = [str(file.relative_to(folder)) for file in items.files or ()]
    return items.replace(paths=names, skipped=[*skipped, *items.skipped])


def _read_labelled(path: Path, how: Reading) -> tuple[FeatureTable, FeatureTable | None]:
    """Examples: of a folder of classes, or the rows of a table that have a label. Then its other rows are second."""
    if of_files(path):
        return _read_classes(path, how), None
    table = read_rows(path, how)
    has_label = table.has_label
    if not has_label.any() and not how.lenient:
        column = table.source.get("label", how.table.get("label", "label"))
        where = (
            f"there is no column {shortened(column)!r}"
            if table.labels is None
            else f"column {shortened(column)!r} is blank"
        )
        others = shortened(", ".join(repr(name) for name in list(table.others)[:20] if name != column), 300)
        raise ValueError(
            f"{str(path)!r} has no row with a label ({where}): give a few rows of each class a label, or name the "
            f"column of labels with --label{f'; there are {others}' if others else ''}"
        )
    labels = [None if name is None else class_label(str(name)) for name in table.label_names]
    rest = table.take(~has_label).replace(labels=None, notes=())
    if how.kind == TEXTS and not how.lenient:  # its column "label" is blank, and the name is taken
        rest = rest.replace(others={name: cells for name, cells in rest.others.items() if name != "label"})
    return table.replace(labels=labels).take(has_label), rest


def read_pile_table(
    path: Path,
    options: TableOptions,
    columns: Sequence[str] | None = None,
    set_aside: Sequence[str] = (),
) -> FeatureTable:
    """Read all rows of a table of features as a pile. Its labels, if any, are ignored.

    columns, set_aside: those of the examples. A column is a feature in the pile exactly if it is one in the examples,
    even if its values in the pile look different.
    """
    options = dict(options)
    if (label := options.pop("label", None)) is not None:  # it is carried along and never a feature
        options["exclude"] = [*options.get("exclude", ()), escape(label)]
    table = read(path, warn=False, **options)
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
    if order is None:
        return table
    mean = None if table.base_mean is None else table.base_mean[order]
    return table.replace(features=table.features[:, order], base_mean=mean, columns=columns)


def check_widths(path: Path, width: int, more: Path, other: int) -> None:
    """Raise ValueError unless two sources have the same number of features."""
    if other != width:
        raise ValueError(
            f"{str(path)!r} has {width} features and {str(more)!r} {other}: both must come from the same backbone"
        )


def embedded(items: FeatureTable, how: Reading, bar: str) -> FeatureTable:
    """Texts with their features, if there is a backbone; other items as they are."""
    if how.kind != TEXTS or how.backbone is None:
        return items
    return embed_items(items, how.backbone, bar, how.progress, how.cache)


def class_label(name: str) -> str:
    """The label as it is used: all that say "no class" become the same, and those that say "no label" are refused."""
    if is_no_label(name):
        raise ValueError(f"no class can be called {name!r}, which means that an item has no label: give another name")
    return UNKNOWN_NAME if is_no_class(name) else name


def rows_without_text(items: FeatureTable) -> list[int]:
    """The rows that have no text, where items are texts: they are unknown, and no part of what is solved."""
    return [] if items.texts is None else [row for row, text in enumerate(items.texts) if is_blank(text)]


def _with_text(examples: FeatureTable) -> FeatureTable:
    """The examples that have a text, where items are texts. The others are listed as skipped."""
    empty = rows_without_text(examples)
    if not empty:
        return examples
    has_text = np.ones(len(examples), bool)
    has_text[empty] = False
    skipped = [*examples.skipped, *((examples.names[row], NO_TEXT) for row in empty)]
    kept = examples.take(has_text).replace(skipped=skipped)
    if lost := sorted(set(map(str, examples.label_names)) - set(map(str, kept.label_names))):
        raise ValueError(f"none of the texts of class {lost[0]!r} could be read: give it a good one")
    return kept


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
