"""Validation of Toolkit blueprints: settings, references, required variables."""

from __future__ import annotations

import pytest

from gpuyard.document.frozen_json import Plain
from gpuyard.provision.artefact import Artefact

from ..trees import GONE, changed, check, sample

MODULES = "deployment_groups[0].modules"


def findings(change: dict[str, Plain], *others: Artefact) -> list[tuple[str, str]]:
    result = check(changed(sample("blueprint.yaml"), change), *others)
    return [
        (finding.severity, finding.what)
        for finding in result.findings
        if finding.rule == "blueprint"
    ]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({f"{MODULES}[3].settings.machine_typ": "x"}, 'has no setting "machine_typ"'),
        ({f"{MODULES}[3].settings.node_count_static": "many"}, "node_count_static is a number"),
        ({f"{MODULES}[3].settings.enable_placement": [1]}, "enable_placement is a bool"),
        ({f"{MODULES}[3].use": ["sysnet", "gpunet"]}, 'no module "gpunet"'),
        (
            {f"{MODULES}[3].source": "community/modules/compute/nodeset"},
            "the Toolkit has no module",
        ),
        ({f"{MODULES}[4].id": "nodeset"}, 'a second module "nodeset"'),
        ({f"{MODULES}[0].settings.network_name": "$(sysnett.name)"}, 'no module "sysnett"'),
        (
            {f"{MODULES}[3].settings.subnetwork_self_link": "$(sysnet.subnet)"},
            'has no output "subnet"',
        ),
        ({f"{MODULES}[0].setting": {}}, 'a module has no key "setting"'),
        ({"variables": {}}, 'a blueprint has no key "variables"'),
        ({"blueprint_name": GONE}, "blueprint_name is missing"),
        ({f"{MODULES}[0].source": GONE}, "the module has no source"),
    ],
)
def test_blueprint_mistake_is_an_error(change: dict[str, Plain], what: str) -> None:
    reported = findings(change)
    assert any(severity == "error" and what in text for severity, text in reported), reported


def test_unset_variable_is_an_error_when_deployment_file_is_given() -> None:
    change: dict[str, Plain] = {"vars.region": GONE}
    assert {severity for severity, _ in findings(change)} == {"note"}
    other = Artefact(name="deployment.yaml", text="vars: {project_id: p}\n")
    assert "error" in {severity for severity, _ in findings(change, other)}
    right = Artefact(name="deployment.yaml", text="vars: {region: europe-west1}\n")
    assert findings(change, right) == []


def test_remote_and_local_module_sources_are_accepted() -> None:
    source = "github.com/GoogleCloudPlatform/cluster-toolkit//modules/network/vpc?ref=v1.60.0"
    assert findings({f"{MODULES}[0].source": source}) == []
    assert findings({f"{MODULES}[0].source": "./my/module"}) == []
