"""Layout of a fabric drawing: rows of cores, spines, leaves and servers.

A pod is a set of stripes joined by spines. Of many pods, stripes, spines or servers the first ones
and the last are drawn, with the number of omitted ones between them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from gpuyard.report.fabric_pods import Stripe, pods_of
from gpuyard.topology.nodes import Node
from gpuyard.topology.topology import Topology

T = TypeVar("T")

BOX, BOX_GAP, PAD, MARGIN = 34.0, 6.0, 14.0, 16.0
LABEL_WIDTH = 190.0
GAP_WIDTH = 84.0
SERVER_GAP = 58.0
TOP = 62.0
STEP = {"core": 110.0, "spine": 142.0, "leaf": 152.0}  # from a row to the one below it
PLANE_STEP = 40.0
HEIGHT = {"core": 26.0, "spine": 26.0, "leaf": 26.0, "server": 30.0}
# Items drawn at the head and tail of a long list, and its maximum length.
HEADS = {
    "pod": (1, 1, 2),
    "stripe": (2, 1, 3),
    "narrow": (1, 1, 2),  # stripes where there are several pods or planes
    "spine": (5, 1, 8),
    "core": (6, 1, 10),
    "server": (2, 1, 4),
    "leaf": (7, 1, 8),
}
KEPT = 2  # of those that findings are about


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A drawn device."""

    name: str
    role: str
    label: str
    x: float
    y: float
    width: float
    height: float
    rail: int | None = None

    @property
    def middle(self) -> float:
        """Horizontal centre."""
        return self.x + self.width / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnLink:
    """All links between two drawn devices."""

    lower: str
    upper: str
    count: int
    speed_bits_per_s: float
    x1: float
    y1: float
    x2: float
    y2: float
    rail: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A label for omitted parts: `× 61 more stripes`."""

    x: float
    y: float
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """The frame around a stripe or a pod."""

    label: str
    x: float
    y: float
    width: float
    height: float
    faint: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Everything to draw."""

    boxes: tuple[Box, ...]
    cables: tuple[DrawnLink, ...]
    gaps: tuple[Gap, ...]
    panels: tuple[Panel, ...]
    captions: tuple[tuple[str, float, tuple[str, ...]], ...]  # role, height on the page, lines
    width: float
    height: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class _Canvas:
    """Shapes placed so far, and the height of each row."""

    rows: dict[str, float]
    keep: Collection[str]
    boxes: dict[str, Box] = field(default_factory=dict)
    gaps: list[Gap] = field(default_factory=list)
    panels: list[Panel] = field(default_factory=list)


def scene(topology: Topology, keep: Collection[str] = ()) -> Scene:
    """Lay out the drawing of a topology; devices in `keep` are drawn even in omitted parts."""
    planes = max(1, len({node.plane for node in topology.nodes if node.plane is not None}))
    parts, canvas = pods_of(topology), _Canvas(rows=_rows(topology, planes), keep=frozenset(keep))
    rows, x = canvas.rows, LABEL_WIDTH
    for skipped, number in _picks(
        range(len(parts.pods)), "pod", lambda place: _marked_pod(canvas, *parts.pods[place])
    ):
        if skipped:
            middle = (rows["spine"] + rows["server"]) / 2
            canvas.gaps.append(Gap(x=x + GAP_WIDTH / 2, y=middle, lines=_more(skipped, "pod")))
            x += GAP_WIDTH + PAD
        kind = "narrow" if len(parts.pods) > 1 or planes > 1 else "stripe"
        x = _pod(
            canvas, *parts.pods[number], x, kind, f"pod {number + 1}" if len(parts.pods) > 1 else ""
        )
    width = max(x + MARGIN, 720.0)
    _row(canvas, parts.cores, "core", LABEL_WIDTH, width - MARGIN, rows["core"])
    return Scene(
        boxes=tuple(canvas.boxes.values()),
        cables=_cables(topology, canvas.boxes),
        gaps=tuple(canvas.gaps),
        panels=tuple(canvas.panels),
        captions=tuple(_captions(topology, rows)),
        width=width,
        height=rows["server"] + HEIGHT["server"] + 62.0,
    )


def _marked(canvas: _Canvas, nodes: Iterable[Node]) -> bool:
    return any(node.name in canvas.keep for node in nodes)


def _marked_pod(canvas: _Canvas, spines: list[Node], stripes: list[Stripe]) -> bool:
    return _marked(canvas, spines) or any(
        _marked(canvas, [*leaves, *servers]) for _, leaves, servers in stripes
    )


def _rows(topology: Topology, planes: int) -> dict[str, float]:
    """Height of each row; a missing tier takes no space."""
    roles = {node.role for node in topology.nodes}
    y, rows = TOP, {}
    for role in ("core", "spine", "leaf", "server"):
        rows[role] = y
        if role in roles:
            y += STEP.get(role, 0.0) + ((planes - 1) * PLANE_STEP if role == "leaf" else 0.0)
    return rows


def _picks(items: Sequence[T], kind: str, keep: Callable[[T], bool]) -> list[tuple[int, T]]:
    """Items to draw, each with the number omitted before it."""
    head, tail, most = HEADS[kind]
    if len(items) <= most:
        return [(0, item) for item in items]
    required = [place for place in range(1, len(items) - tail) if keep(items[place])][:KEPT]
    head = 1 if required else head
    picked: list[tuple[int, T]] = []
    before = -1
    for place in [*range(head), *required, *range(len(items) - tail, len(items))]:
        picked.append((place - before - 1, items[place]))
        before = place
    return picked


def _more(count: int, noun: str) -> tuple[str, ...]:
    plural = {"leaf": "leaves"}.get(noun, noun + "s")
    return f"× {count:,}", "more", plural if count > 1 else noun


def _pod(
    canvas: _Canvas,
    spines: list[Node],
    stripes: list[Stripe],
    x: float,
    kind: str,
    label: str,
) -> float:
    """Place a pod; return the x coordinate after it."""
    left = x
    x += PAD if label else 0.0
    picked = _picks(stripes, kind, lambda stripe: _marked(canvas, [*stripe[1], *stripe[2]]))
    for skipped, (name, leaves, servers) in picked:
        if skipped:
            middle = (canvas.rows["leaf"] + canvas.rows["server"]) / 2
            canvas.gaps.append(Gap(x=x + GAP_WIDTH / 2, y=middle, lines=_more(skipped, "stripe")))
            x += GAP_WIDTH
        x = _stripe_at(canvas, name, leaves, servers, x) + PAD
    x = max(x, left + 260.0)
    _spines(canvas, spines, left, x - PAD)
    if label:
        x += PAD
        canvas.panels.append(
            Panel(
                label=label,
                x=left,
                y=canvas.rows["spine"] - 16,
                width=x - left - PAD / 2,
                height=canvas.rows["server"] - canvas.rows["spine"] + 78,
                faint=True,
            )
        )
    return x


def _spines(canvas: _Canvas, spines: list[Node], left: float, right: float) -> None:
    planes = sorted({_plane(node) for node in spines})
    share = (right - left) / max(1, len(planes))
    for place, plane in enumerate(planes):
        own = [node for node in spines if _plane(node) == plane]
        start = left + place * share
        _row(canvas, own, "spine", start, start + share, canvas.rows["spine"])
        if len(planes) > 1:
            frame = {
                "x": start + 2,
                "y": canvas.rows["spine"] - 22,
                "width": share - 4,
                "height": HEIGHT["spine"] + 32,
            }
            canvas.panels.append(Panel(label=f"plane {plane + 1}", faint=True, **frame))


def _row(
    canvas: _Canvas, nodes: list[Node], kind: str, left: float, right: float, y: float
) -> None:
    """Place devices side by side, centred, with the middle ones collapsed."""
    half = HEIGHT[kind] / 2
    picked = _picks(nodes, kind, lambda node: node.name in canvas.keep)
    x = max(left, (left + right - _room(picked)) / 2)
    for skipped, node in picked:
        if skipped:
            canvas.gaps.append(
                Gap(x=x + GAP_WIDTH / 2 - BOX_GAP / 2, y=y + half, lines=(f"× {skipped:,} more",))
            )
            x += GAP_WIDTH
        canvas.boxes[node.name] = Box(
            name=node.name,
            role=node.role,
            label=_short(node),
            x=x,
            y=y,
            width=BOX,
            height=HEIGHT[kind],
            rail=node.rail,
        )
        x += BOX + BOX_GAP


def _room(picked: list[tuple[int, Node]]) -> float:
    gaps = sum(skipped > 0 for skipped, _ in picked)
    return len(picked) * (BOX + BOX_GAP) - BOX_GAP + gaps * GAP_WIDTH


def _short(node: Node) -> str:
    """Text that fits into a box: the rail of a leaf, the last number of another name."""
    if node.role == "leaf" and node.rail is not None:
        return f"r{node.rail + 1}"
    words = [word for word in node.name.replace("_", "-").split("-") if any(map(str.isdigit, word))]
    plain = [word for word in words if not word.startswith("p")] or words
    if not plain:
        return node.name[:5]
    number = (
        plain[-1].lstrip("abcdefghijklmnopqrstuvwxyz") if len(plain[-1]) > 4 else plain[-1]
    )  # of host12
    return (number.lstrip("0") or "0")[-5:]


def _stripe_at(
    canvas: _Canvas, label: str, leaves: list[Node], servers: list[Node], x: float
) -> float:
    """Place a stripe: leaves above, one row per plane, servers below."""
    planes = sorted({_plane(node) for node in leaves})
    by_plane = [[leaf for leaf in leaves if _plane(leaf) == plane] for plane in planes]
    wide = [_room(_picks(row, "leaf", lambda node: node.name in canvas.keep)) for row in by_plane]
    width = max([*wide, 150.0]) + 2 * PAD
    canvas.panels.append(
        Panel(
            label=label,
            x=x,
            y=canvas.rows["leaf"] - 12,
            width=width,
            height=canvas.rows["server"] - canvas.rows["leaf"] + 66,
        )
    )
    for place, row in enumerate(by_plane):
        _row(
            canvas, row, "leaf", x + PAD, x + width - PAD, canvas.rows["leaf"] + place * PLANE_STEP
        )
    _servers(canvas, servers, x + PAD, x + width - PAD, canvas.rows["server"])
    return x + width


def _plane(node: Node) -> int:
    return -1 if node.plane is None else node.plane


def _servers(canvas: _Canvas, servers: list[Node], left: float, right: float, y: float) -> None:
    picked = _picks(servers, "server", lambda node: node.name in canvas.keep)
    if not picked:
        return
    taken = SERVER_GAP * sum(skipped > 0 for skipped, _ in picked) + BOX_GAP * (len(picked) - 1)
    width = min(80.0, (right - left - taken) / len(picked))
    x = (left + right - len(picked) * width - taken) / 2
    half = HEIGHT["server"] / 2
    for skipped, node in picked:
        if skipped:
            lines = (f"× {skipped:,}", "more")
            canvas.gaps.append(Gap(x=x + SERVER_GAP / 2 - BOX_GAP / 2, y=y + half, lines=lines))
            x += SERVER_GAP
        canvas.boxes[node.name] = Box(
            name=node.name,
            role="server",
            label=_short(node),
            x=x,
            y=y,
            width=width,
            height=HEIGHT["server"],
        )
        x += width + BOX_GAP


def _cables(topology: Topology, boxes: dict[str, Box]) -> tuple[DrawnLink, ...]:
    """Links between drawn devices, parallel ones merged."""
    nodes = {node.name: node for node in topology.nodes if node.name in boxes}
    counts: Counter[tuple[str, str, float]] = Counter()
    for link in topology.links:
        a, b = nodes.get(link.a.node), nodes.get(link.b.node)
        if a is not None and b is not None:
            lower, upper = (a, b) if a.tier <= b.tier else (b, a)
            counts[lower.name, upper.name, link.speed_bits_per_s] += 1
    cables = []
    for (lower_name, upper_name, speed), count in counts.items():
        low, high = boxes[lower_name], boxes[upper_name]
        x1 = low.middle
        if (
            low.role == "server" and high.rail is not None
        ):  # NICs side by side on the server's upper edge
            rails = max((box.rail or 0) for box in boxes.values()) + 1
            x1 = low.x + low.width * (high.rail + 0.5) / rails
        rail = high.rail if low.role == "server" else low.rail
        cables.append(
            DrawnLink(
                lower=lower_name,
                upper=upper_name,
                count=count,
                speed_bits_per_s=speed,
                x1=x1,
                y1=low.y,
                x2=high.middle,
                y2=high.y + high.height,
                rail=rail,
            )
        )
    return tuple(cables)


def _captions(
    topology: Topology, rows: dict[str, float]
) -> Iterable[tuple[str, float, tuple[str, ...]]]:
    """Captions of the rows: count and model."""
    for role, noun in (
        ("core", "core"),
        ("spine", "spine"),
        ("leaf", "leaf"),
        ("server", "server"),
    ):
        nodes = [node for node in topology.nodes if node.role == role]
        if not nodes:
            continue
        plural = "leaves" if noun == "leaf" else noun + "s"
        models = sorted({node.model for node in nodes if node.model})
        yield (
            role,
            rows[role],
            (f"{len(nodes):,} {plural if len(nodes) > 1 else noun}", *models[:2]),
        )
