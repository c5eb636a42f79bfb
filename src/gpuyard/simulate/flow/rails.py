"""A rail-optimised network of so many servers, for questions asked before a fabric is designed."""

from __future__ import annotations

import numpy as np

from gpuyard.simulate.network import Network, network_of

__all__ = ["rail_network"]


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
    scale_up_delay_s: float = 2.5e-7,
) -> Network:
    """Rank = server x rails + rail; NIC r of each server on leaf r of its stripe, leaves on all spines, NVLink inside.

    Uplinks of a leaf carry together what its NICs do, over the oversubscription. The leaf's size, the spines and the
    delays (a switch and 20 m of fibre; an NVLink switch) are assumptions where no fabric is designed: give your own.
    """
    hosts, stripes = servers * rails, -(-servers // servers_per_leaf)
    leaves = stripes * rails
    spines = spines if stripes > 1 else 0
    host = np.arange(hosts)
    server, rail = np.divmod(host, rails)
    leaf = hosts + server // servers_per_leaf * rails + rail
    first_spine, first_inner = hosts + leaves, hosts + leaves + spines
    up = np.stack(
        [np.repeat(hosts + np.arange(leaves), spines), np.tile(first_spine + np.arange(spines), leaves)], axis=1
    )
    inner = np.stack([host, first_inner + server], axis=1) if rails > 1 else np.zeros((0, 2), dtype=np.int64)
    joint = nic_bits_per_s * min(servers, servers_per_leaf) / oversubscription_ratio
    rates = [nic_bits_per_s] * hosts + [joint / max(spines, 1)] * len(up) + [scale_up_bits_per_s] * len(inner)
    delays = [link_delay_s] * (hosts + len(up)) + [scale_up_delay_s] * len(inner)
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
