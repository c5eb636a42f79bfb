"""The launch of one replica of a service: the engine's command from the plan, its port and its health."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpuyard.blueprint import Blueprint
from gpuyard.plan import Service
from gpuyard.provision.launch.facts import Spot
from gpuyard.provision.launch.job import fabric_variables, image_of
from gpuyard.provision.launch.launch import Launch, Variable
from gpuyard.provision.settings import Place

__all__ = [
    "SERVERS",
    "Serving",
    "machines_per_replica",
    "needs_slurm",
    "replicas_per_machine",
    "server_launch",
    "serving_of",
]

HEAD = "$HEAD"
RAY_PORT = 6379
PORT = 8000


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """How an engine is reached: flags that open its port, the path that answers when it is ready, its queue metric."""

    flags: str
    health: str
    metric: str = ""  # of requests in a replica, as Prometheus names it
    port: int = PORT


SERVERS = {
    "vllm": Serving(flags="--host 0.0.0.0 --port 8000", health="/health", metric="vllm:num_requests_running"),
    "vllm-tpu": Serving(flags="--host 0.0.0.0 --port 8000", health="/health", metric="vllm:num_requests_running"),
    "vllm-cpu": Serving(flags="--host 0.0.0.0 --port 8000", health="/health", metric="vllm:num_requests_running"),
    "sglang": Serving(
        flags="--host 0.0.0.0 --port 8000 --enable-metrics", health="/health", metric="sglang:num_running_reqs"
    ),
    "tensorrt-llm": Serving(flags="--host 0.0.0.0 --port 8000", health="/health"),
    "jetstream": Serving(flags="", health="", port=9000),
}


def serving_of(blueprint: Blueprint) -> Service:
    """What the option serves; a blueprint of another task has none, which is a fault of the caller."""
    assert blueprint.option.service is not None
    return blueprint.option.service


def machines_per_replica(blueprint: Blueprint) -> int:
    """Machines that one replica takes."""
    chips = blueprint.machine.chip_count or 1.0
    return max(1, round(serving_of(blueprint).chips_per_replica / chips))


def replicas_per_machine(blueprint: Blueprint) -> int:
    """Replicas that share one machine."""
    chips = serving_of(blueprint).chips_per_replica
    return max(1, int(blueprint.machine.chip_count // chips)) if chips else 1


def server_launch(blueprint: Blueprint, place: Place, spot: Spot) -> Launch:
    """How one replica is started; several machines choose their line by NODE_RANK."""
    service, count = serving_of(blueprint), machines_per_replica(blueprint)
    engine = service.engine
    known = SERVERS[engine.name]
    lines = [_opened(line, known.flags).replace(HEAD, "$MASTER_ADDR") for line in engine.command]
    image, source, notes = image_of(engine.name, blueprint, place)
    together = count > 1 and not blueprint.is_tpu
    variables, sourced = fabric_variables(blueprint, spot) if together else ((), ())
    chips = min(service.chips_per_replica, blueprint.machine.chip_count)
    return Launch(
        framework=engine.name,
        image=image,
        image_source=source,
        program=_program(lines, count),
        variables=(*variables, Variable(name="HF_HOME", value="/tmp/hf")),
        sourced=sourced,
        machine_count=count,
        chips_per_machine=chips,
        port=known.port,
        health=known.health,
        notes=(*notes, *((engine.note,) if engine.note else ())),
    )


def _opened(line: str, flags: str) -> str:
    """The line with the flags of its port; a line that serves nothing (--headless) is left alone."""
    return line if "--headless" in line or not flags else f"{line} {flags}"


def _program(lines: list[str], count: int) -> str:
    """The line of this machine: the only one, one by rank, or a Ray cluster under a single line."""
    if count == 1:
        return lines[0]
    if len(lines) == count:
        cases = "\n".join(f"  {rank}) {line} ;;" for rank, line in enumerate(lines))
        return f'case "$NODE_RANK" in\n{cases}\nesac'
    if "--distributed-executor-backend ray" in lines[0]:
        return (
            f'if [ "$NODE_RANK" != 0 ]; then exec ray start --address="$MASTER_ADDR:{RAY_PORT}" --block; fi\n'
            f"ray start --head --port={RAY_PORT}\n"
            f'until [ "$(ray list nodes --filter state=ALIVE --format json | grep -c node_id)" -ge {count} ]; '
            "do sleep 5; done\n"
            f"{lines[0]}"
        )
    return lines[0]


def needs_slurm(launch: Launch) -> bool:
    """True of a command that only Slurm can start (TensorRT-LLM over several machines)."""
    return bool(re.match(r"srun\s|.*&&\s*srun\s", launch.program))
