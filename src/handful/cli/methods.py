"""`handful methods`: the methods, and what is known about each."""

from __future__ import annotations

from handful.cli._console import Console, print_json
from handful.cli._options import JSON, command


@command()
def methods(as_json: bool = JSON) -> None:
    """List the methods with what is known about each."""
    from dataclasses import asdict

    from handful.core.parameters import AUTO
    from handful.solving import describe, get_solver, list_methods

    infos = [describe(name) for name in list_methods()]
    if as_json:
        print_json([asdict(info) | {"parameters": get_solver(info.name).defaults} for info in infos])
        return
    head = ("name", "method", "year", "paradigm", "setting", "prepared by", "needs")
    rows = []
    for info in infos:
        needs = info.needs or (f"[{info.extra}]" if info.extra else "")
        year, prepared = str(info.year), ", ".join(info.preparation)
        rows.append([info.name, info.title, year, info.paradigm, info.setting, prepared, needs])
    note = f"{AUTO}, the default, is {get_solver(AUTO).name}. `handful base` or `handful train` makes a base file."
    Console().table(head, rows, left=len(head), note=note)
