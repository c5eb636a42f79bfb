"""`python -m gpuyard.learn.worker FOLDER`: the process that an engine starts, once for every rank.

Leaves with 0 done, 2 wrong input, 4 the world refused, 143 stopped by SIGTERM after a checkpoint.
"""

from __future__ import annotations

import os
import signal
import sys
import types
from pathlib import Path
from typing import NoReturn

from gpuyard.errors import InputError, RefusedError, refusal
from gpuyard.learn.fit import fit
from gpuyard.learn.ranks import ranks_of
from gpuyard.learn.task import read_task
from gpuyard.learn.trainer import StoppedError

__all__ = ["main"]

DONE, WRONG, REFUSED, STOPPED = 0, 2, 4, 128 + signal.SIGTERM


class _Asked:
    """Whether SIGTERM came."""

    def __init__(self) -> None:
        self.asked = False
        signal.signal(signal.SIGTERM, self.note)

    def note(self, _number: int, _frame: types.FrameType | None) -> None:
        """Notes the signal; the training looks between steps."""
        self.asked = True

    def __call__(self) -> bool:
        return self.asked


def main(arguments: list[str]) -> int:
    """Trains the task of the named folder; gives the exit code."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m gpuyard.learn.worker FOLDER\n")
        return WRONG
    asked = _Asked()
    try:
        fit(read_task(Path(arguments[0])), ranks_of(), asked)
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return WRONG
    except RefusedError as error:
        sys.stderr.write(f"{error}\n")
        return REFUSED
    except StoppedError as error:
        sys.stderr.write(f"{error}\n")
        return STOPPED
    except Exception as error:
        refused = refusal(error, arguments[0])  # a disk that is full, or gone
        if refused is None:
            raise
        sys.stderr.write(f"{refused}\n")
        return REFUSED
    return DONE


def leave(code: int) -> NoReturn:
    """Ends the process with the code; one that PyTorch's peers have left at once, for its threads would abort it."""
    if code == STOPPED and "torch" in sys.modules:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
