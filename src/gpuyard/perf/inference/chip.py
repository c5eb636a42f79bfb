"""Chips as serving sees them: catalog rows, and the variants that published runs name, with their link and kernels."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from gpuyard.catalog import Catalog, Chip
from gpuyard.document import Doc, Keys, decode, read_file
from gpuyard.units import BYTES, BYTES_PER_S, FLOP_PER_S

__all__ = ["ServingChip", "Variant", "chip_named", "read_variants", "serving_chip"]

Link = Literal["nvlink3", "nvlink4", "nvlink5", "pcie4", "pcie5", "bridge", "xgmi", "ici"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A chip of the catalog, or a variant of one, and which kernels' constants stand for it."""

    name: str
    chip: Annotated[str, Doc("a name under chips")]
    match: Annotated[str, Doc("pattern over the chip names of published runs")]
    kernels: Annotated[str, Doc("its group of constants")]
    link: Link
    calibrated: Annotated[bool, Doc("false: too few published runs; the group is of the nearest architecture")] = True
    memory_bytes: Annotated[float | None, BYTES] = None
    memory_bytes_per_s: Annotated[float | None, BYTES_PER_S] = None
    bf16_flop_per_s: Annotated[float | None, FLOP_PER_S] = None
    link_bytes_per_s: Annotated[float | None, BYTES_PER_S, Doc("one way, where the catalog has no scale-up link")] = (
        None
    )
    link_chip_count: Annotated[int, Doc("chips that the link joins; 0: the catalog's domain")] = 0
    counts_as: Annotated[str, Doc("the variant that it is left out with; empty: itself")] = ""
    speed_ratio: Annotated[float, Doc("sustained rate of products over the group's, for power-capped parts")] = 1.0
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """The data file."""

    chips: tuple[Variant, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingChip:
    """One chip's rates, memory and link; a peak is 0 where the chip has no such cores."""

    name: str
    kernels: str
    link: str
    calibrated: bool
    memory_bytes: float
    memory_bytes_per_s: float
    bf16_flop_per_s: float
    fp8_flop_per_s: float
    fp4_flop_per_s: float
    int8_flop_per_s: float
    link_bytes_per_s: float
    link_chip_count: int
    counts_as: str = ""

    def peak_flop_per_s(self, peak: str) -> float:
        """The dense peak by its name; 0 where there is none."""
        value: float = getattr(self, f"{peak}_flop_per_s")
        return value


PCIE_BYTES_PER_S = {"pcie4": 31.5e9, "pcie5": 63.0e9}  # x16, one way, signalling rate


@functools.cache
def read_variants() -> tuple[Variant, ...]:
    """The chips that the serving model knows."""
    path = Path(__file__).parent / "data" / "chips.toml"
    return decode(read_file(path).root, _File, Keys.SUFFIXED).chips


def chip_named(name: str, catalog: Catalog) -> ServingChip | None:
    """The chip that published runs or the catalog name so; None when nothing is known of it."""
    exact = [item for item in read_variants() if item.chip == name or item.name == name]
    found = exact[:1] or [item for item in read_variants() if re.search(item.match, name)][-1:]
    return _chip(found[0], catalog.chip(found[0].chip)) if found else None


def serving_chip(chip: Chip) -> ServingChip | None:
    """The chip of the catalog as serving sees it; None when nothing is known of it."""
    found = next((item for item in read_variants() if item.name == chip.name), None)
    return _chip(found, chip) if found else None


def _chip(own: Variant, chip: Chip) -> ServingChip:
    """The catalog's numbers, with what differs in the variant."""
    dense, up = chip.dense, chip.scale_up
    half = dense.bf16_flop_per_s or dense.fp16_flop_per_s or 0.0
    share = own.speed_ratio * (own.bf16_flop_per_s or half) / half if half else 1.0
    link = own.link_bytes_per_s or (up.bytes_per_s if up else PCIE_BYTES_PER_S.get(own.link, 0.0))
    domain = own.link_chip_count or (up.domain_count or 256 if up else 8)
    return ServingChip(
        name=own.name,
        counts_as=own.counts_as,
        kernels=own.kernels,
        link=own.link,
        calibrated=own.calibrated,
        memory_bytes=own.memory_bytes or chip.memory_bytes,
        memory_bytes_per_s=own.memory_bytes_per_s or chip.memory_bytes_per_s,
        bf16_flop_per_s=half * share,
        fp8_flop_per_s=(dense.fp8_flop_per_s or 0.0) * share,
        fp4_flop_per_s=(dense.fp4_flop_per_s or 0.0) * share,
        int8_flop_per_s=(dense.int8_flop_per_s or 0.0) * share,
        link_bytes_per_s=link,
        link_chip_count=domain,
    )
