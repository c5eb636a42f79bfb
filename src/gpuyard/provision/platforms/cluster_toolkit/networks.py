"""Network modules of a blueprint: host networks and the GPU fabric."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.document.frozen_json import Plain
from gpuyard.provision.deployment_settings import ResolvedSettings
from gpuyard.provision.invariants.facts import MachineFabric
from gpuyard.provision.platforms.cluster_toolkit.modules import Module, module

HOST, SECOND, RDMA, DATA = "net_0", "net_1", "rdma_net", "gpu_nets"
RANGES = {
    "net0_range": "192.168.0.0/19",
    "net1_range": "192.168.64.0/18",
    "rdma_range": "192.168.128.0/18",
}
DATA_RANGE = "10.0.0.0/9"
METAL_MTU = 4096  # host networks of A4X Max (Cluster Toolkit, a4xmax-bm-slurm-blueprint)
HOST_MTU = 8896


def network_ranges(fabric: MachineFabric | None) -> dict[str, Plain]:
    """Return the address ranges in the blueprint's variables."""
    names = ["net0_range"]
    if fabric is not None and fabric.host_nic_count > 1:
        names.append("net1_range")
    if fabric is not None and fabric.network_profile and not _is_metal(fabric):
        names.append("rdma_range")
    return {name: RANGES[name] for name in names}


def _is_metal(fabric: MachineFabric | None) -> bool:
    # On bare metal, Google creates the subnets of the fabric.
    return fabric is not None and fabric.network_profile.endswith("metal")


def network_modules(settings: ResolvedSettings, fabric: MachineFabric | None) -> Iterator[Module]:
    """Yield the network modules; an existing host network is only referenced."""
    name = settings.requested.network
    if name:
        yield module(
            HOST, "modules/network/pre-existing-vpc", network_name=name, subnetwork_name=name
        )
    else:
        yield _host(HOST, 0, fabric)
    if fabric is None:
        return
    if fabric.host_nic_count > 1:
        yield _host(SECOND, 1, fabric)
    if not fabric.network_profile:
        yield module(
            DATA,
            "modules/network/multivpc",
            network_name_prefix="$(vars.deployment_name)-data",
            global_ip_address_range=DATA_RANGE,
            network_count=fabric.data_nic_count,
            subnetwork_cidr_suffix=20,
            mtu=fabric.mtu_bytes,
        )
        return
    profile = (
        f"projects/$(vars.project_id)/global/networkProfiles/$(vars.zone)-{fabric.network_profile}"
    )
    template: dict[str, Plain] = {
        "name_prefix": "$(vars.deployment_name)-rdma-sub",
        "count": fabric.data_nic_count,
        "ip_range": "$(vars.rdma_range)",
        "region": "$(vars.region)",
    }
    network = module(
        RDMA,
        "modules/network/gpu-rdma-vpc",
        network_name="$(vars.deployment_name)-rdma",
        network_profile=f"https://www.googleapis.com/compute/beta/{profile}",
        network_routing_mode="REGIONAL",
    )
    options = network["settings"]
    assert isinstance(options, dict)
    options["subnetworks_template"] = None if _is_metal(fabric) else template
    yield network


def _host(name: str, number: int, fabric: MachineFabric | None) -> Module:
    metal = _is_metal(fabric)
    subnet: dict[str, Plain] = {
        "subnet_name": f"$(vars.deployment_name)-sub-{number}",
        "subnet_region": "$(vars.region)",
        "subnet_ip": f"$(vars.net{number}_range)",
        "subnet_private_access": True,
    }
    if metal:
        subnet |= {"stack_type": "IPV4_IPV6", "ipv6_access_type": "INTERNAL"}
    everything: list[Plain] = [{"protocol": "tcp"}, {"protocol": "udp"}, {"protocol": "icmp"}]
    rule: dict[str, Plain] = {
        "name": f"$(vars.deployment_name)-internal-{number}",
        "ranges": [f"$(vars.net{number}_range)"],
        "allow": everything,
    }
    mtu = METAL_MTU if metal else fabric.mtu_bytes if fabric and fabric.mtu_bytes else HOST_MTU
    return module(
        name,
        "modules/network/vpc",
        network_name=f"$(vars.deployment_name)-net-{number}",
        mtu=mtu,
        enable_ipv6_ula=True if metal else None,
        enable_internal_traffic=False,  # replaced by the rule below
        subnetworks=[subnet],
        firewall_rules=[rule],
    )


def additional_networks(fabric: MachineFabric | None) -> Plain:
    """Return the NICs of a node after its first; `use` adds those of TCPX and TCPXO."""
    if fabric is None or not fabric.network_profile:
        return None
    if not _is_metal(fabric):
        return f"$(concat({SECOND}.instance_additional_networks, {RDMA}.subnetwork_interfaces))"
    second: dict[str, Plain] = {
        "network": f"$({SECOND}.network_self_link)",
        "subnetwork": f"$({SECOND}.subnetwork_self_link)",
        "subnetwork_project": "$(vars.project_id)",
        "stack_type": "IPV4_IPV6",
    }
    data: dict[str, Plain] = {
        "network": f"$({RDMA}.network_self_link)",
        "subnetwork": "default-subnet-1-$(vars.deployment_name)-rdma",
        "subnetwork_project": "$(vars.project_id)",
        "nic_type": "MRDMA",
        "stack_type": "IPV6_ONLY",
    }
    return [second, *(dict(data) for _ in range(fabric.data_nic_count))]
