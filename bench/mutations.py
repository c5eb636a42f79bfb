"""Semantic mutations of deployment files: each would deploy, and would not do what is meant.

A mutation is one change of one value that every schema accepts: a name that nothing has, a count
that disagrees with another, a limit that is gone. They are the kinds of faults of public issues and
of a review of public manifests; none is written for a rule.
"""

from __future__ import annotations

import contextlib
import copy
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import yaml

GPU = "nvidia.com/gpu"
Tree = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """A changed file, and what was changed."""

    kind: str
    file: str
    text: str


def mutations(file: str, text: str, bundle: str = "") -> Iterator[Mutation]:
    """Yield every mutation of a file.

    A reference is changed only if the files deployed with it (`bundle`, their text) have what it
    names: otherwise nobody can see that the new name is wrong.
    """
    if file.endswith(".sbatch"):
        yield from _of_script(file, text)
        return
    try:
        documents = [tree for tree in yaml.safe_load_all(text) if isinstance(tree, dict)]
    except yaml.YAMLError:
        return
    for index, tree in enumerate(documents):
        names = _names(documents, bundle)
        for kind, operator in _operators(tree):
            if kind in BY_NAME and not _refers(tree, kind, names):
                continue
            for number in range(operator(copy.deepcopy(tree), -1)):
                changed = copy.deepcopy(documents)
                operator(changed[index], number)
                yield Mutation(kind=kind, file=file, text=_dump(file, changed))


def _dump(file: str, documents: list[Tree]) -> str:
    if file.endswith(".json"):
        return json.dumps(documents[0], indent=2)
    return yaml.safe_dump_all(documents, sort_keys=False)


def _names(documents: list[Tree], bundle: str) -> set[tuple[str, str]]:
    """Kinds and names of the objects that are deployed together."""
    trees = list(documents)
    if bundle:
        with contextlib.suppress(yaml.YAMLError):
            trees += [tree for tree in yaml.safe_load_all(bundle) if isinstance(tree, dict)]
    return {
        (str(tree.get("kind")), str((tree.get("metadata") or {}).get("name"))) for tree in trees
    }


BY_NAME = {
    "other service account": ("serviceAccountName", "ServiceAccount"),
    "autoscaler of nothing": ("scaleTargetRef", ""),
    "claim that does not exist": ("resourceClaimTemplateName", "ResourceClaimTemplate"),
    "queue of another name": ("clusterQueue", "ClusterQueue"),
    "service without pods": ("selector", ""),
}
PODS = ("Deployment", "StatefulSet", "Job", "JobSet", "LeaderWorkerSet", "DaemonSet", "Pod")


def _refers(tree: Tree, kind: str, names: set[tuple[str, str]]) -> bool:
    key, target = BY_NAME[kind]
    values = [value for _, value in _walk(tree, key)]
    if kind == "autoscaler of nothing":
        return any((row.get("kind"), row.get("name")) in names for row in values)
    if kind == "service without pods":
        return any(owner in PODS for owner, _ in names)
    if kind == "queue of another name":
        values += [value for _, value in _walk(tree, "topologyName")]
        return any((name, value) in names for name in (target, "Topology") for value in values)
    return bool(values) and all((target, value) in names for value in values)


# An operator changes the place with a number, and returns how many places there are.
Operator = Callable[[Tree, int], int]


def _operators(tree: Tree) -> tuple[tuple[str, Operator], ...]:
    if "apiVersion" in tree and "kind" in tree:
        return KUBERNETES
    if "deployment_groups" in tree:
        return BLUEPRINT
    return GOOGLE if "method" in tree else ()


def _walk(tree: Any, key: str) -> Iterator[tuple[Any, Any]]:
    """Yield every mapping that has a key, with its value."""
    if isinstance(tree, dict):
        if key in tree:
            yield tree, tree[key]
        for value in tree.values():
            yield from _walk(value, key)
    elif isinstance(tree, list):
        for value in tree:
            yield from _walk(value, key)


def _at(places: list[tuple[Any, Any, Any]], number: int) -> int:
    """Set `holder[key] = value` of the place with a number; None removes the key."""
    if number >= 0:
        holder, key, value = places[number]
        if value is None:
            del holder[key]
        else:
            holder[key] = value
    return len(places)


def _replace(key: str, change: Callable[[Any], Any], only: type = str) -> Operator:
    def operator(tree: Tree, number: int) -> int:
        places = [
            (holder, key, changed)
            for holder, value in _walk(tree, key)
            if isinstance(value, only) and (changed := change(value)) not in (value, "skip")
        ]
        return _at(places, number)

    return operator


def _remove(key: str) -> Operator:
    def operator(tree: Tree, number: int) -> int:
        return _at([(holder, key, None) for holder, _ in _walk(tree, key)], number)

    return operator


def _mount_of_no_volume(tree: Tree, number: int) -> int:
    rows = [row for _, rows in _walk(tree, "volumeMounts") for row in rows or ()]
    return _at([(row, "name", "nothing") for row in rows], number)


def _label_key(old: str, new: str) -> Operator:
    def operator(tree: Tree, number: int) -> int:
        places = [holder for holder, _ in _walk(tree, old)]
        if number >= 0:
            places[number][new] = places[number].pop(old)
        return len(places)

    return operator


def _toleration(tree: Tree, number: int) -> int:
    rows = [
        row
        for _, rows in _walk(tree, "tolerations")
        for row in rows or ()
        if re.match(r"(nvidia|cloud.google|google)\.com/", row.get("key", ""))
    ]
    return _at([(row, "key", row["key"] + "t") for row in rows], number)


def _script_text(pattern: str, change: Callable[[re.Match[str]], str]) -> Operator:
    """Change the first match in each argument of a container."""

    def operator(tree: Tree, number: int) -> int:
        places = []
        for key in ("args", "command"):
            for _, words in _walk(tree, key):
                for index, word in enumerate(words if isinstance(words, list) else ()):
                    if isinstance(word, str) and re.search(pattern, word):
                        places.append((words, index, re.sub(pattern, change, word, count=1)))
        return _at(places, number)

    return operator


def _half(match: re.Match[str]) -> str:
    return f"{match[1]}{max(1, int(match[2]) // 2) if int(match[2]) > 1 else 2}"


def _env(name: str, change: Callable[[str], str]) -> Operator:
    def operator(tree: Tree, number: int) -> int:
        rows = [row for _, rows in _walk(tree, "env") for row in rows or ()
                if row.get("name") == name and isinstance(row.get("value"), str)]  # fmt: skip
        return _at([(row, "value", change(row["value"])) for row in rows], number)

    return operator


def _gpu_limit(change: Callable[[int], int]) -> Operator:
    def operator(tree: Tree, number: int) -> int:
        places = [
            (holder, GPU, change(int(value)))
            for holder, value in _walk(tree, GPU)
            if str(value).isdigit() and int(value) > 1
        ]
        return _at(places, number)

    return operator


def _too_many_cpus(tree: Tree, number: int) -> int:
    boxes = [box for _, boxes in _walk(tree, "containers") for box in boxes or ()
             if GPU in (box.get("resources") or {}).get("limits", {})
             and "instance-type" in json.dumps(tree)]  # fmt: skip
    return _at([(box["resources"], "requests", {"cpu": "999"}) for box in boxes], number)


def _fewer_completions(tree: Tree, number: int) -> int:
    if "Indexed" not in json.dumps(tree):
        return 0  # fewer completions than pods at once are harmless
    places = [
        (holder, "completions", value - 1)
        for holder, value in _walk(tree, "completions")
        if isinstance(value, int) and value > 1
    ]
    return _at(places, number)


def _interface_gone(tree: Tree, number: int) -> int:
    key, places = "networking.gke.io/interfaces", []
    for holder, value in _walk(tree, key):
        rows = yaml.safe_load(value)
        places.append((holder, key, json.dumps(rows[:-1])))
    return _at(places, number)


def _shared_memory(tree: Tree, number: int) -> int:
    places = [(row, "sizeLimit", "64Ti") for _, row in _walk(tree, "emptyDir")
              if isinstance(row, dict) and row.get("medium") == "Memory"]  # fmt: skip
    return _at(places, number)


def _other_port(tree: Tree, number: int) -> int:
    places: list[tuple[Any, Any, Any]] = []
    for key in ("readinessProbe", "startupProbe", "livenessProbe"):
        for _, probe in _walk(tree, key):
            for action in ("httpGet", "tcpSocket"):
                if isinstance((probe or {}).get(action, {}).get("port"), int):
                    places.append((probe[action], "port", 9))
    return _at(places, number)


def _service(tree: Tree, number: int) -> int:
    if tree.get("kind") != "Service" or not (tree.get("spec") or {}).get("selector"):
        return 0
    selector = tree["spec"]["selector"]
    places = [(selector, key, f"{value}-x") for key, value in selector.items()]
    places += [(row, "targetPort", 9) for row in tree["spec"].get("ports", ())
               if isinstance(row.get("targetPort"), int)]  # fmt: skip
    return _at(places, number)


def _kueue_reference(tree: Tree, number: int) -> int:
    places = []
    for key in ("clusterQueue", "topologyName"):
        places += [(holder, key, f"{value}-x") for holder, value in _walk(tree, key)]
    return _at(places, number)


def _no_sidecar(tree: Tree, number: int) -> int:
    if "gcsfuse.csi.storage.gke.io" not in json.dumps(tree):
        return 0  # the bucket is behind a claim of another file
    return _remove("gke-gcsfuse/volumes")(tree, number)


def _endless_job(tree: Tree, number: int) -> int:
    if tree.get("kind") not in ("Job", "JobSet", "RayJob") or GPU not in json.dumps(tree):
        return 0
    keys = ("ttlSecondsAfterFinished", "activeDeadlineSeconds")
    holders = [(holder, key) for key in keys for holder, _ in _walk(tree, key)]
    if number >= 0:
        for holder, key in holders:
            del holder[key]
    return min(1, len(holders))


def _scale_target(tree: Tree, number: int) -> int:
    places = [(row, "name", f"{row['name']}-x") for _, row in _walk(tree, "scaleTargetRef")]
    return _at(places, number)


KUBERNETES: tuple[tuple[str, Operator], ...] = (
    ("mount of no volume", _mount_of_no_volume),
    ("misspelt queue label", _label_key("kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/queue")),
    ("misspelt toleration", _toleration),
    ("other service account", _replace("serviceAccountName", lambda name: f"{name}-x")),
    ("half the processes", _script_text(r"(--nproc[-_]per[-_]node[= ])(\d+)", _half)),
    ("half the nodes", _script_text(r"(--nnodes[= ])(\d+)(?!:)", _half)),
    ("half the node count", _env("NNODES", lambda n: str(int(n) // 2) if n.isdigit() else n)),
    ("half the node count", _env("NODE_COUNT", lambda n: str(int(n) // 2) if n.isdigit() else n)),
    ("address of another job", _env("MASTER_ADDR", lambda name: f"other-{name}")),
    ("more CPUs than the machine", _too_many_cpus),
    ("half the GPUs", _gpu_limit(lambda count: count // 2)),
    ("twice the GPUs", _gpu_limit(lambda count: count * 2)),
    (
        "misspelt accelerator",
        _replace("cloud.google.com/gke-accelerator", lambda name: name.replace("nvidia", "nvidea")),
    ),
    ("misspelt machine type", _replace("node.kubernetes.io/instance-type", lambda n: n.replace("gpu", "gpus"))),
    ("fewer completions", _fewer_completions),
    ("an interface less", _interface_gone),
    ("shared memory larger than memory", _shared_memory),
    ("probe of a port that nothing serves", _other_port),
    ("service without pods", _service),
    ("queue of another name", _kueue_reference),
    ("autoscaler of nothing", _scale_target),
    ("misspelt topology level", _replace("kueue.x-k8s.io/podset-required-topology", lambda n: f"{n}s")),
    ("misspelt topology level", _replace("kueue.x-k8s.io/podset-preferred-topology", lambda n: f"{n}s")),
    ("bucket without its sidecar", _no_sidecar),
    ("job without an end", _endless_job),
    ("claim that does not exist", _replace("resourceClaimTemplateName", lambda name: f"{name}-x")),
    ("daemon of another release", _replace("image", lambda name: re.sub(r"(tcpgpudmarxd-dev:)v[\d.]+", r"\1v1.0.1", name))),
)  # fmt: skip


def _reference(words: str) -> Operator:
    """Point a link to a resource that the deployment does not create."""

    def operator(tree: Tree, number: int) -> int:
        places: list[tuple[Any, Any, Any]] = []

        def visit(holder: Any) -> None:
            for key, value in holder.items() if isinstance(holder, dict) else enumerate(holder):
                if isinstance(value, dict | list):
                    visit(value)
                elif isinstance(value, str) and re.search(rf"/{words}/[\w-]+$", value):
                    places.append((holder, key, f"{value}-x"))

        visit(tree.get("body") or {})
        return _at(places, number)

    return operator


def _nic_gone(tree: Tree, number: int) -> int:
    rows = [rows for _, rows in _walk(tree, "networkInterfaces") if len(rows) > 2]
    if number >= 0:
        rows[number].pop()
    return len(rows)


def _small_mtu(tree: Tree, number: int) -> int:
    body = tree.get("body") or {}
    is_data = "networkProfile" in body or "data" in str(body.get("name"))
    return _at([(body, "mtu", 1460)] if is_data and body.get("mtu", 0) > 2000 else [], number)


def _endless(tree: Tree, number: int) -> int:
    """A machine that nothing terminates; the nodes of a pool go with its autoscaler."""
    rows = [row for _, row in _walk(tree, "scheduling")
            if isinstance(row, dict) and "maxRunDuration" in row]  # fmt: skip
    return _at([(row, "maxRunDuration", None) for row in rows], number)


def _other_zone(tree: Tree, number: int) -> int:
    parameters = tree.get("parameters") or {}
    zone = parameters.get("zone")
    return _at(
        [(parameters, "zone", f"{zone[:-1]}f")] if zone and not zone.endswith("f") else [], number
    )


GOOGLE: tuple[tuple[str, Operator], ...] = (
    ("NIC less", _nic_gone),
    ("network that does not exist", _reference("networks")),
    ("subnet that does not exist", _reference("subnetworks")),
    ("template that does not exist", _reference("instanceTemplates")),
    ("policy that does not exist", _reference("resourcePolicies")),
    ("health check that does not exist", _reference("healthChecks")),
    ("another zone", _other_zone),
    ("machine without an end", _endless),
    ("live migration of GPUs", _replace("onHostMaintenance", lambda _: "MIGRATE")),
    ("misspelt machine type", _replace("machineType", lambda name: re.sub(r"gpu-(\d)", r"gpus-\1", name))),
    ("other accelerator count", _replace("acceleratorCount", lambda n: str(int(n) * 2) if str(n).isdigit() else "skip", object)),
    ("misspelt accelerator", _replace("acceleratorType", lambda n: n.replace("nvidia", "nvidea").replace("NVIDIA", "NVIDEA"))),
    ("image family that does not exist", _replace("sourceImage", lambda name: f"{name}-x")),
    ("GPU network of 1460 bytes", _small_mtu),
    ("two primary replicas", _replace("replicaCount", lambda n: "skip" if str(n) != "1" else "2", object)),
)  # fmt: skip


def _setting(name: str, change: Callable[[Any], Any]) -> Operator:
    def operator(tree: Tree, number: int) -> int:
        places = [
            (holder, name, changed)
            for holder, value in _walk(tree.get("deployment_groups"), name)
            if (changed := change(value)) not in (value, "skip")
        ]
        return _at(places, number)

    return operator


def _undefined_variable(tree: Tree, number: int) -> int:
    names = [name for name in tree.get("vars") or {} if f"$(vars.{name})" in json.dumps(tree)]
    if number >= 0:
        tree["vars"][f"{names[number]}s"] = tree["vars"].pop(names[number])
    return len(names)


def _unknown_module(tree: Tree, number: int) -> int:
    lists = [uses for _, uses in _walk(tree.get("deployment_groups"), "use") if uses]
    return _at([(uses, 0, f"{uses[0]}-x") for uses in lists], number)


BLUEPRINT: tuple[tuple[str, Operator], ...] = (
    ("undefined variable", _undefined_variable),
    ("unknown module", _unknown_module),
    ("placement distance out of range", _setting("placement_max_distance", lambda _: 9)),
    ("misspelt machine type", _setting("machine_type", lambda n: re.sub(r"gpu-(\d)", r"gpus-\1", str(n)))),
    ("image family that does not exist", _setting("instance_image", lambda row: {**row, "family": "slurm-gcp-0-0-none"} if isinstance(row, dict) and "family" in row and "$" not in str(row.get("project")) else "skip")),
    ("disk that the machine lacks", _setting("disk_type", lambda disk: "pd-ssd" if str(disk).startswith("hyper") else "skip")),
)  # fmt: skip


def _of_script(file: str, text: str) -> Iterator[Mutation]:
    for kind, pattern, change in SCRIPT:
        if kind == "half the nodes requested" and not re.search(r"--nnodes[= ]\d", text):
            continue  # the launcher takes the number from Slurm
        if kind == "shared nodes":  # all of the memory is the whole node, too
            text = re.sub(r"^#SBATCH --mem=0\n", "", text, flags=re.MULTILINE)
        match = re.search(pattern, text, re.MULTILINE)
        if match:
            changed = re.sub(pattern, change, text, count=1, flags=re.MULTILINE)
            if changed != text:
                yield Mutation(kind=kind, file=file, text=changed)


SCRIPT: tuple[tuple[str, str, Any], ...] = (
    ("half the processes", r"(--nproc[-_]per[-_]node[= ])(\d+)", _half),
    ("half the nodes", r"(--nnodes[= ])(\d+)", _half),
    ("half the nodes requested", r"^(#SBATCH (?:--nodes=|-N ?))(\d+)", _half),
    ("twice the GPUs", r"^(#SBATCH --gpus-per-node=)(\d+)", lambda m: f"{m[1]}{int(m[2]) * 2}"),
    ("half the tasks", r"^(#SBATCH --ntasks-per-node=)(\d+)", _half),
    ("no time limit", r"^#SBATCH (--time|-t)[ =].*\n", ""),
    ("plugin not sourced", r"source [^\n&;]*(set_nccl_env|nccl-env-profile)[^\n&;]*", "true"),
    ("shared nodes", r"^#SBATCH --exclusive.*\n", ""),
    ("library path replaced", r"^(export LD_LIBRARY_PATH=)[^\n]*\$[^\n]*$", r"\1/usr/local/gib/lib64"),
)  # fmt: skip
