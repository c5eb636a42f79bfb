"""Read the Chakra traces of all ranks."""

from __future__ import annotations

import glob
import re
from pathlib import Path

from gpuyard.errors import ExternalError, InputError
from gpuyard.simulate.chakra import ChakraNode, read_chakra
from gpuyard.simulate.replay import replay
from gpuyard.simulate.run_traffic import TrafficFile
from gpuyard.units import DURATION, show


def read_traces(path: Path) -> TrafficFile:
    """The Chakra traces of all ranks, of which the path is one."""
    name = re.fullmatch(r"(.+)\.\d+\.et", path.name)
    if not name:
        raise InputError.one(
            str(path), "a trace without its rank", "name them trace.0.et, trace.1.et and so on"
        )
    ranks: list[tuple[ChakraNode, ...]] = []
    try:
        while (file := path.with_name(f"{name[1]}.{len(ranks)}.et")).exists():
            ranks.append(read_chakra(file.read_bytes(), str(file)))
        beyond = path.parent.glob(f"{glob.escape(name[1])}.*.et")
        extra = sum(bool(re.fullmatch(r"\d+", item.name[len(name[1]) + 1 : -3])) for item in beyond)
    except OSError as error:
        raise ExternalError(
            str(path), error.strerror or str(error), "make the file readable"
        ) from None
    if extra > len(ranks) or not ranks:
        missing = path.with_name(f"{name[1]}.{len(ranks)}.et")
        raise InputError.one(
            str(missing), "no such file", "give the traces of all ranks, counted from 0"
        )
    replayed = replay(ranks, str(path.with_name(name[1])))
    notes = [
        (
            f"{replayed.collective_count:,} collectives and sends: rings, and all pairs at once in"
            " all-to-all"
        )
    ]
    if replayed.tail_s:
        notes.append(
            f"a rank computes for another {show(replayed.tail_s, DURATION)} after its last message"
        )
    if replayed.marker_count:
        notes.append(
            f"{replayed.marker_count:,} messages of one byte keep computations that overlap"
        )
    return TrafficFile(
        label=f"{name[1]}, {replayed.rank_count} ranks",
        host_count=replayed.rank_count,
        traffic=replayed.traffic,
        notes=tuple(notes),
    )
