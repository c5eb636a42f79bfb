"""Turns official API descriptions into the strict JSON Schemas that gpuyard ships; used by provision_schemas.py."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import yaml

# Per API: the resources whose methods we may call. A method's request and all that it refers to are shipped.
GOOGLE = {
    "compute.v1": "instances instanceTemplates resourcePolicies instanceGroupManagers reservations futureReservations "
    "instanceGroupManagerResizeRequests networks subnetworks firewalls routers networkProfiles disks autoscalers "
    "healthChecks regionBackendServices forwardingRules addresses machineTypes acceleratorTypes zoneOperations "
    "regionOperations globalOperations regions zones advice",
    "container.v1": "P.clusters P.clusters.nodePools P.operations",
    "run.v2": "P.services P.jobs P.workerPools P.operations",
    "run.v1": "namespaces.services namespaces.jobs",
    "aiplatform.v1": "P.customJobs P.endpoints P.models P.operations",
    "tpu.v2": "P.nodes P.queuedResources P.operations",
    "hypercomputecluster.v1": "P.clusters P.operations",
    "file.v1": "P.instances P.operations",
    "storage.v1": "buckets",
}
# Verbs whose request is shipped, and those of which only the address is.
WITH_BODY = "insert create upload deployModel undeployModel capacity calendarMode bulkInsert run"
WITHOUT_BODY = "get list aggregatedList delete cancel wait patch resize"

KINDS = {
    "v1": "Pod Service ConfigMap Secret ServiceAccount PersistentVolume PersistentVolumeClaim Namespace PodTemplate "
    "ReplicationController ResourceQuota LimitRange Node",
    "batch/v1": "Job CronJob",
    "apps/v1": "Deployment DaemonSet StatefulSet ReplicaSet",
    "autoscaling/v2": "HorizontalPodAutoscaler",
    "scheduling.k8s.io/v1": "PriorityClass",
    "networking.k8s.io/v1": "NetworkPolicy Ingress",
    "policy/v1": "PodDisruptionBudget",
    "storage.k8s.io/v1": "StorageClass",
    "resource.k8s.io/v1": "ResourceClaim ResourceClaimTemplate DeviceClass",
    "rbac.authorization.k8s.io/v1": "Role RoleBinding ClusterRole ClusterRoleBinding",
}
# Allowed values that the published schema leaves to prose ("One of Always, OnFailure, Never").
ENUMS = {
    ("io.k8s.api.core.v1.PodSpec", "restartPolicy"): "Always OnFailure Never",
    ("io.k8s.api.core.v1.PodSpec", "dnsPolicy"): "ClusterFirst ClusterFirstWithHostNet Default None",
    ("io.k8s.api.core.v1.PodSpec", "preemptionPolicy"): "Never PreemptLowerPriority",
    ("io.k8s.api.core.v1.Container", "imagePullPolicy"): "Always IfNotPresent Never",
    ("io.k8s.api.core.v1.Container", "terminationMessagePolicy"): "File FallbackToLogsOnError",
    ("io.k8s.api.core.v1.Container", "restartPolicy"): "Always OnFailure Never",
    ("io.k8s.api.core.v1.ContainerPort", "protocol"): "TCP UDP SCTP",
    ("io.k8s.api.core.v1.ServicePort", "protocol"): "TCP UDP SCTP",
    ("io.k8s.api.core.v1.ServiceSpec", "type"): "ClusterIP NodePort LoadBalancer ExternalName",
    ("io.k8s.api.core.v1.Toleration", "effect"): "NoSchedule PreferNoSchedule NoExecute",
    ("io.k8s.api.core.v1.Toleration", "operator"): "Equal Exists Lt Gt",
    ("io.k8s.api.core.v1.Taint", "effect"): "NoSchedule PreferNoSchedule NoExecute",
    ("io.k8s.api.core.v1.NodeSelectorRequirement", "operator"): "In NotIn Exists DoesNotExist Gt Lt",
    ("io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelectorRequirement", "operator"): "In NotIn Exists DoesNotExist",
    ("io.k8s.api.core.v1.TopologySpreadConstraint", "whenUnsatisfiable"): "DoNotSchedule ScheduleAnyway",
    ("io.k8s.api.core.v1.EmptyDirVolumeSource", "medium"): " Memory HugePages HugePages-2Mi HugePages-1Gi",
    ("io.k8s.api.core.v1.HostPathVolumeSource", "type"): " DirectoryOrCreate Directory FileOrCreate "
    "File Socket CharDevice BlockDevice",
    ("io.k8s.api.core.v1.VolumeMount", "mountPropagation"): "None HostToContainer Bidirectional",
    ("io.k8s.api.core.v1.PersistentVolumeClaimSpec", "volumeMode"): "Filesystem Block",
    ("io.k8s.api.core.v1.PersistentVolumeSpec", "persistentVolumeReclaimPolicy"): "Retain Delete Recycle",
    ("io.k8s.api.batch.v1.JobSpec", "completionMode"): "NonIndexed Indexed",
    ("io.k8s.api.batch.v1.JobSpec", "podReplacementPolicy"): "Failed TerminatingOrFailed",
    ("io.k8s.api.batch.v1.PodFailurePolicyRule", "action"): "Ignore FailIndex FailJob Count",
    ("io.k8s.api.batch.v1.CronJobSpec", "concurrencyPolicy"): "Allow Forbid Replace",
    ("io.k8s.api.apps.v1.DeploymentStrategy", "type"): "Recreate RollingUpdate",
    ("io.k8s.api.apps.v1.StatefulSetSpec", "podManagementPolicy"): "OrderedReady Parallel",
    ("io.k8s.api.autoscaling.v2.MetricSpec", "type"): "Resource Pods Object External ContainerResource",
    ("io.k8s.api.autoscaling.v2.MetricTarget", "type"): "Utilization Value AverageValue",
    ("io.k8s.api.resource.v1.ExactDeviceRequest", "allocationMode"): "ExactCount All",
}  # fmt: skip
# Fields that a project's admission webhook fills in before the schema is checked.
FILLED_BY_WEBHOOK = {("JobSet", "failurePolicy.rules", "name")}

# Keywords of a custom resource's schema that are taken over as they are.
KEPT = (
    "type enum pattern minimum maximum minLength maxLength minItems maxItems maxProperties default "
    "x-kubernetes-list-map-keys"
)

Schema = dict[str, object]
Defs = dict[str, Schema]


# --- Google discovery documents


def google(document: dict[str, object], resources: str) -> dict[str, object]:
    """One API: the strict schemas of the requests that we may send, and the address of every method."""
    methods = {}
    for resource in resources.split():
        for verb, method in _resource(
            document, resource.replace("P.", "projects.locations.")
        ).items():
            if verb in (WITH_BODY + " " + WITHOUT_BODY).split():
                query = sorted(
                    name
                    for name, spec in method.get("parameters", {}).items()
                    if spec["location"] == "query"
                )
                request = (
                    method.get("request", {}).get("$ref") if verb in WITH_BODY.split() else None
                )
                methods[method["id"]] = {
                    "http": method["httpMethod"],
                    "path": document["servicePath"] + method.get("flatPath", method["path"]),
                    "query": query,
                    "request": request,
                    "response": method.get("response", {}).get("$ref"),
                }
    schemas = document["schemas"]
    wanted = {method["request"] for method in methods.values() if method["request"]}
    defs: Defs = {}
    while wanted:
        name = wanted.pop()
        defs[name] = _google_schema(schemas[name])
        wanted |= set(_refs(defs[name])) - set(defs)
    return {"methods": methods, "defs": defs}


def _resource(document: dict[str, object], path: str) -> dict[str, dict[str, object]]:
    """The methods of a resource by its dotted path."""
    node = document
    for part in path.split("."):
        node = node["resources"][part]
    return node.get("methods", {})


def _google_schema(raw: Schema) -> Schema:
    """One discovery schema, strict."""
    if "$ref" in raw:
        return _marks(raw, {"$ref": f"#/$defs/{raw['$ref']}"})
    kind = raw.get("type", "any")
    if kind == "any":
        return {}
    if kind == "object":
        new: Schema = {"type": "object"}
        if "additionalProperties" in raw:
            new["additionalProperties"] = _google_schema(raw["additionalProperties"])
        else:
            new["properties"] = {
                name: _google_schema(child) for name, child in raw.get("properties", {}).items()
            }
            new["additionalProperties"] = False
        return _marks(raw, new)
    if kind == "array":
        return _marks(raw, {"type": "array", "items": _google_schema(raw["items"])})
    return _marks(raw, _google_scalar(raw, kind))


def _google_scalar(raw: Schema, kind: str) -> Schema:
    """A scalar with its format as a pattern or a range."""
    form = raw.get("format", "")
    if form in ("int64", "uint64"):
        return {
            "type": ["string", "integer"],
            "pattern": r"^-?\d+$" if form == "int64" else r"^\d+$",
        }
    new: Schema = {"type": kind}
    if form == "int32":
        new |= {"minimum": -(2**31), "maximum": 2**31 - 1}
    elif form == "uint32":
        new |= {"minimum": 0, "maximum": 2**32 - 1}
    elif form == "google-duration":
        new["pattern"] = r"^-?\d+(\.\d{1,9})?s$"
    elif form in ("google-datetime", "date-time"):
        new["pattern"] = r"^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$"
    elif form == "byte":
        new["pattern"] = r"^[A-Za-z0-9+/_-]*={0,2}$"
    if "enum" in raw:
        new["enum"] = raw["enum"]
    if "pattern" in raw:
        new["pattern"] = f"^(?:{raw['pattern']})$"
    return new


def _marks(raw: Schema, new: Schema) -> Schema:
    """What the description says beyond types: set by the server, out of use, or needed by a method."""
    text = raw.get("description", "")
    if raw.get("readOnly") or re.match(r"\s*\[?Output[ -]Only\]?", text, re.IGNORECASE):
        new["readOnly"] = True
    if raw.get("deprecated"):
        new["deprecated"] = True
    if required := raw.get("annotations", {}).get("required"):
        new["x-required-by"] = required
    elif text.startswith("Required.") and not new.get("readOnly"):
        new["x-required-by"] = ["*"]
    return new


def _refs(schema: object) -> Iterator[str]:
    """Every definition that a schema refers to."""
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"].removeprefix("#/$defs/")
        for child in schema.values():
            yield from _refs(child)
    elif isinstance(schema, list):
        for child in schema:
            yield from _refs(child)


# --- Kubernetes and its custom resources


def kubernetes(definitions: Defs) -> dict[str, object]:
    """The core kinds that we emit or lint."""
    kinds: dict[str, str] = {}
    for name, raw in definitions.items():
        for gvk in raw.get("x-kubernetes-group-version-kind", []):
            version = f"{gvk['group']}/{gvk['version']}" if gvk["group"] else gvk["version"]
            if gvk["kind"] in KINDS.get(version, "").split():
                kinds[f"{version} {gvk['kind']}"] = name
    defs: Defs = {}
    wanted = set(kinds.values())
    while wanted:
        name = wanted.pop()
        defs[name] = _core(definitions[name], name)
        wanted |= set(_refs(defs[name])) - set(defs)
    return {"kinds": dict(sorted(kinds.items())), "defs": defs}


def _core(raw: Schema, name: str) -> Schema:
    """One core definition without prose, null types and the status that the server writes."""
    if name.endswith(("resource.Quantity", "intstr.IntOrString")):
        number = "number" if name.endswith("Quantity") else "integer"
        return {"type": ["string", number]}
    if name.endswith("ObjectMeta"):
        raw = {
            **raw,
            "properties": {k: v for k, v in raw["properties"].items() if k != "managedFields"},
        }
    new: Schema = {}
    for key, value in raw.items():
        if key == "properties":
            new[key] = {}
            for field, child in value.items():
                clean = (
                    {"type": "object"} if field == "status" and "." in name else _core(child, "")
                )
                if values := ENUMS.get((name, field)):
                    clean["enum"] = values.split(" ")
                new[key][field] = clean
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            new[key] = _core(value, "")
        elif key == "type" and isinstance(value, list):
            new[key] = next(word for word in value if word != "null")
        elif key == "enum":
            new[key] = [word for word in value if word is not None]
        elif key in (
            "$ref",
            "type",
            "required",
            "additionalProperties",
            "x-kubernetes-list-map-keys",
            "default",
        ):
            new[key] = value
    if "$ref" in new and raw.get("$ref", "").startswith("_definitions.json"):
        new["$ref"] = "#" + raw["$ref"].split("#", 1)[1]
    return new


def custom_resources(files: list[Path], object_meta: Schema) -> dict[str, object]:
    """All the versions of all the custom resources in the files, with what they share written once."""
    schemas = dict(sorted(_custom(files)))
    counts: Counter[str] = Counter()
    for schema in schemas.values():
        _count(schema, counts)
    defs: Defs = {"ObjectMeta": object_meta}
    names: dict[str, str] = {}
    kinds = {}
    for kind, schema in schemas.items():
        defs[kind] = _share(schema, counts, names, defs, top=True)
        kinds[kind] = kind
    return {"kinds": kinds, "defs": defs}


def _custom(files: list[Path]) -> Iterator[tuple[str, Schema]]:
    """Kind and strict schema of every served version."""
    for path in files:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".json":  # one version of one kind, as schema catalogues keep it
            kind = {
                "network_v1": "Network",
                "gkenetworkparamset_v1": "GKENetworkParamSet",
                "computeclass_v1": "ComputeClass",
                "gcpbackendpolicy_v1": "GCPBackendPolicy",
                "healthcheckpolicy_v1": "HealthCheckPolicy",
            }[path.stem]
            yield (
                f"{path.parent.name}/{path.stem.rsplit('_', 1)[1]} {kind}",
                _crd(json.loads(text), kind, "", True),
            )
            continue
        for raw in yaml.load_all(text, Loader=yaml.CSafeLoader):
            if raw and raw.get("kind") == "CustomResourceDefinition":
                spec = raw["spec"]
                for version in spec["versions"]:
                    kind = spec["names"]["kind"]
                    schema = _crd(version["schema"]["openAPIV3Schema"], kind, "", True)
                    yield f"{spec['group']}/{version['name']} {kind}", schema


def _crd(raw: Schema, kind: str, path: str, top: bool = False) -> Schema:
    """One structural schema, strict where the API server prunes."""
    new: Schema = {}
    for key in KEPT.split():
        if key in raw:
            new[key] = raw[key]
    if isinstance(new.get("pattern"), str):
        new["pattern"] = re.sub(
            r"^\^\(\?i\)", "(?i)^", new["pattern"]
        )  # RE2 takes the flag after the anchor
    if raw.get("x-kubernetes-int-or-string"):
        new["type"] = ["integer", "string"]
        return new
    if rules := [
        rule
        for rule in raw.get("x-kubernetes-validations", [])
        # Of a change, or with an escaped name (`__namespace__`), which lint does not evaluate.
        if "oldSelf" not in rule["rule"] and "__" not in rule["rule"]
    ]:
        new["x-kubernetes-validations"] = [
            {"rule": rule["rule"], "message": rule.get("message", "")} for rule in rules
        ]
    properties = raw.get("properties", {})
    if properties:
        new["properties"] = {}
        for name, child in properties.items():
            if top and name == "status":
                new["properties"][name] = {"type": "object"}
            elif (
                name == "metadata" and child.get("type") == "object" and not child.get("properties")
            ):
                new["properties"][name] = {"$ref": "#/$defs/ObjectMeta"}
            else:
                inner = path if name in ("spec",) else f"{path}.{name}".strip(".")
                new["properties"][name] = _crd(child, kind, inner)
        if not raw.get("x-kubernetes-preserve-unknown-fields"):
            new["additionalProperties"] = False
    if isinstance(raw.get("additionalProperties"), dict):
        new["additionalProperties"] = _crd(raw["additionalProperties"], kind, path)
    if "items" in raw:
        new["items"] = _crd(raw["items"], kind, path)
    required = [
        name for name in raw.get("required", []) if (kind, path, name) not in FILLED_BY_WEBHOOK
    ]
    if required:
        new["required"] = required
    return new


def _key(schema: object) -> str:
    """A schema as text that equals that of an equal schema."""
    return json.dumps(schema, sort_keys=True, separators=(",", ":"))


def _count(schema: object, counts: Counter[str]) -> None:
    """How often each sub-schema of some size occurs."""
    if isinstance(schema, dict):
        if "type" in schema and len(text := _key(schema)) > 160:
            counts[text] += 1
            if counts[text] > 1:
                return
        for child in schema.values():
            _count(child, counts)


def _share(
    schema: object, counts: Counter[str], names: dict[str, str], defs: Defs, top: bool = False
) -> object:
    """The schema with every repeated part replaced by a reference."""
    if not isinstance(schema, dict):
        return schema
    text = _key(schema)
    if not top and counts[text] > 1:
        if text not in names:
            names[text] = f"s{len(names)}"
            defs[names[text]] = _share(schema, counts, names, defs, top=True)
        return {"$ref": f"#/$defs/{names[text]}"}
    return {key: _share(value, counts, names, defs) for key, value in schema.items()}


# --- Cluster Toolkit modules

VARIABLE = re.compile(r'^variable\s+"([^"]+)"\s*\{(.*?)^\}', re.MULTILINE | re.DOTALL)
OUTPUT = re.compile(r'^output\s+"([^"]+)"', re.MULTILINE)


def toolkit(root: Path) -> dict[str, object]:
    """Every module: its variables (name, type, whether it must be set) and its outputs."""
    modules = {}
    for path in sorted(root.rglob("*.tf")) + sorted(root.rglob("*.pkr.hcl")):
        folder = path.parent.relative_to(root).as_posix()
        if not re.fullmatch(r"(community/)?modules/[^/]+/[^/]+", folder):
            continue
        text = path.read_text(encoding="utf-8")
        module = modules.setdefault(folder, {"variables": {}, "outputs": []})
        for name, body in VARIABLE.findall(text):
            kind = re.search(r"^  type\s*=\s*([a-z]+)", body, re.MULTILINE)
            required = not re.search(r"^  default\s*=", body, re.MULTILINE)
            module["variables"][name] = (
                f"{kind.group(1) if kind else 'any'}{'!' if required else ''}"
            )
        module["outputs"] += OUTPUT.findall(text)
    for folder, module in modules.items():
        metadata = root / folder / "metadata.yaml"
        about = yaml.safe_load(metadata.read_text(encoding="utf-8")) if metadata.exists() else {}
        given = (about.get("ghpc") or {}).get(
            "inject_module_id"
        )  # the Toolkit sets this variable itself
        if given in module["variables"]:
            module["variables"][given] = module["variables"][given].removesuffix("!")
    return {"modules": {name: module for name, module in modules.items() if module["variables"]}}
