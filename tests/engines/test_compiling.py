"""Kernels are compiled beside the work, kept in the cache folder, and never waited for (extra `fast`)."""

import json
import os
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from random_tasks import random_task
from typer.testing import CliRunner

import handful
from handful.cli import app
from handful.engines import compiling
from handful.engines.compiling import Kernel, chosen_backend
from handful.methods.registry import find_method

pytest.importorskip("numba")

TINY = """
import numpy as np
from handful.engines._compiled import entry

@entry
def _twice(x):
    return x * 2

def warm(ways, dtype):
    assert _twice(np.ones(ways, dtype)).sum() == 2 * ways
"""
BROKEN = "def warm(ways, dtype): raise RuntimeError('no compiler')"
USE = """
import os, sys, time
import handful.engines.compiling as compiling
compiling.KERNELS = {"tiny": "tiny_kernel"}
kernel = compiling.Kernel.of("tiny", 5, "float32")
print(kernel.is_stored)
engines = []
while not engines or (engines[-1] == "array" and len(engines) < 400):
    with compiling.chosen_backend([kernel]) as engine:
        engines.append(engine)
        time.sleep(0.15)
print(engines[0], engines[-1], len(engines))
"""


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A kernel that compiles in a moment, an empty cache, and a compiler that has done nothing yet."""
    (tmp_path / "tiny_kernel.py").write_text(TINY)
    (tmp_path / "broken_kernel.py").write_text(BROKEN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("HANDFUL_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("HANDFUL_BACKEND")
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(compiling, "KERNELS", {"tiny": "tiny_kernel", "broken": "broken_kernel"})
    monkeypatch.setattr(compiling, "_compiler", compiling._Compiler())
    compiling.kernel_folder.cache_clear()
    yield Kernel.of("tiny", 5, "float32")
    compiling.kernel_folder.cache_clear()
    for name in ("tiny_kernel", "broken_kernel"):
        sys.modules.pop(name, None)


def use_in_a_fresh_process(folder: Path) -> list[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, "-c", USE], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_work_begins_without_the_kernel_and_goes_on_with_it(tiny, tmp_path):
    stored, first, last, calls = use_in_a_fresh_process(tmp_path)
    assert (stored, first, last) == ("False", "array", "fast")
    assert int(calls) > compiling.ENOUGH_TO_COMPILE / 0.15
    files = {path.suffix for path in (tmp_path / "cache" / "kernels").rglob("*")}
    assert {".nbi", ".nbc", ".ready"} <= files

    stored, first, last, calls_of_second = use_in_a_fresh_process(tmp_path)
    assert (stored, first, last) == ("True", "array", "fast")
    assert int(calls_of_second) < int(calls)


def test_a_kernel_that_is_there_is_used_at_once(tiny):
    compiling.make_now(tiny)
    with chosen_backend([Kernel.of("tiny", 10, "float32")]) as engine:  # ten classes are two tiles of five
        assert engine == "fast"
    with chosen_backend([Kernel.of("tiny", 5, "float64")]) as engine:
        assert engine == "array"


def test_a_part_whose_kernel_is_there_uses_it_before_all_are(tiny):
    compiling.make_now(tiny)
    with chosen_backend([tiny, Kernel.of("broken", 5, "float32")]) as engine:
        assert engine == "auto"


def test_a_little_work_compiles_nothing(tiny):
    with chosen_backend([tiny]) as engine:
        assert engine == "array"
    assert compiling.wait(0)
    assert not compiling._compiler.wanted
    assert not tiny.is_stored


def test_work_adds_up_over_calls(tiny):
    for _ in range(4):
        compiling._compiler.note([tiny], compiling.ENOUGH_TO_COMPILE / 4)
    assert compiling.wait(60)
    assert compiling.is_ready("tiny", 5, "float32")


def test_a_kernel_that_cannot_be_compiled_leaves_the_work_to_the_array_engine(tiny):
    broken = Kernel.of("broken", 5, "float32")
    compiling._compiler.note([broken], 100.0)
    assert compiling.wait(60)
    assert str(compiling._compiler.failed[broken]) == "RuntimeError: no compiler"
    compiling._compiler.note([broken], 100.0)  # it is not tried again
    assert compiling._compiler.thread is None
    with chosen_backend([broken]) as engine:
        assert engine == "array"


def test_a_stored_kernel_that_was_cut_off_is_compiled_again(tiny, tmp_path):
    folder = compiling.kernel_folder()
    for pattern, size in (("*.nbi", 0), ("*.nbi", 20), ("*.nbc", 0), ("*.nbc", 100), ("*.nbc", None)):
        sys.modules.pop("tiny_kernel", None)
        tiny.make()
        (file,) = folder.glob(pattern)
        whole = file.read_bytes()
        file.write_bytes(whole if size is None else whole[:size])
    sys.modules.pop("tiny_kernel")
    tiny.make()
    assert file.read_bytes() == whole  # the last one was whole, and is loaded


def test_processes_take_turns(tiny):
    fcntl = pytest.importorskip("fcntl")
    with open(tiny.mark.with_suffix(".lock"), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        thread = threading.Thread(target=tiny.make)
        thread.start()
        thread.join(0.5)
        assert thread.is_alive()
        assert not tiny.is_stored
    thread.join(60)
    assert tiny.is_stored


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="permissions of POSIX")
def test_a_folder_that_others_can_write_to_is_not_used(tiny):
    folder = compiling.kernel_folder()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o777)
    compiling.kernel_folder.cache_clear()
    assert compiling.kernel_folder() is None
    compiling.make_now(tiny)  # compiled for this process alone
    assert not list(folder.iterdir())


def test_a_folder_beside_the_users_files_is_not_used(tiny, monkeypatch):
    monkeypatch.setenv("HANDFUL_CACHE", "cache")
    compiling.kernel_folder.cache_clear()
    assert compiling.kernel_folder() is None


def test_kernels_of_old_versions_are_removed(tiny, tmp_path):
    root = tmp_path / "cache" / "kernels"
    old, recent = root / "handful-0.0.1-abc-numba-0.60-py311", root / "handful-0.0.2-abc-numba-0.60-py311"
    for folder in (old, recent):
        folder.mkdir(parents=True)
    long_ago = time.time() - 100 * 86400
    os.utime(old, (long_ago, long_ago))
    compiling.kernel_folder()
    assert not old.exists()
    assert recent.exists()


@pytest.mark.parametrize(("value", "engine"), [("array", "array"), ("FAST", "fast"), ("auto", "array"), ("", "array")])
def test_the_environment_names_an_engine(tiny, monkeypatch, value, engine):
    monkeypatch.setenv("HANDFUL_BACKEND", value)
    with chosen_backend([tiny]) as chosen:
        assert chosen == engine
    with chosen_backend([]) as chosen:  # a method without kernels
        assert chosen == "array"


def test_a_wrong_engine_is_refused(monkeypatch):
    monkeypatch.setenv("HANDFUL_BACKEND", "gpu")
    with pytest.raises(ValueError, match="HANDFUL_BACKEND is 'gpu'"):
        compiling.fixed_backend()


def test_the_command_compiles_and_then_loads(tiny, monkeypatch):
    monkeypatch.setattr(compiling, "KERNELS", {"tiny": "tiny_kernel"})
    first, second = (json.loads(CliRunner().invoke(app, ["warm", "--json"]).stdout) for _ in range(2))
    assert (first["compiled"], first["loaded"]) == (compiling.MAX_TILE, 0)
    assert (second["compiled"], second["loaded"]) == (0, compiling.MAX_TILE)
    said = CliRunner().invoke(app, ["warm", "--ways", "10"]).stdout
    assert "1 kernels are ready (1 were there already)" in said
    assert first["folder"] in said


def test_a_server_loads_what_is_stored(tiny, monkeypatch):
    monkeypatch.setattr(compiling, "KERNELS", {"tiny": "tiny_kernel"})
    compiling.load_stored()
    assert compiling._compiler.thread is None
    tiny.make()
    compiling.load_stored()
    assert compiling.wait(60)
    assert compiling._compiler.ready == {tiny}


def test_a_single_task_uses_the_kernel_once_it_is_there(monkeypatch):
    monkeypatch.delenv("HANDFUL_BACKEND")
    support, labels, query = (x[0] for x in random_task(np.random.default_rng(1), 1, [2] * 5, 40, 70, np.float32))
    for kernel in find_method("eol").kernels:
        compiling.make_now(Kernel.of(kernel, 5, "float32"))
    scores = {
        backend: handful.solve(support, labels, query, method="eol", outlier_share=0.5, backend=backend).outlier_scores
        for backend in ("auto", "fast", "array")
    }
    np.testing.assert_array_equal(scores["auto"], scores["fast"])
    np.testing.assert_allclose(scores["auto"], scores["array"], atol=1e-3)


@pytest.mark.parametrize("seconds", [0.05, 0.5, 2.0])
def test_a_process_that_ends_meanwhile_ends_its_compiler(tmp_path, seconds):
    program = f"""
import time
from handful.engines.compiling import Kernel, _compiler
_compiler.note([Kernel.of("descent", 3, "float64")], 100.0)
time.sleep({seconds})
print(_compiler.thread is not None, _compiler.process.pid)
"""
    environment = os.environ | {"HANDFUL_CACHE": str(tmp_path), "HANDFUL_BACKEND": ""}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    was_at_work, compiler = done.stdout.split()
    assert was_at_work == "True"
    with pytest.raises(ProcessLookupError):
        os.kill(int(compiler), 0)
    assert not list(tmp_path.rglob("*.ready"))


def test_a_stranger_s_module_beside_the_user_s_files_is_not_imported(tiny, tmp_path, monkeypatch):
    folder = tmp_path / "pictures"
    folder.mkdir()
    (folder / "numba.py").write_text("open('here', 'w').write('a stranger was run')")
    monkeypatch.chdir(folder)
    compiling._compiler.note([tiny], 100.0)
    assert compiling.wait(60)
    assert not compiling._compiler.failed
    assert not (folder / "here").exists()


def test_without_numba_the_command_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    result = CliRunner().invoke(app, ["warm"])
    assert isinstance(result.exception, ImportError)
    assert 'pip install "handful[fast]"' in str(result.exception)
