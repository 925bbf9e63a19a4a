"""The record of a labelling, `results.json`: the job, and the groups of the unknowns.

`handful promote` reads it, makes classes of groups and runs the same job. The folders of examples are not changed: the
record lists the items of the pile that are examples, by name and by a hash of their content. A record may come from
anyone: all of it is checked when it is read, and `own` tells whether one of the user's own runs wrote it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import handful
from handful.core.parameters import AUTO, Number, OneOf, OrAuto
from handful.features import FeatureTable, is_sharded
from handful.project.base_files import base_parameters
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
    read_table,
)
from handful.project.labelling import Labelled
from handful.project.provenance import digest_of, is_own, new_id, remember
from handful.project.record_schema import Anything, Fields, Flag, ListOf, MapOf, Pairs, Text, find_fault, read_json
from handful.project.sorting import SORT_WAYS
from handful.project.summary import expected_numbers
from handful.project.text_items import may_hold_texts, read_texts
from handful.solving.clusters import MAX_DETAIL
from handful.solving.groups import example_count
from handful.utils.files import in_brief, printable

RECORD = "results.json"
MAX_ASKED_ITEMS = 100  # that are worth asking about
MAX_RECORD_BYTES = 2**26  # more than half a million unknown items in groups
Mark = tuple[str, str]  # an item's name, and a hash of its content

PATH_RULE = Text(is_path=True)
COUNT_RULE = Number(0, 10**9, closed=True, whole=True)
SHARE_RULE = Number(0, 1, closed=True, optional=True)
PIXEL_RULE = Number(-1000, 1000)  # a mean or a deviation of pixels
DECISION_RULES = Fields(
    {
        "method": Text(200), "outlier_share": OrAuto(0, 1), "threshold": Number(optional=True),
        "unknown_rate": SHARE_RULE, "max_false_unknown": SHARE_RULE, "precision": SHARE_RULE,
        "fdr": SHARE_RULE,
        "group_detail": Number(-MAX_DETAIL, MAX_DETAIL, closed=True),
    }
)  # fmt: skip
BACKBONE_RULES = Fields(
    {
        "size": Number(1, 4096, closed=True, whole=True),
        "mean": ListOf(PIXEL_RULE, 4),
        "std": ListOf(PIXEL_RULE, 4),
        "preset": Text(),
    }
)
NAME_RULE = Text(optional=True)
TABLE_RULES = Fields(
    {
        "embedding": NAME_RULE, "label": NAME_RULE,
        "columns": ListOf(Text(), optional=True), "exclude": ListOf(Text()),
    }
)  # fmt: skip
JOB_RULES = Fields(
    {
        "examples": PATH_RULE, "pile": Text(is_path=True, optional=True), "decision": DECISION_RULES,
        "backbone": Text(), "backbone_options": BACKBONE_RULES, "strict": Flag(), "cache": Flag(),
        "formats": ListOf(OneOf(tuple(FORMATS)), 10), "sort": OneOf((None, *SORT_WAYS)), "results": ListOf(PATH_RULE),
        "promoted": MapOf(Pairs()), "engine": OneOf(("local", "ray")), "base": Text(is_path=True, optional=True),
        "table": TABLE_RULES, "is_share_kept": Flag(), "unknown": Text(is_path=True, optional=True),
        "text": Text(optional=True), "class_names": Flag(),
    },
    {"examples", "promoted", "results"},
    optional=True,
)  # fmt: skip
GROUP_RULES = Fields(
    {
        "number": COUNT_RULE, "name": Text(), "size": COUNT_RULE, "cohesion": Number(), "items": Pairs(),
        "exemplars": ListOf(COUNT_RULE), "parts": ListOf(ListOf(COUNT_RULE), 1000),  # by their place in `items`
    },
    {"number", "size", "items"},
)  # fmt: skip
RECORD_RULES = Fields(
    {
        "handful": Text(100), "run": Text(100), "items": COUNT_RULE, "unknown": COUNT_RULE, "outlier_share": SHARE_RULE,
        "outlier_share_interval": ListOf(SHARE_RULE, 2, optional=True), "outlier_share_told": Flag(),
        "groups": ListOf(GROUP_RULES), "job": JOB_RULES, "worth_asking": ListOf(COUNT_RULE),  # rows, the best first
        "labels": MapOf(COUNT_RULE), "threshold": Anything(), "made_by": Anything(),  # of a pile in parts
        "comparison": Anything(),  # with the results before, for people
        "text_column": Text(optional=True), "without_text": COUNT_RULE,  # of labels.parquet, where items are texts
        "set_aside": COUNT_RULE, "expected_precision": Anything(), "expected_by_class": Anything(),
        "expected_in_words": Anything(), "decided": Anything(),
    },
    {"items", "unknown", "groups", "job"},
)  # fmt: skip


@dataclass(frozen=True)
class Job:
    """What to label, and how.

    Parameters
    ----------
    examples : Path
        The folder of examples, or the table.
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
    promoted : mapping of str to sequence of Mark
        Items of the pile that are examples, by class: of groups that became classes, and of corrections. "unknown"
        has the examples of no class.
    engine : {"local", "ray"}
        Where pictures are embedded.
    base : Path, optional
        The base file that the user named.
    table : mapping
        Options of `features.read`, for tables.
    is_share_kept : bool
        Whether the share of unknowns is that of earlier results, less promoted groups.
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
    results: Sequence[Path] = ()  # folders of results: pictures in them are not labelled
    promoted: Mapping[str, Sequence[Mark]] = field(default_factory=dict)
    engine: str = "local"
    base: Path | None = None  # the base file that the user named
    table: Mapping[str, Any] = field(default_factory=dict)  # options of `features.read`, for tables
    is_share_kept: bool = False  # the outlier share is that of earlier results, less promoted groups
    unknown: Path | None = None  # examples of no class: a folder of pictures, or a table
    text: str | None = None  # the column of texts that the user named
    class_names: bool = False  # whether the name of a class is one more example of it

    @cached_property
    def kind(self) -> str:
        """What the items are: "pictures", "texts" or "embeddings"."""
        return kind_of(self.examples, self.table, self.text)

    def read(
        self, progress: Progress, embedder: Embedder | None = None
    ) -> tuple[FeatureTable, FeatureTable, dict[int, str]]:
        """Read the examples and the pile, and by row the class of items of the pile that are examples too.

        Parameters
        ----------
        progress : callable
            Called with what is done, how many are done, and of how many.
        embedder : callable, optional
            Embeds the pictures in place of this process.
        """
        if self.kind == "texts":
            examples, pile = self._read_texts(progress)
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
            examples = read_examples(self.examples, net, **options)
            examples = add_unknown(examples, self.examples, self.unknown, net, **options)
            pile = read_pile(self.pile, net, without=examples.files or (), results=self.results, **options)
            source = {**pile.source, "backbone_options": lasting_options(self.backbone_options)}
            pile = pile.replace(source=source, base=base)
        return examples, pile, self.find_promoted(pile)

    def _read_texts(self, progress: Progress) -> tuple[FeatureTable, FeatureTable]:
        net = load_for(self.kind, self.backbone, self.backbone_options)
        examples, pile = read_texts(
            self.examples, self.pile, net, text=self.text, label=self.table.get("label"), unknown=self.unknown,
            results=self.results, strict=self.strict, cache=self.cache, class_names=self.class_names, progress=progress,
        )  # fmt: skip
        source = {**pile.source, "backbone_options": lasting_options(self.backbone_options)}
        return examples, pile.replace(source=source, base=self.base or net.base)

    def find_promoted(self, pile: FeatureTable) -> dict[int, str]:
        """By row the class of items of the pile that are examples too; ValueError if one has changed or is gone.

        Parameters
        ----------
        pile : FeatureTable
            The pile.
        """
        if not self.promoted:
            return {}
        places: dict[Mark, list[int]] = {}
        for i, mark in enumerate(marks(pile)):
            places.setdefault(mark, []).append(i)
        pile_labels = {}
        for name, items in self.promoted.items():
            for item in items:
                if not places.get(item):
                    now = "has changed" if item[0] in pile.names else "is gone"
                    raise ValueError(
                        f"{in_brief(printable(item[0]))}, an example of {in_brief(name)}, {now} since "
                        "the pile was labelled: put it back, or label the pile again with `handful label`"
                    )
                pile_labels[places[item].pop(0)] = name
        return pile_labels


@dataclass(frozen=True)
class Group:
    """A group of similar unknown items. order: those that stand for all come first."""

    size: int
    items: Sequence[Mark]
    order: Sequence[Mark]
    parts: Sequence[Group] = ()  # if it looks like several kinds

    def examples(self, count: int | None = None) -> Sequence[Mark]:
        """The items that become examples; count: how many at most, by default as many as its size needs."""
        return self.order[: example_count(self.size, max(1, len(self.parts))) if count is None else count]


@dataclass(frozen=True)
class Record:
    """The record in a folder of results. own: one of the user's own runs wrote it."""

    path: Path
    items: int
    unknown: int
    groups: Mapping[int, Group]
    job: Job | None
    own: bool
    set_aside: int = 0
    estimated_share: float | None = None  # of unknowns; None if the user set it
    worth_asking: Sequence[int] = ()  # rows of the items that are most worth an answer, the best first
    text_column: str | None = None  # of the table of labels, where items are texts
    without_text: int = 0  # items that are unknown because they have no text


def marks(items: FeatureTable) -> list[Mark]:
    """Name and content of each item: of the picture, or of the row of features."""
    if items.hashes is not None:
        return list(zip(items.names, items.hashes, strict=True))
    rows = (sha256(row.tobytes()).hexdigest()[:16] for row in items.features)
    return list(zip(items.names, rows, strict=True))


def record_of(labelled: Labelled, job: Job | None) -> dict[str, Any]:
    """The record of a labelled pile, for JSON. Without a job, `handful promote` cannot use it."""
    marked = marks(labelled.pile)
    groups = [
        {
            "number": group.number, "name": group.name, "size": group.size, "cohesion": group.cohesion,
            "items": [marked[i] for i in group.items],
            "exemplars": _places(group.items, group.exemplars()),
            "parts": [_places(group.items, part.exemplars(part.size)) for part in group.split()] * (group.kinds > 1),
        }
        for group in labelled.groups
    ]  # fmt: skip
    counts = {"items": len(labelled.pile), "unknown": int(labelled.unknown.sum())}
    record = {
        "handful": handful.__version__,
        "run": new_id(),
        **counts,
        **expected_numbers(labelled.expected_precision_by_class, int(labelled.set_aside.sum())),
        **labelled.share,
        "groups": groups,
        "worth_asking": labelled.ask(MAX_ASKED_ITEMS).tolist(),
        **({} if labelled.pile.texts is None else _about_texts(labelled)),
        "job": None if job is None else job_entries(job),
    }
    if labelled.comparison is not None:
        record["comparison"] = labelled.comparison.entries()
    remember(record["run"], _digest(record))
    return record


def _about_texts(labelled: Labelled) -> dict[str, Any]:
    return {"text_column": labelled.pile.source.get("text"), "without_text": len(labelled.without_text)}


def _places(items: Any, some: Any) -> list[int]:
    """Where some of the items are among all."""
    place = {item: k for k, item in enumerate(items.tolist())}
    return [place[item] for item in some.tolist()]


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


def read_record(folder: Path) -> Record:
    """Read the record in a folder of results; raise ValueError if `handful label` did not write it."""
    path = folder / RECORD
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {in_brief(folder)}: give one that `handful label` wrote")
    if not path.is_file():
        raise ValueError(
            f"{in_brief(folder)} has no {RECORD}: label the pile with this version of `handful label` first"
        )
    try:
        record = read_json(path, MAX_RECORD_BYTES)
        if fault := find_fault(record, RECORD_RULES, "the record") or _contradiction(record):
            raise ValueError(fault)
        own = is_own(record.get("run"), _digest(record))
    except ValueError as error:
        raise ValueError(f"{in_brief(path)} is damaged ({error}): label the pile again with `handful label`") from None
    groups = {group["number"]: _group(group) for group in record["groups"]}
    share = record.get("outlier_share") if record.get("outlier_share_interval") else None
    return Record(
        path, record["items"], record["unknown"], groups, _job(record["job"]), own, record.get("set_aside", 0), share,
        record.get("worth_asking", ()), record.get("text_column"), record.get("without_text", 0),
    )  # fmt: skip


def _group(entries: Mapping[str, Any]) -> Group:
    items, first = _marks(entries["items"]), entries.get("exemplars", ())
    rest = sorted(set(range(len(items))) - set(first))
    parts = [[items[k] for k in places] for places in entries.get("parts", ())]
    return Group(entries["size"], items, [items[k] for k in (*first, *rest)], [Group(len(p), p, p) for p in parts])


def _contradiction(record: Mapping[str, Any]) -> str | None:
    """What is wrong with entries that are valid alone but contradict each other; None if nothing is."""
    groups = record["groups"]
    if [group["number"] for group in groups] != [*range(1, len(groups) + 1)]:
        return "the groups are not numbered 1, 2, ..."
    if any(group["size"] < 1 or group["size"] != len(group["items"]) for group in groups):
        return "a group's size is not the number of its items"
    for group in groups:
        parts = group.get("parts", ())
        places = [place for part in parts for place in part]
        for name, some in (("exemplars", group.get("exemplars", ())), ("parts", places)):
            if len(set(some)) != len(some) or any(place >= group["size"] for place in some):
                return f"the {name} of a group are not items of it"
        if parts and (len(parts) < 2 or not all(parts) or len(places) != group["size"]):
            return "the parts of a group are not all of it"
    asked = record.get("worth_asking", ())
    if len(set(asked)) != len(asked) or any(row >= record["items"] for row in asked):
        return "the items that are worth asking about are not items of the pile"
    likely_unknown = record["unknown"] - record.get("set_aside", 0) - record.get("without_text", 0)
    if not sum(group["size"] for group in groups) <= likely_unknown <= record["unknown"] <= record["items"]:
        return "more items are in groups than unknown, or more are unknown than there are"
    return None


def _job(entries: Mapping[str, Any] | None) -> Job | None:
    if entries is None:
        return None
    paths = {name: entries.get(name) and Path(entries[name]) for name in ("examples", "pile", "base", "unknown")}
    promoted = {name: _marks(items) for name, items in entries["promoted"].items()}
    return Job(**{**entries, **paths, "promoted": promoted, "results": [Path(place) for place in entries["results"]]})


def _digest(record: Mapping[str, Any]) -> str:
    """A hash of the entries, independent of how the file is formatted."""
    try:
        return digest_of(json.dumps(record, sort_keys=True).encode("ascii"))
    except RecursionError:
        raise ValueError("its entries are nested too deeply") from None


def _marks(items: Sequence[Sequence[str]]) -> list[Mark]:
    return [(name, mark) for name, mark in items]


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
    if of_files(examples) and examples.resolve() in (output.resolve(), *output.resolve().parents):
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


def next_results(results: Path) -> Path:
    """The folder for results that follow others: out -> out-2 -> out-3, the first that does not exist."""
    whole = results.absolute()
    stem, _, last = whole.name.rpartition("-")
    stem, number = (stem, int(last)) if stem and last.isdecimal() else (whole.name, 1)
    while (place := results.parent / f"{stem}-{number + 1}").exists() or place.absolute() == whole:
        number += 1
    return place
