"""What changed between two blueprints, in words: the headlines first, then every other value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.blueprint.saved import blueprint_hash, blueprint_tree
from gpuyard.document import Plain
from gpuyard.units import DIMENSIONS, DURATION, MONEY, PRICE_PER_HOUR, show

__all__ = ["Change", "diff_blueprints"]

MOST_CHANGES = 40  # beyond that, people look at the files


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One value that is not the same."""

    what: str
    before: str
    after: str
    note: str = ""

    def __str__(self) -> str:
        note = f" ({self.note})" if self.note else ""
        return f"{self.what}: {self.before} → {self.after}{note}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Headline:
    """A value that people ask for first: its name, its text, and the number by which it grew."""

    what: str
    text: Callable[[Blueprint], str]
    number: Callable[[Blueprint], float | None] = lambda _: None


def diff_blueprints(before: Blueprint, after: Blueprint) -> tuple[Change, ...]:
    """The changes from one to the other; none where their hashes are the same."""
    if blueprint_hash(before) == blueprint_hash(after):
        return ()
    changes = [change for headline in HEADLINES for change in _changed(headline, before, after)]
    for key in ("workload", "machine", "chip", "option"):
        changes += _leaves(key, blueprint_tree(before).get(key), blueprint_tree(after).get(key))
    told = tuple(dict.fromkeys(changes))
    if len(told) <= MOST_CHANGES:
        return told
    rest = Change(what="and more", before=f"{len(told) - MOST_CHANGES} other values", after="changed")
    return (*told[:MOST_CHANGES], rest)


def _changed(headline: _Headline, before: Blueprint, after: Blueprint) -> Iterator[Change]:
    """A headline that is not the same, with how much it grew."""
    one, two = headline.text(before), headline.text(after)
    if one == two:
        return
    was, now = headline.number(before), headline.number(after)
    note = f"{now / was - 1:+.0%}" if was and now is not None else ""
    yield Change(what=headline.what, before=one or "none", after=two or "none", note=note)


def _layout(blueprint: Blueprint) -> str:
    """The degrees of parallelism as engineers write them."""
    spread = blueprint.option.arrangement
    if spread is None:
        return ""
    degrees = (("TP", spread.tp), ("PP", spread.pp), ("CP", spread.cp), ("DP", spread.dp), ("EP", spread.ep))
    return " ".join(f"{name}{degree}" for name, degree in degrees if degree > 1) or "one chip"


def _usd(blueprint: Blueprint) -> float | None:
    """What the run costs."""
    return blueprint.bill.usd if blueprint.bill else None


def _fabric(blueprint: Blueprint) -> str:
    """The fabric in a few words."""
    fabric = blueprint.fabric
    if fabric is None:
        return ""
    return f"{fabric.size.leaves} leaves, {fabric.size.spines} spines, {fabric.size.cores} cores ({fabric.demand.leaf})"


def _proofs(kind: str, *severities: str) -> Callable[[Blueprint], str]:
    """The proofs of a kind as a text."""
    return lambda blueprint: "; ".join(
        f"{proof.name}: {proof.what}"
        for proof in blueprint.proofs
        if proof.kind == kind and (not severities or proof.severity in severities)
    )


def _money(value: float | None) -> str:
    """An amount, or that it is not known."""
    return "not known" if value is None else show(value, MONEY)


HEADLINES: tuple[_Headline, ...] = (
    _Headline(what="task", text=lambda it: it.workload.task),
    _Headline(what="machine type", text=lambda it: it.machine.name),
    _Headline(what="machines", text=lambda it: f"{it.machine_count:,}", number=lambda it: float(it.machine_count)),
    _Headline(what="layout", text=_layout),
    _Headline(what="precision", text=lambda it: it.option.precision),
    _Headline(what="way of paying", text=lambda it: it.way or "bought"),
    _Headline(what="time", text=lambda it: show(it.expected_s, DURATION), number=lambda it: it.expected_s),
    _Headline(
        what="rate",
        text=lambda it: "not known" if it.usd_per_hour is None else show(it.usd_per_hour, PRICE_PER_HOUR),
        number=lambda it: it.usd_per_hour,
    ),
    _Headline(what="cost", text=lambda it: _money(_usd(it)), number=_usd),
    _Headline(what="prices of", text=lambda it: it.priced.isoformat() if it.priced else ""),
    _Headline(what="fabric", text=_fabric),
    _Headline(what="findings", text=_proofs("finding", "error", "warning")),
    _Headline(what="simulations", text=_proofs("simulation")),
)


def _leaves(path: str, before: Plain, after: Plain) -> Iterator[Change]:
    """Every scalar that is not the same, by its path."""
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys((*before, *after)):
            yield from _leaves(f"{path}.{key}", before.get(key), after.get(key))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (one, two) in enumerate(zip(before, after, strict=True)):
            yield from _leaves(f"{path}[{index}]", one, two)
    else:
        yield Change(what=path, before=_said(path, before), after=_said(path, after))


def _said(path: str, value: Plain) -> str:
    """A value as people write it, by the unit in its name."""
    if value is None:
        return "none"
    if isinstance(value, dict | list):
        return f"{len(value)} {'keys' if isinstance(value, dict) else 'items'}"
    if isinstance(value, int | float) and not isinstance(value, bool):
        suffixes = sorted((item for item in DIMENSIONS if item.suffix), key=lambda item: -len(item.suffix))
        for dimension in suffixes:
            if path.endswith(dimension.suffix):
                return show(value, dimension)
        return f"{value:,}"
    return str(value)
