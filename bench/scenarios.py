"""The recommendation for each scenario workload, and the expert's criteria that it meets.

    python bench/scenarios.py [NAME ...]

Workloads and criteria are those of tests/scenarios.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from gpuyard.app.plan import plan_workload
from gpuyard.app.workspace import open_workspace
from gpuyard.errors import Infeasible
from gpuyard.report.recommendation import recommendation

# By path: another package may be called `tests`.
SCENARIOS = Path(__file__).resolve().parents[1] / "tests" / "scenarios" / "criteria.py"


def main(names: list[str]) -> int:
    """Print every scenario; return 1 if a criterion is missed."""
    scenarios = runpy.run_path(str(SCENARIOS))
    criteria, workloads = scenarios["CRITERIA"], scenarios["WORKLOADS"]
    total = met = 0
    for name in names or sorted(criteria):
        plan = plan_workload(open_workspace(workloads / f"{name}.yaml"))
        text = str(plan) if isinstance(plan, Infeasible) else recommendation(plan)[0]
        results = {criterion: check(plan) for criterion, check in criteria[name].items()}
        total += len(results)
        met += sum(results.values())
        print(f"{name}: {text}")
        for criterion, passed in results.items():
            print(f"  {'met   ' if passed else 'MISSED'} {criterion}")
    print(f"{met} of {total} criteria met")
    return 0 if met == total else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
