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
    """Write `network` to .onnx, if it gives torch's features, and preprocessing to .json; return the difference."""
    path = Path(path)
    shape = len(preprocessing.mean), *preprocessing.size
    if shape[0] != (takes := getattr(network, "channels", shape[0])):
        raise ValueError(f"mean and std are of {shape[0]} channels, and the network takes {takes}")
    frozen = copy.deepcopy(network).cpu().float().eval()  # a copy: the caller may go on training its own
    pictures = np.random.default_rng(0).standard_normal((TRIAL_PICTURES, *shape), dtype=np.float32)
    graph = _graph(frozen, torch.from_numpy(pictures), about)
    with torch.inference_mode():
        expected = frozen(torch.from_numpy(pictures)).numpy()
    session = Session(graph)
    batches = (pictures, *np.split(pictures, len(pictures)))  # together, and one by one
    together, *alone = (session.run([OUTPUT], {INPUT: batch})[0] for batch in batches)
    largest = np.maximum(np.abs(together - expected), np.abs(np.concatenate(alone) - expected)).max()
    difference = float(largest / max(np.abs(expected).max(), 1e-30))
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


def _graph(network: nn.Module, pictures: torch.Tensor, about: dict[str, Any] | None) -> bytes:
    """Return the bytes of an ONNX file for a network in evaluation mode: pictures [n, C, H, W] to features [n, D]."""
    onnx, file = need("onnx", "an ONNX file"), io.BytesIO()
    names: dict[str, Any] = {"input_names": [INPUT], "output_names": [OUTPUT]}
    names["dynamic_axes"] = {INPUT: {0: "n"}, OUTPUT: {0: "n"}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's newer exporter would need another package
        torch.onnx.export(network, (pictures,), file, opset_version=OPSET, dynamo=False, **names)  # type: ignore[arg-type]
    model = onnx.load_from_string(file.getvalue())
    if about:
        onnx.helper.set_model_props(model, {"about": json.dumps(about, sort_keys=True)})
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString(deterministic=True))
