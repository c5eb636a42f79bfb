"""The Common Expression Language, as far as the rules of custom resources use it."""

from gpuyard.provision.validate.cel.evaluate import CelError, holds
from gpuyard.provision.validate.cel.parse import CelSyntaxError, parse

__all__ = ["CelError", "CelSyntaxError", "holds", "parse"]
