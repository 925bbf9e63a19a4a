"""The workbench: a local page on which a folder of pictures becomes a labelled one, and the server behind it.

`store` keeps, `project` knows, `worker` toils, `app` answers, `guard` stands at the door.
"""

from handful.workbench.project import Project, Refusal, default_folder

__all__ = ["Project", "Refusal", "default_folder"]
