"""Machines that the serving model covers."""

from __future__ import annotations

from gpuyard.catalog.chips import Chip
from gpuyard.catalog.load import Catalog
from gpuyard.catalog.machines import Machine
from gpuyard.plan.eligible import Exclusion
from gpuyard.plan.engine_commands import servers_for
from gpuyard.plan.inference.cpu_serving import processor_of, serving_on
from gpuyard.plan.inference.serverless import instance_for
from gpuyard.workload.eligibility import chip_of
from gpuyard.workload.where import Where


def unsupported(machine: Machine, catalog: Catalog, where: Where) -> Exclusion | None:
    """Return why the serving model does not cover a machine, or None."""
    chip = compute_chip(machine, catalog)
    if chip is None:
        return Exclusion(binding="machines", what="no accelerator, and its CPU has no matrix units")
    if machine.chip is not None and machine.chip_count < 1:
        return Exclusion(binding="machines", what="a fractional chip")
    if serving_on(machine, chip) is None or not servers_for(chip):
        return Exclusion(binding="chips", what=f"serving on {chip.label} is not modelled")
    if where.platform == "cloud-run" and instance_for(machine, where) is None:
        return Exclusion(
            binding="where.platform", what="a Cloud Run instance has one L4 or RTX PRO 6000"
        )
    return None


def compute_chip(machine: Machine, catalog: Catalog) -> Chip | None:
    """Return the chip that computes: the accelerator, or the CPU of a machine without one."""
    return chip_of(machine, catalog) or processor_of(machine, catalog)
