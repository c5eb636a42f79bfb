"""A reader of files with its seeds and mutations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .mutations import Mutation


@dataclass(frozen=True, slots=True, kw_only=True)
class FuzzTarget:
    """A reader: its seeds, how they are mutated, and the call that reads one file."""

    name: str
    suffix: str
    seeds: Callable[[], tuple[bytes, ...]]
    mutate: Mutation
    read: Callable[[Path], object]
    weight: int = 1  # share of all inputs


def target(
    name: str,
    suffix: str,
    seeds: Callable[[], tuple[bytes, ...]],
    mutate: Mutation,
    read: Callable[[Path], object],
    weight: int = 1,
) -> FuzzTarget:
    """Return a target."""
    return FuzzTarget(
        name=name, suffix=suffix, seeds=seeds, mutate=mutate, read=read, weight=weight
    )
