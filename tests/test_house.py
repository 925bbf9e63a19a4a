"""What keeps the house honest: imports point one way, methods see no truth, starting is quick, editors see names."""

import ast
import inspect
import pydoc
import re
import subprocess
import sys
from pathlib import Path

import pytest

import handful
from handful.solving import get_solver, list_methods

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "handful"
ROOMS = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()}


def test_imports_keep_the_contracts_of_pyproject(tmp_path):
    """The layers of rooms, the rooms that can be deleted, and no cycles: see [tool.importlinter]."""
    pytest.importorskip("importlinter")
    words = ["--config", ROOT / "pyproject.toml", "--no-cache", "--no-logo"]
    code = "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())"
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_top_level_tests_and_the_page_about_the_rooms_show_the_rooms():
    entries = {path.name for path in SOURCE.iterdir() if path.name != "__pycache__"}
    assert entries - ROOMS <= {"__init__.py", "__main__.py", "py.typed"}
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert folders <= {*ROOMS, "pages", "faults", "golden"}
    lines = re.findall(r"^\| `(\w+)/` \|", (ROOT / "docs" / "building" / "index.md").read_text("utf-8"), re.M)
    assert sorted(lines) == sorted(ROOMS)


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
    assert printed_by(code).startswith('training needs torch: pip install "handful[torch]"')


def test_every_method_is_one_file_with_its_reference_and_sees_no_truth():
    for name in list_methods():
        solver = get_solver(name)
        if not solver.classifier.solve.__module__.startswith("handful."):
            continue
        info, parameters = solver.info, list(inspect.signature(solver.classifier.solve).parameters.values())
        assert [p.name for p in parameters[:3]] == ["support", "labels", "query"], name
        rest = parameters[4:] if solver.classifier.takes_unknown else parameters[3:]  # `unknown`: examples of no class
        assert all(p.kind is p.KEYWORD_ONLY for p in rest), name
        assert not [p.name for p in rest if re.search("truth|query|label|target|outlier$", p.name)], name
        doc = ast.get_docstring(ast.parse((SOURCE / "methods" / f"{name}.py").read_text("utf-8")))
        assert str(info.year) in doc, name
        assert info.authors.split(",")[0] in doc, name
        assert set(solver.rules) <= set(solver.defaults), name
        assert info.paradigm in ("inductive", "transductive"), name
        assert info.setting in ("open-set", "closed-set", "detector"), name
        assert info.score in ("probability", "rank"), name


def printed_by(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout


def test_importing_handful_and_help_pull_in_nothing_heavy():
    heavy = ("numpy", "sklearn", "scipy", "pyarrow", "torch", "PIL", "matplotlib")
    loaded = f"print(*[name for name in {heavy} if name in sys.modules])"
    assert printed_by(f"import handful, sys; {loaded}").split() in ([], ["numpy"])
    command = "import sys; sys.argv = ['handful', '--help']\nfrom handful.cli import main\ntry: main()\nfinally: "
    help_text = printed_by(command + loaded)
    assert "demo" in help_text
    assert help_text.splitlines()[-1] == ""


def test_the_plain_install_stays_light_and_versions_agree():
    base = re.search(r"^dependencies = \[(.*?)^\]", (ROOT / "pyproject.toml").read_text(), re.M | re.S)[1]
    assert not re.search(r"^\s*\"(torch|onnx|ray|fastapi|pyod)", base, re.M)
    assert f"## {handful.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_the_stub_of_the_estimators_is_up_to_date():
    script = ROOT / "scripts" / "stubs.py"
    if not script.exists():
        pytest.skip("the scripts are not part of this copy")
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_type_checkers_see_the_names_that_are_there():
    tree = ast.parse((SOURCE / "__init__.py").read_text("utf-8"))
    (checking,) = [node for node in tree.body if isinstance(node, ast.If)]
    names = {alias.asname for node in checking.body for alias in node.names}
    assert names | {"__version__"} == set(dir(handful))
    for name in names:
        assert getattr(handful, name) is not None
        assert f"`{name}`" in handful.__doc__ or f"`handful.{name}`" in handful.__doc__, name
    with pytest.raises(AttributeError, match="has no attribute 'solv'"):
        handful.solv  # noqa: B018
    with pytest.raises(AttributeError, match="has no attribute 'Oslo'"):
        handful.estimators.Oslo  # noqa: B018


def test_help_of_the_package_is_short():
    assert len(pydoc.render_doc(handful, renderer=pydoc.plaintext).splitlines()) < 600
