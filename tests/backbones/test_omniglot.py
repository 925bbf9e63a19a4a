"""The backbone for drawn characters that comes with handful: what its card says, and what it is worth."""

import hashlib
import re

import numpy as np
import pytest

from handful import solve
from handful.backbones import load_backbone
from handful.backbones.catalogue import SHIPPED
from handful.core.base import HEADS, read_base
from handful.core.metrics import figures
from handful.features import Protocol, draw
from handful.training.datasets import read_pictures
from handful.training.datasets.picture_set import embed_set

CARD = (SHIPPED / "omniglot.md").read_text("utf-8")


def test_the_files_are_those_of_the_card_and_bring_their_base():
    rows = re.findall(r"^\| (omniglot\.\S+) \| ([\d,]+) \| `(\w{64})` \|$", CARD, re.M)
    assert {name for name, _, _ in rows} == {"omniglot.onnx", "omniglot.base.safetensors"}
    for name, size, digest in rows:
        data = (SHIPPED / name).read_bytes()
        assert len(data) == int(size.replace(",", ""))
        assert hashlib.sha256(data).hexdigest() == digest
    backbone = load_backbone("omniglot")
    assert (backbone.name, backbone.dimension, backbone.input_size) == ("omniglot", 128, (28, 28))
    base = read_base(backbone.base)
    assert (base.dimension, set(base.heads)) == (128, set(HEADS))
    with pytest.raises(ValueError, match="size of omniglot cannot be changed"):
        load_backbone("omniglot", size=32)


def test_characters_that_it_never_saw_are_told_apart(shared):
    pictures = read_pictures(shared / "data" / "omniglot.npz", splits=["novel"])
    rng = np.random.default_rng(0)
    some = pictures.take(np.flatnonzero(np.isin(pictures.labels, rng.choice(pictures.classes, 40, replace=False))))
    backbone = load_backbone("omniglot")
    features = embed_set(some, backbone)
    episodes = draw(features.features, features.labels, Protocol(), seed=0, tasks=100)
    result = solve(episodes.task, method="simpleshot", base_mean=read_base(backbone.base).mean)
    found = figures(result.probabilities, result.outlier_scores, episodes.truth)
    assert found["accuracy"].mean() > 0.97
    assert found["auroc"].mean() > 0.95


def test_it_was_made_from_background_characters_alone(shared, torch):
    from handful.training.pretraining import digest, split
    from handful.training.settings import Settings

    background = read_pictures(shared / "data" / "omniglot.npz", splits=["base"])
    learning, held_out = split(background, Settings())
    assert f"Digest of the pixels: `{digest(learning)}`" in CARD
    assert (len(learning.classes), len(held_out.classes)) == (916, 48)
