"""The examples as pages of the site: each notebook and script of examples/ is run, and its page shows what came out.

`pages()` returns the contents of all pages and pictures by their path in the site. The outputs of a run are kept in a
cache folder, by a hash of the example and of the package, so that the next build does not run it again.
"""

from __future__ import annotations

import ast
import asyncio
import base64
import hashlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
CACHE = ROOT / "build" / "site-examples"
CELL_TIMEOUT_S = 300
MAX_PICTURE_BYTES = 100_000  # a larger picture gets a palette of 256 colours
MARKED = "<!-- made from examples/{name} by docs/site_examples.py -->"
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def pages(cache: Path = CACHE) -> dict[str, str | bytes]:
    """Pages (text) and pictures (bytes) by their path in the site, such as examples/digits.md."""
    site: dict[str, str | bytes] = {"examples/index.md": site_links((EXAMPLES / "README.md").read_text("utf-8"))}
    for path in sources():
        site |= notebook_page(path, cache) if path.suffix == ".ipynb" else script_page(path, cache)
        site[f"examples/{path.name}"] = path.read_bytes()  # for download
    return site


def sources() -> list[Path]:
    """The notebooks and scripts, by name."""
    return sorted(path for path in EXAMPLES.iterdir() if path.suffix in (".ipynb", ".py"))


def notebook_page(path: Path, cache: Path) -> dict[str, str | bytes]:
    import nbformat

    stored = cache / f"{path.stem}-{_key(path)}.ipynb"
    if stored.exists():
        notebook = nbformat.read(stored, as_version=4)
    else:
        notebook = run_notebook(nbformat.read(path, as_version=4))
        _store(stored, nbformat.writes(notebook))
    return to_markdown(notebook, path.name)


def script_page(path: Path, cache: Path) -> dict[str, str | bytes]:
    stored = cache / f"{path.stem}-{_key(path)}.txt"
    if not stored.exists():
        _store(stored, run_script(path))
    source = path.read_text("utf-8")
    title, _, rest = (ast.get_docstring(ast.parse(source)) or path.stem).partition("\n\n")
    parts = [f"# {title.rstrip('.')}", _origin(path.name), rest, fence(source, "python"), "It prints:"]
    parts.append(fence(stored.read_text("utf-8"), "text"))
    return {f"examples/{path.stem}.md": "\n\n".join(filter(None, parts)) + "\n"}


def run_notebook(notebook: Any, folder: str | Path | None = None) -> Any:
    """Run all cells in a folder, by default a temporary one; the notebook with outputs. Raises if a cell fails."""
    from nbclient import NotebookClient

    with TemporaryDirectory() as own:
        if sys.platform == "win32":  # the default loop of Windows cannot wait for the sockets of a kernel
            asyncio.set_event_loop_policy(asyncio.WindowsSelectorEventLoopPolicy())
        where = {"metadata": {"path": str(folder or own)}}
        quiet = ["--IPKernelApp.log_level=ERROR"]  # else each kernel warns that it listens on this machine
        client = NotebookClient(
            notebook, timeout=CELL_TIMEOUT_S, kernel_name="python3", resources=where, extra_arguments=quiet
        )
        return client.execute(env=_environment(own) | {"MPLBACKEND": "module://matplotlib_inline.backend_inline"})


def run_script(path: Path, folder: str | Path | None = None) -> str:
    """What a script prints, run in a folder, by default a temporary one. Raises if it fails."""
    with TemporaryDirectory() as own:
        env = _environment(own) | {"MPLBACKEND": "agg"}
        done = subprocess.run(
            [sys.executable, str(path.resolve())], cwd=folder or own, env=env, capture_output=True, encoding="utf-8",
            timeout=CELL_TIMEOUT_S,
        )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{path.name} failed with exit code {done.returncode}:\n{done.stderr}")
    return done.stdout


def to_markdown(notebook: Any, name: str) -> dict[str, str | bytes]:
    """The page of a notebook with outputs, and its pictures."""
    stem, files, parts = Path(name).stem, {}, []
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type != "code":
            parts.append(site_links(cell.source))
            continue
        parts.append(fence(cell.source, "python"))
        for k, output in enumerate(cell.outputs):
            data = {"text/plain": output.text} if output.output_type == "stream" else output.get("data", {})
            if "image/png" in data:
                picture = f"{stem}_{number}_{k}.png"
                files[f"examples/{picture}"] = smaller(base64.b64decode(data["image/png"]))
                parts.append(f"![{cell.metadata.get('alt', '')}]({picture})")
            elif "text/markdown" in data:
                parts.append(data["text/markdown"])
            elif "text/html" in data:
                parts.append(html_block(data["text/html"]))
            elif "text/plain" in data:
                parts.append(fence(COLOURS.sub("", data["text/plain"]), "text"))
    if parts[0].startswith("# "):  # the origin comes below the title
        title, _, rest = parts[0].partition("\n")
        parts[:1] = [title, _origin(name), rest.strip()]
    return {f"examples/{stem}.md": "\n\n".join(filter(None, parts)) + "\n", **files}


def html_block(html: str) -> str:
    """HTML of an output as a block of Markdown: no blank lines. Tables of pandas look like other tables of the site."""
    html = re.sub(r"<style scoped>.*?</style>", "", html, flags=re.S).replace(' border="1" class="dataframe"', "")
    lines = (line.strip() for line in html.splitlines())  # an indented line would be code
    return "\n".join(['<div class="output">', *filter(None, lines), "</div>"])


def smaller(png: bytes) -> bytes:
    """The picture, with 256 colours if it is large: photographs are a third of their size then."""
    if len(png) <= MAX_PICTURE_BYTES:
        return png
    from PIL import Image

    file = io.BytesIO()
    Image.open(io.BytesIO(png)).convert("RGB").quantize(256).save(file, "PNG", optimize=True)
    return file.getvalue()


def site_links(text: str) -> str:
    """Links between files of the repository as links between pages of the site: docs/ is the site's root there."""
    text = re.sub(r"\]\(\.\./docs/", "](../", text)
    return re.sub(r"\]\((\w+)\.(?:ipynb|py)\)", r"](\1.md)", text)


def fence(text: str, language: str) -> str:
    """A code block, with more backticks around than there are inside."""
    longest = max(map(len, re.findall(r"`+", text)), default=0)
    ticks = "`" * max(3, longest + 1)
    return f"{ticks}{language}\n{text.rstrip()}\n{ticks}"


def _origin(name: str) -> str:
    return f"{MARKED.format(name=name)}\n\nTo run it yourself: [{name}]({name})."


def _environment(folder: str) -> dict[str, str]:
    """That of this process, with this copy of handful first, and without the user's settings of IPython and Jupyter.

    handful's cache is the usual one: it holds compiled code, which takes longer to make than most examples to run.
    """
    paths = filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    own = {name: os.path.join(folder, name) for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR")}
    fixed = {"COLUMNS": "100", "PYTHONUTF8": "1", "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    return os.environ | own | fixed | {"PYTHONPATH": os.pathsep.join(paths)}


def _key(path: Path) -> str:
    """Changes when the example or the package does."""
    digest = hashlib.sha256(path.read_bytes())
    for module in sorted((ROOT / "src" / "handful").rglob("*.py")):
        digest.update(module.read_bytes())
    return digest.hexdigest()[:16]


def _store(path: Path, text: str) -> None:
    """Write a file of the cache, without those of earlier versions of the same example."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for old in path.parent.glob(f"{path.stem.rpartition('-')[0]}-*{path.suffix}"):
        old.unlink()
    part = path.with_suffix(".part")
    part.write_text(text, "utf-8")
    part.replace(path)
