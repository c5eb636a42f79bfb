"""The UI server: standard library only, read-only by default, on loopback by default.

Every request must name this server in its Host header (DNS rebinding). On loopback, any local user
may read; on other addresses, and wherever actions are allowed, only a browser with the token.
Actions need --allow-actions and a form of our own page: the Origin header must be ours.
"""

from __future__ import annotations

import importlib.resources
import json
import secrets
import select
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable
from html import escape
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import SplitResult, parse_qs, urlsplit

from gpuyard.errors import ExternalError, InputError
from gpuyard.home import Home
from gpuyard.http import is_loopback
from gpuyard.serving.access import HostCheck, check_tls, is_same_secret, tls_server_context
from gpuyard.serving.spec import AccessSpec
from gpuyard.web.actions import act
from gpuyard.web.plans_view import fabric_document
from gpuyard.web.routes import found_route
from gpuyard.web.view import Fragment, NotFoundError, PageRequest, WebPage, page_html

ASSETS = {"style.css": "text/css; charset=utf-8", "live.js": "text/javascript; charset=utf-8"}
LOOK_S = 1.0  # between two looks at what a live page shows
BEAT_S = 15.0  # an empty line that shows a closed connection
MOST_BODY_BYTES = 10_000
MOST_STREAMS = 64
MOST_CONNECTIONS = 512
COOKIE = "gpuyard_token"
POLICY = (
    "default-src 'none'; style-src 'self' 'unsafe-inline'; script-src 'self'; connect-src 'self';"
    " img-src data:; frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'self'"
)
REFERRER = "same-origin"  # without any, a browser sends our own forms with the Origin "null"
_NO_ACCESS = AccessSpec()
# A separate document with scripts: it may run them, isolated from everything else.
SANDBOX = (
    "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; script-src"
    " 'unsafe-inline'; img-src data:"
)


class WebServer(ThreadingHTTPServer):
    """The server with what its pages need."""

    daemon_threads = True

    def __init__(
        self,
        address: tuple[str, int],
        home: Home,
        *,
        acts: bool,
        token: str,
        access: AccessSpec = _NO_ACCESS,
    ) -> None:
        self.home, self.acts, self.token = home, acts, token
        self.hosts = HostCheck(address[0], access.allow_hosts)
        self.is_tls = bool(access.tls_cert)
        self.connections = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self.streams = threading.BoundedSemaphore(MOST_STREAMS)
        self.closing = threading.Event()
        super().__init__(
            address, _Handler
        )  # last: an address that is taken closes the server at once
        if self.is_tls:
            # The handshake happens in the connection's own thread, under its timeout.
            self.socket = tls_server_context(access).wrap_socket(
                self.socket, server_side=True, do_handshake_on_connect=False
            )

    def process_request(
        self, request: socket.socket | tuple[bytes, socket.socket], client_address: Any
    ) -> None:
        """Serve a connection in a thread, or close it if too many are open."""
        if not self.connections.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(
        self, request: socket.socket | tuple[bytes, socket.socket], client_address: Any
    ) -> None:
        """Serve a connection until it is closed."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.connections.release()

    def handle_error(
        self, request: socket.socket | tuple[bytes, socket.socket], client_address: Any
    ) -> None:
        """Print a bug, but not that a client failed: it left, or does not speak TLS."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    @property
    def url(self) -> str:
        """Where to look, with the token where one is needed."""
        host, port = self.server_address[0], self.server_address[1]
        shown = f"[{host!s}]" if ":" in str(host) else str(host)
        scheme = "https" if self.is_tls else "http"
        return f"{scheme}://{shown}:{port}/" + (f"?token={self.token}" if self.token else "")

    def server_close(self) -> None:
        """Ends the streams too."""
        self.closing.set()
        super().server_close()


def open_site(
    home: Home,
    *,
    host: str = "127.0.0.1",
    port: int = 8787,
    acts: bool = False,
    access: AccessSpec = _NO_ACCESS,
) -> WebServer:
    """A server that listens; away from loopback, and for actions, it asks for a token."""
    check_tls(access)
    is_local = is_loopback(host)
    if not is_local and not access.tls_cert and not access.insecure:
        fix = (
            f"listen on 127.0.0.1 and forward the port: ssh -L {port}:127.0.0.1:{port} HOST; or"
            " start with --tls-cert and --tls-key; or set --insecure in a network that you trust"
        )
        raise InputError.one(f"--host {host}", "sends its token over the network unencrypted", fix)
    token = secrets.token_urlsafe(24) if acts or not is_local else ""
    try:
        return WebServer((host, port), home, acts=acts, token=token, access=access)
    except (OSError, OverflowError) as error:
        fix = "use another --port or --host"
        raise ExternalError(f"{host}:{port}", f"cannot be listened on: {error}", fix) from error


class _Handler(BaseHTTPRequestHandler):
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
            self._guarded(lambda: self._page(parts.path))

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
        if not length.isascii() or not length.isdigit() or int(length) > MOST_BODY_BYTES:
            self._say(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the form is too large")
            return
        body = self.rfile.read(int(length)).decode(errors="replace")
        if not self.server.acts:
            self._say(HTTPStatus.FORBIDDEN, "read-only: start gpuyard ui with --allow-actions")
            return
        host = self.headers.get("Host", "")
        origin = self.headers.get("Origin", "")  # required: browsers state it for every form
        if not self.server.hosts.allows_origin(origin, host):
            self._say(HTTPStatus.FORBIDDEN, "the form is not of this page")
            return
        fields = {name: values[0] for name, values in parse_qs(body).items()}
        self._guarded(lambda: self._acted(act(self.server.home, parts.path, fields)))

    def _parts(self) -> SplitResult:
        """The address; one that is none is nowhere."""
        try:
            return urlsplit(
                "/" + self.path.lstrip("/")
            )  # two slashes would begin the name of a host
        except ValueError:
            return SplitResult("", "", "/-", "", "")

    def _acted(self, address: str) -> None:
        """Back to the page that shows what came of it."""
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
        try:
            cookie = SimpleCookie(self.headers.get("Cookie", "")).get(COOKIE)
        except CookieError:
            cookie = None
        if cookie is not None and is_same_secret(cookie.value, self.server.token):
            return True
        self._say(
            HTTPStatus.UNAUTHORIZED, "open the address that gpuyard ui printed: it has the token"
        )
        return False

    def _cookie(self, token: str) -> str:
        secure = "; Secure" if self.server.is_tls else ""
        return f"{COOKIE}={token}; HttpOnly; SameSite=Strict; Path=/{secure}"

    def _view(self, path: str) -> WebPage:
        route = found_route(path.rstrip("/") or "/")
        if route is None:
            raise NotFoundError
        make, words = route
        return make(PageRequest(home=self.server.home, words=words, acts=self.server.acts))

    def _page(self, path: str) -> None:
        """A whole page; a fabric's drawing is a separate document."""
        if path.endswith("/fabric") and path.startswith("/plans/"):
            name = path.removeprefix("/plans/").removesuffix("/fabric")
            if found_route(f"/plans/{name}") is None:
                raise NotFoundError
            self._send(
                fabric_document(PageRequest(home=self.server.home, words={"name": name})),
                policy=SANDBOX,
            )
            return
        self._send(page_html(self._view(path), path))

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
    ) -> None:
        body = text.encode() if isinstance(text, str) else text
        self.send_response(status)
        for name, value in (
            ("Content-Type", kind),
            ("Content-Length", str(len(body))),
            ("Content-Security-Policy", policy),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", REFERRER),
            ("Cache-Control", "no-store"),
        ):
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _asset(self, name: str) -> None:
        if name not in ASSETS:
            self._say(HTTPStatus.NOT_FOUND, "there is nothing under this address")
            return
        self._send(
            (importlib.resources.files("gpuyard.web") / "assets" / name).read_bytes(),
            kind=ASSETS[name],
        )

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
