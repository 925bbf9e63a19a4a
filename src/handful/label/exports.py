"""Labels for other tools: Label Studio predictions, a FiftyOne labels file, COCO-style JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import handful
from handful.core.checks import UNKNOWN_NAME
from handful.features import FeatureTable
from handful.label.labelling import Labelled
from handful.label.summary import marked
from handful.utils.files import printable, unique_names

Export = tuple[str, Any]  # a file name, and what goes into it as JSON


class Exporter(Protocol):
    """`places`: where the pictures will be, if they are about to be moved."""

    def __call__(self, labelled: Labelled, places: Sequence[Path] | None = None) -> Export: ...


def label_studio(labelled: Labelled, places: Sequence[Path] | None = None) -> Export:
    """Tasks with predictions, for a project with <Choices name="label" toName="image">.

    Pictures are served by Label Studio's own local storage: set LOCAL_FILES_DOCUMENT_ROOT=/ and
    LOCAL_FILES_SERVING_ENABLED=true.
    """
    version = f"handful {handful.__version__}, {labelled.model._method}"
    tasks = []
    rows = zip(_files(labelled, places), marked(labelled), labelled.confidence.tolist(), strict=True)
    for i, (file, label, confidence) in enumerate(rows):
        choice = {"id": f"item{i}", "from_name": "label", "to_name": "image", "type": "choices"}
        prediction = {
            "model_version": version,
            "score": confidence,
            "result": [choice | {"value": {"choices": [label]}}],
        }
        tasks.append(
            {"data": {"image": f"/data/local-files/?d={quote(file.lstrip('/'))}"}, "predictions": [prediction]}
        )
    return "label-studio.json", tasks


def fiftyone(labelled: Labelled, places: Sequence[Path] | None = None) -> Export:
    """For `fo.Dataset.from_dir(labels_path=..., dataset_type=fo.types.FiftyOneImageClassificationDataset)`.

    Labels are by file there: of rows that share a path, all but the first have their row added to it.
    """
    attributes = {"outlier_score": labelled.scores.tolist()}
    if (p := labelled.p_unknown) is not None:
        attributes["p_unknown"] = p.tolist()
    files = unique_names(_files(labelled, places))
    rows = zip(files, marked(labelled), labelled.confidence.tolist(), strict=True)
    labels = {
        file: {
            "label": label, "confidence": confidence,
            "attributes": {name: values[i] for name, values in attributes.items()},
        }
        for i, (file, label, confidence) in enumerate(rows)
    }  # fmt: skip
    return "fiftyone.json", {"labels": labels}


def coco(labelled: Labelled, places: Sequence[Path] | None = None) -> Export:
    """Images, categories and one annotation an image, with its score; the whole picture is the box."""
    names = [*map(str, labelled.model.classes_.tolist()), UNKNOWN_NAME]
    ids = {name: k for k, name in enumerate(names, 1)}
    images, annotations = [], []
    rows = zip(_files(labelled, places), marked(labelled), labelled.confidence.tolist(), strict=True)
    for i, (file, label, confidence) in enumerate(rows, 1):
        width, height = _size(labelled.pile, i - 1)
        images.append({"id": i, "file_name": file, "width": width, "height": height})
        annotations.append(
            {
                "id": i, "image_id": i, "category_id": ids[label], "bbox": [0, 0, width, height],
                "area": width * height, "iscrowd": 0, "score": confidence,
            }
        )  # fmt: skip
    info = {"description": f"labels by handful {handful.__version__}, {labelled.model._method}"}
    categories = [{"id": k, "name": name} for name, k in ids.items()]
    return "coco.json", {"info": info, "images": images, "annotations": annotations, "categories": categories}


FORMATS: dict[str, Exporter] = {"label-studio": label_studio, "fiftyone": fiftyone, "coco": coco}


def _files(labelled: Labelled, places: Sequence[Path] | None) -> list[str]:
    files = places if places is not None else labelled.pile.files
    return list(map(printable, labelled.pile.names if files is None else [str(file.resolve()) for file in files]))


def _size(items: FeatureTable, i: int) -> tuple[int, int]:
    from handful.backbones import BadPicture, picture_size

    try:
        return picture_size(items.files[i], opener=items.opener) if items.files else (0, 0)
    except (BadPicture, OSError):
        return 0, 0
