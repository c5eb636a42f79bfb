"""The public API: names, laziness, inputs, results."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import gpuyard as gy
from gpuyard.api.planning import PlanResult
from gpuyard.app.workspace import Workspace

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_exported_names_are_the_documented_ones() -> None:
    assert sorted(gy.__all__) == [
        "ExternalError", "InputError", "__version__", "catalog", "design_fabric", "evaluate",
        "finetuning", "graphics", "hpc", "inference", "plan", "predict", "prepare", "pretraining",
        "provision", "read", "select", "serve", "simulate", "train", "verify",
    ]  # fmt: skip
    assert all(callable(getattr(gy, name)) for name in gy.__all__ if name != "__version__")


def test_unknown_attribute_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'plann'"):
        gy.plann


@pytest.mark.slow
def test_functions_stay_when_subpackages_of_the_same_name_are_imported() -> None:
    script = (
        "import gpuyard as gy, gpuyard.plan.option, gpuyard.catalog.load, gpuyard.simulate.network;"
        "assert callable(gy.plan) and callable(gy.catalog) and callable(gy.simulate)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.slow
def test_import_loads_nothing_but_itself() -> None:
    script = (
        "import sys; before = set(sys.modules); import gpuyard; print(*set(sys.modules) - before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert [name for name in done.stdout.split() if name.startswith("gpuyard.")] == []


def test_keywords_build_the_same_workload_as_sections() -> None:
    flat = gy.pretraining("llama-3-8b", tokens="1T", sequence=8192, deadline="60d")
    nested = gy.read(
        {
            "task": "pretraining",
            "model": "llama-3-8b",
            "data": {"tokens": "1T", "sequence": 8192},
            "requirements": {"deadline": "60d"},
        }
    )
    assert flat.workload == nested.workload


@pytest.mark.parametrize(
    ("task", "keys"),
    [
        ("finetuning", {"model": "llama-3-8b", "method": "lora", "lora_rank": 16, "tokens": "1B", "sequence": 4096}),
        ("inference", {"model": "llama-3-8b", "input": 1000, "output": 200, "requests": "5/s"}),
        ("graphics", {"use": "virtual-workstation", "sessions": 20}),
        ("hpc", {"offload": "60%", "bound": "bandwidth", "cpu_hours": 1000, "measured_on": "c3-standard-176"}),
    ],
)  # fmt: skip
def test_every_task_has_a_constructor(task: str, keys: dict[str, object]) -> None:
    assert getattr(gy, task)(**keys).workload.task == task


def test_unknown_keyword_names_the_closest_key() -> None:
    with pytest.raises(gy.InputError) as raised:
        gy.pretraining("llama-3-8b", tokenz="1T")
    assert raised.value.problems[0].fix == 'did you mean "tokens"?'


@pytest.fixture(scope="module")
def workspace() -> Workspace:
    return gy.read(EXAMPLES / "onprem-1024" / "workload.yaml")


@pytest.fixture(scope="module")
def plan(workspace: Workspace) -> PlanResult:
    return gy.plan(workspace)


def test_plan_has_options_reprs_and_a_table(plan: PlanResult) -> None:
    pandas = pytest.importorskip("pandas")
    assert repr(plan).startswith("<PlanResult: pretraining onprem-1024:")
    assert plan.best.machine == "dgx-h100"
    assert plan.best.step_time_s > 0
    assert plan.best.why
    html = plan._repr_html_()
    assert "<table" in html
    assert "<svg" in html
    frame = plan.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert len(frame) == len(plan)
    assert plan[0:2][1].number == 2
    assert plan[-1].number == len(plan)


@pytest.mark.slow
def test_plan_of_example_file_as_in_the_readme() -> None:
    assert gy.plan(str(EXAMPLES / "pretraining-open.yaml")).best.machine_count > 0


def test_infeasible_plan_is_a_result_and_best_raises() -> None:
    plan = gy.plan(
        gy.pretraining("llama-3-405b", tokens="15T", sequence=8192, deadline="1h", max_chips=8)
    )
    assert plan.infeasible is not None
    assert len(plan) == 0
    assert "infeasible" in repr(plan)
    with pytest.raises(gy.InputError):
        _ = plan.best


def test_fabric_is_designed_verified_and_simulated() -> None:
    fabric = gy.design_fabric(gpus=64, switch="qfx5240-64od")
    assert "8 servers" in repr(fabric)
    assert "<svg" in fabric._repr_html_()
    result = gy.verify(fabric)
    assert result.raise_for_errors() is result
    simulation = gy.simulate(fabric, collective="all-reduce", size="64MB")
    assert simulation.bus_bandwidth is not None
    assert simulation.bus_bandwidth > 1e9


def test_fabric_sizes_that_do_not_fill_servers_name_the_next_size() -> None:
    with pytest.raises(gy.InputError) as raised:
        gy.design_fabric(gpus=65)
    assert raised.value.problems[0].fix == "use 72"


def test_option_is_simulated_and_provisioned(plan: PlanResult, tmp_path: Path) -> None:
    option = plan.best
    step = gy.simulate(option)
    assert step.step_time_s > 0
    folder = gy.provision(option, platform="slurm").write(tmp_path / "deploy")
    assert (folder / "README.md").is_file()


def test_saved_fabric_is_read_back(tmp_path: Path) -> None:
    path = gy.design_fabric(gpus=32).save(tmp_path / "fabric.json")
    assert gy.verify(path).is_sound


def test_workload_is_read_from_text_and_from_a_mapping_with_numpy_numbers() -> None:
    text = "task: pretraining\nmodel: llama-3-8b\ndata: {tokens: 1T, sequence: 8192}\n"
    data = {"tokens": "1T", "sequence": np.int64(8192)}
    tree = {"task": "pretraining", "model": "llama-3-8b", "data": data}
    assert gy.read(text).workload == gy.read(tree).workload


def test_catalog_files_apply_to_workloads_that_were_built_before(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(
        '[sources.mine]\ntitle = "Ours"\nurl = "https://example.com"\ndate = 2026-11-01\n'
    )
    built = gy.pretraining("llama-3-8b", tokens="1T", sequence=8192)
    assert any(row.name == "mine" for row in gy.read(built, catalog=mine).catalog.sources)


@pytest.mark.parametrize(
    ("call", "where", "fix"),
    [
        (lambda plan: gy.plan(plan.workspace, network="simulate"), "network", 'did you mean "simulated"?'),
        (lambda _: gy.read(7), "workload", "give a file, a mapping, or gy.pretraining(...)"),
        (lambda _: gy.design_fabric(gpus=64, nic="fast"), "design_fabric(): nic", "write it like 400Gbps or 3.2Tbps"),
        (lambda _: gy.design_fabric(gpus=64, plane=2), "design_fabric()", 'did you mean "planes"?'),
        (lambda _: gy.design_fabric(gpus=64, planes="2"), "design_fabric(): planes", "write an integer"),
        (lambda _: gy.verify(None), "fabric", "give gy.design_fabric(...) or a saved fabric"),
        (lambda _: gy.simulate(gy.design_fabric(gpus=8), size="big"), "size", "write it like 80GB or 186GiB"),
        (lambda _: gy.simulate(gy.design_fabric(gpus=8), engine="packets"), "engine", 'did you mean "packet"?'),
        (lambda plan: gy.provision(plan, "slurm", projct="x"), "provision()", 'did you mean "project"?'),
        (lambda plan: gy.provision(plan, "slurm", consumption="spott"), "consumption", 'did you mean "spot"?'),
        (lambda plan: gy.provision(plan, "gke"), "platform", "use slurm: your own slurm"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_input_errors(
    plan: PlanResult, call: Callable[[PlanResult], object], where: str, fix: str
) -> None:
    with pytest.raises(gy.InputError) as raised:
        call(plan)
    assert (raised.value.problems[0].where, raised.value.problems[0].fix) == (where, fix)


def test_fabric_is_designed_for_a_plan_and_provisioned_with_it(plan: PlanResult) -> None:
    fabric = gy.design_fabric(plan, cables={"spine": "30m"})
    assert fabric.fabric.demand.cables.spine_m == 30
    assert fabric.fabric.demand.server_count == plan.best.machine_count
    deployment = gy.provision(plan, "slurm", fabric=fabric, ttl="2d")
    assert "172800" in "".join(deployment.files.values())


def test_catalog_rows_and_tables() -> None:
    catalog = gy.catalog()
    assert catalog.chip("h100-sxm").memory_bytes == 80e9
    assert "dgx-h100" in catalog.names("machines")
    assert any(row["name"] == "dgx-h100" for row in catalog.table("machines"))
    with pytest.raises(gy.InputError):
        catalog.names("chairs")
