"""Pictures to features: finding and opening them, backbones, and a cache so that none is embedded twice."""

from handful.images.backbone import Backbone
from handful.images.backbones import BackboneInfo, list_backbones, load_backbone
from handful.images.cache import FeatureCache
from handful.images.embedding import Embedded, embed_pictures, thumbnail
from handful.images.loading import BadPicture, Skipped, find_pictures, open_picture, picture_size

__all__ = [
    "Backbone",
    "BackboneInfo",
    "BadPicture",
    "Embedded",
    "FeatureCache",
    "Skipped",
    "embed_pictures",
    "find_pictures",
    "list_backbones",
    "load_backbone",
    "open_picture",
    "picture_size",
    "thumbnail",
]
