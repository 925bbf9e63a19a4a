"""The workbench: a local page on which a folder of pictures becomes a labelled one, and the server behind it.

`store` writes to the disk, `project` holds the state, `worker` runs jobs, `app` has the routes, `guard` checks every
request, `connections` limits them, `solvers` are the processes behind POST /solve.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from handful.workbench.domain.project import Project, default_folder
    from handful.workbench.domain.refusal import Refusal

__all__ = ["Project", "Refusal", "default_folder"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from handful.workbench.domain import project  # slow: the processes of `solvers` do without it

    return getattr(project, name)
