"""What running services measure of themselves, read from their metrics pages."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

from gpuyard.document import Doc
from gpuyard.home import Home
from gpuyard.serving.endpoints import Endpoint, Endpoints

__all__ = ["Live", "live_endpoints", "quantile_of", "read_metrics"]

WAIT_S = 2.0
_LINE = re.compile(
    r'(?P<name>gpuyard_\w+)\{model="(?P<model>[^"]*)",version="(?P<version>[^"]*)"(?P<more>[^}]*)\} (?P<value>\S+)'
)
_EDGE = re.compile(r'le="(?P<edge>[^"]+)"')
_CODE = re.compile(r'code="(?P<code>\d+)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """One model behind one service, now."""

    service: str
    state: str
    url: str
    model: str
    requests_count: int = 0
    failures_count: int = 0
    p50_s: Annotated[float | None, Doc("of all requests since the start: the edge of a bucket")] = None
    p99_s: float | None = None
    buckets: Annotated[tuple[tuple[float, float], ...], Doc("edges in seconds, and requests up to each")] = ()


def live_endpoints(home: Home) -> tuple[Live, ...]:
    """Every service of a state directory with its models; one that does not answer shows its state alone."""
    return tuple(row for endpoint in Endpoints(home=home).all() for row in _rows(endpoint))


def _rows(endpoint: Endpoint) -> Iterator[Live]:
    """The models of one service."""
    found: tuple[Live, ...] = ()
    if endpoint.state == "running":
        try:
            with urllib.request.urlopen(f"{endpoint.url}/metrics", timeout=WAIT_S) as answer:
                found = read_metrics(answer.read().decode(errors="replace"), endpoint)
        except (urllib.error.URLError, OSError, ValueError):
            found = ()
    yield from found
    if not found:
        yield Live(service=endpoint.name, state=endpoint.state, url=endpoint.url, model=", ".join(endpoint.models))


def read_metrics(text: str, endpoint: Endpoint) -> tuple[Live, ...]:
    """A row for every version that has answered."""
    buckets: dict[str, list[tuple[float, float]]] = {}
    codes: dict[str, dict[str, float]] = {}
    for match in _LINE.finditer(text):
        model, value = f"{match['model']}/{match['version']}", float(match["value"])
        if match["name"] == "gpuyard_request_seconds_bucket" and (edge := _EDGE.search(match["more"])):
            buckets.setdefault(model, []).append((float(edge["edge"]), value))
        elif match["name"] == "gpuyard_requests_total" and (code := _CODE.search(match["more"])):
            codes.setdefault(model, {})[code["code"]] = value
    return tuple(
        Live(
            service=endpoint.name, state=endpoint.state, url=endpoint.url, model=model,
            requests_count=int(sum(found.values())),
            failures_count=int(sum(count for code, count in found.items() if code >= "500")),
            p50_s=quantile_of(buckets.get(model, []), 0.5), p99_s=quantile_of(buckets.get(model, []), 0.99),
            buckets=tuple(sorted(buckets.get(model, []))),
        )
        for model, found in sorted(codes.items())
    )  # fmt: skip


def quantile_of(buckets: Sequence[tuple[float, float]], share: float) -> float | None:
    """The upper edge of the bucket that holds the quantile; None without requests, or beyond the last edge."""
    edges = sorted(buckets)
    if not edges or not edges[-1][1]:
        return None
    wanted = share * edges[-1][1]
    edge = next(edge for edge, count in edges if count >= wanted)
    return edge if edge != float("inf") else None
