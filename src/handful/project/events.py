"""What a person said of the items of a project, and the answers that were computed: the tables of `project.sqlite`.

    items      the pictures, texts or rows, by a number that never changes
    events     everything that was said, and every run, in order; those that were undone are marked
    runs       the answers
    meta       facts of the project

What holds now follows from the events that are not undone, from the first to the last: see `Said`. An event is on the
disk when the method that adds it returns; a process that is killed loses no event that was acknowledged.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from handful.core.checks import UNKNOWN_NAME, is_no_class
from handful.project.database import OpenDatabase, Unusable, explained
from handful.project.refusal import Refusal
from handful.project.runs import UNKNOWN, WRONG, Run, now

KEYS = range(1, 10)  # that a class may have on the page
MAX_STORED_BYTES = 2**30  # of all runs: older ones are forgotten
MAX_LOADED_RUNS = 5
Class = tuple[str, int | None]  # name and key
What = dict[str, Any]  # what an event says, see `Said.add`


class Step(NamedTuple):
    """An event that can be undone. kind: "run", "for a run" (undone with it), "promotion", or "" for all others."""

    event: int
    text: str
    kind: str


@dataclass
class Said:
    """What holds after some events."""

    labels: dict[int, int] = field(default_factory=dict)  # by item the number of its class; 0 is "unknown"
    classes: dict[int, Class] = field(default_factory=dict)  # by number
    last_class: int = 0  # the highest number that a class ever had
    checks: dict[int, dict[int, int]] = field(default_factory=dict)  # by run and item: a class, 0, or WRONG
    skipped: dict[tuple[int, str], list[int]] = field(default_factory=dict)  # questions, by run and "ask" or "check"
    thresholds: dict[int, float] = field(default_factory=dict)  # by run, where a person changed it
    run: int | None = None  # that is shown
    promoted: dict[int, list[int]] = field(default_factory=dict)  # since that run: items of groups, by their class
    steps: list[Step] = field(default_factory=list)  # that can be undone
    undone: list[Step] = field(default_factory=list)  # that can be done again, the next one first

    def copy(self) -> Said:
        """A copy that can be changed."""
        checks = {run: dict(answers) for run, answers in self.checks.items()}
        return replace(
            self, labels=dict(self.labels), classes=dict(self.classes), checks=checks, skipped=dict(self.skipped),
            thresholds=dict(self.thresholds), promoted=dict(self.promoted), steps=[*self.steps], undone=[*self.undone],
        )  # fmt: skip

    def add(self, what: What) -> None:
        """Add an event; ValueError if it is none. `what` has some of the lists that the page on projects describes."""
        try:
            for number, name, key in what.get("classes", ()):
                if name is None:
                    self.classes.pop(number, None)
                    self.labels = {item: code for item, code in self.labels.items() if code != number}
                elif not isinstance(name, str) or key not in (None, *KEYS):
                    raise ValueError(name)
                else:
                    self.classes[number] = name, key
                    self.last_class = max(self.last_class, number)
            for item, code in what.get("labels", ()):
                if code == UNKNOWN or code in self.classes:
                    self.labels[int(item)] = code
                else:  # no label; or the class was taken back, after items came with it
                    self.labels.pop(item, None)
            for run, item, answer in what.get("checks", ()):
                answers = self.checks.setdefault(run, {})
                if answer is None:
                    answers.pop(item, None)
                else:
                    answers[int(item)] = int(answer)
            for run, value in what.get("threshold", ()):
                self.thresholds[run] = float(value)
            for run, item, asked_by in what.get("skipped", ()):
                self.skipped[run, asked_by] = [*self.skipped.get((run, asked_by), ()), item]
            for number, items in what.get("promoted", ()):
                self.promoted[number] = [*self.promoted.get(number, ()), *map(int, items)]
        except (TypeError, ValueError, AttributeError):
            raise ValueError("an event in it is not one that handful writes") from None

    def names(self) -> dict[int, str]:
        """The name of each class, and "unknown"."""
        return {UNKNOWN: UNKNOWN_NAME} | {number: name for number, (name, _) in self.classes.items()}

    def add_step(self, event: int, text: str | None, what: What, run: int | None, is_stored: bool = True) -> None:
        """Add the step that an event is, if it can be undone. is_stored: whether its run is."""
        kind = "promotion" if what.get("promoted") else "for a run" if what.get("for_a_run") else ""
        if run is not None:
            self.run, self.promoted, kind = run if is_stored else None, {}, "run"
        if text is not None:
            self.steps.append(Step(event, text, kind))

    def can_take_back(self) -> bool:
        """Whether the last two steps are a promotion and the run after it."""
        return [step.kind for step in self.steps[-2:]] == ["promotion", "run"]


class ItemFacts(NamedTuple):
    """What is stored of an item. mark: a hash of its content at the last run; came_as: the class that it came with."""

    origin: str
    title: str  # what people call it
    state: str
    mark: str | None
    came_as: str | None


class Store(OpenDatabase):
    """What is in the file of one project. `said` is what holds now; it is replaced by each event, never changed."""

    def __init__(self, folder: Path | None, copy_of: Store | None = None) -> None:
        super().__init__(folder)
        if copy_of is not None:
            copy_of.copy_to(self.db)
        self._runs: dict[int, tuple[Run, Run]] = {}  # as they are stored, and at the threshold of now
        try:
            with explained(self.path):
                self.said = self._follow_events()
        except ValueError as error:
            self.close()
            raise error if isinstance(error, Unusable) else Unusable(self.path, error) from None

    def _follow_events(self) -> Said:
        said, stored = Said(), {number for (number,) in self.db.execute("SELECT id FROM runs")}
        query = "SELECT id, run, is_undone, text, what FROM events ORDER BY id"
        for event, run, is_undone, text, what in self.db.execute(query):
            if is_undone:
                said.undone.append(Step(event, text or "", ""))
                continue
            try:
                content = json.loads(what)
            except (ValueError, RecursionError):
                raise ValueError(f"its event {event} is no JSON") from None
            said.add(content)
            said.add_step(event, text, content, run, run in stored)
        return said

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """One transaction, see `OpenDatabase.write`; if it fails, `said` is as before."""
        with self._lock:
            before = self.said
            try:
                with super().write() as tx:
                    yield tx
            except BaseException:
                self.said = before
                self._runs.clear()
                raise

    # ---- events

    def add(self, text: str | None, what: What, run: int | None = None) -> int:
        """Add an event, and return how many labels it gives or takes; one that says nothing is not stored.

        text: what undo calls it; None if it cannot be undone. what: see `Said.add`. run: if it is a run, its number.
        """
        if not run and not any(what.values()):
            return 0
        with self.write() as tx:
            said = self.said.copy()
            if said.undone and (text is not None or what.get("classes")):  # what is undone has numbers of classes, too
                tx.execute("DELETE FROM events WHERE is_undone")
                said.undone = []
            row = (now(), run, text, json.dumps(what, separators=(",", ":")))
            event = tx.execute("INSERT INTO events (made, run, text, what) VALUES (?, ?, ?, ?)", row).lastrowid
            assert event is not None
            said.add(what)
            said.add_step(event, text, what, run)
            if run or len(said.undone) < len(self.said.undone):
                _forget_runs(tx)
            self.said = said
        return len(what.get("labels", ()))

    def undo(self) -> str:
        """Undo the last step; return what it was. Refusal if there is none."""
        return self._turn(self.said.steps[-1:], True, "there is nothing to undo")

    def redo(self) -> str:
        """Do the first undone step again; return what it was. Refusal if there is none."""
        return self._turn(self.said.undone[:1], False, "there is nothing to do again")

    def _turn(self, steps: Sequence[Step], is_undone: bool, problem: str) -> str:
        if not steps:
            raise Refusal(problem, 409)
        with self.write() as tx:
            tx.execute("UPDATE events SET is_undone = ? WHERE id = ?", (is_undone, steps[0].event))
            self.said = self._follow_events()
        return steps[0].text

    def undo_last_said(self) -> str:
        """Undo the last thing that a person said, and the runs after it; Refusal if nothing was said."""
        with self.write():
            while self.said.steps:
                is_said = self.said.steps[-1].kind in ("", "promotion")
                text = self.undo()
                if is_said:
                    return text
            raise Refusal("there is nothing to take back", 409)

    # ---- what a person says

    def say(self, labels: Mapping[int, str | None], text: str | None = None) -> int:
        """Give items their right class, by its name: "unknown" is no class, None no label. New classes are added.

        text: what undo calls it.
        """
        codes, classes = self.codes_of(name for name in labels.values() if name is not None)
        new = {item: None if name is None else codes[name] for item, name in labels.items()}
        return self.label(new, text=text, classes=classes)

    def label(
        self, labels: Mapping[int, int | None], done: str = "labelled", *, text: str | None = None, **more: Any
    ) -> int:
        """Give items their right class, by its number, None for no label; return how many have changed.

        Undo calls it "3 items `done`", or `text`. more: further entries of the event.
        """
        old = self.said.labels
        new = [[item, code] for item, code in labels.items() if old.get(item) != code]
        return self.add(text or f"{len(new):,} item{'s' * (len(new) != 1)} {done}", {"labels": new, **more})

    def answer(self, run: int, item: int, code: int | None, title: str, name: str | None = None) -> None:
        """Store what a person answers when a run is checked: a class, 0, `WRONG`, or None to remove the answer.

        title: what the item is called. name: that of its class, which may be new, in place of `code`.
        """
        codes, classes = self.codes_of([] if name is None else [name])
        code = code if name is None else codes[name]
        if code != self.said.checks.get(run, {}).get(item):
            text = f"check of {title} removed" if code is None else f"check: the label of {title} is wrong"
            if code not in (None, WRONG):
                text = f"check: {title} is {name or self.said.names()[code]}"
            self.add(text, {"classes": classes, "checks": [[run, item, code]]})

    def usable_checks(self, run: int) -> dict[int, int]:
        """The answers to a check that name a class or say that none fits, where there is no label."""
        said = self.said
        answers = said.checks.get(run, {}).items()
        return {item: code for item, code in answers if code in (UNKNOWN, *said.classes) and item not in said.labels}

    def codes_of(self, names: Iterable[str]) -> tuple[dict[str, int], list[list[Any]]]:
        """The number of each class by its name, and the entries of those that are new, with the next free keys."""
        old = self.said.classes
        codes = {name: number for number, (name, _) in old.items()}
        free_keys = [key for key in KEYS if key not in {used for _, used in old.values()}]
        new: list[list[Any]] = []
        for name in names:
            if is_no_class(name):
                codes[name] = UNKNOWN
            elif name not in codes:
                codes[name] = self.said.last_class + 1 + len(new)
                new.append([codes[name], name, free_keys.pop(0) if free_keys else None])
        return codes, new

    def take_over(self, labels: Mapping[int, str | None]) -> None:
        """Take over the classes that items came with, where they are new or have changed. This is no step.

        A class that a person has renamed keeps its new name: further items that come with the old one are of it.
        """
        with self.write() as tx:
            before = dict(tx.execute("SELECT id, came_as FROM items"))
            new = {item: name for item, name in labels.items() if before.get(item) != name}
            tx.executemany("UPDATE items SET came_as = ? WHERE id = ?", [(name, item) for item, name in new.items()])
            said = self.said.labels
            counts = Counter((before[item], code) for item, code in said.items() if before.get(item) is not None)
            renamed = {name: code for (name, code), _ in reversed(counts.most_common())}
            codes, classes = self.codes_of(name for name in new.values() if name is not None and name not in renamed)
            codes |= renamed
            entries = [[item, None if name is None else codes[name]] for item, name in new.items()]
            self.add(None, {"labels": entries, "classes": classes})

    def skip_question(self, run: int, item: int, asked_by: str) -> None:
        """Do not ask about an item of a run again. asked_by: "ask" or "check". This is no step."""
        self.add(None, {"skipped": [[run, item, asked_by]]})

    # ---- runs

    def add_run(self, run: Run) -> Run:
        """Store a run as a step that can be undone; return it with its number."""
        with self.write() as tx:
            insert = "INSERT INTO runs (made, threshold, facts, arrays) VALUES (?, ?, ?, ?)"
            number = tx.execute(insert, run.packed()).lastrowid
            assert number is not None
            self.add(f"run {number}", {}, number)
        run = replace(run, id=number)
        self._runs[number] = run, run
        return run

    def set_facts(self, run: Run) -> None:
        """Store other facts of the run that is shown. This is no step."""
        with self.write() as tx:
            tx.execute("UPDATE runs SET facts = ? WHERE id = ?", (json.dumps(run.facts), run.id))
            stored, _ = self._runs[run.id]
            self._runs[run.id] = replace(stored, facts=run.facts), run

    def run(self) -> Run | None:
        """The run that is shown."""
        return None if self.said.run is None else self.stored_run(self.said.run)

    def stored_run(self, number: int) -> Run:
        """A run at the threshold of now; Refusal if it is not stored or is damaged."""
        with self._lock:
            if number not in self._runs:
                self._runs[number] = 2 * (self._read_run(number),)
            stored, run = self._runs.pop(number)
            threshold = self.said.thresholds.get(number, stored.threshold)
            if threshold != run.threshold:
                run = stored.at(threshold)
            self._runs[number] = stored, run
            for old in [*self._runs][:-MAX_LOADED_RUNS]:
                del self._runs[old]
            return run

    def _read_run(self, number: int) -> Run:
        query = "SELECT id, made, threshold, facts, arrays FROM runs WHERE id = ?"
        with explained(self.path):
            row = self.db.execute(query, (number,)).fetchone()
        if row is None:
            raise Refusal(f"run {number} is not stored any more: choose another one", 404)
        try:
            return Run.unpacked(*row)
        except ValueError as error:
            raise Refusal(f"run {number} in {str(self.path)!r} is damaged, {error}: nothing was changed", 409) from None

    def runs(self) -> list[tuple[int, str]]:
        """(id, made) of the runs that are stored, in their order."""
        with self._lock:
            return self.db.execute("SELECT id, made FROM runs ORDER BY id").fetchall()

    # ---- items and facts

    def meta(self, **new: str) -> dict[str, str]:
        """Set facts of the project, if any are given; return all."""
        with self._lock:
            if new:
                with self.write() as tx:
                    tx.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", new.items())
            return dict(self.db.execute("SELECT key, value FROM meta"))

    def take_items(self, origin: str, names: Iterable[str]) -> None:
        """Set the items of an origin. Other items of it are gone, and keep their number and label."""
        with self.write() as tx:
            tx.execute("UPDATE items SET state = 'gone', reason = NULL WHERE origin = ?", (origin,))
            self.add_items(origin, names)

    def add_items(self, origin: str, names: Iterable[str]) -> None:
        """Add items; those that had been skipped are there again."""
        with self.write() as tx:
            tx.executemany(
                "INSERT INTO items (origin, name, state) VALUES (?, ?, 'there') "
                "ON CONFLICT (origin, name) DO UPDATE SET state = 'there', reason = NULL",
                [(origin, name) for name in names],
            )

    def item_numbers(self) -> dict[tuple[str, str], int]:
        """The number of each item that was ever seen, by its origin and name."""
        with self._lock:
            rows = self.db.execute("SELECT origin, name, id FROM items")
            return {(origin, name): item for origin, name, item in rows}

    def item_facts(self) -> dict[int, ItemFacts]:
        """What is stored of each item that was ever seen."""
        with self._lock:
            rows = self.db.execute("SELECT id, origin, coalesce(title, name), state, mark, came_as FROM items")
            return {item: ItemFacts(*facts) for item, *facts in rows}

    def describe_items(self, facts: Mapping[int, tuple[str, str]]) -> None:
        """Store what people call an item, and a hash of its content."""
        with self.write() as tx:
            rows = [(title, mark, item) for item, (title, mark) in facts.items()]
            tx.executemany("UPDATE items SET title = ?, mark = ? WHERE id = ?", rows)

    def skip(self, reasons: Mapping[int, str]) -> None:
        """Mark items as skipped, each with its reason."""
        with self.write() as tx:
            rows = [(reason, item) for item, reason in reasons.items()]
            tx.executemany("UPDATE items SET state = 'skipped', reason = ? WHERE id = ?", rows)


def _forget_runs(tx: sqlite3.Connection) -> None:
    """Delete the runs that no event is about, and the oldest ones if all take too much."""
    tx.execute("DELETE FROM runs WHERE id NOT IN (SELECT run FROM events WHERE run NOT NULL)")
    while True:
        count, size, oldest = tx.execute("SELECT count(*), sum(length(arrays)), min(id) FROM runs").fetchone()
        if count <= 2 or size <= MAX_STORED_BYTES:  # the last two can always be compared
            return
        tx.execute("DELETE FROM runs WHERE id = ?", (oldest,))
