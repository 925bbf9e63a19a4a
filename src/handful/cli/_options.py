"""Options that several commands share, and groups of them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Any, ClassVar

import typer

ENGINES = ("local", "ray")

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document for programs, and nothing else.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace files that exist under that name.")]
Sort = Annotated[str | None, typer.Option(help="Also sort the files into a folder for each label: copy or link.")]
TextColumn = Annotated[
    str | None,
    typer.Option(
        "--text",
        metavar="COLUMN",
        rich_help_panel="Tables and arrays",
        help="The column of texts. Default: text, sentence, message, body or the like, or the column that looks most "
        "like language.",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Answer yes to what is asked about files that others may have made.")]
Precision = Annotated[
    float | None,
    typer.Option(
        help="Keep only as many labels as this part of them should be right, between 0 and 1; the least sure ones are "
        "called unknown.",
    ),
]
Port = Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on; 0 takes any free port.")]
ALL_HEADS = "all"
Heads = Annotated[
    str,
    typer.Option(
        help="What methods learn from the base classes: any of feat (also for SnaTCHer-F), peeler, flowr, meta_bce, "
        "ood_maml, frob and conformal, with commas between them; or all; or none. conformal and none need no torch.",
    ),
]
Host = Annotated[str, typer.Option(help="The address to listen on; only addresses of this machine are allowed.")]


@dataclass(frozen=True)
class BackboneOptions:
    """The network that turns pictures or texts into features, and what its input looks like."""

    PANEL: ClassVar[str] = "Backbone"

    backbone: Annotated[
        str | None,
        typer.Option(
            help="The backbone: for pictures good (two networks, the default), fast (one, three times as fast) or best "
            "(three, slower still); a name that `handful backbones` lists; an .onnx file; or a folder with an "
            "encoder of texts. Default for texts: minilm."
        ),
    ] = None
    size: Annotated[
        int | None, typer.Option(help="Pixels per side of its input. Needed for an .onnx file that does not say it.")
    ] = None
    mean: Annotated[
        str | None, typer.Option(help="Mean of its pixels, scaled to 0..1, one number per channel: 0.485,0.456,0.406.")
    ] = None
    std: Annotated[
        str | None, typer.Option(help="Standard deviation of its pixels, in the same way: 0.229,0.224,0.225.")
    ] = None
    preset: Annotated[
        str | None,
        typer.Option(help="How the network of an .onnx file wants its pictures: clip, dinov2, imagenet or siglip."),
    ] = None
    device: Annotated[
        str | None,
        typer.Option(
            metavar="auto|cpu|cuda|coreml|directml",
            help="Where the network runs. Default: auto, the best that the installed ONNX Runtime can use.",
        ),
    ] = None

    def name_for(self, kind: str) -> str:
        """The backbone for items of a kind: the one that the user named, or the default; "" for embeddings."""
        from handful.backbones.catalogue import concrete_name
        from handful.project.items import default_backbone

        return concrete_name(self.backbone or default_backbone(kind))

    def input_options(self) -> dict[str, Any]:
        """The keyword arguments of `handful.backbones.load_backbone`."""
        named = {"size": self.size, "preset": self.preset, "device": self.device}
        options = {name: value for name, value in named.items() if value is not None}
        return options | parse_pixel_numbers(mean=self.mean, std=self.std)


@dataclass(frozen=True)
class ReadingOptions:
    """How pictures are read."""

    PANEL: ClassVar[str] = "Reading pictures"

    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first picture that cannot be read.")] = False
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Do not use or store the features of pictures that were seen before.")
    ] = False

    @property
    def cache(self) -> bool:
        return not self.no_cache


@dataclass(frozen=True)
class TableOptions:
    """Which columns of a table, or arrays of a file, are features and labels."""

    PANEL: ClassVar[str] = "Tables and arrays"

    embedding: Annotated[
        str | None,
        typer.Option(
            help="The column (or array) of features. Default: embedding (features), or else all columns of numbers."
        ),
    ] = None
    label: Annotated[
        str | None, typer.Option(help="The column (or array) of labels. Default: label (labels), if there is one.")
    ] = None
    columns: Annotated[
        str | None, typer.Option(help='The columns of numbers that are features: names or patterns, "f*" or a,b,c.')
    ] = None
    exclude: Annotated[
        str | None, typer.Option(help="Columns of numbers that are not features, as in price,year; also patterns.")
    ] = None

    def arguments(self) -> dict[str, Any]:
        """The keyword arguments of `handful.features.read`; options that are not given are left out."""
        options = {name: value for name, value in asdict(self).items() if value is not None}
        return {name: parse_names(text) if name in ("columns", "exclude") else text for name, text in options.items()}


@dataclass(frozen=True)
class ClusterOptions:
    """Where the work is done."""

    PANEL: ClassVar[str] = "Many machines"

    where: Annotated[
        str,
        typer.Option(
            "--engine",
            metavar="local|ray|ray:ADDRESS",
            help="local: this machine. ray: Ray on this machine; ray:auto: the Ray cluster that runs here; "
            "ray:HOST:PORT: the cluster at that address. See docs/how-to/many-machines.md.",
        ),
    ] = "local"

    @property
    def engine(self) -> str:
        return self.where.partition(":")[0]

    @property
    def address(self) -> str | None:
        return self.where.partition(":")[2] or None

    def check(self) -> None:
        """Raise ValueError for an unknown engine, ImportError if Ray is needed and not installed."""
        if self.engine not in ENGINES or (self.address and self.engine != "ray"):
            raise ValueError(f"there is no engine {self.where!r}; there are: {', '.join(ENGINES)}, ray:ADDRESS")
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


def need_web(purpose: str) -> None:
    """Raise ImportError with the install command if the packages of the web server are missing."""
    from handful.utils.extras import need

    for module in ("fastapi", "uvicorn", "python_multipart"):
        need(module, purpose, '"handful[web]"')
