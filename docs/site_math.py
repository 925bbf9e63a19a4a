"""Equations of the site: LaTeX becomes MathML while the site is built, so that the pages need no script for it."""

from __future__ import annotations

import html
import re

from latex2mathml.converter import convert

INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.S)
ALIGNED = r"\begin{aligned}", r"\end{aligned}"


def block(source: str, *_: object, **__: object) -> str:
    """A fence of the kind `math`; the arguments are those of pymdownx.superfences."""
    return f'<div class="math">{mathml(source, "block")}</div>'


def inline(page: str) -> str:
    """A page with its inline equations as MathML."""
    return INLINE.sub(lambda match: mathml(html.unescape(match[1]), "inline"), page)


def mathml(source: str, display: str) -> str:
    """An equation, or several lines with `&` and `\\\\`, as MathML."""
    source = source.strip().replace(r"\arg\max", r"\mathrm{arg\,max}")
    if "&" in source and r"\begin" not in source:
        source = f"{ALIGNED[0]}{source}{ALIGNED[1]}"
    found = convert(source, display=display)
    if unknown := re.findall(r"<m[a-z]+>(\\\w+)", found):
        raise ValueError(f"the equation {source!r} has what MathML cannot show: {', '.join(unknown)}")
    return found
