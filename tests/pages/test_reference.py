"""The reference has every public name, command and address, and each of them is explained."""

import csv
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

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


def described(*docstrings):
    """The parameters and attributes that have a description."""
    sections = [section for docstring in docstrings if docstring for section in docstring.parsed]
    entries = [entry for section in sections if section.kind in SECTIONS for entry in section.value]
    return {name.strip(" *") for entry in entries if entry.description for name in entry.name.split(",")}


def gaps(thing, owner=None):
    """What the docstrings of a function, or of a class and its methods, lack: a summary, a described parameter."""
    if thing.is_attribute and "property" not in thing.labels:
        return []
    if thing.docstring is None:
        return [f"{thing.path} has no docstring"]
    names = {p.name.lstrip("*") for p in getattr(thing, "parameters", ())} - {"self", "cls"}
    missing = names - described(thing.docstring, owner and owner.docstring)
    found = [f"{thing.path} does not describe {name!r}" for name in sorted(missing)]
    if any(one.kind is griffe.DocstringSectionKind.text and ">>>" in one.value for one in thing.docstring.parsed):
        found.append(f"{thing.path} has an example outside of the section Examples, which would not be shown as code")
    for name, member in thing.members.items() if thing.is_class else ():
        if not name.startswith("_") and not member.is_alias:
            found += gaps(member, thing)
    return found


def load(folder, package):
    return griffe.load(package, search_paths=[folder], resolve_aliases=True, docstring_parser=griffe.Parser.numpy)


def test_every_public_name_is_in_the_reference_and_explained():
    """Each name of `__all__` of a module that has a page; the estimators' parameters are in test_documentation.py."""
    package, things, modules = load(ROOT / "src", "handful"), {}, set()
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
    estimators = ("handful.estimators.EOLKDO", "handful.estimators.EOL", "handful.estimators.KDO")
    explained = [one for path, one in things.items() if not one.is_module and path not in estimators]
    assert len(explained) > 60
    assert [gap for one in explained for gap in gaps(one)] == []


def test_missing_words_would_be_noticed(tmp_path):
    (tmp_path / "boxes.py").write_text(
        """def silent(a):
    pass

def half(a, b, *rest):
    '''Add numbers.

    Parameters
    ----------
    a : int
        The first.
    '''

class Box:
    '''A box.

    Parameters
    ----------
    size : int
        How large.
    '''

    def __init__(self, size):
        self.size = size

    def open(self, key):
        '''Open it.'''

    @property
    def weight(self):
        return 1
"""
    )
    boxes = load(tmp_path, "boxes")
    assert gaps(boxes["silent"]) == ["boxes.silent has no docstring"]
    assert gaps(boxes["half"]) == ["boxes.half does not describe 'b'", "boxes.half does not describe 'rest'"]
    assert gaps(boxes["Box"]) == ["boxes.Box.open does not describe 'key'", "boxes.Box.weight has no docstring"]


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
    used = set()
    for file in (ROOT / "src" / "handful").rglob("*.py"):
        used |= set(re.findall(r"\bHANDFUL_[A-Z_]+\b", file.read_text("utf-8")))
    assert used == set(re.findall(r"^\| `(HANDFUL_[A-Z_]+)` ", page("environment"), re.M))


def first_cells(text):
    """The code words in the first column of the tables of a text."""
    return [word for cell in re.findall(r"^\| (`.*?) \|", text, re.M) for word in re.findall(r"`([^`]+)`", cell)]


def section(name, heading):
    (text,) = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", page(name), re.M | re.S)
    return text


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    from handful.features import practice

    folder = tmp_path_factory.mktemp("results")
    practice("embeddings", folder)
    for words in (["label", "table.csv", "-o", "out"], ["check", "out"], ["ask", "out"]):
        command = [sys.executable, "-m", "handful", *words]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, input="y\nn\ns\nq\n")
        assert done.returncode == 0, done.stderr
    return folder / "out"


def test_every_file_of_results_is_described(results):
    described = first_cells(section("outputs", "handful label"))
    assert {path.name for path in results.iterdir()} <= set(described)


def test_every_column_of_labels_is_described_in_its_order(results):
    with (results / "labels.csv").open() as file:
        columns = next(csv.reader(file))
    described = first_cells(section("outputs", "labels.csv and labels.parquet"))
    own = ["p_CLASS" if re.match("p_(?!unknown)", name) else name for name in columns if name not in ("id", "truth")]
    assert list(dict.fromkeys(own)) == [name for name in described if name != "group_name"]


def test_every_entry_of_the_json_files_is_described(results):
    record = json.loads((results / "results.json").read_text("utf-8"))
    assert set(record) == set(first_cells(section("outputs", "results.json")))
    entries = set(first_cells(section("outputs", "What check and ask print")))
    for command, fewer in (("check", set()), ("ask", {"seed", "checked"})):
        line = [sys.executable, "-m", "handful", command, results, "--answers", "0", "--json"]
        printed = subprocess.run(line, capture_output=True, text=True, check=True).stdout
        assert set(json.loads(printed)) == entries - fewer


def test_every_key_and_view_of_the_workbench_is_described():
    source = ROOT / "src" / "handful" / "workbench" / "page"
    code = (source / "keys.js").read_text("utf-8")
    (calls,) = re.findall(r"^const plain = \{\n(.*?)^\};", code, re.M | re.S)
    pressed = {key.strip('"') for key in re.findall(r'^  ("[^"]+"|\w+):', calls, re.M)}
    words = {
        "Backspace": "backspace",
        "Delete": "delete",
        "Enter": "enter",
        " ": "space",
        "Escape": "esc",
        "Z": "shift-`z`",
    }
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
