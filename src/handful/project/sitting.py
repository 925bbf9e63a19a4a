"""Questions to a person about the answers of a project, and what they said so far.

Every answer is on the disk before the next question is asked. `check` asks about a fair sample, and measures how many
labels are right; `ask` asks about the items whose labels help most.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import numpy as np

import handful
from handful.backbones.pictures import KNOWN_SUFFIXES
from handful.core.answers import Answers
from handful.project.database import FILE
from handful.project.events import Store
from handful.project.job import Job, read_job
from handful.project.outputs import need_project
from handful.project.pile import PILE
from handful.project.runs import WRONG
from handful.project.trust import is_agreed
from handful.report.html_page import write_measured
from handful.solving import check
from handful.utils.csv_file import read_table
from handful.utils.files import in_brief

TABLE, REPORT_FILE = "labels.csv", "report.html"
FIRST_COLUMNS = ("path", "label", "closest", "confidence", "p_unknown", "outlier_score", "group", "group_name")


class Question(NamedTuple):
    """An item that a person is asked about.

    Parameters
    ----------
    item : int
        Its number in the project.
    name : str
        Its name, as in labels.csv.
    label : str
        The label that it has.
    confidence : float
        The probability of the label.
    picture : Path or None
        Its file, if it is a picture that may be opened.
    columns : mapping
        The other columns of its row, where items come from a table.
    text : str
        Its text, "" if items are no texts.
    """

    item: int
    name: str
    label: str
    confidence: float
    picture: Path | None
    columns: Mapping[str, Any]
    text: str = ""


class Sitting:
    """Questions about the last run of a project. Only one process at a time may ask.

    asked_by: "ask" or "check", which items are asked about. seed: of the sample of a check; by default that of before.
    """

    def __init__(self, folder: Path, asked_by: str, seed: int | None = None) -> None:
        need_project(folder)
        self.folder, self.asked_by = folder, asked_by
        self.store = Store(folder)
        try:
            run = self.store.run()
            if run is None:
                raise ValueError(f"{in_brief(folder)} has no answers: label the pile with `handful label` first")
            self.run = run
            facts = self.store.item_facts()
            self.names = {item: one.title for item, one in facts.items() if one.state != "gone"}
            self._is_of_pile = {item for item, one in facts.items() if one.origin == PILE}
            self._place = {item: k for k, item in enumerate(self.run.ids.tolist()) if item in self.names}
            metadata = self.store.meta() if seed is None else self.store.meta(seed=str(seed))
            self.seed = int(metadata.get("seed", "0"))
            self._job_text = metadata.get("job")
        except BaseException:
            self.store.close()
            raise

    def close(self) -> None:
        """Let other processes open the project."""
        self.store.close()

    @property
    def path(self) -> Path:
        """Where the answers are stored."""
        return self.folder / FILE

    @property
    def classes(self) -> list[str]:
        """The names of the classes that have examples."""
        return [str(name) for name in self._named.classes.tolist()]

    @cached_property
    def _named(self) -> Answers:
        """The answers of the run, with names of classes in place of numbers."""
        answers, names = self.run.answers, self.store.said.names()
        classes = [names.get(number, f"(deleted class {number})") for number in answers.classes.tolist()]
        return Answers(
            answers.probabilities, answers.outlier_scores, np.array(classes, dtype=object), answers.threshold,
            is_probability=answers.is_probability, outlier_share=answers.outlier_share, p_unknown=answers.p_unknown,
            min_confidence=answers.min_confidence,
        )  # fmt: skip

    @cached_property
    def _labels(self) -> list[str]:
        return [str(name) for name in self._named.labels.tolist()]

    # ---- questions and answers

    def questions(self, count: int) -> list[Question]:
        """The next items to ask about, at most `count`: those that have no answer yet and were not skipped."""
        confidence = self._named.confidence
        return [
            Question(
                item, self.names[item], self._labels[self._place[item]], float(confidence[self._place[item]]),
                self._picture(item), *self._cells(self.names[item]),
            )
            for item in self._next_items(count)
        ]  # fmt: skip

    def _next_items(self, count: int) -> list[int]:
        done = set(self._skipped)
        if self.asked_by == "check":
            done |= self._checks.keys()
            order = self.run.ids[check.draw_sample(self._named, len(self.run.ids), seed=self.seed)].tolist()
        else:
            done |= self.store.said.labels.keys()
            order = self.run.facts["asking"]
        return [item for item in order if item in self._place and item not in done][:count]

    @property
    def _checks(self) -> dict[int, int]:
        return self.store.said.checks.get(self.run.id, {})

    @property
    def _skipped(self) -> list[int]:
        return self.store.said.skipped.get((self.run.id, self.asked_by), [])

    def answer(self, question: Question, label: str | None) -> None:
        """Store an answer at once: the right label, "unknown" for no class, None if the label that it has is wrong."""
        if self.asked_by == "check":
            self.store.answer(self.run.id, question.item, WRONG, question.name, label)
        elif label is None:
            self.skip(question)
        else:
            self.store.say({question.item: label}, f"{question.name} labelled {label}")

    def skip(self, question: Question) -> None:
        """Do not ask about an item again before the next run."""
        self.store.skip_question(self.run.id, question.item, self.asked_by)

    @property
    def answers(self) -> dict[int, str | None]:
        """By item the label that a person gave since the run; None where only the label of the run is wrong."""
        names = self.store.said.names()
        if self.asked_by == "check":
            return {item: names.get(code) for item, code in self._checks.items()}
        return {item: names[code] for item, code in self.store.said.labels.items() if item in self._place}

    # ---- what follows from them

    @property
    def checked(self) -> check.Checked:
        """What the answers say of all labels."""
        names: dict[int, Any] = self.store.said.names() | {WRONG: check.WRONG}
        truth = {
            self._place[item]: names.get(code, f"(deleted class {code})")
            for item, code in self._checks.items()
            if item in self._place
        }
        return check.check_answers(self._named, truth)

    def rows_by_class(self) -> dict[str, tuple[int, int, int]]:
        """For each class that has labels: how many, how many of them were looked at, and how many were right."""
        labels = Counter(self._labels)
        seen = [(self._labels[self._place[item]], label) for item, label in self.answers.items() if item in self._place]
        looked_at = Counter(label for label, _ in seen)
        right = Counter(label for label, said in seen if label == said)
        return {name: (labels[name], looked_at[name], right[name]) for name in self.classes if labels[name]}

    def document(self) -> dict[str, Any]:
        """What was said, for JSON."""
        answers = [
            {"item": self.names[item], "says": self._labels[self._place[item]], "label": label}
            for item, label in self.answers.items()
            if item in self._place
        ]
        document: dict[str, Any] = {
            "handful": handful.__version__,
            "corrections": [{"item": a["item"], "label": a["label"]} for a in answers if a["label"] is not None],
            "answers": answers,
            "skipped": [self.names[item] for item in sorted(self._skipped) if item in self.names],
            "made": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        }
        if self.asked_by == "check":
            document |= {"seed": self.seed, "checked": self.checked.as_json()}
        return document

    def update_report(self) -> str:
        """Show what was measured in the report; return a sentence if that was not possible, or ""."""
        path = self.folder / REPORT_FILE
        if self.asked_by != "check" or not path.is_file():
            return ""
        document = self.document()
        try:
            write_measured(path, {**document["checked"], "made": document["made"]})
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
    def _job(self) -> Job | None:
        """The job, if the user named its files or agreed to them."""
        if self._job_text is None or not is_agreed("job", self._job_text):
            return None
        with suppress(ValueError):
            return read_job(self._job_text)
        return None

    def _picture(self, item: int) -> Path | None:
        name = self.names[item]
        parts = PurePath(name).parts
        if self._job is None or self._job.pile is None or item not in self._is_of_pile:
            return None
        if PurePath(name).is_absolute() or ".." in parts or PurePath(name).suffix.lower() not in KNOWN_SUFFIXES:
            return None
        path = self._job.pile.resolve() / name
        return path if path.is_file() else None

    def _cells(self, name: str) -> tuple[dict[str, Any], str]:
        """The other columns of an item's row in labels.csv, and its text; nothing where that file is not there."""
        columns, rows, text = self._table
        row = rows.get(name)
        if row is None:
            return {}, ""
        cells = {column: values[row] for column, values in columns.items() if column != text}
        return cells, str(columns[text][row] or "") if text in columns else ""

    @cached_property
    def _table(self) -> tuple[dict[str, list[Any]], dict[str, int], str | None]:
        """The columns of the items' own table, the row of each name, and the column of texts."""
        try:
            table = read_table(self.folder / TABLE)
            names = table["path"].tolist()
        except (OSError, ValueError, KeyError):
            return {}, {}, None
        own = {*FIRST_COLUMNS, *(f"p_{name}" for name in self.classes)}
        columns = {
            name: values.tolist()
            for name, values in table.items()
            if name not in own and not name.startswith("nearest_")
        }
        return columns, {name: row for row, name in enumerate(names)}, self.store.meta().get("text_column")
