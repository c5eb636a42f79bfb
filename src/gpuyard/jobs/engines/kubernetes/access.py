"""Kubernetes API access by kubeconfig or in-cluster service account."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import ssl
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from gpuyard.document.field_types import Doc
from gpuyard.document.frozen_json import Plain, plain_tree
from gpuyard.document.read import read_file
from gpuyard.errors import ExternalError, InputError, choices_text
from gpuyard.http import HttpClient
from gpuyard.jobs.spec import EngineSpec

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
PLUGIN_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesAccess:
    """The API and the namespace."""

    api: HttpClient
    namespace: Annotated[str, Doc("namespace of the objects")]


def open_access(spec: EngineSpec) -> KubernetesAccess:
    """Return the access that the spec names, without contacting the cluster."""
    named = spec.config or os.environ.get("KUBECONFIG", "").split(os.pathsep)[0]
    default = Path("~/.kube/config").expanduser()
    if not named and not default.exists() and os.environ.get("KUBERNETES_SERVICE_HOST"):
        return _in_cluster(spec)
    return _from_file(Path(named).expanduser() if named else default, spec)


def _in_cluster(spec: EngineSpec) -> KubernetesAccess:
    host, port = (
        os.environ["KUBERNETES_SERVICE_HOST"],
        os.environ.get("KUBERNETES_SERVICE_PORT", "443"),
    )
    base = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    token = (ACCOUNT / "token").read_text(encoding="ascii").strip()
    context = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    namespace = spec.namespace or (ACCOUNT / "namespace").read_text(encoding="ascii").strip()
    return KubernetesAccess(
        api=HttpClient(base=base, authorization=_bearer(token), tls=context), namespace=namespace
    )


def _bearer(token: str) -> str:
    return f"Bearer {token}" if token else ""


def _tree(value: Plain) -> dict[str, Plain]:
    return value if isinstance(value, dict) else {}


def _text(tree: dict[str, Plain], key: str) -> str:
    value = tree.get(key)
    return value if isinstance(value, str) else ""


def _from_file(path: Path, spec: EngineSpec) -> KubernetesAccess:
    if not path.is_file():
        raise ExternalError(
            str(path), "no such kubeconfig", "name one with config:, or set KUBECONFIG"
        )
    config = _tree(plain_tree(read_file(path).root))

    def named(kind: str, name: str) -> dict[str, Plain]:
        rows = config.get(f"{kind}s")
        listed = [_tree(row) for row in rows] if isinstance(rows, list) else []
        entries = {_text(row, "name"): _tree(row.get(kind)) for row in listed}
        if name not in entries:
            raise InputError.one(
                str(path), f'no {kind} named "{name}"', f"use {choices_text(sorted(entries))}"
            )
        return entries[name]

    context = named("context", spec.context or _text(config, "current-context"))
    cluster, user = (
        named("cluster", _text(context, "cluster")),
        named("user", _text(context, "user")),
    )
    if "exec" in user:
        user = user | _plugin(_tree(user["exec"]), path)
    token = _text(user, "token")
    if _text(user, "tokenFile"):
        token = (path.parent / _text(user, "tokenFile")).read_text(encoding="utf-8").strip()
    base = _text(cluster, "server").rstrip("/")
    tls = _tls(cluster, user, path.parent) if base.startswith("https:") else None
    namespace = spec.namespace or _text(context, "namespace") or "default"
    return KubernetesAccess(
        api=HttpClient(base=base, authorization=_bearer(token), tls=tls), namespace=namespace
    )


def _plugin(plugin: dict[str, Plain], path: Path) -> dict[str, Plain]:
    rows = plugin.get("env")
    extra = (
        {_text(_tree(row), "name"): _text(_tree(row), "value") for row in rows}
        if isinstance(rows, list)
        else {}
    )
    arguments = plugin.get("args")
    command = [
        _text(plugin, "command"),
        *(str(word) for word in (arguments if isinstance(arguments, list) else [])),
    ]
    version = _text(plugin, "apiVersion") or "client.authentication.k8s.io/v1"
    exec_info = json.dumps(
        {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}
    )
    try:
        done = subprocess.run(
            command,
            env={**os.environ, **extra, "KUBERNETES_EXEC_INFO": exec_info},
            capture_output=True,
            text=True,
            timeout=PLUGIN_S,
            check=True,
        )
        given = _tree(_tree(json.loads(done.stdout)).get("status"))
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise ExternalError(
            f"{path}: {command[0]}", f"returned no credential: {error}", "run it by hand to see why"
        ) from error
    pem = {
        "client-certificate-data": _text(given, "clientCertificateData"),
        "client-key-data": _text(given, "clientKeyData"),
    }
    encoded: dict[str, Plain] = {
        name: base64.b64encode(text.encode()).decode() for name, text in pem.items() if text
    }
    return {"token": _text(given, "token"), **encoded}


@contextlib.contextmanager
def _file(entry: dict[str, Plain], key: str, folder: Path) -> Iterator[str]:
    data = _text(entry, f"{key}-data")
    if not data:
        yield str(folder / _text(entry, key)) if _text(entry, key) else ""
        return
    with tempfile.NamedTemporaryFile(suffix=".pem") as file:  # readable by its owner alone
        file.write(base64.b64decode(data))
        file.flush()
        yield file.name


def _tls(cluster: dict[str, Plain], user: dict[str, Plain], folder: Path) -> ssl.SSLContext:
    with (
        _file(cluster, "certificate-authority", folder) as authority,
        _file(user, "client-certificate", folder) as certificate,
        _file(user, "client-key", folder) as key,
    ):
        try:
            context = ssl.create_default_context(cafile=authority or None)
            if certificate and key:
                context.load_cert_chain(certificate, key)
        except (OSError, ssl.SSLError) as error:
            raise ExternalError(
                str(folder), f"the kubeconfig's certificates: {error}", "generate it again"
            ) from error
    if cluster.get("insecure-skip-tls-verify") is True:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
