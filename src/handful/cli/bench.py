"""The researcher's command: bench."""

from __future__ import annotations

import shlex
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from handful.cli._shared import Address, Engine, Json, app, bars, check_engine, console_for, stoppable

HINT = "'--shots'"


@app.command()
def bench(
    name: Annotated[str, typer.Argument(help="balanced, imbalanced, sweep-b, ablation, claims or share.")],
    features: Annotated[
        Path | None, typer.Option(help="Features with labels, see `handful info`. Default: the embedded digits.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="Of the features only this split, as in novel.")] = None,
    base: Annotated[
        Path | None,
        typer.Option(
            help="Features of the backbone's training classes, whose mean methods centre on, or a base file, see "
            "`handful base`. Methods that learn from base classes need it."
        ),
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(help='Instead of the paper\'s sixteen, or of those beside auto and EOL: "eol, simpleshot+knn".'),
    ] = None,
    tasks: Annotated[int | None, typer.Option(min=1, help="Tasks of each seed. Default: 1000; share: 300.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds, 0 and up.")] = 1,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the tables and results.")] = Path(
        "handful-bench"
    ),
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Processes at once, at most. Default: one a core.")
    ] = None,
    engine: Engine = "local",
    address: Address = None,
    against: Annotated[str | None, typer.Option(help="Also print differences to this method, task by task.")] = None,
    paper: Annotated[bool, typer.Option("--paper", help="Show the paper's own figures beside.")] = False,
    plots: Annotated[bool, typer.Option("--plots", help="Also draw curves, histograms and one optimisation.")] = False,
    ways: Annotated[int, typer.Option(min=1, help="Known classes of a task.")] = 5,
    shots: Annotated[str | None, typer.Option(help="Examples of each. Default: 5; share: 1,5,10.")] = None,
    queries: Annotated[int, typer.Option(min=1, help="Queries of each class in a balanced task.")] = 15,
    outlier_ways: Annotated[int, typer.Option(min=1, help="Outlier classes of a task.")] = 5,
    broad: Annotated[bool, typer.Option("--broad", help="Outliers from all the other classes instead.")] = False,
    unequal: Annotated[
        float | None, typer.Option(help="Dirichlet concentration: classes of unequal size, the smaller the more.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare methods on many tasks: the paper's tables, its sweep over b, its ablation, its claims.

    `share` asks how well a method does that is not told the share of unknowns, at shares from none to five sixths.

    Every method sees the same tasks. Results are kept in the output folder as they come, so that a run that was
    stopped goes on where it was, and another benchmark on the same features uses what is there. In the .csv, text that
    begins with = + - @ has an apostrophe before it: a spreadsheet would take it for a formula.

    With --engine ray the tasks are spread over the machines of a Ray cluster; the results are the same, in the same
    folder, and a run that was begun on one engine can be finished by the other.

    Example: handful bench balanced --features embeddings.parquet --tasks 1000 --seeds 7 -o results
    """
    from handful.bench import report as job
    from handful.core.base import is_base, read_base
    from handful.features import FeatureTable, Protocol, read
    from handful.solving.solve import available_threads

    check_engine(engine, address)
    several = _shots(name, shots)
    protocol = Protocol(
        ways, several[0], queries, outlier_ways, queries, broad=broad, unequal_shots=unequal, unequal_queries=unequal
    )
    tasks = tasks or job.TASKS.get(name)
    console = console_for(as_json)
    given = None if features is None else read(features)
    given_base: Any = None
    if base is not None:
        given_base = read_base(base) if is_base(base) else read(base)
    if isinstance(given_base, FeatureTable):
        given_base = given_base.of_split("base") or given_base
    if given is not None and split is not None:
        given = given.select(split=split)
    kept = f"What was finished is kept in {output}: the same command goes on from there."
    with stoppable(console, kept), bars(console, "tasks") as show, _cluster(engine, address, jobs) as ray:
        found = job.perform(
            name, given, given_base, output=output, methods=methods, protocol=protocol, tasks=tasks, seeds=seeds,
            shots=several if name == "share" else None, jobs=jobs or available_threads(), against=against,
            paper=paper, plots=plots, command=_bench_command(locals()), progress=show, engine=ray,
        )  # fmt: skip
    if as_json:
        typer.echo(found.files["json"].read_text("utf-8"), nl=False)
        return
    for table in found.headline:
        console.print(table.to_rich(), "")
    for aim in found.aims:
        colour = {True: "green", False: "red", None: "yellow"}[aim.met]
        console.print(f"[{colour}]{aim.word}[/{colour}]: {aim.statement}")
        if aim.worst:
            console.print(f"    {aim.worst} (the narrowest)", markup=False)
    for verdict in found.claims:
        colour = {True: "green", False: "red", None: "yellow"}[verdict.holds]
        console.print(f"[{colour}]{verdict.word}[/{colour}]: {verdict.statement}")
        detail = verdict.narrowest or verdict.remark
        if detail:
            console.print(f"    {detail}" + (" (the narrowest)" if verdict.narrowest else ""), markup=False)
    written = "Written: " + ", ".join(str(path) for path in found.files.values())
    console.print(written, markup=False, soft_wrap=True)


def _cluster(engine: str, address: str | None, jobs: int | None) -> AbstractContextManager[Any]:
    """Who solves the tasks; None: processes of this machine."""
    if engine == "local":
        return nullcontext()
    from handful.cluster.bench import Ray

    return Ray(address, jobs)


def _shots(name: str, text: str | None) -> list[int]:
    """One number, or several for share."""
    given = (text or ("1,5,10" if name == "share" else "5")).split(",")
    if not all(part.strip().isdecimal() and int(part) for part in given):
        raise typer.BadParameter(
            f"{text!r}: give a whole number of at least 1, or several, as in 1,5,10", param_hint=HINT
        )
    if name != "share" and len(given) > 1:
        raise typer.BadParameter(f"{text!r}: only share runs at several numbers of shots", param_hint=HINT)
    return [int(part) for part in given]


def _bench_command(given: dict[str, Any]) -> str:
    """The command that makes the same tables: without what only says how fast and where to."""
    words = ["handful", "bench", given["name"]]
    for option in ("features", "split", "base", "methods", "tasks", "seeds", "against"):
        words += [f"--{option}", str(given[option])] if given[option] is not None else []
    words += [f"--{option}" for option in ("paper", "broad") if given[option]]
    several = [1, 5, 10] if given["name"] == "share" else [5]
    usual = {"ways": 5, "several": several, "queries": 15, "outlier_ways": 5, "unequal": None}
    for option, default in usual.items():
        if option == "several" and given[option] != default:
            words += ["--shots", ",".join(map(str, given[option]))]
        elif given[option] != default:
            words += [f"--{option.replace('_', '-')}", f"{given[option]:g}"]
    return shlex.join(words)
