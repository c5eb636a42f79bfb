"""Fitted constants of the training model; data/calibration.toml has meaning, unit and bounds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingConstants:
    """Physical quantities; data/calibration.toml documents the meaning, unit and bounds."""

    gemm_wave_ratio: float
    hbm_ratio: float
    attention_ratio_ampere: float
    attention_ratio_hopper: float
    attention_ratio_blackwell: float
    attention_ratio_tpu: float
    exponential_exposed: float
    flash2_ratio: float
    unaligned_ratio: float
    score_bytes: float
    cast_ratio: float
    launch_s: float
    launch_moe_s: float
    grouped_low_ratio: float
    step_s: float
    scaleup_ratio: float
    nic_ratio: float
    scaleup_latency_s: float
    nic_latency_s: float
    tp_exposed: float
    dp_exposed: float
    contention: float
    p2p_exposed: float
    ultra_ratio: float
    straggler: float
    slice_straggler: float
    broadcast_s: float
    moe_pass_ratio: float
    a2a_exposed: float
    grouped_fused_ratio: float
    expert_bias_passes: float
    launch_expert_s: float
    launch_overlap_ratio: float
