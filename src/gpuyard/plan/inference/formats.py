"""Number formats to serve a model in on a chip: those it is published in, sixteen and eight bits, four where asked."""

from __future__ import annotations

from gpuyard.catalog import Chip, Model
from gpuyard.errors import InputError
from gpuyard.perf.inference import KvFormat, Precision, ServingChip
from gpuyard.perf.inference.precision import FORMATS
from gpuyard.workload import Precision as Asked

__all__ = ["formats", "four_bits", "native"]

# Checkpoints that are published quantised (their model cards): the format that needs no step of one's own.
NATIVE: tuple[tuple[str, Precision], ...] = (
    ("gpt-oss", Precision(weights="mxfp4", attention="bf16")),
    ("deepseek-v3", Precision(weights="fp8-block")),
    ("deepseek-r1", Precision(weights="fp8-block")),
    ("kimi-k2", Precision(weights="fp8-block")),
)


def native(model: Model) -> Precision | None:
    """The format of the published checkpoint, where it is not sixteen bits."""
    return next((precision for prefix, precision in NATIVE if model.name.startswith(prefix)), None)


def formats(model: Model, chip: Chip, serving: ServingChip, asked: Asked | None) -> tuple[Precision, ...]:
    """The formats worth trying on the chip; KV in eight bits only beside weights of eight bits or fewer."""
    own = native(model)
    kvs: tuple[KvFormat, ...] = ("bf16", "fp8") if chip.dense.fp8_flop_per_s or chip.kind == "tpu" else ("bf16",)
    if asked is not None:
        wanted = _asked(asked, own)
    elif own is not None:
        wanted = (own,)
    else:
        eight = "fp8" if chip.dense.fp8_flop_per_s else "int8"
        wanted = (Precision(), Precision(weights=eight))  # type: ignore[arg-type]
    found = []
    for item in wanted:
        narrow = item.weights != "bf16"
        for kv in kvs if narrow else ("bf16",):
            found.append(Precision(weights=item.weights, attention=item.attention, kv=kv))
    return tuple(item for item in found if _runs(item, serving))


def four_bits(model: Model, chip: Chip, serving: ServingChip) -> tuple[Precision, ...]:
    """Weights in four bits, for machines that hold the model in nothing wider."""
    if chip.kind != "gpu" or native(model) is not None:
        return ()
    wanted = Precision(weights="nvfp4", kv="fp8") if chip.dense.fp4_flop_per_s else Precision(weights="int4-weights")
    return (wanted,) if _runs(wanted, serving) else ()


def _asked(asked: Asked, own: Precision | None) -> tuple[Precision, ...]:
    """What the file's precision means for serving."""
    if asked in ("bf16", "fp16"):
        return (Precision(),)
    if asked == "fp8":
        return (own if own and own.weights == "fp8-block" else Precision(weights="fp8"),)
    if asked == "int8":
        return (Precision(weights="int8"),)
    if asked == "fp4":
        return (own if own and own.weights == "mxfp4" else Precision(weights="nvfp4"),)
    raise InputError.one(
        "requirements.precision", f"serving engines do not run {asked}", "use bf16, fp8, int8 or fp4, or leave it out"
    )


def _runs(precision: Precision, serving: ServingChip) -> bool:
    """True when the chip has cores for each of the formats."""
    names = {precision.weights, precision.projections, "bf16"}
    return all(any(serving.peak_flop_per_s(peak) for peak in FORMATS[name].peaks) for name in names)
