"""The practitioner's job: a handful of examples and a pile in, labels, exports and sorted folders out."""

import json
import unicodedata
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest
from PIL import Image
from piles import PIXELS, assert_refused, contents, fill, picture, rows_of
from pyarrow import csv, parquet

from handful.core.answers import Answers
from handful.features import FeatureTable
from handful.project import label_items, read_items
from handful.project.export_formats import label_studio
from handful.project.sorting import folder_names, plan_places

SHARE = ("--outlier-share", 0.33)
EXPORTS = ("--export", "label-studio", "--export", "fiftyone", "--export", "coco")


def items(labels, features):
    return FeatureTable(np.asarray(features, np.float32), list(labels), [f"item {i}" for i in range(len(labels))])


@pytest.fixture(scope="module")
def blobs():
    """Examples of three classes in 8 dimensions, and a pile of 60 of which a third belongs to none."""
    rng = np.random.default_rng(1)
    centres = 4 * rng.normal(size=(4, 8))
    draw = lambda k, n: centres[k] + rng.normal(size=(n, 8))  # noqa: E731
    shown = items("aaabbbccc", np.concatenate([draw(k, 3) for k in range(3)]))
    pile = items([None] * 60, np.concatenate([draw(0, 14), draw(1, 13), draw(2, 13), draw(3, 20)]))
    pile = pile.replace(labels=None)
    return shown, pile


@pytest.fixture(scope="module")
def labelled(own_cache, tmp_path_factory):
    """A folder in which `label` has run once, with exports."""
    folder = fill(tmp_path_factory.mktemp("labelled"))
    (folder / "pile" / "more").mkdir()
    picture("left", 50, (90, 60)).save(folder / "pile" / "more" / "odd näme.png")
    return folder, *read_items(folder / "examples", folder / "pile", "pixels")


@pytest.fixture
def out(labelled, handful):
    folder = labelled[0]
    if not (folder / "out").exists():
        done = handful("label", folder / "examples", folder / "pile", "-o", folder / "out", *SHARE, *PIXELS, *EXPORTS)
        assert done.returncode == 0, done.stderr
    return folder / "out"


# The job


def test_each_picture_gets_its_class_and_strangers_are_set_aside(out):
    table = parquet.read_table(out / "labels.parquet")
    assert csv.read_csv(out / "labels.csv").to_pydict() == table.to_pydict()  # to the last digit
    columns = ["path", "label", "closest", "confidence", "p_unknown", "outlier_score", "group"]
    assert table.column_names == [*columns, "nearest_1", "nearest_2", "nearest_3", "p_left", "p_right"]
    for row in rows_of(out / "labels.csv"):
        kind = "left" if "odd" in row["path"] else Path(row["path"]).stem.rstrip("0123456789")
        assert row["label"] == ("unknown" if kind == "across" else kind), row
    names = {"coco.json", "fiftyone.json", "label-studio.json", ".lock.sqlite", "project.sqlite"}
    names |= {"labels.csv", "labels.parquet", "model.safetensors", "report.html", "results.json"}
    assert {path.name for path in out.iterdir()} == names


def test_items_of_the_pile_that_are_examples_are_known_and_not_calibrated_on(blobs):
    shown, pile = blobs
    given = {40 + i: "d" for i in range(5)}
    found = label_items(shown, pile, method="eol", outlier_share=0.3, pile_labels=given)
    assert found.p_unknown[40:45].tolist() == [0] * 5
    assert found.confidence[40:45].tolist() == [1] * 5
    rest = np.delete(found.p_unknown, range(40, 45))
    assert rest.mean() == pytest.approx(found.share["outlier_share"], abs=1e-6)


def test_the_nearest_examples_are_those_of_the_highest_cosine_about_the_mean(out, labelled):
    _, shown, pile = labelled
    mean = np.concatenate([shown.features, pile.features]).astype(np.float64).mean(axis=0)
    for row, x in zip(rows_of(out / "labels.csv"), pile.features - mean, strict=True):
        cosines = [x @ (e - mean) / np.linalg.norm(x) / np.linalg.norm(e - mean) for e in shown.features]
        by_hand = [shown.names[j] for j in np.argsort(cosines)[::-1][:3]]
        assert [row[f"nearest_{k}"] for k in (1, 2, 3)] == by_hand


def test_one_class_and_one_or_two_examples_are_enough(blobs):
    shown, pile = blobs
    two = FeatureTable(shown.features[2:4], ["a", "b"], shown.names[2:4])
    assert label_items(two, pile).nearest.shape == (60, 2)
    found = label_items(shown.take(range(3)), pile)
    assert set(found.labels) == {"a", "unknown"}
    assert found.sentences[0] == "1 class was shown by 3 examples; the pile holds 60 items."
    assert found.sentences[3].startswith(f"About {100 * found.share['outlier_share']:.0f} % of the pile look unknown (")


# The share of unknowns


def test_without_a_word_the_default_method_labels_and_the_share_is_estimated(blobs):
    found = label_items(*blobs)
    assert found.model._method == "eol_kdo"
    assert found.labels.tolist() == [*"a" * 14, *"b" * 13, *"c" * 13, *["unknown"] * 20]
    share, (low, high), told = found.share.values()
    assert low < 1 / 3 < high
    assert share == pytest.approx(1 / 3, abs=0.07)
    assert not told
    ends = f"between {100 * low:.0f} and {100 * high:.0f} %: {60 * low:.0f} to {60 * high:.0f} of 60"
    said = f"About {100 * share:.0f} % of the pile look unknown ({ends}), as "
    assert said + "estimated from the pile itself; --outlier-share sets it by hand." in found.sentences


def test_a_share_that_was_told_is_said_to_be_told(blobs):
    for method in ["auto", "eol", "knn"]:
        found = label_items(*blobs, method=method, outlier_share=0.3)
        assert found.share == {"outlier_share": 0.3, "outlier_share_interval": None, "outlier_share_told": True}
        assert "About 30 % of the pile are unknown, as --outlier-share says." in found.sentences
        assert "estimated" not in " ".join(found.sentences)
        if method == "knn":  # its scores only rank
            assert found.unknown.sum() == 18
            assert found.decision == "The 30 % of the pile with the highest outlier scores are called unknown."
    found = label_items(*blobs, method="knn", threshold=0.5)  # a method that has no share
    assert found.share["outlier_share_interval"] is None
    assert not [line for line in found.sentences if "look unknown" in line or "said to be" in line]


def test_a_tiny_pile_is_labelled_and_its_share_is_not_called_an_estimate(blobs):
    shown, pile = blobs
    for n, said in [(1, "1 item is too few"), (19, "19 items are too")]:
        found = label_items(shown, pile.take(range(n)))
        assert len(found.labels) == n
        (line,) = [line for line in found.sentences if line.startswith(said)]
        assert line.endswith("was taken; --outlier-share sets it by hand.")
        assert "look unknown" not in " ".join(found.sentences)


def test_json_record_and_report_tell_the_share(tmp_path, handful):
    table(tmp_path / "t.csv")
    for share in ("0.3", "auto"):
        command = ("label", "t.csv", "-o", "out", "--json", "--overwrite", "--outlier-share", share)
        said, record = json.loads(handful(*command).stdout), json.loads(Path("out/results.json").read_text())
        names = ("outlier_share", "outlier_share_interval", "outlier_share_told")
        assert [said[name] for name in names] == [record[name] for name in names]
        assert said["outlier_share_told"] is (said["outlier_share_interval"] is None) is (share == "0.3")
        line = "If the share of unknowns is as told, about 80 of 100 items"
        assert (line in Path("out/report.html").read_text()) is (share == "0.3")
    plain = json.loads(handful("label", "t.csv", "-o", "plain", "--json").stdout)
    assert said | {"files": 0} == plain | {"files": 0}  # auto is the default


def test_results_and_examples_within_the_pile_are_no_pile(tmp_path, handful):
    fill(tmp_path, count=2)
    command = ("label", "examples", ".", "-o", "out", *PIXELS, "--json")
    assert json.loads(handful(*command, "--sort", "copy").stdout)["items"] == 6
    (tmp_path / "pile" / "again.png").symlink_to(tmp_path / "examples" / "left" / "left0.png")
    assert json.loads(handful(*command, "--overwrite").stdout)["items"] == 6
    assert len(list(tmp_path.glob("out/sorted/*/*.png"))) == 6
    (tmp_path / "pile" / "again.png").unlink()
    practised = tmp_path / "pile" / "copy.png"
    practised.write_bytes((tmp_path / "examples" / "left" / "left0.png").read_bytes())
    assert "1 item of the pile is an example too" in handful(*command[:-1], "--overwrite").stdout


# Decisions


def test_unknown_rate_is_the_share_that_is_called_unknown(blobs):
    for method, rate in [("eol", 0), ("eol", 1 / 3), ("knn", 0.2), ("simpleshot", 0.5), ("knn", 1)]:
        found = label_items(*blobs, method=method, unknown_rate=rate)
        assert found.unknown.sum() == round(60 * rate)
        assert found.doubts[found.unknown].min(initial=np.inf) > found.doubts[~found.unknown].max(initial=-np.inf)
        assert found.model.unknown_[-60:].tolist() == found.unknown.tolist()
        assert found.model.transduction_[-60:].tolist() == found.labels.tolist()


def test_equal_items_stay_together(blobs):
    shown, pile = blobs
    twins = FeatureTable(np.repeat(pile.features[-1:], 8, axis=0), paths=pile.names[:8])
    found = label_items(shown, twins, method="knn", unknown_rate=0.25)
    assert found.unknown.sum() in (0, 8)
    found = label_items(*blobs, threshold=0.9)
    assert found.unknown.tolist() == (found.doubts > 0.9).tolist()
    assert "when P(unknown) is above 90 % of P(unknown) and P(closest class) together" in found.decision


def test_max_false_unknown_is_the_most_that_keeps_the_expected_share(blobs):
    shown, pile = blobs
    twins = FeatureTable(np.repeat(pile.features[[0, 50, 27]], 10, axis=0), paths=[*map(str, range(30))])
    for rate in [0.02, 0.1, 0.4]:
        found = label_items(*blobs, max_false_unknown=rate)
        known = (1 - found.p_unknown)[np.argsort(-found.doubts)]  # of each item, P(known); the first go first
        bearable = [n for n in range(61) if known[:n].sum() <= rate * known.sum() + 1e-9]
        assert found.unknown.sum() == max(bearable)
        assert found.doubts[found.unknown].min() > found.doubts[~found.unknown].max(initial=-1)
        same = label_items(shown, twins, method="eol", max_false_unknown=rate, outlier_share=0.3)  # of one score
        known = 1 - same.p_unknown
        assert known[same.unknown].sum() <= rate * known.sum() + 1e-9


OPTIONS_THAT_MAKE_NO_CASES = [
    ({"threshold": 0.5, "unknown_rate": 0.5}, "threshold and unknown_rate both say"),
    ({"unknown_rate": 0.1, "max_false_unknown": 0.1}, "unknown_rate and max_false_unknown both say"),
    ({"unknown_rate": 1.2}, "unknown_rate is 1.2: give a number between 0 and 1"),
    ({"max_false_unknown": -1}, "max_false_unknown is -1: give a number"),
    ({"outlier_share": float("nan")}, 'outlier_share is nan: give "auto", or a number between'),
    ({"outlier_share": 0.0}, 'outlier_share is 0.0: give "auto", or a number between 0 and 1, both excluded'),
    ({"outlier_share": 1.5}, "outlier_share is 1.5: give"),
    ({"threshold": float("nan")}, "threshold is nan: give the outlier score"),
    ({"method": "knn", "max_false_unknown": 0.1}, "knn gives no probabilities, which max_false_unknown needs"),
    ({"method": "nonsense"}, "there is no method 'nonsense'"),
    ({"precision": 90}, "precision is 90"),
    ({"precision": 0.9, "unknown_rate": 0.1}, "unknown_rate and precision both say what is unknown"),
    ({"precision": 0.9, "method": "knn"}, "knn gives no probabilities, which precision needs"),
]


def test_options_that_make_no_sense_are_refused_before_any_work(blobs, tmp_path, handful):
    fill(tmp_path)
    (tmp_path / "pile" / "broken.png").touch()  # told of instead, if the pile were read first
    for options, sentence in OPTIONS_THAT_MAKE_NO_CASES:
        with pytest.raises(ValueError, match=sentence):
            label_items(*blobs, **options)
        own = {"method": "--method=", "outlier_share": "--outlier-share=", "precision": "--precision="}
        words = [own.get(name, f"--set={name}=") + str(value) for name, value in options.items()]
        done = handful("label", "examples", "pile", "-o", "out", "--set", "strict=true", *PIXELS, *words)
        assert_refused(done, sentence.split(":")[0])
    said = "--outlier-share '30%': give auto, or a number between 0 and 1"
    assert_refused(handful("label", "examples", "pile", "-o", "out", "--outlier-share=30%"), said)
    assert not (tmp_path / "out").exists()


# Exports


def test_exports_name_the_files_and_fit_the_schemas_of_their_tools(out, labelled):
    """Labels and confidence in them are compared with the other outputs in test_one_answer.py."""
    files = [str((labelled[0] / "pile" / row["path"]).resolve()) for row in rows_of(out / "labels.csv")]
    tasks = json.loads((out / "label-studio.json").read_text())
    assert [str(Path("/", unquote(task["data"]["image"].partition("?d=")[2]))) for task in tasks] == files
    for task in tasks:
        assert task["data"]["image"].startswith("/data/local-files/?d=")
        ((result,),) = (prediction["result"] for prediction in task["predictions"])
        assert (result["from_name"], result["to_name"], result["type"]) == ("label", "image", "choices")
    assert len({task["predictions"][0]["result"][0]["id"] for task in tasks}) == len(tasks)

    assert [*json.loads((out / "fiftyone.json").read_text())["labels"]] == files

    content = json.loads((out / "coco.json").read_text())
    images, annotations = content["images"], content["annotations"]
    assert sorted(category["name"] for category in content["categories"]) == ["left", "right", "unknown"]
    assert [image["file_name"] for image in images] == files
    assert [annotation["image_id"] for annotation in annotations] == [image["id"] for image in images]
    assert len({annotation["id"] for annotation in annotations}) == len(files)
    for image, annotation in zip(images, annotations, strict=True):
        assert (image["width"], image["height"]) == Image.open(image["file_name"]).size
        assert annotation["bbox"] == [0, 0, image["width"], image["height"]]
        assert annotation["area"] == image["width"] * image["height"]


# Sorting


@pytest.fixture
def nested(tmp_path):
    """Pictures of the same name in several folders of the pile."""
    fill(tmp_path)
    for k in range(3):
        (tmp_path / "pile" / f"sub{k}").mkdir()
        picture("left", 70 + k).save(tmp_path / "pile" / f"sub{k}" / "left0.png")
        picture("left", 80 + k).save(tmp_path / "pile" / f"sub{k}" / "LEFT0 (2).png")
    return tmp_path


@pytest.mark.parametrize("how", ["copy", "link"])
def test_sorted_pictures_are_all_there_under_their_labels(how, nested, handful):
    before = contents("pile")
    done = handful("label", "examples", "pile", "-o", "out", "--sort", how, *PIXELS, *EXPORTS)
    assert done.returncode == 0, done.stderr
    assert contents("pile") == before
    found = list(Path("out/sorted").glob("*/*"))
    assert sorted(path.read_bytes() for path in found) == sorted(data for data, _ in before.values())
    assert {path.is_symlink() for path in found} == {how == "link"}
    label_of = {before[row["path"]][0]: row["label"] for row in rows_of("out/labels.csv")}
    for path in found:
        assert path.parent.name == label_of[path.read_bytes()]
    times = sorted(time for _, time in before.values())
    assert sorted(path.stat().st_mtime_ns for path in found) == times
    # Whoever opens an export finds the pictures
    for image in json.loads(Path("out/coco.json").read_text())["images"]:
        assert Image.open(image["file_name"]).size == (image["width"], image["height"])


def test_names_are_numbered_so_that_no_file_system_takes_two_for_one(tmp_path):
    files = [Path(name) for name in ("1/a.png", "2/a.png", "3/A.png", "4/a (2).png", "5/a.png", "6/é.png", "7/é.png")]
    pile = FeatureTable(np.zeros((7, 1)), paths=[str(file) for file in files], files=files)
    places = [str(place.relative_to(tmp_path)) for place in plan_places(pile, ["x"] * 7, tmp_path)]
    long = [Path(f"{k}/{'é' * 125}x.png") for k in range(2)]
    pile = FeatureTable(np.empty((2, 0)), paths=[*map(str, long)], files=long)
    names = [place.name for place in plan_places(pile, ["x"] * 2, tmp_path)]
    assert names == ["é" * 125 + "x.png", "é" * 123 + " (2).png"]  # cut between characters
    assert places[:2] == ["x/a.png", "x/a (2).png"]
    assert len({unicodedata.normalize("NFC", place).casefold() for place in places}) == 7


def test_folder_names_are_good_everywhere_and_no_two_alike():
    labels = {"a/b", "a\\b", "..", ".", "CON", "con.txt", "é", "Unknown", "unknown", "x" * 300, "a\nb"}
    names = folder_names(labels)
    assert names.keys() == labels
    assert len({name.casefold() for name in names.values()}) == len(labels)
    for name in names.values():
        assert 0 < len(name.encode()) < 250
        assert not set(name) & set('/\\<>:"|?*\n')
        assert name.strip(" .") == name
        assert name.split(".")[0].lower() != "con"


def test_the_address_of_a_picture_in_label_studio_is_escaped():
    items = FeatureTable(np.zeros((1, 1)), paths=["a"], files=[Path("/x/a #1%.png")])
    answers = Answers(np.ones((1, 1)), np.zeros(1), np.array(["cat"], dtype=object), 0.5, is_probability=True)
    _, (task,) = label_studio(items, answers, "eol", ["cat"])
    assert task["data"]["image"] == "/data/local-files/?d=x/a%20%231%25.png"


# Later: predict


def test_predict_takes_pictures_and_folders_in_any_order(out, labelled, handful, tmp_path):
    model, pile = out / "model.safetensors", labelled[0] / "pile"
    for kind in ("left", "right", "across"):
        picture(kind, 77).save(tmp_path / f"{kind}.png")
    (tmp_path / "bad.png").write_bytes((tmp_path / "left.png").read_bytes()[:200])
    said = json.loads(
        handful("predict", model, "left.png", pile, "right.png", "across.png", "bad.png", "--json").stdout
    )
    alone = {"left.png": "left", "right.png": "right", "across.png": "unknown"}
    of_pile = {f"{pile}/{row['path']}": row["label"] for row in rows_of(out / "labels.csv")}
    assert {item["path"]: item["label"] for item in said["items"]} == alone | of_pile
    assert [row["path"] for row in said["skipped"]] == ["bad.png"]
    for options in (("bad.png",), ("bad.png", "left.png", "--strict")):
        done = handful("predict", model, *options)
        assert (done.returncode, "is cut short" in done.stderr.splitlines()[-1]) == (1, True)  # after the bar


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_predict_writes_the_pile_as_label_did(suffix, out, labelled, handful):
    name, model, pile = f"deep/new{suffix}", out / "model.safetensors", labelled[0] / "pile"
    done = handful("predict", model, pile, "-o", name)
    assert done.returncode == 0, done.stderr
    assert "is more probable than its closest class, as the model was saved." in " ".join(done.stdout.split())
    read = csv.read_csv if suffix == ".csv" else parquet.read_table
    new, old = read(name).to_pydict(), parquet.read_table(out / "labels.parquet").to_pydict()
    assert list(new) == [column for column in old if not column.startswith(("nearest", "group"))]
    assert [new[column] for column in ("path", "label")] == [old[column] for column in ("path", "label")]
    assert_refused(handful("predict", model, pile / "more", "-o", name), "exists already")
    assert read(name).to_pydict() == new
    assert handful("predict", model, pile / "more", "-o", name, "--overwrite").returncode == 0
    assert read(name).to_pydict() != new


def test_predict_refuses_items_of_another_kind(out, labelled, handful, tmp_path):
    table(tmp_path / "t.csv")
    picture("left", 77).save(tmp_path / "left.png")
    (tmp_path / "notes.txt").write_text("not a picture")
    model = out / "model.safetensors"
    for arguments, sentence in [
        ((model, "t.csv"), "the model knows items of 256 features, these have 3"),
        ((model, labelled[0] / "pile", "--backbone", "efficientnet_lite0"), "another backbone or version of it, 'pixe"),
        ((model, "none"), "there is no file or folder 'none'"),
        (("t.csv", "t.csv"), "'t.csv' is not a safetensors file"),
        ((model, "t.csv", "-o", "t.txt"), "ends in .csv or .parquet"),
        ((model, "left.png", "notes.txt"), "'notes.txt' is not a picture"),
        ((model, "t.csv", "t.csv"), "one single table of embeddings"),
    ]:
        assert_refused(handful("predict", *arguments), sentence)


# Tables


def table(path, labels="aaabbb", width=3, seed=2):
    """A few labelled rows and twenty without a label, as columns of numbers in a CSV."""
    rng = np.random.default_rng(seed)
    kinds = ["ab".index(label) for label in labels] + [0] * 7 + [1] * 7 + [2] * 6
    x = 5 * np.eye(3, width)[kinds] + rng.normal(size=(len(kinds), width))
    lines = [",".join([*(f"f{i}" for i in range(width)), "label"])]
    for row, label in zip(x, [*labels, *[""] * 20], strict=True):
        lines.append(",".join([*map(repr, row.tolist()), label]))
    path.write_text("\n".join(lines) + "\n")
    return x


def test_a_table_holds_examples_and_pile(tmp_path, handful):
    table(tmp_path / "t.csv")
    said = json.loads(handful("label", "t.csv", "-o", "out", "--outlier-share", 0.3, "--json", *EXPORTS).stdout)
    assert (said["items"], said["unknown"], said["labels"]) == (20, 6, {"a": 7, "b": 7})
    rows = rows_of("out/labels.csv")
    assert [row["path"] for row in rows] == [f"row {i}" for i in range(6, 26)]
    assert rows[0]["nearest_1"] in ("row 0", "row 1", "row 2")
    image = json.loads(Path("out/coco.json").read_text())["images"][0]
    assert image == {"id": 1, "file_name": "row 6", "width": 0, "height": 0}
    said = json.loads(handful("predict", "out/model.safetensors", "t.csv", "--json").stdout)
    by_name = {item["path"]: item["label"] for item in said["items"]}
    assert len(by_name) == 26
    assert all(by_name[row["path"]] == row["label"] for row in rows)


TABLES_THAT_DO_NOT_CASES = [
    (lambda d: table(d / "t.csv", ""), "'t.csv' has no row with a label ("),
    (lambda d: (d / "t.csv").write_text("f,label\n1,a\n2,b\n"), "every row of 't.csv' has a label"),
    (lambda d: (d / "t.csv").write_text("f,kind\n1,a\n2,b\n"), "'t.csv' has no row with a label"),
    (lambda d: (d / "t.csv").write_text("f,label\n1,a\n,b\n3,\n"), "'t.csv': features contains NaN at row 1"),
    (lambda d: (d / "t.csv").write_text("f,label\n1,Unknown\n2,unknown\n3,\n"), "only examples of no class"),
]


def test_tables_that_do_not_do_are_refused_in_a_sentence(tmp_path, handful):
    for make, sentence in TABLES_THAT_DO_NOT_CASES:
        make(tmp_path)
        assert_refused(handful("label", "t.csv", "-o", "out"), sentence)
        assert not (tmp_path / "out").exists()
    table(tmp_path / "t.csv")
    table(tmp_path / "more.csv", width=4)
    said = "'t.csv' has 3 features and 'more.csv' 4: both must come from the same backbone"
    assert_refused(handful("label", "t.csv", "more.csv", "-o", "out"), said)
    assert_refused(handful("label", "t.csv", "-o", "out", "--sort", "copy"), "--sort sorts pictures")
    fill(tmp_path)
    assert_refused(handful("label", "examples", "t.csv"), "not one of each")


# embed


def test_embed_writes_what_label_reads(tmp_path, handful):
    fill(tmp_path)
    for arguments, sentence in [
        (("pile", "-o", "x.txt", *PIXELS), "'x.txt': give a name that ends in .parquet"),
        (("none", "-o", "x.npz", *PIXELS), "'none' is not a folder of pictures"),
        (("pile", "-o", "x.npz", "--backbone", "nonsense"), "there is no backbone 'nonsense'"),
    ]:
        assert_refused(handful("embed", *arguments), sentence)
    assert (
        "6 pictures, 2 labels, 256 features each: deep/shown.parquet"
        in handful("embed", "examples", "-o", "deep/shown.parquet", *PIXELS).stdout
    )
    assert_refused(handful("embed", "pile", "-o", "deep/shown.parquet", *PIXELS), "exists already")
    (tmp_path / "pile" / "bad.jpg").write_text("text")
    said = json.loads(handful("embed", "pile", "-o", "pile.parquet", *PIXELS, "--json").stdout)  # it has no labels
    assert (said["items"], said["features"], said["skipped"][0]["path"]) == (15, 256, "pile/bad.jpg")
    shown, pile = read_items(Path("deep/shown.parquet"), Path("pile.parquet"))
    assert set(shown.labels) == {"left", "right"}
    assert pile.names[0] == "across0.png"
    assert len(label_items(shown, pile)) == 15
