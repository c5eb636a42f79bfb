"""Times as numbers: microseconds since 1970, UTC."""

from __future__ import annotations

import datetime

import numpy as np

SECOND_US = 1_000_000
MINUTE_US = 60 * SECOND_US
HOUR_US = 60 * MINUTE_US
DAY_US = 24 * HOUR_US
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)


def micros_of(value: object, form: str = "") -> float:
    """Return the microseconds of a time, date or text (strptime `form`, else ISO 8601), or NaN."""
    try:
        if isinstance(value, str):
            value = (
                datetime.datetime.strptime(value, form)
                if form
                else datetime.datetime.fromisoformat(value)
            )
        if isinstance(value, datetime.datetime):
            moment = value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
            return float((moment - _EPOCH) // _MICROSECOND)
        if isinstance(value, datetime.date):
            return float((value - _EPOCH.date()).days * DAY_US)
        if isinstance(value, np.datetime64):
            if np.isnat(value):
                return float("nan")
            return float(value.astype("datetime64[us]").astype(np.int64))
        return float("nan") if value is None else float(str(value))
    except ValueError:
        return float("nan")
