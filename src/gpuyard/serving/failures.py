"""What a request is told when it is not answered: a status and a sentence."""

from __future__ import annotations

__all__ = ["ModelError", "RequestError"]


class RequestError(Exception):
    """The request is wrong, or comes at a wrong time; nothing is wrong with the server."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class ModelError(Exception):
    """A version failed on a request that was right: it gave no answer, or numbers that are not finite."""
