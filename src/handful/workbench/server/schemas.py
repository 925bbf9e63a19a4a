"""What goes in and out of the API, for the checks at the door and for the OpenAPI document."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

JSON, TENSORS, FORM = "application/json", "application/octet-stream", "multipart/form-data"

Id = Annotated[int, Field(ge=0, lt=2**53)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
# fail_fast: a list of a million wrong values is one error, not a million
Ids = Annotated[list[Id], Field(max_length=1_000_000, fail_fast=True)]
Row = Annotated[list[float], Field(fail_fast=True)]
Rows = Annotated[list[Row], Field(fail_fast=True)]
Name = Annotated[str, Field(max_length=1000)]
Format = Literal["csv", "parquet", "coco", "fiftyone", "label-studio"]


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class NewClass(Body):
    name: Name


class ClassPatch(Body):
    name: Name | None = None
    key: Annotated[int, Field(ge=1, le=9)] | None = None


class Labels(Body):
    items: Ids
    class_: Annotated[Id | None, Field(alias="class", description="A class; 0: unknown; null: no label.")]


class Items(Body):
    items: Ids


class RunWanted(Body):
    method: Annotated[str, Field(max_length=100)] = "auto"
    outlier_share: Literal["auto"] | Annotated[Finite, Field(gt=0, lt=1)] = "auto"


class Threshold(Body):
    threshold: Finite


class Promotion(Body):
    name: Name
    examples: Annotated[int, Field(ge=1, le=1000)] = 5


class ExportWanted(Body):
    formats: Annotated[list[Format], Field(min_length=1, max_length=10)] = ["csv", "parquet"]


class SolveOptions(Body):
    labels: Annotated[list[str], Field(fail_fast=True)] | Annotated[list[int], Field(fail_fast=True)]
    method: Annotated[str, Field(max_length=100)] = "auto"
    outlier_share: Literal["auto"] | Annotated[Finite, Field(gt=0, lt=1)] = "auto"


class SolveWanted(SolveOptions):
    support: Rows
    query: Rows


class Error(BaseModel):
    error: str = Field(description="One sentence that says what to do.")


class Class(BaseModel):
    id: int
    name: str
    key: int | None
    examples: int
    count: int


class Counts(BaseModel):
    labelled: int
    unknown: int
    changed: int


class Run(BaseModel):
    id: int
    made: str
    method: str
    sentence: str
    share: float
    share_low: float | None
    share_high: float | None
    share_told: bool
    threshold: float
    counts: Counts


class Job(BaseModel):
    kind: Literal["embed", "solve"]
    state: Literal["running", "failed", "cancelled", "done"]
    done: int
    total: int
    message: str


class Project(BaseModel):
    name: str
    items: int
    ready: int
    skipped: int
    classes: list[Class]
    run: Run | None
    job: Job | None
    undo: str | None
    redo: str | None


class Item(BaseModel):
    id: int
    name: str
    class_: Annotated[int | None, Field(alias="class", description="Given by a person; 0 is unknown.")]
    decision: int | None
    confidence: float | None
    p_unknown: float | None
    score: float | None
    group: int | None
    changed: bool


class ItemInFull(Item):
    probabilities: Annotated[
        dict[int, float],
        Field(description="P(class) by class; with p_unknown they add up to 1. Without it: P(class | known)."),
    ]
    nearest: list[int]
    width: int
    height: int


class Page(BaseModel):
    total: int
    offset: int
    items: list[Item]


class Order(BaseModel):
    ids: list[int]


class Changed(BaseModel):
    changed: int


class Text(BaseModel):
    text: str


class Skipped(BaseModel):
    name: str
    reason: str


class Histogram(BaseModel):
    edges: list[float]
    known: list[int]
    unknown: list[int]
    threshold: float


class Map(BaseModel):
    ids: list[int]
    x: list[float]
    y: list[float]


class Group(BaseModel):
    number: int
    name: str
    size: int
    representative: int
    items: list[int]


class Exported(BaseModel):
    folder: str
    files: list[str]


class Uploaded(BaseModel):
    added: int
    refused: list[Skipped]


class Solved(BaseModel):
    labels: list[Any]
    unknown: list[bool]
    confidence: list[float]
    p_unknown: list[float] | None
    probabilities: list[list[float]]
    classes: list[Any]
    outlier_share: float
    outlier_share_interval: list[float] | None


class Health(BaseModel):
    ok: bool
    version: str
