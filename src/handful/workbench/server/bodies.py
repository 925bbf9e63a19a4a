"""The bodies of requests: FastAPI checks requests with them and makes the OpenAPI document of them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

JSON, TENSORS, FORM = "application/json", "application/octet-stream", "multipart/form-data"

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


class Labels(Body):
    """Items to label, and their class."""

    items: Ids
    class_: Annotated[Id | None, Field(alias="class", description="A class; 0: unknown; null: no label.")]


class Items(Body):
    """Items, by number."""

    items: Ids


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
