"""Virtual workstations on Compute Engine: machines, drivers, sessions, access and obstacles."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.blueprint.make import make_blueprint
from gpuyard.document.frozen_json import Plain
from gpuyard.plan.graphics import plan_graphics
from gpuyard.plan.option import Plan
from gpuyard.provision.cost_bound import cost_bound_of
from gpuyard.provision.deployment_settings import resolve_settings
from gpuyard.provision.platform import Artefacts, Unsuitable
from gpuyard.provision.platforms import PLATFORMS, platform_named
from gpuyard.provision.platforms.compute_engine.workstation_facts import read_workstation_facts
from gpuyard.provision.readme import readme
from gpuyard.workload.read import parse_workload
from gpuyard.workload.where import ConsumptionName, Where

from .rendering import (
    SETTINGS,
    at,
    blueprint_of,
    body_of,
    catalog,
    check,
    of_machines,
    render,
    render_artefacts,
)

ENGINE = platform_named("compute-engine")
SERIES = [
    ("g2-standard-4", "nvidia-l4-vws", 1),
    ("g2-standard-48", "nvidia-l4-vws", 4),
    ("g4-standard-48", "nvidia-rtx-pro-6000-vws", 1),
    ("g4-standard-384", "nvidia-rtx-pro-6000-vws", 8),
    ("n1-1xt4", "nvidia-tesla-t4-vws", 1),
]


def workstations(
    machine: str = "g2-standard-4",
    *,
    sessions: int = 4,
    machines: int = 2,
    displays: int = 1,
    way: ConsumptionName = "on-demand",
) -> Blueprint:
    """Return a blueprint for a number of user sessions."""
    blueprint = of_machines(blueprint_of(machine, "workstations", way), machines)
    graphics = blueprint.workload.graphics
    assert graphics is not None
    wanted = replace(graphics, sessions_count=sessions, displays=displays)
    return replace(blueprint, workload=replace(blueprint.workload, graphics=wanted))


def rendered(blueprint: Blueprint) -> Artefacts:
    assert ENGINE is not None
    return render_artefacts(ENGINE, blueprint)


def obstacle(blueprint: Blueprint) -> Unsuitable:
    assert ENGINE is not None
    result = render(ENGINE, blueprint, SETTINGS)
    assert isinstance(result, Unsuitable)
    return result


def properties(result: Artefacts) -> dict[str, Plain]:
    """Return the instance properties, of a template or of a single instance."""
    names = {file.name for file in result.files}
    if "50-instance.json" in names:
        return body_of(result, "50-instance.json")
    tree = body_of(result, "40-template.json")["properties"]
    assert isinstance(tree, dict)
    return tree


def script_of(result: Artefacts) -> str:
    value = at(properties(result), "metadata", "items", 0, "value")
    assert isinstance(value, str)
    return value


@pytest.mark.parametrize(("machine", "form", "count"), SERIES)
@pytest.mark.parametrize("machines", [1, 3])
def test_workstation_requests_vws_accelerator_type(
    machine: str, form: str, count: int, machines: int
) -> None:
    result = rendered(workstations(machine, machines=machines))
    [row] = at(properties(result), "guestAccelerators")  # type: ignore[misc]
    assert str(row["acceleratorType"]).rsplit("/", 1)[-1] == form  # type: ignore[index,call-overload]
    assert row["acceleratorCount"] == count  # type: ignore[index,call-overload]
    result = check(*result.files)
    assert not result.errors
    assert not result.warnings


def test_workstation_has_no_bucket_ranks_or_container() -> None:
    result = rendered(workstations())
    names = [file.name for file in result.files]
    assert not [name for name in names if "bucket" in name or "policy" in name or "resize" in name]
    whole = "\n".join(file.text for file in result.files if file.name != "call.sh")
    for word in (
        "docker",
        "gcsfuse",
        "NODE_RANK",
        "run.sh",
        "resize",
        "physicalHostTopology",
        "HF_TOKEN",
    ):
        assert word not in whole, word
    assert not any("--program" in note for note in result.notes)


def test_workstation_restarts_with_its_disk_and_is_not_recreated() -> None:
    result = rendered(workstations())
    assert at(properties(result), "scheduling", "automaticRestart") is True
    assert at(properties(result), "scheduling", "instanceTerminationAction") == "DELETE"
    assert at(properties(result), "scheduling", "maxRunDuration", "seconds") == str(7 * 86_400)
    group = body_of(result, "50-group.json")
    assert at(group, "instanceLifecyclePolicy", "defaultActionOnFailure") == "DO_NOTHING"
    assert group["targetSize"] == 2
    assert "autoHealingPolicies" not in group


def test_workstation_admits_iap_ssh_only_and_has_no_service_account() -> None:
    result = rendered(workstations())
    rules = [file.name for file in result.files if "compute.firewalls.insert" in file.text]
    assert rules == ["10-net-0-ssh.json"]
    assert body_of(result, rules[0])["sourceRanges"] == ["35.235.240.0/20"]
    assert properties(result)["serviceAccounts"] == []
    assert ENGINE is not None
    named = render_artefacts(
        ENGINE,
        workstations(),
        replace(SETTINGS, service_account="desk@my-project.iam.gserviceaccount.com"),
    )
    assert (
        at(properties(named), "serviceAccounts", 0, "email")
        == "desk@my-project.iam.gserviceaccount.com"
    )


@pytest.mark.parametrize(
    ("sessions", "machines", "seats"), [(4, 2, 2), (5, 2, 3), (1, 1, 1), (12, 6, 2), (40, 7, 6)]
)
def test_workstation_has_planned_number_of_sessions(
    sessions: int, machines: int, seats: int
) -> None:
    blueprint = workstations(sessions=sessions, machines=machines)
    assert blueprint.sessions_per_machine == seats
    assert blueprint.sessions_per_machine * machines >= sessions
    assert f"\nSEATS={seats}\n" in script_of(rendered(blueprint))


def test_workstation_desktop_sizes_follow_displays() -> None:
    assert "\nSIZES=3840x2160\n" in script_of(rendered(workstations()))
    assert "\nSIZES=3840x2160,7680x2160\n" in script_of(rendered(workstations(displays=2)))


def test_workstation_driver_matches_chip_and_is_checksummed() -> None:
    facts = read_workstation_facts()
    for machine, module in (
        ("g2-standard-4", "proprietary"),
        ("n1-1xt4", "proprietary"),
        ("g4-standard-48", "open"),
    ):
        script = script_of(rendered(workstations(machine)))
        fitting = facts.driver_install(catalog().machine(machine).chip)
        assert fitting is not None
        assert f"\nDRIVER_URL={facts.driver(fitting).url}\n" in script
        assert f"\nKERNEL_MODULE={module}\n" in script
        assert script.index("sha256sum --check") < script.index('sh "$FOLDER/driver.run"')
        assert (module == "proprietary") == (
            "NVreg_EnableGpuFirmware=0" in script
        )  # the open module needs it


def test_workstation_facts_have_sources_and_google_bucket_drivers() -> None:
    facts = read_workstation_facts()
    cited = {
        name
        for rows in (facts.drivers, facts.chips, facts.packages)
        for row in rows
        for name in row.source
    }
    assert cited == {row.name for row in facts.sources}
    for driver in facts.drivers:
        assert driver.url.startswith(
            f"https://storage.googleapis.com/nvidia-drivers-us-public/GRID/vGPU{driver.name}/"
        )
        assert driver.version in driver.url
        assert re.fullmatch(r"[0-9a-f]{64}", driver.sha256)


def test_planned_workstation_machines_are_the_renderable_ones() -> None:
    drivers = {row.name: row.vws_driver for row in catalog().graphics if row.vws_driver}
    assert drivers == {row.name: row.driver for row in read_workstation_facts().chips}
    assert all(row.vws == "yes" for row in catalog().graphics if row.vws_driver)


@pytest.mark.parametrize(
    ("machine", "named"), [("g4-standard-12", "g4-standard-48"), ("n1-1xp4", "G2")]
)
def test_undocumented_workstation_machine_is_unsuitable(machine: str, named: str) -> None:
    result = obstacle(workstations(machine))
    assert "documented" in result.why
    assert named in result.why


def test_preemptible_workstation_is_unsuitable_unless_requested() -> None:
    assert "flex-start" in obstacle(workstations(way="flex-start")).why
    assert "preempted" in obstacle(workstations(way="spot")).why
    spot = workstations(way="spot")
    spot = replace(
        spot,
        workload=replace(spot.workload, where=Where(zone="us-central1-b", consumption=("spot",))),
    )
    result = rendered(spot)
    assert at(properties(result), "scheduling", "automaticRestart") is False
    assert any("30 seconds" in note for note in result.notes)
    assert [item.rule for item in check(*result.files).warnings] == ["workstation"]


def test_workstation_notes_licence_without_price() -> None:
    text = "task: graphics\ngraphics: {use: virtual-workstation, sessions: 1}\nwhere: {machines: [MACHINE]}\n"
    for machine, is_excluded in (("g4-standard-48", True), ("g2-standard-4", False)):
        workload = parse_workload(text.replace("MACHINE", machine), "test.yaml", catalog())
        plan = plan_graphics(workload, catalog())
        assert isinstance(plan, Plan)
        blueprint = make_blueprint(workload, plan, 1, catalog(), consumption="on-demand")
        notes = rendered(blueprint).notes
        assert (
            any("excludes the virtual workstation licence" in note for note in notes) == is_excluded
        )


def test_workstation_notes_accelerator_type_of_reservation() -> None:
    assert any(
        "must be for nvidia-l4-vws" in note
        for note in rendered(workstations(way="reservation")).notes
    )


@pytest.mark.parametrize(
    "platform", [item for item in PLATFORMS if item.name != "compute-engine"], ids=lambda p: p.name
)
def test_other_platforms_suggest_compute_engine_for_workstations(platform: object) -> None:
    for name, nearest in (("g2-standard-4", "compute-engine"), ("n1-1xt4", "compute-engine")):
        result = render(platform, workstations(name), SETTINGS)  # type: ignore[attr-defined]
        assert isinstance(result, Unsuitable)
        assert result.nearest == nearest
        assert result.why


def test_workstation_readme_explains_how_to_connect() -> None:
    blueprint = workstations()
    settings = resolve_settings(blueprint, SETTINGS)
    cost_bound = cost_bound_of(blueprint, settings)
    text = readme(blueprint, settings, rendered(blueprint), cost_bound, "Compute Engine").text
    connect = text[text.index("## Connect") : text.index("## Delete")]
    for word in (
        "roles/compute.osLogin",
        "roles/iap.tunnelResourceAccessor",
        "--tunnel-through-iap",
        "headless",
        "PIN",
    ):
        assert word in connect, word
    assert "until it is stopped" in text
    assert cost_bound.expected_usd == cost_bound.max_usd  # a week of every machine, not an hour


def test_workstation_steps_and_scripts_are_valid_bash() -> None:
    result = rendered(workstations())
    for text in (
        script_of(result),
        *(step.command for step in (*result.steps, *result.user_access)),
    ):
        done = subprocess.run(
            ["bash", "-n"], input=text, text=True, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr


def test_session_slots_are_locks_assigned_to_gpus_round_robin(tmp_path: Path) -> None:
    """Run the session script with fake programs: two GPUs, three slots, four users."""
    if shutil.which("flock") is None:
        pytest.skip("flock is not here")
    session = script_of(rendered(workstations())).split("<<'SESSION'\n")[1].split("\nSESSION\n")[0]
    seats, tools = tmp_path / "desks", tmp_path / "tools"
    seats.mkdir()
    tools.mkdir()
    for seat in range(3):
        (seats / str(seat)).touch()
    session = session.replace("/run/desks", str(seats)).replace(
        "/etc/X11/Xsession", str(tools / "xsession")
    )
    programs = {
        "nvidia-smi": "echo one; echo two",
        "xsession": 'echo "$VGL_DISPLAY"; exec sleep 60',
        "xmessage": 'echo "$*"',
    }
    for name, lines in programs.items():
        (tools / name).write_text(f"#!/bin/bash\n{lines}\n")
        (tools / name).chmod(0o755)
    environment = {"PATH": f"{tools}:/usr/bin:/bin", "LD_LIBRARY_PATH": "/nowhere"}
    connect = []
    try:
        for expected in ("egl0", "egl1", "egl0", "-center All 3 sessions"):
            process = subprocess.Popen(
                ["bash", "-c", session], env=environment, stdout=subprocess.PIPE, text=True
            )
            connect.append(process)
            assert process.stdout is not None
            assert process.stdout.readline().strip().startswith(expected)
    finally:
        for process in connect:
            process.kill()
            process.communicate()
