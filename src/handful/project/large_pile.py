"""Labels for a pile in parts that need not fit into memory: one part of labels for each part of features.

A model is fitted to the examples and a sample of the pile (`handful.solving.blocks`). Then workers write one part of
labels for each part of features; what they counted stands in its note. All files are written to a hidden folder of the
output and moved to their place at the end. A run that was killed leaves that folder, and the same command continues
with the model and the parts that are there.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np

import handful
from handful.core.answers import Answers, ExpectedLabels
from handful.core.parameters import AUTO
from handful.estimators.classifier import FewShotClassifier
from handful.estimators.factory import load, make_estimator
from handful.features import FeatureTable
from handful.features.parquet_file import arrow_table, is_carried, open_parquet
from handful.features.parts import NOTE_KEY, count_rows, is_sharded, mean_of_shards, part_name, part_numbers, read_note
from handful.features.table import checked_mean, free_name, row_names
from handful.project.base_files import base_parameters
from handful.project.items import Progress, check_widths, of_files, read_labelled, silent
from handful.project.job import Job, job_entries
from handful.project.labelling import check_classes, decide_pile
from handful.project.outputs import (
    HOLDS_LABELS,
    LABEL_FOLDER,
    RECORD,
    RESULT_FILES,
    check_output,
    holds_labels,
    not_written,
    remove_labels,
    table_of_answers,
    write_json,
)
from handful.project.summary import Outcome
from handful.solving.blocks import Block, Engine, Part, PileParts, read_blocks
from handful.utils.files import printable, read_json, write_whole
from handful.utils.ray import Row, Worker
from handful.utils.threads import one_blas_thread

MIN_LARGE_PILE_ROWS = 100_000  # a larger pile in parts is not loaded into memory
SCRATCH_PREFIX = ".handful-parts-"  # followed by a hash of the job
MODEL_FILE = "model.safetensors"
DECISION_FILE = "decision.json"


def count_answers(answers: Answers) -> dict[str, Any]:
    """What results.json needs to know of the answers for some items."""
    by_class = answers.expected_precision_by_class
    return {
        "counts": dict(Counter(answers.labels[~answers.unknown].tolist())),
        "expected": None if by_class is None else {name: [*numbers] for name, numbers in by_class.items()},
        "set_aside": int(answers.set_aside.sum()),
    }


def add_counts(notes: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The sum of what was counted; `expected` is None where the method gives no probabilities."""
    counts, set_aside, expected = Counter[str](), 0, dict[str, list[float]]()
    for note in notes:
        counts.update(note["counts"])
        set_aside += note["set_aside"]
        for name, numbers in (note["expected"] or {}).items():
            expected[name] = [sum(pair) for pair in zip(expected.get(name, (0, 0)), numbers, strict=True)]
    return {"counts": dict(counts), "expected": expected or None, "set_aside": set_aside}


class LabelWriter(Worker):
    """Labels one part of the pile by a model in a file, and writes a file of the same name with the labels."""

    def __init__(self, model_file: str, folder: str, dimension: int, carried: Sequence[str]) -> None:
        self.model_file, self.folder = model_file, Path(folder)
        self.dimension, self.carried = dimension, list(carried)

    @cached_property
    def model(self) -> FewShotClassifier:
        """The fitted model, read by the worker itself."""
        return load(self.model_file)

    def work(self, row: Row) -> Row:
        """Write the labels of one part; another worker may have done so before it died."""
        part = Part(**row)
        path = self.folder / part_name(part.number)
        if read_note(path) is None:
            self._write(part, path)
        return {"number": int(part.number)}

    def _write(self, part: Part, path: Path) -> None:
        from pyarrow.parquet import ParquetWriter

        with open_parquet(part.path) as file:
            stored = file.schema_arrow
        names = ["path"] * ("path" in stored.names) + self.carried
        schema = arrow_table(table_of_answers(self.model.answer(np.ones((1, self.dimension))), ["a row"])).schema
        schema = schema.remove_metadata()
        for name in self.carried:
            schema = schema.append(stored.field(name).with_name(free_name(printable(name), schema.names)))
        notes, content = list[dict[str, Any]](), BytesIO()
        with ParquetWriter(content, schema, compression="zstd") as writer:
            for block in read_blocks(part, self.dimension, names):
                answers = self.model.answer(block.features)
                writer.write_table(self._table(block, answers, "path" in names).cast(schema))
                notes.append(count_answers(answers))
            writer.add_key_value_metadata({NOTE_KEY: json.dumps({**HOLDS_LABELS, **add_counts(notes)})})
        write_whole(path, content.getbuffer())

    def _table(self, block: Block, answers: Answers, has_paths: bool) -> Any:
        columns = list(block.others)
        paths = columns.pop(0).to_pylist() if has_paths else [None] * len(answers)
        names = row_names(["" if path is None else str(path) for path in paths], block.start)
        table = arrow_table(table_of_answers(answers, names))
        for name, column in zip(self.carried, columns, strict=True):
            table = table.append_column(free_name(printable(name), table.column_names), column)
        return table.replace_schema_metadata(None)


def goes_in_parts(job: Job) -> bool:
    """Whether a pile is labelled in parts: a folder of parts that is large, or that a cluster labels."""
    if job.pile is None or of_files(job.examples) or not is_sharded(job.pile):
        return False
    try:
        return job.engine != "local" or count_rows(job.pile) > MIN_LARGE_PILE_ROWS
    except ValueError as error:
        raise ValueError(f"{str(job.pile)!r}: {error}") from None


def check_in_parts(job: Job, output: Path, overwrite: bool, corrections: Sequence[Path] = ()) -> None:
    """Raise ValueError, before the work begins, for options that need the pile in memory and for existing results."""
    for option, value in (("--export", job.formats), ("--sort", job.sort), ("--corrections", corrections)):
        if value:
            raise ValueError(f"{option} needs the pile in memory, but this pile is labelled in parts: leave it out")
    place = output / LABEL_FOLDER
    for path in filter(None, (job.examples, job.pile)):
        if place.resolve() in (path.resolve(), *path.resolve().parents):
            raise ValueError(f"{str(path)!r} is where the labels will be written: give another folder")
    check_output(output, overwrite)
    if not os.path.lexists(place):
        return
    if not holds_labels(place):
        raise ValueError(f"{str(place)!r} exists and is not a folder of labels that handful wrote: give another folder")
    if foreign_files := sorted({*os.listdir(place)} - {*map(part_name, part_numbers(place))}):
        raise ValueError(
            f"{str(place / foreign_files[0])!r} is not a part of the labels: move it away, or give another folder"
        )


def label_in_parts(
    job: Job, output: Path, engine: Engine | None = None, progress: Progress = silent
) -> tuple[Outcome, dict[str, Path]]:
    """Label a folder of parts from a table of examples; write the parts of labels, the model and the record."""
    assert job.pile is not None
    if job.table.get("embedding", "embedding") != "embedding" or job.table.get("columns") is not None:
        raise ValueError(
            f"{str(job.pile)!r} is labelled in parts, whose features are read from the column 'embedding': rename it "
            "there, and leave out embedding and columns"
        )
    examples, _ = read_labelled(job.examples, job.reading(), job.unknown)
    check_classes(examples)
    try:
        pile = PileParts.of(job.pile)
        base_mean = checked_mean(mean_of_shards(job.pile), pile.dimension)
    except ValueError as error:
        raise ValueError(f"{str(job.pile)!r}: {error}") from None
    check_widths(job.examples, examples.features.shape[1], job.pile, pile.dimension)

    options = dict(job.decision)
    means = () if job.base is not None else (examples.base_mean, base_mean)
    options |= base_parameters(options.get("method", AUTO), means, job.base, pile.dimension)
    if options.pop("group_detail", 0.0):
        raise ValueError("a pile that is labelled in parts is not grouped: leave group_detail out")
    unfinished = output / f"{SCRATCH_PREFIX}{_mark(examples, pile, options)}"
    labels = unfinished / LABEL_FOLDER
    new = not output.exists()
    try:
        labels.mkdir(parents=True, exist_ok=True)
        if not (unfinished / MODEL_FILE).is_file():
            sample = pile.sample(engine, lambda done, total: progress("reading", done, total))
            model, decision = _fit(examples, sample, options)
            model.made_from_ = {"features": str(job.pile)}
            write_json({"decision": decision}, unfinished / DECISION_FILE)
            model.save(unfinished / MODEL_FILE)  # last: it says that both are complete
        model = load(unfinished / MODEL_FILE)
        carried = [column.name for column in _carried(pile)]
        arguments = (str((unfinished / MODEL_FILE).absolute()), str(labels.absolute()), pile.dimension, carried)
        notes = pile.write(LabelWriter, arguments, labels, engine, lambda done, total: progress("writing", done, total))
        for left in labels.glob(".*.tmp"):  # of workers that were killed
            left.unlink(missing_ok=True)
        total = add_counts(notes)
        by_class = total["expected"] and {name: ExpectedLabels(*each) for name, each in total["expected"].items()}
        decision = read_json(unfinished / DECISION_FILE)["decision"]
        outcome = Outcome(
            model, examples, decision, pile.rows, total["counts"], expected=by_class, set_aside=total["set_aside"]
        )
        facts = {"groups": [], "job": job_entries(job)}
        write_json({"handful": handful.__version__, **outcome.numbers, **facts}, unfinished / RECORD)
        remove_labels(output / LABEL_FOLDER)  # earlier results
        for name in RESULT_FILES:
            (output / name).unlink(missing_ok=True)
        files = {name: output / name for name in (LABEL_FOLDER, MODEL_FILE, RECORD)}
        for name, place in files.items():
            os.replace(unfinished / name, place)
        for old in output.glob(f"{SCRATCH_PREFIX}*"):
            rmtree(old, ignore_errors=True)
    except OSError as error:
        raise error if error.errno is None else not_written(error, output) from None
    except ValueError:  # the input is wrong: the same command cannot continue
        rmtree(unfinished, ignore_errors=True)
        raise
    finally:
        if not (unfinished / MODEL_FILE).exists():  # nothing to continue from
            rmtree(unfinished, ignore_errors=True)
            with suppress(OSError):  # it is not empty
                if new:
                    output.rmdir()
    return outcome, files


def _mark(examples: FeatureTable, pile: PileParts, options: Mapping[str, Any]) -> str:
    """A hash of everything that the answers depend on: a job with another hash does not continue from this folder."""
    stats = [(part.path, os.stat(part.path).st_size, os.stat(part.path).st_mtime_ns) for part in pile.parts]
    text = json.dumps(
        [handful.__version__, dict(options), examples.label_names, examples.features.shape, stats],
        default=lambda array: array.tolist(),  # the base mean
    )
    mark = blake2b(text.encode(), digest_size=8)
    mark.update(np.ascontiguousarray(examples.features).data)
    return mark.hexdigest()


def _fit(examples: FeatureTable, sample: np.ndarray, options: Mapping[str, Any]) -> tuple[FewShotClassifier, str]:
    """A model of the examples and a sample of the pile, and how it decides what is unknown, in words."""
    limits = {name: options.get(name) for name in ("threshold", "unknown_rate", "max_false_unknown", "precision")}
    own = {name: value for name, value in options.items() if name not in (*limits, "method")}
    model = make_estimator(options.get("method", AUTO), threshold=limits["threshold"], **own)
    labels = np.array([*examples.label_names, *[None] * len(sample)], dtype=object)
    with one_blas_thread():  # the same model wherever it is fitted, also to the last bit
        model.fit(np.concatenate([examples.features, sample]), labels)
    # The sample is answered as all of the pile will be: each item alone
    return model, decide_pile(model, lambda: model.answer(sample), **limits)


def _carried(pile: PileParts) -> list[Any]:
    """The other columns that all parts have, as Arrow fields: they are copied to the labels."""
    from pyarrow.types import is_dictionary

    common_columns: list[Any] = []
    for number, part in enumerate(pile.parts):
        with open_parquet(part.path) as file:
            schema = file.schema_arrow
            columns = [
                column for column in schema
                if column.name not in ("embedding", "label", "path") and is_carried(column.type)
                and schema.names.count(column.name) == 1 and not is_dictionary(column.type)
            ]  # fmt: skip
            common_columns = columns if not number else [column for column in common_columns if column in columns]
    return common_columns
