"""How many labels are right, at the top of the report: as expected, then as measured by a check."""

import pytest
from reports import NASTY, a_report, contrast, is_within, reload, words

from handful.core.answers import ExpectedLabels
from handful.report.contents import Expected, Run
from handful.report.html_page import write, write_measured

EXPECTED = Expected(
    "Only about 12 of 21 labels should be right.", True, {"cat": ExpectedLabels(11, 10.0), "dog": ExpectedLabels(10, 2)}
)
RUN = Run("r1", "handful check /tmp/out")
MEASURED = {
    "answers": 30, "items": 40, "made": "2026-11-18T10:00:00",
    "precision": {"value": 0.9, "low": 0.8, "high": 0.95}, "share": {"value": 0.5, "low": 0.4, "high": 0.6},
    "missed": {"value": 0.1, "low": 0.0, "high": 0.2},
    "by_class": {"cat": {"value": 0.5, "low": 0.25, "high": 0.75}, "dog": {"value": 1.0, "low": 0.8, "high": 1.0}},
    "sentences": ["Checked 30 of 40: 90 % of the labels are right (between 80 and 95 %).", "More words."],
}  # fmt: skip


def test_what_is_expected_stands_at_the_top_and_doubtful_classes_are_marked_by_a_word(open_report):
    for scheme in ("light", "dark"):
        page = open_report(a_report(expected=EXPECTED, run=RUN), scheme=scheme)
        assert words(page, "#trust") == (
            "Expected Only about 12 of 21 labels should be right. doubtful "
            "Not checked yet. To measure it: handful check /tmp/out"
        )
        assert words(page, "#h0") == "cat 11 pictures, 1 example 91 % should be right"
        assert words(page, "#h1") == "dog 10 pictures, 1 example 20 % should be right doubtful"
        assert words(page, "#links") == "cat 11 dog doubtful 10 unknown 19"
        assert contrast(page, "#h1 .doubt") >= 4.5
    page.locator("#threshold").focus()
    page.keyboard.press("End")
    page.wait_for_selector("#reset:visible")
    assert "should be right" not in words(page, "#h0")  # at another threshold


def test_after_a_check_the_page_says_what_was_measured_instead(open_report, tmp_path):
    page = open_report(a_report(expected=EXPECTED, run=RUN), width=390)
    write_measured(tmp_path / "report.html", MEASURED | {"answers": 0})
    reload(page)
    assert words(page, "#trust").startswith("Expected Only about 12 of 21 labels")  # nobody answered
    write_measured(tmp_path / "report.html", MEASURED)
    reload(page)
    assert words(page, "#trust") == (
        "Measured Checked 30 of 40: 90 % of the labels are right (between 80 and 95 %). "
        "Measured on 2026-11-18. More words."
    )
    assert "doubtful" not in page.locator("#trust").get_attribute("class")
    assert words(page, "#h0") == "cat 11 pictures, 1 example measured: 50 % are right (between 25 and 75 %) doubtful"
    assert words(page, "#h1") == "dog 10 pictures, 1 example measured: 100 % are right (at least 80 %)"
    assert words(page, ".tables table") == (
        "How many labels are right, as measured cat doubtful 50 % are right (between 25 and 75 %) "
        "dog 100 % are right (at least 80 %)"
    )
    assert is_within(page)
    write_measured(tmp_path / "report.html", MEASURED | {"sentences": NASTY})
    reload(page)
    assert NASTY[0] in page.text_content("#trust")


def test_a_second_check_replaces_the_first_and_leaves_the_rest_of_the_page(tmp_path):
    fake = '<script type="application/json" id="measured">null</script>'  # a name that looks like the block
    path = write(tmp_path / "report.html", a_report(expected=EXPECTED, title=fake, made_by={fake: fake}))
    before = path.read_text("utf-8")
    write_measured(path, MEASURED)
    write_measured(path, MEASURED | {"sentences": ["Second."]})
    after = path.read_text("utf-8")
    assert after.count('<script type="application/json" id="measured">') == 1
    assert "Second." in after
    assert "More words." not in after
    start, end = after.index('id="measured">'), after.index("</script>", after.index('id="measured">'))
    assert after[:start] + 'id="measured">null' + after[end:] == before


def test_what_is_no_report_is_refused(tmp_path):
    path, block = tmp_path / "report.html", b'<script type="application/json" id="measured">null</script>'
    for content in (b"", b"<html></html>", block, b"\xff\x00" * 1000):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="is not a report that this version of handful wrote"):
            write_measured(path, MEASURED)
        assert path.read_bytes() == content
