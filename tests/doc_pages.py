"""Pages of the documentation: their code blocks run from top to bottom, and what they print is what a page shows."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import forks

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
FENCE = re.compile(
    r"^(<!-- (?:not run: (?P<reason>[^>]*)|needs (?P<need>\w+)) -->\n+)?"
    r"(?P<mark>```+)(?P<kind>[^\n`]*)\n(?P<code>.*?)^(?P=mark)$",
    re.M | re.S,
)
MAKE = re.compile(r"make (\w[\w-]*)")
INSTALLING = re.compile(r"(pip install|python3? -m venv|\. venv|apt-get install|git clone|cd |make )")
END_OF_BLOCK = "\x1e end of block\n"
NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")


@dataclass
class Block:
    page: Path
    line: int
    kind: str
    code: str
    reason: str | None  # why it is not run
    need: str | None  # the marker of the tests that need the same

    @property
    def installs(self):
        lines = [line for line in self.code.splitlines() if line.strip() and not line.startswith("#")]
        return self.kind == "sh" and all(map(INSTALLING.match, lines))

    @property
    def runs(self):
        return self.kind in ("python", "sh") and self.reason is None and not self.installs

    def __str__(self):
        page = self.page.relative_to(ROOT) if self.page.is_relative_to(ROOT) else self.page
        return f"{page}:{self.line}"


def blocks_of(page):
    text = page.read_text("utf-8")
    return [
        Block(page, text[: m.start("mark")].count("\n") + 1, m["kind"], m["code"], m["reason"], m["need"])
        for m in FENCE.finditer(text)
    ]


def run_page(page, folder, need=None, alone=False):
    """Run the blocks of a page in order, in a process of its own; return what each printed.

    As somebody who follows the page: Python blocks share their names, and all blocks a folder, which is empty at
    first. With alone=True, as somebody who pastes a block alone: each has its own names and folder. Blocks that need
    torch run only with need="torch".
    """
    tools = folder / ".tools"
    tools.mkdir()
    (tools / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (tools / "python").chmod(0o755)
    forks.write_command(tools / "handful")
    blocks = [block for block in blocks_of(page) if block.runs and block.need in (None, need)]
    work = ([(block.kind, block.code, str(block)) for block in blocks], alone)
    here = str(Path(__file__).parent)
    code = f"import sys; sys.path.append({here!r}); import doc_pages; doc_pages.run_blocks(*{work!r})"
    own = {"PATH": f"{tools}:{os.environ['PATH']}", "COLUMNS": "200", "MPLBACKEND": "Agg"}
    done = forks.run(code=code, cwd=folder, env=os.environ | own, timeout=900)
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout.split(END_OF_BLOCK)[:-1]


def run_blocks(blocks, alone):
    """Run (kind, code, place) in this process, which ends with the first that fails."""
    names = {"__name__": "__main__"}
    folder = Path.cwd()
    for number, (kind, code, place) in enumerate(blocks):
        if alone:
            names = {"__name__": "__main__"}
            (folder / str(number)).mkdir()
            os.chdir(folder / str(number))
        if kind == "python":
            exec(compile(code, place, "exec"), names)
        elif subprocess.run(["bash", "-e", "-o", "pipefail", "-c", code], stdin=subprocess.DEVNULL).returncode:
            sys.exit(f"{place} failed")
        print(end=END_OF_BLOCK, flush=True)


def outputs_on(page):
    """The lines that a page shows as output, which are those of its text blocks without trees of folders."""
    lines = []
    for block in re.findall(r"^```text\n(.*?)^```", page.read_text("utf-8"), re.M | re.S):
        if not re.search(r"^    \w", block, re.M) and not block.startswith("handful "):
            lines += [" ".join(line.removesuffix("...").split()) for line in block.splitlines()]
    return [line for line in lines if line]


def is_printed(part, printed, within=3):
    """Whether a program printed this, wrapped at any width, with numbers that differ by at most `within`."""
    text = " ".join(printed.replace("┃", "│").split())
    wanted = [float(number.replace(",", "")) for number in NUMBER.findall(part)]
    pattern = r"(\d+(?:,\d{3})*(?:\.\d+)?)".join(map(re.escape, NUMBER.split(part)))
    for match in re.finditer(pattern, text):
        numbers = [float(number.replace(",", "")) for number in match.groups()]
        if all(abs(number - one) <= within for number, one in zip(numbers, wanted, strict=True)):
            return True
    return False
