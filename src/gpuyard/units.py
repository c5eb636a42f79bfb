"""Quantities as engineers write them (`80GB`, `400Gbps`, `3d`): parse to SI numbers, print back.

Inside gpuyard a quantity is a plain number in SI units and its name ends with the unit
(`memory_bytes`, `step_s`). Files and screens hold human units; conversion happens only here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

BITS_PER_BYTE = 8
MINUTE_S = 60
HOUR_S = 3600
DAY_S = 24 * HOUR_S
WEEK_S = 7 * DAY_S
YEAR_S = 365 * DAY_S


def bytes_from_bits(bits: float) -> float:
    """Convert bits to bytes, or bits per second to bytes per second."""
    return bits / BITS_PER_BYTE


def bits_from_bytes(count_bytes: float) -> float:
    """Convert bytes to bits; the inverse of `bytes_from_bits`."""
    return count_bytes * BITS_PER_BYTE


class UnitError(ValueError):
    """Text that is not a quantity of the expected dimension: what is wrong and how to write it."""

    def __init__(self, what: str, fix: str) -> None:
        self.what = what
        self.fix = fix
        super().__init__(f"{what}; {fix}")


# Compared by identity: each dimension exists once.
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Dimension:
    """A physical dimension: how its values are written, and the SI unit they are parsed to."""

    name: str
    suffix: str  # field names of this dimension end with it
    examples: str
    scales: Mapping[str, float]  # unit as written -> SI
    ladder: tuple[str, ...]  # units used for printing, largest first
    base: str = ""  # unit of values below the ladder
    bare: bool = False  # a number without a unit is allowed
    prefix: str = ""  # "$"
    compound: bool = False  # "1d12h" is a sum

    def __repr__(self) -> str:
        return f"<Dimension {self.name}>"

    @property
    def noun(self) -> str:
        """The name with its article: `a data size`, `an hourly price`."""
        return f"{'an' if self.name.startswith(('a', 'hour')) else 'a'} {self.name}"


_SI = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50}
_BITS = {prefix + unit: scale for prefix, scale in _SI.items() for unit in ("bps", "b/s", "bit/s")}
_OCTETS = {
    prefix + unit: scale for prefix, scale in (_SI | _BINARY).items() for unit in ("B/s", "Bps")
}
_COUNTS = {"k": 1e3, "K": 1e3, "M": 1e6, "B": 1e9, "G": 1e9, "T": 1e12}
_SECONDS = {
    "ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3,
    "s": 1.0, "sec": 1.0, "m": MINUTE_S, "min": MINUTE_S,
    "h": HOUR_S, "hour": HOUR_S, "hours": HOUR_S,
    "d": DAY_S, "day": DAY_S, "days": DAY_S,
    "w": WEEK_S, "week": WEEK_S, "weeks": WEEK_S,
    "y": YEAR_S, "year": YEAR_S, "years": YEAR_S,
}  # fmt: skip


def _count_scales(*nouns: str) -> dict[str, float]:
    # The noun may follow the count: `2.5M`, `2.5M tokens`.
    scales = {"": 1.0, **_COUNTS}
    return scales | {f"{scale}{noun}": value for scale, value in scales.items() for noun in nouns}


BYTES = Dimension(
    name="data size",
    suffix="_bytes",
    examples="80GB or 186GiB",
    scales={prefix + "B": scale for prefix, scale in (_SI | _BINARY).items()} | {"bytes": 1.0},
    ladder=("PB", "TB", "GB", "MB", "kB"),
    base="B",
)
# GPU memory as drivers and engines count it: nvidia-smi's 40960 MiB are 40 GiB, not 42.9 GB.
MEMORY = replace(BYTES, ladder=("PiB", "TiB", "GiB", "MiB", "KiB"))
BITS_PER_S = Dimension(
    name="link speed",
    suffix="_bits_per_s",
    examples="400Gbps or 3.2Tbps",
    scales=_BITS | {unit: bits_from_bytes(scale) for unit, scale in _OCTETS.items()},
    ladder=("Pbps", "Tbps", "Gbps", "Mbps", "kbps"),
    base="bps",
)
BYTES_PER_S = Dimension(
    name="data rate",
    suffix="_bytes_per_s",
    examples="3350GB/s or 8TB/s",
    scales=_OCTETS | {unit: bytes_from_bits(scale) for unit, scale in _BITS.items()},
    ladder=("PB/s", "TB/s", "GB/s", "MB/s", "kB/s"),
    base="B/s",
)
FLOP_PER_S = Dimension(
    name="compute rate",
    suffix="_flop_per_s",
    examples="989TFLOPS or 1.979PFLOPS",
    scales={
        prefix + unit: scale for prefix, scale in _SI.items() for unit in ("FLOPS", "FLOP/s", "OPS")
    },
    ladder=("EFLOPS", "PFLOPS", "TFLOPS", "GFLOPS", "MFLOPS"),
    base="FLOPS",
)
COUNT = Dimension(
    name="count",
    suffix="_count",
    examples="1024, 70B or 15T",
    scales=_count_scales(
        "requests", "samples", "params", "parameters", "steps", "examples", "users"
    ),
    ladder=("T", "B", "M", "k"),
    bare=True,
)
TOKENS = Dimension(
    name="number of tokens",
    suffix="_tokens",
    examples="15T or 2.5M tokens",
    scales=_count_scales("tokens", "token"),
    ladder=("T", "B", "M", "k"),
    bare=True,
)
DURATION = Dimension(
    name="duration",
    suffix="_s",
    examples="45ms, 12h or 3d",
    scales=_SECONDS,
    ladder=("d", "h", "min", "s", "ms", "µs"),
    base="ns",
    compound=True,
)
MONEY = Dimension(
    name="amount of money",
    suffix="_usd",
    examples="$4000 or $2.5M",
    scales={"": 1.0, **_COUNTS},
    ladder=("B", "M", "k"),
    prefix="$",
)
PRICE_PER_HOUR = Dimension(
    name="hourly price",
    suffix="_usd_per_hour",
    examples="$88.49/h",
    scales={"/h": 1.0, "/hour": 1.0, "/d": 1 / 24.0, "/day": 1 / 24.0},
    ladder=("/h",),
    base="/h",
    prefix="$",
)
RATE = Dimension(
    name="rate of events",
    suffix="_per_s",
    examples="120/s or 500 requests/min",
    scales={
        noun + per: scale
        for noun in ("", "requests", "req", "queries", "images", "frames", "samples")
        for per, scale in (("/s", 1.0), ("/sec", 1.0), ("/min", 1 / MINUTE_S), ("/h", 1 / HOUR_S))
    }
    | {"rps": 1.0, "qps": 1.0, "fps": 1.0},
    ladder=("/s",),
    base="/s",
)
POWER = Dimension(
    name="power",
    suffix="_w",
    examples="700W or 1.2MW",
    scales={prefix + "W": scale for prefix, scale in _SI.items()} | {"mW": 1e-3},
    ladder=("GW", "MW", "kW"),
    base="W",
)
LENGTH = Dimension(
    name="length",
    suffix="_m",
    examples="40m",
    scales={"m": 1.0, "km": 1e3, "cm": 1e-2, "mm": 1e-3},
    ladder=("km", "m"),
    base="cm",
)
RATIO = Dimension(
    name="ratio",
    suffix="_ratio",
    examples="0.9 or 90%",
    scales={"": 1.0, "%": 0.01},
    ladder=(),
    bare=True,
)
DIMENSIONS = (
    BYTES, BITS_PER_S, BYTES_PER_S, FLOP_PER_S, COUNT, TOKENS, DURATION, MONEY, PRICE_PER_HOUR,
    RATE, POWER, LENGTH, RATIO,
)  # fmt: skip

_NUMBER = r"(?:\d{1,3}(?:,\d{3})+|\d+(?:_\d+)*)(?:\.\d+)?(?:[eE][+-]?\d{1,3})?|\.\d+"
_QUANTITY = re.compile(rf"(?P<number>{_NUMBER})\s*(?P<unit>[^\d\s.,+-][^\d.,]*)?", re.ASCII)


def parse(text: str, dimension: Dimension) -> float:
    """Return the SI value of a quantity such as `400Gbps`; UnitError says how to write it."""
    fix = f"write it like {dimension.examples}"
    body = text.strip()
    text = text if len(text) <= 60 else f"{text[:59]}…"  # shown in messages
    if body.startswith("-"):
        raise UnitError(f'"{text}" is negative', fix)
    if dimension.prefix:
        body = _amount(body, dimension.prefix, fix)
    total = 0.0
    position = 0
    while match := _QUANTITY.match(body, position):
        number = float(match["number"].replace(",", "").replace("_", ""))
        total += number * _scale(text, (match["unit"] or "").strip(), dimension, fix)
        position = match.end()
        if not dimension.compound:
            break
    if position == 0 or position != len(body):
        raise UnitError(f'"{text}" is not {dimension.noun}', fix)
    if not math.isfinite(total):
        raise UnitError(f'"{text}" is too large', fix)
    return total


def _amount(text: str, prefix: str, fix: str) -> str:
    if text.startswith(prefix):
        return text.removeprefix(prefix).lstrip()
    if "USD" not in text:
        raise UnitError(f'"{text}" has no currency', fix)
    return text.replace("USD", "", 1).strip()


def _scale(text: str, unit: str, dimension: Dimension, fix: str) -> float:
    written = unit.replace(" ", "")
    if written in dimension.scales and (written or dimension.bare or dimension.prefix):
        return dimension.scales[written]
    if not written:
        raise UnitError(f'"{text}" has no unit', fix)
    spellings = [
        known for known in dimension.scales if known and known.casefold() == written.casefold()
    ]
    if spellings:
        raise UnitError(
            f'"{text}": unit "{unit}" is written {" or ".join(sorted(set(spellings)))}', fix
        )
    raise UnitError(f'"{text}": "{unit}" is not a unit of {dimension.name}', fix)


def show(value: float, dimension: Dimension, digits: int = 3) -> str:
    """Format a value with a readable unit, to `digits` significant digits: `80GB`, `3d`."""
    if dimension is RATIO:
        return f"{_trim(value * 100, digits)}%"
    unit = next(
        (
            candidate
            for candidate in dimension.ladder
            if abs(value) >= dimension.scales[candidate] * (1 - 0.5 * 10.0**-digits)
        ),
        dimension.base,
    )
    scale = dimension.scales.get(unit, 1.0)
    return f"{dimension.prefix}{_trim(value / scale, digits)}{unit}"


def _trim(value: float, digits: int) -> str:
    if value == 0:
        return "0"
    magnitude = math.floor(math.log10(abs(value)))
    text = f"{value:,.{max(0, digits - 1 - magnitude)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
