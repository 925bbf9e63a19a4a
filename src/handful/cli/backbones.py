"""`handful backbones`: the networks that turn pictures and texts into features; published weights become one."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from handful.cli._console import Console, print_json
from handful.cli._options import JSON, MEAN, OUTPUT, OVERWRITE, STD, app, argument, command, option, parse_numbers

group = typer.Typer(invoke_without_command=True, help="List the backbones, or make one of published weights: export.")
app.add_typer(group, name="backbones")


@group.callback()
def backbones(context: typer.Context, as_json: bool = JSON) -> None:
    """List the backbones, which turn pictures and texts into features; or make one of published weights: export."""
    if context.invoked_subcommand is not None:
        return
    from handful.backbones import list_backbones
    from handful.backbones.catalogue import LEVELS

    infos = list_backbones()
    if as_json:
        print_json([asdict(info) for info in infos])
        return
    levels = "\n".join(f"{level}: {sentence} ({name})" for level, (name, sentence) in LEVELS.items())
    note = f'For pictures:\n{levels}\nTo install an extra: pip install "handful[images]"'
    head = ("name", "what it is", "features", "input", "MB", "licence", "extra")
    rows = []
    for info in infos:
        numbers = ("" if x is None else f"{x:g}" for x in (info.dimension, info.input_size, info.megabytes))
        rows.append([info.name, info.title, *numbers, info.licence, info.extra])
    Console().table(head, rows, left=len(head), note=note)


@command(group)
def export(
    checkpoint: Path = argument("Weights of a few-shot network: .pth, .pt, .tar of torch, or .safetensors."),
    output: Path = option("The .onnx file; the .json beside it says how to use it.", Path("model.onnx"), names=OUTPUT),
    size: int = option("Pixels per side of its pictures; for the WRN of S2M2: 80.", 84, min=1, max=4096),
    mean: str | None = MEAN,
    std: str | None = STD,
    pool: str | None = option("For conv4, if the names in the file mislead: flatten, max or mean of the last map."),
    overwrite: bool = OVERWRITE,
    as_json: bool = JSON,
) -> None:
    """Turn a published checkpoint into an ONNX backbone, which runs without torch.

    The command knows how FEAT, RFS, MetaOptNet, Meta-Baseline, EASY, S2M2 and Prototypical Networks name their
    parameters. It says which weights fitted, and stops if a weight of the network is missing or has another shape. No
    code in the file is run.

    The default scale of pixels is that of ImageNet. FEAT's ResNet-12 was trained with another one:
    --mean 0.4721,0.4533,0.4100 --std 0.2772,0.2678,0.2845

    Example: handful backbones export max_acc.pth -o resnet12.onnx, then handful embed pictures/ --backbone
    resnet12.onnx
    """
    from handful.backbones.folders import shown
    from handful.project.outputs import check_file
    from handful.utils.extras import TORCH, need

    if output.suffix.lower() != ".onnx":
        raise ValueError(f"{str(output)!r}: give a name that ends in .onnx")
    for file in (output, output.with_suffix(".json")):
        check_file(file, overwrite, (".onnx", ".json"))
    need("torch", "handful backbones export", TORCH)
    from handful.backbones.networks.checkpoints import load_network
    from handful.backbones.networks.export import export_onnx
    from handful.backbones.torch_modules import few_shot_preprocessing

    module: Any
    module, kind, loaded = load_network(checkpoint, **({} if pool is None else {"pool": pool}))
    scale: dict[str, Any] = {"size": size}
    scale |= {name: parse_numbers(text) for name, text in (("mean", mean), ("std", std)) if text}
    preprocessing = few_shot_preprocessing(module.channels, scale)
    about = {"network": kind, "channels": module.channels, "options": module.options, "checkpoint": checkpoint.name}
    difference = export_onnx(module, output, preprocessing, about=about)
    if as_json:
        document = about | {"size": size, **asdict(loaded), "relative": difference, "file": str(output.resolve())}
        print_json(document)
        return
    options = ", ".join(f"{name} {value}" for name, value in module.options.items())
    unused = ", ".join(map(shown, loaded.unused[:6])) or "none"
    unused += f" and {len(loaded.unused) - 6} more" if len(loaded.unused) > 6 else ""
    Console().print(
        f"{checkpoint} holds a {kind} ({options}), {module.channels} channels, with the names of {loaded.layout}; "
        f"in the file under {loaded.place or 'no key'}, with {loaded.prefix or 'nothing'} in front.",
        f"Parameters that fitted: {loaded.matched}; not used, because they belong to no part of the network: {unused}.",
        f"The features differ from those of torch by {difference:.1e} of the largest one.",
        f"The backbone: {output} and {output.with_suffix('.json')}",
    )
