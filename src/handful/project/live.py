"""A project that stays open in the workbench: its state in memory, and jobs in a thread. It knows nothing of HTTP."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from handful.project.database import FILE, explained
from handful.project.events import Store
from handful.project.export_formats import FORMATS, TEXT_FORMATS
from handful.project.items import EMBEDDINGS, TEXTS
from handful.project.job import Job, check_trust, read_job, remember_job, stored_job
from handful.project.loading import (
    load,
    new_job,
    open_items,
    remove_leftovers,
    uploaded_texts,
)
from handful.project.pile import PILE, UPLOADS, Pile, Source
from handful.project.refusal import Refusal
from handful.project.runs import check_enough, solve_pile
from handful.project.state import State
from handful.project.trust import Agree, agreed_model, model_of, refuse
from handful.project.views import describe_state
from handful.project.worker import BackgroundJob, Worker
from handful.utils.extras import has_pyarrow

FOLDER = ".handful-workbench"
STEPS = ("labelling the pile", "grouping the unknowns", "drawing the map", "storing the results")
ITEMS_PER_BLOCK = 256  # the features of a block can be used when all its items are embedded
Answer = TypeVar("Answer")


def default_folder(opened: Path) -> Path:
    """The folder in which the project of a folder or table is stored.

    Parameters
    ----------
    opened : Path
        The folder or table.

    Returns
    -------
    Path
    """
    return opened.parent / f"{opened.stem}.workbench" if opened.is_file() else opened / FOLDER


class LiveProject:
    """An opened folder of pictures or texts, or table of texts or embeddings, with its classes, labels and runs.

    Items are given by their numbers, which stay the same when the project is opened again. What is shown is `state`,
    which is replaced and never changed: a reader takes it once and sees one moment. A change is on the disk before
    `state` has it.

    Parameters
    ----------
    opened : Path
        The folder of pictures or of .txt files, the table of texts or of embeddings, or the folder of a project that
        `handful label` wrote.
    folder : Path, optional
        Where the work is kept; by default `default_folder`.
    backbone : str, optional
        The backbone; by default the one that was used before.
    agree : callable
        Called before a model is loaded, or files are used, that only the project names.
    examples : Path, optional
        A folder with a folder of pictures or texts for each class, also `unknown`. They are items that have a
        label.
    text, label : str, optional
        The columns of texts and of labels in a table of texts; by default those of before, or they are found.
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

        opened = Path(opened)
        is_results = (opened / FILE).is_file()
        if is_results and folder is not None:
            raise ValueError(f"{str(opened)!r} is a project and keeps your work itself: leave --project out")
        if not is_results and folder is None and default_folder(opened).is_symlink():
            raise ValueError(
                f"{str(default_folder(opened))!r} is a link: give the folder that it leads to with --project"
            )
        self.folder = folder = opened if is_results else folder or default_folder(opened)
        # A new project is made when its table has been read: of a bad one nothing is left
        store = Store(folder) if (folder / FILE).is_file() else None
        try:
            self.backbone_options: Mapping[str, Any] = {}
            is_named = backbone is not None
            if is_results:
                assert store is not None
                if examples is not None or text is not None or label is not None:
                    raise ValueError(
                        "the results name their own examples and columns: give --examples, --text and --label with a "
                        "folder or table"
                    )
                job, stored = stored_job(store, folder)
                check_trust(job, stored, folder, agree)
                backbone, self.backbone_options = backbone or job.backbone or None, job.backbone_options
                is_named, kind = True, job.kind  # named by the user, who labelled it or has agreed
            else:
                before = None if store is None else _job_before(store)
                has_items = store is not None and bool(store.item_numbers())
                job, kind = new_job(
                    opened, folder, before if has_items else None, backbone=backbone, examples=examples, text=text,
                    label=label,
                )  # fmt: skip
                backbone = job.backbone or None
            self.source = Source(
                job.pile or job.examples, folder, kind, None if job.examples == job.pile else job.examples,
                job.unknown,
            )  # fmt: skip
            self.table = open_items(job, kind, folder)
            store = store or Store(folder)
            with explained(store.path, writing=True):
                self.backbone = concrete_name(backbone) if backbone else None
                is_embedded = self.source.kind == EMBEDDINGS
                self.model = None if is_embedded else agreed_model(self.backbone, is_named, agree)
                remove_leftovers(self.folder)
                if not is_results:  # so that `handful label` can go on with the folder of the project
                    pile = job.pile if job.pile is not None or any(self.table.labels) else opened
                    text = self.table.text_column if self.source.is_table else None
                    job = replace(job, pile=pile, backbone=self.backbone or "", text=text)
                    remember_job(store, job, store.meta().get("job", ""))
                self._state = load(store, self.table)
        except BaseException:
            if store is not None:
                store.close()
            raise
        self.store = store
        self._lock = threading.RLock()
        self._listeners: list[Callable[[], None]] = []
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
        """Call a function, from any thread, after each change.

        Parameters
        ----------
        listener : callable
            The function.

        Returns
        -------
        callable
            A function that ends this.
        """
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def tell(self) -> None:
        """Call every listener."""
        for listener in tuple(self._listeners):
            listener()

    def change(self, edit: Callable[..., Answer], *arguments: Any) -> Answer:
        """Make a change, then show it.

        Parameters
        ----------
        edit : callable
            A function of `handful.project.edits`, or another one that takes the store and the state.
        *arguments
            Its further arguments.

        Returns
        -------
        object
            What the function returns.
        """
        with self._lock:
            with self.store.write():
                answer = edit(self.store, self._state, *arguments)
                state = State.of(self.store, self._state.pile, self._state.skipped, self._state)
            self._state = state
            self.tell()
            return answer

    # ---- jobs

    def run(self, method: str = "auto", outlier_share: float | str = "auto") -> BackgroundJob:
        """Start a job that embeds the remaining items and labels all those without a label.

        Parameters
        ----------
        method : str
            The method.
        outlier_share : float or "auto"
            The share of unknowns.

        Returns
        -------
        BackgroundJob
            The job, which runs in the background.
        """
        from handful.project.labelling import check_decision

        check_decision(method, outlier_share)
        state = self._state
        check_enough(state.labels[state.pile.usable], state.classes, state.pile.noun)
        with self._lock:
            if self.worker.busy("solve"):
                raise Refusal("a run is under way: wait for it, or cancel it first", 409)
            return self.worker.submit("solve", lambda job: self._solve(job, method, outlier_share))

    def _solve(self, job: BackgroundJob, method: str, outlier_share: float | str) -> None:
        if not self._state.pile.ready[self._state.pile.usable].all():
            job.kind = "embed"
            self._embed(job)
            job.kind = "solve"
        with self._lock:  # uploads may add features meanwhile: the solver gets a copy
            pile = self._state.pile
            pile = replace(pile, ready=pile.ready.copy(), usable=pile.usable.copy())
            state = replace(self._state, pile=pile)
        run = solve_pile(
            state, method=method, outlier_share=outlier_share, step=lambda done: job.at(done, len(STEPS), STEPS[done])
        )
        self.change(lambda store, _: store.add_run(run))
        words = f"{run.sentence()} {run.expected_in_words()}".strip()
        job.done, job.message = len(STEPS), words  # it is stored: too late to cancel

    def _embed(self, job: BackgroundJob) -> None:
        """Embed the items block by block, in the order of names, in which the page shows them."""
        from handful.backbones import load_backbone
        from handful.backbones.catalogue import DEFAULT, DEFAULT_TEXT

        pile = self.state.pile
        rows = np.argsort(pile.rank)
        rows = rows[(pile.usable & ~pile.ready)[rows]]
        total, done = int(pile.usable.sum()), int((pile.ready & pile.usable).sum())
        if not len(rows):
            return
        source, embed = self.source, self._embed_texts if self.source.kind == TEXTS else self._embed_pictures
        job.at(done, total, "loading the backbone")
        now = model_of(self.backbone)
        if now is not None and now != self.model:  # it is not the file that the user agreed to
            raise ValueError(f"the model {now} has changed since the workbench was started: start it again to use it")
        name = self.backbone or (DEFAULT_TEXT if source.kind == TEXTS else DEFAULT)
        backbone = load_backbone(name, **self.backbone_options)
        if backbone.kind != source.kind:
            raise ValueError(
                f"the backbone {backbone.name} is for {backbone.kind}, but these are {source.kind}: name another one "
                "with --backbone, `handful backbones` lists them"
            )
        with self._lock:
            if self._state.pile.features.shape[1] != backbone.dimension:
                self._state = replace(self._state, pile=self._state.pile.with_room(backbone.dimension))
                self.tell()
        job.at(done, total, "computing features")
        for start in range(0, len(rows), ITEMS_PER_BLOCK):
            block = rows[start : start + ITEMS_PER_BLOCK].tolist()

            def at(n: int, _: int, before: int = done) -> None:
                job.at(before + n, total)

            embed(pile, block, backbone, at)
            done += len(block)

    def _embed_pictures(self, pile: Pile, block: list[int], backbone: Any, at: Callable[[int, int], None]) -> None:
        from handful.backbones import embed_pictures

        items = {str(self.source.file(pile.origins[i], pile.names[i])): int(pile.ids[i]) for i in block}
        opener = self.source.opener((pile.origins[i], pile.names[i]) for i in block)
        embedded = embed_pictures(items, backbone, progress=at, opener=opener)
        self._take_features([items[path] for path in embedded.names], embedded.features, embedded.hashes or ())
        self._skip({items[path]: reason for path, reason in embedded.skipped})

    def _embed_texts(self, pile: Pile, block: list[int], backbone: Any, at: Callable[[int, int], None]) -> None:
        from handful.backbones import embed_texts

        assert pile.texts is not None
        embedded = embed_texts([pile.texts[i] for i in block], backbone, progress=at)
        self._take_features(pile.ids[block].tolist(), embedded.features, embedded.hashes or ())

    def _take_features(self, items: Sequence[int], features: np.ndarray, hashes: Sequence[str]) -> None:
        with self._lock:
            pile = self._state.pile
            rows = [pile.row[item] for item in items]
            pile.features[rows], pile.ready[rows] = features, True
            for row, mark in zip(rows, hashes, strict=True):
                pile.hashes[row] = mark

    def _skip(self, reasons: Mapping[int, str]) -> None:
        """Leave out files that cannot be read. They are tried again when the project is opened again."""
        if not reasons:
            return
        with self._lock:
            self.store.skip(reasons)
            pile = self._state.pile
            pile.usable[[pile.row[item] for item in reasons]] = False
            more = tuple((pile.names[pile.row[item]], reason) for item, reason in reasons.items())
            self._state = replace(self._state, skipped=self._state.skipped + more)
            self.tell()

    def add_uploads(self, names: Sequence[str]) -> None:
        """Add files that are in the folder of uploads now.

        Parameters
        ----------
        names : sequence of str
            The names of the files.
        """
        with self._lock:
            self.store.add_items(UPLOADS, names)
            state = self._state
            rows = [row for row in self.store.items() if row[0] not in state.pile.row]
            pile = state.pile.grown(rows, uploaded_texts(self.source, [name for _, _, name in rows]))
            self._state = State.of(self.store, pile, state.skipped, state)
            self.tell()
        self.worker.submit("embed", self._embed)

    # ---- in short

    @property
    def notes(self) -> Sequence[str]:
        """What was found out about a table of texts."""
        return self.table.notes

    def columns_of(self, row: int) -> dict[str, str]:
        """The other columns of an item that is a row of a table of texts.

        Parameters
        ----------
        row : int
            The place of the item in the pile.
        """
        pile = self.state.pile
        if not self.source.is_table or pile.origins[row] != PILE:
            return {}
        return self.table.columns_of(pile.names[row])

    def summary(self) -> dict[str, Any]:
        """The body of GET /project."""
        job = self.worker.job
        about: dict[str, Any] = {"name": self.source.opened.resolve().name}
        about |= {"job": None if job is None else job.summary()}
        about |= {"kind": self.source.kind, "can_add": not self.source.is_table, "formats": formats_of(self.source)}
        return about | describe_state(self.state)


def _job_before(store: Store) -> Job | None:
    """The job of a project; None if it has none that can be read."""
    text = store.meta().get("job")
    try:
        return None if text is None else read_job(text)
    except ValueError:
        return None


def formats_of(source: Source) -> list[str]:
    """The formats of an export. Some are for pictures only, and the rows of a table of texts have no files to sort."""
    tables = ["csv", *["parquet"] * has_pyarrow()]
    if source.kind != TEXTS:
        return [*tables, *sorted(FORMATS), "sorted"]
    return [*tables, *TEXT_FORMATS, *["sorted"] * (not source.is_table)]
