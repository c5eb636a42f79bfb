"""Rules of how machines are asked for: reservation, flex-start, spot or on demand."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuyard.catalog import Machine
from gpuyard.errors import one_of
from gpuyard.provision.invariants.bundle import Bundle, Hit
from gpuyard.provision.invariants.capacity import Capacity
from gpuyard.provision.part import View, duration_s

__all__ = [
    "affinity_names_one_reservation",
    "compact_is_in_one_zone",
    "flex_start_compact_on_few",
    "flex_start_stands_alone",
    "offer_exists",
    "one_offer",
    "queued_provisioning_starts_empty",
    "reservation_is_mirrored",
]

RESERVATION_KEY = "compute.googleapis.com/reservation-name"
RESERVATION_VALUE = re.compile(
    r"(projects/[^/]+/(zones/[^/]+/)?reservations/)?[a-z][-a-z0-9]*(/reservationBlocks/[^/]+(/reservationSubBlocks/[^/]+)?)?"
)
POD_OFFERS = {
    "cloud.google.com/gke-spot": "spot",
    "cloud.google.com/gke-flex-start": "flex-start",
    "cloud.google.com/reservation-name": "reservation",
}


def one_offer(bundle: Bundle) -> Iterator[Hit]:
    """Reservation, flex-start, spot or on demand: one of them."""
    for capacity in bundle.capacities:
        if len(set(capacity.offers)) > 1:
            what = f"asks for {' and '.join(dict.fromkeys(capacity.offers))} at once"
            yield Hit(view=capacity.view, what=what, fix="keep one of them")
    for pod in bundle.pods:
        selector = pod.spec["nodeSelector"]
        offers = [name for label, name in POD_OFFERS.items() if selector[label].is_set]
        if len(offers) > 1:
            yield Hit(view=selector, what=f"asks for {' and '.join(offers)} at once", fix="keep one of them")


def offer_exists(bundle: Bundle) -> Iterator[Hit]:
    """The machine type can be had in that way at all."""
    for capacity in bundle.capacities:
        machine = bundle.machine(capacity.machine)
        if machine is None or capacity.kind not in ("instance", "node-pool", "director"):
            continue
        ways = {
            "flex-start": machine.consumption.flex_start,
            "queued": machine.consumption.flex_start,
            "spot": machine.consumption.spot,
            "on-demand": machine.consumption.on_demand,
        }
        for offer in capacity.offers or ("on-demand",):
            if ways.get(offer) == "no":
                words = {"on-demand": "on demand", "queued": "by queued provisioning"}.get(offer, f"as {offer}")
                what = f"{machine.name} cannot be had {words}"
                fix = f"use {one_of([name for name, way in _ways(machine) if way == 'yes']) or 'another machine type'}"
                yield Hit(view=capacity.view, what=what, fix=fix)


def _ways(machine: Machine) -> tuple[tuple[str, str | None], ...]:
    """The ways to have a machine, with the catalog's answer."""
    offers = machine.consumption
    return (
        ("on demand", offers.on_demand),
        ("spot", offers.spot),
        ("flex-start", offers.flex_start),
        ("a reservation", offers.future_reservation),
    )


def flex_start_stands_alone(bundle: Bundle) -> Iterator[Hit]:
    """Flex-start takes no reservation, is not repaired, has no fixed size, and is deleted at its end."""
    for capacity in bundle.capacities:
        if "flex-start" not in capacity.offers:
            continue
        if capacity.kind in ("instance", "node-pool") and capacity.affinity != "NO_RESERVATION":
            place = capacity.view if capacity.kind == "instance" else capacity.view["config"]
            fix = 'add reservationAffinity: {"consumeReservationType": "NO_RESERVATION"}'
            yield Hit(view=place["reservationAffinity"], what="flex-start without NO_RESERVATION", fix=fix)
        if capacity.kind == "instance":
            yield from _flex_instance(capacity.view["scheduling"])
        elif capacity.kind == "node-pool":
            yield from _flex_pool(capacity.view)
        elif capacity.kind == "gke-module":
            yield from _flex_module(capacity)


def _flex_instance(scheduling: View) -> Iterator[Hit]:
    """What flex-start asks of an instance's scheduling."""
    wanted: dict[str, str | bool] = {
        "instanceTerminationAction": "DELETE",
        "onHostMaintenance": "TERMINATE",
        "automaticRestart": False,
    }
    for key, value in wanted.items():
        if scheduling[key].value != value:
            shown = str(value).lower() if isinstance(value, bool) else value
            yield Hit(view=scheduling[key], what=f"flex-start needs {key} = {shown}", fix=f"set {key} to {shown}")
    if duration_s(scheduling["maxRunDuration"]) is None:
        fix = 'add "maxRunDuration": {"seconds": "604800"} or less'
        yield Hit(view=scheduling, what="flex-start without maxRunDuration", fix=fix)


def _flex_pool(pool: View) -> Iterator[Hit]:
    """What flex-start asks of a node pool."""
    if pool.at("management", "autoRepair").value is not False:
        fix = 'set management: {"autoRepair": false}'
        yield Hit(view=pool["management"], what="flex-start nodes are not repaired", fix=fix)
    if not pool.at("autoscaling", "enabled").is_true:
        fix = "set autoscaling.enabled and a maximum; flex-start nodes come when pods ask for them"
        yield Hit(view=pool["autoscaling"], what="a flex-start pool has no fixed size", fix=fix)
    if (pool["initialNodeCount"].number or 0) > 0:
        yield Hit(view=pool["initialNodeCount"], what="a flex-start pool starts empty", fix="set initialNodeCount to 0")


def _flex_module(capacity: Capacity) -> Iterator[Hit]:
    """What flex-start asks of the Toolkit's node pool."""
    settings = capacity.view
    if capacity.affinity not in ("", "NO_RESERVATION"):
        fix = "set consume_reservation_type to NO_RESERVATION"
        yield Hit(view=settings["reservation_affinity"], what="flex-start without NO_RESERVATION", fix=fix)
    if settings["auto_repair"].value is not False:
        yield Hit(view=settings, what="enable_flex_start needs auto_repair: false", fix="add auto_repair: false")
    if settings["static_node_count"].is_set:
        what = "enable_flex_start with static_node_count"
        yield Hit(view=settings["static_node_count"], what=what, fix="use autoscaling_total_max_nodes instead")


def queued_provisioning_starts_empty(bundle: Bundle) -> Iterator[Hit]:
    """A pool for queued provisioning has no least size, no compact placement and no reservation."""
    for pool in bundle.of("NodePool"):
        if not pool.at("queuedProvisioning", "enabled").is_true:
            continue
        scaling = pool["autoscaling"]
        for key in ("minNodeCount", "totalMinNodeCount"):
            if (scaling[key].number or 0) > 0:
                yield Hit(view=scaling[key], what="queued provisioning needs a least size of 0", fix=f"set {key} to 0")
        if not scaling["enabled"].is_true:
            what = "queued provisioning without autoscaling"
            yield Hit(view=scaling, what=what, fix="set autoscaling.enabled, least size 0 and a maximum")
        if pool.at("placementPolicy", "type").text == "COMPACT" and not _is_tpu(pool):
            what = "queued provisioning cannot be COMPACT with GPUs"
            yield Hit(view=pool["placementPolicy"], what=what, fix="remove placementPolicy")
        affinity = pool.at("config", "reservationAffinity", "consumeReservationType")
        if affinity.text != "NO_RESERVATION":
            fix = "set consumeReservationType to NO_RESERVATION"
            yield Hit(view=affinity, what="queued provisioning without NO_RESERVATION", fix=fix)


def _is_tpu(pool: View) -> bool:
    """A pool of TPU machines."""
    return pool.at("config", "machineType").text.startswith(("ct", "tpu"))


def flex_start_compact_on_few(bundle: Bundle) -> Iterator[Hit]:
    """Flex-start with compact placement works on A3 Ultra, A4 and H4D only."""
    for capacity in bundle.capacities:
        works = re.match(r"a3-ultragpu-|a4-|h4d-|ct|tpu", capacity.machine)
        if "flex-start" in capacity.offers and capacity.is_compact and not works:
            what = f"flex-start with COMPACT placement does not work on {capacity.machine or 'this machine'}"
            yield Hit(view=capacity.view, what=what, fix="remove the placement policy, or use A3 Ultra, A4 or H4D")


def compact_is_in_one_zone(bundle: Bundle) -> Iterator[Hit]:
    """Compact placement is within one zone and is not upgraded blue-green."""
    for capacity in bundle.capacities:
        if not capacity.is_compact:
            continue
        if len(capacity.zones) != 1:
            what = f"COMPACT placement over {len(capacity.zones) or 'unnamed'} zones"
            yield Hit(view=capacity.view, what=what, fix="name exactly one zone in locations (blueprint: zones)")
        upgrade = capacity.view["upgradeSettings"]
        if upgrade["strategy"].text == "BLUE_GREEN" or upgrade["blueGreenSettings"].is_set:
            yield Hit(view=upgrade, what="COMPACT placement with blue-green upgrades", fix="use SURGE")


def affinity_names_one_reservation(bundle: Bundle) -> Iterator[Hit]:
    """A specific reservation is exactly one, with its key, and the pool names its zones."""
    for capacity in bundle.capacities:
        if capacity.kind not in ("instance", "node-pool", "worker-pool"):
            continue
        affinity = _affinity(capacity)
        model = capacity.view.at("scheduling", "provisioningModel")
        if capacity.affinity != "SPECIFIC_RESERVATION":
            if model.text == "RESERVATION_BOUND":
                fix = f"add reservationAffinity with SPECIFIC_RESERVATION, key {RESERVATION_KEY} and one value"
                yield Hit(view=model, what="RESERVATION_BOUND names no reservation", fix=fix)
            if capacity.reservations:
                what = f"reservations are named under {capacity.affinity or 'no type'}"
                yield Hit(view=affinity, what=what, fix="set the type to SPECIFIC_RESERVATION, or remove them")
            continue
        yield from _specific(capacity, affinity)
        if model.text == "RESERVATION_BOUND" and not capacity.view.at("scheduling", "instanceTerminationAction").text:
            what = "RESERVATION_BOUND without instanceTerminationAction"
            yield Hit(view=capacity.view["scheduling"], what=what, fix="set it to DELETE or STOP")


def _specific(capacity: Capacity, affinity: View) -> Iterator[Hit]:
    """One reservation, spelled rightly."""
    if len(capacity.reservations) != 1:
        what = f"SPECIFIC_RESERVATION with {len(capacity.reservations)} reservations"
        yield Hit(view=affinity["values"], what=what, fix="name exactly one")
    if capacity.reservation_key != RESERVATION_KEY:
        yield Hit(
            view=affinity["key"], what="the key of a reservation is missing or wrong", fix=f"write {RESERVATION_KEY}"
        )
    for value in capacity.reservations:
        if not RESERVATION_VALUE.fullmatch(value):
            fix = "write NAME, NAME/reservationBlocks/BLOCK or projects/P/reservations/NAME"
            yield Hit(view=affinity["values"], what=f'"{value}" is not the name of a reservation', fix=fix)
    if capacity.kind == "node-pool" and not capacity.zones:
        what = "a reservation is in one zone, and the pool names none"
        yield Hit(view=capacity.view, what=what, fix="add locations with the reservation's zone")


def _affinity(capacity: Capacity) -> View:
    """Where the reservation affinity stands."""
    holder = {"node-pool": "config", "worker-pool": "machineSpec"}.get(capacity.kind)
    return capacity.view.at(holder, "reservationAffinity") if holder else capacity.view["reservationAffinity"]


def reservation_is_mirrored(bundle: Bundle) -> Iterator[Hit]:
    """What consumes a reservation has its machine type and its placement policy, and no other policy."""
    reservations = {view["name"].text: view for view in bundle.of("Reservation")}
    for capacity in bundle.capacities:
        for value in capacity.reservations:
            name = re.sub(r"^projects/[^/]+/(zones/[^/]+/)?reservations/", "", value).split("/")[0]
            if (reservation := reservations.get(name)) is None:
                continue
            machine = reservation.at("specificReservation", "instanceProperties", "machineType").text.rsplit("/", 1)[-1]
            if machine and capacity.machine and machine != capacity.machine:
                what = f'the reservation "{name}" holds {machine}, not {capacity.machine}'
                yield Hit(view=capacity.view["machineType"], what=what, fix=f"use {machine}")
            theirs = {child.text.rsplit("/", 1)[-1] for _, child in reservation["resourcePolicies"].pairs}
            ours = {text.rsplit("/", 1)[-1] for text in capacity.view["resourcePolicies"].texts}
            ours |= {text for text in (capacity.view.at("placementPolicy", "policyName").text,) if text}
            if theirs != ours:
                what = f'the reservation "{name}" has the policies {_named(theirs)}, this has {_named(ours)}'
                fix = "use the reservation's own placement policy and no second one"
                yield Hit(view=capacity.view["resourcePolicies"], what=what, fix=fix)


def _named(names: set[str]) -> str:
    """Names as a phrase."""
    return ", ".join(sorted(names)) or "none"
