"""`gpuyard run`: a workload file's pipeline from data to deployment, each stage kept in the ledger as it ends."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal, cast

from gpuyard import __version__
from gpuyard.app.bus import check_bus
from gpuyard.app.pipeline import RunSpec, read_stages
from gpuyard.app.serve import settings_from_spec
from gpuyard.app.stage import (
    EXIT_INFEASIBLE,
    EXIT_REFUSED,
    EXIT_WRONG,
    Evaluated,
    RunFolder,
    Selected,
    load_result,
    make_run,
    open_run,
    training_task,
)
from gpuyard.catalog import load_catalog
from gpuyard.document import Doc, dump_json, load_json
from gpuyard.errors import Infeasible, InputError, RefusedError
from gpuyard.home import Home, write_whole
from gpuyard.jobs import (
    EngineSpec,
    Ledger,
    Progress,
    Run,
    Status,
    Task,
    cost_usd,
    new_id,
    open_engine,
    run_task,
)
from gpuyard.learn import trainer_of
from gpuyard.learn.evaluate import Scorecard
from gpuyard.learn.evaluate.measures import measures_of
from gpuyard.learn.trainer import Problem
from gpuyard.measure.host import versions
from gpuyard.registry import Metric, ModelVersion, Registry, read_bundle
from gpuyard.serving import Endpoint, Endpoints, Settings, deploy, is_ready
from gpuyard.workload import own_catalogs, read_workload

__all__ = ["Registered", "begin_run", "continue_run", "resume_run", "run_file", "serve_again"]

CHAMPION, CHALLENGER = "champion", "challenger"
PROMOTE = "promote it with `gpuyard models promote`"
FINE = ("done", "skipped")
TAIL = 8  # last lines of a failed stage's log
READY_S, LOOK_S = 60.0, 0.2  # for a server that is still starting
Tell = Callable[[Progress], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """The version that a run made, and the name that points to it now."""

    name: str
    version: int
    alias: str
    why: Annotated[str, Doc("why it is the champion, or why not")]
    metrics: tuple[Metric, ...]


def run_file(
    path: Path, *, home: Home | None = None, engine: str | None = None, until: str | None = None,
    layers: Sequence[Path] = (), tell: Tell = lambda _: None,
) -> Run:  # fmt: skip
    """Runs the pipeline of a workload file; gives the run as the ledger has it at its end."""
    run = begin_run(path, home=home, engine=engine, layers=layers)
    return continue_run(home or Home.beside(path), run, until=until, tell=tell)


def begin_run(
    path: Path, *, home: Home | None = None, engine: str | None = None, layers: Sequence[Path] = ()
) -> Run:  # fmt: skip
    """A new run in the ledger, with its folder; InputError with every problem of the file."""
    workload = read_workload(path, load_catalog((*layers, *own_catalogs(path))))
    stages = read_stages(path)
    if not stages.names:
        raise InputError.one(str(path), "the pipeline has no stage", "add data, train, evaluate, select or deploy")
    home = Home(path=(home.path if home else Home.beside(path).path).resolve())  # stages run in folders of their own
    name = engine or (workload.where.engine if stages.run.engine == EngineSpec() else None)
    spec = stages.run.engine if name in (None, stages.run.engine.name) else _engine(name)
    ledger = Ledger(home=home)
    run_id = ledger.new_id()
    make_run(home.runs / run_id, path, home, workload.name)  # first: what the ledger tells of can be resumed
    return ledger.begin(
        name=workload.name, workload=path.read_text(encoding="utf-8"), engine=spec, stages=stages.names,
        versions=(("gpuyard", __version__), *versions()), run_id=run_id,
    )  # fmt: skip


def _engine(name: str | None) -> EngineSpec:
    """The engine of that name with nothing else said."""
    if name not in ("local", "ray", "slurm", "kubernetes"):
        raise InputError.one("--engine", f'no engine named "{name}"', "use local, ray, slurm or kubernetes")
    return EngineSpec(name=name)  # type: ignore[arg-type]


def resume_run(home: Home, run: Run, tell: Tell = lambda _: None) -> Run:
    """Goes on with a run where it was left: what is done is not done again."""
    open_run(Path(run.folder))  # one without its folder is refused before it is taken
    return continue_run(home, Ledger(home=home).take(run.id), tell=tell)


def continue_run(home: Home, run: Run, *, until: str | None = None, tell: Tell = lambda _: None) -> Run:
    """Does the stages that are not done; the run fails with the first that does."""
    ledger, folder = Ledger(home=home), open_run(Path(run.folder))
    try:
        for stage in run.stages:
            over = stage.state in FINE
            ended = stage.state if over else _stage(ledger, folder, run, stage.name, tell)
            if ended not in FINE:
                return ledger.end(run.id, "cancelled" if ended == "cancelled" else "failed", error=stage.name)
            if stage.name == until:
                break
    except (InputError, RefusedError) as error:
        ledger.end(run.id, "failed", error=str(error))
        raise
    left = [stage for stage in ledger.get(run.id).stages if stage.state not in FINE]
    return ledger.end(run.id, "cancelled" if left else "done", error=f"stopped before {left[0].name}" if left else "")


def _stage(ledger: Ledger, folder: RunFolder, run: Run, name: str, tell: Tell) -> str:
    """One stage: here for what changes this machine's registry and servers, by the engine for all that computes."""
    here = {"register": _register, "deploy": _deploy}
    if name in here:
        ledger.start(run.id, name)
        try:
            found = here[name](folder, run)
        except (InputError, RefusedError) as error:
            ledger.finish(run.id, name, state="failed", error=str(error))
            raise
        if found is None:  # a command of the user's own that left no model
            ledger.finish(run.id, name, state="skipped")
            return "skipped"
        write_whole(folder.result(name), dump_json(found))
        ledger.finish(run.id, name, state="done", result=str(folder.result(name)))
        tell(Progress(stage=name, state="done"))
        return "done"
    return _by_engine(ledger, folder, run, name, tell)


def _by_engine(ledger: Ledger, folder: RunFolder, run: Run, name: str, tell: Tell) -> str:
    """A stage that an engine starts; its end is written once its result is there."""
    engine, task = open_engine(run.engine), _task(folder, run, name)
    probe = folder.stages.run.probe
    if (
        name == "train"
        and probe is not None
        and task.processes > 1
        and not (folder.stage(name) / "checkpoints").exists()
    ):
        check_bus(engine, probe, folder.stage(name), nodes=task.nodes, processes=task.processes_per_node)
    metrics = (folder.stage(name) / "metrics.jsonl",)
    status = run_task(engine, task, ledger, run.id, name, metrics=metrics, tell=tell)
    spent = cost_usd(task, run.engine, status)
    if status.state == "done" and folder.result(name).exists():
        ledger.finish(run.id, name, state="done", result=str(folder.result(name)), cost_usd=spent)
        return "done"
    state: Literal["cancelled", "failed"] = "cancelled" if status.state == "cancelled" else "failed"
    kept = ledger.get(run.id).stage(name)
    lines = list(engine.logs(kept.handle, follow=False)) if kept and kept.handle else []
    error = _error(folder.infeasible(name), status, lines)
    ledger.finish(run.id, name, state=state, error=error, cost_usd=spent, exit_code=status.exit_code)
    return state


def _error(infeasible: Path, status: Status, lines: Sequence[str]) -> str:
    """Why a stage did not end well: what binds, what it said of its input or of the world, or its last words."""
    if status.exit_code == EXIT_INFEASIBLE and infeasible.exists():
        return str(load_json(infeasible.read_text(encoding="utf-8"), Infeasible, str(infeasible)))
    again = max((number for number, line in enumerate(lines) if line.startswith("gpuyard: ")), default=-1)
    last = lines[again + 1 :]  # of the last attempt
    began = next((number for number, line in enumerate(last) if line.startswith("error: ")), None)
    if status.exit_code in (EXIT_WRONG, EXIT_REFUSED) and began is not None:
        return "\n".join(last[began:])
    reason = status.reason or (f"exit {status.exit_code}" if status.exit_code is not None else status.state)
    return "\n".join([reason, *lines[-TAIL:]])


def _task(folder: RunFolder, run: Run, name: str) -> Task:
    """What the engine starts: the trainer on all processes, any other stage as one process."""
    spec: RunSpec = folder.stages.run
    shared = Task(
        id=new_id(f"{run.name}-{name}"), argv=(sys.executable, "-m", "gpuyard.app.stage", str(folder.path), name),
        folder=str(folder.stage(name)), retries=spec.retries, time_limit_s=spec.time_limit_s,
    )  # fmt: skip
    folder.stage(name).mkdir(parents=True, exist_ok=True)
    if name != "train":
        return shared
    return replace(
        shared, argv=(sys.executable, "-m", "gpuyard.learn.worker", str(training_task(folder))), nodes=spec.nodes,
        processes_per_node=spec.processes, chips_per_process=spec.chips,
    )  # fmt: skip


def _register(folder: RunFolder, run: Run) -> Registered | None:
    """The chosen model as a version; it is the champion unless the one that stands is better. None without a model."""
    bundle, card, decider = _chosen(folder)
    if not bundle.is_dir() and folder.stages.train is not None and trainer_of(folder.stages.train) == "command":
        return None
    metrics = tuple(
        Metric(name=score.metric, value=score.value, low=score.low, high=score.high) for score in card.scores
    ) if card else ()  # fmt: skip
    registry, lineage = Registry(home=folder.home), read_bundle(bundle).lineage
    made = registry.register(folder.name, bundle, metrics=metrics, lineage=replace(lineage, run=run.id))
    alias, why = _alias(registry, made, decider, card)
    registry.alias(folder.name, alias, made.version)
    return Registered(name=folder.name, version=made.version, alias=alias, why=why, metrics=made.metrics)


def _chosen(folder: RunFolder) -> tuple[Path, Scorecard | None, str]:
    """The bundle to register, how it was judged on unseen rows or by folds, and the metric that decides."""
    names = folder.stages.names
    if "select" in names:
        found = load_result(folder, "select", Selected)
        return Path(found.bundle), found.test, found.selection.metric
    card = None
    if "evaluate" in names:
        judged = load_result(folder, "evaluate", Evaluated)
        card = judged.test or judged.card
    return folder.stage("train") / "bundle", card, card.scores[0].metric if card and card.scores else ""


def _alias(registry: Registry, made: ModelVersion, metric: str, card: Scorecard | None) -> tuple[str, str]:
    """The name that the new version gets, and why."""
    standing = next((item for item in registry.versions(made.name) if CHAMPION in item.aliases), None)
    if standing is None or standing.version == made.version:
        return CHAMPION, "it is the first" if made.version == 1 else "it stands already"
    before = next((item.value for item in standing.metrics if item.name == metric), None)
    now = next((item.value for item in made.metrics if item.name == metric), None)
    if before is None or card is None:
        return CHAMPION, f"version {standing.version} has no {metric or 'metric'} to compare with"
    if now is None:
        return CHALLENGER, f"it has no {metric} to compare with version {standing.version}: {PROMOTE}"
    (measure,) = measures_of((metric,), cast(Problem, card.problem))
    better = now >= before if measure.higher else now <= before
    words = f"{metric} {now:.4g} against {before:.4g} of version {standing.version}"
    return (CHAMPION, words) if better else (CHALLENGER, f"{words}: {PROMOTE}")


def _deploy(folder: RunFolder, _run: Run) -> Endpoint:
    """The service: one that runs already swaps to the new version by itself."""
    spec = folder.stages.deploy
    assert spec is not None
    settings = settings_from_spec(spec, folder.home, f"{folder.name}@{CHAMPION}")
    running = _serving(folder.home, settings)
    if running is not None:
        return running
    try:
        return deploy(settings)
    except RefusedError:  # one that a killed gpuyard had started may have come up meanwhile
        running = _serving(folder.home, settings)
        if running is None:
            raise
        return running


def serve_again(run: Run) -> Endpoint:
    """The service of a run that deployed one; it is started where it does not run any more."""
    folder = open_run(Path(run.folder))
    endpoint = _deploy(folder, run)
    write_whole(folder.result("deploy"), dump_json(endpoint))
    return endpoint


def _serving(home: Home, settings: Settings) -> Endpoint | None:
    """The service of that name, once it is ready; None where none runs, or where it serves something else."""
    until_s = time.monotonic() + READY_S
    while time.monotonic() < until_s:
        found = next((item for item in Endpoints(home=home).all() if item.name == settings.name), None)
        served = {name.partition("/")[0] for name in found.models} if found else set()
        if found is None or found.state != "running" or not {item.name for item in settings.mounts} <= served:
            return None
        if is_ready(found.url):
            return found
        time.sleep(LOOK_S)
    return None
