"""A project: a folder with a pile, what a person said of its items, and the answers computed from both.

The folder holds `project.sqlite`, which stores the job, what was said and the runs, and the outputs (labels.csv,
report.html, ...), which are made again by `label`. The command line and Python use `Project`; the workbench keeps the
same folder open with `handful.project.live`.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import fields, replace
from errno import ENOSPC
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np

from handful.features import FeatureTable
from handful.project.corrections import clean_label
from handful.project.database import FILE, SIDECARS, NotWritten, claim, explained
from handful.project.events import Store
from handful.project.items import Embedder, Progress, silent
from handful.project.job import OPTIONS, Job, check_paths, check_trust, remember_job, stored_job
from handful.project.labelling import Labelled, label_items
from handful.project.loading import item_places, place_items
from handful.project.outputs import SORTED_FOLDER, check_output, marks, need_project
from handful.project.outputs import write_outputs as write_files
from handful.project.pile import PILE, UPLOADS
from handful.project.promotion import promote, share_after
from handful.project.runs import Run, run_of
from handful.project.sitting import Question, Sitting
from handful.project.trust import Agree, refuse
from handful.solving.check import Checked
from handful.solving.groups import check_examples
from handful.utils.files import in_brief, printable

MAX_LISTED_ITEMS = 3  # items that an error names
Options = dict[str, Any]  # of `label_items`
REPORT = "report.html"


class Project:
    """A pile, what a person said of its items, and the answers: all in one folder.

    Parameters
    ----------
    folder : str or Path
        The folder, which `handful label -o` and this class write, and `handful workbench` opens.
    examples, pile : str or Path, optional
        For a new project: the folders of examples and of items to label, or tables, as for `handful label`. A project
        that exists knows them.
    agree : callable
        Called before files are used that a project of somebody else names. By default nobody agrees.
    **options
        For a new project: options of `label_items` (method, outlier_share, precision, ...), of `features.read` for
        tables (label, embedding, ...), and those of `handful label`: backbone, base, unknown, text, class_names,
        formats, sort, strict, cache and engine.

    Examples
    --------
    >>> import handful
    >>> from tempfile import mkdtemp
    >>> from handful.features import practice
    >>> folder = Path(mkdtemp())
    >>> _ = practice("embeddings", folder)
    >>> project = handful.Project(folder / "out", examples=folder / "table.csv")
    >>> labelled = project.label()
    >>> question = project.ask(1)[0]
    >>> project.say({question.name: "unknown"})
    >>> project.undo()
    '1 item labelled'
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        examples: str | os.PathLike[str] | None = None,
        pile: str | os.PathLike[str] | None = None,
        *,
        agree: Agree = refuse,
        **options: Any,
    ) -> None:
        self.folder, self._agree = Path(folder), agree
        self.files: dict[str, Path] = {}
        self._new: Job | None = None
        new = None if examples is None else _job_of(Path(examples), pile, options, self.folder)
        if not (self.folder / FILE).is_file():
            if new is None:
                need_project(self.folder)
            self._new = new
            return
        if new is None and (options or pile is not None):
            raise ValueError(f"{in_brief(self.folder)} is a project already: leave its options out to go on with it")
        stored = self.job
        if new is not None and [new.examples.resolve(), new.pile and new.pile.resolve()] != [
            stored.examples.resolve(), stored.pile and stored.pile.resolve()
        ]:  # fmt: skip
            raise ValueError(
                f"{in_brief(self.folder)} is a project of {in_brief(stored.pile or stored.examples)}: give another "
                "folder"
            )

    def __repr__(self) -> str:
        return f"Project({str(self.folder)!r})"

    @classmethod
    def of_job(cls, folder: Path, job: Job) -> Project:
        """A new project of a job, which replaces one that is in the folder when it is labelled."""
        self = cls.__new__(cls)
        self.folder, self._agree, self.files, self._new = folder, refuse, {}, job
        return self

    @property
    def job(self) -> Job:
        """What is labelled, and how."""
        if self._new is not None:
            return self._new
        with closing(self._open()) as store:
            return stored_job(store, self.folder)[0]

    def check_trust(self) -> None:
        """Ask for agreement, where it is needed, before the files of a project of somebody else are used."""
        with closing(self._open()) as store:
            job, text = stored_job(store, self.folder)
        check_trust(job, text, self.folder, self._agree)

    # ---- what a person says

    def say(self, labels: Mapping[str, str | None], *, checking: bool = False) -> None:
        """Say what items are. It is stored at once, and the next `label` uses it.

        Parameters
        ----------
        labels : mapping of str to str or None
            By the name of an item, as in labels.csv: its class, which may be new; "unknown" if it belongs to none; None
            for no label or, if it is checked, for a label that is wrong.
        checking : bool
            Whether these are answers to `check`: they measure how many labels are right. The next `label` uses them
            as examples too.
        """
        with closing(Sitting(self.folder, "check" if checking else "ask")) as sitting:
            numbers = {name: item for item, name in sitting.names.items()}
            if missing := [name for name in labels if name not in numbers]:
                raise _not_in_pile(missing)
            clean = {name: None if label is None else clean_label(str(label), name) for name, label in labels.items()}
            sitting.say({numbers[name]: label for name, label in clean.items()})

    def undo(self) -> str:
        """Take back what was said last, and the runs after it; return what it was. `label` gives the answers again."""
        with closing(self._open()) as store:
            return store.undo_last_said()

    # ---- questions

    def ask(self, count: int = 5) -> list[Question]:
        """The items that are most worth an answer from a person; give the answers to `say`.

        Parameters
        ----------
        count : int
            How many at most.
        """
        with closing(Sitting(self.folder, "ask")) as sitting:
            return sitting.questions(count)

    def check(self, count: int = 10) -> list[Question]:
        """A fair sample of items to look at; give the answers to `say(..., checking=True)`, then see `checked`.

        Parameters
        ----------
        count : int
            How many at most.
        """
        with closing(Sitting(self.folder, "check")) as sitting:
            return sitting.questions(count)

    @property
    def checked(self) -> Checked:
        """How many labels are right, by the answers to `check`."""
        with closing(Sitting(self.folder, "check")) as sitting:
            return sitting.checked

    # ---- answers

    def label(
        self,
        *,
        output: Path | None = None,
        corrections: Mapping[str, str] | None = None,
        unknown: Path | None = None,
        formats: Sequence[str] = (),
        sort: str | None = None,
        embedder: Embedder | None = None,
        progress: Progress = silent,
    ) -> Labelled:
        """Label the pile by all that was said, and write the outputs.

        Parameters
        ----------
        output : Path, optional
            Another folder, which becomes a project of its own; this one does not change.
        corrections : mapping of str to str, optional
            By the name of an item, its right class.
        unknown : Path, optional
            Examples of no class.
        formats : sequence of str
            Exports for other tools; by default those of before.
        sort : {"copy", "link"}, optional
            How files are sorted into folders; by default as before, if there are sorted files.
        embedder : callable, optional
            Embeds pictures in place of this process.
        progress : callable
            Called with what is done, how many are done, and of how many.

        Returns
        -------
        Labelled
            The answers. `files` of the project are what was written.
        """

        def say(store: Store, run: Run | None) -> Options:
            if run is not None:  # the answers to its check are examples, and undone with the run that follows
                checks = store.usable_checks(run.id)
                store.label(checks, "labelled by the check, for the next run", for_a_run=True)
            return {}

        return self._run(say, corrections or {}, embedder, progress, output, sort, unknown, formats)

    def promote(
        self,
        names: Mapping[int | str, str],
        *,
        examples: int | None = None,
        join: bool = False,
        outlier_share: float | str | None = None,
        output: Path | None = None,
        sort: str | None = None,
        embedder: Embedder | None = None,
        progress: Progress = silent,
    ) -> Labelled:
        """Make classes of groups of unknowns, and label the pile again.

        Parameters
        ----------
        names : mapping of int or str to str
            The new classes by the numbers of the groups, as in {2: "mushroom"}; "2.1" is the first kind in group 2.
        examples : int, optional
            How many items of a group become examples. Those that together stand for all come first. By default a third
            of it, at least 5 and at most 100; if it looks like two kinds two thirds, if like more all.
        join : bool
            Whether a name may be that of a class that exists: the group is added to it.
        outlier_share : float or "auto", optional
            The share of unknowns. By default, the share of before is lowered by that of the promoted groups; "auto"
            estimates it again.
        output, sort, embedder, progress
            As for `label`.

        Returns
        -------
        Labelled
            The answers; `warnings` say what has changed more than the promotion explains.
        """
        check_examples(examples)

        def say(store: Store, run: Run | None) -> Options:
            if run is None or not run.facts["groups"]:
                raise ValueError(
                    f"the unknowns of {in_brief(self.folder)} form no groups: there is no group to make a class of"
                )
            count = promote(store, run, names, examples, join)
            decision = {**stored_job(store, self.folder)[0].decision, **run.facts["decision"]}
            shares, is_estimated = share_after(store, run, decision, count)
            if outlier_share is not None:
                return shares | {"outlier_share": outlier_share, "share_kept": False}
            return shares | ({"share_kept": True} if is_estimated else {})

        return self._run(say, {}, embedder, progress, output, sort)

    def report(self) -> Path:
        """The report of the answers, `report.html`; it is made again if it is not there."""
        path = self.folder / REPORT
        if not path.is_file():
            self.label()
        return path

    # ---- inside

    def _open(self) -> Store:
        need_project(self.folder)
        return Store(self.folder)

    def _run(
        self,
        say: Callable[[Store, Run | None], Options],
        corrections: Mapping[str, str],
        embedder: Embedder | None,
        progress: Progress,
        output: Path | None = None,
        sort: str | None = None,
        unknown: Path | None = None,
        formats: Sequence[str] = (),
    ) -> Labelled:
        """Label the pile. What `say` and the corrections say is stored with the answers, or nothing is.

        say: returns options of `label_items`, and "share_kept": whether the outlier share is that of before, less
        promoted groups.
        """
        place = self.folder if output is None else output
        in_place = self._new is None and place.absolute() == self.folder.absolute()
        with ExitStack() as stack:
            store = stack.enter_context(closing(self._open() if in_place else self._copy()))
            transaction = stack.enter_context(ExitStack())
            transaction.enter_context(explained(store.path, writing=True))
            transaction.enter_context(store.write())
            job, text = (self._new, "") if self._new is not None else stored_job(store, self.folder)
            before = store.run()
            options = say(store, before)
            if text:
                check_trust(job, text, self.folder, self._agree)
            if sort is None and (not text or (in_place and (place / SORTED_FOLDER).is_dir())):
                sort = job.sort
            results = [*job.results, *([] if place in job.results else [place])]
            job = replace(
                job, results=results, formats=formats or job.formats, sort=sort, unknown=unknown or job.unknown
            )
            check_paths(job, place)
            check_output(place, True, job.formats, job.sort)
            remember_job(store, job, text)
            earlier = {} if before is None else before.facts
            share_kept = options.pop("share_kept", earlier.get("share_kept", False))
            decision = {**job.decision, **earlier.get("decision", {}), **options}
            tables = job.read(progress, embedder, self.folder / UPLOADS)
            labelled, run = _solve(store, replace(job, decision=decision), *tables, corrections)
            labelled.is_share_kept = share_kept
            store.add_run(run.grouped({}, share_kept=share_kept))

            def keep(scratch: Path) -> None:
                transaction.close()  # what was said and the answers are on the disk, before the outputs are moved
                if not in_place:
                    _put_into(store, scratch, place, stack)
                    if self._new is None and (self.folder / UPLOADS).is_dir():
                        copytree(self.folder / UPLOADS, scratch / UPLOADS, symlinks=True)

            view = replace(job, decision=decision)
            self.files = write_files(
                labelled, place, formats=job.formats, sort=job.sort, job=view, progress=progress, before_move=keep
            )
        self._new = None
        return labelled

    def _copy(self) -> Store:
        """A store in memory: new, or with all that this project has."""
        if self._new is not None:
            return Store(None)
        with closing(self._open()) as own:
            return Store(None, own)


def _solve(
    store: Store, job: Job, examples: FeatureTable, pile: FeatureTable, corrections: Mapping[str, str]
) -> tuple[Labelled, Run]:
    """Label the items of a job by what was said, corrections too."""
    labels_of_all = [*map(str, examples.label_names), *[None] * len(pile)]
    all_ids = place_items(store, item_places(job, examples, pile), labels_of_all)
    example_ids, ids = all_ids[: len(examples)], all_ids[len(examples) :]
    row_of = {item: row for row, item in enumerate(ids.tolist())}
    marks_now = dict(zip(row_of, marks(pile), strict=True))
    corrected = _say_corrections(store, corrections, [printable(name) for name in pile.names], ids)
    before, labels, names = store.run(), store.said.labels, store.said.names()
    _check_examples(store, labels.keys() - corrected, marks_now)
    is_example = np.array([item in labels for item in example_ids.tolist()], bool)
    examples = examples.take(is_example).replace(labels=[names[labels[item]] for item in example_ids[is_example]])
    pile_labels = {row: names[labels[item]] for item, row in row_of.items() if item in labels}
    store.describe_items({item: (printable(name), mark) for item, (name, mark) in marks_now.items()})
    if (column := pile.source.get("text")) is not None:
        store.meta(text_column=str(column))
    labelled = label_items(examples, pile, pile_labels=pile_labels, **job.decision)
    detail = float(job.decision.get("group_detail", 0.0))
    return labelled, run_of(labelled, ids, store.said, before, decision=dict(job.decision), detail=detail)


def _say_corrections(store: Store, corrections: Mapping[str, str], names: Sequence[str], ids: np.ndarray) -> set[int]:
    """Say what corrections of items of the pile say; return these items."""
    items: dict[str, list[int]] = {}
    for name, item in zip(names, ids.tolist(), strict=True):
        items.setdefault(name, []).append(item)
    if missing := [name for name in corrections if name not in items]:
        raise _not_in_pile(missing)
    labels = {item: label for name, label in corrections.items() for item in items[name]}
    store.say(labels)
    return {*labels}


def _not_in_pile(missing: Sequence[str]) -> ValueError:
    some = ", ".join(in_brief(item) for item in missing[:MAX_LISTED_ITEMS])
    more = f" and {len(missing) - MAX_LISTED_ITEMS} more" if len(missing) > MAX_LISTED_ITEMS else ""
    are = "is" if len(missing) == 1 else "are"
    return ValueError(
        f"{some}{more}, which the corrections name, {are} not in the pile: items are named by the column path of "
        "labels.csv; give the corrections of this pile"
    )


def _check_examples(store: Store, examples: set[int], marks_now: Mapping[int, tuple[str, str]]) -> None:
    """Raise ValueError if an item that a person made an example has changed or is gone."""
    labels, names = store.said.labels, store.said.names()
    for item, (origin, title, _, mark, came_as) in store.item_facts().items():
        if item not in examples or origin != PILE or came_as is not None:
            continue
        if item not in marks_now or (mark is not None and mark != marks_now[item][1]):
            now = "has changed" if item in marks_now else "is gone"
            raise ValueError(
                f"{in_brief(title)}, an example of {in_brief(names[labels[item]])}, {now} since "
                "the pile was labelled: put it back, or label the pile again with `handful label`"
            )


def _job_of(examples: Path, pile: Any, options: Mapping[str, Any], folder: Path) -> Job:
    """The job that the arguments of `Project` describe."""
    from handful.backbones.catalogue import concrete_name
    from handful.project.items import default_backbone

    parts: dict[str, dict[str, Any]] = {"decision": {}, "table": {}}
    own: dict[str, Any] = {}
    names = {field.name for field in fields(Job)}
    for name, value in options.items():
        part = next((part for part in parts if name in OPTIONS[part]), None)
        if part is not None:
            parts[part][name] = value
        elif name in names:
            own[name] = Path(value) if name in ("base", "unknown") and value is not None else value
        else:
            raise TypeError(f"there is no option {name!r}: see the options of `handful label`")
    if not isinstance(own.get("backbone", ""), str):
        raise TypeError("a project stores the name of its backbone, so that it can go on: give the name of one")
    job = Job(examples, None if pile is None else Path(pile), **{**own, **parts, "results": [folder]})
    return replace(job, backbone=concrete_name(job.backbone or default_backbone(job.kind)))


def _put_into(store: Store, scratch: Path, folder: Path, stack: ExitStack) -> None:
    """Put the file of a new project among the outputs, in place of that of a project that is replaced."""
    try:
        with closing(sqlite3.connect(scratch / FILE)) as copy:
            store.copy_to(copy)
            copy.execute("PRAGMA journal_mode=WAL")  # as it is when it is opened
    except sqlite3.Error as error:
        raise OSError(ENOSPC, f"the results were not written: {error}", str(folder)) from None
    try:
        own = claim(folder)  # no other process has the old one open
        stack.callback(own.close)
    except NotWritten:  # some network drives have no locks
        if (folder / FILE).exists():
            raise
    for end in SIDECARS:
        with suppress(FileNotFoundError):
            (folder / f"{FILE}{end}").unlink()
