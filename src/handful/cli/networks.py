"""The command for weights that others published: export."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from handful.cli._shared import Json, Mean, Overwrite, Std, app, console_for, numbers


@app.command()
def export(
    checkpoint: Annotated[
        Path, typer.Argument(help="Weights of a few-shot network: .pth, .pt, .tar of torch, or .safetensors.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The .onnx file; how to use it goes into the .json beside.")
    ] = Path("model.onnx"),
    network: Annotated[str, typer.Option(help="resnet12, conv4, wrn28_10, or auto: by its names and shapes.")] = "auto",
    size: Annotated[int, typer.Option(min=1, max=4096, help="Pixels a side of its pictures; S2M2's WRN: 80.")] = 84,
    mean: Mean = None,
    std: Std = None,
    channels: Annotated[int | None, typer.Option(help="3 or 1, to check; the file tells.")] = None,
    pool: Annotated[
        str | None, typer.Option(help="Of conv4, if the file's names mislead: flatten, max or mean of the last map.")
    ] = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Turn a published checkpoint into an ONNX backbone, which runs without torch.

    Known is how FEAT, RFS, MetaOptNet, Meta-Baseline, EASY, S2M2 and Prototypical Networks name their parameters. Says
    what fitted, and stops if a weight of the network is missing or of another shape. Nothing in the file is run.

    Pixels are taken to be scaled as on ImageNet. FEAT's ResNet-12 was trained with others:
    --mean 0.4721,0.4533,0.4100 --std 0.2772,0.2678,0.2845

    Example: handful export max_acc.pth -o resnet12.onnx, then handful embed pictures/ --backbone resnet12.onnx
    """
    from handful.backbones.preprocessing import as_numbers
    from handful.label.outputs import check_file
    from handful.utils.extras import TORCH, need

    console = console_for(as_json)
    if output.suffix.lower() != ".onnx":
        raise ValueError(f"{str(output)!r}: give a name that ends in .onnx")
    for file in (output, output.with_suffix(".json")):
        check_file(file, overwrite, (".onnx", ".json"))
    need("torch", "handful export", TORCH)
    from handful.backbones.networks.checkpoints import load_network
    from handful.backbones.networks.export import write_onnx
    from handful.backbones.torch_modules import few_shot_preprocessing

    name = None if network == "auto" else network
    options = {} if pool is None else {"pool": pool}
    module, kind, loaded = load_network(checkpoint, name, channels=channels, **options)
    said = numbers(mean=mean, std=std)
    given: dict[str, Any] = {"size": (size, size)} | {key: as_numbers(value, key) for key, value in said.items()}
    preprocessing = few_shot_preprocessing(module.channels, given)
    about = {"network": kind, "channels": module.channels, "options": module.options, "checkpoint": checkpoint.name}
    found = write_onnx(module, output, preprocessing, about)
    if as_json:
        document = about | {"size": size, **asdict(loaded), **found._asdict(), "file": str(output.resolve())}
        typer.echo(json.dumps(document, indent=2))
        return
    lines = [
        f"{checkpoint} holds a {kind} ({_options(module.options)}), {module.channels} channels, in the naming of "
        f"{loaded.layout}; in the file under {loaded.place or 'no key'}, with {loaded.prefix or 'nothing'} in front.",
        f"Parameters that fitted: {loaded.matched}; missing: {_names(loaded.missing)}; left aside, as no part of the "
        f"network: {_names(loaded.ignored)}; not expected: {_names(loaded.unexpected)}.",
        f"Features differ from torch's by {found.relative:.1e} of the largest one.",
        f"The backbone: {output} and {output.with_suffix('.json')}",
    ]
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)


def _options(options: Any) -> str:
    return ", ".join(f"{name} {value}" for name, value in options.items())


def _names(names: list[str]) -> str:
    from handful.backbones.pictures import shown

    return ", ".join(map(shown, names[:6])) + (f" and {len(names) - 6} more" if len(names) > 6 else "") or "none"
