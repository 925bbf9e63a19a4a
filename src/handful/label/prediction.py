"""Read new items for a saved model: picture files, folders of pictures, or a table of embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from handful.estimators.classifier import FewShotClassifier
from handful.features import FeatureTable
from handful.label.items import Progress, TableOptions, in_order, of_pictures, read_pile, read_pile_table


def read_new_items(
    model: FewShotClassifier,
    paths: Sequence[Path],
    *,
    backbone: str | None = None,
    progress: Progress = lambda what, done, total: None,
    strict: bool = False,
    cache: Any = True,
    table: TableOptions | None = None,
) -> FeatureTable:
    """Items with the features that a saved model was made for.

    Parameters
    ----------
    model : FewShotClassifier
        It names the backbone of its features, or the columns of a table.
    paths : sequence of Path
        Pictures and folders of pictures; or one table of embeddings.
    backbone : str, optional
        The name or .onnx file of the backbone, if it is not the one that the model names.
    progress : callable
        Called with what is read, how many are done and how many there are.
    strict : bool
        Whether a picture that cannot be read is an error. Otherwise it is skipped.
    cache : bool or FeatureCache
        As in `handful.backbones.embed_pictures`.
    table : mapping, optional
        The options of `handful.features.read`, for a table.

    Returns
    -------
    FeatureTable
        Pictures of a single folder are named by their path in it, others by their path as given.
    """
    source = getattr(model, "made_from_", {})
    if not any(map(is_picture_path, paths)):
        if len(paths) != 1:
            raise ValueError("give pictures and folders of pictures, or one single table of embeddings")
        columns = source.get("columns")
        return in_order(read_pile_table(paths[0], columns, table), columns, paths[0])
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"there is no file or folder {str(path)!r}")
        if not is_picture_path(path):
            raise ValueError(
                f"{str(path)!r} is not a picture: give only pictures and folders of pictures, or one table"
            )
    from handful.backbones import load_backbone

    name = backbone or source.get("backbone", "efficientnet_lite0")
    network = load_backbone(name, **source.get("backbone_options", {}))
    if source.get("backbone_fingerprint") not in (None, network.fingerprint):
        raise ValueError(f"the model was made with another backbone or version of it, {source.get('backbone')!r}")
    if len(paths) == 1 and of_pictures(paths[0]):
        return read_pile(paths[0], network, progress=progress, strict=strict, cache=cache)
    return _read_pictures(paths, network, progress, strict, cache)


def is_picture_path(path: Path) -> bool:
    """Whether it is a folder of pictures, or has the suffix of a picture."""
    from handful.backbones.pictures import KNOWN_SUFFIXES

    return of_pictures(path) or (path.suffix.lower() in KNOWN_SUFFIXES and not path.is_dir())


def _read_pictures(paths: Sequence[Path], network: Any, progress: Progress, strict: bool, cache: Any) -> FeatureTable:
    from handful.backbones import embed_pictures, find_pictures

    files: list[Path] = []
    skipped: list[tuple[str, str]] = []
    for path in paths:
        if path.is_dir():
            below, unused = find_pictures(path, strict=strict)
            files += below
            skipped += unused
        else:
            files.append(path)
    embedded = embed_pictures(
        files, network, cache=cache, strict=strict, progress=lambda done, total: progress("pictures", done, total)
    )
    skipped += embedded.skipped
    if not len(embedded):
        reasons = "; ".join(f"{name!r} {reason}" for name, reason in skipped[:3])
        raise ValueError("there is no picture that could be read" + (f": {reasons}" if reasons else ""))
    return embedded.replace(files=[Path(name) for name in embedded.names], skipped=skipped)
