"""Run the tests of the solver on other versions of Python, each with the plain install.

    python scripts/pythons.py [3.10 3.12 ...]

Each version gets a virtual environment, .venv-3.10 and so on, with handful's own dependencies and pytest; it is kept
until pyproject.toml changes. The versions run at the same time. A version that is not on this machine is skipped, and
the last lines say so. Installing needs a package index; the tests run without the variables of this machine.
"""

import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSIONS = ("3.10", "3.12", "3.13")
TESTS = ("core/test_task.py", "core/test_prepare.py", "cli")
LIGHT = "not slow and not torch and not ray and not browser"
LEFT_OUT = "not scikit_learn and not pipeline"  # comparisons with scikit-learn take minutes


def find_python(version):
    """Return a command that starts this version, or None: on the PATH, or among those that pyenv installed."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    candidates = [shutil.which(f"python{version}"), *sorted(pyenv.glob(f"{version}.*/bin/python"), reverse=True)]
    for command in filter(None, candidates):  # pyenv's command on the PATH fails where a version is not activated
        answer = subprocess.run(
            [command, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], capture_output=True, text=True
        )
        if answer.returncode == 0 and answer.stdout.strip() == version:
            return command
    return None


def install(command, folder):
    """Make the virtual environment, unless it is younger than pyproject.toml; return its Python."""
    python, ready = folder / "bin" / "python", folder / "ready"
    if not ready.exists() or ready.stat().st_mtime < (ROOT / "pyproject.toml").stat().st_mtime:
        subprocess.run([command, "-m", "venv", "--clear", folder], check=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
        subprocess.run([*pip, "--editable", f"{ROOT}[light-test]"], check=True)
        ready.touch()
    return python


def test(python):
    """Run the tests in an emptied environment."""
    environment = {"HOME": str(Path.home()), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1"}
    places = [f"tests/{name}" for name in TESTS]
    return subprocess.run(
        [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-r", "fE", "-m", LIGHT, "-k", LEFT_OUT, *places],
        cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def run(version):
    """Return whether the tests passed (None: they did not run), and what to print."""
    command = find_python(version)
    if command is None:
        return None, f"Python {version}: skipped, it is not on this machine"
    start = time.monotonic()
    try:
        python = install(command, ROOT / f".venv-{version}")
    except subprocess.CalledProcessError as error:
        return False, f"Python {version}: {error}"
    installed = time.monotonic()
    process = test(python)
    seconds = f"install {installed - start:.0f} s, tests {time.monotonic() - installed:.0f} s"
    lines = process.stdout.strip().splitlines() or ["pytest printed nothing"]
    text = lines[-1] if process.returncode == 0 else "\n".join(lines)
    return process.returncode == 0, f"Python {version}: {text} ({seconds})"


def main(versions):
    with ThreadPoolExecutor(len(versions)) as pool:
        outcomes = list(pool.map(run, versions))
    for _, text in outcomes:
        print(text)
    return int(any(passed is False for passed, _ in outcomes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or VERSIONS))
