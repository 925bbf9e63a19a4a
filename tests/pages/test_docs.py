"""The documentation says what the registry says, names no parameter that is not there, and links to files that are."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from handful.core.parameters import check
from handful.estimators.factory import SHARED_PARAMETERS
from handful.solving import get_solver

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
if not DOCS.exists():
    pytest.skip("the documentation is not part of this copy", allow_module_level=True)
sys.path.insert(0, str(DOCS))
try:
    import site_methods
    import toy
finally:
    sys.path.remove(str(DOCS))
INFOS = {info.name: info for info in site_methods.own_methods()}
PICTURES = DOCS / "pictures" / "methods"
MAX_PICTURE_BYTES = 25_000
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```|`[^`\n]*`", "", text, flags=re.M | re.S)


def anchors(page: Path) -> set[str]:
    """Those that GitHub makes of headings."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_method_has_a_section_with_paragraph_parameters_facts_and_picture():
    own = [f"### {path.stem}" for path in (ROOT / "src" / "handful" / "methods").glob("[a-z]*.py")]
    page = site_methods.sections()
    headings = re.findall(r"^### .*$", page, re.M)
    assert len(headings) == len(set(headings)) == len(INFOS)
    assert set(headings) <= set(own)
    for name, info in INFOS.items():
        (section,) = re.findall(rf"^### {name}\n(.*?)(?=^##|\Z)", page, re.M | re.S)
        paragraph = section.split("\n\n")[1]
        assert 60 <= len(paragraph.split()) <= 120, name
        assert unknown_names(name, paragraph) == []
        for part in (info.authors.split(",")[0], str(info.year), f"New items: {info.new_items}", f"methods/{name}.png"):
            assert part in section, name
        assert all(f"| `{parameter}` |" in section for parameter in get_solver(name).defaults), name


def test_every_method_has_its_picture():
    from PIL import Image

    assert {path.stem for path in PICTURES.glob("*.png")} == {*INFOS, "all"}, "run: python docs/toy.py"
    for name in INFOS:
        with Image.open(PICTURES / f"{name}.png") as picture:
            assert (picture.format, picture.size) == ("PNG", toy.SIZE)
        assert (PICTURES / f"{name}.png").stat().st_size <= MAX_PICTURE_BYTES, name


def test_a_picture_of_a_method_can_be_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    toy.write(tmp_path, ["knn"])
    assert (tmp_path / "knn.png").stat().st_size > 5000


def unknown_names(name: str, text: str) -> list[str]:
    """What stands in `backquotes` and is no parameter of the method, no value it takes, and no method or pair."""
    method, strange = get_solver(name), []
    for quoted in re.findall(r"`([^`]+)`", text):
        parameter, _, value = quoted.partition("=")
        if parameter in method.defaults or parameter in SHARED_PARAMETERS:
            if value:
                check({parameter: ast.literal_eval(value)}, method.rules, name)
        else:
            try:
                get_solver(quoted)
            except ValueError:
                strange.append(quoted)
    return strange


def test_a_parameter_that_does_not_exist_would_be_noticed():
    assert unknown_names("knn", "a larger `k`, the `bandwidth`, `simpleshot+knn` and `threshold`") == ["bandwidth"]
    with pytest.raises(ValueError, match="kernel"):
        unknown_names("ocsvm", '`kernel="cubic"`')


def test_links_point_to_files_and_headings_that_exist():
    broken = []
    for page in PAGES:
        for link in re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text("utf-8"))):
            path, _, heading = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            place = os.path.relpath(target, DOCS / "reference")
            if re.match(r"[a-z]+:", link) or re.match(r"commands/|addresses\.md$", place):
                continue  # elsewhere, or made while the site is built, which ends at a link that leads nowhere
            exists = target.exists() and target.is_relative_to(ROOT)
            made = re.match(r"python/|methods\.md$", place)
            if not exists or (heading and not made and heading not in anchors(target)):
                broken.append(f"{page.relative_to(ROOT)} links to {link}")
    assert broken == []


def test_files_of_the_walk_through_the_house_exist():
    text = (DOCS / "building" / "index.md").read_text("utf-8")
    (walk,) = re.findall(r"^## A walk through the house\n(.*?)^## ", text, re.M | re.S)
    files = re.findall(r"`([a-z_]+/\w+\.(?:py|js))`", walk)
    assert len(files) > 40
    source = ROOT / "src" / "handful"
    places = [ROOT, source, source / "workbench"]
    assert [file for file in files if not any((place / file).is_file() for place in places)] == []


def test_the_method_that_is_walked_through_works_everywhere(tmp_path):
    page = (DOCS / "building" / "extend.md").read_text("utf-8")
    (block,) = [one for one in re.findall(r"^```python\n(.*?)^```", page, re.M | re.S) if '"nearest"' in one]
    (tmp_path / "nearest.py").write_text(block, "utf-8")
    use = """
        import nearest, numpy as np, handful
        x = 2 * np.repeat(np.eye(8)[:3], 20, axis=0) + 0.3 * np.random.default_rng(0).normal(size=(60, 8))
        support, labels = x[[*range(5), *range(20, 25)]], ["a"] * 5 + ["b"] * 5
        for method in ("nearest", "simpleshot+nearest"):
            result = handful.solve(support, labels, x, method=method, outlier_share=1 / 3)
            print(result.labels[[0, 20, 59]].tolist())
        model = handful.make_estimator("nearest", temperature=5.0).fit(np.r_[support, x], labels + [None] * 60)
        model.save("model.safetensors")
        print(handful.load("model.safetensors").predict(x[[0, 20, 59]]).tolist(), handful.describe("nearest").title)
    """
    done = subprocess.run([sys.executable, "-c", dedent(use)], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("['a', 'b', 'unknown']") == 3
    assert "Nearest example" in done.stdout
