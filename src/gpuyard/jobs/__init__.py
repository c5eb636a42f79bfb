"""Execution: engines that run tasks here, on Ray, on Slurm and on Kubernetes, and the ledger of runs."""

from gpuyard.jobs.artefacts import add_artefacts, artefacts
from gpuyard.jobs.engines import ENGINES, open_engine
from gpuyard.jobs.follow import Progress, follow, run_task
from gpuyard.jobs.ledger import Ledger
from gpuyard.jobs.metrics import import_metrics, series
from gpuyard.jobs.records import Artefact, Point, Run, Series, Stage
from gpuyard.jobs.spec import ENGINE_NAMES, EngineSpec, check_spec
from gpuyard.jobs.task import Engine, Handle, Status, Task, check_task, cost_usd, new_id

__all__ = [
    "ENGINES", "ENGINE_NAMES", "Artefact", "Engine", "EngineSpec", "Handle", "Ledger", "Point", "Progress", "Run",
    "Series", "Stage", "Status", "Task", "add_artefacts", "artefacts", "check_spec", "check_task", "cost_usd", "follow",
    "import_metrics", "new_id", "open_engine", "run_task", "series",
]  # fmt: skip
