"""Virtual workstations on Compute Engine: what a careful engineer would look for, and what is refused and why."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from gpuyard.blueprint import Blueprint, make_blueprint
from gpuyard.document import Plain
from gpuyard.plan import Plan
from gpuyard.plan.graphics import plan_graphics
from gpuyard.provision.exposure import exposure_of
from gpuyard.provision.platform import Artefacts, Unsuitable
from gpuyard.provision.platforms import PLATFORMS, platform_named
from gpuyard.provision.platforms.compute_engine.workstations import read_workstation_facts
from gpuyard.provision.readme import readme
from gpuyard.provision.settings import place_of
from gpuyard.workload import ConsumptionName, Where, parse_workload

from .decisions import SETTINGS, at, body_of, catalog, check, decision, made, of_machines

ENGINE = platform_named("compute-engine")
SERIES = [
    ("g2-standard-4", "nvidia-l4-vws", 1),
    ("g2-standard-48", "nvidia-l4-vws", 4),
    ("g4-standard-48", "nvidia-rtx-pro-6000-vws", 1),
    ("g4-standard-384", "nvidia-rtx-pro-6000-vws", 8),
    ("n1-1xt4", "nvidia-tesla-t4-vws", 1),
]


def desks(
    machine: str = "g2-standard-4",
    *,
    sessions: int = 4,
    machines: int = 2,
    displays: int = 1,
    way: ConsumptionName = "on-demand",
) -> Blueprint:
    """A decision for so many people."""
    blueprint = of_machines(decision(machine, "desks", way), machines)
    graphics = blueprint.workload.graphics
    assert graphics is not None
    wanted = replace(graphics, sessions_count=sessions, displays=displays)
    return replace(blueprint, workload=replace(blueprint.workload, graphics=wanted))


def rendered(blueprint: Blueprint) -> Artefacts:
    assert ENGINE is not None
    return made(ENGINE, blueprint)


def refused(blueprint: Blueprint) -> Unsuitable:
    assert ENGINE is not None
    found = ENGINE.render(blueprint, SETTINGS)
    assert isinstance(found, Unsuitable)
    return found


def properties(found: Artefacts) -> dict[str, Plain]:
    """Of the machines, whether there are several or one."""
    names = {file.name for file in found.files}
    if "50-instance.json" in names:
        return body_of(found, "50-instance.json")
    tree = body_of(found, "40-template.json")["properties"]
    assert isinstance(tree, dict)
    return tree


def script_of(found: Artefacts) -> str:
    value = at(properties(found), "metadata", "items", 0, "value")
    assert isinstance(value, str)
    return value


@pytest.mark.parametrize(("machine", "form", "count"), SERIES)
@pytest.mark.parametrize("machines", [1, 3])
def test_a_desk_asks_for_the_workstation_form_of_its_gpus(machine: str, form: str, count: int, machines: int) -> None:
    found = rendered(desks(machine, machines=machines))
    [row] = at(properties(found), "guestAccelerators")  # type: ignore[misc]
    assert str(row["acceleratorType"]).rsplit("/", 1)[-1] == form  # type: ignore[index,call-overload]
    assert row["acceleratorCount"] == count  # type: ignore[index,call-overload]
    said = check(*found.files)
    assert not said.errors
    assert not said.warnings


def test_nothing_of_a_job_is_left() -> None:
    found = rendered(desks())
    names = [file.name for file in found.files]
    assert not [name for name in names if "bucket" in name or "policy" in name or "resize" in name]
    whole = "\n".join(file.text for file in found.files if file.name != "call.sh")
    for word in ("docker", "gcsfuse", "NODE_RANK", "run.sh", "resize", "physicalHostTopology", "HF_TOKEN"):
        assert word not in whole, word
    assert not any("--program" in note for note in found.notes)


def test_a_machine_comes_back_with_its_disk_and_none_is_made_anew() -> None:
    found = rendered(desks())
    assert at(properties(found), "scheduling", "automaticRestart") is True
    assert at(properties(found), "scheduling", "instanceTerminationAction") == "DELETE"
    assert at(properties(found), "scheduling", "maxRunDuration", "seconds") == str(7 * 86_400)
    group = body_of(found, "50-group.json")
    assert at(group, "instanceLifecyclePolicy", "defaultActionOnFailure") == "DO_NOTHING"
    assert group["targetSize"] == 2
    assert "autoHealingPolicies" not in group


def test_nothing_comes_in_but_ssh_through_the_tunnel_and_nobody_gets_an_identity() -> None:
    found = rendered(desks())
    rules = [file.name for file in found.files if "compute.firewalls.insert" in file.text]
    assert rules == ["10-net-0-ssh.json"]
    assert body_of(found, rules[0])["sourceRanges"] == ["35.235.240.0/20"]
    assert properties(found)["serviceAccounts"] == []
    assert ENGINE is not None
    named = made(ENGINE, desks(), replace(SETTINGS, service_account="desk@my-project.iam.gserviceaccount.com"))
    assert at(properties(named), "serviceAccounts", 0, "email") == "desk@my-project.iam.gserviceaccount.com"


@pytest.mark.parametrize(("sessions", "machines", "seats"), [(4, 2, 2), (5, 2, 3), (1, 1, 1), (12, 6, 2), (40, 7, 6)])
def test_a_machine_has_the_seats_that_the_plan_counts_on(sessions: int, machines: int, seats: int) -> None:
    blueprint = desks(sessions=sessions, machines=machines)
    assert blueprint.seats_per_machine == seats
    assert blueprint.seats_per_machine * machines >= sessions
    assert f"\nSEATS={seats}\n" in script_of(rendered(blueprint))


def test_displays_have_the_size_that_was_asked_for() -> None:
    assert "\nSIZES=3840x2160\n" in script_of(rendered(desks()))
    assert "\nSIZES=3840x2160,7680x2160\n" in script_of(rendered(desks(displays=2)))


def test_the_driver_is_the_chips_own_and_is_checked_before_it_runs() -> None:
    facts = read_workstation_facts()
    for machine, module in (("g2-standard-4", "proprietary"), ("n1-1xt4", "proprietary"), ("g4-standard-48", "open")):
        script = script_of(rendered(desks(machine)))
        fitting = facts.fitting(catalog().machine(machine).chip)
        assert fitting is not None
        assert f"\nDRIVER_URL={facts.driver(fitting).url}\n" in script
        assert f"\nKERNEL_MODULE={module}\n" in script
        assert script.index("sha256sum --check") < script.index('sh "$FOLDER/driver.run"')
        assert (module == "proprietary") == ("NVreg_EnableGpuFirmware=0" in script)  # the open module needs it


def test_every_driver_comes_from_googles_bucket_and_every_fact_is_cited() -> None:
    facts = read_workstation_facts()
    cited = {name for rows in (facts.drivers, facts.chips, facts.parts) for row in rows for name in row.source}
    assert cited == {row.name for row in facts.sources}
    for driver in facts.drivers:
        assert driver.url.startswith(f"https://storage.googleapis.com/nvidia-drivers-us-public/GRID/vGPU{driver.name}/")
        assert driver.version in driver.url
        assert re.fullmatch(r"[0-9a-f]{64}", driver.sha256)


def test_the_plan_offers_the_desks_that_are_written_and_no_others() -> None:
    drivers = {row.name: row.vws_driver for row in catalog().graphics if row.vws_driver}
    assert drivers == {row.name: row.driver for row in read_workstation_facts().chips}
    assert all(row.vws == "yes" for row in catalog().graphics if row.vws_driver)


@pytest.mark.parametrize(("machine", "named"), [("g4-standard-12", "g4-standard-48"), ("n1-1xp4", "G2")])
def test_what_no_source_tells_of_is_refused_with_what_can(machine: str, named: str) -> None:
    found = refused(desks(machine))
    assert found.why.startswith("no source tells")
    assert named in found.why


def test_ways_that_take_the_machine_away_are_refused_unless_the_file_asks() -> None:
    assert "flex-start" in refused(desks(way="flex-start")).why
    assert "vanish" in refused(desks(way="spot")).why
    spot = desks(way="spot")
    asked = replace(spot, workload=replace(spot.workload, where=Where(zone="us-central1-b", consumption=("spot",))))
    found = rendered(asked)
    assert at(properties(found), "scheduling", "automaticRestart") is False
    assert any("half a minute" in note for note in found.notes)
    assert [item.rule for item in check(*found.files).warnings] == ["workstation"]


def test_a_licence_without_a_price_is_told() -> None:
    text = "task: graphics\ngraphics: {use: virtual-workstation, sessions: 1}\nwhere: {machines: [MACHINE]}\n"
    for machine, told in (("g4-standard-48", True), ("g2-standard-4", False)):
        workload = parse_workload(text.replace("MACHINE", machine), "test.yaml", catalog())
        plan = plan_graphics(workload, catalog())
        assert isinstance(plan, Plan)
        blueprint = make_blueprint(workload, plan, 1, catalog(), way="on-demand")
        assert any("licence for virtual workstations is not" in note for note in rendered(blueprint).notes) == told


def test_a_reservation_has_to_hold_the_form() -> None:
    assert any("has to hold nvidia-l4-vws" in note for note in rendered(desks(way="reservation")).notes)


@pytest.mark.parametrize(
    "platform", [item for item in PLATFORMS if item.name != "compute-engine"], ids=lambda p: p.name
)
def test_every_other_platform_says_no_and_leads_here(platform: object) -> None:
    for name, nearest in (("g2-standard-4", "compute-engine"), ("n1-1xt4", "compute-engine")):
        found = platform.render(desks(name), SETTINGS)  # type: ignore[attr-defined]
        assert isinstance(found, Unsuitable)
        assert found.nearest == nearest
        assert "display" in found.why or "sit" in found.why or "TPU" in found.why


def test_the_readme_tells_a_person_how_to_sit_down() -> None:
    blueprint = desks()
    place = place_of(blueprint, SETTINGS)
    exposure = exposure_of(blueprint, place)
    text = readme(blueprint, place, rendered(blueprint), exposure, "Compute Engine").text
    sitting = text[text.index("## Sit down") : text.index("## Take it back")]
    for word in (
        "roles/compute.osLogin",
        "roles/iap.tunnelResourceAccessor",
        "--tunnel-through-iap",
        "headless",
        "PIN",
    ):
        assert word in sitting, word
    assert "runs until it is ended" in text
    assert exposure.expected_usd == exposure.largest_usd  # a week of every machine, not an hour


def test_every_step_and_script_is_one_for_bash() -> None:
    found = rendered(desks())
    for text in (script_of(found), *(step.command for step in (*found.steps, *found.seating))):
        done = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr


def test_seats_are_locks_and_gpus_are_taken_in_turn(tmp_path: Path) -> None:
    """The session script, with the programs it calls replaced: two GPUs, three seats, four people."""
    if shutil.which("flock") is None:
        pytest.skip("flock is not here")
    session = script_of(rendered(desks())).split("<<'SESSION'\n")[1].split("\nSESSION\n")[0]
    seats, tools = tmp_path / "desks", tmp_path / "tools"
    seats.mkdir()
    tools.mkdir()
    for seat in range(3):
        (seats / str(seat)).touch()
    session = session.replace("/run/desks", str(seats)).replace("/etc/X11/Xsession", str(tools / "xsession"))
    programs = {
        "nvidia-smi": "echo one; echo two",
        "xsession": 'echo "$VGL_DISPLAY"; exec sleep 60',
        "xmessage": 'echo "$*"',
    }
    for name, lines in programs.items():
        (tools / name).write_text(f"#!/bin/bash\n{lines}\n")
        (tools / name).chmod(0o755)
    environment = {"PATH": f"{tools}:/usr/bin:/bin", "LD_LIBRARY_PATH": "/nowhere"}
    sitting = []
    try:
        for expected in ("egl0", "egl1", "egl0", "-center All 3 seats"):
            process = subprocess.Popen(["bash", "-c", session], env=environment, stdout=subprocess.PIPE, text=True)
            sitting.append(process)
            assert process.stdout is not None
            assert process.stdout.readline().strip().startswith(expected)
    finally:
        for process in sitting:
            process.kill()
            process.communicate()
