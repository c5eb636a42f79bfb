"""Application-default credentials, by google-auth. The token lives in its object and in one header at a time."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Protocol, cast

from gpuyard.errors import RefusedError

__all__ = ["application_default_token"]

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
LOGIN = "log in with `gcloud auth application-default login`, or run where a service account is attached"
INSTALL = "install them with `pip install 'gpuyard[gcp]'`, then " + LOGIN


class _Credentials(Protocol):
    """What google-auth gives."""

    @property
    def valid(self) -> bool: ...
    @property
    def token(self) -> str | None: ...
    def refresh(self, request: object) -> None: ...


class _Auth(Protocol):
    """The module google.auth."""

    def default(self, scopes: list[str]) -> tuple[_Credentials, str | None]: ...


class _Transport(Protocol):
    """The module google.auth.transport.requests."""

    Request: Callable[[], object]


def application_default_token() -> Callable[[], str]:
    """What gives a valid token each time it is asked; RefusedError saying how to get credentials."""
    try:
        auth = cast(_Auth, importlib.import_module("google.auth"))
        transport = cast(_Transport, importlib.import_module("google.auth.transport.requests"))
    except ImportError:
        raise RefusedError("credentials", "the package google-auth is not installed", INSTALL) from None
    try:
        credentials, _ = auth.default(scopes=[SCOPE])
    except Exception as error:  # google-auth has one class of error for each of its sources
        raise RefusedError("credentials", f"none were found ({type(error).__name__})", LOGIN) from None

    def token() -> str:
        """A token that is valid now."""
        if not credentials.valid:
            try:
                credentials.refresh(transport.Request())
            except Exception as error:  # as above; its text may hold what must not be shown
                raise RefusedError("credentials", f"no token ({type(error).__name__})", LOGIN) from None
        return credentials.token or ""

    return token
