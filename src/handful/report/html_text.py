"""Text and small tables as html."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence

from handful.report.contents import Figures

DOUBTFUL_ROW = ' class="doubtful"'
DOUBTFUL_MARK = ' <span class="doubt">doubtful</span>'  # a word beside the colour


def escape(value: object) -> str:
    """Text that is safe in html, in elements and attributes; bytes of a file name that are not text become '?'."""
    return html.escape(str(value).encode("utf-8", "replace").decode("utf-8"), quote=True)


def printable(name: str) -> str:
    """As in the tables: bytes of a file name that are not text are written as escapes."""
    return str(name).encode("utf-8", "backslashreplace").decode("utf-8")


def in_words(value: object) -> str:
    """A setting as text: a mapping becomes 'name value, name value'."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {in_words(part)}" for name, part in value.items())
    return str(value)


def facts(made_by: Mapping[str, object]) -> str:
    """The rows of a definition list."""
    return "\n".join(f"<dt>{escape(name)}</dt><dd>{escape(in_words(value))}</dd>" for name, value in made_by.items())


def paragraphs(sentences: Sequence[str]) -> str:
    """One paragraph for each sentence."""
    return "\n".join(f'<p dir="auto">{escape(line)}</p>' for line in sentences)


def table(figures: Figures) -> str:
    """A table that scrolls sideways if the window is narrow."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in figures.columns)
    rows = "\n".join(
        f'<tr{DOUBTFUL_ROW * (n in figures.doubtful)}><th scope="row">{escape(first)}'
        f"{DOUBTFUL_MARK * (n in figures.doubtful)}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in rest)}</tr>"
        for n, (first, *rest) in enumerate(figures.rows)
    )
    note = f'<p class="note" dir="auto">{escape(figures.note)}</p>' if figures.note else ""
    own_id = f' id="{escape(figures.id)}"' if figures.id else ""
    return f"""<div{own_id} class="figures" role="region" aria-label="{escape(figures.title)}" tabindex="0">
<table><caption dir="auto">{escape(figures.title)}</caption>
<thead><tr>{head}</tr></thead>
<tbody>{rows}</tbody></table>{note}
</div>"""


def safe_json(value: object) -> str:
    """Plain ASCII without <, > and &: nothing in it can end the block that it is in."""
    plain = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return plain.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
