"""Serving, event by event: continuous batching over a paged cache, replicas and a router, in one pool or two."""

from gpuyard.simulate.serving.load import Requests, at_rate, fixed, lognormal, uniform
from gpuyard.simulate.serving.outcome import Outcome, Quantiles, Summary, Timeline
from gpuyard.simulate.serving.score import Score, score, score_json
from gpuyard.simulate.serving.search import highest_rate
from gpuyard.simulate.serving.simulate import Pool, Router, Transfer, simulate
from gpuyard.simulate.serving.table import read_table
from gpuyard.simulate.serving.trace import parse_trace, read_trace

__all__ = [
    "Outcome", "Pool", "Quantiles", "Requests", "Router", "Score", "Summary", "Timeline", "Transfer", "at_rate",
    "fixed", "highest_rate", "lognormal", "parse_trace", "read_table", "read_trace", "score", "score_json", "simulate",
    "uniform",
]  # fmt: skip
