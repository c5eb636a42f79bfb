"""Requests that are wrong, slow, too large or gone: each gets its answer, and the others go on."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import signal
import socket
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from gpuyard.home import Home
from gpuyard.serving.spec import LimitSpec, ServedModel

from .cases import LONG_S, ask, bundle, register, rows, serving, until

ROW = (0.5, -1.0, 2.0, 0.25)
BODY = json.dumps(rows(ROW)).encode()
LIMITS = LimitSpec(body_bytes=20_000, time_s=5.0, headers_s=5.0, waiting=48, drain_s=5.0)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    base = tmp_path_factory.mktemp("faults")
    home = Home(path=base / "home")
    register(home, "m", bundle(base / "m"))
    with serving(home, (ServedModel(name="m", reference="m"),), limits=LIMITS) as endpoint:
        yield endpoint.url


@pytest.fixture(autouse=True)
def _still_right(url: str) -> Iterator[None]:
    """After every fault the server answers as before."""
    until(lambda: ask(f"{url}/v2/models/m/infer", BODY)[0] == 200)
    before = ask(f"{url}/v2/models/m/infer", BODY)
    yield
    # Requests of clients that left may still be held.
    until(lambda: ask(f"{url}/v2/models/m/infer", BODY) == before)


def dial(url: str) -> socket.socket:
    parts = urlsplit(url)
    assert parts.hostname
    assert parts.port
    return socket.create_connection((parts.hostname, parts.port), timeout=LONG_S)


def head(length: int | None, extra: str = "") -> bytes:
    size = f"Content-Length: {length}\r\n" if length is not None else ""
    return f"POST /v2/models/m/infer HTTP/1.1\r\nHost: localhost\r\n{size}{extra}\r\n".encode()


def reply(link: socket.socket) -> bytes:
    """What comes until the connection closes or rests."""
    found = b""
    with contextlib.suppress(OSError):
        while part := link.recv(65536):
            found += part
    return found


def test_oversized_body_is_refused_before_it_is_read(url: str) -> None:
    with dial(url) as link:
        link.sendall(head(10**12))
        assert b" 413 " in link.recv(65536).split(b"\r\n")[0]


def test_chunked_body_is_cut_at_limit(url: str) -> None:
    with dial(url) as link:
        link.sendall(head(None, "Transfer-Encoding: chunked\r\n"))
        with contextlib.suppress(OSError):  # the server may close while we still send
            for _ in range(40):
                link.sendall(b"400\r\n" + b" " * 1024 + b"\r\n")
        assert b" 413 " in reply(link).split(b"\r\n")[0]


def test_chunked_body_within_limit_is_read(url: str) -> None:
    with dial(url) as link:
        link.sendall(head(None, "Transfer-Encoding: chunked\r\nConnection: close\r\n"))
        for at in range(0, len(BODY), 50):
            part = BODY[at : at + 50]
            link.sendall(f"{len(part):x}\r\n".encode() + part + b"\r\n")
        link.sendall(b"0\r\n\r\n")
        assert b" 200 " in reply(link).split(b"\r\n")[0]


def test_slow_clients_do_not_hold_up_others_and_are_sent_away(url: str) -> None:
    with contextlib.ExitStack() as stack:
        heads = [stack.enter_context(dial(url)) for _ in range(150)]
        for link in heads:
            link.sendall(b"POST /v2/models/m/infer HTTP/1.1\r\nHost")  # and never more
        bodies = [stack.enter_context(dial(url)) for _ in range(20)]
        for link in bodies:
            link.sendall(head(len(BODY)) + BODY[:10])
        for _ in range(20):
            assert ask(f"{url}/v2/models/m/infer", BODY)[0] == 200
        for link in bodies:
            assert b" 408 " in link.recv(65536).split(b"\r\n")[0]
        for link in heads:
            assert b" 200 " not in reply(link)  # closed by the server, or told 408


def test_overloaded_server_answers_503_with_retry_after(url: str) -> None:
    with contextlib.ExitStack() as stack:
        links = [stack.enter_context(dial(url)) for _ in range(LIMITS.waiting)]
        for link in links:
            link.sendall(head(len(BODY)) + BODY[:10])
        answer = b""
        for _ in range(50):
            with dial(url) as late:
                late.sendall(head(len(BODY), "Connection: close\r\n") + BODY)
                answer = reply(late)
            if b" 503 " in answer:
                break
        assert b" 503 " in answer.split(b"\r\n")[0]
        assert b"retry-after: 1" in answer.lower()
        assert ask(f"{url}/v2/health/live")[0] == 200
        for link in links:
            assert b" 408 " in link.recv(65536).split(b"\r\n")[0]


def test_clients_that_leave_in_the_middle(url: str) -> None:
    for number in range(300):
        with dial(url) as link:
            cut = len(BODY) if number % 3 else number % len(BODY)
            link.sendall(head(len(BODY)) + BODY[:cut])
            if number % 2:  # a reset instead of an orderly end
                link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


def mutated(rng: random.Random) -> bytes:
    """A request with some bytes changed, cut, doubled or replaced by what JSON finds hard."""
    body = bytearray(BODY)
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(body) + 1)
        kind = rng.randrange(5)
        if kind == 0 and body:
            body[at % len(body)] = rng.randrange(256)
        elif kind == 1:
            del body[at : at + rng.randint(1, 20)]
        elif kind == 2:
            body[at:at] = body[: rng.randint(1, 30)]
        elif kind == 3:
            body[at:at] = rng.choice(
                [
                    b"null",
                    b"[[",
                    b"1e999",
                    b'"\xff"',
                    b"-",
                    b"{}",
                    b"99999999999999999999",
                    b"\\u0000",
                ]
            )
        else:
            body[at:at] = rng.randbytes(rng.randint(1, 8))
    return bytes(body)


def test_thousands_of_malformed_requests(url: str) -> None:
    parts, statuses = urlsplit(url), dict[int, int]()
    lock = threading.Lock()

    def attack(seed: int) -> None:
        rng = random.Random(seed)
        assert parts.hostname
        link = http.client.HTTPConnection(parts.hostname, parts.port, timeout=LONG_S)
        for _ in range(1000):
            body = rng.randbytes(rng.randint(0, 300)) if rng.random() < 0.3 else mutated(rng)
            headers = {}
            if rng.random() < 0.2:
                headers["Inference-Header-Content-Length"] = rng.choice(
                    ["0", "10", "-5", "x", "1e3", str(len(body)), "9" * 30]
                )
            if rng.random() < 0.05:
                headers["Content-Encoding"] = rng.choice(["gzip", "br", "identity"])
            link.request(
                "POST",
                rng.choice(["/v2/models/m/infer", "/v2/models/m/versions/1/infer"]),
                body,
                headers,
            )
            answer = link.getresponse()
            said = answer.read()
            with lock:
                statuses[answer.status] = statuses.get(answer.status, 0) + 1
            if answer.status != 200:
                assert json.loads(said)["error"]
        link.close()

    threads = [threading.Thread(target=attack, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(statuses.values()) == 3000
    assert set(statuses) <= {200, 400, 415}, statuses
    assert statuses[400] > 1000


def test_bytes_that_are_not_even_http(url: str) -> None:
    rng = random.Random(5)
    for _ in range(200):
        with dial(url) as link:
            link.settimeout(0.001)
            with contextlib.suppress(OSError):
                link.sendall(rng.randbytes(rng.randint(1, 400)) + b"\r\n\r\n")
                link.recv(100)


def accepts(url: str) -> bool:
    try:
        dial(url).close()
    except OSError:
        return False
    return True


def test_stopping_waits_for_requests_under_way(tmp_path_factory: pytest.TempPathFactory) -> None:
    base = tmp_path_factory.mktemp("drain")
    home = Home(path=base / "home")
    register(home, "m", bundle(base / "m"))
    with (
        serving(home, (ServedModel(name="m", reference="m"),)) as endpoint,
        dial(endpoint.url) as link,
    ):
        link.sendall(head(len(BODY), "Expect: 100-continue\r\n"))
        assert b" 100 " in link.recv(100)  # the server waits for the body
        os.kill(endpoint.pid, signal.SIGTERM)
        until(lambda: not accepts(endpoint.url))
        link.sendall(BODY)
        assert b" 200 " in reply(link).split(b"\r\n")[0]
