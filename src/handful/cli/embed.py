"""`handful embed`: from pictures or texts to features."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from handful.cli._app import command
from handful.cli._console import (
    CACHE_KEPT,
    PARTS_KEPT,
    Progress,
    console_for,
    print_lines,
    print_skipped,
    progress_bars,
    skipped_rows,
    stoppable,
)
from handful.cli._options import BackboneOptions, ClusterOptions, Json, Overwrite, ReadingOptions, TextColumn

if TYPE_CHECKING:
    from handful.backbones import Backbone


@dataclass(frozen=True)
class DatasetOptions:
    """Which data set, and which of its classes."""

    PANEL: ClassVar[str] = "Data sets"

    dataset: Annotated[
        str | None,
        typer.Option(
            help="PICTURES is a data set of `handful train --list-datasets`: its name, or auto: found by its files."
        ),
    ] = None
    split: Annotated[
        str | None, typer.Option(help="Only the classes of this split of the data set: base, val or novel.")
    ] = None


@dataclass(frozen=True)
class RayOptions(ClusterOptions):
    """Where the work is done, and in parts of which size."""

    shard_size: Annotated[
        int,
        typer.Option(min=1, help="With --engine ray: how many pictures a machine gets at a time; one file each."),
    ] = 256


@dataclass(frozen=True)
class Work:
    """How pictures are embedded, and where the features go."""

    output: Path
    network: Backbone
    base_mean: Any
    progress: Progress
    reading: ReadingOptions


@command()
def embed(
    pictures: Annotated[
        Path,
        typer.Argument(
            help="A folder of pictures, whose folders become labels; or a data set, see --dataset. Or texts: a table "
            "(.csv, .jsonl, .parquet), or a folder of .txt files."
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help=".parquet, .npz, .safetensors ...; with --engine ray also a folder, of Parquet parts. Default: "
            "features.parquet, or features.npz if PyArrow is not installed.",
        ),
    ] = None,
    overwrite: Overwrite = False,
    *,
    dataset: DatasetOptions,
    backbone: BackboneOptions,
    base: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel=BackboneOptions.PANEL,
            help="The classes that the backbone was trained on: a folder of pictures, a file of features, or a "
            ".base.safetensors. Their mean is stored with the features. Default: MODEL.base.safetensors, if it is "
            "beside MODEL.onnx.",
        ),
    ] = None,
    reading: ReadingOptions,
    text: TextColumn = None,
    label: Annotated[
        str | None,
        typer.Option(rich_help_panel="Tables and arrays", help="The column of labels in a table of texts."),
    ] = None,
    cluster: RayOptions,
    as_json: Json = False,
) -> None:
    """Turn pictures or texts into features, for `handful bench`, `handful label` or other programs.

    The label of a picture is the first folder below PICTURES that it is in. Pictures that are in none get the label
    "", which means unlabelled to `handful label`. The same holds for text files. A table of texts keeps its labels and
    all its other columns.

    Many published methods centre features on the mean of the base classes, the classes that the backbone was trained
    on. With --base, or with a backbone that has such a file, that mean is stored with the features and used by every
    method that needs it.

    Data sets for few-shot learning are read as they were published, pickled caches too, with their classes and splits:
    handful embed mini/ --dataset miniimagenet --split novel --backbone model.onnx -o novel.parquet

    With --engine ray the machines of a cluster share the work. All of them must see PICTURES and the output under the
    same path. Finished parts are kept: if the command is stopped, the same command continues. The cache of features is
    not used, because its file cannot be locked on a network drive.
    """
    from handful.backbones.catalogue import DEFAULT
    from handful.features.files import WRITERS
    from handful.project.base_files import find_base_mean
    from handful.project.items import kind_of, load_for, read_pile
    from handful.project.outputs import check_file
    from handful.utils.extras import has_pyarrow
    from handful.utils.files import first_folder, printable

    cluster.check()
    if output is None:
        output = Path("features.parquet" if has_pyarrow() else "features.npz")
    on_cluster = cluster.engine == "ray"
    if dataset.dataset is None and pictures.exists() and kind_of(pictures, text=text) == "texts":
        if on_cluster or base is not None or dataset.split is not None:
            raise ValueError(
                "--engine ray, --base and --split are for pictures, but the items are texts: leave them out"
            )
        check_file(output, overwrite, tuple(WRITERS))
        _embed_texts(pictures, output, text, label, backbone, reading, as_json)
        return
    if text is not None or label is not None:
        raise ValueError(
            "--text and --label name columns of a table of texts, but the items are pictures: leave them out"
        )
    backbone = replace(backbone, backbone=backbone.backbone or DEFAULT)
    _check(pictures, dataset, on_cluster)
    if not (on_cluster and _is_folder_of_parts(output)):
        check_file(output, overwrite, tuple(WRITERS))
    console = console_for(as_json)
    with (
        stoppable(console, PARTS_KEPT if on_cluster else CACHE_KEPT * reading.cache),
        progress_bars(console, "pictures") as progress,
        _base_embedder(backbone, output, cluster) as embedder,
    ):
        network = load_for("pictures", backbone.backbone, backbone.input_options())
        base_classes = find_base_mean(
            base,
            network,
            lambda folder: read_pile(
                folder, network, what="base", embedder=embedder,
                progress=progress, strict=reading.strict, cache=reading.cache,
            ),
        )  # fmt: skip
        # Before the pile: if the base classes do not fit, nothing is written
        base_mean = None if base_classes is None else base_classes.mean
        work = Work(output, network, base_mean, progress, reading)
        if on_cluster:
            embedded = _embed_on_cluster(pictures, work, backbone, cluster, overwrite)
        elif dataset.dataset is not None:
            embedded = _embed_data_set(pictures, dataset.dataset, dataset.split, work)
        else:
            embedded = _embed_folder(pictures, work)
    has_labels = getattr(embedded, "labels", None) is not None
    labels = embedded.label_names if has_labels else [first_folder(printable(name)) for name in embedded.names]
    classes = set(labels) - {"", None}
    skipped = [*([] if base_classes is None else base_classes.skipped), *embedded.skipped]
    if as_json:
        document = {
            "items": len(embedded.names), "features": network.dimension,
            "base": None if base_classes is None else base_classes.about,
            "skipped": skipped_rows(skipped), "file": str(output.resolve()),
        }  # fmt: skip
        typer.echo(json.dumps(document, indent=2))
        return
    lines = [f"{len(embedded.names):,} pictures, {len(classes)} labels, {network.dimension} features each: {output}"]
    if base_classes is not None:
        lines.append(base_classes.sentence)
    print_lines(console, lines)
    print_skipped(console, skipped)


def _embed_texts(
    path: Path,
    output: Path,
    text: str | None,
    label: str | None,
    backbone: BackboneOptions,
    reading: ReadingOptions,
    as_json: bool,
) -> None:
    from handful.features import write
    from handful.project.items import Reading, load_for, read_labelled_texts

    console = console_for(as_json)
    with stoppable(console, CACHE_KEPT * reading.cache), progress_bars(console, "texts") as progress:
        network = load_for("texts", backbone.backbone, backbone.input_options())
        columns = {} if label is None else {"label": label}
        how = Reading("texts", network, columns, text, reading.strict, reading.cache, progress=progress)
        items = read_labelled_texts(path, how)
        output.parent.mkdir(parents=True, exist_ok=True)
        write(items, output)
    if as_json:
        document = {
            "items": len(items), "features": network.dimension, "text": items.source["text"], "base": None,
            "notes": list(items.notes), "skipped": skipped_rows(items.skipped), "file": str(output.resolve()),
        }  # fmt: skip
        typer.echo(json.dumps(document, indent=2))
        return
    counts = f"{len(items):,} texts, {len(items.counts)} labels, {network.dimension} features each"
    print_lines(console, [f"{counts}: {output}", *items.notes])
    print_skipped(console, items.skipped)


def _check(pictures: Path, dataset: DatasetOptions, on_cluster: bool) -> None:
    if dataset.split is not None and dataset.dataset is None:
        raise ValueError(f"--split {dataset.split} needs a data set: name it with --dataset, or give --dataset auto")
    if dataset.dataset is not None and on_cluster:
        raise ValueError("data sets are embedded on this machine: leave out --dataset or --engine ray")
    if dataset.dataset is None and not pictures.is_dir():
        raise ValueError(
            f"{str(pictures)!r} is not a folder of pictures, nor a table of texts; a file of a data set needs --dataset"
        )


def _is_folder_of_parts(output: Path) -> bool:
    from handful.backbones.embedding_on_ray import into_parts

    return into_parts(output)


@contextmanager
def _base_embedder(backbone: BackboneOptions, output: Path, cluster: RayOptions) -> Iterator[Any]:
    """What embeds pictures of base classes on a cluster; None on this machine. Its files are removed at the end."""
    if cluster.engine != "ray":
        yield None
        return
    from shutil import rmtree

    from handful.backbones.embedding_on_ray import RayEmbedder

    parts = output.with_name(f"{output.name}.base-shards")
    recipe = _recipe(backbone)
    with RayEmbedder(recipe, parts, cluster.address, cluster.shard_size) as embedder:
        try:
            yield embedder
        except ValueError:  # an option is wrong: the same command cannot continue
            rmtree(parts, ignore_errors=True)
            raise
    rmtree(parts, ignore_errors=True)


def _recipe(backbone: BackboneOptions) -> Any:
    from handful.backbones.embedding_on_ray import Recipe

    return Recipe(backbone.name_for("pictures"), backbone.input_options())


def _embed_on_cluster(
    pictures: Path, work: Work, backbone: BackboneOptions, cluster: RayOptions, overwrite: bool
) -> Any:
    from handful.backbones.embedding_on_ray import embed_folder

    return embed_folder(
        pictures, _recipe(backbone), work.output, work.network,
        size=cluster.shard_size, address=cluster.address, replace=overwrite, strict=work.reading.strict,
        base_mean=work.base_mean, progress=lambda done, total: work.progress("pile", done, total),
    )  # fmt: skip


def _embed_data_set(path: Path, dataset: str, split: str | None, work: Work) -> Any:
    from handful.features import write
    from handful.training.datasets import read_pictures
    from handful.training.datasets.picture_set import embed_set

    data = read_pictures(
        path, None if dataset == "auto" else dataset, splits=None if split is None else [split],
        progress=lambda done, total: work.progress("reading", done, total),
    )  # fmt: skip
    features = embed_set(data, work.network, lambda done, total: work.progress("pile", done, total))
    work.output.parent.mkdir(parents=True, exist_ok=True)
    write(features.replace(base_mean=work.base_mean), work.output)
    names = [f"{label}/{i}" for i, label in enumerate(features.label_names)]
    return features.replace(paths=names, skipped=[(str(one.path), one.reason) for one in data.skipped])


def _embed_folder(pictures: Path, work: Work) -> Any:
    from handful.features import FeatureTable, write
    from handful.project import read_pile
    from handful.utils.files import first_folder, printable

    items = read_pile(
        pictures, work.network, progress=work.progress, strict=work.reading.strict, cache=work.reading.cache
    )
    names = [printable(name) for name in items.names]
    labels = list(map(first_folder, names))
    work.output.parent.mkdir(parents=True, exist_ok=True)
    write(
        FeatureTable(items.features, labels, names, name=pictures.name, base_mean=work.base_mean),
        work.output,
    )
    return items
