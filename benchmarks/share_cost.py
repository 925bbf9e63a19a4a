"""What the estimate of the share costs, beside EOL that is told it and the default method that is told nothing. ::

    python benchmarks/share_cost.py             # under a minute; writes benchmarks/results/share_cost.md
    python benchmarks/share_cost.py --quick     # some seconds; writes into a temporary folder

5-way 5-shot, 150 queries, 64, 640 and 1280 features: Gaussian clusters as in `speed.py`, batches of 40 tasks, half of
each pile unknown. "Told" means told one half. Contenders take turns; medians over the rounds of one run. Then one pile
of 2,000 items, in a fresh process for each method, with the peak of its memory beyond libraries and features.
"""

from __future__ import annotations

import _report
from _clock import disturbance, race
from _fresh import large_pile
from _problem import gaussian_tasks
from _script import Parser
from rich.console import Console

import handful
from handful.solving.solve import _estimate

DIMENSIONS = (64, 640, 1280)
CONTENDERS = {
    "estimate of the share": lambda tasks: _estimate(tasks, None),
    "KDO, told": lambda tasks: handful.solve_task(tasks, method="kdo", outlier_share=0.5),
    "KDO, not told": lambda tasks: handful.solve_task(tasks, method="kdo"),
    "default (EOL + KDO, not told)": lambda tasks: handful.solve_task(tasks),
    "EOL, told, backend array": lambda tasks: handful.solve_task(
        tasks, method="eol", outlier_share=0.5, backend="array"
    ),
    "EOL, told, backend fast": lambda tasks: handful.solve_task(tasks, method="eol", outlier_share=0.5, backend="fast"),
}
DEFAULT, REFERENCE = "default (EOL + KDO, not told)", "EOL, told, backend fast"
PILE_ITEMS, QUICK_PILE_ITEMS = 2000, 300
PILE_RUNS = {DEFAULT: ("auto", "auto"), "KDO, not told": ("kdo", "auto"), "EOL, told": ("eol", "0.5")}


def main() -> None:
    parser = Parser(__doc__, "under a minute")
    parser.add_size("--rounds", 5, 1, "turns of each")
    parser.add_size("--tasks", 40, 4, "tasks in a batch")
    given = parser.parse()
    console = Console()
    cells: dict[str, list[str]] = {name: [] for name in CONTENDERS}
    ratios, every = [], []
    for dimension in DIMENSIONS:
        tasks = handful.Task(*gaussian_tasks(given.tasks, dimension))
        run = {name: lambda n, solve=solve, tasks=tasks: solve(tasks[:n]) for name, solve in CONTENDERS.items()}
        for work in run.values():
            work(given.tasks)  # warm
        times = race(run, dict.fromkeys(run, given.tasks), given.rounds, patience=0)
        every += times.values()
        for name, of in times.items():
            cells[name].append(f"{1000 * of.median:.2f}")
        ratios.append(f"{times[DEFAULT].median / times[REFERENCE].median:.1f} times")
    header = ("", *(f"{dimension} features" for dimension in DIMENSIONS))
    rows = [(name, *row) for name, row in cells.items()] + [("default against EOL told, fast", *ratios)]
    section = _report.Section("Milliseconds a task", header, rows)
    _report.show(console, section)
    items = QUICK_PILE_ITEMS if given.quick else PILE_ITEMS
    costs = {
        name: [large_pile(*run, items, dimension) for dimension in DIMENSIONS[1:]] for name, run in PILE_RUNS.items()
    }
    pile = _report.Section(
        f"One pile of {items:,} items",
        ("", *(f"{dimension} features" for dimension in DIMENSIONS[1:])),
        [(name, *(f"{seconds:.2f} s, {mib:.0f} MiB" for seconds, mib in cost)) for name, cost in costs.items()],
    )
    _report.show(console, pile)
    notes = [_report.about(__doc__), f"{_report.machine()}; {given.rounds} rounds, {disturbance(every)}."]
    _report.write(console, given.output / "share_cost.md", "Cost of the share", [section, pile], [], notes)


if __name__ == "__main__":
    main()
