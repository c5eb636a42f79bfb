"""Metrics of orders: one value a query, then the mean over queries. Weights are of queries: [b, q]."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuyard.learn.evaluate.predictions import Array, Predictions

__all__ = ["map_score", "mrr", "ndcg", "ndcg_10", "queries"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Ordered:
    """Rows by query, best score first, with the runs of equal scores marked."""

    relevance: Array
    query: npt.NDArray[np.intp]  # of each row
    first: npt.NDArray[np.intp]  # row where each query starts
    rank: npt.NDArray[np.intp]  # of each row in its query, from 0
    ties: npt.NDArray[np.intp]  # row where each run of equal scores starts


def queries(given: Predictions) -> npt.NDArray[np.intp]:
    """The number of the query of each row, from 0."""
    assert given.groups is not None
    return np.asarray(np.unique(given.groups, return_inverse=True)[1], dtype=np.intp)


def _ordered(given: Predictions, by_truth: bool = False) -> _Ordered:
    """The rows in the order of the scores, or in the ideal order."""
    assert given.truth is not None
    numbers, truth = queries(given), given.truth.astype(np.float64)
    scores = truth if by_truth else given.outputs.astype(np.float64)
    order = np.lexsort((-scores, numbers))
    query, ordered = numbers[order], scores[order]
    first = np.flatnonzero(np.concatenate(([True], query[1:] != query[:-1])))
    lengths = np.diff(np.append(first, len(query)))
    fresh = np.concatenate(([True], (query[1:] != query[:-1]) | (ordered[1:] != ordered[:-1])))
    return _Ordered(
        relevance=truth[order], query=query, first=first, rank=np.arange(len(query)) - np.repeat(first, lengths),
        ties=np.flatnonzero(fresh),
    )  # fmt: skip


def _mean(values: Array, weights: Array) -> Array:
    """The weighted mean over the queries that have a value."""
    known = np.isfinite(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(weights[:, known] @ values[known] / weights[:, known].sum(axis=1))


def _gain(rows: _Ordered, depth: int | None) -> Array:
    """Discounted gain of each query (Järvelin and Kekäläinen 2002); rows that tie share their places."""
    discount = 1.0 / np.log2(rows.rank + 2.0)
    if depth is not None:
        discount = np.where(rows.rank < depth, discount, 0.0)
    places = np.diff(np.append(rows.ties, len(rows.rank)))
    each = np.add.reduceat(rows.relevance, rows.ties) / places
    gains = each * np.add.reduceat(discount, rows.ties)
    return np.asarray(np.bincount(rows.query[rows.ties], weights=gains, minlength=len(rows.first)))


def _ndcg(given: Predictions, weights: Array, depth: int | None) -> Array:
    """Gain over the ideal gain, 0 where nothing is relevant."""
    gained, ideal = _gain(_ordered(given), depth), _gain(_ordered(given, by_truth=True), depth)
    return _mean(np.divide(gained, ideal, out=np.zeros_like(gained), where=ideal != 0), weights)


def ndcg(given: Predictions, weights: Array) -> Array:
    """Normalised discounted cumulative gain over whole lists."""
    return _ndcg(given, weights, None)


def ndcg_10(given: Predictions, weights: Array) -> Array:
    """Normalised discounted cumulative gain of the first ten."""
    return _ndcg(given, weights, 10)


def mrr(given: Predictions, weights: Array) -> Array:
    """Mean of one over the place of the first relevant row; rows that tie stand behind all of their run."""
    rows = _ordered(given)
    ends = np.append(rows.ties[1:], len(rows.rank)) - 1  # the worst place of each run
    found = np.add.reduceat((rows.relevance > 0).astype(np.float64), rows.ties) > 0
    values = np.where(found, 1.0 / (rows.rank[ends] + 1.0), 0.0)
    best = np.zeros(len(rows.first))
    np.maximum.at(best, rows.query[rows.ties], values)
    return _mean(best, weights)


def map_score(given: Predictions, weights: Array) -> Array:
    """Mean average precision; queries without a relevant row do not count."""
    rows = _ordered(given)
    yes = np.add.reduceat((rows.relevance > 0).astype(np.float64), rows.ties)
    query = rows.query[rows.ties]
    places = rows.rank[np.append(rows.ties[1:], len(rows.rank)) - 1] + 1.0  # rows down to the end of each run
    running = np.cumsum(yes)
    before = running - yes
    start = before[np.flatnonzero(np.concatenate(([True], query[1:] != query[:-1])))]
    found = running - start[query]
    total = np.bincount(query, weights=yes, minlength=len(rows.first))
    summed = np.bincount(query, weights=found / places * yes, minlength=len(rows.first))
    with np.errstate(invalid="ignore", divide="ignore"):
        return _mean(summed / total, weights)
