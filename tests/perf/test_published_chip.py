"""Chip names of published tables in one spelling."""

from __future__ import annotations

import pytest

from gpuyard.perf.published_chip import published_chip


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("H100-SXM-80GB", "H100-SXM-80GB"),
        ("A100 (memory unstated)", "A100 (memory unstated)"),
        ("MI355X (1000W cap)", "MI355X (1000W cap)"),
        ("NVIDIA H100 80GB HBM3", "H100-80GB-HBM3"),
        ("8x H200", "H200"),
        ("mi300x", "MI300X"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX-PRO-6000"),
        ("tpu-v5e", "TPU v5e"),
        ("TPU-v7x (Ironwood)", "TPU7x (Ironwood)"),
        ("Trainium", "Trainium1"),
        ("Trn2", "Trainium2"),
        ("mixed MI300X+MI325X", "mixed MI300X+MI325X"),
        ("NVIDIA", "NVIDIA"),
        ("", ""),
    ],
)
def test_one_spelling_per_chip(text: str, name: str) -> None:
    assert published_chip(text) == name


def test_spelling_is_stable() -> None:
    for text in ("TPU v6e", "GB300 NVL72", "Arc Pro B60", "Rubin"):
        assert published_chip(published_chip(text)) == published_chip(text)
