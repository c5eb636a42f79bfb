"""Tenants: the owner of each server port, and a VRF per tenant."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.errors import Problem
from gpuyard.fabric.demand import Demand, Tenant
from gpuyard.fabric.fabric import Vrf

Owners = dict[tuple[int, int], str]  # (host, rail), both from 0 -> the tenant's name


def owners(demand: Demand) -> Owners:
    """Return the tenant of each host port; ports without a tenant are in no VRF."""
    return {
        (demand.attached_count + server, rail): tenant.name
        for tenant in demand.tenants
        for server, rail in _ports(tenant, demand)
    }


def vrfs(demand: Demand) -> tuple[Vrf, ...]:
    """Return a VRF per tenant, in their order."""
    first = demand.pools.first_vni
    return tuple(
        Vrf(name=tenant.name, vni=vni, route_target=f"target:{vni}:1")
        for vni, tenant in enumerate(demand.tenants, start=first)
    )


def tenant_problems(demand: Demand) -> Iterator[Problem]:
    """Yield what is wrong with the tenants: none, duplicate names, or two on one port."""
    if demand.has_overlay != bool(demand.tenants):
        yield Problem(
            where="tenants",
            what=f"tenancy is {demand.tenancy} with {len(demand.tenants)} tenants",
            fix="list the tenants under tenants, with tenancy: server or gpu"
            if demand.has_overlay
            else "set tenancy: server or gpu, or remove the tenants",
        )
    seen: set[str] = set()
    taken: Owners = {}
    for index, tenant in enumerate(demand.tenants):
        where = f"tenants[{index}]"
        if tenant.name in seen or not tenant.name or not tenant.name.replace("-", "").isalnum():
            yield Problem(
                where=where,
                what=f'"{tenant.name}" is a duplicate or not a plain name',
                fix="use unique names of letters, digits and hyphens",
            )
        seen.add(tenant.name)
        yield from _placed(where, tenant, demand)
        clash = next((port for port in _ports(tenant, demand) if port in taken), None)
        if clash is not None:
            yield Problem(
                where=where,
                what=f"server {clash[0] + 1} rail {clash[1]} already belongs to {taken[clash]}",
                fix="assign each server port to one tenant",
            )
        taken |= dict.fromkeys(_ports(tenant, demand), tenant.name)


def _placed(where: str, tenant: Tenant, demand: Demand) -> Iterator[Problem]:
    last = tenant.first_server + tenant.server_count - 1
    if last > demand.final_count:
        yield Problem(
            where=where,
            what=f"{tenant.name} ends at server {last}, and there are {demand.final_count}",
            fix="use fewer servers, or start earlier",
        )
    if any(not 0 <= rail < demand.rails for rail in tenant.rails):
        yield Problem(
            where=where,
            what=f"{tenant.name} has a rail outside 0 to {demand.rails - 1}",
            fix="number rails from 0",
        )
    if tenant.rails and demand.tenancy == "server":
        yield Problem(
            where=where,
            what=f"{tenant.name} has rails, but tenancy is by server",
            fix="remove the rails, or use tenancy: gpu",
        )


def _ports(tenant: Tenant, demand: Demand) -> Iterator[tuple[int, int]]:
    first = tenant.first_server - 1
    for server in range(first, first + tenant.server_count):
        for rail in tenant.rails or range(demand.rails):
            yield server, rail
