"""Questions to a person about the answers of a project, and what they said so far.

Every answer is on the disk before the next question is asked. `check` asks about a fair sample, and measures how many
labels are right; `ask` asks about the items whose labels help most.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import handful
from handful.backbones.pictures import KNOWN_SUFFIXES
from handful.project.database import FILE
from handful.project.events import Store
from handful.project.job import read_job
from handful.project.outputs import need_project
from handful.project.pile import PILE
from handful.project.runs import UNKNOWN, WRONG, check_order, checked, now
from handful.project.trust import is_agreed
from handful.report.html_page import write_measured
from handful.solving.check import Checked
from handful.utils.csv_file import read_table
from handful.utils.files import in_brief

TABLE, REPORT_FILE = "labels.csv", "report.html"
FIRST_COLUMNS = ("path", "label", "closest", "confidence", "p_unknown", "outlier_score", "group", "group_name")


class Question(NamedTuple):
    """An item that a person is asked about."""

    item: int  # its number in the project
    name: str  # as in labels.csv
    label: str  # that it has
    confidence: float
    picture: Path | None  # its file, if it is a picture that may be opened
    columns: Mapping[str, Any]  # the other columns of its row, where items come from a table
    text: str = ""


class Sitting:
    """Questions about the last run of a project. Only one process at a time may ask.

    asked_by: "ask" or "check", which items are asked about. seed: of the sample of a check; by default that of before.
    """

    def __init__(self, folder: Path, asked_by: str, seed: int | None = None) -> None:
        need_project(folder)
        self.folder, self.asked_by, self.path = folder, asked_by, folder / FILE
        with ExitStack() as stack:
            self.store = stack.enter_context(closing(Store(folder)))
            run = self.store.run()
            if run is None:
                raise ValueError(f"{in_brief(folder)} has no answers: label the pile with `handful label` first")
            facts, names = self.store.item_facts(), self.store.said.names()
            metadata = self.store.meta(**({} if seed is None else {"seed": str(seed)}))
            self.seed = int(metadata.get("seed", "0"))
            self.close = stack.pop_all().close  # lets other processes open the project
        self.run = run
        self.names = {item: one.title for item, one in facts.items() if one.state != "gone"}
        class_of = {
            code: names.get(code, f"(deleted class {code})") for code in [UNKNOWN, *run.answers.classes.tolist()]
        }
        self.classes = [class_of[code] for code in run.answers.classes.tolist()]
        self._is_of_pile = {item for item, one in facts.items() if one.origin == PILE}
        # By item, what the run says of it
        rows = zip(run.ids.tolist(), run.decisions.tolist(), run.answers.confidence.tolist(), strict=True)
        self._says = {item: (class_of[code], confidence) for item, code, confidence in rows if item in self.names}
        self._job_text = metadata.get("job")
        self._text_column = metadata.get("text_column")

    # ---- questions and answers

    def questions(self, count: int) -> list[Question]:
        """The next items to ask about, at most `count`: those that have no answer yet and were not skipped."""
        is_check, said = self.asked_by == "check", self.store.said
        done = {*self._skipped, *(self._checks if is_check else said.labels)}
        if count < 0:
            raise ValueError(f"{count} questions were asked for: give a number from 0 on")
        order = check_order(self.run, self.seed) if is_check else self.run.facts["asking"]
        items = [item for item in order if item in self._says and item not in done][:count]
        return [
            Question(item, self.names[item], *self._says[item], self._picture(item), *self._cells(self.names[item]))
            for item in items
        ]

    @property
    def _checks(self) -> dict[int, int]:
        return self.store.said.checks.get(self.run.id, {})

    @property
    def _skipped(self) -> list[int]:
        return self.store.said.skipped.get((self.run.id, self.asked_by), [])

    def say(self, labels: Mapping[int, str | None], text: str | None = None) -> None:
        """Store at once what items are: a class, "unknown", or None for no label or, in a check, for a wrong label."""
        if self.asked_by == "ask":
            self.store.say(labels, text)
            return
        with self.store.write():
            for item, label in labels.items():
                self.store.answer(self.run.id, item, WRONG, self.names[item], label)

    def answer(self, question: Question, label: str | None) -> None:
        """Store an answer at once: the right label, "unknown" for no class, None if the label that it has is wrong."""
        if label is None and self.asked_by == "ask":
            self.skip(question)
        else:
            self.say({question.item: label}, f"{question.name} labelled {label}")

    def skip(self, question: Question) -> None:
        """Do not ask about an item again before the next run."""
        self.store.skip_question(self.run.id, question.item, self.asked_by)

    @property
    def answers(self) -> dict[int, str | None]:
        """By item the label that a person gave since the run; None where only the label of the run is wrong."""
        names, codes = self.store.said.names(), self._checks if self.asked_by == "check" else self.store.said.labels
        return {item: names.get(code) for item, code in codes.items() if item in self._says}

    # ---- what follows from them

    @property
    def checked(self) -> Checked:
        """What the answers say of all labels."""
        answers = frozenset((item, code) for item, code in self._checks.items() if item in self._says)
        measured = checked(self.run, answers)
        names = dict(zip(self.run.answers.classes.tolist(), self.classes, strict=True))
        return replace(measured, by_class={names[code]: one for code, one in measured.by_class.items()})

    def rows_by_class(self) -> dict[str, tuple[int, int, int]]:
        """For each class that has labels: how many, how many of them were looked at, and how many were right."""
        labels = Counter(label for label, _ in self._says.values())
        looked_at = Counter(self._says[item][0] for item in self.answers)
        right = Counter(label for item, label in self.answers.items() if label == self._says[item][0])
        return {name: (labels[name], looked_at[name], right[name]) for name in self.classes if labels[name]}

    def document(self) -> dict[str, Any]:
        """What was said, for JSON."""
        said = [(self.names[item], self._says[item][0], label) for item, label in self.answers.items()]
        document: dict[str, Any] = {
            "handful": handful.__version__,
            "corrections": [{"item": name, "label": label} for name, _, label in said if label is not None],
            "answers": [{"item": name, "says": says, "label": label} for name, says, label in said],
            "skipped": [self.names[item] for item in sorted(self._skipped) if item in self.names],
            "made": now(),
        }
        return document | ({"seed": self.seed, "checked": self.checked.as_json()} if self.asked_by == "check" else {})

    def update_report(self) -> str:
        """Show what a check measured in the report; return a sentence if that was not possible, or ""."""
        path = self.folder / REPORT_FILE
        try:
            if path.is_file():
                write_measured(path, {**self.checked.as_json(), "made": now()})
        except (OSError, ValueError) as error:
            return f"The report does not show the check: {error}"
        return ""

    def next_command(self) -> str | None:
        """The command that labels the pile again with the answers as examples; None if there is nothing to use."""
        if self._job_text is None or not any(self.answers.values()):
            return None
        return shlex.join(["handful", "label", str(self.folder)])

    # ---- what a person sees of an item

    @cached_property
    def _folder_of_pile(self) -> Path | None:
        """Where pictures are, if the user named this place or agreed to it."""
        if self._job_text is None or not is_agreed("job", self._job_text):
            return None
        with suppress(ValueError):
            pile = read_job(self._job_text).pile
            return None if pile is None else pile.resolve()
        return None

    def _picture(self, item: int) -> Path | None:
        name, folder = PurePath(self.names[item]), self._folder_of_pile
        if folder is None or item not in self._is_of_pile or name.suffix.lower() not in KNOWN_SUFFIXES:
            return None
        path = folder / name
        return path if ".." not in name.parts and not name.is_absolute() and path.is_file() else None

    def _cells(self, name: str) -> tuple[dict[str, Any], str]:
        """The other columns of an item's row in labels.csv, and its text; nothing where that file is not there."""
        columns, rows = self._table
        cells = {column: values[rows[name]] for column, values in columns.items()} if name in rows else {}
        text = cells.pop(self._text_column or "", None)
        return cells, str(text or "")

    @cached_property
    def _table(self) -> tuple[dict[str, list[Any]], dict[str, int]]:
        """The columns of the items' own table, and the row of each name."""
        try:
            table = read_table(self.folder / TABLE)
            rows = {name: row for row, name in enumerate(table["path"].tolist())}
        except (OSError, ValueError, KeyError):
            return {}, {}
        own = {*FIRST_COLUMNS, *(f"p_{name}" for name in self.classes)}
        columns = {name: values for name, values in table.items() if name not in own}
        return {name: x.tolist() for name, x in columns.items() if not name.startswith("nearest_")}, rows
