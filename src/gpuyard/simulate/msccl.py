"""MSCCL algorithms (`.xml`) as flows.

    <algo name="ring" nchunksperloop="2" nchannels="1" ngpus="2" coll="allreduce">
      <gpu id="0"><tb id="0" send="1" recv="1" chan="0">
        <step s="0" type="s" cnt="1" depid="-1" deps="-1"/> …

The n-th send of a GPU to another on a channel is the n-th receive there. A step waits for the one
before it in its thread block and for the step that `depid` (thread block) and `deps` (step) name.
Copies and sums take no time.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from gpuyard.errors import InputError, Problem
from gpuyard.simulate.traffic import FlowSet, traffic_of

SENDS = ("s", "rcs", "rrcs", "rrs")
RECEIVES = ("r", "rrc", "rcs", "rrcs", "rrs")
LOCAL = ("cpy", "re", "nop")
Place = tuple[int, int, int]  # GPU, thread block, step


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Msccl:
    """An algorithm as flows between ranks."""

    name: str
    collective: str
    rank_count: int
    traffic: FlowSet


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    place: Place
    kind: str
    count: int
    send: int
    receive: int
    channel: int
    waits: tuple[Place, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Book:
    """Steps and problems found so far."""

    file: str
    steps: dict[Place, _Step] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def wrong(self, place: str, what: str, fix: str) -> None:
        self.problems.append(Problem(where=f"{self.file}: {place}", what=what, fix=fix))


def read_msccl(text: str, size_bytes: float, file: str = "algorithm.xml") -> Msccl:
    """Return the traffic of an algorithm for data of a size.

    Raises:
        InputError: everything that is wrong with the file.
    """
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise InputError.one(
            f"{file}:{error.position[0]}", f"not XML: {error}", "fix the XML"
        ) from None
    if root.tag != "algo":
        raise InputError.one(
            file, f"begins with <{root.tag}>", "give an MSCCL algorithm, which begins with <algo>"
        )
    book = _Book(file=file)
    ranks, chunks = _number(book, root, "ngpus"), _number(book, root, "nchunksperloop")
    for gpu in root.iter("gpu"):
        for block in gpu.iter("tb"):
            _read_block(book, _number(book, gpu, "id"), block, ranks)
    flows = _flows(book)
    if not flows and not book.problems:
        book.wrong("algo", "nothing is sent", 'give steps of type "s"')
    if book.problems or not chunks:
        raise InputError(book.problems)
    arrived = _matched(book, flows)
    if book.problems:
        raise InputError(book.problems)
    number = {place: index for index, place in enumerate(flows)}
    traffic = traffic_of(
        [place[0] for place in flows],
        [book.steps[place].send for place in flows],
        [max(1, round(book.steps[place].count * size_bytes / chunks)) for place in flows],
        after=tuple(_after(book, place, number, arrived) for place in flows),
        channel=[book.steps[place].channel for place in flows],
    )
    traffic.check(ranks)
    return Msccl(
        name=root.get("name", file),
        collective=root.get("coll", ""),
        rank_count=ranks,
        traffic=traffic,
    )


def _number(book: _Book, element: ElementTree.Element, key: str) -> int:
    """An integer attribute; -1 means none."""
    text = element.get(key, "")
    try:
        return int(text)
    except ValueError:
        book.wrong(
            f"<{element.tag}>", f'{key} is "{text}", which is not an integer', f'write {key}="0"'
        )
        return 0


def _read_block(book: _Book, gpu: int, block: ElementTree.Element, ranks: int) -> None:
    number, send, receive = (_number(book, block, key) for key in ("id", "send", "recv"))
    channel = _number(book, block, "chan")
    where = f"gpu {gpu} tb {number}"
    if max(send, receive) >= ranks:
        book.wrong(where, f"a peer beyond the {ranks} GPUs", "name peers from 0 to ngpus - 1")
    for order, element in enumerate(block.iter("step")):
        kind = element.get("type", "")
        if kind not in {*SENDS, *RECEIVES, *LOCAL}:
            book.wrong(
                f"{where} step {order}",
                f'no step of type "{kind}"',
                "use s, r, rcs, rrs, rrcs, rrc, cpy, re",
            )
        if (kind in SENDS and send < 0) or (kind in RECEIVES and receive < 0):
            book.wrong(
                f"{where} step {order}",
                f"{kind} without a peer",
                "give the thread block its send and recv",
            )
        waits: list[Place] = [(gpu, number, order - 1)] if order else []
        block_id, step = _number(book, element, "depid"), _number(book, element, "deps")
        if block_id >= 0 and step >= 0:
            waits.append((gpu, block_id, step))
        book.steps[gpu, number, order] = _Step(
            place=(gpu, number, order),
            kind=kind,
            count=_number(book, element, "cnt"),
            send=send,
            receive=receive,
            channel=channel,
            waits=tuple(waits),
        )


def _flows(book: _Book) -> list[Place]:
    return [place for place, step in book.steps.items() if step.kind in SENDS]


def _matched(book: _Book, flows: list[Place]) -> dict[Place, int]:
    """Which flow every receiving step gets: the n-th of its pair and channel."""
    sent: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    for number, place in enumerate(flows):
        step = book.steps[place]
        sent[place[0], step.send, step.channel].append(number)
    got: dict[tuple[int, int, int], list[Place]] = defaultdict(list)
    for place, step in book.steps.items():
        if step.kind in RECEIVES:
            got[step.receive, place[0], step.channel].append(place)
    for key in sorted(set(sent) | set(got)):
        if len(sent[key]) != len(got[key]):
            what = f"{len(sent[key])} sends and {len(got[key])} receives"
            book.wrong(
                f"gpu {key[0]} to gpu {key[1]}, channel {key[2]}",
                what,
                "receive as often as is sent",
            )
    return {
        place: number
        for key, places in got.items()
        for place, number in zip(places, sent[key], strict=False)
    }


def _after(
    book: _Book, place: Place, number: dict[Place, int], arrived: dict[Place, int]
) -> tuple[int, ...]:
    """The flows that a sending step waits for: what it passes on, and all that came before it."""
    step = book.steps[place]
    own = (arrived[place],) if step.kind in RECEIVES else ()
    return tuple(sorted({*own, *_before(book, step, number, arrived)}))


def _before(
    book: _Book, step: _Step, number: dict[Place, int], arrived: dict[Place, int]
) -> Iterator[int]:
    """The flows that a step waits for; local steps pass on what they wait for."""
    seen: set[Place] = set()
    ahead = list(step.waits)
    while ahead:
        place = ahead.pop()
        if place in seen:
            continue
        seen.add(place)
        earlier = book.steps.get(place)
        if earlier is None:
            where = f"gpu {step.place[0]} tb {step.place[1]} step {step.place[2]}"
            what = f"waits for tb {place[1]} step {place[2]}, which is not there"
            raise InputError.one(f"{book.file}: {where}", what, "fix depid and deps")
        if place in number:
            yield number[place]
        elif place in arrived:
            yield arrived[place]
            ahead += earlier.waits
        else:
            ahead += earlier.waits
