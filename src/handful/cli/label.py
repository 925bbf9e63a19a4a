"""`handful label`: labels for a pile from a few examples."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from handful.cli._app import command
from handful.cli._console import (
    CACHE_KEPT,
    PARTS_KEPT,
    absolute,
    ask_user,
    console_for,
    print_lines,
    print_skipped,
    print_table,
    progress_bars,
    skipped_rows,
    stoppable,
    written_tables,
)
from handful.cli._options import (
    BackboneOptions,
    ClusterOptions,
    DecisionOptions,
    Json,
    ReadingOptions,
    Sort,
    TableOptions,
    TextColumn,
    Yes,
    check_engine,
)

if TYPE_CHECKING:
    from rich.console import Console

    from handful.project import Job, Labelled, Project

ROWS_KEPT = "What is done so far is stored: the same command continues from there."
DEFAULT_OUTPUT = Path("handful-out")
SAID_PANEL = "What else you know"
FEATURES = "features"  # the folder of embedded parts inside the output folder


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
    unknown: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel=SAID_PANEL,
            help="Examples that belong to none of the classes: a folder of pictures or .txt files, or a table. A few "
            "make the labels much better.",
        ),
    ] = None,
    corrections: Annotated[
        list[Path] | None,
        typer.Option(
            rich_help_panel=SAID_PANEL,
            help="Corrected labels, as the report page stores them (.json), or a .csv with the "
            "columns path and label; the label unknown means none of the classes. The items become examples. May be "
            "given several times.",
        ),
    ] = None,
    decision: DecisionOptions,
    backbone: BackboneOptions,
    base: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel=BackboneOptions.PANEL,
            help="What is known about the backbone's base classes, MODEL.base.safetensors: for methods that centre on "
            "their mean or learn from them. Default: the file beside MODEL.onnx, or the mean that `handful embed` "
            "stored in a table.",
        ),
    ] = None,
    reading: ReadingOptions,
    table: TableOptions,
    text: TextColumn = None,
    class_names: Annotated[
        bool,
        typer.Option(
            "--class-names",
            rich_help_panel=SAID_PANEL,
            help="Texts only: take the name of each class as one more example of it. Helps much where a class has one "
            "or two examples and a name that says what it is about; a name such as c17 does harm.",
        ),
    ] = False,
    undo: Annotated[
        bool,
        typer.Option(
            "--undo", rich_help_panel=SAID_PANEL, help="With RESULTS: take back what was said last, and label again."
        ),
    ] = False,
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
    from handful.project import Job, Project
    from handful.project.corrections import read_corrections
    from handful.project.decision import check_decision
    from handful.project.job import check_paths
    from handful.project.large_pile import check_in_parts, goes_in_parts
    from handful.project.outputs import check_output, is_project

    formats, files = results.export or (), corrections or ()
    cluster.check()
    if pile is None and is_project(examples):
        _check_options_again(examples, base, text, class_names, decision, backbone, reading, table, cluster)
        project = Project(examples, agree=ask_user(yes))
        check_engine(project.job.engine)
        if results.output is not None and results.output.absolute() != examples.absolute():
            check_output(results.output, results.overwrite, formats or project.job.formats, results.sort)
        if undo:
            project.check_trust()
            print_lines(console_for(as_json), [f"Taken back: {project.undo()}."])
        label_again = partial(
            project.label, output=results.output, corrections=read_corrections(files), unknown=unknown, formats=formats,
            sort=results.sort,
        )  # fmt: skip
        run(project, as_json, label_again, output=results.output)
        return
    if undo:
        raise ValueError(
            "--undo takes back what was said in a project: give its folder, as in: handful label out --undo"
        )
    output = results.output or DEFAULT_OUTPUT
    job = Job(
        examples, pile, decision.arguments(), "", backbone.input_options(), reading.strict,
        reading.cache, formats, results.sort, [output], engine=cluster.engine, base=base, table=table.arguments(),
        unknown=unknown, text=text, class_names=class_names,
    )  # fmt: skip
    job = replace(job, backbone=backbone.name_for(job.kind))
    check_decision(**job.decision)
    check_paths(job, output)
    if goes_in_parts(job.examples, job.pile, job.engine) and job.pile is not None:
        check_in_parts(job.examples, job.pile, output, results.overwrite, job.formats, job.sort, files)
        _run_in_parts(job, output, as_json, cluster.address)
        return
    check_output(output, results.overwrite, job.formats, job.sort)
    project = Project.of_job(output, job)
    run(project, as_json, partial(project.label, corrections=read_corrections(files)), address=cluster.address)


def _check_options_again(folder: Path, base: Path | None, text: str | None, class_names: bool, *options: Any) -> None:
    """Raise ValueError for options that a project has already."""
    given = ["base"] * (base is not None) + ["text"] * (text is not None) + ["class_names"] * class_names
    given += [field.name for group in options for field in fields(group) if getattr(group, field.name) != field.default]
    if given:
        raise ValueError(
            f"--{given[0].replace('_', '-')}: the pile of {str(folder)!r} is labelled again with the options of "
            "before; leave it out, or name the examples and the pile"
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
        typer.echo(json.dumps(_document(labelled, files), indent=2))
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
        typer.echo(
            json.dumps({**done.outcome.numbers, "groups": [], "skipped": [], "files": absolute(done.files)}, indent=2)
        )
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
        print_table(console, EXPECTED_HEAD, rows)


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
