"""What requests and answers hold: FastAPI checks requests with it, and makes the OpenAPI document of both."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

Id = Annotated[int, Field(ge=0, lt=2**53)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
# fail_fast: a list of a million wrong values is one error, not a million
Ids = Annotated[list[Id], Field(max_length=1_000_000, fail_fast=True)]
Row = Annotated[list[float], Field(fail_fast=True)]
Rows = Annotated[list[Row], Field(fail_fast=True)]
Name = Annotated[str, Field(max_length=1000)]
Format = Literal["csv", "parquet", "coco", "fiftyone", "label-studio", "sorted"]
FormatList = Annotated[list[Format], Field(min_length=1, max_length=10)]
Formats = TypeAdapter(FormatList)


class Body(BaseModel):
    """The body of a request; fields that are not listed are refused."""

    model_config = ConfigDict(extra="forbid")


class NewClass(Body):
    """A class to add."""

    name: Name


class ClassPatch(Body):
    """What to change of a class: its name, its key, or both."""

    name: Name | None = None
    key: Annotated[int, Field(ge=1, le=9)] | None = None


class Items(Body):
    """Items, by number."""

    items: Ids


class Labels(Items):
    """Items to label, and their class."""

    class_: Annotated[Id | None, Field(alias="class", description="A class; 0: unknown; null: no label.")]


class RunRequest(Body):
    """How to label the pile."""

    method: Annotated[str, Field(max_length=100)] = "auto"
    outlier_share: Literal["auto"] | Annotated[Finite, Field(gt=0, lt=1)] = "auto"


class Threshold(Body):
    """The doubt (`Answers.doubts`) above which an item is unknown."""

    threshold: Finite


class Promotion(Body):
    """The class that a group becomes, or is added to, and how many of its items become examples."""

    name: Annotated[Name | None, Field(description="The name of a new class.")] = None
    class_: Annotated[Id | None, Field(alias="class", description="A class that the group is added to.")] = None
    examples: Annotated[
        Annotated[int, Field(ge=1, le=1000)] | None,
        Field(description="By default a third of the group, at least 5; more if it looks like several kinds."),
    ] = None


class GroupDetail(Body):
    """How fine the groups of unknowns are."""

    detail: Annotated[Finite, Field(ge=-2, le=2, description="-2: few, coarse groups; 2: many, fine groups.")]


class JoinRequest(Body):
    """The other group."""

    other: Id


class CheckAnswer(Body):
    """What a person says of the label of an item."""

    run: Id
    item: Id
    answer: Annotated[
        Id | Literal["right", "wrong"] | None,
        Field(description="A class; 0: none of them; right or wrong: the label of the run is; null: no answer."),
    ]


class ExportRequest(Body):
    """The formats to export, and where."""

    formats: FormatList = ["csv", "parquet"]  # the latter only where PyArrow is installed
    folder: Annotated[
        Annotated[str, Field(min_length=1, max_length=4096)] | None,
        Field(
            description="A new or empty folder below the home folder or beside what was opened; null: the project's."
        ),
    ] = None


class SolveOptions(Body):
    """A task without its features: the labels of the support and how to solve it."""

    labels: Annotated[list[str], Field(fail_fast=True)] | Annotated[list[int], Field(fail_fast=True)]
    method: Annotated[str, Field(max_length=100)] = "auto"
    outlier_share: Literal["auto"] | Annotated[Finite, Field(gt=0, lt=1)] = "auto"


class SolveRequest(SolveOptions):
    """A task with its features."""

    support: Rows
    query: Rows


# ---- answers


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


class Item(BaseModel):
    """An item with its label and its decision. Lists of items leave out what follows `is_cut`."""

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
    # ---- not in lists of items
    probabilities: Annotated[
        dict[int, float],
        Field(description="P(class) by class; with p_unknown they add up to 1. Without it: P(class | known)."),
    ]
    nearest: list[int]
    width: Annotated[int, Field(description="Of a picture.")] = 0
    height: Annotated[int, Field(description="Of a picture.")] = 0
    columns: Annotated[dict[str, str], Field(description="The other columns of a text's row, in short.")] = {}


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
