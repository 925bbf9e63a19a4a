"""`handful embed`: from pictures or texts to features."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from handful.cli._app import OUTPUT, argument, command, option
from handful.cli._console import CACHE_KEPT, PARTS_KEPT, Console, Progress, print_json, skipped_rows
from handful.cli._options import (
    JSON,
    MEAN,
    OVERWRITE,
    STD,
    TEXT,
    ClusterOptions,
    ReadingOptions,
    parse_pixel_numbers,
)


@dataclass(frozen=True)
class DatasetOptions:
    """Data sets: which data set, and which of its classes."""

    dataset: str | None = option(
        "PICTURES is a data set of `handful train --list-datasets`: its name, or auto: found by its files."
    )
    split: str | None = option("Only the classes of this split of the data set: base, val or novel.")


@dataclass(frozen=True)
class BackboneOptions:
    """Backbone: the network that turns pictures or texts into features, and what its input looks like."""

    backbone: str | None = option(
        "The backbone: for pictures good (two networks, the default), fast (one, three times as fast) or best (three, "
        "slower still); a name that `handful backbones` lists; an .onnx file; or a folder with an encoder of texts. "
        "Default for texts: minilm."
    )
    size: int | None = option("Pixels per side of its input. Needed for an .onnx file that does not say it.")
    mean: str | None = MEAN
    std: str | None = STD
    preset: str | None = option(
        "How the network of an .onnx file wants its pictures: clip, dinov2, imagenet or siglip."
    )
    device: str | None = option(
        "Where the network runs. Default: auto, the best that the installed ONNX Runtime can use.",
        metavar="auto|cpu|cuda|coreml|directml",
    )
    base: Path | None = option(
        "The classes that the backbone was trained on: a folder of pictures, a file of features, or a "
        ".base.safetensors. Their mean is stored with the features. Default: MODEL.base.safetensors, if it is beside "
        "MODEL.onnx."
    )

    def name_for(self, kind: str) -> str:
        """The backbone for items of a kind: the one that the user named, or the default; "" for embeddings."""
        from handful.backbones.catalogue import concrete_name
        from handful.project.items import default_backbone

        return concrete_name(self.backbone or default_backbone(kind))

    def input_options(self) -> dict[str, Any]:
        """The keyword arguments of `handful.backbones.load_backbone`."""
        named = {"size": self.size, "preset": self.preset, "device": self.device}
        options = {name: value for name, value in named.items() if value is not None}
        return options | parse_pixel_numbers(mean=self.mean, std=self.std)


@dataclass(frozen=True)
class RayOptions(ClusterOptions):
    """Many machines: where the work is done, and in parts of which size."""

    shard_size: int = option(
        "With --engine ray: how many pictures a machine gets at a time; one file each.", 256, min=1
    )


@command()
def embed(
    pictures: Path = argument(
        "A folder of pictures, whose folders become labels; or a data set, see --dataset. Or texts: a table (.csv, "
        ".jsonl, .parquet), or a folder of .txt files."
    ),
    output: Path | None = option(
        ".parquet, .npz, .safetensors ...; with --engine ray also a folder, of Parquet parts. Default: "
        "features.parquet, or features.npz if PyArrow is not installed.",
        names=OUTPUT,
    ),
    overwrite: bool = OVERWRITE,
    *,
    dataset: DatasetOptions,
    backbone: BackboneOptions,
    reading: ReadingOptions,
    text: str | None = TEXT,
    label: str | None = option("The column of labels in a table of texts.", panel="Tables and arrays"),
    cluster: RayOptions,
    as_json: bool = JSON,
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
    from handful.project.items import Reading, kind_of, load_for, read_labelled_texts
    from handful.project.outputs import check_file
    from handful.project.reading import read_pile
    from handful.utils.extras import has_pyarrow

    cluster.check()
    on_cluster, of_data_set = cluster.engine == "ray", dataset.dataset is not None
    is_text = not of_data_set and pictures.exists() and kind_of(pictures, text=text) == "texts"
    _check(pictures, dataset, on_cluster, is_text, text or label, backbone.base)
    if output is None:
        output = Path("features.parquet" if has_pyarrow() else "features.npz")
    if not (on_cluster and (output.is_dir() or not output.suffix)):  # a folder of parts has checks of its own
        check_file(output, overwrite, tuple(WRITERS))
    kind, console = "texts" if is_text else "pictures", Console(aside=as_json)
    with console.work(kind, PARTS_KEPT if on_cluster else CACHE_KEPT * reading.cache) as progress:
        network = load_for(kind, backbone.backbone, backbone.input_options())
        how: dict[str, Any] = {"progress": progress, "strict": reading.strict, "cache": reading.cache}
        classes = None
        if not is_text:  # before the pile: if the base classes do not fit, nothing is written
            classes = find_base_mean(
                backbone.base, network, lambda folder: read_pile(folder, network, what="base", **how)
            )
        mean = None if classes is None else classes.mean
        embedded: Any  # a table, or what is known of a folder of parts
        if on_cluster:
            from handful.backbones.embedding_on_ray import Recipe, embed_folder

            embedded = embed_folder(
                pictures, Recipe(backbone.name_for(kind), backbone.input_options()), output, network,
                size=cluster.shard_size, address=cluster.address, replace=overwrite, strict=reading.strict,
                base_mean=mean, progress=partial(progress, "pile"),
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
    console.print(first, *notes)
    console.skipped(skipped)


def _check(
    pictures: Path, dataset: DatasetOptions, on_cluster: bool, is_text: bool, column: str | None, base: Path | None
) -> None:
    """Raise ValueError for options that do not fit the items."""
    name, split = dataset.dataset, dataset.split
    for_pictures = on_cluster or base is not None or split is not None
    for is_wrong, message in (
        (is_text and for_pictures, "--engine ray, --base and --split are for pictures, but the items are texts: leave "
         "them out"),
        (not is_text and column is not None, "--text and --label name columns of a table of texts, but the items are "
         "pictures: leave them out"),
        (split is not None and name is None, f"--split {split} needs a data set: name it with --dataset, or give "
         "--dataset auto"),
        (name is not None and on_cluster, "data sets are embedded on this machine: leave out --dataset or --engine "
         "ray"),
        (not is_text and name is None and not pictures.is_dir(), f"{str(pictures)!r} is not a folder of pictures, nor "
         "a table of texts; a file of a data set needs --dataset"),
    ):  # fmt: skip
        if is_wrong:
            raise ValueError(message)


def _embed_data_set(path: Path, dataset: DatasetOptions, network: Any, progress: Progress) -> Any:
    from handful.training.datasets import read_pictures
    from handful.training.datasets.picture_set import embed_set

    name, splits = None if dataset.dataset == "auto" else dataset.dataset, dataset.split and [dataset.split]
    data = read_pictures(path, name, splits=splits, progress=partial(progress, "reading"))
    table = embed_set(data, network, partial(progress, "pile"))
    return table.replace(skipped=[(str(one.path), one.reason) for one in data.skipped])
