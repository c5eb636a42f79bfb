"""The recipe "Add an engine" of CONTRIBUTING.md: one folder and one line of a list."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .checkout import Checkout

ENGINE = '''
import os
import subprocess
import time
from pathlib import Path

from gpuyard.jobs.task import TaskStatus, check_task, handle_of


class ToyEngine:
    """Runs a task while it is submitted."""

    poll_s = 0.1

    def __init__(self, spec):
        self.spec = spec

    def handle(self, task):
        return handle_of(self.spec, task)

    def submit(self, task):
        check_task(task)
        handle, began_s = self.handle(task), time.time()
        folder = Path(handle.folder)
        folder.mkdir(parents=True)
        environment = {**os.environ, **dict(task.env), "RANK": "0", "WORLD_SIZE": "1"}
        with (folder / "log").open("wb") as log:
            done = subprocess.run(
                task.argv, cwd=task.folder, env=environment, stdout=log, stderr=log, check=False
            )
        (folder / "code").write_text(f"{done.returncode} {began_s} {time.time()}")
        return handle

    def status(self, handle):
        code, began_s, ended_s = (Path(handle.folder) / "code").read_text().split()
        return TaskStatus(
            state="failed" if int(code) else "done",
            exit_code=int(code),
            started_s=float(began_s),
            ended_s=float(ended_s),
            attempts=1,
        )

    def logs(self, handle, follow):
        yield from (Path(handle.folder) / "log").read_text().splitlines()

    def cancel(self, handle):
        pass
'''
LOADER = """def _toy(spec: EngineSpec) -> Engine:
    from gpuyard.jobs.engines.toy.toy_engine import ToyEngine

    return ToyEngine(spec)


"""
WORKLOAD = """
name: toy
task: pretraining
where: {provider: local}
pipeline:
  data: {source: "sklearn:iris", label: target}
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    copy = Checkout(tmp_path, "Add an engine")
    copy.write("src/gpuyard/jobs/engines/toy/toy_engine.py", ENGINE)
    engines = "src/gpuyard/jobs/engines/__init__.py"
    copy.insert(engines, "ENGINES: Mapping", LOADER)
    copy.insert(engines, '    "kubernetes": _kubernetes,\n', '    "toy": _toy,\n')
    return copy


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["flag", "file"])
def test_new_engine_runs_a_pipeline(checkout: Checkout, setting: str) -> None:
    chosen = setting == "file"
    text = WORKLOAD + ("  run: {engine: {name: toy}}\n" if chosen else "")
    (checkout.root / "workload.yaml").write_text(text, encoding="utf-8")
    flag = () if chosen else ("--engine", "toy")
    output = checkout.run("-m", "gpuyard", "run", "workload.yaml", "--json", *flag)
    run = json.loads(output)
    assert (run["state"], run["engine"]["name"]) == ("done", "toy")
