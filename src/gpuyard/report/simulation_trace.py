"""A simulation as a trace for Perfetto and chrome://tracing (Trace Event Format)."""

from __future__ import annotations

import heapq
import json

import numpy as np

from gpuyard.simulate.summary import SimulationResult
from gpuyard.units import BYTES, show

MOST_FLOWS = 200_000  # the viewer's patience; the longest are kept
Event = dict[str, object]


def simulation_trace_json(done: SimulationResult) -> str:
    """The trace: a process per server, a track per host, a slice per flow."""
    events = [*_phases(done), *_flows(done)]
    return json.dumps(
        {"traceEvents": events, "displayTimeUnit": "ns"}, ensure_ascii=False, separators=(",", ":")
    )


def _phases(done: SimulationResult) -> list[Event]:
    return [
        {
            "name": phase.label,
            "ph": "X",
            "ts": phase.begin_s * 1e6,
            "dur": (phase.end_s - phase.begin_s) * 1e6,
            "pid": -1,
            "tid": 0,
        }
        for phase in done.phases
    ]


def _flows(done: SimulationResult) -> list[Event]:
    """Flows by host; overlapping ones on separate tracks."""
    traffic, outcome, network = done.traffic, done.outcome, done.network
    if traffic is None or outcome is None:
        return []
    known = np.flatnonzero(~np.isnan(outcome.finish_s))
    if len(known) > MOST_FLOWS:
        known = known[np.argsort(-outcome.completion_s[known], kind="stable")[:MOST_FLOWS]]
    order = known[np.lexsort((outcome.began_s[known], traffic.source[known]))]
    events: list[Event] = []
    host, lanes, free = -1, 0, list[tuple[float, int]]()
    for flow in order.tolist():
        source, target = int(traffic.source[flow]), int(traffic.target[flow])
        if source != host:
            host, lanes, free = source, 0, []
            server = int(network.server[source])
            name = network.names[source].partition(" ")[0]
            events.append(
                {"name": "process_name", "ph": "M", "pid": server, "args": {"name": name}}
            )
        begin, end = float(outcome.began_s[flow]), float(outcome.finish_s[flow])
        if free and free[0][0] <= begin:
            lane = heapq.heappop(free)[1]
        else:
            lane, lanes = lanes, lanes + 1
            track = {"name": network.names[source]}
            events.append(
                {
                    "name": "thread_name",
                    "ph": "M",
                    "pid": int(network.server[source]),
                    "tid": source * 1000 + lane,
                    "args": track,
                }
            )
        heapq.heappush(free, (end, lane))
        size = int(traffic.size_bytes[flow])
        events.append(
            {
                "name": f"→ {network.names[target]}, {show(size, BYTES)}",
                "ph": "X",
                "ts": begin * 1e6,
                "dur": (end - begin) * 1e6,
                "pid": int(network.server[source]),
                "tid": source * 1000 + lane,
                "args": {"flow": flow, "bytes": size, "channel": int(traffic.channel[flow])},
            }
        )
    return events
