"""The map of imports between the rooms of handful, read from the code.

    python scripts/rooms.py            # print the map, cycles, and imports that only a type checker sees
    python scripts/rooms.py --write    # put the map into docs/building/index.md, and draw it
    python scripts/rooms.py --check    # write nothing; exit with 1 if that page disagrees or there is a cycle

A room is a folder of src/handful. Imports inside functions count; those under `if TYPE_CHECKING` are listed apart,
because they never run. tests/test_house.py asserts what the map must be.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "handful"
PAGE = ROOT / "docs" / "building" / "index.md"
PICTURE = ROOT / "docs" / "pictures" / "rooms.svg"
BEGIN, END = "<!-- rooms: begin (written by scripts/rooms.py) -->", "<!-- rooms: end -->"
Graph = dict[str, set[str]]


class Import(NamedTuple):
    """One import of a module of handful by another; the names are relative to handful, "" is handful itself."""

    importer: str
    imported: str
    file: Path
    line: int
    inside_function: bool
    only_for_types: bool
    star: bool

    @property
    def place(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line}"


def modules() -> dict[str, Path]:
    """Each module's name, relative to handful, and its file."""
    names = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


def imports() -> list[Import]:
    """Every import of handful by itself."""
    known = modules()
    return [one for name, path in known.items() for one in dict.fromkeys(_imports_of(name, path, known))]


def _imports_of(name: str, path: Path, known: Mapping[str, Path]) -> Iterator[Import]:
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node, inside_function, only_for_types in _import_nodes(ast.parse(path.read_text("utf-8"))):
        for target, star in _targets(node, list(filter(None, package)), known):
            if target != name:
                yield Import(name, target, path, node.lineno, inside_function, only_for_types, star)


def _import_nodes(
    node: ast.AST, inside_function: bool = False, only_for_types: bool = False
) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool, bool]]:
    """Each import below a node, whether it is inside a function, and whether it is under `if TYPE_CHECKING`."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield node, inside_function, only_for_types
    elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        for child in node.body:
            yield from _import_nodes(child, inside_function, True)
        for child in node.orelse:
            yield from _import_nodes(child, inside_function, only_for_types)
    else:
        inside_function |= isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            yield from _import_nodes(child, inside_function, only_for_types)


def _targets(
    node: ast.Import | ast.ImportFrom, package: list[str], known: Mapping[str, Path]
) -> Iterator[tuple[str, bool]]:
    """The modules of handful that an import statement names, and whether it takes all names of them."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            first, _, rest = alias.name.partition(".")
            if first == "handful":
                yield rest, False
        return
    if node.level:
        base = ["handful", *package][: len(package) + 2 - node.level] + (node.module or "").split(".")
    else:
        base = (node.module or "").split(".")
    if base[0] != "handful":
        return
    above = ".".join(filter(None, base[1:]))
    for alias in node.names:
        below = f"{above}.{alias.name}".lstrip(".")
        yield (below if below in known else above), alias.name == "*"


def room(module: str) -> str:
    """The room that a module belongs to; handful's own module is in "__init__"."""
    return module.split(".")[0] or "__init__"


def room_graph(found: list[Import] | None = None) -> Graph:
    """For each room, the other rooms that it imports; handful itself and __main__ are no rooms."""
    rooms = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()}
    graph: Graph = {name: set() for name in sorted(rooms)}
    for one in imports() if found is None else found:
        importer, imported = room(one.importer), room(one.imported)
        if {importer, imported} <= rooms and importer != imported and not one.only_for_types:
            graph[importer].add(imported)
    return graph


def module_graph(found: list[Import] | None = None) -> Graph:
    """For each module, the modules that it imports when it runs; a package counts as its __init__."""
    graph: Graph = {name: set() for name in modules()}
    for one in imports() if found is None else found:
        if not one.only_for_types:
            graph[one.importer].add(one.imported)
    return graph


def cycles(graph: Graph) -> list[list[str]]:
    """The sets of nodes that reach each other (strongly connected components of more than one node), sorted."""
    order: list[str] = []
    visited: set[str] = set()

    def visit(start: str, edges: Mapping[str, set[str]], into: list[str]) -> None:
        stack = [(start, iter(sorted(edges[start])))]
        visited.add(start)
        while stack:
            node, rest = stack[-1]
            following = next((other for other in rest if other not in visited), None)
            if following is None:
                into.append(node)
                stack.pop()
            else:
                visited.add(following)
                stack.append((following, iter(sorted(edges[following]))))

    for node in sorted(graph):
        if node not in visited:
            visit(node, graph, order)
    backwards: Graph = {node: set() for node in graph}
    for node, others in graph.items():
        for other in others:
            backwards[other].add(node)
    visited.clear()
    components = []
    for node in reversed(order):
        if node not in visited:
            visit(node, backwards, component := [])
            components.append(sorted(component))
    return sorted(component for component in components if len(component) > 1)


def levels(graph: Graph) -> list[list[str]]:
    """The rooms from the ground up: each room imports only rooms of lower levels, as far as there is no cycle."""
    left, height = dict(graph), []
    while left:
        free = sorted(name for name, others in left.items() if not others & left.keys())
        if not free:  # a cycle: draw what is left as one level
            free = sorted(left)
        height.append(free)
        left = {name: others for name, others in left.items() if name not in free}
    return height


def draw(graph: Graph) -> str:
    """The map as text: a line for each room, those that import the most on top."""
    width = max(map(len, graph))
    lines = []
    for number, names in reversed(list(enumerate(levels(graph)))):
        for name in names:
            arrows = " ".join(sorted(graph[name])) or "nothing"
            lines.append(f"{number:2} {name:{width}} -> {arrows}")
    return "\n".join(lines)


def picture(graph: Graph) -> str:
    """The map as an SVG: a row for each level, a box for each room, a line for each import.

    A line is left out if a longer way through other rooms leads to the same room.
    """
    width, gap, box = 900, 74, (104, 30)
    rows = levels(graph)
    height = gap * len(rows) + 10
    place = {}
    for level, names in enumerate(rows):
        for i, name in enumerate(names):
            shift = 0.28 * width * (-1 if level % 2 else 1) / 2 if len(names) == 1 and 0 < level < len(rows) - 1 else 0
            place[name] = (width * (i + 1) / (len(names) + 1) + shift, height - gap * level - 40)
    shapes = []
    for name, others in graph.items():
        for other in sorted(others - set().union(*(_below(one, graph) for one in others))):
            (x, y), (u, v) = place[name], place[other]
            top, end = y + box[1] / 2, v - box[1] / 2
            bend = (end - top) / 2
            curve = f"M{x:.0f} {top:.0f}C{x:.0f} {top + bend:.0f} {u:.0f} {end - bend:.0f} {u:.0f} {end:.0f}"
            shapes.append(f'<path class="{name} {other}" d="{curve}"/>')
    for name, (x, y) in place.items():
        shapes.append(f'<rect x="{x - box[0] / 2:.0f}" y="{y - box[1] / 2:.0f}" width="{box[0]}" height="{box[1]}"/>')
        shapes.append(f'<text x="{x:.0f}" y="{y + 5:.0f}">{name}</text>')
    style = (
        "path{fill:none;stroke:#00796b;stroke-opacity:.6;stroke-width:1.5px}rect{fill:#e0f2f1;stroke:#00796b;rx:6px}"
        "text{font:14px sans-serif;text-anchor:middle;fill:#123}"
    )
    start = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">'
    title = "<title>Which room of handful imports which</title>"
    ground = f'<rect width="{width}" height="{height}" style="fill:#fff;stroke:none"/>'
    return "\n".join([start, title, f"<style>{style}</style>", ground, *shapes, "</svg>", ""])


def _below(name: str, graph: Graph) -> set[str]:
    """All rooms that a room needs, without itself."""
    return graph[name].union(*(_below(other, graph) for other in graph[name]))


def explain_arrow(importer: str, imported: str, found: list[Import]) -> str:
    """An arrow between two rooms, and the places of its imports if there are few."""
    arrow = [one for one in found if (room(one.importer), room(one.imported)) == (importer, imported)]
    places = [one for one in arrow if not one.only_for_types]
    if not places:
        return f"{importer} -> {imported}: no import"
    listed = ", ".join(f"{one.place}{' (in a function)' if one.inside_function else ''}" for one in places[:4])
    return f"{importer} -> {imported}: {len(places)} imports, {listed}{', ...' if len(places) > 4 else ''}"


def explain_room_cycles(found: list[Import]) -> list[str]:
    """For each cycle of rooms a heading and its arrows, those with the fewest imports first."""
    graph, lines = room_graph(found), []
    for members in cycles(graph):
        lines.append("cycle of the rooms " + ", ".join(members))
        arrows = [(importer, imported) for importer in members for imported in graph[importer] & set(members)]
        arrows.sort(key=lambda arrow: (sum((room(i.importer), room(i.imported)) == arrow for i in found), arrow))
        lines += [f"  {explain_arrow(*arrow, found)}" for arrow in arrows]
    return lines


def explain_module_cycles(found: list[Import]) -> list[str]:
    """For each cycle of modules a heading and its imports."""
    lines = []
    for members in cycles(module_graph(found)):
        lines.append("cycle of the modules " + ", ".join(name or "handful" for name in members))
        for one in found:
            if one.importer in members and one.imported in members and not one.only_for_types:
                where = " (in a function)" if one.inside_function else ""
                lines.append(f"  {one.importer or 'handful'} -> {one.imported or 'handful'}: {one.place}{where}")
    return lines


def page_with_map(text: str) -> str:
    """docs/building/index.md with the map as it is now between the markers."""
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n```text\n{draw(room_graph())}\n```\n{END}{after}"


def main(arguments: list[str]) -> int:
    found = imports()
    text = PAGE.read_text("utf-8")
    if "--write" in arguments:
        PAGE.write_text(page_with_map(text), "utf-8")
        PICTURE.write_text(picture(room_graph(found)), "utf-8")
        return 0
    print(draw(room_graph(found)))
    problems = explain_room_cycles(found) + explain_module_cycles(found)
    if page_with_map(text) != text:
        problems.append(f"{PAGE.name} has another map: python scripts/rooms.py --write")
    if not PICTURE.exists() or PICTURE.read_text("utf-8") != picture(room_graph(found)):
        problems.append(f"{PICTURE.name} shows another map: python scripts/rooms.py --write")
    print("\n".join(problems))
    if "--check" not in arguments:
        for one in found:
            if one.only_for_types:
                print(f"only for types: {one.importer or 'handful'} -> {one.imported} ({one.place})")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
