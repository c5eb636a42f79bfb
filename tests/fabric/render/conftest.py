"""Small fabrics that every renderer is tried on."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from gpuyard.catalog.load import load_catalog
from gpuyard.fabric.demand import Demand, Tenant
from gpuyard.fabric.design import design
from gpuyard.fabric.fabric import Fabric

CATALOG = load_catalog()
SWITCHES = {"junos": "qfx5240-64od", "sonic": "sn5600", "cumulus": "sn5600", "eos": "7060x6-64pe",
            "nxos": "n9364e-sg2", "frr": "sn5600"}  # fmt: skip
TENANTS = (
    Tenant(name="red", first_server=1, server_count=2),
    Tenant(name="blue", first_server=3, server_count=1),
)


@cache
def small(os: str, **more: object) -> Fabric:
    """Three servers of two rails, two leaves with two uplinks each, two spines."""
    fields: dict[str, object] = {
        "server_count": 3,
        "rails": 2,
        "gpus_per_server": 2,
        "nic_bits_per_s": 400e9,
        "min_spines": 2,
        "leaf": SWITCHES[os],
        "spine": SWITCHES[os],
        "os": os,
        "oversubscription_ratio": 63.0,
    }
    fabric = design(Demand(**(fields | more)), CATALOG)  # type: ignore[arg-type]
    assert isinstance(fabric, Fabric), fabric
    return fabric


@pytest.fixture(scope="session")
def make() -> Callable[..., Fabric]:
    """The maker of small fabrics."""
    return small


@pytest.fixture(scope="session")
def variants() -> Callable[[str], dict[str, Fabric]]:
    """The variants of a fabric that every OS must be able to write."""
    return lambda os: {
        "ipv4": small(os),
        "unnumbered": small(os, addressing="unnumbered"),
        "tenants": small(os, tenancy="server", tenants=TENANTS),
        "tenants-unnumbered": small(os, addressing="unnumbered", tenancy="server", tenants=TENANTS),
        "frontend": small(os, purpose="frontend", rails=1, oversubscription_ratio=3.0),
    }
