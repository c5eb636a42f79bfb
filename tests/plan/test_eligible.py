"""Exclusion of machines: the binding constraint as a record."""

from __future__ import annotations

import math

import pytest

from gpuyard.catalog.load import load_catalog
from gpuyard.plan.eligible import NO_ACCELERATOR, OTHER_MACHINES, exclusion_of
from gpuyard.workload.read import parse_workload

CATALOG = load_catalog()
TRAIN = "task: pretraining\nmodel: llama-3-8b\ndata: {tokens: 1T, sequence: 8192}\n"


@pytest.mark.parametrize(
    ("extra", "machine", "binding"),
    [
        ("", "a3-megagpu-8g", None),
        ("where: {machines: [a4-*]}", "a3-megagpu-8g", "where"),
        ("", "c3-standard-176", "pretraining"),
        ("requirements: {precision: fp4}", "a3-megagpu-8g", "requirements.precision"),
        ("where: {consumption: [on-demand]}", "a4x-highgpu-4g", "where.consumption"),
        ("where: {region: europe-west4}", "a3-megagpu-8g", None),
        ("where: {region: europe-west4}", "tpu7x-standard-4t", "where.region"),
        ("where: {region: africa-south1}", "a3-megagpu-8g", "where.region"),
        ("where: {region: southamerica-east1}", "a4x-highgpu-4g", "where.region"),
        ("where: {provider: aws, region: eu-north-1}", "p5en.48xlarge", None),
        ("where: {provider: aws, region: eu-west-3}", "p6-b300.48xlarge", "where.region"),
        ("where: {provider: any}", "p6-b300.48xlarge", None),
        ("where: {provider: any}", "dgx-h100", "where"),
        ("where: {zone: us-central1-f}", "tpu7x-standard-4t", "where.zone"),
    ],
)
def test_exclusion_names_binding_constraint(extra: str, machine: str, binding: str | None) -> None:
    workload = parse_workload(TRAIN + extra, "w.yaml", CATALOG)
    exclusion = exclusion_of(workload, CATALOG.machine(machine), CATALOG)
    assert (exclusion.binding if exclusion else None) == binding


def test_exclusion_becomes_violation_without_finite_ratio() -> None:
    workload = parse_workload(TRAIN, "w.yaml", CATALOG)
    exclusion = exclusion_of(workload, CATALOG.machine("c3-standard-176"), CATALOG)
    assert exclusion is not None
    assert exclusion.what == NO_ACCELERATOR
    assert exclusion.violation("C3").ratio == math.inf
    assert exclusion.rejected("C3").fix == OTHER_MACHINES
