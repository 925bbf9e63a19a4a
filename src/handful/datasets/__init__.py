"""Picture data sets of few-shot learning, with their class splits: read from what you have, nothing is fetched."""

from handful.datasets.catalogue import DatasetInfo, check_archives, dataset_info, list_datasets
from handful.datasets.pictureset import SPLITS, PictureSet
from handful.datasets.reading import read_pictures

__all__ = [
    "SPLITS",
    "DatasetInfo",
    "PictureSet",
    "check_archives",
    "dataset_info",
    "list_datasets",
    "read_pictures",
]
