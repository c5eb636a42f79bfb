"""Patterns of Junos statements: what belongs to the model of a device, and what is only known."""

from __future__ import annotations

from gpuyard.fabric.configs.statement import Patterns

_POLICY = "policy-options policy-statement {policy}"
_GROUP = "protocols bgp group {group}"
_NEIGHBOUR = "protocols bgp group {group} neighbor {peer}"
_COS = "class-of-service"
_CNP = f"{_COS} congestion-notification-profile {{name}}"
_NO_LOSS = f"{_COS} forwarding-classes class {{label}} queue-num {{queue}} no-loss"

MODELLED: dict[str, str | tuple[str, ...]] = {
    "hostname": "system host-name {name}",
    "release": "version {release}",
    # interfaces
    "lo": "interfaces lo0 unit {unit} family inet address {address}",
    "lo-6": "interfaces lo0 unit {unit} family inet6 address {address}",
    "port": ("interfaces {port} unit {unit}", "interfaces {port}"),
    "port-family": "interfaces {port} unit {unit} family {family}",
    "description": "interfaces {port} description {text}",
    "unit-description": "interfaces {port} unit {unit} description {text}",
    "mtu": "interfaces {port} mtu {bytes}",
    "disable": ("interfaces {port} disable", "interfaces {port} unit {unit} disable"),
    "speed": "interfaces {port} speed {speed}",
    "sub-ports": "interfaces {port} number-of-sub-ports {count}",
    "ip-mtu": "interfaces {port} unit {unit} family inet mtu {bytes}",
    "ip6-mtu": "interfaces {port} unit {unit} family inet6 mtu {bytes}",
    "address": (
        "interfaces {port} unit {unit} family inet address {address}",
        "interfaces {port} unit {unit} family inet6 address {address}",
    ),
    "vlan-tag": "interfaces {port} unit {unit} vlan-id {vlan}",
    # routing
    "router-id": "routing-options router-id {address}",
    "asn": "routing-options autonomous-system {asn}",
    "forwarding-export": "routing-options forwarding-table export {policy}",
    "max-ecmp": "chassis maximum-ecmp {count}",
    "multipath": "protocols bgp multipath",
    "bgp-setting": "protocols bgp {setting*}",
    "group-as": f"{_GROUP} peer-as {{asn}}",
    "group-as-list": f"{_GROUP} peer-as-list {{name}}",
    "group-export": f"{_GROUP} export {{policy}}",
    "group-import": f"{_GROUP} import {{policy}}",
    "group-local": f"{_GROUP} local-address {{address}}",
    "group-bfd": f"{_GROUP} bfd-liveness-detection minimum-interval {{ms}}",
    "group-bfd-multiplier": f"{_GROUP} bfd-liveness-detection multiplier {{count}}",
    "group-multipath": (f"{_GROUP} multipath", f"{_GROUP} multipath {{setting}}"),
    "group-multihop": (f"{_GROUP} multihop", f"{_GROUP} multihop {{setting*}}"),
    "group-family": f"{_GROUP} family {{family*}}",
    "group-discovery": (
        f"{_GROUP} dynamic-neighbor {{name}} peer-auto-discovery interface {{port}}"
    ),
    "group-setting": f"{_GROUP} {{setting*}}",
    "peer": _NEIGHBOUR,
    "peer-as": f"{_NEIGHBOUR} peer-as {{asn}}",
    "peer-local": f"{_NEIGHBOUR} local-address {{address}}",
    "peer-description": f"{_NEIGHBOUR} description {{text}}",
    "peer-export": f"{_NEIGHBOUR} export {{policy}}",
    "peer-import": f"{_NEIGHBOUR} import {{policy}}",
    "peer-family": f"{_NEIGHBOUR} family {{family*}}",
    "peer-bfd": f"{_NEIGHBOUR} bfd-liveness-detection minimum-interval {{ms}}",
    "peer-bfd-multiplier": f"{_NEIGHBOUR} bfd-liveness-detection multiplier {{count}}",
    "peer-setting": f"{_NEIGHBOUR} {{setting*}}",
    "as-list": "policy-options as-list {name} members {range}",
    # policy
    "from": f"{_POLICY} term {{term}} from {{condition*}}",
    "to": f"{_POLICY} term {{term}} to {{condition*}}",
    "then": f"{_POLICY} term {{term}} then {{action*}}",
    "from-unnamed": f"{_POLICY} from {{condition*}}",
    "then-unnamed": f"{_POLICY} then {{action*}}",
    "community": "policy-options community {name} members {value}",
    # class of service
    "code-point": (
        f"{_COS} classifiers dscp {{name}} forwarding-class {{label}}"
        " loss-priority {loss} code-points {bits}"
    ),
    "class": f"{_COS} forwarding-classes class {{label}} queue-num {{queue}}",
    "class-lossless": (
        _NO_LOSS,
        f"{_NO_LOSS} pfc-priority {{priority}}",
    ),
    "fill": f"{_COS} drop-profiles {{name}} interpolate fill-level {{percent}}",
    "drop": f"{_COS} drop-profiles {{name}} interpolate drop-probability {{percent}}",
    "buffer": (f"{_COS} shared-buffer {{setting*}}", f"{_COS} dedicated-buffer {{setting*}}"),
    "cnp": f"{_COS} congestion-notification-profile {{name}}",
    "cnp-watchdog": (
        f"{_COS} congestion-notification-profile {{name}} pfc-watchdog",
        f"{_COS} congestion-notification-profile {{name}} pfc-watchdog {{setting*}}",
    ),
    "cnp-cable": f"{_COS} congestion-notification-profile {{name}} input cable-length {{metres}}",
    "cnp-dscp": f"{_CNP} input dscp code-point {{bits}} pfc",
    "cnp-output": (
        f"{_COS} congestion-notification-profile {{name}} output ieee-802.1 code-point {{bits}}"
        " flow-control-queue {queue}"
    ),
    "cnp-setting": f"{_COS} congestion-notification-profile {{name}} {{setting*}}",
    "cos-cnp": f"{_COS} interfaces {{port}} congestion-notification-profile {{name}}",
    "cos-map": f"{_COS} interfaces {{port}} scheduler-map {{name}}",
    "cos-classifier": (
        f"{_COS} interfaces {{port}} unit {{unit}} classifiers dscp {{name}}",
        f"{_COS} interfaces {{port}} classifiers dscp {{name}}",
    ),
    "cos-setting": f"{_COS} interfaces {{port}} {{setting*}}",
    "map": f"{_COS} scheduler-maps {{map}} forwarding-class {{label}} scheduler {{name}}",
    "rate": f"{_COS} schedulers {{name}} transmit-rate percent {{percent}}",
    "priority": f"{_COS} schedulers {{name}} priority {{priority}}",
    "ecn": f"{_COS} schedulers {{name}} explicit-congestion-notification",
    "drop-map": (
        f"{_COS} schedulers {{name}} drop-profile-map loss-priority {{loss}} protocol {{protocol}}"
        " drop-profile {profile}"
    ),
    "scheduler-setting": f"{_COS} schedulers {{name}} {{setting*}}",
    # the rest of a fabric switch
    "balancing": (
        "forwarding-options hash-key {setting*}",
        "forwarding-options enhanced-hash-key {setting*}",
    ),
    "vrf-port": "routing-instances {vrf} interface {port}",
    "vrf-setting": "routing-instances {vrf} {setting*}",
}

# Known, and not part of what is verified; compared as text where there is an intent.
KNOWN = (
    "apply-macro", "access", "accounting-options", "bridge-domains", "chassis", "event-options",
    "firewall", "forwarding-options", "groups", "interfaces fxp0", "interfaces re0:mgmt-0",
    "interfaces em0", "interfaces vme", "interfaces irb", "interfaces lo0",
    "class-of-service dedicated-buffer-profile",
    "class-of-service host-outbound-traffic", "class-of-service rewrite-rules",
    "class-of-service traffic-control-profiles", "class-of-service forwarding-class-sets",
    "class-of-service classifiers ieee-802.1", "class-of-service classifiers inet-precedence",
    "class-of-service classifiers exp", "class-of-service code-point-aliases", "multi-chassis",
    "policy-options as-path", "policy-options prefix-list", "policy-options route-filter-list",
    "policy-options rtf-prefix-list", "protocols evpn", "protocols igmp-snooping",
    "protocols l2-learning", "protocols lacp", "protocols layer2-control", "protocols lldp",
    "protocols loop-detect", "protocols oam", "protocols ospf", "protocols pim",
    "protocols router-advertisement", "protocols rstp", "protocols sflow", "protocols bfd",
    "protocols iccp", "protocols igmp", "protocols mld", "protocols mstp", "protocols vstp",
    "routing-options", "security", "services", "snmp", "switch-options", "system", "tenants",
    "virtual-chassis", "vlans", "applications", "jsrc",
)  # fmt: skip
# Settings of an interface that are known: they are kept as text with the port.
PORT_SETTINGS = (
    "ether-options", "gigether-options", "aggregated-ether-options", "native-vlan-id",
    "encapsulation", "esi", "flexible-vlan-tagging", "vlan-tagging", "hold-time",
    "optics-options", "unused", "unit {unit} family ethernet-switching",
    "unit {unit} family inet filter", "fec", "no-traps", "unit {unit} family inet no-redirects",
    "unit {unit} family inet6 dad-disable", "unit {unit} family inet dhcp",
    "unit {unit} family inet6 no-neighbor-learn", "link-mode", "unit {unit} enable",
    "unit {unit} proxy-macip-advertisement", "unit {unit} virtual-gateway-v4-mac",
    "unit {unit} virtual-gateway-v6-mac", "unit {unit} mac", "damping", "load-balancing-options",
    "unit {unit} input-vlan-map", "unit {unit} output-vlan-map", "unit {unit} vlan-id-list",
    "auto-negotiation", "no-auto-negotiation", "mac", "enable", "unit {unit} encapsulation",
    "unit {unit} family iso", "unit {unit} family mpls", "number-of-ports", "breakout-speed",
)  # fmt: skip

JUNOS = Patterns(
    {
        **MODELLED,
        "port-setting": tuple(
            pattern
            for setting in PORT_SETTINGS
            for pattern in (
                f"interfaces {{port}} {setting}",
                f"interfaces {{port}} {setting} {{value*}}",
            )
        ),
    },
    KNOWN,
)
