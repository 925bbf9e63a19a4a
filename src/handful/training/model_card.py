"""The model card: what a trained backbone is, which data it was trained on, and how to train it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from handful.training.settings import Settings


def write_card(
    path: Path,
    *,
    settings: Settings,
    data: Mapping[str, Any],
    preprocessing: Mapping[str, Any],
    dimension: int,
    best: Mapping[str, Any],
    epochs: int,
    seconds: float,
    threads: int,
    command: str,
    versions: Mapping[str, str],
    files: Sequence[Path],
    heads: Mapping[str, Any],
    together: Mapping[str, Any] | None = None,
) -> None:
    """Write the card as Markdown. Its figures are those of the validation classes, which chose the epoch."""
    figures = "".join(
        f"| {shots}-shot | {best[f'accuracy_{shots}']:.2f} | {best[f'auroc_{shots}']:.2f} |\n"
        for shots in (1, 5)
        if f"accuracy_{shots}" in best
    )
    options = ", ".join(f"{k} {v}" for k, v in settings.options.items()) or "as published"
    lines = [
        f"# {settings.network} trained on {data['name']}",
        "",
        f"A backbone for few-shot open-set recognition: pictures of {preprocessing['size'][0]} x "
        f"{preprocessing['size'][1]} pixels to {dimension} features ({options}).",
        "",
        "## Made from",
        "",
        f"{data['pictures']:,} pictures of {data['classes']:,} classes of {data['name']}; {data['held_out']:,} other "
        f"classes ({data['validation']}) chose the epoch. Digest of the pixels: `{data['digest']}`. The licence of "
        "these pictures decides what may be done with the weights.",
        "",
        f"Best of {epochs} epochs: {best.get('epoch', epochs)}. {seconds / 60:.1f} minutes of training on "
        f"{_threads(threads)}.",
        "",
    ]
    if figures:
        lines += [
            "SimpleShot on tasks of the validation classes (they chose the epoch: expect a little less on others):",
            "",
            "| tasks | accuracy | AUROC |",
            "|---|---|---|",
            figures,
        ]
    lines += [
        "## Use",
        "",
        "    handful embed PICTURES/ --backbone model.onnx -o features.parquet",
        "",
        "`model.json` says how pictures are prepared. `model.base.safetensors` holds the mean feature of the base "
        "classes, for methods that centre on it, a sample of their items, and what methods learned from them: "
        f"{', '.join(heads) or 'nothing'}. The backbone only knows its training classes: expect worse results on "
        "other kinds of pictures.",
        "",
        *_gains(heads),
        *_joint(together, settings),
        "## Make it again",
        "",
        f"    {command}",
        "",
        ", ".join(f"{name} {version}" for name, version in versions.items())
        + ". On one thread of one machine the weights are the same to the last bit.",
        "",
        "| setting | |",
        "|---|---|",
        *(f"| {name} | {value} |" for name, value in settings.plain().items()),
        "",
        "| file | bytes | SHA-256 |",
        "|---|---|---|",
        *(f"| {file.name} | {file.stat().st_size:,} | `{sha256(file.read_bytes()).hexdigest()}` |" for file in files),
        "",
    ]
    path.write_text("\n".join(lines), "utf-8")


def _threads(n: int) -> str:
    return f"{n} threads" if n > 1 else "one thread"


def _joint(together: Mapping[str, Any] | None, settings: Settings) -> list[str]:
    """Return what was trained together with the network, and the figures before and after."""
    if together is None:
        return []
    before, after = together["before"], together["after"]
    kept = (
        f"The step after {together['best']:,} tasks was the best one and is kept"
        if together["gained"]
        else "No step was better than the start, so the network is that of the best epoch"
    )
    return [
        "## Trained together",
        "",
        f"After the best epoch, the network and the head of {together['head']} were trained together on "
        f"{together['tasks']:,} tasks of base classes (highest learning rate of the network: "
        f"{settings.together_rate:g}). {kept}. The figures are those of the head on tasks of {together['held_out']:,} "
        "held-out classes, which chose the step. Before: the head had learned on fixed features.",
        "",
        "| | accuracy | AUROC |",
        "|---|---|---|",
        f"| before | {before['accuracy']:.2f} | {before['auroc']:.2f} |",
        f"| after | {after['accuracy']:.2f} | {after['auroc']:.2f} |",
        "",
    ]


def _gains(heads: Mapping[str, Any]) -> list[str]:
    """Return a table of the figures before and after learning, on the classes that chose the step of each head."""
    if not heads:
        return []
    rows = [
        f"| {name} | {figures['before']['accuracy']:.2f} -> {figures['after']['accuracy']:.2f} "
        f"| {figures['before']['auroc']:.2f} -> {figures['after']['auroc']:.2f} |"
        for name, figures in heads.items()
    ]
    return ["| head, before and after learning | accuracy | AUROC |", "|---|---|---|", *rows, ""]
