"""The workload's own catalog reaches every command, and `up` computes nothing twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuyard.app import fabric as app_fabric
from gpuyard.app import up_planning, workspace
from gpuyard.app.up import up
from gpuyard.app.workspace import open_workspace, workspace_of
from gpuyard.cli.main import main
from gpuyard.document.read import read_file, read_plain
from gpuyard.errors import InputError
from gpuyard.home import Home

DATA = Path(workspace.__file__).parents[1] / "catalog" / "data"
WORKLOAD = """
task: pretraining
model: llama-3-8b
data: {tokens: 15B, sequence: 8192, size: 60GB, location: /lustre/tokens}
where:
  provider: onprem
  catalog: [mine.toml]
  inventory: {my-h100-box: 4}
  platform: slurm
"""


def own_machine() -> str:
    """A copy of a catalog machine under another name, as a user would write it."""
    text = (DATA / "machines_onprem.toml").read_text(encoding="utf-8")
    rows = text.split("\n[machines.")
    row = next(part for part in rows if part.startswith("dgx-h100]"))
    body = row.replace("dgx-h100]", "my-h100-box]", 1)
    body = "\n".join(line for line in body.splitlines() if not line.startswith("aliases"))
    return "[machines." + body.replace("[machines.dgx-h100.", "[machines.my-h100-box.")


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    own = own_machine().replace("machines.dgx-h100.", "machines.my-h100-box.")
    (tmp_path / "mine.toml").write_text(own, encoding="utf-8")
    path = tmp_path / "workload.yaml"
    path.write_text(WORKLOAD, encoding="utf-8")
    return path


def test_workspace_catalog_has_rows_of_the_workloads_own_files(workload: Path) -> None:
    assert open_workspace(workload).catalog.machine("my-h100-box").chip == "h100-sxm"


def test_workspace_of_tree_equals_workspace_of_file(workload: Path) -> None:
    built = workspace_of(read_plain(_plain(workload), "workload"), folder=workload.parent)
    opened = open_workspace(workload)
    assert built.workload == opened.workload
    assert built.catalog == opened.catalog
    with pytest.raises(InputError):
        _ = built.path


def _plain(path: Path) -> object:
    import yaml

    assert read_file(path)
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def test_up_plans_designs_and_loads_once(workload: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: dict[str, int] = {}

    def counted(module: object, name: str) -> None:
        original = getattr(module, name)

        def call(*arguments: object, **options: object) -> object:
            calls[name] = calls.get(name, 0) + 1
            return original(*arguments, **options)

        monkeypatch.setattr(module, name, call)

    counted(workspace, "load_catalog")
    counted(up_planning, "plan_workload")
    counted(app_fabric, "design")
    report = up(open_workspace(workload))
    assert [stage.state for stage in report.stages] == ["done"] * 6
    assert calls == {"load_catalog": 1, "plan_workload": 1, "design": 1}


@pytest.mark.parametrize(
    "command",
    [
        ["check", "FILE"],
        ["plan", "FILE"],
        ["plan", "FILE", "--network", "simulated"],
        ["fabric", "design", "FILE"],
        ["simulate", "step", "FILE"],
        ["simulate", "collective", "all-reduce", "--size", "1MB", "--fabric", "FILE"],
        ["provision", "FILE", "--on", "slurm", "-o", "OUT"],
    ],
    ids=lambda words: " ".join(words[:2]) if isinstance(words, list) else str(words),
)
def test_commands_accept_a_workload_with_its_own_machine(
    command: list[str], workload: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = {"FILE": str(workload), "OUT": str(tmp_path / "deploy")}
    assert main([words.get(word, word) for word in command]) == 0, capsys.readouterr().err


def test_lint_knows_the_machine_of_a_rendered_deployment(workload: Path, tmp_path: Path) -> None:
    folder = tmp_path / "deploy"
    assert main(["provision", str(workload), "--on", "slurm", "-o", str(folder)]) == 0
    assert main(["lint", str(folder)]) == 0


def test_home_is_next_to_the_workload_unless_named(workload: Path, tmp_path: Path) -> None:
    assert open_workspace(workload).home.path == tmp_path / ".gpuyard"
    named = Home(path=tmp_path / "state")
    assert open_workspace(workload, home=named).home == named
