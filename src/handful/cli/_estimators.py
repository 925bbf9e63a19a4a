"""`handful bench share --estimators`: estimators of the share of unknowns, compared on random piles."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from handful.cli._console import console_for, print_lines, progress_bars, stoppable
from handful.cli._options import TableOptions


@dataclass(frozen=True)
class EstimatorOptions:
    """Estimators of the share of unknowns."""

    PANEL: ClassVar[str] = "Estimators of the share"

    estimators: Annotated[
        bool,
        typer.Option(
            "--estimators",
            help="For share: compare estimators of the share on random piles, handful's own and those of the "
            'literature. --methods "dedpul, em" names some of them, --tasks says how many piles of each feature set.',
        ),
    ] = False
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the piles, with --estimators. Default: 0.")] = None


def compare_estimators(
    benchmark: str, folder: Path | None, features: Path | None, split: str | None, methods: str | None,
    count: int | None, kind: str, seed: int | None, table: TableOptions, output: Path, as_json: bool,
) -> None:  # fmt: skip
    """Estimators of the share, on random piles of a folder of feature sets, of one, or of the digits."""
    from handful.bench import domains, share_estimators
    from handful.bench.piles import KINDS
    from handful.bench.report import DEFAULT_PILES
    from handful.features import FeatureTable, digits, read

    if benchmark != "share":
        raise ValueError(f"--estimators is for share: handful bench share --estimators, not {benchmark}")
    if folder is not None and features is not None:
        raise ValueError(f"give a folder or --features, not both: {folder} and {features}")
    kinds = [name for name in KINDS if name != "no-class"]
    if kind not in kinds:
        raise ValueError(f"--piles is {kind}: with --estimators, give one of {', '.join(kinds)}")
    names = share_estimators.parse_estimators(methods)
    paths = domains.find_feature_sets(folder) if folder is not None else [features] if features else []
    tables = {path.stem: read(path, warn=False, **table.arguments()) for path in paths}
    if split is not None:
        tables = {key: one.select(split=split) for key, one in tables.items()}
    tables = tables or {"digits": FeatureTable(*digits(), name="digits")}
    words = ["handful", "bench", "share", *([str(folder)] if folder else []), "--estimators"]
    values = {"features": features, "split": split, "methods": methods, "tasks": count,
              "piles": None if kind == "random" else kind, "seed": seed, **vars(table)}  # fmt: skip
    words += [word for key, value in values.items() if value is not None for word in (f"--{key}", str(value))]
    console = console_for(as_json)
    with stoppable(console, "Nothing was written."), progress_bars(console, "piles") as progress:
        results = share_estimators.run(
            tables, names, piles=count or DEFAULT_PILES, seed=seed or 0, ranges=KINDS[kind], progress=progress
        )
    files = results.write(output, shlex.join(words))
    if as_json:
        typer.echo(files["json"].read_text("utf-8"), nl=False)
        return
    print_lines(console, results.summary())
    print_lines(console, ["Written: " + ", ".join(str(path) for path in files.values())])
