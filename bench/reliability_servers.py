"""Classes of bench/reliability.py: `gpuyard serve` under load, generated requests and kills.

A failure is a response that breaks the OpenAPI document (a status of 5xx among them), a lost
request, or growth of memory or descriptors.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.serving.cases import Load, bundle, children, management, register, rows, serving, until
from tests.serving.contract import footprint, send_generated

from gpuyard.home import Home
from gpuyard.serving.endpoints import Endpoint
from gpuyard.serving.spec import ServedModel

NAMES = ("plain", "people", "spare")
BODY = json.dumps(rows((0.5, -1.0, 2.0, 0.25))).encode()
INFER = "/v2/models/plain/infer"
WARM_UP = 5_000
MAX_GROWTH_BYTES = 20_000_000  # allocator and caches settle within this; a leak does not
MAX_DESCRIPTORS = 8
CLIENTS = 4
KILLS, WORKERS = 10, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ReliabilityRow:
    """The result of one class of tries."""

    name: str
    tries: int
    failures: int
    seconds: float
    detail: str = ""


@contextmanager
def _served(workers: int = 1) -> Iterator[tuple[Endpoint, Home]]:
    """A server of three small models in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="gpuyard-reliability-") as folder:
        home = Home(path=Path(folder) / "home")
        for name in NAMES:
            register(home, name, bundle(Path(folder) / name, columns=name == "people"))
        mounts = tuple(ServedModel(name=name, reference=name) for name in NAMES)
        with serving(home, mounts, workers=workers) as endpoint:
            yield endpoint, home


def contract(requests: int = 10_000) -> ReliabilityRow:
    """Requests generated from the OpenAPI document keep the contract."""
    start = time.perf_counter()
    with _served() as (endpoint, home):
        before = footprint(endpoint.pid)
        try:
            statuses = send_generated(endpoint.url, management(home), requests)
            problem = _growth(before, footprint(endpoint.pid))
            detail = ", ".join(f"{code}: {count}" for code, count in sorted(statuses.items()))
        except Exception as error:  # the first response that breaks the contract
            problem, detail, statuses = f"{type(error).__name__}: {error}", "", {}
    return ReliabilityRow(
        name="serve: generated requests",
        tries=sum(statuses.values()) or requests,
        failures=1 if problem else 0,
        seconds=time.perf_counter() - start,
        detail=problem or detail,
    )


def endurance(requests: int = 100_000) -> ReliabilityRow:
    """Right and wrong requests, on lasting and new connections, leave no memory or descriptor."""
    with _served() as (endpoint, _):
        parts = urlsplit(endpoint.url)
        link = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
        start, wrong = time.perf_counter(), 0
        before = (0, 0)
        for number in range(WARM_UP + requests):
            if number == WARM_UP:
                before = footprint(endpoint.pid)
            if number % 100 == 0:
                link.close()
            is_right = number % 10 != 0
            link.request("POST", INFER, BODY if is_right else b"{")
            response = link.getresponse()
            response.read()
            wrong += response.status != (200 if is_right else 400)
        link.close()
        after = footprint(endpoint.pid)
    problem = _growth(before, after)
    detail = f"{(after[0] - before[0]) / 1e6:+.1f} MB, {after[1] - before[1]:+d} descriptors"
    return ReliabilityRow(
        name="serve: endurance",
        tries=requests,
        failures=wrong + bool(problem),
        seconds=time.perf_counter() - start,
        detail=detail,
    )


def killed_workers(kills: int = KILLS) -> ReliabilityRow:
    """A worker killed under load loses no request beyond those in flight."""
    start = time.perf_counter()
    with (
        _served(workers=WORKERS) as (endpoint, _),
        Load(endpoint.url, "plain", BODY, clients=CLIENTS) as load,
    ):
        for _ in range(kills):
            count = len(load.answers)
            until(lambda count=count: len(load.answers) > count + 200)
            victim = max(children(endpoint.pid))
            os.kill(victim, signal.SIGKILL)
            until(lambda victim=victim: victim not in children(endpoint.pid))
            until(lambda: len(children(endpoint.pid)) == WORKERS)
        lost = len(load.failures)
        wrong = sum(status != 200 for status, _ in load.answers)
    # A client has one request in flight, and may send the next before it sees the closed connection.
    allowed = 2 * CLIENTS * kills
    return ReliabilityRow(
        name="serve: killed workers",
        tries=kills,
        failures=wrong + max(0, lost - allowed),
        seconds=time.perf_counter() - start,
        detail=f"{lost} of {len(load.answers)} requests were in flight and lost",
    )


def _growth(before: tuple[int, int], after: tuple[int, int]) -> str:
    if after[0] > before[0] + MAX_GROWTH_BYTES:
        return f"memory grew by {after[0] - before[0]} bytes"
    if after[1] > before[1] + MAX_DESCRIPTORS:
        return f"{after[1] - before[1]} descriptors more"
    return ""
