"""Rendered folders for the apply tests, and the process that applies them."""

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

from gpuyard.app.provision import Provisioned, provision, write_deployment
from gpuyard.blueprint.blueprint import Blueprint, Shape
from gpuyard.catalog.load import load_catalog
from gpuyard.home import user_state_directory
from gpuyard.provision.deployment_settings import DeploymentSettings
from gpuyard.workload.where import ConsumptionName
from sample_blueprints import BlueprintSample, sample_blueprint

DRIVER = Path(__file__).parent / "killed.py"


def blueprint(machine: str, shape: Shape, way: ConsumptionName | None) -> Blueprint:
    """Return a sample blueprint priced today."""
    catalog = load_catalog()
    row = next(row for row in catalog.machines if row.name == machine)
    sample = sample_blueprint(BlueprintSample(machine=row, shape=shape, consumption=way), catalog)
    return replace(sample, priced=datetime.datetime.now(tz=datetime.UTC).date())


def render(
    into: Path,
    machine: str,
    shape: Shape,
    way: ConsumptionName | None,
    platform: str = "compute-engine",
    **settings: Any,
) -> Path:
    """Render a deployment into a folder."""
    deployed = DeploymentSettings(
        **{"project": "yard-1", "owner": "ada", "rendered_s": float(int(time.time())), **settings}
    )
    folder = into / "deploy"
    rendered = provision(blueprint(machine, shape, way), platform, deployed, load_catalog())
    assert isinstance(rendered, Provisioned), rendered
    write_deployment(folder, rendered.files)
    return folder


@dataclass
class Runner:
    """A process that forks one process per apply or destroy, some of which are killed."""

    process: subprocess.Popen[str]
    count: int = 0
    kills: int = 0
    seen: dict[str, int] = field(default_factory=dict)

    def run(
        self, verb: str, folder: Path, url: str, kill_at: int = -1, **more: Any
    ) -> dict[str, Any]:
        """Return the result of one process."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        case = {"verb": verb, "folder": str(folder), "url": url, "kill_at": kill_at, **more}
        self.process.stdin.write(json.dumps(case) + "\n")
        self.process.stdin.flush()
        result: dict[str, Any] = json.loads(self.process.stdout.readline())
        self.count += 1
        self.kills += result["killed"]
        return result


@contextmanager
def runner(environment: dict[str, str] | None = None) -> Iterator[Runner]:
    """Run the process for the duration of the block."""
    process = subprocess.Popen(
        [sys.executable, str(DRIVER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        yield Runner(process=process)
    finally:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        process.wait(timeout=300)
        process.stdout.close()


def fresh(folder: Path, into: Path) -> Path:
    """Copy a folder without its journal, and forget that the copy ever had one."""
    shutil.rmtree(into, ignore_errors=True)
    shutil.rmtree(user_state_directory() / "journals" / "folders", ignore_errors=True)
    shutil.copytree(folder, into, ignore=shutil.ignore_patterns("apply.jsonl"))
    return into
