"""Application default credentials through google-auth."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Protocol, cast

from gpuyard.errors import ExternalError

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
LOGIN = (
    "log in with `gcloud auth application-default login`, "
    "or run on a machine with a service account attached"
)
INSTALL = "install it with `pip install 'gpuyard[gcp]'`, then " + LOGIN


class _Credentials(Protocol):
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
    """Return a function that returns a valid access token, refreshed when it has expired.

    Raises ExternalError with a fix if there are no credentials.
    """
    try:
        auth = cast(_Auth, importlib.import_module("google.auth"))
        transport = cast(_Transport, importlib.import_module("google.auth.transport.requests"))
    except ImportError:
        what = "the package google-auth is not installed"
        raise ExternalError("credentials", what, INSTALL) from None
    try:
        credentials, _ = auth.default(scopes=[SCOPE])
    except Exception as error:  # google-auth raises a different class per credential source
        what = f"no application default credentials ({type(error).__name__})"
        raise ExternalError("credentials", what, LOGIN) from None

    def token() -> str:
        if not credentials.valid:
            try:
                credentials.refresh(transport.Request())
            except Exception as error:  # as above; its message may contain a secret
                what = f"no access token ({type(error).__name__})"
                raise ExternalError("credentials", what, LOGIN) from None
        return credentials.token or ""

    return token
