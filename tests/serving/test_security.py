"""A real server under attack: pages elsewhere, missing keys, smuggled, hostile and endless requests."""

from __future__ import annotations

import gzip
import json
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from gpuyard.errors import InputError
from gpuyard.home import Home
from gpuyard.serving.access import tls_client_context
from gpuyard.serving.api_keys import add_key
from gpuyard.serving.deploy import is_ready
from gpuyard.serving.endpoints import Endpoint
from gpuyard.serving.live_metrics import live_endpoints
from gpuyard.serving.spec import AccessSpec, LimitSpec, ServedModel

from .cases import LONG_S, ask, bundle, management, register, rows, serving, until

pytestmark = pytest.mark.slow
ROW = (0.5, -1.0, 2.0, 0.25)
BODY = json.dumps(rows(ROW)).encode()
MOUNTS = (ServedModel(name="m", reference="m"),)
LIMITS = LimitSpec(body_bytes=20_000, headers_s=10.0, head_bytes=8192, drain_s=5.0)
INFER = "/v2/models/m/infer"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    base = tmp_path_factory.mktemp("security")
    home = Home(path=base / "home")
    register(home, "m", bundle(base / "m"))
    return home


@pytest.fixture
def own(tmp_path: Path) -> Home:
    """A state directory for a server with other settings."""
    home = Home(path=tmp_path / "home")
    register(home, "m", bundle(tmp_path / "m"))
    return home


@pytest.fixture(scope="module")
def url(home: Home) -> Iterator[str]:
    with serving(home, MOUNTS, limits=LIMITS) as endpoint:
        yield endpoint.url


@pytest.fixture(autouse=True)
def _serves_as_before(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "url" in request.fixturenames:
        assert ask(f"{request.getfixturevalue('url')}{INFER}", BODY)[0] == 200


def exchange(url: str, data: bytes) -> bytes:
    """Send raw bytes and return everything that comes back until the server closes."""
    parts = urlsplit(url)
    received = b""
    with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=LONG_S) as link:
        link.sendall(data)
        try:
            while part := link.recv(65536):
                received += part
        except OSError:
            pass
    return received


def statuses(response: bytes) -> list[int]:
    """The status of every response on a connection."""
    return [int(part[:3]) for part in response.split(b"HTTP/1.1 ")[1:]]


def head(method: str, path: str, *lines: str) -> bytes:
    return "\r\n".join((f"{method} {path} HTTP/1.1", "Host: localhost", *lines, "", "")).encode()


@pytest.mark.parametrize("action", ["load", "unload"])
@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example", "Origin": "http://evil.example", "Content-Type": "text/plain"},
        {"Origin": "http://evil.example", "Content-Type": "text/plain"},
        {"Content-Type": "text/plain"},
        {"Host": "evil.example"},
        {"Origin": "null"},
        {"Authorization": "Bearer wrong"},
        {},
    ],
)
def test_pages_cannot_change_what_is_served(url: str, action: str, headers: dict[str, str]) -> None:
    status, _ = ask(f"{url}/v2/repository/models/m/{action}", b"x", headers)
    assert status in (401, 403)
    assert ask(f"{url}/v2/health/ready") == (200, {"ready": True})


@pytest.mark.parametrize("path", [INFER, "/v2", "/", "/metrics", "/openapi.json", "/v2/models/m"])
def test_pages_cannot_use_or_read_the_models(url: str, path: str) -> None:
    body = BODY if path == INFER else None
    assert ask(f"{url}{path}", body)[0] == 200
    assert ask(f"{url}{path}", body, {"Host": "evil.example"})[0] == 403
    assert ask(f"{url}{path}", body, {"Origin": "http://evil.example"})[0] == 403
    assert ask(f"{url}/v2/health/live", headers={"Host": "evil.example"})[0] == 200


def test_token_and_json_change_what_is_served(url: str, home: Home) -> None:
    path, own = f"{url}/v2/repository/models/m/load", management(home)
    assert ask(path, {}, own | {"Content-Type": "text/plain"})[0] == 415
    assert ask(path, {}, own) == (200, {"name": "m", "version": "1"})


@pytest.mark.parametrize("version", ["9" * 24, "9" * 5000, 1 << 63, "0", "-1", "../../etc", "é"])
def test_impossible_versions_are_bad_requests(url: str, home: Home, version: object) -> None:
    body = {"parameters": {"version": version}}
    assert ask(f"{url}/v2/repository/models/m/load", body, management(home))[0] == 400


@pytest.mark.parametrize(
    "body",
    [b'{"parameters": {"version": NaN}}', b"[]", b'{"parameters": {"version": ["1"]}}', b"{"],
)
def test_impossible_load_bodies_are_bad_requests(url: str, home: Home, body: bytes) -> None:
    assert ask(f"{url}/v2/repository/models/m/load", body, management(home))[0] == 400


@pytest.mark.parametrize(
    "name",
    ["..", "../../etc", "..%2f..%2fetc%2fpasswd", "%2e%2e", "%00", "%ff", "a%0d%0aX: y", "é"],
)
def test_names_do_not_leave_the_registry(url: str, home: Home, name: str) -> None:
    token = management(home)["Authorization"]
    for method, path in (
        ("POST", f"/v2/repository/models/{name}/load"),
        ("POST", f"/v2/repository/models/{name}/unload"),
        ("GET", f"/v2/models/{name}"),
        ("POST", f"/v2/models/{name}/infer"),
    ):
        lines = (
            f"Authorization: {token}",
            "Content-Type: application/json",
            "Content-Length: 2",
            "Connection: close",
        )
        response = exchange(url, head(method, path, *lines) + b"{}")
        assert statuses(response)[0] in (400, 403, 404), response
        assert b"root:" not in response


def test_service_introduces_itself(url: str) -> None:
    status, service = ask(f"{url}/")
    assert status == 200
    assert isinstance(service, dict)
    assert service["name"] == "gpuyard"
    assert service["models"] == {"m": "/v2/models/m"}
    for path in (*service["links"].values(), *service["models"].values()):
        assert ask(f"{url}{path}")[0] == 200


@pytest.mark.parametrize(
    "lines",
    [
        ("Content-Length: 5", "Transfer-Encoding: chunked"),
        ("Content-Length: 5", "Content-Length: 6"),
        ("Content-Length: 5, 6",),
        ("Content-Length: -5",),
        ("Content-Length: +5",),
        ("Content-Length: 0x5",),
        ("Transfer-Encoding: chunked, identity",),
        ("Transfer-Encoding: x",),
        ("Transfer-Encoding : chunked",),
    ],
)
def test_ambiguous_lengths_are_refused_and_end_the_connection(
    url: str, lines: tuple[str, ...]
) -> None:
    smuggled = head("GET", "/v2/health/live", "Connection: close")
    data = head("POST", INFER, *lines) + b"0\r\n\r\n" + smuggled
    assert statuses(exchange(url, data)) == [400]


def test_length_does_not_hide_an_endless_chunked_body(url: str) -> None:
    data = head("POST", INFER, "Content-Length: 5", "Transfer-Encoding: chunked")
    response = exchange(url, data + b"6000\r\n" + b" " * 0x6000 + b"\r\n")  # and no end
    assert statuses(response) == [413]


@pytest.mark.parametrize("length", ["Content-Length: 0", "Transfer-Encoding: chunked", ""])
def test_inference_without_body_is_a_bad_request(url: str, length: str) -> None:
    lines = [line for line in (length, "Connection: close") if line]
    end = b"0\r\n\r\n" if "chunked" in length else b""
    assert statuses(exchange(url, head("POST", INFER, *lines) + end)) == [400]


def test_body_of_a_get_is_not_taken_for_the_next_request(url: str) -> None:
    inner = head("GET", "/nothing")
    outer = head("GET", "/v2/health/live", f"Content-Length: {len(inner)}")
    last = head("GET", "/v2/health/live", "Connection: close")
    assert statuses(exchange(url, outer + inner + last)) in ([200, 200], [200])


def test_head_has_no_body(url: str) -> None:
    response = exchange(url, head("HEAD", "/v2", "Connection: close"))
    assert statuses(response) == [200]
    assert response.endswith(b"\r\n\r\n")


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "x"])
def test_compressed_bodies_are_refused(url: str, encoding: str) -> None:
    bomb = gzip.compress(b" " * 10_000_000)
    assert ask(f"{url}{INFER}", bomb, {"Content-Encoding": encoding})[0] == 415


@pytest.mark.parametrize(
    "body", [b"[" * 19_000, b'{"inputs":' * 1900, b'{"inputs":[{"data":' + b"[" * 19_000]
)
def test_deep_json_is_a_bad_request(url: str, body: bytes) -> None:
    assert ask(f"{url}{INFER}", body)[0] == 400


@pytest.mark.parametrize("token", [b"NaN", b"Infinity", b"-Infinity", b"1e999", b"nan", b"0x1"])
def test_numbers_that_are_not_json_are_refused(url: str, token: bytes) -> None:
    body = BODY.replace(b"-1.0", token)
    assert body != BODY
    assert ask(f"{url}{INFER}", body)[0] == 400


def test_inputs_without_a_finite_answer_are_unprocessable_and_counted(url: str) -> None:
    status, answer = ask(f"{url}{INFER}", rows((3e38, -3e38, 3e38, 3e38)))
    assert (status, "not a finite number" in str(answer)) == (422, True)
    assert 'gpuyard_model_failures_total{model="m",version="1"} 1' in str(ask(f"{url}/metrics")[1])


def test_headers_are_limited_in_size_and_number(url: str) -> None:
    large = head("GET", "/v2/health/live", f"X-Large: {'x' * 20_000}", "Connection: close")
    assert statuses(exchange(url, large)) == [431]
    many = head("GET", "/v2/health/live", *(f"X-{n}: y" for n in range(150)), "Connection: close")
    assert statuses(exchange(url, many)) == [431]
    usual = head("GET", "/v2/health/live", *(f"X-{n}: y" for n in range(50)), "Connection: close")
    assert statuses(exchange(url, usual)) == [200]


@pytest.mark.parametrize("name", ["Host", "Origin", "X-API-Key", "Authorization", "Content-Type"])
def test_headers_that_are_not_text_are_bad_requests(url: str, name: str) -> None:
    line = f"{name}: ".encode() + b"\xff\xfe\x80"
    start = b"POST " + INFER.encode() + b" HTTP/1.1\r\n"
    host = b"" if name == "Host" else b"Host: localhost\r\n"
    length = b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(BODY)
    (status,) = statuses(exchange(url, start + host + line + b"\r\n" + length + BODY))
    assert status in (200, 400, 403)


def test_connections_are_limited(own: Home) -> None:
    limits = replace(LIMITS, connections=4, headers_s=1.0)
    with serving(own, MOUNTS, limits=limits) as endpoint:
        parts = urlsplit(endpoint.url)
        links = [
            socket.create_connection((parts.hostname or "", parts.port or 0), timeout=LONG_S)
            for _ in range(20)
        ]
        # Idle connections are closed after `headers_s`, and those that wait get their turn.
        until(lambda: ask(f"{endpoint.url}{INFER}", BODY)[0] == 200)
        for link in links:
            link.close()


def test_server_on_the_network_without_keys_does_not_start(own: Home) -> None:
    with pytest.raises(InputError, match="without a key"), serving(own, MOUNTS, host="0.0.0.0"):
        pass


def test_server_on_the_network_takes_requests_with_a_key(own: Home, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    key = add_key(keys, "one")
    access = AccessSpec(api_keys=str(keys))
    with serving(own, MOUNTS, host="0.0.0.0", access=access, workers=2) as endpoint:
        url = endpoint.url.replace("0.0.0.0", "127.0.0.1")
        for path, body in ((INFER, BODY), ("/metrics", None), ("/v2", None), ("/nothing", None)):
            assert ask(f"{url}{path}", body)[0] == 401
            assert ask(f"{url}{path}", body, {"X-API-Key": "wrong"})[0] == 401
        assert ask(f"{url}/v2/health/ready")[0] == 200
        bearer = {"Authorization": f"Bearer {key}"}
        assert ask(f"{url}{INFER}", BODY, bearer)[0] == 200
        assert ask(f"{url}/metrics", None, {"X-API-Key": key})[0] == 200
        assert ask(f"{url}/v2/repository/models/m/unload", {}, bearer)[0] == 401
        # Read with the management token; the other worker's counts arrive within a second.
        until(lambda: live_endpoints(own)[0].requests_count == 1)
        keys.unlink()
        second = add_key(keys, "two")
        until(lambda: {ask(f"{url}{INFER}", BODY, bearer)[0] for _ in range(8)} == {401})
        assert ask(f"{url}{INFER}", BODY, {"X-API-Key": second})[0] == 200


def test_insecure_server_on_the_network_still_protects_its_models(own: Home) -> None:
    access = AccessSpec(insecure=True)
    with serving(own, MOUNTS, host="0.0.0.0", access=access) as endpoint:
        url = endpoint.url.replace("0.0.0.0", "127.0.0.1")
        assert ask(f"{url}{INFER}", BODY)[0] == 200
        assert ask(f"{url}{INFER}", BODY, {"Host": "evil.example"})[0] == 403
        assert ask(f"{url}/v2/repository/models/m/unload", {})[0] == 401
        assert ask(f"{url}/v2/repository/models/m/load", {}, management(own))[0] == 200


def test_allowed_host_names_are_accepted(own: Home) -> None:
    with serving(own, MOUNTS, access=AccessSpec(allow_hosts=("models.example",))) as endpoint:
        for host, status in (("models.example", 200), ("other.example", 403)):
            assert ask(f"{endpoint.url}{INFER}", BODY, {"Host": host})[0] == status


def secure(endpoint: Endpoint, path: str, body: bytes | None = None) -> int:
    context = tls_client_context(endpoint.tls_cert)
    with urllib.request.urlopen(
        f"{endpoint.url}{path}", body, timeout=LONG_S, context=context
    ) as reply:
        return int(reply.status)


def test_server_speaks_tls(
    own: Home, tmp_path: Path, certificate: Callable[[Path], tuple[str, str]]
) -> None:
    cert, key = certificate(tmp_path / "tls")
    with serving(own, MOUNTS, access=AccessSpec(tls_cert=cert, tls_key=key)) as endpoint:
        assert endpoint.url.startswith("https://")
        until(lambda: is_ready(endpoint))
        assert secure(endpoint, INFER, BODY) == 200
        until(lambda: live_endpoints(own)[0].requests_count == 1)
        with pytest.raises(urllib.error.URLError) as caught:
            urllib.request.urlopen(f"{endpoint.url}/v2", timeout=LONG_S)
        assert isinstance(caught.value.reason, ssl.SSLCertVerificationError)
        assert not is_ready(replace(endpoint, tls_cert=certificate(tmp_path / "other")[0]))
