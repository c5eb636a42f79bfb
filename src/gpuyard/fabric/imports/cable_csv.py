"""Reads cables from a CSV file: two ports per line, under any of the usual headings."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator

from gpuyard.errors import InputError, Problem, closest_match
from gpuyard.fabric.imports.built import first_problems
from gpuyard.fabric.imports.observed_cable import ObservedCable, ReportedPort
from gpuyard.units import BITS_PER_S, LENGTH, Dimension, UnitError, parse


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# Headings without case, spaces and punctuation.
COLUMNS: dict[str, tuple[str, ...]] = {
    "near_device": _names(
        "adevice devicea anode nodea ahost hosta aname namea a fromdevice fromnode fromhost "
        "from sourcedevice sourcenode source srcdevice src localdevice localhost localsystem "
        "device node host hostname endadevice sideadevice device1 node1 lower lowerdevice"
    ),
    "near_port": _names(
        "aport porta ainterface interfacea aif fromport frominterface sourceport "
        "sourceinterface srcport localport localinterface port interface endaport sideaport "
        "port1 interface1 lowerport"
    ),
    "far_device": _names(
        "bdevice deviceb bnode nodeb bhost hostb bname nameb b zdevice znode zhost z todevice "
        "tonode tohost to targetdevice target destinationdevice destinationnode destination "
        "dstdevice dst remotedevice remotehost remotesystem neighbor neighbour neighbordevice "
        "peer peerdevice endbdevice sidebdevice device2 node2 upper upperdevice"
    ),
    "far_port": _names(
        "bport portb binterface interfaceb bif zport zinterface toport tointerface targetport "
        "destinationport destinationinterface dstport remoteport remoteinterface neighborport "
        "neighbourport peerport peerinterface endbport sidebport port2 interface2 upperport"
    ),
    "speed": _names("speed speedbitspers speedgbps linkspeed bandwidth rate gbps speedg"),
    "cable": _names("cablem length lengthm cablelength cablelengthm metres meters"),
}
REQUIRED = {
    "near_device": "a_device",
    "near_port": "a_port",
    "far_device": "b_device",
    "far_port": "b_port",
}
_GIGABIT_HEADINGS = ("speedgbps", "gbps", "speedg")


def read_table(text: str, file: str) -> tuple[ObservedCable, ...]:
    """Return the cables of a CSV file; raise InputError with the line of every problem."""
    rows = list(_rows(text, file))
    if not rows:
        raise InputError.one(file, "is empty", "write a line of headings and a line per cable")
    line, headings = rows[0]
    places = _places(headings, f"{file}:{line}")
    problems: list[Problem] = []
    cables: list[ObservedCable] = []
    for line, cells in rows[1:]:
        if any(cell.strip() for cell in cells):
            cable = _cable(cells, places, headings, f"{file}:{line}", problems)
            if cable is not None:
                cables.append(cable)
    if problems:
        raise InputError(first_problems(problems, file))
    return tuple(cables)


def _rows(text: str, file: str) -> Iterator[tuple[int, list[str]]]:
    # The separator is the one of comma, semicolon and tab that the first line has most of.
    lines = text.lstrip("\ufeff").splitlines()
    first = next((line for line in lines if line.strip() and not line.startswith("#")), "")
    separator = max(",;\t", key=first.count)
    reader = csv.reader(io.StringIO("\n".join(lines)), delimiter=separator)
    try:
        for cells in reader:
            if cells and not cells[0].startswith("#"):
                yield reader.line_num, [cell.strip() for cell in cells]
    except csv.Error as error:
        raise InputError.one(
            f"{file}:{reader.line_num}", f"not CSV: {error}", "fix the quotes"
        ) from None


def _places(headings: list[str], where: str) -> dict[str, int]:
    plain = [_plain(heading) for heading in headings]
    places: dict[str, int] = {}
    for name, aliases in COLUMNS.items():
        for alias in aliases:
            if alias in plain and name not in places:
                places[name] = plain.index(alias)
    missing = [column for name, column in REQUIRED.items() if name not in places]
    if missing:
        unused = [heading for place, heading in enumerate(headings) if place not in places.values()]
        guess = next(
            (f'; is it "{heading}"?' for heading in unused if closest_match(heading, missing)), ""
        )
        raise InputError.one(
            where,
            f"no column for {', '.join(missing)}",
            f"name the columns a_device, a_port, b_device, b_port{guess}",
        )
    return places


def _plain(heading: str) -> str:
    return re.sub(r"[^a-z0-9]", "", heading.casefold())


def _cable(
    cells: list[str],
    places: dict[str, int],
    headings: list[str],
    where: str,
    problems: list[Problem],
) -> ObservedCable | None:
    texts = {name: cells[place] if place < len(cells) else "" for name, place in places.items()}
    before = len(problems)
    for name in REQUIRED:
        if not texts[name]:
            problems.append(
                Problem(
                    where=where,
                    what=f'"{headings[places[name]]}" is empty',
                    fix="fill it in, or remove the line",
                )
            )
    speed = texts.get("speed", "")
    heading = _plain(headings[places["speed"]]) if "speed" in places else ""
    speed_bits_per_s = _quantity(
        speed, BITS_PER_S, 1e9 if _is_gigabit(speed, heading) else 1.0, where, problems
    )
    cable_m = _quantity(texts.get("cable", ""), LENGTH, 1.0, where, problems)
    if len(problems) > before:
        return None
    return ObservedCable(
        where=where,
        near=ReportedPort(device=texts["near_device"], port=texts["near_port"]),
        far=ReportedPort(device=texts["far_device"], port=texts["far_port"]),
        speed_bits_per_s=speed_bits_per_s,
        cable_m=cable_m,
    )


def _is_gigabit(text: str, heading: str) -> bool:
    # `400` and `400G` mean 400 Gb/s; a bare number in bit/s is far larger.
    return heading in _GIGABIT_HEADINGS or bool(
        re.fullmatch(r"\d{1,5}(\.\d+)?\s*[gG]?(?:be|BE|bE)?", text)
    )


def _quantity(
    text: str, dimension: Dimension, scale: float, where: str, problems: list[Problem]
) -> float | None:
    bare = re.fullmatch(r"(\d+(?:\.\d+)?(?:[eE][+]?\d+)?)\s*(?:[gG](?:be|BE|bE)?)?", text)
    if not text:
        return None
    if bare:
        return float(bare[1]) * scale
    try:
        return parse(text, dimension)
    except UnitError as error:
        problems.append(Problem(where=where, what=error.what, fix=error.fix))
        return None
