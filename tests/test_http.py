"""The HTTP client: retries, error mapping, redaction, redirects, truncated responses."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from gpuyard.errors import ExternalError, InputError
from gpuyard.http import (
    HttpClient,
    HttpError,
    HttpResponse,
    HttpRetryPolicy,
    NoResponseError,
    TruncatedError,
    is_loopback,
    without_credentials,
)

FAST = HttpRetryPolicy(attempts=3, first_s=0.0)


class _Scripted(http.server.BaseHTTPRequestHandler):
    """Sends the scripted responses in order: status, headers, body."""

    script: ClassVar[list[tuple[int, dict[str, str], bytes]]] = []
    requests: ClassVar[list[tuple[str, str, dict[str, str], bytes]]] = []

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        """Send the next response."""
        size = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(size)
        self.requests.append((self.command, self.path, dict(self.headers.items()), body))
        status, headers, text = self.script.pop(0)
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(text))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)

    do_POST = do_PUT = do_DELETE = do_GET


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a scripted server."""
    monkeypatch.setattr(_Scripted, "script", [])
    monkeypatch.setattr(_Scripted, "requests", [])
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Scripted) as listener:
        thread = threading.Thread(target=listener.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{listener.server_address[1]}"
        listener.shutdown()
        thread.join()


def test_busy_server_is_retried(server: str) -> None:
    _Scripted.script += [(503, {}, b""), (429, {"Retry-After": "0"}, b""), (200, {}, b'{"a": 1}')]
    assert HttpClient(base=server, retry=FAST).json("GET", "/x") == {"a": 1}
    assert len(_Scripted.requests) == 3


def test_post_is_sent_once_unless_it_is_idempotent(server: str) -> None:
    client = HttpClient(base=server, retry=FAST)
    _Scripted.script += [(503, {}, b"")]
    with pytest.raises(HttpError):
        client.json("POST", "/x", {})
    assert len(_Scripted.requests) == 1
    _Scripted.script += [(503, {}, b""), (200, {}, b"{}")]
    assert client.json("POST", "/x", {}, is_idempotent=True) == {}
    assert len(_Scripted.requests) == 3


def test_rejected_status_allows_to_send_any_request_again(server: str) -> None:
    retry = HttpRetryPolicy(attempts=3, first_s=0.0, rejected_statuses=frozenset({429}))
    _Scripted.script += [(429, {}, b""), (200, {}, b"{}")]
    assert HttpClient(base=server, retry=retry).json("POST", "/x", {}) == {}


def test_error_status_carries_the_server_s_message(server: str) -> None:
    _Scripted.script += [(404, {}, b'{"message": "no such job"}')]
    with pytest.raises(HttpError) as error:
        HttpClient(base=server).json("GET", "/x")
    assert (error.value.response.status, error.value.response.message) == (404, "no such job")


def test_credential_is_removed_from_responses(server: str) -> None:
    _Scripted.script += [(200, {}, b'{"echo": "secret-token"}'), (403, {}, b"bad secret-token")]
    client = HttpClient(base=server, authorization="Bearer secret-token", retry=FAST)
    assert client.json("GET", "/x") == {"echo": "[redacted]"}
    with pytest.raises(HttpError) as error:
        client.json("GET", "/x")
    assert "secret-token" not in str(error.value)
    assert _Scripted.requests[0][2]["Authorization"] == "Bearer secret-token"


def test_redirects_are_not_followed(server: str) -> None:
    _Scripted.script += [(302, {"Location": "http://127.0.0.1:1/"}, b"")]
    with pytest.raises(HttpError) as error:
        HttpClient(base=server, authorization="Bearer t").send("GET", "/x")
    assert error.value.response.status == 302
    assert "http://127.0.0.1:1/" in error.value.problem.fix


def test_truncated_response_is_an_error(server: str) -> None:
    _Scripted.script += [(200, {"Content-Length": "100"}, b"{}")] * 3
    with pytest.raises(TruncatedError):
        HttpClient(base=server, retry=FAST).send("GET", "/x")
    assert len(_Scripted.requests) == 3


def test_lines_arrive_and_a_file_is_sent_and_received(server: str, tmp_path: Path) -> None:
    client = HttpClient(base=server, retry=FAST)
    _Scripted.script += [(200, {}, b"one\ntwo\n"), (200, {}, b""), (200, {}, b"data")]
    assert list(client.lines("/log")) == ["one", "two"]
    (tmp_path / "in").write_bytes(b"bytes")
    client.send("PUT", "/file", tmp_path / "in")
    assert _Scripted.requests[-1][3] == b"bytes"
    client.download("/file", tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == b"data"


def test_body_that_is_not_json_is_an_external_error(server: str) -> None:
    _Scripted.script += [(200, {}, b"<html>")]
    with pytest.raises(ExternalError):
        HttpClient(base=server).json("GET", "/x")
    assert HttpResponse(status=200, text="<html>").body == "<html>"


def test_server_that_is_away_is_no_response() -> None:
    with pytest.raises(NoResponseError):
        HttpClient(base="http://127.0.0.1:1", retry=FAST).send("GET", "/")


def test_loopback_addresses() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.8.8.8", "::1", "localhost")))
    assert not any(map(is_loopback, ("10.0.0.1", "example.com", "0.0.0.0", "")))


@pytest.mark.parametrize("base", ["http://user:s3cret@host:1", "https://s3cret@host/a/b"])
def test_address_with_a_password_is_refused_without_printing_it(base: str) -> None:
    with pytest.raises(InputError) as caught:
        HttpClient(base=base)
    assert "s3cret" not in str(caught.value)
    assert "host" in str(caught.value)
    assert without_credentials("http://host:1/a@b") == "http://host:1/a@b"
