"""What a pod needs to reach a GPU fabric, one row a need; a hard one that is missing settles it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import yaml

from gpuyard.provision.invariants.facts import Technology
from gpuyard.provision.invariants.pods import Pod, interfaces_of, mounts_of
from gpuyard.provision.part import View

__all__ = ["DEVICES", "NEEDS", "Need", "devices_of"]

DEVICES = "devices.gke.io/container."
GPU_DEVICES = (*(f"/dev/nvidia{index}" for index in range(8)), "/dev/nvidiactl", "/dev/nvidia-uvm")


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """One thing that a pod needs to reach the fabric; without a hard one it surely does not."""

    name: str
    fix: str
    is_hard: bool
    is_met: Callable[[Pod], bool]


def _has_networks(pod: Pod) -> bool:
    """An interface on every data network, resource claims for all RDMA NICs, or the host's own network."""
    assert pod.fabric is not None
    if pod.is_on_host_network or pod.rdma_claim_count >= pod.fabric.data_nic_count:
        return True
    if pod.fabric.needs_claims:
        return False
    rows = interfaces_of(pod) or ()
    data = {row.network for row in rows if row.network not in ("default", "gvnic-1")}
    return len(data) >= pod.fabric.data_nic_count


def _has_default_interface(pod: Pod) -> bool:
    """eth0 is the default interface."""
    by_host = pod.is_on_host_network or not pod.annotations["networking.gke.io/interfaces"].is_set
    return (by_host and _has_networks(pod)) or bool(pod.annotations["networking.gke.io/default-interface"].text)


def _has_daemon(pod: Pod) -> bool:
    """The receive daemon of the fabric runs in the pod."""
    assert pod.fabric is not None
    return pod.daemon is not None and f"gpudirect-{pod.fabric.technology}/" in pod.daemon["image"].text


def _is_privileged(container: View | None) -> bool:
    """A container that may do everything."""
    return container is not None and container.at("securityContext", "privileged").is_true


def _daemon_may(*names: str) -> Callable[[Pod], bool]:
    """The daemon has these capabilities."""

    def _may(pod: Pod) -> bool:
        granted = pod.daemon.at("securityContext", "capabilities", "add").texts if pod.daemon else ()
        return _is_privileged(pod.daemon) or set(names) <= set(granted)

    return _may


def _daemon_sees_gpus(pod: Pod) -> bool:
    """The devices annotation of the daemon lists every GPU device, or it is privileged."""
    if pod.daemon is None or pod.fabric is None:
        return False
    listed = devices_of(pod.annotations[DEVICES + pod.daemon["name"].text]) or ()
    wanted = (*GPU_DEVICES, "/dev/dmabuf_import_helper") if pod.fabric.technology == "tcpxo" else GPU_DEVICES
    return _is_privileged(pod.daemon) or set(wanted) <= set(listed)


def devices_of(annotation: View) -> tuple[str, ...] | None:
    """The paths of a devices annotation; None where it is not a list of them."""
    if not annotation.text:
        return ()
    try:
        rows = yaml.safe_load(annotation.text)
        return tuple(str(row["path"]) for row in rows)
    except (yaml.YAMLError, KeyError, TypeError):
        return None


def _daemon_mounts(*paths: str) -> Callable[[Pod], bool]:
    """The daemon has these mounts."""

    def _mounted(pod: Pod) -> bool:
        has = pod.daemon is not None and set(paths) <= set(mounts_of(pod, pod.daemon))
        return has or (_is_privileged(pod.daemon) and pod.is_on_host_network)

    return _mounted


def _mounts(*paths: str) -> Callable[[Pod], bool]:
    """The GPU containers have one of these mounts."""
    return lambda pod: any(mount.startswith(path) for mount in pod.mounts for path in paths)


def _says(*words: str) -> Callable[[Pod], bool]:
    """The command or the environment of the GPU containers holds one of these words."""
    return lambda pod: any(word in pod.script for word in words)


def _has_gib(pod: Pod) -> bool:
    """The gIB plugin is mounted, or in the image."""
    return _mounts("/usr/local/gib")(pod) or any("-gib" in box["image"].text for box in pod.workers)


def _has_aperture(pod: Pod) -> bool:
    """The devices of TCPXO's low-latency channel are in the GPU containers."""
    return _mounts("/dev/aperture_devices")(pod) or any(_is_privileged(box) for box in pod.workers)


def _has_all_gpus(pod: Pod) -> bool:
    """The pod takes the whole machine."""
    return pod.machine is None or pod.gpu_count == pod.machine.chip_count


_NETWORKS = Need(
    name="an interface on every data network",
    fix="add networking.gke.io/interfaces with all of them (or resource claims on mrdma.google.com)",
    is_hard=True,
    is_met=_has_networks,
)
_DEFAULT = Need(
    name="the default interface",
    fix="add the annotation networking.gke.io/default-interface: 'eth0'",
    is_hard=True,
    is_met=_has_default_interface,
)
_ALL_GPUS = Need(
    name="all the GPUs of the machine",
    fix="ask for all of them: NICs are shared out by GPU",
    is_hard=False,
    is_met=_has_all_gpus,
)
_DAEMON_SYSFS = Need(
    name="the daemon's view of the host",
    fix="mount /sys at /hostsysfs and /proc/sys at /hostprocsysfs in the daemon",
    is_hard=True,
    is_met=_daemon_mounts("/hostsysfs", "/hostprocsysfs"),
)
_DAEMON_DEVICES = Need(
    name="GPU devices in the daemon",
    fix="list /dev/nvidia0..7, nvidiactl, nvidia-uvm (TCPXO: dmabuf_import_helper) in devices.gke.io/container.NAME",
    is_hard=True,
    is_met=_daemon_sees_gpus,
)
_LIBRARIES = Need(
    name="the NCCL plugin's libraries",
    fix="mount hostPath /home/kubernetes/bin/nvidia/lib64 at /usr/local/nvidia/lib64",
    is_hard=False,
    is_met=_mounts("/usr/local/nvidia", "/usr/local/tcpx", "/usr/lib/tcpx", "/usr/local/fastrak"),
)

NEEDS: dict[Technology, tuple[Need, ...]] = {
    "tcpxo": (
        _NETWORKS,
        _DEFAULT,
        Need(
            name="the TCPXO daemon (RxDM)",
            fix="add the container gpudirect-tcpxo/tcpgpudmarxd-dev as a native sidecar",
            is_hard=True,
            is_met=_has_daemon,
        ),
        Need(
            name="the daemon's capabilities",
            fix="add NET_ADMIN and NET_BIND_SERVICE to the daemon",
            is_hard=True,
            is_met=_daemon_may("NET_ADMIN", "NET_BIND_SERVICE"),
        ),
        _DAEMON_DEVICES,
        _DAEMON_SYSFS,
        _LIBRARIES,
        Need(
            name="aperture devices",
            fix="mount hostPath /dev/aperture_devices and set NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY to it",
            is_hard=True,
            is_met=_has_aperture,
        ),
        Need(
            name="the plugin's NCCL settings",
            fix="run `source /usr/local/nvidia/lib64/nccl-env-profile.sh` before the program",
            is_hard=False,
            is_met=_says("nccl-env-profile", "NCCL_FASTRAK_IFNAME", "run-nccl-test-tcpxo"),
        ),
        _ALL_GPUS,
    ),
    "tcpx": (
        _NETWORKS,
        _DEFAULT,
        Need(
            name="the TCPX daemon (RxDM)",
            fix="add the container gpudirect-tcpx/tcpgpudmarxd-dev as a native sidecar",
            is_hard=True,
            is_met=_has_daemon,
        ),
        Need(
            name="the daemon's capabilities",
            fix="add NET_ADMIN to the daemon",
            is_hard=True,
            is_met=_daemon_may("NET_ADMIN"),
        ),
        _DAEMON_DEVICES,
        _DAEMON_SYSFS,
        Need(
            name="the daemon's socket",
            fix="mount one volume at /run/tcpx in the daemon and in the GPU container",
            is_hard=True,
            is_met=_daemon_mounts("/run/tcpx"),
        ),
        _LIBRARIES,
        Need(
            name="the plugin's NCCL settings",
            fix="set NCCL_GPUDIRECTTCPX_SOCKET_IFNAME=eth1,eth2,eth3,eth4 and the rest of the release's list",
            is_hard=False,
            is_met=_says("NCCL_GPUDIRECTTCPX", "nccl-env-profile"),
        ),
        _ALL_GPUS,
    ),
    "roce": (
        _NETWORKS,
        _DEFAULT,
        Need(
            name="the gIB plugin",
            fix="mount hostPath /home/kubernetes/bin/gib at /usr/local/gib",
            is_hard=True,
            is_met=_has_gib,
        ),
        Need(
            name="the plugin's NCCL settings",
            fix="run `source /usr/local/gib/scripts/set_nccl_env.sh` before the program",
            is_hard=False,
            is_met=_says("set_nccl_env", "NCCL_IB_QPS_PER_CONNECTION", "NCCL_TUNER_CONFIG_PATH"),
        ),
        Need(
            name="NCCL_NET=gIB, so that a broken fabric fails instead of running over sockets",
            fix="set NCCL_NET to gIB",
            is_hard=False,
            is_met=_says("NCCL_NET=gIB", 'NCCL_NET="gIB"'),
        ),
        _ALL_GPUS,
    ),
}
