"""From trials to a choice: the best that keeps to the limits; for every other one, why not."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

from gpuyard.errors import Infeasible
from gpuyard.learn.evaluate.compare import Comparison, corrected_t
from gpuyard.learn.evaluate.measures import Measure
from gpuyard.learn.select.selection import Footprint, Rejection, Trial
from gpuyard.learn.select.spec import Limits, SelectSpec
from gpuyard.units import BYTES, DURATION, MONEY, show

__all__ = ["Choice", "broken", "choose", "ranked"]

Measuring = Callable[[Trial], Footprint]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The winner, what was measured, and why the others were not it."""

    winner: Trial
    ranking: tuple[Trial, ...]
    rejected: tuple[Rejection, ...]
    against_second: Comparison | None


def ranked(trials: Sequence[Trial], measure: Measure) -> list[Trial]:
    """Complete trials, best first; of equals the one that was tried first."""
    complete = [(trial, trial.score.value) for trial in trials if trial.state == "complete" and trial.score]
    return [trial for trial, _ in sorted(complete, key=lambda pair: -pair[1] if measure.higher else pair[1])]


def broken(limits: Limits, found: Footprint) -> Iterator[tuple[str, str]]:
    """Each limit that is broken, and by how much."""
    for name, limit, value, dimension in (
        ("latency", limits.latency_s, found.latency_p99_s, DURATION),
        ("memory", limits.memory_bytes, found.memory_bytes, BYTES),
        ("size", limits.size_bytes, found.size_bytes, BYTES),
        ("cost", limits.cost_usd, found.cost_usd, MONEY),
    ):
        if limit is not None and value is not None and value > limit:
            yield name, f"{name} {show(value, dimension)} is above the limit of {show(limit, dimension)}"


def choose(
    trials: Sequence[Trial], spec: SelectSpec, measure: Measure, test_over_train: float, measuring: Measuring
) -> Choice | Infeasible:
    """The best trial within the limits; the best few are measured, in order, until one is."""
    ranking = ranked(trials, measure)
    if not ranking:
        reasons = sorted({trial.reason for trial in trials if trial.reason})
        what = f"none of {len(trials)} trials was completed: {reasons[0] if reasons else 'no reason is known'}"
        return Infeasible(binding="candidates", what=what, fix="mend the candidates, then search again")
    limited = spec.limits != Limits()
    winner, over, binding = None if limited else ranking[0], {}, []
    for place, trial in enumerate(ranking[: spec.finalists] if limited else ()):
        found = measuring(trial)
        ranking[place] = trial = dataclasses.replace(trial, footprint=found)
        wrong = list(broken(spec.limits, found))
        if not wrong:
            winner = trial
            break
        binding += [name for name, _ in wrong]
        over[trial.number] = "; ".join(words for _, words in wrong)
    if winner is None:
        most = max(dict.fromkeys(binding), key=binding.count)
        what = f"none of the best {len(over)} trials keeps to it: {next(iter(over.values()))}"
        fix = f"raise limits.{most}, raise finalists, or add smaller candidates"
        return Infeasible(binding=f"limits.{most}", what=what, fix=fix)
    return Choice(
        winner=winner,
        ranking=tuple(ranking),
        rejected=tuple(_rejections(trials, ranking, winner, over, measure)),
        against_second=_against_second(ranking, winner, measure, test_over_train),
    )


def _rejections(
    trials: Sequence[Trial], ranking: Sequence[Trial], winner: Trial, over: dict[int, str], measure: Measure
) -> Iterator[Rejection]:
    """Why each of the others was not chosen: limits, score, stopped, failed."""
    assert winner.score
    for trial in ranking:
        if trial.number == winner.number:
            continue
        assert trial.score
        words = f"{measure.name} {trial.score.value:.6g}, the winner has {winner.score.value:.6g}"
        if trial.score.value == winner.score.value:
            words = f"{measure.name} {trial.score.value:.6g} as the winner, which was tried first"
        yield Rejection(number=trial.number, label=trial.label, reason=over.get(trial.number, words))
    for trial in trials:
        if trial.state != "complete":
            yield Rejection(number=trial.number, label=trial.label, reason=trial.reason)


def _against_second(
    ranking: Sequence[Trial], winner: Trial, measure: Measure, test_over_train: float
) -> Comparison | None:
    """Is the winner's lead over the next one more than chance? None with fewer than two folds."""
    second = next((trial for trial in ranking if trial.number != winner.number), None)
    if second is None or not second.score or not winner.score or len(winner.score.parts) < 2:
        return None
    return corrected_t(measure, second.score.parts, winner.score.parts, test_over_train)
