"""From pictures to features: embed, backbones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from handful.cli._shared import (
    REMEMBERED,
    SHARDS_KEPT,
    Address,
    Backbone,
    Engine,
    Json,
    Mean,
    NoCache,
    Overwrite,
    ShardSize,
    Size,
    Std,
    Strict,
    app,
    as_rows,
    bars,
    check_engine,
    console_for,
    numbers,
    say_skipped,
    stoppable,
)

if TYPE_CHECKING:
    from handful.cluster.embedding import Sharded
    from handful.cluster.embedding_part import Recipe
    from handful.features import FeatureTable


@app.command()
def embed(
    pictures: Annotated[
        Path, typer.Argument(help="A folder of pictures, folders in it become labels; or a data set, see --dataset.")
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help=".parquet, .npz, .safetensors ...; with --engine ray also a folder, of Parquet parts.",
        ),
    ] = Path("features.parquet"),
    dataset: Annotated[
        str | None,
        typer.Option(help="PICTURES is a data set, see `handful datasets`: which, or auto: what it looks like."),
    ] = None,
    split: Annotated[str | None, typer.Option(help="Of the data set only these classes: base, val or novel.")] = None,
    backbone: Backbone = "efficientnet_lite0",
    size: Size = None,
    mean: Mean = None,
    std: Std = None,
    base: Annotated[
        Path | None,
        typer.Option(
            help="The classes that the backbone was trained on, or others that are to be told from: a folder of "
            "pictures, a file of features, or a .base.safetensors. Their mean is stored with the features. Default: "
            "MODEL.base.safetensors, if it lies beside MODEL.onnx."
        ),
    ] = None,
    overwrite: Overwrite = False,
    strict: Strict = False,
    no_cache: NoCache = False,
    engine: Engine = "local",
    address: Address = None,
    shard_size: ShardSize = 256,
    as_json: Json = False,
) -> None:
    """Turn pictures into features, for `handful bench`, `handful label` or anything else.

    A picture's label is the first folder it lies in, below PICTURES; those that lie in none are labelled "", which
    means unlabelled to `handful label`.

    Many published methods centre features on the mean of the base classes, those the backbone was trained on. With
    --base, or a backbone that brings it, that mean is kept in the file and used wherever a method asks for it.

    Data sets of few-shot learning are read as they are published, pickled caches too, with their classes and splits:
    handful embed mini/ --dataset miniimagenet --split novel --backbone model.onnx -o novel.parquet

    With --engine ray the machines of a cluster share the work. PICTURES and the output must be under the same path on
    all of them. Parts that are done are kept, so that the same command goes on where it was stopped; the cache of
    features is not used, as its file cannot be locked on a network drive.
    """
    from handful.backbones import load_backbone
    from handful.cluster.embedding import embed_folder, into_parts
    from handful.cluster.embedding_part import Recipe
    from handful.features import FeatureTable
    from handful.features.files import WRITERS
    from handful.label.base_files import find_base_mean
    from handful.label.items import read_pile
    from handful.label.outputs import check_file
    from handful.utils.files import first_folder, printable

    console = console_for(as_json)
    check_engine(engine, address)
    if split is not None and dataset is None:
        raise ValueError(f"--split {split} is of a data set: say which with --dataset, or --dataset auto")
    if dataset is not None and engine == "ray":
        raise ValueError("data sets are embedded on this machine: leave out --dataset or --engine ray")
    if dataset is None and not pictures.is_dir():
        raise ValueError(f"{str(pictures)!r} is not a folder of pictures; a file of a data set needs --dataset")
    if engine != "ray" or not into_parts(output):
        check_file(output, overwrite, tuple(WRITERS))
    options = numbers(size=size, mean=mean, std=std)
    found: FeatureTable | Sharded
    kept = SHARDS_KEPT if engine == "ray" else REMEMBERED * (not no_cache)
    recipe = Recipe(backbone, options)
    with (
        stoppable(console, kept),
        bars(console, "pictures") as progress,
        _base_embedder(recipe, output, engine, address, shard_size) as embedder,
    ):
        net = load_backbone(backbone, **options)
        how: dict[str, Any] = {"progress": progress, "strict": strict, "cache": not no_cache}
        known = find_base_mean(
            base, net, lambda folder: read_pile(folder, net, what="base", embedder=embedder, **how)
        )  # before the rest: if it does not fit, nothing is written
        base_mean = None if known is None else known.mean
        if engine == "ray":
            found = embed_folder(
                pictures, recipe, output, net, size=shard_size, address=address, replace=overwrite, strict=strict,
                base_mean=base_mean, progress=lambda done, total: progress("pile", done, total),
            )  # fmt: skip
        elif dataset is not None:
            found = _embed_set(pictures, dataset, split, output, net, base_mean, progress)
        else:
            found = _embed_here(pictures, output, net, base_mean, how)
    own = found.label_names if isinstance(found, FeatureTable) and found.labels is not None else None
    labels = set(own or [first_folder(printable(name)) for name in found.names]) - {"", None}
    skipped = [*([] if known is None else known.skipped), *found.skipped]
    if as_json:
        said = {
            "items": len(found.names), "features": net.dimension, "base": None if known is None else known.about,
            "skipped": as_rows(skipped), "file": str(output.resolve()),
        }  # fmt: skip
        typer.echo(json.dumps(said, indent=2))
        return
    said_all = f"{len(found.names):,} pictures, {len(labels)} labels, {net.dimension} features each"
    console.print(f"{said_all}: {output}", markup=False, soft_wrap=True)
    if known is not None:
        console.print(known.sentence, markup=False, soft_wrap=True)
    say_skipped(console, skipped)


@contextmanager
def _base_embedder(recipe: Recipe, output: Path, engine: str, address: str | None, size: int) -> Iterator[Any]:
    """Who embeds the base classes' pictures on a cluster, None on this machine; its shards go when all is done."""
    if engine != "ray":
        yield None
        return
    from shutil import rmtree

    from handful.cluster.embedding import ClusterEmbedder

    shards = output.with_name(f"{output.name}.base-shards")
    with ClusterEmbedder(recipe, shards, address, size) as embedder:
        try:
            yield embedder
        except ValueError:  # what was given is wrong: there is no going on
            rmtree(shards, ignore_errors=True)
            raise
    rmtree(shards, ignore_errors=True)


def _embed_set(
    path: Path, dataset: str, split: str | None, output: Path, net: Any, base_mean: Any, progress: Any
) -> FeatureTable:
    from handful.features import write
    from handful.training.datasets import read_pictures
    from handful.training.datasets.embedding import embed_set

    given = read_pictures(
        path, None if dataset == "auto" else dataset, splits=None if split is None else [split],
        progress=lambda done, total: progress("reading", done, total),
    )  # fmt: skip
    made = embed_set(given, net, lambda done, total: progress("pile", done, total)).replace(base_mean=base_mean)
    output.parent.mkdir(parents=True, exist_ok=True)
    write(made, output)
    names = [f"{label}/{i}" for i, label in enumerate(made.label_names)]
    return made.replace(paths=names, skipped=[(str(one.path), one.reason) for one in given.skipped])


def _embed_here(pictures: Path, output: Path, net: Any, base_mean: Any, how: dict[str, Any]) -> FeatureTable:
    from handful.features import FeatureTable, write
    from handful.label import read_pile
    from handful.utils.files import first_folder, printable

    found = read_pile(pictures, net, **how)
    names = [printable(name) for name in found.names]
    labels = list(map(first_folder, names))
    output.parent.mkdir(parents=True, exist_ok=True)
    made = FeatureTable(found.features, labels, names, name=pictures.name, base_mean=base_mean)
    write(made, output)
    return found


@app.command()
def backbones(as_json: Json = False) -> None:
    """List what turns pictures into features."""
    from dataclasses import asdict

    from handful.backbones import list_backbones

    infos = list_backbones()
    if as_json:
        typer.echo(json.dumps([asdict(info) for info in infos], indent=2))
        return
    from rich.table import Column, Table
    from rich.text import Text

    how = Text('extras are installed so: pip install "handful[images]"')  # else its brackets were markup
    columns = "what it is", "features", "input", "MB", "licence", "extra"
    table = Table(Column("name", no_wrap=True), *columns, caption=how, caption_justify="left")
    for info in infos:
        numbers = ("" if x is None else f"{x:g}" for x in (info.dimension, info.input_size, info.megabytes))
        table.add_row(info.name, info.title, *numbers, info.licence, info.extra)
    console_for(False).print(table)
