"""`handful promote`: a group of unknowns becomes a class."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from handful.cli._console import ask_user
from handful.cli._options import JSON, OVERWRITE, SORT, YES, argument, command, option, parse_engine, parse_share
from handful.cli.label import run


@command()
def promote(
    results: Path = argument("A folder that `handful label` (or this command) wrote."),
    names: list[str] = argument(
        "The numbers of groups in the report, and names for their classes: 2=mushroom 3=leek. Several groups may get "
        "the same name. 2.1 is the first kind in group 2, if the report says that it looks like several kinds.",
        metavar="GROUP=NAME...",
    ),
    output: Path | None = option(
        "Another folder for the new results. Default: RESULTS itself.", names=("--output", "--out", "-o")
    ),
    examples: int | None = option(
        "How many items of a group become examples, at most. Default: a third of the group, at least 5 and at most "
        "100; if it looks like two kinds two thirds, if like more all.",
        min=1,
    ),
    join: bool = option("A name may be that of a class that exists: the group is added to it.", False),
    outlier_share: str | None = option(
        "About how much of the pile is unknown now; auto: estimated again. Default: the share before, less the groups "
        "that are classes now.",
        metavar="auto|SHARE",
    ),
    sort: str | None = SORT,
    overwrite: bool = OVERWRITE,
    yes: bool = YES,
    as_json: bool = JSON,
) -> None:
    """Make classes of groups of unknowns, and label the pile again.

    The report of `handful label` shows the unknowns in groups that look alike. Name the groups that you recognise: the
    items that together stand for a group become examples of a new class, and the pile is labelled again with the same
    options. The folder of examples is not changed. What was promoted is stored, so that you can promote again.

    The labels are compared with those before. If they change more than the new classes explain, the command warns. To
    go back: handful label RESULTS --undo. With -o the new results go into another folder, and RESULTS does not change.

    If the results may come from somebody else or from another machine, the command shows which files and folders
    elsewhere they name, and asks before it continues.

    Example: handful promote out 2=mushroom 3=leek

    A group that looks like several kinds: handful promote out 1.1=apple 1.2=pear
    """
    from handful.project import Project
    from handful.project.outputs import check_output

    share = None if outlier_share is None else parse_share(outlier_share)
    groups = _parse(names)
    project = Project(results, agree=ask_user(yes))
    parse_engine(project.job.engine)
    if output is not None and output.absolute() != results.absolute():
        check_output(output, overwrite, project.job.formats, sort)
    label_pile = partial(
        project.promote, groups, examples=examples, join=join, outlier_share=share, output=output, sort=sort
    )
    run(project, as_json, label_pile, output=output)


def _parse(names: list[str]) -> dict[int | str, str]:
    """Class names by the number of their group, or by 2.1 for the first kind in group 2."""
    classes: dict[int | str, str] = {}
    for text in names:
        number, _, name = (part.strip() for part in text.partition("="))
        whole, dot, part = number.partition(".")
        if not whole.isdecimal() or (dot and not part.isdecimal()) or not name:
            raise ValueError(f"{text!r}: give the number of a group and a name for its class, as 2=mushroom")
        key: int | str = f"{int(whole)}.{int(part)}" if dot else int(whole)
        if key in classes:
            raise ValueError(f"group {key} is named twice, {classes[key]!r} and {name!r}")
        classes[key] = name
    return classes
