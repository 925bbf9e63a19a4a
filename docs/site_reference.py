"""Pages of the reference that are made from the code: Python names, commands, addresses of the server. ::

    pages()                    # {"reference/python/solving.md": "# Solving ...", ...}, for docs/site_pages.py

Python names come from `__all__` of handful and of its public modules, with signatures and docstrings (NumPy style).
Commands come from the Typer application, addresses from the OpenAPI schema. handful is imported when it is needed, so
that this module is quick to import.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from html import escape
from importlib import import_module
from typing import Annotated, Any, get_args, get_origin

PYTHON, COMMANDS, ADDRESSES = "reference/python", "reference/commands", "reference/addresses.md"


@dataclass(frozen=True)
class PythonPage:
    """A page about some modules: its title, and what is there."""

    title: str
    opening: str
    modules: tuple[str, ...]
    first: tuple[str, ...] = ()  # names that come before the others of their module


PAGES = {  # a new public name is put on the page of its module
    "solving": PythonPage(
        "Solving",
        "Label one task or many, and look at the answers.",
        ("handful.solving",),
        ("handful.solve", "handful.solve_task", "handful.solve_each", "handful.Result"),
    ),
    "estimators": PythonPage(
        "Estimators",
        "A scikit-learn classifier for each method. All of them have the attributes and methods of "
        "`handful.estimators.FewShotClassifier`; they differ in their parameters. What the methods do is on the page "
        "[Methods](../methods.md).",
        ("handful.estimators",),
        ("handful.estimators.FewShotClassifier", "handful.make_estimator", "handful.load", "handful.scorer"),
    ),
    "tasks": PythonPage(
        "Tasks and the base",
        "What methods take: tasks and base classes.",
        ("handful.core",),
        ("handful.Task", "handful.Base"),
    ),
    "metrics": PythonPage("Metrics", "How good the answers are, if the truth is known.", ("handful.core.metrics",)),
    "features": PythonPage(
        "Features",
        "Feature tables, their files, and tasks drawn from them. [Tables](../tables.md) describes the files.",
        ("handful.features",),
    ),
    "backbones": PythonPage(
        "Backbones",
        "From pictures and texts to features. [Backbones](../backbones.md) lists the networks.",
        ("handful.backbones",),
    ),
    "labelling": PythonPage(
        "Labelling",
        "What the command `handful label` and the workbench are made of. [Files](../outputs.md) describes what they "
        "write.",
        ("handful.project", "handful.report", "handful.workbench"),
    ),
    "benchmarks": PythonPage(
        "Benchmarks", "Compare methods on many tasks. See also [benchmarks](../benchmark.md).", ("handful.bench",)
    ),
    "streaming": PythonPage(
        "Streaming and cluster",
        "Piles that are larger than memory, on one machine or many.",
        ("handful.streaming", "handful.cluster"),
    ),
    "training": PythonPage(
        "Training",
        "Learn a backbone and heads on base classes. See also [data sets](../datasets.md).",
        ("handful.training", "handful.training.datasets"),
    ),
    "methods": PythonPage(
        "Your own method", "What a method is, and how to add one.", ("handful.methods", "handful.engines")
    ),
}
CONSTANTS = {  # Python keeps no docstring for these
    "handful.UNKNOWN": "The label of an unknown item among whole numbers.",
    "handful.UNKNOWN_NAME": "The label of an unknown item among texts.",
    "handful.NONE_OF_THESE": "In the y of `fit`: an example that belongs to none of the classes. Among texts, "
    '"unknown" means the same.',
    "handful.WRONG": "In the answers of a check: the label is wrong, and the right one is not known.",
    "handful.__version__": "The version of handful.",
    "handful.bench.BENCHMARKS": "The benchmarks by name: a function that makes the `handful.bench.Benchmark`, and the "
    "methods that it compares if none are named.",
    "handful.training.datasets.SPLITS": "The names of the splits of a data set.",
}
SECTIONS = (
    "Parameters", "Attributes", "Returns", "Yields", "Raises", "Warns", "Notes", "See Also", "References", "Examples",
    "Methods",
)  # fmt: skip
WORDS = {"Path": "path", "str": "text", "int": "whole number", "float": "number"}  # of the values of options
LISTS = ("Parameters", "Attributes", "Returns", "Yields", "Raises", "Warns")


@cache
def pages() -> dict[str, str]:
    """All pages by their place in the site."""
    made = {f"{PYTHON}/{name}.md": python_page(name) for name in PAGES}
    return {f"{PYTHON}/index.md": python_index(), **made, **command_pages(), ADDRESSES: addresses()}


# ---- Python names


@dataclass(frozen=True)
class Name:
    """A public name: where people import it from, other places where it is too, and what it is."""

    path: str
    value: Any
    page: str
    module: str
    aliases: tuple[str, ...] = ()

    @cached_property
    def doc(self) -> str:
        """Its docstring; that of a constant is in `CONSTANTS`."""
        return CONSTANTS.get(self.path) or (own_doc(self.value) if callable(self.value) or self.is_module else "")

    @property
    def is_module(self) -> bool:
        return inspect.ismodule(self.value)

    @property
    def is_estimator(self) -> bool:
        return getattr(self.value, "__module__", "") == "handful.estimators.classes"


@cache
def public_names() -> dict[str, Name]:
    """Every public name of handful by its shortest path, in the order of the pages."""
    import handful

    homes = {name: home for home, names in handful._HOMES.items() for name in names}
    homes["__version__"] = "handful.core"
    modules = {f"handful.{name}": path for name, path in handful._MODULES.items()}
    page_of = {module: page for page, about in PAGES.items() for module in about.modules}
    names: dict[str, Name] = {}
    for module, page in page_of.items():
        names[module] = Name(module, import_module(module), page, module)
        names[module] = Name(
            module, names[module].value, page, module, tuple(m for m, path in modules.items() if path == module != m)
        )
        of_module = [name for name, home in homes.items() if home == module or home.startswith(f"{module}.")]
        own = getattr(names[module].value, "__all__", [])
        paths = [f"handful.{name}" for name in of_module] + [
            f"{module}.{name}" for name in own if name not in of_module
        ]
        first = PAGES[page].first
        for path in sorted(paths, key=lambda path: first.index(path) if path in first else len(first)):
            name = path.rpartition(".")[2]
            value = getattr(handful, name) if path.count(".") == 1 else getattr(names[module].value, name)
            aliases = (f"{module}.{name}",) if path.count(".") == 1 and name in own else ()
            names[path] = Name(path, value, page, module, aliases)
    return names


def python_index() -> str:
    """The table of all names."""
    lines = [
        "# Python names",
        "",
        "Every public name of handful. What is not listed here may change without notice.",
        "",
        "| name | what it is |",
        "|---|---|",
    ]
    for page, about in PAGES.items():
        lines.append(f"| **[{about.title}]({page}.md)** | {prose(about.opening.split('. ')[0].rstrip('.'), '')}. |")
        for name in public_names().values():
            if name.page == page and not name.is_module:
                lines.append(f"| {link(name.path, '')} | {prose(summary(name.doc), '', cell=True)} |")
    return "\n".join(lines) + "\n"


def python_page(page: str) -> str:
    """The page about some modules."""
    about = PAGES[page]
    parts = [f"# {about.title}", prose(about.opening, page)]
    for module in about.modules:
        names = [name for name in public_names().values() if name.module == module]
        parts.append("\n\n".join(describe(name, 2 if name.is_module else 3) for name in names))
    return "\n\n".join(parts) + "\n"


def anchor_of(path: str) -> str:
    """The anchor of a name. Two underscores would be bold in it."""
    return path.replace("__", "")


def describe(name: Name, level: int) -> str:
    """The entry of a name."""
    parts = [f"{'#' * level} `{name.path}` {{ #{anchor_of(name.path)} }}"]
    doc = Docstring.of(name.doc)
    if inspect.isclass(name.value) or inspect.isroutine(name.value):
        parts.append(f"```py\n{signature(name.value, name.path.rpartition('.')[2])}\n```")
    elif not name.is_module and len(repr(name.value)) < 80:
        parts.append(f"```py\n{name.path} = {name.value!r}\n```" if name.path != "handful.__version__" else "")
    if name.is_estimator:
        doc.sections.pop("Attributes", None)  # those of all estimators are described once
    elif name.path == "handful.estimators.FewShotClassifier":
        from handful.estimators.documentation import ATTRIBUTES

        of_all = Docstring.of(ATTRIBUTES).sections["Attributes"]
        doc.sections["Attributes"] = f"{of_all}\n{doc.sections['Attributes']}"
    parts.append(doc.markdown(name.page, name.value, sections=not name.is_module))
    if name.aliases:
        parts.append("Also as " + ", ".join(f"`{alias}`" for alias in name.aliases) + ".")
    if inspect.isclass(name.value) and not name.is_estimator:
        parts += members(name, doc, level + 1)
    return "\n\n".join(part for part in parts if part)


def members(name: Name, doc: Docstring, level: int) -> Iterator[str]:
    """Properties that the docstring does not list, and methods."""
    listed = {entry for section in ("Parameters", "Attributes") for entry in doc.entries(section)}
    own = dict(public_members(name.value))
    properties = [
        bullet(key, returned(function), inner.markdown(name.page))
        for key, (kind, function) in own.items()
        if kind == "property" and key not in listed and (inner := Docstring.of(own_doc(function))).text
    ]
    if properties:
        yield "**Properties**\n\n" + "\n".join(properties)
    for key, (kind, function) in own.items():
        if kind == "method" and key not in listed:
            heading = f"{'#' * level} `{name.path.rpartition('.')[2]}.{key}` {{ #{name.path}.{key} }}"
            text = Docstring.of(own_doc(function)).markdown(name.page, function)
            yield f"{heading}\n\n```py\n{signature(function, key)}\n```\n\n{text}"


def public_members(cls: type) -> Iterator[tuple[str, tuple[str, Any]]]:
    """(name, ("property" or "method", function)) of what handful defines in a class or in its parents."""
    seen: dict[str, tuple[str, Any]] = {}
    for parent in cls.__mro__:
        if not parent.__module__.startswith("handful"):
            continue
        for key, value in vars(parent).items():
            if key.startswith("_") or key in seen:
                continue
            function = getattr(value, "fget", None) or getattr(value, "func", None)
            if function is not None and not callable(value):
                seen[key] = "property", function
            elif isinstance(value, classmethod | staticmethod) or inspect.isfunction(value):
                seen[key] = "method", getattr(value, "__func__", value)
    yield from seen.items()


def own_doc(value: Any) -> str:
    """A docstring that was written, not the one that dataclasses and named tuples get by themselves."""
    text = inspect.getdoc(value) or ""
    return "" if inspect.isclass(value) and re.match(rf"{value.__name__}\(.*\)$", text, re.S) else text


def summary(doc: str) -> str:
    """The first sentence or paragraph."""
    return " ".join(re.split(r"\n\s*\n", doc.strip())[0].split()).removesuffix("::").strip()


# ---- signatures


def parameters_of(value: Any) -> dict[str, inspect.Parameter]:
    """The parameters that a caller gives."""
    try:
        found = inspect.signature(value).parameters
    except (TypeError, ValueError):
        return {}
    if inspect.isclass(value) and issubclass(value, BaseException) and not found:
        return {}
    return {name: p for name, p in found.items() if name not in ("self", "cls") and not name.startswith("_")}


def signature(value: Any, name: str) -> str:
    """The call of a function, in one line or with a line for each parameter."""
    shown, kind = [], None
    for parameter in parameters_of(value).values():
        if parameter.kind is parameter.KEYWORD_ONLY and kind not in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL):
            shown.append("*")
        kind = parameter.kind
        shown.append(shown_parameter(parameter))
    result = "" if inspect.isclass(value) else returned(value)
    arrow = f" -> {result}" if result else ""
    line = f"{name}({', '.join(shown)}){arrow}"
    return line if len(line) <= 76 else f"{name}(\n" + "".join(f"    {one},\n" for one in shown) + f"){arrow}"


def shown_parameter(parameter: inspect.Parameter) -> str:
    """A parameter with its default."""
    star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    return star + parameter.name + (f"={default_of(parameter)}" if default_of(parameter) else "")


def default_of(parameter: inspect.Parameter) -> str:
    """The default as code; "..." if it is no plain value."""
    if parameter.default is parameter.empty:
        return ""
    text = repr(parameter.default)
    return "..." if re.match(r"<(?!handful)", text) or " at 0x" in text or len(text) > 60 else text


def annotation(value: Any) -> str:
    """A type as people write it."""
    if value in (inspect.Parameter.empty, None, "Any", Any):
        return ""
    text = value if isinstance(value, str) else inspect.formatannotation(value)
    return re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Z]\w)", "", text.replace("typing.", ""))


def returned(value: Any) -> str:
    """The type of what a function returns."""
    try:
        return annotation(inspect.signature(value).return_annotation)
    except (TypeError, ValueError):
        return ""


# ---- docstrings


@dataclass
class Docstring:
    """A docstring in its parts."""

    text: str
    sections: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, doc: str) -> Docstring:
        """Split at numpydoc's headings."""
        parts = re.split(rf"^({'|'.join(SECTIONS)})\n-{{3,}}\n", doc, flags=re.M)
        return cls(parts[0].strip(), dict(zip(parts[1::2], parts[2::2], strict=True)))

    def entries(self, section: str) -> dict[str, tuple[str, str]]:
        """name -> (type, description) of a section that is a list; several names may share an entry."""
        entries: dict[str, tuple[str, str]] = {}
        for part in re.split(r"\n(?=\S)", self.sections.get(section, "").strip("\n")):
            head, _, body = part.partition("\n")
            names, colon, kind = head.partition(" : ")
            if not head.strip():
                continue
            if not colon and section not in ("Parameters", "Attributes"):
                entries[f"{len(entries)}"] = head.strip(), inspect.cleandoc(f"\n{body}")
                continue
            for name in names.split(","):
                entries[name.strip()] = kind.strip(), inspect.cleandoc(f"\n{body}")
        return entries

    def markdown(self, page: str, value: Any = None, sections: bool = True) -> str:
        """The docstring as Markdown; the defaults of parameters come from the signature of `value`."""
        parts = [prose(self.text, page)] if self.text else []
        defaults = parameters_of(value) if callable(value) else {}
        for section in self.sections if sections else ():
            title = f"**{section}**\n\n"
            if section in LISTS:
                parts.append(title + "\n".join(self._bullets(section, page, defaults)))
            else:
                parts.append(title + prose(self.sections[section], page))
        return "\n\n".join(parts)

    def _bullets(self, section: str, page: str, defaults: dict[str, inspect.Parameter]) -> Iterator[str]:
        for name, (kind, text) in self.entries(section).items():
            parameter = defaults.get(name.lstrip("*"))
            default = default_of(parameter) if parameter is not None else ""
            if section == "Parameters" and default not in ("", "...", "None") and "default" not in kind:
                kind = f"{kind.removesuffix(', optional')}, default {default}".removeprefix(", ")
            yield bullet("" if name.isdigit() else name, kind, prose(text, page))


def bullet(name: str, kind: str, text: str) -> str:
    """An entry of a list: a name, its type, and a paragraph or more."""
    kind = escape(kind, quote=False).translate({ord("*"): "&#42;", ord("_"): "&#95;", ord("`"): "&#96;"})
    kind = f'<span class="kind">{kind}</span>' * bool(kind)
    head = f"`{name}`" * bool(name) + " " * bool(name and kind) + kind
    body = "\n".join(f"    {line}" if line else "" for line in text.splitlines())
    return f"- {head}" + (f"<br>\n{body}" if body else "")


CODE = re.compile(r"(`+)(.+?)\1", re.S)


def prose(text: str, page: str, cell: bool = False) -> str:
    """Text of a docstring as Markdown: examples and indented code become fences, names become links."""
    parts: list[str] = []
    for block in re.split(r"\n\s*\n(?!\s)", inspect.cleandoc(text)):
        if match := re.match(r"([^:]*): (handful [^.]*(?:\.\w[^.]*)*)$", block, re.S):  # a command at the end
            lines = re.sub(r", (?:or|then) (?=handful )", "\n", match[2])
            parts += [f"{inline(match[1], page)}:", f"```text\n{lines}\n```"]
        elif block.lstrip().startswith(">>>"):
            parts.append(f"```pycon\n{block.strip()}\n```")
        elif match := re.match(r"(.*?)::\n\s*\n?( {2,}.*)", block, re.S):
            parts.append(f"{inline(match[1], page, cell)}:" if match[1].strip() else "")
            parts.append(f"```py\n{inspect.cleandoc(chr(10) + match[2])}\n```")
        elif ">>>" in block:
            before, _, example = block.partition(">>>")
            parts += [inline(before.strip(), page, cell), f"```pycon\n>>>{example}\n```"]
        else:
            parts.append(inline(block, page, cell))
    joined: list[str] = []
    for part in filter(None, parts):  # an example may hold blank lines
        if joined and part.startswith("```pycon") and joined[-1].startswith("```pycon"):
            joined[-1] = joined[-1].removesuffix("\n```") + "\n\n" + part.removeprefix("```pycon\n")
        else:
            joined.append(part)
    return "\n\n".join(joined)


def inline(text: str, page: str, cell: bool = False) -> str:
    """A paragraph: what Markdown or HTML would take for a mark is escaped, `names` become links."""
    parts, end = [], 0
    for match in CODE.finditer(text):
        parts += [plain(text[end : match.start()]), link(match[2], page) if match[1] == "`" else match[0]]
        end = match.end()
    whole = "".join([*parts, plain(text[end:])])
    return " ".join(whole.split()).replace("|", r"\|") if cell else whole


def plain(text: str) -> str:
    """Text outside of code; options of commands become code."""
    text = re.sub(r"(?<![\w-])(--[a-z][a-z-]+)", r"`\1`", text)
    text = re.sub(r"(?<!\*)\*(?!\*)", r"\*", text)
    return text.replace("<", "&lt;").replace("$", r"\$")


@cache
def places() -> dict[str, str]:
    """Where each name is described: by its path, and by its last part if that is a class of handful itself."""
    found = {}
    for path, name in public_names().items():
        found[path] = f"{name.page}.md#{anchor_of(path)}"
        for alias in name.aliases:
            found[alias] = found[path]
        if path.count(".") == 1 and inspect.isclass(name.value):
            found[path.rpartition(".")[2]] = found[path]
    return found


def link(code: str, page: str) -> str:
    """Code, with a link if it is the name of something that has an entry; page: "" is the index."""
    name = re.sub(r"\(.*\)$", "", code)
    near = [path for path, known in public_names().items() if known.page == page and path.endswith(f".{name}")]
    place = places().get(name) or places().get(near[0] if near else "") or places().get(name.partition(".")[0])
    if place is None or name == "handful":
        return f"`{code}`"
    there, _, anchor = place.partition("#")
    folder = {"commands": "../python/", "addresses": "python/"}.get(page, "")
    return f"[`{code}`]({'' if there == f'{page}.md' else folder + there}#{anchor})"


# ---- commands


@cache
def commands() -> dict[str, Any]:
    """The commands by name, in the order of --help."""
    import typer

    from handful.cli import app

    group: Any = typer.main.get_command(app)
    return dict(group.commands)


def command_pages() -> dict[str, str]:
    """A page for each command, and a table of all."""
    rows = [
        f"| [`handful {name}`]({name}.md) | {inline(summary(help_of(command)), 'commands', cell=True)} |"
        for name, command in commands().items()
    ]
    index = [
        "# Commands",
        "",
        "`handful COMMAND --help` prints what is on these pages. `handful --version` prints the version. A command "
        "that fails prints one sentence, and ends with the exit code 1; with 2 if an option is wrong, and with 130 "
        "after Ctrl-C.",
        "",
        "| command | what it does |",
        "|---|---|",
        *rows,
    ]
    made = {f"{COMMANDS}/index.md": "\n".join(index) + "\n"}
    return made | {f"{COMMANDS}/{name}.md": command_page(name, command) for name, command in commands().items()}


def help_of(command: Any) -> str:
    return str(command.help or "")


def command_page(name: str, command: Any) -> str:
    """Usage, paragraphs, and a table of the arguments and of each group of options."""
    words = [argument_name(p) for p in command.params if p.param_type_name == "argument"]
    kinds = value_types(name)
    first, _, rest = help_of(command).partition("\n\n")
    usage = f"```text\nhandful {name} [OPTIONS]{''.join(f' {word}' for word in words)}\n```"
    parts = [f"# handful {name}", prose(first, "commands"), usage, *([prose(rest, "commands")] if rest else [])]
    for panel, options in panels(command).items():
        rows = [
            f"| {option_cell(p, kinds[p.name])} | {inline(help_of(p), 'commands', cell=True)}{default_cell(p)} |"
            for p in options
        ]
        parts.append(f"## {panel}\n\n| name | meaning |\n|---|---|\n" + "\n".join(rows))
    return "\n\n".join(parts) + "\n"


@cache
def value_types(name: str) -> dict[str, Any]:
    """The annotation of each parameter of a command, from its function: versions of Typer keep it in other places."""
    from handful.cli import app

    (function,) = (one.callback for one in app.registered_commands if one.name == name)
    return {key: parameter.annotation for key, parameter in inspect.signature(function).parameters.items()}


def panels(command: Any) -> dict[str, list[Any]]:
    """Arguments and options, in the groups of --help."""
    groups: dict[str, list[Any]] = {}
    for parameter in command.params:
        usual = "Arguments" if parameter.param_type_name == "argument" else "Options"
        if not parameter.hidden and "--help" not in parameter.opts:
            groups.setdefault(parameter.rich_help_panel or usual, []).append(parameter)
    return {panel: groups[panel] for panel in sorted(groups, key=lambda panel: panel != "Arguments")}


def argument_name(parameter: Any) -> str:
    name = str(parameter.metavar or parameter.name.upper())
    name += "..." if parameter.nargs == -1 and not name.endswith("...") else ""
    return name if parameter.required else f"[{name}]"


def option_cell(parameter: Any, kind: Any) -> str:
    """The names of an option and the kind of its value."""
    if parameter.param_type_name == "argument":
        return f"`{argument_name(parameter)}`<br>{kind_of_value(parameter, kind)}"
    names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    return names if parameter.is_flag else f"{names}<br>{kind_of_value(parameter, kind)}"


def kind_of_value(parameter: Any, kind: Any) -> str:
    """What the value is: a path, a number, a text."""
    value, *details = get_args(kind) if get_origin(kind) is Annotated else (kind,)
    inner = [part for part in get_args(value) if part is not type(None)]
    many = get_origin(value) is list or any(get_origin(part) is list for part in inner)
    while inner:
        value, inner = inner[0], [part for part in get_args(inner[0]) if part is not type(None)]
    words = WORDS.get(value.__name__, value.__name__)
    if parameter.param_type_name == "option" and parameter.metavar:
        words = parameter.metavar.replace("|", " or ")
    low, high = (next((getattr(one, end) for one in details if hasattr(one, end)), None) for end in ("min", "max"))
    if low is not None or high is not None:
        words += f", up to {high}" if low is None else f", {low} or more" if high is None else f", {low} to {high}"
    return words + ", may be given several times" * (many and parameter.param_type_name == "option")


def default_cell(parameter: Any) -> str:
    """The default, if there is one and the help does not say it."""
    default = parameter.default
    if default in (None, "", (), []) or isinstance(default, bool) or callable(default) or parameter.required:
        return ""
    return "" if "Default:" in help_of(parameter) else f" Default: `{getattr(default, 'value', default)}`."


# ---- the servers


def addresses() -> str:
    """The addresses of the servers, from their OpenAPI schema."""
    schema = openapi()
    parts = [
        "# Addresses of the servers",
        "What `handful workbench` and `handful serve` answer, from their OpenAPI schema, which a running server has at "
        "`/api/v1/openapi.json`. [The servers](server.md) describes the token, the limits and the errors.",
    ]
    common = ("/api/v1/health", "/api/v1/solve")
    for title, is_common in (("Both servers", True), ("The workbench alone", False)):
        parts.append(f"## {title}")
        for path, methods in schema["paths"].items():
            if (path in common) is is_common:
                parts += [operation_entry(method, path, operation, schema) for method, operation in methods.items()]
    parts.append("## Objects")
    for name, model in sorted(schema["components"]["schemas"].items()):
        parts.append(f"### {name} {{ #{name} }}\n\n{model_entry(model)}")
    return "\n\n".join(parts) + "\n"


@cache
def openapi() -> dict[str, Any]:
    """The schema of the workbench, whose addresses are those of `handful serve` and more."""
    from types import SimpleNamespace

    from handful.workbench.server.app import make_app

    project: Any = SimpleNamespace(source=None)  # the addresses do not depend on it
    schema: dict[str, Any] = make_app(project, token="", port=0).app.openapi()
    return schema


def operation_entry(method: str, path: str, operation: dict[str, Any], schema: dict[str, Any]) -> str:
    """One address: what it does, what it takes, what it answers."""
    text = operation.get("description") or operation.get("summary", "")
    address = path.removeprefix("/api/v1")
    anchor = re.sub(r"[{}]", "", f"{method}{address}").replace("/", "-")
    lines = [f"### `{method.upper()} {address}` {{ #{anchor} }}"]
    lines += ["", inline(text.rstrip("."), "addresses") + ".", ""]
    for parameter in operation.get("parameters", ()):
        kind = kind_of_schema(parameter["schema"])
        default = parameter["schema"].get("default")
        kind += f", default {default!r}" if default not in (None, "") else ""
        where = "" if parameter["in"] == "query" else " in the address"
        lines.append(bullet(parameter["name"], f"{kind}{where}", inline(parameter.get("description", ""), "addresses")))
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        lines.append(f"- Body, `{kind}`: {kind_of_schema(content['schema'], links=True)}")
        if "properties" in content["schema"]:
            entry = model_entry(content["schema"]).splitlines()
            lines += ["", *(f"    {line}".rstrip() for line in entry), ""]
    for status, answer in operation["responses"].items():
        if status.startswith("2"):
            content = answer.get("content", {})
            kinds = [
                f"`{kind}` {kind_of_schema(one['schema'], links=True)}".strip()
                for kind, one in content.items()
                if "schema" in one
            ]
            lines.append(f"- Answer {status}: {', '.join(kinds) or 'see above'}")
    return "\n".join(lines)


def model_entry(model: dict[str, Any]) -> str:
    """The fields of an object."""
    lines = [inline(model.get("description", ""), "addresses"), ""]
    required = model.get("required", ())
    for name, one in model.get("properties", {}).items():
        kind = kind_of_schema(one) + ("" if name in required else ", optional")
        lines.append(bullet(name, kind, inline(one.get("description", ""), "addresses")))
    return "\n".join(lines).strip()


def kind_of_schema(one: dict[str, Any], links: bool = False) -> str:
    """A JSON type in words."""
    if "$ref" in one:
        name = one["$ref"].rpartition("/")[2]
        return f"[{name}](#{name})" if links else name
    if "anyOf" in one:
        return " or ".join(kind_of_schema(part, links) for part in one["anyOf"])
    if "enum" in one:
        return " or ".join(f'"{value}"' for value in one["enum"])
    if one.get("type") == "array":
        return f"list of {kind_of_schema(one.get('items', {}), links) or 'anything'}"
    if one.get("type") == "object" and "additionalProperties" in one:
        more = one["additionalProperties"]
        return f"object of {kind_of_schema(more, links)}" if isinstance(more, dict) and more else "object"
    return str(one.get("format") or one.get("type") or one.get("const") or "anything")
