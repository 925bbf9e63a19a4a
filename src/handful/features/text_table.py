"""Tables of texts: one text in each row, with labels in some of them, and every other column carried along."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from handful.features.cell_table import SUFFIXES, CellTable, peek_cells, read_cells
from handful.features.feature_columns import listed
from handful.features.labels import NDArray, check_missing_words, clean_labels
from handful.features.parquet_file import NAMES_KEY, is_list_of_numbers, is_number, open_parquet
from handful.features.table import FeatureTable
from handful.utils.text import is_blank, shortened

NAME_COLUMNS = ("path", "id")  # that may name the rows
MAX_NAME_CHARACTERS = 200  # of a row or a class
FEATURE_OPTIONS = ("embedding", "columns", "exclude")  # whoever gives one of them has a table of features
TEXT_NAMES = (
    "text", "texts", "sentence", "utterance", "message", "body", "content", "review", "comment", "question", "query",
    "description", "tweet", "post", "ticket", "email", "document", "abstract", "prompt", "summary", "title", "subject",
    "headline",
)  # fmt: skip
LABEL_NAMES = ("label", "labels")
OTHER_LABEL_NAMES = ("intent", "category", "class", "topic", "tag")  # used where the column of texts is sure
ID_NAMES = ("id", "ids", "index", "uuid", "guid", "path", "file", "url", "split", "date", "time")
NUMBER = re.compile(r"\s*[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?\s*%?", re.ASCII)
WITHOUT_SPACES = re.compile("[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]")  # Thai, Lao, Japanese, Chinese
MAX_SAMPLED_CELLS = 500
MIN_WORDS = 3  # of a text that is language, in the median
MIN_NAMED_WORDS = 2  # of a text in a column that is called so
MIN_DISTINCT = 0.5  # of the cells
MAX_NUMBER_COLUMNS = 15  # beside texts; more of them are features
MIN_SERIES = 3  # columns of numbers called f0, f1, f2 are features


def read_text_table(path: str | Path, *, text: str | None = None, label: str | None = None) -> FeatureTable:
    r"""Read a table of texts.

    Rows may have a label or not: a blank label or -1 means unlabelled. Rows are named by the column `path` or `id`, if
    its values are all there and distinct; else by their number.

    Parameters
    ----------
    path : str or Path
        A .csv, .tsv, .jsonl (one JSON object in each line) or .parquet file.
    text : str, optional
        The column of texts. By default one that is called text, sentence, message, body or the like; or else the one
        that looks most like language.
    label : str, optional
        The column of labels. By default `label`, or else intent, category, class, topic or tag, if there is one.

    Returns
    -------
    table : FeatureTable
        `texts`, "" where a row has none; `labels`; all columns as they are written in `others`; no features yet,
        [n, 0]. `source["text"]` is the name of the column of texts. `notes` say what was guessed, and what is odd.

    Raises
    ------
    ValueError
        If the file is damaged, or if there is no such column: the message lists those that there are.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "tickets.csv").write_text("id,message,intent\n7,where is my card,card\n8,hello there,\n")
    ...     table = read_text_table(f"{folder}/tickets.csv")
    >>> table.texts, table.names, table.label_names
    (['where is my card', 'hello there'], ['7', '8'], ['card', None])
    >>> table.notes[0]
    "tickets.csv: the texts are in the column 'message', by its name; the labels in 'intent'."
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no file {str(path)!r}")
    if not path.is_file() or path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"{str(path)!r} is no table of texts: these are {', '.join(SUFFIXES)} files")
    try:
        return _text_table(read_cells(path), path, text, label)
    except ValueError as error:
        raise ValueError(f"{str(path)!r}: {error}") from None


def is_text_table(path: Path, options: Mapping[str, Any] | None = None) -> bool:
    """Whether a file is a table of texts, and not of features, by its first rows.

    options: those of `features.read`. Whoever names columns of features has a table of features.
    """
    if not path.is_file() or path.suffix.lower() not in SUFFIXES or has_features(path, options):
        return False
    if path.suffix.lower() not in (".csv", ".parquet"):
        return True  # features are not read from these
    return holds_texts(peek_cells(path).columns, (options or {}).get("label"))


def has_features(path: Path, options: Mapping[str, Any] | None = None) -> bool:
    """Whether a table has features for certain: the user named them, or it has lists of numbers or many numbers."""
    if any((options or {}).get(name) for name in FEATURE_OPTIONS):
        return True
    if path.suffix.lower() != ".parquet":
        return False
    try:
        with open_parquet(path) as file:
            schema = file.schema_arrow
    except (OSError, ValueError):
        return True  # whoever reads features says what is wrong
    if NAMES_KEY in (schema.metadata or {}) or sum(is_number(field.type) for field in schema) > MAX_NUMBER_COLUMNS:
        return True
    return any(is_list_of_numbers(field.type) for field in schema)


def _text_table(table: CellTable, path: Path, text: str | None, label: str | None) -> FeatureTable:
    columns = table.columns
    if not table.rows:
        raise ValueError("the table has no rows: its first line names the columns, and the others are its rows")
    if label is not None:
        find_label_column(columns, text, label)  # an error about the labels comes first
    text_column, reason = find_text_column(columns, text, label)
    label_column = find_label_column(columns, text_column, label)
    texts = ["" if value is None else str(value) for value in columns[text_column].tolist()]
    labels_in_words = (
        "there is no column of labels" if label_column is None else f"the labels in {shortened(label_column)!r}"
    )
    because = f", {reason}" if reason else ""
    notes = [f"The texts are in the column {shortened(text_column)!r}{because}; {labels_in_words}.", *table.notes]
    labels = None
    if label_column is not None:
        labels = clean_labels(_as_labels(columns[label_column].tolist()))
        check_missing_words(labels)
        for row, name in enumerate(labels.tolist()):
            if isinstance(name, str) and len(name) > MAX_NAME_CHARACTERS:
                raise ValueError(
                    f"the label of row {row}, {shortened(name, 40)!r}, has {len(name):,} characters: name the column "
                    "of labels with --label"
                )
    name_column = _find_names(columns, notes)
    others = dict(columns)
    paths = None
    if name_column is not None:
        paths = [str(value) for value in columns[name_column].tolist()]
        if name_column == "path":
            del others["path"]  # it is the first column of every output
    source = {"features": str(path), "text": text_column} | ({} if label_column is None else {"label": label_column})
    return FeatureTable(
        np.empty((table.rows, 0), np.float32), labels, paths, name=path.stem, others=others, texts=texts, source=source,
        notes=[f"{shortened(path.name)}: {note[0].lower()}{note[1:]}" for note in notes],
    )  # fmt: skip


def _find_names(columns: Mapping[str, NDArray], notes: list[str]) -> str | None:
    """The column that names the rows; None if there is none whose values are all there and distinct."""
    for name in NAME_COLUMNS:
        if name not in columns:
            continue
        values = ["" if value is None else str(value) for value in columns[name].tolist()]
        places: dict[str, int] = {}
        for row, value in enumerate(values):
            first = places.setdefault(value, row)
            if is_blank(value):
                why = f"Row {row} has no {name}"
            elif len(value) > MAX_NAME_CHARACTERS or value != value.strip():
                why = f"The {name} of row {row} is not fit to name it"
            elif first != row:
                why = f"The {name} {shortened(value, 40)!r} is that of row {first} and of row {row}"
            else:
                continue
            notes.append(f"{why}: rows are named by their number.")
            break
        else:
            return name
    return None


def _as_labels(values: list[Any]) -> list[Any]:
    """Labels as they are if all are whole numbers; else as texts."""
    if all(value is None or (isinstance(value, int) and not isinstance(value, bool)) for value in values):
        return values
    return [None if value is None or value != value else str(value) for value in values]


# ---- which column holds texts, and which holds labels: by their names, and by how their cells look


class Look(NamedTuple):
    """How the cells of a column look: how many are there, and of these."""

    cells: int
    words: float  # in the median
    distinct: float  # share
    numbers: float  # share

    @property
    def is_text(self) -> bool:
        """Whether it may hold texts: not only numbers."""
        return self.cells > 0 and self.numbers < 1

    @property
    def is_language(self) -> bool:
        """Whether it looks like sentences."""
        return self.words >= MIN_WORDS and self.distinct >= MIN_DISTINCT and self.numbers < 0.5


def look_at(cells: NDArray) -> Look:
    """How the cells of a column look, from a sample of those that are not blank."""
    values = [
        value for value in cells.tolist() if value is not None and not (isinstance(value, str) and is_blank(value))
    ]
    sample: list[Any] = values[:: max(1, len(values) // MAX_SAMPLED_CELLS)][:MAX_SAMPLED_CELLS]
    if not sample:
        return Look(0, 0.0, 0.0, 0.0)
    texts = [value[:10_000] if isinstance(value, str) else None for value in sample]
    numbers = sum(text is None or NUMBER.fullmatch(text) is not None for text in texts)
    words = median(0 if text is None else len(text.split()) + len(WITHOUT_SPACES.findall(text)) // 2 for text in texts)
    return Look(len(values), words, len({str(text) for text in texts}) / len(texts), numbers / len(texts))


def find_text_column(
    columns: Mapping[str, NDArray], text: str | None = None, label: str | None = None
) -> tuple[str, str]:
    """The column of texts, and why it is that one: "" if the user named it. `label` is never the one of texts."""
    names = list(columns)
    if text is not None:
        if text not in columns:
            raise ValueError(f"there is no column {shortened(text)!r}, only {listed(names)}: name one with --text")
        if (look := look_at(columns[text])).cells and not look.is_text:
            raise ValueError(
                f"column {shortened(text)!r} has only numbers: name a column of texts with --text, or leave it out if "
                f"numbers are the features (the columns are {listed(names)})"
            )
        return text, ""
    looks = {name: look_at(cells) for name, cells in columns.items() if name != label and _key(name) not in LABEL_NAMES}
    may_be = {name: look for name, look in looks.items() if look.is_text and look.numbers < 0.5}
    if name := _by_name(list(may_be), TEXT_NAMES):
        return name, "by its name"
    language = {name: look for name, look in may_be.items() if look.is_language}
    for usual in TEXT_NAMES:  # review_body, TicketText
        for name in language:
            if usual in re.split(r"[^a-z]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", name).casefold()):
                return name, "by its name"
    if language:
        return max(language, key=lambda name: language[name].words), "because it looks like language"
    rest = [name for name in may_be if _key(name) not in (*ID_NAMES, *OTHER_LABEL_NAMES)]
    if len(rest) == 1:
        return rest[0], "because no other column may hold texts"
    if not may_be:
        why = "all of their cells are blank" if not any(look.cells for look in looks.values()) else "they hold numbers"
        raise ValueError(f"no column holds texts, {why}: there are {listed(names)}")
    raise ValueError(f"it is not clear which column holds the texts: name it with --text; there are {listed(names)}")


def find_label_column(columns: Mapping[str, NDArray], text: str | None, label: str | None = None) -> str | None:
    """The column of labels: the one that the user named, or one with a usual name; None if there is none."""
    names = [name for name in columns if name != text]
    if label is not None:
        if label not in columns:
            raise ValueError(
                f"there is no column {shortened(label)!r}, only {listed(list(columns))}: name one with --label"
            )
        if label == text:
            raise ValueError(f"column {shortened(label)!r} cannot hold both the texts and the labels")
        return label
    return _by_name(names, LABEL_NAMES) or _by_name(names, OTHER_LABEL_NAMES)


def holds_texts(columns: Mapping[str, NDArray], label: str | None = None) -> bool:
    """Whether a table is one of texts, and not of features: it has a column that looks like language, and few numbers.

    Columns of numbers that are called f0, f1, f2, ... are features, however few there are. A table without numbers has
    no features.
    """
    looks = {name: look_at(cells) for name, cells in columns.items() if name != label and _key(name) not in LABEL_NAMES}
    numbers = [name for name, look in looks.items() if look.cells and look.numbers >= 0.5]
    if "embedding" in columns or len(numbers) > MAX_NUMBER_COLUMNS or _has_series(numbers):
        return False
    if not numbers and any(look.cells for look in looks.values()):
        return True  # it has no features
    if any(look.is_language for look in looks.values()):
        return True
    named = [look for name, look in looks.items() if _key(name) in TEXT_NAMES and (look.is_text or not look.cells)]
    if any(look.words >= MIN_NAMED_WORDS for look in named):
        return True
    return bool(named) and all(_key(name) in ID_NAMES for name in numbers)


def _has_series(names: Sequence[str]) -> bool:
    stems = Counter(stem for name in names if (stem := name.rstrip("0123456789")) != name)
    return max(stems.values(), default=0) >= MIN_SERIES


def _by_name(names: Sequence[str], usual: Sequence[str]) -> str | None:
    keys = {_key(name): name for name in reversed(names)}
    return next((keys[key] for key in usual if key in keys), None)


def _key(name: str) -> str:
    return name.strip().casefold()
