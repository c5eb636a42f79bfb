"""From a fabric to namespaces, cables, daemons and addresses, and back to nothing."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gpuyard.errors import InputError, RefusedError
from gpuyard.fabric import Device, Fabric, Interface, by_name
from gpuyard.fabric.render.frr import frr_conf
from gpuyard.lab import host
from gpuyard.lab.wires import PREFIX, Lab, Wire

__all__ = ["addresses", "boot", "labs", "remove", "shape"]

CONFIGURATIONS, RUNNING = Path("/etc/frr"), Path("/var/run/frr")
SYSCTLS = (
    "net.ipv4.ip_forward=1",
    "net.ipv6.conf.all.forwarding=1",
    "net.ipv4.fib_multipath_hash_policy=1",  # ports too, so that flows of one pair spread
    "net.ipv4.conf.all.rp_filter=0",  # the answer may come by another link
    "net.ipv4.conf.default.rp_filter=0",
)
# A next-hop object that zebra believes to be there after the kernel has dropped it keeps a mended link out for ever
# (FRR 8.4.4), so routes carry their next hops themselves.
KERNEL = "no zebra nexthop kernel enable"
FIRST_TABLE = 101  # of a server's NICs, as the rendered netplan numbers them
BURST_BYTES = 128 * 1024  # more than the largest segment that a veth passes on in one piece
QUEUE_S = 0.02
ROUNDS = 100


def labs() -> tuple[str, ...]:
    """The labs that stand on this host, by name; found by their namespaces and processes, whoever made them."""
    spaces = [*host.namespaces(PREFIX), *(word for _, word in _named(PREFIX))]
    return tuple(sorted({name.removeprefix(PREFIX).partition("_")[0] for name in spaces}))


def boot(lab: Lab) -> None:
    """Namespaces, cables, addresses, rates and daemons of every device; what was begun is removed if it fails."""
    host.require()
    if lab.name in labs():
        raise InputError.one(f"lab {lab.name}", "it is up already", f"gpuyard lab down --name {lab.name}")
    try:
        _make(lab)
        with ThreadPoolExecutor(max_workers=4) as pool:
            list(pool.map(lambda device: _start(lab, device), lab.fabric.switches))
    except BaseException:
        remove(lab.name)
        raise


def _make(lab: Lab) -> None:
    """Everything but the daemons."""
    fabric = lab.fabric
    host.batch("ip", (f"netns add {lab.namespace(device.name)}" for device in fabric.devices))
    for device in fabric.switches:
        host.run(host.inside(lab.namespace(device.name), [host.tool("sysctl"), "-qw", *SYSCTLS]))
    host.batch("ip", (_cable(lab, wire) for wire in lab.wires))
    for device in fabric.devices:
        space = lab.namespace(device.name)
        host.batch("ip", ("link set lo up", *addresses(fabric, device)), space)
        rates = {wire.port_of(device.name): wire.rate_bits_per_s for wire in lab.wires if wire.joins(device.name)}
        host.batch("tc", (shape(port, rate) for port, rate in rates.items()), space)


def _cable(lab: Lab, wire: Wire) -> str:
    """A veth pair with an end in each namespace."""
    a, b = wire.a, wire.b
    return f"link add {a.port} netns {lab.namespace(a.node)} type veth peer name {b.port} netns {lab.namespace(b.node)}"


def addresses(fabric: Fabric, device: Device) -> Iterator[str]:
    """MTU and state of every port; on servers also addresses and a routing table for each NIC."""
    for port in device.interfaces:
        yield f"link set dev {port.port} mtu {fabric.routing.host_mtu_bytes} up"
    if device.role != "server":
        return  # zebra sets what frr.conf says
    for table, port in enumerate((port for port in device.interfaces if port.address), start=FIRST_TABLE):
        yield from _nic(port, table)
    yield from _rails(fabric, device)
    yield f"route replace default via {device.interfaces[0].peer_address}"


def _rails(fabric: Fabric, device: Device) -> Iterator[str]:
    """A way to every other server's address on a rail by the own NIC of that rail, which RDMA takes without routes."""
    own = {(port.rail, port.plane): port for port in device.interfaces}
    for other in fabric.servers:
        if other.name == device.name:
            continue
        for port in other.interfaces:
            address = (port.address or "").partition("/")[0]
            yield f"route replace {address}/32 via {own[port.rail, port.plane].peer_address}"


def _nic(port: Interface, table: int) -> Iterator[str]:
    """What the rendered netplan says: an answer leaves by the NIC that was asked."""
    address = (port.address or "").partition("/")[0]
    yield f"address replace {port.address} dev {port.port}"
    yield f"route replace default via {port.peer_address} table {table}"
    yield f"rule add from {address} table {table}"


def shape(port: str, rate_bits_per_s: float) -> str:
    """The rate of one end of a cable."""
    queue = f"burst {BURST_BYTES} latency {QUEUE_S * 1e3:g}ms"
    return f"qdisc add dev {port} root tbf rate {round(rate_bits_per_s)}bit {queue}"


def _start(lab: Lab, device: Device) -> None:
    """The routing daemons of one switch, with the configuration that `fabric render` writes."""
    space = lab.namespace(device.name)
    settings, running = CONFIGURATIONS / space, RUNNING / space
    for folder in (settings, running):
        folder.mkdir(parents=True, exist_ok=True)
        shutil.chown(folder, "frr", "frr")
    text = frr_conf(lab.fabric, device, by_name(lab.fabric.switches))
    (settings / "frr.conf").write_text(f"{KERNEL}\n{text}", encoding="utf-8")
    (settings / "vtysh.conf").write_text("service integrated-vtysh-config\n", encoding="utf-8")
    for daemon, more in (("zebra", ["-s", "90000000"]), ("bfdd", []), ("bgpd", [])):
        host.run(host.inside(space, [
            str(host.FRR_DAEMONS / daemon), "-d", "-N", space, "-i", str(running / f"{daemon}.pid"),
            "-A", "127.0.0.1", *more,
        ]))  # fmt: skip
    said = host.run(["vtysh", "-N", space, "-b"], check=False)
    if "% " in said:  # a line that a daemon did not take
        line = next(line for line in said.splitlines() if "% " in line)
        raise RefusedError(
            f"{device.name}: frr.conf", line.strip(), "see `gpuyard fabric render`, and the version of FRR"
        )


def remove(name: str) -> int:
    """Ends the lab's processes and removes its namespaces and files; gives how many of them there were."""
    mark, removed = f"{PREFIX}{name}_", 0
    for _ in range(ROUNDS):  # what a killed command had begun may come to life while its lab is taken away
        spaces = host.namespaces(mark)
        found = {pid for space in spaces for pid in host.pids(space)} | {pid for pid, _ in _named(mark)}
        if not spaces and not found:
            break
        removed += len(spaces) + len(found)
        _end(sorted(found))
        for space in spaces:
            host.run(["ip", "netns", "del", space], check=False)
        time.sleep(0.05)
    for folder in (CONFIGURATIONS, RUNNING):
        for left in folder.glob(f"{mark}*"):
            shutil.rmtree(left, ignore_errors=True)
            removed += 1
    return removed


def _named(mark: str) -> Iterator[tuple[int, str]]:
    """Processes that were started for a namespace whose name begins so, with that name: daemons, and what enters it."""
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            for word in (folder / "cmdline").read_bytes().decode(errors="replace").split("\0"):
                space = word.rpartition("/")[2]
                if space.startswith(mark) and "_" in space:
                    yield int(folder.name), space


def _end(found: Sequence[int]) -> None:
    """Kills the processes and waits until they are gone: a namespace lives as long as a process in it."""
    for pid in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    limit_s = time.monotonic() + 5.0
    while time.monotonic() < limit_s and any(_is_alive(pid) for pid in found):
        time.sleep(0.02)


def _is_alive(pid: int) -> bool:
    """True while the process runs; a zombie whose parent has not asked for it holds no namespace."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (OSError, IndexError):
        return False
