"""Export of a network to an ONNX file, which runs without torch, and the comparison of the two.

torch folds a batch norm after a convolution into it. The same network gives the same bytes.
"""

from __future__ import annotations

import copy
import io
import json
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from handful.backbones.onnx_runtime import Session
from handful.utils.extras import need
from handful.utils.files import write_whole

if TYPE_CHECKING:
    from handful.backbones.preprocessing import Preprocessing

INPUT, OUTPUT = "pictures", "features"
TOLERANCE = 1e-4
OPSET = 17  # every version of ONNX Runtime that handful allows can read it
TRIAL_PICTURES = 2  # pictures that the graph is compared on


def export_onnx(
    network: nn.Module, path: str | Path, preprocessing: Preprocessing, *, about: dict[str, Any] | None = None
) -> float:
    """Write `network` to `path` (.onnx), and its preprocessing to a .json file next to it.

    The graph takes any number of pictures of the size in `preprocessing`. `about` is stored in the file as JSON, to
    record its origin. The graph is run before anything is written: ValueError if its features differ from torch's.

    Returns the largest difference between the two, as a share of the largest feature.
    """
    path = Path(path)
    if path.suffix.lower() != ".onnx":
        raise ValueError(f"{path}: the name of an ONNX file ends in .onnx")
    shape = len(preprocessing.mean), *preprocessing.size
    if shape[0] != (takes := getattr(network, "channels", shape[0])):
        raise ValueError(f"mean and std are of {shape[0]} channels, and the network takes {takes}")
    frozen = copy.deepcopy(network).cpu().float().eval()  # a copy: the caller may go on training its own
    graph = _graph(frozen, shape, about)
    difference = _difference(frozen, graph, shape)
    if not difference <= TOLERANCE:  # NaN must not pass
        raise ValueError(
            f"{path} was not written: its features would differ from those of torch by {difference:.1e} of the "
            f"largest, and {TOLERANCE:g} is allowed. Are the weights finite?"
        )
    description = asdict(preprocessing) | {"output": OUTPUT}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, graph)
    write_whole(path.with_suffix(".json"), (json.dumps(description, indent=2) + "\n").encode())
    return difference


def _difference(network: nn.Module, graph: bytes, shape: tuple[int, ...]) -> float:
    """Compare torch and ONNX Runtime on random pictures of `shape` [C, H, W], in a batch and one by one."""
    pictures = np.random.default_rng(0).standard_normal((TRIAL_PICTURES, *shape), dtype=np.float32)
    session = Session(graph)
    with torch.inference_mode():
        expected = network(torch.from_numpy(pictures)).numpy()
    batch = session.run([OUTPUT], {INPUT: pictures})[0]
    alone = np.concatenate([session.run([OUTPUT], {INPUT: picture[None]})[0] for picture in pictures])
    difference = np.maximum(np.abs(batch - expected), np.abs(alone - expected)).max()
    return float(difference / max(np.abs(expected).max(), 1e-30))


def _graph(network: nn.Module, shape: tuple[int, ...], about: dict[str, Any] | None = None) -> bytes:
    """Return the bytes of an ONNX file for a network in evaluation mode: pictures [n, C, H, W] to features [n, D]."""
    onnx = need("onnx", "an ONNX file")
    file: Any = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's newer exporter would need another package
        torch.onnx.export(
            network,
            (torch.zeros(TRIAL_PICTURES, *shape),),
            file,
            input_names=[INPUT],
            output_names=[OUTPUT],
            dynamic_axes={INPUT: {0: "n"}, OUTPUT: {0: "n"}},
            opset_version=OPSET,
            dynamo=False,
        )
    model = onnx.load_from_string(file.getvalue())
    if about:
        onnx.helper.set_model_props(model, {"about": json.dumps(about, sort_keys=True)})
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString(deterministic=True))
