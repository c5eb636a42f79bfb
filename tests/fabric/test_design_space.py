"""Every design that `design` returns passes `verify`, over the space of options."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.catalog.load import load_catalog
from gpuyard.errors import Infeasible, InputError
from gpuyard.fabric.demand import AttachedHosts, Demand, Tenant
from gpuyard.fabric.design import design
from gpuyard.fabric.verify.verify import verify

pytestmark = pytest.mark.slow
CATALOG = load_catalog()
LEAVES = (None, *(switch.name for switch in CATALOG.switches if "leaf" in switch.roles))
TENANT = Tenant(name="blue", first_server=1, server_count=1)


@st.composite
def demands(draw: st.DrawFn) -> Demand:
    """A demand of any purpose, speed, shape, switch, OS, load balancing and tenancy."""
    purpose = draw(st.sampled_from(["backend", "backend", "storage", "frontend", "management"]))
    rails = draw(st.sampled_from([1, 2, 4, 8]))
    tenancy = draw(st.sampled_from(["none", "none", "server"]))
    attached = draw(st.sampled_from([(), (), (AttachedHosts(name="vast", count=5),)]))
    servers = draw(st.integers(min_value=1, max_value=80))
    return Demand(
        server_count=servers,
        grow_to_count=draw(st.sampled_from([None, servers + 9])),
        nic_bits_per_s=draw(st.sampled_from([1e9, 100e9, 200e9, 400e9, 800e9])),
        rails=rails,
        servers_per_domain=draw(st.sampled_from([1, 1, 18])),
        rails_per_leaf=draw(st.sampled_from([1, 1, 2, rails])),
        attached=attached if purpose != "backend" else (),
        gpus_per_server=8,
        purpose=purpose,  # type: ignore[arg-type]
        shape=draw(
            st.sampled_from(["auto", "auto", "two-tier", "three-tier", "rail-only", "single-leaf"])
        ),
        planes=draw(st.sampled_from([1, 1, 2])),
        oversubscription_ratio=draw(st.sampled_from([1.0, 2.0, 3.0])),
        min_spines=draw(st.sampled_from([1, 2, 4])),
        uplink_bits_per_s=draw(st.sampled_from([None, None, 400e9, 800e9])),
        leaf=draw(st.sampled_from(LEAVES)),
        os=draw(st.sampled_from([None, None, "cumulus", "sonic", "junos", "eos", "nxos", "frr"])),
        addressing=draw(st.sampled_from(["ipv4", "unnumbered"])),
        tenancy=tenancy,  # type: ignore[arg-type]
        tenants=(TENANT,) if tenancy != "none" else (),
        balancing=draw(
            st.sampled_from(
                [None, None, "ecmp", "flowlet", "per-packet", "adaptive", "global", "spray"]
            )
        ),
    )


@settings(max_examples=60)
@given(demand=demands())
def test_every_design_passes_verification(demand: Demand) -> None:
    try:
        fabric = design(demand, CATALOG)
    except InputError:
        return
    if isinstance(fabric, Infeasible):
        assert fabric.what
        assert fabric.fix
        return
    assert [str(finding) for finding in verify(fabric, CATALOG).errors] == []
