"""Which engine runs the stages, and how it is reached: the `engine` section of a workload file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.document import Doc
from gpuyard.errors import InputError, Problem
from gpuyard.units import PRICE_PER_HOUR

__all__ = ["ENGINE_NAMES", "EngineName", "EngineSpec", "check_spec"]

EngineName = Literal["local", "ray", "slurm", "kubernetes"]
ENGINE_NAMES: tuple[EngineName, ...] = ("local", "ray", "slurm", "kubernetes")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSpec:
    """An engine and how to reach it; what is left out is taken from where its own tools look."""

    name: Annotated[EngineName, Doc("local, ray, slurm or kubernetes")] = "local"
    address: Annotated[str, Doc("ray: the dashboard, http://HOST:8265; empty starts a Ray on this machine")] = ""
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
    volume_path: Annotated[str, Doc("kubernetes: where the claim is mounted, as on this machine")] = ""
    chip_resource: Annotated[str, Doc("slurm: the GRES; kubernetes, ray: the resource of a chip")] = ""
    interface: Annotated[str, Doc("the network interface between nodes, for Gloo and NCCL")] = ""
    price_usd_per_hour: Annotated[float, PRICE_PER_HOUR, Doc("price of one node")] = 0.0


def check_spec(spec: EngineSpec) -> None:
    """Raises InputError with everything that the named engine cannot do without."""
    found: list[Problem] = []
    if spec.name == "kubernetes":
        if not spec.image:
            found.append(Problem(where="engine: image", what="not given", fix="name the container image to run"))
        if bool(spec.volume_claim) != bool(spec.volume_path):
            found.append(
                Problem(
                    where="engine: volume_claim",
                    what="a claim needs its path and a path its claim",
                    fix="give both volume_claim and volume_path, or neither",
                )
            )
    if spec.address and not spec.address.startswith(("http://", "https://")):
        found.append(
            Problem(
                where="engine: address",
                what=f'"{spec.address}" is not the address of a Ray dashboard',
                fix="write http://HOST:8265",
            )
        )
    if found:
        raise InputError(found)
