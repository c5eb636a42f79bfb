"""Chakra execution traces (MLCommons, `name.RANK.et`): compute, sends and dependencies per rank.

A file is a row of protobuf messages, each after its length: one of metadata, then the nodes
(mlcommons/chakra, schema/protobuf/et_def.proto). Only the fields that a replay needs are read;
others are skipped, as protobuf has it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from gpuyard.errors import InputError

Kind = Literal["other", "compute", "send", "receive", "collective"]
KINDS: dict[int, Kind] = {
    2: "compute",
    3: "compute",
    4: "compute",
    5: "send",
    6: "receive",
    7: "collective",
}
NODE_ID, NODE_NAME, NODE_TYPE, NODE_CONTROL, NODE_DATA, NODE_DURATION, NODE_ATTRIBUTE = (
    1,
    2,
    3,
    4,
    5,
    7,
    10,
)
ATTRIBUTE_NAME, DOUBLE, FLOAT, TEXT, FLAGS = 1, 3, 5, 29, 28
SIGNED = (15, 17)  # sint32 and sint64, written in zigzag
VARINT, EIGHT, LENGTH, FOUR = 0, 1, 2, 5  # how a field is written
MICROSECOND = 1e-6
Field = tuple[int, int | bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChakraNode:
    """A node: something that a rank does after other things."""

    id: int
    name: str
    kind: Kind
    after: tuple[int, ...]  # nodes of the same rank, by data and by control
    duration_s: float
    collective: int = 0  # the number of its CollectiveCommType
    size_bytes: int = 0  # of the input of every rank
    peer: int = -1  # of a send or a receive
    tag: int = 0
    group: str = ""  # name of the process group; "": all ranks
    every_dimension: bool = True  # False: only some dimensions of an unknown topology


def read_chakra(data: bytes, file: str = "trace.0.et") -> tuple[ChakraNode, ...]:
    """The nodes of one rank's trace; InputError where the bytes are none."""
    try:
        messages = list(_messages(data))
        nodes = tuple(_node(message) for message in messages[1:])  # the first is metadata
    except (IndexError, ValueError, struct.error):
        raise InputError.one(
            file, "not a Chakra execution trace", "give the .et file of a rank"
        ) from None
    if not nodes:
        raise InputError.one(file, "no nodes", "give a trace that does something")
    return nodes


def _messages(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        length, at = _varint(data, at)
        if at + length > len(data):
            raise ValueError("cut off")
        yield data[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A varint (seven bits per byte), and where the next field begins."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
        shift += 7
        if shift > 63:
            raise ValueError("too long")


def _fields(data: bytes) -> Iterator[Field]:
    """The fields of a message: number and value."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, form = key >> 3, key & 7
        if form == VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        if form not in (EIGHT, LENGTH, FOUR) or not number:
            raise ValueError("no protobuf")
        length = {EIGHT: 8, FOUR: 4}.get(form, 0)
        if form == LENGTH:
            length, at = _varint(data, at)
        if at + length > len(data):
            raise ValueError("cut off")
        yield number, data[at : at + length]
        at += length


def _numbers(value: int | bytes) -> list[int]:
    if isinstance(value, int):
        return [value]
    numbers, at = [], 0
    while at < len(value):
        number, at = _varint(value, at)
        numbers.append(number)
    return numbers


def _node(data: bytes) -> ChakraNode:
    number, name, kind, duration = 0, "", 0, 0
    after: list[int] = []
    attributes: dict[str, int | str | list[int]] = {}
    for field, value in _fields(data):
        if field in (NODE_CONTROL, NODE_DATA):
            after += _numbers(value)
        elif field == NODE_NAME and isinstance(value, bytes):
            name = value.decode()
        elif field == NODE_ATTRIBUTE and isinstance(value, bytes):
            key, what = _attribute(value)
            attributes[key] = what
        elif isinstance(value, int):
            number = value if field == NODE_ID else number
            kind = value if field == NODE_TYPE else kind
            duration = value if field == NODE_DURATION else duration
    node_kind = KINDS.get(kind, "other")
    flags = attributes.get("involved_dim", [])
    return ChakraNode(
        id=number,
        name=name,
        kind=node_kind,
        after=tuple(dict.fromkeys(after)),
        duration_s=duration * MICROSECOND if node_kind == "compute" else 0.0,
        collective=_whole(attributes, "comm_type", 0),
        size_bytes=_whole(attributes, "comm_size", 0),
        peer=_whole(attributes, {"send": "comm_dst", "receive": "comm_src"}.get(node_kind, ""), -1),
        tag=_whole(attributes, "comm_tag", 0),
        group=str(attributes.get("pg_name", "")),
        every_dimension=not isinstance(flags, list) or all(flags),
    )


def _whole(attributes: dict[str, int | str | list[int]], key: str, otherwise: int) -> int:
    value = attributes.get(key, otherwise)
    return value if isinstance(value, int) else otherwise


def _attribute(data: bytes) -> tuple[str, int | str | list[int]]:
    """The name and the value of an attribute: a number, a text, or a list of flags."""
    name: str = ""
    value: int | str | list[int] = 0
    for field, raw in _fields(data):
        if field == ATTRIBUTE_NAME and isinstance(raw, bytes):
            name = raw.decode()
        elif isinstance(raw, int):
            value = (raw >> 1) ^ -(raw & 1) if field in SIGNED else raw - (raw >> 63 << 64)
        elif field == TEXT:
            value = raw.decode()
        elif field == FLAGS:
            value = [
                number
                for inner, packed in _fields(raw)
                if inner == 1
                for number in _numbers(packed)
            ]
        elif field in (DOUBLE, FLOAT):
            value = int(struct.unpack("<d" if field == DOUBLE else "<f", raw)[0])
        elif len(raw) in (4, 8) and 19 <= field <= 25:  # fixed numbers
            value = int.from_bytes(raw, "little")
    return name, value
