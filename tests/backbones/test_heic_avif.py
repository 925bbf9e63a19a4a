"""HEIC and AVIF: the pictures of phones and of the web, read within the same limits as all others."""

import io
import sys
from contextlib import suppress

import numpy as np
import pytest
from PIL import Image

from handful.backbones import BadPicture, embed_pictures, find_pictures, load_backbone, open_picture, picture_size
from handful.backbones.picture_formats import FORMATS, HAS_AVIF, HEIF_MODULES, brands_of

FILES = ["a.heic", "a.avif"]


def scene(width=96, height=64) -> Image.Image:
    """Red on the left, blue on the right, a white bar on top of both."""
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[:, : width // 2, 0] = pixels[:, width // 2 :, 2] = 220
    pixels[: height // 4] = 255
    return Image.fromarray(pixels)


def written(image: Image.Image, name: str, **options) -> bytes:
    file = io.BytesIO()
    if name.endswith(".avif"):
        if not HAS_AVIF:
            pytest.skip("needs a Pillow with AVIF")
        image.save(file, "AVIF", quality=95, **options)
    else:
        heif = pytest.importorskip("pillow_heif")  # pi_heif reads only
        heif.from_pillow(image).save(file, quality=95, **options)
    return file.getvalue()


def with_size(data: bytes, width: int, height: int) -> bytes:
    """The file with another size in each `ispe` box, which is what programs read before they decode."""
    parts = data.split(b"ispe\0\0\0\0")
    assert len(parts) > 1
    size = width.to_bytes(4, "big") + height.to_bytes(4, "big")
    return parts[0] + b"".join(b"ispe\0\0\0\0" + size + part[8:] for part in parts[1:])


@pytest.mark.parametrize("name", FILES)
def test_pixels_and_size_are_those_that_were_written(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(written(scene(), name))
    image = open_picture(path)
    assert (image.mode, image.size, picture_size(path)) == ("RGB", (96, 64), (96, 64))
    difference = np.abs(np.asarray(image, float) - np.asarray(scene(), float))
    assert np.median(difference) <= 4
    assert difference.mean() <= 8


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(("turn", "transpose"), [(3, Image.Transpose.ROTATE_180), (6, Image.Transpose.ROTATE_270)])
def test_a_turned_picture_is_set_upright_once(tmp_path, name, turn, transpose):
    exif = Image.Exif()
    exif[274] = turn
    stored, path = scene(), tmp_path / name
    path.write_bytes(written(stored, name, exif=exif.tobytes()))
    assert b"irot" in path.read_bytes()  # the file itself says how to turn it, and EXIF says the same
    upright = stored.transpose(transpose)
    assert picture_size(path) == upright.size
    difference = np.abs(np.asarray(open_picture(path), float) - np.asarray(upright, float))
    assert difference.mean() <= 8


@pytest.mark.parametrize("name", FILES)
def test_transparency_and_grey_become_rgb(name):
    for mode in ("RGBA", "L"):
        assert open_picture(written(scene().convert(mode), name)).mode == "RGB"


@pytest.mark.parametrize("name", FILES)
def test_they_are_found_and_embedded_like_others(tmp_path, name):
    (tmp_path / name).write_bytes(written(scene(), name))
    scene().save(tmp_path / "a.png")
    paths, skipped = find_pictures(tmp_path)
    table = embed_pictures(paths, load_backbone("pixels"), cache=False)
    assert sorted(path.name for path in paths) == sorted([name, "a.png"])
    assert not skipped
    assert not table.skipped
    assert np.abs(table.features[0] - table.features[1]).mean() < 0.03


@pytest.mark.parametrize("name", FILES)
def test_huge_pictures_are_refused_by_their_header(name):
    data = with_size(written(scene(), name), 30_000, 20_000)
    with pytest.raises(BadPicture, match=r"pixels|damaged"):
        open_picture(data)
    with pytest.raises(BadPicture, match="96 x 64 pixels"):
        open_picture(written(scene(), name), max_pixels=5000)


@pytest.mark.parametrize("name", FILES)
def test_a_header_that_names_too_few_pixels_does_not_pass_the_limit(name):
    data = with_size(written(scene(640, 480), name), 16, 16)
    with suppress(BadPicture):
        assert open_picture(data, max_pixels=10_000).size == (16, 16)


@pytest.mark.parametrize("name", FILES)
def test_a_file_cut_short_or_altered_is_refused_or_read_but_never_fails_otherwise(name):
    whole = written(scene(), name)
    rng = np.random.default_rng(0)
    cut = [whole[: int(len(whole) * part)] for part in (0.05, 0.3, 0.6, 0.9)]
    altered = []
    for _ in range(40):
        data = bytearray(whole)
        for at in rng.integers(8, len(data), 4):
            data[at] = rng.integers(256)
        altered.append(bytes(data))
    refused = 0
    for data in (*cut, *altered):
        try:
            open_picture(data)
        except BadPicture:
            refused += 1
    assert refused >= len(cut)


def test_nothing_is_registered_with_pillow(tmp_path):
    data = written(scene(), "a.heic")
    open_picture(data)
    assert "HEIF" not in Image.OPEN
    assert "HEIF" not in FORMATS


def test_without_the_extra_a_heic_picture_is_skipped_with_the_install_command(tmp_path, monkeypatch):
    for module in HEIF_MODULES:
        monkeypatch.setitem(sys.modules, module, None)  # an import of it fails
    (tmp_path / "a.heic").write_bytes(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(100))
    scene().save(tmp_path / "b.png")
    paths, _ = find_pictures(tmp_path)
    table = embed_pictures(paths, load_backbone("pixels"), cache=False)
    assert [path.rsplit("/")[-1] for path in table.names] == ["b.png"]
    assert 'pip install "handful[heic]"' in table.skipped[0].reason


def test_brands_are_read_within_the_first_box():
    assert brands_of(b"\0\0\0\x18ftypmif1\0\0\0\0heicavif" + b"heix") == {b"mif1", b"heic", b"avif"}
    assert brands_of(b"\xff\xff\xff\xffftypheic") == {b"heic"}
    assert brands_of(b"RIFF....WEBP") == set()
