"""Rows of published runs: awkward cells, cells left out, and rows that cannot be modelled."""

from __future__ import annotations

import math

import pytest

from gpuyard.perf.chip_kernels import Precision, silicon_named
from gpuyard.perf.profiles import find_profile
from gpuyard.perf.published_run import (
    Row,
    architecture_cells,
    layout_cells,
    network_cells,
    number,
    precision_of,
    recompute_cells,
    selective_cells,
    unsupported_reason,
)
from gpuyard.perf.run_columns import COLUMNS, filled

from .cases import CATALOG

SHAPE = {
    "layers": "32",
    "hidden": "4096",
    "heads": "32",
    "kv_heads": "8",
    "ffn": "14336",
    "gated_ffn": "1",
    "vocab": "128256",
}
RUN = {
    "arch_type": "dense",
    "seq_len": "8192",
    "chip": "H100-80GB",
    "n_chips": "64",
    "global_batch": "512",
    "task": "pretrain",
    "framework": "NeMo",
    "measured_on": "2025-03",
}


def row(**cells: str) -> Row:
    """A run of Llama 3 8B with some cells of its own."""
    return dict.fromkeys(COLUMNS, "") | {"model": "Llama3-8B"} | SHAPE | RUN | cells


def spread(profile: str = "nemo-25", **cells: str) -> dict[str, float]:
    """Its layout."""
    given_row = row(**cells)
    return layout_cells(given_row, architecture_cells(given_row), find_profile(profile))


@pytest.mark.parametrize(
    ("text", "precision"),
    [
        ("bf16", "bf16"),
        ("fp16", "bf16"),  # the same rate
        ("", "bf16"),
        ("amp_bf16 (MP DEFAULT)", "bf16"),
        ("amp_fp8 (MP DEFAULT)", "fp8"),
        ("fp8-cs", "fp8"),
        ("fp8 tensorwise", "fp8"),
        ("fp8 rowwise", "fp8-row"),
        ("fp8-mx", "mxfp8"),
        ("MXFP8", "mxfp8"),
        ("nvfp4 or fp8 (both configs shipped)", "nvfp4"),
        ("fp8 (config without _fp4)", "fp8"),
        ("fp8/int8 (see recipe)", "int8"),
        ("int8 (quantization=int8)", "int8"),
    ],
)
def test_words_of_precision(text: str, precision: Precision) -> None:
    assert precision_of(text) == precision


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ({}, ""),
        ({"arch_type": "hybrid/other"}, "architecture: hybrid or other"),
        (
            {"notes": "slow: known regression in this container"},
            "the source reports a performance regression of the container",
        ),
        ({"vocab": ""}, "missing: vocab"),
        ({"layers": "", "global_batch": ""}, "missing: layers, global_batch"),
        ({"tp": "3"}, "tp x pp x cp does not divide n_chips"),
    ],
)
def test_why_a_row_cannot_be_modelled(cells: dict[str, str], reason: str) -> None:
    assert unsupported_reason(row(**cells)) == reason


def test_numbers() -> None:
    assert number(row(), "layers") == 32.0
    assert math.isnan(number(row(), "mem_gb_per_chip"))
    assert number(row(), "tp", 1.0) == 1.0
    assert number(row(gated_ffn="0"), "gated_ffn") == 0.0
    for text in ("abc", "-1", "nan", "inf", "0"):
        with pytest.raises(ValueError, match=r".+"):
            number(row(n_chips=text), "n_chips")


def test_missing_layout_degrees_are_derived() -> None:
    found = spread(tp="4", pp="2", micro_batch="2")
    assert (found["dp"], found["grad_accum"]) == (8.0, 32.0)
    assert found["dp"] * found["micro_batch"] * found["grad_accum"] == 512.0
    assert found["chips"] == found["tp"] * found["pp"] * found["cp"] * found["dp"]


def test_missing_micro_batch_is_derived() -> None:
    assert spread()["micro_batch"] == 1.0
    assert spread(micro_batch="64")["micro_batch"] == 8.0  # a rank has no more samples than that
    titan = spread("torchtitan-compile", framework="torchtitan 4D", pp="4", global_batch="512")
    assert titan["micro_batch"] == 8.0  # as many micro-batches as stages
    tpu = spread("maxtext-tpu-2025", framework="MaxText (JAX)", chip="TPU v5p", micro_batch="1")
    assert (tpu["micro_batch"], tpu["grad_accum"]) == (8.0, 1.0)  # all of it in one pass


def test_missing_virtual_stages() -> None:
    assert spread(pp="4")["virtual_pipeline"] == 8.0  # NeMo's recipes interleave every layer
    assert spread(pp="4", vpp="2")["virtual_pipeline"] == 2.0
    assert spread(vpp="2")["virtual_pipeline"] == 1.0  # no pipeline
    assert spread("megatron-2021", framework="Megatron-LM", pp="4")["virtual_pipeline"] == 1.0
    assert spread("hai-llm-2024", framework="HAI-LLM DualPipe", pp="4")["virtual_pipeline"] == 2.0


@pytest.mark.parametrize(
    ("text", "profile", "framework", "fsdp", "ranks"),
    [
        ("FSDP FULL_SHARD (zero3)", "composer-fsdp-2023", "Composer", 1.0, 64.0),
        ("FSDP 16", "maxtext-tpu-2025", "MaxText (JAX)", 1.0, 16.0),
        ("FSDP 64 x EP 4", "maxtext-tpu-2025", "MaxText (JAX)", 1.0, 64.0),
        (
            "FSDP 256 x 2 (DCN fsdp)",
            "maxtext-tpu-2025",
            "MaxText (JAX)",
            1.0,
            64.0,
        ),  # no more ranks than there are
        ("", "maxtext-tpu-2025", "MaxText (JAX)", 1.0, 64.0),
        (
            "256-way fully sharded DP x 12-way model parallel",
            "pathways-2022",
            "Pathways/T5X",
            1.0,
            64.0,
        ),
        ("FSDP SHARD_GRAD_OP (zero2)", "composer-fsdp-2023", "Composer", 1.0, 64.0),
        ("zero3", "deepspeed-zero3-2021", "DeepSpeed ZeRO-3", 1.0, 64.0),
        ("zero1", "megatron-deepspeed-2022", "Megatron-DeepSpeed", 0.0, 64.0),
        ("zero1 within 8 GPUs", "internevo-2023", "InternEvo", 0.0, 8.0),
        ("zero1 all-DP", "internevo-2023", "InternEvo", 0.0, 64.0),
        ("DDP/dist-opt", "nemo-25", "NeMo", 0.0, 64.0),
        ("", "nemo-25", "NeMo", 0.0, 64.0),  # what the profile does
        ("zero0", "nanotron", "nanotron v0.5", 0.0, 1.0),
        ("0", "megatron-2021", "Megatron-LM", 0.0, 1.0),
    ],
)
def test_words_of_sharding(
    text: str, profile: str, framework: str, fsdp: float, ranks: float
) -> None:
    found = spread(profile, framework=framework, zero_or_fsdp=text)
    assert (found["fsdp"], found["shard_ranks"]) == (fsdp, ranks)


@pytest.mark.parametrize(
    ("chip", "text", "domain", "board", "nic_bits_per_s"),
    [
        ("H100-80GB", "", 8, 8, 400e9),
        ("H100-80GB", "NVLink8; 8x400Gb/s/node", 8, 8, 400e9),
        ("A100-80GB", "Selene DGX A100: NVLink3 600GB/s, 8x200Gb/s HDR IB/node", 8, 8, 200e9),
        ("A100-80GB", "1600 Gbps/node RoCE", 8, 8, 200e9),
        ("A100", "800 Gbps/node inter (configs); 150 GB/s intra in configs", 8, 8, 100e9),
        ("A100-80GB", "4x100Gb RoCE/node", 8, 8, 50e9),
        ("A100-80GB", "4x OmniPath 100G per node", 8, 4, 50e9),
        ("H100-80GB", "RoCE 400 Gbps/GPU, 3-layer Clos (24K GPU cluster)", 8, 8, 400e9),
        ("H100-80GB", "NVLink8; 200 Gb/s RDMA per GPU", 8, 8, 200e9),
        ("GB200", "NVL72", 72, 72, 400e9),
        (
            "TPU v5e",
            "4 slice(s) of 256 chips; ICI inside, DCN data-parallel across slices",
            256,
            256,
            25e9,
        ),
        ("TPU v6e", "1 slice(s) x 64 chips", 64, 64, 50e9),
    ],
)
def test_words_of_the_network(
    chip: str, text: str, domain: float, board: float, nic_bits_per_s: float
) -> None:
    silicon = silicon_named(chip)
    assert silicon
    found = network_cells(row(chip=chip, network=text, chips_per_node="8"), silicon)
    assert found == (domain, board, nic_bits_per_s / 8)


@pytest.mark.parametrize(
    ("policy", "flash", "gemm", "attention", "elementwise"),
    [
        ("full", True, 1.0, 1.0, 1.0),
        ("none", True, 0.0, 0.0, 0.0),
        ("", True, 0.0, 0.0, 0.0),
        ("selective", True, 0.5, 0.0, 1.0),  # torchtitan: every other product
        ("selective", False, 0.0, 1.0, 0.0),  # Megatron: attention
        ("minimal", True, 0.0, 0.0, 1.0),
    ],
)
def test_words_of_recomputation(
    policy: str, flash: bool, gemm: float, attention: float, elementwise: float
) -> None:
    given_row = row(recompute=policy)
    found = recompute_cells(given_row, architecture_cells(given_row), flash)
    shares = (found["recompute_gemm"], found["recompute_attention"], found["recompute_elementwise"])
    assert shares == (gemm, attention, elementwise)


def test_megatrons_modules() -> None:
    arch = architecture_cells(
        row(model="DeepSeek-V3", moe_experts="256", moe_topk="8", moe_ffn="2048", moe_shared="1")
    )
    none, up, attention = (
        selective_cells(arch, modules) for modules in ((), ("mla_up_proj",), ("core_attn",))
    )
    assert set(none.values()) == {0.0}
    assert 0.0 < up["recompute_gemm"] < 0.5
    assert (attention["recompute_attention"], attention["recompute_gemm"]) == (1.0, 0.0)


def test_policies_that_keep_some_products() -> None:
    """XLA drops the last product of a recomputed layer; a policy keeps the projections that it names."""
    shares = []
    for policy in (
        "full",
        "custom: decoder input+qkv offloaded to host",
        "custom: decoder input, out_proj, qkv offloaded",
    ):
        given_row = row(recompute=policy, framework="MaxText (JAX)", chip="TPU v6e")
        shares.append(
            recompute_cells(given_row, architecture_cells(given_row), True)["recompute_gemm"]
        )
    assert 1.0 > shares[0] > shares[1] > shares[2] > 0.0


def test_facts_of_model_families() -> None:
    shape = {
        "layers": "61",
        "moe_experts": "256",
        "moe_topk": "8",
        "moe_ffn": "2048",
        "moe_shared": "1",
    }
    deepseek = architecture_cells(row(model="DeepSeek-V3", framework="Own", **shape))
    assert (deepseek["kv_rank"], deepseek["qk_head_dim"], deepseek["head_dim"]) == (
        512.0,
        192.0,
        128.0,
    )
    assert (deepseek["moe_layers"], deepseek["shared_ffn_hidden"], deepseek["mtp"]) == (
        58.0,
        2048.0,
        0.0,
    )
    trained = architecture_cells(
        row(model="DeepSeek-V3", **shape)
    )  # NeMo's recipe predicts one more token
    assert (trained["layers"], trained["moe_layers"], trained["mtp"]) == (62.0, 59.0, 1.0)
    assert architecture_cells(row(model="GPT-OSS-120B", **shape))["expert_bias"] == 1.0
    gemma = architecture_cells(row(model="Gemma3-12B"))
    assert gemma["full_attention_ratio"] == pytest.approx(1 / 6)
    assert gemma["tied_embedding"] == 1.0
    lora = architecture_cells(row(task="LoRA"))
    assert (lora["trains_weights"], lora["attention_tokens"]) == (0.0, 512.0)
    mlperf = architecture_cells(row(task="LoRA (MLPerf)"))
    assert (mlperf["trains_weights"], mlperf["attention_tokens"]) == (
        0.0,
        8192.0,
    )  # samples as long as the sequence
    assert architecture_cells(row(notes="capacity factor 1.25; drops"))["capacity"] == 1.25


def test_model_name_fills_shape() -> None:
    found = filled(
        {
            "model": "llama-3-8b",
            "chip": "h100-sxm",
            "n_chips": "8",
            "global_batch": "64",
            "step_time_s": "1.5",
        },
        CATALOG,
    )
    assert set(found) == {*COLUMNS, "assumed"}
    assert (found["layers"], found["arch_type"], found["trust"]) == ("32", "dense", "A")
    assert found["ref_step_time_s"] == "1.5"
    assert filled({"model": "mixtral-8x7b"}, CATALOG)["arch_type"] == "moe"
    assert filled({"model": "nobody-9b"}, CATALOG)["layers"] == ""
    own = filled({"model": "llama-3-8b", "layers": "4"}, CATALOG)
    assert (own["layers"], own["hidden"]) == (
        "4",
        "",
    )  # what is described is not mixed with the catalog's
