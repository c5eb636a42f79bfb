"""call.sh, the script that sends request files: POST, DELETE, operations and errors."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from gpuyard.provision.platforms import requests

SCRIPT = Path(requests.__file__).parent / "data" / requests.CALL
NEEDED = all(shutil.which(word) for word in ("bash", "curl", "jq"))
pytestmark = pytest.mark.skipif(not NEEDED, reason="curl or jq is not installed")


class Server(ThreadingHTTPServer):
    """Returns operations that are done at the second poll, and records requests."""

    sent: list[tuple[str, str, str]]
    fails: bool = False


class Handler(BaseHTTPRequestHandler):
    """Handler of one request."""

    server: Server

    def do_POST(self) -> None:
        """Create a resource."""
        self._answer("POST")

    def do_GET(self) -> None:
        """Poll an operation."""
        self._answer("GET")

    def do_DELETE(self) -> None:
        """Delete a resource."""
        self._answer("DELETE")

    def _answer(self, method: str) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        self.server.sent.append((method, self.path, body))
        code, tree = 200, self._operation(method)
        if method == "DELETE" and "gone" in self.path:
            code, tree = 404, {"error": {"code": 404}}
        text = json.dumps(tree, indent=2).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def _operation(self, method: str) -> dict[str, object]:
        host, port = self.server.server_address[:2]
        tree: dict[str, object] = {
            "kind": "compute#operation",
            "status": "DONE" if method == "GET" else "RUNNING",
            "selfLink": f"http://{host!s}:{port}/operations/1",
        }
        if self.server.fails and method == "GET":
            tree["error"] = {"errors": [{"code": "ZONE_RESOURCE_POOL_EXHAUSTED"}]}
        return tree

    def log_message(self, *_words: object) -> None:
        """Log nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    fake_server = Server(("127.0.0.1", 0), Handler)
    fake_server.sent = []
    thread = threading.Thread(target=fake_server.serve_forever, daemon=True)
    thread.start()
    yield fake_server
    fake_server.shutdown()
    fake_server.server_close()


def call(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the script with a fake gcloud that returns a token, and without sleeping."""
    for name, text in (("gcloud", "echo token"), ("sleep", "true")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    path = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    return subprocess.run(
        ["bash", str(SCRIPT), *words], env=path, capture_output=True, text=True, check=False
    )


def address(server: Server, path: str) -> str:
    return f"http://127.0.0.1:{server.server_address[1]}/{path}"


def test_call_posts_body_and_waits_for_operation(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "10-net.json"
    file.write_text(
        json.dumps({"method": "m", "parameters": {}, "body": {"name": "net"}}), encoding="utf-8"
    )
    done = call(tmp_path, str(file), address(server, "networks"))
    assert done.returncode == 0, done.stderr
    assert [(method, path) for method, path, _ in server.sent] == [
        ("POST", "/networks"),
        ("GET", "/operations/1"),
    ]
    assert json.loads(server.sent[0][2]) == {"name": "net"}


def test_call_fails_when_operation_fails(server: Server, tmp_path: Path) -> None:
    server.fails = True
    file = tmp_path / "50-group.json"
    file.write_text(json.dumps({"body": {}}), encoding="utf-8")
    done = call(tmp_path, str(file), address(server, "groups"))
    assert done.returncode == 4
    assert "ZONE_RESOURCE_POOL_EXHAUSTED" in done.stderr


def test_call_delete_succeeds_when_resource_does_not_exist(server: Server, tmp_path: Path) -> None:
    assert call(tmp_path, "--delete", address(server, "networks/net")).returncode == 0
    done = call(tmp_path, "--delete", address(server, "networks/gone"))
    assert done.returncode == 0, done.stderr
    assert "does not exist" in done.stdout
