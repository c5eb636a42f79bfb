"""HTTP transport to Google APIs, or to a local server that replaces them."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Protocol

from gpuyard.document.field_types import Doc
from gpuyard.errors import InputError
from gpuyard.http import NO_RETRY, HttpClient, HttpResponse, is_loopback

TIMEOUT_S = 60.0
GOOGLE = re.compile(r"https://[a-z0-9-]+\.googleapis\.com/")
SECRETS = re.compile(r"(?i)(bearer\s+|ya29\.|1//)[\w.~+/=-]+")


class ApiTransport(Protocol):
    """Sends one request to a Google API, without retries."""

    def send(self, method: str, url: str, body: str = "") -> HttpResponse:
        """Return the response; raise HttpError or NoResponseError."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GoogleTransport:
    """Google's servers. A token is fetched per request, sent in one header, and never stored."""

    token: Callable[[], str]
    timeout_s: float = TIMEOUT_S

    def send(self, method: str, url: str, body: str = "") -> HttpResponse:
        """Return Google's response; a token is never sent to another host."""
        if not GOOGLE.match(url):
            raise ValueError(f"not a Google API URL: {url}")
        authorization = f"Bearer {self.token()}"
        client = HttpClient(
            base=url, authorization=authorization, retry=NO_RETRY, timeout_s=self.timeout_s
        )
        return client.send(method, "", body)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalTransport:
    """A server on this host that replaces Google's, e.g. in tests; it gets no credentials."""

    base: Annotated[str, Doc("http://127.0.0.1:PORT")]
    timeout_s: float = TIMEOUT_S

    def __post_init__(self) -> None:
        parts = urllib.parse.urlsplit(self.base)
        if parts.scheme != "http" or not is_loopback(parts.hostname or ""):
            fix = "set it to http://127.0.0.1:PORT, or unset it to call Google"
            raise InputError.one("GPUYARD_ENDPOINT", f'"{self.base}" is not on this host', fix)

    def send(self, method: str, url: str, body: str = "") -> HttpResponse:
        """Return the local server's response to a Google API URL."""
        parts = urllib.parse.urlsplit(url)
        service = (parts.hostname or "").split(".")[0]
        path = f"{parts.path}?{parts.query}" if parts.query else parts.path
        client = HttpClient(
            base=self.base,
            headers=(("X-Service", service),),
            retry=NO_RETRY,
            timeout_s=self.timeout_s,
        )
        return client.send(method, path, body)


def redacted(text: str) -> str:
    """Return a text without anything that looks like a token."""
    return SECRETS.sub("[redacted]", text)
