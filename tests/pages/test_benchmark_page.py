"""docs/reference/benchmark.md says what a run leaves."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "benchmark.md"
if not PAGE.exists():
    pytest.skip("the documentation is not part of this copy", allow_module_level=True)


def test_the_columns_of_blocks_are_those_that_are_shown(tmp_path):
    text = PAGE.read_text("utf-8")
    (block,) = (one for one in re.findall(r"^```python\n(.*?)^```", text, re.M | re.S) if "results/blocks" in one)
    done = subprocess.run([sys.executable, "-c", block], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"```text\n{done.stdout}```" in text
