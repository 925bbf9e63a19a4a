"""Every code block of the README and of the documentation runs when it is pasted alone, into an empty folder."""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import forks
import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
if not (ROOT / "docs").exists():
    pytest.skip("the documentation is not part of this copy", allow_module_level=True)
FENCE = re.compile(
    r"^(<!-- (?:not run: (?P<reason>[^>]*)|needs (?P<need>\w+)) -->\n+)?"
    r"(?P<mark>```+)(?P<kind>[^\n`]*)\n(?P<code>.*?)^(?P=mark)$",
    re.M | re.S,
)
INSTALLING = re.compile(r"(pip install|python3? -m venv|\. venv|apt-get install|git clone|cd )")
SHOWN_ONLY = {"text", "csv", "math", "html", "toml"}  # output, files, equations
MAKE = re.compile(r"make (\w[\w-]*)")


@dataclass
class Block:
    page: Path
    line: int
    kind: str
    code: str
    reason: str | None  # why it is not run
    need: str | None = None  # the marker of the tests that need the same

    @property
    def installs(self):
        lines = [line for line in self.code.splitlines() if line.strip() and not line.startswith("#")]
        return self.kind == "sh" and all(INSTALLING.match(line) or MAKE.match(line) for line in lines)

    def __str__(self):
        page = self.page.relative_to(ROOT) if self.page.is_relative_to(ROOT) else self.page
        return f"{page}:{self.line}"


def blocks_of(page):
    text = page.read_text("utf-8")
    return [
        Block(
            page,
            text[: match.start("mark")].count("\n") + 1,
            match["kind"],
            match["code"],
            match["reason"],
            match["need"],
        )
        for match in FENCE.finditer(text)
    ]


BLOCKS = [block for page in PAGES for block in blocks_of(page)]
RUN = [block for block in BLOCKS if block.kind in ("python", "sh") and block.reason is None and not block.installs]


def paste(block, folder):
    """Run a block as somebody would who has handful and an empty folder."""
    tools = folder / ".tools"
    tools.mkdir()
    for name, module in (("python", ""), ("handful", "-m handful ")):
        (tools / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {module}"$@"\n')
        (tools / name).chmod(0o755)
    place = folder / "place"
    place.mkdir()
    variables = os.environ | {"PATH": f"{tools}:{os.environ['PATH']}", "COLUMNS": "100", "MPLBACKEND": "Agg"}
    if block.kind == "python":  # forked: most of the seconds of a start are imports
        alone = f"exec(compile({block.code!r}, {str(block)!r}, 'exec'), {{'__name__': '__main__'}})"
        return forks.run(code=alone, cwd=place, env=variables, timeout=300)
    words = ["bash", "-e", "-o", "pipefail", "-c", block.code]
    return subprocess.run(words, cwd=place, env=variables, stdin=subprocess.DEVNULL, capture_output=True, text=True)


def parameter(block):
    return pytest.param(block, marks=[getattr(pytest.mark, block.need)] if block.need else [])


@pytest.mark.slow
@pytest.mark.parametrize("block", list(map(parameter, RUN)), ids=str)
def test_a_block_runs_when_it_is_pasted_alone(block, tmp_path):
    done = paste(block, tmp_path)
    assert done.returncode == 0, f"{block}\n{block.code}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"


def test_a_block_that_fails_would_be_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A\n\n```sh\nfalse\ntrue\n```\n\n```python\nprint(nowhere)\n```\n\n```text\nno code\n```\n")
    first, second, third = blocks_of(page)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert paste(first, tmp_path / "a").returncode != 0
    assert "NameError" in paste(second, tmp_path / "b").stderr
    assert third.kind == "text"


def test_every_block_says_what_it_is():
    kinds = {"python", "sh", "json"} | SHOWN_ONLY
    assert [f"{block}: {block.kind!r}" for block in BLOCKS if block.kind not in kinds] == []
    for block in BLOCKS:
        if block.kind == "json":
            json.loads(block.code)


def test_only_downloads_are_not_run():
    left_out = [block for block in BLOCKS if block.reason is not None]
    assert all("download" in block.reason for block in left_out)
    assert len(left_out) <= 4, list(map(str, left_out))
    assert len(RUN) > 100


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
