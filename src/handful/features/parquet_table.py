"""Feature tables in Parquet files: one column of lists, or one column for each feature."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from handful.features.arrow_table import (
    EMBEDDING,
    LABEL,
    PATH,
    SPLIT,
    check_vectors,
    from_arrow,
    is_carried,
    is_wide,
    to_arrow,
    with_stored_columns,
)
from handful.features.file_checks import OTHER_COLUMNS, ColumnChoice
from handful.features.number_columns import check_header, is_text, may_be_features
from handful.features.parquet_file import read_columns
from handful.features.table import FeatureTable
from handful.utils.extras import need_pyarrow

ROWS_PER_GROUP = 2**16


def read_parquet(path: Path, choice: ColumnChoice) -> FeatureTable:
    """A feature table; columns that cannot be carried along stay in the file."""
    table = read_feature_columns(path, choice)
    more = read_other_columns(path, table.column_names)
    return from_arrow(table, choice, more=more, stored=path.stat().st_size)


def read_feature_columns(path: Path, choice: ColumnChoice, where: str = "") -> Any:
    """A `pyarrow.Table` of the columns that may be features, and of labels, paths and splits."""
    flat = (choice.label_column, PATH, SPLIT)

    def choose(schema: Any) -> list[str]:
        check_header(schema.names, () if choice.columns else (choice.embedding_column, choice.label_column, PATH))
        choice.check_label(schema.names, f"{where}column")
        full_choice = with_stored_columns(choice, schema)
        if not is_wide(schema, full_choice, where):
            kind = schema.field(full_choice.embedding_column).type
            if not is_text(kind):
                check_vectors(kind, f"{where}column {full_choice.embedding_column!r}")
            return [full_choice.embedding_column, *flat]
        if full_choice.columns is not None:
            return [*flat, *full_choice.find_columns(schema.names)]
        return [*flat, *may_be_features(schema, (*OTHER_COLUMNS, choice.label_column))]

    return read_columns(path, choose, flat, where)


def read_other_columns(path: Path, used: Sequence[str], where: str = "") -> Any:
    """A `pyarrow.Table` of the columns that are carried along, or None: also if they are too large or damaged."""

    def choose(schema: Any) -> list[str]:
        counts = {name: schema.names.count(name) for name in schema.names}
        return [f.name for f in schema if f.name not in used and is_carried(f.type) and counts[f.name] == 1]

    try:
        table = read_columns(path, choose, None, where)
    except ValueError:  # the features can be used without them
        return None
    return table if table.num_columns else None


def write_parquet(table: FeatureTable, path: Path) -> None:
    """Features that had a column each get one again."""
    with path.open("wb") as file:
        write_rows(table, file)


def write_rows(table: FeatureTable, file: IO[bytes], metadata: dict[bytes, bytes] | None = None) -> None:
    """Write a table as Parquet, with metadata for its header."""
    need_pyarrow("a Parquet file")
    from pyarrow import parquet

    content = to_arrow(table, as_list=not _can_be_wide(table))
    content = content.replace_schema_metadata({**(content.schema.metadata or {}), **(metadata or {})} or None)
    names = [name for name in content.column_names if name != EMBEDDING and name not in (table.columns or ())]
    parquet.write_table(content, file, compression="zstd", use_dictionary=names, row_group_size=ROWS_PER_GROUP)


def _can_be_wide(table: FeatureTable) -> bool:
    if table.columns is None or len(set(table.columns)) < len(table.columns):
        return False
    return not {EMBEDDING, LABEL, PATH, SPLIT, *table.others} & set(table.columns)
