"""Grammar checks of deployment settings and of the workload's names, before any template.

Templates quote what they insert; these checks refuse, with its place, what the target would not
accept anyway, and what no quotes can protect: separators of mount options, line breaks, `..`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.errors import InputError, Problem
from gpuyard.provision.deployment_settings import DeploymentSettings

BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
# Flag, field of the settings, grammar, and what it is. An empty value is the default.
GRAMMARS: tuple[tuple[str, str, re.Pattern[str], str], ...] = (
    ("--project", "project", re.compile(r"([a-z0-9.-]{1,63}:)?[a-z0-9][a-z0-9-]{0,62}"),
     "a project id: lower-case letters, digits and hyphens"),
    ("--zone", "zone", re.compile(r"[a-z0-9]+(-[a-z0-9]+)*"), "a zone such as us-central1-a"),
    ("region", "region", re.compile(r"[a-z0-9]+(-[a-z0-9]+)*"), "a region such as us-central1"),
    ("--bucket", "bucket", BUCKET,
     "a bucket name: lower-case letters, digits, dots, hyphens and underscores"),
    ("--image", "image", re.compile(r"[A-Za-z0-9/][A-Za-z0-9._/:@+-]{0,511}"),
     "a container image such as us-docker.pkg.dev/project/repository/image:tag"),
    ("--namespace", "namespace", re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"),
     "a Kubernetes namespace: lower-case letters, digits and hyphens"),
    ("--queue", "queue", re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?"),
     "a Kubernetes name: lower-case letters, digits, hyphens and dots"),
    ("--gateway-class", "gateway_class", re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?"),
     "a GatewayClass such as gke-l7-rilb or istio"),
    ("secret", "secret", re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}"),
     "a secret's name: letters, digits, hyphens and underscores"),
    ("--reservation", "reservation", re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,511}"),
     "a reservation, or NAME/reservationBlocks/BLOCK"),
    ("--network", "network", re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,511}"), "a VPC network"),
    ("--partition", "partition", re.compile(r"[A-Za-z0-9][A-Za-z0-9._,-]{0,252}"),
     "a Slurm partition"),
    ("--service-account", "service_account", re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+:-]{0,319}"),
     "the email of a service account"),
)  # fmt: skip
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
# A mount option ends at a comma; the others are not allowed in a folder that is mounted.
FOLDER = re.compile(r"[^,\\\x00-\x1f\x7f]*")


def check_values(blueprint: Blueprint, settings: DeploymentSettings) -> None:
    """Raise InputError with every setting or workload value that no target accepts."""
    problems = [*_setting_problems(settings), *_workload_problems(blueprint)]
    if problems:
        raise InputError(problems)


def _setting_problems(settings: DeploymentSettings) -> Iterator[Problem]:
    for flag, field, grammar, what in GRAMMARS:
        value = str(getattr(settings, field))
        if value and not grammar.fullmatch(value):
            yield Problem(where=flag, what=f"{value!r} is not valid", fix=f"write {what}")
    for flag, text in (
        ("--program", settings.program),
        ("--framework-args", settings.framework_args),
    ):
        if "\x00" in text:
            yield Problem(where=flag, what="holds a null character", fix="remove it")


def _workload_problems(blueprint: Blueprint) -> Iterator[Problem]:
    if CONTROL.search(blueprint.name):
        what = f"{blueprint.name!r} holds a control character"
        yield Problem(where="name", what=what, fix="write it on one line, without tabs")
    where = blueprint.workload.where
    for field, value in (("zone", where.zone), ("region", where.region)):
        if value and not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", value):
            fix = f"write a {field} such as us-central1{'-a' if field == 'zone' else ''}"
            yield Problem(where=f"where.{field}", what=f"{value!r} is not valid", fix=fix)
    data = blueprint.workload.data
    location = (data.location if data else None) or ""
    if CONTROL.search(location):
        what = f"{location!r} holds a control character"
        yield Problem(where="data.location", what=what, fix="write a path or a gs:// address")
    if not location.startswith("gs://"):
        return
    bucket, _, folder = location.removeprefix("gs://").partition("/")
    if not BUCKET.fullmatch(bucket):
        what = f"{bucket!r} is not a bucket name"
        yield Problem(where="data.location", what=what, fix="write gs://BUCKET/FOLDER")
    if not FOLDER.fullmatch(folder) or ".." in folder.split("/"):
        what = f"{folder!r} cannot be mounted as a folder"
        fix = "use a folder without commas, backslashes and `..`"
        yield Problem(where="data.location", what=what, fix=fix)
