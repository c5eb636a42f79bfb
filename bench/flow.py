"""Speed of the flow engine: large collectives in rounds, all-to-all flow by flow, and the engine beside packets.

python bench/flow.py            every case; the first run of a fresh checkout also compiles
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable

import numpy as np

from gpuyard.simulate.collectives.compile import CollectiveCall, collective_traffic, grid_of
from gpuyard.simulate.collectives.rounds import rounds_of
from gpuyard.simulate.faults import Fault, LinkDown
from gpuyard.simulate.flow.flow_engine import simulate_flows
from gpuyard.simulate.flow.rails import rail_network
from gpuyard.simulate.flow.rounds import simulate_rounds
from gpuyard.simulate.flow.settings import FlowSettings
from gpuyard.simulate.network import Network, fat_tree
from gpuyard.simulate.packet.packet_engine import simulate_packets
from gpuyard.simulate.packet.settings import PacketSettings
from gpuyard.simulate.traffic import FlowSet, all_to_all, incast, permutation

GIB = 2.0**30


def rails(servers: int) -> Network:
    """Eight rails of 400 Gb/s, NVLink of 450 GB/s, 64 servers a leaf."""
    return rail_network(servers, 8, nic_bits_per_s=400e9, scale_up_bits_per_s=3600e9)


def rounds(
    name: str, collective: str, algorithm: str, servers: int, size: float, balance: str
) -> dict[str, object]:
    """One collective in rounds, its network built anew."""
    call = CollectiveCall(collective=collective, algorithm=algorithm, size_bytes=size)

    def run() -> float:
        network = rails(servers)
        return simulate_rounds(
            network, rounds_of(call, grid_of(network)), FlowSettings(balance=balance)
        ).time_s

    return timed(name, run)


def flows(
    name: str,
    network: Network,
    traffic: FlowSet,
    faults: tuple[Fault, ...] = (),
    **settings: object,
) -> dict[str, object]:
    """Traffic flow by flow."""
    return timed(
        name, lambda: simulate_flows(network, traffic, FlowSettings(**settings), faults).time_s
    )


def cut(network: Network, at_s: float) -> tuple[Fault, ...]:
    """The first cable between switches fails."""
    link = int(
        np.flatnonzero(np.minimum(network.link_from, network.link_to) >= network.host_count)[0]
    )
    one, other = (network.names[int(ends[link])] for ends in (network.link_from, network.link_to))
    return (LinkDown(one=one, other=other, at_s=at_s),)


def timed(name: str, run: Callable[[], float]) -> dict[str, object]:
    """Wall and CPU seconds of the second run, and the simulated time."""
    run()
    wall, cpu = time.perf_counter(), time.process_time()
    simulated = run()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "case": name,
        "simulated_ms": round(simulated * 1e3, 4),
        "wall_s": round(time.perf_counter() - wall, 3),
        "cpu_s": round(time.process_time() - cpu, 3),
        "peak_mib": round(peak),
    }


def beside_packets() -> list[dict[str, object]]:
    """Completion of the same traffic by both engines, 128 hosts."""
    network = fat_tree(128, rate_bits_per_s=400e9, delay_s=1e-6)
    ring = CollectiveCall(collective="all-reduce", algorithm="ring", size_bytes=8 * 2**20)
    cases = {
        "ring, uncongested": collective_traffic(ring, network),
        "permutation 1 MiB": permutation(128, 1 << 20, seed=1),
        "incast 127 x 1 MiB": incast(128, 1 << 20),
        "all-to-all 16 KiB": all_to_all(128, 1 << 14),
    }
    rows = []
    for name, traffic in cases.items():
        flow = simulate_flows(network, traffic, FlowSettings()).time_s
        packet = simulate_packets(network, traffic, PacketSettings()).outcome.duration_s
        rows.append(
            {
                "case": name,
                "flow_us": flow * 1e6,
                "packet_us": packet * 1e6,
                "off": flow / packet - 1.0,
            }
        )
    return rows


def main() -> None:
    """Runs and prints."""
    network = fat_tree(1024, rate_bits_per_s=400e9, delay_s=1e-6)
    rows = [
        rounds(
            "all-reduce, hierarchical, 32768 GPUs, ECMP",
            "all-reduce",
            "hierarchical",
            4096,
            GIB,
            "ecmp",
        ),
        rounds(
            "all-reduce, hierarchical, 32768 GPUs, spray",
            "all-reduce",
            "hierarchical",
            4096,
            GIB,
            "spray",
        ),
        rounds("all-to-all, direct, 32768 GPUs, spray", "all-to-all", "direct", 4096, GIB, "spray"),
        rounds("all-to-all, direct, 1024 GPUs, ECMP", "all-to-all", "direct", 128, GIB, "ecmp"),
        flows(
            "all-to-all, 1024 hosts, ECMP, 1 047 552 flows",
            network,
            all_to_all(1024, 1 << 16),
            collapse=False,
        ),
        flows(
            "the same, a cable cut at 100 us, steps of 1 %",
            network,
            all_to_all(1024, 1 << 16),
            cut(network, 1e-4),
            quantum_ratio=0.01,
        ),
        flows("all-to-all, 1024 hosts, spray", network, all_to_all(1024, 1 << 16), balance="spray"),
        flows("permutation, 1024 hosts, ECMP", network, permutation(1024, 1 << 24, seed=1)),
    ]
    result = {"speed": rows, "beside packets": beside_packets()}
    if "--json" in sys.argv:
        print(json.dumps(result, indent=1))
        return
    for row in rows:
        times = f"{row['wall_s']:>9} s wall{row['cpu_s']:>8} s CPU{row['peak_mib']:>6} MiB"
        print(f"{row['case']:48}{row['simulated_ms']:>12} ms{times}")
    for row in result["beside packets"]:
        print(
            f"{row['case']:48}{row['flow_us']:12.2f} us flow{row['packet_us']:12.2f} us packet{100 * row['off']:8.2f} %"
        )


if __name__ == "__main__":
    main()
