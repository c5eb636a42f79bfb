"""Weight and KV-cache dtypes to serve a model with on a chip."""

from __future__ import annotations

from collections.abc import Sequence

from gpuyard.catalog.checkpoints import Checkpoint
from gpuyard.catalog.chips import Chip
from gpuyard.catalog.load import Catalog
from gpuyard.catalog.models import Model
from gpuyard.errors import InputError
from gpuyard.perf.inference.chip import ServingChip
from gpuyard.perf.inference.precision import FORMATS, KvFormat, Precision, WeightFormat
from gpuyard.workload.requirements import PrecisionName
from gpuyard.workload.workload import Workload

NARROW = ("int4-weights", "nvfp4")  # not mxfp4, in which some models are published


def native(model: Model, checkpoints: Sequence[Checkpoint]) -> Precision | None:
    """Return the dtype in which the maker publishes the model, if it is not 16 bits."""
    row = next((row for row in checkpoints if row.model == model.name and row.native), None)
    if row is None:
        return None
    return Precision(weights=row.format, attention="bf16" if row.format == "mxfp4" else None)


def keeps_numerics(
    workload: Workload, precision: Precision, chip: Chip | None, catalog: Catalog
) -> bool:
    """Weights of fewer than 8 bits and fp16 only where the file or the checkpoint says so."""
    pinned = workload.pinned is not None and workload.pinned.weights is not None
    if pinned or workload.requirements.precision is not None or workload.model is None:
        return True
    own = native(workload.model, catalog.checkpoints)
    if own is not None and own.weights == precision.weights:
        return True
    has_bf16 = chip is None or chip.dense.bf16_flop_per_s is not None
    return has_bf16 and precision.weights not in NARROW


def formats(
    model: Model,
    chip: Chip,
    serving: ServingChip,
    requested: PrecisionName | None,
    checkpoints: Sequence[Checkpoint] = (),
) -> tuple[Precision, ...]:
    """Return the dtypes to try; an fp8 KV cache only with weights of 8 bits or fewer."""
    own = native(model, checkpoints)
    published = frozenset(row.format for row in checkpoints if row.model == model.name)
    # The maker publishes 4 bits for Blackwell next to the 8-bit format (DeepSeek-R1-FP4).
    kvs: tuple[KvFormat, ...] = (
        ("bf16", "fp8") if chip.dense.fp8_flop_per_s or chip.kind == "tpu" else ("bf16",)
    )
    if requested is not None:
        candidates = _requested(requested, own, published)
    elif own is not None:
        candidates = (own,)
        if "nvfp4" in published and chip.dense.fp4_flop_per_s:
            candidates = (own, Precision(weights="nvfp4", attention="bf16"))
    else:
        eight = _eight_bits(published) if _has_fp8(chip) else "int8"
        candidates = (Precision(), Precision(weights=eight))
    results = []
    for item in candidates:
        narrow = item.weights != "bf16"
        for kv in kvs if narrow else ("bf16",):
            results.append(Precision(weights=item.weights, attention=item.attention, kv=kv))
    return tuple(item for item in results if _runs(item, serving))


def four_bits(chip: Chip, serving: ServingChip) -> tuple[Precision, ...]:
    """Return 4-bit weights, for machines that hold no wider dtype."""
    if chip.kind != "gpu":
        return ()
    candidate = (
        Precision(weights="nvfp4", kv="fp8")
        if chip.dense.fp4_flop_per_s
        else Precision(weights="int4-weights")
    )
    return (candidate,) if _runs(candidate, serving) else ()


def _has_fp8(chip: Chip) -> bool:
    """True if fp8 units are faster than bf16 ones; TPU v6e counts fp8 at the rate of bf16."""
    fp8 = chip.dense.fp8_flop_per_s
    return fp8 is not None and fp8 != chip.dense.bf16_flop_per_s


def _eight_bits(published: frozenset[str]) -> WeightFormat:
    return "fp8-block" if "fp8-block" in published and "fp8" not in published else "fp8"


def _requested(
    requested: PrecisionName, own: Precision | None, published: frozenset[str]
) -> tuple[Precision, ...]:
    if requested in ("bf16", "fp16"):
        return (Precision(),)
    if requested == "fp8":
        return (
            own
            if own and own.weights == "fp8-block"
            else Precision(weights=_eight_bits(published)),
        )
    if requested == "int8":
        return (Precision(weights="int8"),)
    if requested == "fp4":
        return (own if own and own.weights == "mxfp4" else Precision(weights="nvfp4"),)
    raise InputError.one(
        "requirements.precision",
        f"serving engines do not support {requested}",
        "use bf16, fp8, int8 or fp4, or remove it",
    )


def _runs(precision: Precision, serving: ServingChip) -> bool:
    """True if the chip has matrix units for every dtype."""
    names = {precision.weights, precision.projections, "bf16"}
    return all(any(serving.peak_flop_per_s(peak) for peak in FORMATS[name].peaks) for name in names)
