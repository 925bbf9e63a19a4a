"""The error that a client gets when a request is refused."""


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
