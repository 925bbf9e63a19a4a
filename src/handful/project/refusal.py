"""The error that a client gets when a request is refused."""

from __future__ import annotations

from collections.abc import Sequence

MAX_SENTENCE_CHARACTERS = 400
SERVER_STOPPED = "the server was stopped before the request was done: start it again"


class Refusal(ValueError):
    """The error of a request that is refused.

    Parameters
    ----------
    sentence : str
        What to do.
    status : int
        The HTTP status.
    """

    def __init__(self, sentence: str, status: int = 400) -> None:
        super().__init__(sentence)
        self.status = status


def plain(sentence: str) -> str:
    r"""Return one short line without control characters: parts of it may come from the request.

    >>> plain("name:\n\x1b[31mred")
    'name:  [31mred'
    """
    line = "".join(c if c.isprintable() else " " for c in sentence[: MAX_SENTENCE_CHARACTERS + 1])
    return line if len(line) <= MAX_SENTENCE_CHARACTERS else line[: MAX_SENTENCE_CHARACTERS - 1] + "…"


def invalid(place: Sequence[int | str], message: str) -> str:
    """A sentence that says which value of a request is wrong, and why.

    >>> invalid(("query", 3, 0), "Input should be a valid number")
    'query.3.0: Input should be a valid number'
    """
    where = ".".join(map(str, place))[:100]
    return f"{where}: {message}" if where else message
