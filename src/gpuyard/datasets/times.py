"""Times as numbers: microseconds since 1970, UTC."""

from __future__ import annotations

import datetime

import numpy as np

__all__ = ["micros_of"]

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICRO = datetime.timedelta(microseconds=1)


def micros_of(value: object, form: str = "") -> float:
    """The microseconds of a time, a day or its text; NaN where it is none."""
    try:
        if isinstance(value, str):
            value = datetime.datetime.strptime(value, form) if form else datetime.datetime.fromisoformat(value)
        if isinstance(value, datetime.datetime):
            stamp = value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
            return float((stamp - _EPOCH) // _MICRO)
        if isinstance(value, datetime.date):
            return float((value - _EPOCH.date()).days * 86_400_000_000)
        if isinstance(value, np.datetime64):
            return float("nan") if np.isnat(value) else float(value.astype("datetime64[us]").astype(np.int64))
        return float("nan") if value is None else float(str(value))
    except ValueError:
        return float("nan")
