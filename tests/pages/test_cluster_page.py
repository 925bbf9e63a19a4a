"""The page about large piles: its Python runs as it stands, on this machine and on a cluster of its own."""

import re
from pathlib import Path

import numpy as np
import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "larger-than-memory.md"
if not PAGE.exists():
    pytest.skip("the documentation is not part of this copy", allow_module_level=True)
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.M | re.S)


@pytest.mark.ray
def test_the_page_runs_as_it_stands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(BLOCKS[0], names)
    truth = np.repeat([*"abcd", *["unknown"] * 4], 1000)
    assert (names["result"].labels == truth).mean() > 0.95
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pile.npy", "solved"]
    exec(BLOCKS[1], names)
    assert (names["result"].labels == truth).mean() > 0.95
    assert len(BLOCKS) == 2
