"""All figures of the benchmarks on one page, put together from their reports. ::

    python benchmarks/summary.py                   # at once; writes benchmarks/results/summary.md
    python benchmarks/summary.py --quick           # the same into a temporary folder

Every report of this folder, with what it found in sentences, its tables and its picture. Each says when, on what
machine and with what versions it was made: figures of different reports may be of different days.
"""

from __future__ import annotations

import re
from pathlib import Path

import _report
from _script import RESULTS, Parser
from rich.console import Console

PAGE = "summary.md"
FIRST = ("speed", "scaling", "large_piles", "methods", "end_to_end", "embed")


def title_of(text: str) -> str:
    return text.splitlines()[0].removeprefix("# ")


def made_on(text: str) -> str:
    """The day of a report, as its line about the machine has it."""
    days = re.findall(r"\b20\d\d-\d\d-\d\d\b", text)
    return max(days, default="no date")


def part_of(path: Path) -> str:
    """A report as a part of the page: sentences first, the tables behind a line that opens them."""
    text = path.read_text("utf-8")
    first, *sections = re.split(r"^## ", text, flags=re.MULTILINE)
    sentences = re.findall(r"^- .*(?:\n  .*)*", first, flags=re.MULTILINE)
    picture = f"![{title_of(text)}]({path.stem}.png)" if path.with_suffix(".png").exists() else ""
    tables = "\n".join(f"### {section.strip()}\n" for section in sections)
    folded = f"<details><summary>{len(sections)} tables</summary>\n\n{tables}\n</details>" if sections else ""
    about = f"[{path.name}]({path.name}), {made_on(first)}."
    return "\n\n".join(part for part in (f"## {title_of(text)}", about, "\n".join(sentences), picture, folded) if part)


def reports(folder: Path) -> list[Path]:
    """Those of speed first, then all others by name."""
    found = [path for path in folder.glob("*.md") if path.name != PAGE]
    order = {name: place for place, name in enumerate(FIRST)}
    return sorted(found, key=lambda path: (order.get(path.stem, len(FIRST)), path.stem))


def main() -> None:
    given = Parser(__doc__, "a second").parse()
    parts = ["# All figures", _report.about(__doc__), *(part_of(path) for path in reports(RESULTS))]
    page = given.output / PAGE
    page.write_text("\n\n".join(parts) + "\n", "utf-8")
    Console().print(f"All figures: {page}", soft_wrap=True)


if __name__ == "__main__":
    main()
