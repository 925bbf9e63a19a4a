"""Questions to a person about items of a folder of results, and the answers, kept in a file of that folder.

Every answer is in the file before the next question is asked. The file is also a file of corrections: it lists the
items with their right labels, and `handful label --corrections` makes examples of them. It may come from anyone, so all
of it is checked when it is read.
"""

from __future__ import annotations

import json
import shlex
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import numpy as np

import handful
from handful.backbones.pictures import KNOWN_SUFFIXES
from handful.core.checks import UNKNOWN_NAME, is_no_class
from handful.core.parameters import Number
from handful.project.job import MAX_RECORD_BYTES, next_results
from handful.project.record_schema import Fields, ListOf, Text, find_fault, read_json
from handful.project.stored_answers import StoredAnswers, read_answers
from handful.report.html_page import write_measured
from handful.solving.check import WRONG, Checked, check_answers, draw_sample
from handful.utils.files import in_brief, write_whole

MAX_ANSWERS = 100_000
SEED_RULE = Number(0, 2**32 - 1, closed=True, whole=True)
CORRECTION_RULES = Fields({"item": Text(), "label": Text()}, {"item", "label"})
ANSWER_RULES = Fields({"item": Text(), "says": Text(), "label": Text(optional=True)}, {"item", "says", "label"})
RULES = Fields(
    {
        "corrections": ListOf(CORRECTION_RULES, MAX_ANSWERS), "answers": ListOf(ANSWER_RULES, MAX_ANSWERS),
        "skipped": ListOf(Text(), MAX_ANSWERS), "seed": SEED_RULE,
    }
)  # fmt: skip


class Answer(NamedTuple):
    """What a person said of an item. says: the label that it had then; label: the right one, None if only not that."""

    says: str
    label: str | None


class Question(NamedTuple):
    """An item that a person is asked about.

    picture: its file, if it is one that may be opened. text: its text, "" if items are no texts; columns: the others.
    """

    row: int
    item: str
    says: str
    confidence: float
    picture: Path | None
    columns: Mapping[str, Any]
    text: str = ""


class Sitting(ABC):
    """Questions about the items in a folder of results, and the answers so far.

    Parameters
    ----------
    folder : Path
        What `handful label` wrote.

    Raises
    ------
    ValueError
        If there are no results, or if an earlier file of answers is damaged or of another pile.
    """

    FILE = ""  # where the answers are kept

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / self.FILE
        self.stored: StoredAnswers = read_answers(folder)
        self._rows = {name: row for row, name in enumerate(self.stored.names)}
        self._labels: list[str] = self.stored.answers.labels.tolist()
        self._entries = self._read()
        self.answers = {
            entry["item"]: Answer(entry["says"], entry["label"]) for entry in self._entries.get("answers", ())
        }
        self.skipped: list[str] = self._entries.get("skipped", [])
        self._corrections = {entry["item"]: entry["label"] for entry in self._entries.get("corrections", ())}

    @abstractmethod
    def _next_rows(self, count: int, done: Sequence[int]) -> Sequence[int]:
        """The rows to ask about next, at most `count`; done: those that were asked about."""

    @property
    def classes(self) -> list[str]:
        """The names of the classes."""
        names: list[str] = self.stored.answers.classes.tolist()
        return names

    def questions(self, count: int) -> list[Question]:
        """The next items to ask about, at most `count`: those that have no answer yet and were not skipped."""
        done = [self._rows[name] for name in (*self.answers, *self.skipped)]
        confidence = self.stored.answers.confidence
        return [
            Question(
                row, self.stored.names[row], self._labels[row], float(confidence[row]),
                self._picture(self.stored.names[row]),
                {name: values[row] for name, values in self.stored.others.items() if name != self.stored.text_column},
                self.stored.texts[row] if self.stored.texts is not None else "",
            )
            for row in self._next_rows(count, done)
        ]  # fmt: skip

    def answer(self, question: Question, label: str | None) -> None:
        """Store an answer: the right label, or None if the label is wrong and nothing more is known."""
        if label is not None and is_no_class(label):
            label = UNKNOWN_NAME
        self.answers[question.item] = Answer(question.says, label)
        self.write()

    def skip(self, question: Question) -> None:
        """Do not ask about an item again."""
        self.skipped.append(question.item)
        self.write()

    @property
    def corrections(self) -> list[dict[str, str]]:
        """The items whose right label is known: from the answers, and those that were in the file before."""
        others = {item: label for item, label in self._corrections.items() if item not in self.answers}
        named = {item: answer.label for item, answer in self.answers.items() if answer.label is not None}
        return [{"item": item, "label": label} for item, label in (others | named).items()]

    def document(self) -> dict[str, Any]:
        """What the file of answers holds."""
        return {
            "handful": handful.__version__,
            "corrections": self.corrections,
            "answers": [{"item": item, **answer._asdict()} for item, answer in self.answers.items()],
            "skipped": self.skipped,
            "made": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        }

    def write(self) -> dict[str, Any]:
        """Write the file of answers, whole; return what it holds."""
        document = self.document()
        write_whole(self.path, (json.dumps(document, indent=1) + "\n").encode("ascii"))
        return document

    def next_command(self) -> str | None:
        """The command that labels the pile again with the answers as examples; None if the job is not known."""
        if self.stored.record.job is None or not self.corrections:
            return None
        words = ["label", self.folder, "--corrections", self.path, "-o", next_results(self.folder)]
        return shlex.join(["handful", *map(str, words)])

    def _read(self) -> dict[str, Any]:
        """The entries of an earlier file of answers that are used; none if there is none."""
        if not self.path.is_file():
            return {}
        try:
            document = read_json(self.path, MAX_RECORD_BYTES)
            if not isinstance(document, dict):
                raise ValueError("it must be an object")
            entries = {name: document[name] for name in RULES.rules if name in document}  # other entries may be there
            if fault := find_fault(entries, RULES, "it"):
                raise ValueError(fault)
            named = [entry["item"] for kind in ("answers", "corrections") for entry in entries.get(kind, ())]
            for item in (*named, *entries.get("skipped", ())):
                if item not in self._rows:
                    raise ValueError(f"{in_brief(item)} is not in the pile")
        except ValueError as error:
            raise ValueError(f"{in_brief(self.path)} cannot be used ({error}): move it away to begin anew") from None
        return entries

    def _picture(self, item: str) -> Path | None:
        """The file of an item, if one of the user's own runs named its folder and it is a picture in that folder."""
        record, parts = self.stored.record, PurePath(item).parts
        if not record.own or record.job is None or record.job.pile is None or not record.job.pile.is_dir():
            return None
        if PurePath(item).is_absolute() or ".." in parts or PurePath(item).suffix.lower() not in KNOWN_SUFFIXES:
            return None
        path = record.job.pile.resolve() / item
        return path if path.is_file() else None


ASKED_FILE = "asked.json"


class Asking(Sitting):
    """The questions that are most worth an answer, and the answers so far.

    They are kept apart from those of a check: the items are no random sample, and would give a wrong picture of the
    labels.
    """

    FILE = ASKED_FILE

    def _next_rows(self, count: int, done: Sequence[int]) -> Sequence[int]:
        asked = set(done)
        return [row for row in self.stored.record.worth_asking if row not in asked][:count]


CHECKED_FILE, REPORT_FILE = "checked.json", "report.html"


class Check(Sitting):
    """The check of a folder of results.

    Parameters
    ----------
    folder : Path
        What `handful label` wrote.
    seed : int, optional
        Of the draw of items; by default that of the earlier answers, or 0.
    """

    FILE = CHECKED_FILE

    def __init__(self, folder: Path, seed: int | None = None) -> None:
        super().__init__(folder)
        self.seed = int(self._entries.get("seed", 0) if seed is None else seed)

    def _next_rows(self, count: int, done: Sequence[int]) -> Sequence[int]:
        rows: list[int] = draw_sample(self.stored.answers, count, seed=self.seed, exclude=done).tolist()
        return rows

    @property
    def truth(self) -> dict[int, Any]:
        """By row what is known of the items. That a label is wrong says nothing if the item has another one now."""
        truth: dict[int, Any] = {}
        for item, answer in self.answers.items():
            row = self._rows[item]
            if answer.label is not None:
                truth[row] = answer.label
            elif answer.says == self._labels[row]:
                truth[row] = WRONG
        return truth

    @property
    def checked(self) -> Checked:
        """What the answers say of all labels."""
        return check_answers(self.stored.answers, self.truth)

    def rows_by_class(self) -> dict[str, tuple[int, int, int]]:
        """For each class that has labels: how many, how many of them were looked at, and how many were right."""
        in_pile = np.flatnonzero(~self.stored.answers.is_given).tolist()
        labels = Counter(self._labels[row] for row in in_pile)
        seen = [(self._labels[row], said) for row, said in self.truth.items() if not self.stored.answers.is_given[row]]
        looked_at = Counter(label for label, _ in seen)
        right = Counter(label for label, said in seen if label == said)
        return {name: (labels[name], looked_at[name], right[name]) for name in self.classes if labels[name]}

    def document(self) -> dict[str, Any]:
        """What `checked.json` holds."""
        return {**super().document(), "seed": self.seed, "checked": self.checked.as_json()}


def update_report(folder: Path, document: Mapping[str, Any]) -> str:
    """Show what was measured in the report of a folder; return a sentence if that was not possible, or "".

    Parameters
    ----------
    folder : Path
        A folder of results. It need not have a report.
    document : mapping
        What `Check.document` gave.
    """
    path = folder / REPORT_FILE
    if not path.is_file():
        return ""
    try:
        write_measured(path, {**document["checked"], "made": document["made"]})
    except (OSError, ValueError) as error:
        return f"The report does not show the check: {error}"
    return ""
