"""Pictures embedded on a cluster: the features that one machine would have made, whoever dies on the way."""

import json
import os
import shutil
import signal
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from piles import PIXELS, assert_refused, contents, fill, finish, picture, rows_of, start

from handful.backbones import embedding_on_ray as embedding
from handful.backbones import find_pictures, load_backbone
from handful.backbones.embedding_on_ray import Order, PartFolder, PartMaker, PicturePart, Recipe, embed_folder
from handful.features import FeatureTable, is_sharded, read
from handful.features.parts import part_name, part_numbers, write_part

pytestmark = pytest.mark.ray
RAY = ("--engine", "ray")
NETWORK = "efficientnet_lite0"
KINDS = ("left", "right", "across")


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """240 in three folders and two in none."""
    folder = tmp_path_factory.mktemp("pictures")
    for kind in KINDS:
        (folder / kind).mkdir()
        for i in range(80):
            picture(kind, i).save(folder / kind / f"{i}.png")
    picture("left", 1000).save(folder / "loose.jpg")
    (folder / "twin.png").write_bytes((folder / "left" / "7.png").read_bytes())
    return folder


@pytest.fixture(scope="module")
def undisturbed(ray, pictures, tmp_path_factory):
    """The network's features of them, in parts of 8."""
    out = tmp_path_factory.mktemp("undisturbed") / "features"
    return embed(pictures, out, NETWORK)


def embed(pictures, out, backbone="pixels", size=8, **options):
    return embed_folder(Path(pictures), Recipe(backbone), Path(out), load_backbone(backbone), size=size, **options)


def parts_in(folder):
    return part_numbers(folder) if folder.is_dir() else []


def same_parts(a, b):
    """To the byte, notes included."""
    assert parts_in(a) == parts_in(b)
    assert [n for n in parts_in(a) if (a / part_name(n)).read_bytes() != (b / part_name(n)).read_bytes()] == []


# ---- the death of a machine


@dataclass
class Death:
    made: PartFolder
    parts: list[int]  # that were there when the machine died
    in_time: bool  # whether it still had work to do
    seconds: float  # until all was done after all


def embed_with_a_death(nodes, pictures, out, after_seconds, backbone=NETWORK, size=8):
    """Embed into the folder `out`; `after_seconds` after both machines have begun the second of them dies at once.

    nodes: of `two_nodes`, alive, and connected to; it is left with the one machine.
    """
    finished, deaths, out = threading.Event(), [], Path(out)

    def kill():
        while not (parts_in(out) and at_work(nodes.node)) and not finished.is_set():
            time.sleep(0.01)
        time.sleep(after_seconds)
        deaths.extend([parts_in(out), at_work(nodes.node) and not finished.is_set(), time.monotonic()])
        nodes.kill()

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        made = embed(pictures, out, backbone, size)
    finally:
        finished.set()
        end = time.monotonic()
        thread.join()
    return Death(made, deaths[0], deaths[1], end - deaths[2])


def at_work(node):
    """Whether an actor that makes parts lives on that machine."""
    import ray

    return any(
        actor["State"] == "ALIVE" and "PartMaker" in actor["ActorClassName"]
        for actor in ray._private.state.actors().values()
        if actor["Address"]["NodeID"] == node.node_id
    )


def test_a_machine_that_dies_in_the_middle_costs_no_row_and_no_bit(nodes, pictures, undisturbed, tmp_path):
    try:
        death = embed_with_a_death(nodes, pictures, tmp_path / "out", 0.1)
    finally:
        nodes.revive()
    assert death.in_time, "it died when all was done"
    assert 0 < len(death.parts) < 31
    same_parts(tmp_path / "out", undisturbed.folder)
    assert death.made.names == undisturbed.names
    found = read(tmp_path / "out")
    assert found.paths.tolist() == undisturbed.names
    assert len(set(found.paths)) == 242
    assert sorted(file.name for file in (tmp_path / "out").iterdir() if file.name[0] == ".") == []


# ---- the features


def test_features_are_those_of_one_machine(nodes, pictures, undisturbed, tmp_path, handful):
    done = handful("embed", pictures, "-o", "here.npz", "--no-cache", "--backbone", NETWORK)
    assert done.returncode == 0, done.stderr
    here, there = read("here.npz"), read(undisturbed.folder)
    assert there.paths.tolist() == here.paths.tolist()
    assert there.labels.tolist() == here.labels.tolist()
    assert there.counts == {"across": 80, "left": 80, "right": 80}
    assert (~there.has_label).sum() == 2
    assert there.features.dtype == np.float32
    np.testing.assert_allclose(there.features, here.features, rtol=0, atol=1e-4)  # batches, and threads, are others


def test_a_folder_of_parts_is_a_feature_set_for_every_command(nodes, pictures, tmp_path, handful):
    fill(tmp_path)
    (tmp_path / "all").mkdir()
    for kind in KINDS:
        shutil.copytree(pictures / kind, tmp_path / "all" / kind)
    done = handful("embed", "all", "-o", "features/", "--shard-size", 50, *PIXELS, *RAY)
    assert done.returncode == 0, done.stderr
    assert "240 pictures, 3 labels, 256 features each: features" in done.stdout
    assert parts_in(tmp_path / "features") == [0, 1, 2, 3, 4]
    about = json.loads(handful("info", "features", "--json").stdout)
    assert (about["name"], about["items"], about["dimension"]) == ("features", 240, 256)
    task = ("--ways", 2, "--outlier-ways", 1, "--shots", 3, "--queries", 5, "--tasks", 2, "-j", 1, "--json")
    done = handful("bench", "balanced", "--features", "features", "--methods", "eol", *task)
    assert done.returncode == 0, done.stderr
    handful("embed", "pile", "-o", "pile.parquet", *PIXELS)
    said = json.loads(handful("label", "features", "pile.parquet", "-o", "out", "--json").stdout)
    assert said["items"] == 15
    assert handful("predict", "out/model.safetensors", "features").stdout.count("\n") == 240


def test_a_file_is_joined_from_parts_that_are_removed(nodes, pictures, tmp_path, handful):
    handful("embed", pictures, "-o", "here.npz", *PIXELS)
    command = ("embed", pictures, "-o", "deep/one.parquet", "--shard-size", 50, *PIXELS, *RAY)
    done = handful(*command, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["file"] == str((tmp_path / "deep/one.parquet").resolve())
    here, there = read("here.npz"), read("deep/one.parquet")
    np.testing.assert_array_equal(there.features, here.features)  # pixels are the same in any company
    assert there.paths.tolist() == here.paths.tolist()
    assert [file.name for file in (tmp_path / "deep").iterdir()] == ["one.parquet"]
    assert_refused(handful(*command), "exists already")


def test_names_that_are_no_text_go_through(nodes, tmp_path, handful):
    (tmp_path / "odd").mkdir()
    names = ["new\nline.png", "ünïcode.png", " blank .png"] + (["b\udcff.png"] if sys.platform == "linux" else [])
    for i, name in enumerate(names):
        picture("left", i).save(tmp_path / "odd" / name)
    for engine in ((), RAY):
        done = handful("embed", "odd", "-o", f"{len(engine)}.npz", *PIXELS, *engine, "--no-cache")
        assert done.returncode == 0, done.stderr
    assert read("2.npz").paths.tolist() == read("0.npz").paths.tolist()
    np.testing.assert_array_equal(read("2.npz").features, read("0.npz").features)


# ---- going on


def test_a_run_whose_driver_was_killed_goes_on_where_it_was(nodes, pictures, undisturbed, tmp_path):
    network = ("--backbone", NETWORK, "--shard-size", 8)
    command = ("embed", pictures, "-o", "out", *network, "--engine", f"ray:{nodes.address}", "--json")
    process, out = start(*command, cwd=tmp_path), tmp_path / "out"
    while len(parts_in(out)) < 3:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    finish(process)
    time.sleep(1)  # its actors die with it, in their own time
    there = {n: (out / part_name(n)).stat().st_mtime_ns for n in parts_in(out)}
    assert 3 <= len(there) < 31, "it was killed when all was done"
    with pytest.raises(ValueError, match=r"missing, of 31 parts: run the command that makes them again"):
        read(out)

    done = finish(start(*command, cwd=tmp_path))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["items"] == 242
    assert [line for line in done.stderr.splitlines() if "pictures" not in line] == []  # nothing of Ray's
    same_parts(out, undisturbed.folder)
    assert {n: (out / part_name(n)).stat().st_mtime_ns for n in there} == there


def test_what_is_right_is_kept_and_what_changed_is_made_again(nodes, tmp_path, handful):
    fill(tmp_path)
    embed("pile", "out", size=4)
    before = contents("out")
    assert contents("out") == before
    embed("pile", "out", size=4)
    assert contents("out") == before
    names = [path.name for path in find_pictures("pile")[0]]
    picture("right", 99).save(tmp_path / "pile" / names[6])
    os.utime(tmp_path / "pile" / names[6], (1, 1))
    embed("pile", "out", size=4)
    changed = {name for name, what in contents("out").items() if what != before[name]}
    assert changed == {part_name(1)}
    handful("embed", "pile", "-o", "here.npz", "--no-cache", *PIXELS)
    np.testing.assert_array_equal(read("out").features, read("here.npz").features)


def test_where_nothing_is_to_be_done_ray_is_not_started(nodes, tmp_path, handful, monkeypatch):
    fill(tmp_path)
    first = handful("embed", "pile", "-o", "out", *PIXELS, *RAY, "--json")
    monkeypatch.setattr(embedding, "map_on_ray", never)
    assert handful("embed", "pile", "-o", "out", *PIXELS, *RAY, "--json").stdout == first.stdout


def never(*arguments):
    raise AssertionError("Ray was asked for")


# ---- pictures that cannot be used


@pytest.fixture
def flawed(tmp_path):
    fill(tmp_path)
    (tmp_path / "pile" / "bad.jpg").write_text("text")
    (tmp_path / "pile" / "empty.png").write_bytes(b"")
    (tmp_path / "pile" / "notes.txt").write_text("no picture")
    return tmp_path / "pile"


def test_bad_pictures_are_skipped_and_told_of_as_on_one_machine_then_and_later(nodes, flawed, handful):
    here = json.loads(handful("embed", "pile", "-o", "here.npz", "--no-cache", *PIXELS, "--json").stdout)
    assert len(here["skipped"]) == 3
    command = ("embed", "pile", "-o", "out", "--shard-size", 1, *PIXELS, *RAY, "--json")  # there are empty parts too
    for _ in range(2):
        there = json.loads(handful(*command).stdout)
        assert {**there, "file": ""} == {**here, "file": ""}
    assert read("out").paths.tolist() == read("here.npz").paths.tolist()
    assert read("out").features.shape == (15, 256)


def test_strict_stops_at_the_first_of_them_with_the_same_words(nodes, flawed, handful):
    (flawed / "zz.jpg").write_text("text")
    here = handful("embed", "pile", "-o", "here.npz", "--no-cache", *PIXELS, "--strict")
    assert_refused(here, "bad.jpg is not a JPEG")
    command = ("embed", "pile", "-o", "out", "--shard-size", 1, *PIXELS, *RAY)
    assert handful(*command, "--strict").stderr == here.stderr
    assert handful(*command).returncode == 0
    assert handful(*command, "--strict").stderr == here.stderr  # also of parts that are there


def test_a_folder_of_bad_pictures_only_is_refused(nodes, tmp_path, handful):
    (tmp_path / "pile").mkdir()
    (tmp_path / "pile" / "bad.jpg").write_text("text")
    refused = handful("embed", "pile", "-o", "out", *PIXELS, *RAY)
    assert_refused(refused, "'pile' holds no pictures to label, none that could be read")


# ---- label


def test_labels_are_those_of_one_machine(nodes, tmp_path, handful):
    fill(tmp_path, 12)
    (tmp_path / "pile" / "bad.jpg").write_text("text")
    command = ("label", "examples", "pile", "--json")
    said = [json.loads(handful(*command, "-o", out, *how).stdout) for out, how in (("here", ()), ("there", RAY))]
    here, there = (rows_of(f"{out}/labels.csv") for out in ("here", "there"))
    assert len(there) == 36
    assert [(row["path"], row["label"], row["group"]) for row in there] == [
        (row["path"], row["label"], row["group"]) for row in here
    ]
    names = [name for name in here[0] if name.startswith("p_") or name in ("confidence", "outlier_score")]
    values = [[[float(row[name]) for name in names] for row in rows] for rows in (here, there)]
    np.testing.assert_allclose(*values, rtol=0, atol=1e-4)
    assert said[1]["skipped"] == said[0]["skipped"]
    assert is_sharded("there/features/pile")


def test_a_labelling_done_again_and_a_promotion_embed_nothing_again(nodes, tmp_path, handful, monkeypatch):
    fill(tmp_path, 8)
    assert handful("label", "examples", "pile", "-o", "out", *PIXELS, *RAY).returncode == 0
    first = rows_of("out/labels.csv")
    monkeypatch.setattr(embedding, "map_on_ray", never)
    again = ("label", "examples", "pile", "-o", "out", *PIXELS, *RAY)
    assert_refused(handful(*again), "exists already")
    assert handful(*again, "--overwrite").returncode == 0
    assert rows_of("out/labels.csv") == first
    done = handful("promote", "out", "1=new")
    assert done.returncode == 0, done.stderr
    assert sum(row["label"] == "new" for row in rows_of("out/labels.csv")) >= 5


def test_a_pile_that_grew_is_labelled_with_what_was_embedded(nodes, tmp_path, handful):
    fill(tmp_path)
    command = ("label", "examples", "pile", *PIXELS)
    assert handful(*command, "-o", "out", *RAY).returncode == 0
    picture("left", 60).save(tmp_path / "pile" / "a first one.png")
    assert handful(*command, "-o", "out", *RAY, "--overwrite").returncode == 0
    assert handful(*command, "-o", "here").returncode == 0
    assert [(r["path"], r["label"]) for r in rows_of("out/labels.csv")] == [
        (r["path"], r["label"]) for r in rows_of("here/labels.csv")
    ]


# ---- refusals, before Ray is started


def test_what_cannot_be_is_refused_before_ray_is_started(tmp_path, handful, monkeypatch):
    fill(tmp_path, 1)
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("text")
    (tmp_path / "table.csv").write_text("label,a\nx,1\n,2\n")
    monkeypatch.setattr(embedding, "map_on_ray", never)
    for command, sentence in [
        (("embed", "none", "-o", "x"), "'none' is not a folder of pictures"),
        (("embed", "empty", "-o", "x"), "'empty' holds no pictures to label"),
        (("embed", "pile", "-o", "x", "--backbone", "nonsense"), "there is no backbone 'nonsense'"),
        (("embed", "pile", "-o", "x.txt"), "'x.txt': give a name that ends in .parquet"),
        (("embed", "pile", "-o", "file"), "'file' is a file: give a folder for the parts"),
        (("embed", "pile", "-o", "examples"), "'examples' holds other files than parts"),
        (("embed", "pile", "-o", "examples", "--overwrite"), "'examples' holds other files than parts"),
        (("label", "empty", "pile"), "'empty' has no folders in it"),
        (("label", "examples", "none"), "there is no file or folder 'none'"),
        (("label", "table.csv"), "--engine ray embeds pictures, but a table has none: leave it out"),
    ]:
        assert_refused(handful(*command, *RAY), sentence)


def test_parts_of_other_things_are_replaced_only_when_asked(nodes, tmp_path, handful, monkeypatch):
    fill(tmp_path)
    command = ("embed", "pile", "-o", "out", "--shard-size", 4, *PIXELS, *RAY)
    assert handful(*command).returncode == 0
    before = contents("out")
    others = {
        "features of another backbone": ("--size", 8),
        "parts of another size": ("--shard-size", 2),
    }
    for words, options in others.items():
        assert_refused(handful(*command, *options), f"'out' holds {words}: give another folder, or --overwrite")
    assert_refused(handful("embed", "examples", *command[2:]), "'out' holds pictures of another folder")
    (tmp_path / "pile" / "left0.png").rename(tmp_path / "pile" / "left9.png")
    assert_refused(handful(*command), "'out' holds other pictures")
    (tmp_path / "pile" / "left9.png").unlink()
    assert_refused(handful(*command), "'out' holds another number of pictures")
    assert contents("out") == before
    (tmp_path / "out" / "shards.json").unlink()
    assert_refused(handful(*command), "'out' holds parts of unknown origin")
    assert handful(*command, "--overwrite", "--shard-size", 8).returncode == 0
    assert parts_in(tmp_path / "out") == [0, 1]  # no third and fourth are left
    assert len(read("out")) == 14
    assert (tmp_path / "out" / "shards.json").is_file()


def test_without_ray_the_install_command_is_named(tmp_path, handful, monkeypatch):
    fill(tmp_path, 1)
    monkeypatch.setitem(sys.modules, "ray", None)
    assert_refused(handful("embed", "pile", "-o", "x", *PIXELS, *RAY), "pip install 'handful[scale]'")


# ---- folders of parts


def test_a_part_that_is_missing_is_named(nodes, tmp_path, handful):
    fill(tmp_path)
    embed("pile", "out", size=4)
    (tmp_path / "out" / part_name(3)).rename(tmp_path / "last")
    assert_refused(handful("info", "out"), "'out': part-00003.parquet is missing, of 4 parts")
    (tmp_path / "out" / part_name(1)).rename(tmp_path / "second")
    assert_refused(handful("info", "out"), "part-00001.parquet and 1 more are missing")
    (tmp_path / "out" / "shards.json").unlink()
    assert_refused(handful("info", "out"), "part-00001.parquet is missing, of 3 parts")
    (tmp_path / "second").rename(tmp_path / "out" / part_name(1))
    assert len(read("out")) == 12  # parts of somebody else's need no shards.json


def test_parts_that_do_not_fit_together_are_named(nodes, tmp_path, handful):
    fill(tmp_path)
    embed("pile", "out", size=4)
    (tmp_path / "out" / part_name(2)).write_bytes(b"PAR1, and no more")
    assert_refused(handful("info", "out"), "part-00002.parquet", "is damaged")
    narrow = FeatureTable(np.ones((1, 2), np.float32), np.array(["x"]), np.array(["y.png"]))
    write_part(narrow, tmp_path / "out" / part_name(2), {})
    assert_refused(handful("info", "out"), "part-00002.parquet has other columns than the parts before it")
    embed("pile", "out", size=4)  # it knows its own
    assert len(read("out")) == 15
    write_part(narrow, tmp_path / "out" / part_name(4), {})
    assert_refused(handful("info", "out"), "part-00004.parquet is one too many, shards.json says 4")


# ---- what an actor does


@pytest.fixture
def order(tmp_path):
    fill(tmp_path, 1)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "shards.json").write_text("{}")
    net = load_backbone("pixels")
    return Order(str(tmp_path / "pile"), str(tmp_path / "out"), Recipe("pixels"), net.fingerprint, "run")


ROW = {"part": 2, "names": b"left0.png\0right0.png"}


def answer_of(maker, row=ROW):
    return json.loads(maker(row)["answer"])


def test_an_actor_finds_a_part_that_was_written_before_its_actor_died(order, monkeypatch):
    assert answer_of(PartMaker(order)) == {"part": 2, "skipped": []}
    monkeypatch.setattr(embedding, "embed_pictures", never)
    assert answer_of(PartMaker(order)) == {"part": 2, "skipped": []}


def test_a_part_without_a_picture_that_could_not_be_opened_is_made_again(order):
    row = {"part": 0, "names": b"left0.png\0gone.png"}
    parts = [PicturePart(0, row["names"].split(b"\0"))]
    assert "cannot be read (No such file" in answer_of(PartMaker(order), row)["skipped"][0][1]
    assert 0 in embedding._valid_notes(order, parts, as_they_are=False)
    assert embedding._valid_notes(order, parts) == {}


def test_pictures_that_actors_die_over_again_and_again_are_named(order, monkeypatch, tmp_path):
    class Killed(BaseException):
        pass

    def die(*arguments, **options):
        raise Killed

    monkeypatch.setattr(embedding, "embed_pictures", die)
    for _ in range(embedding.MAX_TRIES):
        with pytest.raises(Killed):
            PartMaker(order)(ROW)
    answer = answer_of(PartMaker(order))
    assert "5 workers died over the pictures from 'left0.png' to 'right0.png'" in answer["error"]
    embedding._sweep(tmp_path / "out", "run")
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["shards.json"]


@pytest.mark.parametrize("spoil", ["pile", "left0.png", "out"])
def test_a_machine_that_does_not_see_the_folders_says_so(spoil, order, tmp_path):
    if spoil == "left0.png":  # a drive that is not mounted: the folder is there, and empty
        for file in (tmp_path / "pile").iterdir():
            file.unlink()
    else:
        (tmp_path / spoil).rename(tmp_path / "elsewhere")
    answer = answer_of(PartMaker(order))
    assert answer["kind"] == "system"
    assert str(tmp_path / ("pile" if spoil != "out" else "out")) in answer["error"]


def test_machines_with_different_backbones_are_told_apart(nodes, tmp_path):
    fill(tmp_path, 1)
    other = Recipe("pixels", {"size": 8})
    with pytest.raises(ValueError, match=r"the backbone 'pixels' is another one, or another version of it.*\(on "):
        embed_folder(tmp_path / "pile", other, tmp_path / "out", load_backbone("pixels"))
    assert parts_in(tmp_path / "out") == []


def test_a_machine_without_handful_says_what_to_install(nodes, tmp_path, monkeypatch):
    elsewhere = ModuleType("elsewhere")  # that the actors cannot import, as if it were not installed there
    exec("class PartMaker:\n    def __init__(self, order): pass\n    def __call__(self, row): pass", vars(elsewhere))
    monkeypatch.setitem(sys.modules, "elsewhere", elsewhere)
    monkeypatch.setattr(embedding, "PartMaker", elsewhere.PartMaker)
    fill(tmp_path, 1)
    with pytest.raises(ImportError, match=r"No module named 'elsewhere'. Install handful on all of them"):
        embed(tmp_path / "pile", tmp_path / "out")
