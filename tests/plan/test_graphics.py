"""Plans for pixels: sessions and streams of a GPU, frames by a deadline, and what to relax when nothing does."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.catalog import load_catalog
from gpuyard.document import dump_json, load_json
from gpuyard.errors import Infeasible
from gpuyard.plan.graphics import plan_graphics
from gpuyard.plan.option import Option, Plan
from gpuyard.workload import parse_workload, read_workload

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
def test_the_examples_have_plans_that_can_be_saved(name: str) -> None:
    found = plan_graphics(read_workload(EXAMPLES / f"{name}.yaml", CATALOG), CATALOG)
    assert isinstance(found, Plan)
    assert found.options[0].on_front
    costs = [option.usd for option in found.options if option.usd is not None]
    assert costs == sorted(costs)
    assert load_json(dump_json(found), Plan) == found


def test_a_frame_scales_with_the_slower_of_arithmetic_and_memory() -> None:
    found = plan(FRAMES)
    assert on(found, "g2-standard-4").step_s == 90.0
    assert on(found, "g4-standard-48").step_s == pytest.approx(90 * 30.3 / 117)  # FP32, not the larger bandwidth
    assert on(found, "n1-1xt4").step_s == pytest.approx(90 * 30.3 / 8.1)


def test_frames_come_in_whole_rounds() -> None:
    for option in plan(FRAMES).options:
        gpus = max(1.0, CATALOG.machine(option.cluster.machine).chip_count)  # a share of one works alone
        rounds = math.ceil(2400 / (gpus * option.cluster.machine_count))
        assert option.steps_count == pytest.approx(rounds)
        assert option.ideal_s == pytest.approx(option.step_s * option.steps_count)
        assert option.expected_s >= option.ideal_s


def test_the_fewest_machines_that_meet_the_deadline() -> None:
    found = plan(
        FRAMES + "requirements: {deadline: 10h}\nwhere: {machines: [g2-standard-4], consumption: [on-demand]}\n"
    )
    assert min(option.cluster.machine_count for option in found.options) == 7  # 60 GPU-hours, and a little for failures
    assert all(option.expected_s <= 36000 for option in found.options)


def test_ray_tracing_cores_are_not_done_without() -> None:
    rejected = {group.family: group for group in plan(FRAMES).rejected}
    assert "ray-tracing cores" in rejected["A3 High"].what
    assert "nothing is known" in rejected["A4"].what
    without = FRAMES.replace("measured_on: l4", "measured_on: v100").replace("12GB", "8GB")
    assert "A3 High" not in {group.family for group in plan(without).rejected}


def test_a_frame_that_fits_no_gpu() -> None:
    found = refused(FRAMES.replace("12GB", "120GB"))
    assert found.binding == "graphics.memory"
    assert "96GB" in found.fix


def test_sessions_of_a_gpu_are_bound_by_the_tightest() -> None:
    seats = "task: graphics\ngraphics: {{use: virtual-workstation, sessions: 40, memory: {memory}, displays: {displays}, resolution: {resolution}, frame_rate: 30fps}}\n"
    two_screens = on(plan(seats.format(memory="8GB", displays=2, resolution="4k")), "g2-standard-4")
    assert two_screens.cluster.machine_count == 20
    assert "2 sessions a GPU, bound by displays" in two_screens.reasons
    one_screen = on(plan(seats.format(memory="8GB", displays=1, resolution="1080p")), "g2-standard-4")
    assert one_screen.cluster.machine_count == 14
    assert "bound by memory" in one_screen.reasons[0]
    sharp = on(plan(seats.format(memory="2GB", displays=2, resolution="8k")), "g2-standard-96")
    assert "1 session a GPU, bound by resolution" in sharp.reasons


def test_workstations_pay_for_their_licence_and_do_not_vanish() -> None:
    text = "task: graphics\ngraphics: {use: virtual-workstation, sessions: 10, memory: 24GB}\nwhere: {machines: [g2-standard-4]}\n"
    option = plan(text).options[0]
    assert "spot" not in {bill.way for bill in option.bills}
    on_demand = next(bill for bill in option.bills if bill.way == "on-demand")
    assert on_demand.usd == pytest.approx(10 * (0.7068 + 0.2))
    asked = plan(text.replace("[g2-standard-4]", "[g2-standard-4], consumption: [spot]")).options[0]
    assert {bill.way for bill in asked.bills} == {"spot"}


def test_a_licence_without_a_price_is_said_to_be_missing() -> None:
    text = "task: graphics\ngraphics: {use: virtual-workstation, sessions: 10, memory: 24GB}\nwhere: {machines: [g4-standard-48]}\n"
    assert any("licence" in reason for reason in plan(text).options[0].reasons)


def test_streams_of_a_gpu_follow_its_engines() -> None:
    video = "task: graphics\ngraphics: {use: video, sessions: 500, resolution: 1080p, frame_rate: 30fps}\n"
    found = plan(video)
    assert on(found, "g2-standard-4").cluster.machine_count == math.ceil(500 / (2 * 283 // 30))
    assert on(found, "n1-1xt4").cluster.machine_count == math.ceil(500 / (264 // 30))
    assert on(found, "g4-standard-48").cluster.machine_count == math.ceil(500 / (4 * 317 // 30))
    rejected = {group.family: group.what for group in found.rejected}
    assert "no video encoder" in rejected["A3 High"]
    assert "no source tells" in rejected["N1+P4"]  # its decoders are not known


def test_a_stream_that_is_too_much_for_one_engine() -> None:
    found = refused("task: graphics\ngraphics: {use: video, sessions: 1, resolution: 8k, frame_rate: 60fps}\n")
    assert found.binding == "graphics.frame_rate"
    assert "fps" in found.fix


def test_following_the_advice_makes_it_feasible() -> None:
    found = refused(FRAMES + "requirements: {deadline: 10h, budget: $20}\n")
    assert found.binding == "requirements.budget"
    assert found.fix.startswith("raise budget to $")
    budget = found.fix.removeprefix("raise budget to ")
    assert plan(FRAMES + f"requirements: {{deadline: 10h, budget: {budget}}}\n").options


def test_an_hourly_budget_binds() -> None:
    seats = "task: graphics\ngraphics: {use: virtual-workstation, sessions: 40, memory: 8GB}\nrequirements: {hourly_budget: $1/h}\n"
    assert refused(seats).binding == "requirements.hourly_budget"


def test_a_price_that_nobody_publishes_rules_out_where_money_counts() -> None:
    streams = "task: graphics\ngraphics: {use: video, sessions: 4}\nwhere: {machines: [g4-standard-6]}\n"
    assert plan(streams).options[0].usd is None
    with_budget = parse_workload(streams + "requirements: {hourly_budget: $100/h}\n", "test.yaml", CATALOG)
    assert isinstance(plan_graphics(with_budget, CATALOG), Infeasible)


def test_a_chip_whose_driver_no_source_tells_is_no_workstation() -> None:
    seats = "task: graphics\ngraphics: {use: virtual-workstation, sessions: 4, memory: 4GB}\n"
    found = refused(seats + "where: {machines: [n1-*xp4]}\n")
    assert "no source tells which driver for workstations still serves NVIDIA P4" in found.what
    assert found.fix == "use G2, G4 or N1+T4"


def test_a_share_of_a_gpu_is_no_workstation() -> None:
    seats = "task: graphics\ngraphics: {use: virtual-workstation, sessions: 4, memory: 8GB}\n"
    found = refused(seats + "where: {machines: [g4-standard-6, g4-standard-24]}\n")
    assert "no source tells that g4-standard-24 can be had as a virtual workstation" in found.what
    assert found.fix == "use g4-standard-48"
    assert {option.cluster.machine for option in plan(seats + "where: {machines: [g4-*]}\n").options} <= {
        row.name for row in CATALOG.machines if row.vws_api_name
    }


def test_max_chips_binds() -> None:
    seats = "task: graphics\ngraphics: {use: virtual-workstation, sessions: 40, memory: 24GB}\nwhere: {machines: [g2-*], max_chips: 8}\n"
    found = refused(seats)
    assert found.binding == "where.max_chips"
    assert "40 machines are needed" in found.what or "5 machines are needed" in found.what


def test_a_hall_of_ones_own_draws_too() -> None:
    box = replace(CATALOG.machine("dgx-h100"), name="l40s-box", series="L40S", chip="l40s", power_w=4000.0)
    catalog = replace(CATALOG, machines=(*CATALOG.machines, box))
    text = (
        "task: graphics\ngraphics: {use: virtual-workstation, sessions: 30, memory: 12GB}\n"
        "where: {provider: onprem, inventory: {l40s-box: 2, dgx-h100: 1}}\n"
    )
    found = plan_graphics(parse_workload(text, "test.yaml", catalog), catalog)
    assert isinstance(found, Plan)
    (option,) = found.options
    assert (option.cluster.machine, option.cluster.machine_count) == ("l40s-box", 1)  # four sessions on each of eight
    assert option.bills == ()
    assert option.energy_joules == 4000.0 * 3600
    assert {group.family for group in found.rejected} == {"DGX"}
    crowded = parse_workload(text.replace("sessions: 30", "sessions: 100"), "test.yaml", catalog)
    refusal = plan_graphics(crowded, catalog)
    assert isinstance(refusal, Infeasible)
    assert refusal.binding == "where.inventory"
    assert "4 machines are needed, 2 are allowed" in refusal.what


@settings(max_examples=25)
@given(st.integers(1, 5000), st.floats(1.0, 600.0), st.floats(1.0, 48.0))
def test_more_frames_never_cost_less(frames: int, frame_s: float, hours: float) -> None:
    text = (
        "task: graphics\ngraphics: {{use: rendering, frames: {frames}, frame_time: {frame:.3f}s, measured_on: l4}}\n"
        "requirements: {{deadline: {hours:.3f}h}}\nwhere: {{machines: [g2-standard-4, g4-standard-48]}}\n"
    )
    fewer = plan_graphics(parse_workload(text.format(frames=frames, frame=frame_s, hours=hours), "t", CATALOG), CATALOG)
    more = plan_graphics(
        parse_workload(text.format(frames=2 * frames, frame=frame_s, hours=hours), "t", CATALOG), CATALOG
    )
    assert isinstance(fewer, Plan)
    assert isinstance(more, Plan)
    assert (more.options[0].usd or 0.0) >= (fewer.options[0].usd or 0.0) * (1 - 1e-9)
    for option in (*fewer.options, *more.options):
        assert option.expected_s <= hours * 3600 * (1 + 1e-3)
