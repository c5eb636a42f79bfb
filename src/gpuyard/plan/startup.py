"""Start-up time of machines: from the first billed second to the first useful one.

A sum of four terms. Together they give the ten minutes that the catalog records for a restart of
synchronous training (row `llama-3` under interruptions, arXiv 2602.00277), of which a third each
is the machine, the container image, and the framework.
"""

from __future__ import annotations

from gpuyard.catalog.chips import Chip

# Instance, drivers, container runtime. Assumption: reports for GPU nodes of GKE range from 2 to 8
# minutes (blog.easecloud.io: scale GPU workloads on GKE, 2026-11-18); Google states no figure.
BOOT_S = 180.0
# Assumption, between serving images of 10 to 20 GB and nvcr.io/nvidia/nemo:25.04 of 29 GB
# (github.com/NVIDIA-NeMo/Speech, discussion 14172). The rate makes a pull as long as the 230 s that
# an image of deep learning took on GKE without image streaming (roastidio.us/topic/8750009).
IMAGE_S = 20e9 / 100e6
# Read from a bucket in the region, per machine: below Cloud Storage FUSE's documented rates of
# several GB/s with a file cache. An assumption.
LOAD_BYTES_PER_S = 1e9
# Process start, NCCL, torch.compile and CUDA graphs; XLA compiles whole programs. Assumptions. vLLM
# reports 39 s for 8B (#11005) and 132 s with the weights of 70B (#20402); on TPUs
# 300 s with cached graphs (pull request 6856), 400 to 630 s (tpu-inference, pull request 2415).
COMPILE_S = {"gpu": 180.0, "tpu": 300.0, "npu": 300.0, "cpu": 30.0}


def start_up_s(chip: Chip | None, weight_bytes: float) -> float:
    """Return the time to boot, pull the image, load the weights of a machine and compile."""
    return (
        BOOT_S  # instance and drivers
        + IMAGE_S  # container image
        + weight_bytes / LOAD_BYTES_PER_S  # weights
        + COMPILE_S[chip.kind if chip is not None else "cpu"]  # compile and warm up
    )
