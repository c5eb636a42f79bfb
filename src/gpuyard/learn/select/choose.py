"""Choose the best trial within the limits, with a reason for every rejected one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

from gpuyard.errors import Infeasible
from gpuyard.learn.evaluate.compare import Comparison, corrected_t
from gpuyard.learn.evaluate.metric_table import MetricDefinition
from gpuyard.learn.select.selection import Footprint, Rejection, Trial
from gpuyard.learn.select.spec import SelectLimits, SelectSpec
from gpuyard.units import BYTES, DURATION, MONEY, show

MeasureFootprint = Callable[[Trial], Footprint]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SelectionDecision:
    """The winner, the ranking, and why the other trials were rejected."""

    winner: Trial
    ranking: tuple[Trial, ...]
    rejected: tuple[Rejection, ...]
    against_second: Comparison | None


def ranked(trials: Sequence[Trial], metric: MetricDefinition) -> list[Trial]:
    """Return the complete trials, best first; ties go to the earlier trial."""
    sign = -1.0 if metric.higher else 1.0
    complete = [
        (sign * trial.score.value, trial)
        for trial in trials
        if trial.state == "complete" and trial.score
    ]
    return [trial for _, trial in sorted(complete, key=lambda pair: pair[0])]


def violated_limits(limits: SelectLimits, footprint: Footprint) -> Iterator[tuple[str, str]]:
    """Yield each violated limit and a message with the values."""
    for name, limit, value, dimension in (
        ("latency", limits.latency_s, footprint.latency_p99_s, DURATION),
        ("memory", limits.memory_bytes, footprint.memory_bytes, BYTES),
        ("size", limits.size_bytes, footprint.size_bytes, BYTES),
        ("cost", limits.cost_usd, footprint.cost_usd, MONEY),
    ):
        if limit is not None and value is not None and value > limit:
            shown = show(value, dimension)
            yield name, f"{name} {shown} is above the limit of {show(limit, dimension)}"


def choose(
    trials: Sequence[Trial],
    spec: SelectSpec,
    metric: MetricDefinition,
    test_over_train: float,
    measure_footprint: MeasureFootprint,
) -> SelectionDecision | Infeasible:
    """Return the best trial within the limits; the best few are measured until one complies."""
    ranking = ranked(trials, metric)
    if not ranking:
        reasons = sorted({trial.reason for trial in trials if trial.reason})
        reason = reasons[0] if reasons else "unknown reason"
        return Infeasible(
            binding="candidates",
            what=f"none of {len(trials)} trials completed: {reason}",
            fix="fix the candidates, then search again",
        )
    limited = spec.limits != SelectLimits()
    winner = None if limited else ranking[0]
    over_limit: dict[int, str] = {}
    violated: list[str] = []
    for rank, trial in enumerate(ranking[: spec.finalists] if limited else ()):
        footprint = measure_footprint(trial)
        ranking[rank] = trial = dataclasses.replace(trial, footprint=footprint)
        violations = list(violated_limits(spec.limits, footprint))
        if not violations:
            winner = trial
            break
        violated += [name for name, _ in violations]
        over_limit[trial.number] = "; ".join(message for _, message in violations)
    if winner is None:
        binding = max(dict.fromkeys(violated), key=violated.count)
        example = next(iter(over_limit.values()))
        return Infeasible(
            binding=f"limits.{binding}",
            what=f"none of the best {len(over_limit)} trials is within it: {example}",
            fix=f"raise limits.{binding}, raise finalists, or add smaller candidates",
        )
    return SelectionDecision(
        winner=winner,
        ranking=tuple(ranking),
        rejected=tuple(_rejections(trials, ranking, winner, over_limit, metric)),
        against_second=_against_second(ranking, winner, metric, test_over_train),
    )


def _rejections(
    trials: Sequence[Trial],
    ranking: Sequence[Trial],
    winner: Trial,
    over_limit: dict[int, str],
    metric: MetricDefinition,
) -> Iterator[Rejection]:
    assert winner.score
    for trial in ranking:
        if trial.number == winner.number:
            continue
        assert trial.score
        reason = f"{metric.name} {trial.score.value:.6g}, the winner has {winner.score.value:.6g}"
        if trial.score.value == winner.score.value:
            reason = f"{metric.name} {trial.score.value:.6g}, equal to the winner, an earlier trial"
        yield Rejection(
            number=trial.number, label=trial.label, reason=over_limit.get(trial.number, reason)
        )
    for trial in trials:
        if trial.state != "complete":
            yield Rejection(number=trial.number, label=trial.label, reason=trial.reason)


def _against_second(
    ranking: Sequence[Trial], winner: Trial, metric: MetricDefinition, test_over_train: float
) -> Comparison | None:
    # Whether the winner's lead over the runner-up is significant; needs at least two folds.
    second = next((trial for trial in ranking if trial.number != winner.number), None)
    if second is None or not second.score or not winner.score or len(winner.score.parts) < 2:
        return None
    return corrected_t(metric, second.score.parts, winner.score.parts, test_over_train)
