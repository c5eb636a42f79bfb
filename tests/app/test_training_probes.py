"""Short training runs that fit a machine profile."""

from __future__ import annotations

import pytest

from gpuyard.app.training_probes import ProbeShape, probes_of


@pytest.mark.slow
def test_progress_counts_short_training_runs() -> None:
    shapes = [
        ProbeShape(trainer="trees", width=7, layers=1, batch=rows, inputs=5) for rows in (200, 400)
    ]
    calls: list[tuple[str, int, int]] = []
    probes_of("trees", shapes, 2, lambda text, done=0, total=0: calls.append((text, done, total)))
    assert calls == [("short training runs of trees", done, 4) for done in range(5)]
