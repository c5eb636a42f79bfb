"""Rank and world size of this process, from the environment variables that launchers set."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from gpuyard.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """One process among `world`, and the rendezvous address."""

    rank: int = 0
    world: int = 1
    local_rank: int = 0
    local_world: int = 1
    node_rank: int = 0
    address: str = "127.0.0.1"
    port: int = 29500

    @property
    def first(self) -> bool:
        """True on rank 0, the process that writes files."""
        return self.rank == 0


def ranks_of(environment: Mapping[str, str] = os.environ) -> Ranks:
    """Read RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, NODE_RANK and MASTER_ADDR/_PORT."""
    numbers: dict[str, int] = {}
    for name, default in _DEFAULTS.items():
        text = environment.get(name, str(default))
        if not text.isascii() or not text.isdigit():
            raise InputError.one(
                name, f'"{text}" is not an integer', "let the launcher set it, or unset it"
            )
        numbers[name] = int(text)
    if not numbers["RANK"] < numbers["WORLD_SIZE"]:
        raise InputError.one(
            "RANK", f"{numbers['RANK']} is not below WORLD_SIZE", "number the processes from 0"
        )
    return Ranks(
        rank=numbers["RANK"],
        world=numbers["WORLD_SIZE"],
        local_rank=numbers["LOCAL_RANK"],
        local_world=numbers["LOCAL_WORLD_SIZE"],
        node_rank=numbers["NODE_RANK"],
        address=environment.get("MASTER_ADDR", Ranks().address),
        port=numbers["MASTER_PORT"],
    )


_DEFAULTS = {
    "RANK": 0,
    "WORLD_SIZE": 1,
    "LOCAL_RANK": 0,
    "LOCAL_WORLD_SIZE": 1,
    "NODE_RANK": 0,
    "MASTER_PORT": 29500,
}
