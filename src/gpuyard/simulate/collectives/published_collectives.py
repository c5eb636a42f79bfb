"""Published collective measurements as cluster, collective, size and time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from gpuyard.perf.published_network import network_contradiction
from gpuyard.simulate.collectives.bus import bus_factor
from gpuyard.simulate.collectives.timing import Generation, RankTopology, Technology
from gpuyard.units import bytes_from_bits

# NVLink, one way, per chip: NVIDIA's data sheets; H800 and H20 as their vendor's export parts.
CHIPS: tuple[tuple[str, Generation, float, int], ...] = (
    (r"G?B[23]00", "blackwell", 900e9, 8),
    (r"H[12]00|H20\b|p5\b|A3 ", "hopper", 450e9, 8),
    (r"H800", "hopper", 200e9, 8),
    (r"A100|p4d|p4de|B4\.8", "ampere", 300e9, 8),
)
RACK_CHIPS = 72  # GB200 and GB300 NVL72
USUAL_NIC_BITS_PER_S = {"blackwell": 400e9, "hopper": 400e9, "ampere": 200e9}
COLLECTIVES = {
    "all_reduce": "all-reduce",
    "all_gather": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "all_to_all": "all-to-all",
    "alltoall": "all-to-all",
    "broadcast": "broadcast",
    "sendrecv": "send",
}
FAULTS = ("misbehaving", "unstable", "much lower", "a bit low")


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredCollective:
    """One measured collective."""

    system: str
    cluster: RankTopology
    collective: str
    algorithm: str  # where the source forced one
    host: Literal["", "torch", "threads"]  # what starts the collective, where it takes time
    size_bytes: float
    time_s: float
    printed: float  # what the source printed: bus bandwidth in GB/s, or its share of the line rate
    relative: bool  # printed is a share
    coarse: bool  # the printed bandwidth has fewer than two digits and there is no time


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedRow:
    """A row that is no measurement of one collective of one size."""

    system: str
    why: str


def read_measured(
    rows: Iterable[Mapping[str, str]],
) -> tuple[tuple[MeasuredCollective, ...], tuple[SkippedRow, ...]]:
    """Parse rows with system, fabric, nodes, gpus, collective, size_bytes, time_us, busbw_GBps."""
    measured: list[MeasuredCollective] = []
    refused: list[SkippedRow] = []
    for cells in rows:
        row = {name: text or "" for name, text in cells.items()}  # a short row has no last cells
        try:
            result = _measured(row)
        except (ValueError, ArithmeticError) as error:
            result = f"invalid cell: {error}"
        if isinstance(result, MeasuredCollective):
            measured.append(result)
        else:
            refused.append(SkippedRow(system=row["system"], why=result))
    return tuple(measured), tuple(refused)


def _measured(row: Mapping[str, str]) -> MeasuredCollective | str:
    table = re.search(r"(nic|nvlink|ata)_ratio", row["system"])
    value = re.fullmatch(r"([\d.]+)( x peak)?", row["busbw_GBps"].strip())
    if not re.fullmatch(r"\d+", row["size_bytes"].strip()) or not value:
        return "no single size, or no single bandwidth"
    if any(word in row["system"] + row["note"] for word in FAULTS):
        return "the source reports it as faulty"
    collective = next(
        (name for text, name in COLLECTIVES.items() if row["collective"].startswith(text)), ""
    )
    if table and table.group(1) != "ata":
        collective = "all-reduce"
    if not collective:
        return f"{row['collective']}: not a collective of the model"
    cluster = _table_cluster(row, table.group(1)) if table else _cluster(row)
    if isinstance(cluster, str):
        return cluster
    size, printed = float(row["size_bytes"]), float(value.group(1))
    time_s = float(row["time_us"]) * 1e-6 if row["time_us"].strip() else 0.0
    if not time_s:
        line = _line_bytes_per_s(cluster, collective) if table else 1e9
        if printed <= 0:
            return "neither a time nor a bandwidth"
        time_s = bus_factor(collective, cluster.ranks) * size / (printed * line)
    return MeasuredCollective(
        system=row["system"],
        cluster=cluster,
        collective=collective,
        algorithm="ring" if table and collective == "all-reduce" else _algorithm(row),
        host=_host(row["note"]),
        size_bytes=size,
        time_s=time_s,
        printed=printed,
        relative=bool(table),
        coarse=not row["time_us"].strip() and not table and printed < 0.095,
    )


def _cluster(row: Mapping[str, str]) -> RankTopology | str:
    text = f"{row['system']} {row['fabric']}"
    chip = next((item for item in CHIPS if re.search(item[0], text)), None)
    count = re.match(r"\d+", row["gpus"].strip())
    nodes = re.match(r"\d+", row["nodes"].strip())
    if chip is None and re.search(r"Nebius", text):
        chip = CHIPS[1]  # its tables are of H100 and H200 servers
    if chip is None or count is None:
        return "chip or number of chips not stated"
    _, generation, link, board = chip
    ranks = int(count.group())
    if ranks < 2:
        return "one chip alone sends nothing"
    nodes_count = int(nodes.group()) if nodes else 1
    if nodes_count > 1 and (reason := network_contradiction(f"{text} {row['note']}")):
        return reason
    domain = min(RACK_CHIPS, ranks) if re.search(r"GB[23]00", text) else board
    if nodes and not re.search(r"GB[23]00", text):
        domain = max(1, ranks // int(nodes.group()))
    return RankTopology(
        domains=max(1, ranks // domain),
        domain_chips=domain,
        generation=generation,
        scale_up_bytes_per_s=link,
        nic_bytes_per_s=_nic_bytes_per_s(
            row["fabric"], generation, board if domain != RACK_CHIPS else 4
        ),
        technology=_technology(text, ranks <= domain),
        nvls=not re.search(
            r"NCCL_NVLS_ENABLE=0|NVLS (off|disabled)|no NVLS", row["note"] + text, re.IGNORECASE
        ),
    )


def _algorithm(row: Mapping[str, str]) -> str:
    """Return the algorithm that a note says was forced."""
    forced = re.search(r"NCCL_ALGO=(ring|tree|nvls)|^(ring|tree)\b", row["note"], re.IGNORECASE)
    return (forced.group(1) or forced.group(2)).lower() if forced else ""


def _host(note: str) -> Literal["", "torch", "threads"]:
    """Return what starts the collective: PyTorch, or one process for all chips of a server."""
    if re.search(r"all_reduce_bench\.py|torch", note, re.IGNORECASE):
        return "torch"
    return "threads" if re.search(r"_perf -g [2-9]|(^|\s)-g ?8\b", note) else ""


def _technology(text: str, alone: bool) -> Technology:
    if alone:
        return "none"
    if "TCPXO" in text or "A3 Mega" in text:
        return "tcpxo"
    if "TCPX" in text:
        return "tcpx"
    if "EFA" in text:
        return "efa1" if re.search(r"p4d|A100", text) else "efa"
    return "rdma"


def _nic_bytes_per_s(fabric: str, generation: Generation, chips: int) -> float:
    """Line rate per chip, from what the row says of the NICs."""
    ports = re.search(r"(\d+)x ?(\d+) ?G", fabric)
    whole = re.search(r"([\d.]+)(?:-[\d.]+)? Tb/s", fabric)
    rate = re.search(r"(\d+) ?G\b", fabric)
    if ports:
        return bytes_from_bits(float(ports.group(1)) * float(ports.group(2)) * 1e9) / chips
    if whole:
        return bytes_from_bits(_without_host(float(whole.group(1))) * 1e12) / chips
    return bytes_from_bits(float(rate.group(1)) * 1e9 if rate else USUAL_NIC_BITS_PER_S[generation])


def _without_host(terabits: float) -> float:
    """GPU NICs only: A3 machines are also quoted with their host NIC of 200 Gb/s."""
    return {1.8: 1.6, 1.0: 0.8}.get(terabits, terabits)


def _table_cluster(row: Mapping[str, str], kind: str) -> RankTopology:
    """Alibaba's tables: shares of the line rate of the slower of NVLink and eight 400 Gb/s NICs.

    Which table holds is decided in SimAI's calbusbw.cc: that of NVLink where it is below all NICs
    of the server, as of H800; otherwise that of the NICs.
    """
    nodes = int(row["nodes"])
    return RankTopology(
        domains=nodes,
        domain_chips=8,
        generation="unnamed",
        scale_up_bytes_per_s=200e9 if kind == "nvlink" else 450e9,
        nic_bytes_per_s=bytes_from_bits(400e9),
        technology="rdma" if nodes > 1 else "none",
    )


def _line_bytes_per_s(cluster: RankTopology, collective: str) -> float:
    """The peak that a share is of, as bus bandwidth."""
    if cluster.domains == 1:
        return cluster.scale_up_bytes_per_s
    if collective == "all-to-all":  # the NICs' own use: bus bandwidth also counts what stays inside
        n, g = cluster.ranks, cluster.domain_chips
        return cluster.nic_bytes_per_s * (n - 1) / (n - g)
    return min(cluster.scale_up_bytes_per_s, cluster.domain_chips * cluster.nic_bytes_per_s)
