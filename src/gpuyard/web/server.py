"""The page's server: standard library alone, read-only unless it is told otherwise, on loopback by default.

Who may look: on loopback everyone at this machine, if the Host header names this machine (no page elsewhere can ask in
its name); on any other address only who has the token. Actions need --allow-actions and a form of our own page: the
Origin header must be ours.
"""

from __future__ import annotations

import hmac
import importlib.resources
import json
import secrets
import select
import socket
import threading
import time
from collections.abc import Callable
from html import escape
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from urllib.parse import SplitResult, parse_qs, urlsplit

from gpuyard.errors import InputError, RefusedError
from gpuyard.home import Home
from gpuyard.web.actions import act
from gpuyard.web.plans_view import fabric_document
from gpuyard.web.routes import found_route
from gpuyard.web.view import Asked, Fragment, NotFoundError, View, whole

__all__ = ["Site", "open_site"]

ASSETS = {"style.css": "text/css; charset=utf-8", "live.js": "text/javascript; charset=utf-8"}
LOOK_S = 1.0  # between two looks at what a live page shows
BEAT_S = 15.0  # an empty line that shows a closed connection
MOST_BODY_BYTES = 10_000
MOST_STREAMS = 64
COOKIE = "gpuyard_token"
POLICY = (
    "default-src 'none'; style-src 'self' 'unsafe-inline'; script-src 'self'; connect-src 'self'; img-src data:; "
    "frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'self'"
)
REFERRER = "same-origin"  # without any, a browser sends our own forms with the Origin "null"
# A page of its own with scripts inside: it may run them, and is cut off from everything else.
SANDBOX = (
    "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
)


class Site(ThreadingHTTPServer):
    """The server with what its pages need."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], home: Home, *, acts: bool, token: str) -> None:
        self.home, self.acts, self.token = home, acts, token
        self.streams = threading.BoundedSemaphore(MOST_STREAMS)
        self.closing = threading.Event()
        super().__init__(address, _Handler)  # last: an address that is taken closes the server at once

    @property
    def url(self) -> str:
        """Where to look, with the token where one is needed."""
        host, port = self.server_address[0], self.server_address[1]
        shown = f"[{host!s}]" if ":" in str(host) else str(host)
        return f"http://{shown}:{port}/" + (f"?token={self.token}" if self.token else "")

    def server_close(self) -> None:
        """Ends the streams too."""
        self.closing.set()
        super().server_close()


def open_site(home: Home, *, host: str = "127.0.0.1", port: int = 8787, acts: bool = False) -> Site:
    """A server that listens; away from loopback it asks for a token."""
    try:
        loopback = host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        loopback = False
    try:
        return Site((host, port), home, acts=acts, token="" if loopback else secrets.token_urlsafe(24))
    except (OSError, OverflowError) as error:
        fix = "use another --port or --host"
        raise RefusedError(f"{host}:{port}", f"cannot be listened on: {error}", fix) from error


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Site
    protocol_version = "HTTP/1.1"
    timeout = 30.0  # for a client that says nothing

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing is logged: requests are of one person at their own machine."""

    def do_GET(self) -> None:
        """A page, an asset or a stream."""
        parts = self._parts()
        query = parse_qs(parts.query)
        if not self._is_allowed(query):
            return
        if parts.path.startswith("/assets/"):
            self._asset(parts.path.removeprefix("/assets/"))
        elif parts.path == "/events":
            self._events(query.get("path", ["/"])[0])
        else:
            self._guarded(lambda: self._page(parts.path))

    def do_POST(self) -> None:
        """An action of a form on our own page."""
        parts = self._parts()
        self.close_connection = True  # a body that is not read must not be taken for the next request
        if not self._is_allowed({}):
            return
        length = self.headers.get("Content-Length", "")
        if not length.isascii() or not length.isdigit() or int(length) > MOST_BODY_BYTES:
            self._say(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the form is too large")
            return
        body = self.rfile.read(int(length)).decode(errors="replace")
        if not self.server.acts:
            self._say(HTTPStatus.FORBIDDEN, "read-only: start gpuyard ui with --allow-actions")
            return
        host = self.headers.get("Host", "")
        if not host or self.headers.get("Origin", "") not in (f"http://{host}", f"https://{host}"):
            self._say(HTTPStatus.FORBIDDEN, "the form is not of this page")
            return
        fields = {name: values[0] for name, values in parse_qs(body).items()}
        self._guarded(lambda: self._acted(act(self.server.home, parts.path, fields)))

    def _parts(self) -> SplitResult:
        """The address; one that is none is nowhere."""
        try:
            return urlsplit("/" + self.path.lstrip("/"))  # two slashes would begin the name of a host
        except ValueError:
            return SplitResult("", "", "/-", "", "")

    def _acted(self, address: str) -> None:
        """Back to the page that shows what came of it."""
        self.send_response(HTTPStatus.SEE_OTHER)
        self.send_header("Location", address)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _guarded(self, answer: Callable[[], None]) -> None:
        """Answers; what is wrong or refused is told on a page."""
        try:
            answer()
        except ConnectionError:
            self.close_connection = True  # the client went away
        except NotFoundError:
            self._say(HTTPStatus.NOT_FOUND, "there is nothing under this address")
        except InputError as error:
            self._say(HTTPStatus.BAD_REQUEST, str(error))
        except (RefusedError, OSError) as error:
            self._say(HTTPStatus.SERVICE_UNAVAILABLE, str(error))

    def _is_allowed(self, query: dict[str, list[str]]) -> bool:
        """Whether this client may ask; a right token in the address becomes a cookie."""
        if not self.server.token:
            try:
                name = urlsplit(f"//{self.headers.get('Host', '')}").hostname or ""
                known = name == "localhost" or ip_address(name).is_loopback
            except ValueError:
                known = False
            if not known:
                self._say(HTTPStatus.FORBIDDEN, "this server answers to this machine's own names only")
            return known
        given = query.get("token", [""])[0]
        if given and self._is_token(given):
            self.send_response(HTTPStatus.SEE_OTHER)
            self.send_header("Set-Cookie", f"{COOKIE}={given}; HttpOnly; SameSite=Strict; Path=/")
            self.send_header("Location", self._parts().path)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return False
        try:
            kept = SimpleCookie(self.headers.get("Cookie", "")).get(COOKIE)
        except CookieError:
            kept = None
        if kept is not None and self._is_token(kept.value):
            return True
        self._say(HTTPStatus.UNAUTHORIZED, "open the address that gpuyard ui printed: it has the token")
        return False

    def _is_token(self, given: str) -> bool:
        """Whether it is the token; takes as long for a wrong one."""
        return hmac.compare_digest(given.encode(), self.server.token.encode())

    def _view(self, path: str) -> View:
        """The page of an address."""
        found = found_route(path.rstrip("/") or "/")
        if found is None:
            raise NotFoundError
        make, words = found
        return make(Asked(home=self.server.home, words=words, acts=self.server.acts))

    def _page(self, path: str) -> None:
        """A whole page; a fabric's drawing is a document of its own."""
        if path.endswith("/fabric") and path.startswith("/plans/"):
            name = path.removeprefix("/plans/").removesuffix("/fabric")
            if found_route(f"/plans/{name}") is None:
                raise NotFoundError
            self._send(fabric_document(Asked(home=self.server.home, words={"name": name})), policy=SANDBOX)
            return
        self._send(whole(self._view(path), path))

    def _say(self, status: HTTPStatus, words: str) -> None:
        """A page that says one thing."""
        page = View(
            title=status.phrase, fragments=(Fragment(id="said", html=f"<pre>{escape(words)}</pre>"),), is_live=False
        )
        self._send(whole(page, ""), status=status)

    def _send(
        self, text: str | bytes, *, status: HTTPStatus = HTTPStatus.OK, kind: str = "text/html; charset=utf-8",
        policy: str = POLICY,
    ) -> None:  # fmt: skip
        """The answer with its headers."""
        body = text.encode() if isinstance(text, str) else text
        self.send_response(status)
        for name, value in (
            ("Content-Type", kind), ("Content-Length", str(len(body))), ("Content-Security-Policy", policy),
            ("X-Content-Type-Options", "nosniff"), ("Referrer-Policy", REFERRER), ("Cache-Control", "no-store"),
        ):  # fmt: skip
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _asset(self, name: str) -> None:
        """A file of the package."""
        if name not in ASSETS:
            self._say(HTTPStatus.NOT_FOUND, "there is nothing under this address")
            return
        self._send((importlib.resources.files("gpuyard.web") / "assets" / name).read_bytes(), kind=ASSETS[name])

    def _events(self, address: str) -> None:
        """The fragments of a page as they change, until the client goes."""
        if not self.server.streams.acquire(blocking=False):
            self._say(HTTPStatus.SERVICE_UNAVAILABLE, "too many pages are open")
            return
        try:
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Cache-Control", "no-store")
            self.send_header("Connection", "close")
            self.end_headers()
            self._stream(address.partition("?")[0])
        except (BrokenPipeError, ConnectionResetError, TimeoutError):
            pass  # the page was closed
        finally:
            self.close_connection = True
            self.server.streams.release()

    def _is_gone(self) -> bool:
        """Whether the client has closed its side."""
        readable, _, _ = select.select([self.connection], [], [], 0)
        return bool(readable) and not self.connection.recv(1, socket.MSG_PEEK)

    def _stream(self, path: str) -> None:
        """Looks again and again; sends what is not as it was."""
        sent: dict[str, str] = {}
        beat_s = 0.0
        while not self.server.closing.is_set() and not self._is_gone():
            try:
                view = self._view(path)
            except (NotFoundError, InputError, RefusedError, OSError) as error:
                view = View(title=str(error), fragments=())  # the page keeps what it shows
            if not view.is_live:
                return
            for part in view.fragments:
                if sent.get(part.id) != part.mark:
                    sent[part.id] = part.mark
                    data = json.dumps({"id": part.id, "mark": part.mark, "html": part.html})
                    self.wfile.write(f"event: fragment\ndata: {data}\n\n".encode())
            if time.monotonic() > beat_s:
                self.wfile.write(b": here\n\n")
                beat_s = time.monotonic() + BEAT_S
            self.wfile.flush()
            self.server.closing.wait(LOOK_S)
