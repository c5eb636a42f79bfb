"""Validation of Kubernetes objects: unknown fields, CEL rules, moved API versions."""

from __future__ import annotations

import pytest

from gpuyard.document.frozen_json import Plain
from gpuyard.provision.artefact import Artefact

from ..trees import GONE, changed, check, sample


@pytest.mark.parametrize(
    ("name", "change", "what", "fix"),
    [
        (
            "jobset-a3mega.yaml",
            {"spec.replicatedJob": []},
            'no field "replicatedJob"',
            'did you mean "replicatedJobs"?',
        ),
        (
            "jobset-a3mega.yaml",
            {"spec.failurePolicy.restartStrategy": "recreate"},
            "not an allowed value",
            'use "Recreate"',
        ),
        (
            "jobset-a3mega.yaml",
            {"spec.replicatedJobs[0].template.spec.template.spec.restartPolicy": "never"},
            "not an allowed value",
            'use "Never"',
        ),
        (
            "jobset-a3mega.yaml",
            {"spec.replicatedJobs[0].template.spec.template.spec.container": []},
            'no field "container"',
            'did you mean "containers"?',
        ),
        (
            "jobset-a3mega.yaml",
            {
                "spec.replicatedJobs[0].dependsOn": [{"name": "x", "status": "Ready"}],
                "spec.startupPolicy": {"startupPolicyOrder": "InOrder"},
            },
            "StartupPolicy and DependsOn",
            "satisfy the rule",
        ),
        (
            "kueue.yaml",
            {"5:spec.admissionChecks": ["dws"]},
            'no field "admissionChecks"',
            "admissionChecksStrategy",
        ),
        (
            "kueue.yaml",
            {"5:spec.resourceGroups[0].coveredResources": ["cpu", "nvidia.com/gpu"]},
            "coveredResources",
            "satisfy the rule",
        ),
        (
            "kueue.yaml",
            {
                "1:spec.levels[0].nodeLabel": "kubernetes.io/hostname",
                "1:spec.levels[3].nodeLabel": "x",
            },
            "kubernetes.io/hostname",
            "satisfy the rule",
        ),
        ("kueue.yaml", {"2:spec.nodeLabels": GONE}, "at least one nodeLabel", "satisfy the rule"),
        (
            "lws.yaml",
            {"1:spec.leaderWorkerTemplate.restartPolicy": "Always"},
            "not an allowed value",
            "RecreateGroupOnPodRestart",
        ),
        (
            "rayjob.yaml",
            {"spec.rayClusterSpec.workerGroupSpecs[0].replicas": "two"},
            "string 'two', and the API takes integer",
            "write an integer",
        ),
        ("jobset-a3mega.yaml", {"3:spec.deviceMode": "Rdma"}, "not an allowed value", 'use "RDMA"'),
    ],
)
def test_schema_or_cel_violation_is_an_error(
    name: str, change: dict[str, Plain], what: str, fix: str
) -> None:
    findings = [
        finding
        for finding in check(changed(sample(name), change)).errors
        if finding.rule == "schema"
    ]
    assert any(what in finding.what and fix in finding.fix for finding in findings), [
        str(finding) for finding in findings
    ]


@pytest.mark.parametrize(
    ("version", "kind", "severity", "expected"),
    [
        ("extensions/v1beta1", "Deployment", "error", "use apps/v1"),
        ("kueue.x-k8s.io/v1beta3", "ClusterQueue", "error", "use kueue.x-k8s.io/v1beta2"),
        ("batch/v1", "Jobb", "warning", 'did you mean "Job"?'),
        ("example.com/v1", "Thing", "note", "no schema of example.com/v1 Thing"),
    ],
)
def test_kind_without_schema_is_reported(
    version: str, kind: str, severity: str, expected: str
) -> None:
    text = f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: x}}\n"
    (finding,) = check(Artefact(name="x.yaml", text=text)).findings
    assert finding.severity == severity
    assert expected in f"{finding.what} {finding.fix}"


def test_every_violated_rule_of_one_value_is_reported() -> None:
    spec = "{autopilot: {enabled: true}, nodePoolAutoCreation: {enabled: false}, priorities: [{nodepools: [a]}]}"
    text = f"apiVersion: cloud.google.com/v1\nkind: ComputeClass\nmetadata: {{name: x}}\nspec: {spec}\n"
    findings = check(Artefact(name="x.yaml", text=text)).errors
    rules = [finding.fix for finding in findings if "self.autopilot.enabled" in finding.fix]
    assert len(rules) == 2
    assert "nodePoolAutoCreation" in rules[0] + rules[1]
    assert "nodepools" in rules[0] + rules[1]
