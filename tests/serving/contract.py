"""Requests generated from the OpenAPI document, and what watches a server while they are sent."""

from __future__ import annotations

import json
import urllib.request
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from .cases import LONG_S

CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
)
# `spare` is the only model that is unloaded, so that the others can be asked all the time.
NAMES, SPARE = ("plain", "people", "spare", "none"), "spare"
VERSIONS = ("1", "2", "99999999999999999999999999")


def document(url: str) -> dict[str, Any]:
    """The document of a server, with its parameters narrowed to names that mostly exist."""
    with urllib.request.urlopen(f"{url}/openapi.json", timeout=LONG_S) as response:
        tree: dict[str, Any] = json.load(response)
    for path, item in tree["paths"].items():
        for parameter in item.get("parameters", ()):
            names = (SPARE,) if path.endswith("/unload") else NAMES
            words = names if parameter["name"] == "name" else VERSIONS
            parameter["schema"] = {"type": "string", "enum": list(words)}
    inputs = tree["components"]["schemas"]["RequestInput"]["properties"]
    inputs["name"] = {"type": "string", "enum": ["x", "age", "income", "city", "other"]}
    return tree


def inference() -> st.SearchStrategy[tuple[str, str]]:
    """Requests with the right names and types and any values: a model and its body."""
    floats, ints = st.floats(width=32, allow_nan=False), st.integers(-(1 << 64), 1 << 64)
    kinds: dict[str, tuple[str, st.SearchStrategy[Any]]] = {
        "age": ("FP64", st.none() | st.floats()),
        "income": ("INT64", ints),
        "city": ("BYTES", st.none() | st.text(max_size=20) | st.sampled_from(("Oslo", "Rome"))),
    }

    def columns(rows: list[tuple[Any, ...]]) -> tuple[str, str]:
        tensors = [
            {
                "name": name,
                "shape": [len(rows)],
                "datatype": kind,
                "data": [row[at] for row in rows],
            }
            for at, (name, (kind, _)) in enumerate(kinds.items())
        ]
        return "people", json.dumps({"inputs": tensors})

    def matrix(rows: list[tuple[float, ...]]) -> tuple[str, str]:
        flat = [value for row in rows for value in row]
        tensor = {"name": "x", "shape": [len(rows), 4], "datatype": "FP32", "data": flat}
        return "plain", json.dumps({"inputs": [tensor]})

    row = st.tuples(*(strategy for _, strategy in kinds.values()))
    return st.one_of(
        st.lists(row, max_size=4).map(columns),
        st.lists(st.tuples(floats, floats, floats, floats), max_size=4).map(matrix),
    )


def infer(url: str, headers: Mapping[str, str], request: tuple[str, str]) -> int:
    """Send an inference, check that its answer is JSON and finite, and return its status."""
    model, body = request
    response = requests.post(
        f"{url}/v2/models/{model}/infer", body, headers=dict(headers), timeout=LONG_S
    )
    answer = response.json(parse_constant=lambda token: pytest.fail(f"{token} is not JSON"))
    assert response.status_code in (200, 400, 422), answer
    assert ("outputs" if response.status_code == 200 else "error") in answer
    is_json = not any(word in body for word in ("NaN", "Infinity"))
    assert is_json or response.status_code == 400, body
    return response.status_code


def send_generated(url: str, headers: Mapping[str, str], examples: int) -> Counter[int]:
    """Send generated requests, raise at the first response that breaks the contract, and return
    how many responses there were of each status."""
    schema = schemathesis.openapi.from_dict(document(url))
    strategies = [item.ok().as_strategy() for item in schema.get_all_operations()]
    statuses: Counter[int] = Counter()

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=examples < 1000,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.one_of(*strategies, *[inference()] * (len(strategies) // 2)))
    def send(case: schemathesis.Case | tuple[str, str]) -> None:
        if isinstance(case, tuple):
            statuses[infer(url, headers, case)] += 1
            return
        response = case.call(base_url=url, headers=dict(headers), timeout=LONG_S)
        statuses[response.status_code] += 1
        case.validate_response(response, checks=CHECKS)

    send()
    return statuses


def processes(pid: int) -> list[int]:
    """A process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(int(child) for child in children)]


def footprint(pid: int) -> tuple[int, int]:
    """Resident bytes and open descriptors of a server's processes."""
    resident = descriptors = 0
    for number in processes(pid):
        status = Path(f"/proc/{number}/status").read_text()
        resident += 1024 * int(status.split("VmRSS:")[1].split()[0])
        descriptors += len(list(Path(f"/proc/{number}/fd").iterdir()))
    return resident, descriptors
