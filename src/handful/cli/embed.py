"""`handful embed`: from pictures or texts to features."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from handful.cli import _options as shared
from handful.cli._console import CACHE_KEPT, PARTS_KEPT, Console, Progress, print_json, skipped_rows
from handful.cli._options import MACHINES, argument, command, option, parse_engine, parse_numbers, under

of_data_set = partial(option, panel="Data sets")
of_backbone = partial(option, panel="Backbone")


@command()
def embed(
    pictures: Path = argument(
        "A folder of pictures, whose folders become labels; or a data set, see --dataset. Or texts: a table (.csv, "
        ".jsonl, .parquet), or a folder of .txt files."
    ),
    output: Path | None = option(
        ".parquet, .npz, .safetensors ...; with --engine ray also a folder, of Parquet parts. Default: "
        "features.parquet, or features.npz if PyArrow is not installed.",
        names=shared.OUTPUT,
    ),
    overwrite: bool = shared.OVERWRITE,
    dataset: str | None = of_data_set(
        "PICTURES is a data set of `handful train --list-datasets`: its name, or auto: found by its files."
    ),
    split: str | None = of_data_set("Only the classes of this split of the data set: base, val or novel."),
    backbone: str | None = of_backbone(
        "The backbone: for pictures good (two networks, the default), fast (one, three times as fast) or best (three, "
        "slower still); a name that `handful backbones` lists; an .onnx file; or a folder with an encoder of texts. "
        "Default for texts: minilm."
    ),
    size: int | None = of_backbone("Pixels per side of its input. Needed for an .onnx file that does not say it."),
    mean: str | None = under("Backbone", shared.MEAN),
    std: str | None = under("Backbone", shared.STD),
    preset: str | None = of_backbone(
        "How the network of an .onnx file wants its pictures: clip, dinov2, imagenet or siglip."
    ),
    device: str | None = of_backbone(
        "Where the network runs. Default: auto, the best that the installed ONNX Runtime can use.",
        metavar="auto|cpu|cuda|coreml|directml",
    ),
    base: Path | None = of_backbone(
        "The classes that the backbone was trained on: a folder of pictures, a file of features, or a "
        ".base.safetensors. Their mean is stored with the features. Default: MODEL.base.safetensors, if it is beside "
        "MODEL.onnx."
    ),
    strict: bool = shared.STRICT,
    no_cache: bool = shared.NO_CACHE,
    text: str | None = shared.TEXT,
    label: str | None = option("The column of labels in a table of texts.", panel=shared.TABLES),
    engine: str = shared.ENGINE,
    shard_size: int = option(
        "With --engine ray: how many pictures a machine gets at a time; one file each.", 256, min=1, panel=MACHINES
    ),
    as_json: bool = shared.JSON,
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
    from handful.backbones.catalogue import concrete_name
    from handful.features import write
    from handful.features.files import WRITERS
    from handful.project.base_files import find_base_mean
    from handful.project.items import Reading, default_backbone, kind_of, load_for, read_unlabelled
    from handful.project.outputs import check_file
    from handful.project.reading import read_labelled_texts
    from handful.utils.extras import has_pyarrow

    where, address = parse_engine(engine)
    on_cluster = where == "ray"
    is_text = dataset is None and pictures.exists() and kind_of(pictures, text=text) == "texts"
    for is_wrong, message in (
        (is_text and (on_cluster or base is not None or split is not None), "--engine ray, --base and --split are for "
         "pictures, but the items are texts: leave them out"),
        (not is_text and (text or label) is not None, "--text and --label name columns of a table of texts, but the "
         "items are pictures: leave them out"),
        (split is not None and dataset is None, f"--split {split} needs a data set: name it with --dataset, or give "
         "--dataset auto"),
        (dataset is not None and on_cluster, "data sets are embedded on this machine: leave out --dataset or --engine "
         "ray"),
        (not is_text and dataset is None and not pictures.is_dir(), f"{str(pictures)!r} is not a folder of pictures, "
         "nor a table of texts; a file of a data set needs --dataset"),
    ):  # fmt: skip
        if is_wrong:
            raise ValueError(message)
    if output is None:
        output = Path("features.parquet" if has_pyarrow() else "features.npz")
    if not (on_cluster and (output.is_dir() or not output.suffix)):  # a folder of parts has checks of its own
        check_file(output, overwrite, tuple(WRITERS))
    kind, console = "texts" if is_text else "pictures", Console(aside=as_json)
    with console.work(kind, PARTS_KEPT if on_cluster else CACHE_KEPT * (not no_cache)) as progress:
        named: dict[str, Any] = {"size": size, "preset": preset, "device": device}
        named |= {"mean": mean and parse_numbers(mean), "std": std and parse_numbers(std)}
        options = {name: value for name, value in named.items() if value is not None}
        network = load_for(kind, backbone, options)
        how: dict[str, Any] = {"progress": progress, "strict": strict, "cache": not no_cache}
        classes = None
        if not is_text:  # before the pile: if the base classes do not fit, nothing is written
            of_base = Reading(kind, network, **how)
            classes = find_base_mean(base, network, lambda folder: read_unlabelled(folder, of_base, bar="base"))
        base_mean = None if classes is None else classes.mean
        embedded: Any  # a table, or what is known of a folder of parts
        if on_cluster:
            from handful.backbones.embedding_on_ray import Recipe, embed_folder

            embedded = embed_folder(
                pictures, Recipe(concrete_name(backbone or default_backbone(kind)), options), output, network,
                size=shard_size, address=address, replace=overwrite, strict=strict, base_mean=base_mean,
                progress=partial(progress, "pile"),
            )  # fmt: skip
        else:
            if dataset is not None:
                embedded = _embed_data_set(pictures, dataset, split, network, progress)
            else:
                columns = {} if label is None else {"label": label}
                embedded = read_labelled_texts(pictures, Reading(kind, network, columns, text, **how))
            output.parent.mkdir(parents=True, exist_ok=True)
            write(embedded if is_text else embedded.replace(base_mean=base_mean, skipped=()), output)
    skipped = [*([] if classes is None else classes.skipped), *embedded.skipped]
    notes = [*getattr(embedded, "notes", ()), *([] if classes is None else [classes.sentence])]
    if as_json:
        print_json(
            {
                "items": len(embedded.names), "features": network.dimension,
                "text": getattr(embedded, "source", {}).get("text"),
                "notes": notes, "skipped": skipped_rows(skipped), "file": str(output.resolve()),
            }
        )  # fmt: skip
        return
    count = len({*embedded.label_names} - {"", None})
    first = f"{len(embedded.names):,} {kind}, {count} labels, {network.dimension} features each: {output}"
    console.print(first, *notes)
    console.skipped(skipped)


def _embed_data_set(path: Path, name: str, split: str | None, network: Any, progress: Progress) -> Any:
    from handful.training.datasets import read_pictures
    from handful.training.datasets.picture_set import embed_set

    published, splits = None if name == "auto" else name, None if split is None else [split]
    data = read_pictures(path, published, splits=splits, progress=partial(progress, "reading"))
    return embed_set(data, network, partial(progress, "pile")).replace(skipped=data.skipped)
