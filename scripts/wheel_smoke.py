"""Build the wheel, install it without extras into a new virtual environment, and use it as a newcomer would.

    python scripts/wheel_smoke.py [--keep]

1. `python -m build` makes the source distribution, and the wheel from it, with the hatchling of .venv-dev.
2. Every file under src/handful that git knows must be in both (pages, network weights, metadata, py.typed).
3. The wheel is installed with its dependencies only, among which PyArrow is not.
4. `handful --help`, `handful info`, `handful demo`, `handful.solve`, and `handful label` and `predict` of a CSV file
   run from an empty folder, without the variables of this machine, so that nothing is read from the repository.

Step 3 needs a package index; the others need no network. `--keep` leaves the files in dist/.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOLVE = """
import numpy as np, handful
rng = np.random.default_rng(0)
centres = 4 * rng.normal(size=(4, 16))  # three classes and one that has no examples
support = np.repeat(centres[:3], 5, axis=0) + rng.normal(size=(15, 16))
labels = np.repeat(["ant", "bee", "cat"], 5)
query = np.repeat(centres, 10, axis=0) + rng.normal(size=(40, 16))
result = handful.solve(support, labels, query)
right = np.mean(np.asarray(result.labels[:30]) == np.repeat(["ant", "bee", "cat"], 10))
assert right > 0.8, result.labels
assert result.p_unknown[30:].mean() > result.p_unknown[:30].mean()
assert "site-packages" in handful.__file__, handful.__file__
handful.KDO().fit(np.concatenate([support, query]), [*labels, *[None] * 40]).save("model.safetensors")
np.save("examples.npy", support), np.save("examples.labels.npy", labels)
from handful.features import FeatureTable, write
write(FeatureTable(np.concatenate([support, query]), [*labels, *[None] * 40]), "pile.csv")
from handful.engines.kernels import levels
assert levels(), "the kernels cannot be loaded"
print(handful.__version__, f"{right:.0%} of the known items are right")
"""


def shipped_files():
    """Every file under src/handful that git knows, relative to src."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "src/handful"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    names = {name.removeprefix("src/") for name in listing.stdout.split("\0") if name and (ROOT / name).is_file()}
    assert {"handful/__init__.py", "handful/py.typed"} <= names, "git does not list the package"
    return names


def build(folder):
    """Build the source distribution and the wheel into `folder`."""
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return sdist, wheel


def check_contents(sdist, wheel):
    """Raise if a shipped file is missing, or if a file is there that does not belong to the package."""
    wanted = shipped_files()
    with tarfile.open(sdist) as archive:
        in_sdist = {name.partition("/")[2].removeprefix("src/") for name in archive.getnames()}
    with zipfile.ZipFile(wheel) as archive:
        in_wheel = {name for name in archive.namelist() if not name.split("/")[0].endswith(".dist-info")}
        library = {
            name for name in in_wheel if name.startswith("handful/engines/kernels/kernels.") and name[-2:] != ".c"
        }
        if len(library) != 1:
            raise SystemExit("the wheel has no kernels: they could not be compiled")
    for name, contents in (("source distribution", in_sdist), ("wheel", in_wheel)):
        if missing := sorted(wanted - contents):
            raise SystemExit(f"the {name} lacks {', '.join(missing)}")
    if strange := sorted(in_wheel - wanted - library):
        raise SystemExit(f"the wheel has files that git does not know: {', '.join(strange)}")
    data = [name for name in wanted if not name.endswith((".py", ".pyi"))]
    print(f"{len(wanted)} files, {len(data)} of them data, {wheel.stat().st_size:,} bytes in the wheel")


def install(wheel, folder):
    """Make a virtual environment that holds the wheel and its dependencies; return its folder of commands."""
    venv.create(folder, with_pip=True, symlinks=True)
    commands = folder / ("Scripts" if os.name == "nt" else "bin")
    subprocess.run([commands / "python", "-m", "pip", "install", "--quiet", "--no-compile", wheel], check=True)
    return commands


def use(commands, folder):
    """Run the commands that a newcomer runs first, each in an emptied environment, from an empty folder."""
    folder.mkdir()
    environment = {"HOME": str(folder), "PATH": os.defpath, "LANG": "C.UTF-8", "COLUMNS": "100"}
    for name, *arguments in (
        ("handful", "--help"), ("handful", "methods"), ("handful", "demo"), ("python", "-c", SOLVE),
        ("handful", "info", "examples.npy"), ("handful", "label", "pile.csv", "-o", "out"),
        ("handful", "predict", "out/model.safetensors", "pile.csv", "-o", "new.csv"),
    ):  # fmt: skip
        start = time.monotonic()
        process = subprocess.run(
            [commands / name, *arguments], cwd=folder, env=environment, capture_output=True, text=True
        )
        words = " ".join([name, *arguments]).split("\n")[0]
        if process.returncode:
            raise SystemExit(f"{words} ended with {process.returncode}:\n{process.stdout}\n{process.stderr}")
        print(f"  {words}: {time.monotonic() - start:.1f} s")
    if (folder / "out" / "labels.parquet").exists():
        raise SystemExit("a plain install has PyArrow: a dependency brings it along")
    if not list(folder.rglob("*.html")):
        raise SystemExit("handful demo wrote no page")


def main():
    steps = {}
    with tempfile.TemporaryDirectory(prefix="handful-wheel-") as temporary:
        folder = Path(temporary)
        start = time.monotonic()
        sdist, wheel = build(folder / "dist")
        check_contents(sdist, wheel)
        steps["build"] = time.monotonic()
        commands = install(wheel, folder / "venv")
        steps["install"] = time.monotonic()
        use(commands, folder / "elsewhere")
        steps["use"] = time.monotonic()
        if "--keep" in sys.argv[1:]:
            shutil.copytree(folder / "dist", ROOT / "dist", dirs_exist_ok=True)
    for name, end in steps.items():
        print(f"{name}: {end - start:.0f} s")
        start = end


if __name__ == "__main__":
    main()
