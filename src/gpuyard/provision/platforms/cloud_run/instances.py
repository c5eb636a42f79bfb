"""Instances of Cloud Run with a GPU: the container, its host, its volumes."""

from __future__ import annotations

from gpuyard.document import Plain
from gpuyard.plan.inference.serverless import Instance
from gpuyard.provision.launch import Launch, Mount
from gpuyard.provision.settings import Place

__all__ = ["ACCELERATORS", "container", "task_parts"]

ACCELERATORS = {"l4": "nvidia-l4", "rtx-pro-6000": "nvidia-rtx-pro-6000"}
GIB = 2**30
# The most of both is 240 s (description of the API, run.v2, 2026-10-31): eight minutes until the first answer.
DELAY_S, PERIOD_S, FAILURES = 240, 10, 24


def container(launch: Launch, place: Place, instance: Instance, *, is_service: bool) -> dict[str, Plain]:
    """The container with the GPU."""
    limits: dict[str, Plain] = {
        "cpu": str(instance.vcpu_count),
        "memory": f"{instance.memory_bytes / GIB:g}Gi",
        "nvidia.com/gpu": "1",
    }
    variables: list[Plain] = [{"name": row.name, "value": row.value} for row in launch.variables]
    secret = place.settings.secret
    if is_service and secret:
        source: dict[str, Plain] = {"secretKeyRef": {"secret": secret, "version": "latest"}}
        variables.append({"name": "HF_TOKEN", "valueSource": source})
    prelude = () if is_service else ("export NODE_RANK=0 NODE_COUNT=1 MASTER_ADDR=localhost",)
    made: dict[str, Plain] = {
        "image": launch.image,
        "command": ["bash", "-c"],
        "args": [launch.script(*prelude)],
        "env": variables,
        "resources": {"limits": limits},
        "volumeMounts": [{"name": mount.name, "mountPath": mount.path} for mount in launch.mounts],
    }
    if is_service:
        made |= _served(launch)
        made["resources"] = {"limits": limits, "cpuIdle": False, "startupCpuBoost": True}
    return made


def _served(launch: Launch) -> dict[str, Plain]:
    """The port of a server and the probe that waits for it."""
    check: dict[str, Plain] = {"httpGet": {"path": launch.health, "port": launch.port}}
    if not launch.health:
        check = {"tcpSocket": {"port": launch.port}}
    probe: dict[str, Plain] = {
        **check, "initialDelaySeconds": DELAY_S, "periodSeconds": PERIOD_S, "timeoutSeconds": PERIOD_S - 1,
        "failureThreshold": FAILURES,
    }  # fmt: skip
    return {"ports": [{"containerPort": launch.port}], "startupProbe": probe}


def task_parts(launch: Launch, place: Place, instance: Instance) -> dict[str, Plain]:
    """What the templates of services and jobs share: GPU, volumes, network, identity."""
    parts: dict[str, Plain] = {
        "nodeSelector": {"accelerator": ACCELERATORS[instance.chip]},
        "gpuZonalRedundancyDisabled": True,
        "executionEnvironment": "EXECUTION_ENVIRONMENT_GEN2",  # which volumes of buckets need
        "volumes": [_volume(mount) for mount in launch.mounts],
    }
    if place.settings.network:
        nic: dict[str, Plain] = {"network": place.settings.network, "subnetwork": place.settings.network}
        parts["vpcAccess"] = {"egress": "PRIVATE_RANGES_ONLY", "networkInterfaces": [nic]}
    if place.settings.service_account:
        parts["serviceAccount"] = place.settings.service_account
    return parts


def _volume(mount: Mount) -> dict[str, Plain]:
    """A bucket as a folder."""
    gcs: dict[str, Plain] = {"bucket": mount.bucket, "readOnly": mount.is_read_only}
    if mount.folder:
        gcs["mountOptions"] = [f"only-dir={mount.folder}"]
    return {"name": mount.name, "gcs": gcs}
