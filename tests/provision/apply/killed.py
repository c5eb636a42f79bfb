"""Runs apply and destroy in processes that kill themselves: one line of JSON in, one out.

The parent forks a process a case, so that a kill -9 is a real one and costs no start of the interpreter.
A process counts the points it passes: before, in the middle of and after each line of the journal; before each
request, after it is sent and before its answer, and after its answer.
"""

from __future__ import annotations

import http.client
import json
import math
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuyard.app import apply as verbs
from gpuyard.app.apply import ExternalServices, apply_folder, destroy_folder, prepare
from gpuyard.catalog.load import load_catalog
from gpuyard.errors import GpuyardError
from gpuyard.provision.apply.journal import Journal
from gpuyard.provision.apply.transport import LocalTransport

CLIENT_S = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class QuickClock:
    """Real time, with almost no waiting."""

    def now_s(self) -> float:
        return time.time()

    def sleep(self, span_s: float) -> None:
        time.sleep(min(span_s, 0.001))


class Points:
    """Counts the kill points of a process, and kills it at one."""

    def __init__(self, kill_at: int) -> None:
        self.count, self.kill_at, self.names = 0, kill_at, []

    def here(self, name: str) -> None:
        if self.count == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.count += 1
        self.names.append(name)


def watch(points: Points) -> None:
    """Add kill points to the journal and the connection."""
    append, request, response = (
        Journal.append,
        http.client.HTTPConnection.request,
        http.client.HTTPConnection.getresponse,
    )

    def counted_append(self: Journal, entry: Any) -> None:
        points.here(f"before {entry.event}")
        if points.count == points.kill_at:
            self._file.write(b'{"event":"inte')
            self._file.flush()
        points.here(f"within {entry.event}")
        append(self, entry)
        points.here(f"after {entry.event}")

    def counted_request(self: Any, method: str, *rest: Any, **options: Any) -> None:
        points.here(f"before {method}")
        request(self, method, *rest, **options)
        points.here(f"sent {method}")

    def counted_response(self: Any) -> Any:
        answer = response(self)
        points.here("answered")
        return answer

    Journal.append = counted_append  # type: ignore[method-assign]
    http.client.HTTPConnection.request = counted_request  # type: ignore[assignment,method-assign]
    http.client.HTTPConnection.getresponse = counted_response  # type: ignore[method-assign]


def run(case: dict[str, Any]) -> dict[str, Any]:
    """Run one case in this process."""
    points = Points(case.get("kill_at", -1))
    watch(points)
    verbs._check_lint = lambda *_: None  # type: ignore[assignment]  # always the same, and slow
    world = ExternalServices(
        endpoint=LocalTransport(base=case["url"], timeout_s=CLIENT_S), clock=QuickClock()
    )
    out: dict[str, Any] = {"points": 0, "error": "", "ends": []}
    try:
        prepared = prepare(Path(case["folder"]), case.get("context", ""))
        if case["verb"] == "apply":
            applied = apply_folder(
                prepared,
                world,
                most_usd=math.inf,  # also for endpoints, which nothing terminates
                rollback=case.get("rollback", False),
                catalog=load_catalog(),
            )
            out["ends"] = [making.outcome for making in applied.results]
            out["error"] = applied.failure.why if applied.failure else ""
            out["gap"] = applied.missing_prerequisite
        else:
            removals = destroy_folder(prepared, world)
            out["ends"] = [removal.outcome for removal in removals]
            out["error"] = "; ".join(
                f"{row.step}: {row.why}" for row in removals if row.outcome == "failed"
            )
    except GpuyardError as error:
        out["error"] = str(error)
    return {**out, "points": points.count, "names": points.names}


def main() -> None:
    """Fork one process per input line."""
    load_catalog()  # once, before the forks
    os.fsync = lambda _: None  # a kill loses nothing that was written; only a power failure does
    for line in sys.stdin:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            with os.fdopen(writer, "w") as out:
                json.dump(run(json.loads(line)), out)
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as back:
            text = back.read()
        _, status = os.waitpid(child, 0)
        result = json.loads(text) if text else {}
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        print(
            json.dumps({**result, "killed": killed, "code": os.waitstatus_to_exitcode(status)}),
            flush=True,
        )


if __name__ == "__main__":
    main()
