"""Tables of texts: which column holds them, what is odd about a file, and that nothing is lost."""

import json

import pyarrow as pa
import pytest
from pyarrow import parquet

from handful.features.text_table import is_text_table, read_text_table

SENTENCES = ["where is my new card", "my card was stolen yesterday", "how is the weather in Rome", "tell me a joke now"]
LONG = "long words " * 99_999


@pytest.fixture
def table(tmp_path):
    """Write a file of this content and read it."""

    def read(content, name="table.csv", **options):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_text_table(path, **options)

    return read


def cells(table, name):
    return table.others[name].tolist()


def test_the_columns_are_found_by_name_or_by_how_they_look(table):
    for header, text, label in (
        ("text,label", "text", "label"),
        ("label,id,Message", "Message", "label"),
        ("title,body,intent", "body", "intent"),
        ("who,remark,category", "remark", "category"),
        ("label,review_text,author", "review_text", "label"),
        ("class,label,text", "text", "label"),
        ("tag,what people said,when", "what people said", "tag"),
    ):
        names = header.split(",")
        rows = [[SENTENCES[i] if name == text else f"{name}{i % 2}" for name in names] for i in range(4)]
        read = table("\n".join(",".join(row) for row in [names, *rows]))
        assert list(read.texts) == SENTENCES
        assert read.source["text"] == text
        assert read.label_names == [f"{label}{i % 2}" for i in range(4)]
        assert repr(text) in read.notes[0]
        assert repr(label) in read.notes[0]
    read = table("id,code,words\n1,a b,今天天气怎么样啊\n2,c d,我的卡被偷了怎么办\n3,a b,给我讲一个笑话吧\n")
    assert read.source["text"] == "words"  # a language without spaces
    read = table("text,title,label,intent\na b c,short one,x,1\nd e f,other one,y,2\n", text="title", label="intent")
    assert list(read.texts) == ["short one", "other one"]
    assert read.label_names == ["1", "2"]


def test_what_is_wrong_is_said_with_the_place(table):
    for content, options, words in (
        ("a,b\n1,2\n", {"text": "c"}, ["'c'", "'a', 'b'", "--text"]),
        ("a,text\n1,2\n", {"text": "a"}, ["'a'", "only numbers", "--text"]),
        ("text,b\nhello,2\n", {"label": "class"}, ["'class'", "'text', 'b'", "--label"]),
        ("text\nhello\n", {"label": "text", "text": "text"}, ["both"]),
        ("a,b\nx,y\n", {}, ["not clear", "--text", "'a', 'b'"]),
        ("a,b\n1,2\n", {}, ["no column holds texts", "'a', 'b'"]),
        ("text,label\n", {}, ["no rows"]),
        ("", {}, ["empty"]),
        ("text,label\nhello,nan\n", {}, ["'nan'", "blank"]),
        ('text,label\n"two\nlines",a\nhello, you,b\n', {}, ["line 4 has 3 cells, but the first line has 2"]),
        ('text,label\nfine,a\n"open,b\nmore,c\n', {}, ["line 3", "never closed"]),
    ):
        with pytest.raises(ValueError, match=r"table\.csv") as error:
            table(content, **options)
        for word in words:
            assert word in str(error.value)
    for line in ("{", "[1]", "3", '{"a": 1} x', "[" * 100_000):
        with pytest.raises(ValueError, match="line 2"):
            table(f'{{"text": "hello"}}\n{line}\n', "t.jsonl")


def test_every_cell_is_carried_along_as_it_is_written(table):
    quoted = 'id,text,price,when\n007,"a ""quoted"", text\nof two lines",1.50,\n008,=1+1,-5,2024-01-01\n'
    for name, content, columns, note in (
        ("t.csv", quoted, {"id": ["007", "008"], "text": ['a "quoted", text\nof two lines', "=1+1"],
                           "price": ["1.50", "-5"], "when": ["", "2024-01-01"]}, ""),
        ("t.csv", "text;label\nhello, you;a\n", {"text": ["hello, you"], "label": ["a"]}, "separated by ';'"),
        ("t.tsv", "text\tlabel\nhello, you\ta\n", {"text": ["hello, you"], "label": ["a"]}, ""),
        ("t.csv", 'text,label,x\n"two\nlines",a,1\nshort\nfull row,b,2,\n', {"label": ["a", "", "b"]}, "in line 4"),
        ("t.csv", "text,a\nfull row,b,\nother row,c\n", {"a": ["b", "c"]}, "in line 2"),
        ("t.csv", "text,note,note\nhello you,1,2\n", {"note": ["1"], "note_2": ["2"]}, "more than one column"),
        ("t.csv", f"text,label\n{LONG},a\nze\0ro,b\n", {"text": [LONG, "ze\0ro"]}, ""),
        ("t.csv", 'text,label\n"Grüße, 今天 😀",é\n'.encode("utf-16"), {"text": ["Grüße, 今天 😀"]}, ""),
        ("t.csv", 'text,label\n"Grüße, 今天 😀",é\n'.encode("utf-8-sig"), {"text": ["Grüße, 今天 😀"]}, ""),
        ("t.csv", b"text,label\n" + "naïve “café”,a\n".encode("cp1252") + "ünï 😀,b\n".encode() + b"\x81\x8d,c\n",
         {"text": ["naïve “café”", "ünï 😀", "\x81\x8d"]}, "6 bytes are not UTF-8 and were read as Windows-1252"),
    ):  # fmt: skip
        read = table(content, name)
        assert {column: cells(read, column) for column in columns} == columns
        assert note in " ".join(read.notes)


def test_columns_of_parquet_keep_their_types_and_json_lines_have_a_column_for_each_name(table, tmp_path):
    columns = {
        "text": SENTENCES, "count": [1, None, 3, 4], "share": [0.5, 1.0, 2.0, 3.0], "ok": [True, False, None, True],
    }  # fmt: skip
    parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    read = read_text_table(tmp_path / "t.parquet")
    assert {name: cells(read, name) for name in columns} == columns
    rows = [
        {"text": "one \ud83d\ude00 \x00", "tags": ["a", "b"]},
        {"text": None, "count": 3, "label": "x"},
        {"count": 2.5, "text": "half \ud83d"},
    ]
    read = table("\n\n".join(map(json.dumps, rows)), "t.jsonl")
    assert list(read.texts) == ["one 😀 \0", "", "half \ufffd"]
    assert cells(read, "tags") == ['["a", "b"]', None, None]
    assert cells(read, "count") == [None, 3, 2.5]
    assert read.label_names == [None, "x", None]


def test_a_blank_label_is_no_label_and_rows_are_named_by_a_path_or_id_if_these_are_distinct(table):
    read = table("text,label\nhello there,a\n, b \nwhat now,\n   ,-1\n")
    assert read.label_names == ["a", "b", None, None]
    assert list(read.texts) == ["hello there", "", "what now", "   "]
    assert table("id,text\nx,hello you\ny,hello me\n").names == ["x", "y"]
    assert table("id,path,text\n1,a.txt,hello you\n1,b.txt,hello me\n").names == ["a.txt", "b.txt"]
    for ids in (("7", "7"), ("7", ""), ("7", "x" * 1000)):
        read = table(f"id,text\n{ids[0]},hello you\n{ids[1]},hello me\n")
        assert read.names == ["row 0", "row 1"]
        assert cells(read, "id") == list(ids)
        assert any("named by their number" in note for note in read.notes)


def test_tables_of_texts_are_told_from_tables_of_features(tmp_path):
    for content, expected in (
        ("text,intent\n" + "\n".join(f"{s},a" for s in SENTENCES), True),
        ("id,price,remark\n" + "\n".join(f"{i},{i}.5,{s}" for i, s in enumerate(SENTENCES)), True),
        ("text,label\nyes,a\nno,b\n", True),
        ("f0,f1,f2,text\n" + "\n".join(f"1,2,3,{s}" for s in SENTENCES), False),
        (",".join(f"c{i}x" for i in range(20)) + ",text\n" + ",".join(["1"] * 20) + ",a b c d\n", False),
        ("embedding,text\n" + "\n".join(f'"[1, 2]",{s}' for s in SENTENCES), False),
        ("a,b,label\n1,2,x\n3,4,y\n", False),
        ("name,label\nBob,x\nEve,y\n", True),
        ("a,b,text\n1,2,x\n3,4,y\n", False),
        ("a,label\n1,long labels are no texts\n3,as they are labels here\n", False),
    ):
        path = tmp_path / "t.csv"
        path.write_text(content)
        assert is_text_table(path) is expected
        assert not is_text_table(path, {"columns": ["a"]})
    path = tmp_path / "t.parquet"
    for vector, expected in (([[1.0, 2.0]] * 4, False), ([1.0] * 4, True)):
        parquet.write_table(pa.table({"text": SENTENCES, "vector": vector}), path)
        assert is_text_table(path) is expected
