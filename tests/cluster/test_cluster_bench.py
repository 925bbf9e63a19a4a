"""The benchmark over a Ray cluster of two nodes: the very files of a local run, also when one of them dies."""

import os
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from textwrap import dedent

import pytest
from piles import assert_refused, finish, start

import handful as package
from handful.bench.report import perform
from handful.cluster.bench import Ray
from handful.features import FeatureTable, Protocol, digits, draw
from handful.solving import describe, list_methods, solve_task

pytestmark = pytest.mark.ray
SLOW = "eol:steps=300:backend=array"  # about half a second a block
LINUX = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs /proc to see what a node does")


@pytest.fixture(scope="module")
def embedded():
    return FeatureTable(*digits(), name="digits")


@pytest.fixture(scope="module", autouse=True)
def compiled():
    """The kernel is compiled here if it must be, not by all workers at once."""
    solve_task(draw(*digits(), Protocol(), tasks=2).task, method="eol", b=0.5, backend="fast")


def bench(embedded, folder, methods, tasks, **options):
    from handful.training.heads import learn_base

    options |= {"command": "handful", "learn_base": partial(learn_base, episodes=320)}
    return perform("balanced", embedded, output=folder, methods=methods, tasks=tasks, **options)


def written(folder):
    """All files below a folder, but for the picture."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix != ".png"
    }


def blocks(folder):
    return {path: path.stat().st_mtime_ns for path in folder.glob("blocks/*/*.parquet")}


def workers(node):
    """What the processes of a node are called: Ray names one after the task it is at."""
    pid = node.all_processes["raylet"][0].process.pid
    names = []
    for thread in Path(f"/proc/{pid}/task").iterdir():
        for child in (thread / "children").read_text().split():
            try:
                names.append(Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")[0].decode())
            except OSError:  # it has just ended
                continue
    return names


def is_solving(node, seconds=0.0):
    """Whether a node is at work on a block, or will be in so many seconds."""
    end = time.monotonic() + seconds
    while not (found := "ray::_solve" in workers(node)) and time.monotonic() < end:
        time.sleep(0.005)
    return found


# The same files


def test_two_nodes_write_the_very_files_of_a_local_run(nodes, embedded, tmp_path):
    """For every method, those that draw random numbers too; centred on a base set. Heads are learned by torch."""
    names = [name for name in list_methods() if find_spec("torch") or describe(name).base_part in (None, "negatives")]
    methods = ",".join(names).replace("iforest", "iforest:trees=5").replace("tim_gd", "tim_gd:steps=40")
    for folder, engine in (("local", None), ("ray", Ray())):
        bench(embedded, tmp_path / folder, methods, 3, seeds=2, base=embedded, against="eol", engine=engine)
    local = written(tmp_path / "local")
    assert written(tmp_path / "ray") == local
    assert len([name for name in local if name.endswith(".parquet")]) == 2 * len(names)
    assert {"balanced.md", "balanced.csv", "balanced.json", "balanced.tex"} < local.keys()


@LINUX
def test_both_nodes_are_at_work(nodes, embedded, tmp_path):
    busy = set()

    def look(name, done, total):
        for node in nodes.cluster.list_all_nodes():
            busy.update([node] * is_solving(node, 0.2))

    bench(embedded, tmp_path, SLOW, 800, engine=Ray(), progress=look)
    assert len(busy) == 2


def test_the_command_line_takes_an_engine_and_says_the_same(nodes, tmp_path, handful):
    command = ("bench", "imbalanced", "--methods", "knn", "--tasks", 120, "--json")
    here = handful(*command, "-o", "local")
    there = finish(start(*command, "--engine", "ray", "--address", nodes.address, "-o", "ray", cwd=tmp_path))
    assert there.returncode == 0, there.stderr
    assert there.stdout == here.stdout
    assert written(tmp_path / "ray") == written(tmp_path / "local")
    assert "360/360" in there.stderr
    assert "ray" not in there.stderr.lower()  # nor anything else of Ray's


# What is kept


def test_local_and_ray_go_on_where_the_other_stopped(nodes, embedded, tmp_path):
    before = {}
    for tasks, engine in ((100, None), (250, Ray()), (400, None), (520, Ray())):
        done = []
        options = {"engine": engine, "progress": lambda *told, to=done: to.append(told)}
        both = bench(embedded, tmp_path / "both", "knn,tim_gd:steps=40", tasks, **options)
        after = blocks(tmp_path / "both")
        assert {path: after[path] for path in before} == before  # none is written again
        whole = [path for path in before if path.stem.endswith("99")]  # the last of a run may be short
        assert done[0] == ("balanced", 100 * len(whole), 2 * tasks)  # nor is it solved again
        assert len(done) == 1 + len(after) - len(before)
        assert done[-1] == ("balanced", 2 * tasks, 2 * tasks)
        before = after
    local = bench(embedded, tmp_path / "local", "knn,tim_gd:steps=40", 520)
    for kind in ("md", "csv", "json", "tex"):
        assert both.files[kind].read_bytes() == local.files[kind].read_bytes()


def test_what_another_run_has_solved_since_is_not_solved_again(nodes, embedded, tmp_path):
    others = {}

    def meanwhile(name, done, total):
        if done and not others:
            bench(embedded, tmp_path, "knn", 3000)
            others.update(blocks(tmp_path))

    told = []
    bench(embedded, tmp_path, "knn", 3000, engine=Ray(), progress=lambda *t: told.append(t) or meanwhile(*t))
    assert len(others) == 30
    assert told[-1] == ("balanced", 3000, 3000)
    again = [path for path, time in blocks(tmp_path).items() if time != others[path]]
    assert len(again) <= 8  # those that were under way, four a CPU


def test_nothing_to_solve_needs_no_cluster(embedded, tmp_path):
    made = bench(embedded, tmp_path, "knn", 100).files["json"].read_bytes()
    with Ray("127.0.0.1:1") as nowhere:
        assert bench(embedded, tmp_path, "knn", 100, engine=nowhere).files["json"].read_bytes() == made


def test_ctrl_c_keeps_what_is_finished_and_says_how_to_go_on(nodes, tmp_path):
    command = ("bench", "balanced", "--methods", SLOW, "--tasks", 2000, "-o", "out")
    process = start(*command, "--engine", "ray", "--address", nodes.address, cwd=tmp_path)
    while process.poll() is None and len(blocks(tmp_path / "out")) < 3:
        time.sleep(0.02)
    assert process.poll() is None, process.communicate()
    os.killpg(process.pid, signal.SIGINT)
    done = finish(process)
    assert done.returncode == 130, done.stderr
    assert "stored in out: the same command continues from there" in done.stdout
    assert done.stderr == ""
    assert 3 <= len(blocks(tmp_path / "out")) < 20
    assert not list(tmp_path.rglob("*.tmp"))


@LINUX
def test_an_interrupt_cancels_what_is_under_way(nodes, embedded, tmp_path):
    """The connection is the caller's, and stays."""

    def stop(name, done, total):
        if done and is_solving(nodes.node, 10):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bench(embedded, tmp_path, "knn,eol:steps=5000:backend=array", 400, engine=Ray(), progress=stop)
    end = time.monotonic() + 5  # a block takes longer
    while any(map(is_solving, nodes.cluster.list_all_nodes())) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(map(is_solving, nodes.cluster.list_all_nodes()))
    assert 1 <= len(blocks(tmp_path)) <= 4  # of kNN


# Nodes come and go


@LINUX
def test_a_node_that_is_killed_costs_nothing_but_its_blocks(nodes, embedded, tmp_path):
    struck = []

    def strike(name, done, total):
        if not struck and done >= 300 and is_solving(nodes.node, 2):
            nodes.kill()
            struck.append(blocks(tmp_path / "ray"))

    bench(embedded, tmp_path / "ray", SLOW, 1000, engine=Ray(), progress=strike)
    assert 3 <= len(struck[0]) <= 8  # in the middle, with as many as eight under way
    after = blocks(tmp_path / "ray")
    assert len(after) == 10
    assert {path: after[path] for path in struck[0]} == struck[0]
    bench(embedded, tmp_path / "local", SLOW, 1000)
    assert written(tmp_path / "ray") == written(tmp_path / "local")


@LINUX
def test_a_node_that_joins_is_used(nodes, embedded, tmp_path):
    nodes.kill()
    busy = []

    def join(name, done, total):
        if nodes.node is None and done:
            nodes.revive()
        elif nodes.node is not None:
            busy.append(is_solving(nodes.node))

    bench(embedded, tmp_path, SLOW, 3000, engine=Ray(), progress=join)
    assert any(busy)


# What goes wrong


def test_an_error_of_a_method_is_raised_as_itself(nodes, embedded, tmp_path):
    failing = "knn,eol:backend=fast:history=true"
    raised = []
    for engine in (None, Ray()):
        with pytest.raises(ValueError) as error:
            bench(embedded, tmp_path / str(len(raised)), failing, 200, engine=engine)
        raised.append(error)
    assert raised[0].type is raised[1].type is ValueError
    assert str(raised[1].value) == str(raised[0].value)
    bench(embedded, tmp_path / "after", "knn", 200, engine=Ray())  # the cluster is none the worse for it


METHOD = """
    import numpy as np
    from handful import register
    from handful.methods import Solution

    class Odd(ValueError):
        def __init__(self, what, why):
            super().__init__(f"{what} is odd: {why}")

    @register("near")
    def near(support, labels, query, *, offset=0.0):
        if offset < 0:
            raise Odd("offset", "it is negative")
        away = offset + np.abs(query[:, :, None] - support[:, None]).sum(axis=-1)  # [B, Q, S]
        nearest = np.take_along_axis(labels, away.argmin(axis=-1), axis=1)
        return Solution(np.eye(labels.max() + 1)[nearest], away.min(axis=-1))
    """
SCRIPT = """
    import sys
    from handful.bench.report import perform
    from handful.cluster.bench import Ray

    with Ray(sys.argv[1]) as engine:
        perform("balanced", output="out", methods=sys.argv[2], tasks=3, engine=engine)
    """


@pytest.mark.parametrize(
    ("where", "method", "said"),
    [
        ("module", "near", None),
        ("module", "near:offset=-1", "Odd: offset is odd: it is negative"),
        ("script", "near", "method 'near' was registered in the script itself or in an interactive session"),
        ("typed", "near", "method 'near' was registered in the script itself or in an interactive session"),
        ("elsewhere", "near", "method 'near' is in the module 'methods_of_mine', which cannot be imported on"),
    ],
)
def test_a_method_of_ones_own_must_be_where_it_is_solved(where, method, said, nodes, tmp_path):
    """In a module that the nodes have, it is."""
    home = tmp_path / "elsewhere" if where == "elsewhere" else tmp_path
    home.mkdir(exist_ok=True)
    (home / "methods_of_mine.py").write_text(dedent(METHOD))
    lines = dedent(METHOD) if where in ("script", "typed") else ""
    if not lines:
        lines = f"import sys\nsys.path.append({str(home)!r})\nimport methods_of_mine\n"
    (tmp_path / "script.py").write_text(lines + dedent(SCRIPT))
    what, typed = ("-", (tmp_path / "script.py").read_text()) if where == "typed" else ("script.py", None)
    done = subprocess.run(
        [sys.executable, what, nodes.address, method], input=typed, capture_output=True, text=True, cwd=tmp_path,
        timeout=60,
    )  # fmt: skip
    if said is None:
        assert done.returncode == 0, done.stderr
        assert len(blocks(tmp_path / "out")) == 1
    else:
        assert said in done.stderr.splitlines()[-1]
        assert not blocks(tmp_path / "out")


def change(other):
    with (other / "engines" / "descent.py").open("a") as file:
        file.write("# changed\n")


@pytest.mark.parametrize(
    ("make", "kind", "said"),
    [
        (change, ValueError, "'eol' has other code on .* install the same on every machine"),
        (
            lambda other: shutil.rmtree(other / "cluster"),
            ImportError,
            r"cannot run handful's tasks \(.*No module named 'handful.cluster.*\): install handful",
        ),
    ],
)
def test_a_node_with_another_handful_is_told_of(make, kind, said, nodes, embedded, tmp_path):
    """Its figures would be kept as those of this one."""
    other = tmp_path / "other" / "handful"
    shutil.copytree(Path(package.__file__).parent, other, ignore=shutil.ignore_patterns("__pycache__"))
    make(other)
    nodes.kill()
    odd = nodes.cluster.add_node(num_cpus=1, env_vars={"PYTHONPATH": str(other.parent)})
    try:
        with pytest.raises(kind, match=said):
            bench(embedded, tmp_path / "out", SLOW, 3000, engine=Ray())
    finally:
        nodes.cluster.remove_node(odd, allow_graceful=False)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--engine", "spark"], "there is no engine 'spark'; there are: local, ray"),
        (["--address", "auto"], "--address auto is where a Ray cluster is: give --engine ray too, or leave it out"),
        (["--engine", "ray"], "--engine ray needs Ray: pip install 'handful[scale]'"),
    ],
)
def test_an_engine_that_cannot_be_had_is_refused_before_anything_is_read(options, said, handful, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    done = handful("bench", "balanced", "--features", "none.npz", "-o", "out", *options)
    assert_refused(done, said)
    assert not (tmp_path / "out").exists()


def test_a_cluster_that_is_not_there_is_told_of_at_once(tmp_path):
    command = ("bench", "balanced", "--methods", "knn", "--tasks", 2, "-o", "out")
    done = finish(start(*command, "--engine", "ray", "--address", "127.0.0.1:1", cwd=tmp_path), seconds=30)
    assert_refused(done, "there is no Ray cluster at '127.0.0.1:1'", "start one with `ray start --head`")
