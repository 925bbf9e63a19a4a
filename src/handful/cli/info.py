"""`handful info`: what a file of features holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from handful.cli._console import Console, print_json
from handful.cli._options import COLUMNS, EMBEDDING, EXCLUDE, JSON, LABEL, argument, command, parse_table

if TYPE_CHECKING:
    from handful.features import FeatureTable

MAX_LISTED_CLASSES = 20


@command()
def info(
    path: Path | None = argument(
        "A .parquet, .csv, .npz, .npy, .safetensors, or .pkl file, or a folder of parts.", None
    ),
    embedding: str | None = EMBEDDING,
    label: str | None = LABEL,
    columns: str | None = COLUMNS,
    exclude: str | None = EXCLUDE,
    as_json: bool = JSON,
) -> None:
    """Say what a file of features holds: classes, counts, norms, duplicates, and which tasks it is large enough for.

    Without a file: the versions of handful and of what it computes with, and whether it has its kernels in C.

    A file that would need more than 8 GiB of memory is refused before it is read. Set HANDFUL_MAX_BYTES to allow more,
    as in HANDFUL_MAX_BYTES=32GB.
    """
    from handful.features import read

    if path is None:
        facts: dict[str, Any] = _of_installation()
        lines = [f"{name}: {value}" for name, value in facts.items()]
    else:
        table = read(path, warn=False, **parse_table(embedding, label, columns, exclude))
        facts = describe(table)
        lines = _of_table(facts, table.about_columns)
    if as_json:
        print_json(facts)
    else:
        Console().print(*lines)


def _of_installation() -> dict[str, str]:
    import platform

    import numpy as np

    from handful.engines.kernels import levels
    from handful.utils.version import __version__

    kernels = 'none, so NumPy does their work, some times more slowly: see "Make it faster" in the documentation'
    if levels():
        kernels = "for any processor" if levels() == ("plain",) else f"x86-64-{levels()[-1]}"
    versions = {"handful": __version__, "Python": platform.python_version(), "NumPy": np.__version__}
    return versions | {"kernels in C": kernels}


def _of_table(facts: dict[str, Any], about_columns: str) -> list[str]:
    from handful.utils.text import shortened

    lines = [f"{facts['name']}: {facts['items']:,} items, {facts['classes']} classes"]
    for name, value in facts.items():
        if name not in ("name", "counts", "columns", "others", "set_aside"):
            lines.append(f"  {name.replace('_', ' ')}: {_in_words(value)}")
    if about_columns:
        lines.append(about_columns[0].upper() + about_columns[1:])
    counts = sorted(facts["counts"].items(), key=lambda pair: -pair[1])
    listed = ", ".join(f"{shortened(str(name))} {count}" for name, count in counts[:MAX_LISTED_CLASSES])
    more = len(counts) - MAX_LISTED_CLASSES
    return [*lines, f"Items per class: {listed}" + (f" and {more} more" if more > 0 else "")]


def describe(table: FeatureTable) -> dict[str, Any]:
    """What is in a table; `ways`, by shots: how many known classes a task can have beside 5 outlier classes."""
    import numpy as np

    from handful.core.arrays import norms
    from handful.features import Protocol
    from handful.features.table import counts_of

    def spread(values: Any) -> dict[str, float]:
        return {"min": values.min().item(), "median": float(np.median(values)), "max": values.max().item()}

    x, counts = table.features, table.counts
    protocols = [Protocol(shots=shots) for shots in (1, 5, 10)]
    enough = {p.shots: sum(count >= p.shots + p.queries for count in counts.values()) for p in protocols}
    return {
        "name": table.name,
        "items": len(table),
        "unlabelled": len(table) - int(table.has_label.sum()),
        "classes": len(counts),
        "counts": counts,
        "items_per_class": spread(np.array(list(counts.values()))) if counts else {},
        "dimension": table.dimension,
        "dtype": str(x.dtype),
        "norms": spread(norms(x)),
        "mean_norm": float(np.linalg.norm(table.mean)),
        "base_mean_norm": None if table.base_mean is None else float(np.linalg.norm(table.base_mean)),
        "zero_rows": int((~x.any(axis=1)).sum()),
        "duplicate_rows": len(x) - len({hash((row + 0.0).tobytes()) for row in x}),  # -0 is 0
        "ways": {p.shots: max(0, enough[p.shots] - p.outlier_ways) for p in protocols},
        "paths": table.paths is not None,
        "splits": {} if table.splits is None else counts_of(table.splits),
        "columns": None if table.columns is None else list(table.columns),
        "others": list(table.others),
        "set_aside": list(table.set_aside),
    }


def _in_words(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_in_words(part)}" for name, part in value.items())
    if value is None:
        return "none"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
