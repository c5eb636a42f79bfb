"""HTTP client over the standard library: one retry policy, and one mapping of failures to errors.

    ExternalError
    ├── HttpError             the server responded with an error status
    └── NoResponseError       refused, timed out, reset: the server may or may not have acted
        └── TruncatedError    the connection ended within a response

Proxies come from the environment (`https_proxy`, `no_proxy`), never for a loopback address.
Redirects are not followed, so that credentials reach no other host.
"""

from __future__ import annotations

import contextlib
import email.utils
import http.client
import ipaddress
import json
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeAlias, TypeVar

from gpuyard.errors import ExternalError, InputError
from gpuyard.retry import RetryPolicy

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
T = TypeVar("T")
TIMEOUT_S = 30.0
PIECE_BYTES = 1 << 16
MAX_ERROR_BYTES = 100_000
MIN_SECRET_LENGTH = 8
BUSY_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})
IDEMPOTENT_METHODS = frozenset({"GET", "HEAD", "PUT", "DELETE"})


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """Status and text of a response."""

    status: int
    text: str = ""
    retry_after_s: float | None = None

    @property
    def body(self) -> Json:
        """The parsed JSON; None if the response is empty, its text if it is not JSON."""
        try:
            tree: Json = json.loads(self.text) if self.text.strip() else None
        except ValueError:
            return self.text  # e.g. the HTML page of a proxy
        return tree

    @property
    def message(self) -> str:
        """The server's own message, or else the text on one line."""
        body = self.body
        message = body.get("message") if isinstance(body, dict) else None
        return message if isinstance(message, str) else " ".join(self.text.split())[-400:]


class HttpError(ExternalError):
    """A response with an error status."""

    def __init__(self, where: str, response: HttpResponse, fix: str) -> None:
        super().__init__(where, f"HTTP {response.status}: {response.message}".rstrip(": "), fix)
        self.response = response


class NoResponseError(ExternalError):
    """No response arrived: the server may or may not have acted on the request."""


class TruncatedError(NoResponseError):
    """The connection ended within a response."""


# A request is sent again only where that is safe (its method is idempotent, or the caller says that
# this request is) and useful (the server is busy, or did not respond). A server that sends
# Retry-After sets the wait itself.
@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRetryPolicy(RetryPolicy):
    """Which failed requests are sent again, and how long to wait in between."""

    statuses: frozenset[int] = BUSY_STATUSES
    methods: frozenset[str] = IDEMPOTENT_METHODS
    # Statuses that say the server did not act, so that any request may be sent again.
    rejected_statuses: frozenset[int] = frozenset()

    def retries(self, error: ExternalError, *, is_idempotent: bool) -> bool:
        """Return whether a request that failed so may be sent again."""
        if isinstance(error, HttpError):
            status = error.response.status
            return status in self.rejected_statuses or (is_idempotent and status in self.statuses)
        return is_idempotent and isinstance(error, NoResponseError)

    def retry_after_s(self, error: ExternalError) -> float | None:
        return error.response.retry_after_s if isinstance(error, HttpError) else None


def without_credentials(url: str) -> str:
    """Return a URL without the user name and the password before its host."""
    scheme, separator, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}" if separator else url


DEFAULT_RETRY = HttpRetryPolicy()
NO_RETRY = HttpRetryPolicy(attempts=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpClient:
    """A client of one server.

    Every method raises HttpError for an error status, NoResponseError if no complete response
    arrives, and ExternalError if the request cannot be sent. The credential is removed from
    whatever the server sends back.
    """

    base: str
    authorization: str = ""  # value of the header, e.g. `Bearer TOKEN`
    headers: tuple[tuple[str, str], ...] = ()
    tls: ssl.SSLContext | None = None
    retry: HttpRetryPolicy = DEFAULT_RETRY
    timeout_s: float | None = TIMEOUT_S
    fix: str = "check the address, or start the server"  # if no response arrives
    status_fixes: tuple[tuple[int, str], ...] = ()  # by error status

    def __post_init__(self) -> None:
        # An address is printed in errors and saved in runs; a password in it would be too.
        shown = without_credentials(self.base)
        if shown != self.base:
            what = "holds a user name or a password"
            fix = "leave it out, and give credentials by the variables or files of that service"
            raise InputError.one(shown, what, fix)

    def send(
        self, method: str, path: str, body: str | Path = "", *, is_idempotent: bool | None = None
    ) -> HttpResponse:
        """Send a text or a file and return the response.

        `is_idempotent` overrides what the retry policy assumes about the method.
        """

        def attempt() -> HttpResponse:
            with self._open(method, path, body, self.timeout_s) as response:
                data = b"".join(self._pieces(response, lambda: response.read(PIECE_BYTES)))
                return HttpResponse(status=response.status, text=self._text(data))

        return self._retried(attempt, method, is_idempotent)

    def json(
        self, method: str, path: str, body: Json = None, *, is_idempotent: bool | None = None
    ) -> Json:
        """Send a value as JSON and return the parsed response."""
        text = "" if body is None else json.dumps(body, allow_nan=False)
        tree = self.send(method, path, text, is_idempotent=is_idempotent).body
        if isinstance(tree, str):
            raise ExternalError(self.base + path, "the response is not JSON", "check the address")
        return tree

    def lines(self, path: str) -> Iterator[str]:
        """Yield the lines of a response as they arrive, without a timeout."""
        with contextlib.ExitStack() as stack:
            response = self._retried(
                lambda: stack.enter_context(self._open("GET", path, "", None)), "GET", None
            )
            for line in self._pieces(response, response.readline):
                yield line.decode(errors="replace").rstrip("\n")

    def download(self, path: str, file: Path) -> None:
        def attempt() -> None:
            with (
                self._open("GET", path, "", self.timeout_s) as response,
                file.open("wb") as out,
            ):
                for piece in self._pieces(response, lambda: response.read(PIECE_BYTES)):
                    out.write(piece)

        self._retried(attempt, "GET", None)

    def _retried(self, attempt: Callable[[], T], method: str, is_idempotent: bool | None) -> T:
        safe = method in self.retry.methods if is_idempotent is None else is_idempotent
        return self.retry.run(attempt, lambda error: self.retry.retries(error, is_idempotent=safe))

    @contextlib.contextmanager
    def _open(
        self, method: str, path: str, body: str | Path, timeout_s: float | None
    ) -> Iterator[http.client.HTTPResponse]:
        url = self.base + path
        headers = {"User-Agent": "gpuyard", "Accept": "application/json, */*", **dict(self.headers)}
        if self.authorization:
            headers["Authorization"] = self.authorization
        with contextlib.ExitStack() as stack:
            data: IO[bytes] | bytes | None = None
            if isinstance(body, Path):
                data = stack.enter_context(body.open("rb"))
                headers["Content-Type"] = "application/octet-stream"
                headers["Content-Length"] = str(body.stat().st_size)
            elif body:
                data = body.encode()
                headers["Content-Type"] = "application/json"
            try:
                request = urllib.request.Request(url, data, headers, method=method)
                response = stack.enter_context(self._opener(url).open(request, timeout=timeout_s))
            except (OSError, http.client.HTTPException, ValueError) as error:
                raise self._error(url, error) from None
            yield response

    def _opener(self, url: str) -> urllib.request.OpenerDirector:
        local = is_loopback(urllib.parse.urlsplit(url).hostname or "")
        return urllib.request.build_opener(
            urllib.request.ProxyHandler({} if local else None),
            urllib.request.HTTPSHandler(context=self.tls),
            _NoRedirects,
        )

    def _pieces(
        self, response: http.client.HTTPResponse, read: Callable[[], bytes]
    ) -> Iterator[bytes]:
        try:
            yield from iter(read, b"")
        except (OSError, http.client.HTTPException) as error:
            what = self._text(f"the response is incomplete: {error}".encode())
            raise TruncatedError(self.base, what, self.fix) from None
        if response.length:  # read(N) and readline() return early without an error
            what = f"the response is incomplete: {response.length} bytes are missing"
            raise TruncatedError(self.base, what, self.fix)

    def _error(self, url: str, error: Exception) -> ExternalError:
        if isinstance(error, urllib.error.HTTPError):
            text = ""
            with error, contextlib.suppress(OSError, http.client.HTTPException):
                text = self._text(error.read(MAX_ERROR_BYTES))
            response = HttpResponse(
                status=error.code,
                text=text,
                retry_after_s=_retry_after_s(error.headers.get("Retry-After", "")),
            )
            target = error.headers.get("Location", "")
            default = f"use the address {target}" if target else "see the server's log"
            fix = dict(self.status_fixes).get(error.code, default)
            return HttpError(url.split("?")[0], response, fix)
        reason = getattr(error, "reason", error)
        if isinstance(reason, ssl.SSLCertVerificationError):
            what = f"its TLS certificate is not trusted: {reason.verify_message}"
            return ExternalError(self.base, what, "check the host name and the CA certificate")
        what = self._text(f"no response: {str(reason) or type(reason).__name__}".encode())
        kind = ExternalError if isinstance(error, ValueError) else NoResponseError
        return kind(self.base, what, self.fix)

    def _text(self, data: bytes) -> str:
        secret = self.authorization.rpartition(" ")[2]
        text = data.decode(errors="replace")
        # A shorter one would occur in ordinary words.
        return text.replace(secret, "[redacted]") if len(secret) >= MIN_SECRET_LENGTH else text


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        """Return None, which makes urllib raise the redirect as an error status."""


def _retry_after_s(value: str) -> float | None:
    """Seconds of a Retry-After header, which is a number or a date (RFC 9110, 10.2.3)."""
    if value.isdecimal():
        return float(value)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, TypeError):
        return None


def is_loopback(host: str) -> bool:
    """Return whether a host name or address is this host's own."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
