"""Reliability: what was tried, how often, and how often it failed.

    python bench/reliability.py                          every class, a few minutes to an hour
    python bench/reliability.py --only fuzz --tries 1000000
    python bench/reliability.py --only kills --tries 1000
    python bench/reliability.py --only endurance --tries 1000000

Every class prints one row: tries, failures, seconds. Needs the extras `run` and `dev`, and runs
from a checkout: inputs, kills and requests are those of the tests.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.faults.kills import SCENARIOS, kill_scenario
from tests.fuzz.fuzz import fuzz
from tests.fuzz.targets import TARGETS

import reliability_servers as servers
from reliability_servers import ReliabilityRow


def fuzzing(tries: int) -> ReliabilityRow:
    """Read mutated files with every reader: a result or a proper error, in time and memory."""
    total = sum(target.weight for target in TARGETS)
    start, count, failures = time.perf_counter(), 0, []
    with tempfile.TemporaryDirectory(prefix="gpuyard-fuzz-") as folder:
        for target in TARGETS:
            report = fuzz(target, tries * target.weight // total + 1, Path(folder))
            count += report.tries
            failures += report.failures
            for failure in report.failures[:5]:
                print(f"  {failure.target} {failure.seed}: {failure.what}", flush=True)
    return ReliabilityRow(
        name="readers: mutated files",
        tries=count,
        failures=len(failures),
        seconds=time.perf_counter() - start,
        detail=f"{len(TARGETS)} readers",
    )


def kills(tries: int) -> ReliabilityRow:
    """Kill commands at random times: they resume, lose nothing and record nothing twice."""
    start, count, failures = time.perf_counter(), 0, []
    with tempfile.TemporaryDirectory(prefix="gpuyard-kills-") as folder:
        for scenario in SCENARIOS:
            own = Path(folder) / scenario.name.replace(" ", "-")
            report = kill_scenario(scenario, tries // len(SCENARIOS), own)
            count += report.kills
            failures += report.failures
            for failure in report.failures[:5]:
                print(f"  {scenario.name}: {failure}", flush=True)
    names = ", ".join(scenario.name for scenario in SCENARIOS)
    return ReliabilityRow(
        name="commands: kill -9",
        tries=count,
        failures=len(failures),
        seconds=time.perf_counter() - start,
        detail=names,
    )


CLASSES: dict[str, tuple[Callable[[int], ReliabilityRow], int]] = {
    "fuzz": (fuzzing, 10_000),
    "kills": (kills, 60),
    "contract": (servers.contract, 10_000),
    "endurance": (servers.endurance, 100_000),
    "killed-workers": (servers.killed_workers, servers.KILLS),
}


def main() -> int:
    """Run the classes and print a row for each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=sorted(CLASSES), help="run one class")
    parser.add_argument("--tries", type=int, help="tries of each class that runs")
    arguments = parser.parse_args()
    failures = 0
    for name in (arguments.only,) if arguments.only else tuple(CLASSES):
        run, default = CLASSES[name]
        row = run(arguments.tries or default)
        failures += row.failures
        line = (
            f"{row.name:26} {row.tries:>9,} tries {row.failures:>4} failures {row.seconds:8.1f} s"
        )
        print(f"{line}  {row.detail}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
