"""A step's timeline as a Chrome trace."""

from __future__ import annotations

import json

from gpuyard.simulate.step.timeline import StepTimeline

LANES = ("compute", "inside", "network")


def trace_json(timeline: StepTimeline) -> str:
    """The Trace Event Format: one process a stage, one thread a lane, times in microseconds."""
    stages = sorted({event.stage for event in timeline.events})
    rows: list[dict[str, object]] = []
    for stage in stages:
        rows.append(
            {"ph": "M", "name": "process_name", "pid": stage, "args": {"name": f"stage {stage}"}}
        )
        rows += [
            {"ph": "M", "name": "thread_name", "pid": stage, "tid": lane, "args": {"name": name}}
            for lane, name in enumerate(LANES)
        ]
    for event in timeline.events:
        rows.append(
            {
                "ph": "X",
                "name": event.kind if event.micro < 0 else f"{event.kind} {event.micro}",
                "cat": event.kind,
                "pid": event.stage,
                "tid": LANES.index(event.lane),
                "ts": round(event.begin_s * 1e6, 3),
                "dur": round((event.end_s - event.begin_s) * 1e6, 3),
                "args": {"micro_batch": event.micro, "chunk": event.chunk},
            }
        )
    return json.dumps({"traceEvents": rows, "displayTimeUnit": "ms"}, separators=(",", ":")) + "\n"
