"""Pictures and texts in folders: which are found, how texts are read, and what is said of other files."""

import os
import pickle

import pytest

from handful.backbones.folders import shown
from handful.backbones.pictures import BadPicture, find_pictures
from handful.backbones.texts import MAX_TEXT_BYTES, BadText, find_texts, read_text

LEADS_OUT = "is a link that leads out of the folder"


def touch(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")
    return path


def found_in(folder):
    found, skipped = find_pictures(folder)
    return [path.relative_to(folder).as_posix() for path in found], skipped


def test_pictures_and_texts_are_sorted_as_a_person_would_and_other_files_are_counted(tmp_path):
    names = ["1.jpg", "2.jpg", "10.jpg", "A.png", "b/img9.JPEG", "b/img10.jpg", "b2/1.gif", "B10/1.gif", "c.webp"]
    for name in reversed(names):
        touch(tmp_path / name)
    for name in (".hidden.jpg", "._a.jpg", ".git/a.jpg", "__MACOSX/a.jpg", "Thumbs.db", "desktop.ini", "@eaDir/a.jpg"):
        touch(tmp_path / name)  # passed over in silence
    assert found_in(tmp_path) == (names, [])
    for name in ("b.psd", "c/d.PSD", "2.TXT", "10.txt", "notes.md", "README"):
        touch(tmp_path / name)
    found, skipped = found_in(tmp_path)
    assert (found, [s.path for s in skipped]) == (names, [str(tmp_path)])
    assert "6 files that are not pictures" in skipped[0].reason
    assert "2 with .psd" in skipped[0].reason
    assert find_pictures(tmp_path, strict=True)[0]  # nothing is wrong with them
    texts, skipped = find_texts(tmp_path)
    assert [path.name for path in texts] == ["2.TXT", "10.txt", "notes.md"]
    assert "12 files that are not texts" in skipped[0].reason


def test_links_are_followed_unless_they_lead_out_of_the_folder(tmp_path):
    for name in ("elsewhere/a.jpg", "pile-2/a.jpg", "pile/.store/a.jpg"):
        touch(tmp_path / name)
    pile = tmp_path / "pile"
    targets = {
        "c/in.jpg": "../.store/a.jpg", "c/linked": pile / ".store", "c/out": "../../elsewhere", "next": "../pile-2",
        "out.jpg": "c/out/a.jpg", "proc": "/proc", "way.jpg": "c/way.jpg",
        "c/way.jpg": tmp_path / "elsewhere" / "a.jpg",
    }  # fmt: skip
    for name, target in targets.items():
        (pile / name).parent.mkdir(exist_ok=True)
        (pile / name).symlink_to(target)
    (tmp_path / "way").symlink_to(pile)
    outside = ["c/out", "c/way.jpg", "next", "out.jpg", "proc", "way.jpg"]
    for top in (pile, tmp_path / "way"):  # the folder that is named may be a link itself
        found, skipped = found_in(top)
        assert found == ["c/in.jpg", "c/linked/a.jpg"]
        assert [os.path.relpath(s.path, top) for s in skipped] == outside
        assert {s.reason.split(":")[0] for s in skipped} == {LEADS_OUT}
    assert not find_pictures(pile / "c")[0]
    assert [path.name for path in find_pictures(pile / "c", within=pile)[0]] == ["in.jpg", "a.jpg"]
    assert LEADS_OUT in find_pictures(pile / "c" / "out", within=pile)[1][0].reason
    with pytest.raises(BadPicture, match=f"c/out {LEADS_OUT}: copy the folder"):
        find_pictures(pile, strict=True)


def test_loops_of_links_end_and_links_to_nothing_are_named(tmp_path):
    pile = tmp_path / "pile"
    touch(tmp_path / "neighbour.jpg")
    touch(pile / "z" / "a.jpg")
    for name, target in (
        ("a_link", pile / "z"),  # sorted before it, but the picture is in z
        ("z/self", pile / "z"), ("z/top", pile), ("above", tmp_path), ("x", pile / "y"), ("y", pile / "x"),
        ("b.jpg", pile / "gone.jpg"), ("c.jpg", pile / "c.jpg"), ("d.txt", pile / "gone.txt"),
    ):  # fmt: skip
        (pile / name).symlink_to(target)
    found, skipped = found_in(pile)
    assert (found, [os.path.basename(s.path) for s in skipped]) == (["z/a.jpg"], ["above", "b.jpg", "c.jpg"])
    assert "link to a missing file" in skipped[1].reason


def test_a_folder_that_may_not_be_read_is_named(tmp_path, monkeypatch):
    touch(tmp_path / "a.jpg")
    touch(tmp_path / "closed" / "b.jpg")
    scandir = os.scandir

    def refuse(path):  # the superuser may read everything: no other way to be refused
        if os.path.basename(path) == "closed":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    found, skipped = found_in(tmp_path)
    assert (found, [s.path for s in skipped]) == (["a.jpg"], [str(tmp_path / "closed")])
    with pytest.raises(BadPicture, match="closed cannot be opened .Permission denied"):
        find_pictures(tmp_path, strict=True)
    for name, words in (("gone", "does not exist"), ("a.jpg", "is a file")):
        with pytest.raises(NotADirectoryError, match=words):
            find_pictures(tmp_path / name)


def test_errors_travel_between_processes_and_show_paths_on_one_line():
    error = pickle.loads(pickle.dumps(BadPicture("a\nb.jpg", "is bad: remove it")))
    assert (error.path, error.reason, str(error)) == ("a\nb.jpg", "is bad: remove it", "a\\nb.jpg is bad: remove it")
    assert shown("ü/\x1b[31m\udcff\u202e.jpg") == "ü/\\x1b[31m\\udcff\\u202e.jpg"


# ---- texts


def test_encodings_are_recognised_and_other_bytes_are_read_as_windows_1252(tmp_path):
    path = tmp_path / "a.txt"
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        path.write_bytes("Grüße 😀 שלום".encode(encoding))
        assert read_text(path) == ("Grüße 😀 שלום", "")
    path.write_bytes("ünï ".encode() + "“café”".encode("cp1252"))
    assert read_text(path) == ("ünï “café”", "3 bytes are not UTF-8 and were read as Windows-1252")
    path.write_bytes(b"")
    assert read_text(path) == ("", "")


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
