"""The sections of docs/reference/methods.md, made from the files of the methods while the site is built.

The text of a method is the docstring of its file, its facts are its `Info`, and the meaning of a parameter stands in
the docstring of its function. `python docs/toy.py` draws the pictures.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable
from textwrap import dedent
from typing import Any

from handful.estimators.factory import parameter_texts
from handful.methods import Info
from handful.methods.registry import find_method
from handful.solving import list_methods

GROUPS = {  # heading -> (setting, paradigm), None for any
    "Open-set, transductive": ("open-set", "transductive"),
    "Open-set, inductive": ("open-set", "inductive"),
    "Closed-set, transductive": ("closed-set", "transductive"),
    "Closed-set, inductive": ("closed-set", "inductive"),
    "Detectors": ("detector", None),
}


def own_methods() -> list[Info]:
    """The methods of this package in the order of the page; other packages may have registered more."""
    methods = [find_method(name) for name in list_methods()]
    own = [method.info for method in methods if method.solve.__module__.startswith("handful.")]
    return [info for heading in GROUPS for info in members(heading, own)]


def members(heading: str, infos: Iterable[Info]) -> list[Info]:
    """The methods of a group: `eol` first, then the newest first."""
    setting, paradigm = GROUPS[heading]
    group = [info for info in infos if info.setting == setting and paradigm in (None, info.paradigm)]
    return sorted(group, key=lambda info: (info.name != "eol", -info.year, info.name))


def sections() -> str:
    """A table of all methods, and a section for each."""
    infos = own_methods()
    rows = [
        [f"[{i.name}](#{i.name})", i.title, i.year, i.paradigm, i.setting, ", ".join(i.preparation), i.extra, i.needs]
        for i in infos
    ]
    parts = [table(["name", "title", "year", "paradigm", "setting", "preparation", "extra", "needs"], rows)]
    for heading in GROUPS:
        parts += [f"## {heading}", *(section(info) for info in members(heading, infos))]
    return "\n\n".join(parts) + "\n"


def section(info: Info) -> str:
    """What the file of a method says, its parameters, its facts and its picture."""
    title, _, text = inspect.cleandoc(sys.modules[find_method(info.name).solve.__module__].__doc__ or "").partition(
        "\n"
    )
    unknown = {
        "probability": "where that is more probable than the closest class",
        "rank": "the `outlier_share` of the pile with the highest scores",
    }
    facts = [
        f'Called: `handful.solve(..., method="{info.name}")`, `handful.estimators.{info.estimator}()`',
        f"Source: `src/handful/methods/{info.name}.py`",
        f"Kind: {info.paradigm}, {info.setting}; preparation: {', '.join(info.preparation)}"
        + (f"; needs `handful[{info.extra}]`" if info.extra else "")
        + ("; needs a `base`" if info.needs else ""),
        f"Unknown: {unknown[info.score]}",
        f"New items: {info.new_items}",
    ]
    return "\n\n".join(
        [
            f"### {info.name}",
            f"**{title}**",
            markdown(text),
            parameters(info.name),
            "\n".join(f"- {fact}" for fact in facts),
            f"![{info.title} on the toy task](../pictures/methods/{info.name}.png)",
        ]
    )


def markdown(text: str) -> str:
    """The text of a docstring: what is indented, such as equations, becomes a block of code."""
    blocks = re.split(r"\n\s*\n(?! )", text.strip())
    parts = []
    for block in blocks:
        words, _, code = block.partition("\n\n    ")
        parts.append(re.sub(r"\s*::$", ":", words.strip()).replace("<", "&lt;").replace("*", r"\*"))
        if code:
            parts.append(f"```text\n{dedent('    ' + code)}\n```")
    return "\n\n".join(parts)


def parameters(name: str) -> str:
    """The table of a method's own parameters."""
    method = find_method(name)
    texts = parameter_texts(inspect.getdoc(method.solve) or "")
    rows = []
    for key, default in method.defaults.items():
        by_shots = method.info.by_shots.get(key, {})
        values = [f"`{as_code(v)}` ({n} {'shot' if n == '1' else 'shots'})" for n, v in by_shots.items()]
        meaning = " ".join(texts[key].partition("\n")[2].split())
        rows.append([f"`{key}`", ", ".join(values) or f"`{as_code(default)}`", method.rules.get(key, ""), meaning])
    return table(["parameter", "default", "takes", "meaning"], rows) if rows else "No parameters of its own."


def table(header: list[str], rows: list[list[Any]]) -> str:
    lines = (header, ["---"] * len(header), *rows)
    return "\n".join(f"| {' | '.join('' if cell is None else str(cell) for cell in row)} |" for row in lines)


def as_code(value: Any) -> str:
    return re.sub(r"'(\w+)'", r'"\1"', repr(value))
