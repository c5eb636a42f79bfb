"""Rows of published serving runs as cases."""

from __future__ import annotations

import pytest

from gpuyard.catalog.load import load_catalog
from gpuyard.perf.inference.benchmark_load import output_tokens_per_s
from gpuyard.perf.inference.case import ServingBenchmark, ServingBenchmarks
from gpuyard.perf.inference.layout import ReplicaLayout
from gpuyard.perf.inference.published_serving import read_cases
from gpuyard.perf.inference.run_columns import Row, counted_in_chips, integer, layout_of, pools_of

CATALOG = load_catalog()
BASE = {
    "id": "x-1", "tier": "A", "model": "Llama-3.1-70B", "layers": "80", "hidden": "8192", "heads": "64", "kv_heads": "8",
    "head_dim": "128", "ffn": "28672", "vocab": "128256", "moe": "", "weights_prec": "fp8", "act_prec": "fp8",
    "kv_prec": "", "chip": "H100-SXM-80GB", "n_chips": "4", "tp": "4", "pp": "1", "ep": "", "dp": "", "disagg": "",
    "engine": "vLLM", "engine_ver": "0.19.0", "scenario": "fixed concurrency", "batch": "", "concurrency": "64", "qps": "",
    "n_requests": "", "input_len": "1024", "output_len": "1024", "len_note": "", "notes": "", "date": "2026-01-01",
    "out_tok_s_total": "", "ttft_ms_mean": "100", "tpot_ms_mean": "20", "itl_ms_mean": "", "e2e_ms_mean": "", "dup_of": "",
}  # fmt: skip
DEEPSEEK = "256e top8 + 1 shared; expert ffn 2048; first 3 layers dense; MLA kv_lora 512 + rope 64"


def row(**cells: str) -> Row:
    """A row with some cells changed."""
    return {**BASE, **cells}


def read(**cells: str) -> ServingBenchmarks:
    """The cases of one row."""
    return read_cases([row(**cells)], CATALOG)


def case(**cells: str) -> ServingBenchmark:
    """The case of one row that is supported."""
    found = read(**cells)
    assert not found.unsupported, found.unsupported
    return found.cases[0]


def test_repeats_and_rows_of_little_trust_are_left_out() -> None:
    assert read(dup_of="x-2").rows == 0
    assert read(tier="D").rows == 0


@pytest.mark.parametrize(
    ("cells", "why"),
    [
        ({"layers": ""}, "missing: layers"),
        ({"chip": "Cerebras"}, "unknown chip"),
        ({"engine": "MLC"}, "unknown engine"),
        ({"input_len": ""}, "missing: lengths"),
        ({"concurrency": "none"}, "invalid cell"),
        ({"n_chips": "1", "tp": "1", "weights_prec": "bf16"}, "exceed the memory"),
        (
            {"disagg": "prefill x(tp4 pp1 dp1 ep1 bs) decode x(tp8 pp1 dp1 ep1 bs)"},
            "number of replicas",
        ),
        ({"notes": "samples/s only (GPT-J beam search 4)"}, "beam search"),
        ({"tpot_ms_mean": "4"}, "faster than the memory"),
        ({"notes": "system DGX-H100_MaxQ"}, "power cap"),
        (
            {
                "chip": "GH200-120GB",
                "tp": "2",
                "n_chips": "2",
                "engine": "TensorRT-LLM",
                "engine_ver": "0.13.0",
            },
            "two superchips",
        ),
        (
            {"scenario": "static batch", "moe": "8e top2", "engine": "TensorRT-LLM", "batch": "16"},
            "sequences of a static batch",
        ),
        (
            {"scenario": "static batch", "batch": "1", "out_tok_s_total": "400"},
            "faster than the memory",
        ),
        (
            {"chip": "TPU-v5e", "engine": "JetStream-PyTorch", "dp": "8", "tp": ""},
            "data-parallel ranks",
        ),
        (
            {
                "scenario": "offline max-throughput",
                "out_tok_s_total": "200000",
                "input_len": "8192",
            },
            "faster than the memory",
        ),
    ],
)
def test_unsupported_row_names_reason(cells: dict[str, str], why: str) -> None:
    found = read(**cells)
    assert found.rows == 1
    assert why in found.unsupported[0][1]


def test_slower_superchip_is_identified_by_its_releases() -> None:
    cells = {
        "chip": "GH200-120GB",
        "tp": "4",
        "n_chips": "4",
        "engine": "TensorRT-LLM",
        "scenario": "offline max-throughput",
        "concurrency": "",
    }
    before, slow = (case(**cells, engine_ver=version).chip for version in ("0.11.0", "0.13.0"))
    assert slow.fp8_flop_per_s == pytest.approx(0.88 * before.fp8_flop_per_s)
    assert slow.memory_bytes_per_s == before.memory_bytes_per_s
    assert slow.memory_bytes == pytest.approx(before.memory_bytes - 6.6e9, rel=0.001)
    assert slow.counts_as == before.name


def test_jetstream_reports_slot_length() -> None:
    note = "ShareGPT, 2000 prompts; max input 1024, max output 1024, cache 1280; mean lengths not stated"
    found = case(
        chip="TPU-v5e",
        engine="JetStream-PyTorch",
        engine_ver="",
        n_chips="16",
        tp="16",
        batch="96",
        scenario="offline max-throughput",
        concurrency="",
        len_note=note,
        weights_prec="bf16",
    )
    assert (found.engine.slot_tokens, found.load.slots) == (1280, 96)


def test_inferencex_lengths_are_uniform_below_the_nominal_ones() -> None:
    load = case(len_note="nominal; mean about 0.9x (range_ratio 0.8)").load
    assert (load.low_ratio, load.requests, load.users) == (0.8, 640, 64)


def test_clients_that_choose_among_few_prompts_are_served_from_the_cache() -> None:
    cells = {"scenario": "server (open loop)", "qps": "8"}
    assert case(**cells).load.hit_ratio == 0.0
    assert case(**cells, len_note="shared-prefix workload").load.hit_ratio == 0.9


@pytest.mark.parametrize(
    ("version", "date", "era"),
    [
        ("TensorRT 9.3.0, CUDA 12.2", "2024-03", "trt-mlperf-4"),
        ("TensorRT 10.2.0, CUDA 12.4", "2024-08", "trt-mlperf"),
        ("", "2025-09", "trt-mlperf-5"),
        ("", "2026-04", "trt-mlperf-6"),
    ],
)
def test_mlperf_runs_are_of_their_round(version: str, date: str, era: str) -> None:
    found = case(
        scenario="MLPerf Offline",
        model="Llama-2-70B",
        engine="TensorRT-LLM",
        engine_ver=version,
        date=date,
        tp="",
    )
    assert found.engine.name == era


def test_deepseek_in_mlperf_was_the_pytorch_backends_from_the_start() -> None:
    cells = {
        "scenario": "MLPerf Offline",
        "model": "DeepSeek-R1",
        "moe": DEEPSEEK,
        "layers": "61",
        "hidden": "7168",
        "heads": "128",
        "ffn": "18432",
        "vocab": "129280",
        "chip": "B200-SXM-180GB",
        "n_chips": "8",
        "tp": "",
        "engine": "TensorRT-LLM",
        "engine_ver": "",
        "weights_prec": "fp4",
    }
    first, later = case(**cells, date="2025-09").engine, case(**cells, date="2026-04").engine
    assert (first.runtime, later.runtime) == ("trt-torch", "trt-torch")
    assert first.code != later.code


def submitted(**cells: str) -> ServingBenchmark:
    """A run of MLPerf, by what it says."""
    base = {
        "scenario": "MLPerf Offline",
        "model": "Llama-2-70B",
        "engine": "TensorRT-LLM",
        "engine_ver": "",
        "tp": "",
        "vocab": "32000",
        "date": "2025-09",
        "n_chips": "8",
        "input_len": "222",
        "output_len": "292",
        "notes": "Server: p99 TTFT<=2000ms, TPOT<=200ms; Interactive: 450ms/40ms",
    }
    return case(**{**base, **cells})


@pytest.mark.parametrize(
    ("cells", "layout", "sequences", "budget", "ratio"),
    [
        ({"source_ver": "v4.0", "chip": "H100-SXM-80GB"}, ReplicaLayout(tp=2), 896, 4096, 0.9),
        ({"source_ver": "v4.1", "chip": "H200-SXM-141GB"}, ReplicaLayout(tp=1), 806, 4096, 0.9),
        ({"source_ver": "v5.1", "chip": "H200-SXM-141GB"}, ReplicaLayout(tp=1), 2048, 1536, 0.9),
        (
            {"source_ver": "v5.1", "chip": "B200", "weights_prec": "fp4"},
            ReplicaLayout(tp=1),
            2048,
            3584,
            0.95,
        ),
    ],
)
def test_mlperf_runs_are_set_up_as_they_were_submitted(
    cells: dict[str, str], layout: ReplicaLayout, sequences: int, budget: int, ratio: float
) -> None:
    found = submitted(**cells)
    assert found.layouts == ((layout, 8 // layout.tp),)
    assert (found.engine.sequence_count, found.engine.budget_tokens) == (sequences, budget)
    assert (found.engine.memory_ratio, found.engine.chunks) == (
        ratio,
        cells["source_ver"] == "v5.1",
    )
    assert found.load.run_s == 2400.0


def test_interactive_submission_takes_fewer_tokens_per_step() -> None:
    cells = {"source_ver": "v5.1", "chip": "B200", "weights_prec": "fp4"}
    found = submitted(scenario="MLPerf Interactive", **cells)
    assert (found.engine.sequence_count, found.engine.budget_tokens, found.load.run_s) == (
        768,
        768,
        1200.0,
    )


def test_submission_with_unknown_or_indivisible_layout_may_use_any() -> None:
    assert submitted(source_ver="v4.1", n_chips="9").layouts == (
        (ReplicaLayout(tp=1), 9),
    )  # two do not divide it
    assert len(submitted(source_ver="v3.1").layouts) > 1


def test_resubmission_uses_settings_of_previous_round() -> None:
    cells = {
        "model": "Mixtral-8x7B",
        "layers": "32",
        "hidden": "4096",
        "heads": "32",
        "ffn": "14336",
        "date": "2026-04",
        "moe": "8e top2",
        "weights_prec": "",
        "chip": "RTX-PRO-6000-SE",
        "source_ver": "v6.0",
    }
    found = submitted(**cells)
    assert (found.engine.name, found.precision.weights) == ("trt-mlperf-5", "fp8")


def test_deepseek_round_sets_requests_per_rank() -> None:
    cells = {
        "model": "DeepSeek-R1",
        "moe": DEEPSEEK,
        "layers": "61",
        "hidden": "7168",
        "heads": "128",
        "ffn": "18432",
        "vocab": "129280",
        "chip": "B200",
        "weights_prec": "fp4",
        "output_len": "3700",
    }
    first, later = (
        submitted(source_ver="v5.1", **cells),
        submitted(source_ver="v6.0", **cells | {"date": "2026-04"}),
    )
    assert first.layouts == ((ReplicaLayout(ep=8, attention_dp=8), 1),)
    assert (first.load.requests, later.load.requests) == (8 * 3291, 8 * 8776)


def test_outputs_of_the_small_llama_in_mlperf_are_as_long_as_may_be() -> None:
    small = {
        "model": "Llama-3.1-8B",
        "layers": "32",
        "hidden": "4096",
        "heads": "32",
        "ffn": "14336",
    }
    assert submitted(output_len="81.63", **small).load.output_tokens == 128


def test_submission_without_engine_counts_as_vllm() -> None:
    assert (
        submitted(engine="CUDA 12.2", engine_ver="CUDA 12.2", date="2024-08").engine.family
        == "vllm"
    )


def test_experts_ran_in_triton_until_the_recipe_let_others() -> None:
    cells = {
        "model": "MiniMax-M2.5",
        "layers": "62",
        "hidden": "3072",
        "heads": "48",
        "ffn": "1536",
        "vocab": "200064",
        "moe": "256e top8; expert ffn 1536",
        "chip": "B200",
        "notes": "InferenceX",
        "weights_prec": "fp8",
    }
    before, after = (
        case(date=date, **cells).engine.experts for date in ("2026-03-28", "2026-04-03")
    )
    assert (before, after) == ("triton", "")


def series(times: dict[int, str], **cells: str) -> ServingBenchmarks:
    """Closed loops of one setting: users and their time a token."""
    rows = [
        row(id=f"x-{users}", concurrency=str(users), tpot_ms_mean=token, **cells)
        for users, token in times.items()
    ]
    return read_cases(rows, CATALOG)


def test_series_with_faster_tokens_at_more_users_is_excluded() -> None:
    assert not series({8: "20", 16: "16", 32: "24"}).unsupported  # a fifth sooner: noise
    found = series({8: "20", 16: "60", 32: "30"})
    assert [name for name, _ in found.unsupported] == ["x-16", "x-32", "x-8"]
    assert "contradicts itself" in found.unsupported[0][1]
    other = read_cases(
        [
            row(id="x-1", tpot_ms_mean="60"),
            row(id="x-2", concurrency="128", tpot_ms_mean="30", tp="2", n_chips="2"),
        ],
        CATALOG,
    )
    assert not other.unsupported  # other chips: another series


@pytest.mark.parametrize(
    ("rates", "aside"),
    [
        (("83", "747", "741"), True),
        (("300", "747", "741"), False),
        (("83", "747"), False),
        (("83", "741", "9"), False),
    ],
)
def test_figure_far_from_other_releases_is_a_misprint(rates: tuple[str, ...], aside: bool) -> None:
    cells = {
        "engine": "TensorRT-LLM",
        "scenario": "offline max-throughput",
        "concurrency": "",
        "date": "2024-09-01",
    }
    rows = [
        row(id=f"x-{k}", engine_ver=f"0.{11 + k}.0", out_tok_s_total=rate, **cells)
        for k, rate in enumerate(rates)
    ]
    found = read_cases(rows, CATALOG).unsupported
    assert [name for name, why in found if "every other release" in why] == (
        ["x-0"] if aside else []
    )


@pytest.mark.parametrize("text", ["1e999", "inf", "nan", "x"])
def test_integer_that_is_not_finite_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=text):
        integer({"pp": text}, "pp")


def test_architectures_come_from_the_columns() -> None:
    shape = case(
        model="DeepSeek-R1",
        layers="61",
        hidden="7168",
        heads="128",
        ffn="18432",
        vocab="129280",
        moe=DEEPSEEK,
        n_chips="8",
        tp="8",
        chip="H200-SXM-141GB",
    ).shape
    assert shape.parameters == pytest.approx(671e9, rel=0.01)
    assert (shape.expert_layers, shape.shared_ffn, shape.kv_rank) == (58, 2048, 512)
    moe = "128e top4; expert ffn 2880; alternating 128-token sliding window"
    windowed = case(
        model="gpt-oss-120b",
        layers="36",
        hidden="2880",
        ffn="2880",
        moe=moe,
        vocab="201088",
        head_dim="64",
    )
    assert (windowed.shape.window_layers, windowed.precision.weights) == (18, "mxfp4")


def test_degrees_that_a_table_multiplied_are_the_same_chips() -> None:
    both = layout_of(row(n_chips="64", tp="64", ep="8", dp="1", notes="moe_tp 8"))
    assert both is not None
    assert (both[0].tp, both[0].ep, both[0].chips) == (8, 8, 8)
    doubled = {"n_chips": "16", "tp": "4", "ep": "16", "dp": "4", "notes": "moe_tp 1"}
    apart = layout_of(row(**doubled, weights_prec="nvfp4"))
    assert apart is not None
    assert (apart[0].tp, apart[0].attention_dp, apart[0].ep, apart[0].chips) == (1, 4, 4, 4)
    plain = layout_of(row(**doubled))  # scripts of such runs have no attention data parallelism
    assert plain is not None
    assert (plain[0].tp, plain[0].attention_dp, plain[0].ep, plain[0].chips) == (4, 1, 4, 4)


def test_pools_are_read_from_their_description() -> None:
    found = pools_of(row(disagg="prefill 3x(tp1 pp1 dp8 ep8 bs1) decode 1x(tp8 pp1 dp1 ep8 bs128)"))
    assert found is not None
    (prefill, many), (decode, one) = found
    assert (many, prefill.attention_dp, prefill.ep, one, decode.tp, decode.ep) == (3, 8, 8, 1, 8, 8)


def test_offline_runs_are_set_up_as_their_release_did() -> None:
    found = case(
        engine="TensorRT-LLM",
        engine_ver="0.13.0",
        scenario="offline max-throughput",
        model="Llama-3.1-70B",
        tp="2",
        n_chips="2",
        input_len="128",
        output_len="2048",
        concurrency="",
        n_requests="3000",
        date="2024-10-01",
    )
    assert (found.engine.name, found.engine.sequence_count, found.engine.budget_tokens) == (
        "trt-bench",
        256,
        1024,
    )
    later = case(
        engine="TensorRT-LLM",
        engine_ver="0.17.0",
        scenario="offline max-throughput",
        concurrency="",
        date="2025-01-01",
    )
    assert later.engine.tuned
    assert later.load.requests == 3000
    large = {
        "model": "Llama-3.1-405B",
        "layers": "126",
        "hidden": "16384",
        "heads": "128",
        "ffn": "53248",
        "tp": "8",
        "n_chips": "8",
        "chip": "H200",
        "engine": "TensorRT-LLM",
        "scenario": "offline max-throughput",
        "input_len": "500",
        "output_len": "2000",
        "concurrency": "",
    }
    limits = {version: case(engine_ver=version, **large).engine for version in ("0.13.0", "0.14.0")}
    assert [(e.sequence_count, e.budget_tokens) for e in limits.values()] == [
        (320, 512),
        (1024, 2048),
    ]
    spare = [
        case(engine_ver=version, **large).engine.spare_logits
        for version in ("0.12.0", "0.13.0", "0.14.0")
    ]
    assert spare == [2, 1, 0]
    unlisted = large | {"input_len": "1024", "output_len": "2048", "n_requests": ""}
    assert (
        case(engine_ver="0.19 (PyTorch)", **unlisted).load.requests == 1500
    )  # as 1000 and 2000 beside it


def test_graphs_of_offline_runs_have_the_sizes_of_their_release() -> None:
    cells = {
        "engine": "TensorRT-LLM",
        "scenario": "offline max-throughput",
        "concurrency": "",
        "chip": "H200",
        "tp": "1",
        "n_chips": "1",
        "input_len": "128",
        "output_len": "2048",
        "date": "2025-06-01",
    }
    before, after = (
        case(engine_ver=version, **cells).engine for version in ("0.20 (PyTorch)", "0.21 (PyTorch)")
    )
    assert (before.graph_sequences, after.graph_sequences) == (128, 224)  # of a batch of 224


def test_mlperf_server_has_limits_of_its_notes() -> None:
    found = case(
        engine="TensorRT-LLM",
        scenario="MLPerf Server",
        tp="",
        engine_ver="TensorRT 10.2",
        model="Llama-2-70B",
        notes="Server: p99 TTFT<=2000ms, TPOT<=200ms; Interactive: 450ms/40ms",
    )
    assert (found.load.ceiling.ttft_s, found.load.ceiling.tpot_s) == (2.0, 0.2)
    assert found.load.requests == 24576
    assert len(found.layouts) > 1


def test_summaries_of_mlperf_are_a_search_over_four_beams_within_a_time() -> None:
    cells = {
        "engine": "TensorRT-LLM",
        "model": "GPT-J-6B",
        "layers": "28",
        "hidden": "4096",
        "heads": "16",
        "kv_heads": "16",
        "head_dim": "256",
        "ffn": "16384",
        "vocab": "50401",
        "tp": "",
        "n_chips": "8",
        "engine_ver": "TensorRT 10.2.0, CUDA 12.4",
        "source_ver": "v4.1",
        "input_len": "",
        "output_len": "",
        "req_s": "288",
        "out_tok_s_total": "",
        "notes": "samples/s only (GPT-J beam search 4)",
    }
    server = case(scenario="MLPerf Server", chip="H100-SXM-80GB", **cells)
    assert (server.engine.beams, server.engine.sequence_count, server.load.ceiling.e2e_s) == (
        4,
        256,
        20.0,
    )
    assert output_tokens_per_s(server.row) == 288 * 69
    chips = ("H100-SXM-80GB", "H200-SXM-141GB", "L40S", "GH200")
    offline = [case(scenario="MLPerf Offline", chip=chip, **cells) for chip in chips]
    assert [found.engine.sequence_count for found in offline] == [192, 396, 100, 480]


def test_run_never_exceeds_memory_bandwidth() -> None:
    weights, cache = (
        70.6e9 - 2 * 128256 * 8192 / 2,
        64 * 1536 * 80 * 2 * 8 * 128,
    )  # without embeddings; in fp8
    least_ms = (weights + cache) / (4 * 3.35e12) * 1e3
    assert read(tpot_ms_mean=f"{1.05 * least_ms}").cases
    assert not read(tpot_ms_mean=f"{0.93 * least_ms}").cases


def test_faster_of_two_equal_deepseek_runs_is_speculative() -> None:
    cells = {
        "model": "DeepSeek-R1",
        "layers": "61",
        "hidden": "7168",
        "heads": "128",
        "ffn": "18432",
        "vocab": "129280",
        "moe": DEEPSEEK,
        "n_chips": "8",
        "tp": "8",
        "chip": "H200-SXM-141GB",
    }
    slow, fast = (
        row(**{**cells, "tpot_ms_mean": "40"}),
        row(**{**cells, "id": "x-2", "tpot_ms_mean": "28"}),
    )
    found = read_cases([slow, fast, row(id="x-3", tpot_ms_mean="14")], CATALOG)
    assert [name for name, _ in found.unsupported] == ["x-2"]
    assert "speculative" in found.unsupported[0][1]
    near = row(**{**cells, "id": "x-2", "tpot_ms_mean": "36"})
    assert not read_cases([slow, near], CATALOG).unsupported


def test_clients_of_equal_requests_desynchronise() -> None:
    assert (case().load.variation, case().load.drift_tokens) == ((0.0, 0.0), 2)


def test_generated_run_has_room_for_one_prompt_and_its_users() -> None:
    cells = {
        "source": "ai-dynamo/aiconfigurator silicon_sample.csv",
        "batch": "8",
        "concurrency": "8",
    }
    trt = case(**cells, engine="TensorRT-LLM", engine_ver="1.0.0rc3").engine
    assert (trt.budget_tokens, trt.sequence_count, trt.memory_ratio, trt.tuned) == (
        1024 + 1500 + 8,
        8,
        0.8,
        False,
    )
    assert case(**cells).engine.budget_tokens == 1024 + 1500 + 8
    sglang = case(**cells, engine="SGLang", engine_ver="0.5.6").engine
    assert (sglang.budget_tokens, sglang.mixes) == (3 * 1024 + 8, True)
    assert case(**cells, notes="InferenceX origin").engine.budget_tokens == 8192


def test_run_with_public_recipe_uses_its_settings() -> None:
    cells = {
        "engine": "TensorRT-LLM",
        "engine_ver": "",
        "date": "2025-10-29",
        "notes": "InferenceX origin",
    }
    waits = case(**cells)
    assert (waits.load.wait_steps, waits.engine.sequence_count, waits.engine.tuned) == (
        20,
        2048,
        False,
    )
    assert case(**cells, output_len="8192").load.wait_steps == 0
    assert case(**cells, tp="8", n_chips="8").load.wait_steps == 0
    assert case(**{**cells, "notes": ""}).engine.tuned
    other = case(engine="vLLM", engine_ver="", date="2025-10-29", notes="InferenceX origin")
    assert (other.precision.kv, other.engine.sequence_count) == ("fp8", 512)
    assert other.engine.overlaps
    assert not case(engine="vLLM", engine_ver="0.12.0").engine.overlaps


def test_llama_4_reads_little_beyond_a_chunk() -> None:
    moe = "16e top1 + 1 shared; expert ffn 8192"
    shape = case(
        model="Llama-4-Scout",
        layers="48",
        hidden="5120",
        heads="40",
        ffn="8192",
        vocab="202048",
        moe=moe,
    ).shape
    assert (shape.window_layers, shape.full_layers, shape.window_tokens) == (36, 12, 4096)


def test_cards_with_two_gpus_and_chips_with_two_cores_count_as_chips() -> None:
    dual = counted_in_chips(row(n_chips="4", notes="1-node-4x-BMG-Pro-B60-Dual"))
    assert dual["n_chips"] == "8"
    cores = counted_in_chips(row(tp="24", len_note="TP degree counts NeuronCores (2 a chip)"))
    assert cores["tp"] == "12"
    assert counted_in_chips(row()) == row()


def test_a_rate_of_several_kinds_of_chips_is_not_supported() -> None:
    assert "several chip types" in read(chip="mixed MI300X+MI325X").unsupported[0][1]


def test_amd_submissions_run_vllm_at_the_stated_rate() -> None:
    server = case(
        chip="MI355X", n_chips="8", tp="", engine="", engine_ver="PyTorch 2.9.1, ROCm 7.0.0",
        scenario="MLPerf Server", model="Llama-2-70B", weights_prec="fp4", qps="360", date="2026-04",
        input_len="222", output_len="283", notes="Server: TTFT<=2000ms TPOT<=200ms", source_ver="v6.0",
    )  # fmt: skip
    assert server.engine.name == "vllm-async"
    assert server.load.rate_per_s == 360.0
    assert server.chip.fp4_flop_per_s > server.chip.fp8_flop_per_s > 0.0
    assert not server.chip.calibrated
