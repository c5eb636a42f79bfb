"""Linux with FRR: daemons, sysctls, links of tenants, and queues of hardware ports."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.fabric.fabric import Device, Fabric, by_name
from gpuyard.fabric.lossless.lossless import Lossless
from gpuyard.fabric.render.frr.frr_conf import frr_conf
from gpuyard.fabric.render.sessions import cable_lengths, vrfs_of
from gpuyard.fabric.render.switch_os import File

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
    "net.ipv4.fib_multipath_hash_policy = 1",  # RDMA flows differ only in the source port
    "net.ipv4.fib_multipath_use_neigh = 1",
    "net.ipv4.conf.all.rp_filter = 0",  # replies may arrive on another link
    "net.ipv4.conf.default.rp_filter = 0",
    "net.ipv4.neigh.default.gc_thresh3 = 16384",
    "net.ipv6.conf.all.accept_ra = 0",
)


def render_frr(fabric: Fabric) -> Iterator[File]:
    """Yield frr.conf, daemons, sysctl.conf and links.sh of every switch."""
    switches = by_name(fabric.switches)
    cables = cable_lengths(fabric.topology, switches)
    for device in switches.values():
        folder = f"switches/{device.name}"
        yield File(path=f"{folder}/frr.conf", text=frr_conf(fabric, device, switches))
        yield File(path=f"{folder}/daemons", text=DAEMONS)
        yield File(path=f"{folder}/sysctl.conf", text="\n".join(SYSCTL) + "\n")
        yield File(path=f"{folder}/links.sh", text="\n".join(_links(fabric, device, cables)) + "\n")


def _links(fabric: Fabric, device: Device, cables: dict[tuple[str, str], float]) -> Iterator[str]:
    yield "#!/bin/sh"
    yield f"# {device.name}: run before FRR starts"
    yield "set -e"
    for port in device.interfaces:
        yield f"ip link set dev {port.port} mtu {port.mtu_bytes} up"
    yield from _tenant_links(fabric, device)
    if fabric.lossless.pfc.priorities:
        yield from _queues(fabric.lossless, device, cables)


def _tenant_links(fabric: Fabric, device: Device) -> Iterator[str]:
    numbers = {vrf.name: vrf.vni for vrf in fabric.vrfs}
    for name, ports in vrfs_of(fabric, device).items():
        vni = numbers[name]
        yield f"ip link add {name} type vrf table {vni}"
        yield f"ip link set dev {name} up"
        yield f"ip link add br{vni} type bridge"
        yield f"ip link set dev br{vni} master {name} addrgenmode none"
        tunnel = f"id {vni} local {device.loopback} dstport 4789 nolearning"
        yield f"ip link add vni{vni} type vxlan {tunnel}"
        mtu = f"mtu {fabric.routing.ip_mtu_bytes}"
        yield f"ip link set dev vni{vni} master br{vni} addrgenmode none {mtu}"
        yield f"ip link set dev br{vni} up"
        yield f"ip link set dev vni{vni} up"
        for port in ports:
            yield f"ip link set dev {port.port} master {name}"


def _queues(
    lossless: Lossless, device: Device, cables: dict[tuple[str, str], float]
) -> Iterator[str]:
    # `dcb` of iproute2; virtual ports have no such queues, so errors are ignored.
    qos = lossless.qos
    marks = [(dscp, one.priority) for one in qos.classes for dscp in one.dscp]
    prio_map = " ".join(f"{dscp}:{priority}" for dscp, priority in marks)
    paused = " ".join(f"{priority}:on" for priority in qos.pfc.priorities)
    strict = {one.traffic_class for one in qos.classes if one.schedule == "strict"}
    algorithms = " ".join(f"{tc}:{'strict' if tc in strict else 'ets'}" for tc in range(8))
    weights = {
        one.traffic_class: round((one.share_ratio or 0) * 100)
        for one in qos.classes
        if one.schedule != "strict"
    }
    same = " ".join(f"{priority}:{priority}" for priority in range(8))
    bandwidths = " ".join(f"{tc}:{weights.get(tc, 0)}" for tc in range(8))
    ports: dict[int | None, list[str]] = {}  # by headroom: ports with the same share a loop
    for port in device.interfaces:
        if lossless.pfc.scope == "all" or port.peer_role == "server":
            headroom = lossless.headroom(
                device.role, port.speed_bits_per_s, cables.get((device.name, port.port), -1.0)
            )
            ports.setdefault(headroom.size_bytes if headroom else None, []).append(port.port)
    for size, names in ports.items():
        yield f"for port in {' '.join(names)}; do"
        yield f"  dcb app replace dev $port dscp-prio {prio_map} || true"
        yield f"  dcb pfc set dev $port prio-pfc all:off {paused} || true"
        ets = f"prio-tc {same} tc-tsa {algorithms} tc-bw {bandwidths}"
        yield f"  dcb ets set dev $port {ets} || true"
        if size is not None:
            mapped = " ".join(f"{priority}:{priority}" for priority in qos.pfc.priorities)
            sizes = " ".join(f"{priority}:{size}" for priority in qos.pfc.priorities)
            buffer = f"prio-buffer all:0 {mapped} buffer-size {sizes}"
            yield f"  dcb buffer set dev $port {buffer} || true"
        yield "done"
