"""`handful warm`: compile the fused kernels before they are needed."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from handful.cli._app import command
from handful.cli._console import console_for, print_lines, progress_bars
from handful.cli._options import Json
from handful.utils.extras import FAST, need


@command()
def warm(
    ways: Annotated[
        list[int] | None, typer.Option(min=1, help="Number of classes; may be given several times. Default: any.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Compile the fused kernels now, so that no later run has to: when a container image or a server is set up.

    Kernels are compiled once for a machine, and kept in the cache folder. Without this command it happens beside the
    work, as soon as there is enough of it. The files can be kept elsewhere: set HANDFUL_CACHE to a folder.

    Example: handful warm --ways 5
    """
    need("numba", "handful warm", FAST)
    from handful.engines import compiling

    folder = compiling.kernel_folder()
    if folder is None:
        raise OSError(
            "the cache folder cannot be used, or others can write to it: set HANDFUL_CACHE to the whole path of a "
            "folder of your own"
        )
    kernels = compiling.all_kernels()
    if ways:
        wanted = {compiling.Kernel.of(name, number, "float32") for name in compiling.KERNELS for number in ways}
        kernels = [kernel for kernel in kernels if kernel in wanted]
    stored = {kernel for kernel in kernels if kernel.is_stored}
    console, seconds = console_for(as_json), 0.0
    with progress_bars(console, "kernels") as progress:
        for done, kernel in enumerate(kernels):
            progress("compiling", done, len(kernels))
            seconds += compiling.make_now(kernel)
        progress("compiling", len(kernels), len(kernels))
    if as_json:
        compiled = len(kernels) - len(stored)
        record = {"folder": str(folder), "compiled": compiled, "loaded": len(stored), "seconds": round(seconds, 3)}
        typer.echo(json.dumps(record))
        return
    already = f" ({len(stored)} were there already)" if stored else ""
    print_lines(console, [f"{len(kernels)} kernels are ready{already}, after {seconds:.1f} s, in {folder}"])
