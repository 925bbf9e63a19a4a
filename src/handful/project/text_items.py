"""What is particular to texts: reading their files, turning them into features, and names of classes as examples."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from handful.core.checks import is_no_class
from handful.features import FeatureTable, concatenate
from handful.utils.text import counted, is_blank, shortened

FILE_COLUMN = "text"  # the column of every output that holds the content of text files
MIN_LONG_CHARACTERS = 60  # a shorter text is one piece for every encoder


def words_of(name: str) -> str:
    """The words of a class's name: "lost_or-stolen/card" is lost or stolen card, "orderStatus" is order status."""
    spaced = re.sub(r"[\W_]+", " ", name).strip()
    return re.sub(r"(?<=[a-z])([A-Z])(?=[a-z])", lambda match: f" {match[1].lower()}", spaced)


def with_class_names(examples: FeatureTable) -> FeatureTable:
    """Texts without features, and the name of each class as one more example, unless it is one already."""
    names = [str(name) for name in examples.classes.tolist() if not is_no_class(str(name))]
    texts = [words_of(name) for name in names]
    used = Counter([*(examples.texts or ()), *texts])
    new = [(name, text) for name, text in zip(names, texts, strict=True) if used[text] == 1 and not is_blank(text)]
    if not new:
        return examples
    rows = FeatureTable(
        np.empty((len(new), 0), np.float32), [name for name, _ in new], [f"the name {name}" for name, _ in new],
        others={column: [None] * len(new) for column in examples.others}, texts=[text for _, text in new],
    )  # fmt: skip
    note = f"The names of {len(new)} class{'es' * (len(new) > 1)} count as one example each."
    return concatenate([examples, rows]).replace(notes=[*examples.notes, note])


def read_text_files(paths: Sequence[Path], strict: bool = False) -> FeatureTable:
    """Read text files; each is named by its path as given."""
    from handful.backbones.texts import BadText, read_text

    read: dict[Path, str] = {}
    skipped: list[tuple[str, str]] = []
    problems: list[tuple[Path, str]] = []
    for path in paths:
        try:
            read[path], problem = read_text(path)
        except BadText as error:
            if strict:
                raise
            skipped.append((error.path, error.reason))
            continue
        if problem:
            problems.append((path, problem))
    notes = []
    if problems:
        path, problem = problems[0]
        others = f"; so {counted(len(problems) - 1, 'other file')}" if len(problems) > 1 else ""
        notes.append(f"{shortened(path.name)}: {problem}{others}.")
    files, texts = list(read), list(read.values())
    columns: dict[str, Any] = {"paths": [str(file) for file in files], "others": {FILE_COLUMN: texts}}
    columns |= {"files": files, "texts": texts, "source": {"text": FILE_COLUMN}}
    return FeatureTable(np.empty((len(files), 0), np.float32), skipped=skipped, notes=notes, **columns)


def embed_items(
    items: FeatureTable, backbone: Any, what: str, progress: Callable[[str, int, int], None], cache: Any = True
) -> FeatureTable:
    """The same items with features. A row without a text gets zeros: it is never solved for."""
    from handful.backbones import embed_texts

    texts = list(items.texts or ())
    rows = [row for row, text in enumerate(texts) if not is_blank(text)]
    chosen = [texts[row] for row in rows]
    embedded = embed_texts(chosen, backbone, cache=cache, progress=lambda done, total: progress(what, done, total))
    features = np.zeros((len(items), backbone.dimension), np.float32)
    features[rows] = embedded.features
    hashes = [""] * len(items)
    for row, content in zip(rows, embedded.hashes or (), strict=True):
        hashes[row] = content
    pieces = backbone.count_pieces([text for text in chosen if len(text) > MIN_LONG_CHARACTERS])
    notes = list(items.notes)
    if count := int((pieces > 1).sum()):
        are = "texts of the {} are long: they were" if count > 1 else "text of the {} is long: it was"
        notes.append(f"{count:,} {are.format(what)} cut into pieces, whose features are averaged.")
    source = {"backbone": backbone.name, "backbone_fingerprint": backbone.fingerprint or None}
    return items.replace(
        features=features, hashes=hashes, notes=notes, source={**items.source, **source}, base=backbone.base
    )
