"""The reference has every public name, command and address, and each of them is explained."""

import csv
import importlib.util
import json
import re
from pathlib import Path
from tempfile import TemporaryFile

import forks
import pytest

from handful.features import practice

ROOT = Path(__file__).resolve().parents[2]
MODULE = ROOT / "docs" / "site_reference.py"
if not MODULE.exists():
    pytest.skip("the documentation is not part of this copy", allow_module_level=True)
griffe = pytest.importorskip("griffe", reason="pip install 'handful[docs]'")
PYTHON = ROOT / "docs" / "reference" / "python"
SECTIONS = griffe.DocstringSectionKind.parameters, griffe.DocstringSectionKind.attributes


@pytest.fixture(scope="module")
def reference():
    pytest.importorskip("fastapi")  # the addresses of the server are in the reference too
    spec = importlib.util.spec_from_file_location("site_reference", MODULE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def gaps(thing, owner=None):
    """What the docstrings of a function, or of a class and its methods, lack: a summary, a described parameter."""
    if thing.is_attribute and "property" not in thing.labels:
        return []
    if thing.docstring is None:
        return [f"{thing.path} has no docstring"]
    docstrings = filter(None, (thing.docstring, owner and owner.docstring))
    sections = [one for docstring in docstrings for one in docstring.parsed if one.kind in SECTIONS]
    entries = [entry for section in sections for entry in section.value if entry.description]
    described = {name.strip(" *") for entry in entries for name in entry.name.split(",")}
    names = {p.name.lstrip("*") for p in getattr(thing, "parameters", ())} - {"self", "cls"}
    missing = [f"{thing.path} does not describe {name!r}" for name in sorted(names - described)]
    for name, member in thing.members.items() if thing.is_class else ():
        if not name.startswith("_") and not member.is_alias:
            missing += gaps(member, thing)
    return missing


def test_every_public_name_is_in_the_reference_and_explained():
    """Each name of `__all__` of a module that has a page. (Parameters of methods: test_docs.py.)"""
    parser = griffe.Parser.numpy
    package = griffe.load("handful", search_paths=[ROOT / "src"], resolve_aliases=True, docstring_parser=parser)
    things, modules = {}, set()
    for page in sorted(PYTHON.glob("*.md")):
        for path in re.findall(r"^::: handful\.(\S+)", page.read_text("utf-8"), re.M):
            thing = package[path]
            modules |= {path} if thing.is_module else set()
            for one in [thing[name] for name in thing.exports or ()] if thing.is_module else [thing]:
                things[one.canonical_path if one.is_alias else one.path] = one
    rooms = {name for name, one in package.modules.items() if one.exports and not one.is_alias}
    assert rooms <= modules, "these rooms have public names and no page"
    for room in modules:
        for name in package[room].exports or ():
            one = package[room][name]  # of a module and a function of one name, griffe sees the module
            assert not one.is_module or name == "networks" or f"{one.path}.{name}" in things, f"{room}.{name}"
    explained = [one for one in things.values() if not one.is_module]
    assert len(explained) > 60
    assert [gap for one in explained for gap in gaps(one)] == []


def test_every_command_and_option_has_a_help_and_is_on_its_page(reference):
    pages = reference.pages()
    for name, command in reference.commands().items():
        assert f"| [`handful {name}`]({name}.md) | " in pages["reference/commands/index.md"]
        page = " ".join(pages[f"reference/commands/{name}.md"].split())
        for parameter in command.params:
            assert parameter.help, f"{name} {parameter.name}"
            assert parameter.param_type_name == "argument" or parameter.opts[0] in page, f"{name} {parameter.opts}"
            assert " ".join(parameter.help.split())[:20] in page, f"{name} {parameter.name}"


def test_every_address_of_the_server_is_listed(reference):
    page, schema = reference.pages()["reference/addresses.md"], reference.openapi()
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            assert operation.get("description"), f"{method} {path} has no docstring"
            assert f"## `{method.upper()} {path.removeprefix('/api/v1')}`" in page
    assert all(f"### {name} {{ #{name} }}" in page for name in schema["components"]["schemas"])


# ---- pages that are written by hand


def page(name):
    return (ROOT / "docs" / "reference" / f"{name}.md").read_text("utf-8")


def test_every_environment_variable_is_described():
    files = (ROOT / "hatch_build.py", *(ROOT / "src" / "handful").rglob("*.py"))
    used = {name for file in files for name in re.findall(r"\bHANDFUL_[A-Z_]+\b", file.read_text("utf-8"))}
    assert used == set(re.findall(r"^\| `(HANDFUL_[A-Z_]+)` ", page("environment"), re.M))


def first_cells(text):
    """The code words in the first column of the tables of a text."""
    return [word for cell in re.findall(r"^\| (`.*?) \|", text, re.M) for word in re.findall(r"`([^`]+)`", cell)]


def section(name, heading):
    (text,) = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", page(name), re.M | re.S)
    return text


def test_every_file_column_and_entry_of_results_is_described(own_cache, tmp_path):
    practice("embeddings", tmp_path)
    for words in (["label", "table.csv", "-o", "out"], ["check", "out"], ["ask", "out"]):
        with TemporaryFile("w+") as typed:
            typed.write("y\nn\ns\nq\n")
            typed.seek(0)
            done = forks.run(*words, cwd=tmp_path, stdin=typed)
        assert done.returncode == 0, done.stderr
    results = tmp_path / "out"
    assert {path.name for path in results.iterdir()} <= set(first_cells(section("outputs", "handful label")))
    with (results / "labels.csv").open() as file:
        columns = next(csv.reader(file))
    described = first_cells(section("outputs", "labels.csv and labels.parquet"))
    own = ["p_CLASS" if re.match("p_(?!unknown)", name) else name for name in columns if name not in ("id", "truth")]
    assert list(dict.fromkeys(own)) == [name for name in described if name != "group_name"]
    record = json.loads((results / "results.json").read_text("utf-8"))
    assert set(record) == set(first_cells(section("outputs", "results.json")))
    entries = set(first_cells(section("outputs", "What check and ask print")))
    for command, fewer in (("check", set()), ("ask", {"seed", "checked"})):
        done = forks.run(command, results, "--answers", "0", "--json")
        assert set(json.loads(done.stdout)) == entries - fewer


def test_every_key_and_view_of_the_workbench_is_described():
    source = ROOT / "src" / "handful" / "workbench" / "page"
    code = (source / "keys.js").read_text("utf-8")
    (calls,) = re.findall(r"^const plain = \{\n(.*?)^\};", code, re.M | re.S)
    pressed = {key.strip('"') for key in re.findall(r'^  ("[^"]+"|\w+):', calls, re.M)}
    words = {name: name.lower() for name in ("Backspace", "Delete", "Enter")}
    words |= {" ": "space", "Escape": "esc", "Z": "shift-`z`"}
    table = section("keys", "Keys of the workbench")
    missing = [key for key in pressed - {"="} if (words.get(key) or f"`{key}`") not in table]
    assert missing == []
    (views,) = re.findall(r"^const VIEWS = \[\n(.*?)^\];", (source / "views.js").read_text("utf-8"), re.M | re.S)
    names = re.findall(r'^  \["\w+", "([^"]+)"', views, re.M)
    assert len(names) == 10
    assert [name for name in names if f"| {name} |" not in section("keys", "Views")] == []


def test_the_limits_of_the_servers_are_those_of_the_code():
    from handful.workbench.server import app, guard, serve, solve, uploads

    text, solved = section("server", "Limits"), guard.MAX_BYTES_OF["/api/v1/solve"]
    sizes = (*solved.values(), guard.MAX_BYTES_OF["/api/v1/labels"][guard.JSON], guard.MAX_BYTES[guard.JSON])
    wanted = [f"{size // guard.MEGABYTE} MB" for size in sizes]
    wanted += [f"| {serve.MAX_CONNECTIONS} |", f"| {serve.MAX_HEAD_BYTES // 1024} kB |", f"| {serve.KEEP_ALIVE_S} s"]
    wanted += [f"1 is solved, {solve.MAX_REQUESTS - 1} more wait", f"{app.MAX_PAGE_ITEMS:,}; {app.MAX_REQUESTED_ITEMS}"]
    wanted += [f"{uploads.MAX_FILES} files of {uploads.MAX_FILE_BYTES // guard.MEGABYTE} MB"]
    assert [part for part in wanted if part not in text] == []
