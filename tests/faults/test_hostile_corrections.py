"""`handful label --corrections` on files of strangers: refused in a sentence, and nothing is written."""

import json
import os

import pytest
from piles import contents
from test_groups import table

from handful.project.corrections import MAX_CLASS_NAME_LENGTH, MAX_CORRECTIONS_BYTES

LABEL = ("label", "t.csv", "-o", "out", "--outlier-share", 0.46, "--method", "kdo")


@pytest.fixture(scope="module")
def results(sandbox):
    """Results of a table, which any of the files below would correct."""
    place = sandbox.folder / "corrected"
    place.mkdir()
    table(place / "t.csv")
    done = sandbox.run("label", place / "t.csv", "-o", place / "out", *LABEL[4:])
    assert done.code == 0, done.stderr
    return place / "out"


def document(*entries, **more):
    return json.dumps({"corrections": list(entries), **more})


def nested(depth):
    return '{ "corrections":               ' * depth + "1" + "}" * depth


HOSTILE_JSON = {
    "empty": ("", "cannot be used"),
    "no JSON": ("{", "cannot be used"),
    "a list": ("[]", "must be an object with a list"),
    "null": ("null", "must be an object with a list"),
    "without corrections": ("{}", "must be an object with a list"),
    "not UTF-8": (b'{"corrections": "\xff\xfe"}', "not text in UTF-8"),
    "200,000 lists deep": ("[" * 200_000, "cannot be used"),
    "deep with room between": (nested(100_000), "cannot be used"),
    "corrections are text": (document() [:-1].replace("[]", '"all"') + "}", "must be an object with a list"),
    "an entry is text": (document("a"), "must be an object"),
    "an entry without a label": (document({"item": "a"}), "has a blank label"),
    "an item is a number": (document({"item": 1, "label": "a"}), "with the texts"),
    "a label is a list": (document({"item": "a", "label": ["a"]}), "with the texts"),
    "a label is an object": (document({"item": "a", "label": {"a": 1}}), "with the texts"),
    "an item of a million characters": (document({"item": "x" * 1_000_000, "label": "a"}), "not in the pile"),
    "a long label": (document({"item": "a", "label": "x" * (MAX_CLASS_NAME_LENGTH + 1)}), "a label of more than"),
    "a blank label": (document({"item": "a", "label": "  "}), "has a blank label"),
    "two labels for an item": (
        document({"item": "a", "label": "b"}, {"item": "a", "label": "c"}), "'a' is called 'b' and 'c'"
    ),
    "items of elsewhere": (
        document(*[{"item": f"../{k}", "label": "b"} for k in range(9)]),
        "'../0', '../1', '../2' and 6 more, which the corrections name, are not in the pile",
    ),
    "5,000 digits": ('{"corrections": [{"item": "a", "label": 1' + "0" * 5000 + "}]}", "cannot be used"),
}  # fmt: skip
HOSTILE_CSV = {
    "empty": ("", "one column 'path'"),
    "other columns": ("item,label\na,b\n", "one column 'path'"),
    "a column twice": ("path,label,label\na,b,c\n", "one column 'label'"),
    "a row that is too long": ("path,label\na,b,c\n", "line 2 has 3 cells"),
    "a row that is too short": ("path,label\na\n", "line 2 has 1 cells"),
    "a quote that never ends": ('path,label\n"a,b\n', "a quote is never closed"),
    "a cell of a million characters": ("path,label\n" + "x" * 1_000_000 + ",b\n", "name, is not in the pile"),
    "not UTF-8": (b"path,label\n\xff,b\n", "not text in UTF-8"),
    "two labels for an item": ("path,label\na,b\na,c\n", "'a' is called 'b' and 'c'"),
    "a blank label": ("path,label\na,\n", "has a blank label"),
    "no label": ("path,label\na,-1\n", "no class can be called '-1', which means that an item has no label"),
}
FILES = [("c.json", *case) for case in HOSTILE_JSON.values()] + [("c.csv", *case) for case in HOSTILE_CSV.values()]


def test_a_damaged_or_hostile_file_is_refused_in_a_sentence(results, sandbox, tmp_path):
    before = contents(results.parent)
    for name, content, sentence in FILES:
        file = tmp_path / name
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        said = sandbox.refuses("label", results, "--corrections", file)
        assert sentence in said, content[:100]
        assert said.count("\n") == 1, content[:100]
    assert contents(results.parent) == before


def test_a_file_that_is_too_large_or_no_file_is_refused_unread(results, sandbox, tmp_path):
    for name in ("large.json", "large.csv"):
        (tmp_path / name).touch()
        os.truncate(tmp_path / name, 2**40)
        said = sandbox.refuses("label", results, "--corrections", tmp_path / name)
        assert f"has more than {MAX_CORRECTIONS_BYTES:,} bytes" in said
    for name, make in (("d.json", os.mkdir), ("p.csv", os.mkfifo), ("z.json", lambda p: p.symlink_to("/dev/zero"))):
        make(tmp_path / name)
        assert "there is no file" in sandbox.refuses("label", results, "--corrections", tmp_path / name)
    (tmp_path / "c.exe").write_text("path,label\n")
    assert "must end in .json or .csv" in sandbox.refuses("label", results, "--corrections", tmp_path / "c.exe")
