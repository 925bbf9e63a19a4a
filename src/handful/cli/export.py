"""`handful export`: published weights become a backbone."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from handful.cli._app import command
from handful.cli._console import console_for, print_lines
from handful.cli._options import Json, Overwrite, parse_pixel_numbers


@command()
def export(
    checkpoint: Annotated[
        Path, typer.Argument(help="Weights of a few-shot network: .pth, .pt, .tar of torch, or .safetensors.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The .onnx file; the .json beside it says how to use it.")
    ] = Path("model.onnx"),
    network: Annotated[
        str, typer.Option(help="resnet12, conv4, wrn28_10; or auto: by the names and shapes in the file.")
    ] = "auto",
    size: Annotated[
        int, typer.Option(min=1, max=4096, help="Pixels per side of its pictures; for the WRN of S2M2: 80.")
    ] = 84,
    mean: Annotated[
        str | None, typer.Option(help="Mean of its pixels, scaled to 0..1, one number per channel: 0.485,0.456,0.406.")
    ] = None,
    std: Annotated[
        str | None, typer.Option(help="Standard deviation of its pixels, in the same way: 0.229,0.224,0.225.")
    ] = None,
    channels: Annotated[int | None, typer.Option(help="3 or 1, as a check; the file says it.")] = None,
    pool: Annotated[
        str | None,
        typer.Option(help="For conv4, if the names in the file mislead: flatten, max or mean of the last map."),
    ] = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Turn a published checkpoint into an ONNX backbone, which runs without torch.

    The command knows how FEAT, RFS, MetaOptNet, Meta-Baseline, EASY, S2M2 and Prototypical Networks name their
    parameters. It says which weights fitted, and stops if a weight of the network is missing or has another shape. No
    code in the file is run.

    The default scale of pixels is that of ImageNet. FEAT's ResNet-12 was trained with another one:
    --mean 0.4721,0.4533,0.4100 --std 0.2772,0.2678,0.2845

    Example: handful export max_acc.pth -o resnet12.onnx, then handful embed pictures/ --backbone resnet12.onnx
    """
    from handful.backbones.preprocessing import as_numbers
    from handful.project.outputs import check_file
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
    pixels = parse_pixel_numbers(mean=mean, std=std)
    scale: dict[str, Any] = {"size": (size, size)} | {key: as_numbers(value, key) for key, value in pixels.items()}
    preprocessing = few_shot_preprocessing(module.channels, scale)
    about = {"network": kind, "channels": module.channels, "options": module.options, "checkpoint": checkpoint.name}
    difference = write_onnx(module, output, preprocessing, about)
    if as_json:
        document = about | {"size": size, **asdict(loaded), **difference._asdict(), "file": str(output.resolve())}
        typer.echo(json.dumps(document, indent=2))
        return
    parameters = (
        f"Parameters that fitted: {loaded.matched}; missing: {_names(loaded.missing)}; ignored, because they belong to "
        f"no part of the network: {_names(loaded.ignored)}; not expected: {_names(loaded.unexpected)}."
    )
    print_lines(
        console,
        [
            f"{checkpoint} holds a {kind} ({_options(module.options)}), {module.channels} channels, with the names of "
            f"{loaded.layout}; in the file under {loaded.place or 'no key'}, with {loaded.prefix or 'nothing'} in "
            "front.",
            parameters,
            f"The features differ from those of torch by {difference.relative:.1e} of the largest one.",
            f"The backbone: {output} and {output.with_suffix('.json')}",
        ],
    )


def _options(options: Any) -> str:
    return ", ".join(f"{name} {value}" for name, value in options.items())


def _names(names: list[str]) -> str:
    from handful.backbones.folders import shown

    return ", ".join(map(shown, names[:6])) + (f" and {len(names) - 6} more" if len(names) > 6 else "") or "none"
