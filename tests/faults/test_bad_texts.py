"""Texts as they come, through the command line: each gets a right answer or a sentence, and nothing is lost."""

import csv
import json
import os

import pyarrow as pa
from piles import assert_refused, contents, rows_of
from pyarrow import parquet
from text_piles import fill_texts, rows, truth

from handful.features import practice
from handful.features.text_table import read_text_table
from handful.project.corrections import MAX_CLASS_NAME_LENGTH
from handful.utils.csv_file import unescape

RIGHT = truth()
BAD = {
    "a hundred kilobytes": "my card is lost. " * 6_200,
    "zero": "my ca\0rd \0 is lost",
    "right to left": "מה מזג האוויר היום? هل ستمطر غدا",
    "emoji": "🌧️☔🤷🏽‍♀️ will it rain 👨‍👩‍👧‍👦",
    "html": "<script>alert(1)</script><img src=x onerror=alert(1)></textarea> my card",
    "formula": "=cmd|' /C calc'!A0,\"x\"",
    "formula at": "@SUM(1+1)*cmd",
    "quotes": 'he said "my card, is\r\nlost"\nand went',
    "controls": "\x1b[31mred\x07\x08 \u202eevil\u202c \ufeff",
    "separators": "a\u2028b\u2029c\x85d\x0be\x0cf",
}


def read_pile(folder):
    return parquet.read_table(folder / "labels.parquet").to_pylist()


def test_bad_texts_in_every_format_are_labelled_and_kept_as_they_are(handful, tmp_path):
    texts = [*((text, label) for text, label, _ in rows()), *((text, "") for text in BAD.values())]
    columns = {
        "nr": list(range(len(texts))), "text": [text for text, _ in texts], "label": [label for _, label in texts],
    }  # fmt: skip
    records = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, records)))
    for name, separator in (("t.csv", ","), ("t.tsv", "\t")):
        with (tmp_path / name).open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, delimiter=separator).writerows([columns, *zip(*columns.values(), strict=True)])
    for name in ("t.csv", "t.tsv", "t.jsonl", "t.parquet"):
        assert list(read_text_table(tmp_path / name).texts) == columns["text"], name
    done = handful("label", "t.csv", "-o", "o")
    assert done.returncode == 0, done.stderr
    table = read_pile(tmp_path / "o")
    pile = [row for row in records if not row["label"]]
    assert [(int(row["nr"]), row["text"]) for row in table] == [(row["nr"], row["text"]) for row in pile]
    assert sum(row["label"] == RIGHT.get(row["text"]) for row in table) >= 25
    with open(tmp_path / "o" / "labels.csv", encoding="utf-8", newline="") as file:
        csv.field_size_limit(2**24)
        cells = [row["text"] for row in csv.DictReader(file)]
    assert [unescape(cell) for cell in cells] == [row["text"] for row in table]
    assert not any(cell.startswith(("=", "@")) for cell in cells)


REFUSED = [
    ("text,label\n", (), ["no rows"]),
    ("PK\x03\x04" + "\0" * 1000, ("--text", "text"), ["Excel"]),
    ("text,label\nhello there,a\n", (), ["every row", "has a label"]),
    ("text,label\nhello there,\n", (), ["no row with a label", "'label' is blank"]),
    ("text,label\nhello there,a\n,\n  ,\n", (), ["no row", "has a text"]),
    ("text,label\nhello, there,a\nwho is there,\n", (), ["line 2 has 3 cells"]),
    ('text,label\n"hello there,a\nwho is there,\n', (), ["line 2", "never closed"]),
    ("a,b,label\nx y z,1,a\n", ("--text", "c"), ["'c'", "'a', 'b', 'label'"]),
    ("text,label\nhello there,unknown\nwho is there,\n", (), ["only examples of no class"]),
    ("text,label\nhello there,nan\nwho is there,\n", (), ["'nan'", "missing label"]),
]


def test_tables_that_cannot_be_labelled_get_a_sentence(handful, tmp_path):
    for content, arguments, words in REFUSED:
        (tmp_path / "t.csv").write_text(content)
        assert_refused(handful("label", "t.csv", "-o", "o", *arguments), *words)
        assert not (tmp_path / "o").exists()


def test_a_pile_of_files_keeps_empty_and_odd_ones(handful, tmp_path):
    fill_texts(tmp_path)
    (tmp_path / "pile" / "empty.txt").touch()
    (tmp_path / "pile" / "=1+1.txt").write_bytes("où est ma carte".encode("cp1252"))
    (tmp_path / "pile" / "picture.png").write_bytes(b"\x89PNG")
    (tmp_path / "examples" / "card" / "empty.txt").touch()
    done = handful("label", "examples", "pile", "-o", "o", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["items"] == 30
    assert any("Windows-1252" in note for note in document["notes"])
    assert any("card/empty.txt" in one["path"] and "no text" in one["reason"] for one in document["skipped"])
    table = {row["path"]: row for row in read_pile(tmp_path / "o")}
    assert table["empty.txt"]["label"] == "unknown"
    assert table["=1+1.txt"]["text"] == "où est ma carte"
    assert any(row["path"] == "'=1+1.txt" for row in rows_of(tmp_path / "o" / "labels.csv"))


# ---- corrections


def document(*entries):
    return json.dumps({"corrections": list(entries)})


LONG = "x" * (MAX_CLASS_NAME_LENGTH + 1)
CORRECTIONS = (
    ("c.json", "", "cannot be used"),
    ("c.json", b'{"corrections": "\xff\xfe"}', "not text in UTF-8"),
    ("c.json", document("a"), "must be an object"),
    ("c.json", document({"item": "a", "label": LONG}), "a label of more than"),
    ("c.json", document({"item": "a", "label": "  "}), "has a blank label"),
    ("c.json", document({"item": "a", "label": "b"}, {"item": "a", "label": "c"}), "'a' is called 'b' and 'c'"),
    (
        "c.json", document(*[{"item": f"../{k}", "label": "b"} for k in range(9)]),
        "'../0', '../1', '../2' and 6 more, which the corrections name, are not in the pile",
    ),
    ("c.csv", "item,label\na,b\n", "one column 'path'"),
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
