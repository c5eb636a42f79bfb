"""Graphics plans: sessions and streams per GPU, rendering deadlines, and infeasible requests."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.catalog.load import load_catalog
from gpuyard.document.encode import dump_json, load_json
from gpuyard.errors import Infeasible
from gpuyard.plan.graphics import plan_graphics
from gpuyard.plan.option import Option, Plan
from gpuyard.workload.read import parse_workload, read_workload

CATALOG = load_catalog()
EXAMPLES = Path(__file__).parent.parent.parent / "examples"
FRAMES = "task: graphics\ngraphics: {use: rendering, frames: 2400, frame_time: 90s, measured_on: l4, memory: 12GB}\n"


def plan(text: str) -> Plan:
    found = plan_graphics(parse_workload(text, "test.yaml", CATALOG), CATALOG)
    assert isinstance(found, Plan), str(found)
    return found


def refused(text: str) -> Infeasible:
    found = plan_graphics(parse_workload(text, "test.yaml", CATALOG), CATALOG)
    assert isinstance(found, Infeasible)
    return found


def on(found: Plan, machine: str) -> Option:
    return next(option for option in found.options if option.cluster.machine == machine)


@pytest.mark.parametrize("name", ["graphics-rendering", "graphics-workstations"])
def test_examples_have_plans_that_round_trip(name: str) -> None:
    found = plan_graphics(read_workload(EXAMPLES / f"{name}.yaml", CATALOG), CATALOG)
    assert isinstance(found, Plan)
    assert found.options[0].on_pareto_front
    costs = [option.usd for option in found.options if option.usd is not None]
    assert costs[0] <= 1.1 * min(costs)
    assert load_json(dump_json(found), Plan) == found


def test_frame_time_scales_with_slower_of_fp32_and_memory() -> None:
    found = plan(FRAMES)
    assert on(found, "g2-standard-4").step_s == 90.0
    assert on(found, "g4-standard-48").step_s == pytest.approx(
        90 * 30.3 / 117
    )  # FP32, not the larger bandwidth
    assert on(found, "n1-1xt4").step_s == pytest.approx(90 * 30.3 / 8.1)


def test_frames_are_rendered_in_full_rounds() -> None:
    for option in plan(FRAMES).options:
        gpus = max(
            1.0, CATALOG.machine(option.cluster.machine).chip_count
        )  # a share of one works alone
        rounds = math.ceil(2400 / (gpus * option.cluster.machine_count))
        assert option.steps_count == pytest.approx(rounds)
        assert option.ideal_s == pytest.approx(option.step_s * option.steps_count)
        assert option.expected_s >= option.ideal_s


def test_fewest_machines_within_deadline_are_planned() -> None:
    found = plan(
        FRAMES
        + "requirements: {deadline: 10h}\nwhere: {machines: [g2-standard-4], consumption: [on-demand]}\n"
    )
    assert (
        min(option.cluster.machine_count for option in found.options) == 7
    )  # 60 GPU-hours, and a little for failures
    assert all(option.expected_s <= 36000 for option in found.options)


def test_chip_without_required_ray_tracing_cores_is_rejected() -> None:
    rejected = {group.family: group for group in plan(FRAMES).rejected}
    assert "ray-tracing cores" in rejected["A3 High"].what
    assert "are unknown" in rejected["A4"].what
    without = FRAMES.replace("measured_on: l4", "measured_on: v100").replace("12GB", "8GB")
    assert "A3 High" not in {group.family for group in plan(without).rejected}


def test_frame_larger_than_gpu_memory_is_infeasible() -> None:
    found = refused(FRAMES.replace("12GB", "120GB"))
    assert found.binding == "graphics.memory"
    assert "96GB" in found.fix


def test_sessions_follow_the_tightest_limit() -> None:
    seats = "task: graphics\ngraphics: {{use: virtual-workstation, sessions: 40, memory: {memory}, displays: {displays}, resolution: {resolution}, frame_rate: 30fps, vcpus: 1, host_memory: 4GB}}\n"
    two_screens = plan(seats.format(memory="8GB", displays=2, resolution="4k"))
    option = on(two_screens, "g2-standard-16")
    assert option.cluster.machine_count == 20
    assert "2 sessions per machine, limited by displays" in option.reasons
    one_screen = on(
        plan(seats.format(memory="8GB", displays=1, resolution="1080p")), "g2-standard-4"
    )
    assert one_screen.cluster.machine_count == 14
    assert "limited by memory" in one_screen.reasons[0]
    sharp = on(plan(seats.format(memory="2GB", displays=2, resolution="8k")), "g2-standard-32")
    assert "1 session per machine, limited by resolution" in sharp.reasons


def test_seat_has_vcpus_and_host_memory_of_its_displays() -> None:
    seats = "task: graphics\ngraphics: {{use: virtual-workstation, sessions: 60, resolution: 4k, displays: 2, memory: 8GB{more}}}\nwhere: {{region: us-central1}}\n"
    for option in plan(seats.format(more="")).options:
        machine = CATALOG.machine(option.cluster.machine)
        seats_each = 60 / option.cluster.machine_count
        assert (machine.vcpu_count or 0) >= 8 * seats_each
        assert machine.memory_bytes >= 32e9 * seats_each
    large = on(plan(seats.format(more=", vcpus: 16, host_memory: 64GB")), "g2-standard-32")
    default = on(plan(seats.format(more="")), "g2-standard-32")
    assert large.cluster.machine_count > default.cluster.machine_count


def test_workstations_include_licence_and_exclude_spot() -> None:
    text = "task: graphics\ngraphics: {use: virtual-workstation, sessions: 10, memory: 24GB}\nwhere: {region: us-central1, machines: [g2-standard-4]}\n"
    option = plan(text).options[0]
    assert "spot" not in {bill.consumption for bill in option.bills}
    on_demand = next(bill for bill in option.bills if bill.consumption == "on-demand")
    assert on_demand.usd == pytest.approx(10 * (0.7068 + 0.2))
    asked = plan(text.replace("[g2-standard-4]", "[g2-standard-4], consumption: [spot]")).options[0]
    assert {bill.consumption for bill in asked.bills} == {"spot"}


def test_licence_without_price_is_reported() -> None:
    text = "task: graphics\ngraphics: {use: virtual-workstation, sessions: 10, memory: 24GB}\nwhere: {machines: [g4-standard-48]}\n"
    assert any("licence" in reason for reason in plan(text).options[0].reasons)


def test_streams_per_gpu_follow_video_engines() -> None:
    video = "task: graphics\ngraphics: {use: video, sessions: 500, resolution: 1080p, frame_rate: 30fps}\n"
    found = plan(video)
    assert on(found, "g2-standard-4").cluster.machine_count == math.ceil(500 / (2 * 283 // 30))
    assert on(found, "n1-1xt4").cluster.machine_count == math.ceil(500 / (264 // 30))
    assert on(found, "g4-standard-48").cluster.machine_count == math.ceil(500 / (4 * 317 // 30))
    rejected = {group.family: group.what for group in found.rejected}
    assert "no video encoder" in rejected["A3 High"]
    assert "video engines" in rejected["N1+P4"]  # its decoders are unknown


def test_stream_above_engine_rate_is_infeasible() -> None:
    found = refused(
        "task: graphics\ngraphics: {use: video, sessions: 1, resolution: 8k, frame_rate: 60fps}\n"
    )
    assert found.binding == "graphics.frame_rate"
    assert "fps" in found.fix


def test_applying_fix_makes_plan_feasible() -> None:
    found = refused(FRAMES + "requirements: {deadline: 10h, budget: $15}\n")
    assert found.binding == "requirements.budget"
    assert found.fix.startswith("raise budget to $")
    budget = found.fix.removeprefix("raise budget to ")
    assert plan(FRAMES + f"requirements: {{deadline: 10h, budget: {budget}}}\n").options


def test_hourly_budget_binds() -> None:
    seats = "task: graphics\ngraphics: {use: virtual-workstation, sessions: 40, memory: 8GB}\nrequirements: {hourly_budget: $1/h}\n"
    assert refused(seats).binding == "requirements.hourly_budget"


def test_machine_without_price_is_rejected_when_budget_is_set() -> None:
    streams = (
        "task: graphics\ngraphics: {use: video, sessions: 4}\nwhere: {machines: [g4-standard-6]}\n"
    )
    assert plan(streams).options[0].usd is None
    with_budget = parse_workload(
        streams + "requirements: {hourly_budget: $100/h}\n", "test.yaml", CATALOG
    )
    assert isinstance(plan_graphics(with_budget, CATALOG), Infeasible)


def test_chip_without_vws_driver_is_infeasible() -> None:
    seats = "task: graphics\ngraphics: {use: virtual-workstation, sessions: 4, memory: 4GB}\n"
    found = refused(seats + "where: {machines: [n1-*xp4]}\n")
    assert "no documented vWS driver supports NVIDIA P4" in found.what
    assert found.fix == "use G2, G4 or N1+T4"


def test_fractional_gpu_workstation_is_infeasible() -> None:
    seats = "task: graphics\ngraphics: {use: virtual-workstation, sessions: 4, memory: 8GB}\n"
    found = refused(seats + "where: {machines: [g4-standard-6, g4-standard-24]}\n")
    assert "g4-standard-24 is not documented as a virtual workstation" in found.what
    assert found.fix == "use g4-standard-48"
    assert {
        option.cluster.machine for option in plan(seats + "where: {machines: [g4-*]}\n").options
    } <= {row.name for row in CATALOG.machines if row.vws_api_name}


def test_max_chips_limits_machines() -> None:
    seats = "task: graphics\ngraphics: {use: virtual-workstation, sessions: 40, memory: 24GB}\nwhere: {machines: [g2-*], max_chips: 8}\n"
    found = refused(seats)
    assert found.binding == "where.max_chips"
    assert "40 machines are needed" in found.what or "5 machines are needed" in found.what


def test_onprem_inventory_is_planned() -> None:
    box = replace(
        CATALOG.machine("dgx-h100"), name="l40s-box", series="L40S", chip="l40s", power_w=4000.0
    )
    catalog = replace(CATALOG, machines=(*CATALOG.machines, box))
    text = (
        "task: graphics\ngraphics: {use: virtual-workstation, sessions: 30, memory: 12GB}\n"
        "where: {provider: onprem, inventory: {l40s-box: 2, dgx-h100: 1}}\n"
    )
    found = plan_graphics(parse_workload(text, "test.yaml", catalog), catalog)
    assert isinstance(found, Plan)
    (option,) = found.options
    assert (option.cluster.machine, option.cluster.machine_count) == (
        "l40s-box",
        1,
    )  # four sessions on each of eight
    assert option.bills == ()
    assert option.energy_joules == 4000.0 * 3600
    assert {group.family for group in found.rejected} == {"DGX"}
    crowded = parse_workload(text.replace("sessions: 30", "sessions: 100"), "test.yaml", catalog)
    refusal = plan_graphics(crowded, catalog)
    assert isinstance(refusal, Infeasible)
    assert refusal.binding == "where.inventory"
    assert "4 machines are needed; 2 are allowed" in refusal.what


@settings(max_examples=25)
@given(st.integers(1, 5000), st.floats(1.0, 600.0), st.floats(1.0, 48.0))
def test_cost_never_falls_with_frames(frames: int, frame_s: float, hours: float) -> None:
    text = (
        "task: graphics\ngraphics: {{use: rendering, frames: {frames}, frame_time: {frame:.3f}s, measured_on: l4}}\n"
        "requirements: {{deadline: {hours:.3f}h}}\nwhere: {{machines: [g2-standard-4, g4-standard-48]}}\n"
    )
    fewer = plan_graphics(
        parse_workload(text.format(frames=frames, frame=frame_s, hours=hours), "t", CATALOG),
        CATALOG,
    )
    more = plan_graphics(
        parse_workload(text.format(frames=2 * frames, frame=frame_s, hours=hours), "t", CATALOG),
        CATALOG,
    )
    assert isinstance(fewer, Plan)
    assert isinstance(more, Plan)
    assert (more.options[0].usd or 0.0) >= (fewer.options[0].usd or 0.0) * (1 - 1e-9)
    for option in (*fewer.options, *more.options):
        assert option.expected_s <= hours * 3600 * (1 + 1e-3)
