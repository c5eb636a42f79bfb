"""What a command's exit code says."""

from __future__ import annotations

__all__ = ["EXIT_DONE", "EXIT_INFEASIBLE", "EXIT_INTERRUPTED", "EXIT_REFUSED", "EXIT_WRONG_INPUT"]

EXIT_DONE = 0
EXIT_WRONG_INPUT = 2
EXIT_INFEASIBLE = 3
EXIT_REFUSED = 4
EXIT_INTERRUPTED = 130  # the shell's own number for a Ctrl-C
