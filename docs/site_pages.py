"""What MkDocs asks while it builds the site: pages made from the code, links out of docs/, equations.

Pages on disk are read on a code host too, so their links are those of the repository. Here each link is followed in the
repository and then written for the site. What the site does not have, such as a source file, is named without a link.
"""

from __future__ import annotations

import html as entities
import os
import re
import sys
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
sys.path.insert(0, str(DOCS))
import site_examples  # noqa: E402
import site_methods  # noqa: E402
import site_reference  # noqa: E402

FENCE = re.compile(r"^ *```.*?^ *```", re.M | re.S)
INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.S)
ALIGNED = r"\begin{aligned}", r"\end{aligned}"
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
HOMES = {  # where files outside docs/ are in the site
    ROOT / "README.md": "index.md",
    ROOT / "CONTRIBUTING.md": "building/index.md",
    ROOT / "CHANGELOG.md": "building/changelog.md",
}
SEARCH_WEIGHTS = {"tutorials": 2, "how-to": 4, "explanation": 2, "reference": 0.5, "results": 0.3, "measured": 0.2}
EXAMPLES = ROOT / "examples"
MEASURED = ROOT / "benchmarks" / "results"


def on_config(config: Any) -> Any:
    """Let fences of the kind `math` become MathML, and put what is made from the code into the navigation."""
    fences = config.mdx_configs.setdefault("pymdownx.superfences", {}).setdefault("custom_fences", [])
    fences.append({"name": "math", "class": "math", "format": math_block})
    sections = {next(iter(entry)): next(iter(entry.values())) for entry in config.nav}
    commands = next(one for one in sections["Reference"] if isinstance(one, dict) and "Commands" in one)
    commands["Commands"] = [path for path in site_reference.pages() if path.startswith(site_reference.COMMANDS)]
    sections["Examples"].extend(path for path in site_examples.pages() if path.endswith(".md"))
    sections["Results"].extend(sorted(f"results/{path.name}" for path in (DOCS / "results").glob("[a-z]*.md")))
    sections["Results"].append({"Benchmarks": [f"measured/{path.name}" for path in sorted(MEASURED.glob("*.md"))]})
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are not in docs/: the reference, the examples, measured results, the changelog."""
    made: dict[str, str | bytes] = {**site_reference.pages(), **site_examples.pages()}
    for path in sorted(MEASURED.glob("*")):
        if path.suffix in (".md", ".png", ".svg"):
            made[f"measured/{path.name}"] = path.read_bytes() if path.suffix != ".md" else path.read_text("utf-8")
    made["building/changelog.md"] = (ROOT / "CHANGELOG.md").read_text("utf-8")
    for name, content in made.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Write the links of a page for the site, and let the search prefer pages that help over those that list."""
    folder = page.file.src_uri.split("/")[0]
    if page.file.src_uri == "reference/methods.md":
        markdown += f"\n{site_methods.sections()}"
    page.meta.setdefault("search", {"boost": SEARCH_WEIGHTS.get(folder, 1)})
    home, parts, end = source_of(page.file.src_uri), [], 0
    for fence in FENCE.finditer(markdown):
        parts += [relink(markdown[end : fence.start()], home, page.file.src_uri), fence[0]]
        end = fence.end()
    return "".join([*parts, relink(markdown[end:], home, page.file.src_uri)])


def on_page_content(html: str, **_: Any) -> str:
    """Show inline equations, and let wide tables scroll by themselves."""
    html = INLINE.sub(lambda match: mathml(entities.unescape(match[1]), "inline"), html)
    return re.sub(r"<table>.*?</table>", lambda table: f'<div class="wide">{table[0]}</div>', html, flags=re.S)


def source_of(uri: str) -> Path:
    """The file of the repository that a page of the site was made from."""
    for path, place in HOMES.items():
        if place == uri and not (DOCS / uri).exists():
            return path
    return MEASURED / uri.removeprefix("measured/") if uri.startswith("measured/") else DOCS / uri


def relink(text: str, home: Path, uri: str) -> str:
    """Text of a page with its links as the site has them."""

    def written(match: re.Match[str]) -> str:
        mark, words, link = match.groups()
        path, _, heading = link.partition("#")
        if not path or re.match(r"[a-z]+:", path):
            return match[0]
        place = place_of(Path(os.path.normpath(home.parent / path)))
        if place is None:
            return words
        there = os.path.relpath(place, Path(uri).parent)
        return f"{mark}[{words}]({there}{'#' * bool(heading)}{heading})"

    return LINK.sub(written, text)


def place_of(path: Path) -> str | None:
    """Where a file of the repository is in the site; None if it is not."""
    if path in HOMES:
        return HOMES[path]
    if path.is_relative_to(EXAMPLES):
        return str(Path("examples", path.relative_to(EXAMPLES).with_suffix(".md"))).replace("README", "index")
    if path.is_relative_to(MEASURED):
        return f"measured/{path.relative_to(MEASURED)}" if path.suffix in (".md", ".png", ".svg") else None
    if not path.is_relative_to(DOCS):
        return None
    return str(path.relative_to(DOCS) / ("README.md" if path.is_dir() else ""))


def math_block(source: str, *_: object, **__: object) -> str:
    """A fence of the kind `math`; the arguments are those of pymdownx.superfences."""
    return f'<div class="math">{mathml(source, "block")}</div>'


def mathml(source: str, display: str) -> str:
    """An equation, or several lines with `&` and `\\\\`, as MathML."""
    source = source.strip().replace(r"\arg\max", r"\mathrm{arg\,max}")
    if "&" in source and r"\begin" not in source:
        source = f"{ALIGNED[0]}{source}{ALIGNED[1]}"
    found = convert(source, display=display)
    if unknown := re.findall(r"<m[a-z]+>(\\\w+)", found):
        raise ValueError(f"the equation {source!r} has what MathML cannot show: {', '.join(unknown)}")
    return found
