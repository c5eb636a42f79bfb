"""The model card: what a version is, what it was made from and how well it does, as Markdown."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from gpuyard.registry.bundle import Bundle, Lineage, Metric, Pair, Tensor
from gpuyard.units import BYTES, COUNT, show

__all__ = ["card_text"]


def card_text(
    name: str, version: int, created_s: float, bundle: Bundle, metrics: tuple[Metric, ...], lineage: Lineage
) -> str:
    """The card of one version; sections about use and limits are left for people to write."""
    day = datetime.datetime.fromtimestamp(created_s, tz=datetime.UTC).date().isoformat()
    head = [
        ("kind", bundle.kind), ("trainer", bundle.trainer), ("framework", bundle.framework),
        ("parameters", show(bundle.parameters_count, COUNT) if bundle.parameters_count else ""),
        ("size", show(bundle.size_bytes, BYTES)), ("registered", day), ("classes", _classes(bundle.classes)),
    ]  # fmt: skip
    parts = [
        f"# {name}, version {version}",
        _table(("", ""), [(key, value) for key, value in head if value]),
        "## Intended use\n\nNot written yet: who may use this model, for what, and for what not.",
        "## Measured\n\n" + _metrics(metrics),
        "## Inputs and outputs\n\n" + _table(
            ("", "name", "type", "shape"),
            [(way, *_tensor(tensor)) for way, tensors in _ways(bundle) for tensor in tensors],
        ),
        "## Made from\n\n" + _lineage(lineage),
        "## Limits\n\nNot written yet: where it fails, and what the data does not cover.",
    ]  # fmt: skip
    return "\n\n".join(parts) + "\n"


def _ways(bundle: Bundle) -> tuple[tuple[str, tuple[Tensor, ...]], ...]:
    """What goes in and what comes out."""
    return ("in", bundle.inputs), ("out", bundle.outputs)


def _classes(classes: tuple[str, ...]) -> str:
    """The first classes and how many there are."""
    return "" if not classes else ", ".join(classes[:8]) + (f" … ({len(classes)} in all)" if len(classes) > 8 else "")


def _metrics(metrics: tuple[Metric, ...]) -> str:
    """A table of what was measured."""
    if not metrics:
        return "Nothing was measured."
    rows = []
    for metric in metrics:
        known = metric.low is not None and metric.high is not None
        rows.append((metric.name, f"{metric.value:.6g}", f"{metric.low:.4g} to {metric.high:.4g}" if known else ""))
    return _table(("metric", "value", "95 % interval"), rows)


def _tensor(tensor: Tensor) -> tuple[str, str, str]:
    """Name, type and shape."""
    shape = " × ".join("rows" if size == -1 else str(size) for size in tensor.shape)
    return tensor.name, tensor.dtype, shape


def _lineage(lineage: Lineage) -> str:
    """Hashes and versions, then parameters and environment."""
    rows = [
        ("data", lineage.data), ("transform", lineage.transform), ("code", lineage.code), ("run", lineage.run),
        ("parent", lineage.parent),
    ]  # fmt: skip
    parts = [_table(("", ""), [(key, f"`{value}`") for key, value in rows if value] or [("", "not recorded")])]
    for title, pairs in (("Parameters", lineage.parameters), ("Environment", lineage.environment)):
        if pairs:
            parts.append(f"### {title}\n\n" + _table(("name", "value"), [_pair(pair) for pair in pairs]))
    return "\n\n".join(parts)


def _pair(pair: Pair) -> tuple[str, str]:
    """Name and value."""
    return pair.name, pair.value


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A Markdown table; bars and line ends inside cells are kept from breaking it."""

    def line(cells: tuple[str, ...]) -> str:
        """One row."""
        return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"

    return "\n".join([line(head), "|" + "---|" * len(head), *(line(row) for row in rows)])
