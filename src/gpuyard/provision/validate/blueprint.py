"""Cluster Toolkit blueprints: modules, their settings, and the references between them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpuyard.document import Plain
from gpuyard.errors import nearest, one_of
from gpuyard.provision.finding import Finding, Severity
from gpuyard.provision.part import Part, View
from gpuyard.provision.schemas import Module, toolkit_modules

__all__ = ["BlueprintModule", "blueprint_faults", "blueprint_modules", "resolved_setting"]

TOP = (
    "blueprint_name ghpc_version vars validators validation_level deployment_groups terraform_backend_defaults "
    "terraform_providers toolkit_modules_url toolkit_modules_version"
)
MODULE = "id source kind use settings outputs wrapsettingswith"
REFERENCE = re.compile(r"(?<!\\)\$\(([A-Za-z_][\w-]*)\.([A-Za-z_]\w*)")
REMOTE = re.compile(
    r"^(?:git::)?(?:https://)?github\.com/GoogleCloudPlatform/(?:cluster|hpc)-toolkit(?:\.git)?//([^?]+)"
)
GIVEN_BY_TOOLKIT = ("deployment_name", "labels", "project_id", "blueprint_name", "ghpc_role")
LOOKS: dict[str, tuple[type, ...]] = {
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
    """A module of a blueprint with the description of its source, where that is shipped."""

    id: str
    source: str
    view: View
    known: Module | None


def blueprint_modules(part: Part) -> tuple[BlueprintModule, ...]:
    """The modules of a blueprint in order."""
    return tuple(
        BlueprintModule(
            id=view["id"].text,
            source=_path(view["source"].text),
            view=view,
            known=toolkit_modules().get(_path(view["source"].text)),
        )
        for group in part.root["deployment_groups"].items
        for view in group["modules"].items
    )


def _path(source: str) -> str:
    """The path of a module in the Toolkit's repository."""
    remote = REMOTE.match(source)
    return (remote.group(1) if remote else source).rstrip("/")


def resolved_setting(module: BlueprintModule, name: str) -> Plain:
    """A setting's value; `$(vars.x)` gives the variable's value where the blueprint has it."""
    variables = _variables(module.view.part)
    value = module.view.at("settings", name).value
    if value is None:
        return variables.get(name) if module.known and name in module.known.variables else None
    found = re.fullmatch(r"\$\(vars\.(\w+)\)", value) if isinstance(value, str) else None
    return variables.get(found.group(1)) if found else value


def _variables(part: Part) -> dict[str, Plain]:
    """The blueprint's variables, with those of its deployment file over them."""
    own, given = part.root["vars"].value, part.parameters
    return {**(own if isinstance(own, dict) else {}), **(given if isinstance(given, dict) else {})}


def blueprint_faults(part: Part) -> Iterator[Finding]:
    """What is wrong with a blueprint."""
    yield from _keys(part.root, TOP.split(), "a blueprint")
    if not part.root["blueprint_name"].text:
        yield _finding(part.root, "blueprint_name is missing", "add blueprint_name")
    modules = blueprint_modules(part)
    seen: set[str] = set()
    for module in modules:
        if module.id in seen:
            yield _finding(module.view["id"], f'a second module "{module.id}"', "give it another id")
        seen.add(module.id)
        yield from _module_faults(module, modules)
    yield from _references(part.root, modules)


def _module_faults(module: BlueprintModule, modules: tuple[BlueprintModule, ...]) -> Iterator[Finding]:
    """What is wrong with one module."""
    yield from _keys(module.view, MODULE.split(), "a module")
    for key in ("id", "source"):
        if not module.view[key].text:
            yield _finding(module.view, f"the module has no {key}", f"add {key}")
    for used in module.view["use"].items:
        if used.text and not used.text.startswith("$(") and used.text not in [other.id for other in modules]:
            meant = nearest(used.text, [other.id for other in modules])
            yield _finding(used, f'no module "{used.text}"', f'did you mean "{meant}"?' if meant else "add the module")
    if module.known is None:
        if re.match(r"^(community/)?modules/", module.source):
            meant = nearest(module.source, toolkit_modules())
            fix = f'did you mean "{meant}"?' if meant else "use a module of the Toolkit"
            pinned = module.view.part.root["toolkit_modules_version"].is_set or "?ref=" in module.view["source"].text
            severity: Severity = "warning" if pinned else "error"  # an older Toolkit may have had it
            yield _finding(module.view["source"], f'the Toolkit has no module "{module.source}"', fix, severity)
        return
    yield from _settings(module, module.known)
    yield from _required(module, module.known, modules)


def _settings(module: BlueprintModule, known: Module) -> Iterator[Finding]:
    """Settings that the module does not have, or of the wrong type."""
    for name, view in module.view["settings"].pairs:
        if name not in known.variables:
            meant = nearest(name, known.variables)
            fix = f'did you mean "{meant}"?' if meant else f"use {one_of(tuple(known.variables))}"
            yield _finding(view, f'{module.source} has no setting "{name}"', fix)
            continue
        wanted = LOOKS.get(known.variables[name])
        text = view.text.strip()
        is_expression = text.startswith(("$(", "((")) or "$(" in text
        fits = wanted is None or not view.is_set or isinstance(view.value, wanted) or is_expression
        if isinstance(view.value, bool) and wanted == (int, float):
            fits = False
        if not fits and not _converts(view.value, known.variables[name]):
            yield _finding(view, f"{name} is {known.variables[name]} in {module.source}", "write it as that")


def _converts(value: Plain, kind: str) -> bool:
    """Terraform turns scalars into each other where the text allows it."""
    if kind == "string":
        return isinstance(value, int | float | bool)
    if kind == "number":
        return isinstance(value, str) and re.fullmatch(r"-?\d+(\.\d+)?", value) is not None
    return kind == "bool" and value in ("true", "false")


def _required(module: BlueprintModule, known: Module, modules: tuple[BlueprintModule, ...]) -> Iterator[Finding]:
    """Variables without a default that nothing sets: no setting, no blueprint variable, no module in `use`."""
    used = [other for other in modules if other.id in module.view["use"].texts]
    if any(other.known is None for other in used):
        return
    given = {name for name, _ in module.view["settings"].pairs}
    given |= {*_variables(module.view.part), *GIVEN_BY_TOOLKIT}
    given |= {output for other in used if other.known for output in other.known.outputs}
    for name in known.required:
        if name not in given:
            what = f"{module.source} needs {name}, and nothing sets it"
            fix = f"add settings.{name}, vars.{name}, or a module to use that gives it"
            yield _finding(module.view, what, fix, _missing(module.view.part))


def _missing(part: Part) -> Severity:
    """How bad a variable is that nothing sets: without a deployment file, that file may."""
    return "error" if part.parameters else "note"


def _references(root: View, modules: tuple[BlueprintModule, ...]) -> Iterator[Finding]:
    """References to variables and outputs that are not there."""
    by_id = {module.id: module for module in modules}
    variables = {*_variables(root.part), "deployment_name", "labels"}
    for view in _leaves(root):
        for owner, name in REFERENCE.findall(view.text):
            if owner == "vars":
                if name not in variables:
                    meant = nearest(name, variables)
                    fix = f'did you mean "$(vars.{meant})"?' if meant else f"add vars.{name}"
                    yield _finding(
                        view, f"$(vars.{name}): the blueprint has no such variable", fix, _missing(root.part)
                    )
            elif owner not in by_id:
                meant = nearest(owner, by_id)
                fix = f'did you mean "{meant}"?' if meant else "use the id of a module"
                yield _finding(view, f'$({owner}.{name}): no module "{owner}"', fix)
            elif (known := by_id[owner].known) and name not in known.outputs:
                meant = nearest(name, known.outputs)
                fix = f'did you mean "{meant}"?' if meant else f"use {one_of(known.outputs)}"
                yield _finding(view, f'{by_id[owner].source} has no output "{name}"', fix)


def _leaves(view: View) -> Iterator[View]:
    """Every text below a view."""
    if isinstance(view.value, str):
        yield view
    for item in view.items:
        yield from _leaves(item)
    for _, child in view.pairs:
        yield from _leaves(child)


def _keys(view: View, known: list[str], what: str) -> Iterator[Finding]:
    """Keys that do not belong there."""
    for key, child in view.pairs:
        if key not in known:
            meant = nearest(key, known)
            fix = f'did you mean "{meant}"?' if meant else f"use {one_of(known)}"
            yield _finding(child, f'{what} has no key "{key}"', fix)


def _finding(view: View, what: str, fix: str, severity: Severity = "error") -> Finding:
    """A finding at a place of the blueprint."""
    return Finding(rule="blueprint", severity=severity, where=view.where, what=what, fix=fix)
