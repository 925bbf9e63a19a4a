"""Methods that learn from base classes, beside all others, on classes that nothing was learned from. ::

    python benchmarks/base_methods.py DATA --work FOLDER   # an hour on two cores; benchmarks/results/base_methods.md
    python benchmarks/base_methods.py --quick              # a minute, generated features, a temporary folder

DATA is a folder with omniglot.npz, tiny_imagenet_base.npz, tiny_imagenet_test.npz and domains/*.npz. Omniglot: heads
are learned on the background characters, and tasks are made of the evaluation characters, both through the backbone
that comes with handful. Tiny ImageNet: heads are learned on 64 base classes with 20 items each; the backbone has seen
ImageNet. Domains: heads are learned on a random half of the classes, and tasks are made of the other half. Tasks are
5-way with five unknown classes and 15 + 15 queries a class, the same for all methods. EOL and KDO are told the share of
unknowns; EOL + KDO is not, unless the row says so. Half-widths are those of the 95 % interval over tasks. Learning
stops early, so its time, in seconds of one core, depends on when the held-out classes gain no more. `--work FOLDER`
keeps features, base files and results: a run that was killed continues.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import _report
import numpy as np
from _report import Section
from _script import Parser
from rich.console import Console

from handful.bench.report import perform
from handful.core.base import Base, read_base
from handful.core.metrics import mean_and_half_width
from handful.features import FeatureTable, Protocol, read, write
from handful.solving import describe, list_methods
from handful.training.heads import learn_base
from handful.training.heads.learned_base import HEADS

METHODS = (
    "auto", "eol_kdo:outlier_share=0.5", "eol", "kdo", "oslo", "ostim", "soft_kmeans", "tim_gd", "pt_map", "bdcspn",
    "laplacianshot", "transclip", "flowr", "meta_bce", "ood_maml", "frob", "conformal", "snatcher_f", "feat",
    "peeler", "poodle", "proser", "rpl", "relative_mahalanobis", "gda", "gda_clip", "openmax:weibull=false",
    "finetune", "simpleshot", "knn",
)  # fmt: skip
DOMAINS = ("banking77", "esc50_birdnet", "pokemon")
FEW_EPISODES = 640  # with --quick
QUICK_METHODS = ("eol", "flowr", "feat", "simpleshot")


class DataSet(NamedTuple):
    """Features to learn from, other classes that choose the step (or None), and features to make tasks of."""

    base: FeatureTable
    validation: FeatureTable | None
    novel: FeatureTable


def omniglot(path: Path, work: Path) -> DataSet:
    """Background and evaluation characters; 48 background characters choose the step, as in the shipped base."""
    from handful.backbones import load_backbone
    from handful.training.datasets import read_pictures
    from handful.training.datasets.picture_set import embed_set
    from handful.training.pretraining import split
    from handful.training.settings import Settings

    names = ("learning", "held_out", "novel")
    files = {name: work / f"omniglot-{name}.npz" for name in names}
    if not all(file.exists() for file in files.values()):
        backbone = load_backbone("omniglot")
        learning, held_out = split(read_pictures(path, splits=["base"]), Settings())
        for name, pictures in zip(names, (learning, held_out, read_pictures(path, splits=["novel"])), strict=True):
            write(embed_set(pictures, backbone), files[name])
    return DataSet(*(read(files[name]) for name in names))


def halves(table: FeatureTable) -> DataSet:
    """A random half of the classes to learn from, the other half for tasks."""
    order = np.random.default_rng(0).permutation(np.unique(table.need_labels()))
    is_base = np.isin(table.need_labels(), order[: len(order) // 2])
    parts = [
        FeatureTable(np.asarray(table.features[rows], np.float32), table.need_labels()[rows], name=table.name)
        for rows in (is_base, ~is_base)
    ]
    return DataSet(parts[0], None, parts[1])


def generated() -> DataSet:
    """Classes in few of the features; the others hold noise."""
    rng = np.random.default_rng(0)
    spread = np.where(np.arange(24) < 8, 0.5, 2.0)
    centres = np.where(np.arange(24) < 8, 1.0, 0.0) * rng.normal(size=(60, 24))
    features = (centres[:, None] + spread * rng.normal(size=(60, 24, 24))).reshape(-1, 24).astype(np.float32)
    return halves(FeatureTable(features, np.repeat(np.arange(60), 24), name="generated"))


def data_sets(folder: Path | None, work: Path) -> Iterator[tuple[str, DataSet]]:
    if folder is None:
        yield "generated", generated()
        return
    yield "Omniglot", omniglot(folder / "omniglot.npz", work)
    base, novel = (read(folder / f"tiny_imagenet_{part}.npz") for part in ("base", "test"))
    yield "Tiny ImageNet", DataSet(base, None, novel)
    for name in DOMAINS:
        yield name, halves(read(folder / "domains" / f"{name}.npz"))


def learned(name: str, data: DataSet, work: Path, episodes: int) -> Base:
    """The base of a data set with all heads; a file for each head keeps what was learned."""
    parts = {}
    for head in HEADS:
        path = work / f"{name.lower().replace(' ', '-')}.{head}.safetensors"
        if not path.exists():
            began = time.process_time()
            part = learn_base(data.base, validation=data.validation, heads=[head], episodes=episodes)
            part.about["heads"][head]["seconds"] = time.process_time() - began
            part.save(path)
            print(f"{name}: {head} learned in {part.about['heads'][head]['seconds']:.0f} s of one core", flush=True)
        parts[head] = read_base(path)
    last = parts[head]
    about = last.about | {"heads": {head: part.about["heads"][head] for head, part in parts.items()}}
    return Base(last.mean, {head: part.heads[head] for head, part in parts.items()}, last.negatives, about)


def lesson_rows(base: Base, name: str) -> list[tuple[str, ...]]:
    rows = []
    for head, report in base.about["heads"].items():
        before, after = report["before"], report["after"]
        rows.append((
            f"{name}: {head}", f"{before['accuracy']:.1f} to {after['accuracy']:.1f}",
            f"{before['auroc']:.1f} to {after['auroc']:.1f}", f"{report['step']} of {report['steps']}",
            f"{report['seconds']:.0f}",
        ))  # fmt: skip
    return rows


def main() -> None:
    parser = Parser(__doc__, "an hour")
    parser.add_data("data", "the folder of the data sets")
    parser.add_size("--tasks", 1000, 5, "tasks of each kind")
    parser.add_size("--jobs", 2, 1, "processes")
    parser.add_part("--only", nargs="+", metavar="SET", help="these data sets alone, as in Omniglot banking77")
    parser.add_argument("--work", type=Path, help="a folder that keeps features, base files and results")
    given = parser.parse()
    console = Console()
    work = given.work or Path(tempfile.mkdtemp(prefix="handful-base-methods-"))
    work.mkdir(parents=True, exist_ok=True)
    names = QUICK_METHODS if given.quick else METHODS
    methods = [name for name in names if name.split(":")[0] in (*list_methods(), "auto")]
    lessons, figures, titles = [], {}, []
    for name, data in data_sets(None if given.quick else given.data, work):
        if given.only and name not in given.only:
            continue
        base = learned(name, data, work, FEW_EPISODES if given.quick else 20_000)
        lessons += lesson_rows(base, name)
        for shots in (5, 1):
            title = f"{name}, {shots}-shot"
            titles.append(title)
            outcome = perform(
                "balanced", data.novel, base, output=work / "results", methods=methods, tasks=given.tasks,
                jobs=given.jobs, protocol=Protocol(shots=shots),
            )  # fmt: skip
            for (_, row), values in outcome.results[0].figures.items():
                figures.setdefault(row, {})[title] = values
            console.print(f"{title}: {len(methods)} methods on {given.tasks} tasks")
    sections = [
        Section(
            f"{label}, {shots}-shot",
            ("method", *(t.rsplit(",", 1)[0] for t in titles if t.endswith(f" {shots}-shot"))),
            [
                (row, *(_cell(values[t][figure]) for t in titles if t.endswith(f" {shots}-shot")))
                for row, values in figures.items()
            ],
        )
        for shots in (5, 1)
        for figure, label in (("auroc", "AUROC of unknowns"), ("accuracy", "Accuracy of knowns"))
    ]
    header = ("head", "accuracy on held-out classes", "AUROC", "best step", "seconds of one core")
    sections.append(Section("What learning gained, and how long it took", header, lessons))
    for section in sections:
        _report.show(console, section)
    needs = [describe(name).title for name in list_methods() if describe(name).needs == "base"]
    notes = [_report.about(__doc__), f"These methods learn from base classes: {', '.join(needs)}.", _report.machine()]
    path = given.output / "base_methods.md"
    _report.write(console, path, "Methods that learn from base classes", sections, [], notes)


def _cell(values: np.ndarray) -> str:
    mean, half_width = mean_and_half_width(values)
    return f"{mean:.1f} ± {half_width:.1f}"


if __name__ == "__main__":
    main()
