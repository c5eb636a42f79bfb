"""Chakra traces from the files of all ranks."""

from __future__ import annotations

import glob
import re
from pathlib import Path

from gpuyard.app.simulate import TrafficFile
from gpuyard.errors import InputError, RefusedError
from gpuyard.simulate.chakra import ChakraNode, read_chakra
from gpuyard.simulate.replay import replay
from gpuyard.units import DURATION, show

__all__ = ["read_traces"]


def read_traces(path: Path) -> TrafficFile:
    """The Chakra traces of all ranks, of which the path is one."""
    name = re.fullmatch(r"(.+)\.\d+\.et", path.name)
    if not name:
        raise InputError.one(str(path), "a trace without its rank", "name them trace.0.et, trace.1.et and so on")
    ranks: list[tuple[ChakraNode, ...]] = []
    try:
        while (file := path.with_name(f"{name[1]}.{len(ranks)}.et")).exists():
            ranks.append(read_chakra(file.read_bytes(), str(file)))
        beyond = path.parent.glob(f"{glob.escape(name[1])}.*.et")
        found = sum(bool(re.fullmatch(r"\d+", each.name[len(name[1]) + 1 : -3])) for each in beyond)
    except OSError as error:
        raise RefusedError(str(path), error.strerror or str(error), "make the file readable") from None
    if found > len(ranks) or not ranks:
        missing = path.with_name(f"{name[1]}.{len(ranks)}.et")
        raise InputError.one(str(missing), "no such file", "give the traces of all ranks, counted from 0")
    made = replay(ranks, str(path.with_name(name[1])))
    notes = [f"{made.collective_count:,} collectives and sends: rings, and all pairs at once in an all-to-all"]
    if made.tail_s:
        notes.append(f"a rank computes for another {show(made.tail_s, DURATION)} after its last message")
    if made.marker_count:
        notes.append(f"{made.marker_count:,} messages of one byte keep computations that end beside messages")
    return TrafficFile(
        label=f"{name[1]}, {made.rank_count} ranks", host_count=made.rank_count, traffic=made.traffic,
        notes=tuple(notes),
    )  # fmt: skip
