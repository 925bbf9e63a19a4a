"""One benchmark from the features to the files: run, tabulate, draw, write."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from handful.bench import claims as statements
from handful.bench import plots as pictures
from handful.bench.runner import Results, run
from handful.bench.settings import BENCHMARKS, parse_methods
from handful.bench.store import Store, in_words
from handful.bench.tables import Table, tables, write_csv, write_json, write_markdown
from handful.features import FeatureSet, Protocol, digits
from handful.files import write_whole

NAMES = (*BENCHMARKS, "claims")


@dataclass
class Outcome:
    """What a benchmark found, and where it was written."""

    name: str
    tables: list[Table]
    claims: list[statements.Verdict]
    results: list[Results]
    files: dict[str, Path] = field(default_factory=dict)


def perform(
    name: str,
    features: FeatureSet | None = None,
    base: FeatureSet | None = None,
    *,
    output: Path | str,
    methods: str | Iterable[str] | None = None,
    protocol: Protocol | None = None,
    tasks: int = 1000,
    seeds: int = 1,
    jobs: int = 1,
    against: str | None = None,
    paper: bool = False,
    plots: bool = False,
    command: str | None = None,
    progress: Callable[[str, int, int], None] = lambda name, done, total: None,
) -> Outcome:
    """Run a benchmark and write `<name>.md`, `.csv`, `.tex`, `.json`, and `.png` where there is a picture.

    name: balanced, imbalanced, sweep-b, ablation or claims. features: the embedded digits if None. protocol: ways,
    shots and so on; its `queries` of each known class meet as many of each outlier class, in the ratios of the
    benchmark. command: what made it, for the record. progress: called with what is run, the tasks solved, and of how
    many.
    """
    if name not in NAMES:
        raise ValueError(f"there is no benchmark {name!r}; there are: {', '.join(NAMES)}")
    if name == "claims" and against:
        raise ValueError("claims has comparisons of its own: leave --against out")
    if name == "ablation" and methods:
        raise ValueError("ablation is about EOL alone: leave --methods out")
    if plots:
        pictures.need()  # now, not when hours have passed
    parts = list(BENCHMARKS) if name == "claims" else [name]
    benchmarks = []
    for part in parts:
        make, own = BENCHMARKS[part]
        chosen = own if methods is None or part not in ("balanced", "imbalanced", name) else methods
        benchmarks.append(make(protocol or Protocol(), parse_methods(chosen) if chosen else ()))
    if against:
        benchmarks[0].row(against)  # raises, if there is none
    features = FeatureSet(*digits(), name="digits") if features is None else features
    store = Store(output)
    results = []
    for benchmark in benchmarks:
        results.append(
            run(
                benchmark, features, base, store, seeds=seeds, tasks=tasks, jobs=jobs,
                progress=partial(progress, benchmark.name),
            )
        )  # fmt: skip
    found = Outcome(name, [], [], results)
    if name == "claims":
        found.claims = statements.check(*results)
    else:
        found.tables = tables(results[0], against, paper)
    _write(found, Path(output), command)
    if plots:
        mean = None if base is None else base.mean
        for what, figure in pictures.gallery(features, mean, protocol or Protocol()).items():
            path = Path(output) / f"{what}.png"
            with in_words(path.parent):
                write_whole(path, pictures.png(figure))
            found.files[what] = path
    return found


def _write(found: Outcome, folder: Path, command: str | None) -> None:
    first = found.results[0]
    about = {
        "benchmark": found.name, "features": first.features, "base": first.base, "seeds": first.seeds,
        "tasks": first.tasks, "command": command,
    }  # fmt: skip
    if found.name == "claims":
        texts = {
            "md": statements.to_markdown(found.claims, first, command),
            "json": json.dumps(about | {"claims": [v.record() for v in found.claims]}, indent=2) + "\n",
        }
    else:
        texts = {
            "md": write_markdown(found.tables, first.benchmark.title, command),
            "csv": write_csv(found.tables),
            "tex": "\n".join(table.to_latex() for table in found.tables),
            "json": write_json(found.tables, about),
        }
    contents: dict[str, Any] = {suffix: text.encode() for suffix, text in texts.items()}
    picture = _picture(found)
    if picture is not None:
        contents["png"] = picture
    for suffix, content in contents.items():
        path = folder / f"{found.name}.{suffix}"
        with in_words(folder):
            write_whole(path, content)
        found.files[suffix] = path


def _picture(found: Outcome) -> bytes | None:
    """The figure that belongs to the table, where matplotlib is installed."""
    draws = {"sweep-b": pictures.sweep, "balanced": pictures.scatter, "imbalanced": pictures.scatter}
    if found.name not in draws or not pictures.available():
        return None
    return pictures.png(draws[found.name](found.results[0]))
