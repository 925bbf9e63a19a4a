"""The documentation says what the registry says, names no parameter that is not there, and links to files that are."""

import ast
import importlib.util
import re
import sys
from pathlib import Path

import pytest

from handful.core.parameters import check
from handful.estimators.factory import SHARED_PARAMETERS
from handful.solving import get_solver

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
if not DOCS.exists():
    pytest.skip("the documentation is not part of this copy", allow_module_level=True)


def load_build():
    spec = importlib.util.spec_from_file_location("docs_build", DOCS / "build.py")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(DOCS))  # it imports its neighbours, as a script does
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(DOCS))
    return module


build = load_build()
TEXT = build.words.TEXT
NAMES = [info.name for info in build.own_methods()]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```|`[^`\n]*`", "", text, flags=re.M | re.S)


def anchors(page: Path) -> set[str]:
    """Those that GitHub makes of headings."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_generated_text_and_pictures_are_what_build_would_make():
    assert build.check() == [], "run: python docs/build.py"


def test_every_method_is_in_one_group_and_nothing_else_is_described():
    assert len(NAMES) == len(set(NAMES))
    assert set(NAMES) == set(TEXT)
    assert set(NAMES) == set(build.registry_names())


@pytest.mark.parametrize("name", NAMES)
def test_every_method_has_its_section_with_paragraph_equations_parameters_and_picture(name):
    page = build.PAGE.read_text("utf-8")
    (section,) = re.findall(rf"^### {name}\n(.*?)(?=^##|\Z)", page, re.M | re.S)
    info = get_solver(name).info
    for part in (info.authors, str(info.year), "```math", f"New items: {info.new_items}", f"pictures/{name}.png"):
        assert part in section
    assert " ".join(TEXT[name].paragraph.split()) in " ".join(section.split())
    assert all(f"| `{parameter}` |" in section for parameter in get_solver(name).defaults)


@pytest.mark.parametrize("name", NAMES)
def test_paragraphs_are_neither_a_slogan_nor_a_treatise(name):
    assert 60 <= len(TEXT[name].paragraph.split()) <= 120


@pytest.mark.parametrize("name", NAMES)
def test_equations_use_only_what_github_renders(name):
    equations = TEXT[name].equations
    assert not re.search(r"\\(operatorname|mbox|phantom|def|newcommand)\b", equations)
    assert equations.count("{") == equations.count("}")
    assert equations.count(r"\left") - equations.count(r"\leftarrow") == equations.count(r"\right")
    assert all(line.count("&") == 1 for line in re.split(r"\\\\", equations))


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


@pytest.mark.parametrize("name", NAMES)
def test_paragraphs_name_only_parameters_that_exist(name):
    assert unknown_names(name, TEXT[name].paragraph) == []
    assert unknown_names(name, " ".join(build.meanings(name).values())) == []


def test_a_parameter_that_does_not_exist_would_be_noticed():
    assert unknown_names("knn", "a larger `k`, the `bandwidth`, `simpleshot+knn` and `threshold`") == ["bandwidth"]
    with pytest.raises(ValueError, match="kernel"):
        unknown_names("ocsvm", '`kernel="cubic"`')


def test_a_changed_default_or_a_missing_picture_would_be_noticed(monkeypatch, tmp_path, capsys):
    page, readme = tmp_path / "methods.md", tmp_path / "README.md"
    page.write_text(build.page().replace("| `k` |", "| `kk` |"), "utf-8")
    readme.write_text(f"before\n{build.BEGIN}\nold\n{build.END}\nafter\n", "utf-8")
    for key, path in (("PAGE", page), ("README", readme), ("PICTURES", tmp_path)):
        monkeypatch.setattr(build, key, path)
    before = page.read_bytes(), readme.read_bytes()
    assert build.main(["--check"]) == 1
    assert (page.read_bytes(), readme.read_bytes()) == before
    told = capsys.readouterr().out
    assert "methods.md line" in told
    assert "README.md line" in told
    assert "pictures/eol.png is missing" in told


def test_the_readme_keeps_what_is_around_its_block():
    text = build.readme(f"before\n{build.BEGIN}\nold\n{build.END}\nafter\n")
    assert text.startswith(f"before\n{build.BEGIN}\n")
    assert text.endswith(f"{build.END}\nafter\n")
    assert "old" not in text
    with pytest.raises(ValueError, match="once each"):
        build.readme("no marks")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_point_to_files_and_headings_that_exist(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text("utf-8"))):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, heading = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name} links to {link}"
        assert target.is_relative_to(ROOT), f"{page.name} links out of the repository: {link}"
        assert not heading or heading in anchors(target), f"{page.name} links to {link}: no such heading"
