"""The platform rows: the five ways to provision, each with its limits, its guidance and its source."""

from __future__ import annotations

import typing

import pytest

from gpuyard.catalog import Platform, PlatformName, load_catalog

CATALOG = load_catalog()


def by_name(platform: Platform) -> str:
    return platform.name


def test_the_five_platforms_are_there() -> None:
    assert {platform.name for platform in CATALOG.platforms} == set(typing.get_args(PlatformName))


@pytest.mark.parametrize("platform", CATALOG.platforms, ids=by_name)
def test_each_says_what_it_takes_over_and_what_it_cannot(platform: Platform) -> None:
    assert platform.you_manage
    assert platform.it_manages
    assert platform.limits
    assert platform.suits
    assert platform.guidance
    assert platform.scaling
    assert len(set(platform.suits)) == len(platform.suits)


def test_less_control_means_less_to_manage() -> None:
    rows = {platform.name: platform for platform in CATALOG.platforms}
    assert rows["compute-engine"].control == "most"
    assert rows["cloud-run"].control == rows["vertex-ai"].control == "low"
    most = len(rows["compute-engine"].you_manage)
    assert all(len(row.you_manage) < most for row in rows.values() if row.control != "most")


def test_slurm_comes_in_two_ways() -> None:
    slurm = next(platform for platform in CATALOG.platforms if platform.name == "slurm")
    assert set(slurm.variants) == {"Cluster Director", "Cluster Toolkit"}


def test_one_gpu_is_not_for_training() -> None:
    cloud_run = next(platform for platform in CATALOG.platforms if platform.name == "cloud-run")
    assert not {"pretraining", "finetuning", "hpc"} & set(cloud_run.suits)
