"""`handful label`: labels for a pile from a few examples."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from handful.cli._app import command
from handful.cli._console import (
    CACHE_KEPT,
    MAX_TABLE_ROWS,
    PARTS_KEPT,
    absolute,
    ask_user,
    console_for,
    print_json,
    print_lines,
    print_skipped,
    print_table,
    progress_bars,
    skipped_rows,
    stoppable,
    written_tables,
)
from handful.cli._options import (
    ClusterOptions,
    Json,
    Precision,
    Sort,
    TextColumn,
    Yes,
    parse_names,
    parse_numbers,
    parse_share,
)

if TYPE_CHECKING:
    from rich.console import Console

    from handful.project import Labelled, Project
    from handful.project.job import Job

ROWS_KEPT = "What is done so far is stored: the same command continues from there."
DEFAULT_OUTPUT = Path("handful-out")
FEATURES = "features"  # the folder of embedded parts inside the output folder


def _flag(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


SETTINGS: dict[str, dict[str, Callable[[str], Any]]] = {  # what --set takes, by the field of `Job` that it is part of
    "decision": dict.fromkeys(("unknown_rate", "max_false_unknown", "threshold", "fdr", "group_detail"), float),
    "backbone_options": {"device": str, "preset": str, "size": int, "mean": parse_numbers, "std": parse_numbers},
    "table": {"columns": parse_names, "exclude": parse_names, "embedding": str},
    "": {"strict": _flag, "cache": _flag},
}


@dataclass(frozen=True)
class ResultOptions:
    """What is written, and where."""

    PANEL: ClassVar[str] = "Results"

    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Folder for the labels and the report. Default: handful-out; if RESULTS are given, RESULTS itself.",
        ),
    ] = None
    sort: Sort = None
    export: Annotated[
        list[str] | None, typer.Option(help="Also write a file for another tool: label-studio, fiftyone or coco.")
    ] = None
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace earlier results in the folder.")] = False


@dataclass(frozen=True)
class KnowledgeOptions:
    """What a person knows beside the examples."""

    PANEL: ClassVar[str] = "What else you know"

    unknown: Annotated[
        Path | None,
        typer.Option(
            help="Examples that belong to none of the classes: a folder of pictures or .txt files, or a table. A few "
            "make the labels much better.",
        ),
    ] = None
    corrections: Annotated[
        list[Path] | None,
        typer.Option(
            help="Corrected labels, as the report page stores them (.json), or a .csv with the "
            "columns path and label; the label unknown means none of the classes. The items become examples. May be "
            "given several times.",
        ),
    ] = None
    class_names: Annotated[
        bool,
        typer.Option(
            "--class-names",
            help="Texts only: take the name of each class as one more example of it. Helps much where a class has one "
            "or two examples and a name that says what it is about; a name such as c17 does harm.",
        ),
    ] = False
    undo: Annotated[
        bool, typer.Option("--undo", help="With RESULTS: take back what was said last, and label again.")
    ] = False


@dataclass(frozen=True)
class MethodOptions:
    """How items are turned into features, and features into labels."""

    PANEL: ClassVar[str] = "How the pile is labelled"

    outlier_share: Annotated[
        str,
        typer.Option(
            metavar="auto|SHARE",
            help="About how much of the pile belongs to none of the classes, between 0 and 1. auto: estimated from the "
            "pile.",
        ),
    ] = "auto"
    precision: Precision = None
    method: Annotated[str, typer.Option(help="The method; `handful methods` lists them.")] = "auto"
    backbone: Annotated[
        str,
        typer.Option(
            help="For pictures: good (two networks, the default), fast (one, three times as fast) or best (three, "
            "slower still); a name that `handful backbones` lists; or an .onnx file. For texts: minilm, or a folder "
            "with an encoder."
        ),
    ] = ""
    base: Annotated[
        Path | None,
        typer.Option(
            help="What is known about the backbone's base classes, MODEL.base.safetensors: for methods that centre on "
            "their mean or learn from them. Default: the file beside MODEL.onnx, or the mean that `handful embed` "
            "stored in a table.",
        ),
    ] = None
    text: TextColumn = None
    label: Annotated[
        str | None, typer.Option(help="The column (or array) of labels. Default: label (labels), if there is one.")
    ] = None
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Anything else; may be given several times. Decisions: unknown_rate=0.2 (exactly this share is "
            "unknown), max_false_unknown=0.05 (at most this share of the items of a class is called unknown), "
            "threshold=0.5, fdr=0.1 (with --method conformal), group_detail=-2 to 2 (coarse to fine groups). Networks: "
            "device=auto, cpu, cuda, coreml or directml; of an .onnx file preset=clip, dinov2, imagenet or siglip, "
            "size=224, mean=0.5,0.5,0.5 and std. Reading: strict=true (stop at the first broken file), cache=false. "
            "Tables: columns=f*, exclude=price,year, embedding=X. In Python they are options of handful.Project.",
        ),
    ] = None


@command()
def label(
    examples: Annotated[
        Path,
        typer.Argument(
            help="A folder that holds one folder of pictures (or of .txt files) for each class, and if you like one "
            "called unknown with those of none of them; or a table, of texts (.csv, .jsonl, .parquet) or of embeddings "
            "(.parquet, .csv, .npz, ...). Or RESULTS alone: a folder that this command wrote. Its pile is labelled "
            "again, by all that was said since and with the same options."
        ),
    ],
    pile: Annotated[
        Path | None,
        typer.Argument(
            help="A folder of pictures or .txt files to label; or a second table, or a folder of Parquet parts. "
            "One table may hold both examples and pile: rows with a blank label are labelled."
        ),
    ] = None,
    *,
    results: ResultOptions,
    knowledge: KnowledgeOptions,
    how: MethodOptions,
    cluster: ClusterOptions,
    yes: Yes = False,
    as_json: Json = False,
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
    from handful.project import Project
    from handful.project.corrections import read_corrections
    from handful.project.job import check_paths
    from handful.project.large_pile import check_in_parts, goes_in_parts
    from handful.project.outputs import check_output, is_project

    formats, files, undo = results.export or (), knowledge.corrections or (), knowledge.undo
    cluster.check()
    if pile is None and is_project(examples):
        _refuse_again(examples, knowledge.class_names, how, cluster)
        project = Project(examples, agree=ask_user(yes))
        ClusterOptions(project.job.engine).check()
        if results.output is not None and results.output.absolute() != examples.absolute():
            check_output(results.output, results.overwrite, formats or project.job.formats, results.sort)
        if undo:
            project.check_trust()
            print_lines(console_for(as_json), [f"Taken back: {project.undo()}."])
        label_again = partial(
            project.label, output=results.output, corrections=read_corrections(files), unknown=knowledge.unknown,
            formats=formats, sort=results.sort,
        )  # fmt: skip
        run(project, as_json, label_again, output=results.output)
        return
    if undo:
        raise ValueError(
            "--undo takes back what was said in a project: give its folder, as in: handful label out --undo"
        )
    output = results.output or DEFAULT_OUTPUT
    job = _job(examples, pile, output, results, knowledge, how, cluster.engine)
    check_paths(job, output)
    if goes_in_parts(job.examples, job.pile, job.engine) and job.pile is not None:
        check_in_parts(job.examples, job.pile, output, results.overwrite, job.formats, job.sort, files)
        _run_in_parts(job, output, as_json, cluster.address)
        return
    check_output(output, results.overwrite, job.formats, job.sort)
    project = Project.of_job(output, job)
    run(project, as_json, partial(project.label, corrections=read_corrections(files)), address=cluster.address)


def _job(
    examples: Path,
    pile: Path | None,
    output: Path,
    results: ResultOptions,
    knowledge: KnowledgeOptions,
    how: MethodOptions,
    engine: str,
) -> Job:
    """The job that the options describe."""
    from handful.backbones.catalogue import concrete_name
    from handful.project.decision import check_decision
    from handful.project.items import default_backbone
    from handful.project.job import Job

    settings = parse_settings(how.settings or ())
    share = parse_share(how.outlier_share)
    decision = {"method": how.method, "outlier_share": share, "precision": how.precision} | settings["decision"]
    check_decision(**decision)
    table = settings["table"] | ({} if how.label is None else {"label": how.label})
    job = Job(
        examples, pile, decision, "", settings["backbone_options"], formats=results.export or (), sort=results.sort,
        results=[output], engine=engine, base=how.base, table=table, unknown=knowledge.unknown, text=how.text,
        class_names=knowledge.class_names, **settings[""],
    )  # fmt: skip
    return replace(job, backbone=concrete_name(how.backbone or default_backbone(job.kind)))


def parse_settings(texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The values of --set, by the field of `Job` and their name.

    Examples
    --------
    >>> settings = parse_settings(["threshold=0.5", "mean=0.5,0.5,0.5"])
    >>> settings["decision"], settings["backbone_options"]
    ({'threshold': 0.5}, {'mean': [0.5, 0.5, 0.5]})
    """
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


def _refuse_again(folder: Path, class_names: bool, how: MethodOptions, cluster: ClusterOptions) -> None:
    """Raise ValueError for options that a project has already."""
    named = {"class_names": class_names, "engine": cluster != ClusterOptions()}
    named |= {field.name: getattr(how, field.name) != field.default for field in fields(how)}
    if wrong := [name for name, is_given in named.items() if is_given]:
        raise ValueError(
            f"--{wrong[0].replace('settings', 'set').replace('_', '-')}: the pile of {str(folder)!r} is labelled again "
            "with the options of before; leave it out, or name the examples and the pile"
        )


def run(
    project: Project,
    as_json: bool,
    label_pile: Callable[..., Labelled],
    *,
    output: Path | None = None,
    address: str | None = None,
) -> None:
    """Label a pile, write the results and print what happened.

    label_pile: labels it, with the arguments `embedder` and `progress`. output: where the results go, if not into the
    folder of the project.
    """
    place = output or project.folder
    console, job = console_for(as_json), project.job
    kept = PARTS_KEPT if job.engine == "ray" else CACHE_KEPT * job.cache
    with (
        stoppable(console, kept),
        progress_bars(console, "items" if job.kind == "embeddings" else job.kind) as progress,
        _embedder(job, place, address) as embedder,
    ):
        labelled = label_pile(embedder=embedder, progress=progress)
    files, pile = project.files, labelled.pile
    if as_json:
        print_json(_document(labelled, files))
        return
    if pile.about_columns:
        print_lines(console, [f"{pile.about_columns[0].upper()}{pile.about_columns[1:]}."])
    for sentence in labelled.sentences:
        console.print(sentence, markup=False)
    _print_expected(console, labelled.expected_precision_by_class)
    print_skipped(console, labelled.skipped)
    lines = [f"\nThe labels: {written_tables(files)}"]
    exported = [path for name, path in files.items() if name.endswith(".json") and name != "results.json"]
    lines += [f"For other tools: {path}" for path in exported]
    if "sorted" in files:
        lines.append(f"The sorted {job.kind}: {files['sorted']}")
    target = shlex.quote(str(place))
    if labelled.groups:
        lines.append(f"To make a class of the largest group: handful promote {target} 1=NAME")
        if mixed := next((group for group in labelled.groups if group.kinds > 1), None):
            kinds = " ".join(f"{mixed.number}.{k}=NAME{k}" for k in range(1, mixed.kinds + 1))
            lines.append(f"To split group {mixed.number} into its kinds: handful promote {target} {kinds}")
    lines.append(f"To improve the labels by five answers: handful ask {target}")
    lines.append(f"To find out how many labels are right: handful check {target}")
    lines.append(f"To correct labels: use the report, then handful label {target} --corrections FILE")
    if labelled.comparison is not None and labelled.comparison.warnings:
        lines.append(f"To go back to the labels of before: handful label {target} --undo")
    print_lines(console, lines)
    report = f"The report, to look at: {files['report.html'].resolve()}"
    console.print(report, markup=False, soft_wrap=True, style="bold")


def _run_in_parts(job: Job, output: Path, as_json: bool, address: str | None) -> None:
    from handful.project.large_pile import label_in_parts

    console = console_for(as_json)
    with ExitStack() as stack:
        stack.enter_context(stoppable(console, ROWS_KEPT))
        progress = stack.enter_context(progress_bars(console, "parts"))
        engine = None
        if job.engine == "ray":
            from handful.utils.ray import map_on_ray

            engine = partial(map_on_ray, address=address, until=stack)
        done = label_in_parts(job, output, engine, progress)
    if as_json:
        print_json({**done.outcome.numbers, "groups": [], "skipped": [], "files": absolute(done.files)})
        return
    for sentence in done.outcome.sentences:
        console.print(sentence, markup=False)
    _print_expected(console, done.outcome.expected)
    example = shlex.join(["handful", "label", str(job.examples), f"{job.pile}/part-00000.parquet", "-o", "one-part"])
    print_lines(
        console,
        [
            f"\nThe labels: {done.files['labels']}, one part for each part of the pile",
            f"There is no report for a pile in parts. For a report of one part: {example}",
        ],
    )


def _print_expected(console: Console, expected: Mapping[Any, Any] | None) -> None:
    """How many labels of each class should be right."""
    from handful.project.summary import EXPECTED_HEAD, expected_rows

    if rows := expected_rows(expected or {}):
        print_table(console, EXPECTED_HEAD, rows, limit=MAX_TABLE_ROWS)


def _embedder(job: Job, output: Path, address: str | None) -> AbstractContextManager[Any]:
    if job.engine != "ray":
        return nullcontext()
    from handful.backbones.embedding_on_ray import RayEmbedder, Recipe

    first = job.results[0]  # after `handful promote`, the features that were made for the first results are there
    place = (first if first.is_dir() else output) / FEATURES
    return RayEmbedder(Recipe(job.backbone, job.backbone_options), place, address)


def _document(labelled: Labelled, files: dict[str, Path]) -> dict[str, Any]:
    """What --json prints."""
    from handful.utils.files import printable

    names = [printable(name) for name in labelled.pile.names]
    return {
        **labelled.outcome.numbers,
        "groups": [
            {
                "number": group.number,
                "name": group.name,
                "size": group.size,
                "kinds": group.kinds,
                "items": [names[i] for i in group.items],
            }
            for group in labelled.groups
        ],
        **({} if labelled.comparison is None else {"comparison": labelled.comparison.entries()}),
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
