"""Machine types of Google's APIs: hosts for attached GPUs, boot disks, compact flex-start."""

from __future__ import annotations

from gpuyard.catalog.machines import Machine
from gpuyard.provision.invariants.facts import read_facts

# Series with compact placement under flex-start (Cluster Toolkit, 2026-06).
COMPACT_FLEX = ("A3 Ultra", "A4", "H4D")
# Series that boot only from Hyperdisk (https://docs.cloud.google.com/compute/docs/disks/hyperdisks,
# 2026-04); series with a GPU fabric have it in the fabric facts.
HYPERDISK_SERIES = ("G4", "H4D", "TPU7x")
# N1 machines get GPUs as attachments: a host that supports each number of GPUs.
N1_HOSTS = {1: "n1-standard-8", 2: "n1-standard-16", 4: "n1-standard-32", 8: "n1-standard-96"}


def attaches_gpus(machine: Machine) -> bool:
    """Return whether GPUs are attached to a general-purpose host."""
    return machine.name.startswith("n1-")


def machine_type(machine: Machine) -> str:
    """Return the name of the machine type in the API."""
    return N1_HOSTS[int(machine.chip_count)] if attaches_gpus(machine) else machine.name


def boot_disk(machine: Machine) -> str:
    """Return the type of the boot disk."""
    fabric = read_facts().fabric(machine.name)
    if (fabric is not None and fabric.hyperdisk_only) or machine.series in HYPERDISK_SERIES:
        return "hyperdisk-balanced"
    return "pd-ssd" if machine.is_accelerated else "pd-balanced"
