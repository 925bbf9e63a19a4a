"""Makes the fixtures of handful 0.1.0: one small file or folder of every kind that this version writes.

    python make.py [FOLDER]        the default is v0_1_0 beside this script; a folder that is there is replaced

To be run with handful 0.1.0 itself (its extras images and workbench; neither Ray nor torch is used). README.md says
what each file is and how it is to be read, expected.json what must come out. Numbers are drawn from fixed seeds, but
files are not the same to the byte when made again: ids of runs are random, and some files hold times and whole paths.
"""

import csv
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
OUT = Path(sys.argv[1] if len(sys.argv) > 1 else HERE / "v0_1_0").resolve()
THROWAWAY = tempfile.mkdtemp(prefix="handful-fixtures-")
# Nothing is read from or written to the user's own cache, nor kept beside the code
os.environ |= {"HANDFUL_CACHE": THROWAWAY, "NUMBA_CACHE_DIR": THROWAWAY, "OMP_NUM_THREADS": "1"}
sys.dont_write_bytecode = True

import numpy as np  # noqa: E402
from PIL import Image, ImageDraw  # noqa: E402

import handful  # noqa: E402
from handful.features import FeatureSet, read, write  # noqa: E402

NAMES = ["ant", "bee", "cat"]
DIMENSION = 12
PIXELS = ("--backbone", "pixels", "--size", "8")  # 64 features
expected = {"handful": handful.__version__, "made_in": str(OUT)}


# ---- items


def draw_items(rng, centres, counts):
    """Items around each centre, so many of each."""
    return np.concatenate(
        [centre + rng.normal(size=(n, centre.size)) for centre, n in zip(centres, counts, strict=True)]
    ).astype(np.float32)


def blobs():
    """40 items of three classes and one that is never shown, the kind of each (3: unknown), and 10 new items."""
    rng = np.random.default_rng(10)
    centres = 3 * rng.normal(size=(4, DIMENSION))
    X, kind = draw_items(rng, centres, [11, 11, 11, 7]), np.repeat(np.arange(4), [11, 11, 11, 7])
    return X, kind, draw_items(rng, centres, [3, 3, 2, 2])


def labels_of(kind, names=None):
    """The first three items of each class have a label, the others -1 (or None among names)."""
    shown = np.concatenate([np.flatnonzero(kind == k)[:3] for k in range(3)])
    y = np.full(len(kind), None if names else -1, object if names else int)
    y[shown] = [names[k] for k in kind[shown]] if names else 10 * (kind[shown] + 1)
    return y


def picture(shape, colour, seed):
    """24 by 24 pixels: a shape in a colour on grey, a little moved."""
    rng = np.random.default_rng([seed, *shape.encode()])
    x, y = rng.integers(1, 5, 2).tolist()
    colour = tuple((np.array(colour) + rng.integers(-12, 13, 3)).tolist())
    image = Image.new("RGB", (24, 24), (225, 225, 225))
    draw = ImageDraw.Draw(image)
    box = (x, y, x + 17, y + 17)
    if shape == "circle":
        draw.ellipse(box, colour)
    elif shape == "square":
        draw.rectangle(box, colour)
    elif shape == "bars":
        for row in range(0, 24, 6):
            draw.rectangle((0, row + y % 3, 23, row + y % 3 + 2), colour)
    return image


COLOURS = {"circle": (200, 30, 30), "square": (30, 60, 200), "bars": (20, 140, 40)}


def draw_pictures(folder, counts, first=0):
    """So many of each shape, circle0.png and so on; in a folder for each shape where its name ends in /."""
    for shape, count in counts.items():
        for i in range(first, first + count):
            name = shape.rstrip("/")
            path = folder / shape / f"{name}{i}.png" if shape.endswith("/") else folder / f"{name}{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            picture(name, COLOURS[name], i).save(path, optimize=True)


# ---- 1. models, and 5. a base


def answers(model, new):
    """What a model says of new items, as JSON takes it."""
    return {
        "predict": model.predict(new).tolist(),
        "predict_proba": model.predict_proba(new).tolist(),
        "score_samples": model.score_samples(new).tolist(),
        "threshold_": model.threshold_,
        "outlier_share_": model.outlier_share_,
        "outlier_share_interval_": model.outlier_share_interval_,
        "classes_": model.classes_.tolist(),
        "transduction_": model.transduction_.tolist(),
        "outlier_scores_": model.outlier_scores_.tolist(),
        "n_features_in_": model.n_features_in_,
    }


def make_base(folder):
    """The mean, the heads of FEAT and PEELER and some negatives: random numbers, as no torch is here to learn them."""
    rng, d = np.random.default_rng(5), DIMENSION
    feat = {
        "attention": rng.normal(size=(d, d)) / d**0.5,
        "output": 0.05 * rng.normal(size=(d, d)) / d**0.5,
        "gain": 1 + 0.05 * rng.normal(size=d),
        "shift": 0.05 * rng.normal(size=d) / d**0.5,
        "log_temperature": np.log([0.5]),
    }
    peeler = {
        "inner": rng.normal(size=(d, 4)),
        "outer": 0.05 * rng.normal(size=(4, d)),
        "log_precision": 1 + 0.05 * rng.normal(size=d),
    }
    about = {"name": "made up", "classes": 3}
    base = handful.Base(0.1 * rng.normal(size=d), {"feat": feat, "peeler": peeler}, rng.normal(size=(15, d)), about)
    base.save(folder / "base.safetensors")
    np.savez(folder / "base_arrays.npz", **base.arrays)
    expected["base"] = {"mark": base.mark, "repr": repr(base), "about": about, "arrays": sorted(base.arrays)}
    return base


def make_models(folder):
    folder.mkdir()
    X, kind, new = blobs()
    np.save(folder / "items.npy", X)
    np.save(folder / "new_items.npy", new)
    base = make_base(folder)
    mean = X.mean(axis=0) + np.float32(0.1)
    named, numbered = labels_of(kind, NAMES), labels_of(kind)
    wanted = {  # file: (method, parameters, labels, scale of the features, whether the items are saved too)
        "kdo": ("kdo", {}, named, 1, False),
        "kdo_items": ("kdo", {}, named, 1, True),
        "eol": ("eol", {"outlier_share": 0.3}, named, 1, False),
        "eol_shots": ("eol", {"class_weight": "shots", "b": 0.3}, numbered, 1, False),
        "eol_items": ("eol", {"learn": ("prototypes", "delta")}, numbered, 1, True),
        "knn": ("knn", {"k": 2}, numbered, 1, False),
        "knn_tiny_scale": ("knn", {}, named, 1e-12, False),  # its preparation scales: the only one of format 2
        "knn_base_mean": ("knn", {"base_mean": mean, "threshold": 0.68}, named, 1, False),
        "oslo": ("oslo", {"outlier_share": 0.2}, named, 1, False),
        "simpleshot+knn": ("simpleshot+knn", {"knn_k": 2}, named, 1, False),
        "bdcspn+entropy": ("bdcspn+entropy", {"dtype": "float64"}, numbered, 1, False),
        "feat": ("feat", {"base": base}, named, 1, False),
    }
    expected["models"] = {}
    for name, (method, parameters, y, scale, items) in wanted.items():
        model = handful.estimator(method, **parameters).fit(X * np.float32(scale), y)
        path = model.save(folder / f"{name}.safetensors", items=items)
        said = {"method": method, "scale_of_new_items": scale, "labels_given": [_plain(v) for v in y]}
        said |= {"parameters": {k: v for k, v in parameters.items() if k not in ("base", "base_mean")}}
        said |= answers(model, new * np.float32(scale))
        if items:  # grown from the file, as a model that was read goes by less than the one that was saved
            said["grown_by_new_items"] = answers(handful.load(path).partial_fit(new), new)
        expected["models"][name] = said


def _plain(value):
    return value if value is None or isinstance(value, str) else int(value)


# ---- 2. features


def make_features(folder):
    folder.mkdir()
    rng = np.random.default_rng(7)
    X = rng.normal(size=(14, 8)).astype(np.float32)
    labels = np.array(["hen", "owl", "héron", "a, b", "=1+1", "007", "hen"] * 2)
    paths = np.array([f"birds/{i} ä.png" if i % 5 else "" for i in range(14)])
    splits = np.array(["train"] * 8 + ["test"] * 5 + [""])
    mean = rng.normal(size=8).astype(np.float32)
    whole = FeatureSet(X, labels, paths, splits, base_mean=mean)
    bare = FeatureSet(X, labels, base_mean=mean)  # .npy has no place for paths and splits
    numbered = FeatureSet(X.astype(np.float64) / 3, np.arange(14) % 3 - 5)  # float64, and no base mean
    np.save(folder / "expected_features.npy", X)
    np.save(folder / "expected_float64.npy", numbered.features)
    sets = {"whole.parquet": whole, "whole.npz": whole, "whole.safetensors": whole, "dataset": whole, "bare.npy": bare}
    sets |= {f"numbered{end}": numbered for end in (".parquet", ".npz", ".npy", ".safetensors", "_dataset")}
    expected["features"] = {}
    for name, one in sets.items():
        write(one, folder / name)
        expected["features"][name] = described(one) | {
            "features": "expected_float64.npy" if one is numbered else "expected_features.npy"
        }


def described(one):
    """What a set holds beside its features."""
    beside = {name: getattr(one, name) for name in ("labels", "paths", "splits", "base_mean")}
    kept = {name: None if values is None else values.tolist() for name, values in beside.items()}
    return kept | {"dtype": str(one.features.dtype)}


def make_shards(folder):
    """What `handful embed --engine ray` writes of the examples, without Ray: its actors' work done here."""
    from handful.images import load_backbone
    from handful.scale import embedding
    from handful.scale.making import Recipe, ShardMaker

    def made(order, todo, address, until):
        maker = ShardMaker(order)
        for shard in todo:
            yield json.loads(maker({"shard": shard.number, "names": b"\0".join(shard.names)})["said"])

    embedding._made = made
    recipe, net = Recipe("pixels", {"size": 4}), load_backbone("pixels", size=4)
    mean = np.linspace(0, 1, 16, dtype=np.float32)
    top = folder.parent.parent / "label_pictures" / "examples"
    embedding.embed_folder(top, recipe, folder, net, size=4, base_mean=mean)
    found = read(folder)
    np.save(folder.with_name("expected_shards.npy"), found.features)
    expected["features"][folder.name] = described(found) | {"features": "expected_shards.npy"}


# ---- 3. results of `handful label`


def command(*arguments):
    """The command line, in this process; a failure ends the script."""
    from handful.cli import main

    before, sys.argv = sys.argv, ["handful", *map(str, arguments)]
    try:
        main()
    except SystemExit as left:
        if left.code:
            raise
    finally:
        sys.argv = before


def rows_of(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def keep_results(name, folder, items=None):
    """Drop the report, which is large and which nothing reads; note what the record and the labels say."""
    from handful.label.record import read_record

    (folder / "report.html").unlink(missing_ok=True)
    record = read_record(folder)
    said = {
        "items": record.items,
        "unknown": record.unknown,
        "groups": {number: [name for name, _ in group.items] for number, group in record.groups.items()},
        "promoted": {name: [item for item, _ in items] for name, items in record.job.promoted.items()},
        "paths_in_record": sorted(_paths_in(json.loads((folder / "results.json").read_text())["job"])),
        "decision": dict(record.job.decision),
    }
    if (folder / "labels.csv").is_file():
        said["labels"] = {row["path"]: row["label"] for row in rows_of(folder / "labels.csv")}
    if items is not None:  # what `handful predict model.safetensors ITEMS` says
        command("predict", folder / "model.safetensors", items, "-o", Path(THROWAWAY, "predicted.csv"), "--overwrite")
        rows = rows_of(Path(THROWAWAY, "predicted.csv"))
        told = {row["path"]: [row["label"], float(row["confidence"]), float(row["outlier_score"])] for row in rows}
        columns = ["label", "confidence", "outlier_score"]
        said["predict"] = {"items": str(items.relative_to(OUT)), "columns": columns, "rows": told}
    expected.setdefault("results", {})[name] = said


def _paths_in(job):
    given = [job["examples"], job["pile"], job["base"], *job["results"]]
    return {path for path in given if path}


def make_picture_results(folder):
    """By the default backbone, by the small one that comes along, and by pixels."""
    draw_pictures(folder / "examples", {"circle/": 3, "square/": 3})
    draw_pictures(folder / "pile", {"circle": 3, "square": 3, "bars": 4}, first=10)
    os.environ["HANDFUL_CACHE"] = THROWAWAY  # 1280 features of each picture are too much to keep
    told = ("--outlier-share", "0.4")
    command("label", folder / "examples", folder / "pile", "-o", folder / "out", "--method", "eol", *told)
    keep_results("label_pictures/out", folder / "out", folder / "pile")
    os.environ["HANDFUL_CACHE"] = str(OUT / "cache")
    small = ("--backbone", "omniglot")
    command("label", folder / "examples", folder / "pile", "-o", folder / "out_omniglot", *small, *told)
    keep_results("label_pictures/out_omniglot", folder / "out_omniglot", folder / "pile")
    command("label", folder / "examples", folder / "pile", "-o", folder / "out_pixels", *PIXELS, "--no-cache")
    keep_results("label_pictures/out_pixels", folder / "out_pixels", folder / "pile")
    os.environ["HANDFUL_CACHE"] = THROWAWAY
    for name in ("out", "out_omniglot", "out_pixels"):
        command("promote", folder / name, "1=bars", "-o", Path(THROWAWAY, name), "--yes")
        labels = {row["path"]: row["label"] for row in rows_of(Path(THROWAWAY, name, "labels.csv"))}
        expected["results"][f"label_pictures/{name}"]["labels_after_promoting_1=bars"] = labels
    os.environ["HANDFUL_CACHE"] = str(OUT / "cache")


def make_sorted(folder, examples):
    """`--sort move`: the pictures leave the pile, and undo.jsonl says where they came from."""
    draw_pictures(folder / "pile", {"circle": 2, "square": 2, "bars": 2}, first=30)
    before = sorted(path.name for path in (folder / "pile").iterdir())
    options = ("--outlier-share", "0.34", "--sort", "move")
    command("label", examples, folder / "pile", "-o", folder / "out", *PIXELS, *options)
    keep_results("label_sorted/out", folder / "out")
    there = sorted(str(path.relative_to(folder / "out/sorted")) for path in (folder / "out/sorted").rglob("*.png"))
    (folder / "pile" / ".keep").touch()  # git keeps no empty folder
    expected["sorted"] = {"pile_before": before, "sorted": there}


def make_table_results(folder):
    """A table whose labels are partly blank, labelled; then a group of its unknowns made a class."""
    folder.mkdir()
    X, kind, _ = blobs()
    y = labels_of(kind, NAMES)
    with open(folder / "table.csv", "w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["path", "label", *(f"f{i}" for i in range(DIMENSION))])
        for i, (row, label) in enumerate(zip(X, y, strict=True)):
            rows.writerow([f"item {i}", label or "", *(f"{value:.3f}" for value in row)])
    command("label", folder / "table.csv", "-o", folder / "out")
    keep_results("label_table/out", folder / "out", folder / "table.csv")
    if expected["results"]["label_table/out"]["groups"]:
        command("promote", folder / "out", "1=dog", "-o", folder / "out_promoted", "--yes")
        keep_results("label_table/out_promoted", folder / "out_promoted", folder / "table.csv")


def make_results_in_parts(folder):
    """A pile in two Parquet parts, labelled part by part, as is done with more than 100,000 rows."""
    from handful.features.columns import Columns
    from handful.features.shards import part_name, write_part
    from handful.label import Job
    from handful.label.in_parts import label_in_parts

    X, kind, _ = blobs()
    y = labels_of(kind, NAMES)
    shown = np.array([label is not None for label in y])
    (folder / "pile").mkdir(parents=True)
    write(FeatureSet(X[shown], y[shown].astype(str)), folder / "examples.parquet")
    rest = X[~shown]
    for number, rows in enumerate(np.array_split(np.arange(len(rest)), 2)):
        columns = Columns(rest[rows], np.array([""] * len(rows)), np.array([f"row/{i}.png" for i in rows]))
        write_part(columns, folder / "pile" / part_name(number), {})
    (folder / "pile" / "shards.json").write_text(json.dumps({"shards": 2}) + "\n")
    decision = dict.fromkeys(("threshold", "unknown_rate", "max_false_unknown")) | {
        "method": "auto", "outlier_share": "auto",
    }  # fmt: skip
    out = folder / "out"
    label_in_parts(Job(folder / "examples.parquet", folder / "pile", decision, results=[out]), out)
    keep_results("label_parts/out", out, folder / "pile" / part_name(0))
    from pyarrow import parquet

    tables = [parquet.read_table(path) for path in sorted((out / "labels").iterdir())]
    expected["results"]["label_parts/out"]["labels"] = {
        row["path"]: row["label"] for table in tables for row in table.to_pylist()
    }


# ---- 4. a workbench


def make_workbench(folder):
    """A folder of pictures with a project: two classes, examples, two unknowns, a run, a threshold, a step undone."""
    from starlette.testclient import TestClient

    from handful.workbench import Project
    from handful.workbench.app import make_app

    os.environ["HANDFUL_CACHE"] = THROWAWAY
    draw_pictures(folder, {"circle": 7, "square": 7, "bars": 6}, first=50)
    upload = Path(THROWAWAY, "sent.png")
    picture("circle", COLOURS["circle"], 99).save(upload)
    project = Project(folder, backbone="pixels")
    try:
        token = "t" * 43
        headers = {"authorization": f"Bearer {token}"}
        app = make_app(project, token=token, port=8321)
        client = TestClient(app, base_url="http://127.0.0.1:8321/api/v1", headers=headers)

        def ask(method, place, **options):
            answer = client.request(method, place, **options)
            assert answer.is_success, answer.text
            return answer.json()

        ask("POST", "/upload", files={"files": ("sent.png", upload.read_bytes(), "image/png")})
        assert project.worker.wait(60)
        of_name = {item["name"]: item["id"] for item in ask("GET", "/items?limit=1000")["items"]}
        circle = ask("POST", "/classes", json={"name": "circle"})["id"]
        square = ask("POST", "/classes", json={"name": "Quadrat ä"})["id"]
        marks = {circle: ("circle50.png", "circle51.png", "circle52.png"), 0: ("bars50.png", "bars51.png")}
        marks |= {square: ("square50.png", "square51.png", "square52.png")}
        for code, names in marks.items():
            ask("POST", "/labels", json={"items": [of_name[name] for name in names], "class": code})
        ask("PATCH", f"/classes/{square}", json={"name": "square", "key": 7})
        ask("POST", "/run", json={"outlier_share": 0.3})
        assert project.worker.wait(60)
        ask("POST", "/accept", json={"items": [of_name["circle53.png"]]})
        ask("POST", "/labels", json={"items": [of_name["square56.png"]], "class": circle})
        ask("POST", "/undo")  # so that there is a step to do again
        assert client.get(f"/pictures/{of_name['bars50.png']}?size=96").is_success  # keeps a thumbnail
        expected["workbench"] = {
            "token": token,
            "project": {k: v for k, v in ask("GET", "/project").items() if k != "job"},
            "items": ask("GET", "/items?limit=1000")["items"],
            "groups": ask("GET", "/groups"),
            "map": ask("GET", "/map"),
        }
        client.close()
    finally:
        project.close()


# ---- all of it


def rounded(value):
    """Numbers to nine digits, which tell any two of float32 apart."""
    if isinstance(value, dict):
        return {key: rounded(of) for key, of in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(of) for of in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


def in_lines(value, depth=3):
    """JSON with a line for each entry of the outer objects: short, and still to be read by people."""
    if not depth or not isinstance(value, dict) or not value:
        return json.dumps(rounded(value), ensure_ascii=False)
    entries = [f"{json.dumps(str(key), ensure_ascii=False)}: {in_lines(of, depth - 1)}" for key, of in value.items()]
    return "{\n" + ",\n".join(entries) + "\n}"


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    make_models(OUT / "models")
    make_features(OUT / "features")
    make_picture_results(OUT / "label_pictures")
    make_shards(OUT / "features" / "shards")
    make_sorted(OUT / "label_sorted", OUT / "label_pictures" / "examples")
    make_table_results(OUT / "label_table")
    make_results_in_parts(OUT / "label_parts")
    make_workbench(OUT / "workbench")
    (OUT / "expected.json").write_text(in_lines(expected) + "\n", "utf-8")
    shutil.rmtree(THROWAWAY, ignore_errors=True)


if __name__ == "__main__":
    start = time.monotonic()
    main()
    files = [path for path in OUT.rglob("*") if path.is_file()]
    print(f"{len(files)} files, {sum(path.stat().st_size for path in files):,} bytes, {time.monotonic() - start:.0f} s")
