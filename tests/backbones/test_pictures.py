"""Pictures from files: what is read and how, what is refused and why, whatever is broken beside the pixels."""

import io
import os
import struct
import sys
import warnings
import zlib

import numpy as np
import pytest
from PIL import Image, TiffImagePlugin

from handful.backbones import embed_pictures, load_backbone, pictures
from handful.backbones.pictures import (
    FORMATS,
    HAS_AVIF,
    HEIF_MODULES,
    MAX_BYTES,
    PNG,
    BadPicture,
    find_pictures,
    open_picture,
    picture_size,
    thumbnail,
)

LOSSLESS = {"lossless": True}
RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)
pytestmark = pytest.mark.filterwarnings("ignore:.*:UserWarning:PIL")


def noise(height=24, width=36, seed=0):
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8))


def pixels(image):
    assert image.mode == "RGB"
    return np.asarray(image).astype(int)


def content(image, kind, **options):
    """The file of a picture, as bytes."""
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def reason_of(path, **options):
    with pytest.raises(BadPicture) as caught:
        open_picture(path, **options)
    assert caught.value.path == (os.fspath(path) if not isinstance(path, bytes) else "the picture")
    assert "\n" not in str(caught.value)
    assert str(caught.value).count(": ") == 1  # what is wrong: what to do
    return caught.value.reason


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_header(width, height):
    """A PNG of a few bytes that says it is as large as that."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return PNG + header + chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b"")


# ---- formats and colours


def test_formats_come_back(tmp_path):
    for kind, options in (
        ("PNG", {}),
        ("BMP", {}),
        ("TIFF", {}),
        ("TIFF", {"compression": "tiff_lzw"}),
        ("WEBP", LOSSLESS),
    ):
        (tmp_path / "a.jpg").write_bytes(content(noise(), kind, **options))  # a suffix may be wrong
        np.testing.assert_array_equal(pixels(open_picture(tmp_path / "a.jpg")), pixels(noise()))
    group4 = open_picture(content(noise().convert("1"), "TIFF", compression="group4"))
    np.testing.assert_array_equal(pixels(group4), pixels(noise().convert("1").convert("RGB")))
    image = open_picture(content(Image.new("RGB", (40, 30), (200, 100, 50)), "JPEG"))
    assert image.size == (40, 30)
    assert np.abs(pixels(image) - [200, 100, 50]).max() <= 4


def test_numbers_of_16_and_32_bits_are_scaled_not_clipped():
    values = np.arange(0, 65536, 64, dtype=np.uint16).reshape(32, 32)
    expected = np.stack([np.rint(values / 65535 * 255)] * 3, axis=-1)
    for kind in ("PNG", "TIFF"):
        np.testing.assert_array_equal(pixels(open_picture(content(Image.fromarray(values), kind))), expected)
    for values, expected in (
        (np.float32([[0, 0.5, 1.0]]), [0, 128, 255]),
        (np.float32([[0, np.nan, 255]]), [0, 0, 255]),
        (np.float32([[-100, 0, 1]]), [0, 252, 255]),
        (np.float32([[0, 1e6, 2e6]]), [0, 128, 255]),
        (np.int32([[0, 257, 65535]]), [0, 1, 255]),
    ):
        assert pixels(open_picture(content(Image.fromarray(values), "TIFF")))[0, :, 0].tolist() == expected
    tags = TiffImagePlugin.ImageFileDirectory_v2()
    tags[262] = 0  # white is zero
    data = content(Image.fromarray(np.full((8, 8), 65535, np.uint16)), "TIFF", tiffinfo=tags)
    if Image.open(io.BytesIO(data)).tag_v2[262] == 0:  # not every Pillow writes such a file
        assert (pixels(open_picture(data)) == 0).all()


def test_colours_of_other_modes_and_what_is_transparent_shows_white():
    image = Image.new("RGBA", (2, 1), (0, 0, 0, 0))
    image.putpixel((1, 0), (0, 0, 0, 255))
    palette = Image.new("P", (2, 1))
    palette.putpalette([*RED, *BLUE])
    palette.putpixel((1, 0), 1)
    for data, expected in (
        (content(Image.new("CMYK", (16, 16), (255, 0, 0, 0)), "JPEG"), [(0, 255, 255)] * 16),
        (content(Image.new("LAB", (2, 1), (255, 128, 128)), "TIFF"), [WHITE] * 2),
        (content(Image.new("1", (2, 1), 1), "PNG"), [WHITE] * 2),
        (content(image, "PNG"), [WHITE, (0, 0, 0)]),
        (content(image.convert("LA"), "TIFF"), [WHITE, (0, 0, 0)]),
        (content(image.quantize(4), "PNG"), [WHITE, (0, 0, 0)]),
        (content(palette, "GIF", transparency=0), [WHITE, BLUE]),
        (content(Image.new("RGB", (2, 1), RED), "PNG", transparency=RED), [WHITE, WHITE]),
        (content(Image.new("RGBA", (2, 1), (255, 0, 0, 128)), "PNG"), [(255, 127, 127)] * 2),  # half of it
    ):
        assert np.abs(pixels(open_picture(data))[0] - expected).max() <= 4


def test_of_an_animation_the_first_frame():
    frames = [Image.new("RGB", (8, 8), colour) for colour in (RED, GREEN, BLUE)]
    for kind, options in (("GIF", {}), ("WEBP", LOSSLESS), ("PNG", {}), ("TIFF", {})):
        data = content(frames[0], kind, save_all=True, append_images=frames[1:], **options)
        assert Image.open(io.BytesIO(data)).n_frames == 3
        assert (pixels(open_picture(data)) == RED).all()


def test_a_large_jpeg_may_come_smaller_but_not_too_small():
    smooth = noise(6, 8).resize((1600, 1200), Image.Resampling.BICUBIC)
    data = content(smooth, "JPEG", quality=95)
    assert open_picture(data).size == (1600, 1200)
    image = open_picture(data, at_least=300)
    assert image.size == (400, 300)
    assert np.abs(pixels(image) - pixels(smooth.reduce(4))).mean() < 1


# ---- HEIC and AVIF


def scene(width=96, height=64) -> Image.Image:
    """Red on the left, blue on the right, a white bar on top of both."""
    colours = np.zeros((height, width, 3), np.uint8)
    colours[:, : width // 2, 0] = colours[:, width // 2 :, 2] = 220
    colours[: height // 4] = 255
    return Image.fromarray(colours)


def phone_file(image: Image.Image, name: str, **options) -> bytes:
    if name.endswith(".avif"):
        return content(image, "AVIF", quality=95, **options)
    file = io.BytesIO()
    pytest.importorskip("pillow_heif").from_pillow(image).save(file, quality=95, **options)  # pi_heif reads only
    return file.getvalue()


@pytest.fixture(params=["a.heic", pytest.param("a.avif", marks=pytest.mark.skipif(not HAS_AVIF, reason="no AVIF"))])
def name(request):
    return request.param


def test_pictures_of_phones_are_found_opened_upright_and_embedded_like_others(tmp_path, name):
    for turn, transpose in ((6, Image.Transpose.ROTATE_270), (1, None)):
        exif = Image.Exif()
        exif[274] = turn
        data = phone_file(scene(), name, exif=exif.tobytes())
        (tmp_path / name).write_bytes(data)
        assert transpose is None or b"irot" in data  # the file itself says how to turn it, and EXIF says the same
        upright = scene() if transpose is None else scene().transpose(transpose)
        image = open_picture(tmp_path / name)
        assert image.size == picture_size(tmp_path / name) == upright.size
        assert np.abs(pixels(image) - pixels(upright)).mean() <= 8
    assert open_picture(phone_file(scene().convert("RGBA"), name)).mode == "RGB"
    scene().save(tmp_path / "a.png")
    table = embed_pictures(find_pictures(tmp_path)[0], load_backbone("pixels"), cache=False)
    assert np.abs(table.features[0] - table.features[1]).mean() < 0.03
    assert "HEIF" not in {*Image.OPEN, *FORMATS}  # nothing is registered with Pillow


def test_pictures_of_phones_have_the_same_limits(name, monkeypatch):
    whole = phone_file(scene(), name)
    with monkeypatch.context() as patch:
        patch.setattr(pictures, "MAX_PIXELS", 5000)
        assert "96 x 64 pixels" in reason_of(whole)
    start, *boxes = whole.split(b"ispe\0\0\0\0")  # where a file says its size
    size = b"ispe\0\0\0\0" + (30_000).to_bytes(4, "big") + (20_000).to_bytes(4, "big")
    for data in (
        start + b"".join(size + box[8:] for box in boxes),
        *(whole[: int(len(whole) * x)] for x in (0.05, 0.9)),
    ):
        with pytest.raises(BadPicture, match=r"pixels|damaged|is "):
            open_picture(data)


def test_without_the_extra_a_heic_picture_is_refused_with_the_install_command(monkeypatch):
    for module in HEIF_MODULES:
        monkeypatch.setitem(sys.modules, module, None)  # an import of it fails
    assert 'pip install "handful[heic]"' in reason_of(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(100))


# ---- orientation

# What EXIF says: which side of the scene the first row and the first column of the file are
SIDES = {
    1: ("top", "left"), 2: ("top", "right"), 3: ("bottom", "right"), 4: ("bottom", "left"),
    5: ("left", "top"), 6: ("right", "top"), 7: ("right", "bottom"), 8: ("left", "bottom"),
}  # fmt: skip


def test_pictures_come_upright(tmp_path):
    view, path = np.asarray(noise(3, 5).resize((80, 48), Image.Resampling.NEAREST)), tmp_path / "a"
    for orientation, (row, column) in SIDES.items():
        stored = view if row in ("top", "bottom") else view.transpose(1, 0, 2)
        stored = stored[::-1] if row in ("bottom", "right") else stored
        stored = stored[:, ::-1] if column in ("bottom", "right") else stored
        exif = Image.Exif()
        exif[0x0112] = orientation
        for kind, options, tolerance in (
            ("PNG", {}, 0), ("WEBP", LOSSLESS, 0), ("TIFF", {}, 0), ("JPEG", {"quality": 100, "subsampling": 0}, 8),
        ):  # fmt: skip
            path.write_bytes(content(Image.fromarray(np.ascontiguousarray(stored)), kind, exif=exif, **options))
            image = open_picture(path)
            assert image.size == picture_size(path) == (80, 48)
            assert np.abs(pixels(image) - view).max() <= tolerance
            assert image.getexif().get(0x0112, 1) == 1  # nobody turns it again


GARBAGE = np.random.default_rng(0).bytes(60_000)
SHORT, ASCII, RATIONAL = 3, 2, 5  # types of TIFF


def exif_of(kind, value, count=1, tail=b""):
    """EXIF with one entry, an orientation of that type."""
    entry = struct.pack(">HHHI", 1, 274, kind, count) + value.ljust(4, b"\0")
    return b"Exif\0\0MM\0*" + struct.pack(">I", 8) + entry + struct.pack(">I", 0) + tail


SIX = exif_of(SHORT, struct.pack(">H", 6))


def with_part(kind, part):
    """A picture of 24 x 8 with a chunk after the header of a PNG, or with EXIF in another format."""
    if kind != "PNG":
        return content(noise(8, 24), kind, exif=part)
    plain = content(noise(8, 24), "PNG")
    return plain[:33] + part + plain[33:]


def test_an_orientation_is_taken_from_any_number_and_from_nothing_else(tmp_path):
    for block, is_turned in (
        (SIX, True),
        (exif_of(RATIONAL, struct.pack(">I", 26), tail=struct.pack(">II", 6, 1)), True),
        (exif_of(SHORT, struct.pack(">HH", 6, 3), 2), True),  # the first of two
        (exif_of(ASCII, b"6", 2), False),
        (exif_of(SHORT, struct.pack(">H", 9)), False),
        (exif_of(RATIONAL, struct.pack(">I", 26), tail=struct.pack(">II", 1, 0)), False),  # infinite
        (SIX[:20], False),
        (b"Exif\0\0" + GARBAGE, False),
    ):
        for kind, part in (("PNG", chunk(b"eXIf", block[6:])), ("JPEG", block), ("WEBP", block)):
            (tmp_path / "a").write_bytes(with_part(kind, part))
            size = (8, 24) if is_turned else (24, 8)
            assert open_picture(tmp_path / "a").size == picture_size(tmp_path / "a") == size


def test_what_is_broken_beside_the_pixels_does_not_refuse_them():
    long_text = chunk(b"zTXt", b"k\0\0" + zlib.compress(b"a" * 20_000_000, 9))
    for part in (
        long_text,
        chunk(b"iCCP", GARBAGE),
        chunk(b"tEXt", b"k\0abc")[:-1] + b"?",  # another checksum
        chunk(b"eXIf", SIX[6:])[:-1] + b"?",
    ):
        np.testing.assert_array_equal(pixels(open_picture(with_part("PNG", part))), pixels(noise(8, 24)))
    assert open_picture(with_part("PNG", long_text + chunk(b"eXIf", SIX[6:]))).size == (8, 24)
    for kind in ("WEBP", "TIFF"):
        assert open_picture(content(noise(8, 24), kind, icc_profile=GARBAGE)).size == (24, 8)


# ---- what is refused


def test_what_is_no_picture_though_named_so():
    for data, words in (
        (b"", "empty"),
        (b"just a text\n", "is not a JPEG, PNG"),
        (b"\n <!DOCTYPE html><title>404</title>", "web page"),
        (b"<svg xmlns='...'/>", "drawing"),
        (b"\0\0\0\x18ftypmp42\0\0\0\0isommp42", "film"),
        (b"\xff\xd8\xff", "is not a JPEG, PNG"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "is not a JPEG, PNG"),  # Pillow would run Ghostscript
        (b"P6 2 2 255\n" + b"\0" * 12, "is not a JPEG, PNG"),  # Pillow reads these, but nobody means them
        *((png_header(*size), "damaged") for size in ((0, 5), (5, 0), (0, 0))),
    ):
        assert words in reason_of(data)


@pytest.mark.filterwarnings("ignore:Truncated", "ignore:Corrupt EXIF")
def test_a_file_cut_short_is_refused_wherever_it_was_cut():
    for kind in ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF"):
        whole = content(noise(48, 64), kind)
        for part in (0.1, 0.5, 0.98):
            assert "damaged" in reason_of(whole[: int(len(whole) * part)])
    assert "cut short" in reason_of(content(noise(300, 400), "JPEG", progressive=True)[:-500])


def test_a_picture_beyond_the_limit_is_refused_by_its_header():
    assert "far too many pixels" in reason_of(png_header(100_000, 100_000))
    with pytest.warns(Image.DecompressionBombWarning):
        assert "12000 x 10000 pixels" in reason_of(png_header(12_000, 10_000))  # its pixels would be "cut short"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "far too many pixels" in reason_of(png_header(12_000, 10_000))


def test_files_that_cannot_be_read(tmp_path):
    assert "cannot be read (No such file" in reason_of(tmp_path / "a.jpg")
    assert "name" in reason_of("a\0b.jpg")
    with (tmp_path / "a.bmp").open("wb") as file:
        file.truncate(MAX_BYTES + 2**20)
    assert "has 257 MB" in reason_of(tmp_path / "a.bmp")
    (tmp_path / "a.png").write_bytes(png_header(0, 1))
    with pytest.raises(BadPicture):
        picture_size(tmp_path / "a.png")
    os.mkfifo(tmp_path / "b.jpg")  # opening it would wait for ever
    for path in (tmp_path, tmp_path / "b.jpg", "/dev/zero"):
        assert "not a regular file" in reason_of(path)
    assert "not a regular file" in find_pictures(tmp_path)[1][0].reason


def test_a_thumbnail_is_a_small_upright_jpeg_that_tells_nothing(tmp_path):
    exif = Image.Exif()
    exif[0x0112], exif[0x010F] = 6, "a camera"
    Image.new("RGB", (1000, 500), (200, 30, 30)).save(tmp_path / "a.jpg", exif=exif, comment="at home")
    data = thumbnail(tmp_path / "a.jpg", size=100)
    assert b"camera" not in data
    assert b"home" not in data
    image = open_picture(data)
    assert image.size == (50, 100)
    assert np.abs(np.asarray(image).astype(int) - [200, 30, 30]).max() <= 4
    for size, small in (((10, 5), (10, 5)), ((5000, 1), (160, 1))):
        Image.new("RGB", size).save(tmp_path / "a.png")
        assert open_picture(thumbnail(tmp_path / "a.png")).size == small
