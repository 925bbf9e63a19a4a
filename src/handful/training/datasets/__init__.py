"""Picture data sets of few-shot learning with their class splits, read from your files. Nothing is downloaded."""

from handful.training.datasets.catalogue import dataset_info, list_datasets
from handful.training.datasets.picture_set import PictureSet
from handful.training.datasets.reading import read_pictures

__all__ = ["PictureSet", "dataset_info", "list_datasets", "read_pictures"]
