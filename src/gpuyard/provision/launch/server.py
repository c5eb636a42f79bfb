"""Launch of one replica of a service: the engine's command, its port and its health check."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Annotated

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.document.field_types import Doc
from gpuyard.provision.deployment_settings import ResolvedSettings
from gpuyard.provision.launch.cloud_nccl import RunsOn
from gpuyard.provision.launch.job import (
    FabricEnvironment,
    fabric_environment,
    image_of,
    job_launch,
)
from gpuyard.provision.launch.launch import MODEL_CACHE, EnvVar, Launch
from gpuyard.provision.launch.replicas import machines_per_replica, service_of
from gpuyard.provision.launch.triton import (
    is_triton,
    triton_lines,
    triton_mounts,
    triton_variables,
)

HEAD = "$HEAD"
TRITON_METRICS_PORT = 9000
RAY_PORT = 6379
PORT = 8000
LISTEN = f"--host 0.0.0.0 --port {PORT}"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineServer:
    """HTTP interface of a serving engine."""

    flags: Annotated[str, Doc("that make it listen")]
    health: Annotated[str, Doc("path that returns 200 when it is ready")]
    metric: Annotated[str, Doc("Prometheus metric of the requests in a replica")] = ""
    queue_metric: Annotated[str, Doc("Prometheus metric of the requests that wait")] = ""
    port: int = PORT
    metrics_port: Annotated[int | None, Doc("if metrics have a separate port")] = None


# Flags of tritonserver: github.com/triton-inference-server/server, src/command_line_parser.cc.
TRITON = EngineServer(
    flags=f"--http-port {PORT} --metrics-port {TRITON_METRICS_PORT} --allow-grpc false",
    health="/v2/health/ready",
    metrics_port=TRITON_METRICS_PORT,
)
VLLM = EngineServer(
    flags=LISTEN,
    health="/health",
    metric="vllm:num_requests_running",
    queue_metric="vllm:num_requests_waiting",
)
SERVERS = {
    "vllm": VLLM,
    "vllm-tpu": VLLM,
    "vllm-cpu": VLLM,
    "sglang": EngineServer(
        flags=f"{LISTEN} --enable-metrics",
        health="/health",
        metric="sglang:num_running_reqs",
        queue_metric="sglang:num_queue_reqs",
    ),
    "tensorrt-llm": EngineServer(flags=LISTEN, health="/health"),
    "jetstream": EngineServer(flags="", health="", port=9000),
    "tensorrt": TRITON,
    "onnxruntime": TRITON,
    "triton-fil": TRITON,
}


def launch_of(blueprint: Blueprint, settings: ResolvedSettings, runs_on: RunsOn) -> Launch:
    """Return how a replica of a service, or a job, starts."""
    if blueprint.shape == "service":
        return server_launch(blueprint, settings, runs_on)
    return job_launch(blueprint, settings, runs_on)


def server_launch(blueprint: Blueprint, settings: ResolvedSettings, runs_on: RunsOn) -> Launch:
    """Return how one replica starts; with several machines, NODE_RANK selects the command."""
    service = service_of(blueprint)
    engine = service.engine
    server = SERVERS[engine.name]
    count = machines_per_replica(blueprint)
    image, image_notes = image_of(engine.name, blueprint, settings)
    notes = (*image_notes, *((engine.note,) if engine.note else ()))
    if is_triton(engine):
        return Launch(
            framework=engine.name,
            image=image,
            program="\n".join(triton_lines(blueprint, engine, server.flags)),
            variables=triton_variables(),
            mounts=triton_mounts(settings),
            chips_per_machine=service.chips_per_replica,
            port=server.port,
            health=server.health,
            notes=notes,
        )
    lines = [
        _listening(line, server.flags).replace(HEAD, "$MASTER_ADDR") for line in engine.command
    ]
    fabric = FabricEnvironment()
    if count > 1 and not blueprint.is_tpu:
        fabric = fabric_environment(blueprint, runs_on)
    return Launch(
        framework=engine.name,
        image=image,
        program=_program(lines, count),
        variables=(*fabric.variables, EnvVar(name="HF_HOME", value=MODEL_CACHE)),
        env_scripts=fabric.scripts,
        variables_after_scripts=fabric.variables_after_scripts,
        library_path=fabric.library_path,
        machine_count=count,
        chips_per_machine=min(service.chips_per_replica, blueprint.machine.chip_count),
        port=server.port,
        health=server.health,
        notes=notes,
    )


def with_fabric(launch: Launch, blueprint: Blueprint, runs_on: RunsOn) -> Launch:
    """Return the launch with the fabric's environment, if it has none yet."""
    if launch.env_scripts:
        return launch
    fabric = fabric_environment(blueprint, runs_on)
    known = {item.name for item in launch.variables}
    added = tuple(item for item in fabric.variables if item.name not in known)
    return replace(
        launch,
        variables=(*added, *launch.variables),
        env_scripts=fabric.scripts,
        variables_after_scripts=fabric.variables_after_scripts,
        library_path=fabric.library_path,
    )


def program_on_port(launch: Launch, index: int) -> str:
    """Return the program of the server number `index` of a machine, which listens on its ports."""
    server = SERVERS[launch.framework]
    program = launch.program
    for port in (server.port, server.metrics_port):
        if port is not None:
            program = program.replace(f"port {port}", f"port {port + index}")
    return program


def _listening(line: str, flags: str) -> str:
    return line if "--headless" in line or not flags else f"{line} {flags}"


def _program(lines: list[str], count: int) -> str:
    if count == 1:
        return lines[0]
    if len(lines) == count:
        cases = "\n".join(f"  {rank}) {line} ;;" for rank, line in enumerate(lines))
        return f'case "$NODE_RANK" in\n{cases}\nesac'
    if "--distributed-executor-backend ray" not in lines[0]:
        return lines[0]
    # The other machines join a Ray cluster; the first waits for them and starts the engine.
    join = f'ray start --address="$MASTER_ADDR:{RAY_PORT}" --block'
    nodes = "ray list nodes --filter state=ALIVE --format json | grep -c node_id"
    return "\n".join(
        (
            f'if [ "$NODE_RANK" != 0 ]; then exec {join}; fi',
            f"ray start --head --port={RAY_PORT}",
            f'until [ "$({nodes})" -ge {count} ]; do sleep 5; done',
            lines[0],
        )
    )


def calls_srun(launch: Launch) -> bool:
    """Return whether the program calls srun itself, as multi-node TensorRT-LLM does."""
    return bool(re.match(r"srun\s|.*&&\s*srun\s", launch.program))
