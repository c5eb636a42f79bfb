"""Demands from machines, fabrics beside a backend, and the fabrics of a cloud."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuyard.catalog.load import load_catalog
from gpuyard.errors import InputError
from gpuyard.fabric.design import design
from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.machine_demands import demand_for, for_purpose
from gpuyard.fabric.provider import provider_fabric

CATALOG = load_catalog()


def test_demand_has_the_rails_and_nics_of_the_machine() -> None:
    demand = demand_for(CATALOG.machine("hgx-h100"), 32)
    assert (demand.server_count, demand.rails, demand.gpus_per_server, demand.nic_bits_per_s) == (
        32,
        8,
        8,
        400e9,
    )


def test_rack_of_72_gpus_is_18_servers() -> None:
    demand = demand_for(CATALOG.machine("gb200-nvl72"), 4)
    assert (demand.server_count, demand.rails, demand.gpus_per_server, demand.nic_bits_per_s) == (
        72,
        4,
        4,
        400e9,
    )
    fabric = design(demand, CATALOG)
    assert isinstance(fabric, Fabric)
    assert fabric.size.gpus == 288
    assert any("72 GPUs in 18 servers" in reason for reason in fabric.reasons)


def test_machine_without_fabric_data_raises_input_error() -> None:
    with pytest.raises(InputError, match="rails"):
        demand_for(CATALOG.machine("a3-megagpu-8g"), 2)


@pytest.mark.parametrize(
    "machine",
    [machine for machine in CATALOG.machines if machine.provider == "onprem"],
    ids=lambda machine: machine.name,
)
def test_every_on_premises_machine_gets_a_fabric(machine: object) -> None:
    demand = demand_for(machine, 16)  # type: ignore[arg-type]
    assert isinstance(design(demand, CATALOG), Fabric)


@pytest.mark.parametrize(("purpose", "ratio"), [("storage", 1.0), ("frontend", 3.0)])
def test_storage_and_frontend_fabrics(purpose: str, ratio: float) -> None:
    backend = demand_for(CATALOG.machine("hgx-h100"), 64)
    demand = replace(for_purpose(backend, purpose), nic_bits_per_s=200e9)  # type: ignore[arg-type]
    fabric = design(demand, CATALOG)
    assert isinstance(fabric, Fabric)
    assert 0.85 * ratio < fabric.size.oversubscription_ratio <= ratio
    assert len(fabric.servers) == 64
    for server in fabric.servers:
        assert len({port.peer.node for port in server.interfaces}) == 2


def test_cloud_fabric_separates_provider_and_user_settings() -> None:
    fabric = provider_fabric(CATALOG.machine("a3-ultragpu-8g"))
    assert fabric is not None
    assert fabric.per_machine_bits_per_s == 3.2e12
    assert "4-way rail" in " ".join(fabric.given)
    ours = " ".join(fabric.ours)
    assert "eight subnets" in ours
    assert "8,896" in ours
    assert "gIB" in ours
    domain = provider_fabric(CATALOG.machine("a4x-highgpu-4g"))
    assert domain is not None
    assert "72 accelerators in 18 machines" in " ".join(domain.given)


def test_on_premises_machine_has_no_provider_fabric() -> None:
    assert provider_fabric(CATALOG.machine("hgx-h100")) is None


@pytest.mark.parametrize("racks", [1, 5, 8, 13])
@pytest.mark.parametrize("nic_bits_per_s", [400e9, 800e9])
def test_stripes_hold_whole_scale_up_domains(racks: int, nic_bits_per_s: float) -> None:
    machine = CATALOG.machine("gb200-nvl72")
    demand = replace(demand_for(machine, racks), nic_bits_per_s=nic_bits_per_s, leaf="sn5600")
    fabric = design(demand, CATALOG)
    assert isinstance(fabric, Fabric)
    assert racks == 1 or fabric.size.servers_per_stripe % 18 == 0
    for number in range(racks):
        domain = fabric.servers[18 * number : 18 * (number + 1)]
        assert len({server.stripe for server in domain}) == 1
        assert len({server.rack for server in domain}) == 1
