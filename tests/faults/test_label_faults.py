"""Labelling when things go wrong: bad pictures, odd names, folders that are not as they should be, a full disk, Ctrl-C.

Nothing is lost, nothing is overwritten, and what was wrong is said in a sentence.
"""

import json
import os
import shutil
import signal
import sqlite3
import sys
import time
from pathlib import Path

import forks
import numpy as np
import pytest
from PIL import Image
from piles import PIXELS, assert_refused, contents, fill, finish, picture, rows_of, start
from text_piles import fill_texts

from handful.utils.csv_file import unescape

COMMAND = ("label", "examples", "pile", "-o", "out", *PIXELS)
RESULTS = {"labels.csv", "labels.parquet", "model.safetensors", "report.html", "results.json"}
RESULTS |= {"project.sqlite", ".lock.sqlite"}


@pytest.fixture
def here(tmp_path):
    return fill(tmp_path, count=3)


def cut(path):
    picture("left", 9, (120, 90)).save(path, "JPEG")
    os.truncate(path, path.stat().st_size // 2)


BAD = {  # by name: how it is made, and what is said of it. More kinds are in tests/backbones/test_pictures.py
    "empty.png": (Path.touch, "is an empty file"),
    "page.jpg": (lambda p: p.write_text("<!DOCTYPE html><script>alert(1)</script>"), "is a web page"),
    "cut.jpg": (cut, "cut short"),
    "nowhere.png": (lambda p: p.symlink_to("none.png"), "is a link to a missing file"),
    "itself.png": (lambda p: p.symlink_to("itself.png"), "cannot be read"),
    "pipe.png": (os.mkfifo, "is not a regular file"),
}


def test_bad_pictures_are_skipped_and_told_of_and_the_others_are_labelled(here, handful):
    for name, (make, _) in BAD.items():
        make(here / "pile" / name)
    picture("left", 5).save(here / "examples" / "stray.png")
    (here / "examples" / "__MACOSX").mkdir()  # litter is no class
    before = contents("pile")
    said = json.loads(handful(*COMMAND, "--json").stdout)
    assert said["items"] == len(rows_of("out/labels.csv")) == 9
    skipped, page = {Path(row["path"]).name: row["reason"] for row in said["skipped"]}, Path("out/report.html")
    assert "is beside the folders of the classes" in skipped.pop("stray.png")
    assert skipped.keys() == BAD.keys()
    for name, (_, reason) in BAD.items():
        assert reason in skipped[name]
        assert reason in page.read_text("utf-8")
    assert contents("pile") == before
    assert len(json.loads(handful("predict", "out/model.safetensors", "pile", "--json").stdout)["skipped"]) == 6
    for name in BAD.keys() - {"empty.png"}:
        (here / "pile" / name).unlink()
    assert_refused(handful(*COMMAND, "--overwrite", "--set", "strict=true"), "pile/empty.png is an empty file")
    assert set(os.listdir("out")) == RESULTS


GOOD = {
    "one pixel.bmp": lambda p: Image.new("1", (1, 1)).save(p),
    "a\nb.png": lambda p: picture("left", 14).save(p),
    "<script>alert(1)<!--&amp;.png": lambda p: picture("left", 15).save(p),
    "ⓤ̈ñ\u202eí 🐣 \u2028.png": lambda p: picture("left", 16).save(p),
    "[bold red]x[-] \x1b[31m.png": lambda p: picture("left", 18).save(p),
    "--help.png": lambda p: picture("left", 19).save(p),
}


def test_odd_pictures_and_odd_names_are_labelled_like_others(here, handful):
    for name, make in GOOD.items():
        make(here / "pile" / name)
    before = contents("pile")
    exports = [word for name in ("coco", "label-studio", "fiftyone") for word in ("--export", name)]
    done = handful(*COMMAND, "--sort", "copy", *exports)
    assert done.returncode == 0, done.stderr
    names = [unescape(row["path"]) for row in rows_of("out/labels.csv")]
    assert len(names) == 9 + len(GOOD)
    assert {*names} >= GOOD.keys()
    assert "<script>alert" not in Path("out/report.html").read_text("utf-8")
    assert {path.name for path in Path("out/sorted").glob("*/*")} >= GOOD.keys()
    assert contents("pile") == before
    printed = handful("predict", "out/model.safetensors", "pile").stdout
    assert len(printed.splitlines()) == len(names)
    assert "\x1b" not in printed


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are text there")
def test_names_that_are_no_text_are_written_as_escapes(here, handful):
    name = os.fsdecode(b"\xff\xfe.png")
    picture("left", 1).save(here / "pile" / name)
    (here / "examples" / "left").rename(here / "examples" / os.fsdecode(b"l\xe9ft"))
    (here / "pile" / os.fsdecode(b"bad\xff.png")).touch()
    done = handful(*COMMAND, "--sort", "copy", "--export", "coco", "--export", "label-studio")
    assert done.returncode == 0, done.stderr
    rows = {row["path"]: row["label"] for row in rows_of("out/labels.csv")}
    assert rows["\\udcff\\udcfe.png"] == "l\\udce9ft"
    assert name in os.listdir("out/sorted/l_udce9ft")
    assert json.loads(handful("predict", "out/model.safetensors", "pile", "--json").stdout)["skipped"]
    assert handful("embed", "pile", "-o", "x.parquet", *PIXELS).returncode == 0


def test_a_link_out_of_a_folder_is_told_of_and_not_read(here, handful):
    """In the pile and in the examples, for pictures and texts, and for every command that reads a folder."""
    fill_texts(here / "texts")
    secret = fill(here / "secret", count=1)
    (secret / "diary.txt").write_text("the secret words of the diary")
    for place in ("pile", "examples/left", "texts/pile", "texts/examples/card"):
        (here / place / "far").symlink_to(secret)
        (here / place / "far.png").symlink_to(secret / "pile" / "left0.png")
        (here / place / "far.txt").symlink_to(secret / "diary.txt")
    for command, suffix, places in (
        (("label", "examples", "pile", "-o", "out", "--sort", "copy", *PIXELS), ".png", ("pile", "examples/left")),
        (("label", "texts/examples", "texts/pile", "-o", "out2", "--sort", "copy"), ".txt",
         ("texts/pile", "texts/examples/card")),
        (("embed", "pile", "-o", "pile.parquet", *PIXELS), ".png", ("pile",)),
        (("predict", "out/model.safetensors", "pile", "pile/left0.png", "-o", "labels.csv"), ".png", ("pile",)),
    ):  # fmt: skip
        done = handful(*command, "--json")
        assert done.returncode == 0, done.stderr
        expected = {f"{place}/{name}" for place in places for name in ("far", f"far{suffix}")}
        skipped = json.loads(done.stdout)["skipped"]
        assert {row["path"] for row in skipped if "is a link that leads out" in row["reason"]} == expected
    assert not [path for out in ("out", "out2") for path in (here / out).rglob("far*")]
    made = [path for path in here.glob("out*/*") if path.is_file()] + [here / "labels.csv", here / "pile.parquet"]
    assert not [path for path in made if b"secret words" in path.read_bytes()]
    (here / "examples" / "across").symlink_to(secret / "pile")
    assert_refused(handful(*COMMAND, "--overwrite"), "across' holds no pictures", "leads out of the folder")
    (here / "way").symlink_to(here / "pile")  # the person named it
    (here / "examples" / "across").unlink()
    done = handful("label", "examples", "way", "-o", "out3", *PIXELS, "--json")
    assert json.loads(done.stdout)["items"] == 9, done.stderr


# Folders that are not as they should be


def empty(folder):
    shutil.rmtree(folder)
    folder.mkdir()


def only_unknown(folder):
    (folder / "examples" / "left").rename(folder / "examples" / "Unknown")
    shutil.rmtree(folder / "examples" / "right")


def same_twice(folder):
    shutil.copy(folder / "examples" / "left" / "left0.png", folder / "examples" / "right" / "same.png")


def class_without_pictures(folder, *names):
    (folder / "examples" / "none").mkdir()
    for name in names:
        (folder / "examples" / "none" / name).touch()


FOLDERS_THAT_DO_NOT_DO = [
    (lambda d: shutil.rmtree(d / "pile"), "there is no file or folder 'pile'"),
    (lambda d: empty(d / "pile"), "'pile' holds no pictures to label"),
    (lambda d: (empty(d / "pile"), (d / "pile/a.png").touch()), "holds no pictures to label, none that could be read"),
    (lambda d: shutil.rmtree(d / "examples"), "there is no file or folder 'examples'"),
    (lambda d: empty(d / "examples"), "'examples' has no folders in it"),
    (only_unknown, "only examples of no class: give a few examples of at least one class too"),
    (same_twice, "'left/left0.png' and 'right/same.png' are the same picture under two classes"),
    (class_without_pictures, "'examples/none' holds no pictures: every class needs at least one example"),
    (lambda d: class_without_pictures(d, "notes.txt"), "1 with .txt"),
    (lambda d: class_without_pictures(d, "a.png"), "none of the pictures of class 'none' could be read"),
]


def test_folders_that_do_not_do_are_refused_in_a_sentence(tmp_path, handful, monkeypatch):
    for number, (spoil, sentence) in enumerate(FOLDERS_THAT_DO_NOT_DO):
        folder = tmp_path / str(number)
        folder.mkdir()
        spoil(fill(folder, count=1))
        monkeypatch.chdir(folder)
        assert_refused(handful(*COMMAND), sentence)
        assert not (folder / "out").exists()


# Results that are there already


def test_earlier_results_are_kept_unless_asked_to_replace_them(here, handful):
    (here / "out").mkdir()
    (here / "out" / "labels.csv").write_text("mine")
    (here / "pile" / "broken.png").touch()  # told of instead, if it looked at the pile first
    assert_refused(handful(*COMMAND, "--set", "strict=true"), "'out/labels.csv' exists already")
    assert (here / "out" / "labels.csv").read_text() == "mine"
    (here / "out" / "labels.csv").rename(here / "out" / "coco.json")
    assert_refused(handful(*COMMAND, "--export", "coco"), "'out/coco.json' exists already")
    assert handful(*COMMAND).returncode == 0  # nobody asked for an export
    assert len(rows_of("out/labels.csv")) == 9
    assert (here / "out" / "coco.json").read_text() == "mine"


def test_a_sorted_folder_replaces_the_one_of_before_but_no_file_that_is_nowhere_else(here, handful):
    Path("out/sorted/left").mkdir(parents=True)
    Path("out/sorted/left/mine.png").write_text("mine")
    assert_refused(
        handful(*COMMAND, "--sort", "copy"), "'out/sorted' exists already: give another folder, or --overwrite"
    )
    said = "'out/sorted/left/mine.png' is not a copy of a file of the pile, and would be lost: move it away"
    assert_refused(handful(*COMMAND, "--sort", "copy", "--overwrite"), said)
    assert [path.name for path in Path("out").rglob("*")] == ["sorted", "left", "mine.png"]
    Path("out/sorted/left/mine.png").unlink()
    pile = len(contents("pile"))
    assert handful(*COMMAND, "--sort", "copy").returncode == 0
    Path("out/sorted/.DS_Store").write_text("litter")
    Path("pile/left0.png").rename("examples/left/from_the_pile.png")  # what was sorted is an example now
    done = handful(*COMMAND, "--sort", "link", "--overwrite")
    assert done.returncode == 0, done.stderr
    Path("examples/left/from_the_pile.png").rename("pile/left0.png")
    found = [path for path in Path("out/sorted").rglob("*") if not path.is_dir()]
    assert {path.name for path in found} == {*os.listdir("pile")} - {"left0.png"}
    assert all(path.is_symlink() for path in found)
    assert set(os.listdir("out")) == {*RESULTS, "sorted"}
    assert len(contents("pile")) == pile
    assert handful(*COMMAND, "--sort", "copy", "--overwrite").returncode == 0
    Path("pile/left1.png").unlink()
    before = contents(".")
    assert_refused(handful(*COMMAND, "--sort", "link", "--overwrite"), "left1.png' is not a copy of a file of the pile")
    assert contents(".") == before


@pytest.mark.parametrize("link", ["sorted", "sorted/left"])
def test_nothing_is_sorted_to_where_a_link_leads(link, here, handful):
    (here / "autostart").mkdir()
    (here / "out" / link).parent.mkdir(parents=True)
    (here / "out" / link).symlink_to(here / "autostart")
    sentence = "'out/sorted' is a link" if link == "sorted" else "'out/sorted' exists already"
    assert_refused(handful(*COMMAND, "--sort", "copy"), sentence)
    assert (handful(*COMMAND, "--sort", "copy", "--overwrite").returncode == 0) is (link != "sorted")
    assert os.listdir("autostart") == []
    assert len(contents("pile")) == 9


def test_a_folder_that_cannot_hold_the_results_is_found_out_first(here, handful):
    (here / "file").write_text("mine")
    (here / "link").symlink_to("/nowhere/at/all")
    (here / "pile" / "broken.png").touch()  # told of instead, if the pile were read first
    before = contents(".")
    for options, sentence in [
        (("-o", "file"), "'file' is a file: give a folder"),
        (("-o", "file/out"), "results cannot be written there: Not a directory"),
        (("-o", "link"), "results cannot be written there: "),
        (("-o", "examples/out"), "'examples/out' is in the folder of examples"),
        (("--sort", "move"), "pictures are sorted by copy or link, not by 'move'"),
        (("--export", "paper"), "no export 'paper'; there are: label-studio, fiftyone, coco"),
    ]:
        assert_refused(handful(*COMMAND, "--set", "strict=true", *options), sentence)
    assert_refused(handful("label", "examples"), "name the folder of pictures to label too")
    assert contents(".") == before


# A full disk


def on_full_disk(size, *arguments, cwd):
    """The command where no file may grow beyond so many bytes, as on a full disk."""
    pytest.importorskip("resource")
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, resource.RLIM_INFINITY)); "
    return finish(forks.Forked(*arguments, code=limit + forks.COMMAND, cwd=cwd))


def test_on_a_full_disk_earlier_results_stay_and_no_part_is_left(here, handful):
    """Where there is too little space for the tables, for the report, for a copy, and for what predict writes."""
    noise = np.random.default_rng(0).integers(0, 256, (500, 500, 3)).astype(np.uint8)
    Image.fromarray(noise).save(here / "pile" / "left9 big.png")
    assert handful(*COMMAND).returncode == 0
    before, again = contents("."), (*COMMAND, "--overwrite", "--set", "cache=false")
    for size, more in ((300, ()), (100_000, ()), (400_000, ("--sort", "copy"))):
        assert_refused(on_full_disk(size, *again, *more, cwd=here), "the results were not written: ", ": 'out'")
        assert contents(".") == before
    predict = ("predict", "out/model.safetensors", "pile", "--no-cache", "-o", "out/labels.csv", "--overwrite")
    done = on_full_disk(300, *predict, cwd=here)
    assert_refused(done, "the results were not written: File too large: 'out/labels.csv'")
    assert contents(".") == before


# Stopped


def features_in(cache):
    try:
        with sqlite3.connect(f"file:{cache / 'features-1.sqlite'}?mode=ro", uri=True) as connection:
            return connection.execute("SELECT count(*) FROM features WHERE fingerprint != 'files'").fetchone()[0]
    except sqlite3.Error:
        return 0


def test_ctrl_c_leaves_no_results_and_what_was_seen_is_remembered(here):
    Image.new("RGB", (1800, 1800), "grey").save(here / "large.png", compress_level=1)
    large = (here / "large.png").read_bytes()
    for i in range(75):
        (here / "pile" / f"{i}.png").write_bytes(large + bytes([i]))  # other content, the same picture
    cache = here / "cache"
    process = start(*COMMAND, cwd=here, env=os.environ | {"HANDFUL_CACHE": str(cache)})
    end = time.monotonic() + 60
    while process.poll() is None and features_in(cache) < 6 + 32 and time.monotonic() < end:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    done = finish(process)
    assert done.returncode == 130, done.stdout + done.stderr
    assert "Stopped. The features so far are stored: the same command will be faster." in done.stdout
    assert done.stderr == ""
    assert not (here / "out").exists()

    seen = features_in(cache)
    assert 38 <= seen < 6 + 84
    done = finish(start(*COMMAND, cwd=here, env=os.environ | {"HANDFUL_CACHE": str(cache)}))
    assert done.returncode == 0, done.stderr
    assert len(rows_of(here / "out" / "labels.csv")) == 84
    assert features_in(cache) == 6 + 84


KILLED = """
import os, shutil, signal, sys
from handful.cli import main
from handful.project import sorting

copied = []
def copy(old, new, length):
    new.write(old.read(9))
    new.flush()
    if len(copied) == 4:
        os.kill(os.getpid(), signal.{name})
    new.write(old.read())
    copied.append(old)
sorting.shutil.copyfileobj = copy
sys.argv = ["handful", *{command}]
main()
"""


@pytest.mark.parametrize(("name", "earlier"), [("SIGKILL", True), ("SIGINT", False)])
def test_stopped_in_the_middle_of_sorting_the_same_command_does_it(name, earlier, here, handful):
    command = [*COMMAND, "--sort", "copy"]
    if earlier:
        assert handful(*command).returncode == 0
        command += ["--overwrite"]
    before = contents(".")
    done = forks.run(code=KILLED.format(name=name, command=command))
    assert done.returncode == (-signal.SIGKILL if name == "SIGKILL" else 130)
    left = {path: content for path, content in contents(".").items() if ".handful-unfinished" not in path}
    assert left == before
    assert (left == contents(".")) is (name == "SIGINT")
    done = handful(*command)
    assert done.returncode == 0, done.stderr
    assert set(os.listdir("out")) == {*RESULTS, "sorted"}
    copies = [path.read_bytes() for path in Path("out/sorted").rglob("*") if not path.is_dir()]
    assert sorted(copies) == sorted(data for data, _ in contents("pile").values())
