"""The reference has every public name, command and option, and each of them is explained."""

import csv
import importlib.util
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from posixpath import dirname, join, normpath

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
MODULE = DOCS / "site_reference.py"
if not MODULE.exists():
    pytest.skip("the documentation is not part of this copy", allow_module_level=True)
pytest.importorskip("fastapi")  # the addresses of the server are in the reference too


def load_module():
    spec = importlib.util.spec_from_file_location("site_reference", MODULE)
    module = importlib.util.module_from_spec(spec)
    sys.modules["site_reference"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


reference = load_module()
PAGES = reference.pages()
NAMES = reference.public_names()
COMMANDS = reference.commands()
HEADING = re.compile(r"^#{2,4} .*\{ #(\S+) \}$", re.M)


def gaps(path, value, class_doc=""):
    """What a docstring lacks: a summary, or the description of a parameter."""
    doc = reference.own_doc(value)
    if not reference.summary(doc):
        return [f"{path} has no docstring"]
    parts = [reference.Docstring.of(text) for text in (doc, class_doc)]
    entries = {}
    for part in parts:
        entries |= part.entries("Attributes") | part.entries("Parameters")
    described = {name.lstrip("*"): text for name, (_, text) in entries.items()}
    names = reference.parameters_of(value)
    return [f"{path} does not describe {name!r}" for name in names if not described.get(name)]


def gaps_of_class(path, cls):
    """Those of a class and of its methods."""
    found, class_doc = gaps(path, cls), reference.own_doc(cls)
    for name, (kind, function) in reference.public_members(cls):
        listed = reference.Docstring.of(class_doc)
        if name in listed.entries("Parameters") or name in listed.entries("Attributes"):
            continue  # a field that holds a function
        found += gaps(f"{path}.{name}", function, class_doc if kind == "method" else class_doc + "\n")
    return found


def public_paths():
    """Every name that `__all__` of handful and of its public modules has, by the object that it is."""
    import handful

    paths = [f"handful.{name}" for name in handful.__all__ if name not in handful._MODULES]
    for module in handful._MODULES:
        value = getattr(handful, module)
        paths += [f"{value.__name__}.{name}" for name in getattr(value, "__all__", ())]
        paths.append(value.__name__)
    return sorted(set(paths))


@pytest.mark.parametrize("path", public_paths())
def test_every_public_name_has_exactly_one_entry(path):
    entries = [anchor for page in PAGES.values() for anchor in HEADING.findall(page)]
    own = [name.path for name in NAMES.values() if path in (name.path, *name.aliases)]
    assert len(own) == 1, own
    assert entries.count(reference.anchor_of(own[0])) == 1


@pytest.mark.parametrize("name", NAMES.values(), ids=list(NAMES))
def test_every_name_and_each_of_its_parameters_is_explained(name):
    if inspect.isclass(name.value):
        assert gaps_of_class(name.path, name.value) == []
    elif inspect.isroutine(name.value):
        assert gaps(name.path, name.value) == []
    else:
        assert reference.summary(name.doc), name.path


def test_missing_words_would_be_noticed():
    def silent(a):
        pass

    def half(a, b, *rest):
        """Add numbers.

        Parameters
        ----------
        a : int
            The first.
        rest : int
        """

    class Box:
        """A box.

        Parameters
        ----------
        size : int
            How large.
        """

        def __init__(self, size):
            self.size = size

        def open(self, key):
            """Open it."""

        @property
        def weight(self):
            return 1

    Box.__module__ = "handful.boxes"
    assert gaps("silent", silent) == ["silent has no docstring"]
    assert gaps("half", half) == ["half does not describe 'b'", "half does not describe 'rest'"]
    assert gaps_of_class("Box", Box) == ["Box.open does not describe 'key'", "Box.weight has no docstring"]


def test_an_entry_shows_signature_parameters_and_examples():
    (entry,) = re.findall(r"^### `handful.solve` .*?(?=^### )", PAGES["reference/python/solving.md"], re.M | re.S)
    for part in (
        "    outlier_share='auto',",
        ") -> Result",
        "- `support` ",
        "array [S, D] or [B, S, D]",
        ">>> result = solve(",
    ):
        assert part in entry
    assert "streaming.md#handful.Streaming" in entry
    assert "- `kappa`" not in entry
    (estimator,) = re.findall(r"^### `handful.EOL` .*?(?=^### )", PAGES["reference/python/estimators.md"], re.M | re.S)
    for parameter in inspect.signature(NAMES["handful.EOL"].value).parameters:
        assert f"\n- `{parameter}` " in estimator, parameter


def links(text):
    """Those outside of code."""
    return re.findall(r"\]\(([^)\s]*)\)", re.sub(r"^ *```.*?^ *```", "", text, flags=re.M | re.S))


def is_broken(place, link):
    """Whether a link of a page leads nowhere, if it leads to a page that is made from the code."""
    path, _, anchor = link.partition("#")
    target = normpath(join(dirname(place), path)) if path else place
    if target in PAGES:
        return bool(anchor) and anchor not in HEADING.findall(PAGES[target])
    return target.startswith(("reference/python/", "reference/commands/", reference.ADDRESSES))


def test_links_between_the_pages_lead_to_entries():
    assert [(place, one) for place, text in PAGES.items() for one in links(text) if is_broken(place, one)] == []
    by_hand = {normpath(join(dirname(place), one.partition("#")[0])) for place in PAGES for one in links(PAGES[place])}
    assert [
        one for one in by_hand - set(PAGES) - {dirname(place) for place in PAGES} if not (DOCS / one).exists()
    ] == []


def test_links_of_other_pages_lead_to_entries():
    assert is_broken("reference/index.md", "commands/labels.md")
    assert is_broken("how-to/faster.md", "../reference/python/solving.md#handful.solves")
    texts = {path.relative_to(DOCS).as_posix(): path.read_text("utf-8") for path in DOCS.rglob("*.md")}
    assert [(place, one) for place, text in texts.items() for one in links(text) if is_broken(place, one)] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_is_on_its_page_with_its_help(name):
    command, page = COMMANDS[name], PAGES[f"reference/commands/{name}.md"]
    assert reference.summary(command.help).endswith(".")
    assert f"[`handful {name}`]({name}.md) | " in PAGES["reference/commands/index.md"]
    rows = re.findall(r"^\| (`.*?) \| (.*?) \|$", page, re.M)
    shown = {word: meaning for cell, meaning in rows for word in re.findall(r"`([^`]+)`", cell)}
    assert len(rows) == len(command.params)
    for parameter in command.params:
        words = parameter.opts + parameter.secondary_opts
        words = words if parameter.param_type_name == "option" else [reference.argument_name(parameter)]
        for word in words:
            text = re.sub(r"[`\s]+", " ", parameter.help).strip()
            assert len(text) > 5, word
            assert re.sub(r"[`\s]+", " ", shown[word].replace("\\", "")).strip().startswith(text[:20]), word


def test_the_default_and_the_range_of_an_option_are_shown():
    page = PAGES["reference/commands/label.md"]
    assert re.search(r"`--group-detail`<br>number, -2 to 2 \| .* Default: `0.0`\.", page)
    assert re.search(r"`--output`, `-o`<br>path \|", page)
    assert "## What else you know\n" in page


def test_every_address_of_the_server_says_what_it_does():
    page, schema = PAGES["reference/addresses.md"], reference.openapi()
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            assert operation.get("description"), f"{method} {path} has no docstring"
            assert f"### `{method.upper()} {path.removeprefix('/api/v1')}`" in page
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
    from handful.workbench.server import connections, events, guard, run_routes, solve_processes

    text = section("server", "Limits")
    limits, kinds = connections.Limits(), guard.MAX_BYTES_OF["/api/v1/solve"]
    megabytes = [
        f"{size // guard.MEGABYTE} MB" for size in (*kinds.values(), guard.MAX_BYTES_OF["/api/v1/labels"][guard.JSON])
    ]
    seconds = [f"{value:g} s" for value in (limits.head_s, limits.body_s, limits.answer_s, limits.keep_alive_s)]
    others = [f"| {connections.MAX_CONNECTIONS},", f"| {events.MAX_STREAMS} |", f"| {run_routes.MAX_PAGE_ITEMS:,};"]
    others.append(f"{solve_processes.MAX_PROCESSES} are solved")
    assert [part for part in (*megabytes, *seconds, *others) if part not in text] == []
