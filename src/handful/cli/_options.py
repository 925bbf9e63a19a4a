"""Options that several commands share, and how their text is read."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from handful.cli._app import option

JSON = option("Print one JSON document for programs, and nothing else.", False, names=("--json",))
OVERWRITE = option("Replace files that exist under that name.", False)
SORT = option("Also sort the files into a folder for each label: copy or link.")
TEXT = option(
    "The column of texts. Default: text, sentence, message, body or the like, or the column that looks most like "
    "language.",
    names=("--text",),
    metavar="COLUMN",
    panel="Tables and arrays",
)
LABEL = option("The column (or array) of labels. Default: label (labels), if there is one.")
YES = option("Answer yes to what is asked about files that others may have made.", False)
PRECISION = option(
    "Keep only as many labels as this part of them should be right, between 0 and 1; the least sure ones are called "
    "unknown."
)
MEAN = option("Mean of its pixels, scaled to 0..1, one number per channel: 0.485,0.456,0.406.")
STD = option("Standard deviation of its pixels, in the same way: 0.229,0.224,0.225.")
ALL_HEADS = "all"
HEADS = option(
    "What methods learn from the base classes: any of feat (also for SnaTCHer-F), peeler, flowr, meta_bce, ood_maml, "
    "frob and conformal, with commas between them; or all; or none. conformal and none need no torch.",
    ALL_HEADS,
)


@dataclass(frozen=True)
class ReadingOptions:
    """Reading pictures: how pictures are read."""

    strict: bool = option("Stop at the first picture that cannot be read.", False)
    no_cache: bool = option("Do not use or store the features of pictures that were seen before.", False)

    @property
    def cache(self) -> bool:
        return not self.no_cache


@dataclass(frozen=True)
class TableOptions:
    """Tables and arrays: which columns of a table, or arrays of a file, are features and labels."""

    embedding: str | None = option(
        "The column (or array) of features. Default: embedding (features), or else all columns of numbers."
    )
    label: str | None = LABEL
    columns: str | None = option('The columns of numbers that are features: names or patterns, "f*" or a,b,c.')
    exclude: str | None = option("Columns of numbers that are not features, as in price,year; also patterns.")

    def arguments(self) -> dict[str, Any]:
        """The keyword arguments of `handful.features.read`; options that are not given are left out."""
        options = {name: value for name, value in asdict(self).items() if value is not None}
        return {name: parse_names(text) if name in ("columns", "exclude") else text for name, text in options.items()}


@dataclass(frozen=True)
class ClusterOptions:
    """Many machines: where the work is done."""

    where: str = option(
        "local: this machine. ray: Ray on this machine; ray:auto: the Ray cluster that runs here; ray:HOST:PORT: the "
        "cluster at that address. See docs/how-to/many-machines.md.",
        "local",
        names=("--engine",),
        metavar="local|ray|ray:ADDRESS",
    )

    @property
    def engine(self) -> str:
        return self.where.partition(":")[0]

    @property
    def address(self) -> str | None:
        return self.where.partition(":")[2] or None

    def check(self) -> None:
        """Raise ValueError for an unknown engine, ImportError if Ray is needed and not installed."""
        if self.engine not in ("local", "ray") or (self.address and self.engine != "ray"):
            raise ValueError(f"there is no engine {self.where!r}; there are: local, ray, ray:ADDRESS")
        if self.engine == "ray":
            from handful.utils.ray import need

            need()


def parse_share(text: str) -> float | str:
    """The value of --outlier-share."""
    try:
        return text if text == "auto" else float(text)
    except ValueError:
        raise ValueError(f"--outlier-share {text!r}: give auto, or a number between 0 and 1") from None


def parse_numbers(text: str) -> list[float]:
    """Numbers with commas between them."""
    return [float(part) for part in text.split(",")]


def parse_pixel_numbers(**options: str | None) -> dict[str, list[float]]:
    """Lists of numbers that come as text, by the name of their option; those that are None are left out."""
    numbers: dict[str, list[float]] = {}
    for name, text in options.items():
        try:
            if text is not None:
                numbers[name] = parse_numbers(text)
        except ValueError:
            raise ValueError(f"--{name} {text}: give numbers with commas between them") from None
    return numbers


def parse_names(text: str) -> list[str]:
    """Names with commas between them; "none" is an empty list."""
    return [] if text.strip() == "none" else [name.strip() for name in text.split(",") if name.strip()]


def parse_heads(text: str) -> list[str]:
    """Names of heads with commas between them; "all" is every head, "none" is no head."""
    from handful.training.heads.learned_base import HEADS

    return list(HEADS) if text.strip() == ALL_HEADS else parse_names(text)
