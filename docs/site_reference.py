"""Pages of the reference that are made from the code: commands by Typer, addresses of the servers from OpenAPI. ::

    pages()                    # {"reference/commands/label.md": "# `handful label` ...", ...}, for docs/site_pages.py

Python names are on pages of docs/reference/python: mkdocstrings reads them from the source.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

COMMANDS, ADDRESSES = "reference/commands", "reference/addresses.md"
INDEX = """# Commands

`handful COMMAND --help` prints what is on these pages. `handful --version` prints the version. A command that fails
prints one sentence, and ends with the exit code 1; with 2 if an option is wrong, and with 130 after Ctrl-C.

| command | what it does |
|---|---|
"""
OPENING = """# Addresses of the servers

What `handful workbench` and `handful serve` answer, from their OpenAPI schema, which a running server has at
`/api/v1/openapi.json`. [The servers](server.md) describes the token, the limits and the errors. `handful serve` has
only `/health` and `/solve`.
"""


@cache
def pages() -> dict[str, str]:
    """All pages by their place in the site."""
    return {**command_pages(), ADDRESSES: addresses()}


@cache
def commands() -> dict[str, Any]:
    """The commands by name, in the order of --help."""
    import typer

    from handful.cli import app

    group: Any = typer.main.get_command(app)
    return dict(group.commands)


def command_pages() -> dict[str, str]:
    """A page for each command, and a table of all."""
    import typer
    from typer.cli import get_docs_for_click

    made, index = {}, INDEX
    for name, command in commands().items():
        context = typer.Context(command, info_name=f"handful {name}")
        text = get_docs_for_click(obj=command, ctx=context, name=name, call_prefix="handful")
        made[f"{COMMANDS}/{name}.md"] = text.replace("```console", "```text")
        summary = " ".join(command.help.partition("\n\n")[0].split())
        index += f"| [`handful {name}`]({name}.md) | {summary} |\n"
    return {f"{COMMANDS}/index.md": index, **made}


@cache
def openapi() -> dict[str, Any]:
    """The schema of the workbench, whose addresses are those of `handful serve` and more."""
    from types import SimpleNamespace

    from handful.workbench.server.app import make_app

    project: Any = SimpleNamespace(source=None)  # the addresses do not depend on it
    schema: dict[str, Any] = make_app(project, token="", port=0).app.openapi()
    return schema


def addresses() -> str:
    """Each address with what it takes and answers, and the objects in these."""
    parts = [OPENING]
    for path, methods in openapi()["paths"].items():
        for method, operation in methods.items():
            parts.append(f"## `{method.upper()} {path.removeprefix('/api/v1')}`\n\n{plain(operation['description'])}\n")
            parts += [field(one["name"], one["schema"], one) for one in operation.get("parameters", ())]
            for kind, content in operation.get("requestBody", {}).get("content", {}).items():
                parts.append(f"- Body, `{kind}`: {type_of(content['schema'])}")
            contents = operation["responses"].get("200", {}).get("content", {})
            answers = [type_of(one["schema"]) for one in contents.values() if one.get("schema")]
            parts.append(f"- Answer: {', '.join(answers)}\n" if answers else "")
    parts.append("## Objects\n")
    for name, model in sorted(openapi()["components"]["schemas"].items()):
        parts.append(f"### {name} {{ #{name} }}\n\n{plain(model.get('description', ''))}\n")
        parts += [field(key, one, one) for key, one in model.get("properties", {}).items()] + [""]
    return "\n".join(parts)


def field(name: str, schema: dict[str, Any], about: dict[str, Any]) -> str:
    """A parameter or a field as an entry of a list."""
    return f"- `{name}` ({type_of(schema)}): {plain(about.get('description', ''))}".rstrip(": ")


def type_of(schema: dict[str, Any]) -> str:
    """A JSON type in words, with links to objects."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name})"
    if "anyOf" in schema:
        return " or ".join(type_of(part) for part in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {type_of(schema.get('items', {}))}"
    if "properties" in schema:
        fields = (f"`{key}`: {type_of(one)}" for key, one in schema["properties"].items())
        return f"an object of {', '.join(fields)}"
    return str(schema.get("format") or schema.get("type") or schema.get("const") or "anything")


def plain(text: str) -> str:
    """A description in one paragraph; what HTML would take for a mark is escaped."""
    return re.sub(r"\s+", " ", text).replace("<", "&lt;").strip()
