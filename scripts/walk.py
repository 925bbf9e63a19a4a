"""The files of handful in which functions ran, in the order of their first call, with the functions' names.

    python scripts/walk.py solve                                # handful.solve with the default method
    python scripts/walk.py solve eol                            # with another method
    python scripts/walk.py handful label EXAMPLES/ PILE/ -o out    # any command
    python scripts/walk.py click                                # a project is opened in the workbench, labelled and run

"A walk through the house" in docs/building/index.md is a selection of what this prints. Code that runs while a module
is imported does not count.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from pathlib import Path
from types import CodeType, FrameType

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "handful"
MAX_NAMES = 6
Calls = dict[str, dict[str, None]]  # file -> names of functions, in the order of their first call


def watch(calls: Calls) -> None:
    """Note every call of a function of handful from now on, also in threads that are started later."""
    noted: set[CodeType] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(str(SOURCE)) and frame.f_code not in noted and not is_import(frame):
            noted.add(frame.f_code)
            calls.setdefault(Path(file).relative_to(SOURCE).as_posix(), {})[frame.f_code.co_name] = None

    threading.setprofile(note)
    sys.setprofile(note)


def is_import(frame: FrameType) -> bool:
    """Whether the code runs because a module is imported: modules, bodies of classes, decorators."""
    current: FrameType | None = frame
    while current is not None:
        if current.f_code.co_filename.startswith("<frozen importlib"):
            return True
        current = current.f_back
    return False


def solve(calls: Calls, method: str = "auto") -> None:
    import numpy as np

    import handful

    handful.list_methods()  # all methods are imported before
    rng = np.random.default_rng(0)
    features = 2 * np.repeat(np.eye(8)[:3], 20, axis=0) + 0.3 * rng.normal(size=(60, 8))
    watch(calls)
    result = handful.solve(features[[*range(5), *range(20, 25)]], ["a"] * 5 + ["b"] * 5, features, method=method)
    print(result.labels.tolist().count("unknown"), "unknown items,", len(result.groups), "group")


def command(calls: Calls) -> None:
    from handful.cli import main

    watch(calls)
    try:
        main()
    except SystemExit as end:
        print("exit code", end.code)


def click(calls: Calls) -> None:
    sys.path.insert(0, str(ROOT / "tests"))
    from workbenches import client_of, run, show, write_digits

    from handful.project.live import LiveProject

    with tempfile.TemporaryDirectory() as folder:
        truth = write_digits(Path(folder))
        watch(calls)  # before the project starts its threads
        project = LiveProject(Path(folder, "digits.parquet"), Path(folder, "project"))
        client = client_of(project)
        show(client, truth, (0, 1, 2))
        run(client, project)
        client.get("/items?limit=5")
        project.close()


def main(arguments: list[str]) -> int:
    kind, *more = arguments or [""]
    calls: Calls = {}
    if kind == "handful":
        sys.argv = ["handful", *more]
        command(calls)
    elif kind in ("solve", "click"):
        (solve if kind == "solve" else click)(calls, *more)
    else:
        print(__doc__)
        return 2
    sys.setprofile(None)
    threading.setprofile(None)
    for file, names in calls.items():
        own = [name for name in names if not name.startswith("<")]
        print(f"{file:36} {', '.join(own[:MAX_NAMES])}{', ...' if len(own) > MAX_NAMES else ''}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
