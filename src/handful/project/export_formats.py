"""Labels for other tools: Label Studio predictions, a FiftyOne labels file, COCO-style JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import quote

import handful
from handful.core.answers import Answers
from handful.core.checks import UNKNOWN_NAME
from handful.features import FeatureTable
from handful.project.summary import label_texts
from handful.utils.files import printable, unique_names

Export = tuple[str, Any]  # a file name, and what goes into it as JSON


# From the labelled items, the answer for each, what gave the answers, and the names of the classes
Exporter = Callable[[FeatureTable, Answers, str, Sequence[str]], Export]


def label_studio(items: FeatureTable, answers: Answers, method: str, classes: Sequence[str]) -> Export:
    """Tasks with predictions, for a project with <Choices name="label" toName="image">; for texts, toName="text".

    Pictures are served by Label Studio's own local storage: set LOCAL_FILES_DOCUMENT_ROOT=/ and
    LOCAL_FILES_SERVING_ENABLED=true.
    """
    version = f"handful {handful.__version__}, {method}"
    tasks = []
    for i, (file, label, confidence) in enumerate(_rows(items, answers)):
        data = {"image": f"/data/local-files/?d={quote(file.lstrip('/'))}"}
        if items.texts is not None:
            data = {"text": items.texts[i], "item": printable(items.names[i])}
        choice: dict[str, Any] = {"from_name": "label", "to_name": next(iter(data)), "type": "choices"}
        choice |= {"id": f"item{i}", "value": {"choices": [label]}}
        prediction = {"model_version": version, "score": confidence, "result": [choice]}
        tasks.append({"data": data, "predictions": [prediction]})
    return "label-studio.json", tasks


def fiftyone(items: FeatureTable, answers: Answers, method: str, classes: Sequence[str]) -> Export:
    """For `fo.Dataset.from_dir(labels_path=..., dataset_type=fo.types.FiftyOneImageClassificationDataset)`.

    Labels are by file there: of rows that share a path, all but the first have their row added to it.
    """
    attributes = {"outlier_score": answers.outlier_scores.tolist()}
    if (p := answers.p_unknown) is not None:
        attributes["p_unknown"] = p.tolist()
    rows = list(_rows(items, answers))
    names = unique_names([file for file, _, _ in rows])
    labels = {
        name: {
            "label": label, "confidence": confidence,
            "attributes": {attribute: values[i] for attribute, values in attributes.items()},
        }
        for i, (name, (_, label, confidence)) in enumerate(zip(names, rows, strict=True))
    }  # fmt: skip
    return "fiftyone.json", {"labels": labels}


def coco(items: FeatureTable, answers: Answers, method: str, classes: Sequence[str]) -> Export:
    """Images, categories and one annotation an image, with its score; the whole picture is the box."""
    ids = {name: k for k, name in enumerate([*classes, UNKNOWN_NAME], 1)}
    images, annotations = [], []
    for i, (file, label, confidence) in enumerate(_rows(items, answers), 1):
        width, height = _size(items, i - 1)
        images.append({"id": i, "file_name": file, "width": width, "height": height})
        annotations.append(
            {
                "id": i, "image_id": i, "category_id": ids[label], "bbox": [0, 0, width, height],
                "area": width * height, "iscrowd": 0, "score": confidence,
            }
        )  # fmt: skip
    info = {"description": f"labels by handful {handful.__version__}, {method}"}
    categories = [{"id": k, "name": name} for name, k in ids.items()]
    return "coco.json", {"info": info, "images": images, "annotations": annotations, "categories": categories}


FORMATS: dict[str, Exporter] = {"label-studio": label_studio, "fiftyone": fiftyone, "coco": coco}
TEXT_FORMATS = ("label-studio",)  # the others are for pictures


def check_formats(formats: Sequence[str], of_texts: bool) -> None:
    """Raise ValueError for a format that is not for such items."""
    if unfit := [name for name in formats if of_texts and name not in TEXT_FORMATS]:
        raise ValueError(
            f"--export {unfit[0]} is for pictures, but the items are texts: use {' or '.join(TEXT_FORMATS)}, or "
            "labels.csv"
        )


def _rows(items: FeatureTable, answers: Answers) -> Iterator[tuple[str, str, float]]:
    """The file of each item, its label and its confidence."""
    files = items.names if items.files is None else [str(path.resolve()) for path in items.files]
    return zip(map(printable, files), label_texts(answers), answers.confidence.tolist(), strict=True)


def _size(items: FeatureTable, i: int) -> tuple[int, int]:
    from handful.backbones.pictures import BadPicture, picture_size

    try:
        return picture_size(items.files[i], opener=items.opener) if items.files else (0, 0)
    except (BadPicture, OSError):
        return 0, 0
