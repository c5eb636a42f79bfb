"""What pods write: read from the API, followed from pod to pod as attempts come."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator

from gpuyard.errors import RefusedError
from gpuyard.jobs.engines.kubernetes.access import Access
from gpuyard.jobs.engines.kubernetes.manifest import CONTAINER
from gpuyard.jobs.engines.kubernetes.reasons import Pod
from gpuyard.jobs.http import HttpError

__all__ = ["pod_logs"]

Said = queue.SimpleQueue[str | None]  # None: a pod has said all


def pod_logs(
    access: Access, pods: Callable[[], list[Pod]], ended: Callable[[], bool], *, label: bool, wait_s: float
) -> Iterator[str]:
    """The lines of all pods, each behind its index where there are several, until the task has ended."""
    said: Said = queue.SimpleQueue()
    seen: set[str] = set()
    open_count = 0
    while True:
        last = ended()  # asked before looking: a pod that came before the end is seen below
        for pod in pods():
            if pod.name not in seen and pod.phase != "Pending":
                seen.add(pod.name)
                open_count += 1
                words = f"[{pod.index}] " if label else ""
                reading = threading.Thread(target=_read, args=(access, pod, words, said), daemon=True)
                reading.start()
                if pod.phase != "Running":
                    reading.join()  # what has ended is told in order, before what comes after it
        until_s = time.monotonic() + wait_s
        while open_count and (last or time.monotonic() < until_s):
            try:
                line = said.get(timeout=None if last else max(0.0, until_s - time.monotonic()))
            except queue.Empty:
                break
            if line is None:
                open_count -= 1
            else:
                yield line
        if last:
            return
        time.sleep(max(0.0, until_s - time.monotonic()))


def _read(access: Access, pod: Pod, label: str, said: Said) -> None:
    """Reads the log of one pod to its end; a broken connection goes on after the lines that were read."""
    path = f"/api/v1/namespaces/{access.namespace}/pods/{pod.name}/log?container={CONTAINER}&follow=true"
    count = 0
    try:
        while True:
            try:
                for number, line in enumerate(access.api.lines(path)):
                    if number >= count:
                        count += 1
                        said.put(label + line)
                return
            except OSError:
                time.sleep(1.0)
    except (HttpError, RefusedError):  # the pod is gone, and its log with it
        return
    finally:
        said.put(None)
