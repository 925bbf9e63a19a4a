"""Commands on hostile files, each in a process of its own that is timed, measured and limited.

One process imports handful once and forks for each command, so that a hundred files cost a second, not a minute.
"""

import gc
import json
import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

MAX_SECONDS, MAX_BYTES = 2.0, 2**30  # what a refusal may cost
KILL_AFTER_SECONDS = 30  # seconds until a command that hangs is killed
MAX_CHARACTERS = 1000  # characters of a refusal


@dataclass(frozen=True)
class Outcome:
    code: int  # negative: the signal that ended it
    stdout: str
    stderr: str
    seconds: float  # of processor time, which another process cannot lengthen
    peak: int  # bytes resident


class Sandbox:
    """`run("info", path)` is `handful info path`, in a forked process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, __file__, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=os.environ | {"HANDFUL_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"},
        )  # fmt: skip

    def run(self, *arguments: object, stdin: str = "", cwd: Path | None = None) -> Outcome:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        request = {"arguments": [*map(str, arguments)], "stdin": stdin, "cwd": str(cwd or self.folder)}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return Outcome(**json.loads(self.process.stdout.readline()))

    def refuses(self, *arguments: object, stdin: str = "", cwd: Path | None = None) -> str:
        """The sentence with which a command is refused, quickly and with little memory."""
        outcome = self.run(*arguments, stdin=stdin, cwd=cwd)
        assert outcome.code in (1, 2), outcome
        assert "Traceback" not in outcome.stderr, outcome.stderr
        assert 0 < len(outcome.stderr.strip()) < MAX_CHARACTERS, outcome.stderr[:5000]
        assert outcome.seconds < MAX_SECONDS, outcome
        assert outcome.peak < MAX_BYTES, outcome
        return outcome.stderr

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(10)


# What commands import where they need it: here once for all, instead of a tenth of a second in each of a thousand.
MODULES = (
    "handful.cli", "handful.estimators.classifier", "handful.features", "handful.project",
    "handful.estimators.model_reader", "handful.backbones", "handful.solving.groups", "handful.workbench.server.app",
    "PIL.ImageOps",
    "pyarrow.csv", "pyarrow.parquet", "pyarrow.compute",
    "rich.console", "rich.progress", "rich.table", "safetensors.numpy", "scipy.sparse", "sklearn.base", "onnx",
    "array_api_compat.numpy",
)  # fmt: skip


def _serve(folder: Path) -> None:
    for name in MODULES:
        with suppress(ImportError):  # of an extra that is not installed
            import_module(name)
    with suppress(ImportError):
        import_module("handful.methods.registry").load_methods()
    gc.freeze()  # else each process copies all that memory when it looks for garbage

    for line in sys.stdin:
        request = json.loads(line)
        out, err = folder / ".stdout", folder / ".stderr"
        child = os.fork()
        if child == 0:
            _work(request, out, err)
        _, status, used = os.wait4(child, 0)
        code = os.waitstatus_to_exitcode(status)
        texts = {"stdout": out.read_text("utf-8", "replace"), "stderr": err.read_text("utf-8", "replace")}
        seconds, peak = used.ru_utime + used.ru_stime, used.ru_maxrss * 1024
        print(json.dumps({"code": code, **texts, "seconds": seconds, "peak": peak}), flush=True)


def _work(request: dict, out: Path, err: Path) -> None:
    import faulthandler
    import resource
    import signal

    (out.with_name(".stdin")).write_text(request["stdin"])
    for number, path, flags in (
        (0, out.with_name(".stdin"), os.O_RDONLY),
        (1, out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
        (2, err, os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
    ):
        opened = os.open(path, flags, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 4 * 2**30,) * 2)  # the machine stays usable whatever happens
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(KILL_AFTER_SECONDS)
    os.chdir(request["cwd"])
    sys.argv = ["handful", *request["arguments"]]
    code = 1
    try:
        from handful.cli import main

        main()
        code = 0
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 0 if left.code is None else 1
    except BaseException:
        faulthandler.dump_traceback()
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
