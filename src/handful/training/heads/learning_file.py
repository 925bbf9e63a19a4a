"""The state of a learning on disk, so that a killed one continues: one safetensors file, replaced as a whole.

Random numbers depend only on the seed and the step. So the next step depends only on what is written (arrays, Adam's
moments, the best step so far), and a learning that was interrupted ends with the same arrays.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from handful.training.heads.head import Arrays
from handful.utils.files import write_whole
from handful.utils.tensor_file import read_tensors

KEY = "handful.learning"
SAVE_EVERY_S = 10.0
MOMENTS = ("first", "second")  # of Adam
PARTS = ("now", *MOMENTS, "best")


@dataclass
class Lesson:
    """How far the learning of one head is."""

    name: str
    step: int = 0  # steps that were made
    best_step: int = 0
    before: dict[str, float] = field(default_factory=dict)  # figures of the start
    best: dict[str, float] = field(default_factory=dict)  # figures of the best step
    arrays: dict[str, Arrays] = field(default_factory=dict)  # by PARTS


class LearningFile:
    """The heads that are finished, and the lesson that is not. Without a path nothing is written.

    Parameters
    ----------
    path : Path or None
        The file.
    made_from : dict
        What decides the result, as plain data. A file that was made from anything else is refused.
    save_every : float
        Seconds between two writings.
    """

    def __init__(self, path: Path | None, made_from: dict[str, Any], save_every: float = SAVE_EVERY_S) -> None:
        self.path, self.made_from, self.save_every, self.saved = path, made_from, save_every, time.monotonic()
        self.finished: dict[str, tuple[Arrays, dict[str, Any]]] = {}
        self.lesson: Lesson | None = None
        if path is not None and path.is_file():
            self._read(path)

    def _read(self, path: Path) -> None:
        header, arrays = read_tensors(path, KEY, "it does not hold a learning: remove it, or name another output")
        if header.get("made_from") != self.made_from:
            raise ValueError(
                f"{str(path)!r} holds a learning from other features or with other options: finish it with the same "
                "command, or remove it to start again"
            )
        try:
            for name, report in header["finished"].items():
                self.finished[name] = _of(arrays, f"finished/{name}/"), report
            if header["lesson"] is not None:
                parts = {part: _of(arrays, f"{part}/") for part in PARTS}
                shapes = [{name: array.shape for name, array in parts[part].items()} for part in PARTS]
                if not shapes[0] or any(others != shapes[0] for others in shapes):
                    raise KeyError("an array of the lesson")
                self.lesson = Lesson(**header["lesson"], arrays=parts)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{str(path)!r} is damaged ({error!r}): remove it to start again") from None

    def lesson_of(self, name: str) -> Lesson:
        """Return the lesson of a head: the one that was begun, or a new one."""
        if self.lesson is None or self.lesson.name != name:
            self.lesson = Lesson(name)
        return self.lesson

    @property
    def is_due(self) -> bool:
        """Whether the file is to be written, and the last time was long enough ago."""
        return self.path is not None and time.monotonic() - self.saved >= self.save_every

    def save(self) -> None:
        """Write the file."""
        if self.path is None:
            return
        from safetensors.numpy import save

        lesson = self.lesson
        arrays = {f"finished/{head}/{name}": a for head, (of, _) in self.finished.items() for name, a in of.items()}
        header: dict[str, Any] = {"made_from": self.made_from, "lesson": None}
        header["finished"] = {name: report for name, (_, report) in self.finished.items()}
        if lesson is not None and lesson.arrays:
            arrays |= {f"{part}/{name}": a for part, of in lesson.arrays.items() for name, a in of.items()}
            names = ("name", "step", "best_step", "before", "best")
            header["lesson"] = {name: getattr(lesson, name) for name in names}
        plain = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        write_whole(self.path, save(plain, metadata={KEY: json.dumps(header)}))
        self.saved = time.monotonic()

    def finish(self, name: str, arrays: Arrays, report: dict[str, Any]) -> None:
        """Add a finished head, and write the file."""
        self.finished[name], self.lesson = (arrays, report), None
        self.save()


def _of(arrays: dict[str, np.ndarray], prefix: str) -> Arrays:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
