"""The record of a labelling, `results.json`: what was asked, and the groups of the unknowns.

`handful promote` reads it, makes classes of groups and runs the same job. The folders of examples are not touched:
which items of the pile are examples stands in the record, by name and by a mark of their content. A record may come
from anyone: all of it is checked when it is read, and `own` says whether a run of the user's own wrote it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import handful
from handful.core.parameters import AUTO, Number, OneOf, OrAuto
from handful.features import FeatureTable
from handful.label.base_files import told_of_base
from handful.label.exports import FORMATS
from handful.label.items import Embedder, Progress, of_pictures, read_examples, read_pile, read_table
from handful.label.labelling import Labelled
from handful.label.provenance import digest_of, is_own, new_id, remember
from handful.label.record_schema import Anything, Fields, Flag, ListOf, MapOf, Pairs, Text, find_fault, read_json
from handful.label.sorting import WAYS
from handful.utils.files import in_brief, printable

RECORD = "results.json"
MAX_RECORD_BYTES = 2**26  # more than half a million unknown items in groups
Mark = tuple[str, str]  # an item's name, and a mark of its content

PATH = Text(is_path=True)
COUNT = Number(0, 10**9, closed=True, whole=True)
SHARE = Number(0, 1, closed=True, optional=True)
PIXEL = Number(-1000, 1000)  # a mean or a deviation of pixels
DECISION = Fields(
    {
        "method": Text(200), "outlier_share": OrAuto(0, 1), "threshold": Number(optional=True),
        "unknown_rate": SHARE, "max_false_unknown": SHARE,
    }
)  # fmt: skip
BACKBONE_OPTIONS = Fields(
    {"size": Number(1, 4096, closed=True, whole=True), "mean": ListOf(PIXEL, 4), "std": ListOf(PIXEL, 4)}
)
NAME = Text(optional=True)
TABLE = Fields({"embedding": NAME, "label": NAME, "columns": ListOf(Text(), optional=True), "exclude": ListOf(Text())})
JOB = Fields(
    {
        "examples": PATH, "pile": Text(is_path=True, optional=True), "decision": DECISION,
        "backbone": Text(), "backbone_options": BACKBONE_OPTIONS, "strict": Flag(), "cache": Flag(),
        "formats": ListOf(OneOf(tuple(FORMATS)), 10), "sort": OneOf((None, *WAYS)), "results": ListOf(PATH),
        "promoted": MapOf(Pairs()), "engine": OneOf(("local", "ray")), "base": Text(is_path=True, optional=True),
        "table": TABLE,
    },
    {"examples", "promoted", "results"},
    optional=True,
)  # fmt: skip
GROUP = Fields(
    {"number": COUNT, "name": Text(), "size": COUNT, "cohesion": Number(), "items": Pairs()},
    {"number", "size", "items"},
)
WHOLE = Fields(
    {
        "handful": Text(100), "run": Text(100), "items": COUNT, "unknown": COUNT, "outlier_share": SHARE,
        "outlier_share_interval": ListOf(SHARE, 2, optional=True), "outlier_share_told": Flag(),
        "groups": ListOf(GROUP), "job": JOB,
        "labels": MapOf(COUNT), "threshold": Anything(), "made_by": Anything(),  # of a pile in parts
    },
    {"items", "unknown", "groups", "job"},
)  # fmt: skip


@dataclass(frozen=True)
class Job:
    """What `handful label` was asked. decision: the options of `label_items`; promoted: classes made of groups."""

    examples: Path
    pile: Path | None = None
    decision: Mapping[str, Any] = field(default_factory=dict)
    backbone: str = ""
    backbone_options: Mapping[str, Any] = field(default_factory=dict)
    strict: bool = False
    cache: bool = True
    formats: Sequence[str] = ()
    sort: str | None = None
    results: Sequence[Path] = ()  # folders of results, which are no pile
    promoted: Mapping[str, Sequence[Mark]] = field(default_factory=dict)
    engine: str = "local"
    base: Path | None = None  # the base file that was named
    table: Mapping[str, Any] = field(default_factory=dict)  # of `features.read`, for tables

    def read(
        self, progress: Progress, embedder: Embedder | None = None
    ) -> tuple[FeatureTable, FeatureTable, dict[int, str]]:
        """Examples and pile, and which items of the pile are examples too: their place and class."""
        if self.pile is None or not of_pictures(self.examples):
            examples, pile = read_table(self.examples, self.pile, self.table)
            if self.base is not None:  # it is asked for, and not what the tables carry
                examples, pile = examples.replace(base_mean=None), pile.replace(base=self.base, base_mean=None)
        else:
            from handful.backbones import load_backbone

            options: dict[str, Any] = {
                "progress": progress, "strict": self.strict, "cache": self.cache, "embedder": embedder,
            }  # fmt: skip
            net = load_backbone(self.backbone, **self.backbone_options)
            base = self.base or net.base
            told_of_base(self.decision.get("method", AUTO), (), base, net.dimension)  # or it says why not, now
            examples = read_examples(self.examples, net, **options)
            pile = read_pile(self.pile, net, without=examples.files or (), results=self.results, **options)
            source = {**pile.source, "backbone_options": dict(self.backbone_options)}
            pile = pile.replace(source=source, base=base)
        return examples, pile, self._given(pile)

    def _given(self, pile: FeatureTable) -> dict[int, str]:
        if not self.promoted:
            return {}
        places: dict[Mark, list[int]] = {}
        for i, mark in enumerate(marks(pile)):
            places.setdefault(mark, []).append(i)
        given = {}
        for name, items in self.promoted.items():
            for item in items:
                if not places.get(item):
                    now = "has changed" if item[0] in pile.names else "is gone"
                    raise ValueError(
                        f"{in_brief(printable(item[0]))}, which is to be an example of {in_brief(name)}, {now} since "
                        "its pile was labelled: put it back, or label the pile anew with `handful label`"
                    )
                given[places[item].pop(0)] = name
        return given


@dataclass(frozen=True)
class Group:
    size: int
    items: Sequence[Mark]


@dataclass(frozen=True)
class Record:
    """What `handful label` wrote to a folder; own: in a run of this user's."""

    path: Path
    items: int
    unknown: int
    groups: Mapping[int, Group]
    job: Job | None
    own: bool


def marks(items: FeatureTable) -> list[Mark]:
    """Name and content of each item: of the picture, or of the row of features."""
    if items.hashes is not None:
        return list(zip(items.names, items.hashes, strict=True))
    rows = (sha256(row.tobytes()).hexdigest()[:16] for row in items.features)
    return list(zip(items.names, rows, strict=True))


def record_of(labelled: Labelled, job: Job | None) -> dict[str, Any]:
    """What `read_record` reads, as JSON takes it. Without a job it tells of the groups and cannot be done again."""
    marked = marks(labelled.pile)
    groups = [
        {
            "number": group.number, "name": group.name, "size": group.size, "cohesion": group.cohesion,
            "items": [marked[i] for i in group.items],
        }
        for group in labelled.groups
    ]  # fmt: skip
    counts = {"items": len(labelled.pile), "unknown": int(labelled.unknown.sum())}
    record = {
        "handful": handful.__version__,
        "run": new_id(),
        **counts,
        **labelled.share,
        "groups": groups,
        "job": None if job is None else asked_of(job),
    }
    remember(record["run"], _digest(record))
    return record


def asked_of(job: Job) -> dict[str, Any]:
    """A job as JSON takes it."""
    own = {name: getattr(job, name) for name in Job.__dataclass_fields__}
    folders = {"examples": job.examples, "pile": job.pile, "base": job.base}
    paths = {name: None if path is None else str(path.resolve()) for name, path in folders.items()}
    results = [str(folder.resolve()) for folder in job.results]
    return own | paths | {"results": results, "backbone": _whole_path(job.backbone)}


def _whole_path(backbone: str) -> str:
    """A backbone that is a file is the same one wherever the record is read."""
    kind, colon, file = backbone.partition(":")
    if backbone.lower().endswith(".onnx"):
        return os.path.abspath(backbone)
    return f"{kind}:{os.path.abspath(file)}" if colon and os.path.isfile(file) else backbone


def read_record(folder: Path) -> Record:
    """What `handful label` wrote to a folder; ValueError if it did not write that."""
    path = folder / RECORD
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {in_brief(folder)}: give one that `handful label` wrote")
    if not path.is_file():
        raise ValueError(
            f"{in_brief(folder)} has no {RECORD}: label the pile with this version of `handful label` first"
        )
    try:
        whole = read_json(path, MAX_RECORD_BYTES)
        if fault := find_fault(whole, WHOLE, "the record") or _contradiction(whole):
            raise ValueError(fault)
        own = is_own(whole.get("run"), _digest(whole))
    except ValueError as error:
        raise ValueError(f"{in_brief(path)} is damaged ({error}): label the pile anew with `handful label`") from None
    groups = {group["number"]: Group(group["size"], _marks(group["items"])) for group in whole["groups"]}
    return Record(path, whole["items"], whole["unknown"], groups, _job(whole["job"]), own)


def _contradiction(whole: Mapping[str, Any]) -> str | None:
    """What no labelling gives, though each entry could be."""
    groups = whole["groups"]
    if [group["number"] for group in groups] != [*range(1, len(groups) + 1)]:
        return "the groups are not numbered 1, 2, ..."
    if any(group["size"] < 1 or group["size"] != len(group["items"]) for group in groups):
        return "a group's size is not the number of its items"
    if not sum(group["size"] for group in groups) <= whole["unknown"] <= whole["items"]:
        return "more items are in groups than unknown, or more are unknown than there are"
    return None


def _job(entries: Mapping[str, Any] | None) -> Job | None:
    if entries is None:
        return None
    paths = {name: entries.get(name) and Path(entries[name]) for name in ("examples", "pile", "base")}
    promoted = {name: _marks(items) for name, items in entries["promoted"].items()}
    return Job(**{**entries, **paths, "promoted": promoted, "results": [Path(place) for place in entries["results"]]})


def _digest(record: Mapping[str, Any]) -> str:
    """Of what it says, however it is written."""
    try:
        return digest_of(json.dumps(record, sort_keys=True).encode("ascii"))
    except RecursionError:
        raise ValueError("its entries lie too deep in each other") from None


def _marks(items: Sequence[Sequence[str]]) -> list[Mark]:
    return [(name, mark) for name, mark in items]
