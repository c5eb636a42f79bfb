"""Ranking metrics: one value per query, then the mean over queries; weights [b, q]."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuyard.learn.evaluate.predictions import Array, Predictions


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Ordered:
    # Rows by query, best score first.
    relevance: Array
    query: npt.NDArray[np.intp]  # of each row
    first: npt.NDArray[np.intp]  # row where each query starts
    rank: npt.NDArray[np.intp]  # of each row in its query, from 0
    ties: npt.NDArray[np.intp]  # row where each run of equal scores starts


def queries(predictions: Predictions) -> npt.NDArray[np.intp]:
    """Return the query index of each row, from 0."""
    assert predictions.groups is not None
    return np.asarray(np.unique(predictions.groups, return_inverse=True)[1], dtype=np.intp)


def _ordered(predictions: Predictions, by_truth: bool = False) -> _Ordered:
    assert predictions.truth is not None
    numbers, truth = queries(predictions), predictions.truth.astype(np.float64)
    scores = truth if by_truth else predictions.outputs.astype(np.float64)
    order = np.lexsort((-scores, numbers))
    query, ordered = numbers[order], scores[order]
    first = np.flatnonzero(np.concatenate(([True], query[1:] != query[:-1])))
    lengths = np.diff(np.append(first, len(query)))
    fresh = np.concatenate(([True], (query[1:] != query[:-1]) | (ordered[1:] != ordered[:-1])))
    return _Ordered(
        relevance=truth[order],
        query=query,
        first=first,
        rank=np.arange(len(query)) - np.repeat(first, lengths),
        ties=np.flatnonzero(fresh),
    )


def _mean(values: Array, weights: Array) -> Array:
    known = np.isfinite(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(weights[:, known] @ values[known] / weights[:, known].sum(axis=1))


def _gain(rows: _Ordered, depth: int | None) -> Array:
    # Discounted cumulative gain per query (Järvelin and Kekäläinen 2002); tied rows share ranks.
    discount = 1.0 / np.log2(rows.rank + 2.0)
    if depth is not None:
        discount = np.where(rows.rank < depth, discount, 0.0)
    tied_count = np.diff(np.append(rows.ties, len(rows.rank)))
    mean_relevance = np.add.reduceat(rows.relevance, rows.ties) / tied_count
    gains = mean_relevance * np.add.reduceat(discount, rows.ties)
    return np.asarray(np.bincount(rows.query[rows.ties], weights=gains, minlength=len(rows.first)))


def _ndcg(predictions: Predictions, weights: Array, depth: int | None) -> Array:
    gain = _gain(_ordered(predictions), depth)
    ideal = _gain(_ordered(predictions, by_truth=True), depth)
    return _mean(np.divide(gain, ideal, out=np.zeros_like(gain), where=ideal != 0), weights)


def ndcg(predictions: Predictions, weights: Array) -> Array:
    """Normalised discounted cumulative gain (NDCG) of full lists."""
    return _ndcg(predictions, weights, None)


def ndcg_10(predictions: Predictions, weights: Array) -> Array:
    """NDCG of the top ten rows."""
    return _ndcg(predictions, weights, 10)


def mrr(predictions: Predictions, weights: Array) -> Array:
    """Mean reciprocal rank of the first relevant row; tied rows take the worst rank."""
    rows = _ordered(predictions)
    ends = np.append(rows.ties[1:], len(rows.rank)) - 1  # worst rank of each run of ties
    has_relevant = np.add.reduceat((rows.relevance > 0).astype(np.float64), rows.ties) > 0
    values = np.where(has_relevant, 1.0 / (rows.rank[ends] + 1.0), 0.0)
    best = np.zeros(len(rows.first))
    np.maximum.at(best, rows.query[rows.ties], values)
    return _mean(best, weights)


def map_score(predictions: Predictions, weights: Array) -> Array:
    """Mean average precision, over the queries with a relevant row."""
    rows = _ordered(predictions)
    relevant = np.add.reduceat((rows.relevance > 0).astype(np.float64), rows.ties)
    query = rows.query[rows.ties]
    # Rows of the query down to the end of each run of ties.
    depth = rows.rank[np.append(rows.ties[1:], len(rows.rank)) - 1] + 1.0
    running = np.cumsum(relevant)
    before = running - relevant
    start = before[np.flatnonzero(np.concatenate(([True], query[1:] != query[:-1])))]
    precision = (running - start[query]) / depth
    total = np.bincount(query, weights=relevant, minlength=len(rows.first))
    summed = np.bincount(query, weights=precision * relevant, minlength=len(rows.first))
    with np.errstate(invalid="ignore", divide="ignore"):
        return _mean(summed / total, weights)
