"""Pages of the documentation, run as they stand."""

import os
import re
import shlex
import subprocess
import sys


def run_page(page, folder, unless="\0"):
    """Run the Python and shell blocks of a page in order, in a folder; return what each printed.

    Of shell blocks only the commands of handful are run, and not those with `unless` in them.
    """
    printed = []
    for kind, block in re.findall(r"^```(python|sh)\n(.*?)^```", page.read_text("utf-8"), re.M | re.S):
        if kind == "python":
            printed.append(_run([sys.executable, "-c", block], folder))
        for line in block.splitlines() if kind == "sh" else ():
            if line.startswith("handful ") and unless not in line:  # else it installs
                printed.append(_run([sys.executable, "-m", "handful", *shlex.split(line)[1:]], folder))
    return printed


def _run(words, folder):
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, env=os.environ | {"COLUMNS": "200"})
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout
