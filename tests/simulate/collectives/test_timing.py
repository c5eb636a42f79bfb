"""The NCCL time model: its algebra, its reading of published rows, and its errors against them."""

from __future__ import annotations

import csv
import math
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.simulate.collectives.bus import bus_factor
from gpuyard.simulate.collectives.constants import CONSTANTS_PATH, read_constants
from gpuyard.simulate.collectives.published_collectives import MeasuredCollective, read_measured
from gpuyard.simulate.collectives.score import score_collectives
from gpuyard.simulate.collectives.timing import RankTopology, collective_time

C = read_constants()
ROWS = list(
    csv.DictReader(
        (Path(__file__).parent / "nccl_rows.csv").read_text(encoding="utf-8").splitlines()
    )
)
H100 = RankTopology(
    domains=2,
    domain_chips=8,
    generation="hopper",
    scale_up_bytes_per_s=450e9,
    nic_bytes_per_s=50e9,
    technology="rdma",
)
NAMES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "send", "broadcast")
clusters = st.builds(
    RankTopology,
    domains=st.sampled_from([1, 2, 3, 8, 128]),
    domain_chips=st.sampled_from([2, 4, 8, 72]),
    generation=st.sampled_from(["ampere", "hopper", "blackwell"]),
    scale_up_bytes_per_s=st.sampled_from([300e9, 450e9, 900e9]),
    nic_bytes_per_s=st.sampled_from([6.25e9, 25e9, 50e9]),
    technology=st.sampled_from(["rdma", "tcpxo", "tcpx", "efa", "efa1"]),
)


@given(clusters, st.sampled_from(NAMES))
@settings(max_examples=80, deadline=None)
def test_parts_add_up_and_larger_is_never_faster(cluster, name) -> None:
    sizes = np.geomspace(1, 1e11, 60)
    timing = collective_time(cluster, name, sizes, C)
    assert (np.diff(timing.time_s) >= 0).all()
    assert (timing.latency_s > 0).all()
    np.testing.assert_allclose(timing.latency_s + timing.transfer_s + timing.fill_s, timing.time_s)
    assert timing.choice.max() < len(timing.names)


@given(clusters, st.sampled_from(NAMES), st.floats(1.0, 4.0))
@settings(max_examples=60, deadline=None)
def test_wider_links_are_never_slower(cluster, name, times) -> None:
    sizes = np.geomspace(1e3, 1e10, 20)
    wide = replace(
        cluster,
        nic_bytes_per_s=cluster.nic_bytes_per_s * times,
        scale_up_bytes_per_s=cluster.scale_up_bytes_per_s * times,
    )
    assert (
        collective_time(wide, name, sizes, C).time_s
        <= collective_time(cluster, name, sizes, C).time_s * (1 + 1e-12)
    ).all()


def test_small_messages_take_the_low_latency_protocol_and_large_ones_the_switch() -> None:
    timing = collective_time(H100, "all-reduce", np.array([1e3, 8e9]), C)
    small, large = (timing.names[k] for k in timing.choice)
    assert small.endswith("ll")
    assert large == "nvls simple"
    bus = bus_factor("all-reduce", 16) * 8e9 / timing.time_s[1]
    assert bus == pytest.approx(470e9, rel=0.05)  # what two H100 servers with 8 x 400 Gb/s reach


def test_every_constant_has_a_meaning_and_standard_error() -> None:
    table = tomllib.loads(CONSTANTS_PATH.read_text(encoding="utf-8"))
    assert len(table) < 40
    for name, cell in table.items():
        assert cell["meaning"], name
        assert cell["unit"], name
        if "spread" in cell:
            assert 0.0 < cell["value"] < 0.99 * cell.get("limit", math.inf), name
            assert 0.0 < cell["standard_error"] < 1.2 * cell["value"], name


def test_row_text_selects_system() -> None:
    base = {
        "collective": "all_reduce",
        "size_bytes": "8589934592",
        "time_us": "33605",
        "algbw_GBps": "",
        "busbw_GBps": "479.28",
        "source": "",
        "note": "",
    }

    def read(**cells):
        measured, refused = read_measured([base | cells])
        return measured[0].cluster if measured else refused[0].why

    aws = read(system="AWS p4d.24xlarge (A100 x8)", fabric="EFA 4x100 Gb/s", nodes="2", gpus="16")
    assert (aws.technology, aws.generation, aws.nic_bytes_per_s) == ("efa1", "ampere", 6.25e9)
    mega = read(
        system="GCP A3 Mega (H100 x8)", fabric="GPUDirect-TCPXO 1.8 Tb/s/node", nodes="2", gpus="16"
    )
    assert (mega.technology, mega.nic_bytes_per_s, mega.domains) == ("tcpxo", 25e9, 2)
    b200 = read(system="GCP A4 (B200 x8)", fabric="RoCE 8x400 Gb/s", nodes="2", gpus="16")
    assert (b200.technology, b200.generation, b200.nic_bytes_per_s) == ("rdma", "blackwell", 50e9)
    racks = read(
        system="CoreWeave GB200 20 racks", fabric="NVLink5 + IB 400G", nodes="360", gpus="1440"
    )
    assert (racks.domains, racks.domain_chips, racks.nic_bytes_per_s) == (20, 72, 50e9)
    assert "not stated" in str(read(system="somewhere", fabric="", nodes="2", gpus="16"))
    assert "single" in str(
        read(system="H100 x8", fabric="", nodes="2", gpus="16", busbw_GBps="46-48")
    )
    assert read(system="H100", fabric="", nodes="1", gpus="1") == "one chip alone sends nothing"


def test_what_a_note_says_of_algorithm_and_program_counts() -> None:
    base = {
        "system": "8x H200 node",
        "fabric": "NVLink 4",
        "nodes": "1",
        "gpus": "8",
        "collective": "all_reduce",
        "size_bytes": "8589934592",
        "time_us": "31774",
        "busbw_GBps": "473.1",
        "note": "",
    }

    def read(note: str) -> MeasuredCollective:
        measured, _ = read_measured([base | {"note": note}])
        return measured[0]

    assert read("").cluster.sums_in_switch
    assert not read("NCCL_NVLS_ENABLE=0 set").cluster.sums_in_switch
    assert not read("ring, NVLS off").cluster.sums_in_switch
    assert read("ring, NVLS off").algorithm == "ring"
    assert read("NCCL_ALGO=Tree").algorithm == "tree"
    assert read("all_reduce_bench.py, 8 ranks").host == "torch"
    assert read("nccl-tests all_reduce_perf -g 8 -n 50").host == "threads"
    score = score_collectives([base, base | {"note": "NCCL_NVLS_ENABLE=0"}])
    assert score.rows[1].predicted_s > 1.1 * score.rows[0].predicted_s


def test_published_bandwidths_are_met() -> None:
    score = score_collectives(ROWS)
    assert score.overall.rows > 140
    overall, measured = score.overall, score.measured
    assert overall.mean_abs_error is not None
    assert overall.bias is not None
    assert measured.mean_abs_error is not None
    assert measured.median_abs_error is not None
    assert overall.mean_abs_error < 0.095  # every third published row; all of them: 7.9 %
    assert measured.mean_abs_error < 0.095
    assert measured.median_abs_error < 0.05
    assert abs(overall.bias) < 0.05
    assert sum(group.errors.rows for group in score.by_system) == overall.rows
    assert sum(group.errors.rows for group in score.by_collective) == overall.rows
    assert len(score.refused) + score.overall.rows == len(ROWS)


def test_bandwidth_with_one_digit_is_an_interval() -> None:
    row = {
        "system": "AWS p4d.24xlarge (A100 x8)",
        "fabric": "EFA 4x100 Gb/s",
        "nodes": "2",
        "gpus": "16",
        "collective": "all_reduce",
        "size_bytes": "1024",
        "time_us": "",
        "algbw_GBps": "",
        "busbw_GBps": "0.01",
        "source": "",
        "note": "",
    }
    score = score_collectives([row])
    assert score.coarse_count == 1
    assert score.rows[0].error == 0.0
