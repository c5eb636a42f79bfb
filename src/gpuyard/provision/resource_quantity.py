"""Kubernetes resource quantities: 100m, 8, 16Gi, 1e3."""

from __future__ import annotations

import re

from gpuyard.document.frozen_json import Plain

_QUANTITY = re.compile(r"(\d+\.?\d*(?:[eE][+-]?\d{1,2})?|\.\d+)([a-zA-Z]*)")
_SUFFIXES = {
    "": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3,
    "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60,
}  # fmt: skip


def quantity(value: Plain) -> float:
    """Return a quantity as a number; 0 if it is not one."""
    text = value if isinstance(value, str) else ""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    match = _QUANTITY.fullmatch(text)
    return float(match.group(1)) * _SUFFIXES.get(match.group(2), 0.0) if match else 0.0
