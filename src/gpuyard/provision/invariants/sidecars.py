"""Rules of the receive daemon and of the annotations that pass networks and devices to a pod."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuyard.errors import nearest
from gpuyard.provision.invariants.bundle import Bundle, Hit
from gpuyard.provision.invariants.needs import DEVICES, devices_of
from gpuyard.provision.invariants.pods import INTERFACES, interfaces_of

__all__ = ["annotations_name_what_exists", "daemon_is_a_sidecar", "plugin_and_daemon_match"]

IMAGE = re.compile(r"gpudirect-(tcpxo|tcpx)/(tcpgpudmarxd|nccl-plugin-gpudirecttcpx)[\w-]*:(v[\w.-]+)")


def daemon_is_a_sidecar(bundle: Bundle) -> Iterator[Hit]:
    """In a job the daemon is a native sidecar: an init container that restarts always; else the job never ends."""
    for pod in bundle.pods:
        if pod.daemon is None or not pod.is_batch:
            continue
        is_init = "initContainers" in pod.daemon.path
        if not is_init and pod.owner.type != "v1 Pod":
            fix = "move it to initContainers with restartPolicy: Always (GKE 1.29 or later)"
            yield Hit(view=pod.daemon, what="the job never ends: its receive daemon runs for ever", fix=fix)
        elif is_init and pod.daemon["restartPolicy"].text != "Always":
            what = "the pod never starts: it waits for the end of the receive daemon"
            yield Hit(view=pod.daemon, what=what, fix="add restartPolicy: Always to the init container")


def plugin_and_daemon_match(bundle: Bundle) -> Iterator[Hit]:
    """The versions of plugin and daemon are of one release."""
    images = [
        (pod, box, found.group(1), "daemon" if found.group(2) == "tcpgpudmarxd" else "plugin", found.group(3))
        for pod in bundle.pods
        for box in pod.containers
        if (found := IMAGE.search(box["image"].text))
    ]
    plugins = {(technology, version) for _, _, technology, kind, version in images if kind == "plugin"}
    for _, box, technology, kind, version in images:
        rows = [row for row in bundle.facts.releases if row.technology == technology]
        if not any(version == (row.plugin if kind == "plugin" else row.daemon) for row in rows):
            known = rows[0].plugin if kind == "plugin" else rows[0].daemon
            what = f"{technology.upper()} {kind} {version} is of no release that we know"
            yield Hit(view=box["image"], what=what, fix=f"use {known} ({rows[0].date})", severity="warning")
            continue
        if kind != "daemon":
            continue
        mates = sorted({row.plugin for row in rows if row.daemon == version})
        for other, plugin in sorted(plugins):
            if other == technology and plugin not in mates:
                right = next((row.daemon for row in rows if row.plugin == plugin), rows[0].daemon)
                what = f"daemon {version} belongs to plugin {' or '.join(mates)}, and the plugin here is {plugin}"
                yield Hit(view=box["image"], what=what, fix=f"use daemon {right} with plugin {plugin}")
        if not plugins and version != rows[0].daemon:
            newest = f"the newest pair is plugin {rows[0].plugin} with daemon {rows[0].daemon}"
            what = f"daemon {version} is for plugin {' or '.join(mates)}; {newest}"
            yield Hit(
                view=box["image"], what=what, fix="see which plugin the installer puts on your nodes", severity="note"
            )


def annotations_name_what_exists(bundle: Bundle) -> Iterator[Hit]:
    """The devices annotation names a container of the pod; interfaces are JSON, each once, on networks that exist."""
    known = {view.at("metadata", "name").text for view in bundle.kubernetes("networking.gke.io", "Network")}
    for pod in bundle.pods:
        names = [box["name"].text for box in pod.containers]
        for key, view in pod.annotations.pairs:
            if key.startswith(DEVICES) and (name := key.removeprefix(DEVICES)) not in names:
                meant = nearest(name, names)
                fix = f"write {DEVICES}{meant}" if meant else "name the daemon's container"
                yield Hit(view=view, what=f'the pod has no container "{name}"', fix=fix)
            if key.startswith(DEVICES) and devices_of(view) is None:
                yield Hit(view=view, what="not a YAML list of {path: ...}", fix="write `- path: /dev/nvidia0` a line")
        rows = interfaces_of(pod)
        view = pod.annotations[INTERFACES]
        if rows is None:
            fix = 'write [{"interfaceName":"eth0","network":"default"}, ...]'
            yield Hit(view=view, what="not a JSON list of interfaces", fix=fix)
            continue
        twice = sorted({row.interface for row in rows if [other.interface for other in rows].count(row.interface) > 1})
        if twice:
            yield Hit(view=view, what=f"{', '.join(twice)} is given twice", fix="name each interface once")
        default = pod.annotations["networking.gke.io/default-interface"]
        if rows and default.text and default.text not in [row.interface for row in rows]:
            what = f'the default interface "{default.text}" is not among the interfaces'
            yield Hit(view=default, what=what, fix="name one of them")
        for row in rows:
            if known and row.network not in known | {"default"}:
                meant = nearest(row.network, known)
                fix = f'use "{meant}"' if meant else "add a Network of that name"
                yield Hit(view=view, what=f'there is no Network "{row.network}"', fix=fix)
    yield from _parameter_sets(bundle)


def _parameter_sets(bundle: Bundle) -> Iterator[Hit]:
    """A Network's parameters are there, and an RDMA network has the RDMA device mode."""
    sets = {
        view.at("metadata", "name").text: view for view in bundle.kubernetes("networking.gke.io", "GKENetworkParamSet")
    }
    for network in bundle.kubernetes("networking.gke.io", "Network"):
        name = network.at("spec", "parametersRef", "name")
        if sets and name.text and name.text not in sets:
            meant = nearest(name.text, sets)
            fix = f'use "{meant}"' if meant else "add it"
            yield Hit(view=name, what=f'there is no GKENetworkParamSet "{name.text}"', fix=fix)
        if name.text in sets and network.at("metadata", "name").text.startswith("rdma-"):
            mode = sets[name.text].at("spec", "deviceMode")
            if mode.text != "RDMA":
                yield Hit(
                    view=mode, what=f"an RDMA network in the mode {mode.text or 'none'}", fix="write deviceMode: RDMA"
                )
