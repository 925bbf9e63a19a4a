"""`handful promote`: a group of unknowns becomes a class."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from handful.cli._shared import Json, Overwrite, Sort, Yes, app, ask_user, check_engine, share_from
from handful.cli.pictures import check_paths, run


@app.command()
def promote(
    results: Annotated[Path, typer.Argument(help="A folder that `handful label` (or this command) wrote.")],
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="GROUP=NAME...",
            help="Groups by their number in the report, and what to call them: 2=mushroom 3=leek. "
            "Groups of one kind may share a name.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "--out", "-o", help="Folder for the new results. Default: RESULTS-2, -3, ..."),
    ] = None,
    examples: Annotated[int, typer.Option(min=1, help="How many items of a group become examples, at most.")] = 5,
    outlier_share: Annotated[
        str | None,
        typer.Option(
            metavar="auto|SHARE",
            help="About how much of the pile is of no class now. Default: estimated again; if it was told before, that "
            "less the groups that are classes now.",
        ),
    ] = None,
    sort: Sort = None,
    overwrite: Overwrite = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Make classes of groups of unknowns, and label the pile again.

    The report of `handful label` shows the unknowns in groups that look alike. Name the ones you know: the most central
    items of each become examples of a new class, and the pile is labelled again with the same options. The folder of
    examples stays as it is; the new results remember what was promoted, so that they can be promoted from again.
    Pictures are sorted again only with --sort. Where results are not known to be of a run of yours on this machine, the
    files and folders elsewhere that they name are shown, and you are asked.

    Example: handful promote out 2=mushroom 3=leek -o out2
    """
    from handful.label import promote_groups
    from handful.label.labelling import check_decision
    from handful.label.outputs import check_output

    place = output or _next(results)
    share = None if outlier_share is None else share_from(outlier_share)
    job = promote_groups(
        results, _parse(names), place, examples=examples, outlier_share=share, sort=sort, agree=ask_user(yes)
    )
    check_decision(**job.decision)
    check_engine(job.engine, None)
    check_paths(job.examples, job.pile, place, job.sort, job.engine)
    check_output(place, overwrite, job.formats, job.sort)
    run(job, place, as_json)


def _parse(names: list[str]) -> dict[int, str]:
    given: dict[int, str] = {}
    for text in names:
        number, _, name = text.partition("=")
        if not number.strip().isdecimal() or not name.strip():
            raise ValueError(f"{text!r}: give the number of a group and a name for its class, as 2=mushroom")
        if int(number) in given:
            raise ValueError(f"group {int(number)} is named twice, {given[int(number)]!r} and {name.strip()!r}")
        given[int(number)] = name.strip()
    return given


def _next(results: Path) -> Path:
    """out -> out-2 -> out-3; none that is there."""
    whole = results.absolute()
    stem, _, last = whole.name.rpartition("-")
    stem, number = (stem, int(last)) if stem and last.isdecimal() else (whole.name, 1)
    while (place := results.parent / f"{stem}-{number + 1}").exists() or place.absolute() == whole:
        number += 1
    return place
