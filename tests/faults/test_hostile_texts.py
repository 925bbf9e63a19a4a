"""Tables of texts and files of corrections by strangers: a sentence, and nothing is written."""

import json
import os

import pytest
from piles import contents

from handful.features import practice
from handful.features.text_table import read_text_table
from handful.project.corrections import MAX_CLASS_NAME_LENGTH

TEXTS = (
    ("t.csv", "text,label\n" + "," * 100_000 + "x", "cells"),
    ("t.csv", ",".join(["text"] * 100_000) + "\nhello there\n", "columns"),
    ("t.csv", "text" * 50_000 + ",label\nhello there,a\n", "characters"),
    ("t.csv", "text,label\n" + '"hello there,\n' * 30_000, "line 2"),
    ("t.csv", "text,label\nhello there," + "x" * 1_000_000 + "\nhello you,\n", "1,000,000 characters"),
    ("t.jsonl", "[" * 1_000_000, "line 1"),
    ("t.jsonl", '{"a":' * 100_000 + "1" + "}" * 100_000, "line 1"),
    ("t.jsonl", '{"text": ' + "9" * 100_000 + "}", "line 1"),
    ("t.csv", "PK\x03\x04" + "\0" * 1000, "Excel"),
)


def test_hostile_tables_of_texts_are_refused(tmp_path):
    for file, content, words in TEXTS:
        (tmp_path / file).write_text(content, encoding="utf-8")
        with pytest.raises(ValueError, match=words) as refusal:
            read_text_table(tmp_path / file, text="text")
        assert len(str(refusal.value)) < 700
        assert str(refusal.value).isprintable()


# ---- corrections


def document(*entries):
    return json.dumps({"corrections": list(entries)})


LONG = "x" * (MAX_CLASS_NAME_LENGTH + 1)
CORRECTIONS = (
    ("c.json", "", "cannot be used"),
    ("c.json", "[]", "must be an object with a list"),
    ("c.json", b'{"corrections": "\xff\xfe"}', "not text in UTF-8"),
    ("c.json", document("a"), "must be an object"),
    ("c.json", document({"item": 1, "label": "a"}), "with the texts"),
    ("c.json", document({"item": "a", "label": LONG}), "a label of more than"),
    ("c.json", document({"item": "a", "label": "  "}), "has a blank label"),
    ("c.json", document({"item": "a", "label": "b"}, {"item": "a", "label": "c"}), "'a' is called 'b' and 'c'"),
    (
        "c.json", document(*[{"item": f"../{k}", "label": "b"} for k in range(9)]),
        "'../0', '../1', '../2' and 6 more, which the corrections name, are not in the pile",
    ),
    ("c.csv", "item,label\na,b\n", "one column 'path'"),
    ("c.csv", 'path,label\n"a,b\n', "a quote is never closed"),
    ("c.csv", b"path,label\n\xff,b\n", "not text in UTF-8"),
    ("c.csv", "path,label\na,-1\n", "no class can be called '-1', which means that an item has no label"),
    ("c.exe", "path,label\n", "must end in .json or .csv"),
)  # fmt: skip


def test_hostile_corrections_are_refused_and_change_nothing(handful, tmp_path):
    practice("embeddings", tmp_path)
    done = handful("label", "table.csv", "-o", "out", "--outlier-share", 0.46, "--method", "kdo")
    assert done.returncode == 0, done.stderr
    before = contents(tmp_path / "out")
    for name, content, sentence in CORRECTIONS:
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        done = handful("label", "out", "--corrections", name)
        assert done.returncode == 1, content[:100]
        assert sentence in done.stderr, content[:100]
        assert done.stderr.count("\n") == 1, content[:100]
    os.mkfifo(tmp_path / "p.csv")
    assert "there is no file" in handful("label", "out", "--corrections", "p.csv").stderr
    assert contents(tmp_path / "out") == before
