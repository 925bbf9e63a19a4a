"""How methods do in a process that goes on: new characters keep appearing, and a person names some of them. ::

    python benchmarks/open_world.py omniglot.npz --base BASE    # about an hour; writes benchmarks/results/open_world.md
    python benchmarks/open_world.py --quick                     # generated features; writes into a temporary folder

Drawings of Omniglot's evaluation characters, which the shipped backbone has never seen. A stream has 100 characters at
random. Some have five examples from the start: 5 of them (small context), or half of them (large context). Each other
character appears at a random moment. Drawings arrive in blocks of 100; the model answers, and then a person names the
most typical drawing of each group of at least three unknown ones, at most ten after a block. `handful bench open-world`
does the same with any features. Methods that learn from base classes need --base, a file that `handful train` or
`handful base` wrote with their heads; the shipped one is used otherwise. `--work FOLDER` keeps the features, and every
answer, between runs.
"""

from __future__ import annotations

import shlex
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import _report
from _problem import small_classes
from _script import Parser
from rich.console import Console

from handful.backbones import load_backbone
from handful.bench import open_world, open_world_picture, plots
from handful.core.base import read_base
from handful.features import FeatureTable, read, write

CONTEXTS = ("small", "large")
METHODS, QUICK_METHODS = "auto, flowr:arrivals=true, flowr, simpleshot", "auto, simpleshot"


def characters(file: Path, work: Path) -> FeatureTable:
    """Features of the evaluation characters; they are computed once, and kept in `work`."""
    from handful.training.datasets import read_pictures
    from handful.training.datasets.picture_set import embed_set

    backbone = load_backbone("omniglot")
    kept = work / f"omniglot-{backbone.fingerprint[:12]}.npz"
    if not kept.exists():
        write(embed_set(read_pictures(file).select("novel"), backbone), kept)
    return replace(read(kept, warn=False), name="Omniglot's evaluation characters")


def main() -> None:
    parser = Parser(__doc__, "about an hour")
    parser.add_data("drawings", "omniglot.npz, as in the documents on data")
    parser.add_argument("--base", type=Path, help="the base of methods that need one (the one shipped with handful)")
    parser.add_argument("--work", type=Path, help="where features and answers are kept (a folder among temporary ones)")
    parser.add_part("--methods", help=f'these methods instead of "{METHODS}"; with --quick "{QUICK_METHODS}"')
    parser.add_size("--classes", 100, 12, "characters of a stream")
    parser.add_size("--items", 2000, 120, "drawings that arrive, at most")
    parser.add_size("--every", 100, 40, "drawings of a block")
    parser.add_size("--seeds", 3, 1, "streams of each context")
    given = parser.parse()
    work = given.work or Path(tempfile.gettempdir(), "handful-open-world")
    work.mkdir(parents=True, exist_ok=True)
    console = Console()
    base = None
    if given.drawings is None:
        table = small_classes()
    else:
        table = characters(given.drawings, work)
        base = read_base(given.base or load_backbone("omniglot").base)
    methods = given.methods or (QUICK_METHODS if given.quick else METHODS)
    with console.status("Living through the streams …") as status:
        results = open_world.run(
            table, methods, base=base, contexts=CONTEXTS, items=given.items, every=given.every, seeds=given.seeds,
            classes=given.classes,
            progress=lambda name, done, total: status.update(f"Living through the streams: block {done} of {total}"),
        )  # fmt: skip
    console.print(*results.summary(), sep="\n", soft_wrap=True)
    command = shlex.join(["python", "benchmarks/open_world.py", *sys.argv[1:]])
    results.write(work, command)
    path = given.output / "open_world.md"
    path.write_text(f"{results.markdown(command)}\n{_report.about(__doc__)}\n\n{_report.machine()}\n", "utf-8")
    files = [path]
    if plots.available():
        files.append(given.output / "open_world.png")
        files[-1].write_bytes(plots.png(open_world_picture.draw(results)))
    console.print("Written:", ", ".join(map(str, files)), soft_wrap=True)


if __name__ == "__main__":
    main()
