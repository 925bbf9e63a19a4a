"""A project that stays open in the workbench: its state in memory, and jobs in a thread. It knows nothing of HTTP."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

import numpy as np

from handful.project.database import FILE, explained
from handful.project.events import Store
from handful.project.export_formats import FORMATS, TEXT_FORMATS
from handful.project.items import EMBEDDINGS, TEXTS
from handful.project.job import Job, check_trust, read_job, remember_job, stored_job
from handful.project.loading import load, new_job, open_items, remove_leftovers, uploaded_texts
from handful.project.pile import PILE, UPLOADS, Pile, Source
from handful.project.refusal import Refusal
from handful.project.runs import NONE, UNKNOWN, Run, run_of
from handful.project.state import State
from handful.project.trust import Agree, agreed_model, model_of, refuse
from handful.project.views import describe_state
from handful.utils.extras import has_pyarrow

log = logging.getLogger("handful.workbench")

FOLDER = ".handful-workbench"
STEPS = ("labelling the pile", "grouping the unknowns", "drawing the map", "storing the results")
ITEMS_PER_BLOCK = 256  # the features of a block can be used when all its items are embedded
Answer = TypeVar("Answer")


def default_folder(opened: Path) -> Path:
    """The folder in which the project of a folder or table is stored."""
    return opened.parent / f"{opened.stem}.workbench" if opened.is_file() else opened / FOLDER


class LiveProject:
    """An opened folder of pictures or texts, or table of texts or embeddings, with its classes, labels and runs.

    Items are given by their numbers, which stay the same when the project is opened again. What is shown is `state`,
    which is replaced and never changed: a reader takes it once and sees one moment. A change is on the disk before
    `state` has it.

    opened: the folder or table, or the folder of a project that `handful label` wrote. folder: where the work is kept.
    backbone: by default the one that was used before. agree: called before a model is loaded, or files are used, that
    only the project names. examples: a folder with a folder for each class, also `unknown`. text, label: the columns of
    texts and of labels in a table of texts.
    """

    def __init__(
        self,
        opened: Path,
        folder: Path | None = None,
        *,
        backbone: str | None = None,
        agree: Agree = refuse,
        examples: Path | None = None,
        text: str | None = None,
        label: str | None = None,
    ) -> None:
        from handful.backbones.catalogue import concrete_name

        is_results = (opened / FILE).is_file()
        if is_results and folder is not None:
            raise ValueError(f"{str(opened)!r} is a project and keeps your work itself: leave --project out")
        if is_results and any(one is not None for one in (examples, text, label)):
            raise ValueError(
                "the results name their own examples and columns: give --examples, --text and --label with a folder or "
                "table"
            )
        self.folder = opened if is_results else folder or default_folder(opened)
        if not is_results and folder is None and self.folder.is_symlink():
            raise ValueError(f"{str(self.folder)!r} is a link: give the folder that it leads to with --project")
        with ExitStack() as stack:
            # A new project is made when its table has been read: of a bad one nothing is left
            store = stack.enter_context(closing(Store(self.folder))) if (self.folder / FILE).is_file() else None
            if is_results and store is not None:
                job, stored = stored_job(store, self.folder)
                check_trust(job, stored, self.folder, agree)
                is_named, kind = True, job.kind  # named by the user, who labelled it or has agreed
                job = replace(job, backbone=backbone or job.backbone)
            else:
                job, kind = new_job(
                    opened, self.folder, _job_before(store), backbone=backbone, examples=examples, text=text,
                    label=label,
                )  # fmt: skip
                is_named = backbone is not None
            self.backbone_options = job.backbone_options
            in_pile = job.examples == job.pile
            self.source = Source(
                job.pile or job.examples, self.folder, kind, None if in_pile else job.examples, job.unknown
            )
            self.table = open_items(job, kind, self.folder)
            store = store or stack.enter_context(closing(Store(self.folder)))
            with explained(store.path, writing=True):
                self.backbone = concrete_name(job.backbone) if job.backbone else None
                is_embedded = kind == EMBEDDINGS
                self.model = None if is_embedded else agreed_model(self.backbone, is_named, agree)
                remove_leftovers(self.folder)
                if not is_results:  # so that `handful label` can go on with the folder of the project
                    pile = job.pile if job.pile is not None or any(self.table.labels) else opened
                    text = self.table.text_column if self.source.is_table else None
                    job = replace(job, pile=pile, backbone=self.backbone or "", text=text)
                    remember_job(store, job, store.meta().get("job", ""))
                self._state = load(store, self.table)
            stack.pop_all()
        self.store = store
        self._lock = threading.RLock()
        self._listeners: list[Callable[[], None]] = []
        self._running: BackgroundJob | None = None  # the last run
        self.worker = Worker(self.tell)
        if not is_embedded:
            self.worker.submit("embed", self._embed)

    def close(self) -> None:
        """Stop the worker and close the database."""
        self.worker.close()
        self.store.close()

    # ---- the state, and who listens to it

    @property
    def state(self) -> State:
        """The state as it is on the disk."""
        return self._state

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call a function, from any thread, after each change. Returns a function that ends this."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def tell(self) -> None:
        """Call every listener."""
        for listener in tuple(self._listeners):
            listener()

    def change(self, edit: Callable[..., Answer], *arguments: Any) -> Answer:
        """Make a change by a function that takes the store, the state and the arguments; then show it."""
        with self._lock:
            with self.store.write():
                answer = edit(self.store, self._state, *arguments)
                state = State.of(self.store, self._state.pile, self._state.skipped)
            self._state = state
            self.tell()
            return answer

    # ---- jobs

    def run(self, method: str = "auto", outlier_share: float | str = "auto") -> BackgroundJob:
        """Start a job that embeds the remaining items and labels all those without a label."""
        from handful.project.labelling import check_decision

        check_decision(method, outlier_share)
        _check_enough(self._state)
        with self._lock:
            if self._running is not None and self._running.state == "running":
                raise Refusal("a run is under way: wait for it, or cancel it first", 409)
            self._running = self.worker.submit("solve", lambda job: self._solve(job, method, outlier_share))
            return self._running

    def _solve(self, job: BackgroundJob, method: str, outlier_share: float | str) -> None:
        job.kind = "embed"
        self._embed(job)
        job.kind = "solve"
        with self._lock:  # uploads may add features meanwhile: the solver gets a copy
            pile = self._state.pile
            state = replace(self._state, pile=replace(pile, ready=pile.ready.copy(), usable=pile.usable.copy()))
        run = solve_pile(state, method, outlier_share, lambda done: job.at(done, len(STEPS), STEPS[done]))
        self.change(lambda store, _: store.add_run(run))
        words = f"{run.sentence()} {run.expected_in_words()}".strip()
        job.done, job.message = len(STEPS), words  # it is stored: too late to cancel

    def _embed(self, job: BackgroundJob) -> None:
        """Embed the items block by block, in the order of names, in which the page shows them."""
        from handful.backbones import load_backbone
        from handful.backbones.catalogue import DEFAULT, DEFAULT_TEXT

        pile, kind = self._state.pile, self.source.kind
        rows = np.argsort(pile.rank)
        rows = rows[(pile.usable & ~pile.ready)[rows]]
        total, done = int(pile.usable.sum()), int((pile.ready & pile.usable).sum())
        if not len(rows):
            return
        job.at(done, total, "loading the backbone")
        now = model_of(self.backbone)
        if now is not None and now != self.model:  # it is not the file that the user agreed to
            raise ValueError(f"the model {now} has changed since the workbench was started: start it again to use it")
        name = self.backbone or (DEFAULT_TEXT if kind == TEXTS else DEFAULT)
        backbone = load_backbone(name, **self.backbone_options)
        if backbone.kind != kind:
            raise ValueError(
                f"the backbone {backbone.name} is for {backbone.kind}, but these are {kind}: name another one "
                "with --backbone, `handful backbones` lists them"
            )
        with self._lock:
            if self._state.pile.features.shape[1] != backbone.dimension:
                self._show(self._state.pile.with_room(backbone.dimension))
        job.at(done, total, "computing features")
        for start in range(0, len(rows), ITEMS_PER_BLOCK):
            block = rows[start : start + ITEMS_PER_BLOCK].tolist()
            self._embed_block(pile, block, backbone, partial(_report, job, done + start, total))

    def _embed_block(self, pile: Pile, rows: list[int], backbone: Any, at: Callable[[int, int], None]) -> None:
        """Embed some items. Files that cannot be read are left out, until the project is opened again."""
        from handful.backbones import embed_pictures, embed_texts

        if pile.texts is not None:
            embedded, items = embed_texts([pile.texts[i] for i in rows], backbone, progress=at), pile.ids[rows].tolist()
        else:
            by_path = {str(self.source.file(pile.origins[i], pile.names[i])): int(pile.ids[i]) for i in rows}
            opener = self.source.opener((pile.origins[i], pile.names[i]) for i in rows)
            embedded = embed_pictures(by_path, backbone, progress=at, opener=opener)
            items = [by_path[path] for path in embedded.names]
        with self._lock:
            now = self._state.pile  # uploads may have made another one
            places = [now.row[item] for item in items]
            now.features[places], now.ready[places] = embedded.features, True
            for row, mark in zip(places, embedded.hashes or (), strict=True):
                now.hashes[row] = mark
            if pile.texts is None and embedded.skipped:
                reasons = {by_path[path]: reason for path, reason in embedded.skipped}
                self.store.skip(reasons)
                now.usable[[now.row[item] for item in reasons]] = False
                self._show(now, tuple((now.names[now.row[item]], reason) for item, reason in reasons.items()))

    def _show(self, pile: Pile, skipped: tuple[tuple[str, str], ...] = ()) -> None:
        """Show another pile, and further files that cannot be read."""
        self._state = State.of(self.store, pile, self._state.skipped + skipped)
        self.tell()

    def add_uploads(self, names: Sequence[str]) -> None:
        """Add files that are in the folder of uploads now."""
        with self._lock:
            self.store.add_items(UPLOADS, names)
            numbers, pile = self.store.item_numbers(), self._state.pile
            new = [name for name in names if numbers[UPLOADS, name] not in pile.row]
            rows = [(numbers[UPLOADS, name], UPLOADS, name) for name in new]
            self._show(pile.grown(rows, uploaded_texts(self.source, new)))
        self.worker.submit("embed", self._embed)

    # ---- in short

    def columns_of(self, row: int) -> dict[str, str]:
        """The other columns of an item that is a row of a table of texts."""
        pile = self._state.pile
        return self.table.columns_of(pile.names[row]) if self.source.is_table and pile.origins[row] == PILE else {}

    def summary(self) -> dict[str, Any]:
        """The body of GET /project."""
        job, source = self.worker.job, self.source
        return {
            "name": source.opened.resolve().name, "job": None if job is None else job.summary(), "kind": source.kind,
            "can_add": not source.is_table, "formats": formats_of(source), **describe_state(self._state),
        }  # fmt: skip


def _report(job: BackgroundJob, before: int, total: int, done: int, _: int) -> None:
    job.at(before + done, total)


def solve_pile(state: State, method: str, outlier_share: float | str, step: Callable[[int], None]) -> Run:
    """Label the items without a label. `step` is called between the four steps, with 0 to 3, and may raise to stop."""
    from handful.project.labelling import label_items
    from handful.report.plane import on_plane

    step(0)
    pile, labels, names = state.pile, state.labels, state.said.names()
    is_input = pile.ready & pile.usable
    example_rows = np.flatnonzero(is_input & (labels != NONE))  # UNKNOWN: an example of no class
    rest = np.flatnonzero(is_input & (labels == NONE))
    _check_enough(state)
    if not len(rest):
        raise ValueError(f"every {pile.noun} has a label: there is nothing left to label")
    examples = pile.items(example_rows, [names[code] for code in labels[example_rows].tolist()])
    detail = 0.0 if state.run is None else float(state.run.facts["detail"])
    labelled = label_items(examples, pile.items(rest), method=method, outlier_share=outlier_share, group_detail=detail)
    step(1)
    run = run_of(labelled, pile.ids[rest], state.said, state.run, detail=detail)
    step(2)
    flat = on_plane(np.concatenate([labelled.pile.features, examples.features])).astype(np.float32)
    step(3)
    return replace(run, map_ids=pile.ids[np.concatenate([rest, example_rows])], flat=flat)


def _check_enough(state: State) -> None:
    """Raise ValueError if there is no class or no example."""
    if not state.classes:
        raise ValueError("there are no classes yet: add one and give it a few examples first")
    if not (state.labels[state.pile.usable] > UNKNOWN).any():
        raise ValueError(f"no class has an example yet: label a few {state.pile.noun}s of each class first")


def _job_before(store: Store | None) -> Job | None:
    """The job of a project that has items; None if it has none that can be read."""
    if store is None or not store.item_numbers() or (text := store.meta().get("job")) is None:
        return None
    try:
        return read_job(text)
    except ValueError:
        return None


def formats_of(source: Source) -> list[str]:
    """The formats of an export. Some are for pictures only, and the rows of a table of texts have no files to sort."""
    tables = ["csv", *["parquet"] * has_pyarrow()]
    if source.kind != TEXTS:
        return [*tables, *sorted(FORMATS), "sorted"]
    return [*tables, *TEXT_FORMATS, *["sorted"] * (not source.is_table)]


# ---- one thread for long work: embedding and solving, one job at a time, with progress and cancelling


class Cancelled(Exception):
    """The job was cancelled."""


@dataclass
class BackgroundJob:
    """A job and its progress. The work calls `at` at each step, which raises `Cancelled` if it must stop."""

    kind: str  # embed or solve; a job to solve may embed first
    work: Callable[[BackgroundJob], None]
    tell: Callable[[], None]
    state: str = "running"
    done: int = 0
    total: int = 0
    message: str = ""
    stop: threading.Event = field(default_factory=threading.Event)

    def at(self, done: int, total: int, message: str | None = None) -> None:
        """Report progress; raise Cancelled if the job is to stop."""
        if self.stop.is_set():
            raise Cancelled
        self.done, self.total = done, total
        self.message = self.message if message is None else message
        self.tell()

    def summary(self) -> dict[str, Any]:
        """Return what the page shows of the job."""
        return {name: getattr(self, name) for name in ("kind", "state", "done", "total", "message")}

    def run(self) -> tuple[str, str]:
        """Do the work; return the state and the message in which it ends."""
        try:
            self.at(self.done, self.total)
            self.work(self)
        except Cancelled:
            return "cancelled", ""
        except (ValueError, OSError, ImportError, TypeError) as error:  # their messages say what to do
            message = str(error)
        except sqlite3.Error as error:
            message = f"the result could not be stored ({error}): free some space on the disk, then start this again"
        except MemoryError:
            message = "there is not enough memory for this: close other programs, or take fewer items"
        except Exception as error:
            log.exception("the job %s failed", self.kind)
            message = f"something went wrong that should not ({type(error).__name__}: {error}): please report it"
        else:
            return "done", self.message
        log.warning("the job %s failed: %s", self.kind, message)
        return "failed", message


class Worker:
    """Runs jobs in the order of `submit`. `job` is the one that runs, or the last one."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self.job: BackgroundJob | None = None
        self._tell = tell
        self._jobs: list[BackgroundJob] = []  # that are not done; the first one runs
        self._changed = threading.Condition()
        self._queue: SimpleQueue[BackgroundJob | None] = SimpleQueue()
        # A daemon: a program that ends does not wait for a job
        self._thread = threading.Thread(target=self._run, name="handful-worker", daemon=True)
        self._thread.start()

    def submit(self, kind: str, work: Callable[[BackgroundJob], None]) -> BackgroundJob:
        """Put a job at the end of the queue; return it."""
        job = BackgroundJob(kind, work, self._tell)
        with self._changed:
            self._jobs.append(job)
            self.job = self._jobs[0]  # visible at once: a client must not take the state of the last job for this one's
        self._queue.put(job)
        self._tell()
        return job

    def cancel(self) -> None:
        """Stop the running job at its next step, without a result, and all that wait."""
        with self._changed:
            for job in self._jobs:
                job.message = "stopping"
                job.stop.set()
        self._tell()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until no job runs or waits."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._jobs, seconds)

    def close(self) -> None:
        """Cancel the running job and end the thread."""
        self.cancel()
        self._queue.put(None)
        self._thread.join(10)

    def _run(self) -> None:
        while (job := self._queue.get()) is not None:
            self._tell()
            state, message = job.run()
            with self._changed:
                job.message, job.state = message, state
                self._jobs.remove(job)
                self.job = self._jobs[0] if self._jobs else job
                self._changed.notify_all()
            self._tell()
