"""Searches and `gpuyard up` that are killed at random times resume, lose nothing and record nothing twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from .kills import KILLS, SCENARIOS, KillScenario, kill_scenario

NAMES = ("select", "up")
OWN = [scenario for scenario in SCENARIOS if scenario.name in NAMES]


@pytest.mark.slow
@pytest.mark.parametrize("scenario", OWN, ids=lambda scenario: scenario.name)
def test_killed_command_resumes(scenario: KillScenario, tmp_path: Path) -> None:
    report = kill_scenario(scenario, KILLS, tmp_path)
    assert not report.failures, "\n".join(report.failures)
