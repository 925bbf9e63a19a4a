"""The documentation says what the registry says, names no parameter that is not there, and links to files that are."""

import ast
import importlib.util
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
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]


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
    for part in (
        info.authors,
        str(info.year),
        "```math",
        f"New items: {info.new_items}",
        f"pictures/methods/{name}.png",
    ):
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
    page = tmp_path / "methods.md"
    page.write_text(build.page().replace("| `k` |", "| `kk` |"), "utf-8")
    for key, path in (("PAGE", page), ("PICTURES", tmp_path)):
        monkeypatch.setattr(build, key, path)
    before = page.read_bytes()
    assert build.main(["--check"]) == 1
    assert page.read_bytes() == before
    told = capsys.readouterr().out
    assert "methods.md line" in told
    assert "pictures/eol.png is missing" in told


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_point_to_files_and_headings_that_exist(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text("utf-8"))):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, heading = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if re.match(r"(python|commands)/|addresses\.md$", os.path.relpath(target, DOCS / "reference")):
            continue  # made while the site is built, which ends at a link that leads nowhere
        assert target.exists(), f"{page.name} links to {link}"
        assert target.is_relative_to(ROOT), f"{page.name} links out of the repository: {link}"
        assert not heading or heading in anchors(target), f"{page.name} links to {link}: no such heading"


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
