"""Evaluation of the CEL rules of custom resources (`x-kubernetes-validations`).

The API server evaluates them with cel-go. Lint uses cel-expr-python, the CEL team's binding of the
C++ implementation, and imports it when the first rule is evaluated. It has the standard functions,
those for strings and optionals, and none that only Kubernetes defines (quantities, URLs, IPs).
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from gpuyard.document.frozen_json import Plain

if TYPE_CHECKING:
    from cel_expr_python import cel

# Kubernetes escapes a property that is not a CEL identifier: self.__if__, self.a__dash__b.
ESCAPED_NAME = re.compile(r"\.\w*__\w+__")
MESSAGE_FRAME = re.compile(
    r"^[A-Z_]+: (ERROR: <input>:\d+:\d+: )?| \(in container ''\)| \[[A-Z_]+\]$"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleResult:
    """The outcome of a rule for a value.

    `reason` is why the rule was not evaluated, or the evaluation error that counts as a violation.
    """

    outcome: Literal["holds", "violated", "not evaluated"]
    reason: str = ""


def evaluate_rule(rule: str, value: Plain) -> RuleResult:
    """Evaluate a rule with `self` as the value.

    An evaluation error is a violation, because the API server rejects the object then. A rule that
    needs what cel-expr-python lacks is not evaluated.
    """
    if ESCAPED_NAME.search(rule):
        return _not_evaluated("escaped property names are not supported")
    try:
        result = _compiled(rule).eval(data={"self": value})
    except ImportError as error:
        return _not_evaluated(f"cel-expr-python cannot be imported: {error}")
    except RuntimeError as error:  # not CEL, an unknown function, or a limit of the library
        return _not_evaluated(_message(str(error)))
    verdict = result.value()
    if isinstance(verdict, bool):
        return RuleResult(outcome="holds" if verdict else "violated")
    if result.type().name() == "ERROR":
        return RuleResult(outcome="violated", reason=_message(verdict))
    return _not_evaluated(f"{result.type().name().lower()} instead of bool")


def _not_evaluated(reason: str) -> RuleResult:
    return RuleResult(outcome="not evaluated", reason=reason)


def _message(text: str) -> str:
    return MESSAGE_FRAME.sub("", text.partition("\n")[0])


@functools.cache
def _compiled(rule: str) -> cel.Expression:
    return _environment().compile(rule)


@functools.cache
def _environment() -> cel.Env:
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_optional, ext_strings

    # Fields of a dyn value are checked at run time; the compiler still knows every function.
    return cel.NewEnv(
        variables={"self": cel.Type.DYN},
        extensions=[ext_strings.ExtStrings(), ext_optional.ExtOptional()],
    )
