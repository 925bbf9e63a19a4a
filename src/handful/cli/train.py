"""`handful train`: a backbone from pictures of base classes, and the data sets that it can learn from."""

from __future__ import annotations

import shlex
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from handful.cli._app import command
from handful.cli._console import (
    absolute,
    console_for,
    print_json,
    print_lines,
    print_skipped,
    print_table,
    progress_bars,
    skipped_rows,
    stoppable,
)
from handful.cli._options import ALL_HEADS, Heads, Json, parse_heads, parse_names

if TYPE_CHECKING:
    from handful.training.datasets.catalogue import DatasetInfo


@dataclass(frozen=True)
class PictureOptions:
    """What is learned from."""

    PANEL: ClassVar[str] = "Pictures"

    dataset: Annotated[
        str | None,
        typer.Option(help="The data set that it is, see --list-datasets. Default: found by its files."),
    ] = None
    split: Annotated[Path | None, typer.Option(help="Which classes are base, val and novel: a .json or .csv file.")] = (
        None
    )
    size: Annotated[
        int | None, typer.Option(min=16, help="Pixels per side. Default: the usual size of the data set.")
    ] = None
    held_out: Annotated[
        float, typer.Option(help="The share of base classes to validate with, if there is no split val.")
    ] = 0.05
    list_datasets: Annotated[
        bool,
        typer.Option(
            "--list-datasets",
            help="List the data sets that are known, or with --dataset say how to get that one and what its folder "
            "looks like. Nothing is trained or downloaded.",
        ),
    ] = False
    check: Annotated[
        bool, typer.Option("--check", help="Read the pictures, say what there is and whether it is as published.")
    ] = False


@dataclass(frozen=True)
class LearningOptions:
    """What is trained, and how. More settings are those of `handful.training.Settings`."""

    PANEL: ClassVar[str] = "Learning"

    network: Annotated[str, typer.Option(help="resnet12, conv4 or wrn28_10.")] = "resnet12"
    widths: Annotated[
        str | None,
        typer.Option(help="Widths of a ResNet-12. Default: 64,160,320,640; for small drawings: 16,32,64,128."),
    ] = None
    heads: Heads = ALL_HEADS
    epochs: Annotated[int, typer.Option(min=1, help="How often each picture is seen, at most.")] = 100
    batch: Annotated[int, typer.Option(min=2, help="Pictures per step.")] = 128
    learning_rate: Annotated[float, typer.Option(help="The highest learning rate; it falls to 0 along a cosine.")] = 0.1
    augment: Annotated[
        str,
        typer.Option(
            help="pictures: windows, mirrors, colours; drawings: turned and bent a little; none; or auto: by the "
            "number of colours."
        ),
    ] = "auto"
    rotations: Annotated[
        str,
        typer.Option(help="classes: a turned picture is another class; predict: also learn how it is turned; none."),
    ] = "none"
    patience: Annotated[
        int, typer.Option(min=0, help="Stop after this many epochs without a better one; 0: never.")
    ] = 0
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same weights.")] = 0
    together: Annotated[
        str,
        typer.Option(
            help="A head, such as feat: after the best epoch, the network is trained together with it, and is kept "
            "if that is better on held-out classes. none: the network is not."
        ),
    ] = "none"


@dataclass(frozen=True)
class MachineOptions:
    """Where it runs, and what it reports."""

    PANEL: ClassVar[str] = "Machine"

    precision: Annotated[
        str, typer.Option(help="float32; or bfloat16, faster on a GPU or a processor that computes in it.")
    ] = "float32"
    threads: Annotated[
        int | None, typer.Option(min=1, help="With 1, weights are the same bit for bit. Default: all cores.")
    ] = None
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto.")] = "auto"
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also write the curves of history.jsonl for TensorBoard.")
    ] = False


@command()
def train(
    pictures: Annotated[
        Path | None,
        typer.Argument(help="The folder or file of a data set; or a folder with one folder for each class."),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for checkpoints and the backbone.")] = Path(
        "handful-train"
    ),
    *,
    data: PictureOptions,
    learning: LearningOptions,
    machine: MachineOptions,
    as_json: Json = False,
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
    if data.list_datasets:
        _print_datasets(data.dataset, as_json)
        return
    if pictures is None:
        raise typer.BadParameter("name the folder of the pictures; --list-datasets lists what is known")
    if data.check:
        _check(pictures, data.dataset, as_json)
        return
    from handful.utils.extras import TORCH, need

    need("torch", "handful train", TORCH)
    from handful.training.datasets import read_pictures
    from handful.training.pretraining import pretrain
    from handful.training.settings import Settings

    console = console_for(as_json)
    options: dict[str, Any] = {} if learning.widths is None else {"widths": _widths(learning.widths)}
    with progress_bars(console, "pictures") as progress:
        picture_set = read_pictures(
            pictures, data.dataset, size=data.size, splits=("base", "val"), split_file=data.split,
            progress=lambda done, total: progress("reading", done, total),
        )  # fmt: skip
    skipped = [(one.path, one.reason) for one in picture_set.skipped]
    print_skipped(console, skipped)
    suited = "pictures" if picture_set.pixels.shape[-1] == 3 else "drawings"
    settings = Settings(
        learning.network, options, learning.epochs, learning.batch, learning.learning_rate,
        augment=suited if learning.augment == "auto" else learning.augment, rotations=learning.rotations,
        precision=machine.precision, held_out=data.held_out, patience=learning.patience, seed=learning.seed,
        together=learning.together,
    )  # fmt: skip
    with stoppable(console, f"The same command continues from {output}."), progress_bars(console, "steps") as progress:
        trained = pretrain(
            picture_set, output, settings, threads=machine.threads, device=machine.device,
            tensorboard=machine.tensorboard, heads=parse_heads(learning.heads),
            command=shlex.join(["handful", *sys.argv[1:]]), progress=progress,
            on_epoch=lambda row: print_lines(console, [_row_in_words(row)]),
        )  # fmt: skip
    if as_json:
        document = {
            "best": trained.best, "seconds": trained.seconds, "files": absolute(trained.files),
            "skipped": skipped_rows(skipped), "together": trained.together,
        }  # fmt: skip
        print_json(document)
        return
    words = ["handful", "embed", "PICTURES/", "--backbone", str(trained.files["backbone"]), "-o", "features.parquet"]
    lines = [f"\nThe best epoch: {_row_in_words(trained.best)}"]
    lines += [] if trained.together is None else [_joint_in_words(trained.together)]
    lines += [f"The {what}: {path}" for what, path in trained.files.items()]
    print_lines(console, [*lines, f"To embed other pictures: {shlex.join(words)}"])


def _row_in_words(row: dict[str, Any]) -> str:
    """One epoch, or one validation of the joint training, in one line."""
    if "tasks" in row:
        both = f"accuracy {row['accuracy']:.1f}, AUROC {row['auroc']:.1f}"
        return f"together, {row['tasks']:,} tasks: loss {row['loss']:.3f}; {both}"
    figures = [
        f"{shots}-shot accuracy {row[f'accuracy_{shots}']:.1f}, AUROC {row[f'auroc_{shots}']:.1f}"
        for shots in (1, 5)
        if f"accuracy_{shots}" in row
    ]
    return "; ".join([f"epoch {row['epoch']}: loss {row['loss']:.3f}", *figures])


def _joint_in_words(report: dict[str, Any]) -> str:
    """What was gained by training network and head together, in one sentence."""
    before, after = report["before"], report["after"]
    what = f"Network and head {report['head']} trained together on {report['tasks']:,} tasks"
    if not report["gained"]:
        return (
            f"{what}: nothing was gained on {report['held_out']} held-out classes (accuracy {before['accuracy']:.1f}, "
            f"AUROC {before['auroc']:.1f} before), so the network is that of the best epoch"
        )
    return (
        f"{what}: accuracy {before['accuracy']:.1f} -> {after['accuracy']:.1f}, AUROC {before['auroc']:.1f} -> "
        f"{after['auroc']:.1f} on {report['held_out']} held-out classes, best after {report['best']:,} tasks"
    )


def _widths(text: str) -> list[int]:
    parts = parse_names(text)
    if not parts or not all(part.isdecimal() and int(part) for part in parts):
        raise typer.BadParameter(f"{text!r}: give four whole numbers, as in 16,32,64,128", param_hint="'--widths'")
    return [int(part) for part in parts]


# ---- data sets


def _print_datasets(name: str | None, as_json: bool) -> None:
    """All data sets as a table, or one of them in words."""
    from handful.training.datasets import dataset_info, list_datasets

    infos = list_datasets() if name is None else [dataset_info(name)]
    if as_json:
        print_json([asdict(info) for info in infos] if name is None else asdict(infos[0]))
        return
    console = console_for(False)
    if name is not None:
        print_lines(console, _described(infos[0]))
        return
    rows = []
    for info in infos:
        classes = [str(info.classes.get(split, "")) for split in ("base", "val", "novel")]
        pictures = f"{sum(info.pictures.values()):,}" if info.pictures else ""
        rows.append([info.name, info.title, *classes, pictures, f"{info.size} x {info.size}"])
    note = "Classes in each split. `handful train --list-datasets --dataset NAME` says how to get one."
    print_table(console, ("name", "data set", "base", "val", "novel", "pictures", "size"), rows, left=2, note=note)


def _described(info: DatasetInfo) -> list[str]:
    """What a data set is, where to get it, and what is read of it."""
    lines = [text for text in (info.title, info.paper, info.about) if text]
    for split, classes in info.classes.items():
        pictures = f", {info.pictures[split]:,} pictures" if split in info.pictures else ""
        lines.append(f"  {split}: {classes} classes{pictures}")
    lines += [
        f"Pictures become {info.size} x {info.size}: {info.preparation}. `handful train --size` changes that.",
        f"Licence: {info.licence}.",
    ]
    lines += [f"\nGet it from {info.url}"] if info.url else []
    lines += [f"  {archive}  MD5 {digest}" for archive, digest in info.archives.items()]
    lines += ["\nWhat is read, any of:", *(f"  · {layout}" for layout in info.layouts)]
    lines += ["\nThen", f"  handful train {info.example} --dataset {info.name} --check"]
    return [*lines, f"  handful train {info.example} --dataset {info.name} -o {info.name}-backbone"]


def _check(path: Path, name: str | None, as_json: bool) -> None:
    """Say what a copy of a data set holds; exit with 1 if an archive in it is not the published one."""
    from handful.training.datasets.reading import check_copy

    with progress_bars(console_for(as_json), "pictures") as progress:
        report = check_copy(path, name, progress=lambda done, total: progress("reading", done, total))
    if as_json:
        print_json(report)
    else:
        print_lines(console_for(False), _checked(report, path))
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
