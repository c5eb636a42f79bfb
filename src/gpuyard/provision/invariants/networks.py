"""Invariants of networks: NICs of a machine, their VPCs, address ranges, GKE multi-networking."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from gpuyard.errors import Finding
from gpuyard.provision.artefact_document import ArtefactDocument, ValueView
from gpuyard.provision.invariants.capacity import instance_zone
from gpuyard.provision.invariants.facts import MachineFabric
from gpuyard.provision.invariants.lint_bundle import LintBundle, invariant
from gpuyard.provision.invariants.sources import TOOLKIT
from gpuyard.provision.validate.blueprint import blueprint_modules, resolved_setting

DRANET_LABEL = "cloud.google.com/gke-networking-dra-driver"
DEFAULT_MTU_BYTES = 1460  # of a VPC


@invariant(
    "all-nics",
    applies_to="Instance, InstanceTemplate",
    source="Compute Engine and Toolkit blueprints (2026-06-25)",
)
def instance_has_all_nics(bundle: LintBundle) -> Iterator[Finding]:
    """All data NICs of the fabric, with the right type and one subnet each, or host NICs only."""
    for properties in bundle.of_kind("InstanceProperties"):
        fabric = bundle.fabric_of(properties["machineType"])
        nics = properties["networkInterfaces"]
        if fabric is None or len(nics.items) <= fabric.host_nic_count:
            continue  # a single node needs no fabric
        data_nics = _data_nics(nics, fabric)
        if len(data_nics) != fabric.data_nic_count:
            yield nics.error(
                f"{len(data_nics)} of {fabric.data_nic_count} {fabric.data_nic_type} NICs "
                f"for {fabric.label} on {fabric.name}",
                f"add {fabric.data_nic_count} data NICs, or only the host NICs",
            )
        host_count = len(nics.items) - len(data_nics)
        if fabric.data_nic_type == "MRDMA" and host_count != fabric.host_nic_count:
            yield nics.error(
                f"{host_count} host NICs; {fabric.name} has {fabric.host_nic_count}",
                f"list {fabric.host_nic_count} GVNIC interfaces first",
            )
        yield from _nic_types(nics, data_nics, fabric)
        yield from _nic_networks(data_nics, fabric)


def _data_nics(nics: ValueView, fabric: MachineFabric) -> tuple[ValueView, ...]:
    if fabric.data_nic_type == "MRDMA":
        return tuple(nic for nic in nics.items if nic["nicType"].text == "MRDMA")
    return nics.items[fabric.host_nic_count :]


def _nic_types(
    nics: ValueView, data_nics: tuple[ValueView, ...], fabric: MachineFabric
) -> Iterator[Finding]:
    allowed: set[str] = {"GVNIC", fabric.data_nic_type}
    if fabric.architecture == "arm64":
        allowed.add("IDPF")
    for nic in nics.items:
        nic_type = nic["nicType"]
        if nic_type.text not in allowed:
            expected = fabric.data_nic_type if nic in data_nics else "GVNIC"
            what = f"nicType is {nic_type.text or 'not set'} on {fabric.name}"
            yield nic_type.error(what, f"write {expected}")


def _nic_networks(data_nics: tuple[ValueView, ...], fabric: MachineFabric) -> Iterator[Finding]:
    # RDMA NICs share one VPC, with a subnet each; the others have a VPC each.
    networks = [nic["network"].text for nic in data_nics if nic["network"].text]
    subnets = [nic["subnetwork"].text for nic in data_nics if nic["subnetwork"].text]
    network_count = len(set(networks))
    if fabric.data_nic_type == "MRDMA":
        if network_count > 1:
            what = f"RDMA NICs in {network_count} VPCs"
            yield data_nics[0]["network"].error(what, "put them in one VPC with the RoCE profile")
    elif network_count < len(networks):
        what = f"{len(networks)} data NICs in {network_count} VPCs"
        yield data_nics[0]["network"].error(what, "use a separate VPC per NIC")
    if len(set(subnets)) < len(subnets) and "metal" not in fabric.name:
        what = f"{len(subnets)} data NICs in {len(set(subnets))} subnets"
        yield data_nics[0]["subnetwork"].error(what, "use a separate subnet per NIC")


@invariant("pool-networks", applies_to="NodePool, blueprint", source=TOOLKIT)
def pool_has_all_networks(bundle: LintBundle) -> Iterator[Finding]:
    """A node pool has all additional networks of its fabric, or the automatic profile, or none."""
    for pool in bundle.of_kind("NodePool"):
        fabric = bundle.fabric_of(pool.at("config", "machineType"))
        networks = pool.at("networkConfig", "additionalNodeNetworkConfigs")
        has_profile = bool(pool.at("networkConfig", "acceleratorNetworkProfile").text)
        if has_profile and networks.items:
            yield networks.error(
                "acceleratorNetworkProfile creates the networks itself", "remove one of the two"
            )
        if fabric is None or has_profile or not networks.items:
            continue
        expected = fabric.data_nic_count + fabric.host_nic_count - 1
        if len(networks.items) != expected:
            yield networks.error(
                f"{len(networks.items)} additional networks; "
                f"{fabric.label} on {fabric.name} has {expected}",
                f"list all {expected}, or set acceleratorNetworkProfile to auto",
            )
    for document in bundle.documents:
        if document.kind == "blueprint":
            yield from _blueprint_networks(bundle, document)


def _blueprint_networks(bundle: LintBundle, document: ArtefactDocument) -> Iterator[Finding]:
    requests = (row for row in bundle.capacities if row.document.kind == "blueprint")
    names = sorted({capacity.machine for capacity in requests})
    fabrics = [fabric for name in names if (fabric := bundle.facts.fabric(name))]
    if len({fabric.data_nic_count for fabric in fabrics}) != 1:
        return
    fabric = fabrics[0]
    for module in blueprint_modules(document):
        settings = module.view["settings"]
        if module.source.endswith("network/multivpc") and fabric.data_nic_type == "GVNIC":
            view = settings["network_count"]
            count = resolved_setting(module, "network_count")
        elif module.source.endswith("network/gpu-rdma-vpc"):
            view = settings.at("subnetworks_template", "count")
            count = view.value
        else:
            continue
        if isinstance(count, int) and count != fabric.data_nic_count:
            what = f"{count} networks; {fabric.name} has {fabric.data_nic_count} data NICs"
            yield view.error(what, f"write {fabric.data_nic_count}")


def _vpcs_by_name(bundle: LintBundle) -> dict[str, ValueView]:
    networks = (view for view in bundle.of_kind("Network") if view.document.kind == "google")
    return {network["name"].text: network for network in networks}


@invariant(
    "roce-zone",
    applies_to="Network with Instance",
    source="AI Hypercomputer networking overview (2026-04-06)",
)
def roce_network_is_in_zone(bundle: LintBundle) -> Iterator[Finding]:
    """The VPC of an RDMA NIC has the RoCE profile of the machine's zone."""
    vpcs = _vpcs_by_name(bundle)
    for properties in bundle.of_kind("InstanceProperties"):
        fabric = bundle.fabric_of(properties["machineType"])
        zone = instance_zone(properties)
        for nic in properties["networkInterfaces"].items:
            vpc = vpcs.get(nic["network"].last_segment)
            if nic["nicType"].text != "MRDMA" or vpc is None or fabric is None:
                continue
            profile = vpc["networkProfile"]
            suffix = f"-{fabric.network_profile}"
            if not profile.text.endswith(suffix):
                yield profile.error(
                    f"the VPC of an RDMA NIC has the profile {profile.last_segment or 'none'}",
                    f"create it with networkProfile .../networkProfiles/ZONE{suffix}",
                )
            elif zone and profile.last_segment != f"{zone}{suffix}":
                yield profile.error(
                    f"the RoCE VPC is in {profile.last_segment.removesuffix(suffix)}, "
                    f"the machine in {zone}",
                    f"use {zone}{suffix}",
                )


@invariant("data-mtu", applies_to="Network with Instance", source="Toolkit blueprints (2026-06-25)")
def data_network_mtu(bundle: LintBundle) -> Iterator[Finding]:
    """Data networks have MTU 8244 for TCPX and TCPXO, 8896 for RDMA."""
    vpcs = _vpcs_by_name(bundle)
    checked: set[str] = set()
    for properties in bundle.of_kind("InstanceProperties"):
        fabric = bundle.fabric_of(properties["machineType"])
        if fabric is None or fabric.mtu_bytes is None:
            continue
        for nic in _data_nics(properties["networkInterfaces"], fabric):
            name = nic["network"].last_segment
            vpc = vpcs.get(name)
            if vpc is None or vpc["networkProfile"].text or name in checked:
                continue  # a RoCE profile sets the MTU itself
            checked.add(name)
            mtu = vpc["mtu"]
            if mtu.number != fabric.mtu_bytes:
                yield mtu.warning(
                    f"MTU {mtu.number or DEFAULT_MTU_BYTES:g}; "
                    f"{fabric.label} needs {fabric.mtu_bytes}",
                    f"set mtu to {fabric.mtu_bytes}",
                )


@invariant(
    "subnets-apart",
    applies_to="Subnetwork, Cluster, Filestore, blueprint",
    source="Compute Engine: multiple network interfaces",
)
def subnets_do_not_overlap(bundle: LintBundle) -> Iterator[Finding]:
    """Address ranges do not overlap."""
    ranges: list[tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ValueView]] = []
    for view in _address_ranges(bundle):
        try:
            ranges.append((ipaddress.ip_network(view.text, strict=False), view))
        except ValueError:
            # GKE accepts a bare prefix length; blueprints have references.
            if not re.match(r"/\d+$|\$\(|\(\(", view.text):
                yield view.error(f'"{view.text}" is not an address range', "write e.g. 10.0.0.0/20")
    for index, (network, view) in enumerate(ranges):
        for other, other_view in ranges[:index]:
            if network.version == other.version and network.overlaps(other):
                what = f"{view.text} overlaps {other_view.text} of {other_view.where}"
                yield view.error(what, "use a separate range")


def _address_ranges(bundle: LintBundle) -> Iterator[ValueView]:
    views: list[ValueView] = []
    for subnet in bundle.of_kind("Subnetwork"):
        views.append(subnet["ipCidrRange"])
        views += [secondary["ipCidrRange"] for secondary in subnet["secondaryIpRanges"].items]
    for cluster in bundle.of_kind("Cluster"):
        policy = cluster["ipAllocationPolicy"]
        views += [policy["clusterIpv4CidrBlock"], policy["servicesIpv4CidrBlock"]]
    for filestore in bundle.of_kind("Instance"):
        if filestore.document.type.startswith("file"):
            reserved = [network["reservedIpRange"] for network in filestore["networks"].items]
            views += [view for view in reserved if "/" in view.text]
    yield from (view for view in views if view.text)
    for document in bundle.documents:
        if document.kind == "blueprint":
            for name, view in document.root["vars"].pairs:
                if name.endswith("_range") and re.fullmatch(r"[\d.]+/\d+", view.text):
                    yield view


@invariant("dranet-driver", applies_to="NodePool", source=TOOLKIT)
def dranet_pool_runs_driver(bundle: LintBundle) -> Iterator[Finding]:
    """A pool with acceleratorNetworkProfile has the label of the DRA network driver."""
    for pool in bundle.of_kind("NodePool"):
        labels = pool.at("config", "labels")
        has_profile = pool.at("networkConfig", "acceleratorNetworkProfile").text
        if has_profile and labels[DRANET_LABEL].text != "true":
            yield labels.error(
                "acceleratorNetworkProfile without the DRA network driver: pods get no NICs",
                f'add the label {DRANET_LABEL}: "true" to config.labels',
            )


@invariant("multi-networking", applies_to="Cluster", source=TOOLKIT)
def cluster_enables_multi_networking(bundle: LintBundle) -> Iterator[Finding]:
    """A cluster with additional networks has Dataplane V2 and multi-networking."""
    for cluster in bundle.of_kind("Cluster"):
        network = cluster["networkConfig"]
        configs = [pool["networkConfig"] for pool in cluster["nodePools"].items]
        has_extra = any(config["additionalNodeNetworkConfigs"].items for config in configs)
        has_profile = any(config["acceleratorNetworkProfile"].text for config in configs)
        is_v2 = network["datapathProvider"].text == "ADVANCED_DATAPATH"
        if (has_extra or has_profile) and not is_v2:
            yield network.error(
                "pools with several networks need Dataplane V2",
                'set networkConfig.datapathProvider to "ADVANCED_DATAPATH"',
            )
        if has_extra and not network["enableMultiNetworking"].is_true:
            yield network.error(
                "pods cannot use the additional networks",
                "set networkConfig.enableMultiNetworking to true",
            )
