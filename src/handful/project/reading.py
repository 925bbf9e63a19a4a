"""Read items without a project: in Python, and for `handful embed` and `handful predict`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from handful.backbones.catalogue import UNNAMED, kind_of_backbone
from handful.backbones.pictures import KNOWN_SUFFIXES
from handful.estimators.classifier import FewShotClassifier
from handful.features import FeatureTable
from handful.features.text_table import has_features, peek_cells
from handful.project.items import (
    EMBEDDINGS,
    PICTURES,
    TEXTS,
    Reading,
    embedded,
    find_files,
    in_order,
    is_text_file,
    kind_of,
    load_for,
    may_hold_texts,
    of_files,
    read_both,
    read_files,
    read_pile_table,
    read_rows,
    read_unlabelled,
)
from handful.utils.files import first_folder, printable


def read_items(
    examples: str | Path,
    pile: str | Path | None = None,
    backbone: Any = "",
    *,
    unknown: str | Path | None = None,
    **how: Any,
) -> tuple[FeatureTable, FeatureTable]:
    r"""Read examples and a pile: pictures, texts or embeddings. Pictures and texts get features.

    Parameters
    ----------
    examples : str or Path
        A folder with a folder of pictures or of text files for each class (its folder `unknown` holds examples of no
        class), or a table whose labels are those of examples.
    pile : str or Path, optional
        A folder, or a table. Without it the pile are the rows of the first table that have no label.
    backbone : str, callable or Backbone
        What `handful.backbones.load_backbone` takes or gives; by default the default backbone for these items.
    unknown : str or Path, optional
        Examples of no class: a folder, or a table.
    **how
        For tables `label`, `embedding`, `columns` and `exclude`, as for `handful.features.read`, and `text`, the column
        of texts. `class_names`: whether the name of a class is one more example of it, where items are texts. `strict`:
        whether a file that cannot be read is an error. `cache`: whether features are kept. `results`: folders of
        results, which are no part of the pile. `progress`: called with what is read, how many are done and of how many.

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
    ...     examples, pile = read_items(f"{folder}/t.csv", backbone=letters)
    >>> examples.label_names, pile.texts, pile.features.tolist()
    (['bird', 'bird'], ['a blue whale'], [[2.0, 2.0, 0.0, 0.0, 1.0]])
    """
    options: list[str] = ["label", "embedding", "columns", "exclude"]
    table = {name: how.pop(name) for name in options if name in how}
    shown, rest, no_class = (None if path is None else Path(path) for path in (examples, pile, unknown))
    assert shown is not None
    kind = kind_of(shown, table, how.get("text"))
    if kind != EMBEDDINGS and not hasattr(backbone, "kind"):
        backbone = load_for(kind, backbone)
    return read_both(shown, rest, Reading(kind, backbone, table, **how), no_class)


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
    """Files and folders, or one table, with the features that a saved model was made for."""
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
    is_file = may_hold_texts(path) and not of_files(path) and not is_text_file(path)
    if len(paths) == 1 and is_file and not has_features(path, how.table) and own_column in peek_cells(path):
        return TEXTS, how.text or own_column
    kinds = []
    for path in paths:
        if of_files(path):  # it may hold both
            kinds.append(TEXTS if own_column is not None else kind_of(path))
        else:
            is_picture = path.suffix.lower() in KNOWN_SUFFIXES and not path.is_dir()
            kinds.append(PICTURES if is_picture else kind_of(path, how.table, how.text))
    if len(paths) == 1:
        return kinds[0], how.text
    kind = TEXTS if TEXTS in kinds and PICTURES not in kinds else PICTURES
    for path, own in zip(paths, kinds, strict=True):
        if own != kind or (kind == TEXTS and not of_files(path) and not is_text_file(path)):
            raise ValueError(
                f"{str(path)!r} is not a {kind[:-1]}: give pictures, texts or folders of them, all of one kind, or "
                "one single table of embeddings or texts"
            )
    return kind, how.text
