"""A table of runs as inputs of the model: what it refuses and why, and what it completes."""

from __future__ import annotations

import csv
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from gpuyard.errors import InputError
from gpuyard.perf.layout import Architecture, Layout, Software, TrainingChip
from gpuyard.perf.runs import PublishedRuns, read_runs

from .cases import CATALOG

CURATED = Path(__file__).parent.parent / "accuracy" / "training_runs.csv"
RUN = {
    "id": "own-1",
    "model": "llama-3-8b",
    "chip": "H100-80GB",
    "n_chips": "64",
    "global_batch": "512",
    "seq_len": "8192",
    "framework": "NeMo",
    "measured_on": "2025-03",
    "step_time_s": "3.2",
}


def read(**cells: str) -> PublishedRuns:
    """One row of one's own."""
    return read_runs([RUN | cells], CATALOG)


@pytest.fixture(scope="module")
def curated() -> PublishedRuns:
    """The curated table."""
    with CURATED.open(newline="", encoding="utf-8") as file:
        return read_runs(csv.DictReader(file), CATALOG)


def test_columns_are_of_one_length_and_finite(curated: PublishedRuns) -> None:
    count = len(curated.rows)
    assert count > 150
    for kind, value in (
        (Architecture, curated.arch),
        (Layout, curated.layout),
        (TrainingChip, curated.chip),
        (Software, curated.soft),
    ):
        for field in fields(kind):
            column = getattr(value, field.name)
            assert column.shape == (count,), field.name
            assert np.isfinite(column).all(), field.name
    assert len(curated.profiles) == len(curated.precisions) == len(curated.silicon) == count


def test_layouts_hold_together(curated: PublishedRuns) -> None:
    spread = curated.layout
    np.testing.assert_allclose(spread.tp * spread.pp * spread.cp * spread.dp, spread.chips)
    batch = np.array([float(row["global_batch"]) for row in curated.rows])
    np.testing.assert_allclose(spread.dp * spread.micro_batch * spread.grad_accum, batch)
    assert (spread.shard_ranks <= spread.dp * spread.cp).all()
    for name in (
        "recompute_gemm",
        "recompute_attention",
        "recompute_elementwise",
        "recompute_comm",
    ):
        column = getattr(spread, name)
        assert ((column >= 0.0) & (column <= 1.0)).all(), name


def test_user_row_is_read() -> None:
    runs = read()
    assert runs.unsupported == ()
    assert (runs.reference_s[0], runs.arch.layers[0]) == (3.2, 32.0)
    assert np.isnan(runs.memory_bytes[0])
    assert read(mem_gb_per_chip="60").memory_bytes[0] == 60 * 2**30  # sources mean GiB


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ({"chip": "MI450X"}, "unknown chip MI450X"),
        ({"chip": "A100-80GB", "precision": "fp8"}, "no fp8 peak known for A100-80GB"),
        ({"model": "nobody-9b"}, "missing: layers"),
        ({"n_chips": "many"}, "invalid cell"),
        ({"n_chips": "0"}, "invalid cell: n_chips: 0"),
        ({"step_time_s": "fast"}, "invalid cell"),
        ({"tp": "7"}, "tp x pp x cp does not divide n_chips"),
        ({"arch_type": "hybrid/other"}, "architecture: hybrid or other"),
    ],
)
def test_refused_row_names_reason(cells: dict[str, str], reason: str) -> None:
    runs = read(**cells)
    assert len(runs.rows) == 0
    ((name, why),) = runs.unsupported
    assert name == "own-1"
    assert why.startswith(reason)


def test_trust() -> None:
    rows = [RUN | {"id": f"own-{trust}", "trust": trust} for trust in "ABC"]
    assert [row["id"] for row in read_runs(rows, CATALOG).rows] == ["own-A", "own-B"]
    assert [row["id"] for row in read_runs(rows, CATALOG, trust="A").rows] == ["own-A"]
    assert len(read_runs([], CATALOG).rows) == 0


def test_named_profile_applies_to_all_rows() -> None:
    runs = read_runs([RUN], CATALOG, profile="torchtitan-compile")
    assert runs.profiles[0].name == "torchtitan-compile"
    with pytest.raises(InputError, match="no software profile"):
        read_runs([RUN], CATALOG, profile="nobody")


@pytest.mark.parametrize(
    ("own", "published"),
    [
        ("tpu-v6e", "TPU v6e"),
        ("tpu-7x", "TPU7x Ironwood"),
        ("gb200", "GB200"),
        ("h100-sxm", "H100-80GB"),
    ],
)
def test_names_of_the_catalog_mean_the_same_chip(own: str, published: str) -> None:
    mine, theirs = (read(chip=name, framework="MaxText (JAX)") for name in (own, published))
    assert mine.unsupported == theirs.unsupported == ()
    assert mine.silicon == theirs.silicon
    assert mine.profiles == theirs.profiles
    assert mine.layout.micro_batch == theirs.layout.micro_batch
    assert mine.soft.graphs == theirs.soft.graphs


def test_silent_sources_recompute_no_more_than_they_must() -> None:
    """Dense rows that do not say: nothing where it fits, something where it cannot."""
    small = read(micro_batch="1").layout
    assert small.recompute_gemm[0] == 0.0
    large = read(
        model="llama-3-70b", tp="8", micro_batch="4", seq_len="32768", zero_or_fsdp="zero1"
    ).layout
    assert 0.0 < large.recompute_gemm[0] <= 1.0
    assert large.recompute_comm[0] == large.recompute_attention[0] == large.recompute_gemm[0]
    said = read(
        model="llama-3-70b", tp="8", micro_batch="4", seq_len="32768", recompute="none"
    ).layout
    assert said.recompute_gemm[0] == 0.0


def test_recipes_of_experts() -> None:
    cells = {
        "model": "DeepSeek-V3",
        "arch_type": "moe",
        "layers": "61",
        "hidden": "7168",
        "heads": "128",
        "ffn": "18432",
        "gated_ffn": "1",
        "vocab": "129280",
        "moe_experts": "256",
        "moe_topk": "8",
        "moe_shared": "1",
        "moe_ffn": "2048",
        "chip": "GB300",
        "precision": "mxfp8",
        "framework": "Megatron-Bridge 26.06",
        "measured_on": "2026-06",
        "seq_len": "4096",
    }
    told = read(**cells)
    assert (told.soft.fused_experts[0], told.soft.deepep[0], told.soft.graphs[0]) == (1.0, 1.0, 1.0)
    assert told.layout.expert_tensor_parallel[0] == 1.0
    bare = read(
        **(
            cells
            | {
                "framework": "NeMo",
                "measured_on": "2025-03",
                "chip": "H100-80GB",
                "precision": "fp8",
            }
        )
    )
    assert 0.0 < bare.layout.recompute_gemm[0] < 0.5  # a recipe that recomputes the up projections
    assert bare.soft.fused_experts[0] == 0.0
    said = read(
        **(
            cells
            | {"framework": "NeMo", "chip": "H100-80GB", "precision": "fp8", "recompute": "full"}
        )
    )
    assert said.layout.recompute_gemm[0] == 1.0  # what the row says wins


def test_notes_about_some_models() -> None:
    flash = read(notes="12-step runs").soft.flash[0]
    assert flash == 1.0
    assert read(notes="llama rows without flash").soft.flash[0] == 0.0
    assert read(precision="bf16 (fp32 grad acc)").soft.grad_state_bytes[0] == 6.0
