"""`gpuyard select`: the best setting of a workload file's candidates, within its limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from gpuyard.app.evaluate import prepared_of
from gpuyard.app.pipeline import read_stages
from gpuyard.app.plan import plan_workload
from gpuyard.catalog import load_catalog
from gpuyard.datasets import Prepared
from gpuyard.errors import Infeasible, InputError
from gpuyard.home import Home
from gpuyard.learn import TrainSpec, TrainTask, fit
from gpuyard.learn.evaluate import EvaluateSpec
from gpuyard.learn.evaluate.prepared import prepared_parts, problem_of
from gpuyard.learn.select import Footprint, Limits, Price, Selection, select
from gpuyard.workload import own_catalogs, read_workload

__all__ = ["STORE", "select_file", "serving_price"]

STORE = "selection.db"  # beside the ledger: trials of every search, for resuming
SECONDS_PER_HOUR = 3600.0


def select_file(
    path: Path, *, home: Home, data: Path | None = None, workers: int = 0, layers: Sequence[Path] = (),
    progress: Callable[[int, int], None] | None = None,
) -> Selection | Infeasible:  # fmt: skip
    """Searches as the `select` section says, over the folds that the `evaluate` section says."""
    stages = read_stages(path)
    if stages.select is None:
        raise InputError.one(str(path), "there is no select section", "add select: {metric: …, candidates: […]}")
    prepared = prepared_of(path, data, home)
    problem = problem_of(prepared)
    if problem == "language" and stages.select.limits != Limits():
        raise InputError.one(f"{path}: select.limits", "a language model is not timed here", "plan it as a service")
    price = serving_price(path, layers) if stages.select.limits.cost_usd is not None else None

    def export(spec: TrainSpec, folder: Path) -> Path:
        """Trains on all training rows."""
        return _export(prepared, spec, folder)

    return select(
        prepared_parts(prepared, stages.evaluate or EvaluateSpec()), stages.select, problem, export=export,
        price=price, storage=home.path / STORE, data=prepared.manifest.version, workers=workers, progress=progress,
        train=stages.train,
    )  # fmt: skip


def _export(prepared: Prepared, spec: TrainSpec, folder: Path) -> Path:
    """The bundle of a setting, trained on the training split."""
    result = fit(TrainTask(train=spec, data=str(prepared.folder), out=str(folder), name="finalist"))
    assert result.bundle is not None
    return Path(result.bundle)


def serving_price(path: Path, layers: Sequence[Path] = ()) -> Price:
    """USD of a million predictions on the planned machines: their price for one vCPU, for as long as it takes here.

    A vCPU there is taken to be as fast as a core of this machine, on which the model was timed.
    """
    where = f"{path}: select.limits.cost"
    catalog = load_catalog((*layers, *own_catalogs(path)))
    workload = read_workload(path, catalog)
    planned = workload.model is not None or workload.task not in ("pretraining", "finetuning")
    if workload.where.provider == "local" or not planned:
        fix = "name a provider with prices under where, and a model to plan for; or leave out the limit"
        raise InputError.one(where, "there is no planned machine to price it on", fix)
    plan = plan_workload(workload, catalog, folder=path.parent)
    if isinstance(plan, Infeasible):
        raise InputError.one(where, f"there is no plan to price: {plan.what}", plan.fix)
    for option in plan.options:
        machine = next((item for item in catalog.machines if item.name == option.cluster.machine), None)
        if machine is None or machine.vcpu_count is None or not option.bills:
            continue
        hourly = min(bill.usd_per_hour for bill in option.bills)
        per_vcpu_s = hourly / (option.cluster.machine_count * machine.vcpu_count) / SECONDS_PER_HOUR

        def price(taken: Footprint, per_vcpu_s: float = per_vcpu_s) -> float:
            """The time of one thread, at the price of one vCPU."""
            return 1e6 / taken.rows_per_s * per_vcpu_s

        return price
    raise InputError.one(where, "no planned machine has a price", "name a provider with prices under where")
