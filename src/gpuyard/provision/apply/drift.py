"""Drift: what the cloud has against what was rendered.

Every value of a rendered body is compared with the server's value at the same path. Values that
only the server sets (ids, states, defaults of keys that the body leaves out) are no drift. Elements
of lists are matched by their name if they have one, by their place otherwise.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, cast

from gpuyard.document.field_types import Doc
from gpuyard.document.frozen_json import Plain
from gpuyard.provision.apply.calls import INNER, ApiCall, CallStep, KubernetesObject
from gpuyard.provision.apply.google import GoogleClient
from gpuyard.provision.apply.kubectl import KubectlClient, live_object
from gpuyard.provision.apply.step_client import ApiError

State = Literal["same", "changed", "missing", "unread"]
# Actions change a resource that another step creates: there is no body to compare.
ACTIONS = ("ran", "deployed")
# Written once and never shown again, or replaced by the server with its own form.
WRITE_ONLY = {"requestId", "fingerprint", "initialNodeCount", "initialClusterVersion", "version"}
NAME_KEYS = ("name", "id", "key", "topologyKey", "interfaceName", "mountPath", "type", "networkIP")
LINK = re.compile(r"^(?:https://[\w.-]+\.googleapis\.com/)?(?:\w+/(?:v1|beta)/)?(projects/.+)$")
QUANTITY = re.compile(r"^-?\d+(\.\d+)?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueDrift:
    """One value that differs."""

    path: str
    rendered: str
    live: Annotated[str, Doc("empty: the key is absent")]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDrift:
    """A rendered resource against the one on the server."""

    file: str
    what: str
    state: State
    differences: tuple[ValueDrift, ...] = ()
    why: Annotated[str, Doc("why it could not be read")] = ""


def find_drift(steps: Sequence[CallStep], google: GoogleClient) -> Iterator[StepDrift]:
    """Compare every step with what exists."""
    gone: set[str] = set()
    for step in steps:
        if isinstance(step, ApiCall):
            if step.identity in ACTIONS:
                continue
            drift = _google_drift(step, google)
            if drift.state != "same":
                gone |= {step.step} if drift.state == "missing" else set()
            yield drift
        else:
            yield _object_drift(step, cluster_is_gone=step.cluster_step in gone)


def _google_drift(step: ApiCall, google: GoogleClient) -> StepDrift:
    try:
        live = google.read(step)
    except ApiError as error:
        return StepDrift(file=step.file, what=step.what, state="unread", why=str(error))
    body = cast(Plain, json.loads(step.body))
    inner = INNER.get(step.method, "")
    rendered = body.get(inner, body) if isinstance(body, dict) and inner else body
    return _compared(step.file, step.what, rendered, live)


def _object_drift(step: KubernetesObject, *, cluster_is_gone: bool) -> StepDrift:
    if cluster_is_gone:
        return StepDrift(file=step.file, what=step.what, state="missing")
    client = KubectlClient()
    why = client.missing_prerequisite(step)
    if why:
        return StepDrift(file=step.file, what=step.what, state="unread", why=why)
    try:
        live = live_object(step)
    except ApiError as error:
        return StepDrift(file=step.file, what=step.what, state="unread", why=error.what)
    return _compared(step.file, step.what, cast(Plain, json.loads(step.body)), live)


def _compared(file: str, what: str, rendered: Plain, live: Plain) -> StepDrift:
    if live is None:
        return StepDrift(file=file, what=what, state="missing")
    differences = tuple(differences_of(rendered, live))
    state: State = "changed" if differences else "same"
    return StepDrift(file=file, what=what, state=state, differences=differences)


def differences_of(rendered: Plain, live: Plain, path: str = "") -> Iterator[ValueDrift]:
    """Yield the values of `rendered` that `live` does not have."""
    if isinstance(rendered, dict):
        other = live if isinstance(live, dict) else {}
        for key, value in rendered.items():
            if key not in WRITE_ONLY:
                yield from differences_of(value, other.get(key), f"{path}.{key}".lstrip("."))
    elif isinstance(rendered, list) and isinstance(live, list):
        yield from _list_differences(rendered, live, path)
    elif not _equal(rendered, live):
        shown = "" if live is None else _text(live)
        yield ValueDrift(path=path, rendered=_text(rendered), live=shown)


def _list_differences(rendered: list[Plain], live: list[Plain], path: str) -> Iterator[ValueDrift]:
    key = next((key for key in NAME_KEYS if _names(rendered, key) and _names(live, key)), "")
    if key:
        rows = {str(cast(dict[str, Plain], row)[key]): row for row in live}
        for row in rendered:
            name = str(cast(dict[str, Plain], row)[key])
            yield from differences_of(row, rows.get(name), f"{path}[{name}]")
        return
    for index, value in enumerate(rendered):
        other = live[index] if index < len(live) else None
        yield from differences_of(value, other, f"{path}[{index}]")
    if len(live) > len(rendered) and not any(isinstance(item, dict) for item in rendered):
        yield ValueDrift(path=path, rendered=_text(rendered), live=_text(live))


def _names(rows: list[Plain], key: str) -> bool:
    names = [row.get(key) for row in rows if isinstance(row, dict)]
    return bool(names) and len(names) == len(rows) == len({str(n) for n in names if n is not None})


def _equal(rendered: Plain, live: Plain) -> bool:
    """Equal up to the forms in which servers return a value."""
    if rendered == live or (rendered in (None, False, "", 0, {}, []) and live is None):
        return True
    if isinstance(rendered, dict | list) or isinstance(live, dict | list) or live is None:
        return rendered in ({}, []) and live in ({}, [], None)
    one, other = _plain_text(rendered), _plain_text(live)
    if QUANTITY.match(one) and QUANTITY.match(other):
        return float(one) == float(other)
    # A resource is named by its path, by its URL, or within the project by its name.
    return one == other or other.endswith(f"/{one}")


def _plain_text(value: Plain) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    match = LINK.match(text)
    return match[1] if match else text


def _text(value: Plain) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)
