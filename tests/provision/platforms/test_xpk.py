"""xpk: the same job as the JobSet, in commands that xpk takes."""

from __future__ import annotations

import base64
import os
import subprocess
from pathlib import Path

import yaml

from gpuyard.provision.deployment_settings import DeploymentSettings
from gpuyard.provision.platforms import platform_named

from .rendering import SETTINGS, blueprint_of, file_of, render_artefacts


def rendered(machine: str, settings: DeploymentSettings = SETTINGS) -> dict[str, str]:
    platform = platform_named("gke")
    assert platform is not None
    result = render_artefacts(
        platform, blueprint_of(machine, "multi-node", "reservation"), settings
    )
    files = {file.name: file.text for file in result.extra_files}
    return {**files, "50-job.yaml": file_of(result, "50-job.yaml").text}


def calls(folder: Path, files: dict[str, str]) -> list[list[str]]:
    """Run the commands with a program in place of xpk that records its arguments."""
    record = folder / "xpk-calls"
    program = folder / "bin" / "xpk"
    program.parent.mkdir(parents=True)
    program.write_text(
        f"#!/bin/sh\nprintf '%s\\0' \"$@\" >>'{record}'; printf '\\n' >>'{record}'\n"
    )
    program.chmod(0o755)
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    environment = {"PATH": f"{program.parent}:{os.environ['PATH']}", "CLUSTER": "gpus"}
    subprocess.run(
        ["bash", str(folder / "xpk" / "create.sh")], env=environment, check=True, cwd=folder
    )
    return [line.rstrip("\0").split("\0") for line in record.read_text().splitlines()]


def test_workload_is_the_jobset(tmp_path: Path) -> None:
    files = rendered("a3-ultragpu-8g")
    *storages, create = calls(tmp_path, files)
    jobset = next(
        item for item in yaml.safe_load_all(files["50-job.yaml"]) if item["kind"] == "JobSet"
    )
    job = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]
    container = job["template"]["spec"]["containers"][0]
    assert create[:2] == ["workload", "create"]
    assert f"--num-nodes={job['parallelism']}" in create
    assert "--device-type=h200-141gb-8" in create
    assert "--cluster=gpus" in create
    assert f"--docker-image={container['image']}" in create
    assert f"--max-restarts={jobset['spec']['failurePolicy']['maxRestarts']}" in create
    (command,) = [row for row in create if row.startswith("--command=")]
    assert f"timeout {job['activeDeadlineSeconds']} bash" in command
    assert '"' not in command
    assert "\n" not in command
    script = base64.b64decode(command.split()[1]).decode()
    own = container["command"][2].splitlines()
    assert [line for line in own if line not in script] == []
    assert [row[2:3] for row in storages] == [["--project=my-project"]] * len(storages)
    assert len(storages) == len([row for row in create if row.startswith("--storage=")])


def test_hostile_settings_stay_one_argument(tmp_path: Path) -> None:
    hostile = "a'; touch PWNED; echo '$(touch PWNED)"
    flags = DeploymentSettings(project="p", bucket=hostile, image=hostile, rendered_s=1e9)
    *_, create = calls(tmp_path, rendered("a3-megagpu-8g", flags))
    assert f"--docker-image={hostile}" in create
    assert not list(tmp_path.rglob("PWNED"))


def test_machines_unknown_to_xpk_and_services_have_no_commands() -> None:
    platform = platform_named("gke")
    assert platform is not None
    service = render_artefacts(platform, blueprint_of("g2-standard-4", "service", "spot"))
    tpu = render_artefacts(platform, blueprint_of("ct6e-standard-4t", "multi-node", "on-demand"))
    assert service.extra_files == tpu.extra_files == ()
