"""Rendered Terraform modules, read by an HCL parser and compared with the provider's schema."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace

import hcl2

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.provision.deployment_settings import DeploymentSettings, resolve_settings
from gpuyard.provision.extra_files import with_extra_files
from gpuyard.provision.platform import Artefacts, Platform
from gpuyard.provision.terraform.module import MAIN
from gpuyard.provision.terraform.provider_schema import resource_schema, schema_problems

from ..platforms.rendering import SETTINGS

META = ("lifecycle", "depends_on", "__is_block__")
REFERENCE = re.compile(r"\$\{(google_\w+\.\w+)(?:\.(\w+))?\}")
Tree = dict[str, object]


def terraform_of(
    platform: Platform, blueprint: Blueprint, settings: DeploymentSettings = SETTINGS
) -> Artefacts | None:
    """The artefacts with their module; None where the platform is unsuitable."""
    resolved = resolve_settings(blueprint, replace(settings, format="terraform"))
    artefacts = platform.render(blueprint, resolved)
    return with_extra_files(artefacts, resolved) if isinstance(artefacts, Artefacts) else None


def main_of(artefacts: Artefacts) -> str:
    return next(file.text for file in artefacts.extra_files if file.name == MAIN)


def text_of(value: object) -> str:
    """A string literal as the text that it stands for."""
    return str(json.loads(str(value).replace("$${", "${").replace("%%{", "%{")))


def resources(main: str) -> dict[str, Tree]:
    """The resources of a module by address."""
    rows = hcl2.loads(main)["resource"]
    return {
        f"{text_of(type_)}.{text_of(name)}": tree
        for row in rows
        for type_, named in row.items()
        for name, tree in named.items()
    }


def without_markers(value: object) -> object:
    if isinstance(value, dict):
        return {key: without_markers(item) for key, item in value.items() if key != META[2]}
    return [without_markers(item) for item in value] if isinstance(value, list) else value


def problems(main: str) -> Iterator[str]:
    """What the provider would refuse: unknown arguments, wrong types, dangling references."""
    module = resources(main)
    for address, tree in module.items():
        schema = resource_schema(address.split(".")[0])
        own = {key: value for key, value in tree.items() if key not in META}
        yield from schema_problems(without_markers(own), schema, address)  # type: ignore[arg-type]
        for target, attribute in REFERENCE.findall(json.dumps(tree)):
            if target not in module:
                yield f"{address}: refers to {target}, which does not exist"
                continue
            known = resource_schema(target.split(".")[0])
            if attribute and attribute not in {*known.arguments, *known.outputs}:
                yield f"{address}: {target} has no attribute {attribute}"
