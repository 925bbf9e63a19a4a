"""`handful label`: labels for a pile from a few examples."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
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

    from handful.project import Job, Labelled

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
            help="Folder for the labels and the report. Default: handful-out; if RESULTS are given, RESULTS-2, -3, ...",
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
            "(.parquet, .csv, .npz, ...). With --corrections or --unknown also RESULTS: a folder that this command "
            "wrote, whose pile is labelled again."
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
            "of them help much.",
        ),
    ] = None,
    corrections: Annotated[
        list[Path] | None,
        typer.Option(
            rich_help_panel=SAID_PANEL,
            help="Corrected labels, as the report page or `handful check` stores them (.json), or a .csv with the "
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

    On the report page you can correct labels and download the corrections. Then label again, with the options of
    before: handful label out --corrections corrections.json

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
    from handful.project import Job
    from handful.project.corrections import read_corrections
    from handful.project.decision import check_decision
    from handful.project.job import check_paths, next_results
    from handful.project.large_pile import check_in_parts, goes_in_parts
    from handful.project.outputs import check_output
    from handful.project.results_job import is_results, job_again

    formats, files = results.export or (), corrections or ()
    cluster.check()
    if pile is None and is_results(examples):
        _check_options_again(examples, files, unknown, base, text, decision, backbone, reading, table, cluster)
        if class_names:
            raise ValueError("--class-names: leave it out, the pile is labelled again with the options of before")
        output = results.output or next_results(examples)
        job = job_again(
            examples, output, formats=formats, sort=results.sort, unknown=unknown, agree=ask_user(yes)
        )  # fmt: skip
        check_engine(job.engine)
    else:
        output = results.output or DEFAULT_OUTPUT
        job = Job(
            examples, pile, decision.arguments(), "", backbone.input_options(), reading.strict,
            reading.cache, formats, results.sort, [output], engine=cluster.engine, base=base, table=table.arguments(),
            unknown=unknown, text=text, class_names=class_names,
        )  # fmt: skip
        job = replace(job, backbone=backbone.name_for(job.kind))
    check_decision(**job.decision)
    check_paths(job, output)
    in_parts = goes_in_parts(job.examples, job.pile, job.engine)
    if in_parts and job.pile is not None:
        check_in_parts(job.examples, job.pile, output, results.overwrite, job.formats, job.sort, files)
        _run_in_parts(job, output, as_json, cluster.address)
        return
    check_output(output, results.overwrite, job.formats, job.sort)
    run(job, output, as_json, cluster.address, corrections=read_corrections(files))


def _check_options_again(
    folder: Path, corrections: Sequence[Path], unknown: Path | None, base: Path | None, text: str | None, *options: Any
) -> None:
    """Raise ValueError for options that the results in a folder have already, or if nothing is said of its items."""
    if not corrections and unknown is None:
        raise ValueError(
            f"{str(folder)!r} holds results: give --corrections FILE or --unknown FOLDER to label its pile again, or "
            "name the examples and the pile"
        )
    given = ["base"] * (base is not None) + ["text"] * (text is not None)
    given += [field.name for group in options for field in fields(group) if getattr(group, field.name) != field.default]
    if given:
        raise ValueError(
            f"--{given[0].replace('_', '-')}: the pile of {str(folder)!r} is labelled again with the options of "
            "before; leave it out, or name the examples and the pile"
        )


def run(
    job: Job,
    output: Path,
    as_json: bool,
    address: str | None = None,
    before: tuple[Path, Mapping[int | str, str]] | None = None,
    corrections: Mapping[str, str] | None = None,
) -> None:
    """Label a pile, write the results and print what happened.

    before: after a promotion, the earlier results and the names of their groups. The labels are compared with them.
    corrections: the class of items of the pile, by their name.
    """
    from handful.project import label_items, write_outputs
    from handful.project.promotion import compare_results
    from handful.project.results_job import apply_corrections

    console = console_for(as_json)
    kept = PARTS_KEPT if job.engine == "ray" else CACHE_KEPT * job.cache
    with (
        stoppable(console, kept),
        progress_bars(console, "items" if job.kind == "embeddings" else job.kind) as progress,
        _embedder(job, output, address) as embedder,
    ):
        examples, pile, pile_labels = job.read(progress, embedder)
        if corrections:
            job = apply_corrections(job, pile, corrections)
            pile_labels = job.find_promoted(pile)
        labelled = label_items(examples, pile, pile_labels=pile_labels, **job.decision)
        labelled.is_share_kept = job.is_share_kept
        if before is not None:
            labelled.comparison = compare_results(labelled, examples, *before)
        files = write_outputs(labelled, output, formats=job.formats, sort=job.sort, job=job, progress=progress)
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
    target = shlex.quote(str(output))
    if labelled.groups:
        lines.append(f"To make a class of the largest group: handful promote {target} 1=NAME")
        if mixed := next((group for group in labelled.groups if group.kinds > 1), None):
            kinds = " ".join(f"{mixed.number}.{k}=NAME{k}" for k in range(1, mixed.kinds + 1))
            lines.append(f"To split group {mixed.number} into its kinds: handful promote {target} {kinds}")
    lines.append(f"To improve the labels by five answers: handful ask {target}")
    lines.append(f"To find out how many labels are right: handful check {target}")
    lines.append(f"To correct labels: use the report, then handful label {target} --corrections FILE")
    if before is not None and labelled.comparison is not None and labelled.comparison.warnings:
        lines.append(f"The earlier results are unchanged. To go back, use them again: {before[0]}")
    print_lines(console, lines)
    report = f"The report, to look at: {files['report.html'].resolve()}"
    console.print(report, markup=False, soft_wrap=True, style="bold")


def _run_in_parts(job: Job, output: Path, as_json: bool, address: str | None) -> None:
    from handful.project.large_pile import label_in_parts, numbers_of

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
        numbers = numbers_of(done.outcome)
        typer.echo(json.dumps({**numbers, "groups": [], "skipped": [], "files": absolute(done.files)}, indent=2))
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
    from handful.project.summary import expected_numbers
    from handful.utils.files import printable

    names = [printable(name) for name in labelled.pile.names]
    return {
        "items": len(names),
        "unknown": int(labelled.unknown.sum()),
        "labels": {str(c): int((labelled.labels == c).sum()) for c in labelled.model.classes_},
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
        **expected_numbers(labelled.expected_precision_by_class, int(labelled.set_aside.sum())),
        **labelled.share,
        "threshold": labelled.model.threshold_,
        "decided": labelled.decision,
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
