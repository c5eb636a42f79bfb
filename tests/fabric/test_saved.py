"""A fabric saved as JSON and read back."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from gpuyard.catalog.load import load_catalog
from gpuyard.document.decode import decode
from gpuyard.document.field_types import Keys
from gpuyard.document.read import read_yaml
from gpuyard.errors import InputError
from gpuyard.fabric.demand import CableLengths, Demand, Tenant
from gpuyard.fabric.design import design
from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.saved import from_json, to_json

CATALOG = load_catalog()
H100 = Demand(server_count=20, nic_bits_per_s=400e9, leaf="qfx5240")
TENANTS = (Tenant(name="blue", first_server=1, server_count=2),)


def saved(demand: Demand) -> tuple[Fabric, str]:
    """The fabric and its text."""
    fabric = design(demand, CATALOG)
    assert isinstance(fabric, Fabric), fabric
    return fabric, to_json(fabric)


@pytest.mark.parametrize(
    "demand",
    [
        H100,
        replace(H100, leaf="sn5600", planes=2, nic_bits_per_s=800e9),
        replace(H100, tenancy="server", tenants=TENANTS, subflows=4),
        replace(H100, addressing="unnumbered", shape="rail-only"),
        replace(H100, leaf="qm9700"),
    ],
)
def test_saved_fabric_loads_unchanged(demand: Demand) -> None:
    fabric, text = saved(demand)
    again = from_json(text)
    assert again == fabric
    assert to_json(again) == text


def _broken(change: Any) -> list[str]:
    """Return the places of the problems of a saved fabric after a change."""
    data = json.loads(saved(H100)[1])
    change(data)
    with pytest.raises(InputError) as caught:
        from_json(json.dumps(data), "f.json")
    return [problem.where for problem in caught.value.problems]


def test_corrupted_fabric_raises_input_error_with_the_place() -> None:
    assert _broken(lambda data: data.pop("size")) == ["f.json"]
    assert _broken(lambda data: data.update(format="gpuyard-fabric-0")) == ["f.json: format"]
    assert _broken(lambda data: data["devices"]["asn"].__setitem__(0, "x")) == [
        "f.json: devices.asn[0]"
    ]
    assert _broken(lambda data: data["devices"]["role"].__setitem__(0, "$(id)")) == [
        "f.json: devices.role[0]"
    ]
    assert _broken(lambda data: data["interfaces"]["peer"].__setitem__(0, 999)) == [
        "f.json: interfaces.peer[0]"
    ]
    assert _broken(lambda data: data["devices"]["interface_count"].__setitem__(0, 1)) == [
        "f.json: devices.interface_count"
    ]
    assert _broken(lambda data: data["demand"].update(leef="x")) != []
    with pytest.raises(InputError, match="not JSON"):
        from_json("{")


def test_demand_file_accepts_units() -> None:
    text = """
server_count: 128
nic: 400Gbps
leaf: qfx5240
oversubscription: 2
cables: {server: 3m, spine: 30m}
"""
    demand = decode(read_yaml(text, "fabric.yaml").root, Demand, Keys.BARE)
    assert demand == Demand(
        server_count=128,
        nic_bits_per_s=400e9,
        leaf="qfx5240",
        oversubscription_ratio=2.0,
        cables=CableLengths(server_m=3.0, spine_m=30.0),
    )
