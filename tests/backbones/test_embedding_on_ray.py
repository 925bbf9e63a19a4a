"""Pictures embedded on a cluster: the features that one machine would have made, whoever dies on the way."""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from piles import PIXELS, assert_refused, contents, fill, finish, picture, rows_of, start

from handful.backbones import embedding_on_ray as embedding
from handful.backbones import find_pictures, load_backbone
from handful.backbones.embedding_on_ray import PartMaker, Recipe, embed_folder
from handful.features import read
from handful.features.parts import is_sharded, part_name, part_numbers
from handful.solving.blocks import on_threads

pytestmark = pytest.mark.ray
RAY = ("--engine", "ray")
NETWORK = "efficientnet_lite0"
KINDS = ("left", "right", "across")


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """96 in three folders and two in none."""
    folder = tmp_path_factory.mktemp("pictures")
    for kind in KINDS:
        (folder / kind).mkdir()
        for i in range(32):
            picture(kind, i).save(folder / kind / f"{i}.png")
    picture("left", 1000).save(folder / "loose.jpg")
    (folder / "twin.png").write_bytes((folder / "left" / "7.png").read_bytes())
    return folder


def map_on_threads(worker, arguments, rows, **_):
    """Workers are threads of this process: what they do is the same, without the seconds that Ray needs."""
    return on_threads(worker, arguments, rows)


@pytest.fixture
def threads(monkeypatch):
    monkeypatch.setattr(embedding, "map_on_ray", map_on_threads)


def embed(pictures, out, backbone="pixels", size=4, **options):
    return embed_folder(Path(pictures), Recipe(backbone, {}), Path(out), load_backbone(backbone), size=size, **options)


def parts_in(folder):
    return part_numbers(folder) if folder.is_dir() else []


def never(*arguments, **options):
    raise AssertionError("Ray was asked for")


# ---- on a cluster


@pytest.fixture(scope="module")
def undisturbed(pictures, tmp_path_factory):
    """The network's features of them, in parts of 4, made by threads of this process."""
    out = tmp_path_factory.mktemp("undisturbed") / "features"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embedding, "map_on_ray", map_on_threads)
        return embed(pictures, out, NETWORK)


def same_parts(a, b):
    """Whether they are equal to the byte, notes included."""
    return [(a / part_name(n)).read_bytes() for n in parts_in(a)] == [
        (b / part_name(n)).read_bytes() for n in parts_in(b)
    ]


def at_work(node):
    """Whether an actor that makes parts lives on that machine."""
    import ray

    return any(
        actor["State"] == "ALIVE" and "PartMaker" in actor["ActorClassName"]
        for actor in ray._private.state.actors().values()
        if actor["Address"]["NodeID"] == node.node_id
    )


def test_a_machine_that_dies_in_the_middle_costs_no_row_and_no_bit(nodes, pictures, undisturbed, tmp_path):
    finished, at_death, out = threading.Event(), [], tmp_path / "out"

    def kill():
        while not (parts_in(out) and at_work(nodes.node)) and not finished.is_set():
            time.sleep(0.01)
        at_death.extend(parts_in(out))
        nodes.kill()

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        embedded = embed(pictures, out, NETWORK)
    finally:
        finished.set()
        thread.join()
        nodes.revive()
    assert 0 < len(at_death) < 25, "it died when all was done"
    assert same_parts(out, undisturbed.folder)
    assert embedded.names == undisturbed.names == read(out).paths.tolist()
    assert len(set(embedded.names)) == 98
    assert [file.name for file in out.iterdir() if file.name[0] == "."] == []


def test_a_run_whose_driver_was_killed_goes_on_where_it_was(nodes, pictures, undisturbed, tmp_path):
    network = ("--backbone", NETWORK, "--shard-size", 4)
    command = ("embed", pictures, "-o", "out", *network, "--engine", f"ray:{nodes.address}", "--json")
    process, out = start(*command, cwd=tmp_path), tmp_path / "out"
    while len(parts_in(out)) < 2:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    finish(process)
    time.sleep(1)  # its actors die with it, in their own time
    there = {n: (out / part_name(n)).stat().st_mtime_ns for n in parts_in(out)}
    assert 2 <= len(there) < 25, "it was killed when all was done"
    with pytest.raises(ValueError, match=r"missing, of 25 parts: run the command that makes them again"):
        read(out)

    done = finish(start(*command, cwd=tmp_path))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["items"] == 98
    assert [line for line in done.stderr.splitlines() if "pictures" not in line] == []  # nothing of Ray's
    assert same_parts(out, undisturbed.folder)
    assert {n: (out / part_name(n)).stat().st_mtime_ns for n in there} == there


def test_labels_are_those_of_one_machine_and_nothing_is_embedded_again(nodes, tmp_path, handful, monkeypatch):
    fill(tmp_path, 12)
    (tmp_path / "pile" / "bad.jpg").write_text("text")
    command = ("label", "examples", "pile", "--json", *PIXELS)
    here, there = (json.loads(handful(*command, "-o", *out).stdout) for out in (["here"], ["there", *RAY]))
    expected, rows = (rows_of(f"{out}/labels.csv") for out in ("here", "there"))
    assert [(row["path"], row["label"]) for row in rows] == [(row["path"], row["label"]) for row in expected]
    scores = [[float(row["outlier_score"]) for row in table] for table in (rows, expected)]
    np.testing.assert_allclose(*scores, rtol=0, atol=1e-4)
    assert (len(rows), there["skipped"]) == (36, here["skipped"])
    assert is_sharded("there/features/pile")
    monkeypatch.setattr(embedding, "map_on_ray", never)
    assert handful(*command, "-o", "there", *RAY, "--overwrite").returncode == 0
    assert handful("promote", "there", "1=new").returncode == 0


def test_what_is_wrong_on_other_machines_is_said(nodes, tmp_path, monkeypatch):
    fill(tmp_path, 1)
    with pytest.raises(ValueError, match=r"the backbone 'pixels' is another one, or another version of it.*\(on "):
        embed_folder(tmp_path / "pile", Recipe("pixels", {"size": 8}), tmp_path / "out", load_backbone("pixels"))
    assert parts_in(tmp_path / "out") == []


# ---- parts and files


def test_features_are_those_of_one_machine_and_a_file_is_joined_from_parts_that_are_removed(tmp_path, handful, threads):
    fill(tmp_path)
    (tmp_path / "pile" / "a class").mkdir()
    for i, name in enumerate(["a class/0.png", "new\nline.png", "ünïcode.png", " blank .png", "b\udcff.png"]):
        picture("left", i).save(tmp_path / "pile" / name)
    handful("embed", "pile", "-o", "here.npz", *PIXELS)
    command = ("embed", "pile", "-o", "deep/one.parquet", "--shard-size", 4, *PIXELS, *RAY)
    done = handful(*command, "--json")
    assert done.returncode == 0, done.stderr
    here, there = read("here.npz"), read("deep/one.parquet")
    np.testing.assert_array_equal(there.features, here.features)  # pixels are the same in any company
    assert (there.paths.tolist(), there.label_names) == (here.paths.tolist(), here.label_names)
    assert [file.name for file in (tmp_path / "deep").iterdir()] == ["one.parquet"]
    assert_refused(handful(*command), "exists already")


def test_what_is_right_is_kept_what_changed_is_made_again_and_parts_of_other_things_are_replaced_only_when_asked(
    tmp_path, handful, threads, monkeypatch
):
    fill(tmp_path)
    command = ("embed", "pile", "-o", "out", "--shard-size", 4, *PIXELS, *RAY)
    assert handful(*command).returncode == 0
    before = contents("out")
    refusal = "'out' holds parts of other pictures, of another size, backbone or base: give another folder, or --overwr"
    for other in ((*command, "--size", 8), (*command, "--shard-size", 2), ("embed", "examples", *command[2:])):
        assert_refused(handful(*other), refusal)
    assert contents("out") == before
    name = find_pictures(tmp_path / "pile")[0][6]
    picture("right", 99).save(name)
    os.utime(name, (1, 1))
    (tmp_path / "out" / part_name(3)).write_bytes(b"PAR1, and no more")
    embed("pile", "out")
    assert {name for name, what in contents("out").items() if what != before[name]} == {part_name(1), part_name(3)}
    handful("embed", "pile", "-o", "here.npz", "--no-cache", *PIXELS)
    np.testing.assert_array_equal(read("out").features, read("here.npz").features)
    with monkeypatch.context() as patch:
        patch.setattr(embedding, "map_on_ray", never)
        embed("pile", "out")  # nothing is to be done
    (tmp_path / "out" / "shards.json").unlink()
    assert_refused(handful(*command), refusal)
    assert handful(*command, "--overwrite", "--shard-size", 8).returncode == 0
    assert parts_in(tmp_path / "out") == [0, 1]  # no third and fourth are left
    assert len(read("out")) == 15


def test_what_cannot_be_is_refused_before_ray_is_started(tmp_path, handful, monkeypatch):
    fill(tmp_path, 1)
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("text")
    (tmp_path / "table.csv").write_text("label,a\nx,1\n,2\n")
    monkeypatch.setattr(embedding, "map_on_ray", never)
    for command, sentence in [
        (("embed", "empty", "-o", "x"), "'empty' holds no pictures to label"),
        (("embed", "pile", "-o", "x", "--backbone", "nonsense"), "there is no backbone 'nonsense'"),
        (("embed", "pile", "-o", "x.txt"), "'x.txt': give a name that ends in .parquet"),
        (("embed", "pile", "-o", "file"), "'file' is a file: give a folder for the parts"),
        (("embed", "pile", "-o", "examples", "--overwrite"), "'examples' holds other files than parts"),
        (("label", "table.csv"), "--engine ray embeds pictures, but a table has none: leave it out"),
    ]:
        assert_refused(handful(*command, *RAY), sentence)
    monkeypatch.setitem(sys.modules, "ray", None)
    assert_refused(handful("embed", "pile", "-o", "x", *PIXELS, *RAY), "pip install 'handful[scale]'")


# ---- pictures that cannot be used


def test_bad_pictures_are_skipped_as_on_one_machine_then_and_later(tmp_path, handful, threads):
    fill(tmp_path)
    (tmp_path / "pile" / "bad.jpg").write_text("text")
    (tmp_path / "pile" / "notes.txt").write_text("no picture")
    here = json.loads(handful("embed", "pile", "-o", "here.npz", "--no-cache", *PIXELS, "--json").stdout)
    assert len(here["skipped"]) == 2
    command = ("embed", "pile", "-o", "out", "--shard-size", 1, *PIXELS, *RAY)  # there is an empty part too
    for _ in range(2):
        there = json.loads(handful(*command, "--json").stdout)
        assert {**there, "file": ""} == {**here, "file": ""}
    assert read("out").paths.tolist() == read("here.npz").paths.tolist()
    assert_refused(handful(*command, "--strict"), "bad.jpg is not a JPEG")  # also of parts that are there


# ---- what a worker does


@pytest.fixture
def maker(tmp_path):
    fill(tmp_path, 1)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "shards.json").write_text("{}")
    fingerprint = load_backbone("pixels").fingerprint
    return lambda: PartMaker(Recipe("pixels", {}), fingerprint, str(tmp_path / "pile"), str(tmp_path / "out"))


ROW = {"part": 2, "names": b"left0.png\0right0.png", "digest": "d"}


def answer_of(maker, row=ROW):
    return json.loads(maker(row)["answer"])


def test_a_part_is_kept_if_its_worker_died_after_it_and_tried_five_times_if_before(maker, monkeypatch):
    assert answer_of(maker()) == {"part": 2, "skipped": []}

    def die(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(embedding, "embed_pictures", die)
    assert answer_of(maker()) == {"part": 2, "skipped": []}
    other = ROW | {"digest": "of changed pictures"}
    for _ in range(embedding.MAX_TRIES):
        with pytest.raises(KeyboardInterrupt):
            maker()(other)
    error = answer_of(maker(), other)["error"]
    assert all(word in error for word in ("5 workers died over the pictures from", "left0.png", "right0.png"))


def test_a_picture_that_could_not_be_opened_is_tried_again(tmp_path, threads, monkeypatch):
    fill(tmp_path, 1)
    with monkeypatch.context() as patch:  # the superuser may read everything
        patch.setattr(os, "open", lambda *_: (_ for _ in ()).throw(PermissionError(13, "Permission denied")))
        with pytest.raises(ValueError, match="none that could be read"):
            embed(tmp_path / "pile", tmp_path / "out")
    assert embed(tmp_path / "pile", tmp_path / "out").skipped == []


def test_a_machine_that_does_not_see_the_folders_says_so(maker, tmp_path):
    pile, out, answers = tmp_path / "pile", tmp_path / "out", []
    for folder in (pile, out):
        moved = folder.rename(tmp_path / "elsewhere")
        answers.append(answer_of(maker()))
        moved.rename(folder)
    for file in pile.iterdir():  # a drive that is not mounted: the folder is there, and empty
        file.unlink()
    answers.append(answer_of(maker()))
    assert [answer["kind"] for answer in answers] == ["system"] * 3
    assert all(str(out) in answer["error"] and str(pile) in answer["error"] for answer in answers)
