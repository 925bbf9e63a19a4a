"""The user's own sentence encoder: a folder with an ONNX network and the tokenizer.json that belongs to it.

That is what the exporters of Hugging Face write, and what many repositories of sentence encoders hold. Files of the
folder that say how it is used are read too: how tokens are pooled (`1_Pooling/config.json`) and how long a text may be
(`sentence_bert_config.json`, `tokenizer_config.json`).
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from handful.backbones.backbone import fingerprint
from handful.backbones.onnx_file import weights_hash
from handful.backbones.onnx_runtime import open_session
from handful.backbones.text_backbone import TokenBackbone, spread, unit_rows
from handful.utils.extras import ENCODERS, need
from handful.utils.files import in_brief
from handful.utils.limits import JSON_BYTES, in_units
from handful.utils.text import shortened

TOKENIZER = "tokenizer.json"
MAX_TOKENIZER_BYTES = 2**27  # real ones have up to 20 MB
DEFAULT_LENGTH, MAX_LENGTH = 256, 8192  # tokens of a piece
TOKEN_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
POOLINGS = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "first"}
POOLING_FILE = "1_Pooling/config.json"
LENGTH_FILES = {"sentence_bert_config.json": "max_seq_length", "tokenizer_config.json": "model_max_length"}
TRIAL = "A short text. \N{LINEAR B SYLLABLE B008 A}"  # with a word that no vocabulary has
SETTINGS = (TOKENIZER, POOLING_FILE, *LENGTH_FILES)  # files that the features depend on, beside the network
SLICE = 2**16  # characters that are cut into tokens at once
BLOCK = 2**8  # characters that are normalized at once, to see how long they become
MAX_GROWTH = 32  # times as many characters. Unicode's longest is 18 for one
MAX_STEPS = 16  # of a part. ALBERT's normalizer has 7
MAX_ADDED = 2**20  # characters of all added tokens. Gemma has 80 thousand
MAX_WORD = 200  # characters of a word that is cut into pieces, in a time that grows with the cube. BERT has 100
MAX_MARK = 100  # bytes of a prefix, of the unknown token, or of what one character becomes. SentencePiece has 33
# What published encoders are made of (BERT, MPNet, RoBERTa, ALBERT, XLM-R, DeBERTa, T5, ModernBERT, Gemma), by part:
# the name of the steps in a sequence, and the steps. Each occurs once, and only one of the FORMS, because several can
# make a text grow without limit. Those that cannot do that may be REPEATED.
PARTS = {
    "normalizer": (
        "normalizers",
        {"BertNormalizer", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "Nmt", "Precompiled", "Replace", "Strip",
         "StripAccents"},
    ),
    "pre_tokenizer": (
        "pretokenizers",
        {"BertPreTokenizer", "ByteLevel", "Digits", "Metaspace", "Punctuation", "Split", "Whitespace",
         "WhitespaceSplit"},
    ),
    "post_processor": ("processors", {"BertProcessing", "ByteLevel", "RobertaProcessing", "TemplateProcessing"}),
}  # fmt: skip
FORMS = {"BertNormalizer", "NFC", "NFD", "NFKC", "NFKD"}
REPEATED = {"Replace", "Strip"}
MODELS = {"BPE": "merges", "WordPiece": "max_input_chars_per_word", "Unigram": "unk_id", "WordLevel": "vocab"}
EXPRESSIONS = {" {2,}": 2, r"\s+": 1}  # regular expressions, and how many characters they match at least


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
        self._file = file
        unread = f"{file} cannot be read as a tokenizer"
        parts = _ask(unread, lambda: _checked(json.loads(description)))
        load: Callable[[str], Any] = tokenizers.Tokenizer.from_str
        no_words = {"type": "WordLevel", "vocab": {}, "unk_token": ""}
        normalizer = {"normalizer": parts["normalizer"], "model": no_words}
        self._normalizer = _ask(unread, load, json.dumps(normalizer)).normalizer
        self._check_growth("".join(token["content"] for token in parts["added_tokens"]))
        self._tokenizer = _ask(unread, load, json.dumps(parts))
        if self._tokenizer.num_special_tokens_to_add(False) > self._max_tokens // 2:
            raise ValueError(f"{unread}: it puts more tokens around a text than the network can read")
        self._tokenizer.enable_truncation(self._max_tokens)
        weights = weights_hash(network)
        self._session = open_session(network, threads, name=str(network), trusted=False)
        self._inputs = self._check_inputs()
        self._output = self._choose_output()
        self.fingerprint = fingerprint(
            "texts", weights, description.decode("utf-8", "replace"), self._pooling, str(self._max_tokens), self._output
        )
        self.dimension = 0
        self.dimension = self.embed_tokens(np.array([self.pieces(TRIAL)[0]], np.int64)).shape[1]

    def pieces(self, text: str) -> list[list[int]]:
        """Return the tokens of a text, with those that the tokenizer puts around each piece."""
        text = text.encode("utf-8", "replace").decode()  # half of a character is no text for the library
        pieces: list[list[int]] = []
        for start in spread(range(0, len(text) or 1, SLICE)):
            part = text[start : start + SLICE]
            self._check_growth(part)
            encoded = _ask(f"{self._file} cannot cut {in_brief(part)} into tokens", self._tokenizer.encode, part)
            pieces += [list(piece.ids) or [0] for piece in (encoded, *encoded.overflowing)]
        return spread(pieces)

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

    def _check_growth(self, text: str) -> None:
        """Raise ValueError if the normalizer makes a text much longer: that would take all memory."""
        if self._normalizer is None:
            return
        for start in range(0, len(text), BLOCK):
            block = text[start : start + BLOCK]
            what = f"{self._file} cannot normalize {in_brief(block)}"
            if len(_ask(what, self._normalizer.normalize_str, block)) > MAX_GROWTH * len(block):
                raise ValueError(f"{what}: it becomes more than {MAX_GROWTH} times as long")

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


def _ask(what: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call the library of tokenizers. Whatever it raises becomes a ValueError that begins with `what`."""
    try:
        return function(*arguments)
    except BaseException as error:  # a panic of Rust is no Exception
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        malformed = isinstance(error, (AttributeError, LookupError, TypeError))
        reason = f"it is not built like one ({error})" if malformed else str(error)
        raise ValueError(f"{what}: {shortened(reason, 200)}") from None


def _checked(settings: Any) -> dict[str, Any]:
    """Return the parts of a tokenizer that are used. Raise ValueError for those that published encoders do not have.

    A stranger's tokenizer could make a text a million times as long, or search in it for hours.
    """
    if not isinstance(settings, dict) or not isinstance(settings.get("model"), dict):
        raise ValueError("it has no model: give the tokenizer.json that belongs to the network")
    parts: dict[str, Any] = {"version": "1.0", "added_tokens": settings.get("added_tokens") or []}
    if sum(len(token["content"]) for token in parts["added_tokens"]) > MAX_ADDED:
        raise ValueError(f"its added tokens have more than {MAX_ADDED:,} characters")
    for name, (inside, known) in PARTS.items():
        part = parts[name] = settings.get(name)
        steps = [] if part is None else part[inside] if part["type"] == "Sequence" else [part]
        kinds = [step["type"] for step in steps]
        once = [FORMS if kind in FORMS else kind for kind in kinds if kind not in REPEATED]
        twice = any(kind in once[:i] for i, kind in enumerate(once))
        if len(steps) > MAX_STEPS or twice or not known.issuperset(kinds):
            raise ValueError(
                f"its {name} is {shortened(' + '.join(map(str, kinds)))}, and published sentence encoders have none "
                "like that: give a function from Python"
            )
        for step in steps:
            _check_step(step)
    model = settings["model"]
    guess = next((kind for kind, key in MODELS.items() if key in model), None)  # old files do not name it
    parts["model"] = model = {"type": guess} | model
    if model["type"] not in MODELS:
        raise ValueError(f"its model is {shortened(str(model['type']))}: one of {', '.join(MODELS)} is needed")
    marks = [value for value in model.values() if isinstance(value, str)]
    if model.get("max_input_chars_per_word", 0) > MAX_WORD or max(map(len, marks)) > MAX_MARK:
        raise ValueError(f"its model takes words of more than {MAX_WORD} characters, or names of more than {MAX_MARK}")
    return parts


def _check_step(step: Mapping[str, Any]) -> None:
    """Raise ValueError if a step can make a text longer, search in it for long, or fail."""
    if "pattern" in step:
        ((kind, pattern),) = step["pattern"].items()
        matched = len(pattern) if kind == "String" else EXPRESSIONS.get(pattern, 0)
        if matched < max(1, len(step.get("content", ""))):
            raise ValueError(
                f"its {step['type']} of {shortened(repr(pattern))} can make a text longer, or is a regular expression "
                "that published sentence encoders do not have: give a function from Python"
            )
    if step["type"] == "TemplateProcessing":
        texts = [piece["Sequence"]["id"] for piece in step["single"] if "Sequence" in piece]
        tokens = [piece["SpecialToken"]["id"] for piece in step["single"] if "SpecialToken" in piece]
        if texts != ["A"] or not step["special_tokens"].keys() >= set(tokens):
            raise ValueError("its TemplateProcessing needs the text once, and every token that it names")
    if step["type"] == "Precompiled":
        _check_characters(b64decode(step["precompiled_charsmap"], validate=True))


def _check_characters(table: bytes) -> None:
    """Raise ValueError unless each way through a table of SentencePiece ends at one of its short texts.

    The table has the size of an array of steps, the array, and the texts, each with a zero at its end.
    """
    size = int.from_bytes(table[:4], "little")
    texts = np.frombuffer(table[4 + size :], np.uint8)
    steps = np.frombuffer(table[4 : 4 + size], "<u4").astype(np.int64)
    inner = steps < 2**31
    inner[:1] = True  # the first step
    below = np.arange(len(steps)) ^ (steps >> 10 << (steps >> 6 & 8))
    whole = 4 * len(steps) == size > 0 and (below[inner] | 255).max() < len(steps)
    if whole:
        starts = steps[below[inner & (steps >> 8 & 1 == 1)]] & 2**31 - 1
        whole = not len(starts) or starts.max() < len(texts)
        whole = whole and bool((texts[starts] & 0xC0 != 0x80).all())  # a character does not begin there
    if not whole or max(map(len, table[4 + size :].split(b"\0"))) > MAX_MARK:
        raise ValueError("its table of characters (Precompiled) is damaged")


def _pooling(folder: Path) -> str:
    settings = _read_json(folder / POOLING_FILE)
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
    for file, key in LENGTH_FILES.items():
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
