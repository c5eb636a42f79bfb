"""Diff two blueprints: the headline values first, then every other value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.blueprint.saved import blueprint_hash, blueprint_tree
from gpuyard.document.frozen_json import Plain
from gpuyard.units import DIMENSIONS, DURATION, MONEY, PRICE_PER_HOUR, Dimension, show

MAX_CHANGES = 40  # beyond that, a diff of the files is easier to read
UNKNOWN = "not known"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One value that differs."""

    what: str
    before: str
    after: str
    note: str = ""

    def __str__(self) -> str:
        note = f" ({self.note})" if self.note else ""
        return f"{self.what}: {self.before} → {self.after}{note}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Headline:
    what: str
    text: Callable[[Blueprint], str]
    number: Callable[[Blueprint], float | None] = lambda _: None  # for the relative change


def diff_blueprints(before: Blueprint, after: Blueprint) -> tuple[Change, ...]:
    """Return the changes from one blueprint to the other; none if their hashes are equal."""
    if blueprint_hash(before) == blueprint_hash(after):
        return ()
    changes = [change for headline in HEADLINES for change in _changed(headline, before, after)]
    before_tree = blueprint_tree(before)
    after_tree = blueprint_tree(after)
    for key in ("workload", "machine", "chip", "option"):
        changes += _leaf_changes(key, before_tree.get(key), after_tree.get(key))
    unique = tuple(dict.fromkeys(changes))
    if len(unique) <= MAX_CHANGES:
        return unique
    rest = len(unique) - MAX_CHANGES
    more = Change(what="and more", before=f"{rest} other values", after="changed")
    return (*unique[:MAX_CHANGES], more)


def _changed(headline: _Headline, before: Blueprint, after: Blueprint) -> Iterator[Change]:
    old_text = headline.text(before)
    new_text = headline.text(after)
    if old_text == new_text:
        return
    old = headline.number(before)
    new = headline.number(after)
    note = f"{new / old - 1:+.0%}" if old and new is not None else ""
    yield Change(what=headline.what, before=old_text or "none", after=new_text or "none", note=note)


def _layout(blueprint: Blueprint) -> str:
    layout = blueprint.option.arrangement
    if layout is None:
        return ""
    sizes = {
        "TP": layout.tp,
        "PP": layout.pp,
        "CP": layout.cp,
        "DP": layout.dp,
        "EP": layout.ep,
    }
    return " ".join(f"{name}{size}" for name, size in sizes.items() if size > 1) or "one chip"


def _usd(blueprint: Blueprint) -> float | None:
    return blueprint.bill.usd if blueprint.bill else None


def _shown(value: float | None, dimension: Dimension) -> str:
    return UNKNOWN if value is None else show(value, dimension)


def _fabric(blueprint: Blueprint) -> str:
    fabric = blueprint.fabric
    if fabric is None:
        return ""
    size = fabric.size
    switches = f"{size.leaves} leaves, {size.spines} spines, {size.cores} cores"
    return f"{switches} ({fabric.demand.leaf})"


def _evidence(kind: str, *severities: str) -> Callable[[Blueprint], str]:
    return lambda blueprint: "; ".join(
        f"{row.name}: {row.what}"
        for row in blueprint.evidence
        if row.kind == kind and (not severities or row.severity in severities)
    )


HEADLINES: tuple[_Headline, ...] = (
    _Headline(what="task", text=lambda it: it.workload.task),
    _Headline(what="machine type", text=lambda it: it.machine.name),
    _Headline(
        what="machines",
        text=lambda it: f"{it.machine_count:,}",
        number=lambda it: float(it.machine_count),
    ),
    _Headline(what="layout", text=_layout),
    _Headline(what="precision", text=lambda it: it.option.precision),
    _Headline(what="consumption", text=lambda it: it.consumption or "on-premises"),
    _Headline(
        what="time", text=lambda it: show(it.expected_s, DURATION), number=lambda it: it.expected_s
    ),
    _Headline(
        what="rate",
        text=lambda it: _shown(it.usd_per_hour, PRICE_PER_HOUR),
        number=lambda it: it.usd_per_hour,
    ),
    _Headline(what="cost", text=lambda it: _shown(_usd(it), MONEY), number=_usd),
    _Headline(what="price date", text=lambda it: it.priced.isoformat() if it.priced else ""),
    _Headline(what="fabric", text=_fabric),
    _Headline(what="findings", text=_evidence("finding", "error", "warning")),
    _Headline(what="simulations", text=_evidence("simulation")),
)


def _leaf_changes(path: str, before: Plain, after: Plain) -> Iterator[Change]:
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys((*before, *after)):
            yield from _leaf_changes(f"{path}.{key}", before.get(key), after.get(key))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from _leaf_changes(f"{path}[{index}]", old, new)
    else:
        yield Change(what=path, before=_value_text(path, before), after=_value_text(path, after))


def _value_text(path: str, value: Plain) -> str:
    # The suffix of a key names its unit; the longest suffix wins.
    if value is None:
        return "none"
    if isinstance(value, dict):
        return f"{len(value)} keys"
    if isinstance(value, list):
        return f"{len(value)} items"
    if isinstance(value, str | bool):
        return str(value)
    matching = [row for row in DIMENSIONS if row.suffix and path.endswith(row.suffix)]
    if not matching:
        return f"{value:,}"
    return show(value, max(matching, key=lambda row: len(row.suffix)))
