"""Linux with FRR: the daemons, the kernel's settings, links of tenants, and queues where the ports are a switch's."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.fabric.fabric import Device, Fabric, by_name
from gpuyard.fabric.lossless import Lossless
from gpuyard.fabric.render.files import File
from gpuyard.fabric.render.frr.bgp import frr_conf
from gpuyard.fabric.render.sessions import cable_lengths, vrfs_of

__all__ = ["FRR"]

DAEMONS = """\
bgpd=yes
bfdd=yes
vtysh_enable=yes
zebra_options="  -A 127.0.0.1 -s 90000000"
bgpd_options="   -A 127.0.0.1"
bfdd_options="   -A 127.0.0.1"
"""
SYSCTL = (
    "net.ipv4.ip_forward = 1",
    "net.ipv6.conf.all.forwarding = 1",
    "net.ipv4.fib_multipath_hash_policy = 1",  # ports too: RDMA flows differ in their source port alone
    "net.ipv4.fib_multipath_use_neigh = 1",
    "net.ipv4.conf.all.rp_filter = 0",  # the answer may come by another link
    "net.ipv4.conf.default.rp_filter = 0",
    "net.ipv4.neigh.default.gc_thresh3 = 16384",
    "net.ipv6.conf.all.accept_ra = 0",
)


class FRR:
    """Plain Linux with FRR."""

    def render(self, fabric: Fabric) -> Iterator[File]:
        """frr.conf, daemons, sysctl and the commands that set up links, for every switch."""
        switches = by_name(fabric.switches)
        cables = cable_lengths(fabric.topology, switches)
        for device in switches.values():
            folder = f"switches/{device.name}"
            yield File(path=f"{folder}/frr.conf", text=frr_conf(fabric, device, switches))
            yield File(path=f"{folder}/daemons", text=DAEMONS)
            yield File(path=f"{folder}/sysctl.conf", text="\n".join(SYSCTL) + "\n")
            yield File(path=f"{folder}/links.sh", text="\n".join(_links(fabric, device, cables)) + "\n")


def _links(fabric: Fabric, device: Device, cables: dict[tuple[str, str], float]) -> Iterator[str]:
    """Shell commands: MTU, tenants' devices, and the queues of ports that have them."""
    yield "#!/bin/sh"
    yield f"# {device.name}: run before FRR starts"
    yield "set -e"
    for port in device.interfaces:
        yield f"ip link set dev {port.port} mtu {port.mtu_bytes} up"
    yield from _tenant_links(fabric, device)
    if fabric.lossless.pfc.priorities:
        yield from _queues(fabric.lossless, device, cables)


def _tenant_links(fabric: Fabric, device: Device) -> Iterator[str]:
    """A VRF, a VXLAN device and its bridge for each tenant."""
    numbers = {vrf.name: vrf.vni for vrf in fabric.vrfs}
    for name, ports in vrfs_of(fabric, device).items():
        vni = numbers[name]
        yield f"ip link add {name} type vrf table {vni}"
        yield f"ip link set dev {name} up"
        yield f"ip link add br{vni} type bridge"
        yield f"ip link set dev br{vni} master {name} addrgenmode none"
        yield f"ip link add vni{vni} type vxlan id {vni} local {device.loopback} dstport 4789 nolearning"
        yield f"ip link set dev vni{vni} master br{vni} addrgenmode none mtu {fabric.routing.ip_mtu_bytes}"
        yield f"ip link set dev br{vni} up"
        yield f"ip link set dev vni{vni} up"
        for port in ports:
            yield f"ip link set dev {port.port} master {name}"


def _queues(lossless: Lossless, device: Device, cables: dict[tuple[str, str], float]) -> Iterator[str]:
    """`dcb` commands of iproute2; a virtual machine's ports have no such queues, so a refusal is no error."""
    qos = lossless.qos
    marks = [(dscp, each.priority) for each in qos.classes for dscp in each.dscp]
    prio_map = " ".join(f"{dscp}:{priority}" for dscp, priority in marks)
    paused = " ".join(f"{priority}:on" for priority in qos.pfc.priorities)
    strict = {each.traffic_class for each in qos.classes if each.schedule == "strict"}
    algorithms = " ".join(f"{tc}:{'strict' if tc in strict else 'ets'}" for tc in range(8))
    weights = {each.traffic_class: round((each.share_ratio or 0) * 100) for each in qos.classes
               if each.schedule != "strict"}  # fmt: skip
    same = " ".join(f"{priority}:{priority}" for priority in range(8))
    bandwidths = " ".join(f"{tc}:{weights.get(tc, 0)}" for tc in range(8))
    ports: dict[int | None, list[str]] = {}  # by headroom: the ports of one kind share a loop
    for port in device.interfaces:
        if lossless.pfc.scope == "all" or port.peer_role == "server":
            found = lossless.headroom(device.role, port.speed_bits_per_s, cables.get((device.name, port.port), -1.0))
            ports.setdefault(found.size_bytes if found else None, []).append(port.port)
    for size, names in ports.items():
        yield f"for port in {' '.join(names)}; do"
        yield f"  dcb app replace dev $port dscp-prio {prio_map} || true"
        yield f"  dcb pfc set dev $port prio-pfc all:off {paused} || true"
        yield f"  dcb ets set dev $port prio-tc {same} tc-tsa {algorithms} tc-bw {bandwidths} || true"
        if size is not None:
            mapped = " ".join(f"{priority}:{priority}" for priority in qos.pfc.priorities)
            sizes = " ".join(f"{priority}:{size}" for priority in qos.pfc.priorities)
            yield f"  dcb buffer set dev $port prio-buffer all:0 {mapped} buffer-size {sizes} || true"
        yield "done"
