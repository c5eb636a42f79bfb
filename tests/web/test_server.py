"""The UI over HTTP: pages, access, actions, escaping and event streams."""

from __future__ import annotations

import contextlib
import http.client
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path

import pytest

from gpuyard.errors import ExternalError, InputError
from gpuyard.home import Home
from gpuyard.jobs.files import JobFiles
from gpuyard.jobs.ledger import Ledger
from gpuyard.jobs.spec import EngineSpec
from gpuyard.jobs.task import Handle
from gpuyard.registry.registry import Registry
from gpuyard.serving.access import tls_client_context
from gpuyard.serving.spec import AccessSpec
from gpuyard.web.server import WebServer, open_site
from gpuyard.web.view import home_key

from .conftest import HARM, request

PAGES = {
    "/": "Newest runs", "/plans": "onprem", "/plans/onprem": "Time and chips",
    "/plans/onprem/fabric": "Racks and rows", "/plans/onprem/fabric/drawing": "Findings",
    "/plans/onprem/fabric/hall": "Order", "/plans/onprem/fabric?view=racks": "fabric/hall",
    "/plans/onprem/fabric?rack=N1": "leaf-1", "/plans/onprem/fabric/device?name=leaf-1": "Ports",
    "/planner": "The file is valid", "/compare/plans": "Compare plans", "/compare/runs": "Compare runs",
    "/catalog/machines/row?name=a3-ultragpu-8g": "Sources",
    "/data": "table", "/data/table": "What every step did", "/data/table/profile": "Correlations", "/runs": "failed",
    "/runs/last": "Rows per second", "/models": "wine", "/models/wine": "Compared", "/endpoints": "No service runs",
    "/catalog": "machines", "/catalog/machines": "a3-ultragpu-8g", "/catalog/chips": "h100-sxm",
}  # fmt: skip


@pytest.mark.parametrize("path", PAGES)
def test_page_shows_content_without_external_resources(site: WebServer, path: str) -> None:
    response = request(site, path)
    assert response.status == 200
    assert PAGES[path] in response.text
    assert "default-src 'none'" in response.headers["Content-Security-Policy"]
    loaded = r'(src|action)="?(https?:)?//|<link[^>]*href="?(https?:)?//'  # links may leave
    assert not re.search(loaded, response.text)
    for word in ("<script>document", "<img src=x", "<script>alert"):
        assert word not in response.text


def test_port_in_use_raises_external_error(site: WebServer, home: Home) -> None:
    port = int(site.server_address[1])
    with pytest.raises(ExternalError, match=f"127.0.0.1:{port}"):
        open_site(home, port=port)


def test_files_of_a_plan_are_downloads(site: WebServer) -> None:
    response = request(site, "/plans/onprem/files/plan.json")
    assert response.headers["Content-Disposition"] == 'attachment; filename="plan.json"'
    assert "dgx-h100" in response.text


def test_pages_do_not_wait_for_a_writer(
    site: WebServer, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuyard.home.LOCK_TIMEOUT_S", 0.05)
    with home.connect("things", ()):
        for path in ("/", "/runs", "/runs/last", "/models/wine", "/endpoints"):
            response = request(site, path)
            assert (response.status, PAGES[path] in response.text) == (200, True), path


def test_plan_page_has_reasons_link_heat_and_timelines(site: WebServer) -> None:
    text = request(site, "/plans/onprem").text
    for words in (
        "Option 1:",
        "step time",
        "Rejected",
        "Link heat",
        "% up, ",
        "Simulated step",
        "Hottest links",
    ):
        assert words in text
    assert text.count("<h3>Timeline</h3>") == 2  # the step and its heaviest collective


@pytest.mark.parametrize("path", ["/plans", "/runs", "/runs/last", "/models/wine", "/data/table"])
def test_names_and_contents_are_escaped(site: WebServer, path: str) -> None:
    text = request(site, path).text
    name = HARM.replace("/", "") if path == "/plans" else HARM
    assert escape(name) in text or path == "/data/table"  # column names are normalised
    assert name not in text


@pytest.mark.parametrize(
    "path",
    [
        "/nothing",
        "/runs/none",
        "/models/none",
        "/models/..",
        "/plans/..",
        "/plans/%2e%2e",
        "/plans/..%2fhome",
        "/plans/../up/onprem",
        "/plans/none/fabric",
        "/plans/onprem/fabric?rack=none",
        "/plans/onprem/fabric/device?name=none",
        "/plans/onprem/files/up.json",
        "/plans/onprem/files/..",
        "/plans/none/files/plan.json",
        "/catalog/machines/row?name=none",
        "/compare/plans?a=none&b=onprem",
        "/runs/last/logs/none",
        "/home?key=none",
        "/plans/../../fabric",
        "/data/../../ledger.db",
        "/data/none/profile",
        "/assets/../server.py",
        "/assets/live.py",
        "//plans",
        "/catalog/none",
        "/[",
        "//[",
        "/plans/onprem%00",
    ],
)
def test_other_paths_are_not_detected(site: WebServer, path: str) -> None:
    assert request(site, path).status == (200 if path == "//plans" else 404)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("example.org", 403),
        ("127.0.0.1.example.org", 403),
        ("[", 403),
        ("", 403),
        ("localhost:80", 200),
        ("[::1]", 200),
    ],
)
def test_loopback_server_rejects_foreign_host_headers(
    site: WebServer, host: str, status: int
) -> None:
    assert request(site, "/", headers={"Host": host}).status == status
    assert request(site, "/events?path=/none", headers={"Host": "example.org"}).status == 403


def test_public_address_requires_token_and_sets_cookie(guarded: WebServer) -> None:
    assert f"token={guarded.token}" in guarded.url
    for path in ("/", "/assets/live.js", "/events?path=/", "/?token=wrong", "/?token=%C3%A9"):
        assert request(guarded, path).status == 401
    first = request(guarded, f"/plans?token={guarded.token}")
    assert (first.status, first.headers["Location"]) == (303, "/plans")
    cookie = first.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert request(guarded, "/plans", headers={"Cookie": cookie.split(";")[0]}).status == 200
    assert request(guarded, "/plans", headers={"Cookie": "gpuyard_token=wrong"}).status == 401
    assert (
        request(
            guarded, "/models/wine/promote", method="POST", body="version=1&alias=champion"
        ).status
        == 401
    )


def test_server_is_read_only_by_default(site: WebServer, home: Home) -> None:
    own, before = {"Origin": site.url.rstrip("/")}, Registry(home=home).changes("wine")
    response = request(
        site, "/models/wine/promote", method="POST", headers=own, body="version=1&alias=champion"
    )
    assert response.status == 403
    assert "--allow-actions" in response.text
    assert "<form" not in request(site, "/models/wine").text
    assert Registry(home=home).changes("wine") == before


@pytest.mark.parametrize("site", [True], indirect=True)
def test_action_requires_own_origin_and_valid_fields(site: WebServer, home: Home) -> None:
    origin = f"http://127.0.0.1:{site.server_address[1]}"
    cookie = {"Cookie": f"gpuyard_token={site.token}"}
    own, path, body = (
        {"Origin": origin} | cookie,
        "/models/wine/promote",
        "version=2&alias=champion",
    )
    assert request(site, path, method="POST", headers={"Origin": origin}, body=body).status == 401
    before = Registry(home=home).changes("wine")
    for origin in (
        {},
        {"Origin": "null"},
        {"Origin": "http://example.org"},
        {"Origin": own["Origin"] + "0"},
    ):
        assert request(site, path, method="POST", headers=cookie | origin, body=body).status == 403
    assert (
        request(site, path, method="POST", headers=own, body=f"{body}&more={'x' * 20_000}").status
        == 413
    )
    for length in ("-1", "9" * 5000):
        wrong = {**own, "Content-Length": length}
        assert request(site, path, method="POST", headers=wrong).status == 413
    assert request(site, path, method="POST", headers=own, body="version=2&alias=<b>").status == 400
    assert (
        request(site, path, method="POST", headers=own, body="version=9&alias=champion").status
        == 400
    )
    assert request(site, "/models/wine/remove", method="POST", headers=own, body=body).status == 404
    assert request(site, "/runs/none/stop", method="POST", headers=own, body="").status == 400
    assert Registry(home=home).changes("wine") == before
    response = request(site, path, method="POST", headers=own, body=body)
    assert (response.status, response.headers["Location"]) == (303, "/models/wine")
    assert Registry(home=home).get("wine@champion").version == 2
    assert "<form" in request(site, "/models/wine", headers=cookie).text


@contextlib.contextmanager
def _stream(site: WebServer, path: str) -> Iterator[http.client.HTTPResponse]:
    """Open an event stream."""
    connection = http.client.HTTPConnection("127.0.0.1", site.server_address[1], timeout=120)
    connection.request("GET", f"/events?path={path}")
    with contextlib.closing(connection), connection.getresponse() as response:
        yield response


def _until(stream: http.client.HTTPResponse, word: bytes) -> bytes:
    """Return the next line that contains a word."""
    while line := stream.readline():
        if word in line:
            return line
    raise AssertionError("the stream ended")


def test_stream_sends_changed_fragments(site: WebServer, home: Home) -> None:
    ledger = Ledger(home=home, now=lambda: 1.0)  # older than the run that other tests use
    with _stream(site, "/runs") as stream:
        assert stream.headers["Content-Type"] == "text/event-stream"
        _until(stream, b'"id": "runs"')
        run = ledger.begin(
            name="later", workload="", engine=EngineSpec(name="local"), stages=("train",)
        )
        assert run.id.encode() in _until(stream, b'"id": "runs"')
    ledger.end(run.id, "cancelled")


def test_stream_ends_when_its_client_disconnects(site: WebServer) -> None:
    site.streams = threading.BoundedSemaphore(1)
    with _stream(site, "/runs") as first:
        assert first.status == 200
        with _stream(site, "/runs") as second:
            assert second.status == 503
    until_s = time.monotonic() + 120.0
    while time.monotonic() < until_s:
        with _stream(site, "/runs") as third:
            if third.status == 200:
                return
        time.sleep(0.1)
    raise AssertionError("the first stream was not released")


def test_static_page_has_no_event_stream(site: WebServer) -> None:
    assert " data-live" not in request(site, "/data/table/profile").text
    with _stream(site, "/data/table/profile") as stream:
        assert stream.read() == b""


@pytest.mark.parametrize("path", ["/", "/runs", "/assets/style.css", "/none"])
def test_head_has_the_headers_of_get_and_no_body(site: WebServer, path: str) -> None:
    full, head = request(site, path), request(site, path, method="HEAD")
    assert (head.status, head.text) == (full.status, "")
    assert head.headers["Content-Length"] == full.headers["Content-Length"]
    assert request(site, "/events?path=/runs", method="HEAD").status == 405


def test_site_on_the_network_answers_to_its_own_names_only(guarded: WebServer) -> None:
    cookie = {"Cookie": f"gpuyard_token={guarded.token}"}
    assert request(guarded, "/", headers=cookie).status == 200
    assert request(guarded, "/", headers=cookie | {"Host": "evil.example"}).status == 403
    assert request(guarded, f"/?token={guarded.token}", headers={"Host": "evil"}).status == 403


@pytest.mark.parametrize(
    "access", [AccessSpec(), AccessSpec(allow_hosts=("a.example",)), AccessSpec(tls_cert="none")]
)
def test_site_on_the_network_needs_tls(home: Home, access: AccessSpec) -> None:
    with pytest.raises(InputError):
        open_site(home, host="0.0.0.0", port=0, access=access)


@pytest.mark.parametrize("site", [True], indirect=True)
def test_impossible_version_is_a_bad_request(site: WebServer) -> None:
    port = site.server_address[1]
    own = {"Origin": f"http://127.0.0.1:{port}", "Cookie": f"gpuyard_token={site.token}"}
    for version in ("9" * 24, "9" * 5000, "0", "-1", "../1", "é"):
        body = f"version={version}&alias=champion"
        path = "/models/wine/promote"
        assert request(site, path, method="POST", headers=own, body=body).status == 400, version


def test_connections_beyond_the_limit_are_closed(site: WebServer) -> None:
    site.connections = threading.BoundedSemaphore(1)
    with _stream(site, "/runs") as first:
        assert first.status == 200
        with pytest.raises((OSError, http.client.HTTPException)):
            request(site, "/")
    until_s = time.monotonic() + 120.0
    while time.monotonic() < until_s:
        with contextlib.suppress(OSError, http.client.HTTPException):
            if request(site, "/").status == 200:
                return
        time.sleep(0.1)
    raise AssertionError("the connection was not released")


def test_site_speaks_tls(
    home: Home, tmp_path: Path, certificate: Callable[[Path], tuple[str, str]]
) -> None:
    cert, key = certificate(tmp_path / "tls")
    site = open_site(home, host="0.0.0.0", port=0, access=AccessSpec(tls_cert=cert, tls_key=key))
    thread = threading.Thread(target=site.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        port = int(site.server_address[1])
        assert site.url == f"https://0.0.0.0:{port}/?token={site.token}"
        assert site.url.startswith("https://")
        with socket.create_connection(("127.0.0.1", port), timeout=120) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"HTTP/1.1 200" not in plain.recv(100)
        context = tls_client_context(cert)
        link = http.client.HTTPSConnection("127.0.0.1", port, timeout=120, context=context)
        link.request("GET", f"/runs?token={site.token}")
        reply = link.getresponse()
        reply.read()
        assert (reply.status, "Secure" in reply.headers["Set-Cookie"]) == (303, True)
        link.request("GET", "/events?path=/runs", headers={"Cookie": reply.headers["Set-Cookie"]})
        stream = link.getresponse()
        assert b"event: fragment" in _until(stream, b"event")
        link.close()
    finally:
        site.shutdown()
        thread.join()
        site.server_close()


def test_other_state_directories_can_be_shown(home: Home, tmp_path: Path) -> None:
    other = Home(path=tmp_path / "project" / ".gpuyard")
    (other.path / "up" / "elsewhere").mkdir(parents=True)
    site = open_site(home, port=0, others=lambda: (other,))
    thread = threading.Thread(target=site.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        overview = request(site, "/").text
        assert str(other.path) in overview
        (key,) = (key for key in re.findall(r"/home\?key=(\w+)", overview) if key != home_key(home))
        moved = request(site, f"/home?key={key}")
        assert (moved.status, moved.headers["Location"]) == (303, "/")
        cookie = {"Cookie": moved.headers["Set-Cookie"].partition(";")[0]}
        assert "elsewhere" in request(site, "/plans", headers=cookie).text
        assert "onprem" not in request(site, "/plans", headers=cookie).text
        assert "onprem" in request(site, "/plans", headers={"Cookie": "gpuyard_home=none"}).text
    finally:
        site.shutdown()
        thread.join()
        site.server_close()


def test_whole_logs_are_shown_and_saved(home: Home, site: WebServer) -> None:
    ledger = Ledger(home=home, now=lambda: 2.0)
    engine = EngineSpec(name="local")
    run = ledger.begin(name="logged", workload="", engine=engine, stages=("train",))
    assert request(site, f"/runs/{run.id}/logs/train").status == 404  # it was not started
    handle = Handle(engine=engine, id="job", folder=str(home.path / "logged"))
    log = JobFiles.of(handle).log
    log.parent.mkdir(parents=True)
    log.write_text("first <line>\nlast line\n", encoding="utf-8")
    ledger.start(run.id, "train", handle)
    page = request(site, f"/runs/{run.id}/logs/train").text
    assert "first &lt;line&gt;" in page
    saved = request(site, f"/runs/{run.id}/logs/train.txt")
    assert "last line" in saved.text
    assert f"{run.id}-train.txt" in saved.headers["Content-Disposition"]
    ledger.end(run.id, "cancelled")
