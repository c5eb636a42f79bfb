"""Invariant of serving commands: which checkpoints count as 16-bit weights."""

from __future__ import annotations

import pytest

from ..trees import changed, check, rules, sample
from .cases import LWS


@pytest.mark.parametrize(
    ("checkpoint", "fits"),
    [
        ("openai/gpt-oss-120b", True),  # published in 4 bits only
        ("deepseek-ai/DeepSeek-R1", True),  # published in 8 bits only
        ("meta-llama/Llama-3.1-405B", False),  # published in 16 bits
    ],
)
def test_checkpoint_counts_in_the_bits_that_its_maker_publishes(
    checkpoint: str, fits: bool
) -> None:
    command = f"vllm serve {checkpoint} --tensor-parallel-size 1"
    server = changed(sample("lws.yaml"), {f"{LWS}.spec.containers[0].args": [command]})
    assert ("weights-fit" not in rules(check(server))) == fits
