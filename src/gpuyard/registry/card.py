"""The model card of a version as Markdown: what it is, its lineage and its metrics."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from gpuyard.registry.bundle import Metric, ModelBundle, ModelLineage, Tensor
from gpuyard.units import BYTES, COUNT, show


def card_text(
    name: str,
    version: int,
    created_s: float,
    bundle: ModelBundle,
    metrics: tuple[Metric, ...],
    lineage: ModelLineage,
) -> str:
    """Return the card of one version; intended use and limits are left for people to write."""
    day = datetime.datetime.fromtimestamp(created_s, tz=datetime.UTC).date().isoformat()
    head = [
        ("kind", bundle.kind),
        ("trainer", bundle.trainer),
        ("framework", bundle.framework),
        ("parameters", show(bundle.parameters_count, COUNT) if bundle.parameters_count else ""),
        ("size", show(bundle.size_bytes, BYTES)),
        ("registered", day),
        ("classes", _classes(bundle.classes)),
    ]
    parts = [
        f"# {name}, version {version}",
        _table(("", ""), [(key, value) for key, value in head if value]),
        "## Intended use\n\nNot written yet: who may use this model, for what, and for what not.",
        "## Metrics\n\n" + _metrics(metrics),
        "## Inputs and outputs\n\n"
        + _table(
            ("", "name", "type", "shape"),
            [
                *(("in", *_tensor(tensor)) for tensor in bundle.inputs),
                *(("out", *_tensor(tensor)) for tensor in bundle.outputs),
            ],
        ),
        "## Lineage\n\n" + _lineage(lineage),
        "## Limits\n\nNot written yet: where it fails, and what the data does not cover.",
    ]
    return "\n\n".join(parts) + "\n"


def _classes(classes: tuple[str, ...]) -> str:
    more = f" … ({len(classes)} in all)" if len(classes) > 8 else ""
    return ", ".join(classes[:8]) + more


def _metrics(metrics: tuple[Metric, ...]) -> str:
    if not metrics:
        return "No metrics recorded."
    rows = []
    for metric in metrics:
        known = metric.low is not None and metric.high is not None
        rows.append(
            (
                metric.name,
                f"{metric.value:.6g}",
                f"{metric.low:.4g} to {metric.high:.4g}" if known else "",
            )
        )
    return _table(("metric", "value", "95 % interval"), rows)


def _tensor(tensor: Tensor) -> tuple[str, str, str]:
    shape = " × ".join("rows" if size == -1 else str(size) for size in tensor.shape)
    return tensor.name, tensor.dtype, shape


def _lineage(lineage: ModelLineage) -> str:
    rows = [
        ("data", lineage.data),
        ("transform", lineage.transform),
        ("code", lineage.code),
        ("run", lineage.run),
        ("parent", lineage.parent),
    ]
    parts = [
        _table(
            ("", ""),
            [(key, f"`{value}`") for key, value in rows if value] or [("", "not recorded")],
        )
    ]
    for title, tags in (("Parameters", lineage.parameters), ("Environment", lineage.environment)):
        if tags:
            rows = [(tag.name, tag.value) for tag in tags]
            parts.append(f"### {title}\n\n" + _table(("name", "value"), rows))
    return "\n\n".join(parts)


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    def line(cells: tuple[str, ...]) -> str:
        # A bar or a line break inside a cell would end it.
        escaped = (cell.replace("|", "\\|").replace("\n", " ") for cell in cells)
        return "| " + " | ".join(escaped) + " |"

    return "\n".join([line(head), "|" + "---|" * len(head), *(line(row) for row in rows)])
