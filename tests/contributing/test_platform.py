"""The recipe "Add a platform to provision" of CONTRIBUTING.md: one folder and one line of a list."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from gpuyard.app.provision import Provisioned, provision
from gpuyard.blueprint.blueprint import Shape
from gpuyard.catalog.load import load_catalog
from gpuyard.provision import platforms
from gpuyard.provision.deployment_settings import DeploymentSettings
from gpuyard.provision.platform import Unsuitable
from sample_blueprints import BlueprintSample, sample_blueprint

# What a contributor writes in src/gpuyard/provision/platforms/toy/toy_platform.py.
TOY = """
from gpuyard.provision.artefact import Artefact
from gpuyard.provision.launch.job import job_launch
from gpuyard.provision.platform import Artefacts, DeployStep, unsuitable


class Toy:
    name = "toy"
    label = "Toy"

    def render(self, blueprint, settings):
        if blueprint.shape != "single-node":
            return unsuitable(self.name, "a toy runs one machine", blueprint)
        script = "#!/bin/bash\\n" + job_launch(blueprint, settings, "host").script(exports=True)
        return Artefacts(
            platform=self.name,
            files=(Artefact(name="10-run.sh", text=script),),
            steps=(DeployStep(what="Run it", command="bash 10-run.sh"),),
        )


TOY = Toy()
"""


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The toy platform, loaded from its file and added to the list."""
    path = tmp_path / "toy_platform.py"
    path.write_text(TOY, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("toy_platform", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(platforms, "PLATFORMS", (*platforms.PLATFORMS, module.TOY))


def provision_sample(shape: Shape) -> Provisioned | Unsuitable:
    """Provision a sample blueprint on the toy platform."""
    catalog = load_catalog()
    machine = catalog.machine("g2-standard-4")
    sample = BlueprintSample(machine=machine, shape=shape, consumption="on-demand")
    return provision(sample_blueprint(sample, catalog), "toy", DeploymentSettings(), catalog)


@pytest.mark.usefixtures("toy")
def test_platform_of_one_folder_and_one_line_is_provisioned() -> None:
    result = provision_sample("single-node")
    assert isinstance(result, Provisioned)
    texts = {file.name: file.text for file in result.files}
    assert "torchrun" in texts["10-run.sh"]
    assert "bash 10-run.sh" in texts["README.md"]


@pytest.mark.usefixtures("toy")
def test_unsuitable_platform_of_the_recipe_suggests_another() -> None:
    result = provision_sample("multi-node")
    assert isinstance(result, Unsuitable)
    assert result.nearest in {platform.name for platform in platforms.PLATFORMS} - {"toy"}
