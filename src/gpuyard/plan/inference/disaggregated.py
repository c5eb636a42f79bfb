"""Disaggregated prefill/decode: pairs of pools on one machine type, in closed form."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from gpuyard.catalog.machines import Machine
from gpuyard.perf.inference.calibration import read_calibration
from gpuyard.plan.inference.candidates import SEQUENCES, TAIL_WAIT, ChipGrid
from gpuyard.plan.inference.layouts import machines_of
from gpuyard.plan.inference.load import VARIATION, ServingLoad, Targets
from gpuyard.plan.inference.replica import PrefillReplicas, Replica
from gpuyard.plan.inference.sizing import with_sequence_limit
from gpuyard.units import bytes_from_bits

# TCPX and TCPXO carry only NCCL; NIXL and UCX would fall back to the host NIC.
RDMA = ("roce", "infiniband")
ENGINES = ("vllm-v1", "sglang", "trt-torch-2")  # engines with documented disaggregation
MAX_BUSY = 0.85  # of a prefill replica's time: random arrivals need the rest
BEST = 3  # replicas of each role that are combined


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PrefillDecodePair:
    """A prefill pool and a decode pool, sized in closed form."""

    machine: Machine
    prefill: PrefillReplicas
    decode: Replica
    decode_replicas: int
    sequences: float  # per decode rank, the most that meets TPOT
    ttft_s: float
    tpot_s: float
    e2e_s: float

    @property
    def machine_count(self) -> int:
        return machines_for_pair(
            self.machine,
            self.prefill.replica,
            self.prefill.replicas,
            self.decode,
            self.decode_replicas,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Role:
    """A replica in one role, prefill or decode."""

    replica: Replica
    seconds: float  # per prompt, or per token
    per_s: float  # requests per second within the targets
    sequences: float = 1.0

    @property
    def chips_s(self) -> float:
        """Chip-seconds per request."""
        return self.replica.layout.chips / self.per_s


def kv_transfer_setup_s() -> float:
    """Return the setup time of a KV-cache transfer."""
    return read_calibration()["transfer.latency_us"] * 1e-6


def can_transfer_kv(machine: Machine) -> bool:
    """Return True if the machines have an RDMA network of a known rate."""
    return machine.network.technology in RDMA and bool(machine.network.fabric_bits_per_s)


def with_kv_transfer(
    machine: Machine, prefill: Replica, decode: Replica, replicas: int
) -> PrefillReplicas:
    """Return the prefill pool; each chip transfers its part of the KV cache over its own NIC."""
    assert machine.network.fabric_bits_per_s, "checked by can_transfer_kv"
    nic_bytes_per_s = bytes_from_bits(machine.network.fabric_bits_per_s) / machine.chip_count
    part_bytes = max(prefill.room.token_bytes, decode.room.token_bytes)
    return PrefillReplicas(
        replica=prefill,
        replicas=replicas,
        transfer_setup_s=kv_transfer_setup_s(),
        token_s=part_bytes / nic_bytes_per_s,
    )


def machines_for_pair(
    machine: Machine,
    prefill: Replica,
    prefill_replicas: int,
    decode: Replica,
    decode_replicas: int,
) -> int:
    """Return the machines of both pools; replicas are powers of two, small ones share machines."""
    chips = int(machine.chip_count) or 1
    whole = shared = 0
    for replica, count in ((prefill, prefill_replicas), (decode, decode_replicas)):
        if replica.layout.chips >= chips:
            whole += count * (replica.layout.chips // chips)
        else:
            shared += count * replica.layout.chips
    return whole + math.ceil(shared / chips)


def pairs(
    grid: ChipGrid, machine: Machine, load: ServingLoad, targets: Targets
) -> list[PrefillDecodePair]:
    """Return the pair with the fewest machines per engine and dtype, best first.

    Without a TPOT or p99 target disaggregation gains nothing: prefill can share the replicas.
    """
    if not can_transfer_kv(machine) or not targets.limits_decode:
        return []
    best = []
    for replicas in _compatible(grid, machine):
        roles = product(
            _prefill_roles(replicas, load, targets), _decode_roles(replicas, load, targets)
        )
        candidates = [
            pair
            for prefill, decode in roles
            if (pair := _pair(machine, prefill, decode, load, targets)) is not None
        ]
        if candidates:
            best.append(min(candidates, key=_order))
    return sorted(best, key=_order)


def _order(pair: PrefillDecodePair) -> tuple[int, int, float]:
    chips = (
        pair.prefill.replicas * pair.prefill.replica.layout.chips
        + pair.decode_replicas * pair.decode.layout.chips
    )
    return pair.machine_count, chips, pair.e2e_s


def _compatible(grid: ChipGrid, machine: Machine) -> Iterator[list[Replica]]:
    """Groups of replicas that can transfer KV caches: same engine and dtype, no pipelines."""
    groups: dict[tuple[object, ...], list[Replica]] = {}
    for replica in grid.replicas:
        if (
            replica.engine.name in ENGINES
            and replica.layout.pp == 1
            and machines_of(replica.layout, machine)
        ):
            groups.setdefault((replica.engine.name, replica.precision), []).append(replica)
    yield from groups.values()


def prefill_s(replica: Replica, load: ServingLoad) -> float:
    """Return the prefill time of a prompt without a queue, in chunks of the token budget."""
    from gpuyard.perf.inference.step import step_time_s  # imports Numba

    new = load.new_tokens
    cached = load.input_tokens - new
    steps = max(1, math.ceil(new / replica.limits.budget_tokens)) if replica.engine.chunks else 1
    pair_count = new * (cached + 0.5 * (new + 1.0))
    return steps * float(
        step_time_s(replica.row, new / steps, pair_count / steps, 0.0, 0.0, 1.0 / steps)
    )


def _token_s(replica: Replica, sequences: float, load: ServingLoad) -> float:
    """Time of a decode-only step."""
    from gpuyard.perf.inference.step import step_time_s  # imports Numba

    context = sequences * (load.input_tokens + 0.5 * load.output_tokens)
    return float(step_time_s(replica.row, 0.0, 0.0, sequences, context, sequences))


def _prefill_roles(replicas: Sequence[Replica], load: ServingLoad, targets: Targets) -> list[_Role]:
    """The prefill replicas that meet TTFT, fewest chip-seconds first.

    At utilisation u, prompts wait u / (1 - u) x (1 + variation²) / 2 of one prefill (M/G/1).
    """
    spread = 0.5 * (1.0 + VARIATION[0] ** 2)
    roles = []
    for replica in replicas:
        seconds = prefill_s(replica, load)
        busy = MAX_BUSY
        ttft_limit_s = targets.mean_limit_s("ttft")
        if math.isfinite(ttft_limit_s):
            left_s = ttft_limit_s - kv_transfer_setup_s() - seconds
            if left_s <= 0.0:
                continue
            busy = min(MAX_BUSY, left_s / (left_s + spread * seconds))
        roles.append(_Role(replica=replica, seconds=seconds, per_s=busy * replica.ranks / seconds))
    return sorted(roles, key=lambda role: role.chips_s)[:BEST]


def _decode_roles(replicas: Sequence[Replica], load: ServingLoad, targets: Targets) -> list[_Role]:
    """The decode replicas that meet TPOT, with as many sequences as possible."""
    limit_s = targets.mean_limit_s("tpot")
    if targets.p99_s is not None:
        decode_s = targets.p99_s - TAIL_WAIT * kv_transfer_setup_s()
        limit_s = min(limit_s, decode_s / max(load.long_output_tokens - 1.0, 1.0))
    roles = []
    for replica in replicas:
        capacity = replica.max_sequences(load.total_tokens)
        fits = SEQUENCES[: int(np.searchsorted(SEQUENCES, capacity, side="right"))]
        # Bisection; the first `low` numbers of sequences meet the limit.
        low, high = 0, len(fits)
        while low < high:
            middle = (low + high) // 2
            if _token_s(replica, float(fits[middle]), load) <= limit_s:
                low = middle + 1
            else:
                high = middle
        if low:
            most = float(fits[low - 1])
            seconds = _token_s(replica, most, load)
            per_s = most * replica.ranks / (seconds * max(load.output_tokens - 1.0, 1.0))
            limited = with_sequence_limit(replica, most)
            roles.append(_Role(replica=limited, seconds=seconds, per_s=per_s, sequences=most))
    return sorted(roles, key=lambda role: role.chips_s)[:BEST]


def _pair(
    machine: Machine, prefill: _Role, decode: _Role, load: ServingLoad, targets: Targets
) -> PrefillDecodePair | None:
    """The replicas that the load needs; None if the KV-cache transfer breaks TTFT."""
    pool = with_kv_transfer(machine, prefill.replica, decode.replica, 1)
    ttft_s = prefill.seconds + pool.kv_transfer_s(load.input_tokens)
    if ttft_s > targets.mean_limit_s("ttft"):
        return None
    e2e_s = ttft_s + decode.seconds * max(load.output_tokens - 1.0, 0.0)
    rate = (load.requests_per_s if load.users is None else load.users / e2e_s) or 0.0
    return PrefillDecodePair(
        machine=machine,
        prefill=replace(pool, replicas=max(1, math.ceil(rate / prefill.per_s - 1e-9))),
        decode=decode.replica,
        decode_replicas=max(1, math.ceil(rate / decode.per_s - 1e-9)),
        sequences=decode.sequences,
        ttft_s=ttft_s,
        tpot_s=decode.seconds,
        e2e_s=e2e_s,
    )
