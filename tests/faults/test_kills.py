"""Commands that are killed at random times resume, lose nothing and record nothing twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from .kills import SCENARIOS, KillScenario, kill_scenario

KILLS = 15  # per command; `python bench/reliability.py --only kills --tries 1000` for more


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_killed_command_resumes(scenario: KillScenario, tmp_path: Path) -> None:
    report = kill_scenario(scenario, KILLS, tmp_path)
    assert not report.failures, "\n".join(report.failures)
