"""`gpuyard select`: search trainers and hyperparameters within limits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gpuyard.app.evaluate import prepared_of
from gpuyard.app.plan import plan_workload
from gpuyard.app.stages import read_stages
from gpuyard.app.workspace import Workspace
from gpuyard.catalog.load import Catalog, load_catalog
from gpuyard.datasets.prepared import PreparedDataset
from gpuyard.errors import Infeasible, InputError
from gpuyard.home import Home
from gpuyard.learn.evaluate.prepared import problem_of, search_splits
from gpuyard.learn.evaluate.spec import EvaluateSpec
from gpuyard.learn.fit import fit
from gpuyard.learn.select.search import SearchOptions
from gpuyard.learn.select.select_model import Price, select
from gpuyard.learn.select.selection import Footprint, Selection
from gpuyard.learn.select.spec import SelectLimits
from gpuyard.learn.spec import TrainSpec
from gpuyard.learn.task import TrainTask
from gpuyard.units import HOUR_S
from gpuyard.workload.read import own_catalogs, read_workload

STORE = "selection.db"  # next to the ledger: trials of every search, for resuming


def select_file(
    path: Path,
    *,
    home: Home,
    data: Path | None = None,
    workers: int = 0,
    catalog: Catalog | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Selection | Infeasible:
    """Search as the `select` section says, on the folds of the `evaluate` section."""
    stages = read_stages(path)
    if stages.select is None:
        raise InputError.one(
            str(path), "there is no select section", "add select: {metric: …, candidates: […]}"
        )
    prepared = prepared_of(path, data, home)
    problem = problem_of(prepared)
    if problem == "language" and stages.select.limits != SelectLimits():
        raise InputError.one(
            f"{path}: select.limits", "a language model is not timed here", "plan it as a service"
        )
    price = (
        serving_price(path, catalog or load_catalog(own_catalogs(path)))
        if stages.select.limits.cost_usd is not None
        else None
    )

    def export(spec: TrainSpec, folder: Path) -> Path:
        return _export(prepared, spec, folder)

    return select(
        search_splits(prepared, stages.evaluate or EvaluateSpec()),
        stages.select,
        problem,
        export=export,
        price=price,
        workers=workers,
        options=SearchOptions(
            storage=home.path / STORE,
            data=prepared.manifest.version,
            on_progress=progress,
            train=stages.train,
        ),
    )


def _export(prepared: PreparedDataset, spec: TrainSpec, folder: Path) -> Path:
    result = fit(TrainTask(train=spec, data=str(prepared.folder), out=str(folder), name="finalist"))
    assert result.bundle is not None
    return Path(result.bundle)


def serving_price(path: Path, catalog: Catalog) -> Price:
    """USD per million predictions on the planned machines.

    The price of one vCPU for the time measured here; a vCPU is taken to be as fast as a local core.
    """
    where = f"{path}: select.limits.cost"
    workload = read_workload(path, catalog)
    planned = workload.model is not None or workload.task not in ("pretraining", "finetuning")
    if workload.where.provider == "local" or not planned:
        fix = "name a provider with prices under where, and a model; or remove the limit"
        raise InputError.one(where, "there is no planned machine to price it on", fix)
    workspace = Workspace(
        workload=workload, catalog=catalog, home=Home.for_workload(path), folder=path.parent
    )
    plan = plan_workload(workspace)
    if isinstance(plan, Infeasible):
        raise InputError.one(where, f"there is no plan to price: {plan.what}", plan.fix)
    for option in plan.options:
        machine = next(
            (item for item in catalog.machines if item.name == option.cluster.machine), None
        )
        if machine is None or machine.vcpu_count is None or not option.bills:
            continue
        hourly = min(bill.usd_per_hour for bill in option.bills)
        per_vcpu_s = hourly / (option.cluster.machine_count * machine.vcpu_count) / HOUR_S

        def price(taken: Footprint, per_vcpu_s: float = per_vcpu_s) -> float:
            return 1e6 / taken.rows_per_s * per_vcpu_s

        return price
    raise InputError.one(
        where, "no planned machine has a price", "name a provider with prices under where"
    )
