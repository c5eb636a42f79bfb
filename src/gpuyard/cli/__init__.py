"""The command line: read, call, print."""

from gpuyard.cli.main import main

__all__ = ["main"]
