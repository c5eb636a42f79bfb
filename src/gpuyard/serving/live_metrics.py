"""Metrics of running servers, scraped from their `/metrics` routes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

from gpuyard.document.encode import load_json
from gpuyard.document.field_types import Doc
from gpuyard.errors import GpuyardError, InputError
from gpuyard.home import Home
from gpuyard.http import NO_RETRY, HttpClient
from gpuyard.serving.access import management_token, tls_client_context
from gpuyard.serving.endpoints import Endpoint, Endpoints
from gpuyard.serving.monitoring import Monitoring

TIMEOUT_S = 2.0
_LINE = re.compile(
    r'(?P<name>gpuyard_\w+)\{model="(?P<model>[^"]*)",version="(?P<version>[^"]*)"'
    r"(?P<more>[^}]*)\} (?P<value>\S+)"
)
_EDGE = re.compile(r'le="(?P<edge>[^"]+)"')
_CODE = re.compile(r'code="(?P<code>\d+)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveModelMetrics:
    """Current metrics of one model version on one server."""

    service: str
    state: str
    url: str
    model: str
    requests_count: int = 0
    failures_count: int = 0
    p50_s: Annotated[
        float | None, Doc("upper bucket bound, over all requests since the server started")
    ] = None
    p99_s: float | None = None
    buckets: Annotated[
        tuple[tuple[float, float], ...], Doc("upper bounds in seconds with cumulative requests")
    ] = ()


def live_endpoints(home: Home) -> tuple[LiveModelMetrics, ...]:
    """Return the metrics of every server; a server that does not respond has only its state."""
    return tuple(row for endpoint in Endpoints(home=home).all() for row in _rows(home, endpoint))


def _rows(home: Home, endpoint: Endpoint) -> Iterator[LiveModelMetrics]:
    rows: tuple[LiveModelMetrics, ...] = ()
    if endpoint.state == "running":
        try:
            text = _client(home, endpoint).send("GET", "/metrics").text
            rows = read_metrics(text, endpoint)
        except (GpuyardError, OSError, ValueError):
            rows = ()
    yield from rows
    if not rows:
        yield LiveModelMetrics(
            service=endpoint.name,
            state=endpoint.state,
            url=endpoint.url,
            model=", ".join(endpoint.models),
        )


def _client(home: Home, endpoint: Endpoint) -> HttpClient:
    return HttpClient(
        base=endpoint.url,
        authorization=f"Bearer {management_token(home.path)}",
        tls=tls_client_context(endpoint.tls_cert),
        retry=NO_RETRY,
        timeout_s=TIMEOUT_S,
    )


def read_monitoring(home: Home, endpoint: Endpoint) -> Monitoring:
    """Return input drift and shadows of a running server; InputError if it does not run."""
    if endpoint.state != "running":
        what = f"is {endpoint.state}"
        raise InputError.one(f'service "{endpoint.name}"', what, "start it with `gpuyard serve`")
    response = _client(home, endpoint).send("GET", "/v2/monitoring")
    return load_json(response.text, Monitoring, f"{endpoint.url}/v2/monitoring")


def read_metrics(text: str, endpoint: Endpoint) -> tuple[LiveModelMetrics, ...]:
    """Return one row per model version in a Prometheus text."""
    buckets: dict[str, list[tuple[float, float]]] = {}
    codes: dict[str, dict[str, float]] = {}
    for match in _LINE.finditer(text):
        model, value = f"{match['model']}/{match['version']}", float(match["value"])
        if match["name"] == "gpuyard_request_seconds_bucket" and (
            edge := _EDGE.search(match["more"])
        ):
            buckets.setdefault(model, []).append((float(edge["edge"]), value))
        elif match["name"] == "gpuyard_requests_total" and (code := _CODE.search(match["more"])):
            codes.setdefault(model, {})[code["code"]] = value
    return tuple(
        LiveModelMetrics(
            service=endpoint.name,
            state=endpoint.state,
            url=endpoint.url,
            model=model,
            requests_count=int(sum(counts.values())),
            failures_count=int(sum(count for code, count in counts.items() if code >= "500")),
            p50_s=quantile_of(buckets.get(model, []), 0.5),
            p99_s=quantile_of(buckets.get(model, []), 0.99),
            buckets=tuple(sorted(buckets.get(model, []))),
        )
        for model, counts in sorted(codes.items())
    )


def quantile_of(buckets: Sequence[tuple[float, float]], share: float) -> float | None:
    """Return the upper bound of the bucket that holds the quantile.

    None without requests, or if it is beyond the last finite bound.
    """
    edges = sorted(buckets)
    if not edges or not edges[-1][1]:
        return None
    wanted = share * edges[-1][1]
    edge = next(edge for edge, count in edges if count >= wanted)
    return edge if edge != float("inf") else None
