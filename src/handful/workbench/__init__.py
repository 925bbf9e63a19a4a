"""The workbench: a local page for labelling a folder of pictures, and the server behind it.

What it shows is a project (`handful.project`), which `handful.project.live` keeps open.
`server/` is HTTP: `app.py` has the routes, `guard.py` checks every request, `solve.py` runs the process behind POST
/solve, `serve.py` starts the server. `page/` is the page in the browser.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from handful.project.live import LiveProject, default_folder
    from handful.project.refusal import Refusal

__all__ = ["LiveProject", "Refusal", "default_folder"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from handful.project import live  # slow, and the processes of POST /solve do not need it

    return getattr(live, name)
