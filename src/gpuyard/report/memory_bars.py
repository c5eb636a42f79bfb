"""Peak memory of options against the capacity of their chips or machines."""

from __future__ import annotations

from collections.abc import Sequence

from gpuyard.plan.option import Option
from gpuyard.report.svg import Bar, stacked_bars
from gpuyard.units import Dimension, show

UNUSED = "unused"  # part of a service's memory that nothing uses


def memory_section(options: Sequence[Option], unit: Dimension) -> list[str]:
    """Bars of the memory parts inside the capacity; none where no option states its memory."""
    bars = [
        Bar(
            label=f"{option.cluster.machine_count} × {option.cluster.machine} {option.precision}",
            parts=tuple(
                (part.name, part.value) for part in option.memory_parts if part.name != UNUSED
            ),
            whole=option.memory_capacity_bytes,
        )
        for option in options
        if option.memory_parts and option.memory_capacity_bytes > 0
    ]
    if not bars:
        return []
    per = "chip" if any(option.cluster.chip for option in options) else "machine"
    drawn = stacked_bars(bars, lambda value: show(value, unit, 3))
    return [f"<h2>Peak memory per {per}</h2>{drawn}<p>Outline: capacity.</p>"]
