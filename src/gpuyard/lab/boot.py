"""Boots and removes a lab: network namespaces, veth pairs, addresses, rates and FRR daemons."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gpuyard.errors import ExternalError, InputError
from gpuyard.fabric.fabric import Device, Fabric, Interface, by_name
from gpuyard.fabric.render.frr.frr_conf import frr_conf
from gpuyard.lab import host
from gpuyard.lab.links import PREFIX, Lab, LabLink

CONFIGURATIONS, RUNNING = Path("/etc/frr"), Path("/var/run/frr")
SYSCTLS = (
    "net.ipv4.ip_forward=1",
    "net.ipv6.conf.all.forwarding=1",
    "net.ipv4.fib_multipath_hash_policy=1",  # hash ports too, to spread flows of one host pair
    "net.ipv4.conf.all.rp_filter=0",  # replies may arrive on another link
    "net.ipv4.conf.default.rp_filter=0",
)
# FRR 8.4.4 keeps a next-hop object after the kernel has dropped it, and a restored link then stays
# unused. Without next-hop objects, routes carry their next hops.
KERNEL = "no zebra nexthop kernel enable"
FIRST_TABLE = 101  # routing table of a server's first NIC, as in the rendered netplan
BURST_BYTES = 128 * 1024  # more than the largest segment on a veth
QUEUE_S = 0.02
ROUNDS = 100


def labs() -> tuple[str, ...]:
    """Return the names of the labs on this host, from their namespaces and processes."""
    spaces = [*host.namespaces(PREFIX), *(word for _, word in _named(PREFIX))]
    return tuple(sorted({name.removeprefix(PREFIX).partition("_")[0] for name in spaces}))


def boot(lab: Lab) -> None:
    """Start a lab; remove everything again if it fails."""
    host.require()
    if lab.name in labs():
        raise InputError.one(
            f"lab {lab.name}", "is already up", f"gpuyard lab down --name {lab.name}"
        )
    try:
        _create(lab)
        with ThreadPoolExecutor(max_workers=4) as pool:
            list(pool.map(lambda device: _start(lab, device), lab.fabric.switches))
    except BaseException:
        remove(lab.name)
        raise


def _create(lab: Lab) -> None:
    fabric = lab.fabric
    host.batch("ip", (f"netns add {lab.namespace(device.name)}" for device in fabric.devices))
    for device in fabric.switches:
        host.run(host.inside(lab.namespace(device.name), [host.tool("sysctl"), "-qw", *SYSCTLS]))
    host.batch("ip", (_veth(lab, link) for link in lab.links))
    for device in fabric.devices:
        space = lab.namespace(device.name)
        host.batch("ip", ("link set lo up", *addresses(fabric, device)), space)
        rates = {
            link.port_of(device.name): link.rate_bits_per_s
            for link in lab.links
            if link.connects(device.name)
        }
        host.batch("tc", (shape(port, rate) for port, rate in rates.items()), space)


def _veth(lab: Lab, link: LabLink) -> str:
    a, b = link.a, link.b
    peer = f"peer name {b.port} netns {lab.namespace(b.node)}"
    return f"link add {a.port} netns {lab.namespace(a.node)} type veth {peer}"


def addresses(fabric: Fabric, device: Device) -> Iterator[str]:
    """Yield `ip` commands for MTU and state of every port; on servers also addresses and routes."""
    for port in device.interfaces:
        yield f"link set dev {port.port} mtu {fabric.routing.host_mtu_bytes} up"
    if device.role != "server":
        return  # zebra configures the addresses in frr.conf
    for table, port in enumerate(
        (port for port in device.interfaces if port.address), start=FIRST_TABLE
    ):
        yield from _nic(port, table)
    yield from _rails(fabric, device)
    yield f"route replace default via {device.interfaces[0].peer_address}"


def _rails(fabric: Fabric, device: Device) -> Iterator[str]:
    # RDMA stays on a rail without routes; here each address of a rail is routed via its own NIC.
    own = {(port.rail, port.plane): port for port in device.interfaces}
    for other in fabric.servers:
        if other.name == device.name:
            continue
        for port in other.interfaces:
            address = (port.address or "").partition("/")[0]
            yield f"route replace {address}/32 via {own[port.rail, port.plane].peer_address}"


def _nic(port: Interface, table: int) -> Iterator[str]:
    # As in the rendered netplan: replies leave through the NIC that received the request.
    address = (port.address or "").partition("/")[0]
    yield f"address replace {port.address} dev {port.port}"
    yield f"route replace default via {port.peer_address} table {table}"
    yield f"rule add from {address} table {table}"


def shape(port: str, rate_bits_per_s: float) -> str:
    """Return the `tc` command that sets the rate of a port."""
    queue = f"burst {BURST_BYTES} latency {QUEUE_S * 1e3:g}ms"
    return f"qdisc add dev {port} root tbf rate {round(rate_bits_per_s)}bit {queue}"


def _start(lab: Lab, device: Device) -> None:
    space = lab.namespace(device.name)
    settings, running = CONFIGURATIONS / space, RUNNING / space
    for folder in (settings, running):
        folder.mkdir(parents=True, exist_ok=True)
        shutil.chown(folder, "frr", "frr")
    text = frr_conf(lab.fabric, device, by_name(lab.fabric.switches))
    (settings / "frr.conf").write_text(f"{KERNEL}\n{text}", encoding="utf-8")
    (settings / "vtysh.conf").write_text("service integrated-vtysh-config\n", encoding="utf-8")
    for daemon, more in (("zebra", ["-s", "90000000"]), ("bfdd", []), ("bgpd", [])):
        host.run(
            host.inside(
                space,
                [
                    str(host.FRR_DAEMONS / daemon),
                    "-d",
                    "-N",
                    space,
                    "-i",
                    str(running / f"{daemon}.pid"),
                    "-A",
                    "127.0.0.1",
                    *more,
                ],
            )
        )
    output = host.run(["vtysh", "-N", space, "-b"], check=False)
    if "% " in output:  # a daemon rejected a line
        line = next(line for line in output.splitlines() if "% " in line)
        raise ExternalError(
            f"{device.name}: frr.conf",
            line.strip(),
            "check the output of `gpuyard fabric render` and the FRR version",
        )


def remove(name: str) -> int:
    """Kill the lab's processes, remove its namespaces and files, and return their number."""
    prefix, removed = f"{PREFIX}{name}_", 0
    for _ in range(ROUNDS):  # a killed command may still be starting processes
        spaces = host.namespaces(prefix)
        pids = {pid for space in spaces for pid in host.pids(space)}
        pids |= {pid for pid, _ in _named(prefix)}
        if not spaces and not pids:
            break
        removed += len(spaces) + len(pids)
        _kill(sorted(pids))
        for space in spaces:
            host.run(["ip", "netns", "del", space], check=False)
        time.sleep(0.05)
    for folder in (CONFIGURATIONS, RUNNING):
        for left in folder.glob(f"{prefix}*"):
            shutil.rmtree(left, ignore_errors=True)
            removed += 1
    return removed


def _named(prefix: str) -> Iterator[tuple[int, str]]:
    # Processes with a namespace of this prefix in their command line: daemons and `nsenter`.
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            command = (folder / "cmdline").read_bytes().decode(errors="replace")
            for argument in command.split("\0"):
                space = argument.rpartition("/")[2]
                if space.startswith(prefix) and "_" in space:
                    yield int(folder.name), space


def _kill(pids: Sequence[int]) -> None:
    # Waits for the processes to exit, because a namespace lives as long as a process in it.
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    limit_s = time.monotonic() + 5.0
    while time.monotonic() < limit_s and any(_is_alive(pid) for pid in pids):
        time.sleep(0.02)


def _is_alive(pid: int) -> bool:
    try:  # a zombie holds no namespace
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (OSError, IndexError):
        return False
