"""The arguments that every script takes: how much work it does, and where its results go."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

from handful.features import FeatureTable, read

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"


class Parser(argparse.ArgumentParser):
    """A parser with `--quick` and `--output`, and with sizes that `--quick` makes small.

    Only a full run writes into `folder`, where the results are that the documents show. A run with `--quick`, with a
    size of its own or with a part of the work writes into a temporary folder, unless `--output` names another.

    Parameters
    ----------
    doc : the docstring of the script: the first paragraph says what is measured, the last one how.
    takes : how long a full run takes, as in "some minutes".
    folder : where a full run writes.
    """

    def __init__(self, doc: str, takes: str, folder: Path = RESULTS) -> None:
        what, *_, how = doc.strip().split("\n\n")
        about = f"{what.removesuffix(' ::')} It takes {takes}, and with --quick some seconds."
        super().__init__(
            description=fill(" ".join(about.split()), 110),
            epilog=how,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        self.folder = folder
        self._sizes: dict[str, tuple[Any, Any]] = {}
        self._parts: list[str] = []
        self._data: list[str] = []
        self.add_argument("--quick", action="store_true", help="the same work in small: shows that it runs, no more")
        self.add_argument(
            "--output",
            type=Path,
            metavar="FOLDER",
            help=f"where the results go ({folder.relative_to(ROOT)}; unless the run is full: a temporary one)",
        )

    def add_size(self, flag: str, full: Any, quick: Any, meaning: str) -> None:
        """An option that says how much work is done: a number, or a list of numbers."""
        many = isinstance(full, list)
        said = [" ".join(map(str, size)) if many else str(size) for size in (full, quick)]
        options: dict[str, Any] = {"nargs": "+"} if many else {}
        kind = _positive(type(full[0] if many else full))
        meaning = f"{meaning} ({said[0]}; with --quick {said[1]})"
        action = self.add_argument(flag, type=kind, metavar="N", help=meaning, **options)
        self._sizes[action.dest] = full, quick

    def add_part(self, *flags: str, **options: Any) -> None:
        """An option that leaves some of the work out."""
        self._parts.append(self.add_argument(*flags, **options).dest)

    def add_data(self, name: str, meaning: str) -> None:
        """A path to data that must be given, but not with `--quick`, which makes its own."""
        self.add_argument(name, type=Path, nargs="?", help=f"{meaning}; with --quick it can be left out")
        self._data.append(name)

    def parse(self, arguments: Sequence[str] | None = None) -> argparse.Namespace:
        given = self.parse_args(arguments)
        missing = [name.upper() for name in self._data if getattr(given, name) is None]
        if missing and not given.quick:
            self.error(f"{' and '.join(missing)} must be given; --quick runs without")
        full = not given.quick and not any(getattr(given, name) for name in self._parts)
        for name, (full_size, quick_size) in self._sizes.items():
            if getattr(given, name) is None:
                setattr(given, name, quick_size if given.quick else full_size)
            full = full and getattr(given, name) == full_size
        if given.output is None:
            given.output = self.folder if full else Path(tempfile.mkdtemp(prefix=f"handful-{Path(self.prog).stem}-"))
            if not full:
                print(f"This is not a full run: its results go to {given.output}", flush=True)
        try:
            given.output.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            self.error(f"--output {given.output}: {error.strerror}")
        return given

    def feature_set(self, path: Path | None, make: Callable[[], FeatureTable]) -> FeatureTable:
        """The one in the file, or the one that `make` makes where no file was given."""
        if path is None:
            return make()
        try:
            return read(path)
        except (OSError, ValueError) as error:
            self.error(f"{path}: {error}")


def _positive(kind: type) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        value = kind(text)
        if not value > 0:
            raise argparse.ArgumentTypeError(f"{text} is not above 0")
        return value

    parse.__name__ = kind.__name__  # argparse says "invalid int value"
    return parse
