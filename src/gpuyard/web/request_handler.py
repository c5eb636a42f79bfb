"""Requests of the UI: pages, assets, files, streams of changes, and forms."""

from __future__ import annotations

import importlib.resources
import json
import re
import select
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from html import escape
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, parse_qs, urlsplit

from gpuyard.errors import ExternalError, InputError, external_error_from
from gpuyard.home import Home
from gpuyard.serving.access import is_same_secret
from gpuyard.web.actions import act
from gpuyard.web.fabric_view import fabric_document
from gpuyard.web.routes import drawn_fabric, find_computation, find_download, found_route
from gpuyard.web.view import (
    Download,
    Fragment,
    NotFoundError,
    PageRequest,
    WebPage,
    home_key,
    page_html,
)

if TYPE_CHECKING:
    from gpuyard.web.server import WebServer

STYLE, SCRIPT = "text/css; charset=utf-8", "text/javascript; charset=utf-8"
ASSETS = {  # the package of an asset, and its kind
    "style.css": ("gpuyard.web", STYLE),
    "live.js": ("gpuyard.web", SCRIPT),
    "planner.js": ("gpuyard.web", SCRIPT),
    "tables.js": ("gpuyard.report", SCRIPT),
}
LOOK_S = 1.0  # between two looks at what a live page shows
BEAT_S = 15.0  # an empty line that shows a closed connection
MOST_FORM_BYTES, MOST_TEXT_BYTES = 10_000, 200_000
COOKIE, HOME_COOKIE = "gpuyard_token", "gpuyard_home"
_NOTHING: Mapping[str, str] = {}
POLICY = (
    "default-src 'none'; style-src 'self' 'unsafe-inline'; script-src 'self'; connect-src 'self';"
    " img-src data:; frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'self'"
)
REFERRER = "same-origin"  # without any, a browser sends our own forms with the Origin "null"
# A separate document with scripts: it may run them, isolated from everything else.
SANDBOX = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; style-src 'unsafe-inline';"
    " script-src 'unsafe-inline'; img-src data:"
)


class PageHandler(BaseHTTPRequestHandler):
    """Answers one connection."""

    server: WebServer
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
            self._guarded(lambda: self._page(parts.path, _first(query)))

    def do_HEAD(self) -> None:
        if self._parts().path == "/events":
            self.close_connection = True  # a stream has no length, so nothing else may follow
            self._say(HTTPStatus.METHOD_NOT_ALLOWED, "a stream has no length: use GET")
            return
        self.do_GET()

    def do_POST(self) -> None:
        """An action of a form on our own page."""
        parts = self._parts()
        self.close_connection = (
            True  # a body that is not read must not be taken for the next request
        )
        if not self._is_allowed({}):
            return
        length = self.headers.get("Content-Length", "")
        most = MOST_TEXT_BYTES if parts.path.startswith("/planner") else MOST_FORM_BYTES
        if not re.fullmatch(r"[0-9]{1,9}", length) or int(length) > most:
            self._say(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the form is too large")
            return
        body = self.rfile.read(int(length)).decode(errors="replace")
        compute = find_computation(parts.path)
        if compute is None and not self.server.acts:
            self._say(HTTPStatus.FORBIDDEN, "read-only: start gpuyard ui with --allow-actions")
            return
        host = self.headers.get("Host", "")
        origin = self.headers.get("Origin", "")  # required: browsers state it for every form
        if not self.server.hosts.allows_origin(origin, host):
            self._say(HTTPStatus.FORBIDDEN, "the form is not of this page")
            return
        fields = _first(parse_qs(body, keep_blank_values=True))
        if compute is not None:
            self._guarded(lambda: self._answer(compute(self._request({}), fields), parts.path))
        else:
            self._guarded(lambda: self._acted(act(self._home(), parts.path, fields)))

    def _parts(self) -> SplitResult:
        """The address; one that is none is nowhere."""
        try:
            return urlsplit(
                "/" + self.path.lstrip("/")
            )  # two slashes would begin the name of a host
        except ValueError:
            return SplitResult("", "", "/-", "", "")

    def _acted(self, address: str) -> None:
        """Back to the page that shows the result."""
        self.send_response(HTTPStatus.SEE_OTHER)
        self.send_header("Location", address)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _guarded(self, answer: Callable[[], None]) -> None:
        """Respond; errors are shown on a page."""
        try:
            answer()
        except ConnectionError:
            self.close_connection = True  # the client went away
        except NotFoundError:
            self._say(HTTPStatus.NOT_FOUND, "there is nothing under this address")
        except InputError as error:
            self._say(HTTPStatus.BAD_REQUEST, str(error))
        except ModuleNotFoundError as error:  # an extra that this page needs
            missing = external_error_from(error, "this page")
            if missing is None:
                raise
            self._say(HTTPStatus.SERVICE_UNAVAILABLE, str(missing))
        except (ExternalError, OSError) as error:
            self._say(HTTPStatus.SERVICE_UNAVAILABLE, str(error))

    def _is_allowed(self, query: dict[str, list[str]]) -> bool:
        """Whether this client may ask; a right token in the address becomes a cookie."""
        if not self.server.hosts.allows_host(self.headers.get("Host")):
            self._say(
                HTTPStatus.FORBIDDEN,
                "this server answers to its own names only; start it with --allow-host NAME to add"
                " one",
            )
            return False
        if not self.server.token:
            return True
        given = query.get("token", [""])[0]
        if given and is_same_secret(given, self.server.token):
            self.send_response(HTTPStatus.SEE_OTHER)
            self.send_header("Set-Cookie", self._cookie(given))
            self.send_header("Location", self._parts().path)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return False
        if is_same_secret(self._cookie_value(COOKIE), self.server.token):
            return True
        self._say(
            HTTPStatus.UNAUTHORIZED, "open the address that gpuyard ui printed: it has the token"
        )
        return False

    def _cookie_value(self, name: str) -> str:
        try:
            cookie = SimpleCookie(self.headers.get("Cookie", "")).get(name)
        except CookieError:
            return ""
        return cookie.value if cookie is not None else ""

    def _cookie(self, token: str) -> str:
        secure = "; Secure" if self.server.is_tls else ""
        return f"{COOKIE}={token}; HttpOnly; SameSite=Strict; Path=/{secure}"

    def _view(self, path: str, query: Mapping[str, str] | None = None) -> WebPage:
        route = found_route(path.rstrip("/") or "/")
        if route is None:
            raise NotFoundError
        make, words = route
        return make(self._request(words, query or {}))

    def _request(
        self, words: Mapping[str, str], query: Mapping[str, str] = _NOTHING
    ) -> PageRequest:
        server = self.server
        return PageRequest(
            home=self._home(), words=words, acts=server.acts, query=query, homes=server.homes
        )

    def _home(self) -> Home:
        """The state directory that the browser has chosen, else the server's own."""
        chosen = self._cookie_value(HOME_COOKIE)
        homes = self.server.homes
        return next((home for home in homes if home_key(home) == chosen), homes[0])

    def _page(self, path: str, query: Mapping[str, str]) -> None:
        """A page, a file, or the drawing of a fabric, which is a separate document."""
        if path == "/home":
            self._choose_home(query.get("key", ""))
        elif words := drawn_fabric(path):
            self._send(fabric_document(self._request(words)), policy=SANDBOX)
        elif download := find_download(path):
            make, words = download
            self._answer(make(self._request(words)), path)
        else:
            self._answer(self._view(path, query), path)

    def _choose_home(self, key: str) -> None:
        if all(home_key(home) != key for home in self.server.homes):
            raise NotFoundError
        self.send_response(HTTPStatus.SEE_OTHER)
        self.send_header("Set-Cookie", f"{HOME_COOKIE}={key}; HttpOnly; SameSite=Strict; Path=/")
        self.send_header("Location", "/")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _answer(self, answer: WebPage | Download, path: str) -> None:
        """Send a page, its fragments for a script that asks for JSON, or a file."""
        if isinstance(answer, Download):
            self._send(answer.body, kind=answer.kind, name=answer.name)
        elif self.headers.get("Accept", "") == "application/json":
            parts = [
                {"id": part.id, "mark": part.mark, "html": part.html} for part in answer.fragments
            ]
            text = json.dumps({"fragments": parts, "values": dict(answer.values)})
            self._send(text, kind="application/json")
        else:
            self._send(page_html(answer, path, self._home()))

    def _say(self, status: HTTPStatus, words: str) -> None:
        page = WebPage(
            title=status.phrase,
            fragments=(Fragment(id="said", html=f"<pre>{escape(words)}</pre>"),),
            is_live=False,
        )
        self._send(page_html(page, ""), status=status)

    def _send(
        self,
        text: str | bytes,
        *,
        status: HTTPStatus = HTTPStatus.OK,
        kind: str = "text/html; charset=utf-8",
        policy: str = POLICY,
        name: str = "",
    ) -> None:
        body = text.encode() if isinstance(text, str) else text
        self.send_response(status)
        for header, value in (
            ("Content-Type", kind),
            ("Content-Length", str(len(body))),
            ("Content-Security-Policy", policy),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", REFERRER),
            ("Cache-Control", "no-store"),
        ):
            self.send_header(header, value)
        if name:
            self.send_header("Content-Disposition", f'attachment; filename="{name}"')
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _asset(self, name: str) -> None:
        if name not in ASSETS:
            self._say(HTTPStatus.NOT_FOUND, "there is nothing under this address")
            return
        package, kind = ASSETS[name]
        body = (importlib.resources.files(package) / "assets" / name).read_bytes()
        self._send(body, kind=kind)

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
        connection = self.connection
        readable, _, _ = select.select([connection], [], [], 0)
        if isinstance(connection, ssl.SSLSocket):  # cannot peek; a stream's client sends nothing
            return bool(readable) and not connection.recv(1)
        return bool(readable) and not connection.recv(1, socket.MSG_PEEK)

    def _stream(self, path: str) -> None:
        """Looks again and again; sends what is not as it was."""
        sent: dict[str, str] = {}
        beat_s = 0.0
        while not self.server.closing.is_set() and not self._is_gone():
            try:
                view = self._view(path)
            except (NotFoundError, InputError, ExternalError, OSError) as error:
                view = WebPage(title=str(error), fragments=())  # the page keeps what it shows
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


def _first(values: Mapping[str, list[str]]) -> dict[str, str]:
    return {name: items[0] for name, items in values.items()}
