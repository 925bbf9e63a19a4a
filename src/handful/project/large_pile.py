"""Labels for a pile in parts that need not fit into memory: one part of labels for each part of features.

The pile is solved in passes over its files, and the answers are written to scratch arrays. Then the labels are written
part by part. All files are written to a hidden folder of the output and moved to their place at the end. A run that
was killed leaves that folder, and the same command continues: from the last pass, or from the writing of labels.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np

import handful
from handful.core import decide
from handful.core.answers import Answers, ExpectedLabels
from handful.core.checks import is_no_class
from handful.core.parameters import AUTO
from handful.estimators.classifier import FewShotClassifier
from handful.estimators.factory import make_estimator
from handful.estimators.model_reader import load
from handful.features import FeatureTable, is_sharded
from handful.features.arrow_table import arrow_table, is_carried
from handful.features.base_mean import checked_mean
from handful.features.parquet_file import check_flat, check_pages, open_parquet, values_of
from handful.features.parts import NOTE_KEY, complete, count_rows, mean_of_shards, part_name, part_numbers
from handful.features.table import free_name, row_names
from handful.project.base_files import base_parameters
from handful.project.decision import find_threshold
from handful.project.items import add_unknown, check_widths, of_files, read_labelled
from handful.project.job import Job, job_entries
from handful.project.labelling import check_classes
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
from handful.project.summary import Outcome, expected_numbers, made_by, precision_in_words, share_of
from handful.solving import solve
from handful.streaming import Pile
from handful.utils.files import printable

MIN_LARGE_PILE_ROWS = 100_000  # a larger pile in parts is not loaded into memory
ROWS_PER_BLOCK = 1 << 16  # rows of labels that are written at a time
SCRATCH_PREFIX = ".handful-parts-"  # followed by a hash of the job
JOURNAL = "passes"
MODEL_FILE = "model.safetensors"
ARRAY_FILES = ("probabilities.npy", "outlier_scores.npy")  # as `solve` writes them
Progress = Callable[[str, int, int], object]  # what is being done, steps done, all steps


@dataclass(frozen=True)
class InParts:
    """The result: the labelled pile in numbers and words, and its files."""

    outcome: Outcome
    files: dict[str, Path]


@dataclass
class Solved:
    """The answers for the whole pile: P(class) [Q, N], memory-mapped, and outlier scores [Q], in memory."""

    model: FewShotClassifier
    probabilities: np.ndarray
    scores: np.ndarray

    def answers(self, start: int, stop: int) -> Answers:
        """The answers for some rows, calibrated to the whole pile."""
        probabilities = self.probabilities[start:stop].astype(np.float64)
        return Answers(probabilities, self.scores[start:stop], **self.model.answer_options)

    def all(self, name: str) -> np.ndarray | None:
        """One number of `Answers` for each row of the pile; None if these answers do not have it."""
        starts = range(0, max(len(self.scores), 1), ROWS_PER_BLOCK)
        blocks = [getattr(self.answers(i, i + ROWS_PER_BLOCK), name) for i in starts]
        return None if blocks[0] is None else np.concatenate(blocks)

    def keep_sure_labels(self, precision: float) -> str:
        """Let the model keep only labels that are sure enough; return what that does, in words."""
        p_closest, likely_unknown = self.all("p_closest"), self.all("likely_unknown")
        assert p_closest is not None
        assert likely_unknown is not None
        p_right = p_closest[~likely_unknown]
        self.model.min_confidence_ = decide.at_precision(p_right, precision)
        return precision_in_words(precision, self.model.min_confidence_, p_right)


@dataclass
class Tally:
    """What is counted while labels are written."""

    counts: Counter[str] = field(default_factory=Counter)  # items by class
    expected: dict[Any, ExpectedLabels] | None = None  # None where the method gives no probabilities
    set_aside: int = 0

    def add(self, answers: Answers) -> None:
        """Count the answers for some items."""
        self.counts.update(answers.labels[~answers.unknown].tolist())
        self.set_aside += int(answers.set_aside.sum())
        if (expected := answers.expected_precision_by_class) is not None:
            before = self.expected or dict.fromkeys(expected, ExpectedLabels(0, 0.0))
            self.expected = {
                name: ExpectedLabels(before[name].labels + e.labels, before[name].right + e.right)
                for name, e in expected.items()
            }


def goes_in_parts(examples: Path, pile: Path | None, engine: str) -> bool:
    """Whether a pile is labelled in parts: a folder of parts that is large, or that a cluster labels."""
    if pile is None or of_files(examples) or not is_sharded(pile):
        return False
    try:
        return engine != "local" or count_rows(pile) > MIN_LARGE_PILE_ROWS
    except ValueError as error:
        raise ValueError(f"{str(pile)!r}: {error}") from None


def check_in_parts(
    examples: Path,
    pile: Path,
    output: Path,
    overwrite: bool,
    formats: Sequence[str] = (),
    sort: str | None = None,
    corrections: Sequence[Path] = (),
) -> None:
    """Raise ValueError, before the work begins, for options that need the pile in memory and for existing results."""
    for option, value in (("--export", formats), ("--sort", sort), ("--corrections", corrections)):
        if value:
            raise ValueError(f"{option} needs the pile in memory, but this pile is labelled in parts: leave it out")
    place = output / LABEL_FOLDER
    for path in (examples, pile):
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


def label_in_parts(job: Job, output: Path, engine: Any = None, progress: Progress = lambda *_: None) -> InParts:
    """Label a folder of parts from a table of examples; write labels/part-00000.parquet ..., the model and the record.

    Parameters
    ----------
    job : Job
        What to label, from which examples and how.
    output : Path
        The folder of the results.
    engine : Engine, optional
        What makes the passes over the pile, as in `handful.Streaming`; by default, threads of this machine.
    progress : callable
        Called with what is being done, the steps done and the number of steps.

    Returns
    -------
    InParts
        The labelled pile in numbers and words, and its files.
    """
    assert job.pile is not None
    if job.table.get("embedding", "embedding") != "embedding" or job.table.get("columns") is not None:
        raise ValueError(
            f"{str(job.pile)!r} is labelled in parts, whose features are read from the column 'embedding': rename it "
            "there, and leave out --embedding and --columns"
        )
    examples, _ = read_labelled(job.examples, job.table)
    examples = add_unknown(examples, job.examples, job.unknown, options=job.table)
    check_classes(examples)
    try:
        parts = [job.pile / part_name(number) for number in complete(job.pile)]
        pile = Pile(parts)
        base_mean = checked_mean(mean_of_shards(job.pile), pile.dimension)
    except ValueError as error:
        raise ValueError(f"{str(job.pile)!r}: {error}") from None
    check_widths(job.examples, examples.features.shape[1], job.pile, pile.dimension)

    options = dict(job.decision)
    means = () if job.base is not None else (examples.base_mean, base_mean)
    options |= base_parameters(options.get("method", AUTO), means, job.base, pile.dimension)
    limits = {name: options.pop(name, None) for name in ("unknown_rate", "max_false_unknown")}
    precision = options.pop("precision", None)
    if options.pop("group_detail", 0.0):
        raise ValueError("a pile that is labelled in parts is not grouped: leave --group-detail out")
    scratch = output / f"{SCRATCH_PREFIX}{_mark(examples, parts, options)}"
    new = not output.exists()
    try:
        scratch.mkdir(parents=True, exist_ok=True)
        solved = _solve(examples, pile, options, engine, scratch, lambda done, total: progress("solving", done, total))
        model = solved.model
        model.made_from_ = {"features": str(job.pile)}
        doubts, p_unknown = solved.all("doubts"), solved.all("p_unknown")
        assert doubts is not None
        model.threshold_, decision = find_threshold(model, doubts, p_unknown, options.get("threshold"), **limits)
        if precision is not None:
            decision += " " + solved.keep_sure_labels(precision)
        unfinished = scratch / "made"
        rmtree(unfinished, ignore_errors=True)
        try:
            (unfinished / LABEL_FOLDER).mkdir(parents=True)
            labels = unfinished / LABEL_FOLDER
            tally = _write_labels(solved, parts, labels, lambda n: progress("writing", n, len(parts)))
            outcome = Outcome(
                model, examples, decision, len(solved.scores), tally.counts, expected=tally.expected,
                set_aside=tally.set_aside,
            )  # fmt: skip
            model.save(unfinished / MODEL_FILE)
            write_json(_record(outcome, job), unfinished / RECORD)
            files = _move(unfinished, output)
        except OSError as error:
            raise error if error.errno is None else not_written(error, output) from None
        for old in output.glob(f"{SCRATCH_PREFIX}*"):
            rmtree(old, ignore_errors=True)
    except ValueError:  # the input is wrong: the same command cannot continue
        rmtree(scratch, ignore_errors=True)
        raise
    finally:
        if not any((scratch / name).exists() for name in (JOURNAL, MODEL_FILE)):  # nothing to continue from
            rmtree(scratch, ignore_errors=True)
            with suppress(OSError):  # it is not empty
                if new:
                    output.rmdir()
    return InParts(outcome, files)


def _mark(examples: FeatureTable, parts: Sequence[Path], options: Mapping[str, Any]) -> str:
    """A hash of everything that the answers depend on: a job with another hash does not continue from this folder."""
    stats = [(str(part.resolve()), part.stat().st_size, part.stat().st_mtime_ns) for part in parts]
    text = json.dumps(
        [handful.__version__, dict(options), examples.label_names, examples.features.shape, stats],
        default=lambda array: array.tolist(),  # the base mean
    )
    mark = blake2b(text.encode(), digest_size=8)
    mark.update(np.ascontiguousarray(examples.features).data)
    return mark.hexdigest()


def _solve(
    examples: FeatureTable,
    pile: Pile,
    options: Mapping[str, Any],
    engine: Any,
    scratch: Path,
    progress: Callable[[int, int], object],
) -> Solved:
    arrays = [scratch / name for name in ARRAY_FILES]
    labels = np.array(examples.label_names)
    is_example = np.array([not is_no_class(name) for name in examples.label_names])  # of a class
    if (scratch / MODEL_FILE).is_file():  # an earlier run was killed while it wrote
        probabilities, scores = (np.load(path, mmap_mode="r") for path in arrays)
        return Solved(load(scratch / MODEL_FILE), probabilities, scores.astype(np.float64))
    model = make_estimator(options["method"], **{name: value for name, value in options.items() if name != "method"})
    result = solve(
        examples.features[is_example],
        labels[is_example],
        pile,
        unknown=None if is_example.all() else examples.features[~is_example],
        method=model._method,
        **model.get_params(deep=False),
        streaming=handful.Streaming(engine=engine, checkpoint=scratch / JOURNAL, out=scratch, progress=progress),
    )
    model._fit_solved(result, examples.features, labels)
    if all(path.is_file() for path in arrays):  # a small pile is solved in memory, without files
        for path in arrays:  # they must be on the disk before the model, which marks them as complete
            with path.open("rb+") as file:
                os.fsync(file.fileno())
        model.save(scratch / MODEL_FILE)
    return Solved(model, result.probabilities, np.asarray(result.outlier_scores, np.float64))


def _write_labels(solved: Solved, parts: Sequence[Path], folder: Path, progress: Callable[[int], object]) -> Tally:
    """Write a file of the same name for each part; return what was counted."""
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    note = {NOTE_KEY: json.dumps(HOLDS_LABELS).encode()}
    carried = _carried(parts)
    schema = arrow_table(table_of_answers(solved.answers(0, 0), [])).schema
    own = [pa.field(free_name(printable(column.name), schema.names), column.type) for column in carried]
    schema = pa.schema([*schema, *own], note)
    tally, at = Tally(), 0
    for done, part in enumerate(parts):
        progress(done)
        with ParquetWriter(folder / part.name, schema, compression="zstd") as writer:
            for names, others in _rows(part, at, carried):
                answers = solved.answers(at, at + len(names))
                if len(answers) < len(names):
                    raise OSError(f"{part} has changed while it was labelled: run the same command again")
                table = arrow_table(table_of_answers(answers, names))
                for field, column in zip(own, others, strict=True):
                    table = table.append_column(field, column)
                writer.write_table(table.replace_schema_metadata(note))
                tally.add(answers)
                at += len(names)
    if at < len(solved.scores):
        raise OSError(f"{parts[0].parent} has changed while it was labelled: run the same command again")
    progress(len(parts))
    return tally


def _carried(parts: Sequence[Path]) -> list[Any]:
    """The other columns that all parts have, as Arrow fields: they are copied to the labels."""
    from pyarrow.types import is_dictionary

    common_columns: list[Any] = []
    for number, part in enumerate(parts):
        with open_parquet(part) as file:
            schema = file.schema_arrow
            columns = [
                column for column in schema
                if column.name not in ("embedding", "label", "path") and is_carried(column.type)
                and schema.names.count(column.name) == 1 and not is_dictionary(column.type)
            ]  # fmt: skip
            common_columns = columns if not number else [column for column in common_columns if column in columns]
    return common_columns


def _rows(part: Path, at: int, carried: Sequence[Any]) -> Iterator[tuple[list[str], list[Any]]]:
    """Names and other columns of the rows of a part, which begins at row `at` of the pile, block by block."""
    try:
        with open_parquet(part) as file:
            names = [name for name in ("path",) if name in file.schema_arrow.names]
            names += [column.name for column in carried]
            for name in names:
                check_flat(file.schema_arrow.field(name).type, f"column {name!r}")
            check_pages(part, file, names, whole=False)
            count = file.metadata.num_rows
        if not names:
            for start in range(at, at + count, ROWS_PER_BLOCK):
                yield [f"row {i}" for i in range(start, min(start + ROWS_PER_BLOCK, at + count))], []
            return
        with open_parquet(part, texts=["path"] if "path" in names else []) as file:
            for batch in file.iter_batches(ROWS_PER_BLOCK, columns=names):
                batch.validate(full=True)
                paths = values_of(batch.column("path")) if "path" in names else [None] * batch.num_rows
                yield (
                    row_names(["" if path is None else str(path) for path in paths], at),
                    [batch.column(column.name) for column in carried],
                )
                at += batch.num_rows
    except ValueError as error:
        raise OSError(f"{part} cannot be read: {error}") from None


def _record(outcome: Outcome, job: Job) -> dict[str, Any]:
    """The record that `record.read_record` reads. It has no groups."""
    return {
        "handful": handful.__version__,
        **numbers_of(outcome),
        "made_by": made_by(outcome.model, outcome.model.made_from_),
        "groups": [],
        "job": job_entries(job),
    }


def numbers_of(outcome: Outcome) -> dict[str, Any]:
    """The numbers of a run that results.json lists."""
    return {
        "items": outcome.size,
        "unknown": outcome.unknown,
        "labels": {str(name): outcome.counts.get(name, 0) for name in outcome.model.classes_.tolist()},
        **expected_numbers(outcome.expected, outcome.set_aside),
        **share_of(outcome.model),
        "threshold": outcome.model.threshold_,
        "decided": outcome.decision,
    }


def _move(unfinished: Path, output: Path) -> dict[str, Path]:
    """Move the new files to their place; remove earlier results."""
    remove_labels(output / LABEL_FOLDER)
    for name in RESULT_FILES:
        (output / name).unlink(missing_ok=True)
    files = {name: output / name for name in (LABEL_FOLDER, MODEL_FILE, RECORD)}
    for name, place in files.items():
        os.replace(unfinished / name, place)
    return files
