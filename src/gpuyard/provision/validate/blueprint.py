"""Validation of Cluster Toolkit blueprints: modules, their settings, references between them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from gpuyard.document.frozen_json import Plain
from gpuyard.errors import Finding, Severity, choices_text, closest_match
from gpuyard.provision.artefact_document import ArtefactDocument, ValueView
from gpuyard.provision.schemas.library import Module, toolkit_modules

BLUEPRINT_KEYS = (
    "blueprint_name", "ghpc_version", "vars", "validators", "validation_level", "deployment_groups",
    "terraform_backend_defaults", "terraform_providers", "toolkit_modules_url",
    "toolkit_modules_version",
)  # fmt: skip
MODULE_KEYS = ("id", "source", "kind", "use", "settings", "outputs", "wrapsettingswith")
REFERENCE = re.compile(r"(?<!\\)\$\(([A-Za-z_][\w-]*)\.([A-Za-z_]\w*)")
REMOTE = re.compile(
    r"^(?:git::)?(?:https://)?github\.com/GoogleCloudPlatform/"
    r"(?:cluster|hpc)-toolkit(?:\.git)?//([^?]+)"
)
MAX_EDITS = 2  # of a misspelled variable; others may come from a deployment file
SET_BY_TOOLKIT = ("deployment_name", "labels", "project_id", "blueprint_name", "ghpc_role")
PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "bool": (bool,),
    "number": (int, float),
    "list": (list,),
    "set": (list,),
    "tuple": (list,),
    "map": (dict,),
    "object": (dict,),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BlueprintModule:
    """A module of a blueprint, with the shipped description of its source if there is one."""

    id: str
    source: str
    view: ValueView
    description: Module | None


def blueprint_modules(document: ArtefactDocument) -> tuple[BlueprintModule, ...]:
    """Return the modules of a blueprint in order."""
    return tuple(
        _module(view)
        for group in document.root["deployment_groups"].items
        for view in group["modules"].items
    )


def _module(view: ValueView) -> BlueprintModule:
    source = view["source"].text
    remote = REMOTE.match(source)
    path = (remote.group(1) if remote else source).rstrip("/")
    return BlueprintModule(
        id=view["id"].text, source=path, view=view, description=toolkit_modules().get(path)
    )


def resolved_setting(module: BlueprintModule, name: str) -> Plain:
    """Return the value of a setting, with `$(vars.x)` replaced by the blueprint's variable."""
    variables = _variables(module.view.document)
    value = module.view.at("settings", name).value
    if value is None:
        is_variable = module.description and name in module.description.variables
        return variables.get(name) if is_variable else None
    match = re.fullmatch(r"\$\(vars\.(\w+)\)", value) if isinstance(value, str) else None
    return variables.get(match.group(1)) if match else value


def _variables(document: ArtefactDocument) -> dict[str, Plain]:
    # The variables of a deployment file override those of the blueprint.
    variables: dict[str, Plain] = {}
    for layer in (document.root["vars"].value, document.parameters):
        if isinstance(layer, dict):
            variables |= layer
    return variables


def blueprint_findings(document: ArtefactDocument) -> Iterator[Finding]:
    """Yield what is wrong with a blueprint."""
    yield from _unknown_keys(document.root, BLUEPRINT_KEYS, "a blueprint")
    if not document.root["blueprint_name"].text:
        yield _finding(document.root, "blueprint_name is missing", "add blueprint_name")
    modules = blueprint_modules(document)
    ids: set[str] = set()
    for module in modules:
        if module.id in ids:
            what = f'a second module "{module.id}"'
            yield _finding(module.view["id"], what, "use another id")
        ids.add(module.id)
        yield from _module_findings(module, modules)
    yield from _reference_findings(document.root, modules)


def _module_findings(
    module: BlueprintModule, modules: tuple[BlueprintModule, ...]
) -> Iterator[Finding]:
    yield from _unknown_keys(module.view, MODULE_KEYS, "a module")
    for key in ("id", "source"):
        if not module.view[key].text:
            yield _finding(module.view, f"the module has no {key}", f"add {key}")
    ids = [other.id for other in modules]
    for used in module.view["use"].items:
        if used.text and not used.text.startswith("$(") and used.text not in ids:
            fix = _did_you_mean(used.text, ids, "add the module")
            yield _finding(used, f'no module "{used.text}"', fix)
    if module.description:
        yield from _setting_findings(module, module.description)
        yield from _required_settings(module, module.description, modules)
    elif re.match(r"^(community/)?modules/", module.source):
        source = module.view["source"]
        # Another version of the Toolkit may have the module.
        version = module.view.document.root["toolkit_modules_version"]
        is_pinned = version.is_set or "?ref=" in source.text
        yield _finding(
            source,
            f'the Toolkit has no module "{module.source}"',
            _did_you_mean(module.source, toolkit_modules(), "use a module of the Toolkit"),
            "warning" if is_pinned else "error",
        )


def _setting_findings(module: BlueprintModule, description: Module) -> Iterator[Finding]:
    for name, view in module.view["settings"].pairs:
        if name not in description.variables:
            what = f'{module.source} has no setting "{name}"'
            yield _finding(view, what, _did_you_mean(name, description.variables))
        elif not _has_type(view, description.variables[name]):
            what = f"{name} is a {description.variables[name]} in {module.source}"
            yield _finding(view, what, "write it as that type")


def _has_type(view: ValueView, kind: str) -> bool:
    # Terraform converts scalars into each other if their text allows it.
    value = view.value
    if value is None or kind not in PYTHON_TYPES or "$(" in view.text:
        return True
    if view.text.strip().startswith("(("):
        return True
    if kind == "string":
        return isinstance(value, str | int | float | bool)
    if kind == "number" and isinstance(value, str | bool):
        return isinstance(value, str) and re.fullmatch(r"-?\d+(\.\d+)?", value) is not None
    return isinstance(value, PYTHON_TYPES[kind]) or (kind == "bool" and value in ("true", "false"))


def _required_settings(
    module: BlueprintModule, description: Module, modules: tuple[BlueprintModule, ...]
) -> Iterator[Finding]:
    # A variable without a default is set by a setting, a blueprint variable or a used module.
    used = [other.description for other in modules if other.id in module.view["use"].texts]
    if None in used:
        return
    names = {name for name, _ in module.view["settings"].pairs}
    names |= {*_variables(module.view.document), *SET_BY_TOOLKIT}
    names |= {output for other in used if other for output in other.outputs}
    for name in description.required:
        if name not in names:
            what = f"{module.source} needs {name}, and nothing sets it"
            fix = f"add settings.{name}, vars.{name}, or a used module that outputs it"
            yield _finding(module.view, what, fix, _unset_severity(module.view.document))


def _unset_severity(document: ArtefactDocument) -> Severity:
    # Without a deployment file, that file may set the variable.
    return "error" if document.parameters else "note"


def _reference_findings(root: ValueView, modules: tuple[BlueprintModule, ...]) -> Iterator[Finding]:
    by_id = {module.id: module for module in modules}
    variables = {*_variables(root.document), "labels"}
    for view in _strings(root):
        for owner, name in REFERENCE.findall(view.text):
            if owner == "vars":
                if name not in variables:
                    match = closest_match(name, variables)
                    fix = f'did you mean "$(vars.{match})"?' if match else f"add vars.{name}"
                    what = f"$(vars.{name}): the blueprint has no such variable"
                    is_typo = match is not None and edits(name, match) <= MAX_EDITS
                    severity = "error" if is_typo else _unset_severity(root.document)
                    yield _finding(view, what, fix, severity)
            elif owner not in by_id:
                fix = _did_you_mean(owner, by_id, "use the id of a module")
                yield _finding(view, f'$({owner}.{name}): no module "{owner}"', fix)
            elif (description := by_id[owner].description) and name not in description.outputs:
                what = f'{by_id[owner].source} has no output "{name}"'
                yield _finding(view, what, _did_you_mean(name, description.outputs))


def edits(first: str, second: str) -> int:
    """Return the letters in which two words differ."""
    matcher = difflib.SequenceMatcher(None, first, second, autojunk=False)
    same = sum(block.size for block in matcher.get_matching_blocks())
    return max(len(first), len(second)) - same


def _strings(view: ValueView) -> Iterator[ValueView]:
    if isinstance(view.value, str):
        yield view
    for item in view.items:
        yield from _strings(item)
    for _, child in view.pairs:
        yield from _strings(child)


def _unknown_keys(view: ValueView, known: tuple[str, ...], owner: str) -> Iterator[Finding]:
    for key, child in view.pairs:
        if key not in known:
            yield _finding(child, f'{owner} has no key "{key}"', _did_you_mean(key, known))


def _did_you_mean(name: str, known: Collection[str], otherwise: str = "") -> str:
    match = closest_match(name, known)
    if match:
        return f'did you mean "{match}"?'
    return otherwise or f"use {choices_text(tuple(known))}"


def _finding(view: ValueView, what: str, fix: str, severity: Severity = "error") -> Finding:
    return view.finding(what, fix, rule="blueprint", severity=severity)
