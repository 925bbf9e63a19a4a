"""Write `src/handful/estimators/__init__.pyi`, in which editors and type checkers find every estimator with its
parameters. ::

    python scripts/stubs.py            # write it
    python scripts/stubs.py --check    # write nothing; exit with 1 if it is not up to date
"""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import Any

import handful
from handful.estimators.factory import SHARED_PARAMETERS, estimator_names
from handful.methods.registry import find_method

PATH = Path(handful.__file__).parent / "estimators" / "__init__.pyi"
TYPES = {bool: "bool", int: "int", float: "float", str: "str", tuple: "tuple[str, ...]"}
OPENING = """\
# Written by scripts/stubs.py from the signatures of the methods. help() of a class explains its parameters.
from typing import Any

from handful.estimators.classifier import FewShotClassifier as FewShotClassifier
from handful.estimators.factory import load as load
from handful.estimators.factory import make_estimator as make_estimator
from handful.estimators.given_labels import scorer as scorer
"""


def stub() -> str:
    """The text of the stub."""
    methods = {name: find_method(method) for name, method in sorted(estimator_names().items())}
    return OPENING + "".join(
        class_stub(name, f"{method.info.title}. {method.info.summary}", SHARED_PARAMETERS | method.defaults)
        for name, method in methods.items()
        if method.solve.__module__.startswith("handful.")  # not those of other packages
    )


def class_stub(name: str, text: str, defaults: dict[str, Any]) -> str:
    """A class with its parameters."""
    parameters = [f"{key}: {type_of(key, value)} = {as_code(value)}," for key, value in defaults.items()]
    words = " ".join(one.replace(" ", "\N{NO-BREAK SPACE}") for one in parameters)  # no line ends inside of one
    filled = textwrap.fill(words, 110, break_on_hyphens=False).replace("\N{NO-BREAK SPACE}", " ")
    return (
        f"\nclass {name}(FewShotClassifier):\n"
        + textwrap.indent(textwrap.fill(f'"""{text}"""', 112, break_on_hyphens=False), "    ")
        + f"\n    def __init__(\n        self, *,\n{textwrap.indent(filled, ' ' * 8)}\n    ) -> None: ...\n"
    )


def type_of(name: str, default: Any) -> str:
    """The type of a parameter, by its default."""
    return "Any" if default is None or name == "outlier_share" else TYPES[type(default)]


def as_code(default: Any) -> str:
    """A default as ruff writes it."""
    return repr(default).replace("'", '"')


def main() -> int:
    text = stub()
    if PATH.exists() and PATH.read_text("utf-8") == text:
        return 0
    if "--check" in sys.argv:
        print(f"{PATH} is not up to date: run python scripts/stubs.py")
        return 1
    PATH.write_text(text, "utf-8")
    print(f"wrote {PATH}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
