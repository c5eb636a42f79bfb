"""Cloud Run instances with a GPU: container, probe, volumes, network."""

from __future__ import annotations

from gpuyard.document.frozen_json import Plain
from gpuyard.plan.inference.serverless import Instance
from gpuyard.provision.deployment_settings import ResolvedSettings
from gpuyard.provision.launch.launch import BucketMount, Launch

ACCELERATORS = {"l4": "nvidia-l4", "rtx-pro-6000": "nvidia-rtx-pro-6000"}
GIB = 2**30
# The delay and period × failures are at most 240 s each (API description, run.v2, 2026-10-31): an
# instance has eight minutes to become ready.
DELAY_S = 240
PERIOD_S = 10
FAILURES = 24


def container(
    launch: Launch, settings: ResolvedSettings, instance: Instance, *, is_service: bool
) -> dict[str, Plain]:
    """Return the container with the GPU."""
    limits: dict[str, Plain] = {
        "cpu": str(instance.vcpu_count),
        "memory": f"{instance.memory_bytes / GIB:g}Gi",
        "nvidia.com/gpu": "1",
    }
    variables: list[Plain] = [{"name": row.name, "value": row.value} for row in launch.variables]
    secret = settings.requested.secret
    if is_service and secret:
        source: dict[str, Plain] = {"secretKeyRef": {"secret": secret, "version": "latest"}}
        variables.append({"name": "HF_TOKEN", "valueSource": source})
    prelude = () if is_service else ("export NODE_RANK=0 NODE_COUNT=1 MASTER_ADDR=localhost",)
    body: dict[str, Plain] = {
        "image": launch.image,
        "command": ["bash", "-c"],
        "args": [launch.script(*prelude)],
        "env": variables,
        "resources": {"limits": limits},
        "volumeMounts": [{"name": mount.name, "mountPath": mount.path} for mount in launch.mounts],
    }
    if is_service:
        body |= _port_and_probe(launch)
        body["resources"] = {"limits": limits, "cpuIdle": False, "startupCpuBoost": True}
    return body


def _port_and_probe(launch: Launch) -> dict[str, Plain]:
    check: dict[str, Plain] = {"httpGet": {"path": launch.health, "port": launch.port}}
    if not launch.health:
        check = {"tcpSocket": {"port": launch.port}}
    probe: dict[str, Plain] = {
        **check,
        "initialDelaySeconds": DELAY_S,
        "periodSeconds": PERIOD_S,
        "timeoutSeconds": PERIOD_S - 1,
        "failureThreshold": FAILURES,
    }
    return {"ports": [{"containerPort": launch.port}], "startupProbe": probe}


def task_parts(launch: Launch, settings: ResolvedSettings, instance: Instance) -> dict[str, Plain]:
    """Return what services and jobs share: GPU, volumes, network, service account."""
    parts: dict[str, Plain] = {
        "nodeSelector": {"accelerator": ACCELERATORS[instance.chip]},
        "gpuZonalRedundancyDisabled": True,
        "executionEnvironment": "EXECUTION_ENVIRONMENT_GEN2",  # required for bucket volumes
        "volumes": [_volume(mount) for mount in launch.mounts],
    }
    if settings.requested.network:
        nic: dict[str, Plain] = {
            "network": settings.requested.network,
            "subnetwork": settings.requested.network,
        }
        parts["vpcAccess"] = {"egress": "PRIVATE_RANGES_ONLY", "networkInterfaces": [nic]}
    if settings.requested.service_account:
        parts["serviceAccount"] = settings.requested.service_account
    return parts


def _volume(mount: BucketMount) -> dict[str, Plain]:
    gcs: dict[str, Plain] = {"bucket": mount.bucket, "readOnly": mount.is_read_only}
    if mount.folder:
        gcs["mountOptions"] = [f"only-dir={mount.folder}"]
    return {"name": mount.name, "gcs": gcs}
