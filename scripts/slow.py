"""Run the tests marked `slow` of the files that have changed since they passed.

    python scripts/slow.py [--all] [options of pytest]

What a slow test file reads: itself, and the files of git that its constant `READS` names, as in
`READS = ("benchmarks/*.py", "mkdocs.yml")`. Folders and patterns of `git ls-files` may stand there. Code that all tests
use need not: else every change would run everything. `tests/slow_passed.json` holds a hash of what each file read when
it passed, and is committed with the change. Files with the same hash are left out, and named; `--all` runs them, too.
"""

import ast
import hashlib
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PASSED = ROOT / "tests" / "slow_passed.json"
REQUIRED = ("--require", "browser,ray,torch")  # a test that was skipped has not passed


def slow_files():
    """What each test file with slow tests reads, by its path."""
    files = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text("utf-8")
        if "mark.slow" in text:
            constants = [one for one in ast.parse(text).body if isinstance(one, ast.Assign)]
            reads = [ast.literal_eval(one.value) for one in constants if ast.unparse(one.targets[0]) == "READS"]
            files[path.relative_to(ROOT).as_posix()] = tuple(reads[0] if reads else ())
    return files


def hash_of(file, reads):
    """A hash of the names and contents of the files that git knows there."""
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", file, *reads]
    listing = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    digest = hashlib.sha256()
    for name in sorted(filter(None, listing.split("\0"))):
        content = (ROOT / name).read_bytes() if (ROOT / name).is_file() else b""
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def main(options):
    passed = json.loads(PASSED.read_text("utf-8")) if PASSED.exists() else {}
    if "--all" in options:
        options.remove("--all")
        passed = {}
    hashes = {file: hash_of(file, reads) for file, reads in slow_files().items()}
    changed = [file for file, now in hashes.items() if passed.get(file) != now]
    for file in hashes.keys() - set(changed):
        print(f"left out, as it passed with the same files: {file}")
    failed = []
    for file in changed:
        words = [sys.executable, "-m", "pytest", "-m", "slow", *REQUIRED, *options, file]
        if subprocess.run(words, cwd=ROOT).returncode:
            failed.append(file)
            passed.pop(file, None)
        else:
            passed[file] = hashes[file]
        kept = {name: passed[name] for name in hashes if name in passed}
        PASSED.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
    print(f"slow test files: {len(changed) - len(failed)} passed, {len(hashes) - len(changed)} left out, ", end="")
    print(f"{len(failed)} failed{': ' if failed else ''}{', '.join(failed)}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
