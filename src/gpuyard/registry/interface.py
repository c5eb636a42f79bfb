"""Whether clients of one model version can use another: inputs, outputs and classes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuyard.errors import choices_text
from gpuyard.registry.bundle import ModelBundle, Tensor


def interface_difference(first: ModelBundle, second: ModelBundle) -> str:
    """Return how the second version's requests or answers differ; empty if clients see none.

    An integer input that becomes a float is no difference: integers are accepted for floats.
    """
    return "; ".join(_differences(first, second))


def _differences(first: ModelBundle, second: ModelBundle) -> Iterator[str]:
    if first.kind != second.kind:
        yield f"it is a {second.kind} model, not {first.kind}"
    yield from _tensors("input", first.inputs, second.inputs)
    yield from _tensors("output", first.outputs, second.outputs)
    if first.classes != second.classes:
        yield f"its classes are {choices_text(second.classes)}"


def _tensors(what: str, first: Sequence[Tensor], second: Sequence[Tensor]) -> Iterator[str]:
    before, after = ({item.name: item for item in items} for items in (first, second))
    added = [name for name in after if name not in before]
    removed = [name for name in before if name not in after]
    if added:
        yield f"{what} {choices_text(added)} is new"
    if removed:
        yield f"{what} {choices_text(removed)} is gone"
    for name, item in before.items():
        other = after.get(name)
        if other is None:
            continue
        widened = what == "input" and "int" in item.dtype and other.dtype.startswith("float")
        if item.dtype != other.dtype and not widened:
            yield f"{what} {name} is {other.dtype}, not {item.dtype}"
        if item.shape != other.shape:
            yield f"{what} {name} has the shape {list(other.shape)}, not {list(item.shape)}"
