"""Python in a process of its own, forked from one that has imported handful, which takes most of a start's seconds.

`Forked` is used as subprocess.Popen is: it has its own pid, signals, exit code, folder and environment, and ends as
any Python process does. A test of how a command starts, or of Ctrl-C while it does, is for subprocess.
"""

import gc
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from functools import cache
from importlib import import_module
from tempfile import TemporaryFile, mkdtemp

COMMAND = "from handful.cli import main; main()"
MODULES = (
    "handful.cli", "handful.cli.label", "handful.estimators", "handful.features", "handful.project",
    "handful.project.large_pile", "handful.project.outputs", "handful.backbones", "handful.solving.groups",
    "handful.project.export_files", "handful.workbench.server.app", "handful.report", "PIL.ImageOps", "onnx",
    "array_api_compat.numpy", "pyarrow.csv", "pyarrow.parquet", "pyarrow.compute", "pandas", "rich.progress",
    "rich.table", "safetensors.numpy", "sklearn.cluster", "sklearn.datasets", "uvicorn",
)  # fmt: skip


class Forked:
    """`Forked("label", ...)` is `handful label ...`; with code, it is `python -c code label ...`."""

    def __init__(self, *arguments, code=COMMAND, cwd=None, env=None, stdin=None, stdout=None, stderr=None):
        """stdin, stdout, stderr: open files; without them nothing to read, and pipes that are read here."""
        self.args, self.returncode = ["handful", *map(str, arguments)], None
        request = {"arguments": self.args, "code": code, "cwd": str(cwd or os.getcwd()), "env": dict(env or os.environ)}
        pipes = [None if file else os.pipe() for file in (stdout, stderr)]
        ends = [pipe[1] if pipe else file.fileno() for pipe, file in zip(pipes, (stdout, stderr), strict=True)]
        self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # the process ends if this is closed
        self._connection.connect(_forker()[1])
        with open(os.devnull, "rb") as nothing:
            files = [(stdin or nothing).fileno(), *ends]
            socket.send_fds(self._connection, [json.dumps(request).encode()], files)
            self.pid = int(self._connection.recv(100))
        for pipe in filter(None, pipes):
            os.close(pipe[1])
        self.stdout, self.stderr = (pipe and os.fdopen(pipe[0], encoding="utf-8") for pipe in pipes)

    def poll(self):
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout=None):
        if self.returncode is None:
            if not select.select([self._connection], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout)
            self.returncode = int(self._connection.recv(100))
            self._connection.close()
        return self.returncode

    def communicate(self, timeout=None):
        """What is in its pipes at its end; no more than they hold."""
        self.wait(timeout)
        with self.stdout, self.stderr:
            return self.stdout.read(), self.stderr.read()

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)


def run(*arguments, timeout=120, **how):
    """As subprocess.run, with what it said as text."""
    with TemporaryFile("w+", encoding="utf-8") as out, TemporaryFile("w+", encoding="utf-8") as err:
        process = Forked(*arguments, stdout=out, stderr=err, **how)
        try:
            process.wait(timeout)
        finally:
            process.kill()
        texts = [file.seek(0) or file.read() for file in (out, err)]
    return subprocess.CompletedProcess(process.args, process.returncode, *texts)


SCRIPT = """#!{python} -SI
import json, os, socket, sys
if os.environ.get("PYTHONPATH") != {modules!r}:  # only a new process imports from there
    os.execv(sys.executable, [sys.executable, "-m", "handful", *sys.argv[1:]])
connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
connection.connect({path!r})
request = {{"arguments": sys.argv, "code": {code!r}, "cwd": os.getcwd(), "env": dict(os.environ)}}
socket.send_fds(connection, [json.dumps(request).encode()], [0, 1, 2])
connection.recv(100)
sys.exit(int(connection.recv(100) or 1) % 256)
"""


def write_command(file):
    """Write a script for shells that is used as `handful` is; it takes 20 ms instead of two seconds to start."""
    modules = os.environ.get("PYTHONPATH")
    file.write_text(SCRIPT.format(python=sys.executable, path=_forker()[1], code=COMMAND, modules=modules))
    file.chmod(0o755)


@cache
def _forker():
    """The process that forks, started when the first test needs it, and its address. It ends with this process."""
    folder = os.path.dirname(os.path.abspath(__file__))
    path = os.path.join(mkdtemp(prefix="handful-tests-"), "forker")
    code = f"import sys; sys.path.append({folder!r}); import forks; forks.fork_on_connection({path!r})"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    process.stdout.readline()
    return process, path


def fork_on_connection(path):
    """Fork for each connection until the input ends; return from here in such a process, after its work."""
    for name in MODULES:
        with suppress(ImportError):  # of an extra that is not installed
            import_module(name)
    gc.freeze()  # else each process copies all that memory when it looks for garbage at its end
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listening.bind(path)
    listening.listen()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    print("ready", flush=True)
    while select.select([listening, sys.stdin], [], [])[0] == [listening]:
        connection, _ = listening.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listening.close()
            _answer(connection)
            return
        connection.close()
    shutil.rmtree(os.path.dirname(path), ignore_errors=True)


def _answer(connection):
    """Fork once more, and send the number of that process, then its exit code; end it if the connection ends."""
    message, descriptors, *_ = socket.recv_fds(connection, 2**20, 3)
    pid = os.fork()
    if pid == 0:
        connection.close()
        _work(json.loads(message), descriptors)
        return
    for each in descriptors:
        os.close(each)
    connection.send(str(pid).encode())
    while not (ended := os.waitpid(pid, os.WNOHANG))[0]:
        if select.select([connection], [], [], 0.01)[0]:  # nobody listens any more
            os.kill(pid, signal.SIGTERM)
            os.waitpid(pid, 0)
            os._exit(0)
    connection.send(str(os.waitstatus_to_exitcode(ended[1])).encode())
    os._exit(0)


def _work(request, descriptors):
    """Run what was asked for in this process, with these open files as its input, output and errors."""
    for number, each in enumerate(descriptors):
        os.dup2(each, number)
        os.close(each)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv = request["arguments"]
    exec(request["code"], vars(sys.modules["__main__"]))
