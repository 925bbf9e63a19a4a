"""`handful predict`: labels for new items by a saved model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from handful.cli._app import command
from handful.cli._console import (
    CACHE_KEPT,
    console_for,
    print_json,
    print_lines,
    print_skipped,
    progress_bars,
    skipped_rows,
    stoppable,
)
from handful.cli._options import Json, Overwrite, Precision, ReadingOptions, TableOptions, TextColumn

MAX_TEXT_CHARACTERS = 80  # that are printed of a text


@command()
def predict(
    model: Annotated[Path, typer.Argument(help="A model.safetensors that `handful label` wrote.")],
    items: Annotated[
        list[Path],
        typer.Argument(
            metavar="ITEMS...",
            help="Pictures or folders of pictures; .txt files or folders of them; or one table, of texts or of "
            "embeddings.",
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A .csv or .parquet for the labels. Default: print them.")
    ] = None,
    backbone: Annotated[
        str | None,
        typer.Option(help="The backbone that the model was made with, if it is not found under its own name."),
    ] = None,
    precision: Precision = None,
    overwrite: Overwrite = False,
    *,
    reading: ReadingOptions,
    table: TableOptions,
    text: TextColumn = None,
    as_json: Json = False,
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
    from handful.project import predict_items
    from handful.project.items import Reading
    from handful.project.outputs import check_file, table_of, write_table
    from handful.project.reading import read_new_items
    from handful.project.summary import expected_numbers
    from handful.utils.text import one_line

    console = console_for(as_json or output is None)  # labels that are printed have standard output for themselves
    if output is not None:
        check_file(output, overwrite, (".csv", ".parquet"))
    fitted = handful.load(model)
    unit = "texts" if "text" in fitted.made_from_ else "pictures"
    with stoppable(console, CACHE_KEPT * reading.cache), progress_bars(console, unit) as progress:
        new_items = read_new_items(
            fitted, items,
            Reading("", None, table.arguments(), text, reading.strict, reading.cache, progress=progress), backbone,
        )  # fmt: skip
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
        print_lines(console, labelled.notes)
    else:
        for sentence in labelled.sentences:
            console.print(sentence, markup=False)
        print_lines(console, [f"The labels: {output}"])
    print_skipped(console, new_items.skipped)
