"""Small folders of pictures that grey pixels tell apart, and the command line over them, for the tests of `label`."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from PIL import Image

PIXELS = ("--backbone", "pixels")


def picture(kind, seed, size=(48, 40)):
    """Bright on the left, bright on the right, or across, which is no class that is shown."""
    rng = np.random.default_rng([len(kind), *kind.encode(), seed])
    pixels = rng.integers(0, 60, (size[1], size[0], 3))
    half = size[0] // 2
    {"left": pixels[:, :half], "right": pixels[:, half:], "across": pixels[:: size[1] // 5]}[kind][:] += 150
    return Image.fromarray(pixels.astype(np.uint8))


def fill(folder, count=5, kinds=("left", "right", "across")):
    """examples/left, examples/right and a pile of all kinds."""
    for kind in ("left", "right"):
        (folder / "examples" / kind).mkdir(parents=True, exist_ok=True)
        for i in range(3):
            picture(kind, 100 + i).save(folder / "examples" / kind / f"{kind}{i}.png")
    (folder / "pile").mkdir(exist_ok=True)
    for kind in kinds:
        for i in range(count):
            picture(kind, i).save(folder / "pile" / f"{kind}{i}.png")
    return folder


def rows_of(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def contents(folder):
    """Every file below a folder: bytes and time, links by where they lead."""
    found = {}
    for path in sorted(Path(folder).rglob("*")):
        if path.is_symlink():
            found[str(path.relative_to(folder))] = os.readlink(path)
        elif path.is_file():
            found[str(path.relative_to(folder))] = (path.read_bytes(), path.stat().st_mtime_ns)
    return found


def start(*arguments, cwd, before=(), **options):
    return subprocess.Popen(
        [*before, sys.executable, "-m", "handful", *map(str, arguments)], cwd=cwd, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, **options,
    )  # fmt: skip


def finish(process, seconds=120):
    try:
        out, err = process.communicate(timeout=seconds)
    finally:
        process.kill()
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def assert_refused(done, *words):
    """One sentence for people, on standard error alone."""
    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith("handful: "), done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    for word in words:
        assert word in done.stderr, done.stderr
