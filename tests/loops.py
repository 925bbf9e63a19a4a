"""A test that loops over data: one case for pytest, whose failure names each value that failed."""

import inspect
from functools import wraps

import pytest


def loop(names, values):
    """As `pytest.mark.parametrize`, for a test whose values differ by data only: all of them are one case.

    Each value has a folder `tmp_path` of its own, and what a test patched with `monkeypatch` is undone after it.
    """
    keys = names.replace(" ", "").split(",") if isinstance(names, str) else list(names)

    values = list(values)
    assert values, "a loop over nothing tests nothing"

    def decorate(test):
        signature = inspect.signature(test)

        @wraps(test)
        def looped(**fixtures):
            failures, skipped = [], []
            for number, value in enumerate(values):
                case = dict(zip(keys, (value,) if len(keys) == 1 else value, strict=True))
                given = dict(fixtures)
                if "tmp_path" in given:
                    given["tmp_path"] = fixtures["tmp_path"] / str(number)
                    given["tmp_path"].mkdir()
                try:
                    test(**given, **case)
                except pytest.skip.Exception as reason:
                    skipped.append(str(reason))
                except (Exception, pytest.fail.Exception) as error:
                    first_error = failures[0][1] if failures else error
                    failures.append((f"{named(case)}: {type(error).__name__}: {error}", first_error))
                finally:
                    if "monkeypatch" in given:
                        given["monkeypatch"].undo()
            if failures:
                text = "\n".join(text for text, _ in failures)
                raise AssertionError(f"{len(failures)} of {len(values)} failed:\n{text}") from failures[0][1]
            if skipped and len(skipped) == len(values):
                pytest.skip(skipped[0])

        kept = [p for name, p in signature.parameters.items() if name not in keys]
        looped.__signature__ = signature.replace(parameters=kept)
        return looped

    return decorate


def named(case):
    """The values of a case, shortened."""
    words = (getattr(value, "__name__", None) or " ".join(repr(value).split()) for value in case.values())
    return ", ".join(word if len(word) < 80 else f"{word[:77]}..." for word in words)
