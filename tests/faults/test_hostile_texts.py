"""Tables of texts of strangers: a sentence, quickly and with little memory, and nothing is written."""

import json

import pyarrow as pa
from pyarrow import parquet

HOSTILE = {
    "commas": ("t.csv", "text,label\n" + "," * 4_000_000 + "x", "cells"),
    "a million columns": ("t.csv", ",".join(["text"] * 1_000_000) + "\nhello there\n", "columns"),
    "rows to fill": ("t.csv", ",".join(f"c{i}" for i in range(60_000)) + ",text\n" + "a b c\n" * 300_000, "memory"),
    "a long name": ("t.csv", "text" * 50_000 + ",label\nhello there,a\n", "characters"),
    "digits as a name": ("t.csv", "text," + "1" * 200_000 + "x,label\nhello there,a,b\n", "characters"),
    "open quotes": ("t.csv", "text,label\n" + '"hello there,\n' * 300_000, "line 2"),
    "a long label": ("t.csv", "text,label\nhello there," + "x" * 1_000_000 + "\nhello you,\n", "1,000,000 characters"),
    "brackets": ("t.jsonl", "[" * 1_000_000, "line 1"),
    "deep objects": ("t.jsonl", '{"a":' * 100_000 + "1" + "}" * 100_000, "line 1"),
    "a name in each line": ("t.jsonl", "\n".join(f'{{"c{i}":0}}' for i in range(8000)), "memory"),
    "a long number": ("t.jsonl", '{"text": ' + "9" * 100_000 + "}", "line 1"),
    "a zip": ("t.csv", "PK\x03\x04" + "\0" * 1000, ""),
    "spaces": ("t.csv", "text,label\n" + " " * 2_000_000 + ",a\n \u200b,\n", ""),
}  # fmt: skip


def test_hostile_tables_of_texts_are_refused(sandbox, tmp_path):
    for file, content, words in HOSTILE.values():
        (tmp_path / file).write_text(content, encoding="utf-8")
        assert words in sandbox.refuses("label", file, "--text", "text", "-o", "out", cwd=tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == [file]
        (tmp_path / file).unlink()


def test_a_parquet_file_that_expands_is_refused(sandbox, tmp_path):
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 2000), ["all the same words " * 50_000])
    parquet.write_table(pa.table({"text": texts, "label": ["a", None] * 1000}), tmp_path / "t.parquet")
    assert "memory" in sandbox.refuses("label", "t.parquet", "--text", "text", "-o", "out", cwd=tmp_path)
    assert sandbox.refuses("label", "t.parquet", "-o", "out", cwd=tmp_path)


def test_a_record_is_a_view_that_is_not_believed(sandbox, tmp_path):
    rows = ["my card is lost", "the card is gone", "will it rain", "is it warm", "what is a card", "rain or sun"]
    labels = ["card", "card", "weather", "weather", "", ""]
    lines = [f"{text},{label}" for text, label in zip(rows, labels, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["text,label", *lines]))
    done = sandbox.run("label", "t.csv", "-o", "out", cwd=tmp_path)
    assert done.code == 0, done.stderr
    record = json.loads((tmp_path / "out" / "results.json").read_text())
    for column in (3, ["text"], "x" * 10_000, "../../etc/passwd", "outlier_score", ""):
        (tmp_path / "out" / "results.json").write_text(json.dumps(record | {"text_column": column}))
        done = sandbox.run("check", "out", stdin="y\n", cwd=tmp_path)
        assert done.code == 0, done.stderr
        assert "rain or sun" in done.stdout or "what is a card" in done.stdout or "looked at" in done.stdout.lower()
