"""What was measured by a check, put into a report that exists."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from handful.report.html_text import printable, safe_json
from handful.utils.files import in_brief, write_whole
from handful.utils.shares_in_words import is_low, percent, span

MAX_REPORT_BYTES = 2**30
MADE_BY_HANDFUL = b'<meta name="generator" content="handful">'
# Nothing that a report shows can look like this block: html is escaped, and there is no "<" in JSON.
BLOCK = re.compile(rb'(<script type="application/json" id="measured">)([^<]*)(</script>)')


def write_measured(path: Path, document: Mapping[str, Any]) -> None:
    """Put what a check measured into a report: the page shows it instead of what was expected.

    Parameters
    ----------
    path : Path
        The report.html. An earlier page stays complete if writing fails.
    document : mapping
        What was measured: "answers" and "items" (how many answers were given, about how many items), "sentences" (in
        words, the first says how many labels are right), "precision", "share" and "missed" and for each class an entry
        in "by_class", each with "value", "low" and "high" as fractions; and "made", when it was.

    Raises
    ------
    ValueError
        If the file is not a report of this version of handful, or if the document is not of this form.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from handful.report import Item, Report, write
    >>> cat = Item("a.jpg", None, "cat", "cat", confidence=0.9, score=0.1)
    >>> path = write(Path(mkdtemp()) / "report.html", Report("Pets", ["One cat."], [cat], ["cat"], 0.5, True))
    >>> measured = {"answers": 1, "items": 1, "precision": {"value": 1.0, "low": 0.4, "high": 1.0}, "by_class": {},
    ...             "sentences": ["Checked 1 of 1: all are right."]}
    >>> write_measured(path, measured)
    >>> "Checked 1 of 1" in path.read_text()
    True
    """
    block = safe_json(_shown(document)).encode("ascii")
    with path.open("rb") as file:
        page = file.read(MAX_REPORT_BYTES + 1)
    if len(page) > MAX_REPORT_BYTES or MADE_BY_HANDFUL not in page[:4096] or len(BLOCK.findall(page)) != 1:
        raise ValueError(
            f"{in_brief(path)} is not a report that this version of handful wrote: label the pile again with "
            "`handful label`"
        )
    write_whole(path, BLOCK.sub(lambda found: found[1] + block + found[3], page))


def _shown(document: Mapping[str, Any]) -> dict[str, Any]:
    """What the page reads: the document, and in words how many labels are right and which of them are doubtful."""
    try:
        sentences = [str(sentence) for sentence in document["sentences"]]
        estimates = {
            printable(str(name)): estimate
            for name, entry in document["by_class"].items()
            if (estimate := _estimate(entry)) is not None
        }
        totals = {name: _estimate(document.get(name)) for name in ("precision", "share", "missed")}
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"what was measured is not complete ({error!r}): check the labels again") from None
    words = {name: f"{percent(value)} are right{span(value, ends)}" for name, (value, *ends) in estimates.items()}
    precision = totals["precision"]
    return {
        **{name: document.get(name) for name in ("answers", "items", "made")},
        **totals,
        "sentences": sentences,
        "is_low": precision is not None and is_low(1, precision[0]),
        "by_class": {name: [words[name], is_low(1, estimate[0])] for name, estimate in estimates.items()},
    }


def _estimate(entry: Mapping[str, Any] | None) -> tuple[float, float, float] | None:
    """Value, low and high; None if nothing was measured."""
    if entry is None:
        return None
    value, low, high = (float(entry[name]) for name in ("value", "low", "high"))
    return (value, low, high) if all(map(math.isfinite, (value, low, high))) else None
