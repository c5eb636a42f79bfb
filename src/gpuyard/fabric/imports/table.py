"""Cables from a CSV file: two ports a line, under any of the headings that people use."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator

from gpuyard.errors import InputError, Problem, nearest
from gpuyard.fabric.imports.sighting import Place, Sighting
from gpuyard.units import BITS_PER_S, LENGTH, Dimension, UnitError, parse

__all__ = ["COLUMNS", "read_table"]

# Headings without case, spaces and signs.
COLUMNS: dict[str, tuple[str, ...]] = {
    "near_device": ("adevice", "devicea", "anode", "nodea", "ahost", "hosta", "aname", "namea", "a", "fromdevice",
                    "fromnode", "fromhost", "from", "sourcedevice", "sourcenode", "source", "srcdevice", "src",
                    "localdevice", "localhost", "localsystem", "device", "node", "host", "hostname", "endadevice",
                    "sideadevice", "device1", "node1", "lower", "lowerdevice"),
    "near_port": ("aport", "porta", "ainterface", "interfacea", "aif", "fromport", "frominterface", "sourceport",
                  "sourceinterface", "srcport", "localport", "localinterface", "port", "interface", "endaport",
                  "sideaport", "port1", "interface1", "lowerport"),
    "far_device": ("bdevice", "deviceb", "bnode", "nodeb", "bhost", "hostb", "bname", "nameb", "b", "zdevice", "znode",
                   "zhost", "z", "todevice", "tonode", "tohost", "to", "targetdevice", "target", "destinationdevice",
                   "destinationnode", "destination", "dstdevice", "dst", "remotedevice", "remotehost", "remotesystem",
                   "neighbor", "neighbour", "neighbordevice", "peer", "peerdevice", "endbdevice", "sidebdevice",
                   "device2", "node2", "upper", "upperdevice"),
    "far_port": ("bport", "portb", "binterface", "interfaceb", "bif", "zport", "zinterface", "toport", "tointerface",
                 "targetport", "destinationport", "destinationinterface", "dstport", "remoteport", "remoteinterface",
                 "neighborport", "neighbourport", "peerport", "peerinterface", "endbport", "sidebport", "port2",
                 "interface2", "upperport"),
    "speed": ("speed", "speedbitspers", "speedgbps", "linkspeed", "bandwidth", "rate", "gbps", "speedg"),
    "cable": ("cablem", "length", "lengthm", "cablelength", "cablelengthm", "metres", "meters"),
}  # fmt: skip
MUST = ("near_device", "near_port", "far_device", "far_port")
_GIGABIT_HEADINGS = ("speedgbps", "gbps", "speedg")
MAX_PROBLEMS = 20


def read_table(text: str, file: str) -> tuple[Sighting, ...]:
    """The cables of a CSV file; InputError with the line of everything wrong."""
    rows = list(_rows(text, file))
    if not rows:
        raise InputError.one(file, "is empty", "give a line of headings and a line for each cable")
    line, headings = rows[0]
    places = _places(headings, f"{file}:{line}")
    problems: list[Problem] = []
    found: list[Sighting] = []
    for line, cells in rows[1:]:
        if any(cell.strip() for cell in cells):
            row = _sighting(cells, places, headings, f"{file}:{line}", problems)
            if row is not None:
                found.append(row)
    if problems:
        left = len(problems) - MAX_PROBLEMS
        more = [Problem(where=file, what=f"{left} problems more", fix="mend these first")] if left > 0 else []
        raise InputError([*problems[:MAX_PROBLEMS], *more])
    return tuple(found)


def _rows(text: str, file: str) -> Iterator[tuple[int, list[str]]]:
    """Lines as cells, comments and blank lines left out; comma, semicolon or tab, whichever the first line has most."""
    lines = text.lstrip("\ufeff").splitlines()
    first = next((line for line in lines if line.strip() and not line.startswith("#")), "")
    separator = max(",;\t", key=first.count)
    reader = csv.reader(io.StringIO("\n".join(lines)), delimiter=separator)
    try:
        for cells in reader:
            if cells and not cells[0].startswith("#"):
                yield reader.line_num, [cell.strip() for cell in cells]
    except csv.Error as error:
        raise InputError.one(f"{file}:{reader.line_num}", f"not CSV: {error}", "mend the quotes there") from None


def _places(headings: list[str], where: str) -> dict[str, int]:
    """Where each column stands."""
    plain = [re.sub(r"[^a-z0-9]", "", heading.casefold()) for heading in headings]
    places: dict[str, int] = {}
    for name, aliases in COLUMNS.items():
        for alias in aliases:
            if alias in plain and name not in places:
                places[name] = plain.index(alias)
    missing = [name for name in MUST if name not in places]
    if missing:
        words = {"near_device": "a_device", "near_port": "a_port", "far_device": "b_device", "far_port": "b_port"}
        wanted = ", ".join(words[name] for name in missing)
        unused = [heading for place, heading in enumerate(headings) if place not in places.values()]
        guess = next((f'; is "{heading}" meant?' for heading in unused
                      if nearest(heading, [words[name] for name in missing])), "")  # fmt: skip
        raise InputError.one(
            where, f"no column for {wanted}", f"name the columns a_device, a_port, b_device, b_port{guess}"
        )
    return places


def _sighting(
    cells: list[str], places: dict[str, int], headings: list[str], where: str, problems: list[Problem]
) -> Sighting | None:  # fmt: skip
    """One line, or None after its problems were noted."""
    texts = {name: cells[place] if place < len(cells) else "" for name, place in places.items()}
    before = len(problems)
    for name in MUST:
        if not texts[name]:
            problems.append(
                Problem(where=where, what=f'"{headings[places[name]]}" is empty', fix="fill it, or drop the line")
            )
    speed = texts.get("speed", "")
    heading = re.sub(r"[^a-z0-9]", "", headings[places["speed"]].casefold()) if "speed" in places else ""
    speed_bits_per_s = _quantity(speed, BITS_PER_S, 1e9 if _is_gigabit(speed, heading) else 1.0, where, problems)
    cable_m = _quantity(texts.get("cable", ""), LENGTH, 1.0, where, problems)
    if len(problems) > before:
        return None
    return Sighting(
        where=where,
        near=Place(device=texts["near_device"], port=texts["near_port"]),
        far=Place(device=texts["far_device"], port=texts["far_port"]),
        speed_bits_per_s=speed_bits_per_s,
        cable_m=cable_m,
    )


def _is_gigabit(text: str, heading: str) -> bool:
    """True of `400` or `400G`, which people write for 400 Gb/s; a bare number in bit/s is far larger."""
    return heading in _GIGABIT_HEADINGS or bool(re.fullmatch(r"\d{1,5}(\.\d+)?\s*[gG]?(?:be|BE|bE)?", text))


def _quantity(
    text: str, dimension: Dimension, scale: float, where: str, problems: list[Problem]
) -> float | None:  # fmt: skip
    """A speed or a length; None where nothing is written."""
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
