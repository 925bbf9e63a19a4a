"""docs/reference/backbones.md: its tables say what the code does."""

import re
from pathlib import Path

import pytest

from handful.backbones import list_backbones
from handful.backbones.catalogue import LEVELS
from handful.backbones.onnx_runtime import DEVICES
from handful.backbones.preprocessing import PRESETS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "backbones.md"
if not PAGE.exists():
    pytest.skip("the documentation is not part of this copy", allow_module_level=True)
TEXT = PAGE.read_text("utf-8")


def first_column(heading: str) -> set[str]:
    """What the first column of the table with this heading names."""
    (table,) = re.findall(rf"^\| `--{heading}` \|.*\n((?:\|.*\n)+)", TEXT, re.M)
    return set(re.findall(r"^\| `(\w+)`", table, re.M))


def test_tables_name_what_there_is():
    assert first_column("backbone") == set(LEVELS)
    assert [one.name for one in list_backbones() if "<" not in one.name and f"`{one.name}`" not in TEXT] == []
    assert first_column("preset") == set(PRESETS)
    assert first_column("device") == set(DEVICES) - {"auto", "cpu"}
