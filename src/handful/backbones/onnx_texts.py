"""The user's own sentence encoder: a folder with an ONNX network and the tokenizer.json that belongs to it.

That is what the exporters of Hugging Face write, and what many repositories of sentence encoders hold. Files of the
folder that say how it is used are read too: how tokens are pooled (`1_Pooling/config.json`) and how long a text may be
(`sentence_bert_config.json`, `tokenizer_config.json`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from handful.backbones.backbone import fingerprint
from handful.backbones.onnx_file import weights_hash
from handful.backbones.onnx_runtime import open_session
from handful.backbones.text_backbone import TokenBackbone, spread, unit_rows
from handful.utils.extras import ENCODERS, need
from handful.utils.limits import JSON_BYTES, in_units
from handful.utils.text import shortened

TOKENIZER = "tokenizer.json"
MAX_TOKENIZER_BYTES = 2**27  # real ones have up to 20 MB
DEFAULT_LENGTH, MAX_LENGTH = 256, 8192  # tokens of a piece
TOKEN_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
POOLINGS = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "first"}


class OnnxTexts(TokenBackbone):
    """A sentence encoder in a folder. Its features are vectors of length 1."""

    batch_tokens = 2048

    def __init__(self, folder: Path, threads: int | None = None) -> None:
        tokenizers = need("tokenizers", "a sentence encoder in a folder", ENCODERS)
        network = network_file(folder)
        self.name = str(folder)
        self._pooling = _pooling(folder)
        self._max_tokens = _length(folder)
        file = folder / TOKENIZER
        if file.stat().st_size > MAX_TOKENIZER_BYTES:
            raise ValueError(f"{file} has more than {in_units(MAX_TOKENIZER_BYTES)}: it is no tokenizer")
        description = file.read_bytes()
        try:
            self._tokenizer = tokenizers.Tokenizer.from_buffer(description)
        except Exception as error:  # raised by Rust, of no common class
            raise ValueError(f"{file} cannot be read as a tokenizer: {shortened(str(error), 200)}") from None
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(self._max_tokens)
        weights = weights_hash(network)
        self._session = open_session(network, threads, name=str(network), trusted=False)
        self._inputs = self._check_inputs()
        self._output = self._choose_output()
        self.fingerprint = fingerprint(
            "texts", weights, description.decode("utf-8", "replace"), self._pooling, str(self._max_tokens), self._output
        )
        self.dimension = 0
        self.dimension = self.embed_tokens(np.array([self.pieces("A short text.")[0]], np.int64)).shape[1]

    def pieces(self, text: str) -> list[list[int]]:
        """Return the tokens of a text, with those that the tokenizer puts around each piece."""
        encoded = self._tokenizer.encode(text)
        return [list(piece.ids) or [0] for piece in spread([encoded, *encoded.overflowing])]

    def embed_tokens(self, tokens: np.ndarray) -> np.ndarray:
        """Return the features of pieces of the same length."""
        values = {"input_ids": tokens, "attention_mask": np.ones_like(tokens), "token_type_ids": np.zeros_like(tokens)}
        (output,) = self._session.run([self._output], {name: values[name] for name in self._inputs})
        if not isinstance(output, np.ndarray) or output.dtype.kind != "f" or output.ndim not in (2, 3):
            raise ValueError(
                f"the output {self._output} of {self.name} is no array of features [n, D] or [n, tokens, D]"
            )
        if output.ndim == 3:
            output = output[:, 0] if self._pooling == "first" else output.mean(axis=1, dtype=np.float32)
        if output.shape != (len(tokens), self.dimension or output.shape[1]):
            raise ValueError(f"{self.name} gives an array of shape {output.shape} for {len(tokens)} texts")
        return unit_rows(output.astype(np.float32))

    def _check_inputs(self) -> list[str]:
        names = [entry.name for entry in self._session.inputs]
        if "input_ids" not in names or any(name not in TOKEN_INPUTS for name in names):
            raise ValueError(
                f"{self.name} takes {', '.join(names)}: a sentence encoder takes {', '.join(TOKEN_INPUTS)}"
            )
        return names

    def _choose_output(self) -> str:
        names: list[str] = [entry.name for entry in self._session.outputs]
        usual = [name for name in ("sentence_embedding", "last_hidden_state", "token_embeddings") if name in names]
        return (usual or names)[0]


def network_file(folder: Path) -> Path:
    """Return the ONNX file of a sentence encoder: model.onnx, or the only one in its folder."""
    if not (folder / TOKENIZER).is_file():
        raise ValueError(f"{str(folder)!r} has no {TOKENIZER}: a sentence encoder's folder has one, and model.onnx")
    for place in (folder / "model.onnx", folder / "onnx" / "model.onnx"):
        if place.is_file():
            return place
    found = sorted([*folder.glob("*.onnx"), *folder.glob("onnx/*.onnx")])
    if len(found) != 1:
        have = f"{len(found)} ONNX files, none called model.onnx" if found else "no ONNX file"
        raise ValueError(f"{str(folder)!r} has a {TOKENIZER} but {have}: put the network there as model.onnx")
    return found[0]


def _pooling(folder: Path) -> str:
    settings = _read_json(folder / "1_Pooling" / "config.json")
    chosen = [name for name, value in settings.items() if name.startswith("pooling_mode_") and value is True]
    if not chosen:
        return "mean"
    if len(chosen) > 1 or chosen[0] not in POOLINGS:
        raise ValueError(
            f"{str(folder)!r} pools tokens by {', '.join(chosen)}, which is not known here: export the network with an "
            "output sentence_embedding, or give a function from Python"
        )
    return POOLINGS[chosen[0]]


def _length(folder: Path) -> int:
    """Return how many tokens a piece may have."""
    for file, key in (("sentence_bert_config.json", "max_seq_length"), ("tokenizer_config.json", "model_max_length")):
        value = _read_json(folder / file).get(key)
        if isinstance(value, int) and not isinstance(value, bool) and 8 <= value <= MAX_LENGTH:
            return value
    return DEFAULT_LENGTH


def _read_json(file: Path) -> Mapping[str, Any]:
    if not file.is_file():
        return {}
    if file.stat().st_size > JSON_BYTES:
        raise ValueError(f"{file} has more than {in_units(JSON_BYTES)}: settings are needed")
    try:
        settings = json.loads(file.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file} is not JSON: {shortened(str(error), 200)}") from None
    return settings if isinstance(settings, dict) else {}
