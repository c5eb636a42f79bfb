"""Invariants of the receive daemon (RxDM) and of the annotations for its networks and devices."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpuyard.errors import Finding, closest_match
from gpuyard.provision.artefact_document import ValueView
from gpuyard.provision.invariants.fabric_requirements import DEVICES, devices_of
from gpuyard.provision.invariants.facts import Release
from gpuyard.provision.invariants.lint_bundle import LintBundle, invariant
from gpuyard.provision.invariants.pods import (
    DEFAULT_INTERFACE,
    INTERFACES,
    PodTemplate,
    interfaces_of,
)
from gpuyard.provision.invariants.sources import ACCELERATORS, PODS

IMAGE = re.compile(
    r"gpudirect-(tcpxo|tcpx)/(tcpgpudmarxd|nccl-plugin-gpudirecttcpx)[\w-]*:(v[\w.-]+)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Image:
    view: ValueView
    technology: str
    is_daemon: bool
    version: str


@invariant("daemon-sidecar", applies_to="Job, JobSet, RayJob", source=ACCELERATORS)
def daemon_is_native_sidecar(bundle: LintBundle) -> Iterator[Finding]:
    """The receive daemon of a job is a native sidecar: an init container that always restarts."""
    for pod in bundle.pods:
        if pod.daemon is None or not pod.is_batch:
            continue
        is_init = "initContainers" in pod.daemon.path
        if not is_init and pod.owner.type != "v1 Pod":
            yield pod.daemon.error(
                "the job never completes: its receive daemon does not stop",
                "move it to initContainers with restartPolicy: Always (GKE 1.29 or later)",
            )
        elif is_init and pod.daemon["restartPolicy"].text != "Always":
            yield pod.daemon.error(
                "the pod never starts: it waits for the receive daemon to exit",
                "add restartPolicy: Always to the init container",
            )


@invariant("release-pair", applies_to=PODS, source=ACCELERATORS)
def plugin_matches_daemon(bundle: LintBundle) -> Iterator[Finding]:
    """NCCL plugin and receive daemon are of one release."""
    images = tuple(_images(bundle))
    for image in images:
        releases = [row for row in bundle.facts.releases if row.technology == image.technology]
        newest = releases[0]
        if not any(image.version == _version(row, image.is_daemon) for row in releases):
            kind = "daemon" if image.is_daemon else "plugin"
            yield image.view.warning(
                f"{image.technology.upper()} {kind} {image.version} is not a known release",
                f"use {_version(newest, image.is_daemon)} ({newest.date})",
            )
        elif image.is_daemon:
            yield from _daemon_release(image, images, releases)


def _images(bundle: LintBundle) -> Iterator[_Image]:
    for pod in bundle.pods:
        for container in pod.containers:
            if match := IMAGE.search(container["image"].text):
                yield _Image(
                    view=container["image"],
                    technology=match.group(1),
                    is_daemon=match.group(2) == "tcpgpudmarxd",
                    version=match.group(3),
                )


def _version(release: Release, is_daemon: bool) -> str:
    return release.daemon if is_daemon else release.plugin


def _daemon_release(
    daemon: _Image, images: tuple[_Image, ...], releases: list[Release]
) -> Iterator[Finding]:
    newest = releases[0]
    plugins = {(row.technology, row.version) for row in images if not row.is_daemon}
    matching = sorted({row.plugin for row in releases if row.daemon == daemon.version})
    for technology, plugin in sorted(plugins):
        if technology == daemon.technology and plugin not in matching:
            expected = next((row.daemon for row in releases if row.plugin == plugin), newest.daemon)
            yield daemon.view.error(
                f"daemon {daemon.version} belongs to plugin {' or '.join(matching)}, not {plugin}",
                f"use daemon {expected} with plugin {plugin}",
            )
    if not plugins and daemon.version != newest.daemon:
        yield daemon.view.finding(
            f"daemon {daemon.version} is for plugin {' or '.join(matching)}; "
            f"the newest pair is plugin {newest.plugin} with daemon {newest.daemon}",
            "check which plugin the installer puts on your nodes",
            severity="note",
        )


@invariant("annotations", applies_to=f"{PODS}; Network, GKENetworkParamSet", source=ACCELERATORS)
def annotations_name_existing_objects(bundle: LintBundle) -> Iterator[Finding]:
    """Device and interface annotations are valid and name existing containers and networks."""
    networks = bundle.kubernetes_by_name("networking.gke.io", "Network")
    for pod in bundle.pods:
        yield from _devices_annotations(pod)
        yield from _interfaces_annotation(pod, set(networks))
    yield from _parameter_sets(bundle, networks)


def _devices_annotations(pod: PodTemplate) -> Iterator[Finding]:
    names = [container["name"].text for container in pod.containers]
    for key, view in pod.annotations.pairs:
        if not key.startswith(DEVICES):
            continue
        name = key.removeprefix(DEVICES)
        if name not in names:
            match = closest_match(name, names)
            fix = f"write {DEVICES}{match}" if match else "name the daemon's container"
            yield view.error(f'the pod has no container "{name}"', fix)
        if devices_of(view) is None:
            yield view.error("not a YAML list of {path: ...}", "write lines of `- path: /dev/...`")


def _interfaces_annotation(pod: PodTemplate, networks: set[str]) -> Iterator[Finding]:
    rows = interfaces_of(pod)
    view = pod.annotations[INTERFACES]
    if rows is None:
        fix = 'write [{"interfaceName":"eth0","network":"default"}, ...]'
        yield view.error("not a JSON list of interfaces", fix)
        return
    names = [row.interface for row in rows]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        yield view.error(f"{', '.join(repeated)} is listed twice", "list each interface once")
    default = pod.annotations[DEFAULT_INTERFACE]
    if names and default.text and default.text not in names:
        what = f'the default interface "{default.text}" is not among the interfaces'
        yield default.error(what, "name one of them")
    for row in rows:
        if networks and row.network not in networks | {"default"}:
            match = closest_match(row.network, networks)
            fix = f'use "{match}"' if match else "add a Network with that name"
            yield view.error(f'unknown Network "{row.network}"', fix)


def _parameter_sets(bundle: LintBundle, networks: dict[str, ValueView]) -> Iterator[Finding]:
    sets = bundle.kubernetes_by_name("networking.gke.io", "GKENetworkParamSet")
    for network_name, network in networks.items():
        name = network.at("spec", "parametersRef", "name")
        if sets and name.text and name.text not in sets:
            match = closest_match(name.text, sets)
            fix = f'use "{match}"' if match else "add it"
            yield name.error(f'unknown GKENetworkParamSet "{name.text}"', fix)
        if name.text in sets and network_name.startswith("rdma-"):
            mode = sets[name.text].at("spec", "deviceMode")
            if mode.text != "RDMA":
                what = f"deviceMode of an RDMA network is {mode.text or 'not set'}"
                yield mode.error(what, "write deviceMode: RDMA")
