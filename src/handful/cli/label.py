"""`handful label`: labels for a pile from a few examples."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from handful.cli import _options as shared
from handful.cli._console import (
    CACHE_KEPT,
    PARTS_KEPT,
    Console,
    absolute,
    ask_user,
    print_json,
    skipped_rows,
    written_tables,
)
from handful.cli._options import argument, command, option, parse_engine, parse_names, parse_numbers, parse_share, under

if TYPE_CHECKING:
    from handful.project import Labelled, Project
    from handful.project.job import Job

FEATURES = "features"  # the folder of embedded parts inside the output folder
of_results = partial(option, panel="Results")
of_knowledge = partial(option, panel="What else you know")
of_method = partial(option, panel="How the pile is labelled")
ONCE = ("engine", "outlier_share", "precision", "method", "backbone", "text", "label", "set_")  # of a project


def _flag(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


SETTINGS: dict[str, dict[str, Callable[[str], Any]]] = {  # what --set takes, by the field of `Job` that it is part of
    "decision": dict.fromkeys(("unknown_rate", "max_false_unknown", "threshold", "fdr", "group_detail"), float),
    "backbone_options": {"device": str, "preset": str, "size": int, "mean": parse_numbers, "std": parse_numbers},
    "table": {"columns": parse_names, "exclude": parse_names, "embedding": str},
    "": {"strict": _flag, "cache": _flag, "class_names": _flag, "base": Path},
}


@command()
def label(
    context: typer.Context,
    examples: Path = argument(
        "A folder that holds one folder of pictures (or of .txt files) for each class, and if you like one called "
        "unknown with those of none of them; or a table, of texts (.csv, .jsonl, .parquet) or of embeddings (.parquet, "
        ".csv, .npz, ...). Or RESULTS alone: a folder that this command wrote. Its pile is labelled again, by all that "
        "was said since and with the same options."
    ),
    pile: Path | None = argument(
        "A folder of pictures or .txt files to label; or a second table, or a folder of Parquet parts. One table may "
        "hold both examples and pile: rows with a blank label are labelled.",
        None,
    ),
    output: Path | None = of_results(
        "Folder for the labels and the report. Default: handful-out; if RESULTS are given, RESULTS itself.",
        names=shared.OUTPUT,
    ),
    sort: str | None = under("Results", shared.SORT),
    export: list[str] | None = of_results("Also write a file for another tool: label-studio, fiftyone or coco."),
    overwrite: bool = of_results("Replace earlier results in the folder.", False),
    unknown: Path | None = of_knowledge(
        "Examples that belong to none of the classes: a folder of pictures or .txt files, or a table. A few make the "
        "labels much better."
    ),
    corrections: list[Path] | None = of_knowledge(
        "Corrected labels, as the report page stores them (.json), or a .csv with the columns path and label; the "
        "label unknown means none of the classes. The items become examples. May be given several times."
    ),
    undo: bool = of_knowledge("With RESULTS: take back what was said last, and label again.", False),
    outlier_share: str = of_method(
        "About how much of the pile belongs to none of the classes, between 0 and 1. auto: estimated from the pile.",
        "auto",
        metavar="auto|SHARE",
    ),
    precision: float | None = under("How the pile is labelled", shared.PRECISION),
    method: str = of_method("The method; `handful methods` lists them.", "auto"),
    backbone: str = of_method(
        "For pictures: good (two networks, the default), fast (one, three times as fast) or best (three, slower "
        "still); a name that `handful backbones` lists; or an .onnx file. For texts: minilm, or a folder with an "
        "encoder.",
        "",
    ),
    text: str | None = under("How the pile is labelled", shared.TEXT),
    label: str | None = under("How the pile is labelled", shared.LABEL),
    set_: list[str] | None = of_method(
        "Anything else; may be given several times. Decisions: unknown_rate=0.2 (exactly this share is unknown), "
        "max_false_unknown=0.05 (at most this share of the items of a class is called unknown), threshold=0.5, fdr=0.1 "
        "(with --method conformal), group_detail=-2 to 2 (coarse to fine groups). Networks: device=auto, cpu, cuda, "
        "coreml or directml; of an .onnx file preset=clip, dinov2, imagenet or siglip, size=224, mean=0.5,0.5,0.5 and "
        "std; base=MODEL.base.safetensors, what is known about its base classes, for methods that centre on their mean "
        "or learn from them (found beside MODEL.onnx, or in a table of `handful embed`). Texts: class_names=true (the "
        "name of a class is one more example of it, which helps where a class has one or two). Reading: strict=true "
        "(stop at the first broken file), cache=false. Tables: columns=f*, exclude=price,year, embedding=X. In Python "
        "they are options of handful.Project.",
        names=("--set",),
        metavar="NAME=VALUE",
    ),
    engine: str = shared.ENGINE,
    yes: bool = shared.YES,
    as_json: bool = shared.JSON,
) -> None:
    """Label a pile of pictures or texts from a handful of examples, and set aside what belongs to none of the classes.

    Writes labels.csv, labels.parquet (with the extra `parquet`), the model, and report.html to look at. Unknown items
    that look alike also form groups, and `handful promote` makes classes of groups.

    Example: handful label examples/ pile/ -o out

    Texts: handful label tickets.csv -o out. The table has a column of texts and one of labels, which is blank in the
    rows to label; the command says which columns it took, and --text and --label name others. Every column is carried
    along to the labels. Rows without a text are called unknown. Long texts are cut into pieces, whose features are
    averaged.

    The folder keeps what you say of its items: by `handful ask`, `check` and `promote`, and in `handful workbench out`.
    To label again by all of it, with the same options: handful label out. On the report page you can correct labels and
    download the corrections: handful label out --corrections corrections.json

    In labels.csv, text that a spreadsheet would read as a formula (it begins with = + - @) gets an apostrophe in
    front; labels.parquet and the exports hold it unchanged.

    With --engine ray the machines of a cluster embed the pictures. All of them must see the pictures and the output
    under the same path. The cache of features is not used then, because its file cannot be locked on a network drive:
    features are kept in the output folder, in features/, where the same command and `handful promote` find them.

    A folder of Parquet parts, as `handful embed --engine ray` writes it, is labelled part by part if it has more than
    100,000 rows or if --engine ray is given: then it need not fit into memory. The folder labels/ in the output has one
    part of labels for each part of the pile; there is no report and there are no groups. If the command is stopped, the
    same command continues.
    """
    from handful.backbones.catalogue import concrete_name
    from handful.project import Project
    from handful.project.corrections import read_corrections
    from handful.project.items import default_backbone
    from handful.project.job import Job, check_paths
    from handful.project.labelling import check_decision
    from handful.project.large_pile import check_in_parts, goes_in_parts
    from handful.project.outputs import check_output, is_project

    formats, files = export or (), corrections or ()
    where, address = parse_engine(engine)
    if pile is None and is_project(examples):
        sources = {name: context.get_parameter_source(name) for name in ONCE}
        if given := [name for name, source in sources.items() if source and source.name == "COMMANDLINE"]:
            raise ValueError(
                f"--{given[0].rstrip('_').replace('_', '-')}: the pile of {str(examples)!r} is labelled again with the "
                "options of before; leave it out, or name the examples and the pile"
            )
        project = Project(examples, agree=ask_user(yes))
        parse_engine(project.job.engine)
        if output is not None and output.absolute() != examples.absolute():
            check_output(output, overwrite, formats or project.job.formats, sort)
        if undo:
            project.check_trust()
            Console(aside=as_json).print(f"Taken back: {project.undo()}.")
        new: dict[str, Any] = {"unknown": unknown, "formats": formats, "sort": sort, "output": output}
        run(project, as_json, partial(project.label, corrections=read_corrections(files), **new), output=output)
        return
    if undo:
        raise ValueError("--undo takes back what was said in a project: name it, as in: handful label out --undo")
    output, settings = output or Path("handful-out"), parse_settings(set_ or ())
    share = parse_share(outlier_share)
    decision = {"method": method, "outlier_share": share, "precision": precision} | settings["decision"]
    check_decision(**decision)
    table = settings["table"] | ({} if label is None else {"label": label})
    job = Job(
        examples, pile, decision, "", settings["backbone_options"], formats=formats, sort=sort,
        results=[output], engine=where, table=table, unknown=unknown, text=text, **settings[""],
    )  # fmt: skip
    job = replace(job, backbone=concrete_name(backbone or default_backbone(job.kind)))
    check_paths(job, output)
    if goes_in_parts(job):
        check_in_parts(job, output, overwrite, files)
        _run_in_parts(job, output, as_json, address)
        return
    check_output(output, overwrite, job.formats, job.sort)
    project = Project.of_job(output, job)
    run(project, as_json, partial(project.label, corrections=read_corrections(files)), address=address)


def parse_settings(texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The values of --set, by the field of `Job` and their name."""
    settings: dict[str, dict[str, Any]] = {part: {} for part in SETTINGS}
    for text in texts:
        name, _, value = text.partition("=")
        part = next((part for part, names in SETTINGS.items() if name in names), None)
        if part is None or not value:
            names = ", ".join(name for part in SETTINGS.values() for name in part)
            raise ValueError(f"--set {text}: give NAME=VALUE, where NAME is one of {names}")
        try:
            settings[part][name] = SETTINGS[part][name](value)
        except (ValueError, KeyError):
            raise ValueError(f"--set {text}: {value!r} is no value of {name}, see handful label --help") from None
    return settings


def run(
    project: Project,
    as_json: bool,
    label_pile: Callable[..., Labelled],
    output: Path | None = None,
    address: str | None = None,
) -> None:
    """Label a pile by `label_pile`, write the results, also to another folder, and print what happened."""
    from handful.project.summary import EXPECTED_HEAD, expected_rows

    console, job, place = Console(aside=as_json), project.job, output or project.folder
    kept = PARTS_KEPT if job.engine == "ray" else CACHE_KEPT * job.cache
    unit = "items" if job.kind == "embeddings" else job.kind
    with console.work(unit, kept) as progress, _embedder(job, place, address) as embedder:
        labelled = label_pile(embedder=embedder, progress=progress)
    files, pile = project.files, labelled.pile
    if as_json:
        print_json(_document(labelled, files))
        return
    if pile.about_columns:
        console.print(f"{pile.about_columns[0].upper()}{pile.about_columns[1:]}.")
    console.print(*labelled.sentences, wrap=True)
    console.classes(EXPECTED_HEAD, expected_rows(labelled.expected_precision_by_class or {}))
    console.skipped(labelled.skipped)
    console.print(f"\nThe labels: {written_tables(files)}")
    exported = [path for name, path in files.items() if name.endswith(".json") and name != "results.json"]
    console.print(*(f"For other tools: {path}" for path in exported))
    if "sorted" in files:
        console.print(f"The sorted {job.kind}: {files['sorted']}")
    target = shlex.quote(str(place))
    if labelled.groups:
        console.print(f"To make a class of the largest group: handful promote {target} 1=NAME")
    if mixed := next((group for group in labelled.groups if group.kinds > 1), None):
        kinds = " ".join(f"{mixed.number}.{k}=NAME{k}" for k in range(1, mixed.kinds + 1))
        console.print(f"To split group {mixed.number} into its kinds: handful promote {target} {kinds}")
    console.print(
        f"To improve the labels by five answers: handful ask {target}",
        f"To find out how many labels are right: handful check {target}",
        f"To correct labels: use the report, then handful label {target} --corrections FILE",
    )
    if labelled.warnings:
        console.print(f"To go back to the labels of before: handful label {target} --undo")
    console.print(f"The report, to look at: {files['report.html'].resolve()}", style="bold")


def _run_in_parts(job: Job, output: Path, as_json: bool, address: str | None) -> None:
    from handful.project.large_pile import label_in_parts
    from handful.project.summary import EXPECTED_HEAD, expected_rows

    console = Console(aside=as_json)
    kept = "What is done so far is stored: the same command continues from there."
    with console.work("parts", kept) as progress, ExitStack() as stack:
        engine = None
        if job.engine == "ray":
            from handful.utils.ray import map_on_ray

            engine = partial(map_on_ray, address=address, until=stack)
        outcome, files = label_in_parts(job, output, engine, progress)
    if as_json:
        print_json({**outcome.numbers, "groups": [], "skipped": [], "files": absolute(files)})
        return
    console.print(*outcome.sentences, wrap=True)
    console.classes(EXPECTED_HEAD, expected_rows(outcome.expected or {}))
    example = shlex.join(["handful", "label", str(job.examples), f"{job.pile}/part-00000.parquet", "-o", "one-part"])
    console.print(
        f"\nThe labels: {files['labels']}, one part for each part of the pile",
        f"There is no report for a pile in parts. For a report of one part: {example}",
    )


def _embedder(job: Job, output: Path, address: str | None) -> AbstractContextManager[Any]:
    """Who embeds the pictures, if it is not this process."""
    if job.engine != "ray":
        return nullcontext()
    from handful.backbones.embedding_on_ray import Recipe, ray_embedder

    first = (
        job.results[0] if job.results else output
    )  # after `handful promote`, the features that were made for the first results are there
    place = (first if first.is_dir() else output) / FEATURES
    return ray_embedder(Recipe(job.backbone, job.backbone_options), place, address)


def _document(labelled: Labelled, files: dict[str, Path]) -> dict[str, Any]:
    """What --json prints."""
    from handful.utils.files import printable

    names = [printable(name) for name in labelled.pile.names]
    return {
        **labelled.outcome.numbers,
        "groups": [
            {name: getattr(group, name) for name in ("number", "name", "size", "kinds")}
            | {"items": [names[i] for i in group.items]}
            for group in labelled.groups
        ],
        "warnings": list(labelled.warnings),
        "columns": {
            "features": None if labelled.pile.columns is None else list(labelled.pile.columns),
            "carried": list(labelled.pile.others),
            "set_aside": list(labelled.pile.set_aside),
            "text": labelled.pile.source.get("text"),
        },
        "notes": labelled.notes,
        "skipped": skipped_rows(labelled.skipped),
        "files": absolute(files),
    }
