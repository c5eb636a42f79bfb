"""The public API: names, laziness, inputs, results."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import gpuyard as gy
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


def test_plan_has_options_reprs_and_a_table(workspace: Workspace) -> None:
    pandas = pytest.importorskip("pandas")
    plan = gy.plan(workspace)
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


def test_option_is_simulated_and_provisioned(workspace: Workspace, tmp_path: Path) -> None:
    option = gy.plan(workspace).best
    step = gy.simulate(option)
    assert step.step_time_s > 0
    folder = gy.provision(option, platform="slurm").write(tmp_path / "deploy")
    assert (folder / "README.md").is_file()


def test_saved_fabric_is_read_back(tmp_path: Path) -> None:
    path = gy.design_fabric(gpus=32).save(tmp_path / "fabric.json")
    assert gy.verify(path).is_sound


def test_catalog_rows_and_tables() -> None:
    catalog = gy.catalog()
    assert catalog.chip("h100-sxm").memory_bytes == 80e9
    assert "dgx-h100" in catalog.names("machines")
    assert any(row["name"] == "dgx-h100" for row in catalog.table("machines"))
    with pytest.raises(gy.InputError):
        catalog.names("chairs")
