"""What keeps the house honest: imports point one way, methods cannot see the truth, starting is quick."""

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest
import rooms

from handful.solving import get_solver, list_methods

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "handful"
MAX_ROOMS = 16
# Which rooms each room imports, inside functions too: exactly these, so that an arrow nobody uses is a failure as well.
# `python scripts/rooms.py` prints what the code does.
ARROWS = {
    "utils": "",
    "core": "utils",
    "backbones": "features utils",
    "engines": "core utils",
    "features": "core utils",
    "report": "backbones core utils",
    "methods": "core engines",
    "solving": "core engines features methods report utils",
    "estimators": "core engines solving utils",
    "bench": "core engines estimators features solving utils",
    "training": "backbones core features methods solving utils",
    "label": "backbones core estimators features methods report solving utils",
    "workbench": "backbones core engines features label solving utils",
    "cli": "backbones bench core engines features label solving training utils workbench",
}
# These can be deleted without touching another room but their file in cli/.
EXTRA_ROOMS = ("workbench", "training")


@pytest.fixture(scope="module")
def imports():
    return rooms.imports()


def test_rooms_import_exactly_along_the_arrows(imports):
    graph = rooms.room_graph(imports)
    allowed = {name: set(others.split()) for name, others in ARROWS.items()}
    assert set(graph) == set(allowed), "the rooms of src/handful are not those of ARROWS"
    surplus = [(name, other) for name in graph for other in sorted(graph[name] - allowed[name])]
    unused = [f"{name} -> {other}" for name in graph for other in sorted(allowed[name] - graph[name])]
    lines = [f"not allowed: {rooms.explain_arrow(*arrow, imports)}" for arrow in surplus]
    lines += [f"allowed but unused: {arrow}" for arrow in unused]
    assert not lines, "\n" + "\n".join(lines)


def test_rooms_form_no_cycle(imports):
    lines = rooms.explain_room_cycles(imports)
    assert not lines, "\n" + "\n".join(lines)


def test_modules_form_no_cycle(imports):
    lines = rooms.explain_module_cycles(imports)
    assert not lines, "\n" + "\n".join(lines)


def test_the_arrows_themselves_form_no_cycle():
    assert not rooms.cycles({name: set(others.split()) for name, others in ARROWS.items()})


@pytest.mark.parametrize("extra", EXTRA_ROOMS)
def test_an_extra_is_imported_by_the_command_line_only(extra):
    assert {name for name, others in ARROWS.items() if extra in others.split()} == {"cli"}


def test_the_top_level_shows_the_rooms():
    entries = {path.name for path in SOURCE.iterdir() if path.name != "__pycache__"}
    loose = {name for name in entries if not (SOURCE / name / "__init__.py").exists()}
    assert loose <= {"__init__.py", "__init__.pyi", "__main__.py", "py.typed"}
    assert len(entries - loose) <= MAX_ROOMS


def test_tests_mirror_the_rooms():
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert folders <= {*rooms.room_graph(), "pages", "faults", "golden"}


def test_nothing_imports_all_names_of_a_module():
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            assert not (isinstance(node, ast.ImportFrom) and node.names[0].name == "*"), f"{path}:{node.lineno}"


def test_the_map_in_contributing_is_that_of_the_code():
    text = rooms.PAGE.read_text("utf-8")
    assert rooms.page_with_map(text) == text, "run python scripts/rooms.py --write"


def test_contributing_has_a_line_for_each_room():
    lines = re.findall(r"^\| `(\w+)/` \|", rooms.PAGE.read_text("utf-8"), re.M)
    assert sorted(lines) == sorted(rooms.room_graph())


def test_cycles_are_found():
    assert rooms.cycles({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set(), "e": {"a"}}) == [["a", "b", "c"]]
    assert rooms.cycles({"a": {"b"}, "b": {"c"}, "c": set()}) == []


def test_imports_in_functions_are_found(imports):
    """`cli` imports what a command needs inside the command."""
    assert any(one.importer.startswith("cli.") and one.inside_function for one in imports)
    assert any(one.only_for_types for one in imports)


def test_every_name_of_training_is_there_without_torch():
    """The reference is made from them in an environment without torch."""
    code = (
        "import sys; sys.modules['torch'] = None  # as if it were not installed\n"
        "import handful; names = [getattr(handful.training, name) for name in handful.training.__all__]\n"
        "handful.training.datasets.read_pictures; handful.training.Settings(epochs=3)\n"
        "handful.backbones.networks.NETWORKS\n"
        "try: handful.training.pretrain(None, 'nowhere')\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.startswith('training needs torch: pip install "handful[torch]"'), done.stderr


@pytest.mark.parametrize("name", list_methods())
def test_no_method_can_see_the_truth(name):
    method = get_solver(name)
    parameters = list(inspect.signature(method.method.solve).parameters.values())
    assert [p.name for p in parameters[:3]] == ["support", "labels", "query"]
    rest = parameters[4:] if method.method.takes_unknown else parameters[3:]  # `unknown`: examples of no class
    assert all(p.kind is p.KEYWORD_ONLY for p in rest)
    assert not [p.name for p in rest if re.search("truth|query|label|target|outlier$", p.name)]


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


@pytest.mark.parametrize("name", list_methods())
def test_metadata_is_complete(name):
    info = get_solver(name).info
    assert info.paradigm in ("inductive", "transductive")
    assert info.setting in ("open-set", "closed-set", "detector")
    assert info.score in ("probability", "rank")
