"""The way to a server: one request, one answer. Tests put a server of their own behind it."""

from __future__ import annotations

import http.client
import json
import re
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Protocol

from gpuyard.document import Doc, Plain
from gpuyard.errors import InputError

__all__ = ["Answer", "Endpoint", "GoogleEndpoint", "LocalEndpoint", "LostError", "redacted"]

TIMEOUT_S = 60.0
GOOGLE = re.compile(r"https://[a-z0-9-]+\.googleapis\.com/")
LOOPBACK = ("127.0.0.1", "localhost", "::1")
SECRETS = re.compile(r"(?i)(bearer\s+|ya29\.|1//)[\w.~+/=-]+")


class LostError(Exception):
    """No answer came: the server may or may not have seen the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a server said."""

    status: int
    tree: Annotated[Plain, Doc("the JSON of its body; nothing where there is none")] = None


class Endpoint(Protocol):
    """One way to send requests."""

    def send(self, http: str, url: str, body: str = "") -> Answer:
        """The answer to a request for a URL of a Google API; LostError where none came."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GoogleEndpoint:
    """The real servers. The token is asked for at each request, goes into one header, and is kept nowhere."""

    token: Callable[[], str]
    timeout_s: float = TIMEOUT_S

    def send(self, http: str, url: str, body: str = "") -> Answer:
        """The answer of Google; a token never goes anywhere else."""
        if not GOOGLE.match(url):
            raise ValueError(f"not an address of a Google API: {url}")
        token = self.token()
        return _exchange(url, http, body, {"Authorization": f"Bearer {token}"}, self.timeout_s, token)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalEndpoint:
    """A server on this machine that stands for Google's; it is given no credentials."""

    base: Annotated[str, Doc("http://127.0.0.1:PORT")]
    timeout_s: float = TIMEOUT_S

    def __post_init__(self) -> None:
        parts = urllib.parse.urlsplit(self.base)
        if parts.scheme != "http" or parts.hostname not in LOOPBACK:
            fix = "write http://127.0.0.1:PORT; real calls need no endpoint"
            raise InputError.one("GPUYARD_ENDPOINT", f'"{self.base}" is not on this machine', fix)

    def send(self, http: str, url: str, body: str = "") -> Answer:
        """The answer of the server on this machine to a URL of Google."""
        parts = urllib.parse.urlsplit(url)
        service = (parts.hostname or "").split(".")[0]
        tail = f"{parts.path}?{parts.query}" if parts.query else parts.path
        return _exchange(f"{self.base}{tail}", http, body, {"X-Service": service}, self.timeout_s)


def _exchange(url: str, method: str, body: str, headers: dict[str, str], timeout_s: float, secret: str = "") -> Answer:
    """One request on a connection of its own; the secret is taken out of whatever comes back."""
    parts = urllib.parse.urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=timeout_s)
    tail = f"{parts.path}?{parts.query}" if parts.query else parts.path
    sent = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "gpuyard", **headers}
    try:
        connection.request(method, tail, body.encode() if body else None, sent)
        response = connection.getresponse()
        text = response.read().decode(errors="replace")
        text = text.replace(secret, "[redacted]") if secret else text
    except (OSError, http.client.HTTPException) as error:
        raise LostError(redacted(f"{parts.hostname}: {type(error).__name__} {error}")) from None
    finally:
        connection.close()
    return Answer(status=response.status, tree=_tree(text))


def _tree(text: str) -> Plain:
    """The JSON of an answer; a page of a proxy becomes a text."""
    if not text.strip():
        return None
    try:
        tree: Plain = json.loads(text)
    except ValueError:
        return text[:500]
    return tree


def redacted(text: str) -> str:
    """A text without anything that looks like a token."""
    return SECRETS.sub("[redacted]", text)
