"""Errors of Google APIs: their code, message, and a fix."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuyard.document.frozen_json import Plain
from gpuyard.http import HttpResponse
from gpuyard.provision.apply.step_client import ApiError
from gpuyard.provision.apply.transport import redacted

CAPACITY = (
    "ZONE_RESOURCE_POOL_EXHAUSTED",
    "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS",
    "STOCKOUT",
    "GCE_STOCKOUT",
)
BUSY = (
    "resourceInUseByAnotherResource",
    "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE",
    "resourceNotReady",
    "RESOURCE_NOT_READY",
    "FAILED_PRECONDITION",
    "failedPrecondition",
)
QUOTA = ("QUOTA_EXCEEDED", "quotaExceeded", "RESOURCE_EXHAUSTED")
RESUME = "run the command again to resume"
# Fixes by error code; the first match wins.
FIXES = (
    (CAPACITY, f"{RESUME} later, or render it for another --zone or --consumption"),
    (QUOTA, f"request more quota in the console under IAM & Admin > Quotas, then {RESUME}"),
    (
        ("SERVICE_DISABLED", "accessNotConfigured"),
        f"enable the API with `gcloud services enable`, then {RESUME}",
    ),
    (
        ("403", "forbidden", "PERMISSION_DENIED"),
        f"ask for a role with this permission, then {RESUME}",
    ),
    (
        ("401", "UNAUTHENTICATED", "authError"),
        "log in with `gcloud auth application-default login`",
    ),
    (
        ("400", "invalid", "badRequest", "INVALID_ARGUMENT"),
        "lint the files with `gpuyard lint` and render them again",
    ),
)
DEFAULT_FIX = f"{RESUME}, or delete what was created with --destroy"
NO_REASON = "no reason given"


def api_error_from(response: HttpResponse) -> ApiError:
    """Return the error in a response."""
    body = response.body
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return _api_error((str(response.status),), str(body or NO_REASON))
    codes = (*_reasons(error), str(error.get("status") or ""), str(response.status))
    return _api_error(codes, str(error.get("message") or NO_REASON))


def operation_error(operation: dict[str, Plain]) -> ApiError | None:
    """Return the error that an operation ended with."""
    error = operation.get("error")
    if not isinstance(error, dict):
        return None
    errors = error.get("errors")
    first = error
    if isinstance(errors, list) and errors and isinstance(errors[0], dict):
        first = errors[0]
    codes = (str(first.get("code") or ""), *_reasons(error))
    return _api_error(codes, str(first.get("message") or NO_REASON))


def is_out_of_capacity(error: ApiError) -> bool:
    """Return whether no machine is available, so that an immediate retry does not help."""
    return error.code in CAPACITY or any(code in error.what for code in CAPACITY)


def _reasons(error: dict[str, Plain]) -> Iterator[str]:
    """The reasons in an error, the most specific first."""
    for key in ("errors", "details"):
        rows = error.get(key)
        for row in rows if isinstance(rows, list) else []:
            if isinstance(row, dict) and row.get("reason"):
                yield str(row["reason"])


def _api_error(codes: tuple[str, ...], message: str) -> ApiError:
    codes = tuple(code for code in codes if code)
    text = redacted(re.sub(r"\s+", " ", message))[:400]
    # A code in capitals may also stand only in the message.
    matches = [
        code
        for known_codes, _ in FIXES
        for code in known_codes
        if code in codes or (code.isupper() and code in text)
    ]
    candidates = {*codes, *matches[:1]}
    fix = next((fix for known, fix in FIXES if candidates & set(known)), DEFAULT_FIX)
    return ApiError(codes[0] if codes else "unknown", text, fix)
