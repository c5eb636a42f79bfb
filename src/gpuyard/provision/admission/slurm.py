"""Whether Slurm can place a batch job with its topology plugin, computed before it is submitted.

topology/tree: `--switches=N` limits the leaf switches of the job. topology/block: nodes of a block
are used together; `--segment=S` divides the job into parts of S nodes, each inside one block;
without it, a job takes as few blocks as its size needs
(https://slurm.schedmd.com/topology.html, https://slurm.schedmd.com/sbatch.html).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from gpuyard.document.field_types import Doc
from gpuyard.errors import InputError
from gpuyard.provision.admission.admission import Admission, AdmissionVerdict
from gpuyard.provision.artefact_document import ArtefactDocument

COMMAND = "(scontrol show topology; scontrol show node -o)"
PAIR = re.compile(r"(\w+)=(\S*)")
HOSTS = re.compile(r"(?:[^,\[\]]|\[[^\]]*\])+")  # the entries of a host list
RANGE = re.compile(r"(\d+)(?:-(\d+))?")
MOST_HOSTS = 1_000_000
OUT = ("DOWN", "DRAIN", "FAIL", "MAINT", "NOT_RESPONDING", "POWERED_DOWN_FAIL")
IDLE = ("IDLE", "CLOUD", "POWERED_DOWN", "POWER_DOWN")


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmNode:
    """A node of a Slurm cluster."""

    name: str
    gpus: int
    partitions: tuple[str, ...]
    is_idle: bool
    is_usable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmState:
    """Nodes, and the groups of the topology plugin."""

    nodes: tuple[SlurmNode, ...]
    groups: Annotated[Mapping[str, tuple[str, ...]], Doc("nodes by leaf switch or block")]
    is_block: bool
    block_node_count: Annotated[int, Doc("planned nodes per block; 0 with a tree")] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmJob:
    """What a batch script asks for."""

    name: str
    node_count: int
    gpus: int
    partition: str
    switches: Annotated[int, Doc("most leaf switches; 0: no limit")]
    segment: Annotated[int, Doc("nodes per segment; 0: none")]


def host_names(text: str) -> tuple[str, ...]:
    """Expand a host list: a3u-[0-2,7] is four nodes, rack[0-1]n[0-3] is eight."""
    names = tuple(name for entry in HOSTS.findall(text) for name in _expanded(entry))
    if len(names) > MOST_HOSTS:
        raise _wrong(f"{text[:60]} has {len(names):,} hosts")
    return names


def _expanded(entry: str) -> list[str]:
    prefix, bracket, rest = entry.partition("[")
    if not bracket:
        return [entry]
    ranges, _, suffix = rest.partition("]")
    numbers: list[str] = []
    for part in ranges.split(","):
        match = RANGE.fullmatch(part)
        if match is None or int(match[2] or match[1]) - int(match[1]) >= MOST_HOSTS:
            raise _wrong(f"{entry[:60]} is no list of hosts")
        first, last = match[1], match[2] or match[1]
        numbers += [f"{number:0{len(first)}d}" for number in range(int(first), int(last) + 1)]
    ends = _expanded(suffix) if suffix else [""]
    if len(numbers) * len(ends) > MOST_HOSTS:
        raise _wrong(f"{entry[:60]} has {len(numbers) * len(ends):,} hosts")
    return [f"{prefix}{number}{end}" for number in numbers for end in ends]


def _wrong(what: str) -> InputError:
    return InputError.one("--cluster", what, f"save what this prints: {COMMAND}")


def _count(text: str) -> int:
    """The number of nodes of a block; 0 if none is stated."""
    if not re.fullmatch(r"[0-9]{0,9}", text):
        raise _wrong(f"{text[:60]} is no number of nodes")
    return int(text or 0)


def slurm_state(text: str) -> SlurmState:
    """Read the output of `scontrol show topology` (or topology.conf) and `show node -o`."""
    nodes, groups, sizes, is_block = [], {}, [0], False
    for line in text.splitlines():
        values = dict(PAIR.findall(line))
        if "NodeName" in values:
            nodes.append(_node(values))
        elif "BlockName" in values:
            is_block = True
            groups[values["BlockName"]] = host_names(values.get("Nodes") or values.get("nodes", ""))
            sizes.append(_count(values.get("BlockSize", "")))
        elif "BlockSizes" in values:
            sizes.append(_count(values["BlockSizes"].split(",")[0]))
        elif "SwitchName" in values and values.get("Nodes") and not values.get("Switches"):
            groups[values["SwitchName"]] = host_names(values["Nodes"])
    if not groups:
        groups["all"] = tuple(node.name for node in nodes)
    base = max(sizes) or (max(len(names) for names in groups.values()) if is_block else 0)
    return SlurmState(nodes=tuple(nodes), groups=groups, is_block=is_block, block_node_count=base)


def _node(values: Mapping[str, str]) -> SlurmNode:
    states = re.split(r"[+*~#!%$@^-]+", values.get("State", ""))
    gres = re.search(r"gpu(?::[\w.-]+)?:(\d+)", values.get("Gres", ""))
    return SlurmNode(
        name=values["NodeName"],
        gpus=int(gres[1]) if gres else 0,
        partitions=tuple(values.get("Partitions", "").split(",")),
        is_idle=states[0] in IDLE and not set(states) & set(OUT),
        is_usable=not set(states) & set(OUT),
    )


def slurm_jobs(documents: Sequence[ArtefactDocument]) -> Iterator[SlurmJob]:
    """Yield the jobs of batch scripts."""
    for document in documents:
        if document.kind != "sbatch":
            continue
        root = document.root

        def number(key: str, root: object = root) -> int:
            match = re.match(r"\d+", str(root[key].value or ""))  # type: ignore[index]
            return int(match[0]) if match else 0

        gpus = re.search(r"(\d+)$", str(root["gpus-per-node"].value or root["gres"].value or ""))
        yield SlurmJob(
            name=document.name or document.file,
            node_count=number("nodes") or 1,
            gpus=int(gpus[1]) if gpus else 0,
            partition=root["partition"].text,
            switches=number("switches"),
            segment=number("segment"),
        )


def slurm_admissions(jobs: Sequence[SlurmJob], state: SlurmState) -> Iterator[Admission]:
    """Yield what Slurm would do with every job, each as if it came first."""
    for job in jobs:
        idle, usable = _free(job, state, idle=True), _free(job, state, idle=False)
        if _fits(job, idle, state):
            nodes = sum(idle.values())
            what = f"{job.node_count} nodes of {nodes} that are idle"
            yield Admission(job=job.name, scheduler="Slurm", verdict="placed", what=what)
            continue
        later = _fits(job, usable, state)
        verdict: AdmissionVerdict = "waits" if later else "never"
        yield Admission(
            job=job.name,
            scheduler="Slurm",
            verdict=verdict,
            what=_why(job, idle, usable, state),
            changes=tuple(_changes(job, idle if later else usable, state)),
        )


def _free(job: SlurmJob, state: SlurmState, *, idle: bool) -> dict[str, int]:
    """Nodes of each group that the job may use."""
    good = {
        node.name
        for node in state.nodes
        if node.is_usable
        and (node.is_idle or not idle)
        and node.gpus >= job.gpus
        and (not job.partition or job.partition in node.partitions)
    }
    return {name: len(good & set(members)) for name, members in state.groups.items()}


def _fits(job: SlurmJob, free: Mapping[str, int], state: SlurmState) -> bool:
    rooms = sorted(free.values(), reverse=True)
    if sum(rooms) < job.node_count:
        return False
    if state.is_block:
        if job.segment:
            segments = -(-job.node_count // job.segment)
            return sum(room // job.segment for room in rooms) >= segments
        blocks = -(-job.node_count // max(1, state.block_node_count))
        return sum(rooms[:blocks]) >= job.node_count
    return not job.switches or sum(rooms[: job.switches]) >= job.node_count


def _why(
    job: SlurmJob, idle: Mapping[str, int], usable: Mapping[str, int], state: SlurmState
) -> str:
    kind = "block" if state.is_block else "leaf switch"
    limit = f" within {job.switches} switches" if job.switches and not state.is_block else ""
    segment = f" in segments of {job.segment}" if job.segment and state.is_block else ""
    return (
        f"needs {job.node_count} nodes{limit}{segment}; {sum(idle.values())} of "
        f"{sum(usable.values())} are idle, at most {max(idle.values())} of them in one {kind}"
    )


def _changes(job: SlurmJob, free: Mapping[str, int], state: SlurmState) -> Iterator[str]:
    rooms = sorted(free.values(), reverse=True)
    total = sum(rooms)
    if not state.is_block and job.switches and total >= job.node_count:
        most = next(n for n in range(1, len(rooms) + 1) if sum(rooms[:n]) >= job.node_count)
        yield f"--switches={most} instead of {job.switches}"
    if state.is_block and total >= job.node_count:
        size = job.segment or job.node_count
        for smaller in range(size - 1, 0, -1):
            parts = -(-job.node_count // smaller)
            even = job.node_count % smaller == 0
            if even and sum(room // smaller for room in rooms) >= parts:
                yield f"--segment={smaller}" + (f" instead of {job.segment}" if job.segment else "")
                break
    fewer = next(
        (n for n in range(job.node_count - 1, 0, -1) if _fits(_resized(job, n), free, state)), 0
    )
    if fewer:
        yield f"--nodes={fewer} instead of {job.node_count}"


def _resized(job: SlurmJob, node_count: int) -> SlurmJob:
    segment = job.segment if job.segment and node_count % job.segment == 0 else 0
    return SlurmJob(
        name=job.name,
        node_count=node_count,
        gpus=job.gpus,
        partition=job.partition,
        switches=job.switches,
        segment=segment,
    )
