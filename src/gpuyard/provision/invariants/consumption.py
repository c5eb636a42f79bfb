"""Invariants of consumption options: reservation, flex-start, spot or on demand."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuyard.catalog.machines import Machine
from gpuyard.errors import Finding, choices_text
from gpuyard.provision.artefact_document import ValueView, duration_s
from gpuyard.provision.invariants.capacity import Capacity
from gpuyard.provision.invariants.lint_bundle import LintBundle, invariant
from gpuyard.provision.invariants.sources import MACHINES, PODS, TOOLKIT

RESERVATION_KEY = "compute.googleapis.com/reservation-name"
RESERVATION_PATH = r"projects/[^/]+/(zones/[^/]+/)?reservations/"
RESERVATION_VALUE = re.compile(
    rf"({RESERVATION_PATH})?[a-z][-a-z0-9]*"
    r"(/reservationBlocks/[^/]+(/reservationSubBlocks/[^/]+)?)?"
)
POD_CONSUMPTION = {
    "cloud.google.com/gke-spot": "spot",
    "cloud.google.com/gke-flex-start": "flex-start",
    "cloud.google.com/reservation-name": "reservation",
}
FLEX_START_SCHEDULING: dict[str, str | bool] = {
    "instanceTerminationAction": "DELETE",
    "onHostMaintenance": "TERMINATE",
    "automaticRestart": False,
}
WITHOUT_NO_RESERVATION = "flex-start without NO_RESERVATION"


@invariant("one-offer", applies_to=f"{MACHINES}; {PODS}", source=TOOLKIT)
def one_consumption_option(bundle: LintBundle) -> Iterator[Finding]:
    """One of reservation, flex-start, spot and on demand is requested."""
    for capacity in bundle.capacities:
        yield from _one_of(capacity.view, tuple(dict.fromkeys(capacity.consumption)))
    for pod in bundle.pods:
        selector = pod.spec["nodeSelector"]
        options = [name for label, name in POD_CONSUMPTION.items() if selector[label].is_set]
        yield from _one_of(selector, tuple(options))


def _one_of(view: ValueView, options: tuple[str, ...]) -> Iterator[Finding]:
    if len(options) > 1:
        yield view.error(f"requests {' and '.join(options)} at once", "keep one of them")


@invariant(
    "offer-exists",
    applies_to="Instance, InstanceTemplate, NodePool, Cluster Director",
    source="catalog machines: consumption",
)
def consumption_option_is_available(bundle: LintBundle) -> Iterator[Finding]:
    """The machine type is available with the requested consumption option."""
    for capacity in bundle.capacities:
        machine = bundle.machine(capacity.machine)
        if machine is None or capacity.kind not in ("instance", "node-pool", "director"):
            continue
        available = _availability(machine)
        # Queued provisioning obtains its machines by flex-start.
        options = [name.replace("queued", "flex-start") for name in capacity.consumption]
        for option in options or ["on-demand"]:
            if available.get(option) == "no":
                others = [name for name, answer in available.items() if answer == "yes"]
                yield capacity.view.error(
                    f"{machine.name} is not available as {option}",
                    f"use {choices_text(others) or 'another machine type'}",
                )


def _availability(machine: Machine) -> dict[str, str | None]:
    return {
        "on-demand": machine.consumption.on_demand,
        "spot": machine.consumption.spot,
        "flex-start": machine.consumption.flex_start,
        "a reservation": machine.consumption.future_reservation,
    }


@invariant(
    "flex-start-alone",
    applies_to="Instance, InstanceTemplate, NodePool, blueprint",
    source=TOOLKIT,
)
def flex_start_settings(bundle: LintBundle) -> Iterator[Finding]:
    """Flex-start: NO_RESERVATION, no auto-repair, no fixed size, deleted at the end."""
    for capacity in bundle.capacities:
        if "flex-start" not in capacity.consumption:
            continue
        if capacity.kind in ("instance", "node-pool") and capacity.affinity != "NO_RESERVATION":
            fix = 'add reservationAffinity: {"consumeReservationType": "NO_RESERVATION"}'
            yield _affinity(capacity).error(WITHOUT_NO_RESERVATION, fix)
        if capacity.kind == "instance":
            yield from _flex_start_instance(capacity.view["scheduling"])
        elif capacity.kind == "node-pool":
            yield from _flex_start_pool(capacity.view)
        elif capacity.kind == "gke-module":
            yield from _flex_start_module(capacity)


def _flex_start_instance(scheduling: ValueView) -> Iterator[Finding]:
    for key, value in FLEX_START_SCHEDULING.items():
        if scheduling[key].value != value:
            text = str(value).lower() if isinstance(value, bool) else value
            what = f"flex-start needs {key} = {text}"
            yield scheduling[key].error(what, f"set {key} to {text}")
    if duration_s(scheduling["maxRunDuration"]) is None:
        fix = 'add "maxRunDuration": {"seconds": "604800"} or less'
        yield scheduling.error("flex-start without maxRunDuration", fix)


def _flex_start_pool(pool: ValueView) -> Iterator[Finding]:
    if pool.at("management", "autoRepair").value is not False:
        fix = 'set management: {"autoRepair": false}'
        yield pool["management"].error("flex-start does not support node auto-repair", fix)
    if not pool.at("autoscaling", "enabled").is_true:
        yield pool["autoscaling"].error(
            "a flex-start pool has no fixed size",
            "set autoscaling.enabled and a maximum; nodes are created when pods request them",
        )
    if (pool["initialNodeCount"].number or 0) > 0:
        yield pool["initialNodeCount"].error(
            "a flex-start pool starts empty", "set initialNodeCount to 0"
        )


def _flex_start_module(capacity: Capacity) -> Iterator[Finding]:
    settings = capacity.view
    if capacity.affinity not in ("", "NO_RESERVATION"):
        fix = "set consume_reservation_type to NO_RESERVATION"
        yield settings["reservation_affinity"].error(WITHOUT_NO_RESERVATION, fix)
    if settings["auto_repair"].value is not False:
        what = "enable_flex_start needs auto_repair: false"
        yield settings.error(what, "add auto_repair: false")
    if settings["static_node_count"].is_set:
        what = "enable_flex_start with static_node_count"
        yield settings["static_node_count"].error(what, "use autoscaling_total_max_nodes instead")


@invariant("queued-pool", applies_to="NodePool", source=TOOLKIT)
def queued_pool_starts_empty(bundle: LintBundle) -> Iterator[Finding]:
    """Queued provisioning: autoscaling from 0 nodes, not COMPACT, NO_RESERVATION."""
    for pool in bundle.of_kind("NodePool"):
        if not pool.at("queuedProvisioning", "enabled").is_true:
            continue
        scaling = pool["autoscaling"]
        for key in ("minNodeCount", "totalMinNodeCount"):
            if (scaling[key].number or 0) > 0:
                what = "queued provisioning needs a minimum size of 0"
                yield scaling[key].error(what, f"set {key} to 0")
        if not scaling["enabled"].is_true:
            yield scaling.error(
                "queued provisioning without autoscaling",
                "set autoscaling.enabled, a minimum of 0 and a maximum",
            )
        if pool.at("placementPolicy", "type").text == "COMPACT" and not _is_tpu(pool):
            what = "queued provisioning does not support COMPACT placement with GPUs"
            yield pool["placementPolicy"].error(what, "remove placementPolicy")
        affinity = pool.at("config", "reservationAffinity", "consumeReservationType")
        if affinity.text != "NO_RESERVATION":
            fix = "set consumeReservationType to NO_RESERVATION"
            yield affinity.error("queued provisioning without NO_RESERVATION", fix)


def _is_tpu(pool: ValueView) -> bool:
    return pool.at("config", "machineType").text.startswith(("ct", "tpu"))


@invariant("flex-start-compact", applies_to="NodePool, blueprint", source=TOOLKIT)
def flex_start_compact_placement(bundle: LintBundle) -> Iterator[Finding]:
    """Flex-start with COMPACT placement is used on A3 Ultra, A4 and H4D only."""
    for capacity in bundle.capacities:
        is_supported = re.match(r"a3-ultragpu-|a4-|h4d-|ct|tpu", capacity.machine)
        if "flex-start" in capacity.consumption and capacity.is_compact and not is_supported:
            machine = capacity.machine or "this machine"
            yield capacity.view.error(
                f"flex-start with COMPACT placement does not work on {machine}",
                "remove the placement policy, or use A3 Ultra, A4 or H4D",
            )


@invariant("compact-zone", applies_to="NodePool, blueprint", source=TOOLKIT)
def compact_placement_in_one_zone(bundle: LintBundle) -> Iterator[Finding]:
    """COMPACT placement: one zone, no blue-green upgrade."""
    for capacity in bundle.capacities:
        if not capacity.is_compact:
            continue
        if len(capacity.zones) != 1:
            yield capacity.view.error(
                f"COMPACT placement needs exactly one zone, not {len(capacity.zones)}",
                "list exactly one zone in locations (blueprint: zones)",
            )
        upgrade = capacity.view["upgradeSettings"]
        if upgrade["strategy"].text == "BLUE_GREEN" or upgrade["blueGreenSettings"].is_set:
            yield upgrade.error("COMPACT placement with blue-green upgrades", "use SURGE")


@invariant(
    "one-reservation",
    applies_to="Instance, InstanceTemplate, NodePool, CustomJob",
    source=TOOLKIT,
)
def affinity_names_one_reservation(bundle: LintBundle) -> Iterator[Finding]:
    """SPECIFIC_RESERVATION: exactly one reservation, its key, explicit zones."""
    for capacity in bundle.capacities:
        if capacity.kind not in ("instance", "node-pool", "worker-pool"):
            continue
        affinity = _affinity(capacity)
        scheduling = capacity.view["scheduling"]
        model = scheduling["provisioningModel"]
        is_bound = model.text == "RESERVATION_BOUND"
        if capacity.affinity == "SPECIFIC_RESERVATION":
            yield from _specific_reservation(capacity, affinity)
            if is_bound and not scheduling["instanceTerminationAction"].text:
                what = "RESERVATION_BOUND without instanceTerminationAction"
                yield scheduling.error(what, "set it to DELETE or STOP")
            continue
        if is_bound:
            yield model.error(
                "RESERVATION_BOUND without a reservation",
                "add reservationAffinity with SPECIFIC_RESERVATION, "
                f"key {RESERVATION_KEY} and one value",
            )
        if capacity.reservations:
            yield affinity.error(
                f"reservations are listed under {capacity.affinity or 'no type'}",
                "set the type to SPECIFIC_RESERVATION, or remove them",
            )


def _specific_reservation(capacity: Capacity, affinity: ValueView) -> Iterator[Finding]:
    if len(capacity.reservations) != 1:
        what = f"SPECIFIC_RESERVATION with {len(capacity.reservations)} reservations"
        yield affinity["values"].error(what, "name exactly one")
    if capacity.reservation_key != RESERVATION_KEY:
        what = "the reservation key is missing or wrong"
        yield affinity["key"].error(what, f"write {RESERVATION_KEY}")
    for value in capacity.reservations:
        if not RESERVATION_VALUE.fullmatch(value):
            yield affinity["values"].error(
                f'"{value}" is not a reservation name',
                "write NAME, NAME/reservationBlocks/BLOCK or projects/P/reservations/NAME",
            )
    if capacity.kind == "node-pool" and not capacity.zones:
        yield capacity.view.error(
            "a reservation is in one zone, and the pool lists none",
            "add locations with the reservation's zone",
        )


def _affinity(capacity: Capacity) -> ValueView:
    holder = {"node-pool": "config", "worker-pool": "machineSpec"}.get(capacity.kind)
    view = capacity.view[holder] if holder else capacity.view
    return view["reservationAffinity"]


@invariant(
    "reservation-mirrored",
    applies_to="Reservation with what consumes it",
    source="xpk 476, 1073 to 1075 (GitHub)",
)
def consumer_matches_reservation(bundle: LintBundle) -> Iterator[Finding]:
    """A consumer has the reservation's machine type and placement policy, and no second policy."""
    reservations = {view["name"].text: view for view in bundle.of_kind("Reservation")}
    for capacity in bundle.capacities:
        for value in capacity.reservations:
            name = re.sub(f"^{RESERVATION_PATH}", "", value).split("/")[0]
            if reservation := reservations.get(name):
                yield from _consumer(capacity, name, reservation)


def _consumer(capacity: Capacity, name: str, reservation: ValueView) -> Iterator[Finding]:
    properties = reservation.at("specificReservation", "instanceProperties")
    machine = properties["machineType"].last_segment
    if machine and capacity.machine and machine != capacity.machine:
        what = f'the reservation "{name}" holds {machine}, not {capacity.machine}'
        yield capacity.view["machineType"].error(what, f"use {machine}")
    theirs = {policy.last_segment for _, policy in reservation["resourcePolicies"].pairs}
    ours = {policy.last_segment for policy in capacity.view["resourcePolicies"].items}
    ours = {*ours, capacity.view.at("placementPolicy", "policyName").text} - {""}
    if theirs != ours:
        yield capacity.view["resourcePolicies"].error(
            f'the reservation "{name}" has the policies {_listed(theirs)}, '
            f"and this resource has {_listed(ours)}",
            "use the reservation's placement policy and no other",
        )


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "none"
