"""Read items without a project: examples, piles and tables in Python, and items for `handful embed` and `predict`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from handful.backbones.catalogue import UNNAMED, kind_of_backbone
from handful.backbones.pictures import KNOWN_SUFFIXES
from handful.estimators.classifier import FewShotClassifier
from handful.features import FeatureTable
from handful.features.cell_table import peek_cells
from handful.features.text_table import has_features
from handful.project.items import (
    EMBEDDINGS,
    PICTURES,
    TEXTS,
    Reading,
    TableOptions,
    check_twins,
    embedded,
    find_files,
    in_order,
    is_text_file,
    kind_of,
    load_for,
    may_hold_texts,
    of_files,
    read_files,
    read_items,
    read_labelled,
    read_pile_table,
    read_rows,
    read_unlabelled,
)
from handful.utils.files import first_folder, printable


def read_examples(folder: Path, backbone: Any, **how: Any) -> FeatureTable:
    """Read examples: pictures or text files in one folder for each class, `folder/<class>/...`.

    Parameters
    ----------
    folder : Path
        The folder. Its folder `unknown` holds examples of no class.
    backbone : Backbone or TextBackbone
        What turns them into features, from `handful.backbones.load_backbone`.
    **how
        `strict`: whether a file that cannot be read is an error; `cache`: whether features are kept; `progress`: called
        with what is read, how many items are done and how many there are.

    Returns
    -------
    FeatureTable
        The examples with their labels.
    """
    reading = Reading(backbone.kind, backbone, **how)
    examples = embedded(read_labelled(folder, reading)[0], reading, "examples")
    check_twins(examples)
    return examples


def read_pile(
    folder: Path, backbone: Any, *, without: Sequence[Path] = (), what: str = "pile", **how: Any
) -> FeatureTable:
    """Read all pictures or text files below a folder as a pile.

    Parameters
    ----------
    folder : Path
        The folder.
    backbone : Backbone or TextBackbone
        What turns them into features.
    without : sequence of Path
        Files that are left out, such as examples.
    what : str
        The name of the progress bar.
    **how
        As for `read_examples`; and `results`: folders of results, which are no part of the pile.

    Returns
    -------
    FeatureTable
        The pile.
    """
    reading = Reading(backbone.kind, backbone, **how)
    return embedded(read_unlabelled(folder, reading, without=without, bar=what), reading, what)


def read_table(
    path: str | Path, more: str | Path | None = None, options: TableOptions | None = None
) -> tuple[FeatureTable, FeatureTable]:
    """Read examples and pile from a table of features: rows with a label, and rows without.

    Parameters
    ----------
    path : str or Path
        The table.
    more : str or Path, optional
        A second table. Then the first one has the examples, and all rows of the second one are the pile.
    options : mapping, optional
        Options of `features.read`.

    Returns
    -------
    examples, pile : FeatureTable
    """
    return read_items(Path(path), None if more is None else Path(more), Reading(EMBEDDINGS, table=options or {}))


def read_texts(
    examples: str | Path,
    pile: str | Path | None = None,
    backbone: Any = "",
    *,
    label: str | None = None,
    unknown: str | Path | None = None,
    **how: Any,
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
    label : str, optional
        The column of labels in tables. By default it is guessed, as is that of texts, and `notes` say so.
    unknown : str or Path, optional
        Examples of no class: a table, or a folder of text files.
    **how
        As for `read_pile`; `text`: the column of texts; `class_names`: whether the name of a class is one more example.

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
    network = backbone if getattr(backbone, "kind", "") == TEXTS else load_for(TEXTS, backbone)
    reading = Reading(TEXTS, network, {} if label is None else {"label": label}, **how)
    pile, unknown = (None if path is None else Path(path) for path in (pile, unknown))
    return read_items(Path(examples), pile, reading, unknown)


def read_labelled_texts(path: Path, how: Reading) -> FeatureTable:
    """Read all texts of a table or a folder, with their labels: those of the table, or the first folder of a file."""
    if not of_files(path) and not is_text_file(path):
        table = read_rows(path, how)
        others = {name: cells for name, cells in table.others.items() if name != table.source.get("label")}
        return embedded(table.replace(others=others), how, how.kind)
    texts = read_unlabelled(path, how, bar=how.kind)
    names = [printable(name) for name in texts.names]
    texts = texts.replace(labels=[first_folder(name) for name in names], paths=names, name=path.name)
    return embedded(texts, how, how.kind)


def read_new_items(model: FewShotClassifier, paths: Sequence[Path], how: Reading, backbone: Any = None) -> FeatureTable:
    """Items with the features that a saved model was made for, which names its backbone or its columns.

    paths: files and folders of pictures, or of texts; or one table. Files of a single folder are named by their path in
    it, others by their path as given. how: its kind and its backbone do not count. backbone: in place of the model's.
    """
    source = getattr(model, "made_from_", {})
    kind, column = _kind_of_all(paths, source, how)
    how = replace(how, kind=kind, text=column)
    if kind == EMBEDDINGS:
        columns = source.get("columns")
        return in_order(read_pile_table(paths[0], how.table, columns), columns, paths[0])
    name = backbone or source.get("backbone") or (UNNAMED if kind == PICTURES else "")
    made_of = kind_of_backbone(name) if isinstance(name, str) else None
    if made_of not in (None, kind):
        raise ValueError(f"{str(paths[0])!r} holds {kind}, but the model was made from {made_of}: give {made_of}")
    network = load_for(kind, name, source.get("backbone_options", {}))
    if source.get("backbone_fingerprint") not in (None, network.fingerprint):
        raise ValueError(f"the model was made with another backbone or version of it, {source.get('backbone')!r}")
    how = replace(how, backbone=network)
    if len(paths) == 1 and (of_files(paths[0]) or kind == TEXTS):
        return embedded(read_unlabelled(paths[0], how), how, kind)
    files: list[Path] = []
    skipped: list[tuple[str, str]] = []
    for path in paths:
        below, unused = find_files(path, how) if path.is_dir() else ([path], [])
        files += below
        skipped += unused
    items = read_files(files, how, Path(), kind)
    skipped += items.skipped
    if not len(items):
        reasons = "; ".join(f"{name!r} {reason}" for name, reason in skipped[:3])
        raise ValueError(f"there is no {how.noun} that could be read" + (f": {reasons}" if reasons else ""))
    return embedded(items.replace(skipped=skipped), how, kind)


def _kind_of_all(paths: Sequence[Path], source: Mapping[str, Any], how: Reading) -> tuple[str, str | None]:
    """What the items of all paths are, and the column of texts; ValueError if there are several kinds or tables."""
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"there is no file or folder {str(path)!r}")
    own_column = source.get("text")  # of the texts that the model was made from
    kinds = []
    for path in paths:
        if of_files(path):  # it may hold both
            kinds.append(TEXTS if own_column is not None else kind_of(path))
        else:
            is_picture = path.suffix.lower() in KNOWN_SUFFIXES and not path.is_dir()
            kinds.append(PICTURES if is_picture else kind_of(path, how.table, how.text))
    if len(paths) == 1:
        path = paths[0]
        is_table = own_column is not None and not of_files(path) and may_hold_texts(path) and not is_text_file(path)
        if is_table and not has_features(path, how.table) and own_column in peek_cells(path).columns:
            return TEXTS, how.text or own_column
        return kinds[0], how.text
    kind = next((kind for kind in (PICTURES, TEXTS) if kind in kinds), None)
    if kind is None:
        raise ValueError(
            "give pictures and folders of pictures, texts and folders of texts, or one single table of embeddings or "
            "texts"
        )
    for path, own in zip(paths, kinds, strict=True):
        if own != kind or (kind == TEXTS and not of_files(path) and not is_text_file(path)):
            raise ValueError(
                f"{str(path)!r} is not a {kind[:-1]}: give only {kind} and folders of {kind}, or one table"
            )
    return kind, how.text
