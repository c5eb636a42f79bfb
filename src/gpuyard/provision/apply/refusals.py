"""What servers say when they refuse: code, sentence, and what helps."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuyard.document import Plain
from gpuyard.provision.apply.endpoint import Answer, redacted
from gpuyard.provision.apply.hand import FailedError

__all__ = ["BUSY", "RETRIED", "failure_of", "is_capacity", "operation_failure"]

RETRIED = (408, 429, 500, 502, 503, 504)
CAPACITY = ("ZONE_RESOURCE_POOL_EXHAUSTED", "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", "STOCKOUT", "GCE_STOCKOUT")
BUSY = ("resourceInUseByAnotherResource", "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE", "resourceNotReady",
        "RESOURCE_NOT_READY", "FAILED_PRECONDITION", "failedPrecondition")  # fmt: skip
QUOTA = ("QUOTA_EXCEEDED", "quotaExceeded", "RESOURCE_EXHAUSTED")
FIXES = (
    (CAPACITY, "run it again later: it goes on where it stopped; or render it for another --zone or --way"),
    (QUOTA, "ask for more quota in the console under IAM & Admin > Quotas, then run it again"),
    (("SERVICE_DISABLED", "accessNotConfigured"), "turn the API on with `gcloud services enable`, then run it again"),
    (("403", "forbidden", "PERMISSION_DENIED"), "have a role that allows it granted to you, then run it again"),
    (("401", "UNAUTHENTICATED", "authError"), "log in with `gcloud auth application-default login`"),
    (("400", "invalid", "badRequest", "INVALID_ARGUMENT"), "lint the files with `gpuyard lint` and render them again"),
)
OTHERWISE = "run it again: it goes on where it stopped; --destroy takes back what was made"


def failure_of(answer: Answer) -> FailedError:
    """The refusal in an answer."""
    error = answer.tree.get("error") if isinstance(answer.tree, dict) else None
    if not isinstance(error, dict):
        return _failure((str(answer.status),), str(answer.tree or "no reason was given"))
    codes = [*_codes(error), str(error.get("status") or ""), str(answer.status)]
    return _failure(tuple(code for code in codes if code), str(error.get("message") or "no reason was given"))


def operation_failure(operation: dict[str, Plain]) -> FailedError | None:
    """The error that an operation ended with."""
    error = operation.get("error")
    if not isinstance(error, dict):
        return None
    errors = error.get("errors")
    first = errors[0] if isinstance(errors, list) and errors and isinstance(errors[0], dict) else error
    codes = (str(first.get("code") or ""), *_codes(error))
    return _failure(tuple(code for code in codes if code), str(first.get("message") or "no reason was given"))


def is_capacity(failure: FailedError) -> bool:
    """No machine is free: asking at once again does not help."""
    return failure.code in CAPACITY or any(word in failure.what for word in CAPACITY)


def _codes(error: dict[str, Plain]) -> Iterator[str]:
    """The reasons that an error names, the most telling first."""
    for key in ("errors", "details"):
        rows = error.get(key)
        for row in rows if isinstance(rows, list) else []:
            if isinstance(row, dict) and row.get("reason"):
                yield str(row["reason"])


def _failure(codes: tuple[str, ...], message: str) -> FailedError:
    """The failure with the first of its codes that says something, and what helps."""
    text = redacted(re.sub(r"\s+", " ", message))[:400]
    told = [word for words, _ in FIXES for word in words if word in codes or (word.isupper() and word in text)]
    known = next((fix for words, fix in FIXES if set(words) & {*codes, *told[:1]}), OTHERWISE)
    return FailedError(codes[0] if codes else "unknown", text, known)
