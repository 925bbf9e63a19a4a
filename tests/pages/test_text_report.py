"""The report of a pile of texts, used in a headless Chromium: cards, marked words, search, the whole text, groups."""

import re

import numpy as np
import pytest
from reports import is_within, look_at, settled, words

from handful.features import FeatureTable
from handful.project.labelling import label_items
from handful.project.outputs import report_run, write_report
from handful.report.contents import Item, Report

TOPICS = {
    "money": [
        "what is the exchange rate in {}",
        "the exchange rate for dollars, please",
        "{} exchange rate in dollars",
    ],
    "light": ["please switch the lights off in {}", "lights in the {} on", "dim the lights for {} a little"],
    "song": ["skip this, play the next song by {}", "next song, please", "is the next song of {} a good one"],
    "taxi": ["call me a taxi to {}", "a taxi for two to the {} please", "how much is the taxi in {}"],
}
FILLERS = [f"{a}{b}" for a in ("ken", "bru", "mal", "tor", "vex") for b in ("ya", "nei", "awi", "ino")]
HUGE = "the exchange rate " + "lorem ipsum " * 90_000 + "the end of it"  # more than 1 MB
NASTY = {
    "script": "<script>pwned = 1</script> exchange rate",
    "end": "</script><script>pwned = 2</script><!--<script>",
    "image": "<img src=x onerror='pwned = 3'> exchange rate <b>bold</b> &amp; <mark>marked</mark>",
    "formula": '=HYPERLINK("https://example.org"; "exchange rate")',
    "template": "$title ${css} ${alert(1)} {{7*7}}",
    "nul": "exchange\0rate \x01\x1b[31m\u2028\u2029 in dollars",
    "hebrew": "מה שער הדולר היום exchange rate",
    "override": "\u202eexchange rate\u202c abc",
    "emoji": "👩‍👩‍👧‍👦🏳️‍🌈 exchange rate 🙂" * 40,
    "long word": "x" * 3000,
    "lines": "first line\nsecond line" + "\n" * 400 + "last line",
    "zalgo": "e" + "\u0301" * 900,
    "surrogate": "exchange \udce9 rate",
    "huge": HUGE,
    "empty": "",
    "blank": " \t\n",
}


def features(topic, count, seed):
    centre = 2 * np.eye(8)[list(TOPICS).index(topic)]
    return np.random.default_rng(seed).normal(scale=0.25, size=(count, 8)) + centre


def table(topics, count, seed, **more):
    texts = [TOPICS[topic][k % 3].format(FILLERS[(seed + 7 * k) % 20]) for topic in topics for k in range(count)]
    rows = np.concatenate([features(topic, count, seed + n) for n, topic in enumerate(topics)])
    return FeatureTable(rows.astype(np.float32), texts=texts, **more)


@pytest.fixture(scope="module")
def labelled():
    """Two classes and two groups of unknowns; the texts of NASTY are among those of money."""
    examples = table(["money", "light"], 4, 50, labels=["money"] * 4 + ["light"] * 4)
    pile = table(list(TOPICS), 20, 1)
    nasty = FeatureTable(features("money", len(NASTY), 9).astype(np.float32), texts=[*NASTY.values()])
    both = np.concatenate([pile.features, nasty.features])
    names = [f"ticket {n}" for n in range(80)] + [*NASTY]
    return label_items(examples, FeatureTable(both, paths=names, texts=[*pile.texts, *nasty.texts]))


@pytest.fixture(scope="module")
def report_file(labelled, tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    write_report(labelled, folder / "report.html", "Tickets", lambda *step: None, report_run("a" * 32, folder))
    return folder / "report.html"


def search(page, text):
    page.fill("#filter", text)
    settled(page)


def card_of(page, name):
    """The card of an item, found by its name: every card has it."""
    search(page, name)
    look_at(page, "main section:not([hidden]) .cards")
    return page.locator(".cards:not(.probe) .card").filter(has=page.locator(f'.name[title="{name}"]'))


def test_cards_show_their_texts_and_the_words_that_speak_for_their_class(open_report, report_file):
    page = open_report(report_file)
    look_at(page, "#g0")
    assert re.match(r"light 2\d texts, 4 examples ", words(page, "#h0"))
    assert "lights" in page.locator("#g0 .card .text").first.inner_text()
    assert "picture" not in page.inner_text("body").lower()
    assert "a text is set aside as unknown" in page.inner_text("#scale")
    assert page.locator("#g0 .card img, #g0 .none").count() == 0
    assert page.locator("#edge .known .open").count() == 3
    assert page.locator("#edge .unknown .open .text").count() == 3
    look_at(page, "#g1")
    card = page.locator("#g1 .card").filter(has_text="the exchange rate for dollars, please").first
    assert card.locator("mark").all_inner_texts() == ["exchange rate", "dollars"]
    assert "exchange rate" in words(page, "#g1 .words")


def test_examples_groups_and_points_of_the_map_are_texts_too(open_report, report_file, labelled):
    page = open_report(report_file)
    look_at(page, "#g0")
    page.locator("#g0 .card .open").first.click()
    nearest = page.locator("#detail .stage li").all_inner_texts()
    assert len(nearest) == 3
    assert all(re.match(r"light\s.*\blights\b", text, re.S) for text in nearest)
    page.keyboard.press("Escape")
    look_at(page, "#map")
    page.locator("#points").focus()
    page.keyboard.press("ArrowRight")
    text_of = {
        name: text
        for items in (labelled.pile, labelled.examples)
        for name, text in zip(items.names, items.texts, strict=True)
    }
    text = page.locator("#tip .text").evaluate("e => e.textContent")
    assert text
    assert text_of[page.inner_text("#tip .name")].startswith(text)
    look_at(page, "#k0")
    titles = [words(page, f"#k{k} bdi") for k in range(len(labelled.groups))]
    assert titles == [group.name for group in labelled.groups]  # which are words
    look_at(page, "#g2 .strip")
    page.wait_for_selector("#g2 .strip .open")
    strip = page.locator("#g2 .strip .open").first
    assert set(strip.locator("mark").all_inner_texts()) & set(labelled.groups[0].words)


def test_the_search_finds_signs_and_words_wherever_they_are_and_marks_them(open_report, report_file):
    page = open_report(report_file)
    assert page.get_by_role("searchbox", name="Find in texts").count() == 1
    search(page, "NEXT Song")
    assert page.inner_text("#found") == "20 texts found"
    look_at(page, "#g2 .cards")
    hits = page.locator("#g2 .card").first.locator("mark.hit")
    assert hits.all_inner_texts() == ["next song"]
    search(page, "ticket 7")  # by name, as before: 7 and 70 to 79
    assert page.inner_text("#found") == "11 texts found"
    search(page, "in no text at all")
    assert page.inner_text("#nothing") == "No text has this in it or in its name."
    search(page, "last line")
    look_at(page, "main section:not([hidden]) .cards")
    card = page.locator(".cards:not(.probe) .card")
    assert card.count() == 1
    assert card.locator(".text").inner_text().startswith("…")
    assert card.locator("mark.hit").inner_text() == "last line"
    for text in ("(", "[a-", "\\", ".*", "$", "🙂", "<script>", "a|b", "{1}", "-", "/"):
        search(page, text)
        expected = sum(text in f"{name}\n{own}" for name, own in NASTY.items()) + (text == "\\")  # of the surrogate
        assert page.inner_text("#found") == f"{expected} text{'' if expected == 1 else 's'} found"


def test_the_large_view_shows_the_text_with_its_lines_and_says_where_it_is_cut(open_report, report_file):
    assert report_file.stat().st_size < 1_000_000
    page = open_report(report_file)
    card_of(page, "lines").locator(".open").click()
    body = page.locator("#detail .body")
    assert body.evaluate("e => e.textContent") == NASTY["lines"]
    assert body.evaluate("e => getComputedStyle(e).whiteSpace") == "pre-wrap"
    assert page.locator("#detail .whole").evaluate("e => e.scrollHeight > e.clientHeight")
    page.keyboard.press("Escape")  # and a text of a megabyte is cut
    card = card_of(page, "huge")
    assert len(card.locator(".text").evaluate("e => e.textContent")) <= 601
    card.locator(".open").click()
    assert page.inner_text("#detail .cut") == f"The page holds the first 20,000 of its {len(HUGE):,} characters."
    assert len(page.locator("#detail .body").evaluate("e => e.textContent")) == 20_000
    assert is_within(page)


def test_every_text_is_only_text_and_runs_in_its_own_direction(open_report, report_file):
    page = open_report(report_file, width=390, scheme="dark")
    for name, text in NASTY.items():
        if name in ("huge", "surrogate"):
            continue
        card = card_of(page, name)
        shown = text if text.strip() else "(an empty text)"
        card.locator(".open").click()
        assert page.locator("#detail .body").evaluate("e => e.textContent") == shown, name
        assert page.locator("#detail .body > :not(mark)").count() == (not text.strip()), name
        assert is_within(page)
        page.keyboard.press("Escape")
    assert page.evaluate("document.querySelectorAll('script').length") == 1
    assert page.locator(".card b b, .card .text img, .card .text script").count() == 0
    for name, direction in (("hebrew", "rtl"), ("script", "ltr")):
        assert card_of(page, name).locator(".text").evaluate("e => getComputedStyle(e).direction") == direction


def test_marked_words_in_every_script_are_the_ones_that_python_found(open_report):
    """The page splits words as `telling_words` does: Hindi marks, Chinese pairs, capitals, apostrophes, sharp s."""
    cases = [
        ("विनिमय दर क्या है", ["दर"], ["दर"]),
        ("今天汇率是多少", ["汇率"], ["汇率"]),
        ("What\u2019s the EXCHANGE, Rate?", ["what's", "exchange rate"], ["What\u2019s", "EXCHANGE, Rate"]),
        ("Die Straße und STRASSE", ["strasse"], ["Straße", "STRASSE"]),
        ("שער הדולר היום", ["שער הדולר"], ["שער הדולר"]),
        ("go🙂home ❤️ rates", ["home", "rate"], ["home"]),
    ]
    for text, own, expected in cases:
        report = Report("T", [], [Item("a", None, "c", "c", 0.9, 0.1, text=text)], ["c"], 0.5, True, words={"c": own})
        page = open_report(report)
        look_at(page, "#g0")
        assert page.locator("#g0 .card mark").all_text_contents() == expected
