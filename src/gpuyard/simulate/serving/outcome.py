"""Outcome of a simulated service: request times, iteration timeline, summary."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuyard.perf.inference.quantiles import LatencyQuantiles, quantiles

Ints = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingSummary:
    """Summary metrics as serving benchmarks report them."""

    requests: int
    duration_s: float
    output_tokens_per_s: float
    total_tokens_per_s: float
    requests_per_s: float
    ttft: LatencyQuantiles  # arrival to first token
    tpot: LatencyQuantiles  # time per output token after the first
    itl: LatencyQuantiles  # between two tokens of a sequence, over all tokens
    e2e: LatencyQuantiles
    queued: LatencyQuantiles  # arrival to admission
    preemptions: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Timeline:
    """Steps in order of execution; consecutive equal decode steps are one entry."""

    at_s: Reals
    steps: Ints
    step_s: Reals  # per step
    prefill_tokens: Reals
    prefill_pairs: Reals
    decode_seqs: Reals
    kv_tokens: Reals  # read by a step, on average
    sampled: Reals
    queue: Ints  # requests waiting
    running: Ints
    used_blocks: Ints
    replica: Ints

    def thinned(self, max_entries: int) -> Timeline:
        """Return at most `max_entries` entries, evenly spaced, to plot."""
        take = np.unique(
            np.linspace(0, len(self.at_s) - 1, min(max_entries, len(self.at_s))).astype(int)
        )
        return Timeline(**{name: getattr(self, name)[take] for name in Timeline.__slots__})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ServingOutcome:
    """Times per request, in order of arrival, and the timeline."""

    arrived_s: Reals
    admitted_s: Reals
    first_token_s: Reals
    finished_s: Reals
    prompt_tokens: Ints
    output_tokens: Ints
    preemptions: Ints
    replica: Ints
    entries: Ints  # timeline entries of arrival, first token and finish, three rows
    timeline: Timeline

    @property
    def ttft_s(self) -> Reals:
        """Arrival to first token."""
        return self.first_token_s - self.arrived_s

    @property
    def e2e_s(self) -> Reals:
        """Arrival to last token."""
        return self.finished_s - self.arrived_s

    @property
    def tpot_s(self) -> Reals:
        """Time per output token after the first, of requests with more than one."""
        more = self.output_tokens > 1
        return np.asarray(
            (self.finished_s - self.first_token_s)[more] / (self.output_tokens[more] - 1)
        )

    def summary(self) -> ServingSummary:
        """Return the summary of the whole run."""
        span = float(self.finished_s.max() - self.arrived_s.min())
        line = self.timeline
        gaps = _weighted(line.step_s, line.steps * line.decode_seqs)
        return ServingSummary(
            requests=len(self.arrived_s),
            duration_s=span,
            output_tokens_per_s=float(self.output_tokens.sum()) / span,
            total_tokens_per_s=float((self.output_tokens + self.prompt_tokens).sum()) / span,
            requests_per_s=len(self.arrived_s) / span,
            ttft=quantiles(self.ttft_s),
            tpot=quantiles(self.tpot_s),
            itl=gaps,
            e2e=quantiles(self.e2e_s),
            queued=quantiles(self.admitted_s - self.arrived_s),
            preemptions=int(self.preemptions.sum()),
        )


def _weighted(values: Reals, weights: Reals) -> LatencyQuantiles:
    """Return weighted quantiles: a value counts `weights` times."""
    if not weights.sum() > 0:
        return quantiles(np.zeros(0))
    order = np.argsort(values)
    share = np.cumsum(weights[order]) / weights.sum()
    p50, p90, p95, p99 = values[order][
        np.minimum(np.searchsorted(share, (0.5, 0.9, 0.95, 0.99)), len(values) - 1)
    ]
    mean = float((values * weights).sum() / weights.sum())
    return LatencyQuantiles(
        mean_s=mean, p50_s=float(p50), p90_s=float(p90), p95_s=float(p95), p99_s=float(p99)
    )
