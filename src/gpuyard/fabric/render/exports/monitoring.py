"""gNMIc subscriptions, and Prometheus scraping with alert rules for a lossless fabric.

Alerts: a port that is paused for a tenth of the time (PFC storm), packets that queues discard,
packets that ECN marks, ports that go down and up, and BGP sessions that are not established.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from gpuyard.catalog.load import Catalog
from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.render.site import Site
from gpuyard.fabric.render.switch_os import File

# A pause frame stops a priority for at most 65,535 quanta of 512 bits (IEEE 802.3, annex 31B).
PAUSE_BITS = 65_535 * 512
STORM_RATIO = 0.1  # of the time
CONGESTED_RATIO = 0.5  # of packets marked for minutes: senders do not slow down
INTERVAL_S = 10
GNMIC_PORT = 9804  # of gNMIc's Prometheus output

OPENCONFIG = (
    "/interfaces/interface/state/oper-status",
    "/interfaces/interface/state/counters",
    "/interfaces/interface/ethernet/state/counters",
    "/qos/interfaces/interface/output/queues/queue/state",
    "/network-instances/network-instance/protocols/protocol/bgp/neighbors/neighbor/state",
)
# SONiC's own counters name each priority and queue; gNMIc moves the port into a label.
SONIC = ("COUNTERS/Ethernet*", "COUNTERS/Ethernet*/Queues", "COUNTERS/Ethernet*/Pfcwd")
# States are text; as numbers they can be counted: 1 is up or established.
STATE_PROCESSORS: dict[str, object] = {
    "states": {
        "event-strings": {
            "value-names": ["/oper-status$", "/session-state$"],
            "transforms": [
                {"replace": {"apply-on": "value", "old": "^(UP|ESTABLISHED)$", "new": "1"}},
                {"replace": {"apply-on": "value", "old": "^[A-Z_]+$", "new": "0"}},
            ],
        }
    },
    "numbers": {
        "event-convert": {"value-names": ["/oper-status$", "/session-state$"], "type": "int"}
    },
}
SONIC_PROCESSORS: dict[str, object] = {
    "port-label": {
        "event-extract-tags": {"value-names": ["^/?COUNTERS/(?P<interface_name>[^/]+)/.*"]}
    },
    "port-name": {
        "event-strings": {
            "value-names": ["COUNTERS/"],
            "transforms": [
                {"replace": {"apply-on": "name", "old": "^/?COUNTERS/[^/]+/", "new": "sonic/"}}
            ],
        }
    },
}


def gnmic_files(fabric: Fabric, site: Site | None, _catalog: Catalog) -> Iterator[File]:
    """Yield gNMIc's configuration; the password and certificates come from its environment."""
    addresses = site.addresses(fabric) if site is not None else {}
    port = site.gnmi_port if site is not None else 9339
    is_sonic = fabric.demand.os == "sonic"
    counters: dict[str, object] = {
        "paths": list(SONIC if is_sonic else OPENCONFIG[1:]),
        "mode": "stream",
        "stream-mode": "sample",
        "sample-interval": f"{INTERVAL_S}s",
    }
    if is_sonic:
        counters["target"] = "COUNTERS_DB"
    processors = STATE_PROCESSORS | (SONIC_PROCESSORS if is_sonic else {})
    config: dict[str, object] = {
        "username": site.admin if site is not None else "${GNMIC_USERNAME}",
        "password": "${GNMIC_PASSWORD}",
        "tls-ca": "${GNMIC_TLS_CA}",
        "encoding": "json_ietf",
        "targets": {
            f"{addresses.get(device.name, device.loopback)}:{port}": {
                "name": device.name,
                "event-tags": {"role": device.role},
            }
            for device in fabric.switches
        },
        "subscriptions": {
            "state": {
                "paths": [OPENCONFIG[0], OPENCONFIG[4]],
                "mode": "stream",
                "stream-mode": "on-change",
            },
            "counters": counters,
        },
        "processors": processors,
        "outputs": {
            "prometheus": {
                "type": "prometheus",
                "listen": f":{GNMIC_PORT}",
                "event-processors": list(processors),
            }
        },
    }
    yield File(path="gnmic/gnmic.yaml", text=json.dumps(config, indent=2) + "\n")


def prometheus_files(fabric: Fabric, _site: Site | None, _catalog: Catalog) -> Iterator[File]:
    """Yield Prometheus' configuration and its alert rules."""
    scrape = {
        "global": {"scrape_interval": f"{INTERVAL_S}s"},
        "rule_files": ["fabric-alerts.yml"],
        "scrape_configs": [
            {"job_name": "gnmic", "static_configs": [{"targets": [f"gnmic:{GNMIC_PORT}"]}]}
        ],
    }
    rules = {"groups": [{"name": "fabric", "rules": list(_rules(fabric))}]}
    yield File(path="prometheus/prometheus.yml", text=json.dumps(scrape, indent=2) + "\n")
    yield File(path="prometheus/fabric-alerts.yml", text=json.dumps(rules, indent=2) + "\n")


def _rules(fabric: Fabric) -> Iterator[dict[str, object]]:
    speeds = {port.speed_bits_per_s for one in fabric.switches for port in one.interfaces}
    slowest = min(speeds, default=400e9)
    # Pause frames per second that stop a port for STORM_RATIO of the time.
    storm_per_s = STORM_RATIO * slowest / PAUSE_BITS
    priorities = fabric.lossless.pfc.priorities
    lossless = {one.queue for one in fabric.lossless.qos.classes if one.lossless}
    if fabric.demand.os == "sonic":
        pauses = [f"sonic_SAI_PORT_STAT_PFC_{one}_RX_PKTS" for one in priorities]
        drops = "sonic_SAI_QUEUE_STAT_DROPPED_PACKETS"
        marked, sent = (
            "sonic_SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS",
            "sonic_SAI_QUEUE_STAT_PACKETS",
        )
    else:
        pauses = ["interfaces_interface_ethernet_state_counters_in_mac_pause_frames"]
        drops = "qos_interfaces_interface_output_queues_queue_state_dropped_pkts"
        marked = "qos_interfaces_interface_output_queues_queue_state_ecn_marked_pkts"
        sent = "qos_interfaces_interface_output_queues_queue_state_transmit_pkts"
    if priorities:
        for metric in pauses:
            yield _alert(
                "PfcStorm",
                f"rate({metric}[1m]) > {storm_per_s:.0f}",
                "1m",
                "critical",
                f"{{{{ $labels.source }}}} {{{{ $labels.interface_name }}}} is paused for more than"
                f" {STORM_RATIO:.0%} of the time: find the receiver that does not drain",
            )
        queues = ", ".join(map(str, sorted(lossless)))
        yield _alert(
            "LosslessDiscards",
            f"increase({drops}[5m]) > 0",
            "0m",
            "critical",
            f"{{{{ $labels.source }}}} discards packets; queue {queues} must not: check headroom"
            " and the PFC watchdog",
        )
        yield _alert(
            "EcnRate",
            f"rate({marked}[5m]) / rate({sent}[5m]) > {CONGESTED_RATIO:g}",
            "5m",
            "warning",
            "{{ $labels.source }} marks most packets: senders do not slow down, or ECMP collides",
        )
    yield _alert(
        "LinkFlap",
        "changes(interfaces_interface_state_oper_status[15m]) > 2",
        "0m",
        "warning",
        "{{ $labels.source }} {{ $labels.interface_name }} goes down and up: clean or replace the"
        " optics",
    )
    if fabric.routing.protocol == "ebgp":
        state = "network_instances_network_instance_protocols_protocol_bgp_neighbors_neighbor_state"
        yield _alert(
            "BgpSessionDown",
            f"{state}_session_state == 0",
            "1m",
            "critical",
            "{{ $labels.source }}: a BGP session is not established",
        )


def _alert(name: str, expr: str, wait: str, severity: str, summary: str) -> dict[str, object]:
    return {
        "alert": name,
        "expr": expr,
        "for": wait,
        "labels": {"severity": severity},
        "annotations": {"summary": summary},
    }
