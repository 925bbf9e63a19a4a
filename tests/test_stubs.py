"""What editors and type checkers read of handful is what handful has."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import handful
from handful.estimators import classes
from handful.estimators.factory import estimator_class
from handful.methods.registry import find_method

ROOT = Path(__file__).resolve().parents[1]
SOURCE = Path(handful.__file__).parent


def own_estimators() -> list[str]:
    """The estimators of the registry, without those of other packages."""
    methods = [find_method(name) for name in handful.list_methods()]
    return [method.info.estimator for method in methods if method.solve.__module__.startswith("handful.")]


def test_the_stubs_are_up_to_date():
    script = ROOT / "scripts" / "stubs.py"
    if not script.exists():
        pytest.skip("the documentation is not part of this copy")
    check = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert check.returncode == 0, check.stdout + check.stderr


@pytest.mark.parametrize("name", sorted(handful.__all__))
def test_every_public_name_resolves(name):
    assert getattr(handful, name) is not None


def test_the_public_names_are_those_of_the_stub():
    tree = ast.parse((SOURCE / "__init__.pyi").read_text("utf-8"))
    imported = {alias.asname for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert imported == set(handful.__all__) == set(dir(handful))


def test_the_module_of_estimators_lists_exactly_those_of_the_registry():
    assert sorted(classes.__all__) == sorted(own_estimators())
    for name in handful.list_methods():
        estimator = estimator_class(name)
        if estimator.__name__ in classes.__all__:
            assert getattr(classes, estimator.__name__) is estimator


def test_the_package_lists_exactly_the_estimators_of_the_registry():
    assert sorted(handful._HOMES["handful.estimators.classes"]) == sorted(own_estimators())
    assert all(getattr(handful, name) is getattr(classes, name) for name in own_estimators())


def test_the_stub_of_the_estimators_has_a_class_for_each():
    tree = ast.parse((SOURCE / "estimators" / "classes.pyi").read_text("utf-8"))
    assert sorted(node.name for node in tree.body if isinstance(node, ast.ClassDef)) == sorted(own_estimators())
