"""The tool that makes the schemas: what it makes of a description, and the drift that it reports."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

TOOLS = Path(__file__).parent.parent.parent.parent / "tools"


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """tools/provision_schemas.py."""
    monkeypatch.syspath_prepend(str(TOOLS))
    spec = importlib.util.spec_from_file_location(
        "provision_schemas", TOOLS / "provision_schemas.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """tools/schema_sources.py."""
    monkeypatch.syspath_prepend(str(TOOLS))
    return importlib.import_module("schema_sources")


DISCOVERY = {
    "servicePath": "compute/v1/",
    "resources": {
        "things": {
            "methods": {
                "insert": {
                    "id": "compute.things.insert",
                    "httpMethod": "POST",
                    "path": "things",
                    "flatPath": "projects/{project}/things",
                    "parameters": {
                        "requestId": {"location": "query"},
                        "project": {"location": "path"},
                    },
                    "request": {"$ref": "Thing"},
                    "response": {"$ref": "Operation"},
                }
            }
        }
    },
    "schemas": {
        "Operation": {"type": "object", "properties": {}},
        "Thing": {
            "type": "object",
            "properties": {
                "name": {
                    "type": "string",
                    "pattern": "[a-z]+",
                    "annotations": {"required": ["compute.things.insert"]},
                },
                "size": {"type": "string", "format": "int64"},
                "mode": {"type": "string", "enum": ["A", "B"], "description": "Required. x"},
                "id": {"type": "string", "description": "[Output Only] x"},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "parts": {"type": "array", "items": {"$ref": "Part"}},
            },
        },
        "Part": {
            "type": "object",
            "properties": {"age": {"type": "string", "format": "google-duration"}},
        },
        "Unused": {"type": "object", "properties": {}},
    },
}


def test_discovery_document_becomes_strict_schemas(sources: ModuleType) -> None:
    result = sources.google(DISCOVERY, "things")
    assert set(result["defs"]) == {"Thing", "Part"}
    thing = result["defs"]["Thing"]
    assert thing["additionalProperties"] is False
    assert thing["properties"]["name"] == {
        "type": "string",
        "pattern": "^(?:[a-z]+)$",
        "x-required-by": ["compute.things.insert"],
    }
    assert thing["properties"]["size"]["type"] == ["string", "integer"]
    assert thing["properties"]["mode"]["x-required-by"] == ["*"]
    assert thing["properties"]["id"]["readOnly"] is True
    method = result["methods"]["compute.things.insert"]
    assert method["path"] == "compute/v1/projects/{project}/things"
    assert method["query"] == ["requestId"]


def test_custom_resource_shares_repeated_schemas(sources: ModuleType, tmp_path: Path) -> None:
    pod = {
        "type": "object",
        "properties": {f"field{index}": {"type": "string"} for index in range(9)},
    }
    crd = {
        "kind": "CustomResourceDefinition",
        "spec": {
            "group": "example.com",
            "names": {"kind": "Thing"},
            "versions": [
                {
                    "name": "v1",
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {
                                "metadata": {"type": "object"},
                                "status": {
                                    "type": "object",
                                    "properties": {"a": {"type": "string"}},
                                },
                                "one": pod,
                                "two": pod,
                                "open": {
                                    "type": "object",
                                    "x-kubernetes-preserve-unknown-fields": True,
                                },
                                "port": {"x-kubernetes-int-or-string": True, "anyOf": []},
                                "word": {"type": "string", "pattern": "^(?i)a$"},
                            },
                            "x-kubernetes-validations": [
                                {"rule": "self == oldSelf"},
                                {"rule": "has(self.one)"},
                            ],
                        }
                    },
                }
            ],
        },
    }
    path = tmp_path / "crd.yaml"
    path.write_text(json.dumps(crd))
    result = sources.custom_resources([path], {"type": "object"})
    thing = result["defs"]["example.com/v1 Thing"]
    assert thing["properties"]["one"] == thing["properties"]["two"] == {"$ref": "#/$defs/s0"}
    assert thing["properties"]["metadata"] == {"$ref": "#/$defs/ObjectMeta"}
    assert thing["properties"]["status"] == {"type": "object"}
    assert thing["properties"]["port"]["type"] == ["integer", "string"]
    assert thing["properties"]["word"]["pattern"] == "(?i)^a$"
    assert [rule["rule"] for rule in thing["x-kubernetes-validations"]] == ["has(self.one)"]


def test_module_variables_are_read(sources: ModuleType, tmp_path: Path) -> None:
    folder = tmp_path / "modules" / "network" / "vpc"
    folder.mkdir(parents=True)
    (folder / "variables.tf").write_text(
        'variable "name" {\n  description = "x"\n  type        = string\n}\n'
        'variable "sizes" {\n  type = list(object({\n    default = number\n  }))\n  default = []\n}\n'
        'variable "id" {\n  type = string\n}\n'
    )
    (folder / "outputs.tf").write_text('output "network" {\n  value = 1\n}\n')
    (folder / "metadata.yaml").write_text("ghpc:\n  inject_module_id: id\n")
    result = sources.toolkit(tmp_path)["modules"]["modules/network/vpc"]
    assert result == {
        "variables": {"name": "string!", "sizes": "list", "id": "string"},
        "outputs": ["network"],
    }


def test_drift_is_reported_by_field(
    tool: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tool, "DATA", tmp_path)
    before = {
        "defs": {"Thing": {"properties": {"mode": {"enum": ["A", "B"]}, "old": {"type": "string"}}}}
    }
    after = {
        "defs": {"Thing": {"properties": {"mode": {"enum": ["A", "C"]}, "new": {"type": "string"}}}}
    }
    (tmp_path / "x.json.gz").write_bytes(tool.packed(before))
    assert tool.drift("x", before) == ([], [])
    added, removed = tool.drift("x", after)
    assert added == [
        '/defs/Thing/properties/mode/enum has "C"',
        '/defs/Thing/properties/new/type = "string"',
    ]
    assert removed == [
        '/defs/Thing/properties/mode/enum has "B"',
        '/defs/Thing/properties/old/type = "string"',
    ]
    assert tool.packed(before) == tool.packed(before)
    assert sys.version_info >= (3, 11)


def test_provider_schema_has_arguments_blocks_and_computed_attributes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(str(TOOLS))
    reader = importlib.import_module("terraform_schema")
    text = {"primitive": "string"}
    rule = {
        "collection": {"elementtype": {"fqn": "p.computeFirewall.Allow"}, "kind": "array"},
    }
    types = {
        "p.computeFirewall.ComputeFirewallConfig": {
            "properties": [
                {"name": "count", "type": text, "optional": True},
                {"name": "name", "type": text},
                {"name": "allow", "type": {"union": {"types": [{"fqn": "cdktn.IResolvable"}, rule]}},
                 "optional": True},
            ]
        },
        "p.computeFirewall.Allow": {
            "properties": [
                {"name": "portList", "optional": True, "docs": {"remarks": "see {@link u#ports F#ports}"},
                 "type": {"collection": {"elementtype": text, "kind": "array"}}},
            ]
        },
        "p.computeFirewall.ComputeFirewall": {
            "properties": [
                {"name": "name", "type": text},
                {"name": "nameInput", "type": text, "immutable": True},
                {"name": "selfLink", "type": text, "immutable": True},
            ]
        },
    }  # fmt: skip
    monkeypatch.setattr(reader, "RESOURCES", ("google_compute_firewall",))
    (tmp_path / "provider.jsii").write_text(json.dumps({"types": types}))
    (row,) = reader.terraform(tmp_path / "provider.jsii")["resources"].values()
    assert row["arguments"] == {"name": "string!"}
    assert row["blocks"]["allow"]["kind"] == "many"
    assert row["blocks"]["allow"]["arguments"] == {"ports": "list(string)"}
    assert row["outputs"] == ["self_link"]
