"""Every reader, given 10,000 mutated files in all: a result or a proper error, never anything else."""

from __future__ import annotations

from pathlib import Path

import pytest

from .fuzz import fuzz
from .targets import TARGETS, FuzzTarget

TRIES = 10_000


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_reader_refuses_what_it_cannot_read(target: FuzzTarget, tmp_path: Path) -> None:
    share = TRIES * target.weight // sum(target.weight for target in TARGETS) + 1
    report = fuzz(target, share, tmp_path)
    assert not report.failures, "\n".join(
        f"{failure.target} {failure.seed}: {failure.what}" for failure in report.failures
    )


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_seed_files_are_accepted(target: FuzzTarget, tmp_path: Path) -> None:
    for seed in target.seeds():
        path = tmp_path / f"input{target.suffix}"
        path.write_bytes(seed)
        target.read(path)
