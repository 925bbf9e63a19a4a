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
import time
from contextlib import suppress
from functools import cache
from importlib import import_module
from tempfile import TemporaryFile, mkdtemp

COMMAND = "from handful.cli import main; main()"
MODULES = (
    "handful.cli", "handful.cli.label", "handful.estimators", "handful.features", "handful.project",
    "handful.project.large_pile", "handful.project.pile_report", "handful.backbones", "handful.solving.groups",
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
        with open(os.devnull, "rb") as nothing:
            self.pid = _ask(request, [(stdin or nothing).fileno(), *ends])
        for pipe in filter(None, pipes):
            os.close(pipe[1])
        self.stdout, self.stderr = (pipe and os.fdopen(pipe[0], encoding="utf-8") for pipe in pipes)

    def poll(self):
        if self.returncode is None:
            self.returncode = _ask({"ended": self.pid})
        return self.returncode

    def wait(self, timeout=None):
        end = None if timeout is None else time.monotonic() + timeout
        while self.poll() is None:
            if end is not None and time.monotonic() > end:
                raise subprocess.TimeoutExpired(self.args, timeout)
            time.sleep(0.01)
        return self.returncode

    def communicate(self, timeout=None):
        """What is in its pipes at its end; no more than they hold."""
        self.wait(timeout)
        with self.stdout, self.stderr:
            return self.stdout.read(), self.stderr.read()

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self):
        self.send_signal(signal.SIGTERM)

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


@cache
def _forker():
    """The process that forks, started when the first test needs it; it ends with its connection."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    folder = os.path.dirname(os.path.abspath(__file__))
    code = f"import sys; sys.path.append({folder!r}); import forks; forks.fork_on_request({theirs.fileno()})"
    subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True,
        pass_fds=[theirs.fileno()], env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    theirs.close()
    return ours


def _ask(request, descriptors=()):
    connection = _forker()
    socket.send_fds(connection, [json.dumps(request).encode()], descriptors)
    return json.loads(connection.recv(1000))


def fork_on_request(descriptor):
    """Answer requests until the connection ends; return from here in a process that was asked for, after its work."""
    _import_modules()
    connection = socket.socket(fileno=descriptor)
    while True:
        message, descriptors, *_ = socket.recv_fds(connection, 2**20, 3)
        if not message:
            return
        request = json.loads(message)
        if "ended" in request:
            pid, status = os.waitpid(request["ended"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if pid else None
        elif (answer := os.fork()) == 0:
            break
        for each in descriptors:
            os.close(each)
        connection.send(json.dumps(answer).encode())
    connection.close()
    _work(request, descriptors)


def _import_modules():
    for name in MODULES:
        with suppress(ImportError):  # of an extra that is not installed
            import_module(name)
    gc.freeze()  # else each process copies all that memory when it looks for garbage at its end


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


# ---- for shells: a script `handful` that asks for a forked process, and takes 20 ms instead of two seconds

SCRIPT = """#!{python} -SI
import json, os, socket, sys
if os.environ.get("PYTHONPATH") != {modules!r}:  # only a new process imports from there
    os.execv(sys.executable, [sys.executable, "-m", "handful", *sys.argv[1:]])
connection = socket.socket(socket.AF_UNIX)
connection.connect({path!r})
request = {{"arguments": sys.argv, "code": {code!r}, "cwd": os.getcwd(), "env": dict(os.environ)}}
socket.send_fds(connection, [json.dumps(request).encode()], [0, 1, 2])
sys.exit(int(connection.recv(100) or 1))
"""


def write_command(file):
    """Write a script that is used as `handful` is. The process behind it ends if the script does."""
    modules = os.environ.get("PYTHONPATH")
    file.write_text(SCRIPT.format(python=sys.executable, path=_listener(), code=COMMAND, modules=modules))
    file.chmod(0o755)


@cache
def _listener():
    """The address of a process that forks for each connection; it ends with this process."""
    path = os.path.join(mkdtemp(prefix="handful-tests-"), "forker")
    listener = Forked(code=f"import forks; forks.fork_on_connection({path!r})")
    listener.stdout.readline()
    _kept.append(listener)
    return path


_kept = []  # while this process runs, so that the listener's output is open


def fork_on_connection(path):
    """Fork for each connection until nobody reads the output; return from here in such a process, after its work."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    print("ready", flush=True)
    waiting = select.poll()
    waiting.register(listening, select.POLLIN)
    waiting.register(sys.stdout, 0)  # an error of the output is told anyway
    while [number for number, _ in waiting.poll()] == [listening.fileno()]:
        connection, _ = listening.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listening.close()
            _answer(connection)
            return
        connection.close()
    shutil.rmtree(os.path.dirname(path), ignore_errors=True)


def _answer(connection):
    """Fork once more, and send the exit code when that process has ended; end it if the connection ends."""
    message, descriptors, *_ = socket.recv_fds(connection, 2**20, 3)
    pid = os.fork()
    if pid == 0:
        connection.close()
        _work(json.loads(message), descriptors)
        return
    for each in descriptors:
        os.close(each)
    while not (ended := os.waitpid(pid, os.WNOHANG))[0]:
        if select.select([connection], [], [], 0.01)[0]:  # the script was killed
            os.kill(pid, signal.SIGTERM)
            os.waitpid(pid, 0)
            os._exit(0)
    connection.send(str(os.waitstatus_to_exitcode(ended[1]) % 256).encode())
    os._exit(0)
