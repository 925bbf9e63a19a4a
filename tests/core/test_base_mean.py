"""The mean of the base classes: stored with features by `embed`, given by `label` to the methods that ask for it."""

import json
from pathlib import Path

import numpy as np
import pytest
from loops import loop
from piles import PIXELS, assert_refused, contents, fill, picture, rows_of
from pyarrow import parquet

from handful import solve
from handful.backbones import load_backbone
from handful.backbones.pictures import open_picture
from handful.core.base import Base
from handful.features import FeatureTable, read, write
from handful.features.parts import part_name, write_mean
from handful.project import label_items

ON_BASE = "simpleshot"  # centres on the base mean


def ran(done):
    assert done.returncode == 0, done.stderr
    return done


def base_pictures(folder, count=7):
    for kind in ("left", "across"):
        (folder / "base" / kind).mkdir(parents=True, exist_ok=True)
        for i in range(count):
            picture(kind, 500 + i, (64, 30)).save(folder / "base" / kind / f"{i}.png")
    return sorted((folder / "base").rglob("*.png"))


def by_hand(paths, name="pixels", **options):
    """The mean of their features, one by one, in double precision."""
    net = load_backbone(name, **options)
    rows = [net.embed(net.prepare(open_picture(path))[None])[0] for path in paths]
    return np.asarray(rows, np.float64).mean(axis=0).astype(np.float32)


@pytest.fixture
def coarse(tmp_path):
    """An ONNX file that averages 8 x 8 pixels, 48 features; and the base file that lies beside it, of pictures."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    value, node, kind = onnx.helper.make_tensor_value_info, onnx.helper.make_node, onnx.TensorProto.FLOAT
    nodes = [node("AveragePool", ["x"], ["p"], kernel_shape=[8, 8], strides=[8, 8]), node("Flatten", ["p"], ["y"])]
    given, made = value("x", kind, ["n", 3, 32, 32]), value("y", kind, ["n", 48])
    graph = onnx.helper.make_graph(nodes, "g", [given], [made])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, str(tmp_path / "coarse.onnx"))
    (tmp_path / "coarse.json").write_text('{"mean": [0.5, 0.5, 0.5], "std": [0.25, 0.25, 0.25]}')
    mean = by_hand(base_pictures(tmp_path), str(tmp_path / "coarse.onnx"))
    rng = np.random.default_rng(0)
    head = {"log_precision": np.zeros(48), "inner": rng.normal(size=(48, 4)) / 7, "outer": rng.normal(size=(4, 48)) / 9}
    base = Base(mean, {"peeler": head}, about={"name": "shapes", "classes": 2})
    return base.save(tmp_path / "coarse.base.safetensors")


# ---- embed


@pytest.mark.parametrize("name", ["f.parquet", "f.npz"])
def test_the_mean_that_embed_stores_is_that_of_the_pictures(name, tmp_path, handful):
    fill(tmp_path)
    paths = base_pictures(tmp_path)
    (tmp_path / "base" / "bad.png").write_text("text")
    done = ran(handful("embed", "pile", "-o", name, "--base", "base", *PIXELS, "--json"))
    said = json.loads(done.stdout)
    assert "The base classes' mean is stored with them: of 14 pictures of base" in said["notes"]
    assert [row["path"] for row in said["skipped"]] == ["base/bad.png"]
    found = read(tmp_path / name)
    assert len(found) == 15
    np.testing.assert_allclose(found.base_mean, by_hand(paths), rtol=1e-6)
    about = json.loads(handful("info", name, "--json").stdout)
    assert about["base_mean_norm"] == pytest.approx(np.linalg.norm(by_hand(paths)), rel=1e-6)


def test_features_and_base_files_have_the_mean_too(tmp_path, handful):
    fill(tmp_path)
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(40, 256)).astype(np.float32)
    expected = rows.astype(np.float64).mean(axis=0).astype(np.float32)
    names = ["b.parquet", "my.base.safetensors", "b.csv", "parts"]
    write(FeatureTable(rows, np.arange(40)), names[0])
    Base(expected).save(names[1])
    Path("b.csv").write_text("\n".join(["embedding", *(f'"{json.dumps(row.tolist())}"' for row in rows)]))
    Path("parts").mkdir()
    table = parquet.read_table("b.parquet").drop_columns("label")  # of a mean nobody asks for labels
    for i in range(2):
        parquet.write_table(table.slice(20 * i, 20), Path("parts", part_name(i)))
    for i, name in enumerate(names):
        done = ran(handful("embed", "pile", "-o", f"f{i}.npz", "--base", name, *PIXELS))
        assert name in done.stdout
        np.testing.assert_array_equal(read(f"f{i}.npz").base_mean, expected, name)


def test_a_base_that_does_not_fit_is_refused_and_nothing_is_written(tmp_path, handful):
    fill(tmp_path)
    Base(np.ones(3)).save("narrow.base.safetensors")
    write(FeatureTable(np.ones((2, 3)), ["a", "b"]), "narrow.npz")
    Path("void").mkdir()
    Path("broken.base.safetensors").write_bytes(b"{}")
    before = contents(tmp_path)
    command = ("embed", "pile", "-o", "deep/f.npz", *PIXELS, "--base")
    for base, said in {
        "narrow.base.safetensors": "base classes with 3 features", "narrow.npz": "the backbone pixels gives 256",
        "void": "'void' holds no pictures", "nowhere": "there is no file or folder 'nowhere'",
        "broken.base.safetensors": "damaged",
    }.items():  # fmt: skip
        assert_refused(handful(*command, base), base, said)
    assert contents(tmp_path) == before
    assert not Path("deep").exists()


def test_a_backbone_that_brings_its_base_is_not_to_be_told(tmp_path, coarse, handful):
    fill(tmp_path)
    assert load_backbone("coarse.onnx").base == Path("coarse.base.safetensors")
    assert load_backbone("pixels").base is None
    done = ran(handful("embed", "pile", "-o", "f.npz", "--backbone", "coarse.onnx"))
    assert "coarse.base.safetensors, which came with the backbone" in done.stdout
    np.testing.assert_allclose(read("f.npz").base_mean, by_hand(base_pictures(tmp_path), "coarse.onnx"), rtol=1e-6)
    coarse.unlink()
    said = json.loads(handful("embed", "pile", "-o", "i.npz", "--backbone", "coarse.onnx", "--json").stdout)
    assert said["notes"] == []
    assert read("i.npz").base_mean is None


# ---- label


def blobs(base_mean=None):
    """Three classes far from the origin; the mean of the task is not that of the base."""
    rng = np.random.default_rng(1)
    centres = 6 + 2 * rng.normal(size=(4, 8))
    kinds = np.repeat(range(4), [14, 13, 13, 20])
    query = (centres[kinds] + rng.normal(size=(60, 8))).astype(np.float32)
    rows = (centres[[0, 0, 1, 1, 2, 2]] + rng.normal(size=(6, 8))).astype(np.float32)
    pile = FeatureTable(query, paths=[f"{i}" for i in range(60)], base_mean=base_mean)
    return FeatureTable(rows, list("aabbcc"), [f"e{i}" for i in range(6)]), pile


@loop("method, uses", [(ON_BASE, True), (f"pt_map+{ON_BASE}", True), ("auto", False), ("oslo", False)])
def test_methods_that_centre_on_the_base_are_given_its_mean_and_no_others(method, uses):
    mean = np.linspace(4, 7, 8, dtype=np.float32)
    examples, pile = blobs(mean)
    found = label_items(examples, pile, method=method)
    expected = solve(examples.features, examples.labels, pile.features, method=method, base_mean=mean if uses else None)
    np.testing.assert_allclose(found.outlier_scores, expected.outlier_scores, atol=1e-6)
    without = label_items(*blobs(), method=method)
    assert (np.abs(found.outlier_scores - without.outlier_scores).max() > 1e-3) == uses


def tables(folder):
    """Examples and a pile as `embed` writes them, with the mean of base pictures; and without."""
    fill(folder)
    base_pictures(folder)
    net = load_backbone("pixels")
    for name in ("examples", "pile"):
        paths = sorted((folder / name).rglob("*.png"))
        features = np.concatenate([net.embed(net.prepare(open_picture(path))[None]) for path in paths])
        labels = [path.parent.name if name == "examples" else "" for path in paths]
        for mean, where in ((None, f"{name}-plain"), (by_hand(sorted((folder / "base").rglob("*.png"))), name)):
            write(FeatureTable(features, labels, [path.name for path in paths], base_mean=mean), f"{where}.parquet")


def scores(folder):
    return [float(row["outlier_score"]) for row in rows_of(Path(folder, "labels.csv"))]


def test_a_table_that_carries_the_mean_is_labelled_by_it_and_so_is_a_folder_of_parts(tmp_path, handful, monkeypatch):
    tables(tmp_path)
    mean = read("pile.parquet").base_mean
    Path("parts").mkdir()
    Path("parts", part_name(0)).write_bytes(Path("pile-plain.parquet").read_bytes())
    write_mean(Path("parts"), mean)
    monkeypatch.setattr("handful.project.large_pile.MIN_LARGE_PILE_ROWS", 1)
    for out, pile in (("one", "pile.parquet"), ("in-parts", "parts"), ("plain", "pile-plain.parquet")):
        shown = "examples-plain.parquet" if out == "plain" else "examples.parquet"
        ran(handful("label", shown, pile, "-o", out, "--method", ON_BASE))
    examples, found = read("examples.parquet"), read("pile.parquet")
    solved = solve(examples.features, examples.labels, found.features, method=ON_BASE, base_mean=mean).outlier_scores
    np.testing.assert_allclose(scores("one"), solved, atol=1e-6)
    in_parts = parquet.read_table(Path("in-parts/labels", part_name(0)))["outlier_score"].to_numpy()
    np.testing.assert_allclose(in_parts, solved, atol=1e-6)
    assert np.abs(np.subtract(scores("plain"), solved)).max() > 1e-3
    done = handful("predict", "one/model.safetensors", "pile-plain.parquet", "-o", "again.csv")  # the model has it
    assert done.returncode == 0, done.stderr
    again = [float(row["outlier_score"]) for row in rows_of("again.csv")]
    np.testing.assert_allclose(again, solved, atol=1e-6)


def test_two_tables_of_different_base_means_are_refused_where_it_matters(tmp_path, handful):
    tables(tmp_path)
    pile = read("pile.parquet")
    write(FeatureTable(pile.features, pile.labels, pile.paths, base_mean=pile.mean), "other.parquet")
    command = ("label", "examples.parquet", "other.parquet", "-o", "out")
    assert_refused(handful(*command, "--method", ON_BASE), "carry different base means", "the same --base")
    assert not Path("out").exists()
    assert handful(*command).returncode == 0


def test_pictures_are_labelled_by_the_mean_and_the_heads_that_their_backbone_brings(tmp_path, coarse, handful):
    fill(tmp_path)
    net = load_backbone("coarse.onnx")
    of = {
        name: [net.embed(net.prepare(open_picture(path))[None])[0] for path in sorted((tmp_path / name).rglob("*.png"))]
        for name in ("examples", "pile")
    }
    labels = [path.parent.name for path in sorted((tmp_path / "examples").rglob("*.png"))]
    mean = by_hand(sorted((tmp_path / "base").rglob("*.png")), "coarse.onnx")
    command = ("label", "examples", "pile", "--backbone", "coarse.onnx")
    for method, more in ((ON_BASE, {}), ("peeler", {"base": str(coarse)})):
        ran(handful(*command, "--method", method, "-o", method))
        solved = solve(of["examples"], labels, of["pile"], method=method, base_mean=mean, **more)
        np.testing.assert_allclose(scores(method), solved.outlier_scores, atol=1e-5)
    coarse.rename(tmp_path / "elsewhere.safetensors")
    done = handful("predict", "peeler/model.safetensors", "pile", "-o", "again.csv")  # the model has what it needs
    assert done.returncode == 0, done.stderr
    again = [float(row["outlier_score"]) for row in rows_of("again.csv")]
    np.testing.assert_allclose(again, scores("peeler"), atol=1e-6)
    assert_refused(
        handful(*command, "--method", "peeler", "-o", "x"),
        "peeler needs the base file of its backbone", "--set base=MODEL.base.safetensors",
    )  # fmt: skip
    assert not Path("x").exists()
    ran(handful(*command, "--method", "peeler", "-o", "x", "--set", "base=elsewhere.safetensors"))
    assert scores("x") == scores("peeler")


def test_a_base_that_is_named_is_remembered_by_promote(tmp_path, coarse, handful):
    fill(tmp_path, 12)
    handful("embed", "examples", "-o", "e.parquet", "--backbone", "coarse.onnx")
    handful("embed", "pile", "-o", "p.parquet", "--backbone", "coarse.onnx")
    command = ("label", "e.parquet", "p.parquet", "--method", "peeler", "-o")
    assert handful(*command, "out", "--set", f"base={coarse.name}").returncode == 0
    record = json.loads(Path("out/results.json").read_text())
    assert record["job"]["base"] == str(coarse)
    ran(handful("promote", "out", "1=new", "-o", "out2"))
    assert json.loads(Path("out2/results.json").read_text())["job"]["base"] == str(coarse)
    assert_refused(handful(*command, "out3", "--set", "base=nowhere"), "there is no base file 'nowhere'")


def test_of_a_whole_data_set_only_the_base_classes_make_the_mean(handful, tmp_path):
    """`handful embed --dataset` keeps all splits in one file, novel classes too."""
    rng = np.random.default_rng(0)
    x, splits = rng.normal(size=(12, 256)).astype(np.float32), np.repeat(["base", "val", "novel"], 4)
    write(FeatureTable(x, np.repeat(list("abcdef"), 2), splits=splits), tmp_path / "whole.parquet")
    fill(tmp_path)
    ran(handful("embed", "pile", "--backbone", "pixels", "--base", "whole.parquet", "-o", "out.parquet"))
    assert np.allclose(read(tmp_path / "out.parquet").base_mean, x[:4].mean(axis=0), atol=1e-6)
