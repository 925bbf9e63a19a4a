"""Picture data sets of few-shot learning with their class splits, read from your files. Nothing is downloaded."""

from handful.training.datasets.catalogue import DatasetInfo, check_archives, dataset_info, list_datasets
from handful.training.datasets.picture_set import SPLITS, PictureSet
from handful.training.datasets.reading import read_pictures

__all__ = [
    "SPLITS",
    "DatasetInfo",
    "PictureSet",
    "check_archives",
    "dataset_info",
    "list_datasets",
    "read_pictures",
]
