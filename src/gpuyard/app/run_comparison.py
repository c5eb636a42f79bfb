"""Compare runs: the settings in which they differ, their metrics, tags and notes."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuyard.app.runs import find_run, list_runs, open_ledger
from gpuyard.document.read import read_yaml
from gpuyard.document.tree import Mapping, Node, Scalar
from gpuyard.errors import InputError, choices_text, closest_match
from gpuyard.home import Home
from gpuyard.jobs.metrics import series
from gpuyard.jobs.records import Run
from gpuyard.learn.evaluate.scorecard import Scorecard

Value = str | float
COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
    "=": operator.eq,
}
_CONDITION = re.compile(r"\s*([^<>=!]+?)\s*(>=|<=|!=|>|<|=)\s*(.+?)\s*")
# Last values of a training that describe its progress, not its outcome.
_PROGRESS = frozenset({"epoch", "steps", "learning_rate", "gradient_norm"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunValues:
    """One run with its settings and metrics by name."""

    run: Run
    settings: tuple[tuple[str, str], ...]
    metrics: tuple[tuple[str, float], ...]

    def value(self, name: str) -> Value | None:
        """Return a metric, tag or setting; None if the run has none of that name."""
        fields = {"id": self.run.id, "name": self.run.name, "state": self.run.state}
        named: dict[str, Value] = {**dict(self.settings), **fields, **dict(self.run.tags)}
        return (named | dict(self.metrics)).get(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRuns:
    """Runs side by side; `settings` and `metrics` are the names to show, in order."""

    runs: tuple[RunValues, ...]
    settings: tuple[str, ...]
    metrics: tuple[str, ...]


def compare_runs(
    home: Home,
    run_ids: Sequence[str] = (),
    *,
    conditions: Sequence[str] = (),
    sort: str = "",
    all_settings: bool = False,
) -> ComparedRuns:
    """Compare some runs, or all, that meet every condition (`accuracy>0.9`, `owner=ann`).

    `sort` names a metric, tag or setting, `-NAME` for the largest first; runs without it come last.
    """
    runs = [find_run(home, run_id) for run_id in run_ids] if run_ids else list_runs(home)
    rows = [values_of(home, run) for run in runs]
    names = sorted({name for row in rows for name in _names(row)})
    tests = [_condition(text, names) for text in conditions]
    rows = [row for row in rows if all(test(row) for test in tests)]
    if sort:
        key = sort.removeprefix("-")
        _check_name(key, names, "--sort")
        known = [row for row in rows if row.value(key) is not None]
        known.sort(key=lambda row: _order(row.value(key)), reverse=sort.startswith("-"))
        rows = known + [row for row in rows if row.value(key) is None]
    settings = list(dict.fromkeys(name for row in rows for name, _ in row.settings))
    if not all_settings:
        settings = [name for name in settings if len({row.value(name) for row in rows}) > 1]
    return ComparedRuns(
        runs=tuple(rows),
        settings=tuple(settings),
        metrics=tuple(dict.fromkeys(name for row in rows for name, _ in row.metrics)),
    )


def tag_run(home: Home, run_id: str, tags: Sequence[str]) -> Run:
    """Add tags, `NAME` or `NAME=VALUE`, and remove those written `-NAME`."""
    ledger = open_ledger(home)
    run = ledger.get(run_id)
    changed = dict(run.tags)
    for text in tags:
        name, _, value = text.removeprefix("-").partition("=")
        if not name:
            raise InputError.one("tag", f'"{text}" has no name', "write NAME, NAME=VALUE or -NAME")
        if not text.startswith("-"):
            changed[name] = value
        elif changed.pop(name, None) is None:
            fix = f"use {choices_text(list(changed))}" if changed else "it has no tags"
            raise InputError.one(f"tag {name}", f"run {run.id} does not have it", fix)
    return ledger.describe(run.id, tags=tuple(changed.items()))


def note_run(home: Home, run_id: str, note: str) -> Run:
    """Replace the note of a run."""
    ledger = open_ledger(home)
    return ledger.describe(ledger.get(run_id).id, note=note)


def values_of(home: Home, run: Run) -> RunValues:
    """Return the settings of a run's pipeline and its metrics: last values, and scores."""
    metrics: dict[str, float] = {}
    for row in series(open_ledger(home), run.id):
        last = row.points[-1].value
        if last is not None and row.name not in _PROGRESS:
            metrics[f"{row.stage}.{row.name}"] = last
    for name, card in _cards(run):
        metrics |= {f"{name}.{score.metric}": score.value for score in card.scores}
    return RunValues(run=run, settings=_settings(run), metrics=tuple(metrics.items()))


def _cards(run: Run) -> list[tuple[str, Scorecard]]:
    # Imported here: a list of runs needs no packages of training.
    from gpuyard.app.stage_worker import EvaluateResult, SelectResult, load_result, open_run

    cards: list[tuple[str, Scorecard | None]] = []
    done = {stage.name for stage in run.stages if stage.state == "done"}
    if not (Path(run.folder) / "run.json").exists():
        return []
    try:
        folder = open_run(Path(run.folder))
        if "evaluate" in done:
            evaluated = load_result(folder, "evaluate", EvaluateResult)
            cards += [("evaluate", evaluated.card), ("test", evaluated.test)]
        if "select" in done:
            cards.append(("test", load_result(folder, "select", SelectResult).test))
    except InputError:  # another version wrote it: the other runs are compared all the same
        return []
    return [(name, card) for name, card in cards if card is not None]


def _settings(run: Run) -> tuple[tuple[str, str], ...]:
    try:
        root = read_yaml(run.workload, run.id).root
    except InputError:  # the file of a run that failed to be read
        return ()
    pairs: list[tuple[str, str]] = []

    def walk(prefix: str, node: Node) -> None:
        if isinstance(node, Mapping):
            for key, item in node.items:
                walk(f"{prefix}.{key}" if prefix else key, item)
        elif isinstance(node, Scalar):
            pairs.append((prefix, node.text))
        else:
            for number, item in enumerate(node.items):
                walk(f"{prefix}[{number}]", item)

    walk("", root)
    return tuple((name.removeprefix("pipeline."), value) for name, value in pairs)


def _names(row: RunValues) -> list[str]:
    pairs = (*row.settings, *row.metrics, *row.run.tags)
    return ["id", "name", "state", *(name for name, _ in pairs)]


def _check_name(name: str, names: Sequence[str], where: str) -> None:
    if name not in names:
        match = closest_match(name, names)
        fix = f'did you mean "{match}"?' if match else f"use {choices_text(names, 20)}"
        if not names:
            fix = "start a run first: `gpuyard run FILE`"
        raise InputError.one(where, f'no run has "{name}"', fix)


def _condition(text: str, names: Sequence[str]) -> Callable[[RunValues], bool]:
    match = _CONDITION.fullmatch(text)
    if match is None:
        _check_name(text, names, "--filter")  # a tag alone
        return lambda row: row.value(text) is not None
    name, sign, wanted = match.groups()
    _check_name(name, names, "--filter")
    number = _number(wanted)

    def holds(row: RunValues) -> bool:
        value = row.value(name)
        given = None if value is None else _number(value)
        if number is not None and given is not None:
            return COMPARISONS[sign](given, number)
        if value is None or sign not in ("=", "!="):
            return False
        return (str(value) == wanted) == (sign == "=")

    return holds


def _number(value: Value) -> float | None:
    try:
        return float(value)
    except ValueError:
        return None


def _order(value: Value | None) -> tuple[bool, float, str]:
    number = None if value is None else _number(value)
    return number is None, number or 0.0, str(value)
