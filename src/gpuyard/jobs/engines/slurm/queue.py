"""Parse `scontrol show job` into statuses, one per array element."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from gpuyard.jobs.task import State, TaskStatus

WAITING = {
    "PENDING",
    "CONFIGURING",
    "REQUEUED",
    "REQUEUE_FED",
    "REQUEUE_HOLD",
    "SPECIAL_EXIT",
    "RESV_DEL_HOLD",
}
RUNNING = {"RUNNING", "COMPLETING", "STAGE_OUT", "SIGNALING", "SUSPENDED", "STOPPED", "RESIZING"}
ENDS: dict[str, tuple[State, str]] = {
    "COMPLETED": ("done", ""),
    "FAILED": ("failed", ""),
    "CANCELLED": ("cancelled", "cancelled"),
    "TIMEOUT": ("failed", "Slurm's time limit"),
    "DEADLINE": ("failed", "Slurm's deadline"),
    "OUT_OF_MEMORY": ("failed", "out of memory"),
    "NODE_FAIL": ("lost", "a node failed"),
    "BOOT_FAIL": ("lost", "a node did not start"),
    "PREEMPTED": ("lost", "preempted"),
    "REVOKED": ("lost", "revoked"),
}
# Slurm's reason codes in plain words.
REASONS = {
    "Resources": "waiting for free nodes",
    "Priority": "waiting for jobs of higher priority",
    "BeginTime": "waiting for its start time, or requeued",
    "QOSMaxJobsPerUserLimit": "your limit of running jobs is reached",
    "AssocGrpGRES": "the account's limit of GPUs is reached",
    "PartitionTimeLimit": "exceeds the time limit of the partition",
    "ReqNodeNotAvail": "the nodes it needs are down, drained or reserved",
    "JobHeldUser": "held; release it with `scontrol release`",
    "JobHeldAdmin": "held by an administrator",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Element:
    """One job, or some elements of a job array."""

    indices: tuple[int, ...]
    status: TaskStatus


def elements(text: str) -> Iterator[Element]:
    """Yield the jobs in the output of `scontrol --oneliner show job`."""
    for line in text.splitlines():
        # Later fields such as Command may contain anything, so the first field of a name counts.
        fields: dict[str, str] = {}
        for name, value in re.findall(r"(?:^|\s)([A-Za-z:/]+)=(\S*)", line):
            fields.setdefault(name, value)
        if "JobState" in fields:
            yield Element(indices=_indices(fields.get("ArrayTaskId", "0")), status=_status(fields))


def _status(fields: dict[str, str]) -> TaskStatus:
    word, reason = fields["JobState"], fields.get("Reason", "")
    attempts = int(fields.get("Restarts", "0")) + 1
    if word in WAITING:
        return TaskStatus(
            state="pending", reason=REASONS.get(reason, reason if reason != "None" else "")
        )
    started_s = _time_s(fields.get("StartTime", ""))
    if word in RUNNING:
        return TaskStatus(state="running", started_s=started_s, attempts=attempts)
    state, why = ENDS.get(word, ("lost", f"unknown Slurm state {word}"))
    code, _, number = fields.get("ExitCode", "0:0").partition(":")
    exit_code = int(code) or (128 + int(number) if int(number or 0) else 0)
    return TaskStatus(
        state=state,
        exit_code=exit_code if state in ("done", "failed") else None,
        reason=why or (f"exit code {exit_code}" if state == "failed" else ""),
        started_s=started_s,
        ended_s=_time_s(fields.get("EndTime", "")),
        attempts=attempts,
    )


def _time_s(text: str) -> float | None:
    """Unix time of Slurm's local time; None for `Unknown`."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def _indices(text: str) -> tuple[int, ...]:
    indices: list[int] = []
    for part in text.partition("%")[0].split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+)(?::(\d+))?)?", part)
        if match:
            first, last, step = (int(group) if group else None for group in match.groups())
            assert first is not None
            indices += range(first, (first if last is None else last) + 1, step or 1)
    return tuple(indices)
