"""Request counts and latency histograms per version, rendered as Prometheus text."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

BOUNDS_S = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSnapshot:
    """The counts of one version at one moment."""

    model: str
    version: str
    codes: tuple[tuple[int, int], ...] = ()  # status, number of responses
    buckets: tuple[int, ...] = (0,) * (len(BOUNDS_S) + 1)
    sum_s: float = 0.0
    rows: int = 0
    batches: int = 0
    failures: int = 0  # of the model itself, even if the client got a response

    @property
    def responses(self) -> int:
        return sum(count for _, count in self.codes)


class VersionMetrics:
    """The running counts of one version in one worker."""

    __slots__ = ("_buckets", "_codes", "_model", "_sum_s", "_version", "failures", "rows")

    def __init__(self, model: str, version: str) -> None:
        self._model, self._version = model, version
        self._codes: dict[int, int] = {}
        self._buckets = [0] * (len(BOUNDS_S) + 1)
        self._sum_s = 0.0
        self.rows = 0
        self.failures = 0

    def count(self, status: int, seconds: float) -> None:
        self._codes[status] = self._codes.get(status, 0) + 1
        self._buckets[bisect_left(BOUNDS_S, seconds)] += 1
        self._sum_s += seconds

    def snapshot(self, batches: int = 0) -> MetricsSnapshot:
        return MetricsSnapshot(
            model=self._model,
            version=self._version,
            codes=tuple(sorted(self._codes.items())),
            buckets=tuple(self._buckets),
            sum_s=self._sum_s,
            rows=self.rows,
            batches=batches,
            failures=self.failures,
        )


def sum_snapshots(snapshots: Iterable[MetricsSnapshot]) -> tuple[MetricsSnapshot, ...]:
    """Return one snapshot per model and version, summed over workers."""
    sums: dict[tuple[str, str], MetricsSnapshot] = {}
    for item in snapshots:
        key = (item.model, item.version)
        sums[key] = _sum(sums[key], item) if key in sums else item
    return tuple(sums[key] for key in sorted(sums))


def _sum(one: MetricsSnapshot, other: MetricsSnapshot) -> MetricsSnapshot:
    codes = dict(one.codes)
    for status, count in other.codes:
        codes[status] = codes.get(status, 0) + count
    return MetricsSnapshot(
        model=one.model,
        version=one.version,
        codes=tuple(sorted(codes.items())),
        buckets=tuple(a + b for a, b in zip(one.buckets, other.buckets, strict=True)),
        sum_s=one.sum_s + other.sum_s,
        rows=one.rows + other.rows,
        batches=one.batches + other.batches,
        failures=one.failures + other.failures,
    )


def quantile_s(snapshot: MetricsSnapshot, share: float) -> float:
    """Return the upper bound of the bucket that holds the quantile; infinite beyond the last."""
    wanted, seen = share * sum(snapshot.buckets), 0
    for bound_s, count in zip(BOUNDS_S, snapshot.buckets, strict=False):
        seen += count
        if seen >= wanted:
            return bound_s
    return float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Family:
    name: str
    kind: str
    text: str


_REQUESTS = _Family(name="gpuyard_requests_total", kind="counter", text="Responses by status.")
_SECONDS = _Family(
    name="gpuyard_request_seconds",
    kind="histogram",
    text="Time from request headers to response.",
)
_ROWS = _Family(name="gpuyard_rows_total", kind="counter", text="Rows computed.")
_BATCHES = _Family(name="gpuyard_batches_total", kind="counter", text="Batches computed.")
_FAILURES = _Family(
    name="gpuyard_model_failures_total",
    kind="counter",
    text="Requests on which the model failed.",
)


def prometheus(
    snapshots: Iterable[MetricsSnapshot], gauges: Iterable[tuple[str, str, float]]
) -> str:
    """Render snapshots in the Prometheus text format; a gauge is (name, help, value)."""
    items = tuple(snapshots)
    lines: list[str] = []
    for family in (_REQUESTS, _SECONDS, _ROWS, _BATCHES, _FAILURES):
        lines += [f"# HELP {family.name} {family.text}", f"# TYPE {family.name} {family.kind}"]
        for item in items:
            lines += _samples(family, item)
    for name, text, value in gauges:
        lines += [f"# HELP {name} {text}", f"# TYPE {name} gauge", f"{name} {value:g}"]
    return "\n".join(lines) + "\n"


def _samples(family: _Family, item: MetricsSnapshot) -> Iterator[str]:
    labels = f'model="{_escaped(item.model)}",version="{_escaped(item.version)}"'
    if family is _REQUESTS:
        yield from (
            f'{family.name}{{{labels},code="{status}"}} {count}' for status, count in item.codes
        )
    elif family is _SECONDS:
        total = 0
        for bound_s, count in zip((*BOUNDS_S, float("inf")), item.buckets, strict=True):
            total += count
            edge = "+Inf" if bound_s == float("inf") else f"{bound_s:g}"
            yield f'{family.name}_bucket{{{labels},le="{edge}"}} {total}'
        yield f"{family.name}_sum{{{labels}}} {item.sum_s:.9g}"
        yield f"{family.name}_count{{{labels}}} {total}"
    else:
        value = {_ROWS: item.rows, _BATCHES: item.batches, _FAILURES: item.failures}[family]
        yield f"{family.name}{{{labels}}} {value}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
