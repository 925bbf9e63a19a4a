"""The error that a client gets when a request is refused."""


class Refusal(ValueError):
    """A sentence that says what to do, and the HTTP status."""

    def __init__(self, sentence: str, status: int = 400) -> None:
        super().__init__(sentence)
        self.status = status
