"""Quantities as engineers write them, parsed to SI numbers and printed back.

Inside gpuyard a quantity is a plain number in SI units and its name says which (`memory_bytes`, `step_s`).
Only files and screens hold `80GB`, `400Gbps` or `3d`; this module is the one door between the two, and
`bytes_from_bits` is the one place where bits become bytes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

__all__ = [
    "BITS_PER_S", "BYTES", "BYTES_PER_S", "COUNT", "DIMENSIONS", "DURATION", "FLOP_PER_S", "LENGTH", "MEMORY",
    "MONEY", "POWER", "PRICE_PER_HOUR", "RATE", "RATIO", "TOKENS", "Dimension", "UnitError", "bits_from_bytes",
    "bytes_from_bits", "parse", "show",
]  # fmt: skip

BITS_PER_BYTE = 8


def bytes_from_bits(bits: float) -> float:
    """Bits to bytes; holds for bits per second too. Nothing else in gpuyard divides by eight to do this."""
    return bits / BITS_PER_BYTE


def bits_from_bytes(count_bytes: float) -> float:
    """Bytes to bits; the inverse of `bytes_from_bits`."""
    return count_bytes * BITS_PER_BYTE


class UnitError(ValueError):
    """A text that is not a quantity of the wanted dimension: what is wrong and how to write it."""

    def __init__(self, what: str, fix: str) -> None:
        self.what = what
        self.fix = fix
        super().__init__(f"{what}; {fix}")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)  # compared by identity: there is one of each
class Dimension:
    """One physical dimension: how its values are written, and the SI unit that they become."""

    name: str
    suffix: str  # what a field name of this dimension ends with
    examples: str
    scales: Mapping[str, float]  # unit as written -> SI
    ladder: tuple[str, ...]  # units used for printing, largest first
    base: str = ""  # unit of a value below the ladder
    bare: bool = False  # a number without a unit is allowed
    prefix: str = ""  # "$"
    compound: bool = False  # "1d12h" adds up

    def __repr__(self) -> str:
        return f"<Dimension {self.name}>"

    @property
    def noun(self) -> str:
        """The name with its article."""
        return f"{'an' if self.name.startswith(('a', 'hour')) else 'a'} {self.name}"


_SI = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50}
_BITS = {
    prefix + unit: scale
    for prefix, scale in _SI.items()
    for unit in ("bps", "b/s", "bit/s")
}  # fmt: skip
_OCTETS = {
    prefix + unit: scale
    for prefix, scale in (_SI | _BINARY).items()
    for unit in ("B/s", "Bps")
}  # fmt: skip
_COUNTS = {"k": 1e3, "K": 1e3, "M": 1e6, "B": 1e9, "G": 1e9, "T": 1e12}
_SECONDS = {
    "ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3,
    "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "hour": 3600.0, "hours": 3600.0,
    "d": 86400.0, "day": 86400.0, "days": 86400.0, "w": 604800.0, "week": 604800.0, "weeks": 604800.0,
    "y": 31536000.0, "year": 31536000.0, "years": 31536000.0,
}  # fmt: skip


def _counted(*nouns: str) -> dict[str, float]:
    """Scales of a count whose noun may follow: `2.5M`, `2.5M tokens`."""
    scales = {"": 1.0, **_COUNTS}
    return scales | {f"{scale}{noun}": value for scale, value in scales.items() for noun in nouns}


BYTES = Dimension(
    name="data size", suffix="_bytes", examples="80GB or 186GiB",
    scales={prefix + "B": scale for prefix, scale in (_SI | _BINARY).items()} | {"bytes": 1.0},
    ladder=("PB", "TB", "GB", "MB", "kB"), base="B",
)  # fmt: skip
# Bytes of a chip as drivers and engines count them: nvidia-smi's 40960 MiB are 40 GiB, and 42.9 GB that no label says.
MEMORY = replace(BYTES, ladder=("PiB", "TiB", "GiB", "MiB", "KiB"))
BITS_PER_S = Dimension(
    name="link speed", suffix="_bits_per_s", examples="400Gbps or 3.2Tbps",
    scales=_BITS | {unit: bits_from_bytes(scale) for unit, scale in _OCTETS.items()},
    ladder=("Pbps", "Tbps", "Gbps", "Mbps", "kbps"), base="bps",
)  # fmt: skip
BYTES_PER_S = Dimension(
    name="data rate", suffix="_bytes_per_s", examples="3350GB/s or 8TB/s",
    scales=_OCTETS | {unit: bytes_from_bits(scale) for unit, scale in _BITS.items()},
    ladder=("PB/s", "TB/s", "GB/s", "MB/s", "kB/s"), base="B/s",
)  # fmt: skip
FLOP_PER_S = Dimension(
    name="compute rate", suffix="_flop_per_s", examples="989TFLOPS or 1.979PFLOPS",
    scales={prefix + unit: scale for prefix, scale in _SI.items() for unit in ("FLOPS", "FLOP/s", "OPS")},
    ladder=("EFLOPS", "PFLOPS", "TFLOPS", "GFLOPS", "MFLOPS"), base="FLOPS",
)  # fmt: skip
COUNT = Dimension(
    name="count", suffix="_count", examples="1024, 70B or 15T",
    scales=_counted("requests", "samples", "params", "parameters", "steps", "examples", "users"),
    ladder=("T", "B", "M", "k"), bare=True,
)  # fmt: skip
TOKENS = Dimension(
    name="number of tokens", suffix="_tokens", examples="15T or 2.5M tokens",
    scales=_counted("tokens", "token"), ladder=("T", "B", "M", "k"), bare=True,
)  # fmt: skip
DURATION = Dimension(
    name="duration", suffix="_s", examples="45ms, 12h or 3d",
    scales=_SECONDS, ladder=("d", "h", "min", "s", "ms", "µs"), base="ns", compound=True,
)  # fmt: skip
MONEY = Dimension(
    name="amount of money", suffix="_usd", examples="$4000 or $2.5M",
    scales={"": 1.0, **_COUNTS}, ladder=("B", "M", "k"), prefix="$",
)  # fmt: skip
PRICE_PER_HOUR = Dimension(
    name="hourly price", suffix="_usd_per_hour", examples="$88.49/h",
    scales={"/h": 1.0, "/hour": 1.0, "/d": 1 / 24.0, "/day": 1 / 24.0}, ladder=("/h",), base="/h", prefix="$",
)  # fmt: skip
RATE = Dimension(
    name="rate of events", suffix="_per_s", examples="120/s or 500 requests/min",
    scales={
        noun + per: scale
        for noun in ("", "requests", "req", "queries", "images", "frames", "samples")
        for per, scale in (("/s", 1.0), ("/sec", 1.0), ("/min", 1 / 60.0), ("/h", 1 / 3600.0))
    } | {"rps": 1.0, "qps": 1.0, "fps": 1.0},
    ladder=("/s",), base="/s",
)  # fmt: skip
POWER = Dimension(
    name="power", suffix="_w", examples="700W or 1.2MW",
    scales={prefix + "W": scale for prefix, scale in _SI.items()} | {"mW": 1e-3},
    ladder=("GW", "MW", "kW"), base="W",
)  # fmt: skip
LENGTH = Dimension(
    name="length", suffix="_m", examples="40m", scales={"m": 1.0, "km": 1e3, "cm": 1e-2, "mm": 1e-3},
    ladder=("km", "m"), base="cm",
)  # fmt: skip
RATIO = Dimension(
    name="ratio", suffix="_ratio", examples="0.9 or 90%", scales={"": 1.0, "%": 0.01}, ladder=(), bare=True,
)  # fmt: skip
DIMENSIONS = (
    BYTES, BITS_PER_S, BYTES_PER_S, FLOP_PER_S, COUNT, TOKENS, DURATION, MONEY, PRICE_PER_HOUR, RATE, POWER,
    LENGTH, RATIO,
)  # fmt: skip

_NUMBER = r"(?:\d{1,3}(?:,\d{3})+|\d+(?:_\d+)*)(?:\.\d+)?(?:[eE][+-]?\d{1,3})?|\.\d+"
_QUANTITY = re.compile(rf"(?P<number>{_NUMBER})\s*(?P<unit>[^\d\s.,+-][^\d.,]*)?", re.ASCII)


def parse(text: str, dimension: Dimension) -> float:
    """The SI value of a quantity such as `400Gbps`; UnitError says how to write it if it is not one."""
    fix = f"write it like {dimension.examples}"
    body = text.strip()
    text = text if len(text) <= 60 else f"{text[:59]}…"  # for messages
    if body.startswith("-"):
        raise UnitError(f'"{text}" is negative', fix)
    if dimension.prefix:
        body = _amount(body, dimension.prefix, fix)
    total, position, seen = 0.0, 0, 0
    while match := _QUANTITY.match(body, position):
        number = float(match["number"].replace(",", "").replace("_", ""))
        total += number * _scale(text, (match["unit"] or "").strip(), dimension, fix)
        position, seen = match.end(), seen + 1
        if not dimension.compound:
            break
    if seen == 0 or position != len(body):
        raise UnitError(f'"{text}" is not {dimension.noun}', fix)
    if not math.isfinite(total):
        raise UnitError(f'"{text}" is too large', fix)
    return total


def _amount(text: str, prefix: str, fix: str) -> str:
    """The amount in `$4000` or `4000 USD`; a number without a currency is refused."""
    if text.startswith(prefix):
        return text.removeprefix(prefix).lstrip()
    if "USD" not in text:
        raise UnitError(f'"{text}" has no currency', fix)
    return text.replace("USD", "", 1).strip()


def _scale(text: str, unit: str, dimension: Dimension, fix: str) -> float:
    """What one of `unit` is in SI."""
    squeezed = unit.replace(" ", "")
    if squeezed in dimension.scales and (squeezed or dimension.bare or dimension.prefix):
        return dimension.scales[squeezed]
    if not squeezed:
        raise UnitError(f'"{text}" has no unit', fix)
    alike = [known for known in dimension.scales if known and known.casefold() == squeezed.casefold()]
    if alike:
        raise UnitError(f'"{text}": unit "{unit}" is written {" or ".join(sorted(set(alike)))}', fix)
    raise UnitError(f'"{text}": "{unit}" is not a unit of {dimension.name}', fix)


def show(value: float, dimension: Dimension, digits: int = 3) -> str:
    """The value as people write it, to `digits` significant digits: `80GB`, `400Gbps`, `3d`."""
    if dimension is RATIO:
        return f"{_trim(value * 100, digits)}%"
    unit, scale = dimension.base, dimension.scales.get(dimension.base, 1.0)
    for candidate in dimension.ladder:
        if abs(value) >= dimension.scales[candidate] * (1 - 0.5 * 10.0**-digits):
            unit, scale = candidate, dimension.scales[candidate]
            break
    return f"{dimension.prefix}{_trim(value / scale, digits)}{unit}"


def _trim(value: float, digits: int) -> str:
    """The number to that many significant digits, never in exponent form when it is below a million."""
    if value == 0:
        return "0"
    magnitude = math.floor(math.log10(abs(value)))
    text = f"{value:,.{max(0, digits - 1 - magnitude)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
