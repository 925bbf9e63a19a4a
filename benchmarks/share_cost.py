"""What the estimate of the share costs, beside EOL that is told it and the default method that is told nothing. ::

    python benchmarks/share_cost.py

5-way 5-shot, 150 queries, 64, 640 and 1280 features: Gaussian clusters as in `speed.py`, batches of 40 tasks.
Contenders take turns; medians over the rounds of one run.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from rich.console import Console
from rich.table import Table
from speed import gaussian_tasks

import handful
from handful.methods.solving import _estimate

CONTENDERS = {
    "estimate of the share": lambda tasks: _estimate(tasks, None),
    "KDO, told": lambda tasks: handful.solve("kdo", tasks, outlier_share=0.5),
    "default (KDO, not told)": lambda tasks: handful.solve(tasks),
    "EOL, told, backend array": lambda tasks: handful.solve("eol", tasks, outlier_share=0.5, backend="array"),
    "EOL, told, backend fast": lambda tasks: handful.solve("eol", tasks, outlier_share=0.5, backend="fast"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    table = Table("milliseconds a task", "64 features", "640", "1280")
    cells: dict[str, list[str]] = {name: [] for name in CONTENDERS}
    for dimension in (64, 640, 1280):
        tasks = handful.Task(*gaussian_tasks(40, dimension))
        times: dict[str, list[float]] = {name: [] for name in CONTENDERS}
        for turn in range(arguments.rounds + 1):
            for name, run in CONTENDERS.items():
                start = time.perf_counter()
                run(tasks)
                if turn:  # the first warms up
                    times[name].append((time.perf_counter() - start) / tasks.batch)
        for name, of in times.items():
            cells[name].append(f"{1000 * np.median(of):.2f}")
    for name, row in cells.items():
        table.add_row(name, *row)
    Console().print(table)


if __name__ == "__main__":
    main()
