"""The recommendation for each scenario workload, and the expert's criteria that it meets.

    python bench/scenarios.py [NAME ...]

Workloads and criteria are those of tests/scenarios.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.scenarios.criteria import CRITERIA, WORKLOADS

from gpuyard.app.plan import plan_workload
from gpuyard.app.workspace import open_workspace
from gpuyard.errors import Infeasible
from gpuyard.report.recommendation import recommendation


def main(names: list[str]) -> int:
    """Print every scenario; return 1 if a criterion is missed."""
    total = met = 0
    for name in names or sorted(CRITERIA):
        plan = plan_workload(open_workspace(WORKLOADS / f"{name}.yaml"))
        text = str(plan) if isinstance(plan, Infeasible) else recommendation(plan)[0]
        results = {criterion: check(plan) for criterion, check in CRITERIA[name].items()}
        total += len(results)
        met += sum(results.values())
        print(f"{name}: {text}")
        for criterion, passed in results.items():
            print(f"  {'met   ' if passed else 'MISSED'} {criterion}")
    print(f"{met} of {total} criteria met")
    return 0 if met == total else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
