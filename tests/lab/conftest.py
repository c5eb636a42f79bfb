"""Fixtures: a host that can run a lab, and labs that are always removed."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuyard.catalog.load import load_catalog
from gpuyard.errors import ExternalError
from gpuyard.fabric.demand import Demand
from gpuyard.fabric.design import design
from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.saved import to_json
from gpuyard.lab.boot import remove
from gpuyard.lab.host import require, tool
from gpuyard.lab.saved import delete


@contextlib.contextmanager
def skipping() -> Iterator[None]:
    """Skip what this host cannot do, unless GPUYARD_REQUIRE_ALL is set."""
    try:
        yield
    except ExternalError as error:
        if os.environ.get("GPUYARD_REQUIRE_ALL") == "1":
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def able() -> None:
    """Skip without root or FRR."""
    with skipping():
        require()


@pytest.fixture(scope="session")
def ping() -> str:
    """The path of ping; skip without it."""
    with skipping():
        return tool("ping")


@pytest.fixture(scope="session")
def small() -> Fabric:
    """Two stripes of two rails, two spines, four servers."""
    demand = Demand(
        server_count=4,
        nic_bits_per_s=400e9,
        rails=2,
        gpus_per_server=2,
        servers_per_stripe=2,
        spine_count=2,
        links_per_pair=1,
        min_spines=1,
        os="frr",
    )
    designed = design(demand, load_catalog())
    assert isinstance(designed, Fabric)
    return designed


@pytest.fixture
def saved(small: Fabric, tmp_path: Path) -> Path:
    """The fabric as a file."""
    path = tmp_path / "fabric.json"
    path.write_text(to_json(small))
    return path


@pytest.fixture
def name(able: None) -> Iterator[str]:
    """A unique lab name; whatever is left of the lab is removed at the end."""
    label = f"t{uuid.uuid4().hex[:8]}"
    yield label
    remove(label)
    delete(label)
