"""Chips of the serving model: catalog rows and published variants, with links and kernels."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from gpuyard.catalog.chips import Chip
from gpuyard.catalog.load import Catalog
from gpuyard.document.decode import decode
from gpuyard.document.field_types import Doc, Keys
from gpuyard.document.read import read_file
from gpuyard.units import BYTES, BYTES_PER_S, FLOP_PER_S

Link = Literal["nvlink3", "nvlink4", "nvlink5", "pcie4", "pcie5", "bridge", "xgmi", "ici"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A catalog chip, or a variant of one, and its group of fitted constants."""

    name: str
    chip: Annotated[str, Doc("catalog chip; its values where the variant sets none")]
    match: Annotated[str, Doc("pattern over the chip names of published runs")]
    kernels: Annotated[str, Doc("group of chips that share kernel constants")]
    link: Link
    calibrated: Annotated[
        bool, Doc("false: too few published runs; constants of the nearest architecture")
    ] = True
    memory_bytes: Annotated[float | None, BYTES] = None
    memory_bytes_per_s: Annotated[float | None, BYTES_PER_S] = None
    bf16_flop_per_s: Annotated[float | None, FLOP_PER_S, Doc("other peaks in proportion")] = None
    fp8_flop_per_s: Annotated[float | None, FLOP_PER_S] = None
    fp4_flop_per_s: Annotated[float | None, FLOP_PER_S] = None
    link_bytes_per_s: Annotated[
        float | None, BYTES_PER_S, Doc("unidirectional, where the catalog has no scale-up link")
    ] = None
    link_chip_count: Annotated[int, Doc("chips on the link; 0: the catalog's domain")] = 0
    counts_as: Annotated[str, Doc("variant that it is held out with; empty: itself")] = ""
    speed_ratio: Annotated[float, Doc("GEMM rate over the group's, for power-capped parts")] = 1.0
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    chips: tuple[Variant, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingChip:
    """Rates, memory and link of a chip; a peak is 0 where the chip has no such cores."""

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
        """Return a dense peak by name; 0 where there is none."""
        value: float = getattr(self, f"{peak}_flop_per_s")
        return value


PCIE_BYTES_PER_S = {"pcie4": 31.5e9, "pcie5": 63.0e9}  # x16, unidirectional


@functools.cache
def read_variants() -> tuple[Variant, ...]:
    """Return the chips of the serving model."""
    path = Path(__file__).parent / "data" / "chips.toml"
    return decode(read_file(path).root, _File, Keys.SUFFIXED).chips


def chip_named(name: str, catalog: Catalog) -> ServingChip | None:
    """Return a chip by catalog or published name; None where it is unknown."""
    exact = [item for item in read_variants() if item.chip == name or item.name == name]
    matches = exact[:1] or [item for item in read_variants() if re.search(item.match, name)][-1:]
    return _chip(matches[0], catalog.chip(matches[0].chip)) if matches else None


def serving_chip(chip: Chip) -> ServingChip | None:
    """Return a catalog chip as a serving chip; None where it is unknown."""
    variant = next((item for item in read_variants() if item.name == chip.name), None)
    return _chip(variant, chip) if variant else None


def _chip(variant: Variant, chip: Chip) -> ServingChip:
    """Return the catalog's values, overridden by the variant's."""
    dense, up = chip.dense, chip.scale_up
    half = dense.bf16_flop_per_s or dense.fp16_flop_per_s or 0.0
    share = variant.speed_ratio * (variant.bf16_flop_per_s or half) / half if half else 1.0
    link = variant.link_bytes_per_s or (
        up.bytes_per_s if up else PCIE_BYTES_PER_S.get(variant.link, 0.0)
    )
    domain = variant.link_chip_count or (up.domain_count or 256 if up else 8)
    return ServingChip(
        name=variant.name,
        counts_as=variant.counts_as,
        kernels=variant.kernels,
        link=variant.link,
        calibrated=variant.calibrated,
        memory_bytes=variant.memory_bytes or chip.memory_bytes,
        memory_bytes_per_s=variant.memory_bytes_per_s or chip.memory_bytes_per_s,
        bf16_flop_per_s=half * share,
        fp8_flop_per_s=_peak(
            variant.fp8_flop_per_s, dense.fp8_flop_per_s, variant.speed_ratio, share
        ),
        fp4_flop_per_s=_peak(
            variant.fp4_flop_per_s, dense.fp4_flop_per_s, variant.speed_ratio, share
        ),
        int8_flop_per_s=(dense.int8_flop_per_s or 0.0) * share,
        link_bytes_per_s=link,
        link_chip_count=domain,
    )


def _peak(own: float | None, listed: float | None, speed_ratio: float, share: float) -> float:
    """Return the variant's peak; else the catalog's, in proportion to the 16-bit peak."""
    return own * speed_ratio if own is not None else (listed or 0.0) * share
