"""Slow tests are left out only if what they read is what it was when they passed."""

import pytest
import slow_tests


@pytest.fixture
def repository(tmp_path, monkeypatch):
    monkeypatch.setattr(slow_tests, "ROOT", tmp_path)
    monkeypatch.setattr(slow_tests, "PASSED", tmp_path / "passed.json")
    monkeypatch.setattr(slow_tests, "READS", {"tests/test_a.py": ("docs/*.py",)})
    for name in (*slow_tests.ALWAYS, "tests/test_a.py", "tests/test_b.py", "docs/x.py", "src/handful/core/y.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path


def test_a_file_is_unchanged_until_something_that_it_reads_changes(repository):
    assert slow_tests.unchanged() == []
    slow_tests.record({"tests/test_a.py": True, "tests/test_b.py": True})
    both = ["tests/test_a.py", "tests/test_b.py"]
    assert slow_tests.unchanged() == both
    for changed, left in (
        ("docs/z.py", both[1:]),  # new
        ("docs/x.txt", both),  # which it does not read
        ("src/handful/core/y.py", both[:1]),  # a file that is not in the table reads the whole package
        ("tests/conftest.py", []),
        ("tests/test_b.py", both[:1]),
    ):
        path = repository / changed
        old = path.read_bytes() if path.exists() else None
        path.write_text("changed")
        assert slow_tests.unchanged() == left, changed
        path.unlink() if old is None else path.write_bytes(old)


def test_what_fails_is_forgotten_and_what_did_not_run_is_kept(repository):
    slow_tests.record({"tests/test_a.py": True, "tests/test_b.py": True})
    slow_tests.record({"tests/test_a.py": False})
    assert slow_tests.unchanged() == ["tests/test_b.py"]
    (repository / "tests" / "test_b.py").unlink()
    slow_tests.record({})
    assert slow_tests.passed() == {}


def test_the_table_names_files_that_exist():
    for file in slow_tests.READS:
        assert len(slow_tests.files_read_by(file)) > len(slow_tests.ALWAYS)
