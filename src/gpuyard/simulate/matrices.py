"""csg-htsim's connection matrices (`.cm`), so that the same file runs in both simulators.

    Nodes 4
    Connections 2
    Triggers 1
    0->1 id 1 start 0 size 4194304 send_done_trigger 1
    1->2 id 2 trigger 1 size 4194304
    trigger id 1 oneshot

Starts are in picoseconds. A flow that a trigger starts waits for the flows that fire it: `oneshot` for its one, a
`barrier` for all of its `count`. Priorities are read and left aside, as htsim_roce leaves them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from gpuyard.errors import InputError, Problem
from gpuyard.simulate.traffic import Traffic, traffic_of

__all__ = ["Matrix", "read_matrix", "write_matrix"]

_PS_PER_S = 1e12
_ENDS = re.compile(r"(\d+)->(\d+)$")
_FLOW_KEYS = ("id", "start", "size", "trigger", "send_done_trigger", "recv_done_trigger", "prio")
_HEADERS = ("Nodes", "Connections", "Triggers", "Failures")
_TRIGGER_KINDS = ("oneshot", "multishot", "barrier")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Matrix:
    """A connection matrix: how many hosts there are, and what they send."""

    host_count: int
    traffic: Traffic


@dataclass(frozen=True, slots=True, kw_only=True)
class _Flow:
    """A flow as it is written."""

    line: int
    source: int
    target: int
    keys: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Page:
    """What was read so far."""

    name: str
    headers: dict[str, int] = field(default_factory=dict)
    flows: list[_Flow] = field(default_factory=list)
    triggers: dict[int, tuple[int, str, int]] = field(default_factory=dict)  # id -> line, kind, count
    problems: list[Problem] = field(default_factory=list)

    def wrong(self, line: int, what: str, fix: str) -> None:
        """Notes a problem."""
        self.problems.append(Problem(where=f"{self.name}:{line}", what=what, fix=fix))


def read_matrix(text: str, name: str = "matrix.cm") -> Matrix:
    """The matrix of a file's text; InputError with every line that is wrong."""
    page = _Page(name=name)
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if words[0] in _HEADERS:
            _read_header(page, number, words)
        elif words[0] == "trigger":
            _read_trigger(page, number, words[1:])
        elif words[0] == "failure":
            page.wrong(
                number, "a failure, which htsim_roce does not read either", "give it to the simulator as a fault"
            )
        else:
            _read_flow(page, number, words)
    _check_counts(page)
    after = _waits(page)
    if page.problems:
        raise InputError(page.problems)
    flows = page.flows
    traffic = traffic_of(
        [flow.source for flow in flows],
        [flow.target for flow in flows],
        [int(flow.keys["size"]) for flow in flows],
        start_s=[flow.keys.get("start", 0.0) / _PS_PER_S for flow in flows],
        after=after,
        channel=[int(flow.keys.get("id", place + 1)) for place, flow in enumerate(flows)],
    )
    traffic.check(page.headers["Nodes"])
    return Matrix(host_count=page.headers["Nodes"], traffic=traffic)


def write_matrix(traffic: Traffic, host_count: int) -> str:
    """The text of a matrix; a flow that waits for several has a barrier, for one a one-shot trigger."""
    waits = np.diff(traffic.after_index)
    delayed = np.flatnonzero((waits > 0) & (traffic.start_s > 0))
    if len(delayed):
        raise InputError.one(
            f"traffic flow {delayed[0]}", "a delay after what it waits for, which a matrix cannot say", "start it at 0"
        )
    fires: dict[int, int] = {}
    triggers: list[str] = []
    lines: list[str] = []
    begun: dict[int, int] = {}
    for flow in np.flatnonzero(waits).tolist():
        number = len(triggers) + 1
        for before in traffic.after[traffic.after_index[flow] : traffic.after_index[flow + 1]].tolist():
            if before in fires:
                raise InputError.one(
                    f"traffic flow {before}", "several flows wait for it, in different company",
                    "a flow of a matrix can fire one trigger",
                )  # fmt: skip
            fires[before] = number
        begun[flow] = number
        kind = "oneshot" if waits[flow] == 1 else f"count {waits[flow]} barrier"
        triggers.append(f"trigger id {number} {kind}")
    for flow in range(traffic.flow_count):
        start = f"trigger {begun[flow]}" if flow in begun else f"start {round(traffic.start_s[flow] * _PS_PER_S)}"
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
        page.wrong(number, f'"{words[0]}" begins no line of a matrix', 'write "0->1 id 1 start 0 size 4096"')
        return
    keys: dict[str, float] = {}
    for key, value in zip(words[1::2], [*words[2::2], ""], strict=False):
        if key not in _FLOW_KEYS:
            page.wrong(number, f'"{key}" is no key of a connection', f"use {', '.join(_FLOW_KEYS)}")
        elif not re.fullmatch(r"\d+(\.\d+)?([eE]\+?\d+)?", value):
            page.wrong(number, f'{key} is "{value}", which is no number', "write a number from 0 up")
        else:
            keys[key] = float(value)
    if not keys.get("size"):
        page.wrong(number, "nothing to send", 'add "size" with a number of bytes')
        return
    if ("start" in keys) == ("trigger" in keys):
        page.wrong(number, "start and trigger, or neither", 'give either "start 0" or "trigger 1"')
    page.flows.append(_Flow(line=number, source=int(ends[1]), target=int(ends[2]), keys=keys))


def _read_trigger(page: _Page, number: int, words: list[str]) -> None:
    """A line such as `trigger id 1 oneshot` or `trigger id 2 count 3 barrier`."""
    text = " ".join(words)
    found = re.search(r"\bid (\d+)", text)
    kind = next((word for word in words if word in _TRIGGER_KINDS), None)
    count = re.search(r"\bcount (\d+)", text)
    if not found or not kind or (kind == "barrier" and not count):
        page.wrong(number, "an incomplete trigger", 'write "trigger id 1 oneshot" or "trigger id 1 count 2 barrier"')
    elif int(found[1]) in page.triggers:
        page.wrong(number, f"trigger {found[1]} for the second time", "give every trigger its own id")
    else:
        page.triggers[int(found[1])] = (number, kind, int(count[1]) if count else 1)


def _check_counts(page: _Page) -> None:
    """What the headers promise is there, and what must be there is."""
    if "Nodes" not in page.headers:
        page.wrong(1, "no Nodes", 'begin with "Nodes 128"')
    counts = {"Connections": len(page.flows), "Triggers": len(page.triggers)}
    for name, found in counts.items():
        told = page.headers.get(name, 0)
        if told != found and not page.problems:
            page.wrong(1, f"{name} says {told}, the file has {found}", f'write "{name} {found}"')
    seen: dict[float, int] = {}
    hosts = page.headers.get("Nodes", 0)
    for flow in page.flows:
        if hosts and max(flow.source, flow.target) >= hosts:
            far = max(flow.source, flow.target)
            page.wrong(flow.line, f"host {far} is outside the network of {hosts}", f"use hosts 0 to {hosts - 1}")
        number = flow.keys.get("id")
        if number is not None and number in seen:
            page.wrong(flow.line, f"id {number:.0f} is that of line {seen[number]} too", "give every flow its own id")
        elif number is not None:
            seen[number] = flow.line


def _waits(page: _Page) -> tuple[tuple[int, ...], ...]:
    """The flows that every flow waits for."""
    fired: dict[int, list[int]] = defaultdict(list)
    for place, flow in enumerate(page.flows):
        for key in ("send_done_trigger", "recv_done_trigger"):
            if number := int(flow.keys.get(key, 0)):
                fired[number].append(place)
    for number, (line, kind, count) in page.triggers.items():
        found = len(fired[number])
        if kind == "multishot" and found > 1:
            page.wrong(line, "a multishot trigger that several flows fire", "use one trigger for each")
        elif kind != "multishot" and found not in (0, count):
            page.wrong(line, f"{kind} for {count}, fired by {found} flows", "let as many flows fire it as it counts")
    waits = []
    for flow in page.flows:
        number = int(flow.keys.get("trigger", 0))
        if number and number not in page.triggers:
            page.wrong(flow.line, f"trigger {number} is not there", f'add "trigger id {number} oneshot"')
        elif number and not fired[number]:
            page.wrong(flow.line, f"nothing fires trigger {number}", "give a flow its send_done_trigger")
        waits.append(tuple(fired[number]) if number else ())
    return tuple(waits)
