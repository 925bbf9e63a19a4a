"""Sentence encoders of the user: functions, and folders with an ONNX network and a tokenizer."""

import base64
import json

import numpy as np
import pytest

from handful.backbones import embed_texts, load_backbone
from handful.backbones.catalogue import kind_of_backbone, model_file
from handful.backbones.onnx_texts import _ask

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


def described(path, **parts):
    """The tokenizer of a folder, with other parts."""
    file = path / "tokenizer.json"
    file.write_text(json.dumps(json.loads(file.read_text("utf-8")) | parts), "utf-8")
    return file


def sequence(*steps, of="normalizers"):
    return {"type": "Sequence", of: [step if isinstance(step, dict) else {"type": step} for step in steps]}


def replacing(content, **pattern):
    return {"type": "Replace", "pattern": pattern, "content": content}


def characters(becomes=b"b", damage=None):
    """A table in which A becomes a text; `damage` is the number of one of its steps, and what is there instead."""
    steps = np.zeros(1024, "<u4")
    steps[[0, 256 ^ ord("A"), 256 ^ ord("A") ^ 512]] = 256 << 10, 512 << 10 | 1 << 8 | ord("A"), 1 << 31
    if damage is not None:
        steps[damage[0]] = damage[1]
    table = steps.nbytes.to_bytes(4, "little") + steps.tobytes() + becomes + b"\0"
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(table).decode()}


def template(*tokens, special_tokens=None):
    pieces = [{"Sequence" if token == "A" else "SpecialToken": {"id": token, "type_id": 0}} for token in tokens]
    known = {"x": {"id": "x", "ids": [1] * 200, "tokens": ["x"] * 200}} if special_tokens is None else special_tokens
    return {"type": "TemplateProcessing", "single": pieces, "pair": [], "special_tokens": known}


ROBERTA = {"type": "RobertaProcessing", "sep": ["[SEP]", 2], "cls": ["[CLS]", 1], "trim_offsets": True}
ROBERTA["add_prefix_space"] = False
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
METASPACE = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
SPACES = replacing(" ", Regex=" {2,}")
BERT = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None}
BERT["lowercase"] = True
STRIP = {"type": "Strip", "strip_left": False, "strip_right": True}
UNIGRAM = {"type": "Unigram", "unk_id": 0, "byte_fallback": False}
UNIGRAM["vocab"] = [[word, -index] for index, word in enumerate(["<unk>", "\u2581", "the", "b", *"henowlcat\u2581"])]
LETTERS = {letter: index for index, letter in enumerate(["[UNK]", "[CLS]", "[SEP]", *"abcehilnostw", "\u0120", "th"])}
BPE = {"vocab": LETTERS, "merges": [["t", "h"]], "unk_token": "[UNK]", "dropout": None, "continuing_subword_prefix": ""}
BPE |= {"end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False}  # old files do not name the type
WORDPIECE = {"unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": LETTERS}


@pytest.mark.parametrize(
    "parts",
    [
        {"normalizer": BERT, "pre_tokenizer": {"type": "BertPreTokenizer"}, "model": WORDPIECE},
        {"normalizer": BERT, "post_processor": ROBERTA},  # MPNet
        {"normalizer": sequence(characters(), SPACES), "pre_tokenizer": METASPACE, "model": UNIGRAM},  # XLM-R, e5, bge
        {"normalizer": sequence(STRIP, replacing("\u2581", Regex=" {2,}")),
         "pre_tokenizer": sequence("WhitespaceSplit", METASPACE, of="pretokenizers"), "model": UNIGRAM},
        {"normalizer": sequence(replacing('"', String="``"), replacing('"', String="''"), "NFKD", "StripAccents",
                                "Lowercase", characters(), SPACES), "model": UNIGRAM},  # ALBERT
        {"normalizer": {"type": "NFC"}, "pre_tokenizer": BYTES, "model": BPE,
         "post_processor": sequence(BYTES, template("A", "x"), of="processors")},  # RoBERTa, ModernBERT
        {"normalizer": replacing("\u2581", String=" "), "model": BPE,
         "pre_tokenizer": {"type": "Split", "pattern": {"String": " "}, "behavior": "Isolated", "invert": False}},
    ],
)  # fmt: skip
def test_tokenizers_of_published_encoders_give_the_tokens_of_their_library(parts, folder):
    tokenizers, (path, _) = pytest.importorskip("tokenizers"), folder
    if parts.get("post_processor", {}).get("type") == "Sequence":
        parts["post_processor"]["processors"][1]["special_tokens"]["x"] |= {"ids": [2], "tokens": ["x"]}
    theirs = tokenizers.Tokenizer.from_file(str(described(path, **parts)))
    theirs.enable_truncation(256)
    backbone = load_backbone(path)
    for text in ("", "The  hen", "A ``cat'' on the\nowl, na\u00efve \ufdfa 12", "a " * 1000):
        encoded = theirs.encode(text)
        assert backbone.pieces(text) == [list(piece.ids) or [0] for piece in (encoded, *encoded.overflowing)]


@pytest.mark.parametrize(
    ("parts", "error"),
    [
        ({"normalizer": sequence(*[replacing("aa", String="a")] * 12)}, "Replace of 'a' can make a text longer"),
        ({"normalizer": replacing("b", Regex="(a+)+$")}, "or is a regular expression"),
        ({"normalizer": replacing("b", String="")}, "can make a text longer"),
        ({"normalizer": {"type": "Prepend", "prepend": "a"}}, "its normalizer is Prepend"),
        ({"normalizer": sequence("NFKC", "NFKD")}, r"its normalizer is NFKC \+ NFKD"),
        ({"normalizer": sequence(*["Strip"] * 17)}, "its normalizer is Strip"),
        ({"normalizer": sequence(sequence("NFC"))}, "its normalizer is Sequence"),
        ({"normalizer": "NFC"}, "is not built like one"),
        ({"normalizer": replacing("b", String="\ud800")}, "cannot be read as a tokenizer"),
        *(({"normalizer": {"type": "Precompiled", "precompiled_charsmap": text}}, "cannot be read as a tokenizer")
          for text in (None, "", "!!!!", "AAAA", "/////w==", "BAAAAAAAAAA=")),
        ({"normalizer": characters(damage=(0, 0xFFFF << 10))}, "Precompiled.* is damaged"),
        ({"normalizer": characters(damage=(833, 1 << 31 | 99))}, "Precompiled.* is damaged"),
        ({"normalizer": characters("\u00e9".encode(), damage=(833, 1 << 31 | 1))}, "Precompiled.* is damaged"),
        ({"normalizer": characters(b"b" * 200)}, "Precompiled.* is damaged"),
        ({"pre_tokenizer": {"type": "FixedLength", "length": 0}}, "its pre_tokenizer is FixedLength"),
        ({"pre_tokenizer": sequence(*[BYTES] * 12, of="pretokenizers")}, "its pre_tokenizer is ByteLevel"),
        ({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}},
         "its Split of"),
        ({"post_processor": template("A", "A")}, "needs the text once"),
        ({"post_processor": template("B")}, "needs the text once"),
        ({"post_processor": template("A", "y")}, "every token that it names"),
        ({"post_processor": template("A", "x")}, "more tokens around a text than the network can read"),
        ({"model": {"type": "Own"}}, "its model is Own"),
        ({"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "[UNK]"}}, r"cannot cut .* Missing \[UNK\]"),
        ({"model": UNIGRAM | {"unk_id": None}}, "cannot cut .* unknown token"),
        ({"model": UNIGRAM | {"unk_id": 99}}, "cannot be read as a tokenizer"),
        ({"model": WORDPIECE | {"max_input_chars_per_word": 10**9}}, "words of more than 200 characters"),
        ({"added_tokens": [{"id": 0, "content": "a" * 2**21}]}, "added tokens have more than"),
        ({"added_tokens": ["a"]}, "is not built like one"),
    ],
)  # fmt: skip
def test_a_tokenizer_that_could_take_all_memory_or_fail_is_refused_in_a_sentence(parts, error, folder):
    path, _ = folder
    file = described(path, **parts)
    with pytest.raises(ValueError, match=error) as refusal:
        load_backbone(path)
    assert str(file) in str(refusal.value)
    assert len(str(refusal.value)) < len(str(file)) + 400


def test_a_text_that_a_tokenizer_makes_much_longer_is_refused(folder):
    file = described(folder[0], normalizer=characters(b"b" * 90))
    backbone = load_backbone(folder[0])
    assert backbone.count_pieces(["A text", "b" * 9000]).tolist() == [1, 1]
    with pytest.raises(ValueError, match=f"{file} cannot normalize 'b.*more than 32 times as long"):
        backbone.pieces("b" * 9000 + "A" * 1000)
    described(folder[0], added_tokens=[{"id": 0, "content": "A" * 1000}])
    with pytest.raises(ValueError, match="more than 32 times as long"):
        load_backbone(folder[0])


def test_a_panic_of_the_library_is_an_error_like_others():
    tokenizers = pytest.importorskip("tokenizers")
    with pytest.raises(ValueError, match="the text: chunk size must be non-zero"):
        _ask("the text", tokenizers.pre_tokenizers.FixedLength(0).pre_tokenize_str, "a")


def test_a_long_text_is_cut_into_tokens_slice_by_slice(folder):
    backbone = load_backbone(folder[0])
    text = "hen " * 2**16 + "owl \ud800"
    pieces = backbone.pieces(text)
    assert len(pieces) == 64
    assert {len(piece) for piece in pieces[:-1]} <= {256, (2**14 - 1) % 254 + 3, 2**14 % 254 + 2}
    assert pieces[-1][:2] == [1, WORDS.index("owl")]


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
