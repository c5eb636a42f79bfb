"""csg-htsim connection matrices (`.cm`).

    Nodes 4
    Connections 2
    Triggers 1
    0->1 id 1 start 0 size 4194304 send_done_trigger 1
    1->2 id 2 trigger 1 size 4194304
    trigger id 1 oneshot

Starts are in picoseconds. A flow that a trigger starts waits for the flows that fire it: `oneshot`
for its one, a `barrier` for all of its `count`. Priorities are read and left aside, as htsim_roce
leaves them.
"""

from __future__ import annotations

import io
import math
import re
from array import array
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from gpuyard.errors import InputError, Problem
from gpuyard.simulate.traffic import FlowSet

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_PS_PER_S = 1e12
_ENDS = re.compile(r"(\d+)->(\d+)$")
_NUMBER = re.compile(r"\d+(\.\d+)?([eE]\+?\d+)?")
_MAX_ID, _MAX_AMOUNT = 2.0**31, 2.0**62
_FLOW_KEYS = ("id", "start", "size", "trigger", "send_done_trigger", "recv_done_trigger", "prio")
_HEADERS = ("Nodes", "Connections", "Triggers", "Failures")
_TRIGGER_KINDS = ("oneshot", "multishot", "barrier")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConnectionMatrix:
    """A connection matrix: how many hosts there are, and what they send."""

    host_count: int
    traffic: FlowSet


def _columns(*names: str) -> dict[str, array[float]]:
    """An empty table; as numbers side by side, a flow takes a tenth of what objects would."""
    return {name: array("d") for name in names}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Page:
    """What was read so far; NaN stands for what a flow does not say."""

    name: str
    headers: dict[str, int] = field(default_factory=dict)
    flows: dict[str, array[float]] = field(
        default_factory=lambda: _columns("line", "source", "target", *_FLOW_KEYS)
    )
    triggers: dict[str, array[float]] = field(
        default_factory=lambda: _columns("line", "id", "kind", "count")
    )
    problems: list[Problem] = field(default_factory=list)

    def wrong(self, line: float, what: str, fix: str) -> None:
        self.problems.append(Problem(where=f"{self.name}:{line:.0f}", what=what, fix=fix))


def read_matrix(text: str, name: str = "matrix.cm") -> ConnectionMatrix:
    """The matrix of a file's text; InputError with every line that is wrong."""
    page = _Page(name=name)
    for number, line in enumerate(io.StringIO(text), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if words[0] in _HEADERS:
            _read_header(page, number, words)
        elif words[0] == "trigger":
            _read_trigger(page, number, words[1:])
        elif words[0] == "failure":
            page.wrong(
                number,
                "a failure, which htsim_roce does not read either",
                "give it to the simulator as a fault",
            )
        else:
            _read_flow(page, number, words)
    flows = {name: np.array(column) for name, column in page.flows.items()}
    triggers = {name: np.array(column) for name, column in page.triggers.items()}
    _check_counts(page, flows, triggers)
    after_index, after = _waits(page, flows, triggers)
    if page.problems:
        raise InputError(page.problems)
    numbers = np.where(np.isnan(flows["id"]), np.arange(1, len(after_index)), flows["id"])
    traffic = FlowSet(
        source=flows["source"].astype(np.int32),
        target=flows["target"].astype(np.int32),
        size_bytes=flows["size"].astype(np.int64),
        start_s=np.nan_to_num(flows["start"]) / _PS_PER_S,
        after_index=after_index,
        after=after,
        channel=numbers.astype(np.int32),
    )
    traffic.check(page.headers["Nodes"])
    return ConnectionMatrix(host_count=page.headers["Nodes"], traffic=traffic)


def write_matrix(traffic: FlowSet, host_count: int) -> str:
    """Return the text of a matrix: barriers for several dependencies, one-shot triggers for one."""
    waits = np.diff(traffic.after_index)
    delayed = np.flatnonzero((waits > 0) & (traffic.start_s > 0))
    if len(delayed):
        raise InputError.one(
            f"traffic flow {delayed[0]}",
            "a delay after what it waits for, which a matrix cannot say",
            "start it at 0",
        )
    fires: dict[int, int] = {}
    triggers: list[str] = []
    lines: list[str] = []
    begun: dict[int, int] = {}
    for flow in np.flatnonzero(waits).tolist():
        number = len(triggers) + 1
        for before in traffic.after[
            traffic.after_index[flow] : traffic.after_index[flow + 1]
        ].tolist():
            if before in fires:
                raise InputError.one(
                    f"traffic flow {before}",
                    "several flows wait for it, in different company",
                    "a flow of a matrix can fire one trigger",
                )
            fires[before] = number
        begun[flow] = number
        kind = "oneshot" if waits[flow] == 1 else f"count {waits[flow]} barrier"
        triggers.append(f"trigger id {number} {kind}")
    for flow in range(traffic.flow_count):
        start = (
            f"trigger {begun[flow]}"
            if flow in begun
            else f"start {round(traffic.start_s[flow] * _PS_PER_S)}"
        )
        done = f" send_done_trigger {fires[flow]}" if flow in fires else ""
        ends = f"{traffic.source[flow]}->{traffic.target[flow]}"
        lines.append(f"{ends} id {flow + 1} {start} size {traffic.size_bytes[flow]}{done}")
    head = [f"Nodes {host_count}", f"Connections {traffic.flow_count}"]
    head += [f"Triggers {len(triggers)}"] if triggers else []
    return "\n".join([*head, *lines, *triggers]) + "\n"


def _read_header(page: _Page, number: int, words: list[str]) -> None:
    """Nodes, Connections, Triggers or Failures, with a count."""
    if len(words) != 2 or not words[1].isdigit():
        page.wrong(number, f"{words[0]} without a count", f'write "{words[0]} 128"')
    elif words[0] in page.headers:
        page.wrong(number, f"{words[0]} for the second time", "keep one")
    else:
        page.headers[words[0]] = int(words[1])


def _read_flow(page: _Page, number: int, words: list[str]) -> None:
    """A line such as `0->34 id 1 start 0 size 16777216`."""
    ends = _ENDS.match(words[0])
    if not ends:
        page.wrong(
            number,
            f'"{words[0]}" begins no line of a matrix',
            'write "0->1 id 1 start 0 size 4096"',
        )
        return
    keys: dict[str, float] = {}
    for key, value in zip(words[1::2], [*words[2::2], ""], strict=False):
        if key not in _FLOW_KEYS:
            page.wrong(number, f'"{key}" is no key of a connection', f"use {', '.join(_FLOW_KEYS)}")
        elif not _NUMBER.fullmatch(value):
            page.wrong(
                number, f'{key} is "{value}", which is no number', "write a number from 0 up"
            )
        elif float(value) >= (_MAX_AMOUNT if key in ("start", "size") else _MAX_ID):
            page.wrong(number, f"{key} is too large", "write a smaller number")
        else:
            keys[key] = float(value)
    if not keys.get("size"):
        page.wrong(number, "nothing to send", 'add "size" with a number of bytes')
        return
    if ("start" in keys) == ("trigger" in keys):
        page.wrong(number, "start and trigger, or neither", 'give either "start 0" or "trigger 1"')
    if max(int(ends[1]), int(ends[2])) >= _MAX_ID:
        page.wrong(number, "a host's number is too large", "write a smaller number")
        return
    keys |= {"line": number, "source": int(ends[1]), "target": int(ends[2])}
    for name, column in page.flows.items():
        column.append(keys.get(name, math.nan))


def _read_trigger(page: _Page, number: int, words: list[str]) -> None:
    """A line such as `trigger id 1 oneshot` or `trigger id 2 count 3 barrier`."""
    text = " ".join(words)
    trigger = re.search(r"\bid (\d+)", text)
    kind = next((place for place, word in enumerate(_TRIGGER_KINDS) if word in words), None)
    count = re.search(r"\bcount (\d+)", text)
    if not trigger or kind is None or (_TRIGGER_KINDS[kind] == "barrier" and not count):
        page.wrong(
            number,
            "an incomplete trigger",
            'write "trigger id 1 oneshot" or "trigger id 1 count 2 barrier"',
        )
        return
    values = (number, int(trigger[1]), kind, int(count[1]) if count else 1)
    for column, value in zip(page.triggers.values(), values, strict=True):
        column.append(value)


def _check_counts(page: _Page, flows: dict[str, Floats], triggers: dict[str, Floats]) -> None:
    """What the headers promise is there, what must be there is, and every id is given once."""
    if "Nodes" not in page.headers:
        page.wrong(1, "no Nodes", 'begin with "Nodes 128"')
    counts = {"Connections": len(flows["line"]), "Triggers": len(triggers["line"])}
    for name, count in counts.items():
        declared = page.headers.get(name, 0)
        if declared != count and not page.problems:
            page.wrong(
                1, f"{name} says {declared}, the file has {count}", f'write "{name} {count}"'
            )
    hosts = page.headers.get("Nodes", 0)
    far = np.maximum(flows["source"], flows["target"])
    for place in np.flatnonzero(far >= hosts) if hosts else ():
        what = f"host {far[place]:.0f} is outside the network of {hosts}"
        page.wrong(flows["line"][place], what, f"use hosts 0 to {hosts - 1}")
    for rows, what, fix in ((flows, "id", "flow"), (triggers, "trigger", "trigger")):
        order = np.argsort(rows["id"], kind="stable")
        for place in np.flatnonzero(np.diff(rows["id"][order]) == 0):  # NaN is equal to none
            first, second = order[place], order[place + 1]
            told_twice = (
                f"{what} {rows['id'][second]:.0f} is that of line {rows['line'][first]:.0f} too"
            )
            page.wrong(rows["line"][second], told_twice, f"give every {fix} its own id")


def _waits(
    page: _Page, flows: dict[str, Floats], triggers: dict[str, Floats]
) -> tuple[Ints, npt.NDArray[np.int32]]:
    """The flows that every flow waits for, in CSR form: those that fire its trigger."""
    fired = np.nan_to_num(
        np.column_stack([flows["send_done_trigger"], flows["recv_done_trigger"]])
    ).reshape(-1)
    order = np.argsort(fired, kind="stable")
    order = order[fired[order] > 0]
    numbers, places = fired[order], (order // 2).astype(np.int32)
    count = np.searchsorted(numbers, triggers["id"], "right") - np.searchsorted(
        numbers, triggers["id"]
    )
    several = triggers["kind"] == _TRIGGER_KINDS.index("multishot")
    for place in np.flatnonzero(
        np.where(several, count > 1, (count != 0) & (count != triggers["count"]))
    ):
        if several[place]:
            what, fix = "a multishot trigger that several flows fire", "use one trigger for each"
        else:
            kind = _TRIGGER_KINDS[int(triggers["kind"][place])]
            what = f"{kind} for {triggers['count'][place]:.0f}, fired by {count[place]} flows"
            fix = "let as many flows fire it as it counts"
        page.wrong(triggers["line"][place], what, fix)
    begun = np.nan_to_num(flows["trigger"])
    first, last = np.searchsorted(numbers, begun), np.searchsorted(numbers, begun, "right")
    known = np.sort(triggers["id"])
    there = np.searchsorted(known, begun) < np.searchsorted(known, begun, "right")
    for place in np.flatnonzero((begun > 0) & ((first == last) | ~there)):
        what, fix = f"nothing fires trigger {begun[place]:.0f}", "give a flow its send_done_trigger"
        if not there[place]:
            what, fix = (
                f"trigger {begun[place]:.0f} is not there",
                f'add "trigger id {begun[place]:.0f} oneshot"',
            )
        page.wrong(flows["line"][place], what, fix)
    counts = last - first
    index = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=index[1:])
    return index, places[np.repeat(first - index[:-1], counts) + np.arange(index[-1])]
