"""The page of methods says what the registry says, with a picture of each, and the README's links lead somewhere."""

import ast
import re
import sys

import pytest
from doc_pages import DOCS, ROOT

from handful.core.parameters import check
from handful.estimators.factory import SHARED_PARAMETERS
from handful.solving import get_solver

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


def test_every_method_has_a_section_with_paragraph_parameters_facts_and_picture():
    page = site_methods.sections()
    headings = re.findall(r"^### (.*)$", page, re.M)
    assert len(headings) == len(set(headings)) == len(INFOS)
    for name, info in INFOS.items():
        (section,) = re.findall(rf"^### {name}\n(.*?)(?=^##|\Z)", page, re.M | re.S)
        paragraph = section.split("\n\n")[1]
        assert 60 <= len(paragraph.split()) <= 120, name
        assert unknown_names(name, paragraph) == []
        for part in (info.authors.split(",")[0], str(info.year), f"New items: {info.new_items}", f"methods/{name}.png"):
            assert part in section, name
        assert all(f"| `{parameter}` |" in section for parameter in get_solver(name).defaults), name


def unknown_names(name, text):
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


def test_every_method_has_its_picture_and_it_can_be_drawn(tmp_path):
    from PIL import Image

    assert {path.stem for path in PICTURES.glob("*.png")} == {*INFOS, "all"}, "run: python docs/toy.py"
    for name in INFOS:
        with Image.open(PICTURES / f"{name}.png") as picture:
            assert (picture.format, picture.size) == ("PNG", toy.SIZE)
        assert (PICTURES / f"{name}.png").stat().st_size <= MAX_PICTURE_BYTES, name
    pytest.importorskip("matplotlib")
    toy.write(tmp_path, ["knn"])
    assert (tmp_path / "knn.png").stat().st_size > 5000


def test_links_of_files_that_are_read_in_the_repository_lead_to_files():
    """Those of the documentation are followed when the site is built."""
    for page in (*ROOT.glob("*.md"), *(ROOT / "examples").glob("*.md")):
        text = re.sub(r"^```.*?^```|`[^`\n]*`", "", page.read_text("utf-8"), flags=re.M | re.S)
        links = [link for link in re.findall(r"\]\(([^)\s#]+)", text) if not re.match(r"[a-z]+:", link)]
        assert [link for link in links if not (page.parent / link).exists()] == [], page.name
