"""Driver of a task inside a Ray cluster: placement group, one actor per rank, retries.

It is sent as text and needs only Ray and the standard library. The task is in GPUYARD_TASK.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, TypeAlias

import ray
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

POOL = 32  # copies at a time; Ray itself queues what has no room
STEP_S = 0.2
SLOW_S = 10.0
LOST = 255
Tree: TypeAlias = "dict[str, Any]"  # what came as JSON


@ray.remote(max_concurrency=2)
class Rank:
    """One process of the task, on the node where Ray placed it."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.stopped = False  # a stop may come before the process that it is for

    def address(self) -> tuple[str, int]:
        """This node, and a port that nobody listens on."""
        with socket.socket() as listener:
            listener.bind(("", 0))
            return ray.util.get_node_ip_address(), int(listener.getsockname()[1])

    def run(  # type: ignore[no-untyped-def]
        self, argv: list[str], environment: dict[str, str], folder: str, grace_s: float, guard: str
    ):
        inherited = {
            name: value
            for name, value in os.environ.items()
            if name not in ("GPUYARD_DRIVER", "GPUYARD_TASK")
        }
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", guard, str(grace_s), *argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=folder if os.path.isdir(folder) else None,
            env={**inherited, **environment},
        )
        if self.stopped:
            self.stop()
        assert self.process.stdout
        while piece := os.read(self.process.stdout.fileno(), 1 << 16):
            yield piece
        yield self.process.wait()

    def stop(self) -> None:
        """Lets go of the guard: SIGTERM, the grace, SIGKILL."""
        self.stopped = True
        if self.process and self.process.stdin and not self.process.stdin.closed:
            self.process.stdin.close()


class RayDriverTask:
    """The task and the conditions that stop it."""

    def __init__(self, job: Tree) -> None:
        self.job, self.task = job, job["task"]
        self.start_s = time.monotonic()  # the clock of a host may be set while it runs
        self.stopped = threading.Event()
        self.lock = threading.Lock()
        folder = Path(job["folder"])
        self.log = (folder / "log").open("ab", buffering=0) if folder.is_dir() else None

    def ending(self) -> str:
        """Why everything is to end; empty while nothing is to."""
        limit_s = self.task.get("time_limit_s")
        if self.stopped.is_set():
            return "cancelled"
        return (
            f"time limit of {limit_s:g} s"
            if limit_s and time.monotonic() - self.start_s >= limit_s
            else ""
        )

    def say(self, label: str, lines: list[bytes]) -> None:
        """Writes lines to the job's log, and to its file where that is seen from here."""
        text = b"".join(label.encode() + line + b"\n" for line in lines)
        with self.lock:
            sys.stdout.buffer.write(text)
            sys.stdout.buffer.flush()
            if self.log:
                try:
                    self.log.write(text)
                except OSError:  # a full disk loses log lines, not the job
                    self.log = None

    def copy(self, index: int) -> Tree:
        """Runs one copy to its end, as often as it may be tried."""
        started_s, start_s, failures = time.time(), time.monotonic(), 0
        while True:
            self.note(index, failures)
            code, reason = Attempt(self, index, failures).run()
            failures += 1
            ending = self.ending()
            state = (
                "done"
                if code == 0 and not ending
                else "cancelled"
                if ending == "cancelled"
                else "failed"
            )
            final = failures > self.task["retries"] or code in self.task["final_codes"]
            if state != "failed" or ending or final:
                known = None if ending or code == LOST else code
                end = {
                    "state": state,
                    "exit_code": known,
                    "reason": ending or reason,
                    "started_s": started_s,
                }
                ended_s = started_s + time.monotonic() - start_s
                return end | {"ended_s": ended_s, "attempts": failures}
            wait_s = min(300.0, self.task["backoff_s"] * 2.0 ** (failures - 1))
            attempt = f"attempt {failures + 1} of {self.task['retries'] + 1}"
            self.say("", [f"gpuyard: {reason}; {attempt} in {wait_s:g} s".encode()])
            until_s = time.monotonic() + wait_s
            while time.monotonic() < until_s and not self.ending():
                time.sleep(min(STEP_S, wait_s))

    def note(self, index: int, failures: int) -> None:
        """Writes down that an attempt starts, where the folder is seen from here."""
        if self.log and index == 0:
            write_atomic(Path(self.job["folder"]) / "attempts", str(failures + 1))


class Attempt:
    """The ranks of one copy, which start and fail together."""

    def __init__(self, job: RayDriverTask, index: int, number: int) -> None:
        self.job, self.task, self.index, self.number = job, job.task, index, number
        self.rests: dict[int, bytes] = {}
        self.ranks: list[Any] = []
        self.code, self.reason = 0, ""
        self.failed_s = 0.0

    def run(self) -> tuple[int, str]:
        task = self.task
        per_rank = {"CPU": float(task["cores_per_process"])}
        if task["chips_per_process"]:
            per_rank[self.job.job["chip_resource"] or "GPU"] = float(task["chips_per_process"])
        if task.get("memory_per_process_bytes"):
            per_rank["memory"] = float(task["memory_per_process_bytes"])
        count = task["processes_per_node"]
        bundle = {name: amount * count for name, amount in per_rank.items()}
        group = placement_group(
            [bundle] * task["nodes"], strategy="SPREAD" if task["nodes"] > 1 else "PACK"
        )
        try:
            if self.placed(group, bundle):
                self.start(group, per_rank)
        except ray.exceptions.RayError as error:
            self.fail(LOST, f"Ray lost a worker or its node ({type(error).__name__})")
        finally:
            self.kill()
            remove_placement_group(group)
        return self.code, self.reason

    def placed(self, group: Any, bundle: dict[str, float]) -> bool:
        """Waits for room; says so when that takes long, for the cluster may never have it."""
        ready, report_at_s = group.ready(), time.monotonic() + SLOW_S
        while not ray.wait([ready], timeout=STEP_S)[0]:
            if self.job.ending():
                self.fail(LOST, "")
                return False
            if report_at_s and time.monotonic() >= report_at_s:
                there = {name: ray.cluster_resources().get(name, 0.0) for name in bundle}
                wanted = f"{self.task['nodes']} x {bundle}"
                text = f"gpuyard: waiting for {wanted}; the cluster has {there} in total"
                self.job.say("", [text.encode()])
                report_at_s = 0.0
        return True

    def start(self, group: Any, per_rank: dict[str, float]) -> None:
        """Starts the ranks and passes on what they write until all have ended."""
        task, local = self.task, self.task["processes_per_node"]
        rest = dict(per_rank)
        cores, chips, memory = rest.pop("CPU"), rest.pop("GPU", 0), int(rest.pop("memory", 0))
        for rank in range(task["nodes"] * local):
            where = PlacementGroupSchedulingStrategy(
                group, placement_group_bundle_index=rank // local
            )
            options = {
                "num_cpus": cores,
                "num_gpus": chips,
                "resources": rest,
                "scheduling_strategy": where,
            }
            actor: Any = Rank
            self.ranks.append(
                actor.options(**options, **({"memory": memory} if memory else {})).remote()
            )
        address, port = ray.get(self.ranks[0].address.remote())
        pieces: queue.SimpleQueue[tuple[int, bytes | int | str | None]] = queue.SimpleQueue()
        for rank, actor in enumerate(self.ranks):
            environment = dict(self.job.job["environment"]) | {
                "RANK": str(rank),
                "LOCAL_RANK": str(rank % local),
                "NODE_RANK": str(rank // local),
                "MASTER_ADDR": address,
                "MASTER_PORT": str(port),
                "GPUYARD_INDEX": str(self.index),
                "GPUYARD_ATTEMPT": str(self.number),
                "RAY_ADDRESS": ray.get_runtime_context().gcs_address,
            }
            stream = actor.run.options(num_returns="streaming").remote(
                task["argv"], environment, task["folder"], task["grace_s"], self.job.job["guard"]
            )
            threading.Thread(target=listen, args=(rank, stream, pieces), daemon=True).start()
        left = len(self.ranks)
        while left:
            if self.job.ending() and not self.reason:
                self.fail(LOST, self.job.ending())
            if self.failed_s and time.monotonic() - self.failed_s > task["grace_s"] + SLOW_S:
                self.kill()
            with contextlib.suppress(queue.Empty):
                rank, piece = pieces.get(timeout=STEP_S)
                left -= piece is None
                self.take(rank, piece)

    def take(self, rank: int, piece: bytes | int | str | None) -> None:
        """Takes what a rank said: output, its exit code, how it was lost, or that it has ended."""
        many = len(self.ranks) > 1
        lines: list[bytes] = []
        if isinstance(piece, bytes):
            *lines, self.rests[rank] = (self.rests.get(rank, b"") + piece).split(b"\n")
        elif isinstance(piece, str):
            self.fail(LOST, f"Ray lost the worker of rank {rank} or its node ({piece})")
        elif piece:
            self.fail(piece, words(piece) + (f" in rank {rank}" if many else ""))
        elif piece is None and self.rests.get(rank):
            lines = [self.rests.pop(rank)]
        label = f"[{self.index}] " if self.task["copies"] > 1 else f"[{rank}] " if many else ""
        self.job.say(label, lines)

    def kill(self) -> None:
        """Ends the actors; their guards end what is left."""
        for rank in self.ranks:
            ray.kill(rank)

    def fail(self, code: int, reason: str) -> None:
        """Notes the first failure and ends the others."""
        if not self.code:
            self.code, self.reason, self.failed_s = code, reason, time.monotonic()
            for rank in self.ranks:
                rank.stop.remote()


def listen(
    rank: int, stream: Any, pieces: queue.SimpleQueue[tuple[int, bytes | int | str | None]]
) -> None:
    """Queue what a rank yields; None marks its end."""
    try:
        for piece in stream:
            pieces.put((rank, ray.get(piece)))
    except ray.exceptions.RayError as error:
        pieces.put((rank, type(error).__name__))
    pieces.put((rank, None))


def words(code: int) -> str:
    """Return an exit code as text."""
    if code > 128 and code - 128 in set(signal.Signals):
        return f"killed by {signal.Signals(code - 128).name}"
    return f"exit code {code}"


def write_atomic(path: Path, text: str) -> None:
    """Write a file atomically."""
    part = path.with_name(f".{path.name}")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


def main() -> int:
    """Run the task and return the exit code of the first copy that failed."""
    job = RayDriverTask(json.loads(os.environ["GPUYARD_TASK"]))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: job.stopped.set())
    ray.init(address="auto", log_to_driver=False, logging_level="ERROR")
    for number in (
        signal.SIGTERM,
        signal.SIGINT,
    ):  # Ray sets its own, which would end the driver at once
        signal.signal(number, lambda *_: job.stopped.set())
    folder, code = Path(job.job["folder"]), 0
    copies = job.task["copies"]
    with concurrent.futures.ThreadPoolExecutor(min(copies, POOL)) as pool:
        waiting = {pool.submit(job.copy, index): index for index in range(copies)}
        while waiting:  # in short waits, so that a signal is met
            for future in concurrent.futures.wait(
                waiting, timeout=STEP_S, return_when="FIRST_COMPLETED"
            )[0]:
                end, index = future.result(), waiting.pop(future)
                code = code or (0 if end["state"] == "done" else end["exit_code"] or 1)
                if folder.is_dir():
                    known = {name: value for name, value in end.items() if value is not None}
                    write_atomic(folder / f"exit-{index}.json", json.dumps(known))
                if end["state"] == "failed":
                    job.say("", [f"gpuyard: failed: {end['reason']}".encode()])
    return code


if __name__ == "__main__":
    sys.exit(main())
