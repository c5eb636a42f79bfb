"""Restart limits of a job, from the interruptions that the plan expects until the TTL."""

from __future__ import annotations

import math

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.provision.deployment_settings import ResolvedSettings

# Restarts for failures of the program itself, beyond interruptions.
PROGRAM_FAILURES = 10
# Interruptions arrive at random (Poisson): a job exceeds the mean by three standard deviations
# about once in a thousand runs.
MARGIN_SIGMAS = 3.0


def expected_interruptions(blueprint: Blueprint, duration_s: float) -> float:
    """Return the interruptions that the plan expects within a time; 0 without a record."""
    between_s = blueprint.mean_time_between_interruptions_s
    return duration_s / between_s if between_s else 0.0


def restart_limit(blueprint: Blueprint, settings: ResolvedSettings) -> int:
    """Return how often the job may restart before its TTL."""
    expected = expected_interruptions(blueprint, settings.ttl_s)
    return PROGRAM_FAILURES + math.ceil(expected + MARGIN_SIGMAS * math.sqrt(expected))
