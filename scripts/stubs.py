"""Write the stub files for editors and type checkers: every public name with its parameters. ::

python scripts/stubs.py            # writes src/handful/__init__.pyi and src/handful/estimators/classes.pyi
python scripts/stubs.py --check    # writes nothing; exits with 1 if they are not up to date
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import handful
from handful.estimators.factory import SHARED_PARAMETERS, estimator_class
from handful.methods.registry import find_method
from handful.solving import list_methods

SOURCE = Path(__file__).resolve().parents[1] / "src" / "handful"
TYPES = {bool: "bool", int: "int", float: "float", str: "str", tuple: "tuple[str, ...]"}


def top_level() -> str:
    """The stub of `handful` itself."""
    lines = ["# Written by scripts/stubs.py: change handful/__init__.py", ""]
    for name, home in sorted(handful._MODULES.items()):
        room, _, module = home.rpartition(".")
        lines.append(f"from {room} import {module} as {name}")
    for home, names in handful._HOMES.items():
        lines += [f"from {home} import {name} as {name}" for name in names]
    lines.append("from handful.utils.version import __version__ as __version__")
    names = "".join(f'    "{name}",\n' for name in sorted(handful.__all__))
    return "\n".join(lines) + f"\n\n__all__ = [\n{names}]\n"


def classes() -> str:
    """The stub of the estimator classes."""
    lines = [
        "# Written by scripts/stubs.py from the signatures of the methods",
        "from typing import Any",
        "",
        "from handful.estimators.classifier import FewShotClassifier",
        "",
    ]
    for name in own_methods():
        estimator = estimator_class(name)
        lines += [f"class {estimator.__name__}(FewShotClassifier):"]
        doc = (estimator.__doc__ or "").rstrip().replace("\\", "\\\\")
        lines += ['    """' + doc.replace("\n", "\n    ").replace("\n    \n", "\n\n") + '\n    """', ""]
        lines += ["    def __init__(", "        self,", "        *,"]
        for key, default in (SHARED_PARAMETERS | find_method(name).defaults).items():
            lines.append(f"        {key}: {type_of(key, default)} = {as_code(default)},")
        lines += ["    ) -> None: ...", ""]
    return "\n".join(lines)


def own_methods() -> list[str]:
    """The methods of handful itself, without those of other packages."""
    return [name for name in list_methods() if find_method(name).solve.__module__.startswith("handful.")]


def type_of(name: str, default: Any) -> str:
    """The type of a parameter, by its default."""
    if default is None or name == "outlier_share":
        return "Any"
    return TYPES[type(default)]


def as_code(default: Any) -> str:
    """A default as ruff writes it."""
    return repr(default).replace("'", '"')


def stubs() -> dict[Path, str]:
    """The content of each stub file."""
    return {SOURCE / "__init__.pyi": top_level(), SOURCE / "estimators" / "classes.pyi": classes()}


def main() -> int:
    stale = [path for path, text in stubs().items() if not path.exists() or path.read_text("utf-8") != text]
    if "--check" in sys.argv:
        print("\n".join(f"{path} is not up to date: run python scripts/stubs.py" for path in stale))
        return bool(stale)
    for path in stale:
        path.write_text(stubs()[path], "utf-8")
        print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
