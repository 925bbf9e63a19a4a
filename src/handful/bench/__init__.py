"""The benchmark: the paper's tables, sweep, ablation and claims, on any features and with any method."""

from handful.bench.report import perform
from handful.bench.runner import Results, run
from handful.bench.settings import BENCHMARKS, Benchmark, Cell, parse_methods
from handful.bench.tables import Table, differences, table, tables

__all__ = [
    "BENCHMARKS",
    "Benchmark",
    "Cell",
    "Results",
    "Table",
    "differences",
    "parse_methods",
    "perform",
    "run",
    "table",
    "tables",
]
