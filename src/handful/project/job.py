"""What to label, from what, and how: the folders or tables of a project, and the options of its first run.

A project stores its job. It may come from anyone: all of it is checked when it is read. Before a file outside of the
folder of the project is used, the user must have named it or agree to it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

from handful.core.parameters import AUTO
from handful.features import FeatureTable, concatenate
from handful.features.parts import is_sharded
from handful.project.base_files import base_parameters
from handful.project.database import FILE
from handful.project.events import Store
from handful.project.export_formats import FORMATS, check_formats
from handful.project.items import (
    EMBEDDINGS,
    PICTURES,
    TEXTS,
    Embedder,
    Progress,
    Reading,
    embedded,
    kind_of,
    lasting_options,
    load_for,
    may_hold_texts,
    of_files,
    read_both,
    read_unlabelled,
)
from handful.project.labelling import check_decision
from handful.project.sorting import SORT_WAYS
from handful.project.trust import Agree, Request, is_agreed, remember
from handful.utils.files import in_brief

OPTIONS = {
    "decision": {"method", "outlier_share", "threshold", "unknown_rate", "max_false_unknown", "precision", "fdr",
                 "group_detail"},
    "backbone_options": {"size", "mean", "std", "preset"},
    "table": {"embedding", "label", "columns", "exclude"},
}  # fmt: skip


@dataclass(frozen=True)
class Job:
    """What to label, and how."""

    examples: Path  # the folder or table; if it is the pile, all examples are what a person said of its items
    pile: Path | None = None
    decision: Mapping[str, Any] = field(default_factory=dict)  # options of `label_items`
    backbone: str = ""  # "" is the default one
    backbone_options: Mapping[str, Any] = field(default_factory=dict)
    strict: bool = False  # whether a file that cannot be read is an error
    cache: bool = True  # whether features are kept in the cache
    formats: Sequence[str] = ()  # files for other tools: "label-studio", "fiftyone", "coco"
    sort: str | None = None  # "copy" or "link": how files are sorted into folders
    results: Sequence[Path] = ()  # folders of results: files in them are not labelled
    engine: str = "local"  # or "ray": where pictures are embedded
    base: Path | None = None  # the base file that the user named
    table: Mapping[str, Any] = field(default_factory=dict)  # options of `features.read`
    unknown: Path | None = None  # examples of no class: a folder, or a table
    text: str | None = None  # the column of texts that the user named
    class_names: bool = False  # whether the name of a class is one more example of it

    @cached_property
    def kind(self) -> str:
        """What the items are: "pictures", "texts" or "embeddings"."""
        return kind_of(self.examples, self.table, self.text)

    def reading(self, **more: Any) -> Reading:
        """How its items are read; more: other fields of `Reading`."""
        own = {name: getattr(self, name) for name in ("table", "text", "strict", "cache", "results", "class_names")}
        return Reading(self.kind, **own | more)

    def read(
        self, progress: Progress, embedder: Embedder | None = None, uploads: Path | None = None
    ) -> tuple[FeatureTable, FeatureTable]:
        """Read the examples and the pile.

        embedder: embeds pictures in place of this process. uploads: the folder of files that were uploaded.
        """
        if self.kind == EMBEDDINGS:
            examples, pile = read_both(self.examples, self.pile, self.reading(), self.unknown)
            if self.base is not None:  # the user named it: it replaces the means in the tables
                examples, pile = examples.replace(base_mean=None), pile.replace(base=self.base, base_mean=None)
            return examples, pile
        net = load_for(self.kind, self.backbone, self.backbone_options)
        base = self.base or net.base
        base_parameters(self.decision.get("method", AUTO), (), base, net.dimension)  # an error before files are read
        how = self.reading(backbone=net, progress=progress, embedder=embedder)
        examples, pile = read_both(self.examples, self.pile, how, self.unknown)
        pile = with_uploads(pile, uploads, how)
        source = {**pile.source, "backbone_options": lasting_options(self.backbone_options)}
        return examples, pile.replace(source=source, base=base)


def with_uploads(pile: FeatureTable, uploads: Path | None, how: Reading) -> FeatureTable:
    """A pile of files, and the files that were uploaded to its project."""
    if uploads is None or uploads.is_symlink() or not uploads.is_dir() or not any(uploads.iterdir()):
        return pile  # a link in a project of somebody else may lead anywhere
    more = embedded(read_unlabelled(uploads, replace(how, results=(), lenient=True)), how, "pile")
    more = more.replace(paths=[f"{uploads.name}/{name}" for name in more.names], skipped=())
    return concatenate([pile, more])


# ---- stored in a project


def job_entries(job: Job) -> dict[str, Any]:
    """The entries of a job, for JSON."""
    entries: dict[str, Any] = {}
    for name in Job.__dataclass_fields__:
        value = getattr(job, name)
        entries[name] = str(value.resolve()) if isinstance(value, Path) else value
    backbone = {"backbone": _whole_path(job.backbone), "backbone_options": lasting_options(job.backbone_options)}
    return entries | backbone | {"results": [str(folder.resolve()) for folder in job.results]}


def _whole_path(backbone: str) -> str:
    """The absolute path of a backbone that is a file or a folder: the record may be read in another folder."""
    from handful.backbones.catalogue import is_built_in

    kind, colon, file = backbone.partition(":")
    if backbone.lower().endswith(".onnx") or (backbone and not is_built_in(backbone) and os.path.isdir(backbone)):
        return os.path.abspath(backbone)
    return f"{kind}:{os.path.abspath(file)}" if colon and os.path.isfile(file) else backbone


PATHS = ("examples", "pile", "base", "unknown")
TYPES: dict[str, Any] = {  # of the entries of a stored job
    "examples": str, **dict.fromkeys(PATHS[1:], str | None), "results": list,
    **dict.fromkeys(("strict", "cache", "class_names"), bool), "backbone": str, "text": str | None,
    "formats": list, "sort": str | None, "engine": str, **dict.fromkeys(OPTIONS, dict),
}  # fmt: skip
ALLOWED: dict[str, set[Any]] = {
    **OPTIONS,
    "formats": {*FORMATS},
    "sort": {None, *SORT_WAYS},
    "engine": {"local", "ray"},
}


def read_job(text: str) -> Job:
    """The job that is stored in a project; ValueError if handful did not write it."""
    try:
        entries = json.loads(text)
        entries.pop("id")
        for name, value in entries.items():
            is_valid = isinstance(value, TYPES.get(name, ())) and "\0" not in str(value)
            if name in ALLOWED:  # options of a mapping, formats of a list, or one of some words
                is_valid = is_valid and ALLOWED[name].issuperset([value] if isinstance(value, str | None) else value)
            if not is_valid:
                raise ValueError(f"the entry {in_brief(name, 40)} is not one that handful writes")
            if value is not None and name in PATHS:
                entries[name] = Path(value)
        job = Job(**entries | {"results": [*map(Path, entries["results"])]})
        check_decision(**job.decision)
        return job
    except (ValueError, TypeError, AttributeError, KeyError, OverflowError, RecursionError) as error:
        raise ValueError(f"what it says of the pile is damaged, {error}") from None


def stored_job(store: Store, folder: Path) -> tuple[Job, str]:
    """The job that a project stores, also as it is stored; ValueError if it has none."""
    text = store.meta().get("job")
    if text is None:
        raise ValueError(
            f"{in_brief(folder)} does not say what was labelled: open it in the workbench, or label the pile again"
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


# ---- whether it may be used, and fits together


def check_trust(job: Job, text: str, folder: Path, agree: Agree) -> None:
    """Raise ValueError unless the files of a stored job may be used, and are there.

    text: the job as it was stored. folder: of the project; files in it may be used. agree: called before a file outside
    of it is used that the user has not named or agreed to.
    """
    if not is_agreed("job", text) and (outside_paths := list(_outside_paths(job, folder))):
        places = ", ".join(f"{in_brief(place)} ({what})" for what, place in outside_paths[:4])
        more = f" and {len(outside_paths) - 4} more" if len(outside_paths) > 4 else ""
        sentence = f"{in_brief(folder)} was not written by a run of yours on this machine, and asks to use"
        agree(Request(f"{sentence} {places}{more}", [f"    {what}: {place!r}" for what, place in outside_paths]))
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
    places += [("examples of no class", job.unknown), *(("earlier results", place) for place in job.results)]
    yield from ((what, str(place)) for what, place in places if place is not None and not _is_within(place, folder))


def _is_within(place: Path, folder: Path) -> bool:
    """Whether a place is in a folder, also with links resolved. A path that is outside as text is not looked up."""
    return all(
        Path(whole(folder)) in (Path(whole(place)), *Path(whole(place)).parents)
        for whole in (os.path.abspath, os.path.realpath)
    )


def check_paths(job: Job, output: Path) -> None:
    """Raise an error for paths and options of a job that do not fit together, before the work begins."""
    examples, pile, unknown, kind = job.examples, job.pile, job.unknown, job.kind
    for path in filter(None, (examples, pile, unknown)):
        if not path.exists():
            raise FileNotFoundError(f"there is no file or folder {str(path)!r}")
    is_folder, is_parts = of_files(examples), pile is not None and is_sharded(pile)
    if is_folder and pile is None:
        raise ValueError(f"name the folder of {kind} to label too: handful label EXAMPLES/ PILE/")
    if kind == TEXTS:
        for path in filter(None, (pile, unknown)):
            if not may_hold_texts(path):
                raise ValueError(
                    f"{str(path)!r} holds no texts, but the examples do: give a table of texts, or a folder of .txt "
                    "files"
                )
        check_formats(job.formats, of_texts=True)
    elif pile is not None and is_folder != of_files(pile):
        raise ValueError("give two folders of pictures, or tables of embeddings, not one of each")
    elif unknown is not None and is_folder != of_files(unknown):
        what = "a folder of pictures" if is_folder else "a table"
        raise ValueError(f"--unknown {str(unknown)!r}: give {what}, as the examples are")
    files, is_remote = "files" if kind == TEXTS else "pictures", job.engine != "local"
    for option, is_wrong, reason in (
        (f"--text {job.text}:", job.text is not None and kind == PICTURES, "a folder of pictures has no texts"),
        ("--set class_names=true", job.class_names and kind != TEXTS, f"needs texts, but the items are {kind}"),
        ("--sort", job.sort is not None and not of_files(pile or examples), f"sorts {files}, but a table has none"),
        (f"--engine {job.engine}", is_remote and kind == TEXTS, "embeds pictures, but the items are texts"),
        (f"--engine {job.engine}", is_remote and not (is_folder or is_parts), "embeds pictures, but a table has none"),
    ):  # fmt: skip
        if is_wrong:
            raise ValueError(f"{option} {reason}: leave it out")
    if is_folder and examples != pile and examples.resolve() in (output.resolve(), *output.resolve().parents):
        raise ValueError(
            f"{str(output)!r} is in the folder of examples, where each folder is a class: give another folder"
        )
