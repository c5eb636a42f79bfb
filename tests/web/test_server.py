"""The page over HTTP: what it shows, who may look, who may act, and that no name or content becomes markup."""

from __future__ import annotations

import contextlib
import http.client
import re
import threading
import time
from collections.abc import Iterator
from html import escape

import pytest

from gpuyard.errors import RefusedError
from gpuyard.home import Home
from gpuyard.jobs import EngineSpec, Ledger
from gpuyard.registry import Registry
from gpuyard.web import Site, open_site

from .conftest import HARM, ask

PAGES = {
    "/": "Newest runs", "/plans": "hall", "/plans/hall": "Time and chips", "/plans/hall/fabric": "Findings",
    "/data": "table", "/data/table": "What every step did", "/data/table/profile": "Correlations", "/runs": "failed",
    "/runs/last": "Rows a second", "/models": "wine", "/models/wine": "Compared", "/endpoints": "No service runs",
    "/catalog": "machines", "/catalog/machines": "a3-ultragpu-8g", "/catalog/chips": "h100-sxm",
}  # fmt: skip


@pytest.mark.parametrize("path", PAGES)
def test_a_page_shows_what_there_is_and_loads_nothing_from_elsewhere(site: Site, path: str) -> None:
    got = ask(site, path)
    assert got.status == 200
    assert PAGES[path] in got.text
    assert "default-src 'none'" in got.headers["Content-Security-Policy"]
    assert not re.search(r'(src|href|action)="?(https?:)?//', got.text)
    for word in ("<script>document", "<img src=x", "<script>alert"):
        assert word not in got.text


def test_a_port_in_use_is_told(site: Site, home: Home) -> None:
    port = int(site.server_address[1])
    with pytest.raises(RefusedError, match=f"127.0.0.1:{port}: cannot be listened on: .*\n  fix: use another --port"):
        open_site(home, port=port)


def test_pages_do_not_wait_for_who_writes(site: Site, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuyard.home.WAIT_S", 0.05)
    with home.connect("things", ()):
        for path in ("/", "/runs", "/runs/last", "/models/wine", "/endpoints"):
            got = ask(site, path)
            assert (got.status, PAGES[path] in got.text) == (200, True), path


def test_a_plan_has_its_reasons_its_link_heat_and_its_timelines(site: Site) -> None:
    text = ask(site, "/plans/hall").text
    for words in ("Option 1:", "step time", "Rejected", "Link heat", "% up, ", "Simulated step", "Fullest links"):
        assert words in text
    assert text.count("<h3>Timeline</h3>") == 2  # of the step, and of its heaviest collective


@pytest.mark.parametrize("path", ["/plans", "/runs", "/runs/last", "/models/wine", "/data/table"])
def test_names_and_contents_stay_text(site: Site, path: str) -> None:
    text = ask(site, path).text
    shown = HARM.replace("/", "") if path == "/plans" else HARM
    assert escape(shown) in text or path == "/data/table"  # a column's name is made plain before
    assert shown not in text


@pytest.mark.parametrize(
    "path",
    [
        "/nothing", "/runs/none", "/models/none", "/models/..", "/plans/..", "/plans/%2e%2e", "/plans/..%2fhome",
        "/plans/../up/hall", "/plans/none/fabric", "/plans/../../fabric", "/data/../../ledger.db", "/data/none/profile",
        "/assets/../server.py", "/assets/live.py", "//plans", "/catalog/none", "/[", "//[", "/plans/hall%00",
    ],
)  # fmt: skip
def test_there_is_nothing_else(site: Site, path: str) -> None:
    assert ask(site, path).status == (200 if path == "//plans" else 404)


@pytest.mark.parametrize(("host", "status"), [
    ("example.org", 403), ("127.0.0.1.example.org", 403), ("[", 403), ("", 403), ("localhost:80", 200), ("[::1]", 200),
])  # fmt: skip
def test_on_loopback_only_this_machines_names_are_answered(site: Site, host: str, status: int) -> None:
    assert ask(site, "/", headers={"Host": host}).status == status
    assert ask(site, "/events?path=/none", headers={"Host": "example.org"}).status == 403


def test_elsewhere_the_token_is_asked_for_and_kept_in_a_cookie(guarded: Site) -> None:
    assert f"token={guarded.token}" in guarded.url
    for path in ("/", "/assets/live.js", "/events?path=/", "/?token=wrong", "/?token=%C3%A9"):
        assert ask(guarded, path).status == 401
    first = ask(guarded, f"/plans?token={guarded.token}")
    assert (first.status, first.headers["Location"]) == (303, "/plans")
    cookie = first.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert ask(guarded, "/plans", headers={"Cookie": cookie.split(";")[0]}).status == 200
    assert ask(guarded, "/plans", headers={"Cookie": "gpuyard_token=wrong"}).status == 401
    assert ask(guarded, "/models/wine/promote", method="POST", body="version=1&alias=champion").status == 401


def test_it_is_read_only_unless_it_is_told_otherwise(site: Site, home: Home) -> None:
    own, before = {"Origin": site.url.rstrip("/")}, Registry(home=home).changes("wine")
    got = ask(site, "/models/wine/promote", method="POST", headers=own, body="version=1&alias=champion")
    assert got.status == 403
    assert "--allow-actions" in got.text
    assert "<form" not in ask(site, "/models/wine").text
    assert Registry(home=home).changes("wine") == before


@pytest.mark.parametrize("site", [True], indirect=True)
def test_only_our_own_form_acts(site: Site, home: Home) -> None:
    own, path, body = {"Origin": site.url.rstrip("/")}, "/models/wine/promote", "version=2&alias=champion"
    before = Registry(home=home).changes("wine")
    for origin in ({}, {"Origin": "null"}, {"Origin": "http://example.org"}, {"Origin": own["Origin"] + "0"}):
        assert ask(site, path, method="POST", headers=origin, body=body).status == 403
    assert ask(site, path, method="POST", headers=own, body=f"{body}&more={'x' * 20_000}").status == 413
    assert ask(site, path, method="POST", headers={**own, "Content-Length": "-1"}).status == 413
    assert ask(site, path, method="POST", headers=own, body="version=2&alias=<b>").status == 400
    assert ask(site, path, method="POST", headers=own, body="version=9&alias=champion").status == 400
    assert ask(site, "/models/wine/remove", method="POST", headers=own, body=body).status == 404
    assert ask(site, "/runs/none/stop", method="POST", headers=own, body="").status == 400
    assert Registry(home=home).changes("wine") == before
    got = ask(site, path, method="POST", headers=own, body=body)
    assert (got.status, got.headers["Location"]) == (303, "/models/wine")
    assert Registry(home=home).get("wine@champion").version == 2
    assert "<form" in ask(site, "/models/wine").text


@contextlib.contextmanager
def _stream(site: Site, path: str) -> Iterator[http.client.HTTPResponse]:
    """A stream until it is left."""
    connection = http.client.HTTPConnection("127.0.0.1", site.server_address[1], timeout=60)
    connection.request("GET", f"/events?path={path}")
    with contextlib.closing(connection), connection.getresponse() as got:
        yield got


def _until(stream: http.client.HTTPResponse, word: bytes) -> bytes:
    """The next line with this word in it."""
    while line := stream.readline():
        if word in line:
            return line
    raise AssertionError("the stream ended")


def test_a_stream_sends_what_has_changed(site: Site, home: Home) -> None:
    ledger = Ledger(home=home, now=lambda: 1.0)  # older than the run that other tests look at
    with _stream(site, "/runs") as stream:
        assert stream.headers["Content-Type"] == "text/event-stream"
        _until(stream, b'"id": "runs"')
        run = ledger.begin(name="later", workload="", engine=EngineSpec(name="local"), stages=("train",))
        assert run.id.encode() in _until(stream, b'"id": "runs"')
    ledger.end(run.id, "cancelled")


def test_a_stream_ends_when_its_client_goes(site: Site) -> None:
    site.streams = threading.BoundedSemaphore(1)
    with _stream(site, "/runs") as first:
        assert first.status == 200
        with _stream(site, "/runs") as second:
            assert second.status == 503
    for _ in range(300):
        with _stream(site, "/runs") as third:
            if third.status == 200:
                return
        time.sleep(0.1)
    raise AssertionError("the first stream was not given back")


def test_a_page_that_stands_still_is_not_streamed(site: Site) -> None:
    assert " data-live" not in ask(site, "/data/table/profile").text
    with _stream(site, "/data/table/profile") as stream:
        assert stream.read() == b""
