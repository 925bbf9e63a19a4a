"""The bodies of answers: FastAPI makes the OpenAPI document of them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field


class Error(BaseModel):
    """Why a request was refused."""

    error: str = Field(description="One sentence that says what to do.")


class Class(BaseModel):
    """A class with the number of its examples and of the items decided for it."""

    id: int
    name: str
    key: int | None
    examples: int
    count: int


class Counts(BaseModel):
    """How many items of a run are labelled, unknown, and changed since the run before."""

    labelled: int
    unknown: int
    changed: int


class Expected(BaseModel):
    """How many items the run gave to a class, and how many of these should be right."""

    class_: Annotated[int, Field(alias="class")]
    labels: int
    right: float


class ClassTrust(BaseModel):
    """The part of a class's labels that are right by the check, with its interval."""

    class_: Annotated[int, Field(alias="class")]
    value: float
    low: float
    high: float


class Trust(BaseModel):
    """How many labels should be right; after a check, how many are right."""

    sentence: str
    is_measured: bool
    checked: Annotated[int, Field(description="How many answers a person gave.")]
    details: list[str]
    more_to_halve: Annotated[int, Field(description="Further answers that would about halve the interval.")]
    classes: list[ClassTrust]


class Run(BaseModel):
    """The run that is shown: its options and its result."""

    id: int
    made: str
    method: str
    sentence: str
    share: float
    share_low: float | None
    share_high: float | None
    share_told: bool
    threshold: float
    group_detail: float
    notice: Annotated[str, Field(description="After a promotion: what changed more than it explains; or empty.")]
    can_take_back: Annotated[bool, Field(description="Whether POST /take-back undoes that promotion and this run.")]
    outdated: Annotated[str, Field(description="What has changed since the run, in words; or empty.")]
    expected_precision: Annotated[
        float | None, Field(description="The part of the labels that should be right; null without probabilities.")
    ]
    expected: list[Expected]
    trust: Trust
    counts: Counts


class StoredRun(BaseModel):
    """A run that can be compared with another one."""

    id: int
    made: str
    is_shown: bool


class Move(BaseModel):
    """Items that have another label in the second run."""

    from_: Annotated[int, Field(alias="from")]
    to: int
    count: int


class Comparison(BaseModel):
    """What moved between two runs. An item that had a label by a person counts with that label."""

    first: int
    second: int
    same: int
    moved: int
    moves: list[Move]


class Job(BaseModel):
    """The job in the background and its progress."""

    kind: Literal["embed", "solve"]
    state: Literal["running", "failed", "cancelled", "done"]
    done: int
    total: int
    message: str


class Project(BaseModel):
    """Everything the page shows beside the items."""

    name: str
    kind: Literal["pictures", "texts", "embeddings"]
    can_add: Annotated[bool, Field(description="Whether files can be uploaded.")]
    formats: Annotated[list[str], Field(description="Those that POST /export has for these items.")]
    items: int
    ready: int
    skipped: int
    classes: list[Class]
    unknown_examples: Annotated[int, Field(description="Items that a person marked as none of the classes.")]
    run: Run | None
    job: Job | None
    undo: str | None
    redo: str | None


class Item(BaseModel):
    """An item with its label and its decision."""

    id: int
    name: str
    class_: Annotated[int | None, Field(alias="class", description="The label by a person; 0 is unknown.")]
    decision: int | None
    confidence: float | None
    p_unknown: float | None
    score: float | None
    group: int | None
    changed: bool
    text: Annotated[str | None, Field(description="The text or its beginning, if items are texts.")] = None
    is_cut: Annotated[bool, Field(description="Whether the text is longer.")] = False


class ItemInFull(Item):
    """An item with all details."""

    probabilities: Annotated[
        dict[int, float],
        Field(description="P(class) by class; with p_unknown they add up to 1. Without it: P(class | known)."),
    ]
    nearest: list[int]
    width: Annotated[int, Field(description="Of a picture.")] = 0
    height: Annotated[int, Field(description="Of a picture.")] = 0
    columns: Annotated[dict[str, str], Field(description="The other columns of a text's row, in short.")] = {}


class Page(BaseModel):
    """Some of the items that a view has."""

    total: int
    offset: int
    items: list[Item]


class Order(BaseModel):
    """The items that a view has, in its order."""

    ids: list[int]


class Changed(BaseModel):
    """The number of items that were changed."""

    changed: int


class Text(BaseModel):
    """What was done, in words."""

    text: str


class Skipped(BaseModel):
    """A file that was skipped, and why."""

    name: str
    reason: str


class CheckedItem(BaseModel):
    """An answer: a class, 0 for none of them, or -1 for a wrong label."""

    item: int
    answer: int


class Check(BaseModel):
    """The items to look at, in the order in which to ask, and all answers so far."""

    run: int
    order: list[int]
    answers: list[CheckedItem]
    usable: Annotated[int, Field(description="How many answers POST /check/use would make labels of.")]


class Histogram(BaseModel):
    """The outlier scores of known and unknown items, counted in bins."""

    edges: list[float]
    known: list[int]
    unknown: list[int]
    threshold: float


class Map(BaseModel):
    """The place of each item on the map."""

    ids: list[int]
    x: list[float]
    y: list[float]


class Group(BaseModel):
    """Unknown items that look alike."""

    number: int
    name: str
    size: int
    kinds: Annotated[int, Field(description="How many kinds of items it seems to hold.")]
    examples: Annotated[int, Field(description="How many of them become examples, unless a request says how many.")]
    representative: int
    items: list[int]


class Exported(BaseModel):
    """The folder and the files that were written."""

    folder: str
    files: list[str]
    missing: Annotated[int, Field(description="Files that could not be copied, because they are gone.")]


class Uploaded(BaseModel):
    """How many files were added, and which were refused."""

    added: int
    refused: list[Skipped]


class Solved(BaseModel):
    """The answers for a task."""

    labels: list[Any]
    unknown: list[bool]
    confidence: list[float]
    p_unknown: list[float] | None
    probabilities: list[list[float]]
    classes: list[Any]
    outlier_share: float
    outlier_share_interval: list[float] | None
    expected_precision: float | None


class Health(BaseModel):
    """That the server runs, and its version."""

    ok: bool
    version: str
