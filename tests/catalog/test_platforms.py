"""Platform rows: five platforms with limits, guidance and source."""

from __future__ import annotations

import typing

import pytest

from gpuyard.catalog.load import load_catalog
from gpuyard.catalog.platforms import PlatformInfo, PlatformName

CATALOG = load_catalog()


def by_name(platform: PlatformInfo) -> str:
    return platform.name


def test_catalog_has_five_platforms() -> None:
    assert {platform.name for platform in CATALOG.platforms} == set(typing.get_args(PlatformName))


@pytest.mark.parametrize("platform", CATALOG.platforms, ids=by_name)
def test_platform_lists_managed_parts_and_limits(platform: PlatformInfo) -> None:
    assert platform.you_manage
    assert platform.it_manages
    assert platform.limits
    assert platform.suits
    assert platform.guidance
    assert platform.scaling
    assert len(set(platform.suits)) == len(platform.suits)


def test_less_control_means_less_to_manage_yourself() -> None:
    rows = {platform.name: platform for platform in CATALOG.platforms}
    assert rows["compute-engine"].control == "most"
    assert rows["cloud-run"].control == rows["vertex-ai"].control == "low"
    most = len(rows["compute-engine"].you_manage)
    assert all(len(row.you_manage) < most for row in rows.values() if row.control != "most")


def test_slurm_has_two_variants() -> None:
    slurm = next(platform for platform in CATALOG.platforms if platform.name == "slurm")
    assert set(slurm.variants) == {"Cluster Director", "Cluster Toolkit"}


def test_cloud_run_does_not_suit_training() -> None:
    cloud_run = next(platform for platform in CATALOG.platforms if platform.name == "cloud-run")
    assert not {"pretraining", "finetuning", "hpc"} & set(cloud_run.suits)
