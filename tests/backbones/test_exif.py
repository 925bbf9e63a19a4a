"""A picture whose pixels can be read is read, whatever is broken beside them: EXIF, profiles, comments, sizes."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from handful.backbones.picture_metadata import PNG
from handful.backbones.pictures import BadPicture, open_picture, picture_size

PIXELS = np.zeros((8, 24, 3), np.uint8)
PIXELS[:, :12, 0] = 255  # the left half is red, so that a turn shows
GARBAGE = np.random.default_rng(0).bytes(60_000)
SHORT, ASCII, RATIONAL, FLOAT, UNDEFINED, BYTE, LONG, SIGNED = 3, 2, 5, 11, 7, 1, 4, 8  # types of TIFF
ORIENTATION, SUB_IFD, RESOLUTION = 274, 0x8769, 282


def entry(kind, count, value, tag=ORIENTATION):
    return struct.pack(">HHI", tag, kind, count) + value.ljust(4, b"\0")


def exif(*entries, following=0, tail=b""):
    """The offset of what follows the entries is 14 + 12 for each of them."""
    directory = struct.pack(">H", len(entries)) + b"".join(entries) + struct.pack(">I", following)
    return b"Exif\0\0MM\0*" + struct.pack(">I", 8) + directory + tail


def short(*values):
    return exif(entry(SHORT, len(values), struct.pack(f">{len(values)}H", *values)))


TURNED = {
    "a short": short(6),
    "a long": exif(entry(LONG, 1, struct.pack(">I", 6))),
    "a rational": exif(entry(RATIONAL, 1, struct.pack(">I", 26)), tail=struct.pack(">II", 6, 1)),
    "a float": exif(entry(FLOAT, 1, struct.pack(">f", 6))),
    "the first of two": short(6, 3),
    "in a directory that leads to itself": exif(
        entry(SHORT, 1, struct.pack(">H", 6)), entry(LONG, 1, struct.pack(">I", 8), SUB_IFD), following=8
    ),
}
AS_IT_IS = {
    "text": exif(entry(ASCII, 2, b"6")),
    "a word": exif(entry(ASCII, 4, b"top")),
    "a byte": exif(entry(BYTE, 1, b"\6")),
    "no type": exif(entry(UNDEFINED, 4, b"\0\6ab")),
    "0": short(0),
    "1": short(1),
    "9": short(9),
    "65535": short(65535),
    "minus one": exif(entry(SIGNED, 1, struct.pack(">h", -1))),
    "a half": exif(entry(RATIONAL, 1, struct.pack(">I", 26)), tail=struct.pack(">II", 13, 2)),
    "infinite": exif(entry(RATIONAL, 1, struct.pack(">I", 26)), tail=struct.pack(">II", 1, 0)),
    "no number": exif(entry(FLOAT, 1, struct.pack(">f", float("nan")))),
    "cut off": short(6)[:20],
    "cut off in its header": short(6)[:9],
    "nothing": b"Exif\0\0",
    "4 billion numbers": exif(entry(SHORT, 0xFFFFFFFF, struct.pack(">I", 8))),
    "outside the file": exif(entry(RATIONAL, 1, struct.pack(">I", 0xFFFFFFF0))),
    "fewer entries than it says": b"Exif\0\0MM\0*\0\0\0\x08\x13\x88",
    "garbage": b"Exif\0\0" + GARBAGE,
    "garbage after a header": b"Exif\0\0MM\0*\0\0\0\x08" + GARBAGE,
    "a resolution without a unit": exif(entry(ASCII, 4, b"abc", RESOLUTION), entry(ASCII, 2, b"3", 296)),
}


def saved(kind, **options):
    file = io.BytesIO()
    Image.fromarray(PIXELS).save(file, kind, **({"quality": 100} if kind != "PNG" else {}), **options)
    return file.getvalue()


def png(*chunks, at=33):
    """With chunks after the header, or at another place."""
    plain = saved("PNG")
    at = at if at > 0 else len(plain) + at
    return plain[:at] + b"".join(map(chunk, chunks)) + plain[at:]


def chunk(kind_and_data):
    kind, data = kind_and_data
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def jpeg(*segments):
    plain = saved("JPEG")
    parts = (bytes([0xFF, marker]) + struct.pack(">H", len(data) + 2) + data for marker, data in segments)
    return plain[:2] + b"".join(parts) + plain[2:]


def with_exif(kind, block):
    if kind == "PNG":
        return png((b"eXIf", block[6:]))
    return jpeg((0xE1, block)) if kind == "JPEG" else saved(kind, exif=block)


def check(data, tmp_path, size=(24, 8)):
    """Both ways of reading agree on the size, and red is where it belongs."""
    image = open_picture(data)
    assert image.size == size
    (tmp_path / "picture").write_bytes(data)
    assert picture_size(tmp_path / "picture") == size
    red = np.asarray(image)[..., 0] > 128
    if size == (24, 8):
        assert red[:, :10].all()
        assert not red[:, 14:].any()
    else:  # turned to the right: what was left is above
        assert red[:10].all()
        assert not red[14:].any()


@pytest.mark.filterwarnings("ignore:.*:UserWarning:PIL")
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("name", AS_IT_IS)
def test_an_orientation_that_is_none_leaves_the_picture_as_it_is(kind, name, tmp_path):
    check(with_exif(kind, AS_IT_IS[name]), tmp_path)


@pytest.mark.filterwarnings("ignore:.*:UserWarning:PIL")
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("name", TURNED)
def test_an_orientation_is_taken_from_any_number(kind, name, tmp_path):
    check(with_exif(kind, TURNED[name]), tmp_path, (8, 24))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["cut off", "4 billion numbers", "outside the file", "garbage after a header"])
def test_broken_exif_does_not_refuse_a_picture_where_warnings_are_errors(name, tmp_path):
    check(with_exif("JPEG", AS_IT_IS[name]), tmp_path)


TIFF = {
    "text": struct.pack("<HI", ASCII, 2) + b"6\0\0\0",
    "a word": struct.pack("<HI", ASCII, 4) + b"top\0",
    "a byte": struct.pack("<HI", BYTE, 1) + b"\6\0\0\0",
    "no type": struct.pack("<HI", UNDEFINED, 4) + b"\0\6ab",
    "0": struct.pack("<HIHH", SHORT, 1, 0, 0),
    "9": struct.pack("<HIHH", SHORT, 1, 9, 0),
    "65535": struct.pack("<HIHH", SHORT, 1, 65535, 0),
    "no number": struct.pack("<HIf", FLOAT, 1, float("nan")),
    "4 billion numbers": struct.pack("<HII", SHORT, 0xFFFFFFFF, 8),
    "a type that is none": struct.pack("<HII", 99, 1, 6),
}


@pytest.mark.filterwarnings("ignore:.*:UserWarning:PIL")
@pytest.mark.parametrize("name", TIFF)
def test_an_orientation_of_a_tiff_that_is_none_leaves_it_as_it_is(name, tmp_path):
    data = bytearray(saved("TIFF", tiffinfo={ORIENTATION: 1}))
    first = int.from_bytes(data[4:8], "little")
    count = int.from_bytes(data[first : first + 2], "little")
    places = [first + 2 + 12 * i for i in range(count)]
    place = next(p for p in places if int.from_bytes(data[p : p + 2], "little") == ORIENTATION)
    data[place + 2 : place + 12] = TIFF[name]
    check(bytes(data), tmp_path)


BOMB = zlib.compress(b"a" * 20_000_000, 9)
XMP = b"http://ns.adobe.com/xap/1.0/\0"
BROKEN = {
    "text that unpacks to 20 MB": png((b"zTXt", b"k\0\0" + BOMB)),
    "international text that does": png((b"iTXt", b"k\0\1\0\0\0" + BOMB)),
    "a profile that does": png((b"iCCP", b"k\0\0" + BOMB)),
    "such text after the pixels": png((b"zTXt", b"k\0\0" + BOMB), at=-12),
    "70 MB of text": png(*[(b"tEXt", b"k%d\0" % i + b"a" * 1_000_000) for i in range(70)]),
    "a profile of garbage": png((b"iCCP", GARBAGE)),
    "text that is packed in an unknown way": png((b"zTXt", b"k\0\7" + GARBAGE)),
    "text with a wrong checksum": png((b"tEXt", b"k\0abc")).replace(b"k\0abc", b"k\0abd"),
    "a resolution that is cut off": png((b"pHYs", b"\0")),
    "a gamma that is cut off": png((b"gAMA", b"")),
    "primaries that are cut off": png((b"cHRM", b"abc")),
    "an animation that is cut off": png((b"acTL", b"ab")),
    "EXIF with a wrong checksum": png((b"eXIf", short(6)[6:])).replace(struct.pack(">HH", 6, 0), b"\0\5\0\0"),
    "a profile of garbage in a JPEG": jpeg((0xE2, b"ICC_PROFILE\0\1\1" + GARBAGE)),
    "a profile that is cut off": jpeg((0xE2, b"ICC_PROFILE\0")),
    "a JFIF header that is cut off": jpeg((0xE0, b"JFIF")),
    "colours of Adobe that are cut off": jpeg((0xEE, b"Adobe")),
    "Photoshop's garbage": jpeg((0xED, b"Photoshop 3.0\0" + GARBAGE)),
    "other pictures of garbage": jpeg((0xE2, b"MPF\0" + GARBAGE)),
    "an XML bomb": jpeg((0xE1, XMP + b'<!DOCTYPE a [<!ENTITY b "c">]>tiff:Orientation="9999"')),
    "a comment of garbage": jpeg((0xFE, GARBAGE)),
    "garbage in a WebP": saved("WEBP", icc_profile=GARBAGE, xmp=GARBAGE),
    "garbage in a TIFF": saved("TIFF", icc_profile=GARBAGE),
}


@pytest.mark.filterwarnings("ignore:.*:UserWarning:PIL")
@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_beside_the_pixels_does_not_refuse_them(name, tmp_path):
    check(BROKEN[name], tmp_path)


def test_the_orientation_outlives_what_is_broken_beside_it(tmp_path):
    check(jpeg((0xE0, b"JFIF"), (0xE1, short(6))), tmp_path, (8, 24))
    check(png((b"zTXt", b"k\0\0" + BOMB), (b"eXIf", short(6)[6:])), tmp_path, (8, 24))


def test_transparency_outlives_what_is_broken_beside_it():
    file = io.BytesIO()
    Image.new("P", (4, 4), 0).save(file, "PNG", transparency=0)
    plain = file.getvalue()
    broken = plain[:33] + chunk((b"pHYs", b"\0")) + plain[33:]
    assert open_picture(broken).getpixel((0, 0)) == open_picture(plain).getpixel((0, 0)) == (255, 255, 255)


def test_limits_hold_without_metadata_too():
    data = jpeg((0xE0, b"JFIF"))
    with pytest.raises(BadPicture):
        open_picture(data, max_pixels=100)
    header = struct.pack(">II5B", 30_000, 30_000, 8, 2, 0, 0, 0)
    huge = PNG + chunk((b"IHDR", header)) + chunk((b"pHYs", b"\0")) + chunk((b"IDAT", b""))
    with pytest.raises(BadPicture):
        open_picture(huge)


@pytest.mark.parametrize("data", [saved("JPEG")[:-400], saved("PNG")[:60], b"\xff\xd8\xff\xe1\0\0", PNG])
def test_broken_pixels_are_still_refused(data):
    with pytest.raises(BadPicture):
        open_picture(data)
