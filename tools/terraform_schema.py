"""Reads the schema of Terraform's Google provider from its CDK bindings; used by provision_schemas.py.

The bindings (the wheel cdktn-provider-google) hold a jsii assembly that is generated from
`terraform providers schema -json`: every resource is an interface, every nested block another one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from pathlib import Path

# The resources that gpuyard writes, and the module of the bindings that describes each.
RESOURCES = (
    "google_cloud_run_v2_job",
    "google_cloud_run_v2_service",
    "google_compute_autoscaler",
    "google_compute_firewall",
    "google_compute_forwarding_rule",
    "google_compute_health_check",
    "google_compute_instance",
    "google_compute_instance_group_manager",
    "google_compute_instance_template",
    "google_compute_network",
    "google_compute_region_backend_service",
    "google_compute_resize_request",
    "google_compute_resource_policy",
    "google_compute_router",
    "google_compute_router_nat",
    "google_compute_subnetwork",
    "google_container_cluster",
    "google_container_node_pool",
    "google_hypercomputecluster_cluster",
    "google_storage_bucket",
)
# What every resource of the CDK has, and the provider does not.
CDK_ONLY = {"connection", "count", "dependsOn", "forEach", "lifecycle", "provider", "provisioners"}
CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
ARGUMENT = re.compile(r"#([a-z0-9_]+) [A-Za-z0-9]+#\1\}")

Block = dict[str, dict[str, object]]


def terraform(assembly: Path) -> dict[str, object]:
    """Every resource: its arguments with their types, and its nested blocks."""
    types = json.loads(assembly.read_text(encoding="utf-8"))["types"]
    package = next(iter(types)).split(".")[0]
    resources = {}
    for resource in RESOURCES:
        words = resource.removeprefix("google_").split("_")
        name = "".join(word.capitalize() for word in words)
        module = name[0].lower() + name[1:]
        config = f"{package}.{module}.{name}Config"
        arguments = {field["name"] for field in types[config]["properties"]}
        outputs = _outputs(types[f"{package}.{module}.{name}"], arguments)
        resources[resource] = {**_block(types, config, CDK_ONLY), "outputs": outputs}
    return {"resources": resources}


def _outputs(resource: dict[str, object], arguments: Collection[str]) -> list[str]:
    """What the provider computes and nobody sets: read-only texts and numbers of the class."""
    return sorted(
        CAPITAL.sub("_", field["name"]).lower()
        for field in resource["properties"]
        if field.get("immutable")
        and not field.get("static")
        and not field["name"].endswith("Input")
        and field["name"] not in arguments
        and "primitive" in field["type"]
    )


def _block(types: dict[str, dict[str, object]], name: str, left_out: Collection[str] = ()) -> Block:
    """The arguments of a block as `TYPE` or `TYPE!` where required, and its nested blocks."""
    arguments: dict[str, object] = {}
    blocks: dict[str, object] = {}
    for field in types[name].get("properties", []):
        if field["name"] in left_out:
            continue
        found = ARGUMENT.search(field.get("docs", {}).get("remarks", ""))
        found = found or ARGUMENT.search(field.get("docs", {}).get("summary", ""))
        argument = found[1] if found else CAPITAL.sub("_", field["name"]).lower()
        required = "" if field.get("optional") else "!"
        kind, nested = _kind(field["type"])
        if nested is None:
            arguments[argument] = kind + required
        else:
            blocks[argument] = {"kind": kind + required, **_block(types, nested)}
    return {"arguments": arguments, "blocks": blocks}


def _kind(type_: dict[str, object]) -> tuple[str, str | None]:
    """The Terraform type of a field and, if it is a nested block, the name of its interface."""
    if "union" in type_:
        members = type_["union"]["types"]
        options = [item for item in members if item.get("fqn") != "cdktn.IResolvable"]
        return _kind(options[0])
    if "primitive" in type_:
        return {"boolean": "bool", "any": "any"}.get(type_["primitive"], type_["primitive"]), None
    if "collection" in type_:
        element, nested = _kind(type_["collection"]["elementtype"])
        if nested is not None:
            return "many", nested
        return f"{'map' if type_['collection']['kind'] == 'map' else 'list'}({element})", None
    return "one", type_["fqn"]
