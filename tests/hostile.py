"""Commands on hostile files, each in a forked process whose memory is limited."""

import os
from pathlib import Path
from tempfile import TemporaryFile
from typing import NamedTuple

import forks

MAX_CHARACTERS = 1000  # of a refusal
LIMITED = "import resource; resource.setrlimit(resource.RLIMIT_AS, (16 << 30,) * 2)\n"  # the machine stays usable


class Outcome(NamedTuple):
    code: int  # negative: the signal that ended it
    stdout: str
    stderr: str


class Sandbox:
    """`run("info", path)` is `handful info path`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, *arguments: object, stdin: str = "", cwd: Path | None = None) -> Outcome:
        own = {"HANDFUL_CACHE": str(self.folder / "cache"), "OMP_NUM_THREADS": "1"}
        with TemporaryFile("w+", encoding="utf-8") as given:
            given.write(stdin)
            given.seek(0)
            how = {"stdin": given, "cwd": cwd or self.folder, "env": os.environ | own}
            done = forks.run(*arguments, code=LIMITED + forks.COMMAND, **how)
        return Outcome(done.returncode, done.stdout, done.stderr)

    def refuses(self, *arguments: object, stdin: str = "", cwd: Path | None = None) -> str:
        """The sentence with which a command is refused."""
        outcome = self.run(*arguments, stdin=stdin, cwd=cwd)
        assert outcome.code in (1, 2), outcome
        assert "Traceback" not in outcome.stderr, outcome.stderr
        assert 0 < len(outcome.stderr.strip()) < MAX_CHARACTERS, outcome.stderr[:5000]
        return outcome.stderr
