"""Pod status: what a pod waits for, or why it failed."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import dataclass

from gpuyard.document.frozen_json import Plain

INDEX = "batch.kubernetes.io/job-completion-index"
RESTART = "jobset.sigs.k8s.io/restart-attempt"
WAITING = {
    "ImagePullBackOff": "the image cannot be pulled",
    "ErrImagePull": "the image cannot be pulled",
    "InvalidImageName": "the image's name is wrong",
    "CreateContainerConfigError": "a secret or config map that the container needs is missing",
    "CreateContainerError": "the container cannot be made",
    "RunContainerError": "the container cannot be started",
    "CrashLoopBackOff": "the container ends again and again",
}
ENDED = {
    "OOMKilled": "out of memory: the container used more than its limit",
    "Evicted": "evicted: the node ran short of memory or disk",
    "DeadlineExceeded": "time limit",
    "Preempted": "preempted by a pod of higher priority",
    "NodeLost": "its node is lost",
    "Shutdown": "its node was shut down",
    "ContainerCannotRun": "the command cannot be run in this image",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PodStatus:
    """The status of one pod."""

    name: str
    index: int
    attempt: int
    phase: str
    exit_code: int | None = None
    reason: str = ""  # what it waits for, or why it failed


def _tree(value: Plain) -> dict[str, Plain]:
    """A mapping, or an empty one in place of anything else."""
    return value if isinstance(value, dict) else {}


def _rows(value: Plain) -> Iterator[dict[str, Plain]]:
    return (row for row in (value if isinstance(value, list) else []) if isinstance(row, dict))


def pod_of(tree: dict[str, Plain]) -> PodStatus:
    """Return the pod that the API describes."""
    metadata, status = _tree(tree.get("metadata")), _tree(tree.get("status"))
    marks = {**_tree(metadata.get("annotations")), **_tree(metadata.get("labels"))}
    states = [_tree(row.get("state")) for row in _rows(status.get("containerStatuses"))]
    ended = next((_tree(state["terminated"]) for state in states if "terminated" in state), {})
    waiting = next((_tree(state["waiting"]) for state in states if "waiting" in state), {})
    code = ended.get("exitCode")
    phase = str(status.get("phase", "Pending"))
    return PodStatus(
        name=str(metadata.get("name")),
        index=int(str(marks.get(INDEX, "0"))),
        attempt=int(
            str(marks.get(RESTART, marks.get("batch.kubernetes.io/job-index-failure-count", "0")))
        ),
        phase=phase,
        exit_code=code if isinstance(code, int) else None,
        reason=_failed(status, ended)
        if phase == "Failed"
        else _waits(status, waiting)
        if phase == "Pending"
        else "",
    )


def _waits(status: dict[str, Plain], waiting: dict[str, Plain]) -> str:
    """What a pod waits for, where that is worth a word."""
    word, message = str(waiting.get("reason", "")), str(waiting.get("message", ""))
    if word in WAITING:
        return f"{WAITING[word]} ({word}{': ' + message if message else ''})"
    for row in _rows(status.get("conditions")):
        if row.get("type") == "PodScheduled" and row.get("status") == "False":
            return f"no node fits the pod ({row.get('reason')}: {row.get('message', '')})"
    return ""


def _failed(status: dict[str, Plain], ended: dict[str, Plain]) -> str:
    for word in (str(status.get("reason", "")), str(ended.get("reason", ""))):
        if word in ENDED:
            return ENDED[word]
    code = ended.get("exitCode")
    if isinstance(code, int) and code - 128 in set(signal.Signals):
        return f"killed by {signal.Signals(code - 128).name}"
    return (
        f"exit code {code}"
        if isinstance(code, int)
        else str(status.get("message") or "the pod failed")
    )
