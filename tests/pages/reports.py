"""A report of forty pictures, and how the tests open and use such pages in a headless Chromium."""

import re

import numpy as np

from handful.report.contents import Item, Report
from handful.report.thumbnails import png

NAN = float("nan")
CLASSES = ["cat", "dog"]
NASTY = [
    "<script>pwned = 1</script>.jpg",
    "</script><script>pwned = 2</script>.jpg",
    "<!--<script>.jpg",
    "<img src=x onerror='pwned = 3'>.jpg",
    "\"quoted\" 'name' & $title ${css}.jpg",
    "two\nlines\r\n.jpg",
    "\u202egpj.exe",
    "\u05d0\u05d1\u05d2/\u202b.jpg",
    "=1+1,2.jpg",
    "]]>\u2028\u2029\x00.jpg",
    "",
]
PICTURE = png(np.arange(64).reshape(8, 8))


def item(n, of=40, **changes):
    """The n-th of `of` pictures: score n / of, cat and dog in turn, on a rising line of the map."""
    score = n / of
    closest = CLASSES[n % 2]
    values = {
        "name": f"{n:04}.jpg", "thumbnail": PICTURE, "label": "unknown" if score > 0.5 else closest, "closest": closest,
        "confidence": 0.75, "score": score, "xy": (n, n), "nearest": ["cat/one.jpg", "elsewhere.jpg"],
    }  # fmt: skip
    return Item(**values | changes)


def example(name, closest, xy):
    return Item(name, PICTURE, closest, closest, 1.0, 0.0, xy, [], example=True)


EXAMPLES = [example("cat/one.jpg", "cat", (0.0, 39.0)), example("dog/one.jpg", "dog", (39.0, 0.0))]
PILE = [item(n) for n in range(40)]  # 0..20 are known at 0.5, 21..39 unknown


def a_report(items=(*PILE, *EXAMPLES), **changes):
    values = {
        "title": "Pets", "sentences": ["Forty pictures."], "items": list(items), "classes": CLASSES, "threshold": 0.5,
        "score_is_probability": True, "skipped": [("notes.txt", "is not a picture")], "made_by": {"method": "eol"},
    }  # fmt: skip
    return Report(**values | changes)


def listeners(problems, own):
    """Notes all that a page logs, throws, shows in a dialog or asks of an address that `own` does not accept."""
    return {
        "console": lambda message: problems.append(message.text),
        "pageerror": lambda error: problems.append(str(error)),
        "dialog": lambda dialog: (problems.append(dialog.message), dialog.dismiss()),
        "request": lambda request: own(request.url) or problems.append(request.url),
    }


def reload(page):
    page.reload()
    page.wait_for_selector("html[data-ready]")


def settled(page):
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def look_at(page, selector):
    page.locator(selector).first.evaluate("e => e.scrollIntoView({behavior: 'instant'})")
    settled(page)


def words(page, selector):
    return " ".join(page.locator(selector).first.inner_text().split())


def counts(page):
    settled(page)
    known, unknown = re.fullmatch(r"([\d,]+) labelled, ([\d,]+) unknown", page.inner_text("#counts")).groups()
    return int(known.replace(",", "")), int(unknown.replace(",", ""))


def names(page, section):
    return page.locator(f"#g{section} .cards:not(.probe) .name").all_text_contents()


def drag(page, share):
    """Drag the slider's thumb, by mouse, to that share of its way."""
    box = page.locator("#threshold").bounding_box()
    thumb = 22

    def at(share):
        return box["x"] + thumb / 2 + share * (box["width"] - thumb), box["y"] + box["height"] / 2

    page.mouse.move(*at(page.locator("#threshold").evaluate("e => e.value / e.max")))
    page.mouse.down()
    page.mouse.move(*at(share), steps=4)
    page.mouse.up()
    settled(page)


def is_within(page):
    return page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def contrast(page, selector, ground=None):
    """The contrast of the letters of an element with its own ground, or with that of another element."""

    def luminance(selector, name):
        colour = page.locator(selector).first.evaluate(f"e => getComputedStyle(e).{name}")
        r, g, b = (float(v) / 255 for v in re.findall(r"[\d.]+", colour)[:3])
        linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in (r, g, b)]
        return float(np.dot([0.2126, 0.7152, 0.0722], linear))

    dark, light = sorted((luminance(selector, "color"), luminance(ground or selector, "backgroundColor")))
    return (light + 0.05) / (dark + 0.05)
