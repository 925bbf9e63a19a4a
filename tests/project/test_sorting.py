"""Sorting pictures where it can go wrong: long names, links, and folders that may not be written."""

import os
from pathlib import Path

import numpy as np
import pytest
from piles import PIXELS, assert_refused, contents, fill, finish, start
from test_label_faults import without_rights

from handful.features import FeatureTable
from handful.project.sorting import plan_places

COMMAND = ("label", "examples", "pile", "-o", "out", *PIXELS)


@pytest.fixture
def here(tmp_path):
    return fill(tmp_path, count=3)


# Long names


def test_a_name_is_cut_between_characters_and_keeps_its_number_and_suffix(tmp_path):
    files = [Path(f"{k}/{'é' * 125}x.jpeg"[:-5] + ".png") for k in range(3)]
    pile = FeatureTable(np.empty((len(files), 0)), paths=[*map(str, files)], files=files)
    names = [place.name for place in plan_places(pile, ["x"] * 3, tmp_path)]
    assert names == ["é" * 125 + "x.png", "é" * 123 + " (2).png", "é" * 123 + " (3).png"]


# Places and pictures that are not as they should be


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


@pytest.mark.parametrize("closed", ["out/sorted", "out/sorted/left"])
def test_a_folder_that_may_not_be_written_is_found_out_before_anything_is(closed, here, own_cache):
    rights = without_rights()
    (here / closed).mkdir(parents=True, exist_ok=True)
    before = contents(here)
    (here / closed).chmod(0o500)
    try:
        done = finish(start(*COMMAND, "--sort", "copy", cwd=here, before=rights))
        assert done.returncode == 1, done.stdout
        assert f"pictures cannot be sorted into this folder: '{closed}'" in done.stderr
        assert contents(here) == before
        assert not (here / "out" / "labels.csv").exists()
    finally:
        (here / closed).chmod(0o700)
