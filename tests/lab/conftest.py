"""A host that can hold a lab, and labs that are always taken down."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuyard.catalog import load_catalog
from gpuyard.errors import RefusedError
from gpuyard.fabric import Demand, Fabric, design, to_json
from gpuyard.lab import remove
from gpuyard.lab.host import require
from gpuyard.lab.saved import forget


@pytest.fixture(scope="session")
def able() -> None:
    """Skips where there is no root or no FRR, unless nothing may be skipped."""
    try:
        require()
    except RefusedError as error:
        if os.environ.get("GPUYARD_REQUIRE_ALL") == "1":
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def small() -> Fabric:
    """Two stripes of two rails, two spines, four servers."""
    demand = Demand(server_count=4, nic_bits_per_s=400e9, rails=2, gpus_per_server=2, servers_per_stripe=2,
                    spine_count=2, links_per_pair=1, min_spines=1, os="frr")  # fmt: skip
    made = design(demand, load_catalog())
    assert isinstance(made, Fabric)
    return made


@pytest.fixture
def saved(small: Fabric, tmp_path: Path) -> Path:
    """The fabric as a file."""
    path = tmp_path / "fabric.json"
    path.write_text(to_json(small))
    return path


@pytest.fixture
def name(able: None) -> Iterator[str]:  # noqa: ARG001
    """A name that no other lab of this host has; what is left of the lab at the end is removed."""
    label = f"t{uuid.uuid4().hex[:8]}"
    yield label
    remove(label)
    forget(label)
