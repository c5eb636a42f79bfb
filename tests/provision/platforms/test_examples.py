"""Every option of every shipped example, on every platform: valid files, or a reason."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from gpuyard.app.plan import plan_workload
from gpuyard.app.provision import WEIGHTS_RULE
from gpuyard.app.workspace import open_workspace
from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.blueprint.make import consumption_options, make_blueprint
from gpuyard.errors import Infeasible
from gpuyard.provision.lint import lint
from gpuyard.provision.platform import Unsuitable
from gpuyard.provision.platforms import PLATFORMS

from .rendering import render

EXAMPLES = Path(__file__).parents[3] / "examples"
ABOUT_THE_PLAN = ("a4x-rack",)  # the number of machines, which a renderer must not change
REFUSED = (WEIGHTS_RULE,)  # provision refuses the option, with this reason
FILES = sorted(EXAMPLES.glob("*.yaml"))


def distinct(blueprints: list[Blueprint]) -> list[Blueprint]:
    """Return one blueprint per machine, engine, replica size and consumption option."""
    seen: dict[tuple[object, ...], Blueprint] = {}
    for blueprint in blueprints:
        service = blueprint.option.service
        pools = (service.engine.name, service.chips_per_replica) if service else ()
        key = (blueprint.machine.name, blueprint.shape, blueprint.consumption, pools)
        seen.setdefault(key, blueprint)
    return list(seen.values())


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_option_of_an_example_renders_and_lints_or_is_refused(file: Path) -> None:
    workspace = open_workspace(file)
    plan = plan_workload(workspace)
    assert not isinstance(plan, Infeasible)
    blueprints = []
    for number, option in enumerate(plan.options, start=1):
        machine = workspace.catalog.machine(option.cluster.machine)
        choices = consumption_options(machine, workspace.workload) or (None,)
        for consumption in choices if machine.provider == "google" else (None,):
            blueprints.append(
                make_blueprint(
                    workspace.workload, plan, number, workspace.catalog, consumption=consumption
                )
            )
    assert blueprints
    for blueprint in distinct(blueprints):
        for platform in PLATFORMS:
            result = render(platform, blueprint)
            what = f"{platform.name}: option {blueprint.number} {blueprint.consumption}"
            if isinstance(result, Unsuitable):
                assert result.why, what
                continue
            findings = lint(result.files, workspace.catalog)
            errors = [row for row in findings.errors if row.rule not in REFUSED]
            assert not errors, f"{what}: {errors[0]}"
            others = [row for row in findings.warnings if row.rule not in ABOUT_THE_PLAN]
            assert not others, f"{what}: {others[0]}"


def test_distinct_blueprints_differ_in_consumption() -> None:
    from .rendering import blueprint_of

    spot = blueprint_of("a3-megagpu-8g", "multi-node", "spot")
    other = dataclasses.replace(spot, consumption="reservation")
    assert distinct([spot, spot, other]) == [spot, other]
