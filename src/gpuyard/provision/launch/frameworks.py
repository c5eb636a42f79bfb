"""Start commands of the training frameworks: torchrun, JAX, PyTorch/XLA, or a plain command."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from gpuyard.provision.deployment_settings import Framework
from gpuyard.provision.launch.launch import EnvVar

PORT = 29500  # torchrun's default
JAX_PORT = 6002  # as in MaxText's examples


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRequest:
    """A program to start, and the machines to start it on."""

    program: str
    machine_count: int
    chips_per_machine: int
    is_tpu: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StartCommand:
    """Shell lines that start a program, with their environment and notes for the user."""

    program: str
    variables: tuple[EnvVar, ...] = ()
    notes: tuple[str, ...] = ()


def torchrun(request: LaunchRequest) -> StartCommand:
    """Return torchrun with one process per GPU, on one machine or several."""
    # One launcher per machine, one process per GPU. Ranks follow NODE_RANK, so that machines close
    # to each other have adjacent ranks.
    arguments = ["torchrun", f"--nproc-per-node={max(1, request.chips_per_machine)}"]
    if request.machine_count > 1:
        arguments += [
            '--nnodes="$NODE_COUNT"',
            '--node-rank="$NODE_RANK"',
            '--master-addr="$MASTER_ADDR"',
            f"--master-port={PORT}",
        ]
    else:
        arguments.append("--standalone")
    variables = (
        EnvVar(name="OMP_NUM_THREADS", value="8"),
        EnvVar(name="TORCH_NCCL_ASYNC_ERROR_HANDLING", value="1"),
    )
    return StartCommand(program=" ".join([*arguments, request.program]), variables=variables)


def _jax(request: LaunchRequest) -> StartCommand:
    # One process per machine. On TPU it discovers its peers; on GPUs it needs the coordinator.
    python = f"python {request.program}"
    if request.is_tpu:
        note = (
            "The program must call jax.distributed.initialize() without arguments: on TPU it "
            "discovers its slice."
        )
        return StartCommand(program=python, notes=(note,))
    if request.machine_count == 1:
        return StartCommand(program=python)
    lines = (
        f'export JAX_COORDINATOR_ADDRESS="$MASTER_ADDR:{JAX_PORT}"',
        f'export JAX_COORDINATOR_IP="$MASTER_ADDR" JAX_COORDINATOR_PORT={JAX_PORT}',
        'export NNODES="$NODE_COUNT" JAX_NUM_PROCESSES="$NODE_COUNT" JAX_PROCESS_ID="$NODE_RANK"',
        python,
    )
    note = (
        "JAX reads JAX_COORDINATOR_ADDRESS itself; the program must pass num_processes and "
        "process_id to jax.distributed.initialize from JAX_NUM_PROCESSES and JAX_PROCESS_ID "
        "(MaxText reads NNODES and NODE_RANK)."
    )
    return StartCommand(program="\n".join(lines), notes=(note,))


def _torch_xla(request: LaunchRequest) -> StartCommand:
    # PJRT runtime. On TPU the program spawns one process per chip; on GPUs torchrun does.
    if not request.is_tpu:
        start = torchrun(request)
        device = EnvVar(name="PJRT_DEVICE", value="CUDA")
        return replace(start, variables=(device, *start.variables))
    note = (
        "The program must start its processes with torch_xla.launch; PJRT discovers the other "
        "hosts of the slice."
    )
    return StartCommand(
        program=f"python {request.program}",
        variables=(EnvVar(name="PJRT_DEVICE", value="TPU"),),
        notes=(note,),
    )


def _command(request: LaunchRequest) -> StartCommand:
    return StartCommand(program=request.program)


# Launchers of the user's own program; TRAINERS write the program themselves.
FRAMEWORKS: dict[Framework, Callable[[LaunchRequest], StartCommand]] = {
    "torch": torchrun,
    "jax": _jax,
    "torch-xla": _torch_xla,
    "command": _command,
}
