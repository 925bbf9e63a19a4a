"""Read items: folders of pictures or of texts, tables of texts or of embeddings. All become a `FeatureTable`."""

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
from handful.utils.files import class_name
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
    """How items are read."""

    kind: str  # pictures, texts or embeddings
    backbone: Any = None  # what turns pictures or texts into features
    table: TableOptions = field(default_factory=dict)  # for tables; of tables of texts only "label" counts
    text: str | None = None  # the column of texts
    strict: bool = False  # whether a file that cannot be read is an error; otherwise it is skipped
    cache: Any = True  # whether features are kept, or the `FeatureCache` that keeps them
    results: Sequence[Path] = ()  # folders of results: files in them are no part of a pile
    class_names: bool = False  # whether the name of each class is one more example of it, where items are texts
    lenient: bool = False  # whether examples and pile may be empty, as in the workbench, where both are added later
    embedder: Embedder | None = None  # embeds the pictures in place of this process
    progress: Progress = silent

    @property
    def noun(self) -> str:
        """What one item is called."""
        return self.kind[:-1]


# ---- what a path holds


def kind_of(path: Path, options: TableOptions | None = None, text: str | None = None) -> str:
    """What a path holds: "pictures", "texts", or "embeddings". A folder with pictures and texts holds pictures."""
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
    """Load a backbone ("": the default) for "pictures" or "texts"; ValueError if it is for the other kind."""
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


def read_both(
    examples: Path, pile: Path | None, how: Reading, unknown: Path | None = None
) -> tuple[FeatureTable, FeatureTable]:
    """Read examples, also those of no class (`unknown`), and a pile; rows without a text are no examples."""
    if examples == pile:
        items = embedded(read_unlabelled(pile, how), how, "pile")
        return items.take([]).replace(labels=[], skipped=(), notes=()), items
    shown, rest = read_labelled(examples, how, unknown)
    if pile is not None:
        folders = [place for place in (examples, unknown) if place is not None and of_files(place)]
        of_pile = replace(how, results=[*how.results, *folders])
        rest = read_unlabelled(pile, of_pile, (examples, shown), without=shown.files or ())
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
    """Read examples, also of no class; for a table its rows without a label are second. Texts get no features here."""
    shown, rest = (_read_classes(path, how), None) if of_files(path) else _read_table(path, how)
    if unknown is not None:
        more = read_unlabelled(unknown, how, (path, shown), bar=UNKNOWN_NAME)
        names = [f"{unknown.name}/{name}" for name in more.names]
        more = more.replace(labels=[UNKNOWN_NAME] * len(more), paths=names)
        skipped, notes = [*shown.skipped, *more.skipped], [*shown.notes, *more.notes]
        shown = concatenate([shown, more]).replace(skipped=skipped, notes=notes)
    empty = [] if how.lenient else rows_without_text(shown)
    if not empty:
        return shown, rest
    kept = shown.take(np.setdiff1d(range(len(shown)), empty))
    if lost := sorted(set(map(str, shown.label_names)) - set(map(str, kept.label_names))):
        raise ValueError(f"none of the texts of class {lost[0]!r} could be read: give it a good one")
    return kept.replace(skipped=[*shown.skipped, *((shown.names[row], NO_TEXT) for row in empty)]), rest


def read_unlabelled(
    path: Path,
    how: Reading,
    like: tuple[Path, FeatureTable] | None = None,
    *,
    without: Iterable[Path] = (),
    bar: str = "pile",
) -> FeatureTable:
    """Read a folder, one text file or a table as a pile. like: examples, whose columns and text column count here."""
    if of_files(path):
        return _read_folder(path, how, without, bar)
    if how.kind != TEXTS:
        if like is None:
            return read_pile_table(path, how.table)
        source, examples = like
        items = read_pile_table(path, how.table, examples.columns, examples.set_aside)
        check_widths(source, examples.dimension, path, items.dimension)
        return in_order(items, examples.columns, path)
    if path.is_dir():
        raise ValueError(
            f"{str(path)!r} is a folder of features, not of texts: give a table, or a folder of .txt files"
        )
    if is_text_file(path):
        return read_text_files([path], strict=True).replace(paths=[path.name])
    label = how.table.get("label")
    label = label if label is not None and label in peek_cells(path) else None
    items = read_text_table(path, text=how.text, label=label)
    column = None if like is None or of_files(like[0]) else like[1].source["text"]
    if column is not None and items.source["text"] != column and column in items.others:
        items = read_text_table(path, text=column, label=label)
    return items.replace(labels=None)


def read_rows(path: Path, how: Reading) -> FeatureTable:
    """All rows of a table, with their labels if there are any. Texts get no features here."""
    if how.kind == TEXTS:
        return read_text_table(path, text=how.text, label=how.table.get("label"))
    return read(path, warn=False, **how.table)


def read_files(files: list[Path], how: Reading, folder: Path, bar: str) -> FeatureTable:
    """Read files, each named by its path as given: pictures with features, texts without."""
    if how.kind == TEXTS:
        return read_text_files(files, how.strict)
    net = how.backbone
    if net is None:
        return FeatureTable(np.empty((len(files), 0)), paths=[str(file) for file in files], files=files)
    from handful.backbones import embed_pictures

    if how.embedder is not None:
        items = how.embedder(folder, files, net, bar, how.progress, how.strict)
    else:
        items = embed_pictures(
            files, net, cache=how.cache, strict=how.strict, progress=lambda done, total: how.progress(bar, done, total)
        )
    source = {"backbone": net.name, "backbone_fingerprint": net.fingerprint, "device": getattr(net, "device", "cpu")}
    return items.replace(files=[Path(name) for name in items.names], source=source, base=net.base)


def find_files(folder: Path, how: Reading, within: Path | None = None) -> tuple[list[Path], list[Any]]:
    """The pictures or texts below a folder, and what is skipped."""
    from handful.backbones import find_pictures
    from handful.backbones.texts import find_texts

    return (find_texts if how.kind == TEXTS else find_pictures)(folder, strict=how.strict, within=within)


def _read_folder(folder: Path, how: Reading, without: Iterable[Path], bar: str) -> FeatureTable:
    files, unused = find_files(folder, how)
    if left_out := {path.resolve() for path in without}:
        files = [file for file in files if file.resolve() not in left_out]
    if results := {place.resolve() for place in how.results if folder.resolve() in place.resolve().parents}:
        parts = {file.parent for file in files}  # each is resolved once: there may be many thousand files
        inside = {part for part in parts if results & {part.resolve(), *part.resolve().parents}}
        files = [file for file in files if file.parent not in inside]
    items = read_files(files, how, folder, bar)
    if not len(items) and not how.lenient:
        what = f"{how.kind} to label" if bar == "pile" else how.kind
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


def _read_table(path: Path, how: Reading) -> tuple[FeatureTable, FeatureTable]:
    """The rows of a table that have a label, and the others."""
    table = read_rows(path, how)
    has_label = table.has_label
    if not has_label.any() and not how.lenient:
        column = table.source.get("label", how.table.get("label", "label"))
        name = f"column {shortened(column)!r}"
        where = f"there is no {name}" if table.labels is None else f"{name} is blank"
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
    path: Path, options: TableOptions, columns: Sequence[str] | None = None, set_aside: Sequence[str] = ()
) -> FeatureTable:
    """Read a table of features as a pile: a column is a feature in it exactly if it is one in the examples."""
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
    return [row for row, text in enumerate(items.texts or ()) if is_blank(text)]


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
