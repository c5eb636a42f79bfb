"""Requirements of a pod that uses a GPU fabric, per technology."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import yaml

from gpuyard.provision.artefact_document import ValueView
from gpuyard.provision.invariants.facts import Technology
from gpuyard.provision.invariants.pods import (
    DEFAULT_INTERFACE,
    INTERFACES,
    PodTemplate,
    interfaces_of,
    mounts_of,
)

DEVICES = "devices.gke.io/container."
GPU_DEVICES = (*(f"/dev/nvidia{index}" for index in range(8)), "/dev/nvidiactl", "/dev/nvidia-uvm")


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricRequirement:
    """One requirement of a pod; without a hard one it cannot reach the fabric."""

    name: str
    fix: str
    is_hard: bool
    is_met: Callable[[PodTemplate], bool]


def devices_of(annotation: ValueView) -> tuple[str, ...] | None:
    """Return the paths of a devices annotation; None if it is not a list of paths."""
    if not annotation.text:
        return ()
    try:
        rows = yaml.safe_load(annotation.text)
        return tuple(str(row["path"]) for row in rows)
    except (yaml.YAMLError, KeyError, TypeError):
        return None


def _claims_its_share(pod: PodTemplate) -> bool:
    """A pod with some of the machine's GPUs needs as many of its RDMA NICs."""
    assert pod.fabric is not None
    share = 1.0
    if pod.machine is not None and pod.machine.chip_count:
        share = min(1.0, pod.gpu_count / pod.machine.chip_count) or 1.0
    needed = max(1, int(share * pod.fabric.data_nic_count))
    return bool(pod.claims) and pod.rdma_claim_count >= needed


def _has_networks(pod: PodTemplate) -> bool:
    # By interfaces on all data networks, by claims on the RDMA NICs, or by the host network.
    assert pod.fabric is not None
    if pod.is_on_host_network or _claims_its_share(pod):
        return True
    if pod.fabric.needs_claims:
        return False
    rows = interfaces_of(pod) or ()
    data_networks = {row.network for row in rows if row.network not in ("default", "gvnic-1")}
    return len(data_networks) >= pod.fabric.data_nic_count


def _has_default_interface(pod: PodTemplate) -> bool:
    if pod.annotations[DEFAULT_INTERFACE].text:
        return True
    needs_none = pod.is_on_host_network or not pod.annotations[INTERFACES].is_set
    return needs_none and _has_networks(pod)


def _has_daemon(pod: PodTemplate) -> bool:
    assert pod.fabric is not None
    image = f"gpudirect-{pod.fabric.technology}/"
    return pod.daemon is not None and image in pod.daemon["image"].text


def _is_privileged(container: ValueView | None) -> bool:
    return container is not None and container.at("securityContext", "privileged").is_true


def _daemon_has_capabilities(*names: str) -> Callable[[PodTemplate], bool]:
    def is_met(pod: PodTemplate) -> bool:
        if pod.daemon is None:
            return False
        added = pod.daemon.at("securityContext", "capabilities", "add").texts
        return _is_privileged(pod.daemon) or set(names) <= set(added)

    return is_met


def _daemon_has_gpu_devices(pod: PodTemplate) -> bool:
    if pod.daemon is None or pod.fabric is None:
        return False
    listed = devices_of(pod.annotations[DEVICES + pod.daemon["name"].text]) or ()
    required = {*GPU_DEVICES}
    if pod.fabric.technology == "tcpxo":
        required.add("/dev/dmabuf_import_helper")
    return _is_privileged(pod.daemon) or required <= set(listed)


def _daemon_mounts(*paths: str) -> Callable[[PodTemplate], bool]:
    def is_met(pod: PodTemplate) -> bool:
        if pod.daemon is None:
            return False
        sees_host = _is_privileged(pod.daemon) and pod.is_on_host_network
        return sees_host or set(paths) <= set(mounts_of(pod, pod.daemon))

    return is_met


def _mounts_any(*paths: str) -> Callable[[PodTemplate], bool]:
    return lambda pod: any(mount.startswith(paths) for mount in pod.mounts)


def _script_has_any(*words: str) -> Callable[[PodTemplate], bool]:
    return lambda pod: any(word in pod.script for word in words)


def _has_gib(pod: PodTemplate) -> bool:
    in_image = any("-gib" in box["image"].text for box in pod.workers)
    return in_image or _mounts_any("/usr/local/gib")(pod)


def _has_aperture_devices(pod: PodTemplate) -> bool:
    is_privileged = any(_is_privileged(box) for box in pod.workers)
    return is_privileged or _mounts_any("/dev/aperture_devices")(pod)


def _has_all_gpus(pod: PodTemplate) -> bool:
    is_whole = pod.machine is None or pod.gpu_count == pod.machine.chip_count
    return is_whole or _claims_its_share(pod)


_NETWORKS = FabricRequirement(
    name="an interface on every data network",
    fix="list all of them in networking.gke.io/interfaces (or claim mrdma.google.com devices)",
    is_hard=True,
    is_met=_has_networks,
)
_DEFAULT = FabricRequirement(
    name="a default interface",
    fix="add the annotation networking.gke.io/default-interface: 'eth0'",
    is_hard=True,
    is_met=_has_default_interface,
)
_ALL_GPUS = FabricRequirement(
    name="all GPUs of the machine",
    fix="request all of them: NICs are assigned by GPU",
    is_hard=False,
    is_met=_has_all_gpus,
)
_DAEMON_SYSFS = FabricRequirement(
    name="the daemon's host mounts",
    fix="mount /sys at /hostsysfs and /proc/sys at /hostprocsysfs in the daemon",
    is_hard=True,
    is_met=_daemon_mounts("/hostsysfs", "/hostprocsysfs"),
)
_DAEMON_DEVICES = FabricRequirement(
    name="GPU devices in the daemon",
    fix="list /dev/nvidia0..7, nvidiactl, nvidia-uvm (TCPXO: dmabuf_import_helper) "
    "in devices.gke.io/container.NAME",
    is_hard=True,
    is_met=_daemon_has_gpu_devices,
)
_LIBRARIES = FabricRequirement(
    name="the NCCL plugin's libraries",
    fix="mount hostPath /home/kubernetes/bin/nvidia/lib64 at /usr/local/nvidia/lib64",
    is_hard=False,
    is_met=_mounts_any(
        "/usr/local/nvidia", "/usr/local/tcpx", "/usr/lib/tcpx", "/usr/local/fastrak"
    ),
)

REQUIREMENTS: dict[Technology, tuple[FabricRequirement, ...]] = {
    "tcpxo": (
        _NETWORKS,
        _DEFAULT,
        FabricRequirement(
            name="the TCPXO daemon (RxDM)",
            fix="add the container gpudirect-tcpxo/tcpgpudmarxd-dev as a native sidecar",
            is_hard=True,
            is_met=_has_daemon,
        ),
        FabricRequirement(
            name="the daemon's capabilities",
            fix="add NET_ADMIN and NET_BIND_SERVICE to the daemon",
            is_hard=True,
            is_met=_daemon_has_capabilities("NET_ADMIN", "NET_BIND_SERVICE"),
        ),
        _DAEMON_DEVICES,
        _DAEMON_SYSFS,
        _LIBRARIES,
        FabricRequirement(
            name="aperture devices",
            fix="mount hostPath /dev/aperture_devices "
            "and set NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY to it",
            is_hard=True,
            is_met=_has_aperture_devices,
        ),
        FabricRequirement(
            name="the plugin's NCCL settings",
            fix="run `source /usr/local/nvidia/lib64/nccl-env-profile.sh` before the program",
            is_hard=False,
            is_met=_script_has_any(
                "nccl-env-profile", "NCCL_FASTRAK_IFNAME", "run-nccl-test-tcpxo"
            ),
        ),
        _ALL_GPUS,
    ),
    "tcpx": (
        _NETWORKS,
        _DEFAULT,
        FabricRequirement(
            name="the TCPX daemon (RxDM)",
            fix="add the container gpudirect-tcpx/tcpgpudmarxd-dev as a native sidecar",
            is_hard=True,
            is_met=_has_daemon,
        ),
        FabricRequirement(
            name="the daemon's capabilities",
            fix="add NET_ADMIN to the daemon",
            is_hard=True,
            is_met=_daemon_has_capabilities("NET_ADMIN"),
        ),
        _DAEMON_DEVICES,
        _DAEMON_SYSFS,
        FabricRequirement(
            name="the daemon's socket",
            fix="mount one volume at /run/tcpx in the daemon and in the GPU container",
            is_hard=True,
            is_met=_daemon_mounts("/run/tcpx"),
        ),
        _LIBRARIES,
        FabricRequirement(
            name="the plugin's NCCL settings",
            fix="set NCCL_GPUDIRECTTCPX_SOCKET_IFNAME=eth1,eth2,eth3,eth4 "
            "and the other variables of the release",
            is_hard=False,
            is_met=_script_has_any("NCCL_GPUDIRECTTCPX", "nccl-env-profile"),
        ),
        _ALL_GPUS,
    ),
    "roce": (
        _NETWORKS,
        _DEFAULT,
        FabricRequirement(
            name="the gIB plugin",
            fix="mount hostPath /home/kubernetes/bin/gib at /usr/local/gib",
            is_hard=True,
            is_met=_has_gib,
        ),
        FabricRequirement(
            name="the plugin's NCCL settings",
            fix="run `source /usr/local/gib/scripts/set_nccl_env.sh` before the program",
            is_hard=False,
            is_met=_script_has_any(
                "set_nccl_env", "NCCL_IB_QPS_PER_CONNECTION", "NCCL_TUNER_CONFIG_PATH"
            ),
        ),
        FabricRequirement(
            name="NCCL_NET=gIB (without it, a broken fabric falls back to sockets)",
            fix="set NCCL_NET to gIB",
            is_hard=False,
            is_met=_script_has_any("NCCL_NET=gIB", 'NCCL_NET="gIB"'),
        ),
        _ALL_GPUS,
    ),
}
