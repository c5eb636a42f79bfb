"""`gpuyard lint`: exit codes, output, folders, JSON."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpuyard.cli.main import main
from gpuyard.provision.invariants.rules import INVARIANTS

from .trees import SAMPLES, changed, sample

ROOT = Path(__file__).parent.parent.parent


def test_lint_of_correct_file_exits_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", str(SAMPLES / "jobset-a3mega.yaml"), "--strict"]) == 0
    out = capsys.readouterr().out
    assert (
        "fabric: JobSet train on a3-megagpu-8g: gets GPUDirect-TCPXO: yes (10 of 10 requirements are met)"
        in out
    )
    assert "0 errors, 0 warnings" in out


def test_finding_has_file_line_path_and_fix(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "pool.json"
    path.write_text(
        changed(sample("node-pool-flex.json"), {"body.nodePool.config.spot": True}).text
    )
    assert main(["lint", str(path)]) == 2
    out = capsys.readouterr().out
    assert re.search(
        r"error: .*pool\.json:\d+: body\.nodePool: requests flex-start and spot at once \[one-offer\]",
        out,
    )
    assert "  fix: keep one of them" in out


def test_lint_reports_missing_fabric_requirements(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "jobset.yaml"
    pod = "spec.replicatedJobs[0].template.spec.template"
    path.write_text(
        changed(
            sample("jobset-a3mega.yaml"), {f"{pod}.spec.initContainers[0].securityContext": {}}
        ).text
    )
    assert main(["lint", str(path)]) == 2
    out = capsys.readouterr().out
    assert (
        "gets GPUDirect-TCPXO: no (9 of 10 requirements are met)\n  missing: the daemon's capabilities"
        in out
    )


def test_lint_json_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", str(SAMPLES / "jobset-a4.yaml"), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["sound"] is True
    assert answer["findings"] == []
    assert answer["fabrics"][0]["verdict"] == "yes"
    assert [part["type"] for part in answer["parts"]] == ["jobset.x-k8s.io/v1alpha2 JobSet"]


def test_strict_treats_warnings_as_errors(tmp_path: Path) -> None:
    path = tmp_path / "x.sbatch"
    path.write_text("#!/bin/bash\n#SBATCH -N 1\nhostname\n")
    assert main(["lint", str(path)]) == 0
    assert main(["lint", str(path), "--strict"]) == 2


def test_folder_is_linted_and_unknown_files_are_skipped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(SAMPLES / "train.sbatch", tmp_path)
    (tmp_path / "values.yaml").write_text("a: 1\nb: 2\n")
    (tmp_path / "read.me").write_text("not looked at")
    assert main(["lint", str(tmp_path)]) == 0
    assert "note: " in capsys.readouterr().out
    assert main(["lint", str(tmp_path / "values.yaml")]) == 0
    assert "unknown kind of file: skipped" in capsys.readouterr().out
    (tmp_path / "empty").mkdir()
    assert main(["lint", str(tmp_path / "empty")]) == 2


@pytest.mark.parametrize("platform", ["slurm", "gke"])
def test_rendered_folder_has_no_findings(
    platform: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workload, folder = ROOT / "examples" / "finetuning-lora.yaml", tmp_path / "out"
    words = ["--project", "p1-abcdef", "--zone", "us-central1-a", "-o", str(folder)]
    assert main(["provision", str(workload), "--on", platform, *words]) == 0
    capsys.readouterr()
    assert main(["lint", str(folder), "--strict"]) == 0
    assert "0 errors, 0 warnings, 0 notes" in capsys.readouterr().out
    blueprint = folder / "blueprint.json"
    blueprint.write_text(blueprint.read_text().replace('"number": 1', '"number": 2'))
    assert main(["lint", str(folder)]) == 2
    out = capsys.readouterr().out
    assert "blueprint.json: the contents do not match the hash" in out
    assert "[record]" in out


@pytest.mark.parametrize(
    "text",
    ["", "---\n", "# nothing yet\n", "apiVersion: v1\nkind: List\nitems: []\n"],
    ids=["blank", "mark", "remark", "list"],
)
def test_empty_file_is_skipped_with_a_note(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "empty.yaml"
    path.write_text(text)
    assert main(["lint", str(path)]) == 0
    assert "contains no object to deploy" in capsys.readouterr().out
    assert main(["lint", str(tmp_path)]) == 0
    assert "note: " in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["v1 Pod", "batch/v1 Job", "apps/v1 Deployment", "v1 ConfigMap"])
def test_object_with_only_its_kind_is_an_error(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    version, name = kind.split()
    path = tmp_path / "hollow.yaml"
    path.write_text(f"apiVersion: {version}\nkind: {name}\n")
    assert main(["lint", str(path)]) == 2
    out = capsys.readouterr().out
    assert "the object has no name" in out
    assert ('"spec" is missing' in out) == (name in ("Pod", "Job", "Deployment"))


def test_bash_syntax_error_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.sbatch"
    path.write_text("#!/bin/bash\n#SBATCH --time=1\nif true; then\n  echo\n")
    assert main(["lint", str(path)]) == 2
    assert re.search(r"error: .*x\.sbatch:\d+: .*end of file", capsys.readouterr().out)


def test_as_option_names_the_method_of_a_body(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "body.json"
    path.write_text('{"nam": "x"}')
    assert main(["lint", str(path), "--as", "compute.networks.insert"]) == 2
    assert 'did you mean "name"?' in capsys.readouterr().out


def test_rules_option_lists_all_rules(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", "--rules"]) == 0
    out = capsys.readouterr().out
    assert all(rule.name in out for rule in INVARIANTS)
    assert main(["lint", "--rules", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == len(INVARIANTS)
    assert main(["lint"]) == 2


def test_validation_page_is_up_to_date() -> None:
    tool = [sys.executable, str(ROOT / "tools" / "provision_reference.py"), "--check"]
    done = subprocess.run(tool, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_lint_works_offline_without_cloud_packages() -> None:
    """Neither to validate nor to say what is wrong: offline is offline."""
    script = (
        "import socket, sys\n"
        "socket.socket.connect = None\n"
        "from gpuyard.cli.main import main\n"
        f"code = main(['lint', {str(SAMPLES / 'instance-reserved.json')!r}])\n"
        "loaded = [name for name in sys.modules if name.startswith(('google', 'kubernetes', 'jsonschema', 'celpy', 'numpy'))]\n"
        "sys.exit(code or len(loaded))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
