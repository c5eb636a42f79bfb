"""The stages of `gpuyard up`, a row each: what a stage does, whether its result stands, and what it came to."""

from __future__ import annotations

import getpass
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gpuyard.app.capacity import request_cost_s
from gpuyard.app.check import check_workload
from gpuyard.app.fabric import design_fabric, read_fabric, verify_cabling
from gpuyard.app.heat import fabric_heat
from gpuyard.app.measure import PROFILE, measure_machine, read_profile, save_profile, trainers_here
from gpuyard.app.outcome import outcomes
from gpuyard.app.pipeline import read_stages
from gpuyard.app.plan import one_pool, plan_file
from gpuyard.app.predict import compare_training, foresee_serving, foresee_training
from gpuyard.app.provision import Choice, provision_file
from gpuyard.app.run import begin_run, continue_run, serve_again
from gpuyard.app.stage import EXIT_INFEASIBLE, EXIT_WRONG, Prepared, Selected, load_result, open_run
from gpuyard.app.step import StepAsked, simulate_planned_step
from gpuyard.catalog import load_catalog
from gpuyard.datasets import load_prepared
from gpuyard.document import dump_json, load_json
from gpuyard.errors import Infeasible, InputError, RefusedError
from gpuyard.fabric import Fabric, ProviderFabric, demand_for, from_json, to_json
from gpuyard.home import Home, write_whole
from gpuyard.jobs import Ledger, Run
from gpuyard.jobs.way import Outcome
from gpuyard.learn import TrainResult, trainer_of
from gpuyard.perf.local import Compared, Foreseen
from gpuyard.plan import Option, Plan
from gpuyard.provision.platform import Unsuitable
from gpuyard.provision.settings import Settings
from gpuyard.serving import Endpoint, is_ready
from gpuyard.simulate.comparison import StepRun
from gpuyard.units import BYTES, DURATION, MONEY, show
from gpuyard.workload import Workload

__all__ = ["CLOUD", "LOCAL", "Step", "Up"]

HOUR_S = 3600.0  # a service and a workstation have no end: their plan is of one hour


@dataclass(frozen=True, slots=True, kw_only=True)
class Up:
    """One workload on its way."""

    path: Path
    home: Home
    folder: Path
    workload: Workload
    layers: tuple[Path, ...] = ()
    engine: str | None = None

    def file(self, name: str) -> Path:
        """A file of this workload's folder."""
        return self.folder / name

    def plan(self) -> Plan:
        """The plan that the plan stage kept."""
        path = self.file("plan.json")
        return load_json(path.read_text(encoding="utf-8"), Plan, str(path))

    def run(self) -> Run | None:
        """The run that the run stages belong to."""
        path = self.file("run")
        if not path.exists():
            return None
        try:
            run = Ledger(home=self.home).get(path.read_text(encoding="utf-8"))
            open_run(Path(run.folder))  # one whose folder is gone, or was never whole, is begun anew
        except InputError:
            return None
        return run

    def advice(self, done: Sequence[Outcome]) -> str:
        """What to do now."""
        last = done[-1]
        if last.state == "stopped":
            return last.what
        if last.name == CLOUD[-1].name and last.files:
            return f"gpuyard provision {self.file('deploy')} --apply --yes --max-cost USD"
        if last.name == CLOUD[-1].name:
            return f"gpuyard plan {self.path} --explain 1"
        return f"gpuyard ui --home {self.home.path}" if last.name == LOCAL[-1].name else f"gpuyard up {self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A row of the table of stages."""

    name: str
    does: str
    run: Callable[[Up], Outcome]
    makes: tuple[str, ...] = ()  # files of this workload's folder
    holds: Callable[[Up], bool] = lambda _: True  # whether its result still does

    def stands(self, work: Up, earlier: Outcome) -> bool:
        """True when what an earlier start made is still there."""
        there = all(work.file(name).exists() for name in earlier.files)
        return earlier.state != "stopped" and there and self.holds(work)  # what stopped it may be otherwise now

    def clear(self, work: Up) -> None:
        """Removes what an earlier start made, perhaps of another workload: the stages after it would read it."""
        for name in self.makes:
            work.file(name).unlink(missing_ok=True)


def _infeasible(name: str, found: Infeasible | Unsuitable) -> Outcome:
    """Nothing satisfies the workload: the way ends here."""
    return Outcome(name=name, state="stopped", what=str(found))


def _check(work: Up) -> Outcome:
    """The file is right."""
    if work.workload.where.provider == "local":
        names = ", ".join(read_stages(work.path).names)
        return Outcome(name="check", state="done", what=f"valid; stages: {names}")
    answer = check_workload(work.path, work.layers)
    if not answer.candidates:
        return Outcome(name="check", state="stopped", what="no machine type may run it; see `gpuyard check`")
    return Outcome(name="check", state="done", what=f"valid; {_counted(len(answer.candidates))} may run it")


def _counted(types: int) -> str:
    """`1 machine type`, `5 machine types`."""
    return f"{types} machine type{'' if types == 1 else 's'}"


def _plan(work: Up) -> Outcome:
    """The cheapest cluster that meets every requirement."""
    found = plan_file(work.path, work.layers)
    if isinstance(found, Infeasible):
        return _infeasible("plan", found)
    write_whole(work.file("plan.json"), dump_json(found))
    best = found.options[(one_pool(found) or 1) - 1]
    endless = work.workload.task in ("inference", "graphics") and best.expected_s == HOUR_S
    cost = f", {show(best.usd, MONEY)}{' an hour' if endless else ''}" if best.usd is not None else ""
    lasts = "" if endless else f", {show(best.expected_s, DURATION)}"
    what = f"{best.cluster.machine_count} × {best.cluster.machine}{lasts}{cost}; {len(found.options)} options"
    if best is not found.options[0]:
        what += "; option 1 reads prompts apart, which is not deployed"
    return Outcome(name="plan", state="done", what=what, files=("plan.json",))


def _chosen(work: Up) -> tuple[int, Option]:
    """The number of the option that is taken the whole way, and the option."""
    plan = work.plan()
    number = one_pool(plan) or 1
    return number, plan.options[number - 1]


def _fabric(work: Up) -> Outcome:
    """The network between the machines."""
    catalog, cluster = load_catalog(work.layers), _chosen(work)[1].cluster
    machine = catalog.machine(cluster.machine)
    if cluster.machine_count < 2:
        return Outcome(name="fabric", state="skipped", what="one machine needs no fabric")
    if not machine.is_accelerated:
        return Outcome(name="fabric", state="skipped", what="machines without accelerators need no GPU fabric")
    if machine.provider != "onprem":  # also where the provider does not say what it is
        return Outcome(name="fabric", state="skipped", what=f"the fabric of {machine.name} is its provider's")
    demand = replace(demand_for(machine, cluster.machine_count), leaf=work.workload.where.switch)
    found = design_fabric(demand, work.layers)
    if isinstance(found, Infeasible):
        return _infeasible("fabric", found)
    assert not isinstance(found, ProviderFabric)
    write_whole(work.file("fabric.json"), to_json(found))
    size = found.size
    what = f"{size.leaves} leaves, {size.spines} spines, {size.node_leaf_cables + size.leaf_spine_cables} cables"
    return Outcome(name="fabric", state="done", what=what, files=("fabric.json",))


def _own_fabric(work: Up) -> Fabric | None:
    """The fabric that was designed, if one was."""
    path = work.file("fabric.json")
    return read_fabric(path) if path.exists() else None


def _verify(work: Up) -> Outcome:
    """The proof of the fabric."""
    fabric = _own_fabric(work)
    if fabric is None:
        return Outcome(name="verify", state="skipped", what="there is no fabric of your own to prove")
    found = verify_cabling(fabric, work.layers)
    write_whole(work.file("findings.json"), dump_json(found))
    if not found.is_sound:
        return Outcome(name="verify", state="stopped", what=str(found.errors[0]))
    passed = sum(check.verdict == "passed" for check in found.checks)
    what = f"{passed} of {len(found.checks)} checks passed, {len(found.warnings)} warnings"
    return Outcome(name="verify", state="done", what=what, files=("findings.json",))


def _simulate(work: Up) -> Outcome:
    """A training step over the network."""
    if work.workload.task not in ("pretraining", "finetuning"):
        served = work.workload.task == "inference"
        what = "no training step; its plan has simulated the service" if served else "there is no training step"
        return Outcome(name="simulate", state="skipped", what=what)
    try:
        found = simulate_planned_step(work.path, StepAsked(), work.layers)
    except InputError as error:
        return Outcome(name="simulate", state="skipped", what=error.problems[0].what)
    if isinstance(found, Infeasible):
        return _infeasible("simulate", found)
    write_whole(work.file("simulation.json"), dump_json(found))
    change = found.simulated_step_s / found.closed_step_s - 1
    what = f"step {show(found.simulated_step_s, DURATION)} over {found.network}, {change:+.1%} to the plan"
    return Outcome(name="simulate", state="done", what=what, files=("simulation.json", *_heat(work, found)))


def _heat(work: Up, step: StepRun) -> tuple[str, ...]:
    """The link load under the step's heaviest collective, where there is a fabric to draw it on."""
    path = work.file("fabric.json")
    if not path.exists():
        return ()
    heat = fabric_heat(from_json(path.read_text(encoding="utf-8"), str(path)), step, work.layers)
    if heat is None:
        return ()
    write_whole(work.file("collective.json"), dump_json(heat))
    return ("collective.json",)


def _provision(work: Up) -> Outcome:
    """Blueprint and artefacts for the platform that suits best."""
    number, best = _chosen(work)
    if best.service and best.service.prefill:
        what = "prompts are read apart: start both pools by the lines of `gpuyard plan --explain 1`"
        return Outcome(name="provision", state="skipped", what=what)
    wanted = work.workload.where.platform
    names = [wanted] if wanted else [row.platform for row in best.platforms if row.suits]
    fabric = work.file("fabric.json")
    proofs = tuple(work.file(name) for name in ("findings.json", "simulation.json") if work.file(name).exists())
    choice = Choice(option=number, fabric=fabric if fabric.exists() else None, proofs=proofs)
    settings = Settings(owner=getpass.getuser(), made_s=float(int(time.time())))
    for name in names:
        found = provision_file(work.path, name, settings, work.file("deploy"), choice, work.layers)
        if isinstance(found, Unsuitable):
            continue
        if isinstance(found, Infeasible):
            return _infeasible("provision", found)
        most = found.exposure.largest_usd
        cost = f"; --apply may cost up to {show(most, MONEY)}" if most is not None else ""
        what = f"{len(found.written)} files for {name}, linted{cost}"
        return Outcome(name="provision", state="done", what=what, files=("deploy",))
    return Outcome(
        name="provision", state="skipped", what="no platform suits this option; see `gpuyard plan --explain 1`"
    )


def _measure(work: Up) -> Outcome:
    """This machine as a profile."""
    path = work.home.path / PROFILE
    stages = read_stages(work.path)
    wanted = {trainer_of(stages.train)} if stages.train else set()
    known = {fit.trainer for fit in read_profile(work.home).fits} if path.exists() else set()
    missing = wanted & set(trainers_here()) - known
    if path.exists() and not missing:
        profile = read_profile(work.home)
    else:
        profile = measure_machine(work.home.path, tuple(sorted(known | missing)), serving=stages.deploy is not None)
        save_profile(profile, work.home)
    best = profile.rate("product")
    rate = f", {best.value / 1e9:,.0f} Gflop/s" if best else ""
    what = f"{profile.cores_count} cores of {profile.processor}, {show(profile.memory_bytes, BYTES)}{rate}"
    return Outcome(name="measure", state="done", what=what)


def _run(name: str) -> Callable[[Up], Outcome]:
    """A stage of the run."""

    def step(work: Up) -> Outcome:
        """Runs up to this stage; what is done is not done again."""
        if name not in read_stages(work.path).names:
            return Outcome(name=name, state="skipped", what="the pipeline does not ask for it")
        run = work.run()
        changed = run is None or run.workload != work.path.read_text(encoding="utf-8")
        if run is None or changed or work.engine not in (None, run.engine.name):
            run = begin_run(work.path, home=work.home, engine=work.engine, layers=work.layers)
            write_whole(work.file("run"), run.id)
        elif run.state != "done":  # refused where another process drives it
            run = Ledger(home=work.home).take(run.id)
        done = run if run.state == "done" else continue_run(work.home, run, until=name)
        found = done.stage(name)
        assert found is not None
        if found.state == "skipped":
            return Outcome(name=name, state="skipped", what="the command left no model")
        if found.exit_code == EXIT_INFEASIBLE:
            return Outcome(name=name, state="stopped", what=found.error)
        if found.state != "done":
            what, fix = found.error or "it did not end well", f"mend it, then gpuyard up {work.path}"
            wrong = found.exit_code == EXIT_WRONG
            raise InputError.one(name, what, fix) if wrong else RefusedError(name, what, fix)
        if name == "deploy":
            serve_again(done)
        index = [stage.name for stage in done.stages].index(name)
        return Outcome(name=name, state="done", what=outcomes(done)[index])

    return step


def _is_there(work: Up) -> bool:
    """Whether the run that the stages belong to is in the ledger."""
    return work.run() is not None


def _serves(work: Up) -> bool:
    """Whether the service that was deployed still answers."""
    run = work.run()
    if run is None or (stage := run.stage("deploy")) is None or stage.state != "done":
        return run is not None
    endpoint = load_result(open_run(Path(run.folder)), "deploy", Endpoint)
    return is_ready(endpoint.url)


def _predict(work: Up) -> Outcome:
    """What the training will take here."""
    stages, run = read_stages(work.path), work.run()
    if stages.train is None or stages.data is None or run is None:
        return Outcome(name="predict", state="skipped", what="there is no training to predict")
    data = Path(load_result(open_run(Path(run.folder)), "data", Prepared).folder)
    found = foresee_training(stages.train, data, read_profile(work.home))
    if found is None:
        return Outcome(name="predict", state="skipped", what=f"{trainer_of(stages.train)} is not modelled")
    write_whole(work.file("foreseen.json"), dump_json(found))
    step, memory = show(found.step_s, DURATION), show(found.memory_bytes, BYTES)
    what = f"{found.steps} steps of {step}, {memory}, ±{found.error_ratio:.0%}"
    return Outcome(name="predict", state="done", what=what, files=("foreseen.json",))


def _compare(work: Up) -> Outcome:
    """Predicted against measured."""
    path, run = work.file("foreseen.json"), work.run()
    if not path.exists() or run is None:
        return Outcome(name="compare", state="skipped", what="nothing was predicted")
    foreseen = load_json(path.read_text(encoding="utf-8"), Foreseen, str(path))
    result = load_result(open_run(Path(run.folder)), "train", TrainResult)
    rows: Sequence[Compared] = (*compare_training(foreseen, result), *_compare_serving(work, run))
    write_whole(work.file("compared.json"), dump_json({"rows": rows}))
    what = ", ".join(f"{row.name} {row.error_ratio:+.0%}" for row in rows)
    return Outcome(name="compare", state="done", what=f"predicted against measured: {what}", files=("compared.json",))


def _compare_serving(work: Up, run: Run) -> Sequence[Compared]:
    """Requests a second of one core, predicted and measured on the service that was deployed."""
    folder, stages = open_run(Path(run.folder)), read_stages(work.path)
    if stages.deploy is None or not folder.result("deploy").exists():
        return ()
    chosen = load_result(folder, "select", Selected).selection.train if stages.select else stages.train
    manifest = load_prepared(Path(load_result(folder, "data", Prepared).folder)).manifest
    assert chosen is not None
    features = len(manifest.features)
    cost_s = foresee_serving(chosen, features, len(manifest.classes), read_profile(work.home))
    endpoint = load_result(folder, "deploy", Endpoint)
    if cost_s is None or not is_ready(endpoint.url):
        return ()
    measured_s = request_cost_s(endpoint, work.workload.name, features)
    return (Compared(name="requests a core-second", unit="/s", predicted=1 / cost_s, measured=1 / measured_s),)


LOCAL: tuple[Step, ...] = (
    Step(name="check", does="read the workload and every stage of its pipeline", run=_check),
    Step(name="measure", does="measure this machine, once", run=_measure),
    Step(name="data", does="read, clean, split and shard the data", run=_run("data"), holds=_is_there),
    Step(name="predict", does="say what the training will take", run=_predict, makes=("foreseen.json",)),
    *(
        Step(name=name, does=f"{name} as the pipeline says", run=_run(name), holds=_is_there)
        for name in ("train", "evaluate", "select", "register")
    ),
    Step(name="deploy", does="deploy as the pipeline says", run=_run("deploy"), holds=_serves),
    Step(name="compare", does="predicted against measured", run=_compare, makes=("compared.json",)),
)
CLOUD: tuple[Step, ...] = (
    Step(name="check", does="read the workload and find the machines that may run it", run=_check),
    Step(name="plan", does="choose machines, number, layout and platform", run=_plan, makes=("plan.json",)),
    Step(name="fabric", does="design the network between them", run=_fabric, makes=("fabric.json",)),
    Step(name="verify", does="prove the network", run=_verify, makes=("findings.json",)),
    Step(
        name="simulate",
        does="play a training step over it",
        run=_simulate,
        makes=("simulation.json", "collective.json"),
    ),
    Step(name="provision", does="freeze the blueprint and write what deploys it; nothing is spent", run=_provision),
)
