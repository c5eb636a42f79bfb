"""The commands of the training frameworks: torchrun, JAX distributed, PyTorch/XLA with PJRT, or a plain command."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpuyard.provision.launch.launch import Variable
from gpuyard.provision.settings import Framework

__all__ = ["FRAMEWORKS", "Ask", "Start"]

PORT = 29500  # torchrun's own default
JAX_PORT = 6002  # MaxText's examples


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What has to be started."""

    program: str
    machine_count: int
    chips_per_machine: int
    is_tpu: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The shell lines, the variables, and what has to be known."""

    program: str
    variables: tuple[Variable, ...] = ()
    notes: tuple[str, ...] = ()


def _torch(ask: Ask) -> Start:
    """torchrun: one launcher a machine, one process a GPU; ranks follow NODE_RANK, so that neighbours stay so."""
    words = ["torchrun", f"--nproc-per-node={max(1, ask.chips_per_machine)}"]
    if ask.machine_count > 1:
        words += [
            '--nnodes="$NODE_COUNT"',
            '--node-rank="$NODE_RANK"',
            '--master-addr="$MASTER_ADDR"',
            f"--master-port={PORT}",
        ]
    else:
        words.append("--standalone")
    variables = (
        Variable(name="OMP_NUM_THREADS", value="8"),
        Variable(name="TORCH_NCCL_ASYNC_ERROR_HANDLING", value="1"),
    )
    return Start(program=" ".join([*words, ask.program]), variables=variables)


def _jax(ask: Ask) -> Start:
    """JAX: one process a machine; on TPU it finds its neighbours, on GPUs it is told them."""
    if ask.is_tpu:
        note = "the program calls jax.distributed.initialize() without arguments: on TPU it finds its slice"
        return Start(program=f"python {ask.program}", notes=(note,))
    if ask.machine_count == 1:
        return Start(program=f"python {ask.program}")
    lines = (
        f'export JAX_COORDINATOR_ADDRESS="$MASTER_ADDR:{JAX_PORT}"',
        f'export JAX_COORDINATOR_IP="$MASTER_ADDR" JAX_COORDINATOR_PORT={JAX_PORT}',
        'export NNODES="$NODE_COUNT" JAX_NUM_PROCESSES="$NODE_COUNT" JAX_PROCESS_ID="$NODE_RANK"',
        f"python {ask.program}",
    )
    note = (
        "JAX reads JAX_COORDINATOR_ADDRESS by itself; the program passes num_processes and process_id to "
        "jax.distributed.initialize from JAX_NUM_PROCESSES and JAX_PROCESS_ID (MaxText reads NNODES and NODE_RANK)"
    )
    return Start(program="\n".join(lines), notes=(note,))


def _torch_xla(ask: Ask) -> Start:
    """PyTorch/XLA: the PJRT runtime; on TPU the program spawns a process a chip, on GPUs torchrun does."""
    if ask.is_tpu:
        note = "the program starts its processes with torch_xla.launch; PJRT finds the other hosts of the slice"
        return Start(
            program=f"python {ask.program}", variables=(Variable(name="PJRT_DEVICE", value="TPU"),), notes=(note,)
        )
    start = _torch(ask)
    return Start(program=start.program, variables=(Variable(name="PJRT_DEVICE", value="CUDA"), *start.variables))


def _command(ask: Ask) -> Start:
    """The user's own command, once on every machine."""
    return Start(program=ask.program)


FRAMEWORKS: dict[Framework, Callable[[Ask], Start]] = {
    "torch": _torch,
    "jax": _jax,
    "torch-xla": _torch_xla,
    "command": _command,
}
