"""The page about large piles: what its Python computes is right."""

import re
from pathlib import Path

import numpy as np
import pytest

HOW_TO = Path(__file__).resolve().parents[2] / "docs" / "how-to"
if not HOW_TO.exists():
    pytest.skip("the documentation is not part of this copy", allow_module_level=True)
TRUTH = np.repeat([*"abcd", *["unknown"] * 4], 3000)


def run_python(page: str) -> dict:
    """The names after the one Python block of a page was run, in the present folder."""
    (code,) = re.findall(r"^```python\n(.*?)^```", (HOW_TO / page).read_text("utf-8"), re.M | re.S)
    names: dict = {}
    exec(compile(code, page, "exec"), names)  # ours, from the repository
    return names


def test_a_pile_on_disk_is_labelled_as_the_page_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run_python("larger-than-memory.md")
    assert (names["result"].labels == TRUTH).mean() > 0.95
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pile.npy"]
