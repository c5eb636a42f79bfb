"""The `engine` section of a workload file: which engine runs the stages and how to reach it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpuyard.document.field_types import Doc, OneOf
from gpuyard.errors import InputError, Problem
from gpuyard.jobs.engines import ENGINES
from gpuyard.units import PRICE_PER_HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSpec:
    """An engine and how to reach it; defaults are those of the engine's own tools."""

    name: Annotated[str, OneOf(values=tuple(ENGINES)), Doc("execution engine of the stages")] = (
        "local"
    )
    address: Annotated[
        str, Doc("ray: the dashboard, http://HOST:8265; empty starts a Ray on this machine")
    ] = ""
    token_file: Annotated[str, Doc("ray: the file with the cluster's token")] = ""
    partition: Annotated[str, Doc("slurm: the partition")] = ""
    account: Annotated[str, Doc("slurm: the account that is charged")] = ""
    options: Annotated[tuple[str, ...], Doc("slurm: further options of sbatch")] = ()
    config: Annotated[str, Doc("slurm: slurm.conf; kubernetes: the kubeconfig")] = ""
    context: Annotated[str, Doc("kubernetes: the context of the kubeconfig")] = ""
    namespace: Annotated[str, Doc("kubernetes: the namespace")] = ""
    image: Annotated[str, Doc("kubernetes: the container image")] = ""
    queue: Annotated[str, Doc("kubernetes: the Kueue local queue")] = ""
    volume_claim: Annotated[str, Doc("kubernetes: the claim that holds the working folders")] = ""
    volume_path: Annotated[
        str, Doc("kubernetes: where the claim is mounted, as on this machine")
    ] = ""
    chip_resource: Annotated[
        str, Doc("slurm: the GRES; kubernetes, ray: the resource of a chip")
    ] = ""
    interface: Annotated[str, Doc("the network interface between nodes, for Gloo and NCCL")] = ""
    price_usd_per_hour: Annotated[float, PRICE_PER_HOUR, Doc("price of one node")] = 0.0


def check_spec(spec: EngineSpec) -> None:
    """Raise InputError with all missing or invalid settings of the engine."""
    problems: list[Problem] = []
    if spec.name == "kubernetes":
        if not spec.image:
            problems.append(
                Problem(
                    where="engine: image", what="not given", fix="name the container image to run"
                )
            )
        if bool(spec.volume_claim) != bool(spec.volume_path):
            problems.append(
                Problem(
                    where="engine: volume_claim",
                    what="a claim needs its path and a path its claim",
                    fix="give both volume_claim and volume_path, or neither",
                )
            )
    if spec.address and not spec.address.startswith(("http://", "https://")):
        problems.append(
            Problem(
                where="engine: address",
                what=f'"{spec.address}" is not the address of a Ray dashboard',
                fix="write http://HOST:8265",
            )
        )
    if problems:
        raise InputError(problems)
