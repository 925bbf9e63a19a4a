"""The model card: what a trained backbone is, which data it was trained on, and how to train it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from handful.training.settings import Settings

CARD = """# {settings.network} trained on {data[name]}

A backbone for few-shot open-set recognition: pictures of {side} x {side} pixels to {dimension} features ({options}).

## Made from

{data[pictures]:,} pictures of {data[classes]:,} classes of {data[name]}; {data[held_out]:,} other classes \
({data[validation]}) chose the epoch. Digest of the pixels: `{data[digest]}`. The licence of these pictures decides \
what may be done with the weights.

Best of {epochs} epochs: {best_epoch}. {minutes:.1f} minutes of training on {threads}.

{figures}## Use

    handful embed PICTURES/ --backbone model.onnx -o features.parquet

`model.json` says how pictures are prepared. `model.base.safetensors` holds the mean feature of the base classes, for \
methods that centre on it, a sample of their items, and what methods learned from them: {heads}. The backbone only \
knows its training classes: expect worse results on other kinds of pictures.

{gains}{joint}## Make it again

    {command}

{versions}. On one thread of one machine the weights are the same to the last bit.

| setting | |
|---|---|
{settings_rows}
| file | bytes | SHA-256 |
|---|---|---|
{file_rows}"""

JOINT = """## Trained together

After the best epoch, the network and the head of {head} were trained together on {tasks:,} tasks of base classes \
(highest learning rate of the network: {rate:g}). {kept}. The figures are those of the head on tasks of {held_out:,} \
held-out classes, which chose the step. Before: the head had learned on fixed features.

| | accuracy | AUROC |
|---|---|---|
| before | {before[accuracy]:.2f} | {before[auroc]:.2f} |
| after | {after[accuracy]:.2f} | {after[auroc]:.2f} |

"""


def write_card(
    path: Path,
    *,
    settings: Settings,
    data: Mapping[str, Any],
    size: int,
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
    figures = [
        f"| {shots}-shot | {best[f'accuracy_{shots}']:.2f} | {best[f'auroc_{shots}']:.2f} |"
        for shots in (1, 5)
        if f"accuracy_{shots}" in best
    ]
    gains = []
    for name, head in heads.items():
        before, after = head["before"], head["after"]
        both = (f"{before[figure]:.2f} -> {after[figure]:.2f}" for figure in ("accuracy", "auroc"))
        gains.append(f"| {name} | {' | '.join(both)} |")
    digests = [(file, sha256(file.read_bytes()).hexdigest()) for file in files]
    joint = ""
    if together is not None:
        kept = "No step was better than the start, so the network is that of the best epoch"
        if together["gained"]:
            kept = f"The step after {together['best']:,} tasks was the best one and is kept"
        joint = JOINT.format(kept=kept, rate=settings.together_rate, **together)
    text = CARD.format(
        settings=settings, data=data, dimension=dimension, command=command, joint=joint, epochs=epochs, side=size,
        options=", ".join(f"{k} {v}" for k, v in settings.options.items()) or "as published",
        best_epoch=best.get("epoch", epochs), minutes=seconds / 60,
        threads=f"{threads} threads" if threads > 1 else "one thread",
        figures=_table(
            "SimpleShot on tasks of the validation classes (they chose the epoch: expect a little less on others):\n\n"
            "| tasks | accuracy | AUROC |",
            figures,
        ),
        gains=_table("| head, before and after learning | accuracy | AUROC |", gains),
        heads=", ".join(heads) or "nothing",
        versions=", ".join(f"{name} {version}" for name, version in versions.items()),
        settings_rows="".join(f"| {name} | {value} |\n" for name, value in settings.plain().items()),
        file_rows="".join(f"| {file.name} | {file.stat().st_size:,} | `{digest}` |\n" for file, digest in digests),
    )  # fmt: skip
    path.write_text(text, "utf-8")


def _table(head: str, rows: Sequence[str]) -> str:
    """A table of three columns and a blank line; nothing without rows."""
    return "\n".join([head, "|---|---|---|", *rows, "", ""]) if rows else ""
