"""Sentence encoders of the user: functions, and folders with an ONNX network and a tokenizer."""

import json

import numpy as np
import pytest

from handful.backbones import embed_texts, load_backbone
from handful.backbones.catalogue import kind_of_backbone, model_file

WORDS = ["[UNK]", "[CLS]", "[SEP]", "hen", "owl", "cat", "the", "a"]


def counts(texts):
    return [[text.count("a"), text.count("e")] for text in texts]


def test_a_function_is_a_backbone():
    backbone = load_backbone(counts)
    assert (backbone.kind, backbone.name, backbone.dimension) == ("texts", "counts", 2)
    table = embed_texts(["a hen", "tea"], backbone)
    assert table.features.tolist() == [[1, 1], [1, 1]]
    assert table.source["cached"] == 0


@pytest.mark.parametrize("wrong", [lambda texts: [1.0], lambda texts: [[1.0]] * (len(texts) + 1)])
def test_a_function_must_give_a_row_for_each_text(wrong):
    with pytest.raises(ValueError, match="a row of features for each text"):
        load_backbone(wrong)


def test_features_that_are_not_finite_are_refused():
    backbone = load_backbone(lambda texts: [[float("nan") if "bad" in text else 1.0] for text in texts])
    with pytest.raises(ValueError, match="not finite for 'a bad one'"):
        embed_texts(["good", "a bad one"], backbone)


@pytest.mark.parametrize(("texts", "error"), [("one text", "a list of texts"), (["a", None], "text 1 is a NoneType")])
def test_texts_are_a_list_of_strings(texts, error):
    with pytest.raises(TypeError, match=error):
        embed_texts(texts, load_backbone(counts))


@pytest.fixture
def folder(tmp_path):
    """A tiny encoder: each token has a vector, and its output is [n, tokens, 4]."""
    onnx, tokenizers = pytest.importorskip("onnx"), pytest.importorskip("tokenizers")
    pytest.importorskip("onnxruntime")
    table = np.random.default_rng(0).normal(size=(len(WORDS), 4)).astype(np.float32)
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


def test_a_folder_is_a_backbone(folder):
    path, table = folder
    backbone = load_backbone(path)
    expected = table[[1, 6, 3, 2]].mean(axis=0)
    np.testing.assert_allclose(backbone.embed(["the hen"])[0], expected / np.linalg.norm(expected), rtol=1e-5)
    assert backbone.dimension == 4
    assert len(backbone.fingerprint) == 32
    assert kind_of_backbone(str(path)) == "texts"
    assert model_file(str(path)) == path / "model.onnx"


def test_how_it_pools_is_read(folder):
    path, table = folder
    before = load_backbone(path).fingerprint
    (path / "1_Pooling").mkdir()
    settings = path / "1_Pooling" / "config.json"
    settings.write_text(json.dumps({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}))
    backbone = load_backbone(path)
    np.testing.assert_allclose(backbone.embed(["the hen"])[0], table[1] / np.linalg.norm(table[1]), rtol=1e-5)
    assert backbone.fingerprint != before
    settings.write_text(json.dumps({"pooling_mode_max_tokens": True}))
    with pytest.raises(ValueError, match="pooling_mode_max_tokens"):
        load_backbone(path)


def test_long_texts_are_cut(folder):
    path, _ = folder
    (path / "sentence_bert_config.json").write_text('{"max_seq_length": 8}')
    backbone = load_backbone(path)
    assert backbone.count_pieces(["hen", "hen " * 6, "hen " * 7]).tolist() == [1, 1, 2]
    assert np.isfinite(backbone.embed(["", "hen owl " * 1000])).all()


@pytest.mark.parametrize(
    ("file", "content", "error"),
    [
        ("tokenizer.json", "{}", "cannot be read as a tokenizer"),
        ("model.onnx", "not a network", "cannot be read as an ONNX network"),
        ("1_Pooling/config.json", "{", "is not JSON"),
    ],
)
def test_damaged_files_are_named(folder, file, content, error):
    path, _ = folder
    (path / file).parent.mkdir(exist_ok=True)
    (path / file).write_text(content)
    with pytest.raises(ValueError, match=error):
        load_backbone(path)


def test_a_folder_without_a_tokenizer_or_a_network_is_refused(folder, tmp_path):
    path, _ = folder
    (path / "model.onnx").unlink()
    with pytest.raises(ValueError, match="no ONNX file"):
        load_backbone(path)
    (path / "tokenizer.json").unlink()
    with pytest.raises(ValueError, match="has no tokenizer.json"):
        load_backbone(path)


def test_pixels_have_no_meaning_for_texts():
    with pytest.raises(ValueError, match="size of minilm cannot be changed"):
        load_backbone("minilm", size=10)
