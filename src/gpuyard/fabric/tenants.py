"""Tenants: which port belongs to whom, and the routing table of each."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.errors import Problem
from gpuyard.fabric.demand import Demand, Tenant
from gpuyard.fabric.fabric import Vrf

__all__ = ["owners", "tenant_problems", "vrfs"]

Owners = dict[tuple[int, int], str]  # (server, rail), both from 0 -> the tenant's name


def owners(demand: Demand) -> Owners:
    """The tenant of each server port; a port that nobody rents is in no VRF."""
    return {port: tenant.name for tenant in demand.tenants for port in _ports(tenant, demand)}


def vrfs(demand: Demand) -> tuple[Vrf, ...]:
    """The routing tables of the tenants, in the order in which they are named."""
    first = demand.pools.first_vni
    return tuple(
        Vrf(name=tenant.name, vni=vni, route_target=f"target:{vni}:1")
        for vni, tenant in enumerate(demand.tenants, start=first)
    )


def tenant_problems(demand: Demand) -> Iterator[Problem]:
    """What is wrong with the tenants: none, twice the same, or two on one port."""
    if demand.has_overlay != bool(demand.tenants):
        yield Problem(
            where="tenants",
            what=f"tenancy is {demand.tenancy} and {len(demand.tenants)} tenants are named",
            fix="name the tenants under tenants, with tenancy: server or gpu" if demand.has_overlay
            else "set tenancy: server or gpu, or remove the tenants",
        )  # fmt: skip
    seen: set[str] = set()
    taken: Owners = {}
    for index, tenant in enumerate(demand.tenants):
        where = f"tenants[{index}]"
        if tenant.name in seen or not tenant.name or not tenant.name.replace("-", "").isalnum():
            yield Problem(where=where, what=f'"{tenant.name}" is used twice or is no plain name',
                          fix="give each tenant a name of letters, digits and hyphens")  # fmt: skip
        seen.add(tenant.name)
        yield from _placed(where, tenant, demand)
        clash = next((port for port in _ports(tenant, demand) if port in taken), None)
        if clash is not None:
            yield Problem(where=where, what=f"server {clash[0] + 1} rail {clash[1]} belongs to {taken[clash]} already",
                          fix="give each server port to one tenant")  # fmt: skip
        taken |= dict.fromkeys(_ports(tenant, demand), tenant.name)


def _placed(where: str, tenant: Tenant, demand: Demand) -> Iterator[Problem]:
    """Servers and rails that are not there, and rails where whole servers are isolated."""
    last = tenant.first_server + tenant.server_count - 1
    if last > demand.final_count:
        yield Problem(where=where, what=f"{tenant.name} ends at server {last}, and there are {demand.final_count}",
                      fix="take fewer servers, or begin earlier")  # fmt: skip
    if any(not 0 <= rail < demand.rails for rail in tenant.rails):
        yield Problem(where=where, what=f"{tenant.name} names a rail that is not 0 to {demand.rails - 1}",
                      fix="number the rails from 0")  # fmt: skip
    if tenant.rails and demand.tenancy == "server":
        yield Problem(where=where, what=f"{tenant.name} names rails, and tenants have whole servers here",
                      fix="remove the rails, or use tenancy: gpu")  # fmt: skip


def _ports(tenant: Tenant, demand: Demand) -> Iterator[tuple[int, int]]:
    """The server ports of a tenant."""
    first = tenant.first_server - 1
    for server in range(first, first + tenant.server_count):
        for rail in tenant.rails or range(demand.rails):
            yield server, rail
