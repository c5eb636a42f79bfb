"""A rail-optimised network for N servers, without designing a fabric."""

from __future__ import annotations

import numpy as np

from gpuyard.simulate.network import Network, network_of

SCALE_UP_DELAY_S = 2.5e-7  # of an NVLink switch; an assumption


def rail_network(
    servers: int,
    rails: int,
    *,
    nic_bits_per_s: float,
    scale_up_bits_per_s: float,
    servers_per_leaf: int = 64,
    spines: int = 32,
    oversubscription_ratio: float = 1.0,
    link_delay_s: float = 6e-7,
) -> Network:
    """Connect NIC r of each server to leaf r of its stripe, and all leaves to all spines.

    Rank = server x rails + rail; a scale-up switch connects the GPUs of a server. The uplinks of a
    leaf carry together what its NICs do, divided by the oversubscription. The size of a leaf, the
    number of spines and the delay (a switch and 20 m of fibre) are assumptions for networks
    without a designed fabric.
    """
    hosts, stripes = servers * rails, -(-servers // servers_per_leaf)
    leaves = stripes * rails
    spines = spines if stripes > 1 else 0
    host = np.arange(hosts)
    server, rail = np.divmod(host, rails)
    leaf = hosts + server // servers_per_leaf * rails + rail
    first_spine, first_inner = hosts + leaves, hosts + leaves + spines
    up = np.stack(
        [
            np.repeat(hosts + np.arange(leaves), spines),
            np.tile(first_spine + np.arange(spines), leaves),
        ],
        axis=1,
    )
    inner = (
        np.stack([host, first_inner + server], axis=1)
        if rails > 1
        else np.zeros((0, 2), dtype=np.int64)
    )
    uplinks_bits_per_s = nic_bits_per_s * min(servers, servers_per_leaf) / oversubscription_ratio
    rates = (
        [nic_bits_per_s] * hosts
        + [uplinks_bits_per_s / max(spines, 1)] * len(up)
        + [scale_up_bits_per_s] * len(inner)
    )
    delays = [link_delay_s] * (hosts + len(up)) + [SCALE_UP_DELAY_S] * len(inner)
    inside = servers if rails > 1 else 0
    return network_of(
        tier=np.repeat(np.array([0, 1, 2, 1], dtype=np.int8), [hosts, leaves, spines, inside]),
        ends=np.concatenate([np.stack([host, leaf], axis=1), up, inner]).astype(np.int32),
        rate_bits_per_s=np.array(rates),
        delay_s=np.array(delays),
        names=(
            *(f"server{s} gpu{r}" for s, r in zip(server, rail, strict=True)),
            *(f"leaf{n}" for n in range(leaves)),
            *(f"spine{n}" for n in range(spines)),
            *(f"server{n} scale-up" for n in range(inside)),
        ),
        server=server,
    )
