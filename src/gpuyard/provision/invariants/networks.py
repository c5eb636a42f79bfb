"""Rules of networks: NICs of a machine, the VPCs behind them, addresses, and what GKE needs to pass them to pods."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from gpuyard.provision.invariants.bundle import Bundle, Hit
from gpuyard.provision.invariants.facts import Fabric
from gpuyard.provision.part import View
from gpuyard.provision.validate.blueprint import BlueprintModule, blueprint_modules, resolved_setting

__all__ = [
    "data_network_mtu",
    "dranet_pool_runs_its_driver",
    "gke_passes_networks_on",
    "nics_are_all_there",
    "pool_networks_are_all_there",
    "roce_network_is_in_the_zone",
    "subnets_do_not_overlap",
]

DRANET_LABEL = "cloud.google.com/gke-networking-dra-driver"


def nics_are_all_there(bundle: Bundle) -> Iterator[Hit]:
    """An instance has the NICs of its fabric, all of them, or only those of its host."""
    for view in bundle.of("InstanceProperties"):
        fabric = bundle.facts.fabric(view["machineType"].text.rsplit("/", 1)[-1])
        nics = view["networkInterfaces"]
        if fabric is None or len(nics.items) <= fabric.host_nic_count:
            continue  # one node alone needs no fabric
        data = _data_nics(nics, fabric)
        if len(data) != fabric.data_nic_count:
            count = f"{len(data)} of {fabric.data_nic_count} {fabric.data_nic_type} NICs"
            what = f"{count} for {fabric.label} on {fabric.name}"
            yield Hit(view=nics, what=what, fix=f"give it {fabric.data_nic_count} data NICs, or only its host NICs")
        host = len(nics.items) - len(data)
        if fabric.data_nic_type == "MRDMA" and host != fabric.host_nic_count:
            what = f"{host} host NICs beside the RDMA NICs; {fabric.name} has {fabric.host_nic_count}"
            yield Hit(view=nics, what=what, fix=f"give it {fabric.host_nic_count} GVNIC interfaces first")
        yield from _nic_types(nics, data, fabric)
        yield from _nic_networks(data, fabric)


def _data_nics(nics: View, fabric: Fabric) -> tuple[View, ...]:
    """The NICs of the fabric: MRDMA ones, or all but the first."""
    if fabric.data_nic_type == "MRDMA":
        return tuple(nic for nic in nics.items if nic["nicType"].text == "MRDMA")
    return nics.items[fabric.host_nic_count :]


def _nic_types(nics: View, data: tuple[View, ...], fabric: Fabric) -> Iterator[Hit]:
    """No NIC of another kind."""
    allowed = (
        {"GVNIC", fabric.data_nic_type, "IDPF"} if fabric.architecture == "arm64" else {"GVNIC", fabric.data_nic_type}
    )
    for nic in nics.items:
        if nic["nicType"].text not in allowed:
            wanted = fabric.data_nic_type if nic in data else "GVNIC"
            what = f"nicType is {nic['nicType'].text or 'not set'} on {fabric.name}"
            yield Hit(view=nic["nicType"], what=what, fix=f"write {wanted}")


def _nic_networks(data: tuple[View, ...], fabric: Fabric) -> Iterator[Hit]:
    """RDMA NICs share one VPC and have a subnet each; the others have a VPC each."""
    networks = [nic["network"].text for nic in data if nic["network"].text]
    subnets = [nic["subnetwork"].text for nic in data if nic["subnetwork"].text]
    if fabric.data_nic_type == "MRDMA":
        if len(set(networks)) > 1:
            what = f"RDMA NICs in {len(set(networks))} VPCs"
            yield Hit(view=data[0]["network"], what=what, fix="put them in one VPC with the RoCE profile")
    elif len(set(networks)) < len(networks):
        what = f"{len(networks)} data NICs in {len(set(networks))} VPCs"
        yield Hit(view=data[0]["network"], what=what, fix="give each NIC a VPC of its own")
    if len(set(subnets)) < len(subnets) and "metal" not in fabric.name:
        what = f"{len(subnets)} data NICs in {len(set(subnets))} subnets"
        yield Hit(view=data[0]["subnetwork"], what=what, fix="give each NIC a subnet of its own")


def pool_networks_are_all_there(bundle: Bundle) -> Iterator[Hit]:
    """A node pool has all the additional networks of its fabric, or the automatic profile, or none."""
    for pool in bundle.of("NodePool"):
        fabric = bundle.facts.fabric(pool.at("config", "machineType").text)
        extra = pool.at("networkConfig", "additionalNodeNetworkConfigs")
        automatic = pool.at("networkConfig", "acceleratorNetworkProfile")
        if automatic.text and extra.items:
            yield Hit(
                view=extra, what="acceleratorNetworkProfile makes the networks itself", fix="remove one of the two"
            )
        if fabric is None or automatic.text or not extra.items:
            continue
        wanted = fabric.data_nic_count + fabric.host_nic_count - 1
        if len(extra.items) != wanted:
            what = f"{len(extra.items)} additional networks; {fabric.label} on {fabric.name} has {wanted}"
            yield Hit(view=extra, what=what, fix=f"list all {wanted}, or set acceleratorNetworkProfile to auto")
    for part in bundle.parts:
        if part.kind == "blueprint":
            yield from _blueprint_networks(bundle, blueprint_modules(part))


def _blueprint_networks(bundle: Bundle, modules: tuple[BlueprintModule, ...]) -> Iterator[Hit]:
    """The network modules of a blueprint make as many networks as its machines have NICs."""
    machines = {capacity.machine for capacity in bundle.capacities if capacity.part.kind == "blueprint"}
    fabrics = [fabric for name in sorted(machines) if (fabric := bundle.facts.fabric(name))]
    if len({fabric.data_nic_count for fabric in fabrics}) != 1:
        return
    wanted, name = fabrics[0].data_nic_count, fabrics[0].name
    for module in modules:
        settings = module.view["settings"]
        if module.source.endswith("network/multivpc") and fabrics[0].data_nic_type == "GVNIC":
            count, place = resolved_setting(module, "network_count"), settings["network_count"]
        elif module.source.endswith("network/gpu-rdma-vpc"):
            place = settings.at("subnetworks_template", "count")
            count = place.value
        else:
            continue
        if isinstance(count, int) and count != wanted:
            what = f"{count} networks; {name} has {wanted} data NICs"
            yield Hit(view=place, what=what, fix=f"write {wanted}")


def roce_network_is_in_the_zone(bundle: Bundle) -> Iterator[Hit]:
    """A RoCE VPC belongs to one zone: that of the machines; and an RDMA NIC is in such a VPC."""
    networks = {view["name"].text: view for view in bundle.of("Network") if view.part.kind == "google"}
    for view in bundle.of("InstanceProperties"):
        fabric = bundle.facts.fabric(view["machineType"].text.rsplit("/", 1)[-1])
        zone = View(part=view.part, value=view.part.parameters)["zone"].text or view["zone"].text.rsplit("/", 1)[-1]
        for nic in view["networkInterfaces"].items:
            network = networks.get(nic["network"].text.rsplit("/", 1)[-1])
            if nic["nicType"].text != "MRDMA" or network is None or fabric is None:
                continue
            profile = network["networkProfile"].text.rsplit("/", 1)[-1]
            if not profile.endswith(f"-{fabric.network_profile}"):
                what = f"the VPC of an RDMA NIC has the profile {profile or 'none'}"
                fix = f"create it with networkProfile .../networkProfiles/ZONE-{fabric.network_profile}"
                yield Hit(view=network["networkProfile"], what=what, fix=fix)
            elif zone and profile != f"{zone}-{fabric.network_profile}":
                what = f"the RoCE VPC is of {profile.removesuffix('-' + fabric.network_profile)}, the machine in {zone}"
                yield Hit(view=network["networkProfile"], what=what, fix=f"use {zone}-{fabric.network_profile}")


def data_network_mtu(bundle: Bundle) -> Iterator[Hit]:
    """The VPC of a data NIC has the fabric's MTU."""
    networks = {view["name"].text: view for view in bundle.of("Network") if view.part.kind == "google"}
    told: set[str] = set()
    for view in bundle.of("InstanceProperties"):
        fabric = bundle.facts.fabric(view["machineType"].text.rsplit("/", 1)[-1])
        if fabric is None or fabric.mtu_bytes is None:
            continue
        for nic in _data_nics(view["networkInterfaces"], fabric):
            network = networks.get(nic["network"].text.rsplit("/", 1)[-1])
            if network is None or network["networkProfile"].text or network.path + network.where in told:
                continue  # a RoCE profile fixes the MTU itself
            told.add(network.path + network.where)
            if network["mtu"].number != fabric.mtu_bytes:
                what = f"MTU {network['mtu'].number or 1460:g}; {fabric.label} wants {fabric.mtu_bytes}"
                yield Hit(view=network["mtu"], what=what, fix=f"set mtu to {fabric.mtu_bytes}", severity="warning")


def subnets_do_not_overlap(bundle: Bundle) -> Iterator[Hit]:
    """No two address ranges of a deployment overlap: a machine may have a NIC in both."""
    ranges: list[tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, View]] = []
    for view in _ranges(bundle):
        try:
            ranges.append((ipaddress.ip_network(view.text, strict=False), view))
        except ValueError:
            if not re.match(
                r"/\d+$|\$\(|\(\(", view.text
            ):  # GKE takes a bare prefix length; blueprints have references
                yield Hit(view=view, what=f'"{view.text}" is not an address range', fix="write e.g. 10.0.0.0/20")
    for index, (network, view) in enumerate(ranges):
        for other, place in ranges[:index]:
            if network.version == other.version and network.overlaps(other):
                what = f"{view.text} overlaps {place.text} of {place.where}"
                yield Hit(view=view, what=what, fix="give it a range of its own")


def _ranges(bundle: Bundle) -> Iterator[View]:
    """Every address range that a deployment lays claim to."""
    for subnet in bundle.of("Subnetwork"):
        yield from (view for view in (subnet["ipCidrRange"],) if view.text)
        for secondary in subnet["secondaryIpRanges"].items:
            if secondary["ipCidrRange"].text:
                yield secondary["ipCidrRange"]
    for cluster in bundle.of("Cluster"):
        policy = cluster["ipAllocationPolicy"]
        for key in ("clusterIpv4CidrBlock", "servicesIpv4CidrBlock"):
            if policy[key].text:
                yield policy[key]
    for filestore in bundle.of("Instance"):
        if filestore.part.type.startswith("file"):
            for network in filestore["networks"].items:
                if "/" in network["reservedIpRange"].text:
                    yield network["reservedIpRange"]
    for part in bundle.parts:
        if part.kind == "blueprint":
            yield from _blueprint_ranges(part.root)


def _blueprint_ranges(root: View) -> Iterator[View]:
    """Ranges of a blueprint's subnets, and its variables that are called ranges."""
    for name, view in root["vars"].pairs:
        if name.endswith("_range") and re.fullmatch(r"[\d.]+/\d+", view.text):
            yield view


def dranet_pool_runs_its_driver(bundle: Bundle) -> Iterator[Hit]:
    """A pool whose networks GKE makes has the label that puts the DRA driver of networks on its nodes."""
    for pool in bundle.of("NodePool"):
        labels = pool.at("config", "labels")
        if pool.at("networkConfig", "acceleratorNetworkProfile").text and labels[DRANET_LABEL].text != "true":
            what = "acceleratorNetworkProfile without the driver that hands its NICs to pods"
            yield Hit(view=labels, what=what, fix=f'add the label {DRANET_LABEL}: "true" to config.labels')


def gke_passes_networks_on(bundle: Bundle) -> Iterator[Hit]:
    """A cluster whose pools have additional networks has Dataplane V2 and multi-networking."""
    for cluster in bundle.of("Cluster"):
        pools = cluster["nodePools"].items
        network = cluster["networkConfig"]
        extra = any(pool.at("networkConfig", "additionalNodeNetworkConfigs").items for pool in pools)
        automatic = any(pool.at("networkConfig", "acceleratorNetworkProfile").text for pool in pools)
        if (extra or automatic) and network["datapathProvider"].text != "ADVANCED_DATAPATH":
            what = "pools with several networks need Dataplane V2"
            yield Hit(view=network, what=what, fix='set networkConfig.datapathProvider to "ADVANCED_DATAPATH"')
        if extra and not network["enableMultiNetworking"].is_true:
            what = "pods cannot ask for the additional networks"
            yield Hit(view=network, what=what, fix="set networkConfig.enableMultiNetworking to true")
