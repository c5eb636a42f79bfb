"""A command whose checkpoint cannot fit is refused, not rendered."""

from __future__ import annotations

from dataclasses import replace

from gpuyard.app.provision import provision
from gpuyard.catalog.load import load_catalog
from gpuyard.provision.deployment_settings import DeploymentSettings
from gpuyard.provision.platform import Unsuitable
from sample_blueprints import BlueprintSample, sample_blueprint

CATALOG = load_catalog()


def test_checkpoint_larger_than_gpu_memory_is_refused() -> None:
    machine = CATALOG.machine("g2-standard-8")
    sample = BlueprintSample(machine=machine, shape="service", consumption="on-demand")
    blueprint = sample_blueprint(sample, CATALOG)
    service = blueprint.option.service
    assert service is not None
    command = ("vllm serve meta-llama/Llama-3.3-70B-Instruct --tensor-parallel-size 1",)
    engine = replace(service.engine, command=command)
    option = replace(blueprint.option, service=replace(service, engine=engine))
    settings = DeploymentSettings(project="my-project", rendered_s=1_800_000_000.0)
    for platform in ("gke", "compute-engine"):
        result = provision(replace(blueprint, option=option), platform, settings, CATALOG)
        assert isinstance(result, Unsuitable)
        assert "141 GB" in result.why
