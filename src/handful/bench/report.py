"""One benchmark from the features to the files: run it, make tables and figures, write them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from handful.bench import claims as statements
from handful.bench import plots as pictures
from handful.bench.runner import Results, benchmark_base, check_data, run
from handful.bench.settings import BENCHMARKS, parse_methods
from handful.bench.store import disk_errors_in_words
from handful.bench.tables import Table, tables, write_csv, write_json, write_markdown
from handful.core.base import Base
from handful.features import FeatureTable, Protocol, digits
from handful.utils.extras import PLOTS, need
from handful.utils.files import write_whole

NAMES = (*BENCHMARKS, "claims")
DEFAULT_TASKS = 1000  # for each seed


@dataclass
class Outcome:
    """The results of a benchmark, and the files in which they were written."""

    name: str
    tables: list[Table]
    claims: list[statements.Verdict]
    results: list[Results]
    files: dict[str, Path] = field(default_factory=dict)


def perform(
    name: str,
    features: FeatureTable | None = None,
    base: FeatureTable | Base | None = None,
    *,
    output: Path | str,
    methods: str | Iterable[str] | None = None,
    protocol: Protocol | None = None,
    tasks: int = DEFAULT_TASKS,
    seeds: int = 1,
    jobs: int = 1,
    against: str | None = None,
    paper: bool = False,
    plots: bool = False,
    command: str | None = None,
    progress: Callable[[str, int, int], None] = lambda name, done, total: None,
) -> Outcome:
    """Run a benchmark and write `<name>.md`, `.csv`, `.tex`, `.json`, and `.png` if there is a figure.

    Parameters
    ----------
    name : str
        balanced, imbalanced, sweep-b, ablation or claims.
    features : FeatureTable, optional
        Features with labels. None: the embedded digits.
    base : FeatureTable or Base, optional
        Features of the backbone's training classes, on whose mean methods centre; or a `handful.methods.Base`, which
        methods that learn from base classes need.
    output : path
        The folder of the results. A second run uses the results that are there.
    methods : str or iterable of str, optional
        The methods, as in `parse_methods`. None: those of the paper.
    protocol : Protocol, optional
        Ways, shots and so on. `balanced` draws these tasks; the others divide their queries in ratios of their own.
    tasks : int
        Tasks of each seed.
    seeds : int
        The number of seeds.
    jobs : int
        The number of processes.
    against : str, optional
        A row with which all others are compared.
    paper : bool
        Whether to show the figures of the paper too.
    plots : bool
        Whether to draw the gallery.
    command : str, optional
        The command line, for the record.
    progress : callable
        Called with the name of the benchmark, the number of solved tasks and the number of all tasks.

    Returns
    -------
    Outcome
    """
    if name not in NAMES:
        raise ValueError(f"there is no benchmark {name!r}; there are: {', '.join(NAMES)}")
    if name == "claims" and against:
        raise ValueError("claims has comparisons of its own: leave --against out")
    if name == "ablation" and methods:
        raise ValueError("ablation is about EOL alone: leave --methods out")
    if plots:
        need("matplotlib", "a picture", PLOTS)  # checked before the run, not after hours
    protocol = protocol or Protocol()
    benchmarks = []
    for part in list(BENCHMARKS) if name == "claims" else [name]:
        make, default_methods = BENCHMARKS[part]
        chosen = default_methods if methods is None or part not in ("balanced", "imbalanced", name) else methods
        benchmarks.append(make(protocol, parse_methods(chosen) if chosen else ()))
    if against:
        benchmarks[0].row(against)  # raises if there is no such row
    features = FeatureTable(*digits(), name="digits") if features is None else features.labelled()
    for benchmark in benchmarks:  # all is checked before the first one runs
        check_data(benchmark, features, base)
    results = [
        run(
            benchmark, features, base, output, seeds=seeds, tasks=tasks, jobs=jobs,
            progress=partial(progress, benchmark.name),
        )
        for benchmark in benchmarks
    ]  # fmt: skip
    outcome = Outcome(name, [], [], results)
    if name == "claims":
        outcome.claims = statements.check(*results)
    else:
        outcome.tables = tables(results[0], against, paper)
    for suffix, content in _contents(outcome, command).items():
        outcome.files[suffix] = Path(output) / f"{name}.{suffix}"
        with disk_errors_in_words(Path(output)):
            write_whole(outcome.files[suffix], content)
    if plots:
        base_used = benchmark_base(base, features)
        mean = None if base_used is None else base_used.base.mean
        for what, figure in pictures.gallery(features, mean, protocol).items():
            path = Path(output) / f"{what}.png"
            with disk_errors_in_words(path.parent):
                write_whole(path, pictures.png(figure))
            outcome.files[what] = path
    return outcome


def _contents(outcome: Outcome, command: str | None) -> dict[str, bytes]:
    first = outcome.results[0]
    about: dict[str, Any] = {
        "benchmark": outcome.name, "features": first.features, "base": first.base, "seeds": first.seeds,
        "tasks": first.tasks, "command": command,
    }  # fmt: skip
    if outcome.name == "claims":
        texts = {
            "md": statements.to_markdown(outcome.claims, first, command),
            "json": json.dumps(about | {"claims": [v.record() for v in outcome.claims]}, indent=2) + "\n",
        }
    else:
        texts = {
            "md": write_markdown(outcome.tables, first.benchmark.title, command),
            "csv": write_csv(outcome.tables),
            "tex": "\n".join(table.to_latex() for table in outcome.tables),
            "json": write_json(outcome.tables, about),
        }
    contents = {suffix: text.encode() for suffix, text in texts.items()}
    draws = {"sweep-b": pictures.sweep, "balanced": pictures.scatter, "imbalanced": pictures.scatter}
    if outcome.name in draws and find_spec("matplotlib") is not None:
        contents["png"] = pictures.png(draws[outcome.name](first))
    return contents
