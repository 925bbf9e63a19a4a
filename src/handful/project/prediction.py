"""Read new items for a saved model: files of pictures or texts, folders of them, or a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from handful.backbones import embed_pictures, find_pictures
from handful.backbones.catalogue import UNNAMED, kind_of_backbone
from handful.backbones.pictures import KNOWN_SUFFIXES
from handful.backbones.texts import find_texts
from handful.estimators.classifier import FewShotClassifier
from handful.features import FeatureTable
from handful.features.cell_table import peek_cells
from handful.features.text_table import has_features
from handful.project.items import (
    Progress,
    TableOptions,
    in_order,
    is_text_file,
    kind_of,
    load_for,
    of_files,
    of_pictures,
    read_pile,
    read_pile_table,
)
from handful.project.text_items import TextSource, embed_items, may_hold_texts, read_text_files, read_text_pile


def read_new_items(
    model: FewShotClassifier,
    paths: Sequence[Path],
    *,
    backbone: Any = None,
    progress: Progress = lambda what, done, total: None,
    strict: bool = False,
    cache: Any = True,
    table: TableOptions | None = None,
    text: str | None = None,
) -> FeatureTable:
    """Items with the features that a saved model was made for.

    Parameters
    ----------
    model : FewShotClassifier
        It names the backbone of its features, or the columns of a table.
    paths : sequence of Path
        Pictures and folders of pictures; text files and folders of them; or one table, of texts or of embeddings.
    backbone : str or callable, optional
        What `load_backbone` takes, if it is not the backbone that the model names.
    progress : callable
        Called with what is read, how many are done and how many there are.
    strict : bool
        Whether a file that cannot be read is an error. Otherwise it is skipped.
    cache : bool or FeatureCache
        As in `handful.backbones.embed_pictures`.
    table : mapping, optional
        The options of `handful.features.read`, for a table.
    text : str, optional
        The column of texts in a table.

    Returns
    -------
    FeatureTable
        Files of a single folder are named by their path in it, others by their path as given.
    """
    source = getattr(model, "made_from_", {})
    kind = _kind_of_all(paths, source, table, text)
    if kind == "embeddings":
        columns = source.get("columns")
        return in_order(read_pile_table(paths[0], columns, table), columns, paths[0])
    name = backbone or source.get("backbone") or (UNNAMED if kind == "pictures" else "")
    made_of = kind_of_backbone(name) if isinstance(name, str) else None
    if made_of not in (None, kind):
        raise ValueError(f"{str(paths[0])!r} holds {kind}, but the model was made from {made_of}: give {made_of}")
    network = load_for(kind, name, source.get("backbone_options", {}))
    if source.get("backbone_fingerprint") not in (None, network.fingerprint):
        raise ValueError(f"the model was made with another backbone or version of it, {source.get('backbone')!r}")
    if kind == "texts":
        items = _read_texts(paths, source, strict, table, text)
        return embed_items(items, network, "texts", progress, cache)
    if len(paths) == 1 and of_files(paths[0]):
        return read_pile(paths[0], network, progress=progress, strict=strict, cache=cache)
    return _read_pictures(paths, network, progress, strict, cache)


def _kind_of_all(paths: Sequence[Path], source: Mapping[str, Any], table: TableOptions | None, text: str | None) -> str:
    """What the items of all paths are; ValueError if they are of several kinds, or in several tables."""
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"there is no file or folder {str(path)!r}")
    is_of_texts = "text" in source  # a folder may hold both
    kinds = ["texts" if is_of_texts and of_files(path) else _kind_of_one(path, table, text) for path in paths]
    if len(paths) == 1:
        return "texts" if _has_column(paths[0], source.get("text"), table) else kinds[0]
    for kind, is_one in (("pictures", is_picture_path), ("texts", is_text_file)):
        if kind not in kinds:
            continue
        for path, own in zip(paths, kinds, strict=True):
            if own != kind or not (of_files(path) or is_one(path)):
                raise ValueError(
                    f"{str(path)!r} is not a {kind[:-1]}: give only {kind} and folders of {kind}, or one table"
                )
        return kind
    raise ValueError(
        "give pictures and folders of pictures, texts and folders of texts, or one single table of embeddings or texts"
    )


def _kind_of_one(path: Path, table: TableOptions | None, text: str | None) -> str:
    return "pictures" if is_picture_path(path) else kind_of(path, table, text)


def _has_column(path: Path, column: str | None, table: TableOptions | None) -> bool:
    """Whether a table has the column of texts that a model was made from, and no features."""
    if column is None or of_files(path) or not may_hold_texts(path) or is_text_file(path):
        return False
    return not has_features(path, table) and column in peek_cells(path).columns


def _read_texts(
    paths: Sequence[Path], source: Mapping[str, Any], strict: bool, table: TableOptions | None, text: str | None
) -> FeatureTable:
    if len(paths) == 1:
        path, label = paths[0], (table or {}).get("label")
        column = source.get("text") if text is None and _has_column(path, source.get("text"), table) else text
        return read_text_pile(path, TextSource(column, label, strict), "texts")
    files, skipped = _files_of(paths, find_texts, strict)
    items = read_text_files(files, strict)
    if not len(items):
        raise ValueError("there is no text that could be read")
    return items.replace(skipped=[*skipped, *items.skipped])


def _files_of(
    paths: Sequence[Path], find: Callable[..., Any], strict: bool
) -> tuple[list[Path], list[tuple[str, str]]]:
    """The files, and those that `find` finds below the folders; and what is skipped."""
    files: list[Path] = []
    skipped: list[tuple[str, str]] = []
    for path in paths:
        below, unused = find(path, strict=strict) if path.is_dir() else ([path], ())
        files += below
        skipped += unused
    return files, skipped


def is_picture_path(path: Path) -> bool:
    """Whether it is a folder of pictures, or has the suffix of a picture."""
    return of_pictures(path) or (path.suffix.lower() in KNOWN_SUFFIXES and not path.is_dir())


def _read_pictures(paths: Sequence[Path], network: Any, progress: Progress, strict: bool, cache: Any) -> FeatureTable:
    files, skipped = _files_of(paths, find_pictures, strict)
    embedded = embed_pictures(
        files, network, cache=cache, strict=strict, progress=lambda done, total: progress("pictures", done, total)
    )
    skipped += embedded.skipped
    if not len(embedded):
        reasons = "; ".join(f"{name!r} {reason}" for name, reason in skipped[:3])
        raise ValueError("there is no picture that could be read" + (f": {reasons}" if reasons else ""))
    return embedded.replace(files=[Path(name) for name in embedded.names], skipped=skipped)
