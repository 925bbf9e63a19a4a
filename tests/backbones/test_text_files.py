"""Texts in files: which are found, which are read, and what is said of the others."""

import os

import pytest

from handful.backbones.texts import MAX_TEXT_BYTES, BadText, find_texts, read_text


def test_texts_are_found_as_people_sort_them_and_other_files_are_counted(tmp_path):
    for name in ("10.txt", "2.TXT", "notes.md", "sub/a.text", ".hidden.txt", "__MACOSX/x.txt", "a.png", "b.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("hello")
    texts, skipped = find_texts(tmp_path)
    assert [str(path.relative_to(tmp_path)) for path in texts] == ["2.TXT", "10.txt", "notes.md", "sub/a.text"]
    assert len(skipped) == 1
    assert "holds 2 files that are not texts" in skipped[0].reason
    assert "1 with .png" in skipped[0].reason


def test_links_are_followed_once_and_broken_ones_named(tmp_path):
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "gone.txt").symlink_to(tmp_path / "nowhere.txt")
    os.mkfifo(tmp_path / "pipe.txt")
    texts, skipped = find_texts(tmp_path)
    assert [path.name for path in texts] == ["a.txt"]
    assert {os.path.basename(one.path): one.reason.split(":")[0] for one in skipped} == {
        "gone.txt": "is a link to a missing file",
        "pipe.txt": "is not a regular file (a pipe or device)",
    }
    with pytest.raises(BadText, match="missing file"):
        find_texts(tmp_path, strict=True)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_encodings_are_recognised(tmp_path, encoding):
    path = tmp_path / "a.txt"
    path.write_bytes("Grüße 😀 שלום".encode(encoding))
    assert read_text(path) == ("Grüße 😀 שלום", "")


def test_other_bytes_are_read_as_windows_1252(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("ünï ".encode() + "“café”".encode("cp1252"))
    assert read_text(path) == ("ünï “café”", "3 bytes are not UTF-8 and were read as Windows-1252")


def test_an_empty_file_is_a_blank_text(tmp_path):
    (tmp_path / "a.txt").touch()
    assert read_text(tmp_path / "a.txt") == ("", "")


def test_what_cannot_be_read_is_said(tmp_path):
    os.mkfifo(tmp_path / "pipe.txt")
    with (tmp_path / "large.txt").open("wb") as file:
        file.truncate(MAX_TEXT_BYTES + 1)
    for name, reason in (
        ("pipe.txt", "not a regular file"),
        ("large.txt", "at most 16 MB"),
        ("gone.txt", "cannot be read"),
        ("a\0b.txt", "not a valid file name"),
        (".", "not a regular file"),
    ):
        with pytest.raises(BadText, match=reason):
            read_text(tmp_path / name)
