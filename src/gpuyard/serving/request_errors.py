"""Errors that become HTTP error responses."""

from __future__ import annotations


class RequestError(Exception):
    """A request that is rejected: it is invalid, or the server is overloaded."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class ModelError(Exception):
    """A model failed on a valid request: it raised, or its outputs are not finite."""

    def __init__(self, message: str, status: int = 500) -> None:
        super().__init__(message)
        self.status = status  # of the response, unless another version answers
