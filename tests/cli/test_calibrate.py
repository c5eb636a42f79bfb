"""`gpuyard calibrate` with a table of steps or a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuyard.cli.main import main
from gpuyard.home import Home
from gpuyard.jobs.ledger import Ledger
from gpuyard.jobs.spec import EngineSpec

EXAMPLES = Path(__file__).parents[2] / "examples"
STEPS = """model,chip,n_chips,precision,seq_len,global_batch,tp,pp,micro_batch,zero_or_fsdp,step_time_s
llama-3-70b,h100-sxm,256,bf16,8192,512,4,4,1,dist-opt,15.5
llama-3-70b,h100-sxm,512,bf16,8192,1024,4,4,1,dist-opt,15.8
"""


def test_fitted_profile_is_used_by_plan_and_accuracy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    steps, own = tmp_path / "steps.csv", tmp_path / "mine.yaml"
    steps.write_text(STEPS, encoding="utf-8")
    assert main(["calibrate", str(steps), "--output", str(own), "--json"]) == 0
    fitted = json.loads(capsys.readouterr().out)
    assert fitted["errors"]["mean_abs_error"] < 0.1
    assert main(["plan", str(EXAMPLES / "pretraining.yaml"), "--profile", str(own), "--json"]) == 0
    slow = json.loads(capsys.readouterr().out)
    assert slow["profile"] == "mine"
    assert main(["accuracy", "training", str(steps), "--profile", str(own), "--json"]) == 0
    assert abs(json.loads(capsys.readouterr().out)["bias"]) < 0.05


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a,b\n1,2\n", "not a table of training runs"),
        (b"\xff\xfe\x00", "not UTF-8 text"),
        (b"step 1 tps: ,\nelapsed time per iteration (ms): .\n", "not a table"),
        (b"model,chip,n_chips\nllama-3-8b,h100-sxm,eight\n", "no measured step to calibrate with"),
    ],
)
def test_wrong_table_exits_with_2(
    content: bytes, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "t.csv"
    file.write_bytes(content)
    assert main(["calibrate", str(file)]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "--run"),
        (["x.csv", "--run", "last"], "--run"),
        (["--run", "last", "--home", "none"], "state directory"),
    ],
)
def test_wrong_arguments_exit_with_2(
    words: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["calibrate", *words]) == 2
    assert message in capsys.readouterr().err


def test_calibrate_with_a_run_needs_a_measured_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Ledger(home=Home(path=tmp_path)).begin(
        name="iris", workload="", engine=EngineSpec(), stages=("train",)
    )
    assert main(["calibrate", "--run", "last", "--home", str(tmp_path)]) == 4
    assert "gpuyard measure" in capsys.readouterr().err


NCCL = """# Collective test starting: all_reduce_perf
# nThread 1 nGpus 1 minBytes 1048576 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20
#
# Using devices
{ranks}
#
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
  1073741824     268435456     float     sum      -1   {times[0]}  190.00  356.00      0   5590.0  190.00  356.00      0
  8589934592    2147483648     float     sum      -1   {times[1]}  204.00  383.00      0  42010.0  204.00  383.00      0
# Out of bounds values : 0 OK
"""
MEGATRON = """------------------------ arguments ------------------------
  context_parallel_size ........................... 1
  fp8 ............................................. None
  ffn_hidden_size ................................. 14336
  global_batch_size ............................... 64
  hidden_size ..................................... 4096
  micro_batch_size ................................ 1
  num_attention_heads ............................. 32
  num_layers ...................................... 32
  num_query_groups ................................ 8
  padded_vocab_size ............................... 128256
  pipeline_model_parallel_size .................... 1
  seq_length ...................................... 8192
  swiglu .......................................... True
  tensor_model_parallel_size ...................... 2
  world_size ...................................... 8
"""


def ranks(hosts: int) -> str:
    """The lines that name the GPUs."""
    return "\n".join(
        f"#  Rank {rank:2} Group  0 Pid  1{rank} on  node{rank // 8} device {rank % 8:2}"
        f" [0000:{rank % 8:02}:00] NVIDIA H100 80GB HBM3"
        for rank in range(8 * hosts)
    )


def test_output_of_nccl_tests_moves_the_constants_that_it_informs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, own = tmp_path / "all_reduce.txt", tmp_path / "net.yaml"
    log.write_text(NCCL.format(ranks=ranks(2), times=("6500.0", "50000.0")), encoding="utf-8")
    words = ["calibrate", str(log), "--network", "InfiniBand 8x400 Gb/s", "--output", str(own)]
    assert main([*words, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["format"], result["points"]) == ("nccl-tests", 2)
    assert result["error_after"] < result["error_before"]
    assert "hop_s|tcpx" not in result["moved"]
    assert 0.05 < result["interval"]["high_ratio"] < 0.5
    rows = tmp_path / "rows.csv"
    rows.write_text(
        "system,fabric,nodes,gpus,collective,size_bytes,time_us,busbw_GBps,note\n"
        "16x H100,InfiniBand 8x400 Gb/s,2,16,all_reduce,8589934592,50000,322,\n",
        encoding="utf-8",
    )
    errors = []
    for more in ([], ["--constants", str(own)]):
        assert main(["accuracy", "collectives", str(rows), *more, "--json"]) == 0
        errors.append(json.loads(capsys.readouterr().out)["mean_abs_error"])
    assert errors[1] < errors[0]
    log.write_text(
        NCCL.format(ranks=ranks(2), times=("6500.0", "50000.0")) + "NET/Socket : Using [0]eth0",
        encoding="utf-8",
    )
    assert main(["calibrate", str(log)]) == 2
    assert "TCP" in capsys.readouterr().err


@pytest.mark.parametrize(
    "steps",
    [
        "elapsed time per iteration (ms): {}",
        "train_step_timing in s: {}",
        "Step Time : {}s GPU utilization: 400 TFLOPs",
    ],
)
def test_training_log_sets_the_scalar(
    steps: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unit = 1000 if "(ms)" in steps else 1
    lines = [steps.format(seconds * unit) for seconds in (60, 8.1, 8.0, 8.0, 8.2)]
    log, own = tmp_path / "train.log", tmp_path / "mine.yaml"
    log.write_text("\n".join([MEGATRON, *lines]), encoding="utf-8")
    words = ["calibrate", str(log), "--output", str(own)]
    assert main(words) == 2
    assert "does not state the chip" in capsys.readouterr().err
    assert main([*words, "--set", "chip=h100-sxm", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["format"] == "training log"
    assert result["errors"]["rows"] == 1
    assert result["profile"]["scalar"] > 0.0
    assert result["interval"]["low_ratio"] > 0.0
    assert main([*words, "--set", "chip"]) == 2


def test_files_of_several_formats_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, table = tmp_path / "nccl.txt", tmp_path / "steps.csv"
    log.write_text(NCCL.format(ranks=ranks(1), times=("6500.0", "50000.0")), encoding="utf-8")
    table.write_text(STEPS, encoding="utf-8")
    assert main(["calibrate", str(log), str(table)]) == 2
    assert "several formats" in capsys.readouterr().err


def test_vllm_benchmark_shifts_the_constants_of_serving(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result, own = tmp_path / "bench.json", tmp_path / "serving.yaml"
    result.write_text(
        json.dumps(
            {
                "model_id": "llama-3.1-8b",
                "completed": 160,
                "max_concurrency": 16,
                "request_rate": "inf",
                "total_input_tokens": 160 * 1024,
                "total_output_tokens": 160 * 512,
                "output_throughput": 1500.0,
                "mean_ttft_ms": 120.0,
                "mean_tpot_ms": 9.5,
            }
        ),
        encoding="utf-8",
    )
    words = ["calibrate", str(result), "--output", str(own)]
    settings = ["--set", "chip=h100-sxm", "--set", "tp=1", "--set", "version=0.10"]
    assert main([*words, *settings, "--json"]) == 0
    shifted = json.loads(capsys.readouterr().out)
    assert shifted["format"] == "vLLM benchmark"
    assert {item["name"] for item in shifted["shifts"]} >= {"memory bandwidth"}
    assert 0.0 < shifted["interval"]["high_ratio"] < 2.0
    assert "serving_constants" in own.read_text(encoding="utf-8")
    assert main([*words, "--set", "version=0.10"]) == 2
