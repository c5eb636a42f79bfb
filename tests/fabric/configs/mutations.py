"""Seeded faults and harmless rewrites of switch configurations, as text."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from gpuyard.fabric.configs.read import ConfigText, format_of

Change = Callable[[re.Match[str]], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """A changed file, and what was changed."""

    kind: str
    file: str
    what: str
    text: str


def _number(delta: int) -> Change:
    return lambda match: match[0].replace(match[1], str(int(match[1]) + delta), 1)


def _to(text: str) -> Change:
    return lambda match: match[0].replace(match[1], text, 1)


def _octet(match: re.Match[str]) -> str:
    return match[0].replace(match[1], f"{match[2]}{(int(match[3]) + 64) % 256}", 1)


def _bit(match: re.Match[str]) -> str:
    flipped = match[1][:4] + ("1" if match[1][4] == "0" else "0") + match[1][5:]
    return match[0].replace(match[1], flipped, 1)


# Kind, pattern whose first group changes, change. Patterns of all formats together.
RULES: tuple[tuple[str, str, Change], ...] = (
    ("asn", r"autonomous-system:? (\d+)", _number(1000)),
    ("asn", r"(?m)^router bgp (\d+)$", _number(1000)),
    ("peer-as", r"peer-as (\d+)", _number(7)),
    ("peer-as", r"remote-as (\d+)", _number(7)),
    ("mtu", r"\b[mM]tu(?: |: )(9\d{3})", _to("1500")),
    ("mtu", r'"mtu": "(\d+)"', _to("1500")),
    ("pfc", r"pfc-priority (\d)", _number(1)),
    ("pfc", r"flow-control-queue (\d)", _number(1)),
    ("pfc", r"prio-pfc all:off (\d):on", _number(1)),
    ("pfc", r"switch-priority:\s+'(\d)'", _number(1)),
    ("pfc", r'"pfc_enable": "(\d)"', _number(1)),
    ("pfc", r'"pfc_enable": "(\d)"', _to("")),
    ("pfc", r"priority-flow-control priority (\d) no-drop", _number(1)),
    ("pfc", r"pause pfc-cos (\d)", _number(1)),
    ("pfc", r"priority-flow-control mode (on)", _to("off")),
    ("ecn", r"fill-level \[ (\d+) \d+ \]", _to("1")),
    ("ecn", r"fill-level \[ \d+ (\d+) \]", _to("20")),
    ("ecn", r"drop-probability \[ 0 (\d+) \]", _to("0")),
    ("ecn", r'green_min_threshold": "(\d+)"', _to("100")),
    ("ecn", r'green_drop_probability": "(\d+)"', _to("0")),
    ("ecn", r"minimum-threshold (\d+) kbytes", _to("1")),
    ("ecn", r"drop-probability (\d+) weight", _to("0")),
    ("ecn", r"explicit-(congestion-notification)", _to("none")),
    ("dscp", r"code-points? ([01]{6})\b", _bit),
    ("dscp", r"dscp-prio [^|]*\b26:(\d)", _number(1)),
    ("dscp", r'"26": "(\d)"', _to("0")),
    ("dscp", r"qos map dscp [\d ]*to traffic-class (\d)", _number(1)),
    ("dscp", r"match dscp (\d+)", _number(2)),
    ("queue", r"set qos-group (\d)", _number(1)),
    ("queue", r"queue-num (\d)", _number(1)),
    ("policy", r"\bthen (reject)\b", _to("accept")),
    ("policy", r"route-map \S+ (deny)", _to("permit")),
    ("policy", r"action:\s+(deny): \{\}", _to("permit")),
    ("community", r"members 0:(1[45])", _to("99")),
    ("community", r"permit 0:(15)", _to("99")),
    ("export", r"export (TO-ABOVE)", _to("TO-BELOW")),
    ("export", r"route-map (TO-ABOVE) out", _to("TO-BELOW")),
    ("export", r"\( (LEAF_TO_SPINE_FABRIC_OUT) &&", _to("BGP-AOS-Policy")),
    ("export", r"route-map: (TO-ABOVE)", _to("TO-BELOW")),
    ("reference", r"profile ([a-z]\S*)", _to("undefined-name")),
    ("bfd", r"minimum-interval (\d+)", _to("100")),
    ("bfd", r"transmit-interval (\d+)", _to("3000")),
    ("bfd", r"min-tx-interval: (\d+)", _to("3000")),
    ("bfd", r"multiplier:? (\d+)", _number(7)),
    ("bfd", r"min_rx (\d+)", _to("50")),
    ("address", r"address ((\d+\.\d+\.\d+\.)(\d+))/31", _octet),
    ("address", r"local-address ((\d+\.\d+\.\d+\.)(\d+))", _octet),
    ("address", r"ip address ((\d+\.\d+\.\d+\.)(\d+))/31", _octet),
    ("address", r'"Ethernet\d+\|((\d+\.\d+\.\d+\.)(\d+))/31"', _octet),
    ("address", r"address:\s+((\d+\.\d+\.\d+\.)(\d+))/31", _octet),
    ("neighbour", r"neighbor ((\d+\.\d+\.\d+\.)(\d+)) \{", _octet),
    ("neighbour", r"neighbor ((\d+\.\d+\.\d+\.)(\d+)) (?:remote-as|peer-as)", _octet),
    ("neighbour", r"(?m)^  neighbor ((\d+\.\d+\.\d+\.)(\d+))$", _octet),
    ("reference", r"inherit peer (\S+)", _to("undefined-name")),
    ("multipath", r"(multiple-as)", _to("disable")),
    ("multipath", r"maximum-paths (\d+)", _to("1")),
    ("multipath", r"ebgp: (\d+)", _to("1")),
    ("watchdog", r'detection_time": "(\d+)"', _to("5000")),
    ("watchdog", r"polling-interval: (\d+)", _to("1000")),
    ("watchdog", r"shutdown-multiplier (\d+)", _number(7)),
    ("scheduler", r"(priority level) 1", _to("bandwidth remaining percent")),
    ("scheduler", r"(strict-high)", _to("low")),
    ("scheduler", r'"type": "(STRICT)"', _to("DWRR")),
    ("scheduler", r"6:(strict)", _to("ets")),
    ("scheduler", r"(priority strict)", _to("no priority")),
    ("buffer", r"percent (\d+)", _number(9)),
    ("buffer", r'"xoff": "(\d+)"', _to("1024")),
    ("buffer", r"buffer-size 3:(\d+)", _to("1024")),
    ("buffer", r"cable-length:? (\d+)", _to("1")),
    ("balancing", r"inactivity-interval (\d+)", _to("16")),
    ("balancing", r'flowlet_idle_time": "(\d+)"', _to("16")),
    ("balancing", r"mode (flowlet)", _to("per-packet")),
    ("router-id", r"router-id:? ((\d+\.\d+\.\d+\.)(\d+))", _octet),
)
# Lines whose loss changes nothing that a switch does with packets or sessions.
HARMLESS = re.compile(
    r"description|log-updown|^\s*(?:[}{!#]|exit|end\b|\*|/)|^#|family inet6?;|^\s*$|host-name|^for |done$"
    r"|set -e|secret|ssh;|port-id|port-desc|neighbour-port|ddos|disable-fpc|local-cert|port 32767"
    r"|advertisement-interval|mgmt_junos|proxy-macip|virtual-gateway|remote-entries"
    r"|interface all|log syslog|service integrated|number-of-sub|Breakout"
)


def mutate(texts: Sequence[ConfigText], random_: random.Random) -> Mutation:
    """Return one fault in one of the files: a changed value, or a lost statement."""
    while True:
        text = random_.choice(texts)
        if random_.random() < 0.15:
            mutation = _lost(text, random_)
        else:
            kind, pattern, change = random_.choice(RULES)
            mutation = _changed(text, kind, pattern, change, random_)
        if mutation is not None:
            return mutation


def _changed(
    text: ConfigText, kind: str, pattern: str, change: Change, random_: random.Random
) -> Mutation | None:
    places = list(re.finditer(pattern, text.text))
    if not places:
        return None
    match = random_.choice(places)
    new = change(match)
    if new == match[0]:
        return None
    line = text.text.count("\n", 0, match.start()) + 1
    return Mutation(
        kind=kind,
        file=text.file,
        what=f"{line}: {match[0]} -> {new}",
        text=text.text[: match.start()] + new + text.text[match.end() :],
    )


def _lost(text: ConfigText, random_: random.Random) -> Mutation | None:
    form = format_of(text.text, text.file)
    if form == "sonic":
        return _lost_row(text, random_)
    lines = text.text.split("\n")
    ends = {"junos": ";"}.get(form or "", "")
    is_set = _is_set_form(text)
    some = [
        at
        for at, line in enumerate(lines)
        if not HARMLESS.search(line)
        and (is_set or form != "junos" or line.rstrip().endswith(ends))
        and (form != "nvue" or re.search(r": \S", line))
        and _depth(lines, at + 1) <= _depth(lines, at)  # no context is lost with its statements
    ]
    if not some:
        return None
    at = random_.choice(some)
    what = f"{at + 1}: lost {lines[at].strip()}"
    rest = "\n".join([*lines[:at], *lines[at + 1 :]])
    return Mutation(kind="lost", file=text.file, what=what, text=rest)


def _is_set_form(text: ConfigText) -> bool:
    is_junos = format_of(text.text, text.file) == "junos"
    return is_junos and re.search(r"(?m)^set ", text.text) is not None


def _depth(lines: Sequence[str], at: int) -> int:
    return len(lines[at]) - len(lines[at].lstrip()) if at < len(lines) and lines[at].strip() else 0


def _lost_row(text: ConfigText, random_: random.Random) -> Mutation:
    data = json.loads(text.text)
    tables = [name for name in data if name not in ("DEVICE_METADATA", "DEVICE_NEIGHBOR")]
    table = random_.choice(tables)
    row = random_.choice(list(data[table]))
    del data[table][row]
    what = f"lost {table}|{row}"
    return Mutation(kind="lost", file=text.file, what=what, text=json.dumps(data, indent=2))


def rewritten(text: ConfigText, random_: random.Random) -> ConfigText:
    """Return the same configuration, written differently: other order, comments and spaces."""
    lines = text.text.split("\n")
    if text.text.startswith("{"):
        data = json.loads(text.text)
        mixed = {name: data[name] for name in random_.sample(list(data), len(data))}
        return ConfigText(file=text.file, text=json.dumps(mixed, indent=1))
    if _is_set_form(text):
        some = [line for line in lines if line and not line.startswith("#")]
        policies = [line for line in some if " policy-statement " in line]
        rest = [line for line in some if " policy-statement " not in line]
        random_.shuffle(rest)  # the order of terms matters, that of other statements does not
        return ConfigText(file=text.file, text="\n".join(["# saved", *rest, *policies]) + "\n")
    if format_of(text.text, text.file) == "junos":
        wide = [line.replace("    ", "\t") for line in lines]
        at = random_.randrange(1, 3)
        return ConfigText(
            file=text.file, text="/* saved\n today */\n" + "\n".join(["", *wide][at - 1 :])
        )
    comment = "#" if format_of(text.text, text.file) in ("nvue", "linux") else "!"
    return ConfigText(file=text.file, text="\n".join([*lines, f"{comment} saved"]) + "\n")


def with_text(texts: Sequence[ConfigText], mutation: Mutation) -> Iterator[ConfigText]:
    """Yield the files with the mutated one in place of its original."""
    for text in texts:
        if text.file == mutation.file:
            yield ConfigText(file=text.file, text=mutation.text)
        else:
            yield text
