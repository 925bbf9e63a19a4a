"""The names at the top of handful are those that editors, type checkers and help() show."""

import ast
import pydoc
from pathlib import Path

import pytest

import handful

SOURCE = Path(handful.__file__).parent


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
