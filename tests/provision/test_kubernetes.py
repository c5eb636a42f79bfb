"""Kubernetes objects: strict fields, CEL rules, versions that have moved."""

from __future__ import annotations

import pytest

from gpuyard.document import Plain
from gpuyard.provision import Artefact

from .trees import GONE, changed, check, sample


@pytest.mark.parametrize(
    ("name", "change", "what", "fix"),
    [
        ("jobset-a3mega.yaml", {"spec.replicatedJob": []}, 'no field "replicatedJob"', 'did you mean "replicatedJobs"?'),
        ("jobset-a3mega.yaml", {"spec.failurePolicy.restartStrategy": "recreate"}, "none of its values", 'use "Recreate"'),
        ("jobset-a3mega.yaml", {"spec.replicatedJobs[0].template.spec.template.spec.restartPolicy": "never"}, "none of its values", 'use "Never"'),
        ("jobset-a3mega.yaml", {"spec.replicatedJobs[0].template.spec.template.spec.container": []}, 'no field "container"', 'did you mean "containers"?'),
        ("jobset-a3mega.yaml", {"spec.replicatedJobs[0].dependsOn": [{"name": "x", "status": "Ready"}], "spec.startupPolicy": {"startupPolicyOrder": "InOrder"}}, "StartupPolicy and DependsOn", "keep the rule"),
        ("kueue.yaml", {"5:spec.admissionChecks": ["dws"]}, 'no field "admissionChecks"', "admissionChecksStrategy"),
        ("kueue.yaml", {"5:spec.resourceGroups[0].coveredResources": ["cpu", "nvidia.com/gpu"]}, "coveredResources", "keep the rule"),
        ("kueue.yaml", {"1:spec.levels[0].nodeLabel": "kubernetes.io/hostname", "1:spec.levels[3].nodeLabel": "x"}, "kubernetes.io/hostname", "keep the rule"),
        ("kueue.yaml", {"2:spec.nodeLabels": GONE}, "at least one nodeLabel", "keep the rule"),
        ("lws.yaml", {"1:spec.leaderWorkerTemplate.restartPolicy": "Always"}, "none of its values", "RecreateGroupOnPodRestart"),
        ("rayjob.yaml", {"spec.rayClusterSpec.workerGroupSpecs[0].replicas": "two"}, "text 'two' where the API takes integer", "write an integer"),
        ("jobset-a3mega.yaml", {"3:spec.deviceMode": "Rdma"}, "none of its values", 'use "RDMA"'),
    ],
)  # fmt: skip
def test_schemas_and_cel_rules(name: str, change: dict[str, Plain], what: str, fix: str) -> None:
    findings = [finding for finding in check(changed(sample(name), change)).errors if finding.rule == "schema"]
    assert any(what in finding.what and fix in finding.fix for finding in findings), [str(each) for each in findings]


@pytest.mark.parametrize(
    ("version", "kind", "severity", "said"),
    [
        ("extensions/v1beta1", "Deployment", "error", "use apps/v1"),
        ("kueue.x-k8s.io/v1beta3", "ClusterQueue", "error", "use kueue.x-k8s.io/v1beta2"),
        ("batch/v1", "Jobb", "warning", 'did you mean "Job"?'),
        ("example.com/v1", "Thing", "note", "no schema of example.com/v1 Thing"),
    ],
)
def test_kinds_without_a_schema(version: str, kind: str, severity: str, said: str) -> None:
    text = f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: x}}\n"
    (finding,) = check(Artefact(name="x.yaml", text=text)).findings
    assert finding.severity == severity
    assert said in f"{finding.what} {finding.fix}"
