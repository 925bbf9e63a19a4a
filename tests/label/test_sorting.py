"""Sorting pictures where it can go wrong: what can be found out is found out first, and a full disk loses nothing."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from piles import PIXELS, assert_refused, contents, fill, finish, picture, start
from test_label_faults import RESULTS, without_rights

from handful.features import FeatureTable
from handful.label.sorting import plan_places

COMMAND = ("label", "examples", "pile", "-o", "out", *PIXELS)


@pytest.fixture
def here(tmp_path):
    return fill(tmp_path, count=3)


# Long names

LONG = {
    "letters": "x" * 251,
    "two bytes each": "é" * 125 + "x",
    "four bytes each": "🐣" * 62 + "xyz",
    "a number already": "x" * 247 + " (2)",
}


@pytest.mark.parametrize("stem", LONG.values(), ids=LONG)
def test_names_as_long_as_they_can_be_are_numbered_within_255_bytes(stem, here, handful):
    for k in range(12):  # so that numbers of one and of two digits are needed
        (here / "pile" / f"sub{k}").mkdir()
        picture("left", 50 + k).save(here / "pile" / f"sub{k}" / f"{stem}.png")
    before = contents("pile")
    done = handful(*COMMAND, "--sort", "move")
    assert done.returncode == 0, done.stderr
    assert contents("pile") == {}
    assert len(list(Path("out/sorted").glob("*/*.png"))) == 9 + 12
    assert handful("undo", "out/sorted/undo.jsonl").returncode == 0
    assert contents("pile") == before


def test_a_name_is_cut_between_characters_and_keeps_its_number_and_suffix(tmp_path):
    files = [Path(f"{k}/{'é' * 125}x.jpeg"[:-5] + ".png") for k in range(3)]
    pile = FeatureTable(np.empty((len(files), 0)), paths=[*map(str, files)], files=files)
    names = [place.name for place in plan_places(pile, ["x"] * 3, tmp_path)]
    assert names == ["é" * 125 + "x.png", "é" * 123 + " (2).png", "é" * 123 + " (3).png"]


def test_too_long_a_path_is_found_out_before_anything_is_written(here, handful):
    deep = Path(*["d" * 200] * 18)
    deep.mkdir(parents=True)
    room = 4095 - len(os.fsencode(deep.absolute()))
    out = deep / ("o" * (min(room, 440) - 230))
    picture("left", 9).save(here / "pile" / f"{'x' * 251}.png")
    assert_refused(handful(*COMMAND, "-o", out, "--sort", "copy"), "is too long a path for a sorted picture")
    assert not out.exists()


# Places and pictures that are not as they should be


def test_nothing_is_moved_from_where_a_link_leads(here, handful):
    fill(here / "pile" / ".elsewhere", count=1)
    before = contents(".")
    (here / "pile" / "more").symlink_to(here / "pile" / ".elsewhere" / "pile")
    done = handful(*COMMAND, "--sort", "move")
    assert_refused(done, "'pile/more' is behind a link, and --sort move takes nothing from other folders")
    (here / "pile" / "more").unlink()
    (here / "pile" / "one.png").symlink_to(here / "pile" / ".elsewhere" / "pile" / "left0.png")
    done = handful(*COMMAND, "--sort", "move")
    assert_refused(done, "'pile/one.png' is a link to a picture, but --sort move moves only pictures themselves")
    assert not Path("out").exists()
    assert handful(*COMMAND, "--sort", "copy").returncode == 0
    assert len(list(Path("out/sorted").glob("*/*.png"))) == 10
    shutil.rmtree("out")
    (here / "pile" / "one.png").unlink()
    assert contents(".") == before


@pytest.mark.parametrize(
    ("link", "sentence"),
    [("sorted", "'out/sorted' is a link"), ("sorted/left", "holds the pictures of an earlier run")],
)
def test_nothing_is_sorted_to_where_a_link_leads(link, sentence, here, handful):
    (here / "autostart").mkdir()
    (here / "out" / "sorted").mkdir(parents=True)
    if link == "sorted":
        (here / "out" / "sorted").rmdir()
    (here / "out" / link).symlink_to(here / "autostart")
    for how in ("copy", "link", "move"):
        assert_refused(handful(*COMMAND, "--sort", how), sentence)
    assert os.listdir("autostart") == []
    assert len(contents("pile")) == 9


@pytest.mark.parametrize("closed", ["out/sorted", "out/sorted/left", "pile"])
def test_a_folder_that_may_not_be_written_is_found_out_before_anything_is(closed, here, own_cache):
    rights = without_rights()
    (here / closed).mkdir(parents=True, exist_ok=True)
    before = contents(here)
    (here / closed).chmod(0o500)
    try:
        done = finish(start(*COMMAND, "--sort", "move", cwd=here, before=rights))
        assert done.returncode == 1, done.stdout
        verb = "moved out of" if closed == "pile" else "sorted into"
        assert f"pictures cannot be {verb} this folder: '{closed}'" in done.stderr
        assert contents(here) == before
        assert not (here / "out" / "labels.csv").exists()
    finally:
        (here / closed).chmod(0o700)


# A full disk

JOURNAL = """
import resource, sys
from pathlib import Path
import numpy as np
from handful.features import FeatureTable
from handful.label.sorting import plan_places, sort_pictures
files = sorted(Path("pile").iterdir())
names = [file.name for file in files]
pile = FeatureTable(np.empty((len(files), 0)), paths=names, files=files, folder=Path("pile"))
places = plan_places(pile, ["left"] * len(files), Path("out/sorted"))
resource.setrlimit(resource.RLIMIT_FSIZE, (200, resource.RLIM_INFINITY))
try:
    sort_pictures(pile, places, Path("out/sorted"), "move")
except OSError as error:
    print(error)
"""


@pytest.mark.parametrize("earlier", [False, True])
def test_where_the_journal_cannot_be_written_nothing_is_moved_and_an_earlier_one_stays(earlier, here, own_cache):
    pytest.importorskip("resource")
    (here / "out").mkdir()
    if earlier:
        (here / "out" / "sorted").mkdir()
        (here / "out" / "sorted" / "undo.jsonl").write_text("earlier")
    before = contents(here)
    done = subprocess.run([sys.executable, "-c", JOURNAL], cwd=here, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[Errno 27] no picture was sorted: File too large: 'out/sorted'\n", "")
    assert contents(here) == before
    assert (here / "out" / "sorted").exists() is earlier


@pytest.fixture
def disk(tmp_path):
    """A disk of so many kilobytes, where root can make one."""
    place = tmp_path / "disk"
    place.mkdir()
    made = []

    def mount(kilobytes):
        command = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(place)]
        if sys.platform != "linux" or os.geteuid() or subprocess.run(command, capture_output=True).returncode:
            pytest.skip("needs the right to mount a small disk")
        made.append(place)
        return place

    yield mount
    for each in made:
        subprocess.run(["umount", "-l", str(each)], check=True)


@pytest.mark.parametrize("how", ["copy", "move"])
@pytest.mark.parametrize("kilobytes", [4, 56, 112, 136, 152, 168, 184, 1000])
def test_on_a_disk_that_fills_up_no_picture_is_lost_and_no_part_is_left(kilobytes, how, here, disk, handful):
    out = disk(kilobytes) / "out"
    before = contents("pile")
    done = handful(*COMMAND, "-o", out, "--sort", how)
    left = contents("pile")
    sorted_ = list(out.glob("sorted/*/*"))
    if kilobytes == 1000:
        assert done.returncode == 0, done.stderr
        assert len(sorted_) == 9
    else:
        assert_refused(done, "")
        assert any(word in done.stderr for word in ("No space left on device", "bytes, but"))
    names = [path.name for path in disk_files(out.parent)]
    assert not [name for name in names if name.startswith(".") or name.endswith((".tmp", ".part"))]
    assert set(names) - {path.name for path in sorted_} <= {*RESULTS, "undo.jsonl"}
    kept = [data for data, _ in left.values()] + [path.read_bytes() for path in sorted_] * (how == "move")
    assert sorted(kept) == sorted(data for data, _ in before.values())
    originals = {data for data, _ in before.values()}
    assert all(path.read_bytes() in originals for path in sorted_)
    if how == "move" and (out / "sorted" / "undo.jsonl").exists():
        assert handful("undo", out / "sorted" / "undo.jsonl").returncode == 0
        assert contents("pile") == before


@pytest.mark.parametrize("kilobytes", [4, 8, 12, 16, 24, 32])
def test_on_a_disk_that_fills_up_there_are_all_results_or_none(kilobytes, here, disk, handful):
    """Tables, record, model and report, whichever is the one that does not fit."""
    out = disk(kilobytes) / "out"
    done = handful(*COMMAND, "-o", out)
    assert_refused(done, "the results were not written: No space left on device")
    assert disk_files(out.parent) == []


def disk_files(folder):
    return [path for path in folder.rglob("*") if not path.is_dir()]
