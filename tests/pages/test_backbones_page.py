"""The tables of docs/reference/backbones.md say what the code does; the export of the how-to writes usable networks."""

import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from handful.backbones import list_backbones, load_backbone
from handful.backbones.catalogue import LEVELS
from handful.backbones.devices import DEVICES
from handful.backbones.presets import PRESETS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "backbones.md"
if not PAGE.exists():
    pytest.skip("the documentation is not part of this copy", allow_module_level=True)
TEXT = PAGE.read_text("utf-8")
EXPORT = PAGE.parents[1] / "how-to" / "clip-and-dinov2.md"


def first_column(heading: str) -> set[str]:
    """What the first column of the table with this heading names."""
    (table,) = re.findall(rf"^\| `--{heading}` \|.*\n((?:\|.*\n)+)", TEXT, re.M)
    return set(re.findall(r"^\| `(\w+)`", table, re.M))


def test_tables_name_what_there_is():
    assert first_column("backbone") == set(LEVELS)
    assert [one.name for one in list_backbones() if "<" not in one.name and f"`{one.name}`" not in TEXT] == []
    assert first_column("preset") == set(PRESETS)
    assert first_column("device") == set(DEVICES) - {"auto", "cpu"}


@pytest.mark.torch
def test_the_export_writes_networks_that_the_presets_open(tmp_path, monkeypatch):
    """With small networks in place of the published ones, which are downloads."""
    import torch

    pytest.importorskip("onnx")

    class Small(torch.nn.Module):
        def __init__(self, width: int):
            super().__init__()
            self.convolution = torch.nn.Conv2d(3, width, 32, 32)

        @classmethod
        def from_pretrained(cls, name: str):
            torch.manual_seed(0)
            return cls(len(name))

        def forward(self, pixel_values):
            features = self.convolution(pixel_values).mean((2, 3))
            return types.SimpleNamespace(image_embeds=features, pooler_output=2 * features)

    stand_in = types.ModuleType("transformers")
    stand_in.CLIPVisionModelWithProjection = stand_in.Dinov2Model = stand_in.SiglipVisionModel = Small
    monkeypatch.setitem(sys.modules, "transformers", stand_in)
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", EXPORT.read_text("utf-8"), re.M | re.S)
    (code,) = (block for block in blocks if "from transformers import" in block)
    exec(compile(code, str(EXPORT), "exec"), {"__name__": "page"})  # ours, from the repository
    picture = Image.new("RGB", (300, 200), (250, 120, 10))
    for name, model, factor in (
        ("clip", "openai/clip-vit-base-patch32", 1),
        ("dinov2", "facebook/dinov2-small", 2),
        ("siglip", "google/siglip-base-patch16-224", 2),
    ):
        backbone = load_backbone(tmp_path / f"{name}.onnx", preset=name)
        assert (backbone.dimension, backbone.input_size) == (len(model), (224, 224))
        batch = np.stack([backbone.prepare(picture)] * 3)
        with torch.no_grad():
            expected = Small.from_pretrained(model)(torch.from_numpy(batch)).image_embeds.numpy() * factor
        np.testing.assert_allclose(backbone.embed(batch), expected, atol=1e-4)
