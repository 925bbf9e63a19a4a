"""What to label, from what, and how: the folders or tables of a project, and the options of its first run.

A project stores its job. It may come from anyone: all of it is checked when it is read. Before a file outside of the
folder of the project is used, the user must have named it or agree to it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

from handful.core.parameters import AUTO
from handful.features import FeatureTable, concatenate, is_sharded
from handful.project.base_files import base_parameters
from handful.project.database import FILE
from handful.project.decision import check_decision
from handful.project.exports import FORMATS, check_formats
from handful.project.items import (
    Embedder,
    Progress,
    add_unknown,
    kind_of,
    lasting_options,
    load_for,
    of_files,
    read_examples,
    read_pile,
    read_pile_table,
    read_table,
)
from handful.project.said import Store
from handful.project.sorting import SORT_WAYS
from handful.project.text_items import TextSource, embed_items, may_hold_texts, read_text_pile, read_texts
from handful.project.trust import Agree, Request, is_agreed, remember
from handful.utils.files import in_brief

MAX_LISTED_PATHS = 20  # paths that the question to the user lists
MAX_PATH_BYTES = 4096
PATHS = ("examples", "pile", "base", "unknown")
TYPES: dict[str, tuple[type, ...]] = {  # of the entries of a stored job
    "examples": (str,), "pile": (str, type(None)), "base": (str, type(None)), "unknown": (str, type(None)),
    "decision": (dict,), "backbone": (str,), "backbone_options": (dict,), "strict": (bool,), "cache": (bool,),
    "formats": (list,), "sort": (str, type(None)), "results": (list,), "engine": (str,), "table": (dict,),
    "text": (str, type(None)), "class_names": (bool,),
}  # fmt: skip
OPTIONS = {
    "decision": {"method", "outlier_share", "threshold", "unknown_rate", "max_false_unknown", "precision", "fdr",
                 "group_detail"},
    "backbone_options": {"size", "mean", "std", "preset"},
    "table": {"embedding", "label", "columns", "exclude"},
}  # fmt: skip


@dataclass(frozen=True)
class Job:
    """What to label, and how.

    Parameters
    ----------
    examples : Path
        The folder of examples, or the table. If it is the pile, all examples are what a person said of its items.
    pile : Path, optional
        The folder or table of the pile.
    decision : mapping
        Options of `label_items`.
    backbone : str
        The name of the backbone; "" is the default one.
    backbone_options : mapping
        Options of `load_backbone`.
    strict : bool
        Whether a file that cannot be read is an error.
    cache : bool
        Whether features are kept in the cache.
    formats : sequence of str
        Files to write for other tools: "label-studio", "fiftyone", "coco".
    sort : str, optional
        "copy" or "link": how files are sorted into folders.
    results : sequence of Path
        Folders of results. Files in them are not labelled.
    engine : {"local", "ray"}
        Where pictures are embedded.
    base : Path, optional
        The base file that the user named.
    table : mapping
        Options of `features.read`, for tables.
    unknown : Path, optional
        Examples of no class: a folder of pictures, or a table.
    text : str, optional
        The column of texts that the user named.
    class_names : bool
        Whether the name of a class is one more example of it.
    """

    examples: Path
    pile: Path | None = None
    decision: Mapping[str, Any] = field(default_factory=dict)
    backbone: str = ""
    backbone_options: Mapping[str, Any] = field(default_factory=dict)
    strict: bool = False
    cache: bool = True
    formats: Sequence[str] = ()
    sort: str | None = None
    results: Sequence[Path] = ()
    engine: str = "local"
    base: Path | None = None
    table: Mapping[str, Any] = field(default_factory=dict)
    unknown: Path | None = None
    text: str | None = None
    class_names: bool = False

    @cached_property
    def kind(self) -> str:
        """What the items are: "pictures", "texts" or "embeddings"."""
        return kind_of(self.examples, self.table, self.text)

    def read(
        self, progress: Progress, embedder: Embedder | None = None, uploads: Path | None = None
    ) -> tuple[FeatureTable, FeatureTable]:
        """Read the examples and the pile.

        Parameters
        ----------
        progress : callable
            Called with what is done, how many are done, and of how many.
        embedder : callable, optional
            Embeds the pictures in place of this process.
        uploads : Path, optional
            A folder of pictures that belong to the pile too.
        """
        if self.kind == "texts":
            examples, pile = self._read_texts(progress)
        elif self.kind == "embeddings" and self.examples == self.pile:
            pile = read_pile_table(self.pile, None, self.table)
            examples = no_rows(pile)
        elif self.kind == "embeddings":
            examples, pile = read_table(self.examples, self.pile, self.table)
            examples = add_unknown(examples, self.examples, self.unknown, options=self.table)
            if self.base is not None:  # the user named it: it replaces the means in the tables
                examples, pile = examples.replace(base_mean=None), pile.replace(base=self.base, base_mean=None)
        else:
            assert self.pile is not None
            options: dict[str, Any] = {
                "progress": progress, "strict": self.strict, "cache": self.cache, "embedder": embedder,
            }  # fmt: skip
            net = load_for(self.kind, self.backbone, self.backbone_options)
            base = self.base or net.base
            base_parameters(
                self.decision.get("method", AUTO), (), base, net.dimension
            )  # raises an error before pictures are read
            shown = None if self.examples == self.pile else read_examples(self.examples, net, **options)
            if shown is not None:
                shown = add_unknown(shown, self.examples, self.unknown, net, **options)
            without = () if shown is None else shown.files or ()
            pile = read_pile(self.pile, net, without=without, results=self.results, **options)
            examples = no_rows(pile) if shown is None else shown
            if uploads is not None:
                more = read_pile(uploads, net, **options)
                more = more.replace(paths=[f"{uploads.name}/{name}" for name in more.names], skipped=())
                pile = concatenate([pile, more])
            pile = self._with_source(pile, net)
        return examples, pile

    @property
    def text_source(self) -> TextSource:
        """How tables and files of texts are read."""
        return TextSource(self.text, self.table.get("label"), self.strict)

    def _read_texts(self, progress: Progress) -> tuple[FeatureTable, FeatureTable]:
        net = load_for(self.kind, self.backbone, self.backbone_options)
        if self.examples == self.pile:
            pile = read_text_pile(self.pile, self.text_source, "texts to label", results=self.results)
            pile = embed_items(pile, net, "pile", progress, self.cache)
            return no_rows(pile), self._with_source(pile, net)
        examples, pile = read_texts(
            self.examples, self.pile, net, text=self.text, label=self.table.get("label"), unknown=self.unknown,
            results=self.results, strict=self.strict, cache=self.cache, class_names=self.class_names, progress=progress,
        )  # fmt: skip
        return examples, self._with_source(pile, net)

    def _with_source(self, pile: FeatureTable, net: Any) -> FeatureTable:
        source = {**pile.source, "backbone_options": lasting_options(self.backbone_options)}
        return pile.replace(source=source, base=self.base or net.base)


def no_rows(items: FeatureTable) -> FeatureTable:
    """A table of the same kind with labels and without rows."""
    return items.take([]).replace(labels=[], skipped=(), notes=())


def job_entries(job: Job) -> dict[str, Any]:
    """The entries of a job, for JSON."""
    own = {name: getattr(job, name) for name in Job.__dataclass_fields__}
    folders = {"examples": job.examples, "pile": job.pile, "base": job.base, "unknown": job.unknown}
    paths = {name: None if path is None else str(path.resolve()) for name, path in folders.items()}
    results = [str(folder.resolve()) for folder in job.results]
    backbone = {"backbone": _whole_path(job.backbone), "backbone_options": lasting_options(job.backbone_options)}
    return own | paths | {"results": results, **backbone}


def _whole_path(backbone: str) -> str:
    """The absolute path of a backbone that is a file or a folder: the record may be read in another folder."""
    from handful.backbones.catalogue import is_built_in

    kind, colon, file = backbone.partition(":")
    if backbone.lower().endswith(".onnx") or (backbone and not is_built_in(backbone) and os.path.isdir(backbone)):
        return os.path.abspath(backbone)
    return f"{kind}:{os.path.abspath(file)}" if colon and os.path.isfile(file) else backbone


def read_job(text: str) -> Job:
    """The job that is stored in a project; ValueError if handful did not write it."""
    try:
        entries = json.loads(text)
        entries.pop("id")
        _check_entries(entries)
        job = Job(**{name: _path(name, value) for name, value in entries.items()})
        check_decision(**job.decision)
        return job
    except (ValueError, TypeError, AttributeError, KeyError, OverflowError, RecursionError) as error:
        raise ValueError(f"what it says of the pile is damaged, {error}") from None


def stored_job(store: Store, folder: Path) -> tuple[Job, str]:
    """The job that a project stores, also as it is stored; ValueError if it has none."""
    text = store.meta().get("job")
    if text is None:
        raise ValueError(
            f"{in_brief(folder)} does not say what was labelled: it is a project that the workbench made; open it there"
        )
    try:
        return read_job(text), text
    except ValueError as error:
        raise ValueError(f"{in_brief(folder / FILE)} cannot be used: {error}") from None


def remember_job(store: Store, job: Job, text: str) -> None:
    """Store a job that has changed. The user has named its files, or has agreed to them."""
    entries = job_entries(job)
    if text and {**entries, "id": ""} == {**json.loads(text), "id": ""}:
        return
    text = json.dumps({**entries, "id": uuid4().hex})
    store.meta(job=text)
    remember("job", text)


def _check_entries(entries: Mapping[str, Any]) -> None:
    for name, value in entries.items():
        if name not in TYPES or type(value) not in TYPES[name]:
            raise ValueError(f"the entry {in_brief(name, 40)} is not one that handful writes")
        if name in OPTIONS and not value.keys() <= OPTIONS[name]:
            raise ValueError(f"an option of {name} is not one that handful writes")
    paths = [*entries["results"], *(entries[name] for name in PATHS if entries[name] is not None)]
    for path in paths:
        if not isinstance(path, str) or not 0 < len(os.fsencode(path)) <= MAX_PATH_BYTES or "\0" in path:
            raise ValueError("a path in it is none")
    if entries["sort"] not in (None, *SORT_WAYS) or entries["engine"] not in ("local", "ray"):
        raise ValueError("its sort or its engine is not one that handful has")
    if not all(name in FORMATS for name in entries["formats"]):
        raise ValueError("its exports are not those that handful has")


def _path(name: str, value: Any) -> Any:
    if name == "results":
        return [Path(path) for path in value]
    return Path(value) if name in PATHS and value is not None else value


def check_trust(job: Job, text: str, folder: Path, agree: Agree) -> None:
    """Raise ValueError unless the files of a stored job may be used, and are there.

    Parameters
    ----------
    job : Job
        What was stored.
    text : str
        The same as it was stored.
    folder : Path
        The folder of the project. Files in it may be used.
    agree : callable
        Called before a file outside of the folder is used that the user has not named or agreed to.
    """
    if not is_agreed("job", text) and (outside_paths := list(_outside_paths(job, folder))):
        places = ", ".join(f"{in_brief(place)} ({what})" for what, place in outside_paths[:4])
        more = f" and {len(outside_paths) - 4} more" if len(outside_paths) > 4 else ""
        details = [f"    {what}: {place!r}" for what, place in outside_paths[:MAX_LISTED_PATHS]]
        if len(outside_paths) > MAX_LISTED_PATHS:
            details.append(f"    and {len(outside_paths) - MAX_LISTED_PATHS} more")
        agree(
            Request(
                f"{in_brief(folder)} was not written by a run of yours on this machine, and asks to use {places}{more}",
                details,
            )
        )
        remember("job", text)
    for path in filter(None, (job.examples, job.pile, job.base, job.unknown)):
        if not path.exists():
            raise FileNotFoundError(f"{in_brief(path)}, which these results were made from, is gone: put it back")


def _outside_paths(job: Job, folder: Path) -> Iterator[tuple[str, str]]:
    """The paths of a job that are outside the folder of the project, each with what it is.

    A backbone that is a file, or that is downloaded, is always listed: it is a program that will be run.
    """
    from handful.backbones.catalogue import is_built_in

    if job.backbone and not is_built_in(job.backbone):
        yield "backbone", job.backbone
    places = [("examples", job.examples), ("pile", job.pile), ("base file", job.base)]
    places.append(("examples of no class", job.unknown))
    places += [("earlier results", place) for place in job.results]
    yield from ((what, str(place)) for what, place in places if place is not None and not _is_within(place, folder))


def _is_within(place: Path, folder: Path) -> bool:
    """Whether a place is in a folder, also with links resolved. A path that is outside as text is not looked up."""
    for whole in (os.path.abspath, os.path.realpath):
        here, there = Path(whole(folder)), Path(whole(place))
        if here not in (there, *there.parents):
            return False
    return True


def check_paths(job: Job, output: Path) -> None:
    """Raise an error for paths and options of a job that do not fit together, before the work begins."""
    examples, pile, unknown = job.examples, job.pile, job.unknown
    for path in filter(None, (examples, pile, unknown)):
        if not path.exists():
            raise FileNotFoundError(f"there is no file or folder {str(path)!r}")
    kind = job.kind
    if of_files(examples) and pile is None:
        raise ValueError(f"name the folder of {kind} to label too: handful label EXAMPLES/ PILE/")
    if kind == "texts":
        _check_texts(job)
    else:
        is_folder = of_files(examples)
        if pile is not None and is_folder != of_files(pile):
            raise ValueError("give two folders of pictures, or tables of embeddings, not one of each")
        if unknown is not None and is_folder != of_files(unknown):
            what = "a folder of pictures" if is_folder else "a table"
            raise ValueError(f"--unknown {str(unknown)!r}: give {what}, as the examples are")
        if job.text is not None:
            raise ValueError(f"--text {job.text}: a folder of pictures has no column of texts: leave it out")
        if job.class_names:
            raise ValueError(f"--class-names needs texts, but the items are {kind}: leave it out")
        if job.sort is not None and not is_folder:
            raise ValueError("--sort sorts pictures, but a table has none: leave it out")
        if job.engine != "local" and not is_folder and (pile is None or not is_sharded(pile)):
            raise ValueError(f"--engine {job.engine} embeds pictures, but a table has none: leave it out")
    if of_files(examples) and examples != pile and examples.resolve() in (output.resolve(), *output.resolve().parents):
        raise ValueError(
            f"{str(output)!r} is in the folder of examples, where each folder is a class: give another folder"
        )


def _check_texts(job: Job) -> None:
    for path in filter(None, (job.pile, job.unknown)):
        if not may_hold_texts(path):
            raise ValueError(
                f"{str(path)!r} holds no texts, but the examples do: give a table of texts, or a folder of .txt files"
            )
    if job.sort is not None and not of_files(job.pile or job.examples):
        raise ValueError("--sort sorts files, but the texts are in a table: leave it out")
    if job.engine != "local":
        raise ValueError(f"--engine {job.engine} embeds pictures, but the items are texts: leave it out")
    check_formats(job.formats, of_texts=True)
