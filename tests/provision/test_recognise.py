"""What a file is taken for."""

from __future__ import annotations

import json

import pytest

from gpuyard.document import Plain
from gpuyard.errors import InputError
from gpuyard.provision import Artefact
from gpuyard.provision.part import Part
from gpuyard.provision.recognise import read_parts

from .trees import SAMPLES, sample


def parts(name: str, text: str, given: str = "") -> tuple[Part, ...]:
    """The parts of a text."""
    return read_parts(Artefact(name=name, text=text), given)[0]


BODIES = sorted(path.name for path in SAMPLES.glob("*.json"))


@pytest.mark.parametrize("name", BODIES)
def test_a_body_alone_is_recognised_by_its_keys(name: str) -> None:
    """Without method and parameters the schema that fits best is the right one, or one with the same fields."""
    (told,) = read_parts(sample(name))[0]
    (guessed,) = parts("body.json", json.dumps(told.body))
    alike = {("tpu.v2 Node", "tpu.v2 Node"), ("aiplatform.v1 Endpoint", "aiplatform.v1 Model")}
    assert guessed.type == told.type or (told.type, guessed.type) in alike


def test_the_name_of_the_file_may_tell_the_method() -> None:
    (part,) = parts("010-compute.networks.insert.json", '{"name": "x"}')
    assert (part.type, part.method) == ("compute.v1 Network", "compute.networks.insert")


@pytest.mark.parametrize("given", ["compute.instances.insert", "compute.v1.Instance", "compute.v1 Instance"])
def test_the_user_may_tell(given: str) -> None:
    assert parts("x.json", "{}", given)[0].type == "compute.v1 Instance"


def test_a_wrong_name_is_told_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r'use "compute\.v1 Instance"'):
        parts("x.json", "{}", "compute.v1.Instnce")
    with pytest.raises(InputError, match="takes no body"):
        parts("x.json", "{}", "compute.instances.get")


@pytest.mark.parametrize(
    ("text", "types"),
    [
        ("apiVersion: v1\nkind: Pod\n---\n# nothing\n---\napiVersion: batch/v1\nkind: Job\n", ["v1 Pod", "batch/v1 Job"]),
        ("apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod}\n", ["v1 Pod"]),
        ("apiVersion: serving.knative.dev/v1\nkind: Service\n", ["run.v1 Service"]),
        ("blueprint_name: x\ndeployment_groups: []\n", ["blueprint"]),
        ("vars: {a: 1}\nterraform_backend_defaults: {type: gcs}\n", ["deployment"]),
        ("#!/bin/bash\n#SBATCH -N 2\n", ["sbatch"]),
        ('{"method": "compute.networks.insert", "parameters": {}, "body": {"name": "a"}}', ["compute.v1 Network"]),
        ('{\n\t"name": "a",\n\t"ipCidrRange": "10.0.0.0/8",\n\t"network": "n"\n}', ["compute.v1 Subnetwork"]),
    ],
)  # fmt: skip
def test_kinds_of_files(text: str, types: list[str]) -> None:
    assert [part.type for part in parts("x", text)] == types


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a: 1\nb: 2\n", "does not know what this is"),
        ("- 1\n", "not a mapping"),
        ("apiVersion: v1\nkind: {{ .Values.kind }}\n", "a template, not a manifest"),
        ("a: [1\n", "not YAML"),
        ("apiVersion: v2\nname: chart\ndescription: x\ntype: application\nversion: 1.0.0\n", "does not know"),
    ],
)
def test_what_is_nothing_is_told(text: str, what: str) -> None:
    with pytest.raises(InputError, match=what):
        parts("x.yaml", text)


def test_lines_are_those_of_the_file() -> None:
    pod, job = parts("x.yaml", "apiVersion: v1\nkind: Pod\n---\napiVersion: batch/v1\nkind: Job\nspec:\n  x: 1\n")
    assert job.place("spec.x") == "x.yaml:7: spec.x"
    assert job.root["spec"]["x"].where == "x.yaml:7: spec.x"
    assert pod.number == 1
    assert job.number == 2


def test_a_key_that_is_given_twice_is_a_finding() -> None:
    found, twice = read_parts(Artefact(name="x.yaml", text="apiVersion: v1\nkind: Pod\nspec: {a: 1, a: 2}\n"))
    body: Plain = {"a": 2}
    assert found[0].root["spec"].value == body
    assert [finding.where for finding in twice] == ["x.yaml:3: spec.a"]


def test_yes_is_true_as_for_kubernetes() -> None:
    (part,) = parts("x.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {labels: {a: yes, b: 'yes'}}\n")
    assert part.root.at("metadata", "labels").value == {"a": True, "b": "yes"}
