"""Measured values relative to their predictions, with the error that was stated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from gpuyard.perf.local.comparison import PredictedVsMeasured
from gpuyard.report.svg import PALETTE, WIDTH, drawing

LEFT, RIGHT, ROW, TOP = 190, 30, 34, 12
RATIOS = (0.25, 0.5, 0.8, 1.0, 1.25, 2.0, 4.0)


def comparison_plot(rows: Sequence[PredictedVsMeasured]) -> str:
    """One row per quantity on a logarithmic axis of measured over predicted."""
    known = [row for row in rows if row.predicted > 0 and row.measured > 0]
    if not known:
        return ""
    far = max(abs(math.log(row.measured / row.predicted)) for row in known)
    reach = max(math.log(2.0), 1.15 * far)
    middle = (LEFT + WIDTH - RIGHT) / 2
    bottom = TOP + ROW * len(known)

    def place(ratio: float) -> float:
        return middle + math.log(ratio) / reach * (WIDTH - RIGHT - LEFT) / 2

    body = [
        f'<path d="M{place(ratio):.1f} {TOP}V{bottom}" stroke="currentColor"'
        f' opacity="{0.5 if ratio == 1.0 else 0.12}"/>'
        f'<text x="{place(ratio):.1f}" y="{bottom + 16}" text-anchor="middle">× {ratio:g}</text>'
        for ratio in RATIOS
        if abs(math.log(ratio)) <= reach
    ]
    for number, row in enumerate(known):
        y, ratio = TOP + ROW * (number + 0.5), row.measured / row.predicted
        if row.stated_ratio is not None:
            low, high = (
                place(1.0 / (1.0 + row.stated_ratio)),
                place(1.0 / max(0.05, 1.0 - row.stated_ratio)),
            )
            low, high = max(LEFT, low), min(WIDTH - RIGHT, high)
            body.append(
                f'<rect x="{low:.1f}" y="{y - 7:.1f}" width="{high - low:.1f}" height="14"'
                f' fill="{PALETTE[0]}" fill-opacity=".25"><title>stated:'
                f" ±{row.stated_ratio:.0%}</title></rect>"
            )
        colour = PALETTE[3] if row.is_outside else PALETTE[0]
        body.append(
            f'<text x="{LEFT - 10}" y="{y + 4:.1f}" text-anchor="end">{escape(row.name)}</text>'
            f'<circle cx="{place(ratio):.1f}" cy="{y:.1f}" r="5" fill="{colour}">'
            f"<title>measured × {ratio:.3g} of the prediction</title></circle>"
        )
    body.append(
        f'<text x="{middle:.1f}" y="{bottom + 34}" text-anchor="middle">'
        "measured over predicted</text>"
    )
    return (
        drawing(bottom + 42, "".join(body), "measured over predicted")
        + "<p>Band: the error that was stated.</p>"
    )
