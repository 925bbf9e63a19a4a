"""What keeps the house honest: imports point one way, methods cannot see the truth, starting is quick."""

import ast
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from handful.solving import get_solver, list_methods

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "handful"
# Anyone may call these; they call no room.
LEAVES = {
    "arrays", "checks", "csvfile", "files", "interrupts", "limits", "parameters", "tensorfile", "threads", "unpickling",
    "__init__",
}  # fmt: skip
ROOMS = {
    "task": {"groups", "decide"},  # a result hands itself over when asked for groups, or for probabilities
    "prepare": {"task"},
    "base": set(),
    "descent": {"task", "kernels"},  # it hands over to the kernel where that pays
    "kernels": {"descent", "_tiles"},
    "_tiles": set(),
    "density": {"task", "prepare"},
    "share": {"prepare", "density"},
    "groups": {"task", "prepare", "density"},
    "decide": {"task"},
    "metrics": set(),
    "stream": {"prepare", "descent", "kernels", "_tiles", "features"},
    "methods": {"base", "task", "prepare", "descent", "decide", "density", "share", "stream"},
    "estimator": {"base", "methods", "task", "prepare", "modelfile"},
    "modelfile": {"base", "estimator", "methods", "modelcheck", "prepare", "task"},
    "modelcheck": {"methods", "prepare"},
    "features": {"task"},
    "report": {"task", "images"},
    "demo": {"task", "methods", "features", "metrics", "report"},
    "bench": {"base", "train", "task", "methods", "features", "metrics", "descent"},
    "images": {"features", "networks"},  # a published checkpoint is a backbone
    "networks": {"images"},
    "datasets": {"features", "images"},
    "train": {"base", "features", "methods", "prepare", "images", "networks", "datasets", "task", "metrics"},
    "label": {
        "base",
        "task",
        "methods",
        "stream",
        "features",
        "images",
        "report",
        "decide",
        "estimator",
        "modelfile",
        "groups",
    },
    "scale": {"base", "bench", "methods", "features", "images", "label", "stream"},
    "workbench": {"features", "images", "label", "decide", "report"},
    "cli": {
        "base",
        "train",
        "demo",
        "features",
        "methods",
        "bench",
        "images",
        "label",
        "workbench",
        "scale",
        "datasets",
        "networks",
    },
    "__main__": {"cli"},
}


def room(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_rooms(path: Path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "handful":
            yield from (alias.name for alias in node.names if (SOURCE / f"{alias.name}.py").exists())
            yield from (alias.name for alias in node.names if (SOURCE / alias.name).is_dir())
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("handful."):
            yield node.module.split(".")[1]
        elif isinstance(node, ast.Import):
            yield from (a.name.split(".")[1] for a in node.names if a.name.startswith("handful."))


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_only_along_the_arrows(path):
    here = room(path)
    if here == "__init__":
        return
    others = set(imported_rooms(path)) - {here} - LEAVES
    assert others <= ROOMS.get(here, set()), f"{here} may not call {others - ROOMS.get(here, set())}"


@pytest.mark.torch
def test_the_rooms_of_training_are_found_without_importing_torch():
    code = (
        "import sys, handful; handful.training.datasets.read_pictures; handful.training.Settings(epochs=3)\n"
        "handful.backbones.networks.NETWORKS\n"
        "assert 'torch' not in sys.modules; handful.training.pretrain; assert 'torch' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_cluster_engine_is_there_without_an_import_of_its_own():
    code = "import sys, handful; handful.cluster.Actors(); assert 'ray' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stderr == ""


@pytest.mark.parametrize("name", list_methods())
def test_no_method_can_see_the_truth(name):
    method = get_solver(name)
    parameters = list(inspect.signature(method.solve).parameters.values())
    assert [p.name for p in parameters[:3]] == ["support", "labels", "query"]
    assert all(p.kind is p.KEYWORD_ONLY for p in parameters[3:])
    assert not [p.name for p in parameters[3:] if re.search("truth|query|label|target|outlier$", p.name)]


@pytest.mark.parametrize("name", list_methods())
def test_every_method_is_one_file_with_its_reference_on_top(name):
    doc = ast.get_docstring(ast.parse((SOURCE / "methods" / f"{name}.py").read_text()))
    assert str(get_solver(name).info.year) in doc
    assert get_solver(name).info.authors.split(",")[0] in doc
    assert set(get_solver(name).rules) <= set(get_solver(name).defaults)


def own_import_seconds(statement: str) -> float:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", f"import numpy; {statement}"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    after = done.stderr[done.stderr.rindex("numpy\n") :]  # lines of what came after NumPy
    return sum(int(line.split("|")[0].split(":")[1]) for line in after.splitlines() if "import time:" in line) / 1e6


def test_importing_handful_pulls_in_nothing_heavy():
    script = "import handful, sys; print([m for m in sys.modules if m.split('.')[0] in %r])"
    heavy = ["sklearn", "scipy", "pyarrow", "numba", "torch", "PIL", "matplotlib"]
    done = subprocess.run([sys.executable, "-c", script % heavy], capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_help_pulls_in_nothing_heavy():
    script = (
        "import sys; sys.argv = ['handful', '--help']\n"
        "from handful.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print([m for m in sys.modules if m in ('numpy', 'sklearn', 'pyarrow')], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "demo" in done.stdout
    assert done.stderr.strip() == "[]"


def test_the_plain_install_stays_light():
    text = (ROOT / "pyproject.toml").read_text()
    base = re.search(r"^dependencies = \[(.*?)^\]", text, re.M | re.S)[1]
    assert not re.search(r"^\s*\"(torch|numba|onnx|ray|fastapi|pyod)", base, re.M)


def test_versions_agree():
    import handful

    assert f"## {handful.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_metadata_is_complete():
    data = json.loads((SOURCE / "methods" / "metadata.json").read_text())
    assert set(data) == {info.name for info in list_methods()}
    for entry in data.values():
        assert entry["paradigm"] in ("inductive", "transductive")
        assert entry["setting"] in ("open-set", "closed-set", "detector")
        assert entry["score"] in ("probability", "rank")
