"""The store of a project, one SQLite file. No change that was confirmed is lost if the process or the machine stops.

    items      the pictures, texts or rows, by a number that never changes
    classes, labels      what a person set; class 0 is "unknown"
    runs       the answers of the run that is shown, and of those that undo and redo lead to
    checks     what a person answered when a run was checked, and in `skipped` what they did not want to answer
    history    every change that a person made and every run, in order, for undo and redo

Each change and its entry in the history are one transaction.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from handful.core.checks import is_no_class
from handful.project.database import MAX_RUN_BYTES, OpenDatabase
from handful.project.refusal import Refusal
from handful.project.runs import MAX_ID, UNKNOWN, WRONG


@dataclass(frozen=True)
class Change:
    """What is changed, as (id, before, after), with None for nothing.

    A class is (name, key). An answer of a check is a class, 0 for none of them, or WRONG; its id is (run, item).
    """

    text: str
    labels: tuple[tuple[int, int | None, int | None], ...] = ()
    classes: tuple[tuple[int, tuple[str, int | None] | None, tuple[str, int | None] | None], ...] = ()
    threshold: tuple[int, float, float] | None = None  # the run, the old and the new threshold
    run: tuple[int | None, int | None] | None = None  # the run that was shown before, and the new one
    checks: tuple[tuple[tuple[int, int], int | None, int | None], ...] = ()

    def back(self) -> Change:
        """Return the change that undoes this one."""
        threshold = None if self.threshold is None else (self.threshold[0], self.threshold[2], self.threshold[1])
        run = None if self.run is None else (self.run[1], self.run[0])
        labels, classes, checks = (tuple(_reversed(steps)) for steps in (self.labels, self.classes, self.checks))
        return Change(self.text, labels, classes, threshold, run, checks)

    @property
    def run_of(self) -> int | None:
        """The run that the step cannot be undone or done again without; `run` has a second one."""
        if self.checks:
            return self.checks[0][0][0]
        return self.run[1] if self.run is not None else self.threshold and self.threshold[0]

    def as_json(self) -> str:
        """Return the change as JSON, without its text."""
        parts = [self.labels, self.classes, self.threshold, self.run, self.checks]
        return json.dumps(parts, separators=(",", ":"))

    @classmethod
    def read(cls, text: str, change: str) -> Change:
        """Read what `as_json` wrote; raise ValueError for anything else, because the file may come from anyone."""
        try:
            parts = json.loads(change, parse_constant=_no_number)
            labels, classes, threshold, run, checks = parts
            return cls(
                text,
                tuple((_id(item), _or_none(_code, a), _or_none(_code, b)) for item, a, b in labels),
                tuple((_id(number), _or_none(_class, a), _or_none(_class, b)) for number, a, b in classes),
                _or_none(_threshold, threshold),
                _or_none(_runs, run),
                tuple((_check_id(of), _or_none(_answer, a), _or_none(_answer, b)) for of, a, b in checks),
            )
        except (ValueError, TypeError, KeyError, RecursionError):
            raise ValueError("the entry of this step in the history is damaged") from None

    def __bool__(self) -> bool:
        return bool(self.labels or self.classes or self.threshold or self.run or self.checks)


def _reversed(steps: Iterable[tuple[Any, Any, Any]]) -> Iterator[tuple[Any, Any, Any]]:
    return ((what, after, before) for what, before, after in steps)


def _or_none(read: Any, value: Any) -> Any:
    return None if value is None else read(value)


def _code(value: Any, smallest: int = 0) -> int:
    if type(value) is not int or not smallest <= value <= MAX_ID:
        raise ValueError
    return value


def _id(value: Any) -> int:
    return _code(value, 1)


def _class(value: Any) -> tuple[str, int | None]:
    name, key = value
    if not isinstance(value, list) or not isinstance(name, str) or not name or key not in (None, *range(1, 10)):
        raise ValueError
    return name, key


def _threshold(value: Any) -> tuple[int, float, float]:
    run, before, after = value
    if not all(type(x) in (int, float) and math.isfinite(x) for x in (before, after)):
        raise ValueError
    return _id(run), float(before), float(after)


def _runs(value: Any) -> tuple[int | None, int | None]:
    before, after = value
    return _or_none(_id, before), _or_none(_id, after)


def _check_id(value: Any) -> tuple[int, int]:
    run, item = value
    return _id(run), _id(item)


def _answer(value: Any) -> int:
    return _code(value, WRONG)


def _no_number(text: str) -> Any:
    raise ValueError(text)


KEYS = range(1, 10)  # that a class may have on the page
FOR_A_RUN = " labelled by the check, for the next run"
MAX_STEPS = 500  # changes that can be undone
MAX_STORED_BYTES = 2**30  # of all runs that steps lead to: older steps are forgotten
CLASSES_BY_FIRST_NAME = """
    SELECT came_as, class FROM labels JOIN items ON item = id WHERE came_as NOT NULL
    GROUP BY came_as, class ORDER BY count(*)
"""
RunRow = tuple[int, str, float, str, bytes]  # id, made, threshold, facts, arrays


class Steps(NamedTuple):
    """The texts of the next steps to undo and to redo; if the last step is a run, also of the step before it."""

    undo: str | None
    redo: str | None
    before_run: str | None


class ItemFacts(NamedTuple):
    """What is stored of an item. mark: a hash of its content at the last run; came_as: the class that it came with."""

    origin: str
    title: str  # what people call it
    state: str
    mark: str | None
    came_as: str | None


class Store(OpenDatabase):
    """What is in the file of one project."""

    # ---- what a person does

    def change(self, make: Callable[[sqlite3.Connection], Change]) -> Change:
        """Make a change and add it to the history; a change that changes nothing has no entry."""
        with self.write() as tx:
            change = make(tx)
            if change:
                self._apply(tx, change)
                _add_step(tx, change)
            return change

    def undo(self) -> Change | None:
        """Undo the last step; return it, or None if there is none."""
        return self._step("SELECT id, text, change FROM history WHERE NOT undone ORDER BY id DESC LIMIT 1", True)

    def redo(self) -> Change | None:
        """Do the last undone step again; return it, or None if there is none."""
        return self._step("SELECT id, text, change FROM history WHERE undone ORDER BY id LIMIT 1", False)

    def _step(self, query: str, back: bool) -> Change | None:
        with self.write() as tx:
            row = tx.execute(query).fetchone()
            if row is None:
                return None
            try:
                change = Change.read(*row[1:])
                change = change.back() if back else change
                self._apply(tx, change)
                _check_references(tx, change)
            except ValueError as error:
                raise Refusal(f"{error}: this step stays as it is", 409) from None
            tx.execute("UPDATE history SET undone = ? WHERE id = ?", (back, row[0]))
            return change

    def _apply(self, tx: sqlite3.Connection, change: Change) -> None:
        removed_labels = [(item,) for item, _, after in change.labels if after is None]
        new_labels = [(item, after) for item, _, after in change.labels if after is not None]
        tx.executemany("DELETE FROM labels WHERE item = ?", removed_labels)
        tx.executemany("INSERT OR REPLACE INTO labels VALUES (?, ?)", new_labels)
        for number, _, after in change.classes:
            if after is None:
                tx.execute("DELETE FROM classes WHERE id = ?", (number,))
            else:
                tx.execute("INSERT OR REPLACE INTO classes VALUES (?, ?, ?)", (number, *after))
        if change.threshold is not None:
            run, _, after_ = change.threshold
            tx.execute("UPDATE runs SET threshold = ? WHERE id = ?", (after_, run))
        if change.run is not None:
            shown = "" if change.run[1] is None else str(change.run[1])
            tx.execute("INSERT OR REPLACE INTO meta VALUES ('run', ?)", (shown,))
        for (run, item), _, answer in change.checks:
            if answer is None:
                tx.execute("DELETE FROM checks WHERE run = ? AND item = ?", (run, item))
            else:
                tx.execute("INSERT OR REPLACE INTO checks VALUES (?, ?, ?)", (run, item, answer))

    def say(self, labels: Mapping[int, str | None], text: str | None = None) -> Change:
        """Give items their right class, by its name: "unknown" is no class, None no label. New classes are added.

        text: what the history calls it.
        """

        def make(tx: sqlite3.Connection) -> Change:
            codes, new = _codes_of(tx, [name for name in labels.values() if name is not None])
            before = dict(tx.execute("SELECT item, class FROM labels"))
            after = {item: None if name is None else codes[name] for item, name in labels.items()}
            steps = tuple((item, before.get(item), code) for item, code in after.items() if before.get(item) != code)
            return Change(text or f"{len(steps):,} item{'s' * (len(steps) != 1)} labelled", steps, new)

        return self.change(make)

    def answer(self, run: int, item: int, label: str | None, title: str) -> Change:
        """Store what a person answers when a run is checked: the right label, or None if it is only wrong."""

        def make(tx: sqlite3.Connection) -> Change:
            codes, new = _codes_of(tx, [] if label is None else [label])
            before = self.checks(run).get(item)
            code = WRONG if label is None else codes[label]
            text = f"check: the label of {title} is wrong" if label is None else f"check: {title} is {label}"
            return Change(text, (), new, checks=(((run, item), before, code),)) if before != code else Change(text)

        return self.change(make)

    def use_checks(self, run: int) -> Change:
        """Make labels of the answers to a check that name a class or say that none fits, where there is no label.

        It belongs to the run that follows, and is undone with it.
        """

        def make(tx: sqlite3.Connection) -> Change:
            labelled = {item for (item,) in tx.execute("SELECT item FROM labels")}
            classes = {UNKNOWN, *(number for (number,) in tx.execute("SELECT id FROM classes"))}
            answers = self.checks(run).items()
            steps = tuple((item, None, code) for item, code in answers if code in classes and item not in labelled)
            return Change(f"{len(steps):,} item{'s' * (len(steps) != 1)}{FOR_A_RUN}", steps)

        return self.change(make)

    def undo_last_said(self) -> Change:
        """Undo the last thing that a person said, and the runs after it; Refusal if nothing was said."""
        with self.write():
            while (change := self.undo()) is not None:
                if change.run is None and not change.text.endswith(FOR_A_RUN):
                    return change
            raise Refusal("there is nothing to take back", 409)

    def take_over(self, labels: Mapping[int, str | None]) -> None:
        """Take over the classes that items came with, where they are new or have changed. This is no step.

        A class that a person has renamed keeps its new name: further items that come with the old one are of it.
        """
        with self.write() as tx:
            before = dict(tx.execute("SELECT id, came_as FROM items"))
            new = {item: name for item, name in labels.items() if before.get(item) != name}
            if not new:
                return
            renamed = dict(tx.execute(CLASSES_BY_FIRST_NAME))
            names = [name for name in new.values() if name is not None and name not in renamed]
            codes, classes = _codes_of(tx, names)
            codes |= renamed
            for number, _, row in classes:
                assert row is not None
                tx.execute("INSERT INTO classes VALUES (?, ?, ?)", (number, *row))
            for item, name in new.items():
                tx.execute("UPDATE items SET came_as = ? WHERE id = ?", (name, item))
                if name is None:
                    tx.execute("DELETE FROM labels WHERE item = ?", (item,))
                else:
                    tx.execute("INSERT OR REPLACE INTO labels VALUES (?, ?)", (item, codes[name]))

    def steps(self) -> Steps:
        """The next steps to undo and to redo. They are read on the writing connection."""
        with self._lock:
            db = self._writer
            undo = db.execute("SELECT text, run FROM history WHERE NOT undone ORDER BY id DESC LIMIT 2").fetchall()
            redo = db.execute("SELECT text FROM history WHERE undone ORDER BY id LIMIT 1").fetchone()
        last, before = [*undo, (None, None), (None, None)][:2]
        is_run = last[1] is not None and last[0] == run_text(last[1])
        return Steps(last[0], redo and redo[0], before[0] if is_run else None)

    # ---- items, runs and what they are of

    def meta(self, **new: str) -> dict[str, str]:
        """Set facts of the project, if any are given; return all."""
        if new:
            with self.write() as tx:
                tx.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", new.items())
        with self.read() as db:
            return dict(db.execute("SELECT key, value FROM meta"))

    def take_items(self, origin: str, names: Iterable[str]) -> None:
        """Set the items of an origin. Other items of it are gone, and keep their number and label."""
        names = list(names)
        with self.write() as tx:
            tx.execute("UPDATE items SET state = 'gone', reason = NULL WHERE origin = ?", (origin,))
            add_items(tx, origin, names)

    def items(self) -> list[tuple[int, str, str, str, str | None]]:
        """(id, origin, name, state, reason) of all that are not gone."""
        with self.read() as db:
            query = "SELECT id, origin, name, state, reason FROM items WHERE state != 'gone' ORDER BY id"
            return db.execute(query).fetchall()

    def item_numbers(self) -> dict[tuple[str, str], int]:
        """The number of each item that was ever seen, by its origin and name."""
        with self._lock:
            rows = self._writer.execute("SELECT origin, name, id FROM items")
            return {(origin, name): item for origin, name, item in rows}

    def describe_items(self, facts: Mapping[int, tuple[str, str]]) -> None:
        """Store what people call an item, and a hash of its content."""
        with self.write() as tx:
            rows = [(title, mark, item) for item, (title, mark) in facts.items()]
            tx.executemany("UPDATE items SET title = ?, mark = ? WHERE id = ?", rows)

    def item_facts(self) -> dict[int, ItemFacts]:
        """What is stored of each item that was ever seen."""
        with self._lock:
            rows = self._writer.execute("SELECT id, origin, coalesce(title, name), state, mark, came_as FROM items")
            return {item: ItemFacts(*facts) for item, *facts in rows}

    def item_names(self) -> list[tuple[str, str]]:
        """(origin, name) of all items that were ever seen."""
        with self.read() as db:
            return db.execute("SELECT origin, name FROM items").fetchall()

    def skip(self, reasons: dict[int, str]) -> None:
        """Mark items as skipped, each with its reason."""
        with self.write() as tx:
            rows = [(reason, item) for item, reason in reasons.items()]
            tx.executemany("UPDATE items SET state = 'skipped', reason = ? WHERE id = ?", rows)

    def classes(self) -> dict[int, tuple[str, int | None]]:
        """Return the name and the key of each class."""
        with self.read() as db:
            return {i: (name, key) for i, name, key in db.execute("SELECT id, name, key FROM classes ORDER BY id")}

    def labels(self) -> list[tuple[int, int]]:
        """Return each labelled item with its class."""
        with self.read() as db:
            return db.execute("SELECT item, class FROM labels").fetchall()

    def add_run(self, made: str, threshold: float, facts: dict[str, Any], arrays: bytes) -> int:
        """Store a run as a step that can be undone; return its number. Runs that no step leads to are deleted."""
        if len(arrays) > MAX_RUN_BYTES:
            raise ValueError(f"the result takes more than {MAX_RUN_BYTES >> 20} MB: take fewer items or classes")
        with self.write() as tx:
            row = (made, threshold, json.dumps(facts), arrays)
            last = tx.execute("INSERT INTO runs (made, threshold, facts, arrays) VALUES (?, ?, ?, ?)", row).lastrowid
            assert last is not None
            change = Change(run_text(last), run=(_shown_run(tx), last))
            self._apply(tx, change)
            _add_step(tx, change)
            return last

    def set_facts(self, number: int, facts: dict[str, Any]) -> None:
        """Store other facts of a run."""
        with self.write() as tx:
            tx.execute("UPDATE runs SET facts = ? WHERE id = ?", (json.dumps(facts), number))

    def run(self, number: int | None = None) -> RunRow | None:
        """Return the row of a run, by default of the one that is shown, or None. It is read as it will be written."""
        query = "SELECT id, made, threshold, facts, arrays FROM runs WHERE id = ?"
        with self._lock:
            number = _shown_run(self._writer) if number is None else number
            row: RunRow | None = self._writer.execute(query, (number,)).fetchone()
            return row

    def runs(self) -> list[tuple[int, str, float, str]]:
        """(id, made, threshold, facts) of the runs that are stored, in their order."""
        with self.read() as db:
            return db.execute("SELECT id, made, threshold, facts FROM runs ORDER BY id").fetchall()

    def skip_question(self, run: int, item: int, asked_by: str) -> None:
        """Do not ask about an item of a run again. asked_by: "ask" or "check". This is no step."""
        with self.write() as tx:
            tx.execute("INSERT OR REPLACE INTO skipped VALUES (?, ?, ?)", (run, item, asked_by))

    def skipped_questions(self, run: int, asked_by: str) -> list[int]:
        """The items of a run that a person did not want to be asked about."""
        with self._lock:
            query = "SELECT item FROM skipped WHERE run = ? AND asked_by = ? ORDER BY item"
            return [item for (item,) in self._writer.execute(query, (run, asked_by))]

    def checks(self, run: int) -> dict[int, int]:
        """Return the answers that a person gave when a run was checked, by item."""
        with self._lock:
            return dict(self._writer.execute("SELECT item, answer FROM checks WHERE run = ? ORDER BY item", (run,)))


def add_items(tx: sqlite3.Connection, origin: str, names: Iterable[str]) -> None:
    """Add items to the database; those that had been skipped are there again."""
    rows = [(origin, name) for name in names]
    tx.executemany(
        "INSERT INTO items (origin, name, state) VALUES (?, ?, 'there') "
        "ON CONFLICT (origin, name) DO UPDATE SET state = 'there', reason = NULL",
        rows,
    )


def next_class(tx: sqlite3.Connection) -> int:
    """A number that no class has, and that no deleted class had."""
    row = tx.execute("SELECT seq FROM sqlite_sequence WHERE name = 'classes'").fetchone()
    return 1 + (row[0] if row else 0)


def _codes_of(tx: sqlite3.Connection, names: Iterable[str]) -> tuple[dict[str, int], tuple[Any, ...]]:
    """The number of each class by its name, and the steps that add those that are new; each gets the next free key."""
    old = tx.execute("SELECT id, name, key FROM classes").fetchall()
    codes = {name: number for number, name, _ in old}
    used_keys, new, number = {key for _, _, key in old}, [], next_class(tx)
    for name in names:
        if is_no_class(name):
            codes[name] = UNKNOWN
        elif name not in codes:
            key = next((key for key in KEYS if key not in used_keys), None)
            used_keys.add(key)
            codes[name] = number
            new.append((number, None, (name, key)))
            number += 1
    return codes, tuple(new)


def run_text(number: int) -> str:
    """What the history says of a run.

    >>> run_text(3)
    'run 3'
    """
    return f"run {number}"


def _shown_run(tx: sqlite3.Connection) -> int | None:
    row = tx.execute("SELECT value FROM meta WHERE key = 'run'").fetchone()
    return int(row[0]) if row and row[0] else None


def _add_step(tx: sqlite3.Connection, change: Change) -> None:
    """Add a change to the history. Steps that cannot be reached any more are forgotten, and their runs."""
    tx.execute("DELETE FROM history WHERE undone")
    row = (change.text, change.as_json(), change.run_of, change.run and change.run[0])
    statement = "INSERT INTO history (text, change, run, run_before) VALUES (?, ?, ?, ?)"
    last = tx.execute(statement, row).lastrowid or 0
    tx.execute("DELETE FROM history WHERE id <= ?", (last - MAX_STEPS,))
    _delete_runs(tx)
    while change.run is not None and _is_too_large(tx):
        (oldest,) = tx.execute("SELECT min(id) FROM runs").fetchone()
        steps = "SELECT max(id) FROM history WHERE run = ? OR run_before = ?"
        tx.execute(f"DELETE FROM history WHERE id <= ({steps})", (oldest, oldest))
        _delete_runs(tx, oldest)


def _is_too_large(tx: sqlite3.Connection) -> bool:
    count, size = tx.execute("SELECT count(*), sum(length(arrays)) FROM runs").fetchone()
    return bool(count > 2 and size > MAX_STORED_BYTES)  # the last two can always be compared


def _delete_runs(tx: sqlite3.Connection, oldest: int = 0) -> None:
    """Delete the runs that no step leads to, and the oldest one."""
    kept = "SELECT run FROM history WHERE run NOT NULL UNION SELECT run_before FROM history WHERE run_before NOT NULL"
    shown = _shown_run(tx)
    tx.execute(f"DELETE FROM runs WHERE id IS NOT ? AND (id <= ? OR id NOT IN ({kept}))", (shown, oldest))
    for table in ("checks", "skipped"):
        tx.execute(f"DELETE FROM {table} WHERE run NOT IN (SELECT id FROM runs)")


def _check_references(tx: sqlite3.Connection, change: Change) -> None:
    """Raise ValueError if a step of the history leads to a class or run that is not there: it may come from anyone."""
    for code in {after for _, _, after in change.labels if after}:
        if tx.execute("SELECT 1 FROM classes WHERE id = ?", (code,)).fetchone() is None:
            raise ValueError("the entry of this step in the history is damaged")
    for number, _, after in change.classes:
        if after is None and tx.execute("SELECT 1 FROM labels WHERE class = ?", (number,)).fetchone():
            raise ValueError("the entry of this step in the history is damaged")
    runs = [run for (run, _), _, _ in change.checks] + ([] if change.run is None else [change.run[1]])
    for run in {run for run in runs if run is not None}:
        if tx.execute("SELECT 1 FROM runs WHERE id = ?", (run,)).fetchone() is None:
            raise ValueError("the entry of this step in the history is damaged")
