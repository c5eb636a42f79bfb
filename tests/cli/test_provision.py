"""`gpuyard provision`: deployment files, README, blueprint, and rejected requests."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from gpuyard.cli.main import main
from gpuyard.provision.deployment import deployment_from_json

ROOT = Path(__file__).parent.parent.parent
EXAMPLE = ROOT / "examples" / "pretraining-onprem.yaml"
CLOUD = ROOT / "examples" / "pretraining.yaml"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("deploy")
    settings = [
        "--project",
        "p-1",
        "--owner",
        "Ada",
        "--program",
        "train.py",
        "--zone",
        "us-central1-b",
    ]
    assert main(["provision", str(CLOUD), "--on", "gke", "-o", str(path), *settings]) == 0
    return path


def test_readme_has_commands_and_maximum_cost(folder: Path) -> None:
    text = (folder / "README.md").read_text(encoding="utf-8")
    for part in (
        "## Deploy",
        "## Delete",
        "at most",
        "kubectl apply -f 50-job.yaml",
        "`my-reservation`",
    ):
        assert part in text
    assert "my-project" not in text
    assert "owner: ada" in (folder / "50-job.yaml").read_text(encoding="utf-8")


def test_files_match_the_deployment_checksums(folder: Path) -> None:
    deployment = deployment_from_json((folder / "deployment.json").read_text(encoding="utf-8"))
    assert deployment.platform == "gke"
    for file in deployment.files:
        assert hashlib.sha256((folder / file.name).read_bytes()).hexdigest() == file.sha256
    written = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert written == {file.name for file in deployment.files} | {
        "deployment.json",
        "deployment.sig",
    }
    assert (
        json.loads((folder / "blueprint.json").read_text(encoding="utf-8"))["hash"]
        == deployment.blueprint
    )


def test_rendered_files_pass_lint(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", str(folder)]) == 0
    assert "0 errors, 0 warnings" in capsys.readouterr().out


def test_blueprint_is_rendered_for_another_platform(folder: Path, tmp_path: Path) -> None:
    assert (
        main(
            [
                "provision",
                str(folder / "blueprint.json"),
                "--on",
                "compute-engine",
                "-o",
                str(tmp_path),
            ]
        )
        == 0
    )
    assert (tmp_path / "50-group.json").exists()
    assert (tmp_path / "blueprint.json").read_bytes() == (folder / "blueprint.json").read_bytes()
    assert (
        main(["provision", str(folder / "blueprint.json"), "--on", "gke", "-o", str(tmp_path)]) == 0
    )
    assert not (tmp_path / "50-group.json").exists()  # files of the earlier rendering are removed


def test_second_rendering_reports_changes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["provision", str(EXAMPLE), "--on", "kubernetes", "-o", str(tmp_path)]
    assert main(words) == 0
    assert "changed:" not in capsys.readouterr().out
    assert main([*words, "--option", "2"]) == 0
    assert "changed: " in capsys.readouterr().out


def test_json_has_files_and_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["provision", str(EXAMPLE), "--on", "kubernetes", "-o", str(tmp_path), "--json"]) == 0
    )
    result = json.loads(capsys.readouterr().out)
    assert "50-job.yaml" in result["files"]
    assert result["steps"][-1]["undo"].startswith("kubectl delete")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--on", "gek"], 2, 'use "gke"'),
        (["--on", "kubernetes", "--option", "9999"], 2, "no option 9999"),
        (["--on", "gke"], 3, "is on-premises"),
        (["--on", "kubernetes", "--fabric", "none.json"], 2, "no such file"),
        (["--on", "kubernetes", "--proof", str(EXAMPLE)], 2, "not JSON"),
    ],
)
def test_rejected_request_writes_nothing(
    words: list[str], code: int, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["provision", str(EXAMPLE), "-o", str(tmp_path / "out"), *words]) == code
    assert message in "".join(capsys.readouterr())
    assert not (tmp_path / "out").exists()


def test_evidence_is_saved_in_the_blueprint(tmp_path: Path) -> None:
    findings = tmp_path / "verify.json"
    row = {
        "check": "cabling",
        "severity": "warning",
        "where": "leaf-1",
        "what": "a port is free",
        "fix": "",
    }
    findings.write_text(json.dumps({"findings": [row]}), encoding="utf-8")
    summary = tmp_path / "ring.json"
    summary.write_text(json.dumps({"completion_s": 0.25, "flows": 8}), encoding="utf-8")
    words = ["--proof", str(findings), "--proof", str(summary), "-o", str(tmp_path / "out")]
    assert main(["provision", str(EXAMPLE), "--on", "kubernetes", *words]) == 0
    evidence = json.loads((tmp_path / "out" / "blueprint.json").read_text(encoding="utf-8"))[
        "evidence"
    ]
    assert [row["kind"] for row in evidence] == ["finding", "simulation"]
    assert evidence[1]["numbers"] == {"completion_s": 0.25, "flows": 8}


def test_wrong_reservation_name_exits_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "--on",
        "compute-engine",
        "-o",
        str(tmp_path / "out"),
        "--reservation",
        "My Reservation",
    ]
    assert main(["provision", str(CLOUD), *words]) == 2
    assert "--reservation" in capsys.readouterr().err


@pytest.mark.slow
def test_platform_matrix_page_is_up_to_date() -> None:
    tool = [sys.executable, str(ROOT / "tools" / "provision_matrix.py"), "--check"]
    done = subprocess.run(tool, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
