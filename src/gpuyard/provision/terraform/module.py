"""A deployment as a Terraform root module: resources for its requests, and steps to apply it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gpuyard.document.frozen_json import Plain
from gpuyard.errors import InputError
from gpuyard.provision.artefact import Artefact
from gpuyard.provision.deployment_settings import ResolvedSettings
from gpuyard.provision.extra_names import TERRAFORM_FOLDER
from gpuyard.provision.platform import Artefacts, DeployStep
from gpuyard.provision.schemas.library import provider_origin
from gpuyard.provision.shell_text import shell, url
from gpuyard.provision.terraform.hcl import Expression, Tree, Value, quoted
from gpuyard.provision.terraform.resource import Resource, has_resource, resources_of
from gpuyard.provision.validate.google import google_methods

MAIN, VERSIONS = f"{TERRAFORM_FOLDER}/main.tf", f"{TERRAFORM_FOLDER}/versions.tf"
MODULE_NOTE = (
    "Terraform creates the resources of the cloud; the JSON files are the same resources as "
    "API requests, which lint, preflight and diff read."
)
# As modules of the Cluster Toolkit at 1047080, 2026-06-25.
TERRAFORM_VERSION = ">= 1.3"
# Arguments that take the name of another resource, and its type.
NAME_ARGUMENTS = {
    "bucket": "google_storage_bucket",
    "network": "google_compute_network",
    "subnetwork": "google_compute_subnetwork",
    "cluster": "google_container_cluster",
    "router": "google_compute_router",
    "instance_group_manager": "google_compute_instance_group_manager",
    "policy_name": "google_compute_resource_policy",
}
# A group of instances is read from its manager, under another URL.
GROUP = ("/instanceGroupManagers/", "/instanceGroups/", "instance_group")


@dataclass(frozen=True, slots=True, kw_only=True)
class _RequestFile:
    """A request of a Google API, read from its file, and its resources."""

    file: str
    link: str
    resources: tuple[Resource, ...]


def terraform_artefacts(artefacts: Artefacts, settings: ResolvedSettings) -> Artefacts:
    """Return the artefacts with a Terraform module that replaces their requests.

    Requests without a resource in the provider stay calls of the API, in their place.

    Raises:
        InputError: the platform creates nothing in the cloud.
    """
    requests = [*_requests(artefacts.files, settings)]
    if not any(request.resources for request in requests):
        raise InputError.one(
            "--format",
            f"{artefacts.platform} has no resource of Terraform's Google provider",
            "leave out --format, or choose gke, compute-engine, cloud-run or cluster-director",
        )
    module = _linked(requests)
    main, scripts = _main_file(module)
    converted = {request.file: request for request in requests if request.resources}
    remaining = tuple(request.file for request in requests if not request.resources)
    notes = [MODULE_NOTE]
    if remaining:
        names = ", ".join(remaining)
        notes.append(f"The provider has no resource for {names}: the README sends it to the API.")
    return replace(
        artefacts,
        extra_files=(*artefacts.extra_files, _versions(settings), main, *scripts),
        steps=tuple(_steps(artefacts.steps, converted)),
        notes=(*artefacts.notes, *notes),
    )


def _requests(files: Sequence[Artefact], settings: ResolvedSettings) -> Iterator[_RequestFile]:
    for file in files:
        if not file.name.endswith(".json"):
            continue
        tree = json.loads(file.text)
        method, parameters, body = tree["method"], tree["parameters"], tree["body"]
        resources: tuple[Resource, ...] = ()
        if has_resource(method):
            resources = resources_of(method, parameters, body, settings.name)
        yield _RequestFile(
            file=file.name, link=_link(method, parameters, resources), resources=resources
        )


def _link(method: str, parameters: Mapping[str, Plain], resources: Sequence[Resource]) -> str:
    """The relative URL by which other requests name the resource."""
    if not resources:
        return ""
    _, description = google_methods()[method]
    path = url(description.path, **{key: str(value) for key, value in parameters.items()})
    name = resources[0].tree.get("name", resources[0].tree.get("cluster_id"))
    return f"{path[max(path.find('projects/'), 0) :]}/{name}"


def _linked(requests: Sequence[_RequestFile]) -> tuple[Resource, ...]:
    """The resources in order, with references to each other in place of names and URLs."""
    links: dict[str, Expression] = {}
    names: dict[tuple[str, str], Expression] = {}
    for request in requests:
        for resource in request.resources[:1]:
            links[request.link] = Expression(text=f"{resource.address}.id")
            if GROUP[0] in request.link:
                group = request.link.replace(GROUP[0], GROUP[1])
                links[group] = Expression(text=f"{resource.address}.{GROUP[2]}")
        for resource in request.resources:
            name = str(resource.tree.get("name", ""))
            names[resource.type, name] = Expression(text=f"{resource.address}.name")
    module: list[Resource] = []
    for resource in (item for request in requests for item in request.resources):
        tree = {
            name: _referring(value, name, links, names) for name, value in resource.tree.items()
        }
        linked = replace(resource, tree=tree)
        module.append(replace(linked, depends_on=tuple(_hidden_needs(linked, module))))
    return tuple(module)


def _referring(
    value: Value,
    name: str,
    links: Mapping[str, Expression],
    names: Mapping[tuple[str, str], Expression],
) -> Value:
    if isinstance(value, list):
        return [_referring(item, name, links, names) for item in value]
    if isinstance(value, dict):
        return {key: _referring(item, key, links, names) for key, item in value.items()}
    if not isinstance(value, str):
        return value
    by_name = names.get((NAME_ARGUMENTS.get(name, ""), value))
    return links.get(value) or by_name or value


def _hidden_needs(resource: Resource, earlier: Sequence[Resource]) -> Iterator[str]:
    """What must exist before the machines start, and that no argument refers to."""
    if not resource.runs_machines:
        return
    by_address = {item.address: item for item in earlier}
    reached: set[str] = set()
    pending = [resource]
    while pending:
        for text in _expressions(list(pending.pop().tree.values())):
            address = text.rpartition(".")[0]
            if address in by_address and address not in reached:
                reached.add(address)
                pending.append(by_address[address])
    yield from (address for address in by_address if address not in reached)


def _expressions(value: Value) -> Iterator[str]:
    if isinstance(value, Expression):
        yield value.text
    for item in (
        value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()
    ):
        yield from _expressions(item)


def _main_file(module: Sequence[Resource]) -> tuple[Artefact, tuple[Artefact, ...]]:
    """main.tf, and a file for every script in it."""
    scripts: dict[str, Artefact] = {}
    texts = [
        replace(resource, tree=_without_scripts(resource.tree, resource.local, scripts)).text
        for resource in module
    ]
    main = Artefact(name=MAIN, text="\n\n".join(texts) + "\n")
    return main, tuple(scripts.values())


def _without_scripts(tree: Tree, local: str, scripts: dict[str, Artefact]) -> Tree:
    # A script of many lines is easier to read and to check in a file than in a string.
    return {key: _without_script(value, key, local, scripts) for key, value in tree.items()}


def _without_script(value: Value, key: str, local: str, scripts: dict[str, Artefact]) -> Value:
    if isinstance(value, list):
        return [_without_script(item, key, local, scripts) for item in value]
    if isinstance(value, dict):
        return _without_scripts(value, local, scripts)
    if not isinstance(value, str) or "\n" not in value:
        return value
    stem = re.sub(r"[^a-z0-9]+", "-", f"{local}-{key}".lower())
    file = next(
        name
        for number in range(len(scripts) + 1)
        if (name := f"{stem}{f'-{number}' if number else ''}.sh") not in scripts
    )
    scripts[file] = Artefact(name=f"{TERRAFORM_FOLDER}/{file}", text=value)
    return Expression(text=f'file("${{path.module}}/{file}")')


def _versions(settings: ResolvedSettings) -> Artefact:
    major_minor = provider_origin().revision.rpartition(".")[0]
    text = f"""terraform {{
  required_version = {quoted(TERRAFORM_VERSION)}

  required_providers {{
    google = {{
      source  = "hashicorp/google"
      version = {quoted(f"~> {major_minor}")}
    }}
  }}
}}

provider "google" {{
  project = {quoted(settings.project)}
  region  = {quoted(settings.region)}
  zone    = {quoted(settings.zone)}
}}
"""
    return Artefact(name=VERSIONS, text=text)


def _steps(
    steps: Sequence[DeployStep], converted: Mapping[str, _RequestFile]
) -> Iterator[DeployStep]:
    """The steps with one `terraform apply` per run of requests; all but the last name targets."""
    last = max(index for index, step in enumerate(steps) if step.request in converted)
    targets: list[str] = []
    is_first = True
    for index, step in enumerate(steps):
        if step.request not in converted:
            if targets:
                yield _apply_step(targets, is_first=is_first)
                is_first, targets = False, []
            yield step
            continue
        targets += [resource.address for resource in converted[step.request].resources]
        if index == last:
            yield _apply_step([], is_first=is_first)
            targets = []


def _apply_step(targets: Sequence[str], *, is_first: bool) -> DeployStep:
    chosen = "".join(shell(" -target={address}", address=address) for address in targets)
    what = "Create the resources that the next step needs" if targets else "Create the resources"
    init = f"terraform -chdir={TERRAFORM_FOLDER} init\n" if is_first else ""
    return DeployStep(
        what=f"{what}, with Terraform",
        command=f"{init}terraform -chdir={TERRAFORM_FOLDER} apply{chosen}",
        # Undone in reverse: the first step is the last one.
        undo=f"terraform -chdir={TERRAFORM_FOLDER} destroy" if is_first else "",
    )
