"""What editors and type checkers read of handful is what handful has."""

import ast
import inspect
import pydoc
import subprocess
import sys
from pathlib import Path

import pytest

import handful
from handful.estimators.factory import estimator_names
from handful.methods.registry import find_method

ROOT = Path(__file__).resolve().parents[1]
SOURCE = Path(handful.__file__).parent


def test_the_stub_of_the_estimators_is_up_to_date():
    script = ROOT / "scripts" / "stubs.py"
    if not script.exists():
        pytest.skip("the scripts are not part of this copy")
    check = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert check.returncode == 0, check.stdout + check.stderr


def test_the_stub_has_the_signature_of_each_estimator():
    tree = ast.parse((SOURCE / "estimators" / "__init__.pyi").read_text("utf-8"))
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    own = {n: m for n, m in estimator_names().items() if find_method(m).solve.__module__.startswith("handful.")}
    assert sorted(classes) == sorted(own)
    for name, node in classes.items():
        (init,) = [one for one in node.body if isinstance(one, ast.FunctionDef)]
        stub = {a.arg: ast.literal_eval(d) for a, d in zip(init.args.kwonlyargs, init.args.kw_defaults, strict=True)}
        signature = inspect.signature(getattr(handful.estimators, name))
        assert stub == {p.name: p.default for p in signature.parameters.values()}, name


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
