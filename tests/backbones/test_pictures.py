"""Pictures from files: what is read and how, what is refused and why, what is found in a folder."""

import os
import pickle
import struct
import tracemalloc
import warnings
import zlib

import numpy as np
import pytest
from PIL import Image

from handful.backbones import pictures as loading
from handful.backbones.folders import shown
from handful.backbones.pictures import BadPicture, find_pictures, open_picture, picture_size

LEADS_OUT = "is a link that leads out of the folder"

RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)


def noise(height=24, width=36, seed=0):
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8))


def pixels(image):
    assert image.mode == "RGB"
    return np.asarray(image).astype(int)


def reason_of(path, **options):
    with pytest.raises(BadPicture) as caught:
        open_picture(path, **options)
    assert caught.value.path == (os.fspath(path) if not isinstance(path, bytes) else "the picture")
    assert "\n" not in str(caught.value)
    assert str(caught.value).count(": ") == 1  # what is wrong: what to do
    return caught.value.reason


def png_header(width, height):
    """A PNG of a few bytes that says it is as large as that."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b"")


# ---- what is read


@pytest.mark.parametrize("name", ["a.png", "a.bmp", "a.tif", "a.TIFF", "a.webp"])
def test_formats_without_loss_come_back_exactly(tmp_path, name):
    noise().save(tmp_path / name, **({"lossless": True} if name == "a.webp" else {}))
    np.testing.assert_array_equal(pixels(open_picture(tmp_path / name)), pixels(noise()))


@pytest.mark.parametrize("compression", ["tiff_lzw", "tiff_adobe_deflate", "packbits", "group4"])
def test_compressed_tiff(tmp_path, compression):
    image = noise() if compression != "group4" else noise().convert("1")
    image.save(tmp_path / "a.tif", compression=compression)
    np.testing.assert_array_equal(pixels(open_picture(tmp_path / "a.tif")), pixels(image.convert("RGB")))


@pytest.mark.parametrize("name", ["a.jpg", "a.jpeg", "a.webp"])
def test_formats_with_loss_come_back_nearly(tmp_path, name):
    Image.new("RGB", (40, 30), (200, 100, 50)).save(tmp_path / name)
    image = open_picture(tmp_path / name)
    assert image.size == (40, 30)
    assert np.abs(pixels(image) - [200, 100, 50]).max() <= 4


def test_the_bytes_of_a_file_do_as_well(tmp_path):
    noise().save(tmp_path / "a.png")
    np.testing.assert_array_equal(pixels(open_picture((tmp_path / "a.png").read_bytes())), pixels(noise()))


def test_a_suffix_may_be_wrong(tmp_path):
    noise().save(tmp_path / "a.png")
    (tmp_path / "a.png").rename(tmp_path / "a.jpg")
    np.testing.assert_array_equal(pixels(open_picture(tmp_path / "a.jpg")), pixels(noise()))


@pytest.mark.parametrize("name", ["a.png", "a.tif"])
def test_sixteen_bits_are_scaled_not_clipped(tmp_path, name):
    values = np.arange(0, 65536, 64, dtype=np.uint16).reshape(32, 32)
    Image.fromarray(values).save(tmp_path / name)
    grey = pixels(open_picture(tmp_path / name))
    expected = np.rint(values / 65535 * 255)
    np.testing.assert_array_equal(grey, np.stack([expected] * 3, axis=-1))


def test_sixteen_bits_of_which_white_is_zero(tmp_path):
    from PIL.TiffImagePlugin import ImageFileDirectory_v2

    tags = ImageFileDirectory_v2()
    tags[262] = 0
    Image.fromarray(np.full((8, 8), 65535, np.uint16)).save(tmp_path / "a.tif", tiffinfo=tags)
    with Image.open(tmp_path / "a.tif") as image:
        if image.tag_v2[262] != 0:
            pytest.skip("this Pillow writes no such file")
    assert (pixels(open_picture(tmp_path / "a.tif")) == 0).all()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.float32([[0, 0.5, 1.0]]), [0, 128, 255]),
        (np.float32([[0, 128, 255]]), [0, 128, 255]),
        (np.float32([[0, np.nan, 255]]), [0, 0, 255]),
        (np.float32([[-100, 0, 1]]), [0, 252, 255]),
        (np.float32([[0, 1e6, 2e6]]), [0, 128, 255]),
        (np.int32([[0, 128, 255]]), [0, 128, 255]),
        (np.int32([[0, 257, 65535]]), [0, 1, 255]),
    ],
)
def test_numbers_of_32_bits_find_their_white(tmp_path, values, expected):
    Image.fromarray(values).save(tmp_path / "a.tif")
    assert pixels(open_picture(tmp_path / "a.tif"))[0, :, 0].tolist() == expected


def test_a_cmyk_jpeg_has_its_colours(tmp_path):
    Image.new("CMYK", (16, 16), (255, 0, 0, 0)).save(tmp_path / "a.jpg")
    assert np.abs(pixels(open_picture(tmp_path / "a.jpg")) - [0, 255, 255]).max() <= 4


def test_a_lab_tiff_has_its_colours(tmp_path):
    Image.new("LAB", (4, 4), (255, 128, 128)).save(tmp_path / "a.tif")
    assert (pixels(open_picture(tmp_path / "a.tif")) >= 254).all()


@pytest.mark.parametrize("mode", ["1", "L", "YCbCr"])
def test_other_modes_without_transparency(tmp_path, mode):
    name = "a.jpg" if mode == "YCbCr" else "a.png"
    Image.new("RGB", (8, 8), WHITE).convert(mode).save(tmp_path / name)
    assert (pixels(open_picture(tmp_path / name)) >= 254).all()


@pytest.mark.parametrize("mode", ["RGBA", "LA", "PA"])
def test_what_is_transparent_shows_white(tmp_path, mode):
    image = Image.new("RGBA", (2, 1), (0, 0, 0, 0))
    image.putpixel((1, 0), (0, 0, 0, 255))
    name = "a.tif" if mode == "LA" else "a.png"
    (image.convert(mode) if mode != "PA" else image.quantize(4)).save(tmp_path / name)
    np.testing.assert_array_equal(pixels(open_picture(tmp_path / name))[0], [WHITE, (0, 0, 0)])


def test_half_transparent_is_half_white(tmp_path):
    Image.new("RGBA", (4, 4), (255, 0, 0, 128)).save(tmp_path / "a.png")
    assert np.abs(pixels(open_picture(tmp_path / "a.png"))[0, 0] - [255, 127, 127]).max() <= 1


@pytest.mark.parametrize(("mode", "key"), [("RGB", RED), ("L", 7)])
def test_a_colour_that_stands_for_transparency_shows_white(tmp_path, mode, key):
    Image.new(mode, (4, 4), key).save(tmp_path / "a.png", transparency=key)
    assert (pixels(open_picture(tmp_path / "a.png")) == 255).all()


def test_a_palette_gif_with_transparency(tmp_path):
    image = Image.new("P", (2, 1))
    image.putpalette([*RED, *BLUE])
    image.putpixel((1, 0), 1)
    image.save(tmp_path / "a.gif", transparency=0)
    np.testing.assert_array_equal(pixels(open_picture(tmp_path / "a.gif"))[0], [WHITE, BLUE])


@pytest.mark.parametrize("name", ["a.gif", "a.webp", "a.png", "a.tif"])
def test_of_an_animation_the_first_frame(tmp_path, name):
    frames = [Image.new("RGB", (8, 8), colour) for colour in (RED, GREEN, BLUE)]
    options = {"lossless": True} if name == "a.webp" else {}
    frames[0].save(tmp_path / name, save_all=True, append_images=frames[1:], **options)
    with Image.open(tmp_path / name) as image:
        assert image.n_frames == 3
    assert (pixels(open_picture(tmp_path / name)) == RED).all()


# What EXIF says: which side of the scene the first row and the first column of the file are
SIDES = {
    1: ("top", "left"), 2: ("top", "right"), 3: ("bottom", "right"), 4: ("bottom", "left"),
    5: ("left", "top"), 6: ("right", "top"), 7: ("right", "bottom"), 8: ("left", "bottom"),
}  # fmt: skip


@pytest.mark.parametrize("orientation", SIDES)
@pytest.mark.parametrize("name", ["a.png", "a.webp", "a.tif", "a.jpg"])
def test_pictures_come_upright(tmp_path, name, orientation):
    scene = np.asarray(noise(3, 5).resize((80, 48), Image.Resampling.NEAREST))
    row, column = SIDES[orientation]
    stored = scene if row in ("top", "bottom") else scene.transpose(1, 0, 2)
    stored = stored[::-1] if row in ("bottom", "right") else stored
    stored = stored[:, ::-1] if column in ("bottom", "right") else stored
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"a.webp": {"lossless": True}, "a.jpg": {"quality": 100, "subsampling": 0}}.get(name, {})
    Image.fromarray(np.ascontiguousarray(stored)).save(tmp_path / name, exif=exif, **options)
    image = open_picture(tmp_path / name)
    assert image.size == (80, 48)
    assert np.abs(pixels(image) - scene).max() <= (8 if name == "a.jpg" else 0)
    assert picture_size(tmp_path / name) == (80, 48)
    assert image.getexif().get(0x0112, 1) == 1  # nobody turns it again


@pytest.mark.filterwarnings("ignore:Corrupt EXIF", "ignore:Truncated")
def test_damaged_exif_data_does_not_cost_the_picture(tmp_path):
    noise().save(tmp_path / "a.png", exif=b"Exif\0\0II*\0\xff\xff\xff\x7f" + b"\xff" * 20)
    assert open_picture(tmp_path / "a.png").size == (36, 24)


def test_a_large_jpeg_may_come_smaller_but_not_too_small(tmp_path):
    smooth = noise(6, 8).resize((1600, 1200), Image.Resampling.BICUBIC)
    smooth.save(tmp_path / "a.jpg", quality=95)
    assert open_picture(tmp_path / "a.jpg").size == (1600, 1200)
    image = open_picture(tmp_path / "a.jpg", at_least=300)
    assert image.size == (400, 300)
    assert np.abs(pixels(image) - pixels(smooth.reduce(4))).mean() < 1


def test_names_that_are_hard_on_programs(tmp_path):
    names = [b"new\nline.png", "日本 ü.png".encode(), b"-rf.png", b"a\\b 'q\".png"]
    if os.name == "posix":
        names.append(b"\xff\xfe.png")
    for name in names:
        try:
            noise().save(tmp_path / "plain.png")
            os.rename(tmp_path / "plain.png", os.path.join(os.fsencode(tmp_path), name))
        except OSError:
            pytest.skip("this file system takes no such names")
    found, skipped = find_pictures(tmp_path)
    assert sorted(os.fsencode(path.name) for path in found) == sorted(names)
    assert not skipped
    for path in found:
        assert open_picture(path).size == (36, 24)
        path.write_bytes(b"")
        assert "empty" in reason_of(path)
        assert str(BadPicture(path, "is bad")).encode()


# ---- what is refused


def test_an_empty_file(tmp_path):
    (tmp_path / "a.jpg").write_bytes(b"")
    assert "empty" in reason_of(tmp_path / "a.jpg")
    assert "empty" in reason_of(b"")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"just a text\n", "is not a JPEG, PNG"),
        (b"\n <!DOCTYPE html><title>404</title>", "web page"),
        (b"<svg xmlns='...'/>", "drawing"),
        (b"\0\0\0\x18ftypmp42\0\0\0\0isommp42", "film"),
        (b"\xff\xd8\xff", "is not a JPEG, PNG"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "is not a JPEG, PNG"),  # Pillow would run Ghostscript
        (b"P6 2 2 255\n" + b"\0" * 12, "is not a JPEG, PNG"),  # Pillow reads these, but nobody means them
    ],
)
def test_what_is_no_picture_though_named_so(tmp_path, content, said):
    (tmp_path / "a.jpg").write_bytes(content)
    assert said in reason_of(tmp_path / "a.jpg")


@pytest.mark.filterwarnings("ignore:Truncated", "ignore:Corrupt EXIF")
@pytest.mark.parametrize("name", ["a.jpg", "a.png", "a.webp", "a.gif", "a.bmp", "a.tif"])
def test_a_file_cut_short_is_refused_wherever_it_was_cut(tmp_path, name):
    noise(48, 64).save(tmp_path / name)
    whole = (tmp_path / name).read_bytes()
    for part in (0.1, 0.5, 0.9, 0.98):
        (tmp_path / name).write_bytes(whole[: int(len(whole) * part)])
        assert "damaged" in reason_of(tmp_path / name)


def test_a_progressive_jpeg_cut_short(tmp_path):
    noise(300, 400).save(tmp_path / "a.jpg", progressive=True)
    whole = (tmp_path / "a.jpg").read_bytes()
    (tmp_path / "a.jpg").write_bytes(whole[: len(whole) - 500])
    assert "cut short" in reason_of(tmp_path / "a.jpg")


@pytest.mark.parametrize("size", [(0, 5), (5, 0), (0, 0)])
def test_a_picture_without_pixels(tmp_path, size):
    (tmp_path / "a.png").write_bytes(png_header(*size))
    assert "damaged" in reason_of(tmp_path / "a.png")


def test_a_small_file_that_would_be_huge(tmp_path):
    (tmp_path / "a.png").write_bytes(png_header(100_000, 100_000))
    limit = Image.MAX_IMAGE_PIXELS
    assert "far too many pixels" in reason_of(tmp_path / "a.png")
    assert limit == Image.MAX_IMAGE_PIXELS


def test_a_picture_beyond_the_limit_is_refused_by_its_header(tmp_path):
    (tmp_path / "a.png").write_bytes(png_header(12_000, 10_000))  # its pixels would be "cut short"
    with pytest.warns(Image.DecompressionBombWarning):
        assert "12000 x 10000 pixels" in reason_of(tmp_path / "a.png")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "far too many pixels" in reason_of(tmp_path / "a.png")
        assert "36 x 24 pixels" in reason_of(_saved(tmp_path / "b.png"), max_pixels=36 * 24 - 1)
        assert open_picture(tmp_path / "b.png", max_pixels=36 * 24).size == (36, 24)


def _saved(path):
    noise().save(path)
    return path


def test_a_file_that_is_too_large(tmp_path, monkeypatch):
    monkeypatch.setattr(loading, "MAX_BYTES", 2**20)
    with (tmp_path / "a.bmp").open("wb") as file:
        file.truncate(3 * 2**20)
    assert "has 3 MB" in reason_of(tmp_path / "a.bmp")


def test_texts_in_a_png_that_unpack_to_much_are_left_out(tmp_path):
    text = b"a\0\0" + zlib.compress(b"\0" * 10**7)
    chunk = struct.pack(">I", len(text)) + b"zTXt" + text + struct.pack(">I", zlib.crc32(b"zTXt" + text))
    whole = png_header(4, 4)
    (tmp_path / "a.png").write_bytes(whole[:33] + chunk + whole[33:])
    tracemalloc.start()
    assert open_picture(tmp_path / "a.png").size == (4, 4)
    assert tracemalloc.get_traced_memory()[1] < 5 * 10**6
    tracemalloc.stop()


def test_a_file_that_is_not_there_a_folder_and_an_impossible_name(tmp_path):
    assert "cannot be read (No such file" in reason_of(tmp_path / "a.jpg")
    assert "not a regular file" in reason_of(tmp_path)
    assert "name" in reason_of("a\0b.jpg")


def test_a_file_that_may_not_be_read(tmp_path, monkeypatch):
    noise().save(tmp_path / "a.png")

    def refuse(*arguments):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)  # the superuser may read everything: no other way to be refused
    assert "Permission denied" in reason_of(tmp_path / "a.png")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_pipes_and_devices_are_never_opened(tmp_path):
    os.mkfifo(tmp_path / "a.jpg")  # opening it would wait for ever
    assert "not a regular file" in reason_of(tmp_path / "a.jpg")
    assert "not a regular file" in reason_of("/dev/zero")
    (tmp_path / "b.jpg").symlink_to("/dev/zero")
    assert "not a regular file" in reason_of(tmp_path / "b.jpg")
    found, skipped = find_pictures(tmp_path)
    assert not found
    reasons = [(os.path.basename(s.path), s.reason.split(":")[0]) for s in skipped]
    assert reasons == [("a.jpg", "is not a regular file (a pipe or device)"), ("b.jpg", LEADS_OUT)]


def test_picture_size_refuses_as_opening_does(tmp_path):
    for content in (b"", b"text", png_header(0, 1)):
        (tmp_path / "a.png").write_bytes(content)
        with pytest.raises(BadPicture):
            picture_size(tmp_path / "a.png")
    with pytest.raises(BadPicture):
        picture_size(tmp_path)


def test_bad_pictures_travel_between_processes():
    error = pickle.loads(pickle.dumps(BadPicture("a\nb.jpg", "is bad: remove it")))
    assert (error.path, error.reason, str(error)) == ("a\nb.jpg", "is bad: remove it", "a\\nb.jpg is bad: remove it")


def test_paths_are_shown_on_one_line_of_text():
    assert shown("ü/\x1b[31m\udcff\u202e.jpg") == "ü/\\x1b[31m\\udcff\\u202e.jpg"


# ---- what is found


def touch(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")
    return path


def found_in(folder):
    found, skipped = find_pictures(folder)
    return [path.relative_to(folder).as_posix() for path in found], skipped


def test_pictures_are_sorted_as_a_person_would(tmp_path):
    names = ["1.jpg", "2.jpg", "10.jpg", "A.png", "b/img9.JPEG", "b/img10.jpg", "b2/1.gif", "B10/1.gif", "c.webp"]
    for name in reversed(names):
        touch(tmp_path / name)
    assert found_in(tmp_path) == (names, [])


def test_litter_and_hidden_files_are_passed_over_in_silence(tmp_path):
    for name in (".hidden.jpg", "._a.jpg", ".git/a.jpg", "__MACOSX/a.jpg", "Thumbs.db", "desktop.ini", "@eaDir/a.jpg"):
        touch(tmp_path / name)
    touch(tmp_path / "a.jpg")
    assert found_in(tmp_path) == (["a.jpg"], [])


def test_other_files_are_counted_in_one_entry(tmp_path):
    for name in ("a.jpg", "b.psd", "c/d.PSD", "notes.txt", "README"):
        touch(tmp_path / name)
    found, skipped = found_in(tmp_path)
    assert found == ["a.jpg"]
    assert [s.path for s in skipped] == [str(tmp_path)]
    assert "4 files" in skipped[0].reason
    assert "2 with .psd, 1 with .txt, 1 with no suffix" in skipped[0].reason
    assert find_pictures(tmp_path, strict=True)[0]  # nothing is wrong with them


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


def test_loops_of_links_end(tmp_path):
    pile = tmp_path / "pile"
    touch(tmp_path / "neighbour.jpg")
    touch(pile / "z" / "a.jpg")
    (pile / "a_link").symlink_to(pile / "z")  # sorted before it, but the picture is in z
    (pile / "z" / "self").symlink_to(pile / "z")
    (pile / "z" / "top").symlink_to(pile)
    (pile / "above").symlink_to(tmp_path)
    (pile / "x").symlink_to(pile / "y")
    (pile / "y").symlink_to(pile / "x")
    found, skipped = found_in(pile)
    assert (found, [os.path.basename(s.path) for s in skipped]) == (["z/a.jpg"], ["above"])


def test_links_to_nothing_are_named(tmp_path):
    (tmp_path / "a.jpg").symlink_to(tmp_path / "gone.jpg")
    (tmp_path / "b.jpg").symlink_to(tmp_path / "b.jpg")
    (tmp_path / "c.txt").symlink_to(tmp_path / "gone.txt")
    found, skipped = found_in(tmp_path)
    assert not found
    assert [os.path.basename(s.path) for s in skipped] == ["a.jpg", "b.jpg"]
    assert "link to a missing file" in skipped[0].reason
    with pytest.raises(BadPicture, match="a.jpg is a link to a missing file"):
        find_pictures(tmp_path, strict=True)


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
    assert found == ["a.jpg"]
    assert skipped[0].path == str(tmp_path / "closed")
    assert "Permission denied" in skipped[0].reason
    with pytest.raises(BadPicture, match="closed cannot be opened"):
        find_pictures(tmp_path, strict=True)


def test_folders_may_be_deep(tmp_path):
    deep = tmp_path.joinpath(*["d"] * 300)
    touch(deep / "a.jpg")
    assert len(find_pictures(tmp_path)[0]) == 1


@pytest.mark.parametrize(("name", "said"), [("gone", "does not exist"), ("a.jpg", "is a file")])
def test_pictures_are_sought_in_folders_only(tmp_path, name, said):
    touch(tmp_path / "a.jpg")
    with pytest.raises(NotADirectoryError, match=said):
        find_pictures(tmp_path / name)
