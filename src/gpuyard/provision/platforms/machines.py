"""Machine types as Google's APIs want them: hosts of attached GPUs, boot disks, and who may wait close together."""

from __future__ import annotations

from gpuyard.catalog import Machine
from gpuyard.provision.invariants.facts import read_facts

__all__ = ["COMPACT_FLEX", "attaches_gpus", "boot_disk", "machine_type"]

COMPACT_FLEX = ("A3 Ultra", "A4", "H4D")  # flex-start with compact placement works on these (Cluster Toolkit, 2026-06)
# Series that boot from Hyperdisk alone (https://docs.cloud.google.com/compute/docs/disks/hyperdisks, 2026-04); those
# with a GPU fabric are in the facts of fabrics.
HYPERDISK_SERIES = ("G4", "H4D", "TPU7x")
# N1 takes GPUs as attachments. The catalog names the pair; this is a host that each number of GPUs may have.
N1_HOSTS = {1: "n1-standard-8", 2: "n1-standard-16", 4: "n1-standard-32", 8: "n1-standard-96"}


def attaches_gpus(machine: Machine) -> bool:
    """True where GPUs are attached to a host of one's choice."""
    return machine.name.startswith("n1-")


def machine_type(machine: Machine) -> str:
    """The machine type's name in the API."""
    return N1_HOSTS[int(machine.chip_count)] if attaches_gpus(machine) else machine.name


def boot_disk(machine: Machine) -> str:
    """The kind of disk that it boots from."""
    fabric = read_facts().fabric(machine.name)
    if (fabric is not None and fabric.hyperdisk_only) or machine.series in HYPERDISK_SERIES:
        return "hyperdisk-balanced"
    return "pd-ssd" if machine.is_accelerated else "pd-balanced"
