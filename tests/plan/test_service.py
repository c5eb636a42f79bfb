"""Saved services: keys of earlier releases are still read."""

from __future__ import annotations

from gpuyard.document.encode import load_json
from gpuyard.plan.service import Autoscaling, FrontierPoint, PrefillPool, layout_text


def test_autoscaling_reads_former_keys() -> None:
    text = (
        '{"least_replicas": 1, "most_replicas": 4, "metric": "requests", "target": 8,'
        ' "requests_per_s": 2.0}'
    )
    scaling = load_json(text, Autoscaling)
    assert (scaling.min_replicas, scaling.max_replicas) == (1, 4)


def test_prefill_pool_reads_former_keys() -> None:
    text = (
        '{"replicas": 2, "chips_per_replica": 4, "most_sequences_count": 16,'
        ' "budget_tokens": 8192, "prompt_s": 0.5, "handover_s": 0.1,'
        ' "engine": {"name": "vllm", "label": "vLLM", "command": []}, "router": "r"}'
    )
    pool = load_json(text, PrefillPool)
    assert (pool.max_sequences_count, pool.prefill_s, pool.kv_transfer_s) == (16, 0.5, 0.1)


def test_frontier_point_reads_former_key() -> None:
    text = (
        '{"chip": "h100-sxm", "tp": 8, "pp": 1, "ep": 8, "attention_dp": 1, "weights": "fp8",'
        ' "kv": "fp8", "engine": "vllm", "sequences_count": 64, "tokens_per_s_per_chip": 1.0,'
        ' "tokens_per_s_per_user": 1.0, "on_front": true}'
    )
    point = load_json(text, FrontierPoint)
    assert point.on_pareto_front
    assert point.layout == layout_text(8, 1, 8, 1) == "TP8 EP8"
