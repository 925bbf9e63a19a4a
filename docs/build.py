"""Build the documentation of the methods from the registry: docs/reference/methods.md, docs/pictures/methods. ::

    python docs/build.py            # a minute; writes them (pictures need matplotlib and every extra)
    python docs/build.py --quick    # some seconds; writes them into a temporary folder, with some of the pictures
    python docs/build.py --check    # writes nothing; prints what does not agree with the registry, and exits with 1

Words and equations are in methods_text.py, the meaning of a parameter in the docstring of its method, the toy task and
its pictures in toy.py. The check of a picture covers its presence, format and size, because versions of matplotlib draw
differently.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from textwrap import dedent, fill
from typing import Any

import methods_text as words
import toy

from handful.estimators.factory import parameter_texts
from handful.methods import Info
from handful.methods.contract import FEW_SHOTS
from handful.methods.registry import find_method
from handful.solving import get_solver, list_methods

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))
from _script import Parser

DOCS = Path(__file__).resolve().parent
QUICK_PICTURES = ("eol", "knn")
PAGE, PICTURES = DOCS / "reference" / "methods.md", DOCS / "pictures" / "methods"
MAX_PICTURE_BYTES = 25_000
GREEK = ("alpha", "beta", "gamma", "delta", "eta", "kappa", "lambda", "tau", "xi")
SYMBOL = re.compile(rf"""(?<![\w"`])({"|".join(GREEK)})(?:_([a-z]+))?(?![\w"`])""")  # a name in quotes is no symbol
GROUPS = {  # heading -> (setting, paradigm), None for any
    "Open-set, transductive": ("open-set", "transductive"),
    "Open-set, inductive": ("open-set", "inductive"),
    "Closed-set, transductive": ("closed-set", "transductive"),
    "Closed-set, inductive": ("closed-set", "inductive"),
    "Detectors": ("detector", None),
}


def registry_names() -> list[str]:
    """The methods of this package; other packages may have registered more."""
    return [name for name in list_methods() if find_method(name).solve.__module__.startswith("handful.")]


def own_methods() -> list[Info]:
    """The `Info` of each of these methods, in the order of the page."""
    own = [get_solver(name).info for name in registry_names()]
    return [info for heading in GROUPS for info in members(heading, own)]


def members(heading: str, infos: Iterable[Info]) -> list[Info]:
    """The methods of a group: `eol` first, then the newest first."""
    setting, paradigm = GROUPS[heading]
    group = [info for info in infos if info.setting == setting and paradigm in (None, info.paradigm)]
    return sorted(group, key=lambda info: (info.name != "eol", -info.year, info.name))


def page() -> str:
    infos = own_methods()
    parts = [
        "<!-- made by docs/build.py from the registry, docs/methods_text.py and docs/toy.py: change those -->",
        "# Methods",
        words.OPENING,
        overview(infos),
        _reflow(
            "`extra`: what must be installed too, as in `pip install 'handful[ood]'`. `needs`: what must be passed, "
            "see *Base classes*. If a default depends on the shots, the one for 1 shot is used below "
            f"{FEW_SHOTS:.1f} examples per class, and the one for 5 shots otherwise."
        ),
        *(_reflow(text) for text in (words.PREPARATION, words.SYMBOLS, words.PICTURES)),
        "![Every method on the toy task](../pictures/methods/all.png)",
    ]
    for heading in GROUPS:
        parts += [f"## {heading}", *(section(info) for info in members(heading, infos))]
    return "\n\n".join(parts) + "\n"


def overview(infos: list[Info]) -> str:
    rows = [
        [
            f"[{i.name}](#{i.name})", i.title, i.year, i.paradigm, i.setting, ", ".join(i.preparation),
            i.extra or "", i.needs or "",
        ]
        for i in infos
    ]  # fmt: skip
    return _table(["name", "title", "year", "paradigm", "setting", "preparation", "extra", "needs"], rows)


def section(info: Info) -> str:
    own = words.TEXT[info.name]
    paper = re.sub(r"arXiv (\d{4}\.\d{5})", r"[arXiv \1](https://arxiv.org/abs/\1)", info.paper)
    source = f"src/handful/methods/{info.name}.py"
    equations = "\n".join(["```math", r"\begin{aligned}", dedent(own.equations).strip(), r"\end{aligned}", "```"])
    decision = {
        "probability": "where that is more probable than the closest class",
        "rank": "the `outlier_share` of the pile with the highest scores",
    }[info.score]
    facts = [
        f'- Called: `handful.solve(..., method="{info.name}")`, `handful.estimators.{info.estimator}()`',
        f"- Source: [{source}](../../{source})",
        f"- Kind: {info.paradigm}, {info.setting}; preparation: {', '.join(info.preparation)}"
        + (f"; needs `handful[{info.extra}]`" if info.extra else "")
        + ("; needs a `base`" if info.needs else ""),
        f"- Unknown: {decision}",
        f"- New items: {info.new_items}",
    ]
    parts = [
        f"### {info.name}",
        f"**{own.full_name}.** {info.authors} ({info.year}): *{paper}*",
        _reflow(own.paragraph),
        equations,
        parameters(info.name),
        "\n".join(facts),
        f"![{info.title} on the toy task](../pictures/methods/{info.name}.png)",
    ]
    return "\n\n".join(parts)


def parameters(name: str) -> str:
    method = get_solver(name)
    texts = meanings(name)
    rows = []
    for key, default in method.defaults.items():
        shots = method.info.by_shots.get(key)
        default_text = f"`{_code(default)}`"
        if shots:
            default_text = ", ".join(f"`{_code(v)}` ({n} {'shot' if n == '1' else 'shots'})" for n, v in shots.items())
        rows.append([f"`{key}`", default_text, method.rules.get(key, ""), texts[key]])
    return _table(["parameter", "default", "takes", "meaning"], rows) if rows else "No parameters of its own."


def meanings(name: str) -> dict[str, str]:
    """What each parameter of a method means, from the docstring of its function; its symbols as LaTeX."""
    entries = parameter_texts(inspect.getdoc(find_method(name).solve) or "")
    texts = {key: " ".join(entry.partition("\n")[2].split()) for key, entry in entries.items()}
    return {key: SYMBOL.sub(_latex, texts[key]) for key in find_method(name).defaults}


def _latex(symbol: re.Match[str]) -> str:
    index = symbol[2]
    if index is None:
        return rf"$\{symbol[1]}$"
    subscript = rf"\{index}" if index in GREEK else index if len(index) == 1 else rf"{{\mathrm{{{index}}}}}"
    return rf"$\{symbol[1]}_{subscript}$"


def check() -> list[str]:
    """A sentence for everything that does not agree with the registry."""
    problems = []
    try:
        texts = {PAGE: page()}
    except KeyError as error:
        return [f"neither docs/methods_text.py nor a docstring of a method describes {error}"]
    for path, text in texts.items():
        lines = path.read_text("utf-8").splitlines() if path.exists() else []
        for number, line in enumerate(text.splitlines()):
            if number >= len(lines) or lines[number] != line:
                problems.append(f"{path.name} line {number + 1} should be: {line}")
                break
        else:
            if len(lines) > len(text.splitlines()):
                problems.append(f"{path.name} has lines after its end")
    return problems + check_pictures()


def check_pictures() -> list[str]:
    from PIL import Image

    problems = []
    names = {info.name for info in own_methods()}
    for name in sorted(names | {"all"}):
        path = PICTURES / f"{name}.png"
        if not path.exists():
            problems.append(f"pictures/{name}.png is missing")
            continue
        with Image.open(path) as picture:
            if picture.format != "PNG" or (name in names and picture.size != toy.SIZE):
                problems.append(f"pictures/{name}.png is {picture.format} of {picture.size}, not PNG of {toy.SIZE}")
        if name in names and path.stat().st_size > MAX_PICTURE_BYTES:
            problems.append(f"pictures/{name}.png has {path.stat().st_size} bytes, more than {MAX_PICTURE_BYTES}")
    extra_names = {path.stem for path in PICTURES.glob("*.png")} - names - {"all"}
    return problems + [f"pictures/{name}.png shows no method" for name in sorted(extra_names)]


def write(folder: Path, methods: list[str]) -> None:
    """Write the page and the pictures of these methods: in the repository, or in another folder."""
    own = folder.resolve() == DOCS
    (PAGE if own else folder / PAGE.name).write_text(page(), "utf-8")
    pictures = PICTURES if own else folder / PICTURES.name
    pictures.mkdir(exist_ok=True)
    toy.write(pictures, methods)


def main(arguments: list[str] | None = None) -> int:
    parser = Parser(__doc__, "about a minute", DOCS)
    parser.add_argument("--check", action="store_true", help="write nothing; print what does not agree")
    options = parser.parse(arguments)
    if options.check:
        problems = check()
        print("\n".join([*problems, "run: python docs/build.py"]) if problems else "the documentation agrees")
        return 1 if problems else 0
    methods = [info.name for info in own_methods()]
    write(options.output, [name for name in methods if name in QUICK_PICTURES] if options.quick else methods)
    return 0


def _table(header: list[str], rows: list[list[Any]]) -> str:
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in (header, ["---"] * len(header), *rows))


def _reflow(text: str) -> str:
    return fill(" ".join(text.split()), 120, break_long_words=False, break_on_hyphens=False)


def _code(value: Any) -> str:
    return re.sub(r"'(\w+)'", r'"\1"', repr(value))


if __name__ == "__main__":
    sys.exit(main())
