"""The first option of each workload is the one that an expert would choose."""

from __future__ import annotations

import pytest

from gpuyard.app.plan import plan_workload
from gpuyard.app.workspace import open_workspace

from .criteria import CRITERIA, WORKLOADS


def test_every_workload_has_criteria() -> None:
    assert sorted(path.stem for path in WORKLOADS.glob("*.yaml")) == sorted(CRITERIA)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(CRITERIA))
def test_first_option_meets_the_criteria(name: str) -> None:
    plan = plan_workload(open_workspace(WORKLOADS / f"{name}.yaml"))
    missed = [criterion for criterion, check in CRITERIA[name].items() if not check(plan)]
    assert missed == []
