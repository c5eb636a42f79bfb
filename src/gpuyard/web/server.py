"""The UI server: standard library only, read-only by default, on loopback by default.

Every request must name this server in its Host header (DNS rebinding). On loopback, any local user
may read; on other addresses, and wherever actions are allowed, only a browser with the token.
Actions need --allow-actions and a form of our own page: the Origin header must be ours. Planning
changes nothing, so its form needs the Origin only.
"""

from __future__ import annotations

import secrets
import socket
import sys
import threading
from collections.abc import Callable
from http.server import ThreadingHTTPServer
from typing import Any

from gpuyard.errors import ExternalError, InputError
from gpuyard.home import Home
from gpuyard.http import is_loopback
from gpuyard.serving.access import HostCheck, check_tls, tls_server_context
from gpuyard.serving.spec import AccessSpec
from gpuyard.web.request_handler import PageHandler

MOST_STREAMS = 64
MOST_CONNECTIONS = 512
_NO_ACCESS = AccessSpec()
OtherHomes = Callable[[], tuple[Home, ...]]


def _no_others() -> tuple[Home, ...]:
    return ()


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
        others: OtherHomes = _no_others,
    ) -> None:
        self.home, self.acts, self.token = home, acts, token
        self._others = others
        self.hosts = HostCheck(address[0], access.allow_hosts)
        self.is_tls = bool(access.tls_cert)
        self.connections = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self.streams = threading.BoundedSemaphore(MOST_STREAMS)
        self.closing = threading.Event()
        super().__init__(
            address, PageHandler
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
    def homes(self) -> tuple[Home, ...]:
        """The state directories that pages may show, the server's own first."""
        others = (home for home in self._others() if home.path != self.home.path.resolve())
        return (self.home, *others)

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
    others: OtherHomes = _no_others,
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
        return WebServer((host, port), home, acts=acts, token=token, access=access, others=others)
    except (OSError, OverflowError) as error:
        fix = "use another --port or --host"
        raise ExternalError(f"{host}:{port}", f"cannot be listened on: {error}", fix) from error
