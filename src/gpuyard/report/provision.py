"""What a rendered deployment says on the screen."""

from __future__ import annotations

from gpuyard.blueprint import Blueprint, Change
from gpuyard.provision.exposure import Exposure
from gpuyard.provision.platform import Artefacts
from gpuyard.units import DURATION, MONEY, PRICE_PER_HOUR, show

__all__ = ["provisioned_text"]


def provisioned_text(
    blueprint: Blueprint, artefacts: Artefacts, exposure: Exposure, folder: str, changes: tuple[Change, ...] = ()
) -> str:
    """The decision, what it can cost, what changed since the folder was last written, and where to read on."""
    way = f" by {blueprint.way}" if blueprint.way else ""
    lines = [f"{blueprint.name}: {blueprint.machine_count:,} × {blueprint.machine.name}{way} on {artefacts.platform}"]
    if exposure.usd_per_hour is not None and exposure.expected_usd is not None and exposure.largest_usd is not None:
        lines.append(
            f"  {show(exposure.usd_per_hour, PRICE_PER_HOUR)}, {show(exposure.expected_usd, MONEY)} expected, "
            f"{show(exposure.largest_usd, MONEY)} at the most: it is ended after {show(exposure.ttl_s, DURATION)}"
        )
        if artefacts.unended:
            lines[-1] = lines[-1].replace("it is ended", f"if you end {artefacts.unended}")
    elif blueprint.way:
        lines.append("  no price is in the catalog")
    lines += [f"  changed: {change}" for change in changes]
    lines += [f"  note: {note}" for note in artefacts.notes]
    count = len(artefacts.files)
    lines.append(f"wrote {count} file{'s' * (count > 1)} and README.md with the commands to {folder}")
    return "\n".join(lines)
