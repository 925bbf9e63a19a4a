"""What a request is told when it cannot be done."""

from __future__ import annotations


class Refusal(ValueError):
    """One sentence that says what to do, and the HTTP status that goes with it."""

    def __init__(self, sentence: str, status: int = 400) -> None:
        super().__init__(sentence)
        self.status = status
