"""Pages of the documentation, run from top to bottom in one folder, and compared with what they show."""

import os
import re
import subprocess
import sys

INSTALLING = re.compile(r"(pip install|python -m venv)")
NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")


def run_page(page, folder):
    """Run the Python and shell blocks of a page in order, in a folder; return what each printed."""
    tools = folder / ".tools"
    tools.mkdir()
    (tools / "python").symlink_to(sys.executable)
    (tools / "handful").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m handful "$@"\n')
    (tools / "handful").chmod(0o755)
    variables = os.environ | {"PATH": f"{tools}:{os.environ['PATH']}", "COLUMNS": "200", "MPLBACKEND": "Agg"}
    printed = []
    for kind, block in re.findall(r"^```(python|sh)\n(.*?)^```", page.read_text("utf-8"), re.M | re.S):
        if kind == "sh" and INSTALLING.match(block):
            continue
        words = [sys.executable, "-c"] if kind == "python" else ["bash", "-e", "-o", "pipefail", "-c"]
        done = subprocess.run([*words, block], cwd=folder, capture_output=True, text=True, env=variables)
        assert done.returncode == 0, (block, done.stdout[-2000:], done.stderr[-4000:])
        printed.append(done.stdout)
    return printed


def outputs_on(page):
    """What a page shows as output: the parts of its text blocks between lines of dots, without trees of folders.

    The rows of a table that is drawn with lines are parts of their own.
    """
    parts = []
    for block in re.findall(r"^```text\n(.*?)^```", page.read_text("utf-8"), re.M | re.S):
        if re.search(r"^    \w", block, re.M) or block.startswith("handful "):
            continue
        for part in re.split(r"^\.\.\.\n| \.\.\.\n", block, flags=re.M):
            lines = part.splitlines() if part.startswith(("│", "|")) else [part]
            parts += [" ".join(line.split()) for line in lines if line.strip()]
    return parts


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
