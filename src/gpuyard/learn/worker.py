"""`python -m gpuyard.learn.worker FOLDER`: the training process of one rank.

Exits with 0 done, 1 crashed, 2 wrong input, 4 external error, 130 interrupted, 143 stopped by
SIGTERM after a checkpoint.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import traceback
import types
from pathlib import Path
from typing import NoReturn

from gpuyard.errors import (
    EXIT_EXTERNAL_ERROR,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_WRONG_INPUT,
    GpuyardError,
    exit_code_of,
    external_error_from,
)
from gpuyard.home import PRIVATE_UMASK
from gpuyard.learn.fit import fit
from gpuyard.learn.ranks import ranks_of
from gpuyard.learn.task import read_task
from gpuyard.learn.trainer import StoppedError

CRASHED = 1
STOPPED = 128 + signal.SIGTERM


class _StopRequest:
    # True after SIGTERM; training polls it between steps.
    def __init__(self) -> None:
        self.received = False
        signal.signal(signal.SIGTERM, self._on_signal)

    def _on_signal(self, _number: int, _frame: types.FrameType | None) -> None:
        self.received = True

    def __call__(self) -> bool:
        return self.received


def main(arguments: list[str]) -> int:
    """Train the task of the given folder and return the exit code."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m gpuyard.learn.worker FOLDER\n")
        return EXIT_WRONG_INPUT
    stop_request = _StopRequest()
    try:
        task, ranks = read_task(Path(arguments[0])), ranks_of()
        result = fit(task, ranks, stop_request)
        if ranks.first:
            loss = "" if result.loss is None else f", loss {result.loss:.6g}"
            sys.stdout.write(
                f"train: {result.trainer}, {result.steps} steps, {result.wall_s:.1f} s{loss}\n"
            )
    except GpuyardError as error:
        sys.stderr.write(f"{error}\n")
        return exit_code_of(error)
    except StoppedError as error:
        sys.stderr.write(f"{error}\n")
        return STOPPED
    except Exception as error:
        external = external_error_from(error, arguments[0])  # a full or missing disk
        if external is None:
            traceback.print_exc()
            return CRASHED
        sys.stderr.write(f"{external}\n")
        return EXIT_EXTERNAL_ERROR
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    finally:
        _destroy_process_group()
    return EXIT_OK


def _destroy_process_group() -> None:
    if "torch" not in sys.modules:
        return
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized():
        with contextlib.suppress(RuntimeError):  # a peer is gone; the outcome is known
            dist.destroy_process_group()


def leave(code: int) -> NoReturn:
    """Exit with the code; the process group is already destroyed."""
    if "torch" in sys.modules and os.environ.get("WORLD_SIZE", "1") != "1":
        # gloo's threads run until the C++ process group is freed, and DTensor's caches keep it past
        # destroy_process_group. A thread that then drops a tensor of its last collective takes the
        # GIL; while the interpreter finalizes, Python before 3.14 answers with pthread_exit, which
        # C++ turns into std::terminate: SIGABRT after a good training (pytorch/pytorch#190489).
        # PyTorch cannot end these threads from Python, so the interpreter is not finalized.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    os.umask(PRIVATE_UMASK)
    leave(main(sys.argv[1:]))
