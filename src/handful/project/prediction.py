"""Read new items for a saved model: files of pictures or texts, folders of them, or a table."""

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
    embedded,
    find_files,
    in_order,
    is_text_file,
    kind_of,
    load_for,
    may_hold_texts,
    of_files,
    read_files,
    read_pile_table,
    read_unlabelled,
)


def read_new_items(model: FewShotClassifier, paths: Sequence[Path], how: Reading, backbone: Any = None) -> FeatureTable:
    """Items with the features that a saved model was made for.

    Parameters
    ----------
    model : FewShotClassifier
        It names the backbone of its features, or the columns of a table.
    paths : sequence of Path
        Pictures and folders of pictures; text files and folders of them; or one table, of texts or of embeddings.
    how : Reading
        How they are read; its kind and its backbone do not count.
    backbone : str or callable, optional
        What `load_backbone` takes, if it is not the backbone that the model names.

    Returns
    -------
    FeatureTable
        Files of a single folder are named by their path in it, others by their path as given.
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
        return embedded(read_unlabelled(paths[0], how, kind), how, kind)
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
