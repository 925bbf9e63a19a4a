"""`handful predict`: labels for new items by a saved model."""

from __future__ import annotations

from pathlib import Path

import typer

from handful.cli import _options as shared
from handful.cli._console import CACHE_KEPT, Console, print_json, skipped_rows
from handful.cli._options import argument, command, option, parse_table

MAX_TEXT_CHARACTERS = 80  # that are printed of a text


@command()
def predict(
    model: Path = argument("A model.safetensors that `handful label` wrote."),
    items: list[Path] = argument(
        "Pictures or folders of pictures; .txt files or folders of them; or one table, of texts or of embeddings.",
        metavar="ITEMS...",
    ),
    output: Path | None = option("A .csv or .parquet for the labels. Default: print them.", names=shared.OUTPUT),
    backbone: str | None = option("The backbone that the model was made with, if it is not found under its own name."),
    precision: float | None = shared.PRECISION,
    overwrite: bool = shared.OVERWRITE,
    strict: bool = shared.STRICT,
    no_cache: bool = shared.NO_CACHE,
    embedding: str | None = shared.EMBEDDING,
    label: str | None = shared.LABEL,
    columns: str | None = shared.COLUMNS,
    exclude: str | None = shared.EXCLUDE,
    text: str | None = shared.TEXT,
    as_json: bool = shared.JSON,
) -> None:
    """Label new items by a saved model: each item on its own. The model does not change.

    A model that `handful label --precision` made keeps only labels that are as sure as those were. With --precision,
    the labels of the new items decide together how sure they must be.

    Example: handful predict out/model.safetensors new.jpg, or handful predict out/model.safetensors new.csv

    In a .csv, text that a spreadsheet would read as a formula (it begins with = + - @) gets an apostrophe in front; a
    .parquet holds it unchanged.
    """
    import handful
    from handful.backbones.folders import shown
    from handful.project.items import Reading
    from handful.project.labelling import predict_items
    from handful.project.outputs import check_file, table_of, write_table
    from handful.project.reading import read_new_items
    from handful.project.summary import expected_numbers
    from handful.utils.text import one_line

    console = Console(aside=as_json or output is None)  # labels that are printed have standard output for themselves
    if output is not None:
        check_file(output, overwrite, (".csv", ".parquet"))
    fitted = handful.load(model)
    unit = "texts" if "text" in fitted.made_from_ else "pictures"
    with console.work(unit, CACHE_KEPT * (not no_cache)) as progress:
        table = parse_table(embedding, label, columns, exclude)
        how = Reading("", None, table, text, strict, not no_cache, progress=progress)
        new_items = read_new_items(fitted, items, how, backbone)
    labelled = predict_items(fitted, new_items, precision)
    if output is not None:
        write_table(labelled, output)
    if as_json:
        rows = table_of(labelled).to_pylist()
        expected = expected_numbers(labelled.expected_precision_by_class, int(labelled.set_aside.sum()))
        document = {"items": rows, **expected, "notes": labelled.notes, "skipped": skipped_rows(new_items.skipped)}
        print_json(document)
        return
    if output is None:
        texts = new_items.texts or [""] * len(new_items)
        rows = table_of(labelled).select(["path", "label", "confidence"]).to_pylist()
        for row, one in zip(rows, texts, strict=True):
            words = f"\t{one_line(one, MAX_TEXT_CHARACTERS)}" if new_items.texts is not None else ""
            typer.echo(f"{shown(row['label'])}\t{row['confidence']:.3f}\t{shown(row['path'])}{words}")
        console.print(*labelled.notes)
    else:
        console.print(*labelled.sentences, wrap=True)
        console.print(f"The labels: {output}")
    console.skipped(new_items.skipped)
