"""`handful train`: a backbone from pictures of base classes, and the data sets that it can learn from."""

from __future__ import annotations

import shlex
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from handful.cli._console import Console, absolute, print_json, skipped_rows
from handful.cli._options import HEADS, JSON, OUTPUT, argument, command, option, parse_heads, parse_names, under

if TYPE_CHECKING:
    from handful.training.datasets.catalogue import DatasetInfo

of_pictures = partial(option, panel="Pictures")
of_learning = partial(option, panel="Learning")
of_machine = partial(option, panel="Machine")


@command()
def train(
    pictures: Path | None = argument(
        "The folder or file of a data set; or a folder with one folder for each class.", None
    ),
    output: Path = option("Folder for checkpoints and the backbone.", Path("handful-train"), names=OUTPUT),
    dataset: str | None = of_pictures("The data set that it is, see --list-datasets. Default: found by its files."),
    split: Path | None = of_pictures("Which classes are base, val and novel: a .json or .csv file."),
    size: int | None = of_pictures("Pixels per side. Default: the usual size of the data set.", min=16),
    held_out: float = of_pictures("The share of base classes to validate with, if there is no split val.", 0.05),
    list_datasets: bool = of_pictures(
        "List the data sets that are known, or with --dataset say how to get that one and what its folder looks like. "
        "Nothing is trained or downloaded.",
        False,
    ),
    check: bool = of_pictures("Read the pictures, say what there is and whether it is as published.", False),
    network: str = of_learning("resnet12, conv4 or wrn28_10.", "resnet12"),
    widths: str | None = of_learning(
        "Widths of a ResNet-12. Default: 64,160,320,640; for small drawings: 16,32,64,128."
    ),
    heads: str = under("Learning", HEADS),
    epochs: int = of_learning("How often each picture is seen, at most.", 100, min=1),
    batch: int = of_learning("Pictures per step.", 128, min=2),
    learning_rate: float = of_learning("The highest learning rate; it falls to 0 along a cosine.", 0.1),
    augment: str = of_learning(
        "pictures: windows, mirrors, colours; drawings: turned and bent a little; none; or auto: by the number of "
        "colours.",
        "auto",
    ),
    rotations: str = of_learning(
        "classes: a turned picture is another class; predict: also learn how it is turned; none.", "none"
    ),
    patience: int = of_learning("Stop after this many epochs without a better one; 0: never.", 0, min=0),
    seed: int = of_learning("The same seed gives the same weights.", 0, min=0),
    together: str = of_learning(
        "A head, such as feat: after the best epoch, the network is trained together with it, and is kept if that is "
        "better on held-out classes. none: the network is not.",
        "none",
    ),
    precision: str = of_machine("float32; or bfloat16, faster on a GPU or a processor that computes in it.", "float32"),
    threads: int | None = of_machine("With 1, weights are the same bit for bit. Default: all cores.", min=1),
    device: str = of_machine("cpu, cuda, or auto.", "auto"),
    tensorboard: bool = of_machine("Also write the curves of history.jsonl for TensorBoard.", False),
    as_json: bool = JSON,
) -> None:
    """Train a backbone on pictures of base classes, for few-shot tasks with other classes.

    The best epoch is chosen by few-shot tasks on the classes of the split val, or on base classes that are held out.
    Classes of the split novel are never read. The output folder holds model.onnx, which `handful embed` and `handful
    label` take as --backbone and which needs no torch; model.base.safetensors with the mean of the base classes and the
    trained heads of FEAT and others; the weights; and a model card that says how they were made.

    If the command is stopped, the same command continues and ends with the same weights.

    Example: handful train omniglot/ --widths 16,32,64,128 --rotations classes --epochs 30 -o omniglot-backbone

    To get the pictures: handful train --list-datasets --dataset omniglot, then handful train omniglot/ --check
    """
    if list_datasets:
        _print_datasets(dataset, as_json)
        return
    if pictures is None:
        raise typer.BadParameter("name the folder of the pictures; --list-datasets lists what is known")
    if check:
        _check(pictures, dataset, as_json)
        return
    from handful.utils.extras import TORCH, need

    need("torch", "handful train", TORCH)
    from handful.training.datasets import read_pictures
    from handful.training.pretraining import pretrain
    from handful.training.settings import Settings

    console = Console(aside=as_json)
    parts = parse_names(widths or "")
    if not all(part.isdecimal() and int(part) for part in parts) or (widths and not parts):
        raise typer.BadParameter(f"{widths!r}: give four whole numbers, as in 16,32,64,128", param_hint="'--widths'")
    options: dict[str, Any] = {"widths": [int(part) for part in parts]} if parts else {}
    with console.work("pictures") as progress:
        reading, splits = partial(progress, "reading"), ("base", "val")
        picture_set = read_pictures(pictures, dataset, size=size, splits=splits, split_file=split, progress=reading)
    console.skipped(picture_set.skipped)
    suited = "pictures" if picture_set.pixels.shape[-1] == 3 else "drawings"
    settings = Settings(
        network, options, epochs, batch, learning_rate, augment=suited if augment == "auto" else augment,
        rotations=rotations, precision=precision, held_out=held_out, patience=patience, seed=seed, together=together,
    )  # fmt: skip
    with console.work("steps", f"The same command continues from {output}.") as progress:
        trained = pretrain(
            picture_set, output, settings, threads=threads, device=device, tensorboard=tensorboard,
            heads=parse_heads(heads), command=shlex.join(["handful", *sys.argv[1:]]), progress=progress,
            on_epoch=lambda row: console.print(_row_in_words(row)),
        )  # fmt: skip
    if as_json:
        document = {name: getattr(trained, name) for name in ("best", "seconds", "together")}
        print_json(document | {"files": absolute(trained.files), "skipped": skipped_rows(picture_set.skipped)})
        return
    words = ["handful", "embed", "PICTURES/", "--backbone", str(trained.files["backbone"]), "-o", "features.parquet"]
    console.print(f"\nThe best epoch: {_row_in_words(trained.best)}")
    if trained.together is not None:
        console.print(_joint_in_words(trained.together))
    console.print(*(f"The {what}: {path}" for what, path in trained.files.items()))
    console.print(f"To embed other pictures: {shlex.join(words)}")


def _row_in_words(row: dict[str, Any]) -> str:
    """One epoch, or one validation of the joint training, in one line."""
    what = f"together, {row['tasks']:,} tasks" if "tasks" in row else f"epoch {row['epoch']}"
    words = [f"{what}: loss {row['loss']:.3f}"]
    for prefix, suffix in (("", ""), ("1-shot ", "_1"), ("5-shot ", "_5")):
        if f"accuracy{suffix}" in row:
            words.append(f"{prefix}accuracy {row[f'accuracy{suffix}']:.1f}, AUROC {row[f'auroc{suffix}']:.1f}")
    return "; ".join(words)


def _joint_in_words(report: dict[str, Any]) -> str:
    """What was gained by training network and head together, in one sentence."""
    before, after = report["before"], report["after"]
    what = f"Network and head {report['head']} trained together on {report['tasks']:,} tasks"
    classes = f"{report['held_out']} held-out classes"
    if not report["gained"]:
        figures = f"accuracy {before['accuracy']:.1f}, AUROC {before['auroc']:.1f} before"
        return f"{what}: nothing was gained on {classes} ({figures}), so the network is that of the best epoch"
    figures = f"accuracy {before['accuracy']:.1f} -> {after['accuracy']:.1f}, "
    figures += f"AUROC {before['auroc']:.1f} -> {after['auroc']:.1f}"
    return f"{what}: {figures} on {classes}, best after {report['best']:,} tasks"


# ---- data sets


def _print_datasets(name: str | None, as_json: bool) -> None:
    """All data sets as a table, or one of them in words."""
    from handful.training.datasets import dataset_info, list_datasets

    infos = list_datasets() if name is None else [dataset_info(name)]
    if as_json:
        print_json([asdict(info) for info in infos] if name is None else asdict(infos[0]))
        return
    if name is not None:
        Console().print(*_described(infos[0]))
        return
    rows = []
    for info in infos:
        classes = [str(info.classes.get(split, "")) for split in ("base", "val", "novel")]
        pictures = f"{sum(info.pictures.values()):,}" if info.pictures else ""
        rows.append([info.name, info.title, *classes, pictures, f"{info.size} x {info.size}"])
    note = "Classes in each split. `handful train --list-datasets --dataset NAME` says how to get one."
    Console().table(("name", "data set", "base", "val", "novel", "pictures", "size"), rows, left=2, note=note)


def _described(info: DatasetInfo) -> list[str]:
    """What a data set is, where to get it, and what is read of it."""
    lines = [text for text in (info.title, info.paper, info.about) if text]
    for split, classes in info.classes.items():
        pictures = f", {info.pictures[split]:,} pictures" if split in info.pictures else ""
        lines.append(f"  {split}: {classes} classes{pictures}")
    lines.append(f"Pictures become {info.size} x {info.size}: {info.preparation}. `handful train --size` changes that.")
    lines.append(f"Licence: {info.licence}.")
    lines += [f"\nGet it from {info.url}"] if info.url else []
    lines += [f"  {archive}  MD5 {digest}" for archive, digest in info.archives.items()]
    lines += ["\nWhat is read, any of:", *(f"  · {layout}" for layout in info.layouts)]
    lines += ["\nThen", f"  handful train {info.example} --dataset {info.name} --check"]
    return [*lines, f"  handful train {info.example} --dataset {info.name} -o {info.name}-backbone"]


def _check(path: Path, name: str | None, as_json: bool) -> None:
    """Say what a copy of a data set holds; exit with 1 if an archive in it is not the published one."""
    from handful.training.datasets.reading import check_copy

    with Console(aside=as_json).work("pictures") as progress:
        report = check_copy(path, name, progress=partial(progress, "reading"))
    if as_json:
        print_json(report)
    else:
        Console().print(*_checked(report, path))
    if not all(report["archives"].values()):
        raise typer.Exit(1)


def _checked(report: dict[str, Any], path: Path) -> list[str]:
    verdicts = {True: "is the published file", False: "is NOT the published file, by its MD5: download it again"}
    lines = [f"{archive} {verdicts[good]}" for archive, good in report["archives"].items()]
    if "name" not in report:
        return [*lines, f"Unpack it and check the folder: tar xzf {path}"]
    (height, width), colours = report["size"], "grey" if report["channels"] == 1 else "colour"
    count = f"{report['pictures']:,} pictures of {report['classes']} classes"
    lines.append(f"{report['name']}: {count}, {height} x {width}, {colours}")
    remarks = {True: ", as published", False: ", NOT as many as published", None: ""}
    for split, counts in report["splits"].items():
        least, most = counts["pictures_per_class"]
        each = f"{least}" if least == most else f"{least} to {most}"
        remark = remarks[(report["as_published"] or {}).get(split)]
        count = f"{counts['classes']} classes, {counts['pictures']:,} pictures, {each} per class"
        lines.append(f"  {split}: {count}{remark}")
    return [*lines, *(f"Skipped: {line}" for line in report["passed_over"])]
