"""Picture data sets: each published format is written here from random pictures and read back pixel for pixel."""

import hashlib
import io
import json
import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from handful.backbones.preprocessing import Preprocessing
from handful.training.datasets import PictureSet, catalogue, gathering, list_datasets, read_pictures
from handful.training.datasets.catalogue import published

pytestmark = pytest.mark.usefixtures("own_cache")
MINI = {"base": ["n01532829", "n13133613"], "val": ["n01855672", "n09256479"], "novel": ["n01930112", "n07613480"]}
TIERED = {"base": ["n01530575"], "val": ["n02099267", "n04467665"], "novel": ["n03314780"]}
FILES = {"base": "train", "val": "val", "novel": "test"}


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def random_pixels(rng, n, size):
    return rng.integers(0, 256, (n, size, size, 3), dtype=np.uint8)


def png(pixels) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def save(path: Path, pixels) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(png(pixels))


def check(pictures: PictureSet, expected: dict[str, tuple[np.ndarray, list[str]]], name: str) -> None:
    """The same pictures of the same classes in the same splits, in any order of classes."""
    assert pictures.name == name
    assert [split for split in ("base", "val", "novel") if split in pictures.splits] == list(expected)
    for split, (pixels, labels) in expected.items():
        part = pictures.select(split)
        assert sorted(part.classes) == sorted(set(labels))
        for label in part.classes:
            rows = [i for i, other in enumerate(labels) if other == label]
            np.testing.assert_array_equal(part.pixels[part.labels == label], pixels[rows])


def some_of_each(rng, classes: dict[str, list[str]], size: int, each: int = 3):
    return {
        split: (random_pixels(rng, each * len(names), size), [name for name in names for _ in range(each)])
        for split, names in classes.items()
    }


# ---- class splits, and the set itself


def test_class_splits_are_disjoint_and_of_the_published_sizes():
    for info in list_datasets():
        if lists := published(info.name):
            assert {s: list(lists.values()).count(s) for s in info.classes} == info.classes
    for name, some in (("miniimagenet", MINI), ("tieredimagenet", TIERED)):
        assert all(published(name)[one] == split for split, names in some.items() for one in names)
    assert sorted(published("cifar-fs")) == sorted(published("fc100"))
    people = ("baby", "boy", "girl", "man", "woman")  # a superclass, whole in FC100 and torn in CIFAR-FS
    assert {published("fc100")[name] for name in people} == {"novel"}
    assert {published("cifar-fs")[name] for name in people} == {"base", "novel"}


def test_a_class_is_in_one_split_only(rng):
    pixels, labels = random_pixels(rng, 3, 4), np.array(["owl", "hen", "owl"])
    for arguments, message in (
        ((pixels, labels, np.array(["base", "base", "novel"])), "'owl' is in the splits base and novel"),
        ((pixels, labels, np.array(["base", "test", "base"])), "no split 'test'"),
        ((pixels, labels[:2], np.array(["base"] * 3)), "3 pictures, 2 labels"),
        ((pixels / 255, labels, np.array(["base"] * 3)), "float64"),
    ):
        with pytest.raises(ValueError, match=message):
            PictureSet("x", *arguments)
    pictures = PictureSet("x", pixels, labels, np.array(["base", "novel", "base"]))
    np.testing.assert_array_equal(pictures.select("base").pixels, pixels[[0, 2]])
    with pytest.raises(ValueError, match="no split 'val': there is base, novel"):
        pictures.select("val")


# ---- Omniglot


@pytest.fixture
def drawings(rng):
    """Ink, [8, 105, 105], of four characters, two for learning."""
    labels = np.repeat(["Latin/character01", "Latin/character02", "Keble/character01", "Keble/character03"], 2)
    return rng.random((8, 105, 105)) < 0.3, labels, np.repeat(["background", "evaluation"], 4)


def zipped(folder: Path, ink, labels, split) -> Path:
    """The two zip files as they are published; ink is black there."""
    folder.mkdir()
    for half in ("background", "evaluation"):
        with zipfile.ZipFile(folder / f"images_{half}.zip", "w") as archive:
            archive.writestr(f"images_{half}/", "")
            archive.writestr(f"__MACOSX/images_{half}/._x.png", b"x")
            for i in np.flatnonzero(split == half):
                archive.writestr(f"images_{half}/{labels[i]}/{i:04d}.png", png(~ink[i]))
    return folder


def test_the_published_folders_zips_and_the_npz_of_omniglot_are_one(tmp_path, drawings):
    ink, labels, _ = drawings
    zips = zipped(tmp_path / "zips", *drawings)
    for half in ("background", "evaluation"):
        zipfile.ZipFile(zips / f"images_{half}.zip").extractall(tmp_path / "folders")
    packed = np.packbits(ink.reshape(len(ink), -1), axis=1)
    np.savez(tmp_path / "small.npz", packed=packed, labels=labels, split=drawings[2])
    how = Preprocessing((28, 28), (0.0,), (1.0,), "bilinear", None)  # as `handful embed` would make them ready
    pictures = np.stack([how(Image.fromarray(~drawing).convert("RGB")) for drawing in ink])
    small = np.round(pictures * 255).astype(np.uint8).transpose(0, 2, 3, 1)
    expected = {"base": (small[:4], labels[:4].tolist()), "novel": (small[4:], labels[4:].tolist())}
    for way in (tmp_path / "folders", zips, tmp_path / "small.npz"):
        check(read_pictures(way), expected, "omniglot")
        whole = read_pictures(way, "omniglot", size=105, splits=["novel"])
        assert set(whole.splits) == {"novel"}
        for label in whole.classes:
            np.testing.assert_array_equal(whole.pixels[whole.labels == label, :, :, 0], ~ink[labels == label] * 255)
    assert set(read_pictures(zips / "images_background.zip").splits) == {"base"}
    np.savez(tmp_path / "small.npz", packed=packed[:, :5], labels=labels, split=drawings[2])
    with pytest.raises(ValueError, match=r"small.npz is damaged.*\[drawings, 1379\]"):
        read_pictures(tmp_path / "small.npz")


# ---- miniImageNet and tieredImageNet


def mini_cache(pixels, labels) -> dict:
    rows = {name: [i for i, other in enumerate(labels) if other == name] for name in dict.fromkeys(labels)}
    return {"image_data": pixels, "class_dict": rows}


def test_the_caches_of_mini_imagenet(tmp_path, rng):
    expected = some_of_each(rng, MINI, 84)
    for write in (str, str.encode):  # names of Python 2 are bytes
        for split, name in (("base", "train"), ("val", "test"), ("novel", "validation")):  # val and test changed places
            content = mini_cache(*expected[split])
            content["class_dict"] = {write(label): rows for label, rows in content["class_dict"].items()}
            raw = pickle.dumps({write(key): value for key, value in content.items()}, protocol=2)
            (tmp_path / f"mini-imagenet-cache-{name}.pkl").write_bytes(raw)
        check(read_pictures(tmp_path), expected, "miniimagenet")
    check(read_pictures(tmp_path / "mini-imagenet-cache-train.pkl"), {"base": expected["base"]}, "miniimagenet")
    check(read_pictures(tmp_path, splits=["novel"]), {"novel": expected["novel"]}, "miniimagenet")


def test_the_category_split_of_mini_imagenet(tmp_path, rng):
    expected = some_of_each(rng, MINI, 84)
    for split, name in {**FILES, "base": "train_phase_train"}.items():
        pixels, labels = expected[split]
        numbers = {label: 10 + i for i, label in enumerate(dict.fromkeys(labels))}
        content = {  # its keys as Python 2 wrote them
            b"data": pixels,
            b"labels": [np.int64(numbers[label]) for label in labels],
            b"catname2label": {label.encode(): number for label, number in numbers.items()},
        }
        (tmp_path / f"miniImageNet_category_split_{name}.pickle").write_bytes(pickle.dumps(content))
    check(read_pictures(tmp_path), expected, "miniimagenet")


def test_mini_imagenet_by_its_lists_and_by_class_folders(tmp_path, rng):
    expected = some_of_each(rng, MINI, 84)
    lists, folders = tmp_path / "lists", tmp_path / "folders"
    (lists / "split").mkdir(parents=True)
    for split, name in FILES.items():
        rows = ["filename,label"]
        for i, (pixels, label) in enumerate(zip(*expected[split], strict=True)):
            save(lists / "images" / f"{label}{i:08d}.png", pixels)
            save(folders / label / f"{i}.png", pixels)
            rows.append(f"{label}{i:08d}.png,{label}")
        (lists / "split" / f"{name}.csv").write_text("\n".join(rows))
    check(read_pictures(lists), expected, "miniimagenet")
    save(folders / "n01440764" / "tench.png", expected["base"][0][0])
    with pytest.raises(ValueError, match="can be read as miniimagenet or tieredimagenet or folder: say which"):
        read_pictures(folders)
    pictures = read_pictures(folders, "miniimagenet")
    check(pictures, expected, "miniimagenet")
    assert "1 classes without a split, left out: n01440764" in str(pictures.skipped[0])
    for row, message in (
        (b"../images/x.png,n01855672", "but it is not in"),
        (b"x.png,n01855672", "val.csv lists 'x.png' of class 'n01855672', but it is not in"),
        (b"x.png", "line 2 lacks a filename or a label"),
    ):
        (lists / "split" / "val.csv").write_bytes(b"filename, label\n" + row)
        with pytest.raises(ValueError, match=message):
            read_pictures(lists, "miniimagenet")


@pytest.mark.parametrize("form", ["png", "npz"])
def test_the_files_of_tiered_imagenet(tmp_path, rng, form):
    named = {split: [f"{name}, of {split}" for name in names] for split, names in TIERED.items()}
    expected = some_of_each(rng, named, 84)
    for split, name in FILES.items():
        pixels, labels = expected[split]
        numbers = np.array([named[split].index(label) for label in labels], np.int32)
        content = {"label_specific": numbers, "label_specific_str": named[split], "label_general": 0 * numbers}
        (tmp_path / f"{name}_labels.pkl").write_bytes(pickle.dumps(content))
        if form == "png":  # arrays [bytes, 1], as OpenCV encodes
            files = [np.frombuffer(png(p), np.uint8)[:, None] for p in pixels]
            (tmp_path / f"{name}_images_png.pkl").write_bytes(pickle.dumps(files))
        else:
            np.savez(tmp_path / f"{name}_images.npz", images=pixels[..., ::-1])  # blue first, as OpenCV decodes
    check(read_pictures(tmp_path), expected, "tieredimagenet")
    one = tmp_path / ("train_images_png.pkl" if form == "png" else "train_images.npz")
    check(read_pictures(one), {"base": expected["base"]}, "tieredimagenet")
    if form == "png":
        files[1] = np.frombuffer(b"no picture", np.uint8)
        (tmp_path / "test_images_png.pkl").write_bytes(pickle.dumps(files))
        pictures = read_pictures(tmp_path, splits=["novel"])
        assert "test_images_png.pkl: picture 1 is no" in str(pictures.skipped[0])
        assert len(pictures) == len(files) - 1
    (tmp_path / "val_labels.pkl").unlink()
    with pytest.raises(ValueError, match="needs val_labels.pkl in the same folder"):
        read_pictures(tmp_path)


def test_class_folders_of_cifar_and_tiered_imagenet_follow_the_published_split(tmp_path, rng):
    pixels = random_pixels(rng, 3, 32)
    for picture, label in zip(pixels, ("apple", "train", "whale"), strict=True):  # a class is called train
        save(tmp_path / "cifar100" / "data" / label / "x.png", picture)
    expected = {"base": (pixels[:2], ["apple", "train"]), "novel": (pixels[2:], ["whale"])}
    check(read_pictures(tmp_path, "cifar-fs"), expected, "cifar-fs")
    tmp_path, expected = tmp_path / "tiered", some_of_each(rng, TIERED, 84, each=1)
    for split, name in FILES.items():
        for pixels, label in zip(*expected[split], strict=True):
            save(tmp_path / name / label / "x.png", pixels)
    check(read_pictures(tmp_path, "tieredimagenet"), expected, "tieredimagenet")
    os.rename(tmp_path / "val" / "n02099267", tmp_path / "test" / "n02099267")
    with pytest.raises(ValueError, match="n02099267 is in val as published"):
        read_pictures(tmp_path, "tieredimagenet")


# ---- CUB, CIFAR-100


def test_cub_is_split_by_the_order_of_its_classes(tmp_path, rng):
    pixels = random_pixels(rng, 200, 84)
    names = [f"{i:03d}.Bird_{i}" for i in range(1, 201)]
    for name, picture in zip(names, pixels, strict=True):
        save(tmp_path / "CUB_200_2011" / "images" / name / "x.png", picture)
    turns = {"base": slice(0, None, 2), "val": slice(1, None, 4), "novel": slice(3, None, 4)}
    expected = {split: (pixels[rows], names[rows]) for split, rows in turns.items()}
    for root in (tmp_path, tmp_path / "CUB_200_2011"):
        check(read_pictures(root), expected, "cub")
    os.rename(tmp_path / "CUB_200_2011" / "images" / names[7], tmp_path / "away")
    with pytest.raises(ValueError, match="199 folders"):
        read_pictures(tmp_path)


@pytest.mark.parametrize("name", ["cifar-fs", "fc100"])
def test_the_pickles_of_cifar_and_cifar_100_as_published(tmp_path, rng, name):
    expected = {}
    (tmp_path / name).mkdir()
    for split, file in FILES.items():
        pixels = random_pixels(rng, 4, 32)
        content = {"data": pixels, "labels": [0, 7, 7, 0]}  # each file numbers its classes from 0
        path = tmp_path / name / f"{name.upper().replace('-', '_')}_{file}.pickle"
        path.write_bytes(pickle.dumps(content))
        expected[split] = pixels, [f"{split}-000", f"{split}-007", f"{split}-007", f"{split}-000"]
    check(read_pictures(tmp_path / name), expected, name)

    splits, numbers = published(name), [*range(100), *range(99, -1, -1)]
    classes, pixels = sorted(splits), random_pixels(rng, 200, 32)  # in the file: all of red, then green, then blue
    root = tmp_path / "cifar-100-python"
    root.mkdir()
    for file, rows in {"train": slice(150), "test": slice(150, 200)}.items():
        data = pixels[rows].transpose(0, 3, 1, 2).reshape(-1, 3072)
        content = {b"data": data, b"fine_labels": numbers[rows], b"filenames": [b"x.png"] * len(data)}
        (root / file).write_bytes(pickle.dumps(content))
    (root / "meta").write_bytes(pickle.dumps({b"fine_label_names": [c.encode() for c in classes]}))
    with pytest.raises(ValueError, match="can be read as cifar-fs or fc100: say which"):
        read_pictures(tmp_path)
    for split in FILES:
        rows = [i for i, number in enumerate(numbers) if splits[classes[number]] == split]
        expected[split] = pixels[rows], [classes[numbers[i]] for i in rows]
    check(read_pictures(tmp_path, name), expected, name)
    check(read_pictures(root, name, splits=["val"]), {"val": expected["val"]}, name)


# ---- one's own folders


def test_a_folder_for_each_class_and_ones_own_splits(tmp_path, rng):
    pixels, names = random_pixels(rng, 6, 84), np.array(["hen", "owl", "tit"] * 2)
    for i, name in enumerate(names):
        save(tmp_path / "plain" / name / f"{i}.png", pixels[i])
        split = {"hen": "train", "owl": "validation", "tit": "Novel"}[name]
        save(tmp_path / "nested" / split / name / f"{i}.png", pixels[i])
    check(read_pictures(tmp_path / "plain"), {"base": (pixels, names.tolist())}, "folder")
    each = {s: (pixels[names == n], [n, n]) for s, n in (("base", "hen"), ("val", "owl"), ("novel", "tit"))}
    check(read_pictures(tmp_path / "nested"), each, "folder")
    (tmp_path / "split.json").write_text('{"base": ["hen"], "val": ["owl"], "novel": ["tit"]}')
    (tmp_path / "split.csv").write_text("class,split\nhen,base\nowl,val\ntit,test\n")
    for own in ("split.json", "split.csv"):
        check(read_pictures(tmp_path / "plain", split_file=tmp_path / own), each, "folder")
    (tmp_path / "split.csv").write_text("hen,base\n")
    pictures = read_pictures(tmp_path / "plain", split_file=tmp_path / "split.csv")
    assert pictures.classes == ["hen"]
    assert "owl, tit" in str(pictures.skipped[-1])
    for name, text, message in (
        ("s.json", "{", "not JSON"),
        ("s.json", '{"base": ["hen"], "val": ["hen"]}', "'hen' is in base and val"),
        ("s.json", '{"dev": ["hen"]}', "split 'dev'"),
        ("s.csv", "hen;base", "line 1 has 1 cells"),
        ("s.csv", "", "names no class"),
        ("s.csv", "cat,base", "'cat', but"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(ValueError, match=message):
            read_pictures(tmp_path / "plain", split_file=tmp_path / name)


def test_sizes_and_crops(tmp_path):
    wide = np.zeros((60, 120, 3), np.uint8)
    wide[:, 30:90] = 200  # the middle square is bright
    save(tmp_path / "hen" / "x.png", wide)
    pictures = read_pictures(tmp_path, size=20)
    assert pictures.pixels.shape == (1, 20, 20, 3)
    assert (pictures.pixels[:, :, 2:18] == 200).all()  # bicubic looks a little beyond the border
    assert pictures.pixels.min() > 150
    save(tmp_path / "mini" / "n01532829" / "x.png", wide)
    squeezed = read_pictures(tmp_path / "mini", "miniimagenet").pixels[0, 42, :, 0]
    assert squeezed.shape == (84,)
    assert (squeezed[:18].max(), squeezed[24:60].min(), squeezed[66:].max()) == (0, 200, 0)


# ---- kept between runs


def test_many_pictures_are_decoded_once(tmp_path, rng, monkeypatch):
    monkeypatch.setattr(gathering, "MIN_CACHED_PICTURES", 3)
    pixels, folder = random_pixels(rng, 6, 84), tmp_path / "pictures"
    for i in range(6):
        save(folder / f"class{i % 2}" / f"{i}.png", pixels[i])
    (folder / "class0" / "2.png").write_bytes(b"no picture")
    calls = []
    first = read_pictures(folder, progress=lambda done, total: calls.append((done, total)))
    expected = {"base": (pixels[[0, 4, 1, 3, 5]], ["class0"] * 2 + ["class1"] * 3)}
    check(first, expected, "folder")
    assert calls[-1] == (6, 6)
    assert isinstance(first.pixels, np.memmap)
    assert "2.png is no" in str(first.skipped[-1])

    with monkeypatch.context() as patch:
        patch.setattr(gathering, "decode", None)  # it cannot be called again
        again = read_pictures(folder)
        check(again, expected, "folder")
        assert str(again.skipped[-1]) == str(first.skipped[-1])
    save(folder / "class0" / "2.png", pixels[2])  # mended: other file, other key
    check(read_pictures(folder), {"base": (pixels[[0, 2, 4, 1, 3, 5]], ["class0"] * 3 + ["class1"] * 3)}, "folder")
    assert not [name for name in os.listdir(Path(first.pixels.filename).parent) if name.endswith(".tmp")]


def test_an_interrupted_reading_leaves_nothing_behind(tmp_path, rng, monkeypatch):
    monkeypatch.setattr(gathering, "MIN_CACHED_PICTURES", 0)
    monkeypatch.setattr(gathering, "BLOCK_PICTURES", 1)
    monkeypatch.setenv("HANDFUL_CACHE", str(tmp_path / "cache"))
    for i in range(3):
        save(tmp_path / "pictures" / "hen" / f"{i}.png", random_pixels(rng, 1, 84)[0])

    def stop(done, total):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read_pictures(tmp_path / "pictures", progress=stop)
    assert os.listdir(tmp_path / "cache" / "pictures") == []
    (tmp_path / "file").touch()
    monkeypatch.setenv("HANDFUL_CACHE", str(tmp_path / "file"))  # no folder can be made there
    assert len(read_pictures(tmp_path / "pictures")) == 3


# ---- what is wrong with a file


class Calls:
    def __init__(self, function, *arguments):
        self.made_of = function, arguments

    def __reduce__(self):
        return self.made_of


def test_a_hostile_pickle_is_refused_and_nothing_runs(tmp_path):
    trace = tmp_path / "ran"
    (tmp_path / "train_labels.pkl").write_bytes(pickle.dumps({"label_specific": [0], "label_specific_str": ["hen"]}))
    hostile = {"data": Calls(os.system, f"touch {trace}"), "labels": [0], "image_data": 0, "class_dict": {}}
    for name in ("mini-imagenet-cache-train.pkl", "FC100_train.pickle", "train_images_png.pkl"):
        (tmp_path / name).write_bytes(pickle.dumps(hostile))
        with pytest.raises(ValueError, match=r"system.*was not called.*published"):
            read_pictures(tmp_path / name)
    assert not trace.exists()


def test_files_of_another_shape_and_damaged_ones_are_refused(tmp_path):
    path, pixels = tmp_path / "mini-imagenet-cache-val.pkl", np.zeros((2, 84, 84, 3), np.uint8)
    whole = pickle.dumps(mini_cache(pixels, ["a", "b"]))
    for content, message in (
        (whole[: len(whole) // 2], "pickle is damaged"),
        ([1], "holds a list"),
        ({"image_data": np.zeros((2, 84, 84, 3)), "class_dict": {"a": [0, 1]}}, "float64 of shape"),
        ({"image_data": pixels, "class_dict": {"a": [0]}}, "picture 1 is in no class"),
        ({"image_data": pixels, "class_dict": {"a": [0, 2]}}, "index 2 is out of bounds"),
        ({"data": 1}, "it lacks 'image_data'"),
    ):
        path.write_bytes(content if isinstance(content, bytes) else pickle.dumps(content))
        with pytest.raises(ValueError, match=f"mini-imagenet-cache-val.pkl is damaged, or not as it was.*{message}"):
            read_pictures(path)
    (tmp_path / "images_background.zip").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(ValueError, match="images_background.zip is damaged"):
        read_pictures(tmp_path / "images_background.zip")
    (tmp_path / "train_labels.pkl").write_bytes(pickle.dumps({"label_specific": [0, 0]}))
    np.savez(tmp_path / "train_images.npz", images=np.zeros((3, 84, 84, 3), np.uint8))
    with pytest.raises(ValueError, match="3 pictures, but there are 2 labels"):
        read_pictures(tmp_path / "train_images.npz")


def test_paths_and_names_that_are_wrong(tmp_path, rng):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        read_pictures(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    (tmp_path / "x.txt").write_text("x")
    save(tmp_path / "own" / "hen" / "x.png", random_pixels(rng, 1, 84)[0])
    for name, dataset, options, message in (
        ("empty", None, {}, "neither class folders nor files"),
        ("empty", "omniglot", {}, "not what is read of omniglot"),
        ("empty", "cub", {}, "no class folders"),
        ("empty", "imagenet", {}, "no data set 'imagenet'; there are: omniglot"),
        ("x.txt", None, {}, "neither class folders nor files"),
        ("x.txt", "cub", {}, "not what is read of cub"),
        ("own", None, {"splits": ["train"]}, "choose some of base, val, novel"),
        ("own", None, {"splits": ["novel"]}, "no split novel: there is base"),
        ("own", None, {"size": 0}, r"size is \(0, 0\)"),
    ):
        with pytest.raises(ValueError, match=message):
            read_pictures(tmp_path / name, dataset, **options)
    (tmp_path / "own" / "hen" / "x.png").write_bytes(b"x")
    with pytest.raises(ValueError, match="none of 1 pictures can be read"):
        read_pictures(tmp_path / "own")


# ---- the command


def test_the_command_lists_and_teaches(handful):
    listed = json.loads(handful("train", "--list-datasets", "--json").stdout)
    assert [entry["name"] for entry in listed] == [info.name for info in list_datasets()]
    assert "tieredimagenet" in handful("train", "--list-datasets").stdout
    for info in list_datasets():
        one = ("train", "--list-datasets", "--dataset", info.name)
        text = handful(*one).stdout
        assert f"handful train {info.example} --dataset {info.name}" in text
        assert all(digest in text for digest in info.archives.values())
        assert json.loads(handful(*one, "--json").stdout)["layouts"] == info.layouts
    assert "no data set 'x'" in handful("train", "--list-datasets", "--dataset", "x").stderr


def test_the_command_reads_what_is_there_and_checks_archives(handful, tmp_path, drawings, monkeypatch):
    folder = zipped(tmp_path / "omniglot", *drawings)
    done = handful("train", folder, "--dataset", "omniglot", "--check")
    assert done.returncode == 1  # these are not the published files
    assert "images_background.zip is NOT the published file" in done.stdout
    assert "base: 2 classes, 4 pictures, 2 per class, NOT as many as published" in done.stdout
    digests = {name: hashlib.md5((folder / name).read_bytes()).hexdigest() for name in os.listdir(folder)}
    info = catalogue._all()["omniglot"]
    monkeypatch.setitem(catalogue._all(), "omniglot", catalogue.DatasetInfo(**(vars(info) | {"archives": digests})))
    done = handful("train", folder, "--check", "--json")
    assert done.returncode == 0
    report = json.loads(done.stdout)
    assert report["archives"] == dict.fromkeys(digests, True)
    assert (report["name"], report["pictures"], report["size"]) == ("omniglot", 8, [28, 28])
    (tmp_path / "CUB_200_2011.tgz").write_bytes(b"x")
    done = handful("train", tmp_path / "CUB_200_2011.tgz", "--dataset", "cub", "--check")
    assert done.returncode == 1
    assert "NOT the published file" in done.stdout
    assert "tar xzf" in done.stdout
