"""A labelling that can be done again: what was asked is written beside the labels, with the groups of the unknowns.

`handful promote` reads it, makes classes of groups and runs the same job. The folders of examples are not touched:
which items of the pile are examples stands in the record, by name and by a mark of their content.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import handful
from handful.files import class_name, printable
from handful.groups import check_names, lower_share
from handful.label.bases import told_of_base
from handful.label.items import (
    Embedder,
    Items,
    Progress,
    of_pictures,
    read_examples,
    read_pile,
    read_table,
)
from handful.label.job import Labelled
from handful.parameters import AUTO

RECORD = "results.json"
Mark = tuple[str, str]  # an item's name, and a mark of its content


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

    def read(self, progress: Progress, embedder: Embedder | None = None) -> tuple[Items, Items, dict[int, str]]:
        """Examples and pile, and which items of the pile are examples too: their place and class."""
        if self.pile is None or not of_pictures(self.examples):
            shown, found = read_table(self.examples, self.pile)
            if self.base is not None:  # it is asked for, and not what the tables carry
                found.base, shown.base_mean, found.base_mean = self.base, None, None
        else:
            from handful.images import load_backbone

            options: dict[str, Any] = {
                "progress": progress, "strict": self.strict, "cache": self.cache, "embedder": embedder,
            }  # fmt: skip
            net = load_backbone(self.backbone, **self.backbone_options)
            base = self.base or net.base
            told_of_base(self.decision.get("method", AUTO), (), base, net.dimension)  # or it says why not, now
            shown = read_examples(self.examples, net, **options)
            found = read_pile(self.pile, net, without=shown.files or (), results=self.results, **options)
            found.source["backbone_options"] = dict(self.backbone_options)
            found.base = base
        return shown, found, self._given(found)

    def _given(self, pile: Items) -> dict[int, str]:
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
                        f"{printable(item[0])!r}, which is to be an example of {name!r}, {now} since its pile was "
                        "labelled: put it back, or label the pile anew with `handful label`"
                    )
                given[places[item].pop(0)] = name
        return given


def marks(items: Items) -> list[Mark]:
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
    asked = None if job is None else asked_of(job)
    counts = {"items": len(labelled.pile), "unknown": int(labelled.unknown.sum())}
    return {"handful": handful.__version__, **counts, **labelled.share, "groups": groups, "job": asked}


def asked_of(job: Job) -> dict[str, Any]:
    """A job as JSON takes it."""
    own = {name: getattr(job, name) for name in Job.__dataclass_fields__}
    given = {"examples": job.examples, "pile": job.pile, "base": job.base}
    paths = {name: None if path is None else str(path.resolve()) for name, path in given.items()}
    return own | paths | {"results": [str(folder.resolve()) for folder in job.results]}


def read_record(folder: Path) -> dict[str, Any]:
    """What `handful label` wrote to a folder."""
    path = folder / RECORD
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {str(folder)!r}: give one that `handful label` wrote")
    if not path.is_file():
        raise ValueError(f"{str(folder)!r} has no {RECORD}: label the pile with this version of `handful label` first")
    try:
        record = json.loads(path.read_text("utf-8"))
        asked = record["job"]
        if asked is not None:
            paths = {"examples": Path(asked["examples"])}
            paths |= {name: asked.get(name) and Path(asked[name]) for name in ("pile", "base")}
            kept = {"promoted": {name: _marks(items) for name, items in asked["promoted"].items()}}
            record["job"] = Job(**asked | paths | kept | {"results": [Path(place) for place in asked["results"]]})
        record["groups"] = {group["number"]: group | {"items": _marks(group["items"])} for group in record["groups"]}
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{str(path)!r} is damaged ({error}): label the pile anew with `handful label`") from None
    return record


def _marks(items: Sequence[Sequence[str]]) -> list[Mark]:
    return [(name, mark) for name, mark in items]


def promote_groups(
    folder: Path, names: Mapping[int, str], output: Path, *, examples: int = 5, outlier_share: float | str | None = None
) -> Job:
    """The job that made the results in `folder`, with classes for groups: {2: "mushroom"}.

    A share of unknowns that was told is lowered by what the groups were of them; one that was estimated is estimated
    again. Either may be given here instead.
    """
    record = read_record(folder)
    job, groups = record["job"], record["groups"]
    if job is None:
        raise ValueError(f"{str(folder / RECORD)!r} does not say what was labelled: use `handful label` first")
    if not groups:
        raise ValueError(f"the unknowns of {str(folder)!r} fall into no groups: there is none to make a class of")
    for what in filter(None, (job.examples, job.pile, job.base)):
        if not what.exists():
            raise FileNotFoundError(f"{str(what)!r}, which these results were made from, is gone: put it back")
    check_names(dict(names), groups, [*_classes(job)])
    promoted = {name: list(items) for name, items in job.promoted.items()}
    for number, name in names.items():
        promoted.setdefault(name, []).extend(groups[number]["items"][:examples])
    part = sum(groups[number]["size"] for number in names) / record["unknown"]
    kept = 1 - sum(min(examples, groups[number]["size"]) for number in names) / record["items"]
    decision = dict(job.decision)
    for name in ("outlier_share", "unknown_rate"):
        if isinstance(decision.get(name), int | float):  # else it is "auto", or not asked for
            decision[name] = lower_share(decision[name], part, kept)
    if outlier_share is not None:
        decision["outlier_share"] = outlier_share
    return replace(job, decision=decision, promoted=promoted, results=[*job.results, output])


def _classes(job: Job) -> list[str]:
    """Names that are taken, found without looking at a picture."""
    from handful.features import read_partly

    if of_pictures(job.examples):
        names = [class_name(part.name) for part in job.examples.iterdir() if part.is_dir()]
    else:
        names = [label for label in read_partly(job.examples).labels if label is not None]
    return [*names, *job.promoted]
