"""What a project is and can do: what was opened, and runs over it. No HTTP in it; `Edits` has what people change."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from handful.core.checks import UNKNOWN_NAME
from handful.utils.files import printable
from handful.workbench.domain.database import blaming
from handful.workbench.domain.edits import KEYS, Edits
from handful.workbench.domain.embedding import embed_missing
from handful.workbench.domain.pile import INCOMING, MAKING, PILE, UPLOADS, Pile, Source, read_table
from handful.workbench.domain.quota import MAX_UPLOAD_BYTES, Quota
from handful.workbench.domain.refusal import Refusal
from handful.workbench.domain.runs import NONE, UNKNOWN, RowAnswers, Run, check_enough, solve_pile
from handful.workbench.domain.state import State
from handful.workbench.domain.store import Store, add_items, next_class
from handful.workbench.domain.trust import Agree, Model, is_agreed, model_of, refuse, remember
from handful.workbench.domain.worker import Job, Worker

FOLDER = ".handful-workbench"
STEPS = ("labelling the pile", "grouping the unknowns", "drawing the map", "keeping the results")


def default_folder(opened: Path) -> Path:
    """Where the project of a folder or table is kept."""
    return opened.parent / f"{opened.stem}.workbench" if opened.is_file() else opened / FOLDER


class Project(Edits):
    """An opened folder of pictures, or table of embeddings, with all that was ever said of it."""

    def __init__(
        self,
        opened: Path,
        folder: Path | None = None,
        *,
        backbone: str | None = None,
        agree: Agree = refuse,
        max_upload: int = MAX_UPLOAD_BYTES,
    ) -> None:
        """agree: asked before a model that the project names, and not `backbone`, is loaded. max_upload: bytes."""
        opened = Path(opened)
        if folder is None and default_folder(opened).is_symlink():
            raise ValueError(f"{str(default_folder(opened))!r} is a link: name the folder that it leads to, --project")
        self.source = Source(opened, folder or default_folder(opened))
        self.folder = self.source.project
        table = read_table(opened) if self.source.is_table else None
        store = Store(self.folder, any_name=self.source.is_table)
        try:
            with blaming(store.path, writing=True):
                known = store.meta()
                self.backbone = backbone or known.get("backbone")
                self.model = None if table is not None else _agreed_model(self.backbone, backbone is not None, agree)
                if backbone:
                    store.meta(backbone=backbone)
                _remove_leftovers(self.folder)
                state = _load(store, self.source, table, first="imported" not in known)
        except BaseException:
            store.close()
            raise
        super().__init__(store, state)
        self.quota = Quota(self.source.uploads, max_upload)
        self.worker = Worker(self.tell)
        if not self.source.is_table:
            self.worker.submit("embed", self._embed)

    def close(self) -> None:
        """Stop the worker and close the database."""
        self.worker.close()
        self.store.close()

    def check_model(self) -> None:
        """The file that is about to be loaded is the one that was agreed to."""
        now = model_of(self.backbone)
        if now is not None and now != self.model:
            raise ValueError(f"the model {now} has changed since the workbench was started: start it again to use it")

    # ---- jobs

    def run(self, method: str = "auto", outlier_share: float | str = "auto") -> Job:
        """Label what has no label, after what is not embedded yet."""
        from handful.label.labelling import check_decision

        check_decision(method, outlier_share)
        state = self._state
        names = {number: name for number, (name, _) in state.classes.items()}
        check_enough(state.given[state.pile.there], names)
        with self._lock:
            if self.worker.busy("solve"):
                raise Refusal("a run is under way: wait for it, or cancel it first", 409)
            return self.worker.submit("solve", lambda job: self._solve(job, method, outlier_share))

    def _solve(self, job: Job, method: str, outlier_share: float | str) -> None:
        if not self._state.pile.ready[self._state.pile.there].all():
            job.kind = "embed"
            self._embed(job)
            job.kind = "solve"
        with self._lock:  # features may still come in by uploads: what is solved stays as it is now
            state = self._state
            pile = replace(state.pile, ready=state.pile.ready.copy(), there=state.pile.there.copy())
        names = {number: name for number, (name, _) in state.classes.items()}
        found = solve_pile(
            pile, state.given, names, state.run, method=method, outlier_share=outlier_share,
            step=lambda done: job.at(done, len(STEPS), STEPS[done]),
        )  # fmt: skip
        with self._lock:
            number = self.store.add_run(found.made, found.threshold, found.facts, found.packed())
            run = replace(found, id=number)
            row_answers = RowAnswers.of(run, self._state.pile, self._state.classes)
            undo, redo = self.store.steps()
            self._state = replace(self._state, run=run, row_answers=row_answers, undo=undo, redo=redo)
            self._publish()
        job.done, job.message = len(STEPS), run.sentence()  # it is kept: too late to be cancelled

    def _embed(self, job: Job) -> None:
        embed_missing(self, job)

    def room(self, dimension: int) -> None:
        """Make room for features of so many numbers."""
        with self._lock:
            if self._state.pile.features.shape[1] != dimension:
                self._state = replace(self._state, pile=self._state.pile.with_room(dimension))
                self._publish()

    def take_features(self, items: Sequence[int], features: np.ndarray, hashes: Sequence[str]) -> None:
        """Keep the features of items that were embedded."""
        with self._lock:
            pile = self._state.pile
            rows = [pile.row[item] for item in items]
            pile.features[rows], pile.ready[rows] = features, True
            for row, mark in zip(rows, hashes, strict=True):
                pile.hashes[row] = mark

    def skip(self, reasons: dict[int, str]) -> None:
        """These are no pictures: they are shown nowhere, and tried again when the project is next opened."""
        if not reasons:
            return
        with self._lock:
            self.store.skip(reasons)
            pile = self._state.pile
            pile.there[[pile.row[item] for item in reasons]] = False
            more = tuple((pile.names[pile.row[item]], reason) for item, reason in reasons.items())
            self._state = replace(self._state, skipped=self._state.skipped + more)
            self._publish()

    def add_uploads(self, names: Sequence[str]) -> None:
        """Pictures that lie in the folder of uploads now."""
        with self._lock:
            with self.store.write() as tx:
                add_items(tx, UPLOADS, names)
            state = self._state
            pile = state.pile.grown([(item, origin, name) for item, origin, name, _, _ in self.store.items()])
            given = np.concatenate([state.given, np.full(len(pile) - len(state.pile), NONE)])
            self._state = replace(
                state, pile=pile, given=given, row_answers=RowAnswers.of(state.run, pile, state.classes)
            )
            self._publish()
        self.worker.submit("embed", self._embed)

    # ---- in short

    def summary(self) -> dict[str, Any]:
        """The body of GET /project."""
        state, job = self.state, self.worker.job
        there, given = state.pile.there, state.given
        said, count = (np.unique(x[there & (x > UNKNOWN)], return_counts=True) for x in (given, _settled(state)))
        examples, counts = (dict(zip(*(part.tolist() for part in pair), strict=True)) for pair in (said, count))
        return {
            "name": self.source.opened.resolve().name,
            "items": int(there.sum()), "ready": int((state.pile.ready & there).sum()), "skipped": len(state.skipped),
            "classes": [
                {"id": i, "name": name, "key": key, "examples": examples.get(i, 0), "count": counts.get(i, 0)}
                for i, (name, key) in state.classes.items()
            ],
            "run": None if state.run is None else describe_run(state),
            "job": None if job is None else job.shown(),
            "undo": state.undo, "redo": state.redo,
        }  # fmt: skip


def _agreed_model(backbone: str | None, is_named: bool, agree: Agree) -> Model | None:
    """The model that will be loaded; None if it is built in. `ValueError` if the user does not agree to it."""
    model = model_of(backbone)
    if model is not None and not is_agreed(model):
        if not is_named:
            agree(model)
        remember(model)
    return model


def _remove_leftovers(folder: Path) -> None:
    """Of uploads and exports that a kill broke off; no other process has the project open."""
    for pattern in (f"{UPLOADS}/{INCOMING}*", f"exports/{MAKING}*"):
        for left in folder.glob(pattern):
            shutil.rmtree(left, ignore_errors=True)


def describe_run(state: State) -> dict[str, Any]:
    """Return the facts of the last run as JSON takes them."""
    run = state.run
    assert run is not None
    facts = {name: run.facts[name] for name in ("method", "share", "share_low", "share_high", "share_told")}
    own = {"id": run.id, "made": run.made, "sentence": run.sentence(), "threshold": run.threshold}
    return own | facts | {"counts": run.counts()}


def _settled(state: State) -> np.ndarray:
    """The class of each item: as said, else as decided."""
    return np.where(state.given != NONE, state.given, state.row_answers.decision)


def _load(store: Store, source: Source, table: Any, first: bool) -> State:
    names, skipped = source.scan()
    if table is not None:
        names[PILE] = table[0]
    for origin, found in names.items():
        store.take_items(origin, found)
    rows = [(item, origin, name) for item, origin, name, _, _ in store.items()]
    pile = Pile.of(rows)
    if table is not None:
        of_name = {name: i for i, (_, origin, name) in enumerate(rows) if origin == PILE}
        order = [of_name[name] for name in names[PILE]]
        pile = pile.with_room(table[1].shape[1])
        pile.features[order], pile.ready[order] = table[1], True
        if first:
            _import(store, [rows[i][0] for i in order], table[2])
    given = np.full(len(pile), NONE)
    for item, code in store.labels():
        if item in pile.row:
            given[pile.row[item]] = code
    classes, last = store.classes(), store.last_run()
    run = None if last is None else Run.unpacked(*last)
    left = tuple((printable(name), reason) for name, reason in skipped)
    return State(pile, given, classes, run, RowAnswers.of(run, pile, classes), left, *store.steps())


def _import(store: Store, items: list[int], labels: Sequence[str | None]) -> None:
    """Labels that a table brings are given ones, once; they are no step that could be undone."""
    with store.write() as tx:
        codes: dict[str, int] = {UNKNOWN_NAME: UNKNOWN}
        for name in dict.fromkeys(filter(None, labels)):
            if name not in codes:
                codes[name] = next_class(tx)
                key = codes[name] if codes[name] in KEYS else None
                tx.execute("INSERT INTO classes VALUES (?, ?, ?)", (codes[name], name, key))
        rows = [(item, codes[name]) for item, name in zip(items, labels, strict=True) if name]
        tx.executemany("INSERT OR REPLACE INTO labels VALUES (?, ?)", rows)
        tx.execute("INSERT INTO meta VALUES ('imported', '1')")
