"""Pod logs, followed across attempts."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator

from gpuyard.errors import ExternalError
from gpuyard.http import TruncatedError
from gpuyard.jobs.engines.kubernetes.access import KubernetesAccess
from gpuyard.jobs.engines.kubernetes.manifest import CONTAINER
from gpuyard.jobs.engines.kubernetes.pod_status import PodStatus

Lines = queue.SimpleQueue[str | None]  # None: the end of a pod's log


def pod_logs(
    access: KubernetesAccess,
    pods: Callable[[], list[PodStatus]],
    ended: Callable[[], bool],
    *,
    label: bool,
    wait_s: float,
) -> Iterator[str]:
    """Yield the lines of all pods, labelled if there are several, until the task ends."""
    lines: Lines = queue.SimpleQueue()
    seen: set[str] = set()
    open_count = 0
    while True:
        last = ended()  # before listing pods: one that started before the end is listed below
        for pod in pods():
            if pod.name not in seen and pod.phase != "Pending":
                seen.add(pod.name)
                open_count += 1
                words = f"[{pod.index}] " if label else ""
                reading = threading.Thread(
                    target=_read, args=(access, pod, words, lines), daemon=True
                )
                reading.start()
                if pod.phase != "Running":
                    reading.join()  # finished pods are printed in order
        until_s = time.monotonic() + wait_s
        while open_count and (last or time.monotonic() < until_s):
            try:
                line = lines.get(timeout=None if last else max(0.0, until_s - time.monotonic()))
            except queue.Empty:
                break
            if line is None:
                open_count -= 1
            else:
                yield line
        if last:
            return
        time.sleep(max(0.0, until_s - time.monotonic()))


def _read(access: KubernetesAccess, pod: PodStatus, label: str, lines: Lines) -> None:
    pod_path = f"/api/v1/namespaces/{access.namespace}/pods/{pod.name}"
    path = f"{pod_path}/log?container={CONTAINER}&follow=true"
    count = 0
    try:
        while True:
            try:
                for number, line in enumerate(access.api.lines(path)):
                    if number >= count:
                        count += 1
                        lines.put(label + line)
                return
            except TruncatedError:
                time.sleep(1.0)
    except ExternalError:  # the pod was deleted, and its log with it
        return
    finally:
        lines.put(None)
