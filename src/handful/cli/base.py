"""`handful base`: what methods need to know about the base classes."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from handful.cli import _options as shared
from handful.cli._console import Console, print_json
from handful.cli._options import argument, command, option, parse_heads, parse_table


@command()
def base(
    features: Path = argument("Features and labels of the classes that the backbone was trained on."),
    output: Path = option("The file to write.", Path("base.safetensors"), names=shared.OUTPUT),
    val: Path | None = option(
        "Features of other classes, which neither the backbone nor a head learns from: they choose the step. "
        "Default: the split val of FEATURES, or a quarter of its classes."
    ),
    heads: str = shared.HEADS,
    negatives: int = option("How many of the items to keep, for POODLE.", 1000, min=0),
    episodes: int = option("How many tasks a head learns from, at most.", 20_000, min=1),
    seed: int = option("The seed of the tasks, the start and the held-out classes.", 0, min=0),
    embedding: str | None = shared.EMBEDDING,
    label: str | None = shared.LABEL,
    columns: str | None = shared.COLUMNS,
    exclude: str | None = shared.EXCLUDE,
    as_json: bool = shared.JSON,
) -> None:
    """Learn what methods need to know about a backbone's base classes: their mean, learned heads, and some items.

    Methods that learn from base classes take the file as base=, and `handful bench` takes it as --base. Some classes
    are held out; the command prints how good a head is on them before and after learning. If the command is stopped,
    the same command continues and writes the same file.

    Example: handful base base.parquet -o base.safetensors
    """
    from handful.features import read
    from handful.solving import describe, list_methods
    from handful.training.heads import learn_base

    if not output.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {str(output.parent)!r} to write {output.name} to: create it first")
    columns_of = parse_table(embedding, label, columns, exclude)
    data = read(features, **columns_of)
    base_classes = data.of_split("base") or data  # a head must not learn from novel classes that are in the file
    validation = data.of_split("val") if val is None else read(val, **columns_of)
    console, checkpoint = Console(aside=as_json), output.with_name(f"{output.name}.learning")
    with console.work("tasks", "The same command continues.") as progress:
        learned = learn_base(
            base_classes, validation=validation, heads=parse_heads(heads), negatives=negatives, episodes=episodes,
            seed=seed, checkpoint=checkpoint, progress=partial(progress, "learning"),
        )  # fmt: skip
    learned.save(output)
    checkpoint.unlink(missing_ok=True)
    about = learned.about
    if as_json:
        print_json(about | {"features": learned.dimension, "file": str(output), "mark": learned.mark})
        return
    infos = [describe(name) for name in list_methods()]
    for head, figures in about["heads"].items():
        before, after = figures["before"], figures["after"]
        titles = [info.title.split(" (")[0] for info in infos if info.base_part == head]
        console.print(
            f"{', '.join(titles)}: accuracy {before['accuracy']:.1f} -> {after['accuracy']:.1f}, "
            f"AUROC {before['auroc']:.1f} -> {after['auroc']:.1f} on {about['held_out']} held-out classes",
            wrap=True,
        )
    count = 0 if learned.negatives is None else len(learned.negatives)
    console.print(
        f"Written: {output}, of {about['classes']} base classes, {learned.dimension} features, {count} items kept"
    )
