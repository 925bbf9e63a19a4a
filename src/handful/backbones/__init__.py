"""From pictures and texts to features: find and open them, load backbones, cache the features."""

from handful.backbones import networks
from handful.backbones.backbone import Backbone, TextBackbone
from handful.backbones.catalogue import BackboneInfo, list_backbones, load_backbone
from handful.backbones.embedding import embed_pictures, embed_texts
from handful.backbones.folders import Skipped as Skipped
from handful.backbones.pictures import BadPicture as BadPicture
from handful.backbones.pictures import find_pictures
from handful.backbones.pictures import open_picture as open_picture

__all__ = [
    "Backbone",
    "BackboneInfo",
    "TextBackbone",
    "embed_pictures",
    "embed_texts",
    "find_pictures",
    "list_backbones",
    "load_backbone",
    "networks",
]
