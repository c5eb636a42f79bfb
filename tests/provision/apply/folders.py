"""Rendered folders to try apply on, and the process that tries it."""

from __future__ import annotations

import datetime
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gpuyard.app.provision import Choice, Provisioned, provision_file
from gpuyard.blueprint import Blueprint, Shape, blueprint_to_json
from gpuyard.catalog import load_catalog
from gpuyard.provision.samples import Sample, sample_blueprint
from gpuyard.provision.settings import Settings
from gpuyard.workload import ConsumptionName

DRIVER = Path(__file__).parent / "killed.py"


def blueprint(machine: str, shape: Shape, way: ConsumptionName | None) -> Blueprint:
    """A decision with prices of today."""
    catalog = load_catalog()
    row = next(row for row in catalog.machines if row.name == machine)
    made = sample_blueprint(Sample(machine=row, shape=shape, way=way), catalog)
    return replace(made, priced=datetime.datetime.now(tz=datetime.UTC).date())


def render(
    into: Path,
    machine: str,
    shape: Shape,
    way: ConsumptionName | None,
    platform: str = "compute-engine",
    **settings: Any,
) -> Path:
    """A folder as `gpuyard provision` writes it."""
    source = into / "decision.json"
    into.mkdir(parents=True, exist_ok=True)
    source.write_text(blueprint_to_json(blueprint(machine, shape, way)), encoding="utf-8")
    told = Settings(**{"project": "yard-1", "owner": "ada", "made_s": float(int(time.time())), **settings})
    folder = into / "deploy"
    found = provision_file(source, platform, told, folder, Choice())
    assert isinstance(found, Provisioned), found
    return folder


@dataclass
class Runner:
    """A process that forks the processes that apply, destroy, and are killed."""

    process: subprocess.Popen[str]
    count: int = 0
    kills: int = 0
    seen: dict[str, int] = field(default_factory=dict)

    def run(self, verb: str, folder: Path, url: str, kill_at: int = -1, **more: Any) -> dict[str, Any]:
        """What one process said before it ended."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        case = {"verb": verb, "folder": str(folder), "url": url, "kill_at": kill_at, **more}
        self.process.stdin.write(json.dumps(case) + "\n")
        self.process.stdin.flush()
        told: dict[str, Any] = json.loads(self.process.stdout.readline())
        self.count += 1
        self.kills += told["killed"]
        return told


@contextmanager
def runner(environment: dict[str, str] | None = None) -> Iterator[Runner]:
    """The process, until the block ends."""
    process = subprocess.Popen(
        [sys.executable, str(DRIVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        yield Runner(process=process)
    finally:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        process.wait(timeout=20)
        process.stdout.close()


def fresh(folder: Path, into: Path) -> Path:
    """A copy of a folder, without a journal."""
    shutil.rmtree(into, ignore_errors=True)
    shutil.copytree(folder, into, ignore=shutil.ignore_patterns("apply.jsonl"))
    return into
