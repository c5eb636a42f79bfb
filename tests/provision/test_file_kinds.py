"""File kinds: how a file is recognised."""

from __future__ import annotations

import json

import pytest

from gpuyard.document.frozen_json import Plain
from gpuyard.errors import InputError
from gpuyard.provision.artefact import Artefact
from gpuyard.provision.artefact_document import ArtefactDocument
from gpuyard.provision.file_kinds import read_documents

from .trees import SAMPLES, sample


def documents(name: str, text: str, body_type: str = "") -> tuple[ArtefactDocument, ...]:
    return read_documents(Artefact(name=name, text=text), body_type)[0]


BODIES = sorted(path.name for path in SAMPLES.glob("*.json"))


@pytest.mark.parametrize("name", BODIES)
def test_bare_body_is_recognised_by_its_keys(name: str) -> None:
    # These schemas have the same fields.
    (named,) = read_documents(sample(name))[0]
    (guessed,) = documents("body.json", json.dumps(named.body))
    alike = {("tpu.v2 Node", "tpu.v2 Node"), ("aiplatform.v1 Endpoint", "aiplatform.v1 Model")}
    assert guessed.type == named.type or (named.type, guessed.type) in alike


def test_method_in_file_name_is_used() -> None:
    (document,) = documents("010-compute.networks.insert.json", '{"name": "x"}')
    assert (document.type, document.method) == ("compute.v1 Network", "compute.networks.insert")


@pytest.mark.parametrize(
    "body_type", ["compute.instances.insert", "compute.v1.Instance", "compute.v1 Instance"]
)
def test_body_type_from_user_is_used(body_type: str) -> None:
    assert documents("x.json", "{}", body_type)[0].type == "compute.v1 Instance"


def test_unknown_body_type_raises_input_error_with_closest_match() -> None:
    with pytest.raises(InputError, match=r'use "compute\.v1 Instance"'):
        documents("x.json", "{}", "compute.v1.Instnce")
    with pytest.raises(InputError, match="takes no body"):
        documents("x.json", "{}", "compute.instances.get")


@pytest.mark.parametrize(
    ("text", "types"),
    [
        (
            "apiVersion: v1\nkind: Pod\n---\n# nothing\n---\napiVersion: batch/v1\nkind: Job\n",
            ["v1 Pod", "batch/v1 Job"],
        ),
        ("apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod}\n", ["v1 Pod"]),
        ("apiVersion: serving.knative.dev/v1\nkind: Service\n", ["run.v1 Service"]),
        ("blueprint_name: x\ndeployment_groups: []\n", ["blueprint"]),
        ("vars: {a: 1}\nterraform_backend_defaults: {type: gcs}\n", ["deployment"]),
        ("#!/bin/bash\n#SBATCH -N 2\n", ["sbatch"]),
        (
            '{"method": "compute.networks.insert", "parameters": {}, "body": {"name": "a"}}',
            ["compute.v1 Network"],
        ),
        (
            '{\n\t"name": "a",\n\t"ipCidrRange": "10.0.0.0/8",\n\t"network": "n"\n}',
            ["compute.v1 Subnetwork"],
        ),
    ],
)
def test_file_kind_is_recognised(text: str, types: list[str]) -> None:
    assert [document.type for document in documents("x", text)] == types


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a: 1\nb: 2\n", "unknown kind of file"),
        ("- 1\n", "not a mapping"),
        ("apiVersion: v1\nkind: {{ .Values.kind }}\n", "a template, not a manifest"),
        ("a: [1\n", "not YAML"),
        (
            "apiVersion: v2\nname: chart\ndescription: x\ntype: application\nversion: 1.0.0\n",
            "unknown kind of file",
        ),
    ],
)
def test_unknown_file_raises_input_error(text: str, what: str) -> None:
    with pytest.raises(InputError, match=what):
        documents("x.yaml", text)


def test_location_has_line_and_path_of_the_file() -> None:
    pod, job = documents(
        "x.yaml", "apiVersion: v1\nkind: Pod\n---\napiVersion: batch/v1\nkind: Job\nspec:\n  x: 1\n"
    )
    assert job.where("spec.x") == "x.yaml:7: spec.x"
    assert job.root["spec"]["x"].where == "x.yaml:7: spec.x"
    assert pod.number == 1
    assert job.number == 2


def test_repeated_key_is_a_finding() -> None:
    parsed, repeated = read_documents(
        Artefact(name="x.yaml", text="apiVersion: v1\nkind: Pod\nspec: {a: 1, a: 2}\n")
    )
    body: Plain = {"a": 2}
    assert parsed[0].root["spec"].value == body
    assert [finding.where for finding in repeated] == ["x.yaml:3: spec.a"]


def test_unquoted_yes_is_true_as_in_kubernetes() -> None:
    (document,) = documents(
        "x.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {labels: {a: yes, b: 'yes'}}\n"
    )
    assert document.root.at("metadata", "labels").value == {"a": True, "b": "yes"}
