"""The fake cloud as a local HTTP server, with faults at chosen requests."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal

from .cloud import Cloud, refused

Kind = Literal[
    "500",
    "503",
    "429",
    "quota",
    "stock-out",
    "timeout",
    "reset before",
    "reset after",
    "page",
    "echo",
]
SILENCE_S = 0.6  # longer than the timeout of the test client


@dataclass
class Faults:
    """Faults by request number from 0, counted over the requests with the given verbs."""

    at: dict[int, Kind] = field(default_factory=dict)
    verbs: tuple[str, ...] = ("GET", "POST", "DELETE")
    seen: int = 0

    def next(self, http: str) -> Kind | None:
        """Return the fault of this request."""
        if http not in self.verbs:
            return None
        self.seen += 1
        return self.at.get(self.seen - 1)


@dataclass
class Fake:
    """A running fake server."""

    cloud: Cloud
    faults: Faults
    url: str
    heard: list[str] = field(default_factory=list)


@contextmanager
def serve(cloud: Cloud | None = None) -> Iterator[Fake]:
    """Run the server for the duration of the block."""
    lock = threading.Lock()
    fake = Fake(cloud=cloud or Cloud(), faults=Faults(), url="")

    class Handler(BaseHTTPRequestHandler):
        def handle_one(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            text = self.rfile.read(length).decode()
            with lock:
                fake.heard.append(str(self.headers))
                kind = fake.faults.next(self.command)
                if kind == "reset before":
                    return self.reset()
                if kind in EARLY:
                    return self.reply(*EARLY[kind])
                if kind == "echo":
                    return self.reply(
                        *refused(403, "forbidden", f"denied to {self.headers['Authorization']}")
                    )
                if kind == "page":
                    return self.reply(502, None, "<html>bad gateway</html>")
                service = self.headers.get("X-Service") or self.headers["Host"].split(".")[0]
                status, tree = fake.cloud.answer(service, self.command, self.path, text)
            if kind == "timeout":
                time.sleep(SILENCE_S)
                return None
            if kind == "reset after":
                return self.reset()
            return self.reply(status, tree)

        do_GET = do_POST = do_DELETE = do_PATCH = handle_one

        def reset(self) -> None:
            self.close_connection = True
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()

        def reply(self, status: int, tree: object, text: str = "") -> None:
            data = (text or json.dumps(tree)).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def finish(self) -> None:
            try:
                super().finish()
            except (
                OSError,
                ValueError,
            ):  # the connection was reset, by us or by a client that was killed
                return

        def log_message(self, *_: object) -> None:
            return

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 64

        def handle_error(self, request: object, client_address: object) -> None:
            return  # a client that was killed

    server = Server(("127.0.0.1", 0), Handler)
    fake.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
    )
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()


EARLY = {
    "500": refused(500, "internalError", "Internal error"),
    "503": refused(503, "backendError", "The service is currently unavailable."),
    "429": refused(429, "rateLimitExceeded", "Rate Limit Exceeded"),
    "quota": refused(
        403, "quotaExceeded", "Quota 'NVIDIA_H100_GPUS' exceeded. Limit: 0.0 in region us-central1."
    ),
    "stock-out": refused(
        503, "ZONE_RESOURCE_POOL_EXHAUSTED", "The zone does not have enough resources available."
    ),
}
