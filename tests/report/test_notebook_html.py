"""A result in a notebook: what the html shows is what the result says, and it can do nothing but be looked at."""

import re
import time

import numpy as np
import pytest
from PIL import Image

import handful
from handful.features import Protocol, digits, draw
from handful.report.view import View
from handful.solving.group_list import Groups
from handful.solving.groups import Group

HOSTILE = ["<script>alert(1)</script>", '"><img src=x onerror=alert(2)>', "{title}", "日本 & co"]
ACTIVE = re.compile(r"<script|<style|<link|<iframe|https?://|url\(|<[^>]*\son\w+\s*=|javascript:", re.I)


def solved(names=None, **options):
    task = draw(*digits(), Protocol(ways=4, queries=20, outlier_queries=12), seed=1, tasks=[0]).task[0]
    names = np.array(["four", "one", "six", "two"] if names is None else names)
    return handful.solve(task.support[0], names[task.labels[0]], task.query[0], **options)


@pytest.fixture(scope="module")
def result():
    return solved()


@pytest.fixture
def look(browser, tmp_path):
    """Open html as a saved page, or bare as a notebook has it. Whatever it holds: nothing runs, no request leaves."""
    contexts, problems = [], []

    def open_html(html, bare=False, scheme="light"):
        context = browser.new_context(color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: problems.append(message.text))
        page.on("dialog", lambda dialog: (problems.append(dialog.message), dialog.dismiss()))
        path = tmp_path / "view.html"
        path.write_text(html, "utf-8") if bare else View(html, "A pile").save(path)
        own = path.as_uri()
        page.on("request", lambda request: request.url.startswith((own, "data:")) or problems.append(request.url))
        page.goto(own)
        return page

    yield open_html
    for context in contexts:
        context.close()
    assert problems == []


def bars(page):
    """The rows of the chart of labels: name, count, percentage."""
    cells = page.evaluate(
        """() => { const heading = [...document.querySelectorAll('div')].filter(d => d.textContent == 'Labels').pop();
        return [...heading.nextElementSibling.children].map(cell => cell.textContent) }"""
    )
    return [(cells[i], cells[i + 2], cells[i + 3]) for i in range(0, len(cells), 4)]


def test_the_counts_are_those_of_the_result(result, look):
    rows = bars(look(result._repr_html_()))
    expected = [(str(name), str((result.labels == name).sum())) for name in [*result.classes, "unknown"]]
    assert [row[:2] for row in rows] == expected
    assert rows[-1][2] == f"{100 * result.unknown.mean():.0f} %"


@pytest.mark.parametrize("threshold", [0.5, 0.31, 0.07])
def test_the_line_is_at_the_threshold_and_parts_the_bars(result, look, threshold):
    page = look(result.at(threshold)._repr_html_())
    boxes = page.evaluate(
        """() => { const line = document.querySelector('line.threshold'), svg = line.ownerSVGElement;
        const box = e => { const b = e.getBoundingClientRect(); return [b.left, b.right, e.getAttribute('fill')] };
        return {line: box(line), axis: box(svg.querySelector('path')), bars: [...svg.querySelectorAll('rect')].map(box)}
        }"""
    )
    left, right, _ = boxes["axis"]
    middle = (boxes["line"][0] + boxes["line"][1]) / 2
    assert (middle - left) / (right - left) == pytest.approx(threshold, abs=0.005)
    bin_width = (right - left) / 40
    assert all(bar[0] < middle for bar in boxes["bars"] if bar[2] == "#2f80c0")
    assert all(bar[1] > middle for bar in boxes["bars"] if bar[2] == "#8f969e")
    assert len(boxes["bars"]) > 10
    assert bin_width > 5


@pytest.mark.parametrize("bare", [True, False])
def test_hostile_names_are_only_names(look, bare):
    result = solved(HOSTILE)
    html = result.view(texts=[f"</div><script>alert({i})</script>" for i in range(len(result))])._repr_html_()
    page = look(html, bare)
    assert sorted(row[0] for row in bars(page)[:-1]) == sorted(HOSTILE)
    assert page.locator("script, img, style, link").count() == 0
    attributes = page.evaluate("[...document.querySelectorAll('*')].flatMap(e => e.getAttributeNames())")
    assert not [name for name in attributes if name.startswith("on")]


def test_nothing_active_is_in_any_fragment(result, episodes):
    batch = handful.solve_task(episodes.task)
    for shown in (result, result.groups, batch, result.view(pictures=np.zeros((len(result), 4, 4)))):
        assert not ACTIVE.search(shown._repr_html_())


@pytest.mark.parametrize(("scheme", "ink"), [("light", "rgb(0, 0, 0)"), ("dark", "rgb(255, 255, 255)")])
def test_letters_and_lines_have_the_colour_of_the_text_around(result, look, scheme, ink):
    page = look(result._repr_html_(), scheme=scheme)
    assert page.eval_on_selector("svg text", "e => getComputedStyle(e).fill") == ink
    assert page.eval_on_selector("line.threshold", "e => getComputedStyle(e).stroke") == ink


def test_the_band_of_the_share_is_its_interval(result, look):
    page = look(result._repr_html_())
    low, high, left, right = page.evaluate(
        """() => { const band = document.querySelector('rect.interval'), svg = band.ownerSVGElement;
        const axis = [...svg.querySelectorAll('path')].pop().getBoundingClientRect(), b = band.getBoundingClientRect();
        return [b.left, b.right, axis.left, axis.right] }"""
    )
    ends = [(end - left) / (right - left) for end in (low, high)]
    np.testing.assert_allclose(ends, result.outlier_share_interval, atol=0.005)


def test_a_share_that_was_given_has_no_posterior(look):
    result = solved(outlier_share=0.25)
    assert result.outlier_share_posterior is None
    html = result._repr_html_()
    assert "Share of unknowns: 25 %." in html
    assert 'class="interval"' not in html


def test_every_item_is_a_dot_of_its_class(result):
    html = result._repr_html_()
    assert html.count("h0") == len(result)
    for name in result.classes:
        (dots,) = re.findall(rf'<path d="((?:M[\d. ]+h0)+)"[^>]*><title>{name}</title>', html)
        assert dots.count("h0") == (result.labels == name).sum()


def test_groups_are_strips_with_their_counts(result, look):
    page = look(result.groups._repr_html_())
    text = page.inner_text("body")
    for group in result.groups:
        assert group.name in text
        assert f"{group.size} items" in text
        assert f"items {', '.join(map(str, group.items[:3]))}" in text


def test_no_unknown_and_no_group(look):
    result = solved(threshold=2.0)
    page = look(result._repr_html_())
    assert bars(page)[-1][1] == "0"
    assert "group" not in page.inner_text("body")
    assert "No groups of unknowns" in Groups()._repr_html_()


def test_an_empty_pile():
    result = handful.solve_task(handful.Task.of_examples(np.eye(3), ["a", "b", "c"]), method="simpleshot")
    assert "0 items: 0 labelled, 0 unknown" in result._repr_html_()


def test_a_batch_is_a_line_for_each_task(episodes, look):
    batch = handful.solve_task(episodes.task)
    page = look(batch._repr_html_())
    text = page.inner_text("body")
    assert text.startswith(f"20 tasks, {batch.unknown.size:,} items")
    for i, row in enumerate(batch.unknown):
        assert f"task {i}\n{(~row).sum()} labelled, {row.sum()} unknown" in re.sub(r"\n+", "\n", text)
    assert (
        "5 more tasks"
        in handful.solve_task(draw(*digits(), Protocol(), seed=3, tasks=25).task, method="knn")._repr_html_()
    )
    with pytest.raises(ValueError, match=r"a view is of one task: take result\[i\]"):
        batch.view()
    with pytest.raises(ValueError, match=r"a plot is of one task: take result\[i\]"):
        batch.plot()


def test_a_thousand_classes_stay_readable():
    rng = np.random.default_rng(0)
    support = rng.normal(size=(1000, 16))
    pile = np.repeat(support, [5] * 10 + [1] * 990, axis=0)
    result = handful.solve(support, [f"class {i:04}" for i in range(1000)], pile, method="simpleshot", threshold=2.0)
    html = result._repr_html_()
    assert "988 more classes with 988 items" in html
    assert len(html) < 200_000


def test_a_large_pile_is_small_and_quick():
    rng = np.random.default_rng(0)
    centres = 3 * np.eye(8)[:4]
    truth = rng.integers(0, 4, 100_000)
    pile = (centres[truth] + rng.normal(size=(len(truth), 8))).astype(np.float32)
    names = [f"class {'x' * 500} {i}" for i in (0, 0, 1, 1, 2, 2)]
    result = handful.solve(np.repeat(centres[:3], 2, axis=0).astype(np.float32), names, pile, method="simpleshot")
    start = time.perf_counter()
    html = result._repr_html_()
    assert time.perf_counter() - start < 5
    assert len(html) < 200_000
    assert "Outlier scores of 100,000 items" in html
    assert html.count("h0") == 800
    assert "result.groups finds them" in html  # grouping 25,000 items takes too long for the end of a cell
    assert "groups" not in result.__dict__


def test_scores_that_are_not_finite_and_a_threshold_far_away():
    result = solved(method="knn")
    scores = result.outlier_scores.copy()
    scores[:3] = np.inf, -np.inf, np.inf
    result.outlier_scores = scores
    html = result.at(1e9)._repr_html_()
    assert "threshold 1e+09 →" in html
    heights = [float(h) for h in re.findall(r'height="([\d.]+)" fill="#2f80c0"', html)]
    assert heights
    assert all(np.isfinite(heights))


def test_a_large_pile_has_no_map_and_no_groups(monkeypatch):
    task = draw(*digits(), Protocol(), seed=1, tasks=[0]).task[0]
    monkeypatch.setattr("handful.core.task.LARGE_PILE_BYTES", 1)
    result = handful.solve(task.support[0], task.labels[0], task.query[0])
    html = result.view()._repr_html_()
    assert "Map" not in html
    assert 'class="interval"' in html  # the share was estimated


# ---- pictures and texts


def red_or_blue(unknown):
    return [(200, 20, 20) if is_unknown else (20, 20, 200) for is_unknown in unknown]


@pytest.mark.parametrize("kind", ["path", "Pillow", "array", "arrays"])
def test_thumbnails_are_the_pictures_of_their_items(result, look, tmp_path, kind):
    images = [Image.new("RGB", (90, 60), colour) for colour in red_or_blue(result.unknown)]
    if kind == "path":
        for i, image in enumerate(images):
            image.save(tmp_path / f"{i}.png")
        pictures = [tmp_path / f"{i}.png" for i in range(len(images))]
    else:
        arrays = [np.asarray(image) for image in images]
        pictures = {"Pillow": images, "array": np.stack(arrays), "arrays": arrays}[kind]
    page = look(result.view(pictures=pictures)._repr_html_())
    pixels = page.evaluate(
        """() => Promise.all([...document.querySelectorAll('img')].map(async img => { await img.decode();
        const c = document.createElement('canvas').getContext('2d'); c.drawImage(img, 0, 0);
        return [+img.alt.split(' ')[1], ...c.getImageData(5, 5, 1, 1).data] }))"""
    )
    assert len(pixels) > 20
    for row, red, _, blue, _ in pixels:
        assert (red > blue) == result.unknown[row]
    assert page.locator("image").count() > 10  # on the map


def test_a_picture_that_is_damaged_or_too_large_is_an_empty_frame(result, tmp_path, monkeypatch):
    (tmp_path / "bad.jpg").write_bytes(b"\xff\xd8\xff not a picture")
    html = result.view(pictures=[tmp_path / "bad.jpg"] * len(result))._repr_html_()
    assert "cannot be opened" in html
    assert "<img" not in html
    monkeypatch.setattr("handful.backbones.pictures.MAX_PIXELS", 100)
    assert "<img" not in result.view(pictures=[Image.new("L", (20, 20))] * len(result))._repr_html_()


def test_a_wrong_number_of_pictures_or_texts_is_named(result):
    with pytest.raises(ValueError, match=r"there are 2 pictures for 140 items"):
        result.view(pictures=["a.jpg", "b.jpg"])
    with pytest.raises(ValueError, match="give one path, image or array for each item"):
        result.view(pictures="folder")
    with pytest.raises(ValueError, match="there are 1 texts for 140 items"):
        result.view(texts=["one"])
    with pytest.raises(ValueError, match="whole pile"):
        result.groups.view(texts=["one"])
    with pytest.raises(ValueError, match=r"shape \[3, 8, 8\]"):
        result.view(pictures=np.zeros((len(result), 3, 8, 8)))


def test_texts_name_the_groups():
    texts = [*["send my parcel"] * 3, *["rain and wind tomorrow"] * 4]
    group = Group(1, np.arange(3, 7), 0.9)
    html = Groups([group]).view(texts=texts)._repr_html_()
    assert "group 1: rain" in html or "group 1: wind" in html or "group 1: tomorrow" in html
    assert html.count(">rain and wind tomorrow<") == 3
    assert group.words == ()


def test_groups_are_a_list(result):
    groups = result.groups
    assert isinstance(groups, list)
    assert Groups() == []
    assert groups == list(groups)
    assert groups[0] is next(iter(groups))
    assert len(groups[:1]) == 1
    assert result.find_groups(detail=-2) != groups


def test_a_saved_page_is_whole(result, tmp_path):
    path = result.view().save(tmp_path / "new" / "page.html")
    page = path.read_text("utf-8")
    assert page.startswith("<!doctype html>")
    assert "default-src 'none'" in page
    assert result._repr_html_() in page


@pytest.mark.slow
def test_a_real_kernel_sends_html_and_png():
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    pytest.importorskip("matplotlib")
    solve = """import handful
from handful.features import Protocol, digits, draw
task = draw(*digits(), Protocol(), seed=0, tasks=[0]).task[0]
result = handful.solve(task.support[0], task.labels[0], task.query[0])
result"""
    cells = [solve, "result.groups", "result.view()", "result.plot()"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(notebook, timeout=120).execute()
    kinds = [[set(output.data) for output in cell.outputs] for cell in notebook.cells]
    html, png = {"text/plain", "text/html"}, {"text/plain", "image/png"}
    assert kinds == [[html], [html], [html], [png]]  # once each
