"""`handful embed`: from pictures or texts to features."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from handful.cli._app import command
from handful.cli._console import (
    CACHE_KEPT,
    PARTS_KEPT,
    Progress,
    console_for,
    print_json,
    print_lines,
    print_skipped,
    progress_bars,
    skipped_rows,
    stoppable,
)
from handful.cli._options import BackboneOptions, ClusterOptions, Json, Overwrite, ReadingOptions, TextColumn


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
    from handful.features import write
    from handful.features.files import WRITERS
    from handful.project.base_files import find_base_mean
    from handful.project.items import Reading, kind_of, load_for, read_unlabelled
    from handful.project.outputs import check_file
    from handful.project.reading import read_labelled_texts
    from handful.utils.extras import has_pyarrow

    cluster.check()
    on_cluster, of_data_set = cluster.engine == "ray", dataset.dataset is not None
    is_text = not of_data_set and pictures.exists() and kind_of(pictures, text=text) == "texts"
    _check(pictures, dataset, on_cluster, is_text, text or label, base)
    if output is None:
        output = Path("features.parquet" if has_pyarrow() else "features.npz")
    if not (on_cluster and (output.is_dir() or not output.suffix)):  # a folder of parts has checks of its own
        check_file(output, overwrite, tuple(WRITERS))
    kind, console = "texts" if is_text else "pictures", console_for(as_json)
    with (
        stoppable(console, PARTS_KEPT if on_cluster else CACHE_KEPT * reading.cache),
        progress_bars(console, kind) as progress,
    ):
        network = load_for(kind, backbone.backbone, backbone.input_options())
        how: dict[str, Any] = {"progress": progress, "strict": reading.strict, "cache": reading.cache}
        classes = None
        if not is_text:  # before the pile: if the base classes do not fit, nothing is written
            of_base = Reading(kind, network, **how)
            classes = find_base_mean(base, network, lambda folder: read_unlabelled(folder, of_base, bar="base"))
        mean = None if classes is None else classes.mean
        embedded: Any  # a table, or what is known of a folder of parts
        if on_cluster:
            from handful.backbones.embedding_on_ray import Recipe, embed_folder

            embedded = embed_folder(
                pictures, Recipe(backbone.name_for(kind), backbone.input_options()), output, network,
                size=cluster.shard_size, address=cluster.address, replace=overwrite, strict=reading.strict,
                base_mean=mean, progress=lambda done, total: progress("pile", done, total),
            )  # fmt: skip
        else:
            if of_data_set:
                embedded = _embed_data_set(pictures, dataset, network, progress)
            else:
                columns = {} if label is None else {"label": label}
                embedded = read_labelled_texts(pictures, Reading(kind, network, columns, text, **how))
            output.parent.mkdir(parents=True, exist_ok=True)
            write(embedded if is_text else embedded.replace(base_mean=mean, skipped=()), output)
    skipped = [*([] if classes is None else classes.skipped), *embedded.skipped]
    notes = [*getattr(embedded, "notes", ()), *([] if classes is None else [classes.sentence])]
    if as_json:
        print_json(
            {
                "items": len(embedded.names), "features": network.dimension,
                "text": getattr(embedded, "source", {}).get("text"), "base": None if classes is None else classes.about,
                "notes": notes, "skipped": skipped_rows(skipped), "file": str(output.resolve()),
            }
        )  # fmt: skip
        return
    count = len({*embedded.label_names} - {"", None})
    first = f"{len(embedded.names):,} {kind}, {count} labels, {network.dimension} features each: {output}"
    print_lines(console, [first, *notes])
    print_skipped(console, skipped)


def _check(
    pictures: Path, dataset: DatasetOptions, on_cluster: bool, is_text: bool, column: str | None, base: Path | None
) -> None:
    """Raise ValueError for options that do not fit the items."""
    if is_text:
        if on_cluster or base is not None or dataset.split is not None:
            raise ValueError(
                "--engine ray, --base and --split are for pictures, but the items are texts: leave them out"
            )
        return
    if column is not None:
        raise ValueError(
            "--text and --label name columns of a table of texts, but the items are pictures: leave them out"
        )
    if dataset.split is not None and dataset.dataset is None:
        raise ValueError(f"--split {dataset.split} needs a data set: name it with --dataset, or give --dataset auto")
    if dataset.dataset is not None and on_cluster:
        raise ValueError("data sets are embedded on this machine: leave out --dataset or --engine ray")
    if dataset.dataset is None and not pictures.is_dir():
        raise ValueError(
            f"{str(pictures)!r} is not a folder of pictures, nor a table of texts; a file of a data set needs --dataset"
        )


def _embed_data_set(path: Path, dataset: DatasetOptions, network: Any, progress: Progress) -> Any:
    from handful.features import FeatureTable
    from handful.training.datasets import read_pictures
    from handful.training.datasets.picture_set import embed_set

    data = read_pictures(
        path, None if dataset.dataset == "auto" else dataset.dataset,
        splits=None if dataset.split is None else [dataset.split],
        progress=lambda done, total: progress("reading", done, total),
    )  # fmt: skip
    table: FeatureTable = embed_set(data, network, lambda done, total: progress("pile", done, total))
    return table.replace(skipped=[(str(one.path), one.reason) for one in data.skipped])
