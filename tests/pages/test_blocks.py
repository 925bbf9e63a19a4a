"""Every code block of the pages runs when it is pasted alone, into an empty folder, and prints what the page shows."""

import json
import re

import pytest
from doc_pages import DOCS, MAKE, ROOT, blocks_of, is_printed, outputs_on, run_page

if not DOCS.exists():
    pytest.skip("the documentation is not part of this copy", allow_module_level=True)
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
BLOCKS = [block for page in PAGES for block in blocks_of(page)]
SHOWN_ONLY = {"text", "csv", "math", "html", "toml"}  # output, files, equations
# `text` of other kinds
COMMANDS_SHOWN = ("items-that-keep-coming.md", "other-languages.md", "server.md", "workbench.md")
TUTORIALS = ("embeddings.md", "paper-table.md", "pictures.md", "texts.md")  # test_tutorials.py runs them


def pages_to_run():
    """A case for each page; another one, with the marker, for a page of which some blocks need torch."""
    for page in PAGES:
        needs = {block.need for block in BLOCKS if block.page == page and block.runs}
        is_tutorial = page.parent.name == "tutorials" and page.name in TUTORIALS
        for need in () if is_tutorial else sorted(needs, key=str):
            name = str(page.relative_to(ROOT)) + (f" with {need}" if need else "")
            yield pytest.param(page, need, marks=[getattr(pytest.mark, need)] if need else [], id=name)


@pytest.mark.parametrize(("page", "need"), list(pages_to_run()))
def test_the_blocks_of_a_page_run_when_they_are_pasted_alone(page, need, own_cache, tmp_path):
    printed = run_page(page, tmp_path, need, alone=True)
    assert printed
    lines = outputs_on(page) if need is None and page.name not in COMMANDS_SHOWN else ()
    assert [line for line in lines if not is_printed(line, "\n".join(printed))] == []


def test_a_block_that_fails_and_an_output_that_is_not_printed_would_be_noticed(tmp_path):
    part, printed = "24 were labelled (12 box, 12 disc)", "the pile\n25 were labelled (13 box,\n12 disc) and"
    assert is_printed(part, printed, within=1)
    assert not is_printed(part, printed, within=0)
    assert not is_printed("24 were labelled (12 box, 12 dice)", printed)
    for number, (second, alone) in enumerate(
        (("sh\nfalse\ntrue", False), ("python\nprint(nowhere)", False), ("python\nprint(here)", True))
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        page = folder / "page.md"
        page.write_text(f"# A\n\n```python\nhere = 1\n```\n\n```python\nprint(2)\n```\n\n```{second}\n```\n")
        with pytest.raises(AssertionError, match=r"page.md:11|NameError: name '(nowhere|here)'"):
            run_page(page, folder, alone=alone)


def test_every_block_says_what_it_is_and_only_downloads_are_not_run():
    kinds = {"python", "sh", "json"} | SHOWN_ONLY
    assert [f"{block}: {block.kind!r}" for block in BLOCKS if block.kind not in kinds] == []
    for block in BLOCKS:
        if block.kind == "json":
            json.loads(block.code)
    left_out = [block for block in BLOCKS if block.reason is not None]
    assert all("download" in block.reason for block in left_out)
    assert len(left_out) <= 4, list(map(str, left_out))
    assert sum(block.runs for block in BLOCKS) > 90


def test_installing_names_extras_and_targets_that_exist():
    tomllib = pytest.importorskip("tomllib", reason="Python 3.11 and later have it")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M)
    installing = [block for block in BLOCKS if block.installs]
    assert installing
    for block in installing:
        for named in re.findall(r"(?:handful|\.)\[([\w,-]+)\]", block.code):
            assert set(named.split(",")) <= set(project["optional-dependencies"]), block
        assert set(MAKE.findall(block.code)) <= set(targets), block
