"""The practitioner's commands: label, predict, undo."""

from __future__ import annotations

import json
import shlex
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from handful.cli._shared import (
    REMEMBERED,
    SHARDS_KEPT,
    Address,
    Backbone,
    BaseFile,
    Engine,
    Json,
    Mean,
    NoCache,
    Overwrite,
    Size,
    Sort,
    Std,
    Strict,
    Yes,
    app,
    as_rows,
    ask_user,
    bars,
    check_engine,
    console_for,
    numbers,
    say_skipped,
    share_from,
    stoppable,
)

if TYPE_CHECKING:
    from handful.label import Job, Labelled

PASSES_KEPT = "What is done so far is kept: the same command goes on from there."
FEATURES = "features"  # the folder of shards, in that of the labels


@app.command()
def label(
    examples: Annotated[
        Path,
        typer.Argument(help="A folder with a folder of pictures for each class; or a table (.parquet, .csv)."),
    ],
    pile: Annotated[
        Path | None,
        typer.Argument(
            help="A folder of pictures to label; or a second table, or a folder of Parquet parts. "
            "One table may hold both."
        ),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the labels and the report.")] = Path(
        "handful-out"
    ),
    outlier_share: Annotated[
        str,
        typer.Option(
            metavar="auto|SHARE",
            help="About how much of the pile belongs to no class shown, between 0 and 1. auto: estimated from it.",
        ),
    ] = "auto",
    method: Annotated[str, typer.Option(help="See `handful methods`.")] = "auto",
    backbone: Backbone = "efficientnet_lite0",
    size: Size = None,
    mean: Mean = None,
    std: Std = None,
    base: BaseFile = None,
    unknown_rate: Annotated[float | None, typer.Option(help="Call just this share of the pile unknown.")] = None,
    max_false_unknown: Annotated[
        float | None, typer.Option(help="Call at most this share of the known ones unknown.")
    ] = None,
    threshold: Annotated[float | None, typer.Option(help="Call unknown what scores above this.")] = None,
    sort: Sort = None,
    export: Annotated[
        list[str] | None, typer.Option(help="Also write for another tool: label-studio, fiftyone or coco.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace earlier results in the folder.")] = False,
    strict: Strict = False,
    no_cache: NoCache = False,
    engine: Engine = "local",
    address: Address = None,
    as_json: Json = False,
) -> None:
    """Label a pile of pictures from a handful of examples, and set aside what belongs to none of their classes.

    Writes labels.csv, labels.parquet, the model, and report.html to look at. What is set aside is also put into groups
    that look alike, which `handful promote` makes classes of.

    In labels.csv, text that a spreadsheet would take for a formula (it begins with = + - @) has an apostrophe before
    it; labels.parquet and the exports have it as it is.

    With --engine ray the machines of a cluster embed the pictures, which must be under the same path on all of them, as
    the output must. The cache of features is not used then, as its file cannot be locked on a network drive: features
    are kept in the output folder, in features/, where the same command and `handful promote` find them.

    A folder of Parquet parts, as `handful embed --engine ray` writes it, is labelled part by part if it has more than
    100,000 rows or --engine ray is given: it need not fit into memory then. labels/ in the output has a part of labels
    for each of its parts; there is no report and there are no groups. The same command goes on where it was stopped.

    Example: handful label examples/ pile/ -o out
    """
    from handful.label import Job
    from handful.label.labelling import check_decision
    from handful.label.large_pile import check_in_parts, goes_in_parts
    from handful.label.outputs import check_output

    decision: dict[str, Any] = {
        "method": method, "outlier_share": share_from(outlier_share), "threshold": threshold,
        "unknown_rate": unknown_rate, "max_false_unknown": max_false_unknown,
    }  # fmt: skip
    check_decision(**decision)
    check_engine(engine, address)
    check_paths(examples, pile, output, sort, engine)
    in_parts = goes_in_parts(examples, pile, engine)
    if in_parts and pile is not None:
        check_in_parts(examples, pile, output, overwrite, export or (), sort)
    else:
        check_output(output, overwrite, export or (), sort)
    job = Job(
        examples, pile, decision, backbone, numbers(size=size, mean=mean, std=std), strict, not no_cache,
        export or (), sort, [output], engine=engine, base=base,
    )  # fmt: skip
    if in_parts:
        _run_in_parts(job, output, as_json, address)
    else:
        run(job, output, as_json, address)


def _run_in_parts(job: Job, output: Path, as_json: bool, address: str | None) -> None:
    from handful.label.large_pile import label_in_parts, numbers_of

    console = console_for(as_json)
    crew = None
    if job.engine == "ray":
        from handful.cluster.actors import Actors

        crew = Actors(address)
    with stoppable(console, PASSES_KEPT), bars(console, "steps") as progress:
        done = label_in_parts(job, output, crew, progress)
    if as_json:
        files = {name: str(path.resolve()) for name, path in done.files.items()}
        typer.echo(json.dumps({**numbers_of(done.outcome), "groups": [], "skipped": [], "files": files}, indent=2))
        return
    for sentence in done.outcome.sentences:
        console.print(sentence, markup=False)
    example = shlex.join(["handful", "label", str(job.examples), f"{job.pile}/part-00000.parquet", "-o", "one-part"])
    places = (
        f"\nThe labels: {done.files['labels']}, a part for each part of the pile",
        f"There is no report of a pile in parts; one of a part is made by: {example}",
    )
    for line in places:
        console.print(line, markup=False, soft_wrap=True)


def run(job: Job, output: Path, as_json: bool, address: str | None = None) -> None:
    """Label a pile, write the results and tell of them."""
    from handful.label import label_items, write_outputs
    from handful.label.move_journal import UNDO
    from handful.label.outputs import SORTED

    console = console_for(as_json)
    kept = SHARDS_KEPT if job.engine == "ray" else REMEMBERED * job.cache
    with (
        stoppable(console, kept, output / SORTED / UNDO),
        bars(console, "pictures") as progress,
        _embedder(job, output, address) as embedder,
    ):
        shown, found, given = job.read(progress, embedder)
        labelled = label_items(shown, found, given=given, **job.decision)
        files = write_outputs(labelled, output, formats=job.formats, sort=job.sort, job=job, progress=progress)
    if as_json:
        typer.echo(json.dumps(_for_machines(labelled, files), indent=2))
        return
    for sentence in labelled.sentences:
        console.print(sentence, markup=False)
    say_skipped(console, labelled.skipped)
    places = [f"\nThe labels: {files['labels.csv']} and {files['labels.parquet']}"]
    exported = [path for name, path in files.items() if name.endswith(".json") and name != "results.json"]
    places += [f"For other tools: {path}" for path in exported]
    if "sorted" in files:
        places.append(f"The sorted pictures: {files['sorted']}")
    if labelled.groups:
        places.append(f"To make a class of the largest group: handful promote {shlex.quote(str(output))} 1=NAME")
    for line in places:
        console.print(line, markup=False, soft_wrap=True)  # a path that is broken in two cannot be copied
    report = f"The report, to look at: {files['report.html'].resolve()}"
    console.print(report, markup=False, soft_wrap=True, style="bold")


def _embedder(job: Job, output: Path, address: str | None) -> AbstractContextManager[Any]:
    if job.engine != "ray":
        return nullcontext()
    from handful.cluster.embedding import ClusterEmbedder
    from handful.cluster.embedding_part import Recipe

    first = job.results[0]  # whoever promotes from these results finds the features that were made for them there
    place = (first if first.is_dir() else output) / FEATURES
    return ClusterEmbedder(Recipe(job.backbone, job.backbone_options), place, address)


def _for_machines(labelled: Labelled, files: dict[str, Path]) -> dict[str, Any]:
    from handful.utils.files import printable

    names = [printable(name) for name in labelled.pile.names]
    return {
        "items": len(names),
        "unknown": int(labelled.unknown.sum()),
        "labels": {str(c): int((labelled.labels == c).sum()) for c in labelled.model.classes_},
        "groups": [
            {"number": group.number, "name": group.name, "size": group.size, "items": [names[i] for i in group.items]}
            for group in labelled.groups
        ],
        **labelled.share,
        "threshold": labelled.model.threshold_,
        "skipped": as_rows(labelled.skipped),
        "files": {name: str(path.resolve()) for name, path in files.items()},
    }


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="A model.safetensors that `handful label` wrote.")],
    items: Annotated[Path, typer.Argument(help="A folder of pictures, or a table of embeddings.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A .csv or .parquet for the labels. Default: print them.")
    ] = None,
    backbone: Annotated[
        str | None, typer.Option(help="Where to find the one the model was made with, if not under its name.")
    ] = None,
    overwrite: Overwrite = False,
    strict: Strict = False,
    no_cache: NoCache = False,
    as_json: Json = False,
) -> None:
    """Label new items by a saved model: each on its own, nothing is learned from them.

    In a .csv, text that a spreadsheet would take for a formula (it begins with = + - @) has an apostrophe before it; a
    .parquet has it as it is.
    """
    import handful
    from handful.backbones.pictures import shown
    from handful.label import predict_items, read_pile
    from handful.label.items import in_order, of_pictures, read_pile_table
    from handful.label.outputs import check_file, table_of, write_table

    console = console_for(as_json or output is None)  # labels that are printed are all of standard output
    if output is not None:
        check_file(output, overwrite, (".csv", ".parquet"))
    fitted = handful.load(model)
    made = getattr(fitted, "made_from_", {})
    if of_pictures(items):
        from handful.backbones import load_backbone

        net = load_backbone(backbone or made.get("backbone", "efficientnet_lite0"), **made.get("backbone_options", {}))
        if made.get("backbone_fingerprint") not in (None, net.fingerprint):
            raise ValueError(f"the model was made with another backbone or version of it, {made.get('backbone')!r}")
        with stoppable(console, REMEMBERED * (not no_cache)), bars(console, "pictures") as progress:
            found = read_pile(items, net, progress=progress, strict=strict, cache=not no_cache)
    else:
        columns = made.get("columns")
        found = in_order(read_pile_table(items, columns), columns, items)
    labelled = predict_items(fitted, found)
    if output is not None:
        write_table(labelled, output)
    if as_json:
        typer.echo(json.dumps({"items": table_of(labelled).to_pylist(), "skipped": as_rows(found.skipped)}, indent=1))
        return
    if output is None:
        rows = table_of(labelled).select(["path", "label", "confidence"]).to_pylist()
        for row in rows:
            typer.echo(f"{shown(row['label'])}\t{row['confidence']:.3f}\t{shown(row['path'])}")
    else:
        for sentence in labelled.sentences:
            console.print(sentence, markup=False)
        console.print(f"The labels: {output}", markup=False, soft_wrap=True)
    say_skipped(console, found.skipped)


@app.command()
def undo(
    journal: Annotated[Path, typer.Argument(help="The undo.jsonl that `handful label --sort move` wrote.")],
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Move sorted pictures back to where they were.

    Pictures only ever go from the journal's own folder to the one folder that they came from. Where a journal is not
    known to be of a run of yours on this machine, what it would move is shown, and you are asked.
    """
    from handful.backbones.pictures import shown
    from handful.label.move_journal import undo as move_back

    back, left = move_back(journal, ask_user(yes))
    if as_json:
        typer.echo(json.dumps({"back": back, "left": left}, indent=2))
    else:
        typer.echo(f"Pictures that are back where they were: {back}.")
        for line in left:
            typer.echo(shown(line), err=True)
    if left:
        raise typer.Exit(1)


def check_paths(examples: Path, pile: Path | None, output: Path, sort: str | None, engine: str) -> None:
    """Refuse paths that do not go together, before anything is read."""
    from handful.features import is_sharded
    from handful.label.items import of_pictures

    for path in filter(None, (examples, pile)):
        if not path.exists():
            raise FileNotFoundError(f"there is no file or folder {str(path)!r}")
    if of_pictures(examples) and pile is None:
        raise ValueError("name the folder of pictures to label too: handful label EXAMPLES/ PILE/")
    if pile is not None and of_pictures(examples) != of_pictures(pile):
        raise ValueError("give two folders of pictures, or tables of embeddings, not one of each")
    if sort is not None and not of_pictures(examples):
        raise ValueError("--sort sorts pictures, and a table has none: leave it out")
    if engine != "local" and not of_pictures(examples) and (pile is None or not is_sharded(pile)):
        raise ValueError(f"--engine {engine} embeds pictures, and a table has none: leave it out")
    if of_pictures(examples) and examples.resolve() in (output.resolve(), *output.resolve().parents):
        raise ValueError(f"{str(output)!r} lies in the folder of examples, where each folder is a class: give another")
