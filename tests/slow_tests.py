"""Slow tests: `make test-slow` runs them all, and `make test-slow CHANGED=1` those whose files have changed.

When all slow tests of a file have passed, `make test-slow` writes the digest of the files that they read into
PASSED. It is in the repository, so a clone knows which have passed as the files are now, whatever its history is. If
somebody forgets to run them and to commit it, CI runs them: it takes longer, and nothing is lost.
"""

import json
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PASSED = ROOT / "tests" / "slow_tests_passed.json"
ALWAYS = ("pyproject.toml", "constraints.txt", "tests/conftest.py")
READS = {  # by file of tests, what it reads beside itself; others: the whole package
    "tests/bench/test_benchmark_scripts.py": ("benchmarks/*.py", "docs/*.py", "src/handful/bench"),
    "tests/pages/test_examples.py": ("examples", "docs/site_examples.py", "src/handful/core", "src/handful/solving"),
    "tests/pages/test_site.py": ("docs", "examples", "mkdocs.yml", "README.md", "src/handful/cli"),
    "tests/pages/test_workbench_tutorial.py": ("docs/screenshots.py", "docs/tutorials", "src/handful/workbench"),
}
WHOLE_PACKAGE = ("src/handful",)


def files_read_by(test_file):
    """The files that the slow tests of a file read, by the table above."""
    files = {ROOT / test_file}
    for pattern in (*ALWAYS, *READS.get(test_file, WHOLE_PACKAGE)):
        matches = list(ROOT.glob(pattern))
        if not matches:
            raise ValueError(f"READS in {__file__}: {test_file} reads {pattern}, and there is no such file")
        for path in matches:
            files |= set(path.rglob("*")) if path.is_dir() else {path}
    return sorted(path for path in files if path.is_file() and "__pycache__" not in path.parts)


def digest_of(test_file):
    """A short digest of the names and the contents of these files."""
    digest = sha256()
    for path in files_read_by(test_file):
        digest.update(f"{path.relative_to(ROOT).as_posix()}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def passed():
    """By file of tests: the digest with which its slow tests passed last."""
    return json.loads(PASSED.read_text("utf-8")) if PASSED.exists() else {}


def unchanged():
    """The files whose slow tests have passed as everything that they read is now."""
    digests = passed()
    return sorted(file for file in digests if (ROOT / file).exists() and digest_of(file) == digests[file])


def record(outcomes):
    """Store the digest of each file whose tests all passed; outcomes: by file, whether they did."""
    digests = {file: digest for file, digest in passed().items() if (ROOT / file).exists() and outcomes.get(file, True)}
    digests |= {file: digest_of(file) for file, all_passed in outcomes.items() if all_passed}
    PASSED.write_text(json.dumps(digests, indent=1, sort_keys=True) + "\n", "utf-8")
