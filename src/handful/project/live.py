"""A project that stays open in the workbench: its state in memory, and jobs in a thread. It knows nothing of HTTP.

`Edits` and `Checking` make the changes, `Undoable` undoes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from handful.core.checks import UNKNOWN_NAME
from handful.project.database import FILE, explained
from handful.project.edits import Checking, Promotion
from handful.project.items import EMBEDDINGS, TEXTS, Reading
from handful.project.job import Job, check_trust, read_job, remember_job, stored_job
from handful.project.loading import (
    kind_of_items,
    load,
    open_table,
    remove_leftovers,
    table_of_job,
    texts_of,
)
from handful.project.pile import PILE, UPLOADS, Pile, Source
from handful.project.refusal import Refusal
from handful.project.runs import NONE, RowAnswers, Run, check_enough, solve_pile
from handful.project.said import Store, add_items
from handful.project.state import State
from handful.project.trust import Agree, agreed_model, model_of, refuse
from handful.project.views import describe_state
from handful.project.worker import BackgroundJob, Worker
from handful.utils.extras import has_pyarrow

ITEMS_PER_BLOCK = 256  # the features of a block can be used when all its items are embedded

Progress = Callable[[int, int], None]  # items done, all items


def notice_of(state: State, run: Run, promotions: Sequence[Promotion]) -> str:
    """A warning if more has changed since the run before than the promoted groups explain; empty if not."""
    from handful.project.summary import compare

    before, pile = state.run, state.pile
    if before is None:
        return ""
    classes = {number: name for number, (name, _) in state.classes.items()}
    made = [  # a promotion may have been undone
        (classes[one.number], one.items)
        for one in promotions
        if one.run == before.id
        and one.number in classes
        and one.example in pile.row
        and state.labels[pile.row[one.example]] == one.number
    ]
    old, new = before.labels(classes), run.labels(classes)
    items = [item for item in before.ids.tolist() if item in pile.row]
    place = {item: k for k, item in enumerate(items)}
    groups: dict[str, list[int]] = {}
    for name, members in made:
        groups.setdefault(name, []).extend(place[item] for item in members if item in place)
    if not groups:
        return ""
    return " ".join(compare([old[i] for i in items], [new.get(i, UNKNOWN_NAME) for i in items], groups).warnings)


FOLDER = ".handful-workbench"
STEPS = ("labelling the pile", "grouping the unknowns", "drawing the map", "storing the results")


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


class LiveProject(Checking):
    """An opened folder of pictures or texts, or table of texts or embeddings, with its classes, labels and runs.

    Items are given by their numbers, which stay the same when the project is opened again.

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
        any_name = is_results or opened.is_file()
        store = Store(folder, any_name=any_name) if (folder / FILE).is_file() else None
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
                is_named = True  # by the user, who labelled it or has agreed
                self.table = table_of_job(job)
                has_folder = self.table is None and job.examples != job.pile
                self.source = Source(
                    job.pile or job.examples, folder, job.examples if has_folder else None, [folder, *job.results],
                    job.kind, job.unknown if has_folder else None,
                )  # fmt: skip
                self.source.is_table = self.table is not None
            else:
                before = None if store is None else _job_before(store)
                has_items = store is not None and bool(store.item_names())
                kind, text, label = kind_of_items(opened, before if has_items else None, text, label)
                backbone = backbone or (before.backbone or None if before is not None else None)
                self.source = Source(opened, folder, examples, (), kind)
                self.table = None
                if self.source.is_table:
                    columns = {} if label is None else {"label": label}
                    self.table = open_table(opened, None, Reading(kind, table=columns, text=text))
            store = store or Store(folder, any_name=self.source.is_table)
            with explained(store.path, writing=True):
                self.backbone = concrete_name(backbone) if backbone else None
                is_embedded = self.source.kind == EMBEDDINGS
                self.model = None if is_embedded else agreed_model(self.backbone, is_named, agree)
                remove_leftovers(self.folder)
                if not is_results:
                    self._store_job(store, examples, label)
                state = load(store, self.source, self.table)
        except BaseException:
            if store is not None:
                store.close()
            raise
        super().__init__(store, state)
        self.worker = Worker(self.tell)
        if not is_embedded:
            self.worker.submit("embed", self._embed)

    def _store_job(self, store: Store, examples: Path | None, label: str | None) -> None:
        """Store what was opened, so that `handful label` can go on with the folder of the project."""
        opened = self.source.opened
        has_labels = self.table is not None and any(self.table.labels)
        job = Job(
            opened if examples is None else examples, None if has_labels and examples is None else opened,
            backbone=self.backbone or "", results=[self.folder],
            text=None if self.table is None else self.table.text_column,
            table={} if label is None else {"label": label},
        )  # fmt: skip
        remember_job(store, job, store.meta().get("job", ""))

    def close(self) -> None:
        """Stop the worker and close the database."""
        self.worker.close()
        self.store.close()

    def check_model(self) -> None:
        """Raise ValueError if the model file is not the one that the user agreed to."""
        now = model_of(self.backbone)
        if now is not None and now != self.model:
            raise ValueError(f"the model {now} has changed since the workbench was started: start it again to use it")

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
        from handful.project.decision import check_decision

        check_decision(method, outlier_share)
        state = self._state
        names = {number: name for number, (name, _) in state.classes.items()}
        check_enough(state.labels[state.pile.usable], names, state.pile.noun)
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
            state, promotions = self._state, tuple(self._promotions)
            pile = replace(state.pile, ready=state.pile.ready.copy(), usable=state.pile.usable.copy())
        names = {number: name for number, (name, _) in state.classes.items()}
        solved = solve_pile(
            pile, state.labels, names, state.run, method=method, outlier_share=outlier_share,
            group_detail=0.0 if state.run is None else state.run.facts["detail"],
            step=lambda done: job.at(done, len(STEPS), STEPS[done]),
        )  # fmt: skip
        solved = solved.grouped({}, notice=notice_of(state, solved, promotions))
        with self._lock:
            number = self.store.add_run(solved.made, solved.threshold, solved.facts, solved.packed())
            run = replace(solved, id=number)
            self._mirror([], run, self.store.steps())
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
        if source.is_table and source.kind != TEXTS:
            raise ValueError("pictures cannot be added to a table of embeddings: open a folder of pictures instead")
        job.at(done, total, "loading the backbone")
        self.check_model()
        name = self.backbone or (DEFAULT_TEXT if source.kind == TEXTS else DEFAULT)
        backbone = load_backbone(name, **self.backbone_options)
        if backbone.kind != source.kind:
            raise ValueError(
                f"the backbone {backbone.name} is for {backbone.kind}, but these are {source.kind}: name another one "
                "with --backbone, `handful backbones` lists them"
            )
        self.room(backbone.dimension)
        job.at(done, total, "computing features")
        for start in range(0, len(rows), ITEMS_PER_BLOCK):
            block = rows[start : start + ITEMS_PER_BLOCK].tolist()

            def at(n: int, _: int, before: int = done) -> None:
                job.at(before + n, total)

            embed(pile, block, backbone, at)
            done += len(block)

    def _embed_pictures(self, pile: Pile, block: list[int], backbone: Any, progress: Progress) -> None:
        from handful.backbones import embed_pictures

        items = {str(self.source.file(pile.origins[i], pile.names[i])): int(pile.ids[i]) for i in block}
        opener = self.source.opener((pile.origins[i], pile.names[i]) for i in block)
        embedded = embed_pictures(items, backbone, progress=progress, opener=opener)
        self.take_features([items[path] for path in embedded.names], embedded.features, embedded.hashes or ())
        self.skip({items[path]: reason for path, reason in embedded.skipped})

    def _embed_texts(self, pile: Pile, block: list[int], backbone: Any, progress: Progress) -> None:
        from handful.backbones import embed_texts

        assert pile.texts is not None
        embedded = embed_texts([pile.texts[i] for i in block], backbone, progress=progress)
        self.take_features(pile.ids[block].tolist(), embedded.features, embedded.hashes or ())

    def room(self, dimension: int) -> None:
        """Make room for features of this dimension.

        Parameters
        ----------
        dimension : int
            The number of features.
        """
        with self._lock:
            if self._state.pile.features.shape[1] != dimension:
                self._state = replace(self._state, pile=self._state.pile.with_room(dimension))
                self.tell()

    def take_features(self, items: Sequence[int], features: np.ndarray, hashes: Sequence[str]) -> None:
        """Keep the features of items that were embedded.

        Parameters
        ----------
        items : sequence of int
            The items.
        features : array [n, D]
            Their features.
        hashes : sequence of str
            The hashes of their content.
        """
        with self._lock:
            pile = self._state.pile
            rows = [pile.row[item] for item in items]
            pile.features[rows], pile.ready[rows] = features, True
            for row, mark in zip(rows, hashes, strict=True):
                pile.hashes[row] = mark

    def skip(self, reasons: dict[int, str]) -> None:
        """Leave out files that cannot be read. They are tried again when the project is opened again.

        Parameters
        ----------
        reasons : dict of int to str
            By item.
        """
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
            with self.store.write() as tx:
                add_items(tx, UPLOADS, names)
            state = self._state
            rows = [(item, origin, name) for item, origin, name, _, _ in self.store.items()]
            rows = [row for row in rows if row[0] not in state.pile.row]
            pile = state.pile.grown(rows, texts_of(self.source, rows)[0])
            labels = np.concatenate([state.labels, np.full(len(pile) - len(state.pile), NONE)])
            self._state = replace(
                state, pile=pile, labels=labels, row_answers=RowAnswers.of(state.run, pile, state.classes)
            )
            self.tell()
        self.worker.submit("embed", self._embed)

    # ---- in short

    @property
    def notes(self) -> Sequence[str]:
        """What was found out about a table of texts."""
        return () if self.table is None else self.table.notes

    def columns_of(self, row: int) -> dict[str, str]:
        """The other columns of an item that is a row of a table of texts.

        Parameters
        ----------
        row : int
            The place of the item in the pile.
        """
        pile = self.state.pile
        if self.table is None or pile.origins[row] != PILE:
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
        return [*tables, "coco", "fiftyone", "label-studio", "sorted"]
    return [*tables, "label-studio", *["sorted"] * (not source.is_table)]
