"""`gpuyard provision`: files, README, blueprint, and the ways to say no."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from gpuyard.cli import main
from gpuyard.provision.deployment import deployment_from_json

ROOT = Path(__file__).parent.parent.parent
EXAMPLE = ROOT / "examples" / "pretraining-onprem.yaml"
CLOUD = ROOT / "examples" / "pretraining.yaml"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("deploy")
    told = ["--project", "p-1", "--owner", "Ada", "--program", "train.py", "--zone", "us-central1-b"]
    assert main(["provision", str(CLOUD), "--on", "gke", "-o", str(path), *told]) == 0
    return path


def test_the_folder_says_what_to_do_and_what_it_costs(folder: Path) -> None:
    text = (folder / "README.md").read_text(encoding="utf-8")
    for part in ("## Deploy", "## Take it back", "at the most", "kubectl apply -f 50-job.yaml", "`my-reservation`"):
        assert part in text
    assert "my-project" not in text
    assert "owner: ada" in (folder / "50-job.yaml").read_text(encoding="utf-8")


def test_the_files_are_those_of_the_deployment(folder: Path) -> None:
    deployment = deployment_from_json((folder / "deployment.json").read_text(encoding="utf-8"))
    assert deployment.platform == "gke"
    for file in deployment.files:
        assert hashlib.sha256((folder / file.name).read_bytes()).hexdigest() == file.sha256
    written = {path.name for path in folder.iterdir()}
    assert written == {file.name for file in deployment.files} | {"deployment.json"}
    assert json.loads((folder / "blueprint.json").read_text(encoding="utf-8"))["hash"] == deployment.blueprint


def test_what_was_written_lints(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", str(folder)]) == 0
    assert "0 errors, 0 warnings" in capsys.readouterr().out


def test_a_blueprint_is_rendered_again_elsewhere(folder: Path, tmp_path: Path) -> None:
    assert main(["provision", str(folder / "blueprint.json"), "--on", "compute-engine", "-o", str(tmp_path)]) == 0
    assert (tmp_path / "50-group.json").exists()
    assert (tmp_path / "blueprint.json").read_bytes() == (folder / "blueprint.json").read_bytes()
    assert main(["provision", str(folder / "blueprint.json"), "--on", "gke", "-o", str(tmp_path)]) == 0
    assert not (tmp_path / "50-group.json").exists()  # nothing of the earlier rendering stays


def test_rendered_again_it_says_what_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["provision", str(EXAMPLE), "--on", "kubernetes", "-o", str(tmp_path)]
    assert main(words) == 0
    assert "changed:" not in capsys.readouterr().out
    assert main([*words, "--option", "2"]) == 0
    assert "changed: " in capsys.readouterr().out


def test_json_tells_the_steps_and_the_bill(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["provision", str(EXAMPLE), "--on", "kubernetes", "-o", str(tmp_path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert "50-job.yaml" in told["files"]
    assert told["steps"][-1]["undo"].startswith("kubectl delete")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--on", "gek"], 2, 'use "gke"'),
        (["--on", "kubernetes", "--option", "9999"], 2, "there is no option 9999"),
        (["--on", "gke"], 3, "stands in your own hall"),
        (["--on", "kubernetes", "--fabric", "none.json"], 2, "cannot be read"),
        (["--on", "kubernetes", "--proof", str(EXAMPLE)], 2, "not JSON"),
    ],
)
def test_no_is_said_with_its_reason(
    words: list[str], code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["provision", str(EXAMPLE), "-o", str(tmp_path / "out"), *words]) == code
    told = capsys.readouterr()
    assert said in told.out + told.err
    assert not (tmp_path / "out").exists()


def test_proofs_are_kept_in_the_blueprint(tmp_path: Path) -> None:
    findings = tmp_path / "verify.json"
    row = {"check": "cabling", "severity": "warning", "where": "leaf-1", "what": "a port is free", "fix": ""}
    findings.write_text(json.dumps({"findings": [row]}), encoding="utf-8")
    summary = tmp_path / "ring.json"
    summary.write_text(json.dumps({"completion_s": 0.25, "flows": 8}), encoding="utf-8")
    words = ["--proof", str(findings), "--proof", str(summary), "-o", str(tmp_path / "out")]
    assert main(["provision", str(EXAMPLE), "--on", "kubernetes", *words]) == 0
    proofs = json.loads((tmp_path / "out" / "blueprint.json").read_text(encoding="utf-8"))["proofs"]
    assert [proof["kind"] for proof in proofs] == ["finding", "simulation"]
    assert proofs[1]["numbers"] == {"completion_s": 0.25, "flows": 8}


def test_a_wrong_name_of_a_reservation_is_an_error_of_the_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--on", "compute-engine", "-o", str(tmp_path / "out"), "--reservation", "My Reservation"]
    assert main(["provision", str(CLOUD), *words]) == 2
    assert "is not the name of a reservation" in capsys.readouterr().err


def test_the_page_of_the_matrix_says_what_the_code_says() -> None:
    tool = [sys.executable, str(ROOT / "tools" / "provision_matrix.py"), "--check"]
    done = subprocess.run(tool, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
