"""Read texts, from tables and from folders of text files, and turn them into features: a `FeatureTable` of both."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from handful.core.checks import UNKNOWN_NAME, is_no_class
from handful.features import FeatureTable, concatenate
from handful.features.cell_table import SUFFIXES, peek_cells
from handful.features.text_table import read_text_table
from handful.project.items import NO_TEXT, Progress, check_twins, class_label, is_text_file, load_for, of_files
from handful.utils.files import class_name, first_folder, printable
from handful.utils.limits import TEXT_EXPANSION, check_bytes
from handful.utils.text import counted, is_blank, shortened


def words_of(name: str) -> str:
    """The words of a class's name.

    >>> words_of("lost_or-stolen/card"), words_of("orderStatus"), words_of("ATM_fees")
    ('lost or stolen card', 'order status', 'ATM fees')
    """
    spaced = re.sub(r"[\W_]+", " ", name).strip()
    return re.sub(r"(?<=[a-z])([A-Z])(?=[a-z])", lambda match: f" {match[1].lower()}", spaced)


def with_class_names(examples: FeatureTable) -> FeatureTable:
    """Texts without features, and the name of each class as one more example of it.

    A name that is also an example, or that two classes share, adds nothing.
    """
    names = [str(name) for name in examples.classes.tolist() if not is_no_class(str(name))]
    texts = [words_of(name) for name in names]
    used = Counter([*(examples.texts or ()), *texts])
    new = [(name, text) for name, text in zip(names, texts, strict=True) if used[text] == 1 and not is_blank(text)]
    if not new:
        return examples
    rows = FeatureTable(
        np.empty((len(new), 0), np.float32), [name for name, _ in new], [f"the name {name}" for name, _ in new],
        others={column: [None] * len(new) for column in examples.others}, texts=[text for _, text in new],
    )  # fmt: skip
    note = f"The names of {len(new)} class{'es' * (len(new) > 1)} count as one example each."
    return concatenate([examples, rows]).replace(notes=[*examples.notes, note])


FILE_COLUMN = "text"  # the column of every output that holds the content of text files
MIN_LONG_CHARACTERS = 60  # a shorter text is one piece for every encoder


class TextSource(NamedTuple):
    """Where texts are read from, and how.

    text, label: columns of tables that the user named. strict: whether a file that cannot be read is an error.
    """

    text: str | None = None
    label: str | None = None
    strict: bool = False


AS_GUESSED = TextSource()


def read_texts(
    examples: str | Path,
    pile: str | Path | None = None,
    backbone: Any = "",
    *,
    text: str | None = None,
    label: str | None = None,
    unknown: str | Path | None = None,
    results: Sequence[Path] = (),
    strict: bool = False,
    cache: Any = True,
    class_names: bool = False,
    progress: Progress = lambda what, done, total: None,
) -> tuple[FeatureTable, FeatureTable]:
    r"""Read examples and a pile of texts, with features.

    Parameters
    ----------
    examples : str or Path
        A table (.csv, .tsv, .jsonl, .parquet) with labels, or a folder that holds one folder of text files for each
        class.
    pile : str or Path, optional
        A table, or a folder of text files. Without it the pile are the rows of the first table without a label.
    backbone : TextBackbone, str or callable
        What `handful.backbones.load_backbone` gives or takes; by default the default backbone for texts.
    text, label : str, optional
        The columns of texts and of labels in tables. By default they are guessed, and `notes` say so.
    unknown : str or Path, optional
        Examples of no class: a table, or a folder of text files.
    results : sequence of Path
        Folders of results: text files in them are no part of the pile.
    strict : bool
        Whether a file that cannot be read is an error. Otherwise it is skipped.
    cache : bool or FeatureCache
        As in `handful.backbones.embed_texts`.
    class_names : bool
        Whether the name of each class is one more example of it.
    progress : callable
        Called with what is read, how many are done and how many there are.

    Returns
    -------
    examples, pile : FeatureTable
        Rows without a text are no examples. They stay in the pile.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> def letters(texts):
    ...     return [[text.count(letter) for letter in "aeiou"] for text in texts]
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "t.csv").write_text("text,label\na hen,bird\nan owl,bird\na blue whale,\n")
    ...     examples, pile = read_texts(f"{folder}/t.csv", backbone=letters)
    >>> examples.label_names, pile.texts, pile.features.tolist()
    (['bird', 'bird'], ['a blue whale'], [[2.0, 2.0, 0.0, 0.0, 1.0]])
    """
    network = backbone if getattr(backbone, "kind", "") == "texts" else load_for("texts", backbone)
    source = TextSource(text, label, strict)
    pile, unknown = (None if path is None else Path(path) for path in (pile, unknown))
    shown, rest = read_sources(Path(examples), pile, source, unknown, results, class_names)
    shown = embed_items(shown, network, "examples", progress, cache)
    check_twins(shown)
    return shown, embed_items(rest, network, "pile", progress, cache)


def read_sources(
    examples: Path,
    pile: Path | None,
    source: TextSource,
    unknown: Path | None = None,
    results: Sequence[Path] = (),
    class_names: bool = False,
) -> tuple[FeatureTable, FeatureTable]:
    """Examples and pile as `read_texts` gives them, without features."""
    rest: FeatureTable | None
    if of_files(examples):
        shown, rest, column = _read_class_folders(examples, source), None, None
    else:
        shown, rest = _read_labelled(examples, source)
        column = shown.source["text"]
    files = {file.resolve() for file in shown.files or ()}
    if unknown is not None:
        more = _read_alike(unknown, source, column, "examples of no class")
        names = [f"{unknown.name}/{name}" for name in more.names]
        more = more.replace(paths=names, labels=[UNKNOWN_NAME] * len(more))
        files |= {file.resolve() for file in more.files or ()}
        skipped, notes = [*shown.skipped, *more.skipped], [*shown.notes, *more.notes]
        shown = concatenate([shown, more]).replace(skipped=skipped, notes=notes)
    shown = _with_text(shown)
    if pile is not None:
        rest = _read_alike(pile, source, column, "texts to label", without=files, results=results)
    if rest is None:
        raise ValueError("name the folder of texts to label too: handful label EXAMPLES/ PILE/")
    if not len(rest):
        raise ValueError(
            f"every row of {str(examples)!r} has a label: leave the label blank in rows that handful should label"
        )
    if all(map(is_blank, rest.texts or ())):
        raise ValueError(f"no row of {str(pile or examples)!r} that should be labelled has a text")
    return with_class_names(shown) if class_names else shown, rest


def _read_alike(path: Path, source: TextSource, column: str | None, what: str, **files: Any) -> FeatureTable:
    """Read a pile, from the column of texts that the examples have, if there is one of that name."""
    items = read_text_pile(path, source, what, **files)
    if column is None or of_files(path) or items.source["text"] == column or column not in items.others:
        return items
    return read_text_pile(path, source._replace(text=column), what)


def read_text_pile(
    path: Path,
    source: TextSource = AS_GUESSED,
    what: str = "texts",
    *,
    without: Sequence[Path] | set[Path] = (),
    results: Sequence[Path] = (),
) -> FeatureTable:
    """Read all rows of a table, all text files below a folder, or one text file. Labels, if any, are ignored.

    what: what is missing if there is no text. without: files that are examples. results: folders of results.
    """
    if path.is_dir() and not of_files(path):
        raise ValueError(
            f"{str(path)!r} is a folder of features, not of texts: give a table, or a folder of .txt files"
        )
    if of_files(path) or is_text_file(path):
        return _read_folder(path, source, what, set(without), results)
    label = source.label if source.label is not None and source.label in peek_cells(path).columns else None
    return read_text_table(path, text=source.text, label=label).replace(labels=None)


def read_labelled_texts(path: Path, source: TextSource = AS_GUESSED) -> FeatureTable:
    """Read all texts of a table or a folder, with their labels: those of the table, or the first folder of a file."""
    if not of_files(path) and not is_text_file(path):
        table = read_text_table(path, text=source.text, label=source.label)
        others = {name: cells for name, cells in table.others.items() if name != table.source.get("label")}
        return table.replace(others=others)
    items = read_text_pile(path, source)
    names = [printable(name) for name in items.names]
    return items.replace(labels=[first_folder(name) for name in names], paths=names, name=path.name)


def may_hold_texts(path: Path) -> bool:
    """Whether texts are read from such a path: a folder of files, a text file, or a table with a known suffix."""
    return of_files(path) or is_text_file(path) or (path.is_file() and path.suffix.lower() in SUFFIXES)


def read_text_files(paths: Sequence[Path], strict: bool = False) -> FeatureTable:
    """Read text files; each is named by its path as given."""
    from handful.backbones.texts import BadText, read_text

    files: list[Path] = []
    texts: list[str] = []
    skipped: list[tuple[str, str]] = []
    problems: list[tuple[Path, str]] = []
    size = 0
    for path in paths:
        try:
            text, problem = read_text(path)
        except BadText as error:
            if strict:
                raise
            skipped.append((error.path, error.reason))
            continue
        size += len(text)
        check_bytes(TEXT_EXPANSION * size, "the texts")
        files.append(path)
        texts.append(text)
        if problem:
            problems.append((path, problem))
    notes = []
    if problems:
        path, problem = problems[0]
        others = f"; so {counted(len(problems) - 1, 'other file')}" if len(problems) > 1 else ""
        notes.append(f"{shortened(path.name)}: {problem}{others}.")
    return FeatureTable(
        np.empty((len(files), 0), np.float32), paths=[str(file) for file in files], others={FILE_COLUMN: texts},
        files=files, texts=texts, skipped=skipped, notes=notes, source={"text": FILE_COLUMN},
    )  # fmt: skip


def embed_items(items: FeatureTable, backbone: Any, what: str, progress: Progress, cache: Any = True) -> FeatureTable:
    """The same items with features. A row without a text gets zeros: it is never solved for.

    what: the name of the progress bar. A note says how many texts were cut into pieces.
    """
    from handful.backbones import embed_texts

    texts = list(items.texts or ())
    rows = [row for row, text in enumerate(texts) if not is_blank(text)]
    chosen = [texts[row] for row in rows]
    embedded = embed_texts(chosen, backbone, cache=cache, progress=lambda done, total: progress(what, done, total))
    features = np.zeros((len(items), backbone.dimension), np.float32)
    features[rows] = embedded.features
    hashes = [""] * len(items)
    for row, content in zip(rows, embedded.hashes or (), strict=True):
        hashes[row] = content
    pieces = backbone.count_pieces([text for text in chosen if len(text) > MIN_LONG_CHARACTERS])
    notes = list(items.notes)
    if count := int((pieces > 1).sum()):
        are = "texts of the {} are long: they were" if count > 1 else "text of the {} is long: it was"
        notes.append(f"{count:,} {are.format(what)} cut into pieces, whose features are averaged.")
    source = {"backbone": backbone.name, "backbone_fingerprint": backbone.fingerprint or None}
    return items.replace(
        features=features, hashes=hashes, notes=notes, source={**items.source, **source}, base=backbone.base
    )


def _read_class_folders(folder: Path, source: TextSource) -> FeatureTable:
    """Text files in one folder for each class; `unknown` holds those of no class."""
    from handful.backbones.folders import LITTER
    from handful.backbones.texts import find_texts

    within = sorted(part for part in folder.iterdir() if part.name[0] != "." and part.name.lower() not in LITTER)
    if not any(part.is_dir() for part in within):
        raise ValueError(
            f"{str(folder)!r} has no folders in it: make one for each class and put a few texts of the class into it"
        )
    files: list[Path] = []
    labels: dict[Path, str] = {}
    skipped: list[tuple[str, str]] = []
    for part in within:
        if not part.is_dir():
            skipped.append((str(part), "is beside the folders of the classes, not in one of them"))
            continue
        texts, unused = find_texts(part, strict=source.strict, within=folder)
        skipped += unused
        if not texts:
            why = f" ({unused[0]})" if unused else ""
            raise ValueError(f"{str(part)!r} holds no texts{why}: every class needs at least one example, or no folder")
        files += texts
        labels |= dict.fromkeys(texts, class_label(class_name(part.name)))
    items = read_text_files(files, source.strict)
    read = list(items.files or ())
    return items.replace(
        labels=[labels[file] for file in read], paths=[str(file.relative_to(folder)) for file in read],
        skipped=[*skipped, *items.skipped],
    )  # fmt: skip


def _read_labelled(path: Path, source: TextSource) -> tuple[FeatureTable, FeatureTable]:
    """The rows of a table that have a label, and the others."""
    table = read_text_table(path, text=source.text, label=source.label)
    has_label = table.has_label
    if not has_label.any():
        column = table.source.get("label")
        where = "there is no column 'label'" if column is None else f"column {shortened(column)!r} is blank"
        names = ", ".join(map(repr, list(table.others)[:20]))
        raise ValueError(
            f"{str(path)!r} has no row with a label ({where}): give a few rows of each class a label, or name the "
            f"column of labels with --label; there are {shortened(names, 300)}"
        )
    labels = [None if name is None else class_label(name) for name in table.label_names]
    examples = table.replace(labels=labels).take(has_label)
    rest = table.take(~has_label).replace(labels=None, notes=())
    others = {name: cells for name, cells in rest.others.items() if name != "label"}  # blank, and the name is taken
    return examples, rest.replace(others=others)


def _read_folder(
    path: Path, source: TextSource, what: str, without: set[Path], results: Sequence[Path]
) -> FeatureTable:
    from handful.backbones.texts import find_texts

    if not path.is_dir():
        return read_text_files([path], strict=True).replace(paths=[path.name])
    files, unused = find_texts(path, strict=source.strict)
    files = [file for file in files if file.resolve() not in without]
    within = {place.resolve() for place in results if path.resolve() in place.resolve().parents}
    if within:
        files = [file for file in files if within.isdisjoint((file.parent.resolve() / file.name).parents)]
    items = read_text_files(files, source.strict)
    if not len(items):
        why = ", none that could be read" if files else f" ({unused[0]})" if unused else ""
        raise ValueError(f"{str(path)!r} holds no {what}{why}")
    names = [str(file.relative_to(path)) for file in items.files or ()]
    return items.replace(paths=names, skipped=[*unused, *items.skipped])


def _with_text(examples: FeatureTable) -> FeatureTable:
    """The examples that have a text. The others are listed as skipped."""
    has_text = np.array([not is_blank(text) for text in examples.texts or ()], bool)
    skipped = [(name, NO_TEXT) for name, there in zip(examples.names, has_text.tolist(), strict=True) if not there]
    kept = examples.take(has_text).replace(skipped=[*examples.skipped, *skipped])
    if lost := sorted(set(map(str, examples.label_names)) - set(map(str, kept.label_names))):
        raise ValueError(f"none of the texts of class {lost[0]!r} could be read: give it a good one")
    return kept
